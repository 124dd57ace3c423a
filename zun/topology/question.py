# SPDX-License-Identifier: Apache-2.0
"""One request put to one host with one page size: what each cell could offer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from zun.topology.cores import capacity, pick, units_of
from zun.topology.cost import CELL_LEFT, CROWD, MEM_LEFT, REMOTE
from zun.topology.request import MICRO, MemPolicy, PlacementRequest
from zun.topology.usage import Usage
from zun.topology.view import CellView, HostView


class Offer(NamedTuple):
    """CPUs of one cell for one part of a request (masks), and their cost without any distance."""

    cost: int
    cpus: int
    withheld: int
    amount: int
    """CPUs taken; of a shared container the demand in millionths."""


@dataclass(frozen=True, slots=True)
class Question:
    """CPU amounts are whole CPUs, for shared containers millionths; memory is in ``unit``."""

    view: HostView
    usage: Usage
    request: PlacementRequest
    page_kib: int | None
    """Huge page size memory is taken in; None for ordinary pages, counted in MiB."""
    dedicated: bool
    strict: bool
    held: int
    _rooms: dict[int, int] = field(default_factory=dict)
    _caps: dict[int, int] = field(default_factory=dict)
    _offers: dict[tuple[int, int], Offer | None] = field(default_factory=dict)

    @classmethod
    def of(cls, view: HostView, usage: Usage, request: PlacementRequest, page_kib: int | None) -> Question:
        strict = request.mempolicy == MemPolicy.STRICT.value
        return cls(view, usage, request, page_kib, request.dedicated, strict, usage.held_cpus.mask)

    def need(self, mib: int) -> int:
        """``mib`` in units: MiB, or huge pages rounded up."""
        return mib if self.page_kib is None else -(-mib * 1024 // self.page_kib)

    def room(self, node: int) -> int:
        """Units free on one memory node."""
        room = self._rooms.get(node)
        if room is None:
            room = self.usage.free_memory(self.view, node, self.page_kib, overcommit=not self.dedicated)
            self._rooms[node] = room = max(0, room)
        return room

    def own(self, cell: CellView) -> int:
        """Units free on the cell itself."""
        return self.room(cell.id)

    def reach(self, cell: CellView) -> int:
        """Units a strict container on ``cell`` can have: its own and those of attached memory-only nodes."""
        return sum(self.room(node) for node in cell.nodes)

    @property
    def anywhere(self) -> int:
        """Units free on the whole host, which is what a ``preferred`` container may draw on."""
        return sum(self.room(node) for node in self.view.small_mib)

    def remembers(self, cell: CellView, need: int) -> bool:
        """Whether the memory rule of the request lets ``cell`` serve ``need`` units."""
        return need <= self.room(cell.id) or not self.strict or need <= self.reach(cell)

    def memory_cost(self, own: int, need: int) -> int:
        return (need - own) * REMOTE if need > own else (own - need) * MEM_LEFT

    def offer(self, cell: CellView, cpus: int, need: int) -> Offer | None:
        """The best this cell can do for a part, None when it cannot serve it."""
        if not self.remembers(cell, need):
            return None
        offer = self.cpu_offer(cell, cpus)
        if offer is None:
            return None
        return Offer(offer.cost + self.memory_cost(self.room(cell.id), need), *offer[1:])

    def cpu_offer(self, cell: CellView, cpus: int) -> Offer | None:
        """The CPU side of ``offer``; 0 CPUs is nothing at all."""
        key = (cell.index, cpus)
        if key not in self._offers:
            self._offers[key] = self._dedicated_offer(cell, cpus) if self.dedicated else self._shared_offer(cell, cpus)
        return self._offers[key]

    def _dedicated_offer(self, cell: CellView, cpus: int) -> Offer | None:
        free = (cell.dedicated & ~self.held).bit_count()
        if cpus == 0:
            return Offer(free * CELL_LEFT, 0, 0, 0)
        if cpus > free:
            return None
        found = pick(cell, self.held, cpus, self.request.thread_policy, self.usage.budget(self.view, cell))
        return found and Offer(*found, cpus)

    def _shared_offer(self, cell: CellView, cpus: int) -> Offer | None:
        pool = cell.pool & ~self.held
        room = self.usage.shared_room(self.view, cell)
        if not pool or cpus > room:
            return None
        crowd = max(0, cpus - self.uncrowded(cell))
        return Offer(crowd * CROWD + (room - cpus) * CELL_LEFT, pool, 0, cpus)

    def uncrowded(self, cell: CellView) -> int:
        """Millionths of a CPU until shared demand exceeds the CPUs of the pool; negative beyond."""
        pool = (cell.pool & ~self.held).bit_count()
        return pool * MICRO - self.usage.demand(cell.id)

    def capacity(self, cell: CellView) -> int:
        """The largest amount ``cpu_offer`` can serve; -1 when the cell cannot even serve 0."""
        cap = self._caps.get(cell.index)
        if cap is None:
            if self.dedicated:
                budget = self.usage.budget(self.view, cell)
                cap = capacity(cell, self.held, self.request.thread_policy, budget)
            else:
                cap = self.usage.shared_room(self.view, cell) if cell.pool & ~self.held else -1
            self._caps[cell.index] = cap
        return cap

    def profile(self, cell: CellView) -> tuple[object, ...]:
        """Equal for two cells that differ in their ids only, as far as this request can tell."""
        memory = (self.room(cell.id), self.reach(cell))
        if not self.dedicated:
            return (*memory, self.capacity(cell), self.uncrowded(cell), bool(cell.pool & ~self.held))
        free = cell.dedicated & ~self.held
        units = units_of(cell, self.held, self.request.thread_policy)
        shape = tuple(
            sorted(
                ((sum(cores) & free).bit_count(), *sorted((u.bit_count(), (u & cell.pool).bit_count()) for u in group))
                for cores, group in zip(cell.groups, units, strict=True)
            )
        )
        return (*memory, self.usage.budget(self.view, cell), free.bit_count(), shape)
