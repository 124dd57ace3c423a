# SPDX-License-Identifier: Apache-2.0
"""The whole request over the fewest cells, if no shape is asked for (affinity ``none``) or the shape does not fit.

All cells of the answer but one give every CPU they can, so at most one cell is left in pieces. If memory needs more
cells than CPUs do, CPUs come from as few of the cells as possible: from one cell that has enough, else from the cells
with the most CPUs. ``givers`` has the words for what cells give.
"""

from __future__ import annotations

from collections.abc import Callable

from zun.topology.masks import mirrored
from zun.topology.search.cost import CACHES, CORE_LEFT, CORES, DISTANCE, FAR, REMOTE, id_bits, low_ids
from zun.topology.search.device_ways import DeviceWays
from zun.topology.search.devices import Teller
from zun.topology.search.givers import Givers
from zun.topology.search.portions import Portions, of, top
from zun.topology.search.question import Offer, Question, Taken
from zun.topology.search.sets import Chosen, SetSearch, Supply, alike, mask_of, peers_among


class Cover:
    """Search for the best cells that have the CPUs and the memory of a request together."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.portions = portions = Portions(question)
        self.cells = cells = portions.cells
        self.fewest = self._fewest()
        self.bits = id_bits(question.view)[0]
        self.low = low_ids(question.view, cells)
        self.givers = Givers(portions)
        self.far = question.device_teller(cells, self.bits)
        """Cost of the devices by mask of the positions that the container runs on, None without devices."""
        if self.far is not None and question.dedicated:
            self.far = self.far.only(mask_of([c for c, cap in enumerate(portions.caps) if cap]))
        self.ways = None if self.far is None else DeviceWays(portions, self.givers, self.far, self.bits)
        self.by_one = False
        """Whether a set has a cell that gives all CPUs."""
        # With the strategy spread, the rules below CORE_LEFT are negative. Together they are less than one unit of it.
        self.least = -2 * CORE_LEFT if question.view.spread else 0
        self.like: list[int] | None = None
        self.steps = question.steps
        self.runs: bool | None = None
        """False if no cells, one for each CPU of the request, have the devices."""

    def _fewest(self) -> int:
        """Return a lower bound on the number of cells, or one more than the host has if no set can serve."""
        portions = self.portions
        if self.question.strict or portions.need <= self.question.anywhere:
            for count in range(1, len(self.cells) + 1):
                if top(portions.caps, count) >= portions.cpus and top(portions.reach, count) >= portions.need:
                    return count
        return len(self.cells) + 1

    def best(self, count: int) -> list[Taken] | None:
        """Return the best answer over exactly ``count`` cells, or None if no such set serves."""
        if not self.fewest <= count <= len(self.cells):
            return None
        portions = self.portions
        if self.like is None:
            # The profiles know neither devices nor memory in common, so with these no cells are alike.
            known = self.far is None and not self.question.lends
            self.like = alike(self._profiles(), peers_among(self.question.view, self.cells)) if known else []
        if self.far is not None and not self._have_devices(count, self.far):
            return None
        unary, base, spare = self._bounds(count)
        # Memory that is not on the chosen cells is no nearer than the shortest way from a cell to another node.
        ways = self.question.view.ways
        remote = REMOTE + (ways[0][0] if ways else 0) * FAR
        search = SetSearch(
            count=count,
            distances=portions.distances,
            weight=DISTANCE << self.bits,
            unary=unary,
            base=base,
            leaf=self._leaf,
            supplies=(
                *(self.far.supplies if self.far is not None else ()),
                Supply(portions.caps, portions.cpus, spare=spare),
                Supply(portions.reach, portions.need),
                Supply(portions.own, portions.need, remote << self.bits, lack=self._lack),
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
        most = min(count, self.portions.cpus) if self.question.dedicated else count
        if any(top(supply.amounts, most) < supply.wanted for supply in far.supplies):
            return False
        if most == count:
            return True
        if self.runs is None:
            size = len(self.cells)
            search = SetSearch(
                count=most, distances=self.portions.distances, weight=0, unary=[0] * size, base=0,
                leaf=lambda chosen, limit: None if far(mask_of(chosen)) is None else 0,
                supplies=far.supplies, floor=far, steps=self.steps,
            )
            with self.steps.keeping(0.5):
                self.runs = search.run() is not None or self.steps.over
        return self.runs

    def _profiles(self) -> list[object]:
        """Return values that are equal for cells that differ in their ids only.

        The costly profile of a cell is computed only if the known amounts of another cell are equal.
        """
        portions = self.portions
        seen = [*zip(portions.own, portions.reach, portions.caps, portions.full, strict=True)]
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
        size, portions, least = len(self.cells), self.portions, self.least
        caps, cpus = portions.caps, portions.cpus
        if not self.question.dedicated or top(caps, count - 1) >= cpus:
            self.givers.idle = True
            if self.far is not None or not self.question.dedicated or sorted(caps)[count - 1] < cpus:
                return [0] * size, (least - 1) << self.bits, None
            # Every set has a cell with enough CPUs for the whole request.
            self.by_one = True
            alone = min(portions.alone.values())
            return [cost << self.bits for cost in portions.idle], (least + alone - 1) << self.bits, None
        kept = top(caps, count) - cpus
        saved = 0
        for cost in portions.full:
            # With spread, the fields below CORES may be negative, but less than one CORE_LEFT in all.
            cores = (cost + CORE_LEFT) // CORES % (CACHES // CORES)
            saved = max(saved, cost - CACHES - max(1, cores - kept) * CORES)

        def spare(kept: int) -> int:
            if not kept:
                return saved << self.bits
            return max(0, saved + min(portions.bound(kept)[0])) << self.bits

        return [cost << self.bits for cost in portions.full], (least - saved - 1) << self.bits, spare

    def _leaf(self, chosen: Chosen, limit: int | None) -> int | None:
        """Return the cost of a set without its distances, or None if it cannot serve or reaches ``limit``."""
        portions, question, need = self.portions, self.question, self.portions.need
        if of(portions.caps, chosen) < portions.cpus or of(portions.reach, chosen) < need:
            return None
        if question.lends and question.reach_together([self.cells[c] for c in chosen]) < need:
            return None
        own, low_cells = of(portions.own, chosen), of(self.low, chosen)
        least: int | None = None
        enough = None if limit is None else (limit + low_cells >> self.bits) + 1
        drawn = portions.drawn(chosen, need - own)
        memory = question.memory_cost(own, need, drawn)
        if enough is not None and memory + self.least >= enough:
            return None
        if self.far is not None and self.ways is not None:
            # The container has no nearer devices than on all chosen cells.
            devices = self.far(mask_of(chosen))
            lowest = (memory + self.least << self.bits) - low_cells
            if devices is None or (limit is not None and lowest + devices >= limit):
                return None
            ways = self.ways.cheapest(chosen, drawn)
            return (memory << self.bits) + ways[0][0] - low_cells if ways else None
        if self.by_one:
            least = self.givers.cost_of_one(chosen, drawn, memory, enough)
            return None if least is None else (least << self.bits) - low_cells
        cost = memory + of(portions.idle, chosen) if self.givers.idle else memory
        for more, givers in self.givers.all(chosen, drawn):
            found = self.givers.cost(givers, cost + more, enough)
            if found is not None and (least is None or found < least):
                least = enough = found
        return None if least is None else (least << self.bits) - low_cells

    def _lack(self, chosen: Chosen, missing: int) -> int:
        """Return the cost of ``missing`` units of memory that the chosen cells lack."""
        need = self.portions.need
        return self.question.memory_cost(need - missing, need, self.portions.draw(chosen, missing)) << self.bits

    def _offers(self, chosen: Chosen) -> list[Offer]:
        """Return the offer of each chosen cell; the best of the givers keeps the CPUs that are not needed."""
        portions = self.portions
        drawn = portions.drawn(chosen, portions.need - of(portions.own, chosen))
        if self.ways is not None:
            ways = self.ways.cheapest(chosen, drawn)
        else:
            ways = [
                (more + portions.cost(last, portions.caps[last] - kept) - portions.full[last], amounts)
                for more, givers in self.givers.all(chosen, drawn, by_ids=True)
                for last, kept, amounts in self.givers.amounts(chosen, givers)
            ]
        least = min(ways)[0]
        _, width = id_bits(self.question.view)
        best: list[Offer] = []
        best_key = None
        for cost, amounts in ways:
            if cost > least:
                continue
            offers = [portions.offer(c, amount) for c, amount in zip(chosen, amounts, strict=True)]
            ids = mirrored(sum([offer.cpus for offer in offers]), width) if self.question.dedicated else 0
            # Among equals, the cells with the lower ids give all they can.
            key = -ids, [-amount for amount in amounts]
            if best_key is None or key < best_key:
                best, best_key = offers, key
        return best

    def _taken(self, chosen: Chosen) -> list[Taken]:
        return [Taken(self.cells[c], offer) for c, offer in zip(chosen, self._offers(chosen), strict=True)]
