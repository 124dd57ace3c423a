# SPDX-License-Identifier: Apache-2.0
"""The nearest request that a host could have taken: the part of a refusal a user can act on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from zun.topology.cells import HostTopology
from zun.topology.placement import Plan
from zun.topology.refusal import Refusal
from zun.topology.request import MICRO, CPUPolicy, NUMAAffinity, PlacementRequest, ThreadPolicy
from zun.topology.usage import Usage

Fits = Callable[[PlacementRequest], bool]


def nearest(
    topology: HostTopology,
    usage: Usage,
    request: PlacementRequest,
    plan: Callable[[HostTopology, Usage, PlacementRequest], Plan | Refusal],
) -> PlacementRequest | None:
    """The first of the alternatives that ``plan`` grants; their order is told in ``Refusal.nearest``."""

    def fits(other: PlacementRequest) -> bool:
        return isinstance(plan(topology, usage, other), Plan)

    fewer, less = _fewer_cpus(request, fits), _less_memory(request, fits)
    if fewer is not None and less is not None:
        return less if _loss(request, less) < _loss(request, fewer) else fewer
    if fewer is not None or less is not None:
        return fewer or less
    relaxed = next((other for other in _relaxed(request, len(topology.cells)) if fits(other)), None)
    return relaxed or _less_of_both(request, fits)


def _loss(request: PlacementRequest, smaller: PlacementRequest) -> float:
    """The largest part of an amount that is given up."""
    cpus = 1 - smaller.cpus / request.cpus if request.cpus else 0.0
    memory = 1 - smaller.memory_mib / request.memory_mib if request.memory_mib else 0.0
    return max(cpus, memory)


def _fewer_cpus(request: PlacementRequest, fits: Fits) -> PlacementRequest | None:
    unit = 1 if request.dedicated else MICRO

    def with_at_most(most: int) -> PlacementRequest:
        if request.numa_cpus is None:
            return replace(request, cpus=most / unit)
        entries = tuple(min(entry, most / unit) for entry in request.numa_cpus)
        return replace(request, cpus=round(sum(entries), 6), numa_cpus=entries)

    least = 0 if not request.dedicated else request.numa_nodes if request.numa_cpus is None else 1
    largest = request.cpus if request.numa_cpus is None else max(request.numa_cpus)
    return _largest(least, round(largest * unit) - 1, with_at_most, fits)


def _less_memory(request: PlacementRequest, fits: Fits) -> PlacementRequest | None:
    def with_at_most(most: int) -> PlacementRequest:
        if request.numa_mem is None:
            return replace(request, memory_mib=most)
        entries = tuple(min(entry, most) for entry in request.numa_mem)
        return replace(request, memory_mib=sum(entries), numa_mem=entries)

    largest = request.memory_mib if request.numa_mem is None else max(request.numa_mem)
    # A container with no memory at all is nobody's wish.
    return _largest(1, largest - 1, with_at_most, fits)


def _largest(
    least: int, most: int, at_most: Callable[[int], PlacementRequest], fits: Fits
) -> PlacementRequest | None:
    """The largest request between the bounds that fits: whoever can have much can have less, so bisect."""
    if most < least or not fits(at_most(least)):
        return None
    while least < most:
        middle = (least + most + 1) // 2
        if fits(at_most(middle)):
            least = middle
        else:
            most = middle - 1
    return at_most(least)


def _relaxed(request: PlacementRequest, cells: int) -> Iterator[PlacementRequest]:
    """The same amounts with fewer conditions."""
    even = replace(request, numa_cpus=None, numa_mem=None)
    if request.numa_affinity == NUMAAffinity.REQUIRE:
        most = min(cells, int(request.cpus)) if request.dedicated else cells
        for nodes in range(request.numa_nodes + 1, most + 1):
            yield replace(even, numa_nodes=nodes)
        yield replace(even, numa_nodes=1, numa_affinity=NUMAAffinity.NONE)
    if request.dedicated and request.thread_policy != ThreadPolicy.PREFER:
        yield replace(request, thread_policy=ThreadPolicy.PREFER)
        yield replace(even, numa_nodes=1, numa_affinity=NUMAAffinity.NONE, thread_policy=ThreadPolicy.PREFER)
    if request.isolation != "thread":
        yield replace(request, isolation="thread")
    if request.page_size not in (None, "small"):
        yield replace(request, page_size=None)


def _less_of_both(request: PlacementRequest, fits: Fits) -> PlacementRequest | None:
    """As many CPUs as there are for a MiB a cell, then as much memory as goes with them."""
    free = replace(
        request, numa_nodes=1, numa_affinity=NUMAAffinity.NONE, numa_cpus=None, numa_mem=None,
        thread_policy=ThreadPolicy.PREFER, isolation="thread", page_size=None, memory_mib=min(1, request.memory_mib),
    )
    fewest = replace(free, cpus=1 if request.cpu_policy == CPUPolicy.DEDICATED else 0)
    start = free if fits(free) else _fewer_cpus(free, fits)
    if start is None or not fits(fewest):
        return None
    return _less_memory(replace(start, memory_mib=request.memory_mib + 1), fits) or start
