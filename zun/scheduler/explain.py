# SPDX-License-Identifier: Apache-2.0
"""Why nothing can hold a request: what is told of it, and to whom.

The message is one sentence or two for the container's ``status_reason``. The record is for programs and for who wants
to know more: counts, and for the nearest hosts what is free and wanted on each node and what change would fit. It names
hosts; who must not see them is the API's matter. It is bounded: at most ``EXPLAINED_HOSTS`` hosts, each text cut to
``MAX_TEXT`` characters, the whole to ``MAX_BYTES`` of JSON.
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
from zun.topology import CellFree, Dimension, Isolation, PlacementRequest, Refusal, RefusalCode

# Hosts whose code is that of the exact plan; those beyond go by the filter that turned them away.
EXACT_HOSTS = 1000
# Hosts that are asked what would have fitted when nothing does: enough for a useful answer, bounded for a large cloud.
NEAREST_MISS_HOSTS = 50
# The nearest of them are asked for every change that would fit, and described one by one.
EXPLAINED_HOSTS = 20
MAX_TEXT = 500
MAX_NODES = 64
MAX_BYTES = 60_000

Fits = Callable[[HostState, RequestSpec], bool]
"""Whether a host passes every filter and has an exact place for a request."""

DISK = "disk"
"""Beside the dimensions of ``zun.topology``: less disk."""


class HostCode(StrEnum):
    """Why a host is unfit as a whole. Where an amount is short on its nodes, ``RefusalCode`` says which.

    Both together are the closed list of codes.
    """

    REFUSED_BEFORE = "refused-before"
    """It refused the claim when it was asked."""
    SERVICE = "service"
    """Its compute service is down, disabled or was never up."""
    ZONE = "zone"
    """It is in another zone, or another host was asked for."""
    RUNTIME = "runtime"
    """It has no such container runtime."""
    LABEL = "label"
    """A label that was asked for is missing or different."""
    RESERVED = "reserved"
    """One of its aggregates keeps it for other projects."""
    AGGREGATE = "aggregate"
    """Its aggregates have not got what the extra specs ask of them."""
    IMAGE = "image"
    """It cannot run the image: another architecture or operating system, or a runtime is missing."""
    GROUP = "group"
    """One more member of the container group would break its rule there."""
    NEIGHBOUR = "neighbour"
    """It has a container that was to be avoided, or none of those that it had to have."""
    DEVICE = "device"
    """It has no such device."""
    NO_PINNING = "no-pinning"
    """It takes no dedicated containers."""
    DISK = "disk"
    """Not enough disk."""
    OTHER = "other"
    """Turned away by a filter that has no code of its own; ``filter`` names it."""


CODES: Mapping[str, HostCode | RefusalCode] = {
    "RetryFilter": HostCode.REFUSED_BEFORE,
    "ComputeFilter": HostCode.SERVICE,
    "AvailabilityZoneFilter": HostCode.ZONE,
    "RuntimeFilter": HostCode.RUNTIME,
    "IsolationFilter": HostCode.RESERVED,
    "AggregateExtraSpecsFilter": HostCode.AGGREGATE,
    "ImagePropertiesFilter": HostCode.IMAGE,
    "LabelFilter": HostCode.LABEL,
    "SameHostFilter": HostCode.NEIGHBOUR,
    "DifferentHostFilter": HostCode.NEIGHBOUR,
    "GroupAffinityFilter": HostCode.GROUP,
    "GroupAntiAffinityFilter": HostCode.GROUP,
    "PciPassthroughFilter": HostCode.DEVICE,
    "CpuSetFilter": HostCode.NO_PINNING,
    "DiskFilter": HostCode.DISK,
    "CPUFilter": RefusalCode.CPUS,
    "RamFilter": RefusalCode.MEMORY,
}


@dataclass(frozen=True, slots=True)
class Rejection:
    hostname: str
    filter: str
    reason: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """``message`` is for the request's user and names no host; ``record`` is JSON-able and does."""

    message: str
    record: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Miss:
    """A host with too little of something. ``refusal`` is None when the exact plan fits: the disk is short, or what an
    aggregate's lower allocation ratio leaves."""

    host: HostState
    refusal: Refusal | None
    near: bool
    """The nearest request of the refusal passes the filters as well."""


