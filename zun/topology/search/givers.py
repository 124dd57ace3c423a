# SPDX-License-Identifier: Apache-2.0
"""Which of some chosen cells give the CPUs of a request, and how many each.

A *giver* is a chosen cell that gives CPUs. The CPUs that the givers can give beyond the request are *kept*; one giver
keeps them all. An *idle* cell gives memory only. A *full* cell gives every CPU it can.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zun.topology.search.portions import Portions, of
from zun.topology.search.question import Drawn
from zun.topology.search.sets import Chosen


class Givers:
    """The choices of givers. ``idle`` says whether a chosen cell may be idle; the search of a set size sets it."""

    def __init__(self, portions: Portions) -> None:
        self._portions = portions
        self.idle = False

    def all(self, chosen: Chosen, drawn: Drawn, by_ids: bool = False) -> list[tuple[int, Sequence[int]]]:
        """Return the possible givers, each as (extra cost of giving CPUs, cells).

        As few cells as possible give CPUs: any one that has enough, else the cells with the most CPUs. If some of
        several cells with equally many CPUs suffice, each of them is once the last giver. The other givers are the ones
        with the least extra cost, and of equal cost (with ``by_ids``) the lowest CPU ids.
        """
        portions = self._portions
        if not self.idle:
            return [(of(portions.full, chosen), chosen)]
        caps = portions.caps
        number, left = 0, portions.cpus
        for last in sorted([caps[c] for c in chosen], reverse=True):
            number += 1
            left -= last
            if left <= 0:
                break
        if number == 1:
            last = portions.cpus
        able = [c for c in chosen if caps[c] >= last]
        more = {c: portions.full[c] - portions.idle[c] for c in able}
        if portions.question.dedicated:  # a shared container runs on the pools of all chosen cells
            for c in able:
                more[c] += portions.away_from(c, chosen, drawn)
        if number == 1:
            return [(more[c], (c,)) for c in able]
        if len(able) == number:
            return [(sum(more.values()), able)]

        def rank(c: int) -> tuple[int, int]:
            cpus = portions.offer(c, last).cpus if by_ids else 0
            return more[c], cpus & -cpus

        certain, equals = [c for c in able if caps[c] > last], sorted([c for c in able if caps[c] == last], key=rank)
        rest = number - len(certain) - 1
        ways = [[*certain, *[other for other in equals if other != c][:rest], c] for c in equals]
        return [(sum([more[c] for c in givers]), givers) for givers in ways]

    def amounts(self, chosen: Chosen, givers: Sequence[int]) -> Iterator[tuple[int, int, list[int]]]:
        """Yield each giver that may keep CPUs, the number of CPUs that it keeps, and the amount of each chosen cell."""
        caps = self._portions.caps
        kept = of(caps, givers) - self._portions.cpus
        for last in givers if kept else givers[:1]:
            yield last, kept, [caps[c] - (kept if c == last else 0) if c in givers else 0 for c in chosen]

    def number(self, chosen: Chosen) -> int:
        """Return the number of cells that give CPUs: as few as possible."""
        if not self.idle:
            return len(chosen)
        left = self._portions.cpus
        for number, cap in enumerate(sorted([self._portions.caps[c] for c in chosen], reverse=True), 1):
            left -= cap
            if left <= 0:
                return number
        return len(chosen)

    def little(self, chosen: Chosen, givers: Sequence[int]) -> list[int]:
        """Return the amount of each chosen cell if each giver gives a CPU, and the largest ones the rest."""
        caps = self._portions.caps
        left, amounts = self._portions.cpus - len(givers), {}
        for c in sorted(givers, key=lambda c: (-caps[c], c)):
            amounts[c] = 1 + min(left, caps[c] - 1)
            left -= amounts[c] - 1
        return [amounts.get(c, 0) for c in chosen]

    def cost(self, givers: Sequence[int], cost: int, enough: int | None) -> int | None:
        """Return ``cost`` changed by the best giver keeping what is not needed, or None if it reaches ``enough``.

        Bounds become exact costs one by one, the lowest first, until the lowest of all is exact.
        """
        kept = of(self._portions.caps, givers) - self._portions.cpus
        if not kept:
            return cost
        bounds, exact = self._portions.bound(kept)
        while True:
            c = min(givers, key=bounds.__getitem__)
            if enough is not None and cost + bounds[c] >= enough:
                return None
            if c in exact:
                return cost + bounds[c]
            self._portions.exact(c, kept)

    def cost_of_one(self, chosen: Chosen, drawn: Drawn, cost: int, enough: int | None) -> int | None:
        """Return ``cost`` plus the cost of all CPUs on the best single cell, or None if it reaches ``enough``."""
        portions = self._portions
        cost += of(portions.idle, chosen)
        alone, best = portions.alone, None
        for c in sorted([c for c in chosen if c in alone], key=alone.__getitem__):
            if enough is not None and cost + alone[c] >= enough:
                break
            found = cost + portions.cost(c, portions.cpus) - portions.idle[c] + portions.away_from(c, chosen, drawn)
            if enough is None or found < enough:
                best = enough = found
        return best
