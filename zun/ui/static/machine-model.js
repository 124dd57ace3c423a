// SPDX-License-Identifier: Apache-2.0

/**
 * What the answer of `GET /v1/hosts/{host}/topology` says, as values: who holds which CPUs, memory, pages and devices.
 *
 * Nothing here draws. Members that an older server does not send are empty.
 */

import {ANONYMOUS, STATES, claimPaint, count, cpuList, cpuNumbers, letters, mibText, pageText} from "./words.js";

const KINDS_OF_CLASS = [
    ["0108", "NVMe"],
    ["0106", "disk"],
    ["01", "storage"],
    ["0200", "network"],
    ["0207", "InfiniBand"],
    ["02", "network"],
    ["03", "GPU"],
    ["0b40", "coprocessor"],
    ["12", "accelerator"],
    ["10", "crypto"],
    ["06", "bridge"],
];

/** States of a CPU that nobody holds, and that is online and not reserved. */
const FREE = new Set(["free", "pool", "isolated"]);

/**
 * Read a topology answer. `before`, the machine read last, keeps the label and the colour of each known container.
 *
 * @returns {{host: string, uuid: string, generation: number, cells: object[], sockets: object[], claims: object[],
 *   cpus: Map<number, object>, devices: object[], foreign: object[]}}
 */
export function readMachine(topology, before = null) {
    const claims = readClaims(topology, before);
    const cells = [...topology.cells].sort((one, other) => one.id - other.id).map(readCell);
    const machine = {
        host: topology.host,
        uuid: topology.uuid,
        generation: topology.generation,
        cells,
        claims,
        sockets: (topology.sockets || []).map((text, id) => ({id, cpus: cpuNumbers(text)})),
        cpus: readCpus(topology, cells, claims),
        devices: (topology.devices || []).map((entry) => readDevice(entry, claims)),
        foreign: topology.foreign || [],
        disturbed: new Map(),
    };
    for (const cell of cells) {
        cell.memory = readMemory(cell, machine);
        cell.free = cell.cpus.filter((cpu) => FREE.has(machine.cpus.get(cpu).state));
        cell.freeCores = freeCores(cell);
        cell.sockets = machine.sockets.filter((socket) => cell.cpus.some((cpu) => socket.cpus.includes(cpu)));
    }
    return machine;
}

/** Return the number of cores of a cell whose threads are all free. */
function freeCores({groups, free}) {
    const numbers = new Set(free);
    return groups.flatMap((group) => group.cores).filter((core) => core.every((cpu) => numbers.has(cpu))).length;
}

function readClaims(topology, before) {
    const claims = (topology.claims || []).map((entry) => {
        const shared = entry.cpu_policy === "shared";
        return {
            container: entry.container,
            anonymous: !entry.container,
            title: entry.container ? entry.name || entry.container : "held",
            policy: entry.cpu_policy,
            own: shared ? [] : cpuNumbers(entry.cpuset_dedicated ?? entry.cpuset_cpus),
            cpus: cpuNumbers(entry.cpuset_cpus),
            withheld: cpuNumbers(entry.withheld),
            mems: entry.cpuset_mems || "",
            memory: entry.memory_mib || {},
            pages: entry.pages || {},
            devices: entry.devices || [],
            members: entry.members || [],
        };
    });
    const place = (claim) => [claim.policy === "shared", claim.own[0] ?? Infinity, claim.container || ""];
    claims.sort((one, other) => compare(place(one), place(other)));
    const kept = new Map(
        (before?.host === topology.host ? before.claims : []).map((each) => [each.container, each.slot]),
    );
    const taken = new Set(claims.map((each) => kept.get(each.container)));
    let next = 0;
    claims.forEach((claim, index) => {
        claim.index = index;
        if (claim.anonymous) {
            Object.assign(claim, {slot: null, label: "h", paint: ANONYMOUS, key: `claim:held-${index}`});
            return;
        }
        while (!kept.has(claim.container) && taken.has(next)) {
            next += 1;
        }
        claim.slot = kept.get(claim.container) ?? next++;
        Object.assign(claim, {
            label: letters(claim.slot),
            paint: claimPaint(claim.slot),
            key: `claim:${claim.container}`,
        });
    });
    return claims;
}

