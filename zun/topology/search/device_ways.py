# SPDX-License-Identifier: Apache-2.0
"""The ways to take the CPUs of a request from some cells so that devices serve it.

Which cells give CPUs decides about devices, so every choice of givers is a way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from zun.topology.search.devices import Teller
from zun.topology.search.givers import Givers
from zun.topology.search.portions import Portions, of, top
from zun.topology.search.question import Drawn
from zun.topology.search.sets import Chosen, mask_of

Way = tuple[int, list[int]]
"""A way to take the CPUs of a set: its cost, with the id bits below it and without memory, and the amount of each cell.
"""


class DeviceWays:
    """The ways by set of cells. ``far`` tells the cost of the devices by the cells that the container runs on.

    A cost has ``bits`` for CPU ids below it.
    """

    def __init__(self, portions: Portions, givers: Givers, far: Teller, bits: int) -> None:
        self._portions, self._givers, self._far, self._bits = portions, givers, far, bits
        self._dedicated, self._steps = portions.question.dedicated, portions.question.steps
        self._cheapest: dict[Chosen, list[Way]] = {}

    def cheapest(self, chosen: Chosen, drawn: Drawn) -> list[Way]:
        """Return the cheapest ways to take the CPUs of ``chosen`` with which devices serve. They are remembered."""
        if chosen not in self._cheapest:
            with self._steps.keeping(0.875):
                ways = self._ways(chosen, drawn)
            least = min(ways)[0] if ways else 0
            self._cheapest[chosen] = [way for way in ways if way[0] == least]
        return self._cheapest[chosen]

    def _ways(self, chosen: Chosen, drawn: Drawn) -> list[Way]:
        """Return every way. Further cells give CPUs only if no devices serve without."""
        portions, givers = self._portions, self._givers
        caps, number = portions.caps, givers.number(chosen)
        least = portions.cpus if number == 1 else top([caps[c] for c in chosen], number)
        ways: list[Way] = []
        for some in self._choices(chosen, number):
            if of(caps, some) < least:
                continue
            for _, _, amounts in givers.amounts(chosen, some):
                ways += self._way(chosen, some if self._dedicated else chosen, drawn, amounts)
        while not ways and self._dedicated and number < min(len(chosen), portions.cpus):
            number += 1
            for some in self._choices(chosen, number):
                if of(caps, some) >= portions.cpus and min(map(caps.__getitem__, some)):
                    ways += self._way(chosen, some, drawn, givers.little(chosen, some))
        return ways

    def _choices(self, chosen: Chosen, number: int) -> Iterator[tuple[int, ...]]:
        """Yield the choices of so many givers that may have the devices, until the steps are used up."""
        supplies = self._far.supplies if self._dedicated else ()  # a shared container runs on all chosen cells
        if any(top([supply.amounts[c] for c in chosen], number) < supply.wanted for supply in supplies):
            return
        for givers in combinations(chosen, number):
            if not self._steps.spend(1):
                return
            if all(of(supply.amounts, givers) >= supply.wanted for supply in supplies):
                yield givers

    def _way(self, chosen: Chosen, running: Sequence[int], drawn: Drawn, amounts: list[int]) -> Iterator[Way]:
        """Yield the way with these amounts if devices serve the container on the cells ``running``."""
        far = self._far(mask_of(running))
        if far is None:
            return
        portions = self._portions
        cost = sum([portions.cost(c, amount) for c, amount in zip(chosen, amounts, strict=True)])
        if self._givers.idle and self._dedicated:
            cost += sum([portions.away_from(c, chosen, drawn) for c in running])
        yield (cost << self._bits) + far, amounts
