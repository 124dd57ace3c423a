// SPDX-License-Identifier: Apache-2.0

/**
 * `<zun-cloud>`: every host as a tile whose colour and number tell how much of it is free.
 *
 * Set `client` (api.js), and the tiles follow the hosts; or set `data` to an answer of `GET /v1/hosts`. The event
 * `zun-host` names the host that was chosen: `detail.host`. Only the rows of tiles in view are in the document.
 */

import {html, nothing, render} from "./vendor/lit-html.js";
import {
    amountOf,
    amountText,
    choicesOf,
    filtered,
    hostRows,
    measuresOf,
    shadeOf,
    sorted,
    summary,
    tileText,
} from "./cloud-model.js";
import {watch} from "./live.js";
import {look, sheet} from "./look.js";
import {count} from "./words.js";

const PAGE = 1000; // hosts in one request
const BEYOND = 3; // rows drawn above and below those in view
const SIZES = {small: {w: 38, h: 30}, named: {w: 148, h: 46}};

/** Colours of the shades from none to all free: fill and ink, for light and dark pages. */
const HEAT = [
    [
        ["#eceff2", "#262d35"],
        ["#4c5866", "#b4bfca"],
    ],
    [
        ["#dcebf7", "#16324a"],
        ["#12344f", "#d5e8f7"],
    ],
    [
        ["#b7d6ee", "#1d4c70"],
        ["#0f2f49", "#e2f0fb"],
    ],
    [
        ["#86b9e0", "#2a6b9c"],
        ["#0a2438", "#ffffff"],
    ],
    [
        ["#2672ad", "#63a8dc"],
        ["#ffffff", "#06182a"],
    ],
    [
        ["#0a4a7d", "#a8d4f5"],
        ["#ffffff", "#06182a"],
    ],
];
const pair = ([light, dark]) => `light-dark(${light}, ${dark})`;

const STYLE = sheet(`
    :host { display: block; container-type: inline-size; }
    .filters {
        display: grid; grid-template-columns: repeat(auto-fill, minmax(136px, 1fr)); gap: 12px 14px; margin: 0 0 16px;
    }
    .filters label { font-size: 13px; color: var(--quiet); font-weight: 400; margin: 0; min-width: 0; }
    .filters select, .filters input { margin-top: 4px; }
    .sum { display: flex; flex-wrap: wrap; gap: 6px 24px; align-items: center; margin: 0 0 12px; }
    .sum p { margin: 0; flex: 1 1 260px; }
    .scale { display: flex; align-items: center; gap: 6px; font-size: 13px; color: var(--quiet); }
    .scale span.box { width: 22px; height: 16px; border-radius: 3px; }
    .view { display: grid; grid-template-columns: minmax(0, 1fr); gap: 20px; align-items: start; }
    @container (min-width: 900px) {
        .view { grid-template-columns: minmax(0, 1fr) 280px; }
        .about { position: sticky; top: 16px; }
    }
    .grid { position: relative; overflow-y: auto; max-height: 68vh; contain: strict; }
    .grid:focus-visible { outline-offset: 3px; }
    .space { position: relative; }
    .row { position: absolute; left: 0; top: 0; display: flex; gap: 4px; contain: layout style; }
    .tile {
        width: var(--wide); height: var(--high);
        flex: none; display: flex; flex-direction: column; justify-content: center; cursor: pointer;
        border-radius: 5px; padding: 0 6px; font-size: 13px; font-weight: 600; font-variant-numeric: tabular-nums;
        text-align: center; line-height: 1.3;
    }
    .tile .name {
        font-weight: 400; font-size: 12px; text-overflow: ellipsis; overflow: hidden; white-space: nowrap;
        unicode-bidi: isolate;
    }
    .small .name { display: none; }
    .named .tile { text-align: left; padding: 0 10px; }
    ${HEAT.map(([fill, ink], shade) => `.h${shade} { background: ${pair(fill)}; color: ${pair(ink)}; }`).join("\n")}
    .none {
        background-image: repeating-linear-gradient(135deg, transparent 0 4px, light-dark(#dde2e7, #323b45) 4px 5px);
    }
    .none { color: var(--quiet); background-color: var(--panel); border: 1px dashed var(--strong-line); }
    .away { outline: 2px dashed var(--bad); outline-offset: -2px; }
    .tile.on { box-shadow: inset 0 0 0 2px var(--paper); outline: 3px solid var(--accent); outline-offset: -1px; }
    .about {
        padding: 16px 18px; min-height: 120px;
        background: var(--panel); border: 1px solid var(--line); border-radius: 12px;
    }
    .about h3 { margin: 0 0 10px; overflow-wrap: anywhere; } .about p { margin: 0; }
    dl { margin: 0; display: grid; grid-template-columns: auto minmax(0, 1fr); gap: 6px 14px; font-size: 14px; }
    dt { color: var(--quiet); overflow-wrap: anywhere; } dd { margin: 0; overflow-wrap: anywhere; }
    .keys { font-size: 13px; color: var(--quiet); margin: 10px 0 0; }
    @media print { .filters, .about, .keys { display: none; } * { print-color-adjust: exact; } }
`);