function compare(one, other) {
    const place = one.findIndex((value, at) => value !== other[at]);
    return place < 0 ? 0 : one[place] < other[place] ? -1 : 1;
}

function readCell(entry) {
    const cpus = cpuNumbers(entry.cpus);
    const seen = new Set();
    const groups = (entry.l3 || []).map((text) => ({l3: text, cpus: new Set(cpuNumbers(text)), cores: []}));
    const bare = {l3: null, cpus: new Set(), cores: []};
    for (const core of [...(entry.cores || []).map(cpuNumbers), ...cpus.map((cpu) => [cpu])]) {
        const threads = core.filter((cpu) => !seen.has(cpu));
        threads.forEach((cpu) => seen.add(cpu));
        if (threads.length) {
            (groups.find((group) => group.cpus.has(threads[0])) || bare).cores.push(threads);
        }
    }
    return {
        id: entry.id,
        cpus: [...seen].sort((one, other) => one - other),
        groups: [...groups, bare].filter((group) => group.cores.length),
        memory_mib: entry.memory_mib,
        used_mib: entry.memory_used_mib || 0,
        reserved_mib: entry.memory_reserved_mib || 0,
        pages: Object.entries(entry.pages || {})
            .map(([size, number]) => ({size: Number(size), count: number}))
            .filter((pages) => pages.count)
            .sort((one, other) => one.size - other.size),
        distances: entry.distances || {},
    };
}

/** Return the state of each CPU. Offline wins over reserved, and reserved over the holder, as in the terminal's map. */
function readCpus(topology, cells, claims) {
    const found = new Map();
    for (const cell of cells) {
        cell.cpus.forEach((cpu) => found.set(cpu, {cpu, cell: cell.id, state: "free", claims: [], withheld: false}));
    }
    const offline = cpuNumbers(topology.offline);
    offline
        .filter((cpu) => !found.has(cpu))
        .forEach((cpu) => found.set(cpu, {cpu, cell: null, state: "free", claims: [], withheld: false}));
    const mark = (cpus, change) => cpus.forEach((cpu) => found.has(cpu) && change(found.get(cpu)));
    const pool = cpuNumbers(topology.shared);
    const inPool = new Set(pool);
    const used = new Set(claims.filter((claim) => claim.policy !== "dedicated").flatMap((claim) => claim.cpus));
    mark(cpuNumbers(topology.isolated), (each) => {
        each.state = "isolated";
        each.isolated = true;
    });
    claims.forEach((claim) => {
        mark(claim.own, (each) => each.claims.push(claim.index));
        mark(claim.withheld, (each) => {
            each.claims.push(claim.index);
            each.withheld = true;
        });
    });
    const reserved = cpuNumbers(topology.reserved);
    const busy = new Set([...offline, ...reserved]);
    const idle = [...found.values()].filter((each) => !each.claims.length && !each.isolated && !busy.has(each.cpu));
    const apart = idle.some((each) => !inPool.has(each.cpu));
    mark(pool, (each) => {
        each.pool = true;
        each.state = apart || used.has(each.cpu) ? "pool" : each.state;
    });
    for (const each of found.values()) {
        if (each.claims.length) {
            each.state = each.claims.length > 1 ? "twice" : each.withheld ? "withheld" : "held";
        }
    }
    mark(reserved, (each) => {
        each.state = "reserved";
    });
    (topology.foreign || []).forEach((share) =>
        mark(cpuNumbers(share.withheld), (each) => {
            each.state = "foreign";
        }),
    );
    mark(offline, (each) => {
        each.state = "offline";
    });
    return found;
}

function readDevice(entry, claims) {
    const holders = claims.filter((claim) => claim.devices.includes(entry.address)).map((claim) => claim.index);
    const kind = KINDS_OF_CLASS.find(([start]) => (entry.class_id || "").startsWith(start))?.[1];
    const part = {"type-VF": "VF", part: "part"}[entry.type];
    return {
        ...entry,
        key: `device:${entry.address}`,
        kind: part || kind || {cdi: "CDI", path: "file"}[entry.type] || "device",
        name: entry.interfaces?.[0] || nameOf(entry),
        links: entry.links || [],
        nearest: entry.nearest_cells || [],
        shares: entry.shared ?? 1,
        held: Math.max(entry.holders ?? 0, holders.length),
        holders,
    };
}

