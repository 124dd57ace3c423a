// SPDX-License-Identifier: Apache-2.0
// What can be done with a container in which status, and how its place is written. Pure: nothing is drawn here.

import {count} from "./words.js";

/** Status -> how the page shows it. Every other status is work under way. */
const KINDS = {
    Running: "good",
    Created: "idle",
    Stopped: "idle",
    Paused: "idle",
    Error: "bad",
    Unknown: "bad",
    Dead: "bad",
};

/** The statuses that allow an action, as the API has them. */
export const ALLOWED = {
    "start": ["Created", "Error", "Stopped"],
    "stop": ["Restarting", "Running"],
    "reboot": ["Created", "Error", "Running", "Stopped"],
    "pause": ["Running"],
    "unpause": ["Paused"],
    "kill": ["Restarting", "Running"],
    "execute": ["Running"],
    "attach": ["Running"],
    "logs": ["Created", "Error", "Paused", "Restarting", "Running", "Stopped", "Unknown"],
    "delete_after_stop": ["Created", "Dead", "Deleted", "Error", "Restarting", "Running", "Stopped"],
};

/** Buttons of a container, in their order. */
export const BUTTONS = [
    ["start", "Start"],
    ["stop", "Stop"],
    ["reboot", "Restart"],
    ["pause", "Pause"],
    ["unpause", "Unpause"],
    ["kill", "Kill"],
];

/** Return whether `container` may be asked for `action` now. The API has the last word. */
export function allows(container, action) {
    return !container.task_state && ALLOWED[action].includes(container.status);
}

/** Return "good", "idle", "bad" or "busy" for a container. */
export function kindOf({status, task_state: task}) {
    return task ? "busy" : (KINDS[status] ?? "busy");
}

/** Return a container's status in words. Example: "Running", or "Creating" while its image is pulled. */
export function statusText({status, task_state: task}) {
    return task ? `${status}, ${task.replace(/^container_/, "").replaceAll("_", " ")}` : status;
}

/** Return the CPUs of a container in words. Example: "4 dedicated: 2-5", "0.5 shared". */
export function cpusText({
    cpu,
    cpu_policy: policy,
    cpuset_cpus: cpus,
    cpuset_dedicated: own,
    dedicated_cpus: ownCount,
}) {
    const amount = cpu ?? 0;
    if (policy === "dedicated") {
        return `${amount} dedicated${cpus ? `: ${cpus}` : ""}`;
    }
    if (policy === "mixed") {
        return `${amount}, of which ${ownCount} dedicated${own ? `: ${own}` : ""}`;
    }
    return `${amount} shared`;
}

/** Return the devices that a container asked for, in words. Example: "2 gpu (0000:41:00.0, 0000:42:00.0)". */
export function devicesText(devices) {
    return (devices ?? [])
        .map(({alias, resource_class: resource, count: number, given}) => {
            const addresses = given.map(({address}) => address).join(", ");
            return `${number} ${alias ?? resource}${addresses ? ` (${addresses})` : ""}`;
        })
        .join("; ");
}

/** Return sentences about containers whose status differs between two lists, for a screen reader. */
export function news(before, after) {
    const old = new Map(before.map((each) => [each.uuid, statusText(each)]));
    const changed = after.filter((each) => old.has(each.uuid) && old.get(each.uuid) !== statusText(each));
    const gone = before.filter(({uuid}) => !after.some((each) => each.uuid === uuid));
    const told = [
        ...changed.map((each) => `${each.name} is ${statusText(each)}.`),
        ...gone.map((each) => `${each.name} is gone.`),
    ];
    return told.length > 3 ? `${count(told.length, "container")} changed.` : told.join(" ");
}

/** Return whether a container has every word of `text` in its name, image, host, status or uuid. */
export function fitsFilter(container, text) {
    const {name, image, host, status, uuid} = container;
    const whole = [name, image, host, status, uuid].join("\n").toLowerCase();
    return text
        .toLowerCase()
        .split(/\s+/)
        .every((word) => whole.includes(word));
}
