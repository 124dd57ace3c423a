# SPDX-License-Identifier: Apache-2.0
"""Exact search for the best set of cells. Orders of cells are never tried.

The cost of a set is the distances between its cells, and the cost of the set inside its cells, which the caller tells
(``leaf``). The search decides cell by cell, lowest id first, whether the cell is in the set. It leaves a branch when a
lower bound shows that no set of the branch beats the best set so far. If cells are alike (equal in all that a request
can see, equally far from every other cell), only sets with the first of them are tried: the others would give the same
sets with higher ids.

The number of steps is limited, so that every search ends (``steps.py``). If the limit ends the search, the answer is
the best set seen so far: it serves the request, and it is the same at every call. Without devices, a search over up to
16 cells never reaches the limit.

Positions in this module count the cells of one search: 0 is the first cell given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from math import comb
from operator import add
from typing import Protocol

from zun.topology.search.steps import Steps
from zun.topology.view import CellView, HostView

FEW_SETS = 100
"""Up to so many sets, computing a bound for each is quicker than branching. Example: 4 of 8 cells are 70 sets."""

ALWAYS_EXACT = 16
"""Number of cells up to which a search without devices never runs out of steps."""

Chosen = tuple[int, ...]
"""Positions of the cells of a set, rising. Example: (0, 2)."""


@dataclass(frozen=True, slots=True)
class Supply:
    """An amount that the cells of a set must have together, for example MiB.

    With a ``price`` the set may lack some of it, and each missing unit costs the price.
    """

    amounts: Sequence[int]
    """Amount on each cell, by position."""
    wanted: int
    price: int | None = None
    lack: Callable[[Chosen, int], int] | None = None
    """Return the cost of a whole set that lacks so much, if that may be more than the price."""
    spare: Callable[[int], int] | None = None
    """Return a lower bound on the cost of a set that has so much more than is wanted."""


class Floor(Protocol):
    """Tells what more a set costs, for example for its devices."""

    @property
    def useful(self) -> Sequence[int]:
        """By position, how much it helps to have the position in a set."""

    def __call__(self, mask: int, /) -> int | None:
        """Return a lower bound on what ``leaf`` adds to the other bounds for every set inside a mask of positions.

        Return None if no such set serves.
        """


@dataclass(slots=True, kw_only=True)
class SetSearch:
    """Search for the best set of ``count`` positions out of ``len(unary)``."""

    count: int
    distances: tuple[tuple[int, ...], ...]
    """Distance there plus distance back, by position."""
    weight: int
    """Cost of one unit of distance."""
    unary: Sequence[int]
    """Lower bound on what each position adds to the cost of any set."""
    base: int
    """Lower bound on the cost of any set beside its distances and ``unary``."""
    leaf: Callable[[Chosen, int | None], int | None]
    """Return the cost of a whole set without its distances, or None if it cannot serve or reaches the limit."""
    supplies: Sequence[Supply] = ()
    alike: Sequence[int] = ()
    """By position, an earlier position that is alike, or -1."""
    steps: Steps = field(default_factory=Steps)
    leaf_steps: int = 0
    """Steps that one call of ``leaf`` counts for on a host of more than ``ALWAYS_EXACT`` cells."""
    floor: Floor | None = None
    quick: bool = False
    """Try only sets that are likely to serve."""
    few: int = FEW_SETS
    best: Chosen | None = None
    best_cost: int | None = None
    _far: list[list[int]] = field(init=False, default_factory=list)
    _alone: list[list[int]] = field(init=False, default_factory=list)
    _near: list[list[int]] = field(init=False, default_factory=list)
    _most: list[list[list[int]]] = field(init=False, default_factory=list)
    _least: list[list[int]] = field(init=False, default_factory=list)
    _even: int | None = field(init=False, default=None)
    _branch_steps: int = field(init=False, default=1)

    def run(self) -> Chosen | None:
        """Return the best set, or None if no set serves."""
        size = len(self.unary)
        if self.count > size:
            return None
        if self.count == size:
            self._finish(tuple(range(size)), self._spread(range(size)))
            return self.best
        if self.floor is not None and self.floor((1 << size) - 1) is None:
            return None
        if comb(size, self.count) <= self.few:
            self._try_all(size)
            return self.best
        if self.floor is not None and (useful := self._useful_set(self.floor, size)):
            self.try_first(useful)
        if self.quick or self.steps.over:
            self.steps.cut = True
            self.try_first(tuple(sorted(sorted(range(size), key=self.unary.__getitem__)[: self.count])))
            return self.best
        if size > ALWAYS_EXACT:
            self.steps.spend(size * size * (len(self.supplies) + 2) // 64)
        self._prepare(size)
        for start in self._greedy_sets():
            self.try_first(start)
        # The bounds of a branch look at every position.
        self._branch_steps = 1 if size <= ALWAYS_EXACT else 1 + size // 12
        self._decide(0, (), 0, [0] * size, [0] * len(self.supplies), (1 << size) - 1)
        return self.best

    def _useful_set(self, floor: Floor, size: int) -> Chosen | None:
        """Return a set for which ``floor`` serves, or None: leave out the least useful positions that it can spare."""
        left, mask = size, (1 << size) - 1
        for p in sorted(range(size), key=lambda p: (floor.useful[p], -self.unary[p], -p)):
            if left > self.count and floor(mask ^ 1 << p) is not None:
                left, mask = left - 1, mask ^ 1 << p
        return tuple([p for p in range(size) if mask >> p & 1]) if left == self.count else None

    def _try_all(self, size: int) -> None:
        """Compute a bound for every set, nearest sets first, and the cost only of sets whose bound can win."""
        # A supply of which the poorest set has enough rules out no set.
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
                if self.floor is not None and extra is not None:
                    least_more = self.floor(mask)
                    extra = None if least_more is None else extra + least_more
                if extra is not None:
                    bounds.append((self.base + sum([unary[p] for p in chosen]) + far + extra, chosen, spread))
            if not priced:
                self._finish_all(bounds)
                bounds = []
        self._finish_all(bounds)

    def _finish_all(self, bounds: list[tuple[int, Chosen, int]]) -> None:
        """Compute the costs of sets (bound, set, sum of distances), lowest bound first, until no bound can win."""
        for bound, chosen, spread in sorted(bounds):
            if self.best_cost is not None and bound >= self.best_cost:
                break
            self._finish(chosen, spread)

    def try_first(self, chosen: Chosen) -> None:
        """Take this set as the best so far if it serves. A good first set makes the bounds rule out more."""
        self._finish(chosen, self._spread(chosen))

    def _prepare(self, size: int) -> None:
        """Fill the tables for the bounds.

        ``_far`` is twice the cost of each distance. ``_near[p][n]`` is the sum of the n least distances from p.
        ``_least[p][n]`` is the sum of the n least unary costs from p on. ``_most`` is by supply: the sum of the n
        largest amounts from p on. ``_even`` is the one distance between all cells, or None if distances differ.
        """
        rows = [[*row[:p], *row[p + 1 :]] for p, row in enumerate(self.distances)]
        far = {distance for row in rows for distance in row}
        self._even = far.pop() if len(far) == 1 else None
        self._near = [_running_sums(sorted(row)) for row in rows]
        self._far = [[2 * self.weight * distance for distance in row] for row in self.distances]
        self._alone = [[] for _ in range(self.count + 1)]
        self._least = [_running_sums(sorted(self.unary[p:])) for p in range(size)]
        self._most = [
            [_running_sums(sorted(supply.amounts[p:], reverse=True)) for p in range(size)]
            for supply in self.supplies
        ]

    def _spread(self, cells: Sequence[int]) -> int:
        """Return the sum of the distances between every two of these positions."""
        return sum(self.distances[a][b] for i, a in enumerate(cells) for b in cells[i + 1 :])

    def _greedy_sets(self) -> list[Chosen]:
        """Return sets that are likely to be good: from each start, always add the position that costs least."""
        size, weight, unary = len(self.unary), self.weight, self.unary
        starts = sorted(range(size), key=lambda p: unary[p] + self._near[p][self.count - 1] * weight)
        # If the steps can run out, more starts are worth their time. They know nothing of devices.
        starts = starts[:2] if size <= ALWAYS_EXACT or self.floor is not None else starts
        found = []
        for number, start in enumerate(starts):
            if number > 1 and not self.steps.spend(self.count * size // 4):
                break
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
        """Compute the cost of a whole set and keep the set if it is the best so far."""
        far = spread * self.weight
        limit = None if self.best_cost is None else self.best_cost - far
        cost = self.leaf(chosen, limit)
        if len(self.unary) > ALWAYS_EXACT:
            self.steps.spend(self.leaf_steps)
        if cost is not None and (limit is None or cost < limit):
            self.best, self.best_cost = chosen, cost + far

    def _decide(
        self, position: int, chosen: Chosen, twice: int, links: Sequence[int], had: list[int], inside: int
    ) -> None:
        """Try every set of ``chosen`` and further positions from ``position`` on; all these positions are ``inside``.

        ``twice`` is twice the unary costs and distances of ``chosen``. ``links`` is by position twice the cost of its
        distances to ``chosen``. ``had`` are the supplies of ``chosen``.
        """
        if not self.steps.spend(self._branch_steps):
            return
        more = self.count - len(chosen)
        if more == 0:
            self._finish(chosen, self._spread(chosen))
            return
        if len(self.unary) - position < more:
            return
        extra = self._extra(position, had, more)
        floor = 0 if self.floor is None or extra is None else self.floor(inside)
        if extra is None or floor is None or self._hopeless(position, twice + 2 * (extra + floor), links, more):
            return
        like = self.alike[position] if self.alike else -1
        if like < 0 or like in chosen:
            self._decide(
                position + 1,
                (*chosen, position),
                twice + 2 * self.unary[position] + links[position],
                [*map(add, links, self._far[position])],
                [sofar + supply.amounts[position] for sofar, supply in zip(had, self.supplies, strict=True)],
                inside,
            )
        self._decide(position + 1, chosen, twice, links, had, inside ^ 1 << position)

    def _extra(self, position: int, had: list[int], more: int) -> int | None:
        """Return a lower bound on the cost of what each choice of ``more`` positions lacks, or None if none serves."""
        extra = 0
        for supply, sofar, most in zip(self.supplies, had, self._most, strict=True):
            missing = supply.wanted - sofar - most[position][more]
            if missing > 0:
                if supply.price is None:
                    return None
                extra += missing * supply.price
        return extra

    def _hopeless(self, position: int, twice: int, links: Sequence[int], more: int) -> bool:
        """Return whether no choice of ``more`` positions from ``position`` on can beat the best set.

        ``twice`` is twice a lower bound on the rest of the cost.
        """
        if self.best_cost is None:
            return False
        best, twice = 2 * self.best_cost - 1, twice + 2 * self.base
        if self._even is not None:
            pairs = more * (self.count - more) + more * (more - 1) // 2
            return twice + 2 * (self._least[position][more] + pairs * self._even * self.weight) >= best
        # A pair of new positions is counted from both ends, so every other amount is doubled as well.
        alone = self._alone[more]
        if not alone:
            alone += [
                2 * unary + near[more - 1] * self.weight for unary, near in zip(self.unary, self._near, strict=True)
            ]
        adds = sorted(map(add, alone[position:], links[position:]))
        return bool(twice + sum(adds[:more]) >= best)


def mask_of(chosen: Sequence[int]) -> int:
    """Return the mask of these positions: 0b101 for (0, 2)."""
    return sum([1 << position for position in chosen])


def _lacking(supplies: Sequence[Supply], chosen: Chosen) -> int | None:
    """Return a lower bound on the cost of what the set lacks or has to spare, or None if it can never serve."""
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
    """Return every set of ``count`` positions, as (mask, positions), by the sum of its distances, least first.

    Example: two of three positions, of which 1 and 2 are nearest: ``((24, ((0b110, (1, 2)),)), ...)``.
    """
    found: dict[int, list[tuple[int, Chosen]]] = {}
    for chosen in combinations(range(len(distances)), count):
        spread = sum(distances[a][b] for a, b in combinations(chosen, 2))
        found.setdefault(spread, []).append((sum(1 << p for p in chosen), chosen))
    return tuple((spread, tuple(sets)) for spread, sets in sorted(found.items()))


def _running_sums(amounts: Sequence[int]) -> list[int]:
    """Return the sums of the first 0, 1, 2, ... amounts. Example: [0, 3, 7] for [3, 4]."""
    sums = [0]
    for amount in amounts:
        sums.append(sums[-1] + amount)
    return sums


def alike(profiles: Sequence[object], peers: Sequence[int]) -> list[int]:
    """Return for each position the last earlier one that is alike, or -1.

    Two positions are alike if their profiles are equal and they are equally far from every other position. ``peers``
    is by position a mask of the earlier positions that are equally far.
    """
    found = [-1] * len(profiles)
    for b, mask in enumerate(peers):
        for a in range(b - 1, -1, -1):
            if mask >> a & 1 and profiles[a] == profiles[b]:
                found[b] = a
                break
    return found


def peers_among(view: HostView, cells: Sequence[CellView]) -> Sequence[int]:
    """Return ``HostView.peers`` for a part of the cells: masks of positions in ``cells``."""
    if len(cells) == len(view.cells):
        return view.peers
    return [
        sum([1 << position for position, other in enumerate(cells) if view.peers[cell.index] >> other.index & 1])
        for cell in cells
    ]


def distances_among(view: HostView, cells: Sequence[CellView]) -> tuple[tuple[int, ...], ...]:
    """Return the distances (there plus back) between some cells, by position in ``cells``."""
    if len(cells) == len(view.cells):
        return view.distances
    positions = [cell.index for cell in cells]
    return tuple([tuple([row[b] for b in positions]) for row in [view.distances[a] for a in positions]])
