# SPDX-License-Identifier: Apache-2.0
"""Which cells: exact search over sets of cells, never over their orders.

A set costs its pairwise distances plus what a caller adds. The search decides cell by cell, lowest first,
whether it is in, and leaves a branch as soon as a lower bound says that nothing below can beat the best set
known. Of cells that are alike (equal in all a request can see, equally far from every other cell) only the
first few are tried: the rest would be the same set with higher ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Distances = Sequence[Sequence[int]]
"""There and back, by position; 0 to itself counts for nothing."""


@dataclass(slots=True)
class SetSearch:
    """The best set of ``count`` out of ``len(unary)`` cells, as rising positions."""

    count: int
    distances: Distances
    weight: int
    """What one unit of distance costs."""
    unary: Sequence[int]
    """Least cost a cell brings into any set."""
    base: int
    """Least cost of any set, distances and ``unary`` apart."""
    leaf: Callable[[tuple[int, ...]], int | None]
    """Cost of a whole set without its distances; None when it does not serve."""
    promise: Callable[[int, int, int], int | None]
    """(mask of cells in, mask of undecided cells, how many more) -> least extra cost; None: hopeless."""
    alike: Sequence[int]
    """Position of an earlier cell that is like this one, or -1."""
    best: tuple[int, ...] | None = None
    best_cost: int | None = None
    _near: list[list[int]] = field(default_factory=list)

    def run(self) -> tuple[int, ...] | None:
        size = len(self.unary)
        if self.count > size:
            return None
        if self.count == size:
            self._finish(tuple(range(size)), self._spread(range(size)))
            return self.best
        self._near = [self._nearest_sums(position) for position in range(size)]
        for start in self._greedy_sets():
            self._finish(start, self._spread(start))
        self._decide(0, (), 0, 0, [0] * size)
        return self.best

    def _spread(self, cells: Sequence[int]) -> int:
        return sum(self.distances[a][b] for i, a in enumerate(cells) for b in cells[i + 1 :])

    def _nearest_sums(self, position: int) -> list[int]:
        """How little distance one cell adds with 0, 1, 2, ... others."""
        row = sorted(d for other, d in enumerate(self.distances[position]) if other != position)
        sums = [0]
        for distance in row:
            sums.append(sums[-1] + distance)
        return sums

    def _greedy_sets(self) -> list[tuple[int, ...]]:
        """A good set to begin with: from the cheapest start, always the cell that adds least."""
        size = len(self.unary)
        starts = sorted(range(size), key=lambda c: self.unary[c] + self._near[c][self.count - 1] * self.weight)[:2]
        found = []
        for start in starts:
            cells = [start]
            links = list(self.distances[start])
            while len(cells) < self.count:
                rest = [c for c in range(size) if c not in cells]
                new = min(rest, key=lambda c: (links[c] * self.weight + self.unary[c], c))
                cells.append(new)
                links = [link + more for link, more in zip(links, self.distances[new], strict=True)]
            found.append(tuple(sorted(cells)))
        return found

    def _finish(self, cells: tuple[int, ...], spread: int) -> None:
        cost = self.leaf(cells)
        if cost is not None and (self.best_cost is None or cost + spread * self.weight < self.best_cost):
            self.best, self.best_cost = cells, cost + spread * self.weight

    def _decide(self, position: int, chosen: tuple[int, ...], paid: int, spread: int, links: list[int]) -> None:
        """Try every set that begins with ``chosen`` and goes on from ``position``."""
        more = self.count - len(chosen)
        if more == 0:
            self._finish(chosen, spread)
            return
        if len(self.unary) - position < more or self._hopeless(position, chosen, paid, spread, links, more):
            return
        if self.alike[position] < 0 or self.alike[position] in chosen:
            grown = [link + far for link, far in zip(links, self.distances[position], strict=True)]
            self._decide(
                position + 1,
                (*chosen, position),
                paid + self.unary[position],
                spread + links[position],
                grown,
            )
        self._decide(position + 1, chosen, paid, spread, links)

    def _hopeless(
        self, position: int, chosen: tuple[int, ...], paid: int, spread: int, links: list[int], more: int
    ) -> bool:
        size = len(self.unary)
        extra = self.promise(sum(1 << c for c in chosen), (1 << size) - (1 << position), more)
        if extra is None:
            return True
        if self.best_cost is None:
            return False
        # Every pair among the new cells is counted from both its ends, so everything is doubled here.
        weight, near = self.weight, self._near
        adds = sorted(
            2 * self.unary[c] + (2 * links[c] + near[c][more - 1]) * weight for c in range(position, size)
        )
        return self.base + extra + paid + spread * weight - (-sum(adds[:more]) // 2) >= self.best_cost


def alike_cells(profiles: Sequence[object], distances: Distances) -> list[int]:
    """For each cell the last earlier one of equal profile that is equally far from all others, or -1."""
    size = len(profiles)
    alike = [-1] * size
    for b in range(size):
        for a in range(b - 1, -1, -1):
            if profiles[a] == profiles[b] and all(
                distances[a][c] == distances[b][c] for c in range(size) if c not in (a, b)
            ):
                alike[b] = a
                break
    return alike


def cheapest_matching(costs: Sequence[Sequence[int | None]]) -> tuple[int, list[int]] | None:
    """Give every row a column of its own at the least total cost: (cost, column by row).

    ``None`` marks pairs that do not go together; the answer is None when some row is left without.
    Shortest augmenting paths with potentials (Jonker and Volgenant): cubic, and integers stay exact.
    """
    rows, columns = len(costs), len(costs[0])
    if rows > columns:
        return None
    row_price, column_price = [0] * rows, [0] * columns
    row_of = [-1] * columns
    for start in range(rows):
        path = _augmenting_path(costs, start, row_of, row_price, column_price)
        if path is None:
            return None
        column, previous = path
        while True:
            row, before = previous[column]
            row_of[column] = row
            if before < 0:
                break
            column = before
    column_of = [0] * rows
    for column, row in enumerate(row_of):
        if row >= 0:
            column_of[row] = column
    total = 0
    for row, column in enumerate(column_of):
        cost = costs[row][column]
        assert cost is not None
        total += cost
    return total, column_of


def _augmenting_path(
    costs: Sequence[Sequence[int | None]],
    start: int,
    row_of: list[int],
    row_price: list[int],
    column_price: list[int],
) -> tuple[int, list[tuple[int, int]]] | None:
    """The cheapest way from a row without a column to a column without a row; prices are brought up to date."""
    columns = len(row_of)
    cheapest: list[int | None] = [None] * columns
    previous = [(-1, -1)] * columns
    done = [False] * columns
    row, column, reached = start, -1, 0
    tree = [start]
    visited: list[int] = []
    while True:
        for other in range(columns):
            cost = costs[row][other]
            if done[other] or cost is None:
                continue
            length = reached + cost - row_price[row] - column_price[other]
            known = cheapest[other]
            if known is None or length < known:
                cheapest[other], previous[other] = length, (row, column)
        next_column, next_length = -1, 0
        for other in range(columns):
            length_to = cheapest[other]
            if not done[other] and length_to is not None and (next_column < 0 or length_to < next_length):
                next_column, next_length = other, length_to
        if next_column < 0:
            return None
        column, reached = next_column, next_length
        done[column] = True
        if row_of[column] < 0:
            break
        visited.append(column)
        row = row_of[column]
        tree.append(row)
    row_price[start] += reached
    for used in visited:
        length_used = cheapest[used]
        assert length_used is not None
        row_price[row_of[used]] += reached - length_used
        column_price[used] -= reached - length_used
    return column, previous
