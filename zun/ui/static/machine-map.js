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
    const states = Object.entries(STATE_PAINTS).map(
        ([state, paint]) => `
        .s-${state} { fill: ${colour(paint.fill)}; } .l-${state} { stroke: ${colour(paint.line)}; fill: none; }
        .d-${state} { fill: ${colour(paint.line)}; } .i-${state} { fill: ${colour(paint.ink)}; }`,
    );
    return `
        .map { fill: ${colour(THEME.text)}; }
        text { font-family: ${FONT}; font-variant-numeric: tabular-nums; pointer-events: none; unicode-bidi: isolate; }
        .cell { fill: ${colour(THEME.cell)}; stroke: ${colour(THEME.line)}; }
        .socket { fill: none; stroke: ${colour(THEME.edge)}; stroke-width: 1.5; }
        .group { fill: none; stroke: ${colour(THEME.edge)}; stroke-dasharray: 3 3; }
        .core { fill: ${colour(THEME.core)}; stroke: ${colour(THEME.line)}; }
        .thread { stroke: ${colour(THEME.edge)}; stroke-width: 0.75; }
        .thread.held { stroke: none; }
        .thread.offline { stroke-dasharray: 2 2; }
        .bar { fill: ${colour(STATE_PAINTS.free.fill)}; stroke: ${colour(THEME.edge)}; stroke-width: 0.75; }
        .title { font-weight: 600; } .words, .quiet { fill: ${colour(THEME.muted)}; } .mark { font-weight: 700; }
        .chip { fill: ${colour(THEME.core)}; stroke: ${colour(THEME.edge)}; stroke-width: 0.75; }
        .frame { fill: none; stroke: ${colour(THEME.edge)}; stroke-width: 0.75; }
        .own { fill: ${colour(THEME.line)}; }
        .back { fill: transparent; }
        ${states.join("")}`;
}

/** Return the template of the map, for the values of machine-model.js and the boxes of machine-layout.js. */
export function mapTemplate(machine, layout) {
    return svg`
        <defs>${patterns(machine)}</defs>
        ${layout.sockets.map(
            (socket) => svg`
            <rect class="socket" x=${socket.x + 0.5} y=${socket.y + 0.5} width=${socket.w - 1} height=${socket.h - 1} rx="10"></rect>
            ${words({text: socket.label, x: socket.x + layout.sizes.pad, y: socket.y + layout.sizes.title + layout.sizes.pad - 4}, layout.sizes.title, "title")}`,
        )}
        ${layout.cells.map((cell) => cellTemplate(machine, layout, cell))}
        ${layout.matrix ? matrixTemplate(layout) : nothing}
        <g role="group" aria-label="Claims and states">${layout.legend.map((item) => legendTemplate(machine, item))}</g>`;
}

function words({text, x, y, anchor = "start"}, size, kind = "") {
    return svg`<text class=${kind} x=${x} y=${y} font-size=${size} text-anchor=${anchor}>${text}</text>`;
}

/** Return a pattern for each claim and for each state, with its colour below. Withheld CPUs have lines only. */
function patterns(machine) {
    const held = machine.claims.map(
        ({index, paint}) => svg`
        ${pattern(`claim-${index}`, paint.pattern, svg`<rect width="8" height="8" fill=${paint.fill}></rect>`, {
            stroke: paint.line,
        })}
        ${pattern(`withheld-${index}`, "rising", svg`<rect width="8" height="8" class="s-free"></rect>`, {
            stroke: paint.fill,
            opacity: 0.5,
        })}`,
    );
    const states = Object.entries(STATE_PAINTS).map(([state, paint]) =>
        pattern(`state-${state}`, paint.pattern, svg`<rect width="8" height="8" class="s-${state}"></rect>`, {
            name: state,
        }),
    );
    const idle = svg`<rect width="8" height="8" class="s-free"></rect>`;
    return [held, states, pattern("withheld-any", "rising", idle, {name: "free"})];
}

function pattern(id, kind, below, {stroke, opacity = 1, name}) {
    const lines = LINES[kind];
    const filled = kind === "dots";
    const style = name ? (filled ? `d-${name}` : `l-${name}`) : nothing;
    const line = !lines
        ? nothing
        : svg`<path d=${lines} class=${style} opacity=${opacity} stroke-width="1.1"
        stroke=${stroke && !filled ? stroke : nothing} fill=${stroke && filled ? stroke : stroke ? "none" : nothing}></path>`;
    return svg`<pattern id=${id} width="8" height="8" patternUnits="userSpaceOnUse">${below}${line}</pattern>`;
}

