// SPDX-License-Identifier: Apache-2.0

/** The SVG map of a machine, from the boxes of machine-layout.js, and the same map as a file of its own. */

import {nothing, render, svg} from "./vendor/lit-html.js";
import {markOf, stateText} from "./machine-model.js";
import {STATE_PAINTS, THEME, count, lightDark} from "./words.js";

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';

const SVG = "http://www.w3.org/2000/svg";

const LINES = {
    rising: "M-2 2l4-4M0 8l8-8M6 10l4-4",
    falling: "M-2 6l4 4M0 0l8 8M6-2l4 4",
    level: "M0 2h8M0 6h8",
    upright: "M2 0v8M6 0v8",
    grid: "M0 4h8M4 0v8",
    cross: "M-2 2l4-4M0 8l8-8M6 10l4-4M-2 6l4 4M0 0l8 8M6-2l4 4",
    waves: "M0 2q2-2.6 4 0t4 0M0 6q2-2.6 4 0t4 0",
    dots: "M1 2a1 1 0 1 0 2 0a1 1 0 1 0-2 0M5 6a1 1 0 1 0 2 0a1 1 0 1 0-2 0",
};

/** Return the style of the map. `colour` makes a CSS colour of a pair: of both colours, or of one of them. */
export function mapStyle(colour = lightDark) {
    const {line, edge} = THEME;
    const states = Object.entries(STATE_PAINTS).map(
        ([state, paint]) => `
        .s-${state} { fill: ${colour(paint.fill)}; }
        .l-${state} { fill: none; stroke: ${colour(paint.line)}; }
        .d-${state} { fill: ${colour(paint.line)}; }
        .i-${state} { fill: ${colour(paint.ink)}; }`,
    );
    return `
        .map { fill: ${colour(THEME.text)}; }
        text {
            font-family: ${FONT}; font-variant-numeric: tabular-nums; pointer-events: none; unicode-bidi: isolate;
            text-rendering: optimizeSpeed;
        }
        .title { font-weight: 600; }
        .mark { font-weight: 700; }
        .words { fill: ${colour(THEME.muted)}; }
        .cell { fill: ${colour(THEME.cell)}; stroke: ${colour(line)}; }
        .socket { fill: none; stroke: ${colour(edge)}; stroke-width: 1.5; }
        .group { fill: none; stroke: ${colour(edge)}; stroke-dasharray: 3 3; }
        .core { fill: ${colour(THEME.core)}; stroke: ${colour(line)}; }
        .thread, .chip, .bar, .frame { stroke: ${colour(edge)}; stroke-width: 0.75; }
        .thread.held { stroke: none; }
        .thread.offline { stroke-dasharray: 2 2; }
        .chip { fill: ${colour(THEME.core)}; }
        .bar { fill: ${colour(STATE_PAINTS.free.fill)}; }
        .frame { fill: none; }
        .own { fill: ${colour(line)}; }
        .back { fill: transparent; }
        ${states.join("")}`;
}

/** Return the template of the map, for the values of machine-model.js and the boxes of machine-layout.js. */
export function mapTemplate(machine, layout) {
    const {pad, title} = layout.sizes;
    const named = ({label, x, y}) => words({text: label, x: x + pad, y: y + title + pad - 4}, title, "title");
    return svg`
        <defs>${patterns(machine)}</defs>
        ${layout.sockets.map((socket) => svg`${box("socket", socket, {inset: 0.5, rx: 10})} ${named(socket)}`)}
        ${layout.cells.map((cell) => cellTemplate(machine, layout, cell))}
        ${layout.matrix ? matrixTemplate(layout) : nothing}
        <g role="group" aria-label="Claims and states">
            ${layout.legend.map((item) => legendTemplate(machine, item))}
        </g>`;
}

/** Return a rectangle. A stroke is sharp on a box that is smaller by half a pixel at each side. */
function box(kind, {x, y, w, h}, {inset = 0, rx = 0, fill = nothing, claim = nothing, state = nothing} = {}) {
    return svg`<rect class=${kind} x=${x + inset} y=${y + inset} width=${Math.max(0, w - 2 * inset)}
        height=${Math.max(0, h - 2 * inset)} rx=${rx} fill=${fill} data-claim=${claim} data-state=${state}></rect>`;
}

function words({text, x, y, anchor = "start"}, size, kind = nothing, ink = nothing) {
    return svg`<text class=${kind} x=${x} y=${y} font-size=${size} text-anchor=${anchor} fill=${ink}>${text}</text>`;
}

/** Return one thing that can be pointed at, chosen and reached with arrow keys. Its name tells more than its texts. */
function item(key, name, content) {
    return svg`<g class="item" data-key=${key} tabindex="-1" role="img" aria-label=${name}>${content}</g>`;
}

