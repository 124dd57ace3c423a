# SPDX-License-Identifier: Apache-2.0
"""What a host can still give in one piece, and how much of that a request would cost.

A *hole* is what one cell has left. A host's free totals say little: sixteen free CPUs in four holes of four serve no
request for eight, and CPUs beside no memory serve nobody. So holes are measured by the containers that still fit:

*stranded capacity* of a request on a host is the drop in the number of *usual* containers that the host could still
take, were it filled with one kind of them, averaged over the kinds. A request that leaves a cell with CPUs and memory
in the proportion in which they are asked for, or with nothing, strands little; one that breaks the last hole for a
large container strands much. Containers on several cells are usual ones too, so that cells are kept together as well.
Usual is what the cloud holds already: see ``usual``.

What is usual now says little about the next large request. So a hole is worth more than the sum of its parts, and so
are the holes of one host together: whoever takes something pays for what else is free there, for each CPU of its own.
Of hosts that lose equally much the fullest is best, and fullness is measured in what will run out first.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from zun.topology.cells import HostTopology
from zun.topology.request import PlacementRequest
from zun.topology.usage import Usage
from zun.topology.view import view_of

USUAL_SHAPES = 16
"""Kinds of containers that are counted. Each costs time on each host."""

TIGHT = 0.0001
"""Cost, in containers that no longer fit, of each CPU of a request for each that is free on the chosen cells."""

WHOLE = 0.02
WHOLE_SEVERAL = 0.3
"""Cost of each CPU of a request if all of the host is free: ``WHOLE``, and more the larger the share of containers on
several cells is, which need holes that are together. Less in proportion on a host that is part full."""

FAR = 0.0006
"""Cost of each CPU of a request for each unit of distance between its cells."""

EMPTY = -2.0
FULL = 1.0
"""The power of a container's size in what its kind is worth, in an empty and in a full cloud. While there is room for
all, what small ones find left shows best whether CPUs and memory are used up together. In the end small ones find a
place anywhere, and it is large ones that are refused."""

SHARPNESS = 3.0
"""How much more a free CPU counts than its worth in memory where CPUs run out sooner: the power of how much sooner."""


class Hole(NamedTuple):
    cpus: int
    memory_mib: int

    def fits(self, other: Hole) -> bool:
        """Whether what fills this hole has room in ``other``."""
        return self.cpus <= other.cpus and self.memory_mib <= other.memory_mib


class Shape(NamedTuple):
    """A kind of container: it has as much as this on each of ``cells`` cells.

    ``cells`` 0 is one that has this in all, on as many cells as it takes.
    """

    cells: int
    cpus: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class Demand:
    """What the next containers will probably be."""

    shapes: tuple[Shape, ...]
    worths: tuple[float, ...]
    """What it is worth that one more of each fits; together 1."""
    several: float
    """The share of what is held by containers on several cells."""
    cpu: float = 1.0
    mib: float = 0.0
    """What a free CPU and a free MiB count when a fuller host is preferred."""

    def value(self, hole: Hole) -> float:
        return hole.cpus * self.cpu + hole.memory_mib * self.mib


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


def capacity(topology: HostTopology) -> Hole:
    """All the holes of the host when nobody is there."""
    return together(holes(topology, Usage()))


def together(free: Sequence[Hole]) -> Hole:
    """All of them as if they were one."""
    return Hole(sum(hole.cpus for hole in free), sum(hole.memory_mib for hole in free))


def shapes(usage: Usage) -> Counter[Shape]:
    """How often each kind of dedicated container is there. Huge pages count as no memory."""
    found: Counter[Shape] = Counter()
    for _, plan in usage:
        if plan.dedicated:
            shares = [share for share in plan.cells.values() if share.cpus]
            found[_shape([Hole(len(share.cpus), 0 if share.pages else share.memory_mib) for share in shares])] += 1
    return found


def _shape(parts: Sequence[Hole]) -> Shape:
    if len(set(parts)) == 1:
        return Shape(len(parts), *parts[0])
    return Shape(0, sum(part.cpus for part in parts), sum(part.memory_mib for part in parts))


def usual(held: Mapping[Shape, int], request: PlacementRequest, cpus: int, memory_mib: int) -> Demand:
    """The kinds of containers in ``held``, and that of ``request``: those that are worth most.

    ``cpus`` and ``memory_mib`` are what the hosts have in all. A kind is worth how often it is there times a power of
    its size, see ``EMPTY``.
    """
    wanted = _shape(parts_of(request))
    cpu_per_mib = cpus / memory_mib if memory_mib else 0.0
    counts = dict(held)
    counts[wanted] = counts.get(wanted, 0) + 1
    held_cpus = held_mib = several_cpus = several_mib = 0
    for shape, count in counts.items():
        all_cpus, all_mib = count * (shape.cells or 1) * shape.cpus, count * (shape.cells or 1) * shape.memory_mib
        held_cpus += all_cpus
        held_mib += all_mib
        if shape.cells != 1:
            several_cpus += all_cpus
            several_mib += all_mib
    used_cpus, used_memory = held_cpus / max(1, cpus), held_mib / max(1, memory_mib)
    power = EMPTY + (FULL - EMPTY) * min(1.0, max(used_cpus, used_memory))
    worths = {
        shape: count * ((shape.cells or 1) * (shape.cpus + shape.memory_mib * cpu_per_mib)) ** power
        for shape, count in counts.items()
    }
    ranked = heapq.nsmallest(USUAL_SHAPES, ((-worth, shape) for shape, worth in worths.items()))
    whole = sum(worth for worth, _ in ranked)
    cpu, mib = _prices(used_cpus, used_memory)
    return Demand(
        tuple(shape for _, shape in ranked),
        tuple(worth / whole for worth, _ in ranked),
        (several_cpus + several_mib * cpu_per_mib) / (held_cpus + held_mib * cpu_per_mib),
        cpu,
        mib * cpu_per_mib,
    )


def _prices(cpus: float, memory: float) -> tuple[float, float]:
    """What a free CPU, and as much memory as there is for each CPU, count; together 2.

    ``cpus`` and ``memory`` are the shares of all that are held.
    """
    sooner, later = (max(share, 1e-9) / max(1 - share, 1e-9) for share in (cpus, memory))
    cpu = 2 / (1 + (later / sooner) ** SHARPNESS)
    return cpu, 2 - cpu


def parts_of(request: PlacementRequest) -> tuple[Hole, ...]:
    """What each cell of a dedicated request has to give, largest first. Huge pages count as no memory."""
    counted = request.ordinary_pages
    return tuple(sorted((Hole(int(cpus), mib if counted else 0) for cpus, mib in request.parts), reverse=True))


def fitting(shape: Shape, free: Sequence[Hole]) -> int:
    """How many containers of this kind alone the holes ``free`` of one host can take."""
    if shape.cells == 0:
        return _times(shape, together(free))
    counts = [_times(shape, hole) for hole in free]
    total = sum(counts)
    if shape.cells == 1:
        return total
    return min(total // shape.cells, (total - max(counts, default=0)) // (shape.cells - 1))


def _times(shape: Shape, hole: Hole) -> int:
    return min(hole.cpus // shape.cpus, hole.memory_mib // shape.memory_mib if shape.memory_mib else hole.cpus)


class Taken(NamedTuple):
    """What a request takes of a hole, by position."""

    cell: int
    part: Hole


def stranded(topology: HostTopology, free: Sequence[Hole], request: PlacementRequest, demand: Demand) -> float | None:
    """What a host with the holes ``free`` loses to ``request``, in containers that no longer fit; None without room.

    Which cells ``plan`` would choose is estimated from the amounts alone, so this is no promise that the request fits.
    """
    distances = view_of(topology).distances
    taken = estimate(distances, free, request)
    if taken is None:
        return None
    after = list(free)
    for cell, (cpus, mib) in taken:
        after[cell] = Hole(after[cell].cpus - cpus, after[cell].memory_mib - mib)
    lost = sum(
        worth * (fitting(shape, free) - fitting(shape, after))
        for shape, worth in zip(demand.shapes, demand.worths, strict=True)
    )
    tight = sum(demand.value(free[cell]) for cell, _ in taken)
    whole = demand.value(together(free)) / demand.value(capacity(topology))
    far = _distance(distances, [cell for cell, part in taken if part.cpus])
    size = demand.value(together(parts_of(request)))
    return lost + size * (TIGHT * tight + (WHOLE + WHOLE_SEVERAL * demand.several) * whole + FAR * far)


Distances = Sequence[Sequence[int]]
"""There and back, by position of the cells."""


def estimate(distances: Distances, free: Sequence[Hole], request: PlacementRequest) -> list[Taken] | None:
    """From which holes ``plan`` would probably take the request; None when no choice has room."""
    parts = parts_of(request)
    taken = _near(distances, free, parts) if len(parts) > 1 else _one(free, parts[0])
    if taken is None and request.numa_affinity != "require":
        taken = _over_cells(free, parts)
    return taken


def _one(free: Sequence[Hole], part: Hole) -> list[Taken] | None:
    fit = [cell for cell in range(len(free)) if part.fits(free[cell])]
    return [Taken(min(fit, key=lambda cell: (free[cell], cell)), part)] if fit else None


def _near(distances: Distances, free: Sequence[Hole], parts: Sequence[Hole]) -> list[Taken] | None:
    """Every part on a cell of its own around some cell, so that they are nearest to each other and then fullest."""
    best, least = None, None
    for row in distances:
        taken: list[Taken] = []
        for part in parts:
            cells = [
                (row[cell], free[cell], cell)
                for cell in range(len(free))
                if part.fits(free[cell]) and all(cell != each.cell for each in taken)
            ]
            if not cells:
                break
            taken.append(Taken(min(cells)[-1], part))
        if len(taken) < len(parts):
            continue
        chosen = [each.cell for each in taken]
        key = (
            _distance(distances, chosen),
            sum(free[cell].cpus for cell in chosen),
            sum(free[cell].memory_mib for cell in chosen),
        )
        if least is None or key < least:
            best, least = taken, key
    return best


def _over_cells(free: Sequence[Hole], parts: Sequence[Hole]) -> list[Taken] | None:
    """The whole request over the largest holes, memory beside its CPUs as far as it goes."""
    wanted = together(parts)
    if not wanted.fits(together(free)):
        return None
    cells = sorted(range(len(free)), key=lambda cell: (free[cell], -cell), reverse=True)
    cpus = _from_first(wanted.cpus, [free[cell].cpus for cell in cells])
    room = [free[cell].memory_mib for cell in cells]
    beside = [min(wanted.memory_mib * own // wanted.cpus, most) for own, most in zip(cpus, room, strict=True)]
    left = [most - own for own, most in zip(beside, room, strict=True)]
    more = _from_first(wanted.memory_mib - sum(beside), left)
    mib = map(sum, zip(beside, more, strict=True))
    return [Taken(cell, Hole(*part)) for cell, *part in zip(cells, cpus, mib, strict=True) if any(part)]


def _from_first(wanted: int, room: Sequence[int]) -> list[int]:
    """What each gives, where each in turn gives all it can until there is enough."""
    given = []
    for most in room:
        given.append(min(wanted, most))
        wanted -= given[-1]
    return given


def _distance(distances: Distances, cells: Sequence[int]) -> int:
    """Between every two of ``cells``, there and back."""
    return sum(distances[a][b] for index, a in enumerate(cells) for b in cells[:index])
