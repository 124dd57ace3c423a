// SPDX-License-Identifier: Apache-2.0

/**
 * `<zun-machine host="NAME">`: the map of one host, who holds what, and the same as tables.
 *
 * Set `client` (api.js), and the map follows the host; or set `data` to an answer of `GET /v1/hosts/{host}/topology`.
 */

import {html, nothing, render, svg} from "./vendor/lit-html.js";
import {watch} from "./live.js";
import {look, sheet} from "./look.js";
import {boxesOf, claimsOf, densityOf, layOut, levelsOf, step, DENSITIES} from "./machine-layout.js";
import {mapFile, mapStyle, mapTemplate} from "./machine-map.js";
import {claimRows, details, foreignText, readDisturbed, readMachine} from "./machine-model.js";
import {THEME, count, cpuList, lightDark, mibText} from "./words.js";

const STYLE = sheet(`
    :host { display: block; container-type: inline-size; color: var(--ink); font: 15px/1.5 var(--sans); }
    .head { display: flex; flex-wrap: wrap; gap: 8px 16px; align-items: center; margin: 0 0 16px; }
    .head p { margin: 0; color: var(--quiet); flex: 1 1 220px; }
    .tools { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; }
    .tools label { display: flex; gap: 8px; align-items: center; margin: 0; color: var(--quiet); font-weight: 400; }
    .tools select { width: auto; min-height: 30px; padding: 2px 8px; font-size: 13.5px; }
    .view { display: grid; grid-template-columns: minmax(0, 1fr); gap: 20px; align-items: start; }
    .about.kept { position: sticky; bottom: 8px; max-height: 50vh; overflow-y: auto; box-shadow: 0 2px 12px #0003; }
    @container (min-width: 980px) {
        .view { grid-template-columns: minmax(0, 1fr) 280px; }
        .about, .about.kept { position: sticky; top: 16px; max-height: none; box-shadow: none; }
    }
    .stage { position: relative; min-width: 0; overflow: hidden; }
    .stage svg { display: block; overflow: visible; }
    .item { cursor: pointer; outline: none; }
    .over { position: absolute; left: 0; top: 0; pointer-events: none; will-change: transform; }
    .veil { fill: ${lightDark(THEME.veil)}; }
    .ring { fill: none; stroke: ${lightDark(THEME.text)}; stroke-width: 2; }
    .focus { fill: none; stroke: ${lightDark(THEME.accent)}; stroke-width: 3; }
    .link { fill: none; stroke: ${lightDark(THEME.accent)}; stroke-width: 2; stroke-dasharray: 5 3; }
    .about {
        padding: 16px 18px; min-height: 120px;
        background: var(--panel); border: 1px solid var(--line); border-radius: 12px;
    }
    .about h3 { margin: 0 0 10px; overflow-wrap: anywhere; }
    .about h4 { margin: 16px 0 8px; font-size: 14px; overflow-wrap: anywhere; }
    .about p { margin: 0; }
    dl { margin: 0; display: grid; grid-template-columns: auto minmax(0, 1fr); gap: 6px 14px; font-size: 14px; }
    dt { color: var(--quiet); } dd { margin: 0; overflow-wrap: anywhere; }
    .about button { margin-top: 12px; }
    section { margin-top: 28px; } section h3 { margin-bottom: 8px; }
    .list { white-space: nowrap; } .long { min-width: 24ch; }
    .wide { overflow-x: auto; }
    tbody th, tbody td { vertical-align: middle; } tbody th { color: var(--ink); }
    td { overflow-wrap: break-word; max-width: 34ch; }
    tbody tr.on { background: var(--accent-tint); }
    .swatch { display: inline-block; flex: none; }
    button.name {
        min-height: 26px; padding: 0; border: 0; background: none; color: var(--accent); text-align: left;
        overflow-wrap: anywhere; justify-content: start;
    }
    button.name:hover:not(:disabled) { text-decoration: underline; background: none; }
    details summary { cursor: pointer; font-weight: 600; margin-top: 28px; }
    details h4 { margin: 18px 0 6px; font-size: 14px; }
    .keys { font-size: 13px; color: var(--quiet); margin: 10px 0 0; }
    @media print {
        :host { color-scheme: light; } .tools, .about, .keys, .over { display: none; } .view { display: block; }
        * { print-color-adjust: exact; }
        .stage svg { max-width: 100%; height: auto; }
        section, tr { break-inside: avoid; }
    }
`);
const MAP_STYLE = sheet(mapStyle());

export class ZunMachine extends HTMLElement {
    static observedAttributes = ["host"];

