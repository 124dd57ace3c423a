// SPDX-License-Identifier: Apache-2.0

/**
 * Where everything of a machine is drawn: boxes in CSS pixels, from the values of machine-model.js and a width.
 *
 * The layout is pure. A cell has its L3 groups with their cores, then its memory, then its devices. Cells of one socket
 * stand in one box if a socket has several. Of all numbers of columns, the layout takes the one of the least height.
 */

import {markOf} from "./machine-model.js";
import {STATES, count} from "./words.js";

const NARROW = 480; // below this, cells take all of the width

/** The sizes of each density, in pixels. `fonts` are the CPU's number, labels and titles. */
export const DENSITIES = {
    roomy: {name: "roomy", thread: 26, number: 11, label: 12, title: 15, pad: 14, gap: 5, cell: 250, bar: 16, chip: 26},
    normal: {
        name: "normal",
        thread: 20,
        number: 10,
        label: 11,
        title: 13.5,
        pad: 11,
        gap: 4,
        cell: 210,
        bar: 12,
        chip: 22,
    },
    dense: {
        name: "dense",
        thread: 14,
        number: 9,
        label: 10,
        title: 12,
        pad: 7,
        gap: 2,
        cell: 130,
        bar: 9,
        chip: 18,
        bare: true,
    },
};

/** Return the density that suits a machine: dense from 400 CPUs on. */
export function densityOf(machine) {
    const cpus = machine.cpus.size;
    return cpus > 400 ? "dense" : cpus > 96 ? "normal" : "roomy";
}

/** Return about how wide a text is: wide characters count as one em, all others as a little more than half. */
export function textWidth(text, size) {
    let ems = 0;
    for (const character of text) {
        ems +=
            character.codePointAt(0) >= 0x1100
                ? 1.05
                : /[MWmw@%]/.test(character)
                  ? 0.9
                  : /[A-Z]/.test(character)
                    ? 0.68
                    : 0.56;
    }
    return ems * size;
}

/** Return the text, cut with an ellipsis if it is wider than `width`. */
export function fitted(text, width, size) {
    if (textWidth(text, size) <= width) {
        return text;
    }
    const characters = [...text];
    while (characters.length && textWidth(`${characters.join("")}…`, size) > width) {
        characters.pop();
    }
    return characters.length ? `${characters.join("")}…` : "";
}

/**
 * Return the boxes of a machine: `width`, `height`, `sockets`, `cells`, `matrix` and `legend`, each with x, y, w and h.
 *
 * `density` is a key of DENSITIES.
 */
export function layOut(machine, width, density = densityOf(machine)) {
    const sizes = measured(machine, DENSITIES[density]);
    const room = Math.max(240, Math.floor(width));
    const found = blocksOf(machine);
    const boxed = found.length > 1 && found.some((block) => block.socket && block.cells.length > 1);
    const blocks = boxed ? found : [{socket: null, cells: inOneRow(found)}];
    const most = Math.max(...blocks.map((block) => block.cells.length), 1);
    let best = null;
    for (let across = 1; across <= (boxed ? blocks.length : 1); across += 1) {
        for (let columns = 1; columns <= Math.min(most, 12); columns += 1) {
            const placed = placeBlocks(machine, blocks, {room, across, columns, boxed, sizes});
            if (!placed) {
                break; // more columns are narrower still
            }
            best = best && best.height <= placed.height ? best : placed;
        }
    }
    const matrix = placeMatrix(machine, best.height + 16, room, sizes);
    const top = best.height + (matrix ? matrix.h + 32 : 16);
    const legend = placeLegend(machine, top, room, sizes);
    const cells = best.cells.map(({cell, x, y, h, inner}) => moved(inner, x, y, h, cell));
    const right = Math.max(
        ...cells.map((cell) => cell.x + cell.w),
        ...best.sockets.map((socket) => socket.x + socket.w),
        0,
    );
    return {
        width: room,
        height: legend.bottom + 2,
        right,
        sizes,
        sockets: best.sockets,
        cells,
        matrix,
        legend: legend.items,
    };
}

/** Return the sizes with the width of a thread: its number and its mark stand side by side. */
function measured(machine, sizes) {
    let digits = 1;
    let marks = 1;
    for (const each of machine.cpus.values()) {
        digits = Math.max(digits, String(each.cpu).length);
        marks = Math.max(marks, markOf(machine, each).length);
    }
    const wide = Math.ceil(digits * sizes.number * 0.6 + marks * sizes.label * 0.74 + sizes.number * 1.4);
    return {...sizes, wide: Math.max(wide, sizes.thread)};
}

