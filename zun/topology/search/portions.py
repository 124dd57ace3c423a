# SPDX-License-Identifier: Apache-2.0
"""The CPUs and memory that each cell of a host can give to a request over several cells, and the costs.

Why the costs are computed late: most questions to a host end before any of them is needed, and each costs a look at the
cores of a cell. Example: a request of 40 CPUs, eight cells with 16 free CPUs each. ``caps`` alone says that three cells
are the fewest. Only then ``full`` asks for the cost of all 16 CPUs of each cell. ``idle`` is never asked for, because
no set of three has a cell to spare. Eight CPUs are kept by one of the three cells. ``bound`` has a lower bound of what
that costs for each cell, and ``exact`` replaces it only for the cell with the lowest one, mostly one or two of eight.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from zun.topology.request import MICRO
from zun.topology.search.cost import AWAY
from zun.topology.search.question import CpuTeller, Drawn, Offer, Question
from zun.topology.search.sets import Chosen, distances_among


class Portions:
    """The amounts and costs of the cells of a host that have any CPUs for the request. Cells have positions here.

    ``cpus`` is what the request needs: a number of CPUs, or of millionths of shared ones. ``need`` is its memory.
    """

    def __init__(self, question: Question) -> None:
        request = question.request
        self.question = question
        self.cpus = int(request.cpus) if question.dedicated else round(request.cpus * MICRO)
        self.need = question.need(request.memory_mib)
        self.cells = cells = [cell for cell in question.view.cells if question.capacity(cell) >= 0]
        self.caps = [question.capacity(cell) for cell in cells]
        """The CPUs that each cell can give."""
        self.own = [question.room(cell.id) for cell in cells]
        """The memory that each cell has."""
        self.reach = [question.reach(cell) for cell in cells] if question.strict else [self.need] * len(cells)
        """The memory that each cell can have, with that of nodes that may lend it."""
        self._drawn: dict[Chosen, Drawn] = {}
        self._bounds: dict[int, tuple[list[int], set[int]]] = {}

    @cached_property
    def distances(self) -> tuple[tuple[int, ...], ...]:
        return distances_among(self.question.view, self.cells)

    @cached_property
    def _tellers(self) -> list[tuple[CpuTeller, CpuTeller]]:
        return [self.question.teller(cell) for cell in self.cells]

    @cached_property
    def full(self) -> list[int]:
        """The cost of each cell if it gives every CPU it can."""
        return [self.cost(c, cap) for c, cap in enumerate(self.caps)]

    @cached_property
    def idle(self) -> list[int]:
        """The cost of each cell if it gives memory only."""
        return [self.cost(c, 0) for c in range(len(self.cells))]

    @cached_property
    def alone(self) -> dict[int, int]:
        """Lower bounds on the extra cost of each cell that has enough CPUs, if it gives them all.

        Its memory is then the nearest of the host.
        """
        return {c: self._alone(c) for c, cap in enumerate(self.caps) if cap >= self.cpus}

    def _alone(self, c: int) -> int:
        far = sum([units * distance for distance, _, units in self.question.nearest(self.cells[c], self.need)])
        return self.cost(c, self.cpus) - self.idle[c] + far * AWAY

    def offer(self, c: int, amount: int) -> Offer:
        """Return the best ``amount`` of CPUs of cell ``c``, at most its capacity."""
        offer = self.question.cpu_offer(self.cells[c], amount)
        assert offer is not None, "a cell can give any amount up to its capacity"
        return offer

    def cost(self, c: int, amount: int) -> int:
        """Return the cost of ``offer``."""
        cost = self._tellers[c][0](amount) if amount else self.question.cpu_cost(self.cells[c], 0)
        assert cost is not None, "a cell can give any amount up to its capacity"
        return cost

    def bound(self, kept: int) -> tuple[list[int], set[int]]:
        """Return by cell a lower bound on the extra cost of keeping ``kept`` CPUs, and the cells whose bound is exact.

        Keeping CPUs may save, so the extra cost may be negative.
        """
        if kept not in self._bounds:
            bounds = [
                (least(cap - kept) or 0) - full if cap >= kept else 0
                for (_, least), cap, full in zip(self._tellers, self.caps, self.full, strict=True)
            ]
            self._bounds[kept] = bounds, set()
        return self._bounds[kept]

    def exact(self, c: int, kept: int) -> None:
        """Replace the bound of cell ``c`` by the exact extra cost."""
        bounds, exact = self._bounds[kept]
        bounds[c] = self.cost(c, self.caps[c] - kept) - self.full[c]
        exact.add(c)

    def drawn(self, chosen: Chosen, missing: int) -> Drawn:
        """Return where ``missing`` units of memory come from that the chosen cells lack."""
        if missing <= 0:
            return ()
        return self._drawn.get(chosen) or self.question.drawn([self.cells[c] for c in chosen], missing)

    def draw(self, chosen: Chosen, missing: int) -> Drawn:
        """Return and remember what ``drawn`` returns."""
        found = self._drawn[chosen] = self.drawn(chosen, missing)
        return found

    def away_from(self, c: int, chosen: Chosen, drawn: Drawn) -> int:
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


def of(amounts: Sequence[int], chosen: Sequence[int]) -> int:
    """Return the sum of the amounts at these positions."""
    return sum(map(amounts.__getitem__, chosen))


def top(amounts: Sequence[int], count: int) -> int:
    """Return the sum of the ``count`` largest amounts."""
    return sum(sorted(amounts, reverse=True)[:count])
