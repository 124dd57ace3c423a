# SPDX-License-Identifier: Apache-2.0
import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from oslo_config import cfg

from zun.scheduler.columns import Bools, Columns, Floats
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.scheduler.weighers import HostWeigher
from zun.topology import PlacementRequest
from zun.topology.holes import (
    FAR,
    TIGHT,
    WHOLE,
    WHOLE_SEVERAL,
    Demand,
    Distances,
    Hole,
    Shape,
    capacity,
    parts_of,
    stranded,
    together,
)
from zun.topology.view import view_of

Rows = np.typing.NDArray[np.intp]
Counts = np.typing.NDArray[np.float32]
"""Of containers. Exact while a host has less than 16 TiB, and then one off in a thousand million at worst."""

_Machine = tuple[Distances, Hole]
"""What is between its cells, and the CPUs and MiB of all of them."""

SCALE = 1000.0
"""Weights are all but linear in losses (in containers) that are small beside this one."""

MIB = 2.0**28
"""More than any cell has, so that CPUs and MiB make one number to compare holes by."""

MOST_CPUS = 2.0**12
"""The same for the CPUs of a cell, for distances in front of them."""

SOME_CAPACITY = 2.0**-200
"""Less than the smallest machine that holds anything counts."""

SOME_MEMORY = 2.0**-10
NO_MEMORY = 2.0**-40
"""What a cell has at least, and what a container wants that wants none: so it fits very often."""


