# SPDX-License-Identifier: Apache-2.0
"""Explain to users and programs why no host can hold a request.

The message is one or two sentences for the container's ``status_reason``. The record is for programs and operators. It
has counts by filter and by code. For the nearest hosts it has the free and wanted amounts of each cell, and the changes
that would fit. The record names hosts; the API hides it from users who must not see hosts. The record has at most
``EXPLAINED_HOSTS`` hosts, ``MAX_TEXT`` characters in each text, and ``MAX_BYTES`` of JSON altogether.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from zun.objects.placement import ASKED_AS
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.topology import CellFree, Dimension, Isolation, PlacementRequest, Refusal, RefusalCode, amounts
from zun.topology.device_request import DeviceSame

# Hosts whose code comes from the exact plan. Further hosts get the code of the filter that rejected them.
EXACT_HOSTS = 1000
# Hosts that are searched for a smaller request that fits: enough for a useful answer, few enough for a large cloud.
NEAREST_MISS_HOSTS = 50
# The nearest hosts, which the record describes one by one with every change that would fit.
EXPLAINED_HOSTS = 20
# Steps of search after which no further host is asked for a smaller request or for changes: about a second of CPU.
MOST_STEPS = 200_000
MAX_TEXT = 500
TRAIT_REASONS = 3  # that a message tells; each has names that the request gave
MAX_NODES = 64
MAX_BYTES = 60_000

Fits = Callable[[HostState, RequestSpec], bool]
"""Returns whether a host passes every filter and has an exact plan for a request."""

DISK = "disk"
"""The dimension of a change to less disk. ``zun.topology.Dimension`` has all other dimensions."""


class HostCode(StrEnum):
    """Codes for hosts that are unfit as a whole. ``RefusalCode`` has the codes for short amounts on cells.

    Both enumerations together are the closed list of codes.
    """

    REFUSED_BEFORE = "refused-before"
    """The host refused the claim of this request before."""
    SERVICE = "service"
    """The compute service is down, disabled or was never up."""
    ZONE = "zone"
    """The host is in another zone, or the request names another host."""
    RUNTIME = "runtime"
    """The host lacks the requested container runtime."""
    LABEL = "label"
    """The host lacks a requested label, or has another value for it."""
    RESERVED = "reserved"
    """An aggregate reserves the host for other projects."""
    AGGREGATE = "aggregate"
    """The metadata of the host's aggregates does not match the extra specs."""
    TRAIT = "trait"
    """The host lacks a required trait, has a forbidden one, or is in none of the requested aggregates."""
    IMAGE = "image"
    """The image needs another architecture, another operating system, or a runtime that the host lacks."""
    GROUP = "group"
    """One more member on the host would break the policy of the container group."""
    NEIGHBOUR = "neighbour"
    """The host has a container from ``different_host``, or no container from ``same_host``."""
    DEVICE = "device"
    """The host lacks a requested device."""
    NO_PINNING = "no-pinning"
    """The host takes no dedicated containers."""
    DISK = "disk"
    """The host, or its disk pool, has too little free disk."""
    OTHER = "other"
    """A filter without its own code rejected the host; ``filter`` in the record names this filter."""


CODES: Mapping[str, HostCode | RefusalCode] = {
    "RetryFilter": HostCode.REFUSED_BEFORE,
    "ComputeFilter": HostCode.SERVICE,
    "AvailabilityZoneFilter": HostCode.ZONE,
    "RuntimeFilter": HostCode.RUNTIME,
    "IsolationFilter": HostCode.RESERVED,
    "AggregateExtraSpecsFilter": HostCode.AGGREGATE,
    "TraitsFilter": HostCode.TRAIT,
    "ImagePropertiesFilter": HostCode.IMAGE,
    "LabelFilter": HostCode.LABEL,
    "SameHostFilter": HostCode.NEIGHBOUR,
    "DifferentHostFilter": HostCode.NEIGHBOUR,
    "GroupAffinityFilter": HostCode.GROUP,
    "GroupAntiAffinityFilter": HostCode.GROUP,
    "NumInstancesFilter": HostCode.OTHER,
    "IoOpsFilter": HostCode.OTHER,
    "PciPassthroughFilter": HostCode.DEVICE,
    "CpuSetFilter": HostCode.NO_PINNING,
    "DiskFilter": HostCode.DISK,
    "CPUFilter": RefusalCode.CPUS,
    "RamFilter": RefusalCode.MEMORY,
}