export class ZunCloud extends HTMLElement {
    #client = null;
    #pages = []; // answers of GET /v1/hosts, in order
    #watches = [];
    #hosts = [];
    #shown = [];
    #headings = {};
    #choices = {zone: [], aggregate: [], trait: [], device: []};
    #filters = {};
    #measure = "cells";
    #order = "name";
    #size = "";
    #problem = "";
    #read = false;
    #active = 0; // index of the host that the keyboard is on
    #hovered = null; // index below the pointer
    #marked = null; // tile of the active host
    #told = null; // host that the panel is about
    #columns = 1;
    #width = 0; // of a tile, in pixels
    #rows = new Map(); // index of a row -> its element
    #spare = [];
    #root = this.attachShadow({mode: "open"});
    #sizes = new ResizeObserver(() => this.#place());

    constructor() {
        super();
        this.#root.adoptedStyleSheets = [look, STYLE];
    }

    get client() {
        return this.#client;
    }

    /** The client of api.js: the tiles follow the hosts. */
    set client(client) {
        this.#client = client;
        this.#begin();
    }

    get data() {
        return {hosts: this.#hosts};
    }

    /** An answer of `GET /v1/hosts`, shown as it is. */
    set data({hosts}) {
        this.#hosts = hosts;
        this.#read = true;
        this.#headings = measuresOf(hosts);
        this.#choices = choicesOf(hosts);
        this.#measure = this.#measure in this.#headings ? this.#measure : "cells";
        this.#choose({});
    }

    connectedCallback() {
        this.#draw();
        this.#begin();
    }

    disconnectedCallback() {
        this.#end(0);
        this.#sizes.disconnect();
    }

    #end(from) {
        this.#watches.splice(from).forEach((each) => each.stop());
    }

