// SPDX-License-Identifier: Apache-2.0
// The form of a request: its fields, and the way between what is typed and what the API takes. Nothing is drawn here.

const PINNED = ["dedicated", "mixed"];

/** Return whether the fields of dedicated CPUs are part of a request with these values. */
const pinned = ({cpu_policy: policy}) => PINNED.includes(policy);

const number = {
    parse: (text) => (/^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text),
    show: String,
};
const text = {parse: (given) => given, show: String};
const list = {
    parse: (given) => given.split(/[\s,]+/).filter(Boolean),
    show: (value) => value.join(" "),
};
const numbers = {
    parse: (given) => list.parse(given).map(number.parse),
    show: (value) => value.join(", "),
};
// "A|B C" is one of A and B, and C as well.
const alternatives = {
    parse: (given) => list.parse(given).map((each) => each.split("|")),
    show: (value) => value.map((each) => each.join("|")).join(" "),
};
const command = {
    parse: (given) => [...given.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(([, one, two, bare]) => one ?? two ?? bare),
    show: (value) =>
        value.map((word) => (/\s|^$/.test(word) ? (word.includes('"') ? `'${word}'` : `"${word}"`) : word)).join(" "),
};
const pairs = {
    parse: (given) =>
        Object.fromEntries(
            given
                .split(/\s+/)
                .filter(Boolean)
                .map((each) => halves(each, "=")),
        ),
    show: (value) =>
        Object.entries(value)
            .map(([name, each]) => `${name}=${each}`)
            .join(" "),
};
// "gpu=2 class:CUSTOM_NIC,CUSTOM_FAST", as the command line has it.
const devices = {
    parse: (given) => given.split(/\s+/).filter(Boolean).map(deviceOf),
    show: (value) => value.map(deviceText).join(" "),
};
const pages = {
    parse: (given) => (/^\d+$/.test(given) ? Number(given) : given),
    show: String,
};

function halves(given, sign) {
    const at = given.indexOf(sign);
    return at < 0 ? [given, ""] : [given.slice(0, at), given.slice(at + 1)];
}

function deviceOf(given) {
    const [kind, ...traits] = given.split(",");
    const [name, count] = halves(kind, "=");
    const named = name.startsWith("class:") ? {resource_class: name.slice("class:".length)} : {alias: name};
    return {...named, count: count ? number.parse(count) : 1, ...(traits.length ? {traits} : {})};
}

function deviceText({alias, resource_class: resource, count = 1, traits = []}) {
    return [`${alias ?? `class:${resource}`}${count === 1 ? "" : `=${count}`}`, ...traits].join(",");
}

/**
 * The fields by groups. `kind` converts; `options` make a select; `when` says whether the field is part of the request;
 * `creates` is for fields that only a create takes. Groups without `open` are folded while they are empty.
 */
export const GROUPS = [
    {
        title: "CPUs and memory",
        open: true,
        fields: [
            {
                name: "cpu_policy",
                label: "CPU policy",
                kind: text,
                options: ["shared", "dedicated", "mixed"],
                always: true,
            },
            {name: "cpu", label: "CPUs", kind: number, type: "number"},
            {
                name: "dedicated_cpus",
                label: "Of these dedicated",
                kind: number,
                type: "number",
                when: ({cpu_policy: policy}) => policy === "mixed",
            },
            {name: "memory", label: "Memory (MiB)", kind: number, type: "number"},
            {
                name: "mem_page_size",
                label: "Page size",
                kind: pages,
                suggestions: ["small", "large", "any", "2048", "1048576"],
                hint: "small, large, any, or KiB",
                when: pinned,
            },
            {
                name: "cpu_thread_policy",
                label: "Threads of a core",
                kind: text,
                options: ["", "prefer", "isolate", "require"],
                when: pinned,
            },
            {
                name: "cpu_isolation",
                label: "Isolation",
                kind: text,
                options: ["", "thread", "core", "l3", "node", "isolated"],
                when: pinned,
            },
            {
                name: "cpu_partition",
                label: "Partition",
                kind: text,
                options: ["", "none", "root", "isolated"],
                when: pinned,
            },
            {
                name: "interrupts",
                label: "Device interrupts",
                kind: text,
                options: ["", "away", "own", "any"],
                when: pinned,
            },
            {name: "power_profile", label: "Power profile", kind: text, when: pinned},
            {name: "cpuset_signal", label: "Signal after a change of CPUs", kind: text, when: pinned},
            {name: "cache_ways", label: "Ways of each L3 cache", kind: number, type: "number", when: pinned},
            {name: "cache_mib", label: "or MiB of each L3 cache", kind: number, type: "number", when: pinned},
            {name: "memory_bandwidth", label: "Memory bandwidth (%)", kind: number, type: "number", when: pinned},
            {name: "disk", label: "Disk (GiB)", kind: number, type: "number"},
        ],
    },
    {
        title: "Cells (NUMA nodes)",
        when: pinned,
        fields: [
            {name: "numa_nodes", label: "Number of cells", kind: number, type: "number", when: pinned},
            {
                name: "numa_affinity",
                label: "Affinity",
                kind: text,
                options: ["", "require", "prefer", "none"],
                when: pinned,
            },
            {name: "numa_cpus", label: "CPUs of each cell", kind: numbers, hint: "as 2, 3, 3", when: pinned},
            {name: "numa_mem", label: "MiB of each cell", kind: numbers, hint: "as 512, 1024", when: pinned},
            {
                name: "numa_mempolicy",
                label: "Memory policy",
                kind: text,
                options: ["", "strict", "preferred"],
                when: pinned,
            },
        ],
    },
    {
        title: "Devices",
        fields: [
            {
                name: "devices",
                label: "Devices",
                kind: devices,
                hint: "as gpu=2 nic, or class:CUSTOM_GPU=1,CUSTOM_GPU_80GB",
                wide: true,
            },
            {
                name: "device_numa_policy",
                label: "Cells of the devices",
                kind: text,
                options: ["", "preferred", "required", "socket", "none"],
            },
            {
                name: "device_same",
                label: "Devices share",
                kind: text,
                options: ["", "none", "link", "switch", "cell", "host"],
            },
        ],
    },
    {
        title: "Traits and aggregates",
        fields: [
            {
                name: "required_traits",
                label: "Required traits",
                kind: list,
                hint: "as HW_CPU_X86_AVX2 CUSTOM_RACK_7",
                wide: true,
            },
            {name: "forbidden_traits", label: "Forbidden traits", kind: list, wide: true},
            {
                name: "any_traits",
                label: "One of these traits",
                kind: alternatives,
                hint: "as CUSTOM_A|CUSTOM_B",
                wide: true,
            },
            {
                name: "member_of",
                label: "Aggregates",
                kind: alternatives,
                hint: "as fast, or fast|faster for one of them",
                wide: true,
            },
        ],
    },
    {
        title: "Where",
        fields: [
            {name: "availability_zone", label: "Availability zone", kind: text},
            {name: "host", label: "Host", kind: text, hint: "for administrators"},
            {name: "runtime", label: "Runtime", kind: text},
            {name: "hints", label: "Hints", kind: pairs, hint: "as label:rack=3", wide: true},
        ],
    },
    {
        title: "Container",
        open: true,
        fields: [
            {name: "image", label: "Image", kind: text, wide: true},
            {name: "name", label: "Name", kind: text, creates: true},
            {name: "count", label: "How many", kind: number, type: "number", asks: true},
            {name: "command", label: "Command", kind: command, creates: true, wide: true},
        ],
    },
];

const FIELDS = GROUPS.flatMap(({fields}) => fields);

/** The names of all fields. */
export const NAMES = new Set(FIELDS.map(({name}) => name));

/** Name of a field -> its label. */
export const LABELS = new Map(FIELDS.map(({name, label}) => [name, label]));

/** What the form has at first. */
export const FIRST = {cpu_policy: "dedicated", cpu: "4", memory: "1024", count: "1"};

/** Return the body of a request with the typed `values`; `use` is "create", "dry_run" or "capacity". */
export function bodyOf(values, use) {
    const taken = FIELDS.filter(
        ({name, when, creates, asks}) =>
            (values[name] ?? "").trim() !== "" &&
            (!when || when(values)) &&
            (!creates || use === "create") &&
            (!asks || use === "dry_run"),
    );
    return Object.fromEntries(taken.map(({name, kind}) => [name, kind.parse(values[name].trim())]));
}

/** Return the form's values for a request, or for a change of one: a null removes the field's value. */
export function valuesOf(request) {
    const known = FIELDS.filter(({name}) => Object.hasOwn(request, name));
    return Object.fromEntries(
        known.map(({name, kind}) => {
            const value = request[name];
            return [name, value === null || value === undefined ? "" : kind.show(value)];
        }),
    );
}

/** Return the names of `count` containers: "web", or "web-1" and "web-2"; without a name the API chooses. */
export function namesOf(name, count) {
    if (!name || count === 1) {
        return Array(count).fill(name);
    }
    return Array.from({length: count}, (_, index) => `${name}-${index + 1}`);
}