_OF_CACHES = {"cache_ways": "ways", "cache_mib": "MiB", "memory_bandwidth": "% memory bandwidth"}
"""Fields that are left out if nothing is wanted, with their units."""


@dataclass(frozen=True, slots=True)
class Rejection:
    hostname: str
    filter: str
    reason: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The reasons for a failed request. ``message`` is for its user and names no host. ``record`` has JSON types.

    ``record`` names hosts.
    """

    message: str
    record: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Miss:
    """A host with too little of a resource.

    ``refusal`` is None if the exact plan fits. Then the host lacks disk.
    """

    host: HostState
    refusal: Refusal | None
    nearest: PlacementRequest | None
    """The nearest request of ``refusal``; None also if the host was not asked for it."""
    near: bool
    """True if ``nearest`` also passes the filters."""


def explain(
    hosts: Sequence[HostState],
    spec: RequestSpec,
    filters: Sequence[HostFilter],
    rejections: Sequence[Rejection],
    fits: Fits,
) -> Explanation:
    """Return why none of ``hosts`` can hold ``spec``. ``rejections`` has one entry for each host."""
    by_name = {host.hostname: host for host in hosts}
    room = {type(each).__name__ for each in filters if each.measures_capacity}
    full = [by_name[each.hostname] for each in rejections if each.filter in room]
    full = [host for host in full if may_hold(host, spec)]
    answers = _answers(full[:EXACT_HOSTS], spec)
    misses = _misses([host for host in full[:NEAREST_MISS_HOSTS] if host.hostname in answers], spec, answers, fits)
    message = told(hosts, spec, rejections, misses)
    codes = {each.hostname: code_of(each.filter, answers.get(each.hostname)) for each in rejections}
    reports = _reports(spec, rejections, codes, misses, fits)
    of = {type(each).__name__: each for each in filters}
    for report in reports:
        found = of[report["filter"]].found(by_name[report["host"]], spec)
        if found:
            report["found"] = dict(found)
    record = {
        "reason": message,
        "wanted": _wanted(spec),
        "hosts": len(hosts),
        "filters": dict(Counter(rejection.filter for rejection in rejections).most_common()),
        "codes": {str(code): count for code, count in Counter(codes.values()).most_common()},
        "changes": _smallest(spec.placement, reports),
        "details": reports,
        "details_left_out": len(rejections) - len(reports),
    }
    return Explanation(message, _bounded(record))


def refused_claims(spec: RequestSpec, tried: Mapping[str, str], message: str) -> Explanation:
    """Return the explanation for a request that every chosen host refused. ``tried`` maps host names to reasons."""
    details = [
        {"host": name, "filter": "", "code": str(HostCode.REFUSED_BEFORE), "reason": reason[:MAX_TEXT]}
        for name, reason in list(tried.items())[:EXPLAINED_HOSTS]
    ]
    record = {
        "reason": message,
        "wanted": _wanted(spec),
        "hosts": len(tried),
        "filters": {},
        "codes": {str(HostCode.REFUSED_BEFORE): len(tried)},
        "changes": [],
        "details": details,
        "details_left_out": len(tried) - len(details),
    }
    return Explanation(message, _bounded(record))


def extended(explanation: Explanation, text: str) -> Explanation:
    """Return ``explanation`` with ``text`` appended to the message and to the reason in the record."""
    message = explanation.message + text
    return Explanation(message, _bounded({**explanation.record, "reason": message}))


def may_hold(host: HostState, spec: RequestSpec) -> bool:
    """Return whether the host takes containers with the CPU policy of ``spec``."""
    return host.enable_cpu_pinning or not spec.dedicated


def refusal_of(host: HostState, spec: RequestSpec) -> Refusal | None:
    """Return the refusal of the exact plan, or None if the plan fits."""
    answer = host.answer(spec.placement)
    return answer if isinstance(answer, Refusal) else None


def shortage(refusal: Refusal, host: HostState) -> str:
    """Return the words of ``refusal`` for operators, with what other services have of ``host`` at Placement."""
    foreign = host.topology.foreign
    return f"{refusal.message}; other services have {foreign} of this host" if foreign else refusal.message


def code_of(filter_name: str, refusal: Refusal | None) -> HostCode | RefusalCode:
    """Return the code for a host that the filter rejected: the code of ``refusal`` if there is one."""
    return CODES.get(filter_name, HostCode.OTHER) if refusal is None else refusal.code


def _answers(hosts: Sequence[HostState], spec: RequestSpec) -> dict[str, Refusal | None]:
    """Return by host name the refusal, or None if the plan fits, until the refusals have taken ``MOST_STEPS``."""
    found: dict[str, Refusal | None] = {}
    steps = 0
    for host in hosts:
        if steps > MOST_STEPS:
            break
        refusal = found[host.hostname] = refusal_of(host, spec)
        # A kept refusal counts like a new one, so that equal questions get equal answers.
        steps += 0 if refusal is None else refusal.planned
    return found


def _misses(
    hosts: Sequence[HostState], spec: RequestSpec, answers: Mapping[str, Refusal | None], fits: Fits
) -> list[_Miss]:
    """Return how each host misses, with the nearest requests until these have taken ``MOST_STEPS``."""
    found, steps = [], 0
    for host in hosts:
        refusal = answers[host.hostname]
        before = 0 if refusal is None else refusal.steps
        nearest = None if refusal is None or steps > MOST_STEPS else refusal.nearest
        found.append(
            _Miss(host, refusal, nearest, nearest is not None and fits(host, replace(spec, placement=nearest)))
        )
        steps += 0 if refusal is None else refusal.steps - before
    return found


# Messages


def told(
    hosts: Sequence[HostState], spec: RequestSpec, rejections: Sequence[Rejection], misses: Sequence[_Miss]
) -> str:
    """Return the message for the request's user: counts by filter, and the nearest miss. It names no host."""
    if not hosts:
        return "No valid host was found: no compute host has registered yet."
    counts = Counter(rejection.filter for rejection in rejections)
    counted = ", ".join(f"{name} rejected {count}" for name, count in counts.most_common())
    message = f"No valid host was found. Of {len(hosts)} host{'s' * (len(hosts) > 1)}, {counted}."
    nearest = _nearest_miss(misses, spec)
    # If the plan fits, the host lacks disk.
    fitting = {miss.host.hostname for miss in misses}
    short = [each for each in rejections if each.hostname in fitting and CODES.get(each.filter) is HostCode.DISK]
    if nearest is None and short:
        nearest = _short_of_disk([miss.host for miss in misses], short)
    traits = [each for each in rejections if CODES.get(each.filter) is HostCode.TRAIT]
    others = [each for each in rejections if CODES.get(each.filter) is not HostCode.TRAIT]
    if traits:
        message = f"{message} {_missing_traits(traits)}"
    return f"{message} {nearest or (_first_reason(others) if others else '')}".rstrip()