/** Return the cells by socket, and the two boxes of what has no cell: CPUs that are offline, and devices. */
function blocksOf(machine) {
    const alone = machine.cells.every((cell) => cell.sockets.length <= 1) && machine.sockets.length > 1;
    const blocks = alone
        ? machine.sockets.map((socket) => ({socket, cells: machine.cells.filter((cell) => cell.sockets[0] === socket)}))
        : [];
    const placed = new Set(blocks.flatMap((block) => block.cells));
    const rest = machine.cells.filter((cell) => !placed.has(cell));
    const offline = [...machine.cpus.values()].filter((each) => each.cell === null).map((each) => each.cpu);
    if (offline.length) {
        rest.push({
            id: "offline",
            cpus: offline,
            groups: [{l3: null, cores: offline.map((cpu) => [cpu])}],
            memory: [],
            sockets: [],
        });
    }
    const known = new Set(machine.cells.map((cell) => cell.id));
    if (machine.devices.some((device) => !known.has(device.cell))) {
        rest.push({id: "unknown", cpus: [], groups: [], memory: [], sockets: []});
    }
    return [...blocks, {socket: null, cells: rest}].filter((block) => block.cells.length);
}

function inOneRow(blocks) {
    const number = (cell) => (typeof cell.id === "number" ? cell.id : Infinity);
    return blocks.flatMap((block) => block.cells).sort((one, other) => (number(one) < number(other) ? -1 : 1));
}

/** Return the place of each cell with `columns` cells in a row of a socket and `across` sockets in a row, or null. */
function placeBlocks(machine, blocks, {room, across, columns, boxed, sizes}) {
    const inset = boxed ? sizes.pad : 0;
    const head = boxed ? sizes.title + sizes.pad + 6 : 0;
    const blockWidth = (room - (across - 1) * sizes.pad) / across;
    const width = Math.floor((blockWidth - 2 * inset - (columns - 1) * sizes.pad) / columns);
    if (width < Math.min(sizes.cell, room - 2 * inset) && columns * across > 1) {
        return null;
    }
    const natural = Math.max(...machine.cells.map((cell) => naturalWidth(cell, sizes)), sizes.cell);
    const cellWidth = room < NARROW ? width : Math.min(width, natural);
    const sockets = [];
    const cells = [];
    let [x, y, tallest] = [0, 0, 0];
    blocks.forEach((block, at) => {
        if (at && at % across === 0) {
            [x, y, tallest] = [0, y + tallest + sizes.pad, 0];
        }
        const framed = boxed && block.socket;
        let [dx, dy, row] = [framed ? inset : 0, framed ? head : 0, 0];
        const placed = block.cells.map((cell, number) => {
            if (number && number % columns === 0) {
                [dx, dy, row] = [framed ? inset : 0, dy + row + sizes.pad, 0];
            }
            const inner = layCell(machine, cell, cellWidth, sizes, boxed);
            const place = {cell, x: x + dx, y: y + dy, line: dy, inner, h: inner.h};
            row = Math.max(row, inner.h);
            dx += cellWidth + sizes.pad;
            return place;
        });
        for (const place of placed) {
            place.h = Math.max(...placed.filter((other) => other.line === place.line).map((other) => other.h));
        }
        const h = dy + row + (framed ? inset : 0);
        const used = Math.min(columns, block.cells.length);
        const w = used * cellWidth + (used - 1) * sizes.pad + (framed ? 2 * inset : 0);
        if (framed) {
            sockets.push({id: block.socket.id, label: `socket ${block.socket.id}`, x, y, w, h});
        }
        cells.push(...placed);
        tallest = Math.max(tallest, h);
        x += blockWidth + sizes.pad;
    });
    const bottom = y + tallest;
    return {sockets, cells, height: bottom};
}

/** Return the columns and rows of the threads of a core: up to two threads stand in one column. */
function coreGrid(threads) {
    const rows = Math.min(2, threads);
    return {rows, columns: Math.ceil(threads / rows)};
}