/** Return the short name of a device: `81:00.0`, and `gi1/ci0` of a part of it. */
function nameOf({address, physical}) {
    return physical && address.startsWith(`${physical}/`)
        ? address.slice(physical.length + 1)
        : address.replace(/^0000:/, "");
}

/** Return the bars of a cell: its memory, then the huge pages of each size. A bar's segments follow each other. */
function readMemory(cell, machine) {
    const id = String(cell.id);
    const told = machine.claims.some((claim) => Object.keys(claim.pages).length);
    const foreign = machine.foreign.find((share) => share.cell === cell.id);
    const inPages = (claim, size) => (claim.pages[id] || {})[size] || 0;
    const of = (segments) => segments.filter((segment) => segment.amount > 0);
    const held = machine.claims.map((claim) => ({claim: claim.index, amount: claim.memory[id] || 0}));
    const foreignMib = Math.min(foreign?.memory_mib || 0, cell.reserved_mib);
    const pageMib = cell.pages.reduce((sum, pages) => {
        const used = machine.claims.reduce((all, claim) => all + inPages(claim, pages.size), 0);
        return sum + (Math.max(0, pages.count - used) * pages.size) / 1024;
    }, 0);
    const segments = of([
        ...held,
        {state: "foreign", amount: foreignMib},
        {state: "reserved", amount: cell.reserved_mib - foreignMib},
    ]);
    const taken = segments.reduce((sum, segment) => sum + segment.amount, 0);
    const free = Math.max(0, cell.memory_mib - taken);
    const freeInPages = told || !held.some((each) => each.amount) ? Math.min(free, pageMib) : 0;
    segments.push(...of([{state: "pages", amount: freeInPages}]));
    const words = [
        cell.used_mib && `${mibText(cell.used_mib)} used`,
        cell.reserved_mib && `${mibText(cell.reserved_mib)} reserved`,
        `${mibText(Math.max(0, cell.memory_mib - cell.used_mib - cell.reserved_mib))} free`,
    ].filter(Boolean);
    const bars = [
        {
            key: `memory:${id}`,
            label: `memory ${mibText(cell.memory_mib)}`,
            brief: mibText(cell.memory_mib),
            unit: "MiB",
            total: Math.max(cell.memory_mib, taken),
            segments,
            words: words.join(", "),
            short: words.at(-1),
        },
    ];
    for (const pages of cell.pages) {
        const shares = of([
            ...machine.claims.map((claim) => ({claim: claim.index, amount: inPages(claim, pages.size)})),
            {state: "foreign", amount: (foreign?.pages || {})[pages.size] || 0},
        ]);
        const used = shares.reduce((sum, segment) => sum + segment.amount, 0);
        bars.push({
            key: `pages:${id}:${pages.size}`,
            label: `${pageText(pages.size)} pages`,
            brief: pageText(pages.size),
            unit: "pages",
            total: Math.max(pages.count, used),
            segments: shares,
            ...bothWords(told || used ? `${used} of ${pages.count} used` : `${pages.count} on the host`),
        });
    }
    return cell.memory_mib || bars.length > 1 ? bars : [];
}

function bothWords(words) {
    return {words, short: words};
}

/** Read an answer of `POST /v1/hosts/{host}/audit`: CPU -> device interrupts of the last minute. Null if none is told. */
export function readDisturbed(audit) {
    const told = (audit.isolation || []).map((each) => each.last_minute?.interrupts_by_cpu).filter(Boolean);
    return told.length ? new Map(told.flatMap(Object.entries).map(([cpu, came]) => [Number(cpu), came])) : null;
}

/** Return the words for the state of one CPU: `held by A db`, `reserved for the host`. */
export function stateText(machine, each) {
    const came = machine.disturbed.get(each.cpu);
    return holderText(machine, each) + (came ? `, disturbed by ${count(came, "device interrupt")} in a minute` : "");
}