/** Return a pattern for each claim and for each state, with its colour below. Withheld CPUs have lines only. */
function patterns(machine) {
    const held = machine.claims.map(({index, paint}) => [
        pattern(`claim-${index}`, paint.pattern, {fill: paint.fill, stroke: paint.line}),
        pattern(`withheld-${index}`, "rising", {name: "free", stroke: paint.fill, opacity: 0.5}),
    ]);
    const states = Object.entries(STATE_PAINTS).map(([name, paint]) => pattern(`state-${name}`, paint.pattern, {name}));
    return [held, states, pattern("withheld-any", "rising", {name: "free"})];
}

/** Return a pattern: `name` of a state gives its colours, unless `fill` and `stroke` do. */
function pattern(id, kind, {name, fill = nothing, stroke, opacity = 1}) {
    const dots = kind === "dots";
    const line = stroke
        ? svg`<path d=${LINES[kind]} opacity=${opacity} stroke-width="1.1" fill=${dots ? stroke : "none"}
              stroke=${dots ? "none" : stroke}></path>`
        : svg`<path d=${LINES[kind]} stroke-width="1.1" class=${`${dots ? "d" : "l"}-${name}`}></path>`;
    return svg`<pattern id=${id} width="8" height="8" patternUnits="userSpaceOnUse">
        <rect width="8" height="8" class=${fill === nothing ? `s-${name}` : nothing} fill=${fill}></rect>
        ${kind in LINES ? line : nothing}
    </pattern>`;
}

function cellTemplate(machine, layout, cell) {
    const {sizes} = layout;
    const name = cell.titles
        .flatMap((title) => [title.text, title.beside?.text])
        .filter(Boolean)
        .join(", ");
    const titles = cell.titles.map((title) => [
        words(title, title.size, title.kind),
        title.beside ? words({...title.beside, y: title.y, anchor: "end"}, title.beside.size, "words") : nothing,
    ]);
    const groups = [...cell.l3, ...cell.switches].map((group) => [
        box("group", group, {inset: 0.5, rx: 5}),
        words({text: group.label, x: group.x + sizes.gap + 2, y: group.y + sizes.number + 3}, sizes.number, "words"),
    ]);
    return svg`<g>
        ${item(cell.key, name, [box("cell", cell, {inset: 0.5, rx: 8}), titles])}
        ${groups}
        ${cell.cores.map((core) => coreTemplate(machine, core, sizes))}
        ${cell.bars.map((bar) => barTemplate(cell, bar, sizes))}
        ${cell.devices.map((chip) => deviceTemplate(machine, chip, sizes))}
    </g>`;
}

function coreTemplate(machine, core, sizes) {
    const told = core.cpus.map((cpu) => `CPU ${cpu} ${stateText(machine, machine.cpus.get(cpu))}`);
    const name = core.cpus.length > 1 ? `core of ${count(core.cpus.length, "thread")}: ${told.join("; ")}` : told[0];
    return item(core.key, name, [
        box("core", core, {inset: 0.5, rx: 4}),
        core.threads.map((thread) => threadTemplate(machine, thread, sizes)),
    ]);
}

/** Return the paint of one CPU: its pattern, and the ink on it as a colour or a class. */
function paintOf(machine, {state, claims}) {
    const claim = machine.claims[claims[0]];
    if (state === "held") {
        return {fill: `url(#claim-${claim.index})`, ink: claim.paint.ink, kind: ""};
    }
    return state === "withheld"
        ? {fill: `url(#withheld-${claim.index})`, ink: nothing, kind: "i-free"}
        : {fill: `url(#state-${state})`, ink: nothing, kind: `i-${state}`};
}

/** Return one CPU in one template: a machine has many. */
function threadTemplate(machine, thread, sizes) {
    const each = machine.cpus.get(thread.cpu);
    const {fill, ink, kind} = paintOf(machine, each);
    const {cpu, x, y, w, h} = thread;
    const mark = markOf(machine, each);
    const edge = sizes.number * 0.4;
    const base = y + h / 2 + sizes.number * 0.36;
    return svg`<rect class="thread ${each.state}" x=${x} y=${y} width=${w} height=${h} rx="2.5" fill=${fill}
            data-cpu=${cpu} data-state=${each.state}></rect>
        <text class=${kind} x=${mark ? x + edge : x + w / 2} y=${base} font-size=${sizes.number}
            text-anchor=${mark ? "start" : "middle"} fill=${ink}>${cpu}</text>
        <text class="mark ${kind}" x=${x + w - edge} y=${base} font-size=${sizes.label} text-anchor="end"
            fill=${ink}>${mark}</text>`;
}

function barTemplate(cell, bar, sizes) {
    const segments = bar.segments.map((segment) => {
        const fill = segment.state ? `url(#state-${segment.state})` : `url(#claim-${segment.claim})`;
        return box("", segment, {rx: 1.5, fill, claim: segment.claim ?? nothing, state: segment.state ?? nothing});
    });
    return item(bar.key, `cell ${cell.id}, ${bar.name}`, [
        box("back", bar.area),
        words(bar.label, sizes.label, "words"),
        words(bar.words, sizes.label, "words"),
        box("bar", bar, {inset: 0.5, rx: 2}),
        segments,
    ]);
}

