# SPDX-License-Identifier: Apache-2.0
"""One request put to one host with one page size: what each cell could offer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from zun.topology.cores import CellStock, rules_of
from zun.topology.cost import CROWD, FAR, REMOTE
from zun.topology.request import MICRO, PlacementRequest
from zun.topology.usage import Usage
from zun.topology.view import CellView, CpuView, HostView


class Offer(NamedTuple):
    """CPUs of one cell for one part of a request (masks), and their cost without any distance."""

    cost: int
    cpus: int
    withheld: int
    amount: int
    """CPUs taken; of a shared container the demand in millionths."""


Part = tuple[int, int, int]
"""One part of a request: CPUs, memory in units, and in MiB."""


class Taken(NamedTuple):
    """One cell of an answer: the CPUs it gives, and the memory wanted for it in units and in MiB.

    Where all cells serve the whole request together, none has memory of its own to want.
    """

    cell: CellView
    offer: Offer
    need: int = 0
    mib: int = 0


Drawn = Sequence[tuple[int, int, int]]
"""Memory that is not on the cells it is for: how far it is, its node and how many units."""


Teller = Callable[[int], int | None]
"""Tells the cost of an amount of CPUs of one cell."""


Stocks = dict[tuple[CpuView, int, int], CellStock]
"""What cells have, once for all that are alike: by their CPUs, which of these are held, and the budget."""


class Question:
    """CPU amounts are whole CPUs, for shared containers millionths.

    Memory is in *units*: huge pages of ``page_kib``, or MiB of ordinary pages where that is None.
    """

    __slots__ = (
        "_alike", "_caps", "_offers", "_rooms", "_stocks", "dedicated", "held", "page_kib", "request", "rules",
        "strict", "usage", "view",
    )

    def __init__(
        self, view: HostView, usage: Usage, request: PlacementRequest, page_kib: int | None, stocks: Stocks
    ) -> None:
        """``stocks`` are shared by all questions of one request to one usage."""
        self.view = view
        self.usage = usage
        self.request = request
        self.page_kib = page_kib
        self.dedicated = request.cpu_policy == "dedicated"
        self.strict = request.mempolicy == "strict"
        self.rules = rules_of(request, view.weights)
        self.held = usage.held_mask
        self._rooms: dict[int, int] = {}
        self._caps: dict[int, int] = {}
        self._stocks: dict[int, CellStock] = {}
        self._alike = stocks
        self._offers: dict[tuple[int, int], Offer | None] = {}

    def need(self, mib: int) -> int:
        """``mib`` in units: MiB, or huge pages rounded up."""
        return mib if self.page_kib is None else -(-mib * 1024 // self.page_kib)

    def room(self, node: int) -> int:
        """Units free on one memory node."""
        room = self._rooms.get(node)
        if room is None:
            room = self.usage.free_memory(self.view, node, self.page_kib, overcommit=not self.dedicated)
            if room < 0:
                room = 0
            self._rooms[node] = room
        return room

    def reach(self, cell: CellView) -> int:
        """Units a strict container on ``cell`` can have: its own and those of attached memory-only nodes."""
        return sum([self.room(node) for node in cell.nodes])

    @property
    def anywhere(self) -> int:
        """Units free on the whole host, which is what a ``preferred`` container may draw on."""
        return sum(self.room(node) for node in self.view.small_mib)

    def remembers(self, cell: CellView, need: int) -> bool:
        """Whether the memory rule of the request lets ``cell`` serve ``need`` units."""
        return need <= self.room(cell.id) or not self.strict or need <= self.reach(cell)

    def memory_cost(self, own: int, need: int, drawn: Drawn) -> int:
        """Of ``need`` units where there are ``own``, and what else is ``drawn``."""
        if need <= own:
            return (own - need) * self.rules.weights.mem_left
        return (need - own) * REMOTE + sum([units * distance for distance, _, units in drawn]) * FAR

    def _cell_memory_cost(self, cell: CellView, need: int) -> int:
        """Each part of a request as if it were alone."""
        room = self.room(cell.id)
        return self.memory_cost(room, need, self.drawn((cell,), need - room) if need > room else ())

    def drawn(self, cells: Sequence[CellView], missing: int) -> Drawn:
        """So many units of what is ``beyond``."""
        return self._filled(self.beyond(cells), missing)

    def nearest(self, cell: CellView, need: int) -> Drawn:
        """So many units of the memory that is nearest to ``cell``, wherever it is."""
        return self._filled(sorted([(distance, node) for node, distance in cell.apart.items()]), need)

    def _filled(self, nodes: Iterable[tuple[int, int]], missing: int) -> Drawn:
        found = []
        for distance, node in nodes:
            units = self.room(node)
            if units >= missing:
                found.append((distance, node, missing))
                break
            if units:
                found.append((distance, node, units))
                missing -= units
        return found

    def beyond(self, cells: Sequence[CellView]) -> Iterator[tuple[int, int]]:
        """Where memory comes from that is not on ``cells``, nearest first: how far it is from them, and the node.

        From the nodes attached to them, for a ``preferred`` container from any.
        """
        if self.strict:
            yield from sorted([(cell.apart[node], node) for cell in cells for node in cell.nodes[1:]])
            return
        ways, seen = self.view.ways, {cell.id for cell in cells}
        for position in sorted([position for cell in cells for position in cell.spill]):
            way = ways[position]
            if way[1] not in seen:
                seen.add(way[1])
                yield way

    def offer(self, cell: CellView, cpus: int, need: int) -> Offer | None:
        """The best this cell can do for a part, None when it cannot serve it."""
        room = self.room(cell.id)
        if need > room and self.strict and need > self.reach(cell):
            return None
        if self.dedicated and cpus:
            found = self._stock(cell).pick(cpus)
            if found is None:
                return None
            cost, given, withheld = found
            return Offer(cost + self._cell_memory_cost(cell, need), given << cell.base, withheld << cell.base, cpus)
        offer = self.cpu_offer(cell, cpus)
        return None if offer is None else offer._replace(cost=offer.cost + self._cell_memory_cost(cell, need))

    def cost(self, cell: CellView, cpus: int, need: int) -> int | None:
        """The cost of ``offer``, for less work."""
        room = self.room(cell.id)
        if need > room and self.strict and need > self.reach(cell):
            return None
        cost = self.cpu_cost(cell, cpus)
        return None if cost is None else cost + self._cell_memory_cost(cell, need)

    def costs(self, cell: CellView, parts: Sequence[Part]) -> list[int | None]:
        """``cost`` of each of these parts."""
        room, left = self.room(cell.id), self.rules.weights.mem_left
        reach = self.reach(cell) if self.strict else None
        cost_of = self._stock(cell).cost if self.dedicated else partial(self.cpu_cost, cell)
        found: list[int | None] = []
        for cpus, need, _ in parts:
            cost = cost_of(cpus) if reach is None or need <= reach else None
            if cost is not None:
                cost += self._cell_memory_cost(cell, need) if need > room else (room - need) * left
            found.append(cost)
        return found

    def exceeds(self, parts: Sequence[Part]) -> bool:
        """Whether so many cells with so many CPUs, or so much memory, are not to be had: seen at once, if ever."""
        view = self.view
        if self.dedicated:
            most = sorted([self._stock(cell).most for cell in view.cells], reverse=True)
            if any(part[0] > has for part, has in zip(parts, most, strict=False)):
                return True
        if not self.strict:
            return False
        rooms = sorted([self.reach(cell) for cell in view.cells], reverse=True)
        needs = sorted([part[1] for part in parts], reverse=True)
        return any(need > has for need, has in zip(needs, rooms, strict=False))

    def cpu_cost(self, cell: CellView, cpus: int) -> int | None:
        """The cost of ``cpu_offer``."""
        if cpus and self.dedicated:
            return self._stock(cell).cost(cpus)
        offer = self.cpu_offer(cell, cpus)
        return None if offer is None else offer.cost

    def teller(self, cell: CellView) -> tuple[Teller, Teller]:
        """What tells ``cpu_cost`` of amounts above 0, and, at once, no more than that where it is not None."""
        if self.dedicated:
            stock = self._stock(cell)
            return stock.cost, stock.least
        cost = partial(self.cpu_cost, cell)
        return cost, cost

    def cpus(self, cell: CellView, cpus: int) -> int:
        """Mask of the CPUs in ``cpu_offer``, which must not be None."""
        if self.dedicated and cpus:
            return self._stock(cell).cpus(cpus) << cell.base
        offer = self.cpu_offer(cell, cpus)
        return 0 if offer is None else offer.cpus

    def _stock(self, cell: CellView) -> CellStock:
        stock = self._stocks.get(cell.index)
        if stock is None:
            model, held, budget = cell.model, self.held, self.usage.budget(self.view, cell)
            if held:
                held = (held & cell.online) >> cell.base
            stock = self._alike.get((model, held, budget))
            if stock is None:
                stock = self._alike[model, held, budget] = CellStock(model, held, self.rules, budget)
            self._stocks[cell.index] = stock
        return stock

    def cpu_offer(self, cell: CellView, cpus: int) -> Offer | None:
        """The CPU side of ``offer``; 0 CPUs is nothing at all."""
        key = (cell.index, cpus)
        if key in self._offers:
            return self._offers[key]
        offer = self._dedicated_offer(cell, cpus) if self.dedicated else self._shared_offer(cell, cpus)
        self._offers[key] = offer
        return offer

    def _dedicated_offer(self, cell: CellView, cpus: int) -> Offer | None:
        if cpus == 0:
            free = (cell.dedicated & ~self.held).bit_count()
            return Offer(free * self.rules.weights.cell_left, 0, 0, 0)
        found = self._stock(cell).pick(cpus)
        if found is None:
            return None
        cost, given, withheld = found
        return Offer(cost, given << cell.base, withheld << cell.base, cpus)

    def _shared_offer(self, cell: CellView, cpus: int) -> Offer | None:
        pool = cell.pool & ~self.held
        room = self.usage.shared_room(self.view, cell)
        if not pool or cpus > room:
            return None
        crowd = max(0, cpus - self.uncrowded(cell))
        return Offer(crowd * CROWD + (room - cpus) * self.rules.weights.cell_left, pool, 0, cpus)

    def uncrowded(self, cell: CellView) -> int:
        """Millionths of a CPU until shared demand exceeds the CPUs of the pool; negative beyond."""
        pool = (cell.pool & ~self.held).bit_count()
        return pool * MICRO - self.usage.demand(cell.id)

    def capacity(self, cell: CellView) -> int:
        """The largest amount ``cpu_offer`` can serve; -1 when the cell cannot even serve 0."""
        cap = self._caps.get(cell.index)
        if cap is None:
            if self.dedicated:
                cap = self._stock(cell).capacity()
            else:
                cap = self.usage.shared_room(self.view, cell) if cell.pool & ~self.held else -1
            self._caps[cell.index] = cap
        return cap

    def profile(self, cell: CellView) -> tuple[object, ...]:
        """Equal for two cells that differ in their ids only, as far as this request can tell."""
        memory = (self.room(cell.id), self.reach(cell), self._beside(cell))
        if not self.dedicated:
            return (*memory, self.capacity(cell), self.uncrowded(cell), bool(cell.pool & ~self.held))
        return (*memory, *self._stock(cell).profile())

    def _beside(self, cell: CellView) -> Sequence[object]:
        """What there is to know of the memory-only nodes that may serve the cell, alone or with others."""
        if self.strict:
            return sorted([(cell.apart[node], self.room(node)) for node in cell.nodes[1:]])
        return [far for node, far in cell.apart.items() if node not in self.view.index]


def in_mib(mib: int, page_kib: int | None, units: Sequence[int]) -> list[int]:
    """``mib`` cut into the MiB that each amount of units stands for; the last page may be partly empty."""
    if page_kib is None:
        return list(units)
    shares, seen, given = [], 0, 0
    for count in units:
        seen += count
        share = min(mib, -(-seen * page_kib // 1024)) - given
        given += share
        shares.append(share)
    return shares