function holderText(machine, each) {
    const names = each.claims.map((index) => `${machine.claims[index].label} ${machine.claims[index].title}`);
    if (each.state === "held") {
        return `held by ${names[0]}${each.isolated ? ", isolated by the kernel" : ""}`;
    }
    if (each.state === "withheld") {
        return `withheld, kept idle for ${names[0]}`;
    }
    if (each.state === "twice") {
        return `held twice, by ${names.join(" and ")}`;
    }
    return STATES[each.state].meaning + (each.state === "free" && each.pool ? ", in the shared pool" : "");
}

/** Return the mark that the map shows beside the number of a CPU: the label of its holder, or that of its state. */
export function markOf(machine, each) {
    const labels = each.claims.map((index) => machine.claims[index].label);
    if (machine.disturbed.has(each.cpu) && each.state === "held") {
        return `${labels[0]}*`;
    }
    return {held: labels[0], twice: labels.slice(0, 2).join("!")}[each.state] ?? STATES[each.state].mark;
}

/** Return what a claim has, in words by heading. */
export function claimRows(machine, claim) {
    const pages = Object.entries(claim.pages).flatMap(([cell, sizes]) =>
        Object.entries(sizes).map(([size, number]) => `${number} of ${pageText(Number(size))} on cell ${cell}`),
    );
    return [
        ["Container", claim.anonymous ? "held; whose it is, is not shown to you" : claim.container],
        ["CPU policy", claim.policy],
        [claim.policy === "shared" ? "Runs on CPUs" : "CPUs", cpuList(claim.cpus)],
        ["Own CPUs", claim.policy === "mixed" ? cpuList(claim.own) : ""],
        ["Withheld CPUs", cpuList(claim.withheld)],
        ["Memory nodes", claim.mems],
        [
            "Memory",
            Object.entries(claim.memory)
                .map(([cell, mib]) => `${mibText(mib)} on cell ${cell}`)
                .join(", "),
        ],
        ["Huge pages", pages.join(", ")],
        ["Devices", claim.devices.join(", ")],
        ["Containers", claim.members.map((each) => `${each.name} on CPUs ${each.cpuset_cpus}`).join("; ")],
    ].filter(([, text]) => text);
}

/** Return the title and the rows of the panel about one thing of the map, by its key, or null if it has gone. */
export function details(machine, key) {
    const [kind, ...rest] = (key || "").split(":");
    const name = rest.join(":");
    const found = {
        cell: () =>
            cellDetails(
                machine,
                machine.cells.find((cell) => String(cell.id) === name),
            ),
        core: () => coreDetails(machine, machine.cpus.get(Number(name))),
        memory: () => barDetails(machine, key, rest[0]),
        pages: () => barDetails(machine, key, rest[0]),
        device: () =>
            deviceDetails(
                machine,
                machine.devices.find((device) => device.address === name),
            ),
        claim: () =>
            claimDetails(
                machine,
                machine.claims.find((claim) => claim.key === key),
            ),
        state: () => stateDetails(machine, name),
    }[kind];
    return found ? found() : null;
}

function cellDetails(machine, cell) {
    if (!cell) {
        return null;
    }
    const foreign = machine.foreign.find((share) => share.cell === cell.id);
    return {
        title: `Cell ${cell.id}`,
        rows: [
            ["Socket", cell.sockets.map((socket) => socket.id).join(", ")],
            ["CPUs", cpuList(cell.cpus) || "none: memory only"],
            ["Free CPUs", cpuList(cell.free) || (cell.cpus.length ? "none" : "")],
            ["Whole cores free", cell.cpus.length ? String(cell.freeCores) : ""],
            [
                "L3 groups",
                cell.groups
                    .filter((group) => group.l3)
                    .map((group) => group.l3)
                    .join("; "),
            ],
            ...cell.memory.map((bar) => [bar.label, bar.words]),
            [
                "Distances",
                Object.entries(cell.distances)
                    .map(([id, far]) => `${far} to cell ${id}`)
                    .join(", "),
            ],
            ["Other services", foreign ? foreignText(foreign) : ""],
        ].filter(([, text]) => text),
    };
}