def explain(
    hosts: Sequence[HostState],
    spec: RequestSpec,
    filters: Sequence[HostFilter],
    rejections: Sequence[Rejection],
    fits: Fits,
) -> Explanation:
    """Why each of ``hosts``, all of which are in ``rejections``, cannot hold ``spec``."""
    by_name = {host.hostname: host for host in hosts}
    room = {type(each).__name__ for each in filters if each.measures_capacity}
    full = [by_name[each.hostname] for each in rejections if each.filter in room]
    full = [host for host in full if may_hold(host, spec)]
    answers = {host.hostname: refusal_of(host, spec) for host in full[:EXACT_HOSTS]}
    misses = [_miss(host, spec, answers[host.hostname], fits) for host in full[:NEAREST_MISS_HOSTS]]
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
    """The explanation when hosts were found and each refused the claim: ``tried`` has their reasons by name."""
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
    """``explanation`` with ``text`` at the end of what is said, for its user and in the record."""
    message = explanation.message + text
    return Explanation(message, _bounded({**explanation.record, "reason": message}))


def may_hold(host: HostState, spec: RequestSpec) -> bool:
    """Whether the host takes containers of this policy at all."""
    return host.enable_cpu_pinning or not spec.dedicated


def refusal_of(host: HostState, spec: RequestSpec) -> Refusal | None:
    """Why the exact plan has no place; None when it has one."""
    answer = host.answer(spec.placement)
    return answer if isinstance(answer, Refusal) else None


def code_of(filter_name: str, refusal: Refusal | None) -> HostCode | RefusalCode:
    """The first condition that binds on a host that this filter turned away; ``refusal`` is of its exact plan."""
    return CODES.get(filter_name, HostCode.OTHER) if refusal is None else refusal.code


def _miss(host: HostState, spec: RequestSpec, refusal: Refusal | None, fits: Fits) -> _Miss:
    nearest = None if refusal is None else refusal.nearest
    return _Miss(host, refusal, nearest is not None and fits(host, replace(spec, placement=nearest)))


# In words


def told(
    hosts: Sequence[HostState], spec: RequestSpec, rejections: Sequence[Rejection], misses: Sequence[_Miss]
) -> str:
    """The reasons in words for the request's user: counts by filter and nearest miss, no host names."""
    if not hosts:
        return "No valid host was found: no compute host has registered yet."
    counts = Counter(rejection.filter for rejection in rejections)
    counted = ", ".join(f"{name} rejected {count}" for name, count in counts.most_common())
    message = f"No valid host was found. Of {len(hosts)} host{'s' * (len(hosts) > 1)}, {counted}."
    nearest = _nearest_miss(misses, spec)
    # Where the plan fits it is the disk, or a ratio that an aggregate lowers.
    fitting = {miss.host.hostname for miss in misses}
    if nearest is None and any(
        each.hostname in fitting and CODES.get(each.filter) is HostCode.DISK for each in rejections
    ):
        nearest = "Nearest miss: a host has the CPUs and the memory, but not the disk."
    return f"{message} {nearest or _first_reason(rejections)}"


def _nearest_miss(misses: Sequence[_Miss], spec: RequestSpec) -> str | None:
    """What the best of the full hosts lacks, and the largest like request that would really go there."""
    best = max(misses, key=_nearness, default=None)
    if best is None or best.refusal is None:
        return None
    would = _would_fit(best.refusal.nearest, spec.placement) if best.near else ""
    return f"Nearest miss: {best.refusal.message.rstrip('.')}.{would}"


def _nearness(miss: _Miss) -> tuple[bool, bool, float, int]:
    if miss.refusal is None:
        return (False, False, -1.0, -1)
    nearest = miss.refusal.nearest
    amounts = (-1.0, -1) if nearest is None else (float(nearest.cpus), nearest.memory_mib)
    return (True, miss.near, *amounts)


def _would_fit(nearest: PlacementRequest | None, wanted: PlacementRequest) -> str:
    """The nearest request in words, with each condition in which it differs besides its size."""
    if nearest is None:
        return ""
    conditions = []
    if nearest.numa_nodes != 1 or wanted.numa_nodes != 1:
        conditions.append(f"on {nearest.numa_nodes} NUMA node{'s' * (nearest.numa_nodes > 1)}")
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
    told = "".join(f" {condition}" for condition in conditions)
    return f" A request for {nearest.cpus:g} CPUs and {nearest.memory_mib} MiB{told} would fit now."


def _parts(nearest: PlacementRequest, wanted: PlacementRequest) -> str:
    """How the nearest request is parted among its nodes, where that is neither evenly nor as it was asked for."""
    shapes = (("CPUs", nearest.numa_cpus, wanted.numa_cpus), ("MiB", nearest.numa_mem, wanted.numa_mem))
    parts = [(unit, shape) for unit, shape, before in shapes if shape is not None and shape != before]
    return " and ".join(" + ".join(f"{part:g}" for part in shape) + f" {unit}" for unit, shape in parts)