def _nearest_miss(misses: Sequence[_Miss], spec: RequestSpec) -> str | None:
    """Return the shortage of the nearest host, and the largest similar request that would fit there."""
    best = max(misses, key=_nearness, default=None)
    if best is None or best.refusal is None:
        return None
    would = _would_fit(best.nearest, spec.placement) if best.near else ""
    return f"Nearest miss: {best.refusal.message.rstrip('.')}.{would}"


def _short_of_disk(hosts: Sequence[HostState], rejections: Sequence[Rejection]) -> str:
    """Return the nearest miss of requests that lack only disk. If it is the disk of a pool, the sentence names it."""
    pooled = {host.hostname for host in hosts if host.disk_pool is not None}
    reasons = [each.reason for each in rejections if each.hostname in pooled]
    if len(reasons) < len(rejections):
        return "Nearest miss: a host has the CPUs and the memory, but not the disk."
    return f"Nearest miss: a host has the CPUs and the memory, but {Counter(reasons).most_common(1)[0][0]}."


def _nearness(miss: _Miss) -> tuple[bool, bool, float, int]:
    if miss.refusal is None:
        return (False, False, -1.0, -1)
    nearest = miss.nearest
    amounts = (-1.0, -1) if nearest is None else (float(nearest.cpus), nearest.memory_mib)
    return (True, miss.near, *amounts)


