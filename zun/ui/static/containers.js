// SPDX-License-Identifier: Apache-2.0
// <zun-containers>: the containers of the project with their states of this moment, and one of them in detail.

import {html, nothing, render} from "./vendor/lit-html.js";
import {allows, cpusText, fitsFilter, kindOf, news, statusText} from "./actions.js";
import {watch} from "./live.js";
import {look, sheet} from "./look.js";
import {mibText} from "./words.js";
import "./container.js";

const LIMIT = 1000; // containers in the list

/** Status -> the button of a row. */
const NEXT = {Running: ["stop", "Stop"], Restarting: ["stop", "Stop"], Paused: ["unpause", "Unpause"]};

const own = sheet(`
.bar { display: flex; flex-wrap: wrap; gap: 12px 16px; align-items: center; margin-bottom: 16px; }
.bar input[type="search"] { width: 300px; max-width: 100%; flex: 0 1 300px; }
.bar .quiet { margin-left: auto; }
td { font-variant-numeric: tabular-nums; }
td.name { min-width: 120px; overflow-wrap: anywhere; }
td.name button { padding: 0; border-width: 0; min-height: 24px; font-weight: 600; text-align: left;
    overflow-wrap: anywhere; justify-content: start; }
td.name button:hover { text-decoration: underline; background: none; border-color: transparent; }
td.act { text-align: right; padding-right: 0; white-space: nowrap; }
th.act { text-align: right; padding-right: 0; }
tbody tr:hover { background: var(--panel); }
.image { overflow-wrap: anywhere; max-width: 28ch; }
.state { display: inline-flex; gap: 8px; align-items: baseline; }
.state::before { content: ""; flex: none; width: 9px; height: 9px; border-radius: 50%; background: var(--quiet); }
.state.good::before { background: var(--good); }
.state.bad::before { background: var(--bad); border-radius: 2px; }
.state.busy::before { background: none; border: 2px solid var(--accent); }
.state.idle::before { background: none; border: 2px solid var(--quiet); }
.detail { color: var(--quiet); font-size: 13px; }
.reason { color: var(--bad); font-size: 13px; max-width: 60ch; overflow-wrap: anywhere; display: -webkit-box;
    -webkit-line-clamp: 2; -webkit-box-orient: vertical; overflow: hidden; }
.empty { text-align: center; padding: 48px 20px; }
.empty p { margin: 0 0 6px; }
@container list (max-width: 900px) { .wide { display: none; } }
@container list (max-width: 620px) { .middle { display: none; } }
.list { container: list / inline-size; }
`);

/** The list. Properties: `client`, and `chosen`: the uuid of the container in detail, or "". */
class Containers extends HTMLElement {
    #root = this.attachShadow({mode: "open"});
    #client = null;
    #containers = null;
    #cut = false;
    #chosen = "";
    #filter = "";
    #failure = "";
    #told = "";
    #watching = null;

    set client(client) {
        this.#client = client;
        this.#restart();
    }

    get client() {
        return this.#client;
    }

    set chosen(uuid) {
        this.#chosen = uuid ?? "";
        this.#draw();
    }

    get chosen() {
        return this.#chosen;
    }

    connectedCallback() {
        this.#root.adoptedStyleSheets = [look, own];
        this.#restart();
    }

    disconnectedCallback() {
        this.#watching?.stop();
    }

