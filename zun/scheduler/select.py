# SPDX-License-Identifier: Apache-2.0
"""The decision: which hosts can hold one request, best first, and exactly what it would get there.

Two stages. Every host passes the filters' cheap tests and is weighed; then the best ones are looked at exactly, one
after the other, until enough of them can really hold it. Every host that drops out leaves a reason.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zun.scheduler import weighers
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_table import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.topology import PlacementRequest, Refusal, plan

# Hosts that are asked what would have fitted when nothing does: enough for a useful answer, bounded for a large cloud.
NEAREST_MISS_HOSTS = 50


@dataclass(frozen=True, slots=True)
class Choice:
    """A host and what the claim there must keep to. ``limits['cpuset']`` is the plan, one record a cell."""

    hostname: str
    limits: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rejection:
    hostname: str
    filter: str
    reason: str


@dataclass(frozen=True, slots=True)
class NoValidHost:
    """Nothing can hold the request. ``message`` is for its user: counts by filter and nearest miss, no host names."""

    rejections: tuple[Rejection, ...]
    message: str


def select(
    hosts: Sequence[HostState],
    spec: RequestSpec,
    filters: Sequence[HostFilter],
    weights: Sequence[weighers.Weighted],
    count: int,
) -> list[Choice] | NoValidHost:
    """Up to ``count`` hosts that can hold ``spec``, best first, or why there is none."""
    fit: list[HostState] = []
    rejections: list[Rejection] = []
    for host in hosts:
        rejection = _reject(host, spec, filters)
        if rejection is None:
            fit.append(host)
        else:
            rejections.append(rejection)
    choices: list[Choice] = []
    for host in weighers.order(fit, spec, weights):
        answer = _limits(host, spec, filters)
        if isinstance(answer, Rejection):
            rejections.append(answer)
            continue
        choices.append(Choice(host.hostname, answer))
        if len(choices) == count:
            break
    return choices or NoValidHost(tuple(rejections), _explain(hosts, spec, filters, rejections))


def _reject(host: HostState, spec: RequestSpec, filters: Sequence[HostFilter]) -> Rejection | None:
    for each in filters:
        reason = each.reject(host, spec)
        if reason is not None:
            return Rejection(host.hostname, type(each).__name__, reason)
    return None


def _limits(host: HostState, spec: RequestSpec, filters: Sequence[HostFilter]) -> dict[str, Any] | Rejection:
    limits: dict[str, Any] = {"generation": host.generation}
    for each in filters:
        answer = each.limits(host, spec)
        if isinstance(answer, Refusal):
            return Rejection(host.hostname, type(each).__name__, answer.message)
        limits.update(answer)
    return limits


def _explain(
    hosts: Sequence[HostState],
    spec: RequestSpec,
    filters: Sequence[HostFilter],
    rejections: Sequence[Rejection],
) -> str:
    if not hosts:
        return "No valid host was found: no compute host has registered yet."
    counts = Counter(rejection.filter for rejection in rejections)
    told = ", ".join(f"{name} rejected {count}" for name, count in counts.most_common())
    message = f"No valid host was found. Of {len(hosts)} host{'s' * (len(hosts) > 1)}, {told}."
    capacity = {type(each).__name__ for each in filters if each.measures_capacity}
    by_name = {host.hostname: host for host in hosts}
    full = [by_name[each.hostname] for each in rejections if each.filter in capacity]
    full = [host for host in full if host.enable_cpu_pinning or not spec.dedicated]
    nearest = _nearest_miss(full, spec, filters)
    if nearest is None and full:
        nearest = "Nearest miss: a host has the CPUs and the memory, but not the disk."
    return f"{message} {nearest or _first_reason(rejections)}"


def _nearest_miss(hosts: Sequence[HostState], spec: RequestSpec, filters: Sequence[HostFilter]) -> str | None:
    """What the best of the full hosts lacks, and the largest like request that would really go there."""
    misses: list[tuple[Refusal, bool]] = []
    for host in hosts[:NEAREST_MISS_HOSTS]:
        answer = plan(host.topology, host.usage, spec.placement)
        if isinstance(answer, Refusal):
            fits = answer.nearest is not None and _fits(host, replace(spec, placement=answer.nearest), filters)
            misses.append((answer, fits))
    if not misses:
        return None
    best, fits = max(misses, key=lambda miss: (miss[1], *_nearness(miss[0])))
    return f"Nearest miss: {best.message.rstrip('.')}.{_would_fit(best.nearest, spec.placement) if fits else ''}"


def _fits(host: HostState, spec: RequestSpec, filters: Sequence[HostFilter]) -> bool:
    return _reject(host, spec, filters) is None and not isinstance(_limits(host, spec, filters), Rejection)


def _nearness(refusal: Refusal) -> tuple[float, int]:
    nearest = refusal.nearest
    return (-1.0, -1) if nearest is None else (float(nearest.cpus), nearest.memory_mib)


def _would_fit(nearest: PlacementRequest | None, wanted: PlacementRequest) -> str:
    """The nearest request in words, with each condition in which it differs besides its size."""
    if nearest is None:
        return ""
    conditions = []
    if nearest.numa_nodes != 1 or wanted.numa_nodes != 1:
        conditions.append(f"on {nearest.numa_nodes} NUMA node{'s' * (nearest.numa_nodes > 1)}")
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


def _first_reason(rejections: Sequence[Rejection]) -> str:
    reasons = Counter(rejection.reason for rejection in rejections)
    return f"Most common reason: {reasons.most_common(1)[0][0]}."