def _device_conditions(nearest: PlacementRequest, wanted: PlacementRequest) -> list[str]:
    """Return the words for devices that differ from ``wanted``. Example: ["with 1 of devices gpu"]."""
    if nearest.devices == wanted.devices and nearest.device_same == wanted.device_same:
        return []
    if not nearest.devices:
        return ["without devices"]
    found = [f"with {each.count} of devices {each.name}" for each in nearest.devices]
    if any(each.numa_policy != other.numa_policy for each, other in zip(nearest.devices, wanted.devices, strict=False)):
        found.append(f"with device policy {', '.join(sorted({str(each.numa_policy) for each in nearest.devices}))}")
    if wanted.device_same == DeviceSame.LINK != nearest.device_same:
        found.append("without links between them")
    elif nearest.device_same != wanted.device_same:
        found.append(f"with devices on the same {nearest.device_same}")
    return found


def _member_conditions(nearest: PlacementRequest, wanted: PlacementRequest) -> list[str]:
    """Return the words for members that differ. Example: ["with 2 CPUs and 512 MiB for capsule-web-nginx"]."""
    found = []
    if nearest.member_same != wanted.member_same:
        only = nearest.member_same != "none"
        found.append(f"with all dedicated CPUs in one {nearest.member_same}" if only else "without spec.placement.same")
    for number, (near, each) in enumerate(zip(nearest.members, wanted.members, strict=False), 1):
        if near != each:
            asked = amounts.cpus(amounts.text(near.cpus))
            whose = each.title or f"part {number} of the capsule"
            found.append(f"with {asked} and {near.memory_mib} MiB for {whose}")
    return found


def _would_fit(nearest: PlacementRequest | None, wanted: PlacementRequest) -> str:
    """Return a sentence about the nearest request: its size, and every other condition that differs from ``wanted``.

    Example: " A request for 3 CPUs and 512 MiB with thread policy prefer would fit now."
    """
    if nearest is None:
        return ""
    conditions = []
    if nearest.numa_nodes != 1 or wanted.numa_nodes != 1:
        conditions.append(f"on {nearest.numa_nodes} cell{'s' * (nearest.numa_nodes > 1)}")
    if parts := _parts(nearest, wanted):
        conditions.append(f"with {parts}")
    if nearest.thread_policy != wanted.thread_policy:
        conditions.append(f"with thread policy {nearest.thread_policy}")
    if nearest.isolation != wanted.isolation:
        conditions.append(f"with isolation {nearest.isolation}")
    if nearest.page_size != wanted.page_size:
        size = nearest.page_size or "small"
        conditions.append(f"with pages of {size} KiB" if isinstance(size, int) else f"with {size} pages")
    if nearest.numa_affinity != wanted.numa_affinity:
        conditions.append(f"with NUMA affinity {nearest.numa_affinity}")
    if wanted.wants_cache and not nearest.wants_cache:
        conditions.append("without a part of the L3 caches")
    else:
        for name, unit in _OF_CACHES.items():
            if getattr(nearest, name) != getattr(wanted, name):
                conditions.append(f"with {getattr(nearest, name)} {unit} of each L3 cache")
    conditions += _device_conditions(nearest, wanted)
    conditions += _member_conditions(nearest, wanted)
    told = "".join(f" {condition}" for condition in conditions)
    asked = amounts.cpus(amounts.text(nearest.cpus))
    return f" A request for {asked} and {nearest.memory_mib} MiB{told} would fit now."