function coreSize(core, sizes) {
    const {rows, columns} = coreGrid(core.length);
    const edge = Math.max(2, sizes.gap - 1);
    return {
        w: columns * sizes.wide + (columns - 1) * 2 + 2 * edge,
        h: rows * sizes.thread + (rows - 1) * 2 + 2 * edge,
    };
}

/** Return the width at which each L3 group of a cell stands in one row, of up to sixteen cores. */
function naturalWidth(cell, sizes) {
    const widths = cell.groups.map((group) => {
        const cores = group.cores.slice(0, 16).map((core) => coreSize(core, sizes).w + sizes.gap);
        return cores.reduce((sum, w) => sum + w, 0) + 4 * sizes.pad;
    });
    return Math.max(...widths, 0);
}

/** Return the boxes inside one cell, from its own upper left corner. */
function layCell(machine, cell, w, sizes, boxed) {
    const inner = w - 2 * sizes.pad;
    const out = {
        w,
        titles: titlesOf(machine, cell, inner, sizes, boxed),
        l3: [],
        cores: [],
        bars: [],
        switches: [],
        devices: [],
    };
    let y = sizes.pad - 2;
    for (const title of out.titles) {
        y += Math.ceil(title.size * 1.3);
        title.y = y - Math.round(title.size * 0.3);
    }
    y += sizes.gap + 1;
    y = layGroups(cell, out, y, inner, sizes);
    y = layBars(cell, out, y, inner, sizes);
    y = layDevices(machine, cell, out, y, inner, sizes);
    out.h = y + sizes.pad - sizes.gap;
    return out;
}

function titlesOf(machine, cell, room, sizes, boxed) {
    const special = {offline: "offline CPUs", unknown: "devices without a cell"}[cell.id];
    const socket = cell.sockets.map((each) => each.id).join(", ");
    const own = special || `cell ${cell.id}`;
    const full = machine.sockets.length > 1 && socket && !boxed ? `socket ${socket} · ${own}` : own;
    const title = textWidth(full, sizes.title) <= room * 0.6 ? full : own;
    const size = sizes.label;
    const left = room - textWidth(title, sizes.title) - 8;
    const choices = special ? [""] : cell.cpus.length ? freeWords(cell) : ["memory only"];
    const beside = choices.find((words) => textWidth(words, size) <= left);
    const text = beside ?? choices.find((words) => textWidth(words, size) <= room) ?? choices.at(-1);
    const titles = [
        {text: fitted(title, room, sizes.title), x: sizes.pad, size: sizes.title, kind: "title", anchor: "start"},
    ];
    if (text && beside !== undefined) {
        titles[0].beside = {text, x: sizes.pad + room, size};
    } else if (text) {
        titles.push({text: fitted(text, room, size), x: sizes.pad, size, kind: "words", anchor: "start"});
    }
    return titles;
}

/** Return what is free of a cell in words, the longest first. */
function freeWords(cell) {
    const free = cell.free.length;
    return [
        `${free} of ${count(cell.cpus.length, "CPU")} free, ${count(cell.freeCores, "whole core")}`,
        `${free} of ${cell.cpus.length} CPUs free`,
        `${free} of ${cell.cpus.length} free`,
    ];
}

function layGroups(cell, out, top, inner, sizes) {
    let [x, y, row] = [sizes.pad, top, 0];
    for (const group of cell.groups) {
        const edge = group.l3 ? sizes.gap + 1 : 0;
        const head = group.l3 && !sizes.bare ? sizes.number + 4 : 0;
        const widths = group.cores.map((core) => coreSize(core, sizes).w);
        const columns = columnsFor(widths, inner - 2 * edge, sizes.gap);
        const lines = [];
        group.cores.forEach((core, at) => {
            if (at % columns === 0) {
                lines.push({w: -sizes.gap, h: 0, cores: []});
            }
            const size = coreSize(core, sizes);
            const line = lines.at(-1);
            line.cores.push({core, size, x: line.w + sizes.gap});
            line.w += size.w + sizes.gap;
            line.h = Math.max(line.h, size.h);
        });
        const w = Math.max(...lines.map((line) => line.w), group.l3 ? sizes.number * 2 : 0) + 2 * edge;
        const h = lines.reduce((sum, line) => sum + line.h + sizes.gap, -sizes.gap) + 2 * edge + head;
        if (x > sizes.pad && x + w > sizes.pad + inner) {
            [x, y, row] = [sizes.pad, y + row + sizes.gap, 0];
        }
        if (group.l3) {
            out.l3.push({
                x,
                y,
                w,
                h,
                label: sizes.bare ? "" : fitted("L3", w - 2 * edge, sizes.number),
                cpus: group.l3,
            });
        }
        let down = y + edge + head;
        for (const line of lines) {
            for (const {core, size, x: right} of line.cores) {
                out.cores.push(layCore(core, x + edge + right, down, size, sizes));
            }
            down += line.h + sizes.gap;
        }
        row = Math.max(row, h);
        x += w + sizes.gap + 1;
    }
    return y + row + (cell.groups.length ? sizes.gap + 3 : 0);
}

