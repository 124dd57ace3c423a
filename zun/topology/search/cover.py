# SPDX-License-Identifier: Apache-2.0
"""The whole request over the fewest cells, if no shape is asked for (affinity ``none``) or the shape does not fit.

All cells of the answer but one give every CPU they can, so at most one cell is left in pieces. If memory needs more
cells than CPUs do, CPUs come from as few of the cells as possible: from one cell that has enough, else from the cells
with the most CPUs.

Words of this module: a *giver* is a chosen cell that gives CPUs. The CPUs that the givers can give beyond the request
are *kept*; one giver keeps them all. An *idle* cell gives memory only. A *full* cell gives every CPU it can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from zun.topology.masks import mirrored
from zun.topology.request import MICRO
from zun.topology.search.cost import AWAY, CACHES, CORE_LEFT, CORES, DISTANCE, FAR, REMOTE, id_bits, low_ids
from zun.topology.search.devices import Teller
from zun.topology.search.question import CpuTeller, Drawn, Offer, Question, Taken
from zun.topology.search.sets import Chosen, SetSearch, Supply, alike, distances_among, mask_of, peers_among

Way = tuple[int, list[int]]
"""A way to take the CPUs of a set: its cost, with the id bits below it and without memory, and the amount of each cell.
"""


class Cover:
    """Search for the best cells that have the CPUs and the memory of a request together.

    Cells have positions in ``cells``: those of the host that have any CPUs for the request.
    """

    def __init__(self, question: Question) -> None:
        request = question.request
        self.question = question
        self.cpus = int(request.cpus) if question.dedicated else round(request.cpus * MICRO)
        self.need = question.need(request.memory_mib)
        self.cells = cells = [cell for cell in question.view.cells if question.capacity(cell) >= 0]
        self.caps = [question.capacity(cell) for cell in cells]
        self.own = [question.room(cell.id) for cell in cells]
        self.reach = [question.reach(cell) for cell in cells] if question.strict else [self.need] * len(cells)
        self.fewest = self._fewest()
        self.bits = id_bits(question.view)[0]
        self.low = low_ids(question.view, cells)
        self.far = question.device_teller(cells, self.bits)
        """Cost of the devices by mask of the positions that the container runs on, None without devices."""
        if self.far is not None and question.dedicated:
            self.far = self.far.only(mask_of([c for c, cap in enumerate(self.caps) if cap]))
        self.tellers: list[tuple[CpuTeller, CpuTeller]] = []
        self.full: list[int] = []
        self.idle: list[int] = []
        self.alone: dict[int, int] = {}
        # With the strategy spread, the rules below CORE_LEFT are negative. Together they are less than one unit of it.
        self.least = -2 * CORE_LEFT if question.view.spread else 0
        self.distances: tuple[tuple[int, ...], ...] = ()
        self.like: list[int] = []
        self.drawn: dict[Chosen, Drawn] = {}
        self.spared: dict[int, tuple[list[int], set[int]]] = {}
        self.best_ways: dict[Chosen, list[Way]] = {}
        self.steps = question.steps
        self.runs: bool | None = None
        """False if no cells, one for each CPU of the request, have the devices."""

    def _fewest(self) -> int:
        """Return a lower bound on the number of cells, or one more than the host has if no set can serve."""
        if self.question.strict or self.need <= self.question.anywhere:
            for count in range(1, len(self.cells) + 1):
                if _top(self.caps, count) >= self.cpus and _top(self.reach, count) >= self.need:
                    return count
        return len(self.cells) + 1

    def best(self, count: int) -> list[Taken] | None:
        """Return the best answer over exactly ``count`` cells, or None if no such set serves."""
        if not self.fewest <= count <= len(self.cells):
            return None
        if not self.full:
            self._look()
        if self.far is not None and not self._have_devices(count, self.far):
            return None
        unary, base, spare = self._bounds(count)
        # Memory that is not on the chosen cells is no nearer than the shortest way from a cell to another node.
        ways = self.question.view.ways
        remote = REMOTE + (ways[0][0] if ways else 0) * FAR
        search = SetSearch(
            count=count,
            distances=self.distances,
            weight=DISTANCE << self.bits,
            unary=unary,
            base=base,
            leaf=self._leaf,
            supplies=(
                *(self.far.supplies if self.far is not None else ()),
                Supply(self.caps, self.cpus, spare=spare),
                Supply(self.reach, self.need),
                Supply(self.own, self.need, remote << self.bits, lack=self._lack),
            ),
            alike=self.like,
            floor=self.far,
            steps=self.steps,
            quick=self.steps.cut,
        )
        # Larger sets may serve if no set of this size is found, so they need steps as well.
        with self.steps.keeping(0.5 if self.question.limited and count < len(self.cells) else 0):
            chosen = search.run()
        return None if chosen is None else self._taken(chosen)

    def _have_devices(self, count: int, far: Teller) -> bool:
        """Return False if no ``count`` cells have the devices, as far as that is known without a look at each set."""
        # Each cell that a dedicated container runs on gives a CPU. Then larger sets have no more devices.
        most = min(count, self.cpus) if self.question.dedicated else count
        if any(_top(supply.amounts, most) < supply.wanted for supply in far.supplies):
            return False
        if most == count:
            return True
        if self.runs is None:
            size = len(self.cells)
            search = SetSearch(
                count=most, distances=self.distances, weight=0, unary=[0] * size, base=0,
                leaf=lambda chosen, limit: None if far(mask_of(chosen)) is None else 0,
                supplies=far.supplies, floor=far, steps=self.steps,
            )
            with self.steps.keeping(0.5):
                self.runs = search.run() is not None or self.steps.over
        return self.runs

    def _look(self) -> None:
        """Compute what every search needs, whatever its count: distances, costs of full cells, alike cells."""
        view = self.question.view
        self.distances = distances_among(view, self.cells)
        self.tellers = [self.question.teller(cell) for cell in self.cells]
        self.full = [self._cost(c, cap) for c, cap in enumerate(self.caps)]
        # The profiles know neither devices nor memory in common, so with these no cells are alike.
        known = self.far is None and not self.question.lends
        self.like = alike(self._profiles(), peers_among(view, self.cells)) if known else []

    def _profiles(self) -> list[object]:
        """Return values that are equal for cells that differ in their ids only.

        The costly profile of a cell is computed only if the known amounts of another cell are equal.
        """
        seen = [*zip(self.own, self.reach, self.caps, self.full, strict=True)]
        return [
            (each, self.question.profile(cell) if seen.count(each) > 1 else None)
            for cell, each in zip(self.cells, seen, strict=True)
        ]

    def _bounds(self, count: int) -> tuple[list[int], int, Callable[[int], int] | None]:
        """Return lower bounds: the cost of each cell, the cost of any set, and the cost that kept CPUs do not save.

        If every cell must give CPUs, all cells but one are full, and that one saves at most one core for each CPU that
        it keeps. The bound on any set takes off the most that can be saved (``saved``). The function then adds what
        a set with so many kept CPUs cannot save. All bounds have the id bits taken off.
        """
        size = len(self.cells)
        least = self.least
        if not self.question.dedicated or _top(self.caps, count - 1) >= self.cpus:
            self.idle = self.idle or [self._cost(c, 0) for c in range(size)]
            if self.far is not None or not self.question.dedicated or sorted(self.caps)[count - 1] < self.cpus:
                return [0] * size, (least - 1) << self.bits, None
            # Every set has a cell with enough CPUs for the whole request.
            self.alone = self.alone or {c: self._alone(c) for c in range(size) if self.caps[c] >= self.cpus}
            return [cost << self.bits for cost in self.idle], (least + min(self.alone.values()) - 1) << self.bits, None
        kept = _top(self.caps, count) - self.cpus
        saved = 0
        for cost in self.full:
            # With spread, the fields below CORES may be negative, but less than one CORE_LEFT in all.
            cores = (cost + CORE_LEFT) // CORES % (CACHES // CORES)
            saved = max(saved, cost - CACHES - max(1, cores - kept) * CORES)

        def spare(kept: int) -> int:
            if not kept:
                return saved << self.bits
            return max(0, saved + min((self.spared.get(kept) or self._bound(kept))[0])) << self.bits

        return [cost << self.bits for cost in self.full], (least - saved - 1) << self.bits, spare

    def _leaf(self, chosen: Chosen, limit: int | None) -> int | None:
        """Return the cost of a set without its distances, or None if it cannot serve or reaches ``limit``."""
        if _of(self.caps, chosen) < self.cpus or _of(self.reach, chosen) < self.need:
            return None
        if self.question.lends and self.question.reach_together([self.cells[c] for c in chosen]) < self.need:
            return None
        own, low_cells = _of(self.own, chosen), _of(self.low, chosen)
        least: int | None = None
        enough = None if limit is None else (limit + low_cells >> self.bits) + 1
        drawn = self._drawn(chosen, self.need - own)
        memory = self.question.memory_cost(own, self.need, drawn)
        if enough is not None and memory + self.least >= enough:
            return None
        if self.far is not None:
            # The container has no nearer devices than on all chosen cells.
            devices = self.far(mask_of(chosen))
            lowest = (memory + self.least << self.bits) - low_cells
            if devices is None or (limit is not None and lowest + devices >= limit):
                return None
            ways = self._cheapest_ways(chosen, drawn, self.far)
            return (memory << self.bits) + ways[0][0] - low_cells if ways else None
        if self.alone:
            least = self._given_by_one(chosen, drawn, memory, enough)
            return None if least is None else (least << self.bits) - low_cells
        cost = memory + _of(self.idle, chosen) if self.idle else memory
        for more, givers in self._givers(chosen, drawn):
            found = self._given(givers, cost + more, enough)
            if found is not None and (least is None or found < least):
                least = enough = found
        return None if least is None else (least << self.bits) - low_cells

    def _lack(self, chosen: Chosen, missing: int) -> int:
        """Return the cost of ``missing`` units of memory that the chosen cells lack."""
        drawn = self.drawn[chosen] = self._drawn(chosen, missing)
        return self.question.memory_cost(self.need - missing, self.need, drawn) << self.bits

    def _drawn(self, chosen: Chosen, missing: int) -> Drawn:
        """Return where ``missing`` units of memory come from that the chosen cells lack."""
        if missing <= 0:
            return ()
        return self.drawn.get(chosen) or self.question.drawn([self.cells[c] for c in chosen], missing)

    def _given(self, givers: Sequence[int], cost: int, enough: int | None) -> int | None:
        """Return ``cost`` changed by the best giver keeping what is not needed, or None if it reaches ``enough``.

        Bounds become exact costs one by one, the lowest first, until the lowest of all is exact.
        """
        caps, full = self.caps, self.full
        kept = _of(caps, givers) - self.cpus
        if not kept:
            return cost
        bounds, exact = self.spared.get(kept) or self._bound(kept)
        while True:
            c = min(givers, key=bounds.__getitem__)
            if enough is not None and cost + bounds[c] >= enough:
                return None
            if c in exact:
                return cost + bounds[c]
            bounds[c] = self._cost(c, caps[c] - kept) - full[c]
            exact.add(c)

    def _alone(self, c: int) -> int:
        """Return a lower bound on the extra cost if cell ``c`` gives all CPUs, with the nearest memory of the host."""
        far = sum([units * distance for distance, _, units in self.question.nearest(self.cells[c], self.need)])
        return self._cost(c, self.cpus) - self.idle[c] + far * AWAY

    def _given_by_one(self, chosen: Chosen, drawn: Drawn, cost: int, enough: int | None) -> int | None:
        """Return ``cost`` plus the cost of all CPUs on the best single cell, or None if it reaches ``enough``."""
        cost += _of(self.idle, chosen)
        best = None
        for c in sorted([c for c in chosen if c in self.alone], key=self.alone.__getitem__):
            if enough is not None and cost + self.alone[c] >= enough:
                break
            found = cost + self._cost(c, self.cpus) - self.idle[c] + self._away_from(c, chosen, drawn)
            if enough is None or found < enough:
                best = enough = found
        return best

    def _away_from(self, c: int, chosen: Chosen, drawn: Drawn) -> int:
        """Return the cost of the distance between the CPUs of cell ``c`` and the memory of the request.

        The memory is on the chosen cells, nearest to ``c`` first, and in the pieces ``drawn``.
        """
        row, own, far, missing = self.distances[c], self.own, 0, self.need
        for other in sorted(chosen, key=row.__getitem__):
            units = own[other]
            if units >= missing:
                far += missing * row[other]
                break
            far += units * row[other]
            missing -= units
        if drawn:
            apart = self.cells[c].apart
            far += sum([units * apart[node] for _, node, units in drawn])
        return far * AWAY

    def _bound(self, kept: int) -> tuple[list[int], set[int]]:
        """Return by cell a lower bound on the extra cost of keeping ``kept`` CPUs, and an empty set.

        Keeping CPUs may save, so the extra cost may be negative. The set is filled with the cells whose bound has
        become the exact cost.
        """
        bounds = [
            (least(cap - kept) or 0) - full if cap >= kept else 0
            for (_, least), cap, full in zip(self.tellers, self.caps, self.full, strict=True)
        ]
        self.spared[kept] = bounds, set()
        return self.spared[kept]

    def _givers(self, chosen: Chosen, drawn: Drawn, by_ids: bool = False) -> list[tuple[int, Sequence[int]]]:
        """Return the possible givers, each as (extra cost of giving CPUs, cells).

        As few cells as possible give CPUs: any one that has enough, else the cells with the most CPUs. If some of
        several cells with equally many CPUs suffice, each of them is once the last giver. The other givers are the ones
        with the least extra cost, and of equal cost (with ``by_ids``) the lowest CPU ids.
        """
        if not self.idle:
            return [(_of(self.full, chosen), chosen)]
        caps = self.caps
        number, left = 0, self.cpus
        for last in sorted([caps[c] for c in chosen], reverse=True):
            number += 1
            left -= last
            if left <= 0:
                break
        if number == 1:
            last = self.cpus
        able = [c for c in chosen if caps[c] >= last]
        more = {c: self.full[c] - self.idle[c] for c in able}
        if self.question.dedicated:  # a shared container runs on the pools of all chosen cells
            for c in able:
                more[c] += self._away_from(c, chosen, drawn)
        if number == 1:
            return [(more[c], (c,)) for c in able]
        if len(able) == number:
            return [(sum(more.values()), able)]

        def rank(c: int) -> tuple[int, int]:
            cpus = self._offer(c, last).cpus if by_ids else 0
            return more[c], cpus & -cpus

        certain, equals = [c for c in able if caps[c] > last], sorted([c for c in able if caps[c] == last], key=rank)
        rest = number - len(certain) - 1
        ways = [[*certain, *[other for other in equals if other != c][:rest], c] for c in equals]
        return [(sum([more[c] for c in givers]), givers) for givers in ways]

    def _offers(self, chosen: Chosen) -> list[Offer]:
        """Return the offer of each chosen cell; the best of the givers keeps the CPUs that are not needed."""
        drawn = self._drawn(chosen, self.need - _of(self.own, chosen))
        if self.far is not None:
            ways = self.best_ways[chosen]
        else:
            ways = [
                (more + self._cost(last, self.caps[last] - kept) - self.full[last], amounts)
                for more, givers in self._givers(chosen, drawn, by_ids=True)
                for last, kept, amounts in self._amounts(chosen, givers)
            ]
        least = min(ways)[0]
        _, width = id_bits(self.question.view)
        best: list[Offer] = []
        best_key = None
        for cost, amounts in ways:
            if cost > least:
                continue
            offers = [self._offer(c, amount) for c, amount in zip(chosen, amounts, strict=True)]
            ids = mirrored(sum([offer.cpus for offer in offers]), width) if self.question.dedicated else 0
            # Among equals, the cells with the lower ids give all they can.
            key = -ids, [-amount for amount in amounts]
            if best_key is None or key < best_key:
                best, best_key = offers, key
        return best

    def _amounts(self, chosen: Chosen, givers: Sequence[int]) -> Iterator[tuple[int, int, list[int]]]:
        """Yield each giver that may keep CPUs, the number of CPUs that it keeps, and the amount of each chosen cell."""
        kept = _of(self.caps, givers) - self.cpus
        for last in givers if kept else givers[:1]:
            yield last, kept, [self.caps[c] - (kept if c == last else 0) if c in givers else 0 for c in chosen]

    # With devices

    def _cheapest_ways(self, chosen: Chosen, drawn: Drawn, far: Teller) -> list[Way]:
        """Return the cheapest ways to take the CPUs of ``chosen`` with which devices serve. They are remembered."""
        if chosen not in self.best_ways:
            with self.steps.keeping(0.875):
                ways = self._ways(chosen, drawn, far)
            least = min(ways)[0] if ways else 0
            self.best_ways[chosen] = [way for way in ways if way[0] == least]
        return self.best_ways[chosen]

    def _ways(self, chosen: Chosen, drawn: Drawn, far: Teller) -> list[Way]:
        """Return every way to take the CPUs of ``chosen`` with which devices serve.

        Which cells give CPUs decides about devices, so every choice of givers is a way. Further cells give CPUs only if
        no devices serve without.
        """
        dedicated, count = self.question.dedicated, len(chosen)
        number = self._number(chosen) if self.idle else count
        least = self.cpus if number == 1 else _top([self.caps[c] for c in chosen], number)
        ways: list[Way] = []
        for givers in self._choices(chosen, number, far):
            if _of(self.caps, givers) < least:
                continue
            for _, _, amounts in self._amounts(chosen, givers):
                ways += self._way(chosen, givers if dedicated else chosen, drawn, amounts)
        while not ways and dedicated and number < min(count, self.cpus):
            number += 1
            for givers in self._choices(chosen, number, far):
                if _of(self.caps, givers) >= self.cpus and min(map(self.caps.__getitem__, givers)):
                    ways += self._way(chosen, givers, drawn, self._little(chosen, givers))
        return ways

    def _choices(self, chosen: Chosen, number: int, far: Teller) -> Iterator[tuple[int, ...]]:
        """Yield the choices of so many givers that may have the devices, until the steps are used up."""
        supplies = far.supplies if self.question.dedicated else ()  # a shared container runs on all chosen cells
        if any(_top([supply.amounts[c] for c in chosen], number) < supply.wanted for supply in supplies):
            return
        for givers in combinations(chosen, number):
            if not self.steps.spend(1):
                return
            if all(_of(supply.amounts, givers) >= supply.wanted for supply in supplies):
                yield givers

    def _number(self, chosen: Chosen) -> int:
        """Return the number of cells that give CPUs: as few as possible."""
        left = self.cpus
        for number, cap in enumerate(sorted([self.caps[c] for c in chosen], reverse=True), 1):
            left -= cap
            if left <= 0:
                return number
        return len(chosen)

    def _little(self, chosen: Chosen, givers: Sequence[int]) -> list[int]:
        """Return the amount of each chosen cell if each giver gives a CPU, and the largest ones the rest."""
        left, amounts = self.cpus - len(givers), {}
        for c in sorted(givers, key=lambda c: (-self.caps[c], c)):
            amounts[c] = 1 + min(left, self.caps[c] - 1)
            left -= amounts[c] - 1
        return [amounts.get(c, 0) for c in chosen]

    def _way(self, chosen: Chosen, running: Sequence[int], drawn: Drawn, amounts: list[int]) -> Iterator[Way]:
        """Yield the way with these amounts if devices serve the container on the cells ``running``."""
        assert self.far is not None
        far = self.far(mask_of(running))
        if far is None:
            return
        cost = sum([self._cost(c, amount) for c, amount in zip(chosen, amounts, strict=True)])
        if self.idle and self.question.dedicated:
            cost += sum([self._away_from(c, chosen, drawn) for c in running])
        yield (cost << self.bits) + far, amounts

    def _offer(self, c: int, amount: int) -> Offer:
        """Return the best ``amount`` of CPUs of cell ``c``, at most its capacity."""
        offer = self.question.cpu_offer(self.cells[c], amount)
        assert offer is not None, "a cell can give any amount up to its capacity"
        return offer

    def _cost(self, c: int, amount: int) -> int:
        """Return the cost of ``_offer``."""
        cost = self.tellers[c][0](amount) if amount else self.question.cpu_cost(self.cells[c], 0)
        assert cost is not None, "a cell can give any amount up to its capacity"
        return cost

    def _taken(self, chosen: Chosen) -> list[Taken]:
        return [Taken(self.cells[c], offer) for c, offer in zip(chosen, self._offers(chosen), strict=True)]


def _of(amounts: Sequence[int], chosen: Sequence[int]) -> int:
    """Return the sum of the amounts at these positions."""
    return sum(map(amounts.__getitem__, chosen))


def _top(amounts: Sequence[int], count: int) -> int:
    """Return the sum of the ``count`` largest amounts."""
    return sum(sorted(amounts, reverse=True)[:count])