def _parts(nearest: PlacementRequest, wanted: PlacementRequest) -> str:
    """Return the split of the nearest request among cells, for example "2 + 4 CPUs and 512 + 1024 MiB".

    Even splits, and splits that are equal to the wanted one, are left out.
    """
    shapes = (("CPUs", nearest.numa_cpus, wanted.numa_cpus), ("MiB", nearest.numa_mem, wanted.numa_mem))
    parts = [(unit, shape) for unit, shape, before in shapes if shape is not None and shape != before]
    return " and ".join(" + ".join(f"{amounts.text(part)}" for part in shape) + f" {unit}" for unit, shape in parts)


def _missing_traits(rejections: Sequence[Rejection]) -> str:
    """Return what most hosts lack of traits and aggregates, with the number of these hosts."""
    reasons = Counter(rejection.reason for rejection in rejections).most_common(TRAIT_REASONS)
    counted = (f"{count} host{'s' * (count > 1)}: {reason}" for reason, count in reasons)
    return f"Traits: {'. '.join(counted)}."


def _first_reason(rejections: Sequence[Rejection]) -> str:
    reasons = Counter(rejection.reason for rejection in rejections)
    return f"Most common reason: {reasons.most_common(1)[0][0]}."


# Records


def _wanted(spec: RequestSpec) -> dict[str, Any]:
    return {
        **_fields(spec.placement),
        DISK: spec.disk,
        "availability_zone": spec.availability_zone,
        "runtime": spec.runtime,
        **{name: value for name, value in _traits(spec).items() if value},
    }


def _traits(spec: RequestSpec) -> dict[str, Any]:
    return {
        "required_traits": sorted(spec.required_traits),
        "forbidden_traits": sorted(spec.forbidden_traits),
        "any_traits": [sorted(names) for names in spec.any_traits],
        "member_of": [sorted(uuids) for uuids in spec.member_of],
    }


def _fields(request: PlacementRequest) -> dict[str, Any]:
    """Return the fields of a request under their names in the API."""
    record = request.to_dict()
    named = {field: record[name] for name, field in ASKED_AS.items() if name in record}
    sizes = named if request.dedicated else {name: named[name] for name in ("cpu", "memory", "cpu_policy")}
    return {**sizes, **_devices(request)} if request.devices else sizes


def _devices(request: PlacementRequest) -> dict[str, Any]:
    devices = [
        {"name": each.name, "count": each.count, "traits": list(each.traits), "numa_policy": str(each.numa_policy)}
        for each in request.devices
    ]
    return {"devices": devices, "device_same": request.device_same}


def _reports(
    spec: RequestSpec,
    rejections: Sequence[Rejection],
    codes: Mapping[str, str],
    misses: Sequence[_Miss],
    fits: Fits,
) -> list[dict[str, Any]]:
    """Return one record per host: the nearest misses first, then the other hosts in the order of ``rejections``."""
    ranked = {miss.host.hostname: miss for miss in sorted(misses, key=_nearness, reverse=True)}
    place = {name: position for position, name in enumerate(ranked)}
    ordered = sorted(rejections, key=lambda each: place.get(each.hostname, len(place)))[:EXPLAINED_HOSTS]
    reports, steps = [], 0
    for each in ordered:
        miss = ranked.get(each.hostname)
        refusal = None if miss is None else miss.refusal
        before = 0 if refusal is None else refusal.steps
        reports.append(_report(each, spec, codes[each.hostname], miss, fits, steps <= MOST_STEPS))
        steps += 0 if refusal is None else refusal.steps - before
    return reports