class StrandedWeigher(HostWeigher):
    """Prefer hosts where a dedicated container leaves the most room for others like those the cloud has.

    1 is a host that loses nothing, 0 one that probably cannot hold the request. Shared containers strand nothing,
    nor do those on CPUs that the kernel isolates, which no others get: both are left to the other weighers.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self._machines: dict[_Machine, int] = {}
        self._numbering = threading.Lock()  # creates and dry runs have tables of their own and this weigher together

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        """Without ``spec.demand`` the host counts as the whole cloud."""
        if not spec.dedicated or spec.isolated:
            return 0.0
        demand = Columns([host]).demand if spec.demand is None else spec.demand
        loss = stranded(host.topology, host.room.cells, spec.placement, demand(spec.placement))
        return 0.0 if loss is None else 1 / (1 + loss / SCALE)

    def weigh_all(self, table: Columns, spec: RequestSpec) -> Floats:
        if not spec.dedicated or spec.isolated or not len(table):
            return table.nothing
        request = spec.placement
        alone = request.numa_nodes == 1 and request.numa_affinity == "require"
        machines = table.measured("machine", self._code).astype(np.intp)
        known = list(self._machines)
        cells = _Cells(
            np.maximum(table.cell_cpus, 0).astype(np.float64),
            np.minimum(np.maximum(table.cell_memory, 0), MIB - 1).astype(np.float64),
            table.cell_cpus >= 0,
            np.array([machine[1] for machine in known], np.float64)[machines].T,
            None if alone else _far(known, len(table.cell_cpus), machines),
        )
        loss = _losses(cells, request, table.demand(request))
        weights: Floats = 1 / (1 + loss / SCALE)  # no room is an infinite loss
        return weights

    def _code(self, host: HostState) -> float:
        """Equal machines have equal codes: most clouds have a handful."""
        machine = view_of(host.topology).distances, capacity(host.topology)
        with self._numbering:
            return self._machines.setdefault(machine, len(self._machines))


def _far(known: Sequence[_Machine], depth: int, machines: Rows) -> Floats:
    """Distances between cells, there and back: shape (cells, cells, hosts)."""
    far = np.zeros((len(known), depth, depth))
    for code, (distances, _) in enumerate(known):
        count = min(depth, len(distances))
        far[code, :count, :count] = [row[:count] for row in distances[:count]]
    return far.transpose(1, 2, 0)[:, :, machines]


class _Cells(NamedTuple):
    """What the cells of all hosts have left: shape (cells, hosts)."""

    cpus: Floats
    mib: Floats
    there: Bools
    """Hosts with fewer cells have nothing in the others."""
    capacity: Floats
    """CPUs and MiB of all of them when nobody is there: shape (2, hosts)."""
    far: Floats | None
    """Distances between them, there and back: shape (cells, cells, hosts). None if one cell must do."""


class _Taken(NamedTuple):
    """From which cells each host would give what: shape (cells taken, hosts), or 1 where all hosts give the same."""

    cells: Rows
    cpus: Floats
    mib: Floats
    room: Bools
    """Which hosts can; what is said of the others means nothing."""


def _losses(cells: _Cells, request: PlacementRequest, demand: Demand) -> Floats:
    """``zun.topology.holes.stranded`` of every host; infinite without room."""
    parts = parts_of(request)
    taken = _one(cells, parts[0]) if len(parts) == 1 else _near(cells, parts)
    size = demand.value(together(parts))
    losses = _loss(cells, taken, demand, size)
    if request.numa_affinity == "require" or taken.room.all():
        return losses
    return np.where(taken.room, losses, _loss(cells, _over_cells(cells, parts), demand, size))


def _fits(cells: _Cells, part: Hole) -> Bools:
    return (cells.cpus >= part.cpus) & (cells.mib >= part.memory_mib) & cells.there


def _one(cells: _Cells, part: Hole) -> _Taken:
    fullness = np.where(_fits(cells, part), cells.cpus * MIB + cells.mib, np.inf)
    chosen = fullness.argmin(0)[np.newaxis]
    room: Bools = np.isfinite(fullness.min(0))
    return _Taken(chosen, *_amounts([part]), room)


def _amounts(parts: Sequence[Hole]) -> tuple[Floats, Floats]:
    return (
        np.array([[part.cpus] for part in parts], np.float64),
        np.array([[part.memory_mib] for part in parts], np.float64),
    )


def _near(cells: _Cells, parts: Sequence[Hole]) -> _Taken:
    assert cells.far is not None
    depth, count = cells.cpus.shape
    fullness, hosts = cells.cpus * MIB + cells.mib, np.arange(count)
    fits = {part: _fits(cells, part) for part in parts}
    best = np.zeros((len(parts), count), np.intp)
    least_far, least_full = np.full(count, np.inf), np.full(count, np.inf)
    alike = len(parts) == depth and len(fits) == 1  # whichever cell it begins with, it ends with all of them
    for anchor in range(1 if alike else depth):
        key = cells.far[anchor] * (MIB * MOST_CPUS) + fullness
        room: Bools = cells.there[anchor].copy()
        chosen: list[Rows] = []
        for part in parts:
            usable = np.where(fits[part], key, np.inf)
            for cell in chosen:
                usable[cell, hosts] = np.inf
            chosen.append(usable.argmin(0))
            room &= np.isfinite(usable).any(0)
        around = np.array(chosen)
        far = np.where(room, _distance(cells.far, around, np.ones_like(around, np.bool_)), np.inf)
        full = fullness[around, hosts].sum(0)
        better = (far < least_far) | ((far == least_far) & room & (full < least_full))
        best = np.where(better, around, best)
        least_far, least_full = np.where(better, far, least_far), np.where(better, full, least_full)
    return _Taken(best, *_amounts(parts), np.isfinite(least_far))


def _over_cells(cells: _Cells, parts: Sequence[Hole]) -> _Taken:
    order = np.argsort(-(cells.cpus * MIB + cells.mib), axis=0, kind="stable")
    wanted_cpus, wanted_mib = sum(part.cpus for part in parts), sum(part.memory_mib for part in parts)
    free_cpus, free_mib = (np.take_along_axis(free, order, 0) for free in (cells.cpus, cells.mib))
    cpus = _from_first(wanted_cpus, free_cpus)
    beside = np.minimum(wanted_mib * cpus // wanted_cpus, free_mib)
    mib = beside + _from_first(wanted_mib - beside.sum(0), free_mib - beside)
    return _Taken(order, cpus, mib, (free_cpus.sum(0) >= wanted_cpus) & (free_mib.sum(0) >= wanted_mib))


def _from_first(wanted: int | Floats, room: Floats) -> Floats:
    """What each cell gives, where each in turn gives all it can until there is enough."""
    given: Floats = np.clip(wanted - (room.cumsum(0) - room), 0, room)
    return given


def _loss(cells: _Cells, taken: _Taken, demand: Demand, size: float) -> Floats:
    hosts = np.arange(cells.cpus.shape[1])
    cpus, mib = cells.cpus[taken.cells, hosts], cells.mib[taken.cells, hosts]
    after_cpus, after_mib = cpus - taken.cpus, mib - taken.mib
    all_cpus, all_mib = cells.cpus.sum(0), cells.mib.sum(0)
    used = (taken.cpus > 0) | (taken.mib > 0)
    loss: Floats = TIGHT * (used * (demand.cpu * cpus + demand.mib * mib)).sum(0)
    at_most = demand.cpu * cells.capacity[0] + demand.mib * cells.capacity[1]
    whole = (demand.cpu * all_cpus + demand.mib * all_mib) / np.maximum(at_most, SOME_CAPACITY)
    loss += (WHOLE + WHOLE_SEVERAL * demand.several) * whole
    if cells.far is not None and len(taken.cells) > 1:
        loss += FAR * _distance(cells.far, taken.cells, np.broadcast_to(taken.cpus > 0, cpus.shape))
    loss *= size
    worths, on_cells = np.array(demand.worths), [shape.cells for shape in demand.shapes]
    for number in set(on_cells):
        which = [index for index, each in enumerate(on_cells) if each == number]
        kinds = [demand.shapes[index] for index in which]
        if number == 1:
            both = _times(kinds, np.stack((cpus, after_cpus)), np.stack((mib, after_mib)))
            fewer = (both[:, 0] - both[:, 1]).sum(1)
        elif number == 0:
            rest_cpus = all_cpus - np.broadcast_to(taken.cpus, cpus.shape).sum(0)
            rest_mib = all_mib - np.broadcast_to(taken.mib, mib.shape).sum(0)
            both = _times(kinds, np.stack((all_cpus, rest_cpus)), np.stack((all_mib, rest_mib)))
            fewer = both[:, 0] - both[:, 1]
        else:
            before = _times(kinds, cells.cpus, cells.mib)
            after = before.copy()
            after[:, taken.cells, hosts] = _times(kinds, after_cpus, after_mib)
            fewer = _sets(before, number) - _sets(after, number)
        loss += worths[which] @ fewer
    return np.where(taken.room, loss, np.inf)


def _times(kinds: Sequence[Shape], cpus: Floats, mib: Floats) -> Counts:
    """How many containers of each kind the amounts hold: one more axis, in front."""
    shape = (len(kinds),) + (1,) * cpus.ndim
    each_cpus = np.array([kind.cpus for kind in kinds], np.float32).reshape(shape)
    each_mib = np.array([kind.memory_mib or NO_MEMORY for kind in kinds], np.float32).reshape(shape)
    by_cpus: Counts = cpus.astype(np.float32) / each_cpus
    by_mib: Counts = np.maximum(mib, SOME_MEMORY).astype(np.float32) / each_mib
    return np.floor(np.minimum(by_cpus, by_mib, out=by_cpus), out=by_cpus)


def _sets(counts: Counts, number: int) -> Counts:
    """How many containers on ``number`` cells there can be when each cell holds ``counts`` parts: axis 1 is cells."""
    total = counts.sum(1)
    apart: Counts = np.minimum(total / np.float32(number), (total - counts.max(1)) / np.float32(number - 1))
    return np.floor(apart, out=apart)


def _distance(far: Floats, cells: Rows, given: Bools) -> Floats:
    """Between every two of ``cells`` that give CPUs."""
    hosts = np.arange(cells.shape[1])
    total = np.zeros(len(hosts))
    for index in range(len(cells)):
        for other in range(index):
            total += far[cells[index], cells[other], hosts] * (given[index] & given[other])
    return total
