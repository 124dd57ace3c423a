# SPDX-License-Identifier: Apache-2.0
"""Why nothing can hold a request: what is told of it, and to whom."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from zun.scheduler.filters import HostFilter
from zun.scheduler.host_table import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.topology import PlacementRequest, Refusal, plan

# Hosts that are asked what would have fitted when nothing does: enough for a useful answer, bounded for a large cloud.
NEAREST_MISS_HOSTS = 50

Fits = Callable[[HostState, RequestSpec], bool]
"""Whether a host passes every filter and has an exact place for a request."""


@dataclass(frozen=True, slots=True)
class Rejection:
    hostname: str
    filter: str
    reason: str


def told(
    hosts: Sequence[HostState],
    spec: RequestSpec,
    filters: Sequence[HostFilter],
    rejections: Sequence[Rejection],
    fits: Fits,
) -> str:
    """The reasons in words for the request's user: counts by filter and nearest miss, no host names."""
    if not hosts:
        return "No valid host was found: no compute host has registered yet."
    counts = Counter(rejection.filter for rejection in rejections)
    counted = ", ".join(f"{name} rejected {count}" for name, count in counts.most_common())
    message = f"No valid host was found. Of {len(hosts)} host{'s' * (len(hosts) > 1)}, {counted}."
    capacity = {type(each).__name__ for each in filters if each.measures_capacity}
    by_name = {host.hostname: host for host in hosts}
    full = [by_name[each.hostname] for each in rejections if each.filter in capacity]
    full = [host for host in full if host.enable_cpu_pinning or not spec.dedicated]
    nearest = _nearest_miss(full, spec, fits)
    if nearest is None and full:
        nearest = "Nearest miss: a host has the CPUs and the memory, but not the disk."
    return f"{message} {nearest or _first_reason(rejections)}"


def _nearest_miss(hosts: Sequence[HostState], spec: RequestSpec, fits: Fits) -> str | None:
    """What the best of the full hosts lacks, and the largest like request that would really go there."""
    misses: list[tuple[Refusal, bool]] = []
    for host in hosts[:NEAREST_MISS_HOSTS]:
        answer = plan(host.topology, host.usage, spec.placement)
        if isinstance(answer, Refusal):
            near = answer.nearest is not None and fits(host, replace(spec, placement=answer.nearest))
            misses.append((answer, near))
    if not misses:
        return None
    best, near = max(misses, key=lambda miss: (miss[1], *_nearness(miss[0])))
    return f"Nearest miss: {best.message.rstrip('.')}.{_would_fit(best.nearest, spec.placement) if near else ''}"


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