function deviceTemplate(machine, chip, sizes) {
    const {device, x, y, w, h} = chip;
    const base = y + h / 2 + sizes.label * 0.36;
    const holders = device.holders.map((index) => machine.claims[index]);
    const names = holders.map((claim) => `${claim.label} ${claim.title}`).join(", ");
    const held = names ? `held by ${names}` : device.held ? "held" : "free";
    const shares = device.shares > 1 ? `, ${device.held} of ${count(device.shares, "share")} held` : "";
    const side = holders.length ? sizes.label * 1.9 : 0;
    const stripes = holders.slice(0, 4).map(({index}, at, {length}) => {
        const stripe = {x: x + w - side - 1 + (at * side) / length, y: y + 1, w: side / length, h: h - 2};
        return box("", stripe, {rx: 3, fill: `url(#claim-${index})`});
    });
    const mark =
        holders.length === 1 && device.shares === 1
            ? words(
                  {text: holders[0].label, x: x + w - side / 2 - 1, y: base, anchor: "middle"},
                  sizes.label,
                  "mark",
                  holders[0].paint.ink,
              )
            : words({text: chip.mark, x: x + w - side - 6, y: base, anchor: "end"}, sizes.number, "words");
    return item(chip.key, `${device.kind} ${device.address}, ${held}${shares}`, [
        box("chip", chip, {inset: 0.5, rx: 4}),
        words({text: chip.text, x: x + 7, y: base}, sizes.label),
        stripes,
        mark,
    ]);
}

function matrixTemplate({matrix, sizes}) {
    return svg`<g role="group" aria-label="Distances between cells">
        ${words(matrix.title, sizes.title, "title")}
        ${matrix.heads.map((head) => words(head, sizes.label, "words"))}
        ${matrix.boxes.map((each) => [
            box(each.own ? "frame own" : "frame", each),
            words({text: each.text, x: each.x + each.w / 2, y: each.y + each.h - 6, anchor: "middle"}, sizes.label),
        ])}
    </g>`;
}

function legendTemplate(machine, chip) {
    const {key, state, x, y, w, h, size, swatch, mark, text} = chip;
    const claim = machine.claims[chip.claim];
    const fill = claim
        ? `url(#claim-${chip.claim})`
        : state === "withheld"
          ? "url(#withheld-any)"
          : `url(#state-${state})`;
    const kind = claim ? "mark" : `mark i-${state === "withheld" ? "free" : state}`;
    const base = y + h / 2 + size * 0.36;
    const named = claim?.anonymous
        ? `held, ${claim.policy}`
        : claim && `${claim.label} ${claim.title}, ${claim.policy}`;
    return item(key, claim ? `claim: ${named}` : `state: ${text}`, [
        box("back", {x, y, w, h}),
        box(`thread ${state ?? "held"}`, {x, y: y + 1, w: swatch, h: h - 2}, {inset: 0.5, rx: 3, fill}),
        words(
            {text: mark, x: x + swatch / 2, y: base, anchor: "middle"},
            size,
            kind,
            claim ? claim.paint.ink : nothing,
        ),
        words({text, x: x + swatch + 7, y: base}, size),
    ]);
}

/**
 * Return the map as the text of an SVG file: with its style and one colour each, and nothing that runs or is fetched.
 *
 * @param {number} scheme 0 for light, 1 for dark
 */
export function mapFile(machine, layout, scheme = 0) {
    const root = document.createElementNS(SVG, "svg");
    const pad = 16;
    const [width, height] = [layout.width + 2 * pad, layout.height + 3 * pad + 20];
    const colour = (pair) => pair[scheme];
    render(
        svg`
        <title>Host ${machine.host}, generation ${machine.generation}</title>
        <rect width="100%" height="100%" fill=${scheme ? "#14181d" : "#ffffff"}></rect>
        ${words({text: `${machine.host}, generation ${machine.generation}`, x: pad, y: pad + 14}, 16, "title")}
        <g transform="translate(${pad} ${2 * pad + 16})">${mapTemplate(machine, layout)}</g>`,
        root,
    );
    for (const each of root.querySelectorAll("[tabindex]")) {
        each.removeAttribute("tabindex");
        each.removeAttribute("role");
    }
    const comments = document.createTreeWalker(root, NodeFilter.SHOW_COMMENT);
    const gone = [];
    while (comments.nextNode()) {
        gone.push(comments.currentNode);
    }
    gone.forEach((comment) => comment.remove());
    const style = document.createElementNS(SVG, "style");
    style.textContent = mapStyle(colour);
    root.prepend(root.querySelector("title"), style);
    root.setAttribute("class", "map");
    root.setAttribute("viewBox", `0 0 ${width} ${height}`);
    root.setAttribute("width", width);
    root.setAttribute("height", height);
    root.setAttribute("role", "img");
    return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(root)}\n`;
}
