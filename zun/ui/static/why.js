// SPDX-License-Identifier: Apache-2.0
// <zun-why>: how many containers of a request fit now, where, why not elsewhere, and the nearest request that fits.

import {html, nothing, render} from "./vendor/lit-html.js";
import {statusText} from "./actions.js";
import {watch} from "./live.js";
import {look, sheet} from "./look.js";
import {codeText, refusalLook, refusalTemplate} from "./refusal.js";
import {FIRST, GROUPS, NAMES, bodyOf, namesOf, valuesOf} from "./request.js";
import {count, mibText, pageText} from "./words.js";

const MOST_ROWS = 200; // hosts in the table
const PLACED = ["Host", "CPUs", "Memory nodes"]; // columns for those who may see hosts
const UNDER_WAY = ["Creating", "Restarting"];

const own = sheet(`
:host { container: why / inline-size; }
.two { display: grid; grid-template-columns: minmax(0, 1fr); gap: 28px; align-items: start; }
@container why (min-width: 940px) { .two { grid-template-columns: minmax(0, 460px) minmax(0, 1fr); } }
form { display: grid; gap: 14px; }
fieldset { border: 0; margin: 0; padding: 0; min-width: 0; }
legend { font-weight: 600; padding: 0; margin-bottom: 10px; }
.fields { display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); gap: 12px; }
.fields > div { min-width: 0; }
.fields > .wide { grid-column: 1 / -1; }
details { border-top: 1px solid var(--line); padding-top: 12px; }
summary { cursor: pointer; font-weight: 600; }
summary .quiet { font-weight: 400; margin-left: 6px; }
details[open] summary { margin-bottom: 12px; }
details + fieldset { margin-top: 6px; }
.sent { display: flex; flex-wrap: wrap; gap: 10px; padding-top: 6px; }
.sent .primary { flex: 1 1 160px; }
.answer { min-width: 0; }
.number { font-size: 56px; line-height: 1; font-weight: 650; letter-spacing: -0.03em; margin: 0;
    scroll-margin-top: 16px; font-variant-numeric: tabular-nums; }
.said { font-size: 16px; margin: 6px 0 20px; color: var(--quiet); }
.block { margin-top: 24px; }
.scroll { overflow-x: auto; }
td.figure, th.figure { text-align: right; font-variant-numeric: tabular-nums; padding-right: 20px; }
td { overflow-wrap: anywhere; }
td.place { white-space: nowrap; overflow-wrap: normal; font-family: var(--mono); font-size: 13px; }
tr.none td { color: var(--quiet); }
.made { list-style: none; padding: 0; margin: 0; display: grid; gap: 4px; }
.made li { display: flex; flex-wrap: wrap; gap: 0 10px; align-items: baseline; }
.made button { min-height: 24px; padding: 0; font-weight: 600; overflow-wrap: anywhere; text-align: left; }
.first { padding: 40px 24px; text-align: center; }
.first p { margin: 0; }
`);

/** The form and its answer. Properties: `client`, and `request` to fill the form with one and to ask. */
class Why extends HTMLElement {
    #root = this.attachShadow({mode: "open"});
    #client = null;
    #values = {...FIRST};
    #errors = {}; // field -> text
    #failure = "";
    #busy = "";
    #answer = null; // {dryRun, capacity}
    #made = []; // containers created here
    #asking = null;
    #following = [];
    #hosts = [];
    #zones = [];
    #map = false; // whether <zun-machine> is there

    set client(client) {
        this.#client = client;
        this.#draw();
    }

    get client() {
        return this.#client;
    }