/** Return the number of cores in a row: as many as fit, then equally many in each row. */
function columnsFor(widths, room, gap) {
    const widest = Math.max(...widths);
    const most = Math.max(1, Math.floor((room + gap) / (widest + gap)));
    return Math.ceil(widths.length / Math.ceil(widths.length / most));
}

function layCore(core, x, y, {w, h}, sizes) {
    const edge = Math.max(2, sizes.gap - 1);
    const {rows} = coreGrid(core.length);
    const threads = core.map((cpu, at) => ({
        cpu,
        x: x + edge + Math.floor(at / rows) * (sizes.wide + 2),
        y: y + edge + (at % rows) * (sizes.thread + 2),
        w: sizes.wide,
        h: sizes.thread,
    }));
    return {key: `core:${core[0]}`, cpus: core, x, y, w, h, threads};
}

function layBars(cell, out, top, inner, sizes) {
    let y = top;
    cell.memory.forEach((bar, at) => {
        const h = at ? Math.max(6, sizes.bar - 4) : sizes.bar;
        const texts = [
            [bar.label, bar.words],
            [bar.label, bar.short],
            [bar.brief, bar.short],
        ];
        const fits = ([label, words]) => textWidth(label, sizes.label) + textWidth(words, sizes.label) + 10 <= inner;
        const [label, words] = texts.find(fits) ?? [bar.label];
        const beside = words !== undefined;
        const lines = beside ? 1 : 2;
        const line = Math.ceil(sizes.label * 1.35);
        const text = y + sizes.label;
        const box = {key: bar.key, x: sizes.pad, y: y + lines * line + 1, w: inner, h};
        let from = 0;
        const segments = bar.segments.map((segment) => {
            const start = (from / bar.total) * inner;
            from += segment.amount;
            return {...segment, x: sizes.pad + start, y: box.y, w: (from / bar.total) * inner - start, h};
        });
        out.bars.push({
            ...box,
            name: `${bar.label}: ${bar.words}`,
            label: {text: fitted(label, inner, sizes.label), x: sizes.pad, y: text},
            words: beside
                ? {text: words, x: sizes.pad + inner, y: text, anchor: "end"}
                : {text: fitted(bar.short, inner, sizes.label), x: sizes.pad, y: text + line, anchor: "start"},
            segments,
            area: {x: sizes.pad, y, w: inner, h: box.y + h - y},
        });
        y = box.y + h + sizes.gap + 3;
    });
    return y;
}

function layDevices(machine, cell, out, top, inner, sizes) {
    const known = new Set(machine.cells.map((each) => each.id));
    const here = machine.devices.filter((device) =>
        cell.id === "unknown" ? !known.has(device.cell) : device.cell === cell.id,
    );
    const bySwitch = new Map();
    for (const device of here) {
        const name = device.switch || "";
        bySwitch.set(name, [...(bySwitch.get(name) || []), device]);
    }
    let y = top;
    for (const [name, devices] of [...bySwitch].sort(([one], [other]) => (one < other ? -1 : 1))) {
        const edge = name ? sizes.gap + 2 : 0;
        const room = inner - 2 * edge;
        const start = y;
        y += name ? Math.ceil(sizes.number * 1.4) + 3 : 0;
        let [x, line] = [0, 0];
        for (const device of inOrder(devices)) {
            const chip = chipOf(device, room, sizes);
            if (x && x + chip.w > room) {
                [x, line] = [0, line + 1];
            }
            const place = {x: sizes.pad + edge + x, y: y + line * (sizes.chip + sizes.gap), h: sizes.chip};
            out.devices.push({key: device.key, device, ...place, ...chip});
            x += chip.w + sizes.gap;
        }
        y += (line + 1) * (sizes.chip + sizes.gap) - sizes.gap + edge;
        if (name) {
            const label = fitted(`switch ${name.replace(/^0000:/, "")}`, room, sizes.number);
            out.switches.push({x: sizes.pad, y: start, w: inner, h: y - start, label, name});
        }
        y += sizes.gap + 1;
    }
    return y;
}