def _report(
    rejection: Rejection, spec: RequestSpec, code: str, miss: _Miss | None, fits: Fits, changes: bool
) -> dict[str, Any]:
    """Return the record of one host, with the changes that fit if ``changes`` are wanted."""
    report: dict[str, Any] = {
        "host": rejection.hostname,
        "filter": rejection.filter,
        "code": str(code),
        "reason": rejection.reason[:MAX_TEXT],
    }
    if miss is None:
        return report
    host, refusal = miss.host, miss.refusal
    if refusal is not None:
        report["reason"] = shortage(refusal, host)[:MAX_TEXT]
        report["wanted"] = [
            {"cpus": each.cpus, "memory_mib": each.memory_mib, "page_kib": each.page_kib}
            for each in refusal.wanted[:MAX_NODES]
        ]
    left = host.usage.free(host.topology, spec.placement.isolation)
    report["free"] = [_cell(node, free) for node, free in sorted(left.items())]
    report["disk_free"] = spec.free_disk(host)
    report["changes"] = list(_changes(host, spec, refusal, fits)) if changes else []
    return report


def _cell(node: int, free: CellFree) -> dict[str, Any]:
    return {
        "node": node,
        "cpus": len(free.cpus),
        "whole_cores": len(free.cores),
        "shared": amounts.exact(free.shared),
        "memory_mib": max(0, free.memory_mib),
        "pages": {str(size): max(0, count) for size, count in free.pages.items()},
    }


def _changes(host: HostState, spec: RequestSpec, refusal: Refusal | None, fits: Fits) -> Iterator[dict[str, Any]]:
    """Yield the smallest change in each dimension with which the request passes every filter and fits the host."""
    if refusal is None:
        room = int(spec.free_disk(host))
        if 0 <= room < spec.disk and fits(host, replace(spec, disk=room)):
            yield {"dimension": DISK, "change": {DISK: room}}
        return
    before = _fields(spec.placement)
    for change in refusal.changes:
        # For a shared container the API accepts only the numbers of CPUs and MiB.
        if not spec.dedicated and change.dimension not in (Dimension.CPUS, Dimension.MEMORY):
            continue
        if fits(host, replace(spec, placement=change.request)):
            after = _fields(change.request)
            differing = {name: value for name, value in after.items() if value != before.get(name)}
            differing |= {name: None for name in _OF_CACHES if name in before and name not in after}
            if differing:  # the API has no fields for some conditions
                yield {"dimension": str(change.dimension), "change": differing}


def _smallest(wanted: PlacementRequest, reports: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the smallest change in each dimension over all described hosts."""
    best: dict[str, dict[str, Any]] = {}
    for report in reports:
        for change in report.get("changes", ()):
            known = best.get(change["dimension"])
            if known is None or _size(wanted, change) < _size(wanted, known):
                best[change["dimension"]] = change
    order = [*map(str, Dimension), DISK]
    return sorted(best.values(), key=lambda change: order.index(change["dimension"]))


def _size(wanted: PlacementRequest, change: Mapping[str, Any]) -> tuple[float, ...]:
    """Return a sort key for the size of a change: a change to 6 CPUs (-6) is smaller than one to 4 CPUs (-4)."""
    dimension, fields = change["dimension"], change["change"]
    if dimension == Dimension.CPUS:
        return (-fields["cpu"],)
    if dimension == Dimension.MEMORY:
        return (-fields["memory"],)
    if dimension == DISK:
        return (-fields[DISK],)
    if dimension == Dimension.NODES:
        return (abs(fields["numa_nodes"] - wanted.numa_nodes), -fields["numa_nodes"])
    if dimension == Dimension.ISOLATION:
        return (-[*Isolation].index(Isolation(fields["cpu_isolation"])),)
    if dimension in (Dimension.PAGES, Dimension.CACHE, Dimension.BANDWIDTH):
        (value,) = fields.values()
        return (-(value or 0),)
    return ()


def _bounded(record: dict[str, Any]) -> dict[str, Any]:
    """Return ``record`` without its last hosts, as many as needed to stay within ``MAX_BYTES``."""
    while record["details"] and len(json.dumps(record)) > MAX_BYTES:
        left_out = record["details_left_out"] + 1
        record = {**record, "details": record["details"][:-1], "details_left_out": left_out}
    return record
