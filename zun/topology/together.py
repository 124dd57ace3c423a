# SPDX-License-Identifier: Apache-2.0
"""Plan several equal containers on one host, as many as fit beside each other.

Planning one after the other is not always best: on cells with room for 1, 1 and 2 parts, a first container on the two
small cells leaves a second one on two cells no place, while one small and the large cell for each hold both. So the
plans made one after the other are compared with an upper bound, ``at_most``. Only if they are fewer, a search looks for
more. Each step of the search decides which cells the next container uses, and ``plan`` does the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations, islice

from zun.topology.allocator import plan
from zun.topology.cpuset import NO_CPUS, CpuSet, union
from zun.topology.filling import free_owner
from zun.topology.holes import holes
from zun.topology.host_topology import HostTopology, view_of
from zun.topology.placement import Plan
from zun.topology.refusal import Refusal
from zun.topology.request import PlacementRequest
from zun.topology.usage import Usage

MOST_STEPS = 1000
"""Plans that the search makes for one host at most, and ways that it knows: a fraction of a second."""

MOST_SEARCHED = 200
"""Containers that the search plans for one host at most: each is one more level of the search."""

Part = tuple[int, int]
"""The CPUs and MiB of one part of a request."""


def together(
    topology: HostTopology, usage: Usage, request: PlacementRequest, most: int, *, apart: CpuSet | None = None
) -> list[Plan]:
    """Return the plans of up to ``most`` equal containers that fit beside each other, in the order of planning.

    If ``apart`` is given, no two containers use CPUs of one cell, and none those of the cells ``apart``.
    """
    found = list(_one_by_one(topology, usage, request, most, apart))
    wanted = min(most, at_most(topology, usage, request, apart))
    # Of containers on one cell each, a cell takes as many in any order.
    if len(found) >= wanted or request.numa_nodes == 1 or request.numa_affinity != "require":
        return found
    if wanted > MOST_SEARCHED:
        return found
    search = _Search(topology, request, wanted, apart is not None)
    return max(found, search.best(usage, apart or NO_CPUS), key=len)


def _less(topology: HostTopology, cpus: CpuSet, memory_mib: tuple[tuple[int, int], ...] = ()) -> HostTopology:
    """Return ``topology`` with ``cpus`` and the MiB of cells for nobody. Example: ``((0, 512),)`` is 512 MiB of cell 0.
    """
    return _reserving(topology, cpus.mask, memory_mib) if cpus or memory_mib else topology


@lru_cache(maxsize=512)  # each keeps what ``plan`` derives of the whole host
def _reserving(topology: HostTopology, mask: int, memory_mib: tuple[tuple[int, int], ...]) -> HostTopology:
    reserved = dict(topology.reserved_memory_mib)
    for node, mib in memory_mib:
        reserved[node] = reserved.get(node, 0) + mib
    return replace(
        topology, reserved=CpuSet.from_mask(topology.reserved.mask | mask), reserved_memory_mib=reserved
    )


def at_most(topology: HostTopology, usage: Usage, request: PlacementRequest, apart: CpuSet | None = None) -> int:
    """Return an upper bound on the equal containers that fit beside each other.

    A container on k cells takes at least its smallest part of each. So m containers need m parts on at least k cells
    each, and a cell gives a container one part: m is possible only if the sum of min(parts of a cell, m) is k times m.
    """
    if not request.dedicated:
        return 10**9
    cells = zip(view_of(topology).cells, holes(topology, usage), strict=True)
    free = [hole for cell, hole in cells if apart is None or cell.id not in apart]
    counted = request.ordinary_pages and request.mempolicy == "strict"
    if request.numa_affinity != "require" or request.isolation == "isolated":
        if request.isolation == "isolated":
            return (view_of(topology, "isolated").dedicated & ~usage.held_mask).bit_count() // request.own_cpus
        return sum(hole.cpus for hole in free) // request.own_cpus
    least_cpus = min(cpus for cpus, _ in request.parts)
    least_mib = min(mib for _, mib in request.parts) if counted else 0
    parts = [
        min(hole.cpus // least_cpus, hole.memory_mib // least_mib if least_mib else hole.cpus) for hole in free
    ]
    if apart is not None:
        parts = [min(each, 1) for each in parts]
    many = sum(parts) // request.numa_nodes
    while many and sum(min(each, many) for each in parts) < many * request.numa_nodes:
        many -= 1
    return many


def _one_by_one(
    topology: HostTopology, usage: Usage, request: PlacementRequest, most: int, apart: CpuSet | None
) -> Iterator[Plan]:
    """Yield plans made one after the other, each where it is best, until one is refused."""
    for number in range(most):
        closed = union(topology.cell(node).cpus for node in apart or NO_CPUS)
        answer = plan(_less(topology, closed), usage, request)
        if isinstance(answer, Refusal):
            return
        yield answer
        usage = usage.with_claim(free_owner(usage, number), answer)
        if apart is not None:
            apart = apart | cells_used(answer)


def cells_used(plan: Plan) -> CpuSet:
    """Return the ids of the cells of which the plan has CPUs."""
    return CpuSet([node for node, share in plan.cells.items() if share.cpus or share.shared])


def _ways(cells: Sequence[int], parts: Sequence[Part]) -> Iterator[tuple[tuple[int, Part], ...]]:
    """Yield each way to give every part a cell of its own. Equal parts have no order. Few are made at a time."""
    for chosen in combinations(cells, len(parts)):
        for ordered in _orders(sorted(parts)):
            yield tuple(zip(chosen, ordered, strict=True))


def _orders(parts: Sequence[Part]) -> Iterator[tuple[Part, ...]]:
    """Yield the different orders of ``parts``, which are sorted. Example: two orders of two parts, one of equal ones.
    """
    if not parts:
        yield ()
    for place, part in enumerate(parts):
        if not place or part != parts[place - 1]:
            yield from ((part, *others) for others in _orders([*parts[:place], *parts[place + 1 :]]))


class _Search:
    """A search for ``wanted`` containers: depth first, over the ways in which each container may use the cells.

    A way is one cell for each part of the request. Equal containers have no order, so the ways are taken in their
    order: a container never goes an earlier way than the one before it.
    """

    def __init__(self, topology: HostTopology, request: PlacementRequest, wanted: int, apart: bool) -> None:
        self._topology, self._request, self._wanted, self._apart = topology, request, wanted, apart
        self._cells = {cell.id: topology.cell(cell.id).cpus for cell in view_of(topology).cells}
        self._ways = list(islice(_ways(sorted(self._cells), request.parts), MOST_STEPS))
        self._equal = len(set(request.parts)) == 1
        self._steps = 0
        self._seen: dict[tuple[object, ...], list[Plan]] = {}
        self._alone: dict[tuple[object, ...], CpuSet] = {}

    def best(self, usage: Usage, closed: CpuSet, first: int = 0, count: int = 0) -> list[Plan]:
        """Return the longest list of plans found, beside ``count`` containers that have been planned."""
        longest: list[Plan] = []
        most = min(self._wanted - count, at_most(self._topology, usage, self._request, closed if self._apart else None))
        key = (usage.totals, closed.mask, first)
        if most <= 0 or self._steps >= MOST_STEPS:
            return longest
        if key in self._seen:
            return self._seen[key]
        for number in range(first, len(self._ways)):
            answer = self._plan(usage, closed, self._ways[number])
            if answer is None:
                continue
            after = closed | cells_used(answer) if self._apart else closed
            rest = self.best(usage.with_claim(free_owner(usage, count), answer), after, number, count + 1)
            if len(rest) + 1 > len(longest):
                longest = [answer, *rest]
            if len(longest) >= most or self._steps >= MOST_STEPS:
                break
        self._seen[key] = longest
        return longest

    def _plan(self, usage: Usage, closed: CpuSet, way: Sequence[tuple[int, Part]]) -> Plan | None:
        """Return the plan whose parts are on the cells of ``way``, or None if it is refused."""
        if any(node in closed for node, _ in way):
            return None
        self._steps += 1
        used = {node: self._cells[node] for node, _ in way}
        kept: tuple[tuple[int, int], ...] = ()
        if not self._equal:  # leave each cell no more than its part, because ``plan`` chooses which cell gives which
            used = {node: self._of_part(usage, node, *part) for node, part in way}
            kept = self._beside_parts(usage, way)
            if NO_CPUS in used.values():
                return None
        others = union(cpus - used.get(node, NO_CPUS) for node, cpus in self._cells.items())
        answer = plan(_less(self._topology, others, kept), usage, self._request)
        return None if isinstance(answer, Refusal) else answer

    def _beside_parts(self, usage: Usage, way: Sequence[tuple[int, Part]]) -> tuple[tuple[int, int], ...]:
        """Return the free MiB of each cell of ``way`` that are more than its part."""
        if not self._request.ordinary_pages or self._request.mempolicy != "strict":
            return ()
        view = view_of(self._topology)
        free = ((node, mib, usage.free_memory(view, node, None, overcommit=False)) for node, (_, mib) in way)
        return tuple((node, left - mib) for node, mib, left in free if left > mib)

    def _of_part(self, usage: Usage, node: int, cpus: int, memory_mib: int) -> CpuSet:
        """Return the CPUs that one part alone would take of its cell, with those that it keeps idle."""
        key = (usage.totals, node, cpus, memory_mib)
        if key in self._alone:
            return self._alone[key]
        alone = replace(
            self._request, cpus=cpus, memory_mib=memory_mib, numa_nodes=1, numa_cpus=None, numa_mem=None, devices=()
        )
        others = union(each for other, each in self._cells.items() if other != node)
        self._steps += 1
        answer = plan(_less(self._topology, others), usage, alone)
        self._alone[key] = NO_CPUS if isinstance(answer, Refusal) else answer.cpus | answer.withheld
        return self._alone[key]
