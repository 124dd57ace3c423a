// SPDX-License-Identifier: Apache-2.0

/** What the answers of `GET /v1/hosts` say about all hosts: free amounts, and the hosts that a filter leaves. */

import {count, mibText} from "./words.js";

const AMOUNTS = {cells: "whole cells", cores: "whole cores", cpus: "CPUs", memory_mib: "memory"};

/** Number of shades between none free and all free. */
export const SHADES = 5;

/** Return the measures that the hosts can be coloured by: name -> heading. Each class of devices is one. */
export function measuresOf(hosts) {
    const classes = new Set(hosts.flatMap((host) => Object.keys(host.total?.devices ?? {})));
    const devices = [...classes].sort().map((name) => [`device:${name}`, `devices ${name}`]);
    return Object.fromEntries([...Object.entries(AMOUNTS), ...devices]);
}

/** Return `{free, total}` of a host by the name of a measure, or null if the host does not tell. */
export function amountOf(host, measure) {
    if (!host.total || !host.free) {
        return null;
    }
    const name = measure.startsWith("device:") ? measure.slice(7) : null;
    const of = (amounts) => (name === null ? amounts[measure] : (amounts.devices[name] ?? 0));
    return {free: of(host.free), total: of(host.total)};
}

/** Return the shade of an amount: 0 if nothing is free, up to SHADES if all is; null without any. */
export function shadeOf(amount) {
    if (!amount || amount.total <= 0) {
        return null;
    }
    return amount.free <= 0 ? 0 : Math.max(1, Math.min(SHADES, Math.ceil((amount.free / amount.total) * SHADES)));
}

/** Return the number on the tile of a host, of at most four characters: `12`, `1.5k`, and memory in GiB. */
export function tileText(amount, measure) {
    if (!amount || amount.total <= 0) {
        return amount ? "–" : "?";
    }
    const number = measure === "memory_mib" ? Math.floor(amount.free / 1024) : amount.free;
    return number < 1000 ? String(number) : `${(number / 1000).toFixed(number < 10000 ? 1 : 0)}k`;
}

/** Return an amount in words: `3 of 8 whole cells free`. */
export function amountText(amount, measure, headings) {
    if (!amount) {
        return "amounts unknown";
    }
    const text = (number) => (measure === "memory_mib" ? mibText(number) : String(number));
    return `${text(amount.free)} of ${text(amount.total)} ${headings[measure] ?? measure} free`;
}

/** Return the values that the hosts have for each filter, sorted. */
export function choicesOf(hosts) {
    const every = (values) => [...new Set(hosts.flatMap(values))].sort();
    return {
        zone: every((host) => host.availability_zone ?? []),
        aggregate: every((host) => host.aggregates ?? []),
        trait: every((host) => host.traits ?? []),
        device: every((host) => Object.keys(host.total?.devices ?? {})),
    };
}

/** Return the hosts that the filters leave; an empty filter leaves all. `name` is a part of the host's name. */
export function filtered(hosts, {name = "", zone = "", aggregate = "", trait = "", device = ""}) {
    const part = name.trim().toLowerCase();
    return hosts.filter(
        (host) =>
            (!part || host.hostname.toLowerCase().includes(part)) &&
            (!zone || host.availability_zone === zone) &&
            (!aggregate || (host.aggregates ?? []).includes(aggregate)) &&
            (!trait || (host.traits ?? []).includes(trait)) &&
            (!device || (host.total?.devices?.[device] ?? 0) > 0),
    );
}

/** Return the hosts by name, or those with the most free of a measure first. */
export function sorted(hosts, order, measure) {
    const byName = (one, other) => (one.hostname < other.hostname ? -1 : one.hostname > other.hostname ? 1 : 0);
    const free = (host) => amountOf(host, measure)?.free ?? -1;
    return [...hosts].sort(order === "free" ? (one, other) => free(other) - free(one) || byName(one, other) : byName);
}

/** Return the sum of an amount over the hosts, in words. */
export function summary(hosts, measure, headings) {
    const sum = {free: 0, total: 0};
    for (const host of hosts) {
        const amount = amountOf(host, measure);
        sum.free += amount?.free ?? 0;
        sum.total += amount?.total ?? 0;
    }
    return amountText(sum, measure, headings);
}

/** Return what is known of a host, in words by heading. */
export function hostRows(host, headings) {
    const amounts = Object.keys(headings).map((measure) => [measure, amountOf(host, measure)]);
    return [
        ...amounts
            .filter(([, amount]) => amount && amount.total > 0)
            .map(([measure, amount]) => [
                headings[measure][0].toUpperCase() + headings[measure].slice(1),
                amountText(amount, measure, {[measure]: ""}).replace("  ", " "),
            ]),
        ["Containers", String(host.total_containers)],
        ["Zone", host.availability_zone ?? ""],
        ["Aggregates", (host.aggregates ?? []).join(", ")],
        ["Traits", host.traits?.length ? count(host.traits.length, "trait") : ""],
        ["Engine", host.engine ? [host.engine.name, host.engine.version].filter(Boolean).join(" ") : ""],
        ["Away", host.engine?.away ?? ""],
    ].filter(([, text]) => text);
}