function cellTemplate(machine, layout, cell) {
    const {sizes} = layout;
    return svg`<g>
        <g class="item" data-key=${cell.key} tabindex="-1" role="button" aria-label=${cellName(cell)}>
            <rect class="cell" x=${cell.x + 0.5} y=${cell.y + 0.5} width=${cell.w - 1} height=${cell.h - 1} rx="8"></rect>
            ${cell.titles.map(
                (title) => svg`
                ${words(title, title.size, title.kind)}
                ${title.beside ? words({...title.beside, y: title.y, anchor: "end"}, title.beside.size, "words") : nothing}`,
            )}
        </g>
        ${cell.l3.map(
            (group) => svg`
            <rect class="group" x=${group.x + 0.5} y=${group.y + 0.5} width=${group.w - 1} height=${group.h - 1} rx="5"></rect>
            ${words({text: group.label, x: group.x + sizes.gap + 2, y: group.y + sizes.number + 2}, sizes.number, "quiet")}`,
        )}
        ${cell.cores.map((core) => coreTemplate(machine, core, sizes))}
        ${cell.bars.map((bar) => barTemplate(machine, bar, sizes))}
        ${cell.switches.map(
            (each) => svg`
            <rect class="group" x=${each.x + 0.5} y=${each.y + 0.5} width=${each.w - 1} height=${each.h - 1} rx="5"></rect>
            ${words({text: each.label, x: each.x + sizes.gap + 3, y: each.y + sizes.number + 4}, sizes.number, "quiet")}`,
        )}
        ${cell.devices.map((chip) => deviceTemplate(machine, chip, sizes))}
    </g>`;
}

function cellName(cell) {
    return cell.titles
        .flatMap((title) => [title.text, title.beside?.text])
        .filter(Boolean)
        .join(", ");
}

function coreTemplate(machine, core, sizes) {
    const told = core.cpus.map((cpu) => `CPU ${cpu} ${stateText(machine, machine.cpus.get(cpu))}`);
    const name = core.cpus.length > 1 ? `core of ${count(core.cpus.length, "thread")}: ${told.join("; ")}` : told[0];
    return svg`<g class="item" data-key=${core.key} tabindex="-1" role="button" aria-label=${name}>
        <rect class="core" x=${core.x + 0.5} y=${core.y + 0.5} width=${core.w - 1} height=${core.h - 1} rx="4"></rect>
        ${core.threads.map((thread) => threadTemplate(machine, thread, sizes))}
    </g>`;
}

/** Return the paint of one CPU: the id of its pattern, and the ink on it as a colour or a class. */
function paintOf(machine, each) {
    const claim = machine.claims[each.claims[0]];
    if (each.state === "held") {
        return {fill: `url(#claim-${claim.index})`, ink: claim.paint.ink, kind: ""};
    }
    if (each.state === "withheld") {
        return {fill: `url(#withheld-${claim.index})`, ink: nothing, kind: "i-free"};
    }
    return {fill: `url(#state-${each.state})`, ink: nothing, kind: `i-${each.state}`};
}

function threadTemplate(machine, thread, sizes) {
    const each = machine.cpus.get(thread.cpu);
    const {fill, ink, kind} = paintOf(machine, each);
    const {x, y, w, h} = thread;
    const base = y + h / 2 + sizes.number * 0.36;
    const mark = markOf(machine, each);
    return svg`<rect class="thread ${each.state}" data-cpu=${thread.cpu} data-state=${each.state} x=${x} y=${y} width=${w} height=${h} rx="2.5" fill=${fill}></rect>
        <text class=${kind} x=${mark ? x + sizes.number * 0.4 : x + w / 2} y=${base} font-size=${sizes.number} text-anchor=${mark ? "start" : "middle"} fill=${ink}>${thread.cpu}</text>
        ${mark ? svg`<text class="mark ${kind}" x=${x + w - sizes.number * 0.4} y=${base} font-size=${sizes.label} text-anchor="end" fill=${ink}>${mark}</text>` : nothing}`;
}