    #restart() {
        this.#watching?.stop();
        if (!this.#client || !this.isConnected) {
            return;
        }
        const path = `/v1/containers?limit=${LIMIT}&sort_key=created_at&sort_dir=desc`;
        this.#watching = watch(this.#client, path, (answer) => this.#take(answer), {
            onError: (error) => {
                this.#failure = error?.message ?? "";
                this.#draw();
            },
        });
        this.#draw();
    }

    #take({containers, next}) {
        if (this.#containers) {
            this.#told = news(this.#containers, containers);
        }
        this.#containers = containers;
        this.#cut = Boolean(next);
        this.#draw();
    }

    #draw() {
        if (!this.isConnected || !this.#client) {
            return;
        }
        render(
            html`
                <p class="visually-hidden" role="status">${this.#told}</p>
                ${this.#failure ? html`<p class="notice bad" role="alert">${this.#failure}</p>` : nothing}
                ${this.#chosen ? this.#one() : this.#all()}
            `,
            this.#root,
        );
    }

    #one() {
        return html`<zun-container
            .client=${this.#client}
            .uuid=${this.#chosen}
            @zun-back=${() => this.#choose("")}
        ></zun-container>`;
    }

    #all() {
        if (!this.#containers) {
            return html`<p class="quiet">Loading…</p>`;
        }
        const shown = this.#containers.filter((each) => fitsFilter(each, this.#filter));
        return html`
            <div class="bar">
                <input
                    type="search"
                    aria-label="Filter by name, image, host or status"
                    placeholder="Filter by name, image, host, status"
                    .value=${this.#filter}
                    @input=${(event) => this.#narrow(event.target.value)}
                >
                <span class="quiet">
                    ${shown.length} of ${this.#containers.length}${this.#cut ? "+" : ""}
                </span>
            </div>
            ${this.#containers.length === 0 ? emptiness() : this.#table(shown)}
        `;
    }

    #table(shown) {
        const hosts = shown.some((each) => each.host);
        return html`<div class="list"><table>
            <thead>
                <tr>
                    <th scope="col">Name</th>
                    <th scope="col">Status</th>
                    <th scope="col" class="middle">CPUs</th>
                    <th scope="col" class="middle">Memory</th>
                    ${hosts ? html`<th scope="col" class="wide">Host</th>` : nothing}
                    <th scope="col" class="wide">Image</th>
                    <th scope="col" class="act"><span class="visually-hidden">Actions</span></th>
                </tr>
            </thead>
            <tbody>
                ${shown.map((each) => this.#row(each, hosts))}
            </tbody>
        </table></div>`;
    }

    #row(container, hosts) {
        const {uuid, name, memory, host, image, status_detail: detail, status_reason: reason} = container;
        const kind = kindOf(container);
        return html`<tr>
            <td class="name"><button class="plain" @click=${() => this.#choose(uuid)}>${name}</button></td>
            <td>
                <span class="state ${kind}">${statusText(container)}</span>
                ${detail && kind !== "bad" ? html`<div class="detail">${detail}</div>` : nothing}
                ${reason && kind === "bad" ? html`<div class="reason">${reason}</div>` : nothing}
            </td>
            <td class="middle">${cpusText(container)}</td>
            <td class="middle">${memory ? mibText(Number(memory)) : nothing}</td>
            ${hosts ? html`<td class="wide">${host ?? nothing}</td>` : nothing}
            <td class="wide image">${image}</td>
            <td class="act">${this.#button(container)}</td>
        </tr>`;
    }

    #button(container) {
        const [action, label] = NEXT[container.status] ?? ["start", "Start"];
        return html`<button
            class="small"
            aria-label="${label} ${container.name}"
            ?disabled=${!allows(container, action)}
            @click=${() => this.#perform(container, action)}
        >
            ${label}
        </button>`;
    }

    async #perform(container, action) {
        try {
            await this.#client.post(`/v1/containers/${container.uuid}/${action}`);
            this.#failure = "";
        } catch (error) {
            this.#failure = error.message;
        }
        this.#draw();
        this.#watching.now();
    }

    #choose(uuid) {
        this.#chosen = uuid;
        this.#draw();
        this.dispatchEvent(new CustomEvent("zun-container", {detail: {uuid}, bubbles: true, composed: true}));
    }

    #narrow(text) {
        this.#filter = text;
        this.#draw();
    }
}

function emptiness() {
    return html`<div class="panel empty">
        <h2>No containers yet</h2>
        <p class="quiet">"What fits" finds a place for one, and creates it there.</p>
    </div>`;
}

customElements.define("zun-containers", Containers);
