# SPDX-License-Identifier: Apache-2.0
"""CPUs and memory over the fewest cells when no shape is asked for, or the shape did not fit.

All cells of the answer but one give every CPU they can, so that one cell at most is left in pieces. Where memory
decides how many cells are needed, the CPUs come from as few of them as possible: from any one that has enough, else
from those with most CPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zun.topology.cost import AWAY, CACHES, CORE_LEFT, CORES, DISTANCE, PACK, REMOTE, mirrored
from zun.topology.question import Drawn, Offer, Question, Taken, Teller
from zun.topology.request import MICRO
from zun.topology.sets import STEPS, Chosen, SetSearch, Supply, alike, distances_among, peers_among
from zun.topology.view import id_bits, low_ids


class Cover:
    """Search for the best cells that have the CPUs and the memory of a request together."""

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
        self.tellers: list[tuple[Teller, Teller]] = []
        self.full: list[int] = []
        self.idle: list[int] = []
        self.alone: dict[int, int] = {}
        # To spread makes the rules below CORE_LEFT negative; together they are less than one unit of it.
        self.least = 0 if question.view.weights is PACK else -2 * CORE_LEFT
        self.distances: tuple[tuple[int, ...], ...] = ()
        self.like: list[int] = []
        self.drawn: dict[Chosen, Drawn] = {}
        self.spared: dict[int, tuple[list[int], set[int]]] = {}
        self.steps = STEPS

    def _fewest(self) -> int:
        """No set smaller than this can do, whichever cells it has; more than there are when none can."""
        if self.question.strict or self.need <= self.question.anywhere:
            for count in range(1, len(self.cells) + 1):
                if _top(self.caps, count) >= self.cpus and _top(self.reach, count) >= self.need:
                    return count
        return len(self.cells) + 1

    def best(self, count: int) -> list[Taken] | None:
        """The best answer over ``count`` cells, None when it takes more."""
        if not self.fewest <= count <= len(self.cells):
            return None
        if not self.full:
            self._look()
        unary, base, spare = self._bounds(count)
        search = SetSearch(
            count=count,
            distances=self.distances,
            weight=DISTANCE << self.bits,
            unary=unary,
            base=base,
            leaf=self._leaf,
            supplies=(
                Supply(self.caps, self.cpus, spare=spare),
                Supply(self.reach, self.need),
                Supply(self.own, self.need, REMOTE << self.bits, lack=self._lack),
            ),
            alike=self.like,
            steps=self.steps,
        )
        chosen = search.run()
        self.steps = max(0, search.steps)
        return None if chosen is None else self._taken(chosen)

    def _look(self) -> None:
        """What a search must know about the cells, however many it takes of them."""
        view = self.question.view
        self.distances = distances_among(view, self.cells)
        self.tellers = [self.question.teller(cell) for cell in self.cells]
        self.full = [self._cost(c, cap) for c, cap in enumerate(self.caps)]
        self.like = alike(self._profiles(), peers_among(view, self.cells))

    def _profiles(self) -> list[object]:
        """What is equal for cells that differ in their ids only; most differ in what is known already."""
        seen = [*zip(self.own, self.reach, self.caps, self.full, strict=True)]
        return [
            (each, self.question.profile(cell) if seen.count(each) > 1 else None)
            for cell, each in zip(self.cells, seen, strict=True)
        ]

    def _bounds(self, count: int) -> tuple[list[int], int, Callable[[int], int] | None]:
        """Least cost of each cell and of any set, with the ids that lower a key taken off.

        Where every cell must give CPUs, all of them give all they can but one, and that one saves at most one
        core for each CPU it keeps. How much of that is not saved by the CPUs that a set can keep is told as well.
        """
        size = len(self.cells)
        least = self.least
        if not self.question.dedicated or _top(self.caps, count - 1) >= self.cpus:
            self.idle = self.idle or [self._cost(c, 0) for c in range(size)]
            if not self.question.dedicated or sorted(self.caps)[count - 1] < self.cpus:
                return [0] * size, (least - 1) << self.bits, None
            # In every set there is a cell that has enough CPUs alone.
            self.alone = self.alone or {c: self._alone(c) for c in range(size) if self.caps[c] >= self.cpus}
            return [cost << self.bits for cost in self.idle], (least + min(self.alone.values()) - 1) << self.bits, None
        kept = _top(self.caps, count) - self.cpus
        saved = 0
        for cost in self.full:
            # What is less than a core may be negative, to spread; it is never as much as CORE_LEFT.
            cores = (cost + CORE_LEFT) // CORES % (CACHES // CORES)
            saved = max(saved, cost - CACHES - max(1, cores - kept) * CORES)

        def spare(kept: int) -> int:
            if not kept:
                return saved << self.bits
            return max(0, saved + min((self.spared.get(kept) or self._bound(kept))[0])) << self.bits

        return [cost << self.bits for cost in self.full], (least - saved - 1) << self.bits, spare

    def _leaf(self, chosen: Chosen, limit: int | None) -> int | None:
        if _of(self.caps, chosen) < self.cpus or _of(self.reach, chosen) < self.need:
            return None
        own, low_cells = _of(self.own, chosen), _of(self.low, chosen)
        least: int | None = None
        enough = None if limit is None else (limit + low_cells >> self.bits) + 1
        drawn = self._drawn(chosen, self.need - own)
        memory = self.question.memory_cost(own, self.need, drawn)
        if enough is not None and memory + self.least >= enough:
            return None
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
        """What it costs that so much of the memory is not on the ``chosen``."""
        drawn = self.drawn[chosen] = self._drawn(chosen, missing)
        return self.question.memory_cost(self.need - missing, self.need, drawn) << self.bits

    def _drawn(self, chosen: Chosen, missing: int) -> Drawn:
        """Where so much memory comes from that is not on the ``chosen``."""
        if missing <= 0:
            return ()
        return self.drawn.get(chosen) or self.question.drawn([self.cells[c] for c in chosen], missing)

    def _given(self, givers: Sequence[int], cost: int, enough: int | None) -> int | None:
        """``cost`` if the ``givers`` need not give all they can, None when it is certain to be ``enough`` or more."""
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
        """How much it costs more, at least, if this cell gives all CPUs: no memory is nearer than the nearest."""
        far = sum([units * distance for distance, _, units in self.question.nearest(self.cells[c], self.need)])
        return self._cost(c, self.cpus) - self.idle[c] + far * AWAY

    def _given_by_one(self, chosen: Chosen, drawn: Drawn, cost: int, enough: int | None) -> int | None:
        """``cost`` and that of the CPUs, all of one cell, None when it is certain to be ``enough`` or more."""
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
        """What it costs if a cell gives CPUs that it is so far from the memory of ``chosen``, and what is ``drawn``."""
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
        """How much a cell that keeps so many CPUs costs more (negative: less) at least, and for which that is exact."""
        bounds = [
            (least(cap - kept) or 0) - full if cap >= kept else 0
            for (_, least), cap, full in zip(self.tellers, self.caps, self.full, strict=True)
        ]
        self.spared[kept] = bounds, set()
        return self.spared[kept]

    def _givers(self, chosen: Chosen, drawn: Drawn, by_ids: bool = False) -> list[tuple[int, Sequence[int]]]:
        """Those of ``chosen`` that CPUs are taken from, after what these cost more than if they gave none.

        The fewest: each that alone has enough, else those with the most CPUs. Of equals that not all are needed, each
        is once the one that may keep some, beside those that cost least, and of these (``by_ids``) have the lowest ids.
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
        if self.question.dedicated:  # a shared container runs on the pools of all of them
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
        """What each chosen cell gives, with the best of the givers keeping what is not needed."""
        ways = []
        drawn = self._drawn(chosen, self.need - _of(self.own, chosen))
        for more, givers in self._givers(chosen, drawn, by_ids=True):
            kept = _of(self.caps, givers) - self.cpus
            for last in givers if kept else givers[:1]:
                amounts = [self.caps[c] - (kept if c == last else 0) if c in givers else 0 for c in chosen]
                ways.append((more + self._cost(last, self.caps[last] - kept) - self.full[last], amounts))
        least = min(ways)[0]
        _, width = id_bits(self.question.view)
        best: list[Offer] = []
        best_key = None
        for cost, amounts in ways:
            if cost > least:
                continue
            offers = [self._offer(c, amount) for c, amount in zip(chosen, amounts, strict=True)]
            ids = mirrored(sum([offer.cpus for offer in offers]), width) if self.question.dedicated else 0
            # Of equals the lower ids give all they can.
            key = -ids, [-amount for amount in amounts]
            if best_key is None or key < best_key:
                best, best_key = offers, key
        return best

    def _offer(self, c: int, amount: int) -> Offer:
        offer = self.question.cpu_offer(self.cells[c], amount)
        assert offer is not None, "a cell can give any amount up to its capacity"
        return offer

    def _cost(self, c: int, amount: int) -> int:
        cost = self.tellers[c][0](amount) if amount else self.question.cpu_cost(self.cells[c], 0)
        assert cost is not None, "a cell can give any amount up to its capacity"
        return cost

    def _taken(self, chosen: Chosen) -> list[Taken]:
        return [Taken(self.cells[c], offer) for c, offer in zip(chosen, self._offers(chosen), strict=True)]


def _of(amounts: Sequence[int], chosen: Sequence[int]) -> int:
    return sum(map(amounts.__getitem__, chosen))


def _top(amounts: Sequence[int], count: int) -> int:
    return sum(sorted(amounts, reverse=True)[:count])