    #client = null;
    #data = null;
    #machine = null;
    #layout = null;
    #density = "";
    #problem = "";
    #disturbed = new Map(); // as of the last audit that was asked for
    #audited = ""; // what it said, in words
    #opened = false; // whether the tables of cells and devices are
    #hovered = null;
    #pinned = null;
    #focused = null;
    #stop = null; // the key with the tab stop
    #last = null; // the part that the arrow keys left for the claims
    #width = 0;
    #watch = null;
    #items = new Map();
    #root = this.attachShadow({mode: "open"});
    #sizes = new ResizeObserver(([entry]) => this.#resize(entry.contentRect.width));

    constructor() {
        super();
        this.#root.adoptedStyleSheets = [look, MAP_STYLE, STYLE];
    }

    get client() {
        return this.#client;
    }

    /** The client of api.js: the map follows the host of the attribute. */
    set client(client) {
        this.#client = client;
        this.#begin();
    }

    get data() {
        return this.#data;
    }

    /** An answer of `GET /v1/hosts/{host}/topology`, shown as it is. */
    set data(topology) {
        this.#data = topology;
        this.#machine = topology ? readMachine(topology, this.#machine) : null;
        if (this.#machine) {
            this.#machine.disturbed = this.#disturbed;
        }
        this.#problem = "";
        this.#draw();
    }

    connectedCallback() {
        this.#draw();
        this.#begin();
    }

    disconnectedCallback() {
        this.#watch?.stop();
        this.#watch = null;
        this.#sizes.disconnect();
    }

    attributeChangedCallback(name, before, now) {
        if (before !== now && before !== null) {
            [this.#disturbed, this.#audited] = [new Map(), ""];
            Object.assign(this, {data: null});
            this.#pinned = this.#hovered = this.#focused = this.#stop = null;
        }
        this.#begin();
    }

    #begin() {
        this.#watch?.stop();
        this.#watch = null;
        const host = this.getAttribute("host");
        if (this.#client && host && this.isConnected) {
            this.#watch = watch(
                this.#client,
                `/v1/hosts/${encodeURIComponent(host)}/topology`,
                (topology) => {
                    this.data = topology;
                },
                {onError: (error) => this.#fail(error)},
            );
        }
    }