/** Return the devices by address, each followed by its parts. */
function inOrder(devices) {
    const here = new Set(devices.map((device) => device.address));
    const whole = devices.filter((device) => !here.has(device.physical));
    return whole.flatMap((device) => [device, ...devices.filter((part) => part.physical === device.address)]);
}

/** Return the width of a device's chip and its two texts: the kind with the name, and who has it. */
function chipOf(device, room, sizes) {
    const text = `${device.physical ? "↳ " : ""}${device.kind} ${device.name}`;
    const links = device.links.length ? ` ⇄${device.links.length}` : "";
    const mark =
        device.shares > 1 ? `${device.held}/${device.shares}` : device.held && !device.holders.length ? "held" : "";
    const side = Math.max(textWidth("AA", sizes.label), textWidth(mark, sizes.label)) + 14;
    const w = Math.min(room, Math.ceil(textWidth(text + links, sizes.label) + side + 10));
    return {w, text: fitted(text + links, w - side - 8, sizes.label), mark};
}

/** Return the table of distances, or null if the machine is small, large or does not tell, or if there is no room. */
function placeMatrix(machine, y, room, sizes) {
    const cells = machine.cells;
    const step = {w: Math.max(26, sizes.label * 2.5), h: sizes.label + 9};
    const w = 64 + cells.length * step.w;
    if (
        cells.length < 2 ||
        cells.length > 16 ||
        w > room ||
        !cells.some((cell) => Object.keys(cell.distances).length)
    ) {
        return null;
    }
    const top = y + sizes.title + 6;
    const boxes = cells.flatMap((from, row) =>
        cells.map((to, column) => ({
            from: from.id,
            to: to.id,
            text: String(from.distances[to.id] ?? ""),
            own: from === to,
            x: 64 + column * step.w,
            y: top + (row + 1) * step.h,
            w: step.w,
            h: step.h,
        })),
    );
    const heads = cells.flatMap((cell, at) => [
        {text: `${cell.id}`, x: 64 + (at + 0.5) * step.w, y: top + step.h - 6, anchor: "middle"},
        {text: `cell ${cell.id}`, x: 58, y: top + (at + 2) * step.h - 6, anchor: "end"},
    ]);
    return {
        x: 0,
        y,
        w,
        h: top + (cells.length + 1) * step.h - y,
        title: {text: "distances", x: 0, y: y + sizes.title - 2},
        boxes,
        heads,
    };
}

/** Return the legend: a chip for each claim, then one for each state that the map shows. */
function placeLegend(machine, y, room, sizes) {
    const states = new Set([...machine.cpus.values()].map((each) => each.state));
    machine.cells
        .flatMap((cell) => cell.memory)
        .flatMap((bar) => bar.segments)
        .forEach((each) => states.add(each.state));
    const shown = Object.keys(STATES).filter((state) => states.has(state));
    const chips = [
        ...machine.claims.map((claim) => ({key: claim.key, claim: claim.index, mark: claim.label, text: claim.title})),
        ...shown.map((state) => ({key: `state:${state}`, state, mark: STATES[state].mark, text: STATES[state].word})),
    ];
    const h = Math.max(20, sizes.chip);
    const size = Math.max(11, sizes.label);
    let [x, top] = [0, y];
    const items = chips.map((chip, at) => {
        const swatch = Math.max(22, Math.ceil(textWidth(chip.mark, size)) + 10);
        const text = fitted(chip.text, Math.min(room, 280) - swatch - 22, size);
        const w = Math.min(room, swatch + 14 + Math.ceil(textWidth(text, size)));
        const first = chip.state && at && !chips[at - 1].state;
        if (x && (x + w > room || first)) {
            [x, top] = [0, top + h + sizes.gap + 2];
        }
        const item = {...chip, text, size, swatch, x, y: top, w, h};
        x += w + 10;
        return item;
    });
    return {items, bottom: items.length ? top + h : y};
}