/** Return the amounts of other services in words. */
export function foreignText(share) {
    return [
        share.cpus && `${count(share.cpus, "CPU")}${share.withheld ? ` (${share.withheld} withheld)` : ""}`,
        share.shared && `${count(share.shared, "shared CPU")}`,
        share.memory_mib && mibText(share.memory_mib),
        ...Object.entries(share.pages || {}).map(
            ([size, number]) => number && `${number} pages of ${pageText(Number(size))}`,
        ),
        share.disk_gib && `${share.disk_gib} GiB of disk`,
    ]
        .filter(Boolean)
        .join(", ");
}

/** Return the core of a CPU and its L3 group; a CPU without a cell is a core of its own. */
export function coreOf(machine, each) {
    const cell = machine.cells.find((one) => one.id === each.cell);
    const group = cell?.groups.find((one) => one.cores.some((core) => core.includes(each.cpu)));
    return {core: group?.cores.find((core) => core.includes(each.cpu)) || [each.cpu], l3: group?.l3};
}

function coreDetails(machine, each) {
    if (!each) {
        return null;
    }
    const {core, l3} = coreOf(machine, each);
    return {
        title: core.length > 1 ? `Core ${cpuList(core)}` : `CPU ${each.cpu}`,
        rows: [
            ["Cell", each.cell === null ? "unknown while offline" : String(each.cell)],
            ["L3 group", l3 || ""],
            ...core.map((cpu) => [`CPU ${cpu}`, stateText(machine, machine.cpus.get(cpu))]),
        ].filter(([, text]) => text),
    };
}

function barDetails(machine, key, id) {
    const cell = machine.cells.find((one) => String(one.id) === id);
    const bar = cell?.memory.find((one) => one.key === key);
    if (!bar) {
        return null;
    }
    const amount = (number) => (bar.unit === "MiB" ? mibText(number) : `${number} pages`);
    const names = {reserved: "reserved", foreign: "other services", pages: "free, in huge pages"};
    return {
        title: `Cell ${id}: ${bar.label}`,
        rows: [
            ["All", bar.words],
            ...bar.segments.map((segment) => [
                segment.state ? names[segment.state] : titled(machine.claims[segment.claim]),
                amount(segment.amount),
            ]),
        ],
    };
}

function titled(claim) {
    return claim.anonymous ? "held" : `${claim.label} ${claim.title}`;
}

function deviceDetails(machine, device) {
    if (!device) {
        return null;
    }
    return {
        title: `${device.kind} ${device.address}`,
        rows: [
            [
                "Held by",
                device.holders.map((index) => titled(machine.claims[index])).join(", ") ||
                    (device.held ? "" : "nobody"),
            ],
            ["Shares held", device.shares > 1 ? `${device.held} of ${device.shares}` : ""],
            ["Held", device.shares === 1 && device.held && !device.holders.length ? "yes" : ""],
            ["Cell", device.cell === null ? "unknown" : String(device.cell)],
            ["Nearest cells", device.nearest.join(", ")],
            ["Switch", device.switch || ""],
            ["Part of", device.physical || ""],
            ["Memory node", device.memory_node ?? null],
            ["Links", device.links.join(", ")],
            ["Resource class", device.resource_class || ""],
            ["Vendor, product", device.vendor_id ? `${device.vendor_id}:${device.product_id}` : ""],
            ["Interfaces", device.interfaces.join(", ")],
            ["Physical network", device.physical_network || ""],
            ["Traits", device.traits.join(", ")],
        ]
            .filter(([, text]) => text !== "" && text !== null)
            .map(([term, text]) => [term, String(text)]),
    };
}

function claimDetails(machine, claim) {
    return claim ? {title: titled(claim), rows: claimRows(machine, claim)} : null;
}

function stateDetails(machine, name) {
    const cpus = [...machine.cpus.values()].filter((each) => each.state === name).map((each) => each.cpu);
    return {
        title: STATES[name].word,
        rows: [
            ["Meaning", STATES[name].meaning],
            ["CPUs", cpuList(cpus) || "none"],
        ],
    };
}