    #fail(error) {
        this.#problem = error ? error.detail || error.title || error.message || String(error) : "";
        this.#draw();
    }

    #resize(width) {
        if (width > 0 && Math.abs(width - this.#width) >= 1) {
            this.#draw(width);
        }
    }

    #draw(width = null) {
        if (!this.isConnected) {
            return;
        }
        render(this.#template(), this.#root, {host: this});
        const stage = this.#root.querySelector(".stage");
        if (!stage) {
            return;
        }
        this.#sizes.observe(stage);
        this.#width = width ?? stage.clientWidth;
        this.#layout = layOut(this.#machine, this.#width, this.#density || densityOf(this.#machine));
        const map = stage.querySelector(".map");
        for (const each of stage.querySelectorAll("svg")) {
            each.setAttribute("width", this.#layout.width);
            each.setAttribute("height", this.#layout.height);
            each.setAttribute("viewBox", `0 0 ${this.#layout.width} ${this.#layout.height}`);
        }
        render(mapTemplate(this.#machine, this.#layout), map);
        this.#keep(map);
        this.#mark();
    }

    /** After an update: give the tab stop, and the focus if the map had it, to the same thing as before. */
    #keep(map) {
        this.#items = new Map(Array.from(map.querySelectorAll("[data-key]"), (each) => [each.dataset.key, each]));
        const inside = map.contains(this.#root.activeElement);
        const gone = (key) => key !== null && !this.#items.has(key);
        this.#pinned = gone(this.#pinned) ? null : this.#pinned;
        this.#hovered = gone(this.#hovered?.key ?? null) ? null : this.#hovered;
        this.#focused = gone(this.#focused) ? null : this.#focused;
        if (this.#stop === null || gone(this.#stop)) {
            this.#stop = this.#layout.cells[0]?.key ?? null;
        }
        for (const [key, item] of this.#items) {
            item.setAttribute("tabindex", key === this.#stop ? "0" : "-1");
        }
        if (inside && this.#root.activeElement !== this.#items.get(this.#stop)) {
            this.#items.get(this.#stop)?.focus({preventScroll: true});
        }
    }

    #template() {
        const machine = this.#machine;
        const problem = this.#problem
            ? html`<p class="notice bad" role="alert">The map cannot be read: ${this.#problem}</p>`
            : nothing;
        if (!machine) {
            return html`${problem} ${this.#problem ? nothing : html`<p role="status">The map is being read.</p>`}`;
        }
        const free = machine.cells.reduce((sum, cell) => sum + cell.free.length, 0);
        return html`
            ${problem}
            <div class="head">
                <p>${count(machine.cells.length, "cell")}, ${count(machine.cpus.size, "CPU")}, ${free} free;
                    ${count(machine.claims.length, "claim")}; generation ${machine.generation}</p>
                <div class="tools">
                    <label>Size
                        <select @change=${(event) => this.#choose(event.target.value)}>
                            <option value="">automatic</option>
                            ${Object.keys(DENSITIES).map((name) => html`<option value=${name}>${name}</option>`)}
                        </select>
                    </label>
                    ${
                        this.#client
                            ? html`<button class="small" @click=${() => this.#audit()}>Mark disturbed CPUs</button>`
                            : nothing
                    }
                    <button class="small" @click=${() => this.#save()}>Save as SVG</button>
                </div>
            </div>
            <p role="status">${this.#audited}</p>
            <div class="view">
                <div>
                    <div class="stage" @pointerover=${this.#over} @pointerleave=${this.#leave} @click=${this.#click}
                        @focusin=${this.#focus} @focusout=${this.#blur} @keydown=${this.#key}>
                        <svg class="map" role="application" aria-roledescription="map"
                            aria-label="Map of host ${machine.host}" aria-describedby="keys"></svg>
                        <svg class="over" aria-hidden="true"></svg>
                    </div>
                    <p class="keys" id="keys">Arrow keys go through cells, cores, memory and devices, and claims. Enter
                        keeps one marked, Escape lets it go.</p>
                </div>
                <div class="about" role="region" aria-label="Details" aria-live="polite"></div>
            </div>
            ${this.#tables(machine)}`;
    }

    #tables(machine) {
        return html`
            <section>
                <h3 id="claims">Claims</h3>
                ${
                    machine.claims.length
                        ? this.#claims(machine)
                        : html`<p class="quiet">No container holds anything here.</p>`
                }
            </section>
            <details @toggle=${(event) => this.#open(event.target.open)}>
                <summary>Cells and devices as tables</summary>
                ${this.#opened ? cellTable(machine) : nothing}
                ${this.#opened && machine.devices.length ? deviceTable(machine) : nothing}
                ${this.#opened && machine.foreign.length ? foreignTable(machine) : nothing}
            </details>`;
    }

    #claims(machine) {
        const heads = ["Container", "CPU policy", "CPUs", "Withheld", "Memory nodes", "Memory", "Devices"];
        return html`<div class="wide" tabindex="0" role="region" aria-labelledby="claims"><table>
            <thead><tr>${heads.map((head) => html`<th scope="col">${head}</th>`)}</tr></thead>
            <tbody>${machine.claims.map(
                (claim) => html`
                <tr data-row=${claim.key} @pointerenter=${() => this.#show(claim.key)} @pointerleave=${this.#leave}>
                    <th scope="row"><button class="name" aria-pressed=${this.#pinned === claim.key}
                        @click=${() => this.#pin(claim.key)} @focus=${() => this.#show(claim.key)} @blur=${this.#leave}
                        >${swatch(claim)}<span>${claim.title}</span></button></th>
                    <td>${claim.policy}</td>${listCell(cpuList(claim.cpus))}${listCell(cpuList(claim.withheld))}
                    <td>${claim.mems}</td>
                    <td>${mibText(Object.values(claim.memory).reduce((sum, mib) => sum + mib, 0))}</td>
                    <td>${claim.devices.join(", ")}</td>
                </tr>`,
            )}</tbody>
        </table></div>`;
    }

    #open(opened) {
        this.#opened = opened;
        this.#draw();
    }

    #choose(density) {
        this.#density = density;
        this.#draw();
    }

    /** Ask the host which CPUs of containers device interrupts came to, and mark them. */
    async #audit() {
        const host = this.getAttribute("host");
        let found;
        try {
            found = readDisturbed((await this.#client.post(`/v1/hosts/${encodeURIComponent(host)}/audit`)).body);
        } catch (error) {
            this.#audited = `The host could not be audited: ${error.detail || error.message || error}`;
            this.#draw();
            return;
        }
        if (host !== this.getAttribute("host")) {
            return;
        }
        this.#disturbed = found ?? new Map();
        const cpus = cpuList([...this.#disturbed.keys()]);
        this.#audited = found
            ? cpus
                ? `Device interrupts came to CPUs ${cpus} of containers in the last minute; they are marked with *.`
                : "No device interrupt came to a CPU of a container in the last minute."
            : "The host has no earlier audit to compare with. Ask again in a minute.";
        if (this.#machine) {
            this.#machine.disturbed = this.#disturbed;
        }
        this.#draw();
    }

    #save() {
        const text = mapFile(this.#machine, this.#layout);
        const link = document.createElement("a");
        link.href = URL.createObjectURL(new Blob([text], {type: "image/svg+xml"}));
        link.download = `${this.#machine.host.replace(/[^\w.-]+/g, "-")}.svg`;
        link.click();
        setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    }

    /** The map as the text of an SVG file. */
    get svg() {
        return this.#machine ? mapFile(this.#machine, this.#layout) : "";
    }

    #over = (event) => {
        const item = event.target.closest("[data-key]");
        const {cpu, claim} = event.target.dataset;
        if (claim) {
            this.#show(this.#machine.claims[claim].key);
        } else {
            this.#hovered = item ? {key: item.dataset.key, cpu: cpu ? Number(cpu) : null} : null;
            this.#mark();
        }
    };

    #leave = () => this.#show(null);

    #show(key) {
        this.#hovered = key && {key, cpu: null};
        this.#mark();
    }

    #click = (event) => {
        const item = event.target.closest("[data-key]");
        this.#pin(item ? item.dataset.key : null, event.target.dataset?.cpu);
    };

    #pin(key) {
        this.#pinned = this.#pinned === key ? null : key;
        for (const button of this.#root.querySelectorAll("tr[data-row] button")) {
            button.setAttribute("aria-pressed", button.closest("tr").dataset.row === this.#pinned);
        }
        this.#mark();
    }

    #focus = (event) => {
        const key = event.target.closest("[data-key]")?.dataset.key;
        if (key) {
            this.#items.get(this.#stop)?.setAttribute("tabindex", "-1");
            this.#items.get(key).setAttribute("tabindex", "0");
            this.#stop = key;
            this.#focused = event.target.matches(":focus-visible") ? key : null;
            this.#mark();
        }
    };

    #blur = () => {
        this.#focused = null;
        this.#mark();
    };

    #key = (event) => {
        if (event.key === "Escape" && this.#pinned) {
            this.#pin(this.#pinned);
        } else if (event.key === "Enter" || event.key === " ") {
            this.#pin(this.#stop);
        } else {
            const levels = levelsOf(this.#layout);
            const claims = claimsOf(this.#machine, this.#layout, this.#stop);
            const key = step(levels, this.#stop, event.key, {
                claims,
                last: this.#items.has(this.#last) ? this.#last : null,
            });
            if (key === null) {
                return;
            }
            this.#hovered = null;
            this.#last = levels[1].some((part) => part.key === this.#stop) ? this.#stop : this.#last;
            this.#items.get(key)?.focus();
            this.#items.get(key)?.scrollIntoView?.({block: "nearest", inline: "nearest"});
        }
        event.preventDefault();
    };

    /** Draw the marks over the map and the panel: of what is pinned, else below the pointer, else focused. */
    #mark() {
        const over = this.#root.querySelector(".over");
        if (!over || !this.#layout) {
            return;
        }
        const machine = this.#machine;
        const layout = this.#layout;
        const active =
            (this.#pinned && {key: this.#pinned, cpu: null}) ||
            this.#hovered ||
            (this.#focused && {key: this.#focused, cpu: null});
        const claims = active ? claimsOf(machine, layout, active.key, active.cpu) : [];
        const keys = active
            ? claims.length
                ? claims
                : /^(claim|state|device)/.test(active.key)
                  ? [active.key]
                  : []
            : [];
        const boxes = keys.flatMap((key) => boxesOf(machine, layout, key));
        const focus = this.#focused
            ? boxesOf(machine, layout, this.#focused).filter((box) => box.key === this.#focused || !box.key)
            : [];
        const focusBox = focus.find((box) => box.key === this.#focused) ?? focus[0];
        render(
            svg`
            <path class="veil" d=${boxes.length ? veil(layout, boxes) : ""} fill-rule="evenodd"></path>
            <path class="ring" d=${boxes.map((box) => outline(box, 1)).join("")}></path>
            <path class="link" d=${active ? linkLines(layout, active.key) : ""}></path>
            <path class="focus" d=${focusBox ? outline(focusBox, 2) : ""}></path>`,
            over,
        );
        for (const row of this.#root.querySelectorAll("tr[data-row]")) {
            row.classList.toggle("on", claims.includes(row.dataset.row));
        }
        this.#tell(
            active?.key ?? null,
            claims.filter((claim) => claim !== active.key),
        );
    }

    /** Tell about one thing, and about the claims that it belongs to. */
    #tell(key, claims) {
        const about = details(this.#machine, key);
        this.#root.querySelector(".about").classList.toggle("kept", this.#pinned !== null);
        const holders = claims.map((claim) => details(this.#machine, claim));
        render(
            about
                ? html`<h3>${about.title}</h3>
                ${rowList(about.rows)}
                ${holders.map(({title, rows}) => html`<h4>${title}</h4>${rowList(rows)}`)}
                ${
                    this.#pinned === key
                        ? html`<button class="small" @click=${() => this.#pin(key)}>Let go</button>`
                        : nothing
                }`
                : html`<h3>Details</h3><p class="quiet">Point at a CPU, a bar, a device or a claim to see who holds it.
                A click keeps it marked.</p>`,
            this.#root.querySelector(".about"),
        );
    }
}

function rowList(rows) {
    return html`<dl>${rows.map(([term, text]) => html`<dt>${term}</dt><dd>${text}</dd>`)}</dl>`;
}

function outline({x, y, w, h}, by) {
    return `M${x - by} ${y - by}h${w + 2 * by}v${h + 2 * by}h${-w - 2 * by}z`;
}

function veil(layout, boxes) {
    return `M0 0h${layout.width}v${layout.height}h${-layout.width}z${boxes.map((box) => outline(box, 0)).join("")}`;
}

function linkLines(layout, key) {
    const chips = layout.cells.flatMap((cell) => cell.devices);
    const from = chips.find((chip) => chip.key === key);
    const to = from ? chips.filter((chip) => from.device.links.includes(chip.device.address)) : [];
    const middle = (chip) => [chip.x + chip.w / 2, chip.y + chip.h / 2];
    return to.map((chip) => `M${middle(from)}L${middle(chip)}`).join("");
}

function swatch(claim) {
    const {fill, ink} = claim.paint;
    return html`<svg class="swatch" width="26" height="20" aria-hidden="true">
        <rect width="26" height="20" rx="3" fill=${fill}></rect>
        <text x="13" y="14.5" font-size="12" font-weight="700" text-anchor="middle" fill=${ink}>${claim.label}</text>
    </svg>`;
}

/** Return the cell of a table with a list of CPUs: only a long list is broken. */
function listCell(text) {
    return html`<td class=${text.length > 24 ? "long" : "list"}>${text}</td>`;
}

function table(heads, rows) {
    return html`<table>
        <thead><tr>${heads.map((head) => html`<th scope="col">${head}</th>`)}</tr></thead>
        <tbody>${rows.map(
            ([first, ...rest]) => html`
            <tr><th scope="row">${first}</th>${rest.map((text) => html`<td>${text}</td>`)}</tr>`,
        )}</tbody>
    </table>`;
}

function titledTable(id, title, heads, rows) {
    return html`<h4 id=${id}>${title}</h4>
        <div class="wide" tabindex="0" role="region" aria-labelledby=${id}>${table(heads, rows)}</div>`;
}

function cellTable(machine) {
    const heads = ["Cell", "CPUs", "Free CPUs", "Whole cores free", "L3 groups", "Memory", "Huge pages", "Distances"];
    const rows = machine.cells.map((cell) => [
        cell.id,
        cpuList(cell.cpus),
        cpuList(cell.free),
        cell.cpus.length ? cell.freeCores : "",
        cell.groups
            .filter((group) => group.l3)
            .map((group) => group.l3)
            .join("; "),
        cell.memory[0]?.words ?? "none",
        cell.memory
            .slice(1)
            .map((bar) => `${bar.label}: ${bar.words}`)
            .join("; "),
        Object.entries(cell.distances)
            .map(([id, far]) => `${far} to ${id}`)
            .join(", "),
    ]);
    return titledTable("cells", "Cells", heads, rows);
}

function deviceTable(machine) {
    const heads = ["Device", "Kind", "Cell", "Switch", "Part of", "Held", "Held by", "Links", "Resource class"];
    const rows = machine.devices.map((device) => [
        device.address,
        device.kind,
        device.cell ?? "unknown",
        device.switch ?? "",
        device.physical ?? "",
        `${device.held} of ${device.shares}`,
        device.holders.map((index) => machine.claims[index].title).join(", "),
        device.links.join(", "),
        device.resource_class ?? "",
    ]);
    return titledTable("devices", "Devices", heads, rows);
}

function foreignTable(machine) {
    const rows = machine.foreign.map((share) => [
        share.cell === null ? "the host" : `cell ${share.cell}`,
        foreignText(share),
    ]);
    return titledTable("foreign", "Other services", ["Of", "Amounts"], rows);
}

customElements.define("zun-machine", ZunMachine);
