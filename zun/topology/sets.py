# SPDX-License-Identifier: Apache-2.0
"""Which cells: exact search over sets of cells, never over their orders.

A set costs its pairwise distances plus what the caller adds. The search decides cell by cell, lowest first,
whether it is in, and leaves a branch as soon as a lower bound says that nothing below can beat the best set
known. Of cells that are alike (equal in all a request can see, equally far from every other cell) only the
first few are tried: the others make the same sets with higher ids.

The number of steps is limited, so that no host takes for ever. Sixteen cells cannot use the steps up, whatever
they look like: up to there the best set is found, always. Beyond, it is found unless the steps run out, and then
the best set seen is taken: still a set that serves, and the same one every time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from math import comb

from zun.topology.view import CellView, HostView

STEPS = 50_000
"""Every way to choose 8 of 16 cells takes 48,619."""

FEW_SETS = 100
"""Up to here it is quicker to look at every set than to rule some out: every way to choose from 8 cells is 70."""

ALWAYS_EXACT = 16
"""Number of cells up to which the steps suffice for anything."""

Chosen = tuple[int, ...]
"""Positions, rising."""


@dataclass(frozen=True, slots=True)
class Supply:
    """Something of which a set must have ``wanted`` together; with a ``price`` it may lack some, at so much a unit."""

    amounts: Sequence[int]
    wanted: int
    price: int | None = None
    lack: Callable[[Chosen, int], int] | None = None
    """What it costs a whole set to lack so much, where that is more than the price."""
    spare: Callable[[int], int] | None = None
    """What it costs at least to have so much more."""


@dataclass(slots=True)
class SetSearch:
    """The best set of ``count`` positions out of ``len(unary)``."""

    count: int
    distances: tuple[tuple[int, ...], ...]
    """There and back, by position."""
    weight: int
    """What one unit of distance costs."""
    unary: Sequence[int]
    """Least cost a position brings into any set."""
    base: int
    """Least cost of any set, distances and ``unary`` apart."""
    leaf: Callable[[Chosen, int | None], int | None]
    """Cost of a whole set without its distances, None when it does not serve or costs more than the limit."""
    supplies: Sequence[Supply] = ()
    alike: Sequence[int] = ()
    """Position of an earlier one that is like this one, or -1."""
    steps: int = STEPS
    """How many may still be taken; negative when the search was broken off."""
    leaf_steps: int = 0
    """How many more a whole set counts for, where its cost is not quickly told."""
    few: int = FEW_SETS
    best: Chosen | None = None
    best_cost: int | None = None
    _near: list[list[int]] = field(default_factory=list)
    _most: list[list[list[int]]] = field(default_factory=list)
    _least: list[list[int]] = field(default_factory=list)
    _even: int | None = None

    def run(self) -> Chosen | None:
        size = len(self.unary)
        if self.count > size:
            return None
        if self.count == size:
            self._finish(tuple(range(size)), self._spread(range(size)))
            return self.best
        if comb(size, self.count) <= self.few:
            self._try_all(size)
            return self.best
        self._prepare(size)
        for start in self._greedy_sets():
            self._finish(start, self._spread(start))
        self._decide(0, (), 0, 0, [0] * size, [0] * len(self.supplies))
        return self.best

    def _try_all(self, size: int) -> None:
        """The same for few sets: all of them, the nearest first and of these in the order of their bounds."""
        # What every set has enough of is nothing to look at.
        supplies = [
            each for each in self.supplies if each.spare or sum(sorted(each.amounts)[: self.count]) < each.wanted
        ]
        like = [(1 << p, 1 << other) for p, other in enumerate(self.alike) if other >= 0]
        unary, least = self.unary, self.base + sum(sorted(self.unary)[: self.count])
        priced = any(each.price is not None for each in supplies)
        bounds: list[tuple[int, Chosen, int]] = []
        for spread, sets in _by_distance(self.distances, self.count):
            far = spread * self.weight
            if self.best_cost is not None and least + far >= self.best_cost:
                break
            for mask, chosen in sets:
                if like and any(mask & one and not mask & other for one, other in like):
                    continue
                extra = _lacking(supplies, chosen) if supplies else 0
                if extra is not None:
                    bounds.append((self.base + sum([unary[p] for p in chosen]) + far + extra, chosen, spread))
            if not priced:
                self._finish_all(bounds)
                bounds = []
        self._finish_all(bounds)

    def _finish_all(self, bounds: list[tuple[int, Chosen, int]]) -> None:
        for bound, chosen, spread in sorted(bounds):
            if self.best_cost is not None and bound >= self.best_cost:
                break
            self._finish(chosen, spread)

    def try_first(self, chosen: Chosen) -> None:
        """Start from a set that is likely to be good."""
        self._finish(chosen, self._spread(chosen))

    def _prepare(self, size: int) -> None:
        """Tables for the bounds: least distances from each position, largest and smallest sums from each on."""
        rows = [[*row[:p], *row[p + 1 :]] for p, row in enumerate(self.distances)]
        far = {distance for row in rows for distance in row}
        self._even = far.pop() if len(far) == 1 else None
        self._near = [_running_sums(sorted(row)) for row in rows]
        self._least = [_running_sums(sorted(self.unary[p:])) for p in range(size)]
        self._most = [
            [_running_sums(sorted(supply.amounts[p:], reverse=True)) for p in range(size)]
            for supply in self.supplies
        ]

    def _spread(self, cells: Sequence[int]) -> int:
        return sum(self.distances[a][b] for i, a in enumerate(cells) for b in cells[i + 1 :])

    def _greedy_sets(self) -> list[Chosen]:
        """Good sets to begin with: from some starts, always the position that adds least."""
        size, weight, unary = len(self.unary), self.weight, self.unary
        starts = sorted(range(size), key=lambda p: unary[p] + self._near[p][self.count - 1] * weight)
        # Where the steps can run out, a good beginning is worth more.
        starts = starts[:2] if size <= ALWAYS_EXACT else starts
        found = []
        for start in starts:
            inside = [start]
            rest = [p for p in range(size) if p != start]
            links = list(self.distances[start])
            while len(inside) < self.count:
                new = min(rest, key=lambda p: links[p] * weight + unary[p])
                inside.append(new)
                rest.remove(new)
                links = [link + more for link, more in zip(links, self.distances[new], strict=True)]
            found.append(tuple(sorted(inside)))
        return found

    def _finish(self, chosen: Chosen, spread: int) -> None:
        far = spread * self.weight
        limit = None if self.best_cost is None else self.best_cost - far
        cost = self.leaf(chosen, limit)
        if len(self.unary) > ALWAYS_EXACT:
            self.steps -= self.leaf_steps
        if cost is not None and (limit is None or cost < limit):
            self.best, self.best_cost = chosen, cost + far

    def _decide(
        self, position: int, chosen: Chosen, paid: int, spread: int, links: list[int], had: list[int]
    ) -> None:
        """Try every set that begins with ``chosen`` and goes on from ``position``.

        ``paid``, ``spread`` and ``had`` are the costs, distances and supplies of ``chosen``; ``links`` is how
        far each position is from all of them together.
        """
        self.steps -= 1
        if self.steps < 0:
            return
        more = self.count - len(chosen)
        if more == 0:
            self._finish(chosen, spread)
            return
        if len(self.unary) - position < more or self._hopeless(position, paid, spread, links, had, more):
            return
        like = self.alike[position] if self.alike else -1
        if like < 0 or like in chosen:
            self._decide(
                position + 1,
                (*chosen, position),
                paid + self.unary[position],
                spread + links[position],
                [link + far for link, far in zip(links, self.distances[position], strict=True)],
                [sofar + supply.amounts[position] for sofar, supply in zip(had, self.supplies, strict=True)],
            )
        self._decide(position + 1, chosen, paid, spread, links, had)

    def _hopeless(
        self, position: int, paid: int, spread: int, links: list[int], had: list[int], more: int
    ) -> bool:
        """Whether no choice of ``more`` positions from here can serve, or none can beat the best."""
        extra = 0
        for supply, sofar, most in zip(self.supplies, had, self._most, strict=True):
            missing = supply.wanted - sofar - most[position][more]
            if missing > 0:
                if supply.price is None:
                    return True
                extra += missing * supply.price
        if self.best_cost is None:
            return False
        bound = self.base + extra + paid + spread * self.weight
        if self._even is not None:
            pairs = more * (self.count - more) + more * (more - 1) // 2
            return bound + self._least[position][more] + pairs * self._even * self.weight >= self.best_cost
        # Every pair among the new positions is counted from both its ends, so everything is doubled.
        weight, near, unary = self.weight, self._near, self.unary
        adds = sorted(
            2 * unary[p] + (2 * links[p] + near[p][more - 1]) * weight for p in range(position, len(unary))
        )
        return bound - (-sum(adds[:more]) // 2) >= self.best_cost


def _lacking(supplies: Sequence[Supply], chosen: Chosen) -> int | None:
    """What it costs at least that a set has not got all that is wanted, or more; None when that cannot be."""
    extra = 0
    for supply in supplies:
        amounts = supply.amounts
        missing = supply.wanted - sum([amounts[p] for p in chosen])
        if missing > 0:
            if supply.price is None:
                return None
            extra += missing * supply.price if supply.lack is None else supply.lack(chosen, missing)
        elif supply.spare is not None:
            extra += supply.spare(-missing)
    return extra


@lru_cache(maxsize=1024)
def _by_distance(
    distances: tuple[tuple[int, ...], ...], count: int
) -> tuple[tuple[int, tuple[tuple[int, Chosen], ...]], ...]:
    """Every set of so many positions by the distances in it, least first: as a mask, and as it is."""
    found: dict[int, list[tuple[int, Chosen]]] = {}
    for chosen in combinations(range(len(distances)), count):
        spread = sum(distances[a][b] for a, b in combinations(chosen, 2))
        found.setdefault(spread, []).append((sum(1 << p for p in chosen), chosen))
    return tuple((spread, tuple(sets)) for spread, sets in sorted(found.items()))


def _running_sums(amounts: Sequence[int]) -> list[int]:
    """Sums of the first 0, 1, 2, ... amounts."""
    sums = [0]
    for amount in amounts:
        sums.append(sums[-1] + amount)
    return sums


def alike(profiles: Sequence[object], peers: Sequence[int]) -> list[int]:
    """For each position the last earlier one with an equal profile that is equally far from all others, or -1.

    ``peers`` has a mask of the equally far earlier positions.
    """
    found = [-1] * len(profiles)
    for b, mask in enumerate(peers):
        for a in range(b - 1, -1, -1):
            if mask >> a & 1 and profiles[a] == profiles[b]:
                found[b] = a
                break
    return found


def peers_among(view: HostView, cells: Sequence[CellView]) -> Sequence[int]:
    """The peers of the view, by position in ``cells``."""
    if len(cells) == len(view.cells):
        return view.peers
    return [
        sum([1 << position for position, other in enumerate(cells) if view.peers[cell.index] >> other.index & 1])
        for cell in cells
    ]


def distances_among(view: HostView, cells: Sequence[CellView]) -> tuple[tuple[int, ...], ...]:
    """There and back, by position in ``cells``."""
    if len(cells) == len(view.cells):
        return view.distances
    positions = [cell.index for cell in cells]
    return tuple([tuple([row[b] for b in positions]) for row in [view.distances[a] for a in positions]])
