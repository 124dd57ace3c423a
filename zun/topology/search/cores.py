# SPDX-License-Identifier: Apache-2.0
"""The best CPUs of one cell under the thread policy and the isolation grade, exactly.

The rules, most important first: fewest L3 groups, fewest cores, fewest threads left over or withheld on these cores,
fewest CPUs left in these L3 groups (most with the strategy ``spread``), lowest ids.

The grade ``l3`` uses only L3 groups of which nobody holds a CPU, and keeps the rest of each group it uses. The grade
``node`` does the same with the whole cell.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from zun.topology.isolation import kept_by, may_keep
from zun.topology.masks import lower
from zun.topology.request import PlacementRequest
from zun.topology.search.budget import BudgetTables
from zun.topology.search.cost import CACHES, CORE_LEFT, CORES, PACK, Weights
from zun.topology.search.groups import Best, EvenGroups, groups_of, sorts_of
from zun.topology.search.threads import (
    Take,
    Units,
    doublings,
    every_row,
    kinds_of,
    threads_of,
    unit_size,
    units_of,
    with_some,
)
from zun.topology.view import CacheView, CpuView


class Rules(NamedTuple):
    """The conditions of a request inside one cell."""

    policy: str
    """The thread policy; ``whole`` is ``prefer`` on whole cores only, if the isolation grade asks for whole cores."""
    keep: str
    """The grade that keeps CPUs beside the cores: ``l3`` or ``node``, or "" if nothing is kept."""
    weights: Weights


def rules_of(request: PlacementRequest, weights: Weights = PACK) -> Rules:
    """Return the conditions that ``request`` sets inside each cell."""
    policy, isolation = request.thread_policy, request.isolation
    if isolation in ("thread", "isolated"):
        return Rules(policy, "", weights)
    keep = "" if isolation == "core" else isolation
    return Rules("whole" if policy == "prefer" else policy, keep, weights)


class Pick(NamedTuple):
    """The cost of a choice, the CPUs given and the CPUs withheld (masks)."""

    cost: int
    cpus: int
    withheld: int


_Picked = tuple[int, int, int]
"""A ``Pick`` whose withheld CPUs do not include those that isolation keeps beside the cores."""


Choice = tuple[int, int, Best]
"""One choice of L3 groups: its cost, the number of groups, and the sums that every equally good choice has."""


class CellStock:
    """The CPUs that one cell can give to one request, beside the CPUs in ``held`` (mask). Answers are remembered.

    ``budget`` is the largest number of CPUs, given or withheld, that may come out of the shared pool. Two ways of
    choosing serve every case. If all cores of the cell are alike, or every L3 group is needed, sums over L3 groups
    decide (``EvenGroups``). In the other cases, and if the budget rules out the choice that sums prefer, tables over
    counts decide (``BudgetTables``).
    """

    __slots__ = ("_able", "_budget", "_cache_left", "_capacity", "_cell", "_cell_left", "_choices", "_even", "_free",
                 "_groups", "_hard", "_held", "_keep", "_most_free", "_most_used", "_number", "_picks", "_policy",
                 "_profile", "_reach", "_rules", "_size", "_tables", "_threads")

    def __init__(self, cell: CpuView, held: int, rules: Rules, budget: int) -> None:
        self._cell, self._held, self._rules, self._budget = cell, held, rules, budget
        self._policy, self._keep, (self._cache_left, self._cell_left, _) = rules
        able = self._free = cell.dedicated & ~held
        self._number = able.bit_count()
        if rules.keep:
            able = _keepable(cell, held, rules.keep, budget)
        self._able = able
        usable = able if budget else _unpaid(cell, able, rules.policy)
        self._threads = threads = threads_of(cell, usable, rules.policy)
        self._size = unit_size(threads)
        if self._size == 0 and usable != able:
            self._size = None  # some of the free CPUs beside the pairs are pool CPUs, which cannot be taken
        self._groups = groups = groups_of(cell.cache_masks, able, threads)
        # The CPUs that the largest group, the two largest groups, ... can give together.
        sizes = groups.sizes
        self._reach = sizes if len(sizes) == 1 else list(accumulate(sorted(sizes, reverse=True)))
        self._most_used: int | None = None
        self._most_free: int | None = None
        self._hard = False
        if rules.keep == "l3" or (usable & cell.pool).bit_count() > budget:
            self._look_at_budget()
        self._even: EvenGroups | None = None
        self._tables: BudgetTables | None = None
        self._capacity: int | None = None
        self._profile: tuple[object, ...] | None = None
        self._choices: dict[int, Choice | None] = {}
        self._picks: dict[int, _Picked | None] = {}

    def _look_at_budget(self) -> None:
        """Turn the budget into a limit on the CPUs used, or on the free CPUs of the groups chosen.

        If neither limit says the same as the budget, the choice is hard: CPUs of the pool must be counted.
        """
        cell, able, pool, budget = self._cell, self._able, self._cell.pool, self._budget
        if self._keep == "l3":
            caches = [cache for cache in cell.caches if cache.mask & able]
            if sum([cache.price for cache in caches]) > budget:
                self._most_free = budget
                self._hard = self._size is None or any(
                    cache.price != (cache.mask & able).bit_count() for cache in caches
                )
        elif not self._keep:
            self._most_used = budget
            self._hard = bool(able & ~pool) or (self._policy != "prefer" and self._size is None)
        if self._hard:
            self._most_free = self._most_used = None

    def cost(self, want: int) -> int | None:
        """Return the cost of ``pick(want)``, mostly without choosing CPUs; None if the cell cannot give ``want``."""
        if self._needs_tables(want):
            found = self._picked(want)
            return None if found is None else found[0]
        choice = self._choice(want)
        return None if choice is None else choice[0]

    def _needs_tables(self, want: int) -> bool:
        """Return whether sums over L3 groups may not tell the best choice."""
        if self._hard and not self._affords_any(want):
            return True
        return self._size is None and self._fewest_groups(want) < len(self._reach)

    def _fewest_groups(self, want: int) -> int:
        """Return a lower bound on the number of L3 groups with ``want`` CPUs, for example 2 if the largest is short."""
        return bisect_left(self._reach, want) + 1

    def _affords_any(self, want: int) -> bool:
        """Return whether the budget pays for every pick, even for one of pool CPUs only."""
        policy = self._policy
        if policy == "isolate":
            want *= self._cell.widest
        elif policy != "prefer":
            want += self._cell.widest - 1  # with as many left over, one core fewer would do
        return not self._keep and want <= self._budget

    def _choice(self, want: int) -> Choice | None:
        """Return the best choice of L3 groups, or None if the cell cannot give ``want``.

        If the cell is hard, the choice ignores the budget. Cores of many sizes allow the choice of every group only.
        """
        if want not in self._choices:
            self._choices[want] = self._choose(want)
        return self._choices[want]

    def _choose(self, want: int) -> Choice | None:
        """Try numbers of L3 groups, fewest first."""
        for number in range(self._fewest_groups(want), len(self._reach) + 1):
            if number == len(self._reach):
                best = self._of_all(want)
            else:
                best = self._in_groups().best(number, want, self._most_free)
            if best is not None:
                cost = self._price(number, best, want)
                return None if cost is None else (cost, number, best)
        return None

    def _of_all(self, want: int) -> Best | None:
        """Return the properties of the best choice that may use every group, or None."""
        price, free, most = self._threads.price(want), sum(self._groups.frees), self._most_free
        return None if price is None or (most is not None and free > most) else (*price, free, 0)

    def _price(self, number: int, best: Best, want: int) -> int | None:
        """Return the cost of ``want`` CPUs out of ``number`` L3 groups, or None if they are above the limit on use."""
        cores, left, free, _ = best
        used = want if self._policy == "prefer" else want + left
        if self._most_used is not None and used > self._most_used:
            return None
        return (
            number * CACHES + cores * CORES + left * CORE_LEFT
            + (free - used) * self._cache_left + (self._number - used) * self._cell_left
        )

    def _in_groups(self) -> EvenGroups:
        """Return the sums over the L3 groups of this cell, prepared once."""
        if self._even is None:
            size, spread = self._size, self._rules.weights is not PACK
            assert size is not None, "tables choose among cores of many sizes"
            self._even = EvenGroups(self._threads, size, self._groups, self._cell.dedicated.bit_count() + 1, spread)
        return self._even

    def pick(self, want: int) -> Pick | None:
        """Return the best ``want`` CPUs, or None if the cell cannot give them."""
        found = self._picked(want)
        if found is None:
            return None
        cost, cpus, withheld = found
        return Pick(cost, cpus, kept_by(self._cell, cpus, self._keep) & ~cpus if self._keep else withheld)

    def cpus(self, want: int) -> int:
        """Return the CPUs (mask) of ``pick(want)`` without the CPUs withheld. There must be a pick."""
        found = self._picked(want)
        assert found is not None, "it has a cost"
        return found[1]

    def _picked(self, want: int) -> _Picked | None:
        """Return ``pick(want)`` without the CPUs that isolation keeps beside the cores."""
        if want not in self._picks:
            self._picks[want] = self._pick(want)
        return self._picks[want]

    def _pick(self, want: int) -> _Picked | None:
        """Choose by sums if they are certain, else try their choice against the budget, else use tables."""
        if not self._needs_tables(want):
            choice = self._choice(want)
            return None if choice is None else (choice[0], *self._lowest(want, choice))
        if want > self.capacity():
            return None
        if not self._keep and (self._size is not None or self._fewest_groups(want) == len(self._reach)):
            # Often the budget pays for the best choice that ignores the budget.
            choice = self._choice(want)
            if choice is not None and self._affords(taken := self._lowest(want, choice)):
                return choice[0], *taken
        return self._of_tables(want)

    def _lowest(self, want: int, choice: Choice) -> Take:
        """Return the CPUs given and withheld (masks) with the lowest ids among equally good choices of groups."""
        _, number, (cores, left, free, place) = choice
        if number == len(self._reach):
            return self._threads.take(want, cores, left)
        lowest, first = None, 0
        for union in self._in_groups().unions(number, free, place):
            free_there = union & self._able
            if lowest is not None and free_there & -free_there > first:
                continue  # even its first free CPU is above the first CPU found
            found = self._threads.take(want, cores, left, union)
            if lowest is None or lower(found[0], lowest[0]):
                lowest, first = found, found[0] & -found[0]
        assert lowest is not None, "some groups are best"
        return lowest

    def _affords(self, taken: Take) -> bool:
        """Return whether the budget pays for the pool CPUs among these."""
        return ((taken[0] | taken[1]) & self._cell.pool).bit_count() <= self._budget

    def _of_tables(self, want: int) -> _Picked:
        """Return the best choice by tables; a choice must exist."""
        if self._tables is None:
            policy, keep, weights = self._rules
            self._tables = BudgetTables(self._cell, self._able, (policy, bool(keep), weights), self._budget)
        cost, cpus, withheld = self._tables.best(want)
        # Free CPUs of groups that cannot be kept are left over on the cell as well.
        return cost + (self._free & ~self._able).bit_count() * self._cell_left, cpus, withheld

    def capacity(self) -> int:
        """Return the largest number of CPUs that the cell can give."""
        if self._capacity is None:
            self._capacity = self._told_capacity()
            if self._capacity is None:
                self._capacity = self._counted_capacity()
        return self._capacity

    def _counted_capacity(self) -> int:
        """Return the capacity by a knapsack over units or L3 groups."""
        if self._keep or self._policy == "prefer":
            return capacity(self._cell, self._held, self._rules, self._budget)
        return _capacity_of(self._cores(), self._policy, self._cell.pool, self._budget)

    @property
    def most(self) -> int:
        """An upper bound on ``capacity``, known without a search."""
        told = self._told_capacity()
        return self._threads.size if told is None else told

    def _told_capacity(self) -> int | None:
        """Return the capacity if sums tell it, else None."""
        if self._hard or (self._keep and self._most_free is not None):
            return None
        threads, budget = self._threads, self._most_used
        if budget is None or budget >= threads.size * self._cell.widest:
            return threads.size
        if self._policy == "prefer":
            return min(threads.size, budget)
        size = unit_size(threads) or 1
        return min(threads.size, budget // size * (1 if self._policy == "isolate" else size))

    def _cores(self) -> Sequence[int]:
        """Return the cores that can be given, each as a mask: its free CPUs, or the whole core by thread policy."""
        threads = self._threads
        return threads.units if isinstance(threads, Units) else units_of(self._cell, self._able, self._policy)

    def profile(self) -> tuple[object, ...]:
        """Return a value that is equal for two cells if their answers differ in ids only."""
        if self._profile is None:
            self._profile = self._profiled()
        return self._profile

    def _profiled(self) -> tuple[object, ...]:
        """Return the amounts and sorts of units by L3 group that decide every answer."""
        cell = self._cell
        if not self._hard or not self._keep:
            alike = self._alike()
            frees = [(self._able & mask).bit_count() for mask in cell.cache_masks]
            kinds = kinds_of([*alike.values()], cell.cache_masks)
            return (self._number, self._budget, *alike, *sorted(zip(frees, kinds, strict=True)))
        shape = tuple(sorted([self._cache_profile(cache) for cache in cell.caches]))
        everyone = (cell.everyone & cell.pool).bit_count() if self._keep == "node" else 0
        return (self._budget, self._number, everyone, shape)

    def _alike(self) -> dict[tuple[int, int], int]:
        """Return the first CPUs (mask) of the units by (CPUs, CPUs that the pool must pay for)."""
        if not self._hard:
            return {(size, 0): firsts for size, firsts in self._threads.by_size}
        alike: dict[tuple[int, int], int] = {}
        for size, paid, firsts in sorted(sorts_of(self._cores(), self._cell.pool)):
            alike[size, paid] = alike.get((size, paid), 0) | firsts
        return alike

    def _cache_profile(self, cache: CacheView) -> tuple[object, ...]:
        """Return free CPUs, price (-1 if the group cannot be kept) and unit sizes of one L3 group."""
        free, pool, policy, keep = self._free, self._cell.pool, self._policy, self._keep
        sizes = sorted([(unit.bit_count(), (unit & pool).bit_count()) for unit in units_of(cache, free, policy)])
        price = cache.price if keep and may_keep(self._cell, cache, self._held, keep) else -1
        return (cache.mask & free).bit_count(), price, *sizes

    def least(self, want: int) -> int:
        """Return a lower bound on ``cost(want)`` without a search: as few groups and cores as their sizes allow."""
        if want in self._choices:
            choice = self._choices[want]
            return 0 if choice is None else choice[0]
        number = bisect_left(self._reach, want) + 1
        threads = 1 if self._policy == "isolate" else self._cell.widest
        # With spread, the fields below CORE_LEFT are negative, but less than one CORE_LEFT in all.
        return number * CACHES - (-want // threads) * CORES - 2 * CORE_LEFT


def capacity(cell: CpuView, held: int, rules: Rules, budget: int) -> int:
    """Return the most CPUs that the cell can give if at most ``budget`` CPUs come out of the shared pool."""
    free, pool = cell.dedicated & ~held, cell.pool
    if rules.policy == "prefer":
        return (free & ~pool).bit_count() + min((free & pool).bit_count(), budget)
    if not rules.keep:
        return _capacity_of(units_of(cell, free, rules.policy), rules.policy, pool, budget)
    isolated = rules.policy == "isolate"
    goods = []
    for cache in cell.caches:
        if may_keep(cell, cache, held, rules.keep):
            units = units_of(cache, free, rules.policy)
            gain = len(units) if isolated else sum(units).bit_count()
            goods.append((cache.price, gain))
    if rules.keep == "node":
        goods = [((cell.everyone & pool).bit_count(), sum(gain for _, gain in goods))]
    return _most(goods, budget)


def _capacity_of(units: Sequence[int], policy: str, pool: int, budget: int) -> int:
    """Like ``capacity``, for units that must be given whole."""
    isolated = policy == "isolate"
    return _most([((unit & pool).bit_count(), 1 if isolated else unit.bit_count()) for unit in units], budget)


def _most(goods: Sequence[tuple[int, int]], budget: int) -> int:
    """Return the largest gain of goods (price, gain) whose prices add up to at most ``budget``.

    Example: goods [(2, 3), (1, 1), (2, 2)] and budget 3 are 4.
    """
    costs, gains = sum([price for price, _ in goods]), sum([gain for _, gain in goods])
    if costs <= budget:
        return gains
    # Bit ``gain * width + price`` stands for some of the goods.
    width = costs + 1
    some = with_some(1, doublings([gain * width + price for price, gain in goods]))
    return (some & every_row(width, gains + 1) * ((1 << budget + 1) - 1)).bit_length() // width


def _unpaid(cell: CpuView, able: int, policy: str) -> int:
    """Return the CPUs of ``able`` (mask) that can be taken if the pool can pay for none.

    If a core has free CPUs inside and outside the pool, the pool CPUs count as left over. Then all of ``able`` is
    returned, and the budget decides later.
    """
    paid = able & cell.pool
    mixed = policy == "prefer" and any(core & paid and core & able & ~paid for core in cell.cores)
    return able if mixed else able & ~paid


def _keepable(cell: CpuView, held: int, keep: str, budget: int) -> int:
    """Return the CPUs (mask) of the L3 groups (``node``: of the cell) that one container can have to itself."""
    if keep == "node":
        fine = may_keep(cell, cell.caches[0], held, keep) and (cell.everyone & cell.pool).bit_count() <= budget
        return cell.dedicated if fine else 0
    able = 0
    for cache in cell.caches:
        if cache.price <= budget and may_keep(cell, cache, held, keep):
            able |= cache.mask
    return able & cell.dedicated
