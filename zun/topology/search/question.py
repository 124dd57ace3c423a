# SPDX-License-Identifier: Apache-2.0
"""One request to one host in one page size: what each cell can give, and what that costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from zun.topology.cache_control import NO_PART
from zun.topology.request import MICRO, PlacementRequest
from zun.topology.search.cores import CellStock, rules_of
from zun.topology.search.cost import CROWD, DEVICES, FAR, PACK, REMOTE, SPREAD
from zun.topology.search.devices import DeviceSearch, Teller
from zun.topology.search.sets import ALWAYS_EXACT
from zun.topology.search.steps import Steps
from zun.topology.usage import Usage
from zun.topology.view import CellView, CpuView, HostView


class Offer(NamedTuple):
    """CPUs of one cell for one part of a request, and their cost without distances."""

    cost: int
    cpus: int
    """Mask of the CPUs that the container may run on."""
    withheld: int
    """Mask of the CPUs that are kept idle."""
    amount: int
    """CPUs that the part gets; for a shared container its demand in millionths of a CPU."""


Part = tuple[int, int, int]
"""One part of a request: CPUs, memory in units, memory in MiB. Example: (4, 2, 4) wants two pages of 2 MiB."""


class Taken(NamedTuple):
    """One cell of an answer: its offer, and the memory wanted there in units (``need``) and in MiB.

    If all cells serve the whole request together, no cell has memory of its own: both are 0.
    """

    cell: CellView
    offer: Offer
    need: int = 0
    mib: int = 0


Drawn = Sequence[tuple[int, int, int]]
"""Memory that is not on the chosen cells: distance, node id and units of each piece. Example: [(44, 2, 100)]."""


CpuTeller = Callable[[int], int | None]
"""Returns the cost of an amount of CPUs of one cell, or None if the cell cannot give the amount."""


Stocks = dict[tuple[CpuView, int, int], CellStock]
"""One stock for all cells that are alike. The key is the cell's model, its held CPUs (mask) and its budget."""


