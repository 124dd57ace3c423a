# SPDX-License-Identifier: Apache-2.0
"""The losses of all hosts, see ``zun.scheduler.packing``, kept by kind of request and changed with the hosts.

A loss has two parts. The *effects* of a request on a host depend on this host alone: a change of one host changes one
column of them. The *demand*, the worths of the usual kinds and the prices of CPUs and memory, depends on all hosts, but
is rounded, so that it seldom changes. Both are kept with the losses. A decision computes the columns of the hosts that
changed since the last request of this kind. If the demand has changed, it also adds up all kept effects again, which
takes one matrix product and some operations on arrays.

Kept losses equal fresh ones bit by bit, so a dry run on a copy of the hosts gives the answer that a create gets. Worths
have steps for this reason: the sums of the matrix product are exact, in whatever order they are added.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import numpy as np

from zun.scheduler.columns import Columns, Floats
from zun.scheduler.packing import (
    FAR,
    SOME_CAPACITY,
    TIGHT,
    USUAL_SHAPES,
    WHOLE,
    WHOLE_SEVERAL,
    Counts,
    Demand,
    Devices,
    Distances,
    Effects,
    Kinds,
    Rows,
    Shape,
    capacity,
    cells_of,
    effects,
    kind_name,
    parts_of,
    together,
)
from zun.topology import HostTopology, PlacementRequest
from zun.topology.holes import Hole
from zun.topology.host_topology import view_of

KEPT_BYTES = 64 * 2**20
"""Most memory for what is kept of one table: about 36 kinds of requests with 10,000 hosts. The kind that was asked for
longest ago is dropped first. The kind of the present request is kept in any case."""

KINDS = 2 * USUAL_SHAPES
"""Most kinds of containers that the effects of one kind of request are kept for. Kinds near the end of the usual ones
come and go, and are not computed each time."""

TOGETHER = 4096  # hosts: more at once take more memory for a moment, and no less time

Hosts = Rows | slice
"""The rows of some hosts."""

ALL = slice(None)


class KeptLosses:
    """The losses of the hosts of one table. Whoever may use the table may use this: it has no lock of its own."""

    def __init__(self, table: Columns) -> None:
        self._table = table
        self._machines = _Machines(table)
        self._kept: dict[Hashable, _Kept] = {}

    @classmethod
    def of(cls, table: Columns) -> KeptLosses:
        """Return the losses of this table, which the table keeps until a host is added or removed."""
        found = table.by_row.get(cls)
        if found is None:
            found = table.by_row[cls] = cls(table)
        return found

    @property
    def bytes(self) -> int:
        """Return the memory that is kept for all kinds of requests."""
        return sum([each.bytes for each in self._kept.values()])

    def losses(self, request: PlacementRequest) -> Floats:
        """Return the stranded capacity of ``request`` on every host, in containers that no longer fit.

        The loss of a host without room is infinite. Callers never write to the result.
        """
        table, demand, parts = self._table, self._table.demand(request), parts_of(request)
        key = (parts, request.numa_affinity, request.devices)
        kept = self._kept.pop(key, None)
        if kept is None or kept.demand.rarity is not demand.rarity:
            kept = self._new(demand)
        self._kept[key] = kept
        expected = kept.demand is demand and kept.machines == table.machines and kept.seen > 0
        if not expected:
            self._machines.catch_up()
            size = demand.value(together(parts))
            new = kept.expect(demand, size, self._machines.whole(demand), table.machines)
            for part in _slices(len(table) if kept.seen and new.shapes else 0):
                self._compute(kept, request, new, part)
        changed = np.flatnonzero(table.changed > kept.seen)
        kept.seen = table.changes
        for part in _slices(len(changed)):
            rows: Hosts = part if len(changed) == len(table) else changed[part]
            found = self._compute(kept, request, kept.kinds, rows)
            if expected:
                kept.losses[rows] = self._add_up(kept, found, rows)
        if not expected:
            kept.losses = self._add_up(kept, kept.effects, ALL)
        return kept.losses

    def _new(self, demand: Demand) -> _Kept:
        """Return new effects, after dropping as many old ones as their memory requires."""
        new = _Kept(len(self._table), demand)
        while self._kept and (len(self._kept) + 1) * new.bytes > KEPT_BYTES:
            del self._kept[next(iter(self._kept))]
        return new

    def _compute(self, kept: _Kept, request: PlacementRequest, kinds: Kinds, rows: Hosts) -> Effects:
        """Compute and keep the effects in these rows, on these kinds of containers."""
        table, alone = self._table, request.numa_nodes == 1 and request.numa_affinity == "require"
        far = None if alone else self._machines.far(rows)
        cells = cells_of(table.cell_cpus[:, rows], table.cell_memory[:, rows], far)
        found = effects(cells, request, kinds, kept.demand.rarity, self._devices(request, kinds, rows))
        kept.put(found, kinds, rows)
        return found

    def _devices(self, request: PlacementRequest, kinds: Kinds, rows: Hosts) -> Devices | None:
        """Return the free devices in these rows, or None if neither the request nor a kind of containers has any."""
        if not request.devices and not kinds.limited:
            return None
        free = {kind_name(kind): count[rows] for kind, count in self._table.free_devices.items()}
        return Devices(free, self._table.offering(request) if request.devices else ())

    def _add_up(self, kept: _Kept, found: Effects, rows: Hosts) -> Floats:
        """Return the losses of the hosts in these rows, with these effects."""
        demand = kept.demand
        free: Floats = found.free[0] * demand.cpu
        free += found.free[1] * demand.mib
        free *= kept.whole[rows]
        free += found.rare_cpus * (TIGHT * demand.cpu * kept.size)
        free += found.rare_mib * (TIGHT * demand.mib * kept.size)
        free += found.apart * (FAR * kept.size)
        free += kept.worths @ found.fewer
        return free


class _Kept:
    """The effects of one kind of request, and the losses: one column per host."""

    def __init__(self, hosts: int, demand: Demand) -> None:
        self.demand = demand
        """The demand of ``losses``."""
        self.size = 0.0
        """The value of the request in this demand."""
        self.whole, self.losses, self._apart, self._rare_cpus, self._rare_mib = np.zeros((5, hosts))
        self._free = np.zeros((2, hosts))
        """``whole`` is the cost of each unit of free value on the whole host."""
        self.machines = 0
        """``Columns.machines`` at the time of ``whole``."""
        self.seen = 0
        """The last change of the table that the effects know, or 0 before the first."""
        self._places: dict[Shape, int] = {}
        """The row in ``_fewer`` of each kind of containers."""
        self.kinds = Kinds(())
        """The kinds of ``_places``, in the order of their rows in ``_fewer``."""
        self.worths: Counts = np.zeros(0, np.float32)
        """The worth of each of them in this demand; 0 for a kind that is not usual at present."""
        self._fewer: Counts = np.zeros((KINDS, hosts), np.float32)

    @property
    def bytes(self) -> int:
        """Return the most memory that the arrays take."""
        return 7 * self.losses.nbytes + self._fewer.nbytes

    @property
    def effects(self) -> Effects:
        """Return the effects on all hosts."""
        fewer = self._fewer[: len(self._places)]
        return Effects(self._apart, self._rare_cpus, self._rare_mib, self._free, fewer)

    def expect(self, demand: Demand, size: float, whole: Floats, machines: int) -> Kinds:
        """Note the demand of the losses. Return the kinds of containers that are new: their rows must be computed."""
        self.demand, self.size, self.whole, self.machines = demand, size, whole * size, machines
        new = [shape for shape in demand.shapes if shape not in self._places]
        if new:
            if len(self._places) + len(new) > KINDS:
                unused = [shape for shape in self._places if shape not in demand.shapes]
                for shape, unusual in zip(new, unused, strict=False):
                    self._places[shape] = self._places.pop(unusual)
            for shape in new:
                self._places.setdefault(shape, len(self._places))
            self.kinds = Kinds(sorted(self._places, key=self._places.__getitem__))
        self.worths = np.zeros(len(self._places), np.float32)
        self.worths[[self._places[shape] for shape in demand.shapes]] = demand.worths
        return Kinds(new)

    def put(self, found: Effects, kinds: Kinds, rows: Hosts) -> None:
        """Note the effects in these rows."""
        self._apart[rows], self._rare_cpus[rows], self._rare_mib[rows] = found[:3]
        self._free[:, rows] = found.free
        if kinds is self.kinds:
            self._fewer[: len(self._places), rows] = found.fewer
        else:
            for shape, fewer in zip(kinds.shapes, found.fewer, strict=True):
                self._fewer[self._places[shape], rows] = fewer


class _Machines:
    """The machine of each host: its distances, and its CPUs and MiB when empty. Most clouds have few different ones."""

    def __init__(self, table: Columns) -> None:
        self._table = table
        self._seen = (0, -1)  # the last change of the table that is known, and the number of changes of machines
        self._cpus, self._mib = np.zeros((2, len(table)))
        self._codes = np.zeros(len(table), np.intp)
        self._by_topology: dict[int, tuple[HostTopology, Hole, int]] = {}  # by id; equal hosts share one object
        self._numbers: dict[Distances, int] = {}

    def catch_up(self) -> None:
        """Note the machines of changed hosts."""
        table = self._table
        if self._seen[1] == table.machines:
            return
        for row in np.flatnonzero(table.changed > self._seen[0]).tolist():
            topology = table[row].topology
            known = self._by_topology.get(id(topology))
            if known is None:
                if len(self._by_topology) > 2 * len(table):
                    self._by_topology.clear()  # most entries belong to former states of hosts
                number = self._numbers.setdefault(view_of(topology).distances, len(self._numbers))
                known = self._by_topology[id(topology)] = (topology, capacity(topology), number)
            _, (self._cpus[row], self._mib[row]), self._codes[row] = known
        self._seen = (table.changes, table.machines)

    def whole(self, demand: Demand) -> Floats:
        """Return the cost of each unit of free value on a host, for each CPU of a request."""
        most = self._cpus * demand.cpu
        most += self._mib * demand.mib
        return (WHOLE + WHOLE_SEVERAL * demand.several) / np.maximum(most, SOME_CAPACITY, out=most)

    def far(self, rows: Hosts) -> Floats:
        """Return the distances between the cells of these hosts, there plus back: shape (cells, cells, hosts)."""
        depth = len(self._table.cell_cpus)
        far = np.zeros((depth, depth, len(self._numbers)))
        for distances, number in self._numbers.items():
            count = min(depth, len(distances))
            far[:count, :count, number] = [row[:count] for row in distances[:count]]
        return far[:, :, self._codes[rows]]


def _slices(count: int) -> Iterator[slice]:
    for start in range(0, count, TOGETHER):
        yield slice(start, min(start + TOGETHER, count))