/** Return a cell's boxes moved to its place, with the height of its row. */
function moved(inner, x, y, h, cell) {
    const by = (box) => ({...box, x: box.x + x, y: box.y + y});
    return {
        key: `cell:${cell.id}`,
        cell,
        id: cell.id,
        x,
        y,
        w: inner.w,
        h,
        titles: inner.titles.map((title) => ({
            ...by(title),
            beside: title.beside && {...title.beside, x: title.beside.x + x},
        })),
        l3: inner.l3.map(by),
        cores: inner.cores.map((core) => ({...by(core), threads: core.threads.map(by)})),
        bars: inner.bars.map((bar) => ({
            ...by(bar),
            label: by(bar.label),
            words: by(bar.words),
            segments: bar.segments.map(by),
            area: by(bar.area),
        })),
        switches: inner.switches.map(by),
        devices: inner.devices.map(by),
    };
}

/** Return the boxes of everything that belongs to a key: of a claim all that it holds, of any other thing its own. */
export function boxesOf(machine, layout, key) {
    const claim = machine.claims.find((each) => each.key === key);
    const boxes = layout.legend.filter((item) => item.key === key);
    const state = key.startsWith("state:") ? key.slice(6) : null;
    const runs = claim
        ? new Set([...claim.own, ...claim.withheld, ...(claim.policy === "dedicated" ? [] : claim.cpus)])
        : null;
    for (const cell of layout.cells) {
        if (cell.key === key) {
            boxes.push(cell);
        }
        for (const core of cell.cores) {
            if (core.key === key) {
                boxes.push(core);
            } else if (runs || state) {
                boxes.push(
                    ...core.threads.filter(({cpu}) => (runs ? runs.has(cpu) : machine.cpus.get(cpu).state === state)),
                );
            }
        }
        for (const bar of cell.bars) {
            if (bar.key === key) {
                boxes.push(bar.area);
            } else if (claim || state) {
                boxes.push(
                    ...bar.segments.filter((each) => (claim ? each.claim === claim.index : each.state === state)),
                );
            }
        }
        boxes.push(
            ...cell.devices.filter((chip) => chip.key === key || (claim && chip.device.holders.includes(claim.index))),
        );
    }
    return boxes;
}

/** Return the keys of the claims that a thing belongs to: those of a CPU, of a core's CPUs, or of a device. */
export function claimsOf(machine, layout, key, cpu = null) {
    if (key.startsWith("claim:")) {
        return [key];
    }
    const core = layout.cells.flatMap((cell) => cell.cores).find((each) => each.key === key);
    const device = machine.devices.find((each) => each.key === key);
    const indices = core
        ? (cpu === null ? core.cpus : [cpu]).flatMap((each) => machine.cpus.get(each)?.claims ?? [])
        : (device?.holders ?? []);
    return [...new Set(indices)].map((index) => machine.claims[index].key);
}

/** Return the levels that arrow keys go through: cells, their cores, bars and devices, and claims with states. */
export function levelsOf(layout) {
    const parts = layout.cells.flatMap((cell) =>
        [...cell.cores, ...cell.bars, ...cell.devices].map((part) => ({key: part.key, above: cell.key})),
    );
    return [
        layout.cells.map((cell) => ({key: cell.key, below: parts.find((part) => part.above === cell.key)?.key})),
        parts,
        layout.legend.map((item) => ({key: item.key})),
    ];
}

/** Return the key that an arrow key leads to. `claims` are those of the present thing, `last` is the last part. */
export function step(levels, key, pressed, {claims = [], last = null} = {}) {
    const level = levels.findIndex((items) => items.some((item) => item.key === key));
    if (level < 0) {
        return levels[0][0]?.key;
    }
    const items = levels[level];
    const at = items.findIndex((item) => item.key === key);
    const to = {
        ArrowRight: () => items[at + 1],
        ArrowLeft: () => items[at - 1],
        Home: () => items[0],
        End: () => items.at(-1),
        ArrowDown: () =>
            [{key: items[at].below ?? levels[2][0]?.key}, {key: claims[0] ?? levels[2][0]?.key}, items[at]][level],
        ArrowUp: () =>
            [items[at], {key: items[at].above}, {key: last ?? levels[1].at(-1)?.key ?? levels[0].at(-1)?.key}][level],
    }[pressed];
    return to ? (to()?.key ?? key) : null;
}
