// SPDX-License-Identifier: Apache-2.0
// <zun-container>: one container, its place in its machine, its log and a terminal in it.

import {html, nothing, render} from "./vendor/lit-html.js";
import {BUTTONS, allows, cpusText, devicesText, kindOf, statusText} from "./actions.js";
import {watch} from "./live.js";
import {look, sheet} from "./look.js";
import {refusalLook, refusalTemplate} from "./refusal.js";
import {cpuNumbers, mibText} from "./words.js";

const SHELL = "/bin/sh";
const LINES = 500; // of the log
const EMPTY = "The log is empty.";

const own = sheet(`
.head { display: flex; flex-wrap: wrap; gap: 4px 14px; align-items: baseline; margin: 4px 0 16px; }
.head h2 { font-size: 22px; margin: 0; overflow-wrap: anywhere; }
button.back { padding: 0; min-height: 24px; margin-bottom: 6px; }
.badge { border-radius: 999px; padding: 1px 12px; font-size: 14px; font-weight: 500; border: 1px solid var(--line); }
.badge.good { background: var(--good-tint); color: var(--good); border-color: transparent; }
.badge.bad { background: var(--bad-tint); color: var(--bad); border-color: transparent; }
.badge.busy { background: var(--accent-tint); color: var(--accent); border-color: transparent; }
.tools { display: flex; flex-wrap: wrap; gap: 8px; margin: 0 0 24px; }
.tools .danger { margin-left: auto; }
.grid { display: grid; grid-template-columns: minmax(0, 1fr); gap: 20px; }
@container detail (min-width: 900px) {
    .grid { grid-template-columns: minmax(0, 3fr) minmax(0, 2fr); align-items: start; }
}
.detail { container: detail / inline-size; }
.panel h3 { margin: 0 0 12px; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 6px 20px; margin: 0; font-size: 14px; }
dt { color: var(--quiet); }
dd { margin: 0; overflow-wrap: anywhere; }
.cpus { display: flex; flex-wrap: wrap; gap: 4px; list-style: none; padding: 0; margin: 0 0 14px; }
.cpus li { min-width: 34px; padding: 4px 6px; text-align: center; border-radius: 5px;
    background: var(--accent); color: var(--on-accent); border: 1px solid var(--accent);
    font: 600 13px/1.4 var(--mono); }
.cpus.pool li { background: none; color: var(--ink); border: 1px dashed var(--strong-line); font-weight: 400; }
p.label { margin-bottom: 6px; font-size: 13px; }
.section { margin-top: 24px; }
.section-head { display: flex; flex-wrap: wrap; gap: 8px 12px; align-items: center; margin-bottom: 12px; }
.section-head h3 { margin: 0 auto 0 0; }
.section-head input { width: 160px; min-height: 30px; padding: 2px 8px; font: 13.5px var(--mono); }
pre { background: #14181d; color: #e7eaee; padding: 14px 16px; border-radius: var(--radius); margin: 0;
    overflow: auto; max-height: 420px; font: 13px/1.5 var(--mono); white-space: pre-wrap; overflow-wrap: anywhere; }
iframe { width: 100%; height: 420px; border: 1px solid var(--line); border-radius: var(--radius); background: #14181d;
    display: block; }
dialog { border: 1px solid var(--line); border-radius: 12px; padding: 24px; max-width: min(440px, calc(100vw - 32px));
    background: var(--raised); color: var(--ink); box-shadow: 0 12px 48px #0006; }
dialog::backdrop { background: #0007; }
dialog h2 { overflow-wrap: anywhere; }
dialog .ends { display: flex; justify-content: flex-end; gap: 10px; margin-top: 20px; }
`);

/** One container. Properties: `client` and `uuid`. Events: "zun-back", "zun-host", "zun-request" with a request. */
class ContainerDetail extends HTMLElement {
    #root = this.attachShadow({mode: "open"});
    #client = null;
    #uuid = "";
    #container = null;
    #failure = "";
    #gone = false;
    #explained = null; // the refusal of a container that found no host
    #mapped = ""; // host whose map the user may see
    #log = null;
    #terminal = null; // {url, execId} of an open terminal
    #ended = ""; // why the terminal ended
    #following = null;
    #logging = null;

    set client(client) {
        if (client !== this.#client) {
            this.#client = client;
            this.#restart();
        }
    }

    set uuid(uuid) {
        if (uuid !== this.#uuid) {
            this.#uuid = uuid;
            this.#restart();
        }
    }

    connectedCallback() {
        this.#root.adoptedStyleSheets = [look, refusalLook, own];
        window.addEventListener("message", this);
        this.#restart();
    }