    set request(request) {
        this.#values = {
            ...FIRST,
            ...Object.fromEntries(["cpu", "memory"].map((name) => [name, ""])),
            ...valuesOf(request),
        };
        this.#errors = {};
        this.#ask();
    }

    connectedCallback() {
        this.#root.adoptedStyleSheets = [look, refusalLook, own];
        this.#draw();
        this.#learn();
        this.#made.filter((each) => UNDER_WAY.includes(each.status)).forEach((each) => this.#follow(each));
    }

    disconnectedCallback() {
        this.#following.forEach((each) => each.stop());
        this.#following = [];
    }

    /** Learn what the fields suggest, and whether the map of a host can be shown. None of these is necessary. */
    async #learn() {
        const names = (path, key, name) =>
            this.#client.get(path).then(
                ({body}) => body[key].map((each) => each[name]),
                () => [],
            );
        [this.#hosts, this.#zones, this.#map] = await Promise.all([
            names("/v1/hosts", "hosts", "hostname"),
            names("/v1/availability_zones", "availability_zones", "availability_zone"),
            import("./machine.js").then(
                () => true,
                () => false,
            ),
        ]);
        this.#draw();
    }

    #draw() {
        if (!this.isConnected || !this.#client) {
            return;
        }
        render(
            html`<div class="two">
                ${this.#form()}
                <section class="answer" aria-label="Answer">${this.#answered()}</section>
            </div>`,
            this.#root,
        );
    }

    // The form.

    #form() {
        return html`<form novalidate @submit=${(event) => this.#submit(event)}>
            ${GROUPS.filter(({when}) => !when || when(this.#values)).map((group) => this.#group(group))}
            <datalist id="hosts">${this.#hosts.map((name) => option(name))}</datalist>
            <datalist id="zones">${this.#zones.map((name) => option(name))}</datalist>
            ${this.#failure ? html`<p class="notice bad" role="alert">${this.#failure}</p>` : nothing}
            <div class="sent">
                <button class="primary" ?disabled=${this.#busy !== ""}>
                    ${this.#busy === "ask" ? "Asking…" : "See what fits"}
                </button>
                <button type="button" ?disabled=${this.#busy !== ""} @click=${() => this.#create()}>
                    ${this.#busy === "create" ? "Creating…" : "Create"}
                </button>
            </div>
        </form>`;
    }

    #group({title, open, fields}) {
        const shown = fields.filter(({when}) => !when || when(this.#values));
        const inside = html`<div class="fields">${shown.map((field) => this.#field(field))}</div>`;
        if (open) {
            return html`<fieldset><legend>${title}</legend>${inside}</fieldset>`;
        }
        const filled = shown.filter(({name}) => this.#values[name]).length;
        const wrong = shown.some(({name}) => this.#errors[name]);
        return html`<details ?open=${wrong || filled > 0}>
            <summary>
                ${title}${filled ? html`<span class="quiet">${count(filled, "field")} filled</span>` : nothing}
            </summary>
            ${inside}
        </details>`;
    }

    #field({name, label, options, suggestions, type, hint, wide}) {
        const error = this.#errors[name];
        const described = [hint ? `${name}-hint` : "", error ? `${name}-error` : ""].filter(Boolean).join(" ");
        const value = this.#values[name] ?? "";
        const change = (event) => this.#change(name, event.target.value);
        const lists = {host: "hosts", availability_zone: "zones"};
        const control = options
            ? html`<select
                  id=${name}
                  aria-invalid=${error ? "true" : nothing}
                  aria-describedby=${described || nothing}
                  @change=${change}
              >
                  ${options.map((each) => option(each, value))}
              </select>`
            : html`<input
                  id=${name}
                  inputmode=${type === "number" ? "decimal" : nothing}
                  autocomplete="off"
                  autocapitalize="none"
                  spellcheck="false"
                  list=${suggestions ? `${name}-list` : (lists[name] ?? nothing)}
                  aria-invalid=${error ? "true" : nothing}
                  aria-describedby=${described || nothing}
                  .value=${value}
                  @input=${change}
              >`;
        return html`<div class=${wide ? "wide" : ""}>
            <label for=${name}>${label}</label>
            ${control}
            ${
                suggestions
                    ? html`<datalist id="${name}-list">${suggestions.map((each) => option(each))}</datalist>`
                    : nothing
            }
            ${hint ? html`<p class="hint" id="${name}-hint">${hint}</p>` : nothing}
            ${error ? html`<p class="wrong" id="${name}-error">${error}</p>` : nothing}
        </div>`;
    }

    #change(name, value) {
        this.#values = {...this.#values, [name]: value};
        delete this.#errors[name];
        this.#draw();
    }

    #submit(event) {
        event.preventDefault();
        this.#ask();
    }

    #use(change) {
        this.#values = {...this.#values, ...valuesOf(change)};
        this.#ask();
    }

    // Questions.

    async #ask() {
        if (!this.#client) {
            return;
        }
        this.#asking?.abort();
        const asking = (this.#asking = new AbortController());
        const ask = (question) =>
            this.#client.post(`/v1/placement/${question}`, {
                body: bodyOf(this.#values, question),
                signal: asking.signal,
            });
        await this.#attempt("ask", async () => {
            const [dryRun, capacity] = await Promise.all([ask("dry_run"), ask("capacity")]);
            this.#answer = {dryRun: dryRun.body, capacity: capacity.body};
        });
        this.#reveal();
    }

    /** Bring the answer into sight where it stands below the form, as in a narrow window. */
    #reveal() {
        const answer = this.#root.querySelector(".number");
        if (answer && answer.getBoundingClientRect().top > window.innerHeight - 80) {
            answer.scrollIntoView({block: "start"});
        }
    }

    async #create() {
        const body = bodyOf(this.#values, "create");
        const wanted = Math.max(1, Math.trunc(Number(this.#values.count)) || 1);
        await this.#attempt("create", async () => {
            for (const name of namesOf(body.name, wanted)) {
                const answer = await this.#client.post("/v1/containers", {
                    query: {run: "true"},
                    body: name === undefined ? body : {...body, name},
                });
                this.#made = [answer.body, ...this.#made];
                this.#follow(answer.body);
            }
        });
    }

    /** Do `work`, and show the error at the field that it names. */
    async #attempt(what, work) {
        this.#busy = what;
        this.#errors = {};
        this.#failure = "";
        this.#draw();
        try {
            await work();
        } catch (error) {
            if (error.name === "AbortError") {
                return;
            }
            this.#refuse(error);
        }
        this.#busy = "";
        this.#draw();
        this.#root.querySelector('[aria-invalid="true"]')?.focus();
    }

    #refuse(error) {
        if (error.status === 401) {
            return; // the page asks for a login, and the form stays
        }
        if (NAMES.has(error.field)) {
            this.#errors = {[error.field]: error.message.slice(error.message.indexOf(":") + 1).trim()};
        } else {
            this.#failure = error.message;
        }
    }

    /** Follow a container until it has a place or an error. */
    #follow({uuid}) {
        const following = watch(
            this.#client,
            `/v1/containers/${uuid}`,
            (container) => {
                this.#made = this.#made.map((each) => (each.uuid === uuid ? container : each));
                if (!UNDER_WAY.includes(container.status)) {
                    following.stop();
                    this.#ask();
                }
                this.#draw();
            },
            {every: 1000},
        );
        this.#following.push(following);
    }

    // The answer.

    #answered() {
        return html`
            ${this.#made.length ? this.#created() : nothing}
            ${this.#answer ? this.#found(this.#answer) : this.#made.length ? nothing : introduction()}
        `;
    }

    #created() {
        return html`<div class="notice good" role="status">
            <ul class="made">
                ${this.#made.map(
                    (each) => html`<li>
                        <button type="button" class="plain" @click=${() => this.#open(each.uuid)}>${each.name}</button>
                        <span>${statusText(each)}${each.cpuset_cpus ? ` on CPUs ${each.cpuset_cpus}` : ""}</span>
                    </li>`,
                )}
            </ul>
        </div>`;
    }

    #open(uuid) {
        this.dispatchEvent(new CustomEvent("zun-container", {detail: {uuid}, bubbles: true, composed: true}));
    }

    #found({dryRun, capacity}) {
        const host = dryRun.placements[0]?.host;
        return html`
            <div role="status">
                <p class="number">${capacity.total}${capacity.complete ? "" : "+"}</p>
                <p class="said">${summary(dryRun, capacity)}</p>
            </div>
            ${
                dryRun.refusal
                    ? html`<div class="notice warn">
                          ${refusalTemplate(dryRun.refusal, (change) => this.#use(change))}
                      </div>`
                    : nothing
            }
            ${dryRun.placements.length ? placements(dryRun.placements) : nothing}
            ${capacity.hosts?.length ? hosts(capacity.hosts) : nothing}
            ${
                host && this.#map
                    ? html`<div class="block">
                      <h2>${host} now</h2>
                      <zun-machine .client=${this.#client} host=${host}></zun-machine>
                  </div>`
                    : nothing
            }
        `;
    }
}

function option(value, chosen) {
    return html`<option value=${value} .selected=${value === chosen}>${value || "default"}</option>`;
}

function introduction() {
    return html`<div class="panel first">
        <h2>Ask before you create</h2>
        <p class="quiet">The answer is exact: this number of containers would start now, one after the other.</p>
    </div>`;
}

function summary({fits, placements: placed}, {total, complete}) {
    const number = total === 1 ? "container like this fits now." : "containers like this fit now.";
    const more = fits || total === 0 ? "" : ` The first ${placed.length} of those you asked for have a place.`;
    return `${complete ? "" : "or more "}${number}${more}`;
}

function placements(placed) {
    const named = placed.some(({host}) => host);
    return html`<div class="block">
        <h2>Where</h2>
        <div class="scroll" tabindex="0" role="group" aria-label="Places"><table>
            <thead>
                <tr>
                    <th scope="col">#</th>
                    ${named ? PLACED.map((each) => html`<th scope="col">${each}</th>`) : nothing}
                    <th scope="col">Cells</th>
                </tr>
            </thead>
            <tbody>
                ${placed.map(
                    (each, index) => html`<tr>
                        <td>${index + 1}</td>
                        ${
                            named
                                ? html`<td>${each.host}</td>
                                  <td class="place">${each.cpuset_cpus || "shared pool"}</td>
                                  <td class="place">${each.cpuset_mems}</td>`
                                : nothing
                        }
                        <td>${each.cells.map(cellText).join("; ")}</td>
                    </tr>`,
                )}
            </tbody>
        </table></div>
    </div>`;
}

/** Return one cell of a placement in words. Example: "cell 1: 4 CPUs, 1 GiB in 512 pages of 2 MiB". */
export function cellText({node, cpus, withheld, memory_mib: memory, pages: held}) {
    const which = node === undefined ? "" : `cell ${node}: `;
    const idle = withheld ? ` (${withheld} kept idle)` : "";
    const pages = Object.entries(held ?? {}).map(
        ([size, number]) => ` in ${number} pages of ${pageText(Number(size))}`,
    );
    return `${which}${count(cpus, "CPU")}${idle}, ${mibText(memory)}${pages.join("")}`;
}

function hosts(found) {
    const sorted = [...found].sort((one, other) => other.count - one.count);
    const left = sorted.length - MOST_ROWS;
    return html`<div class="block">
        <h2>Hosts</h2>
        <div class="scroll" tabindex="0" role="group" aria-label="Hosts"><table>
            <thead>
                <tr>
                    <th scope="col">Host</th>
                    <th scope="col" class="figure">Fit</th>
                    <th scope="col">What the next one lacks</th>
                </tr>
            </thead>
            <tbody>
                ${sorted.slice(0, MOST_ROWS).map(
                    ({host, count: number, code, reason}) => html`<tr class=${number ? "" : "none"}>
                        <td>${host}</td>
                        <td class="figure">${number}</td>
                        <td>${reason || (code ? codeText(code) : "")}</td>
                    </tr>`,
                )}
            </tbody>
        </table></div>
        ${left > 0 ? html`<p class="hint">and ${count(left, "more host")}</p>` : nothing}
    </div>`;
}

customElements.define("zun-why", Why);
