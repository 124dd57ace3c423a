# SPDX-License-Identifier: Apache-2.0
"""What a host can still give in one piece, and how much of that a request would cost.

A *hole* is what one cell has left. A host's free totals say little: sixteen free CPUs in four holes of four serve no
request for eight, and CPUs beside no memory serve nobody. So holes are measured by the requests that still fit:

*stranded capacity* of a request on a host is the drop in the number of *usual* requests that fit its cells one by
one, each counted with its size, when the request is placed there. A request that leaves a cell with CPUs and memory
in the proportion in which they are asked for, or with nothing, strands little; one that breaks the last hole for a
large request strands much. Usual is what the cloud holds already: see ``usual``.

The drop is in CPUs; memory counts as the CPUs that have as much of it on the cloud's hosts (``mib_per_cpu``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from zun.topology.cells import HostTopology
from zun.topology.request import PlacementRequest
from zun.topology.usage import Usage
from zun.topology.view import view_of

USUAL_SHAPES = 16
"""Shapes that are counted. More make no difference that was measured, and each costs time on each host."""

TIGHT = 0.03
"""Cost of each CPU the chosen cell has free. Among cells that lose equally much it decides for the fullest one; it is
not a mere tie-break, because what is usual now says little about the next large request."""

WHOLE = 0.01
WHOLE_SEVERAL = 2.0
"""The same for each CPU the host has free: ``WHOLE``, and more the larger the share of containers on several cells is,
which need holes that are together."""

FAR = 1.0
"""Cost of each unit of distance between the cells of a request on several: nearness goes before holes."""


class Hole(NamedTuple):
    cpus: int
    memory_mib: int

    def fits(self, other: Hole) -> bool:
        """Whether what fills this hole has room in ``other``."""
        return self.cpus <= other.cpus and self.memory_mib <= other.memory_mib


class Shape(NamedTuple):
    """What a container holds of one cell, and whether it holds others too."""

    cpus: int
    memory_mib: int
    several: bool = False


class Usual(NamedTuple):
    """A shape of request, and what it is worth that one more of it fits."""

    cpus: int
    memory_mib: int
    worth: float


@dataclass(frozen=True, slots=True)
class Demand:
    """What the next requests will probably be, ``mib_per_cpu`` as above."""

    shapes: tuple[Usual, ...]
    mib_per_cpu: float
    several: float
    """The share of CPUs in containers on several cells."""


def holes(topology: HostTopology, usage: Usage) -> tuple[Hole, ...]:
    """What a dedicated container can get on each cell that has CPUs, in order of their ids; never negative.

    Memory includes that of memory-only nodes attached to the cell.
    """
    view = view_of(topology)
    held = usage.held_mask
    found = []
    for cell in view.cells:
        free = cell.dedicated & ~held
        pooled = (free & cell.pool).bit_count()
        cpus = free.bit_count() - pooled + min(pooled, usage.budget(view, cell))
        room = sum(max(0, usage.free_memory(view, node, None, overcommit=False)) for node in cell.nodes)
        found.append(Hole(cpus, room))
    return tuple(found)


def shapes(usage: Usage) -> Counter[Shape]:
    """What dedicated containers hold, cell by cell: how often each shape is there. Huge pages count as no memory."""
    found: Counter[Shape] = Counter()
    for _, plan in usage:
        if plan.cpu_policy != "shared":
            shares = [share for share in plan.cells.values() if share.cpus]
            found.update(
                Shape(len(share.cpus), 0 if share.pages else share.memory_mib, len(shares) > 1) for share in shares
            )
    return found


def usual(held: Mapping[Shape, int], request: PlacementRequest, mib_per_cpu: float) -> Demand:
    """The shapes ``held``, and that of ``request``: the commonest, larger ones preferred.

    Worth grows with the size of a shape and with how often it is there, but with the square root of its size less
    than the CPUs it would use: small requests find a place anywhere.
    """
    counts: dict[Hole, int] = {}
    cpus = cpus_several = 0
    parts = parts_of(request)
    for shape, count in (*held.items(), *((Shape(*part, len(parts) > 1), 1) for part in parts)):
        hole = Hole(shape.cpus, shape.memory_mib)
        counts[hole] = counts.get(hole, 0) + count
        cpus += shape.cpus * count
        cpus_several += shape.cpus * count * shape.several
    sizes = {hole: hole.cpus + hole.memory_mib / mib_per_cpu for hole in counts}
    ranked = sorted(sizes, key=lambda hole: (-counts[hole] * sizes[hole] ** 0.5, hole))[:USUAL_SHAPES]
    size = sum(counts[hole] * sizes[hole] for hole in ranked)
    scale = sum(counts[hole] * sizes[hole] ** 0.5 for hole in ranked)
    factor = size / scale / sum(counts[hole] for hole in ranked)
    worths = (Usual(*hole, counts[hole] * sizes[hole] ** 0.5 * factor) for hole in ranked)
    return Demand(tuple(worths), mib_per_cpu, cpus_several / cpus)


def parts_of(request: PlacementRequest) -> tuple[Hole, ...]:
    """What each cell of a dedicated request has to give, largest first. Huge pages count as no memory."""
    paged = request.page_size not in (None, "small")
    return tuple(sorted((Hole(int(cpus), 0 if paged else mib) for cpus, mib in request.parts), reverse=True))


def stranded(topology: HostTopology, free: Sequence[Hole], request: PlacementRequest, demand: Demand) -> float | None:
    """CPUs' worth of usual requests that a host with the holes ``free`` loses to ``request``; None if it lacks room.

    Which cells ``plan`` would choose is estimated from the amounts alone, so this is no promise that the request fits.
    """
    parts = parts_of(request)
    lost = None
    if len(parts) == 1:
        fitting = [hole for hole in free if parts[0].fits(hole)]
        if fitting:
            lost = cost(min(fitting), parts[0], demand)
    else:
        lost = _near(topology, free, parts, demand)
    if lost is None and request.numa_affinity != "require":
        lost = _over_cells(topology, free, parts, demand)
    if lost is None:
        return None
    left = sum(hole.cpus + hole.memory_mib / demand.mib_per_cpu for hole in free)
    return lost + (WHOLE + WHOLE_SEVERAL * demand.several) * left


def cost(hole: Hole, part: Hole, demand: Demand) -> float:
    """What one hole loses to one part of a request."""
    before_cpus, before_mib = hole
    cpus, mib = before_cpus - part.cpus, before_mib - part.memory_mib
    lost = 0.0
    for shape_cpus, shape_mib, worth in demand.shapes:
        if shape_mib:
            fewer = min(before_cpus // shape_cpus, before_mib // shape_mib) - min(cpus // shape_cpus, mib // shape_mib)
        else:
            fewer = before_cpus // shape_cpus - cpus // shape_cpus
        lost += fewer * worth
    return lost + TIGHT * (before_cpus + before_mib / demand.mib_per_cpu)


def _near(topology: HostTopology, free: Sequence[Hole], parts: Sequence[Hole], demand: Demand) -> float | None:
    """Every part on a cell of its own, around the cell that makes them nearest to each other and lose least."""
    distances = view_of(topology).distances
    best: float | None = None
    seen = set()
    for anchor, row in enumerate(distances):
        order = sorted(range(len(free)), key=lambda cell: (cell != anchor, row[cell], free[cell]))
        chosen = _around(order, free, parts)
        if chosen is None or (which := frozenset(chosen)) in seen:
            continue
        seen.add(which)
        loss = sum(cost(free[cell], part, demand) for cell, part in zip(chosen, parts, strict=True))
        loss += FAR * _distance(distances, chosen)
        best = loss if best is None else min(best, loss)
    return best


def _around(order: Sequence[int], free: Sequence[Hole], parts: Sequence[Hole]) -> list[int] | None:
    """For each part the first cell of ``order`` that is left and has room."""
    chosen: list[int] = []
    for part in parts:
        cell = next((cell for cell in order if cell not in chosen and part.fits(free[cell])), None)
        if cell is None:
            return None
        chosen.append(cell)
    return chosen


def _over_cells(topology: HostTopology, free: Sequence[Hole], parts: Sequence[Hole], demand: Demand) -> float | None:
    """The whole request over the largest holes."""
    cpus, mib = sum(part.cpus for part in parts), sum(part.memory_mib for part in parts)
    if sum(hole.cpus for hole in free) < cpus or sum(hole.memory_mib for hole in free) < mib:
        return None
    chosen, loss = [], 0.0
    for cell in sorted(range(len(free)), key=lambda cell: free[cell], reverse=True):
        taken = Hole(min(cpus, free[cell].cpus), min(mib, free[cell].memory_mib))
        if not any(taken):
            break
        loss += cost(free[cell], taken, demand)
        chosen.append(cell)
        cpus, mib = cpus - taken.cpus, mib - taken.memory_mib
    return loss + FAR * _distance(view_of(topology).distances, chosen)


def _distance(distances: Sequence[Sequence[int]], cells: Sequence[int]) -> int:
    """Between every two of ``cells``, there and back."""
    return sum(distances[a][b] for index, a in enumerate(cells) for b in cells[:index])