    #begin() {
        this.#end(0);
        this.#pages = [];
        if (this.#client && this.isConnected) {
            this.#follow(0, `/v1/hosts?limit=${PAGE}`);
        }
    }

    /** Watch one page of the list, and the pages behind it. */
    #follow(at, path) {
        let next = null;
        const every = at ? 5000 : 2000;
        const onError = (error) => this.#fail(error);
        this.#watches[at] = watch(
            this.#client,
            path,
            (body) => {
                this.#pages[at] = body.hosts;
                if (body.next !== next) {
                    next = body.next;
                    this.#end(at + 1);
                    if (next) {
                        this.#follow(at + 1, `/v1/hosts${new URL(next, document.baseURI).search}`);
                    } else {
                        this.#pages.length = at + 1;
                    }
                }
                this.data = {hosts: this.#pages.flat()};
            },
            {every, onError},
        );
    }

    #fail(error) {
        this.#problem = error ? error.detail || error.title || error.message || String(error) : "";
        this.#draw();
    }

    /** Take a choice of the user, and show the hosts that are left. */
    #choose({measure, order, size, ...filters}) {
        this.#measure = measure ?? this.#measure;
        this.#order = order ?? this.#order;
        this.#size = size ?? this.#size;
        this.#filters = {...this.#filters, ...filters};
        const [active, hovered] = [this.#active, this.#hovered].map((index) => this.#shown[index]?.uuid);
        this.#shown = sorted(filtered(this.#hosts, this.#filters), this.#order, this.#measure);
        const places = new Map(this.#shown.map((host, index) => [host.uuid, index]));
        this.#active = places.get(active) ?? 0;
        this.#hovered = places.get(hovered) ?? null;
        this.#draw();
    }

    get #tile() {
        return SIZES[this.#size || (this.#shown.length > 150 ? "small" : "named")];
    }

    #draw() {
        if (!this.isConnected) {
            return;
        }
        render(this.#template(), this.#root, {host: this});
        const grid = this.#root.querySelector(".grid");
        if (grid) {
            this.#sizes.observe(grid);
            this.#place();
        }
    }

    #template() {
        const problem = this.#problem
            ? html`<p class="notice bad" role="alert">The hosts cannot be read: ${this.#problem}</p>`
            : nothing;
        if (!this.#read) {
            return html`${problem} ${this.#problem ? nothing : html`<p role="status">The hosts are being read.</p>`}`;
        }
        const left = this.#shown.length === this.#hosts.length ? "" : `${this.#shown.length} of `;
        const words = summary(this.#shown, this.#measure, this.#headings);
        return html`
            ${problem}
            <div class="filters" role="search" aria-label="Filter hosts">
                <label>Colour by
                    <select @change=${(event) => this.#choose({measure: event.target.value})}>
                        ${Object.entries(this.#headings).map(
                            ([name, heading]) => html`
                            <option value=${name} ?selected=${name === this.#measure}>free ${heading}</option>`,
                        )}
                    </select>
                </label>
                <label>Name <input type="search" @input=${(event) => this.#choose({name: event.target.value})}></label>
                ${this.#filter("zone", "Zone")} ${this.#filter("aggregate", "Aggregate")}
                ${this.#filter("trait", "Trait")} ${this.#filter("device", "Device")}
                <label>Order
                    <select @change=${(event) => this.#choose({order: event.target.value})}>
                        <option value="name">by name</option><option value="free">most free first</option>
                    </select>
                </label>
                <label>Tiles
                    <select @change=${(event) => this.#choose({size: event.target.value})}>
                        <option value="">automatic</option><option value="small">small</option>
                        <option value="named">with names</option>
                    </select>
                </label>
            </div>
            <div class="sum">
                <p role="status">${left}${count(this.#hosts.length, "host")}: ${words}</p>
                <div class="scale" aria-hidden="true">none free
                    ${HEAT.map((_, shade) => html`<span class="box h${shade}"></span>`)} all free</div>
            </div>
            <div class="view">
                <div>
                    <div class="grid" role="grid" tabindex="0" aria-label="Hosts" aria-describedby="keys"
                        @scroll=${() => this.#fill()} @keydown=${this.#key} @click=${this.#click}
                        @pointerover=${this.#over} @pointerleave=${() => this.#point(null)}
                        @focus=${() => this.#mark()} @blur=${() => this.#mark()}>
                        <div class="space" role="rowgroup"></div>
                    </div>
                    <p class="keys" id="keys">Arrow keys move between hosts. Enter or a click opens the map of a host. A
                        dashed red edge marks a host whose engine is away.</p>
                </div>
                <div class="about" role="region" aria-label="Details"></div>
            </div>`;
    }

    #filter(name, heading) {
        const choices = this.#choices[name];
        const chosen = this.#filters[name] ?? "";
        return choices.length
            ? html`<label>${heading}
                  <select @change=${(event) => this.#choose({[name]: event.target.value})}>
                      <option value="">all</option>
                      ${choices.map(
                          (each) => html`<option value=${each} ?selected=${each === chosen}>${each}</option>`,
                      )}
                  </select></label>`
            : nothing;
    }

    /** Fit the columns to the width, and draw the rows in view afresh. */
    #place() {
        const grid = this.#root.querySelector(".grid");
        const space = this.#root.querySelector(".space");
        const {w, h} = this.#tile;
        if (!grid || !grid.clientWidth) {
            return;
        }
        this.#columns = Math.max(1, Math.floor((grid.clientWidth + 4) / (w + 4)));
        this.#width = Math.floor((grid.clientWidth + 4) / this.#columns) - 4;
        const rows = Math.ceil(this.#shown.length / this.#columns);
        space.className = `space ${this.#tile === SIZES.small ? "small" : "named"}`;
        space.style.height = `${rows * (h + 4)}px`;
        grid.style.height = `${Math.max(h + 4, rows * (h + 4))}px`;
        grid.setAttribute("aria-rowcount", rows);
        grid.setAttribute("aria-colcount", this.#columns);
        grid.style.setProperty("--wide", `${this.#width}px`);
        grid.style.setProperty("--high", `${h}px`);
        this.#spare.push(...this.#rows.values());
        this.#rows.clear();
        this.#fill();
    }

    /** Draw the rows that have come into view, in the elements of rows that have left it. */
    #fill() {
        const grid = this.#root.querySelector(".grid");
        const space = grid.firstElementChild;
        const step = this.#tile.h + 4;
        const last = Math.ceil(this.#shown.length / this.#columns) - 1;
        const from = Math.max(0, Math.floor(grid.scrollTop / step) - BEYOND);
        const to = Math.min(last, Math.ceil((grid.scrollTop + grid.clientHeight) / step) + BEYOND);
        for (const [index, row] of this.#rows) {
            if (index < from || index > to) {
                this.#spare.push(row);
                this.#rows.delete(index);
            }
        }
        for (let index = to; index >= from; index -= 1) {
            if (!this.#rows.has(index)) {
                const row = this.#spare.pop() ?? newRow();
                const next = this.#rows.get(index + 1) ?? null; // the document has the rows in their order
                this.#write(row, index, step);
                this.#rows.set(index, row);
                if (!row.isConnected || row.nextSibling !== next) {
                    space.insertBefore(row, next);
                }
            }
        }
        this.#spare.splice(0).forEach((row) => row.remove());
        this.#mark();
    }

    #write(row, index, step) {
        const hosts = this.#shown.slice(index * this.#columns, (index + 1) * this.#columns);
        row.style.transform = `translateY(${index * step}px)`;
        row.setAttribute("aria-rowindex", index + 1);
        row.index = index;
        while (row.childElementCount > hosts.length) {
            row.lastElementChild.remove();
        }
        while (row.childElementCount < hosts.length) {
            row.append(newTile(row.childElementCount));
        }
        hosts.forEach((host, column) => this.#tell(row.children[column], host));
    }

    /** Write what is free of a host onto its tile. */
    #tell(tile, host) {
        const amount = amountOf(host, this.#measure);
        const shade = shadeOf(amount);
        const away = host.engine?.away;
        const kind = `tile ${shade === null ? "none" : `h${shade}`}${away ? " away" : ""}`;
        if (tile.className !== kind) {
            tile.className = kind;
        }
        const words = amountText(amount, this.#measure, this.#headings);
        const text = tileText(amount, this.#measure);
        tile.setAttribute("aria-label", `${host.hostname} ${text}: ${words}${away ? ", engine away" : ""}`);
        tile.firstChild.firstChild.data = host.hostname;
        tile.lastChild.firstChild.data = text;
    }

    /** Return the index of a tile's host. */
    #indexOf(tile) {
        return tile.parentElement.index * this.#columns + Number(tile.getAttribute("aria-colindex")) - 1;
    }

    /** Mark the host that the keyboard is on, and tell about it or about the one below the pointer. */
    #mark() {
        const grid = this.#root.querySelector(".grid");
        const focused = this.#root.activeElement === grid;
        const row = this.#rows.get(Math.floor(this.#active / this.#columns));
        const tile = (focused && row?.children[this.#active % this.#columns]) || null;
        if (tile !== this.#marked) {
            this.#marked?.classList.remove("on");
            this.#marked?.removeAttribute("id");
            this.#marked = tile;
        }
        if (tile) {
            tile.classList.add("on");
            tile.id = "active";
            grid.setAttribute("aria-activedescendant", "active");
        } else {
            grid.removeAttribute("aria-activedescendant");
        }
        const host = this.#shown[this.#hovered ?? (focused ? this.#active : -1)];
        if (host === this.#told) {
            return;
        }
        this.#told = host;
        const rows = host ? hostRows(host, this.#headings) : [];
        render(
            host
                ? html`<h3>${host.hostname}</h3>
                      <dl>${rows.map(([term, text]) => html`<dt>${term}</dt><dd>${text}</dd>`)}</dl>`
                : html`<h3>Details</h3>
                      <p class="quiet">Point at a host to see what is free. A click opens its map.</p>`,
            this.#root.querySelector(".about"),
        );
    }

    #point(index) {
        this.#hovered = index;
        this.#mark();
    }

    #over = (event) => {
        const tile = event.target.closest(".tile");
        this.#point(tile ? this.#indexOf(tile) : null);
    };

    #click = (event) => {
        const tile = event.target.closest(".tile");
        if (tile) {
            this.#active = this.#indexOf(tile);
            this.#open();
        }
    };

    #open() {
        const host = this.#shown[this.#active];
        if (host) {
            const options = {detail: {host: host.hostname}, bubbles: true, composed: true};
            this.dispatchEvent(new CustomEvent("zun-host", options));
        }
    }

    #key = (event) => {
        const grid = event.currentTarget;
        const page = Math.max(1, Math.floor(grid.clientHeight / (this.#tile.h + 4))) * this.#columns;
        const last = this.#shown.length - 1;
        const to = {
            ArrowRight: this.#active + 1,
            ArrowLeft: this.#active - 1,
            ArrowDown: this.#active + this.#columns,
            ArrowUp: this.#active - this.#columns,
            PageDown: Math.min(last, this.#active + page),
            PageUp: Math.max(0, this.#active - page),
            Home: event.ctrlKey ? 0 : this.#active - (this.#active % this.#columns),
            End: event.ctrlKey ? last : this.#active - (this.#active % this.#columns) + this.#columns - 1,
        }[event.key];
        if (event.key === "Enter" || event.key === " ") {
            this.#open();
        } else if (to === undefined) {
            return;
        } else if (to >= 0 && (to <= last || event.key === "End")) {
            this.#active = Math.min(to, last);
            this.#hovered = null;
            this.#reveal(grid);
        }
        event.preventDefault();
    };

    #reveal(grid) {
        const step = this.#tile.h + 4;
        const top = Math.floor(this.#active / this.#columns) * step;
        if (top < grid.scrollTop) {
            grid.scrollTop = top;
        } else if (top + step > grid.scrollTop + grid.clientHeight) {
            grid.scrollTop = top + step - grid.clientHeight;
        }
        this.#fill();
    }
}

function newRow() {
    const row = document.createElement("div");
    row.className = "row";
    row.setAttribute("role", "row");
    return row;
}

function newTile(column) {
    const tile = document.createElement("div");
    const [name, number] = [document.createElement("span"), document.createElement("span")];
    tile.setAttribute("role", "gridcell");
    tile.setAttribute("aria-colindex", column + 1);
    name.className = "name";
    name.append("");
    number.append("");
    tile.append(name, " ", number);
    return tile;
}

customElements.define("zun-cloud", ZunCloud);
