# SPDX-License-Identifier: Apache-2.0
"""The packing rule for one host at a time, in plain Python: what ``zun.scheduler.packing`` must compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from zun.scheduler.host_state import kind_of, serves
from zun.scheduler.packing import (
    FAR,
    TIGHT,
    WHOLE,
    WHOLE_SEVERAL,
    Demand,
    Distances,
    Shape,
    capacity,
    kind_name,
    parts_of,
    together,
)
from zun.topology import HostTopology, PlacementRequest
from zun.topology.devices import DeviceType
from zun.topology.holes import Hole
from zun.topology.host_topology import view_of

EQUAL = Hole(1000, 1_000_000)
"""The empty cell of a cloud where no cell is rare."""


def fitting(shape: Shape, free: Sequence[Hole], devices: Mapping[str, int] | None = None) -> int:
    """Return how many containers of this kind one host can take, if no other kind comes.

    ``free`` are its holes, ``devices`` its free devices by kind.
    """
    enough = [(devices or {}).get(kind, 0) // count for kind, count in shape.devices]
    if shape.cells == 0:
        return min([_times(shape, together(free)), *enough])
    counts = [_times(shape, hole) for hole in free]
    total = sum(counts)
    if shape.cells == 1:
        return min([total, *enough])
    return min([total // shape.cells, (total - max(counts, default=0)) // (shape.cells - 1), *enough])


def left_devices(
    topology: HostTopology, free: Mapping[str, int], request: PlacementRequest
) -> dict[str, int] | None:
    """Return the free devices by kind after ``request``, or None if there are too few.

    The kinds with the fewest traits are taken first, and physical functions last.
    """
    kinds = {kind_of(device) for device in topology.devices}
    left = dict(free)
    for each in request.devices:
        able = [kind for kind in kinds if serves(kind, each)]
        able.sort(key=lambda kind: (len(kind.traits), kind.type == DeviceType.PF, kind_name(kind)))
        for name in [kind_name(kind) for kind in able for _ in range(left.get(kind_name(kind), 0))][: each.count]:
            left[name] -= 1
    wanted = sum(each.count for each in request.devices)
    return left if sum(free.values()) - sum(left.values()) == wanted else None


def _times(shape: Shape, hole: Hole) -> int:
    return min(hole.cpus // shape.cpus, hole.memory_mib // shape.memory_mib if shape.memory_mib else hole.cpus)


class Taken(NamedTuple):
    """The amount that a request takes of one hole; ``cell`` is the position of the hole."""

    cell: int
    part: Hole


def stranded(
    topology: HostTopology,
    free: Sequence[Hole],
    request: PlacementRequest,
    demand: Demand,
    devices: Mapping[str, int] | None = None,
    cloud: Sequence[Hole] = (EQUAL,),
) -> float | None:
    """Return the capacity that ``request`` would strand on a host with the holes ``free``, or None without room.

    The unit is containers that no longer fit. The cells are estimated from the amounts alone, so a number does not
    guarantee that ``plan`` finds a place. ``devices`` are the free devices by kind, and ``cloud`` the empty cells of
    all hosts (default: all are equal).
    """
    devices = devices or {}
    distances = view_of(topology).distances
    taken = estimate(distances, free, request)
    left = left_devices(topology, devices, request)
    if taken is None or left is None:
        return None
    after = list(free)
    for cell, (cpus, mib) in taken:
        after[cell] = Hole(after[cell].cpus - cpus, after[cell].memory_mib - mib)
    lost = sum(
        worth * (fitting(shape, free, devices) - fitting(shape, after, left))
        for shape, worth in zip(demand.shapes, demand.worths, strict=True)
    )
    tight = sum(_by_rarity(free[cell], demand, cloud) for cell, _ in taken)
    whole = demand.value(together(free)) / demand.value(capacity(topology))
    far = _distance(distances, [cell for cell, part in taken if part.cpus])
    size = demand.value(together(parts_of(request)))
    return lost + size * (TIGHT * tight + (WHOLE + WHOLE_SEVERAL * demand.several) * whole + FAR * far)


def _by_rarity(free: Hole, demand: Demand, cloud: Sequence[Hole]) -> float:
    """Return the weight of the free CPUs and MiB, each more the fewer cells are large enough to have this unit free."""
    rare = [
        sum(sum(size > 0 for size in sizes) / sum(size >= unit for size in sizes) for unit in range(1, amount + 1))
        for amount, sizes in zip(free, zip(*cloud, strict=True), strict=True)
    ]
    return rare[0] * demand.cpu + rare[1] * demand.mib


def estimate(distances: Distances, free: Sequence[Hole], request: PlacementRequest) -> list[Taken] | None:
    """Return the holes from which ``plan`` would probably take the request, or None if no choice has room."""
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
    """Return the amount that each gives, if each in turn gives all it can. Example: 5 of [3, 4, 1] is [3, 2, 0]."""
    given = []
    for most in room:
        given.append(min(wanted, most))
        wanted -= given[-1]
    return given


def _distance(distances: Distances, cells: Sequence[int]) -> int:
    """Between every two of ``cells``, there and back."""
    return sum(distances[a][b] for index, a in enumerate(cells) for b in cells[:index])