    disconnectedCallback() {
        window.removeEventListener("message", this);
        this.#following?.stop();
        this.#logging?.stop();
    }

    get #path() {
        return `/v1/containers/${encodeURIComponent(this.#uuid)}`;
    }

    #restart() {
        this.#following?.stop();
        this.#logging?.stop();
        if (!this.#client || !this.#uuid || !this.isConnected) {
            return;
        }
        this.#container = this.#explained = this.#log = this.#terminal = null;
        this.#failure = this.#mapped = this.#ended = "";
        this.#gone = false;
        this.#following = watch(this.#client, this.#path, (body) => this.#take(body), {
            onError: (error) => this.#lost(error),
        });
        this.#draw();
    }

    #take(container) {
        const before = this.#container;
        this.#container = container;
        this.#failure = "";
        if (container.status === "Error" && before?.status !== "Error") {
            this.#explain();
        } else if (container.status !== "Error") {
            this.#explained = null;
        }
        if (container.host && container.host !== this.#mapped) {
            this.#map(container.host);
        }
        this.#draw();
    }

    #lost(error) {
        if (error?.status === 404) {
            this.#following.stop();
            this.#gone = true;
        } else {
            this.#failure = error?.message ?? "";
        }
        this.#draw();
    }

    async #explain() {
        const {body} = await this.#client.get(`${this.#path}/explain`).catch(() => ({body: null}));
        this.#explained = body;
        this.#draw();
    }

    /** Show the map of the host if the policy lets the user see it and the element is there. */
    async #map(host) {
        const allowed = await Promise.all([
            this.#client.get(`/v1/hosts/${encodeURIComponent(host)}/topology`),
            import("./machine.js"),
        ]).then(
            () => true,
            () => false,
        );
        this.#mapped = allowed ? host : "";
        this.#draw();
    }

    #draw() {
        if (this.isConnected) {
            render(
                html`<div class="detail">
                    <button class="plain back" @click=${() => this.#back()}>← All containers</button>
                    ${this.#content()}
                </div>`,
                this.#root,
            );
        }
    }

    #content() {
        if (this.#gone) {
            return html`<p class="notice warn" role="status">${this.#container?.name ?? "This container"} is gone.</p>`;
        }
        const failure = this.#failure ? html`<p class="notice bad" role="alert">${this.#failure}</p>` : nothing;
        const container = this.#container;
        if (!container) {
            return failure === nothing ? html`<p class="quiet">Loading…</p>` : failure;
        }
        return html`
            <div class="head">
                <h2>${container.name}</h2>
                <span class="badge ${kindOf(container)}" role="status">${statusText(container)}</span>
                <span class="quiet">${container.status_detail ?? ""}</span>
            </div>
            ${failure} ${this.#tools(container)} ${this.#reason(container)}
            <div class="grid">
                <section class="panel" aria-label="Place">${this.#place(container)}</section>
                <section class="panel" aria-label="Request">${facts(container)}</section>
            </div>
            ${this.#logs(container)} ${this.#console(container)} ${this.#machine()} ${this.#confirmation(container)}
        `;
    }

    #tools(container) {
        return html`<div class="tools" role="group" aria-label="Actions">
            ${BUTTONS.filter(([action]) => action !== "unpause" || container.status === "Paused")
                .filter(([action]) => action !== "pause" || container.status !== "Paused")
                .map(
                    ([action, label]) =>
                        html`<button
                            ?disabled=${!allows(container, action)}
                            @click=${() => this.#perform(() => this.#client.post(`${this.#path}/${action}`))}
                        >
                            ${label}
                        </button>`,
                )}
            <button
                class="danger"
                ?disabled=${!allows(container, "delete_after_stop")}
                @click=${() => this.#root.querySelector("dialog").showModal()}
            >
                Delete…
            </button>
        </div>`;
    }

    #reason({status, status_reason: reason}) {
        if (this.#explained) {
            return html`<div class="notice bad">
                ${refusalTemplate(this.#explained, (change) => this.#ask(change))}
            </div>`;
        }
        return reason ? html`<p class="notice ${status === "Error" ? "bad" : "warn"}">${reason}</p>` : nothing;
    }

    #place(container) {
        const {host, cpuset_cpus: cpus, cpuset_mems: nodes} = container;
        const title = host ? html`<h3>Place on ${host}</h3>` : html`<h3>Place</h3>`;
        if (!cpus && !nodes && !host) {
            return html`${title}
                <p class="quiet">${
                    container.cpu_policy === "shared" || !container.cpu_policy
                        ? "A shared container runs on the shared pool of its host."
                        : "It holds no CPUs yet."
                }</p>`;
        }
        return html`${title}
            ${places(container)}
            ${nodes ? html`<p class="quiet">Memory on node ${nodes}</p>` : nothing}`;
    }

    /** The map is last: it comes later than the rest, and must not move what is pressed meanwhile. */
    #machine() {
        const host = this.#mapped;
        return host
            ? html`<section class="section" aria-label="Map of ${host}">
                  <h3>Its machine, ${host}</h3>
                  <zun-machine .client=${this.#client} host=${host}></zun-machine>
              </section>`
            : nothing;
    }

    #logs(container) {
        const open = this.#log !== null;
        return html`<section class="section" aria-label="Log">
            <div class="section-head">
                <h3>Log</h3>
                <button
                    class="small"
                    aria-expanded=${open}
                    ?disabled=${!open && !allows(container, "logs")}
                    @click=${() => this.#toggleLog()}
                >
                    ${open ? "Hide" : "Show"} the log
                </button>
            </div>
            ${
                open
                    ? html`<pre tabindex="0" role="log" aria-label="Last lines of the log">${this.#log || EMPTY}</pre>`
                    : nothing
            }
        </section>`;
    }

    #console(container) {
        const open = this.#terminal !== null;
        return html`<section class="section" aria-label="Terminal">
            <div class="section-head">
                <h3>Terminal</h3>
                ${
                    open
                        ? html`<button class="small" @click=${() => this.#close("")}>Close</button>`
                        : this.#openers(container)
                }
            </div>
            ${this.#ended ? html`<p class="quiet" role="status">${this.#ended}</p>` : nothing}
            ${
                open
                    ? html`<iframe
                      title="Terminal in ${container.name}"
                      src=${new URL("terminal.html", import.meta.url).href}
                      @load=${(event) => this.#connect(event.target)}
                  ></iframe>`
                    : nothing
            }
        </section>`;
    }

    #openers(container) {
        return html`
            ${
                container.interactive
                    ? html`<button
                          class="small"
                          ?disabled=${!allows(container, "attach")}
                          @click=${() => this.#attach()}
                      >
                          Attach
                      </button>`
                    : nothing
            }
            <input aria-label="Command" value=${SHELL} spellcheck="false" autocapitalize="none">
            <button class="small" ?disabled=${!allows(container, "execute")} @click=${() => this.#execute()}>
                Run
            </button>
        `;
    }

    #confirmation(container) {
        const stops = ["Running", "Restarting"].includes(container.status);
        return html`<dialog aria-labelledby="delete-title">
            <h2 id="delete-title">Delete ${container.name}?</h2>
            <p>
                ${stops ? "It is stopped first. " : ""}Its files, its CPUs and its memory are given back. This cannot be
                undone.
            </p>
            <div class="ends">
                <button @click=${() => this.#root.querySelector("dialog").close()}>Cancel</button>
                <button class="danger" @click=${() => this.#delete(stops)}>
                    ${stops ? "Stop and delete" : "Delete"}
                </button>
            </div>
        </dialog>`;
    }

    async #perform(request) {
        try {
            const answer = await request();
            this.#failure = "";
            return answer;
        } catch (error) {
            this.#failure = error.message;
            return null;
        } finally {
            this.#draw();
            this.#following?.now();
        }
    }

    async #delete(stops) {
        this.#root.querySelector("dialog").close();
        await this.#perform(() => this.#client.delete(this.#path, {query: {stop: stops || null}}));
    }

    #toggleLog() {
        if (this.#log !== null) {
            this.#logging.stop();
            this.#log = null;
        } else {
            this.#log = "";
            this.#logging = watch(this.#client, `${this.#path}/logs?tail=${LINES}`, (text) => this.#write(text), {
                every: 3000,
                onError: (error) => {
                    this.#failure = error?.message ?? "";
                    this.#draw();
                },
            });
        }
        this.#draw();
    }

    #write(text) {
        this.#log = String(text ?? "");
        const shown = this.#root.querySelector("pre");
        const below = !shown || shown.scrollTop + shown.clientHeight >= shown.scrollHeight - 4;
        this.#draw();
        if (shown && below) {
            shown.scrollTop = shown.scrollHeight;
        }
    }

    async #attach() {
        const answer = await this.#perform(() => this.#client.get(`${this.#path}/attach`));
        this.#open(answer && {url: answer.body, execId: null});
    }

    async #execute() {
        const command = this.#root.querySelector('input[aria-label="Command"]').value;
        const query = {command, interactive: true, run: false};
        const answer = await this.#perform(() => this.#client.post(`${this.#path}/execute`, {query}));
        this.#open(answer && {url: answer.body.proxy_url, execId: answer.body.exec_id});
    }

    #open(terminal) {
        this.#terminal = terminal;
        this.#ended = "";
        this.#draw();
    }

    #close(why) {
        this.#terminal = null;
        this.#ended = why;
        this.#draw();
    }

    #connect(frame) {
        frame.contentWindow.postMessage({url: this.#terminal.url}, location.origin);
        frame.focus();
    }

    /** A message of the terminal's frame: a new size, or the end of the session. */
    handleEvent({source, origin, data}) {
        const frame = this.#root.querySelector("iframe");
        if (!frame || source !== frame.contentWindow || origin !== location.origin) {
            return;
        }
        if (data.ended !== undefined) {
            this.#close(data.ended || "The terminal was closed.");
        } else if (data.columns) {
            const action = this.#terminal.execId ? "execute_resize" : "resize";
            const query = {w: data.columns, h: data.rows, exec_id: this.#terminal.execId};
            this.#client.post(`${this.#path}/${action}`, {query}).catch(() => {}); // it ends, or keeps its size
        }
    }

    #ask(change) {
        const detail = {request: {...requestOf(this.#container), ...change}};
        this.dispatchEvent(new CustomEvent("zun-request", {detail, bubbles: true, composed: true}));
    }

    #back() {
        this.dispatchEvent(new CustomEvent("zun-back"));
    }
}

/** Members of a container that a request has as well. */
const ASKED = [
    "image",
    "command",
    "cpu_policy",
    "cpu",
    "dedicated_cpus",
    "disk",
    "cpu_thread_policy",
    "cpu_isolation",
    "numa_nodes",
    "numa_affinity",
    "numa_cpus",
    "numa_mem",
    "numa_mempolicy",
    "mem_page_size",
    "cpu_partition",
    "interrupts",
    "power_profile",
    "cpuset_signal",
    "cache_ways",
    "cache_mib",
    "memory_bandwidth",
    "required_traits",
    "forbidden_traits",
    "any_traits",
    "member_of",
    "device_numa_policy",
    "device_same",
];

/** Return the request that would make a container like this one. */
export function requestOf(container) {
    const same = ASKED.map((name) => [name, container[name]]);
    const devices = container.devices?.map(({given, ...asked}) => asked);
    const entries = [...same, ["memory", container.memory && Number(container.memory)], ["devices", devices]];
    return Object.fromEntries(entries.filter(([, value]) => value !== null && value !== undefined && value !== 0));
}

/** Return the template of the CPUs that a container runs on: its own ones, and the shared pool. */
function places({cpu_policy: policy, cpuset_cpus: cpus, cpuset_dedicated: dedicated}) {
    const all = cpuNumbers(cpus);
    const own = new Set(policy === "dedicated" ? all : cpuNumbers(dedicated));
    const groups = [
        ["Own CPUs", "own", all.filter((cpu) => own.has(cpu))],
        ["CPUs of the shared pool", "pool", all.filter((cpu) => !own.has(cpu))],
    ];
    return groups
        .filter(([, , numbers]) => numbers.length > 0)
        .map(
            ([label, kind, numbers]) => html`<p class="quiet label">${label}</p>
                <ul class="cpus ${kind}" aria-label=${label}>
                    ${numbers.map((cpu) => html`<li>${cpu}</li>`)}
                </ul>`,
        );
}

function facts(container) {
    const rows = [
        ["CPUs", cpusText(container)],
        ["Memory", container.memory ? mibText(Number(container.memory)) : ""],
        ["Page size", container.mem_page_size],
        ["Cells", container.numa_nodes],
        ["Isolation", container.cpuset_isolation],
        ["Devices", devicesText(container.devices)],
        ["Image", container.image],
        ["Command", container.command?.join(" ")],
        ["Addresses", addresses(container)],
        [
            "Labels",
            Object.entries(container.labels ?? {})
                .map(([name, value]) => `${name}=${value}`)
                .join(", "),
        ],
        ["Hostname", container.hostname],
        ["Created", container.created_at?.replace(/\.\d+/, "")],
        ["UUID", container.uuid],
    ];
    return html`<h3>Request</h3>
        <dl>
            ${rows
                .filter(([, value]) => value !== null && value !== undefined && value !== "")
                .map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}
        </dl>`;
}

function addresses({addresses: networks}) {
    return Object.values(networks ?? {})
        .flat()
        .map(({addr}) => addr)
        .filter(Boolean)
        .join(", ");
}

customElements.define("zun-container", ContainerDetail);