def _first_reason(rejections: Sequence[Rejection]) -> str:
    reasons = Counter(rejection.reason for rejection in rejections)
    return f"Most common reason: {reasons.most_common(1)[0][0]}."


# As a record


def _wanted(spec: RequestSpec) -> dict[str, Any]:
    return {
        **_fields(spec.placement),
        DISK: spec.disk,
        "availability_zone": spec.availability_zone,
        "runtime": spec.runtime,
    }


def _fields(request: PlacementRequest) -> dict[str, Any]:
    """A request under the names it has in the API."""
    named = {ASKED_AS[name]: value for name, value in request.to_dict().items()}
    return named if request.dedicated else {name: named[name] for name in ("cpu", "memory", "cpu_policy")}


def _reports(
    spec: RequestSpec,
    rejections: Sequence[Rejection],
    codes: Mapping[str, str],
    misses: Sequence[_Miss],
    fits: Fits,
) -> list[dict[str, Any]]:
    """The hosts one by one, the nearest misses first, then the others in the order of their rejection."""
    ranked = {miss.host.hostname: miss for miss in sorted(misses, key=_nearness, reverse=True)}
    place = {name: position for position, name in enumerate(ranked)}
    ordered = sorted(rejections, key=lambda each: place.get(each.hostname, len(place)))[:EXPLAINED_HOSTS]
    return [_report(each, spec, codes[each.hostname], ranked.get(each.hostname), fits) for each in ordered]


def _report(rejection: Rejection, spec: RequestSpec, code: str, miss: _Miss | None, fits: Fits) -> dict[str, Any]:
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
        report["reason"] = refusal.message[:MAX_TEXT]
        report["wanted"] = [
            {"cpus": each.cpus, "memory_mib": each.memory_mib, "page_kib": each.page_kib}
            for each in refusal.wanted[:MAX_NODES]
        ]
    left = host.usage.free(host.topology, spec.placement.isolation)
    report["free"] = [_cell(node, free) for node, free in sorted(left.items())]
    report["disk_free"] = host.free_disk
    report["changes"] = list(_changes(host, spec, refusal, fits))
    return report


def _cell(node: int, free: CellFree) -> dict[str, Any]:
    return {
        "node": node,
        "cpus": len(free.cpus),
        "whole_cores": len(free.cores),
        "shared": round(free.shared, 6),
        "memory_mib": max(0, free.memory_mib),
        "pages": {str(size): max(0, count) for size, count in free.pages.items()},
    }


def _changes(host: HostState, spec: RequestSpec, refusal: Refusal | None, fits: Fits) -> Iterator[dict[str, Any]]:
    """The smallest change in each dimension after which this host would take the request, every filter included."""
    if refusal is None:
        room = int(host.free_disk)
        if 0 <= room < spec.disk and fits(host, replace(spec, disk=room)):
            yield {"dimension": DISK, "change": {DISK: room}}
        return
    before = _fields(spec.placement)
    for change in refusal.changes:
        # Of a shared container the API takes no more than amounts.
        if not spec.dedicated and change.dimension not in (Dimension.CPUS, Dimension.MEMORY):
            continue
        if fits(host, replace(spec, placement=change.request)):
            after = _fields(change.request)
            differing = {name: value for name, value in after.items() if value != before[name]}
            yield {"dimension": str(change.dimension), "change": differing}


def _smallest(wanted: PlacementRequest, reports: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The smallest change in each dimension over all described hosts."""
    best: dict[str, dict[str, Any]] = {}
    for report in reports:
        for change in report.get("changes", ()):
            known = best.get(change["dimension"])
            if known is None or _size(wanted, change) < _size(wanted, known):
                best[change["dimension"]] = change
    order = [*map(str, Dimension), DISK]
    return sorted(best.values(), key=lambda change: order.index(change["dimension"]))


def _size(wanted: PlacementRequest, change: Mapping[str, Any]) -> tuple[float, ...]:
    """How large a change is, against others of its dimension."""
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
    if dimension == Dimension.PAGES:
        return (-(fields["mem_page_size"] or 0),)
    return ()


def _bounded(record: dict[str, Any]) -> dict[str, Any]:
    """``record`` without as many of the last hosts as it takes to keep it small."""
    while record["details"] and len(json.dumps(record)) > MAX_BYTES:
        left_out = record["details_left_out"] + 1
        record = {**record, "details": record["details"][:-1], "details_left_out": left_out}
    return record