class Question:
    """One request to one host in one page size: the offer and the cost of each cell.

    CPU amounts are whole CPUs; for a shared container they are millionths of a CPU. For a mixed container they are its
    own CPUs, and ``demand`` is what the pool of the same cell must take beside, in millionths of a CPU; for other
    containers it is 0. Memory is in *units*: huge pages of ``page_kib``, or MiB of ordinary pages if ``page_kib`` is
    None. Answers are remembered.
    """

    __slots__ = (
        "_alike", "_caps", "_offers", "_rooms", "_stocks", "barred", "cache", "dedicated", "demand", "devices",
        "held", "lends", "page_kib", "request", "rules", "steps", "strict", "usage", "view",
    )

    def __init__(
        self,
        view: HostView,
        usage: Usage,
        request: PlacementRequest,
        page_kib: int | None,
        stocks: Stocks,
        devices: DeviceSearch | None = None,
        steps: Steps | None = None,
    ) -> None:
        """Ask ``request`` of the host.

        All questions of one request to one usage share ``stocks``, ``devices`` and ``steps``. ``devices`` is None if
        the request is for no device.
        """
        self.view = view
        self.usage = usage
        self.request = request
        self.page_kib = page_kib
        self.devices = devices
        self.steps = steps or Steps()
        self.dedicated = request.cpu_policy != "shared"
        self.demand = request.demand if request.mixed else 0
        self.strict = request.mempolicy == "strict"
        self.lends = self.strict and view.lends
        """True if cells may have memory in common, so that each may have enough although both together have not."""
        self.rules = rules_of(request, SPREAD if view.spread else PACK)
        self.held = usage.held_mask
        self.cache = view.cache_control.part(request) if request.wants_cache else NO_PART
        """The part that the container gets of each L3 that it runs on."""
        self.barred = self.held | usage.lacking(view.cache_control, self.cache)
        """The CPUs that are none for this container: those that others hold, and those of caches without its part."""
        self._rooms: dict[int, int] = {}
        self._caps: dict[int, int] = {}
        self._stocks: dict[int, CellStock] = {}
        self._alike = stocks
        self._offers: dict[tuple[int, int], Offer | None] = {}

    @property
    def limited(self) -> bool:
        """Return whether a search for the best cells may use up its steps."""
        return self.devices is not None or len(self.view.cells) > ALWAYS_EXACT

    def need(self, mib: int) -> int:
        """Return ``mib`` in units: MiB, or huge pages rounded up."""
        return mib if self.page_kib is None else -(-mib * 1024 // self.page_kib)

    def room(self, node: int) -> int:
        """Return the units free on one memory node, at least 0."""
        room = self._rooms.get(node)
        if room is None:
            room = self.usage.free_memory(self.view, node, self.page_kib, overcommit=not self.dedicated)
            if room < 0:
                room = 0
            self._rooms[node] = room
        return room

    def reach(self, cell: CellView) -> int:
        """Return the units that a strict container on ``cell`` can have: of the cell and of the nodes for it."""
        return sum([self.room(node) for node in cell.nodes])

    def reach_together(self, cells: Iterable[CellView]) -> int:
        """Return the units that a strict container on ``cells`` can have; a node of several cells counts once."""
        return sum([self.room(node) for node in {node for cell in cells for node in cell.nodes}])

    def poured(self, needs: Sequence[tuple[CellView, int]]) -> list[dict[int, int]] | None:
        """Return the units of each node for each cell that needs some, or None if not all can have what they need.

        First each cell gets memory of its own. Then each gets the rest from the nearest nodes that it may use. If cells
        have nodes in common, some move on to another of their nodes.
        """
        left = {node: self.room(node) for node in self.view.small_mib}
        given: list[dict[int, int]] = [{} for _ in needs]
        missing = [need for _, need in needs]

        def give(row: int, node: int, wanted: int) -> int:
            units = min(wanted, left[node])
            if units:
                left[node] -= units
                given[row][node] = given[row].get(node, 0) + units
            return units

        def make_room(row: int, wanted: int, seen: set[int]) -> int:
            for node in needs[row][0].nodes:
                if node in seen:
                    continue
                seen.add(node)
                for other, had in enumerate(given):
                    if not left[node] and had.get(node):
                        moved = make_room(other, min(wanted, had[node]), seen)
                        had[node] -= moved
                        left[node] += moved
                if left[node]:
                    return give(row, node, wanted)
            return 0

        for own in (True, False):
            for row, (cell, _) in enumerate(needs):
                for node in [cell.id] if own or not missing[row] else [node for _, node in self.beyond((cell,))]:
                    missing[row] -= give(row, node, missing[row])
        for row, _ in enumerate(needs):
            while missing[row]:
                units = make_room(row, missing[row], set()) if self.lends else 0
                if not units:
                    return None
                missing[row] -= units
        return [{node: units for node, units in had.items() if units} for had in given]

    @property
    def anywhere(self) -> int:
        """Units free on the whole host, all of which a ``preferred`` container may use."""
        return sum(self.room(node) for node in self.view.small_mib)

    def remembers(self, cell: CellView, need: int) -> bool:
        """Return whether the memory policy lets a container on ``cell`` have ``need`` units."""
        return need <= self.room(cell.id) or not self.strict or need <= self.reach(cell)

    def memory_cost(self, own: int, need: int, drawn: Drawn) -> int:
        """Return the cost of ``need`` units if the cells have ``own`` units and the rest is ``drawn``."""
        if need <= own:
            return (own - need) * self.rules.weights.mem_left
        return (need - own) * REMOTE + sum([units * distance for distance, _, units in drawn]) * FAR

    def _cell_memory_cost(self, cell: CellView, need: int) -> int:
        """Return the cost of the memory of one part, as if the part were alone on the host."""
        room = self.room(cell.id)
        return self.memory_cost(room, need, self.drawn((cell,), need - room) if need > room else ())

    def drawn(self, cells: Sequence[CellView], missing: int) -> Drawn:
        """Return where ``missing`` units come from that ``cells`` lack, nearest node first."""
        return self._filled(self.beyond(cells), missing)

    def nearest(self, cell: CellView, need: int) -> Drawn:
        """Return where ``need`` units come from if ``cell`` takes the nearest memory of the whole host."""
        return self._filled(sorted([(distance, node) for node, distance in cell.apart.items()]), need)

    def _filled(self, nodes: Iterable[tuple[int, int]], missing: int) -> Drawn:
        """Take ``missing`` units from these nodes (distance, node id), in order."""
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
        """Yield (distance, node id) of the other nodes that may give memory to ``cells``, nearest first.

        A strict container may use the memory-only nodes attached to the cells and those that a cell borrows from, a
        ``preferred`` one any node.
        """
        seen = {cell.id for cell in cells}
        if self.strict:
            for distance, node in sorted([(cell.apart[node], node) for cell in cells for node in cell.nodes[1:]]):
                if node not in seen:
                    seen.add(node)
                    yield distance, node
            return
        ways = self.view.ways
        for position in sorted([position for cell in cells for position in cell.spill]):
            way = ways[position]
            if way[1] not in seen:
                seen.add(way[1])
                yield way

    def offer(self, cell: CellView, cpus: int, need: int) -> Offer | None:
        """Return the best CPUs of ``cell`` for a part that needs ``need`` units, or None if the part does not fit."""
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
        """Return the cost of ``offer`` without choosing CPUs if possible."""
        room = self.room(cell.id)
        if need > room and self.strict and need > self.reach(cell):
            return None
        cost = self.cpu_cost(cell, cpus)
        return None if cost is None else cost + self._cell_memory_cost(cell, need)

    def costs(self, cell: CellView, parts: Sequence[Part]) -> list[int | None]:
        """Return the ``cost`` of each part on ``cell``."""
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
        """Return True if simple sums show that the parts, largest CPUs first, do not fit. False proves nothing."""
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
        """Return the cost of ``cpu_offer``, or None."""
        if cpus and self.dedicated:
            return self._stock(cell).cost(cpus)
        offer = self.cpu_offer(cell, cpus)
        return None if offer is None else offer.cost

    def teller(self, cell: CellView) -> tuple[CpuTeller, CpuTeller]:
        """Return two functions of an amount above 0: its ``cpu_cost``, and quickly a lower bound on the cost."""
        if self.dedicated:
            stock = self._stock(cell)
            return stock.cost, stock.least
        cost = partial(self.cpu_cost, cell)
        return cost, cost

    def cpus(self, cell: CellView, cpus: int) -> int:
        """Return the CPUs (mask) of ``cpu_offer``, which must not be None."""
        if self.dedicated and cpus:
            return self._stock(cell).cpus(cpus) << cell.base
        offer = self.cpu_offer(cell, cpus)
        return 0 if offer is None else offer.cpus

    def _stock(self, cell: CellView) -> CellStock:
        """Return the stock of a cell; cells with equal models, held CPUs and budgets share one."""
        stock = self._stocks.get(cell.index)
        if stock is None:
            model, held, usage = cell.model, self.barred, self.usage
            budget = usage.spare(self.view, cell, self.demand) if self.demand else usage.budget(self.view, cell)
            if held:
                held = (held & cell.online) >> cell.base
            if budget < 0:  # the pool cannot take the demand, so the cell has nothing for this container
                held, budget = model.online, 0
            stock = self._alike.get((model, held, budget))
            if stock is None:
                stock = self._alike[model, held, budget] = CellStock(model, held, self.rules, budget)
            self._stocks[cell.index] = stock
        return stock

    def cpu_offer(self, cell: CellView, cpus: int) -> Offer | None:
        """Return the best CPUs of ``cell`` without regard to memory. An offer of 0 CPUs has no CPUs."""
        key = (cell.index, cpus)
        if key in self._offers:
            return self._offers[key]
        offer = self._dedicated_offer(cell, cpus) if self.dedicated else self._shared_offer(cell, cpus)
        self._offers[key] = offer
        return offer

    def _dedicated_offer(self, cell: CellView, cpus: int) -> Offer | None:
        if cpus == 0:
            free = (cell.dedicated & ~self.barred).bit_count()
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
        """Return the millionths of a CPU until shared demand exceeds the CPUs of the pool; negative beyond that."""
        pool = (cell.pool & ~self.held).bit_count()
        return pool * MICRO - self.usage.demand(cell.id) - cell.foreign

    def device_teller(self, cells: Sequence[CellView], bits: int) -> Teller | None:
        """Return the cost of the devices as a function of a mask of positions in ``cells``, or None without devices.

        The cost has ``bits`` bits below it, for the cell ids.
        """
        return None if self.devices is None else Teller(self.devices, cells, DEVICES << bits)

    def capacity(self, cell: CellView) -> int:
        """Return the largest amount that ``cpu_offer`` can serve, or -1 if the cell cannot even serve 0."""
        cap = self._caps.get(cell.index)
        if cap is None:
            if self.dedicated:
                cap = self._stock(cell).capacity()
            else:
                cap = self.usage.shared_room(self.view, cell) if cell.pool & ~self.held else -1
            self._caps[cell.index] = cap
        return cap

    def profile(self, cell: CellView) -> tuple[object, ...]:
        """Return a value that is equal for two cells if only their ids differ for this request."""
        memory = (self.room(cell.id), self.reach(cell), self._beside(cell))
        if not self.dedicated:
            return (*memory, self.capacity(cell), self.uncrowded(cell), bool(cell.pool & ~self.held))
        return (*memory, *self._stock(cell).profile())

    def _beside(self, cell: CellView) -> Sequence[object]:
        """Return the distances and room of the memory-only nodes that may serve the cell."""
        if self.strict:
            return sorted([(cell.apart[node], self.room(node)) for node in cell.nodes[1:]])
        return [far for node, far in cell.apart.items() if node not in self.view.index]


def in_mib(mib: int, page_kib: int | None, units: Sequence[int]) -> list[int]:
    """Return ``mib`` cut into one share for each amount of units; the last page may be partly empty.

    Example: 5 MiB in pages of 2048 KiB, units [2, 1], are [4, 1].
    """
    if page_kib is None:
        return list(units)
    shares, seen, given = [], 0, 0
    for count in units:
        seen += count
        share = min(mib, -(-seen * page_kib // 1024)) - given
        given += share
        shares.append(share)
    return shares