function barTemplate(machine, bar, sizes) {
    const fill = (segment) => (segment.state ? `url(#state-${segment.state})` : `url(#claim-${segment.claim})`);
    return svg`<g class="item" data-key=${bar.key} tabindex="-1" role="button" aria-label="${bar.key.split(":")[1] ? `cell ${bar.key.split(":")[1]}, ` : ""}${bar.label.text}: ${bar.words.text}">
        <rect class="back" x=${bar.area.x} y=${bar.area.y} width=${bar.area.w} height=${bar.area.h}></rect>
        ${words(bar.label, sizes.label, "words")} ${words(bar.words, sizes.label, "words")}
        <rect class="bar" x=${bar.x + 0.5} y=${bar.y + 0.5} width=${bar.w - 1} height=${bar.h - 1} rx="2"></rect>
        ${bar.segments.map((segment) => svg`<rect x=${segment.x} y=${segment.y} width=${segment.w} height=${segment.h} rx="1.5" fill=${fill(segment)} data-claim=${segment.claim ?? nothing} data-state=${segment.state ?? nothing}></rect>`)}
    </g>`;
}

function deviceTemplate(machine, chip, sizes) {
    const {device, x, y, w, h} = chip;
    const base = y + h / 2 + sizes.label * 0.36;
    const holders = device.holders.slice(0, 4);
    const side = sizes.label * 1.9;
    const names = device.holders
        .map((index) => `${machine.claims[index].label} ${machine.claims[index].title}`)
        .join(", ");
    const held = names ? `held by ${names}` : device.held ? "held" : "free";
    const shares = device.shares > 1 ? `, ${device.held} of ${count(device.shares, "share")} held` : "";
    return svg`<g class="item" data-key=${chip.key} data-device=${device.address} tabindex="-1" role="button"
            aria-label="${device.kind} ${device.address}, ${held}${shares}">
        <rect class="chip" x=${x + 0.5} y=${y + 0.5} width=${w - 1} height=${h - 1} rx="4"></rect>
        ${words({text: chip.text, x: x + 7, y: base}, sizes.label)}
        ${holders.map((index, at) => {
            const wide = side / holders.length;
            return svg`<rect x=${x + w - side - 1 + at * wide} y=${y + 1} width=${wide} height=${h - 2} rx="3" fill="url(#claim-${index})"></rect>`;
        })}
        ${
            holders.length === 1 && device.shares === 1
                ? svg`<text class="mark" x=${x + w - side / 2 - 1} y=${base} font-size=${sizes.label} text-anchor="middle" fill=${machine.claims[holders[0]].paint.ink}>${machine.claims[holders[0]].label}</text>`
                : chip.mark
                  ? svg`<text class="words" x=${x + w - (holders.length ? side + 5 : 7)} y=${base} font-size=${sizes.number} text-anchor="end">${chip.mark}</text>`
                  : nothing
        }
    </g>`;
}

function matrixTemplate(layout) {
    const {matrix, sizes} = layout;
    return svg`<g role="group" aria-label="Distances between cells">
        ${words(matrix.title, sizes.title, "title")}
        ${matrix.heads.map((head) => words(head, sizes.label, "words"))}
        ${matrix.boxes.map(
            (box) => svg`
            <rect class=${box.own ? "frame own" : "frame"} x=${box.x} y=${box.y} width=${box.w} height=${box.h}></rect>
            ${words({text: box.text, x: box.x + box.w / 2, y: box.y + box.h - 6, anchor: "middle"}, sizes.label)}`,
        )}
    </g>`;
}

function legendTemplate(machine, item) {
    const paint = item.state
        ? {
              fill: item.state === "withheld" ? "url(#withheld-any)" : `url(#state-${item.state})`,
              ink: nothing,
              kind: `i-${item.state === "withheld" ? "free" : item.state}`,
          }
        : {fill: `url(#claim-${item.claim})`, ink: machine.claims[item.claim].paint.ink, kind: ""};
    const base = item.y + item.h / 2 + item.size * 0.36;
    return svg`<g class="item" data-key=${item.key} tabindex="-1" role="button" aria-label=${legendName(machine, item)}>
        <rect class="back" x=${item.x} y=${item.y} width=${item.w} height=${item.h}></rect>
        <rect class="thread ${item.state ?? "held"}" x=${item.x + 0.5} y=${item.y + 1.5} width=${item.swatch - 1} height=${item.h - 3} rx="3" fill=${paint.fill}></rect>
        <text class="mark ${paint.kind}" x=${item.x + item.swatch / 2} y=${base} font-size=${item.size} text-anchor="middle" fill=${paint.ink}>${item.mark}</text>
        ${words({text: item.text, x: item.x + item.swatch + 7, y: base}, item.size)}
    </g>`;
}

function legendName(machine, item) {
    if (item.state) {
        return `state: ${item.text}`;
    }
    const claim = machine.claims[item.claim];
    return claim.anonymous ? `claim: held, ${claim.policy}` : `claim ${claim.label}: ${claim.title}, ${claim.policy}`;
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
