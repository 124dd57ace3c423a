# SPDX-License-Identifier: Apache-2.0
"""Which CPUs of one cell: the best choice under the thread policy and the isolation grade, exactly.

The rules, most important first: touch few L3 groups, few cores, leave or withhold few threads on them, leave little
in the L3 groups touched (to spread: much), take low ids.

The grades ``l3`` and ``node`` choose among the units of L3 groups (of a cell) that nobody has a CPU of, by the same
rules, and hold the rest of what they touch as well.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from zun.topology.budget import BudgetTables
from zun.topology.cost import CACHES, CORE_LEFT, CORES, PACK, Weights
from zun.topology.groups import Best, EvenGroups, MixedGroups, groups_of
from zun.topology.request import PlacementRequest
from zun.topology.threads import (
    Take,
    doublings,
    every_row,
    kinds_of,
    lower,
    threads_of,
    unit_size,
    units_of,
    with_some,
)
from zun.topology.view import CacheView, CpuView


class Rules(NamedTuple):
    """What a request says about CPUs inside one cell."""

    policy: str
    """The thread policy; ``whole`` is ``prefer`` on whole cores only, where isolation asks for these."""
    keep: str
    """What is kept beside the cores: "" for nothing, else ``l3`` or ``node``."""
    weights: Weights


def rules_of(request: PlacementRequest, weights: Weights = PACK) -> Rules:
    policy, isolation = request.thread_policy, request.isolation
    if isolation in ("thread", "isolated"):
        return Rules(policy, "", weights)
    keep = "" if isolation == "core" else isolation
    return Rules("whole" if policy == "prefer" else policy, keep, weights)


class Pick(NamedTuple):
    """CPUs given and withheld (masks), and what the choice costs."""

    cost: int
    cpus: int
    withheld: int


MOST_MIXED = 12
"""L3 groups with cores of many sizes of which every choice may be looked at: 924 at most."""


class CellStock:
    """What one cell has for one request beside what is ``held``. Answers are remembered.

    At most ``budget`` CPUs, given or withheld, may come out of the shared pool.
    """

    __slots__ = ("_able", "_alone", "_budget", "_budgeted", "_capacity", "_cell", "_chosen", "_costs", "_free",
                 "_groups", "_hard", "_held", "_most_free", "_most_used", "_number", "_picks", "_profile", "_reach",
                 "_rules", "_size", "_slow", "_tables", "_threads")

    def __init__(self, cell: CpuView, held: int, rules: Rules, budget: int) -> None:
        self._cell, self._held, self._rules, self._budget = cell, held, rules, budget
        able = self._free = cell.dedicated & ~held
        if rules.keep:
            able = _keepable(cell, held, rules.keep, budget)
        self._able, self._number = able, self._free.bit_count()
        usable = able if budget else _unpaid(cell, able, rules.policy)
        self._threads = threads = threads_of(cell, usable, rules.policy)
        self._most_used: int | None = None
        self._most_free: int | None = None
        self._hard = self._slow = False
        self._alone: int | None = None  # what is free where there is one L3 group to take from
        if len(cell.cache_masks) == 1:
            self._alone = able.bit_count()
        else:
            self._size: int | None = unit_size(threads)
            self._groups = groups_of(cell.cache_masks, able, threads)
            self._slow = self._size is None and len(self._groups.masks) > MOST_MIXED
            if len(self._groups.masks) == 1:
                self._alone = self._groups.frees[0]
            self._tables: EvenGroups | MixedGroups | None = None
            # What the largest, the two largest, ... groups can give.
            self._reach = list(accumulate(sorted(self._groups.sizes, reverse=True)))
            self._chosen: dict[int, tuple[int, Best] | None] = {}
        if rules.keep == "l3" or (usable & cell.pool).bit_count() > budget:
            self._look_at_budget()
        self._budgeted: BudgetTables | None = None
        self._capacity: int | None = None
        self._profile: tuple[object, ...] | None = None
        self._costs: dict[int, int | None] = {}
        self._picks: dict[int, Pick | None] = {}

    def _look_at_budget(self) -> None:
        """Put what the pool can pay as a limit on what is used, or on what is free in the groups chosen.

        Where neither says it the choice is hard: it may have to be made again, with the budget.
        """
        cell, able, pool, budget = self._cell, self._able, self._cell.pool, self._budget
        if self._rules.keep == "l3":
            if self._alone is not None:
                return
            kept = [(cache.kept & pool, cache.mask & able) for cache in cell.caches if cache.mask & able]
            if sum(paid.bit_count() for paid, _ in kept) > budget:
                self._most_free = budget
                self._hard = self._size is None or any(
                    paid.bit_count() != free.bit_count() for paid, free in kept
                )
        elif not self._rules.keep:
            self._most_used = budget
            mixed = self._rules.policy != "prefer" and unit_size(self._threads) is None
            self._hard = mixed or bool(able & ~pool)

    def cost(self, want: int) -> int | None:
        """The cost of ``pick(want)``, mostly without looking for the CPUs; None when there are not so many."""
        if want in self._costs:
            return self._costs[want]
        cost = None
        if self._slow or (self._hard and not self._affords_any(want)):
            found = self.pick(want)
            cost = None if found is None else found.cost
        elif self._alone is not None:
            price = self._threads.price(want)
            cost = None if price is None else self._priced(1, price[0], price[1], self._alone, want)
        else:
            chosen = self._choose(want)
            if chosen is not None:
                number, best = chosen
                cost = self._priced(number, best.cores, best.left, best.free, want)
        self._costs[want] = cost
        return cost

    def _affords_any(self, want: int) -> bool:
        """Whether the pool could pay for a pick even if all of it were of the pool."""
        policy, keep, _ = self._rules
        if keep:
            return False
        if policy == "isolate":
            want *= self._cell.widest
        elif policy != "prefer":
            want += self._cell.widest - 1  # with as many left over it would do with a core less
        return want <= self._budget

    def _priced(self, number: int, cores: int, left: int, free: int, want: int) -> int | None:
        """The cost of ``number`` L3 groups with ``free`` CPUs and of so many cores with so much left over."""
        policy, _, (cache_left, cell_left, _) = self._rules
        used = want if policy == "prefer" else want + left
        if self._most_used is not None and used > self._most_used and not self._hard:
            return None
        return (
            number * CACHES + cores * CORES + left * CORE_LEFT
            + (free - used) * cache_left + (self._number - used) * cell_left
        )

    def _choose(self, want: int) -> tuple[int, Best] | None:
        """The best choice of L3 groups and how many they are; None when there is not enough in them."""
        if want in self._chosen:
            return self._chosen[want]
        chosen, reach, most = None, self._reach, None if self._hard else self._most_free
        for number in range(bisect_left(reach, want) + 1, len(reach) + 1):
            if number < len(reach):
                best = (self._tables or self._in_groups()).best(number, want, most)
            else:
                best = self._of_all(want, most)
            if best is not None:
                chosen = number, best
                break
        self._chosen[want] = chosen
        return chosen

    def _of_all(self, want: int, most: int | None) -> Best | None:
        """The choice of every group, if no more than ``most`` CPUs are free in them."""
        price, free = self._threads.price(want), sum(self._groups.frees)
        return None if price is None or (most is not None and free > most) else Best(*price, free, 0)

    def _in_groups(self) -> EvenGroups | MixedGroups:
        if self._tables is None:
            rows, spread = self._cell.dedicated.bit_count() + 1, self._rules.weights is not PACK
            if self._size is None:
                self._tables = MixedGroups(self._threads, self._groups, rows, spread)
            else:
                self._tables = EvenGroups(self._threads, self._size, self._groups, rows, spread)
        return self._tables

    def pick(self, want: int) -> Pick | None:
        """The best ``want`` CPUs, None when there are not so many."""
        if want not in self._picks:
            self._picks[want] = self._pick(want)
        return self._picks[want]

    def _pick(self, want: int) -> Pick | None:
        found = None if self._slow else self._unlimited(want)
        if self._slow or (self._hard and found is not None and not self._payable(found)):
            found = self._within_budget(want)
        if found is None or not self._rules.keep:
            return found
        return found._replace(withheld=_kept(self._cell, found.cpus, self._rules.keep) & ~found.cpus)

    def _unlimited(self, want: int) -> Pick | None:
        """``pick`` without what is kept beside it, and without the budget where that makes the choice hard."""
        if self._alone is not None:
            price = self._threads.price(want)
            if price is None:
                return None
            number, (cores, left), free = 1, price, self._alone
            taken = self._threads.take(want, cores, left)
        else:
            chosen = self._choose(want)
            if chosen is None:
                return None
            number, best = chosen
            cores, left, free, _ = best
            if number == len(self._reach):
                taken = self._threads.take(want, cores, left)
            else:
                taken = self._lowest_in_groups(want, number, best)
        cost = self._priced(number, cores, left, free, want)
        return None if cost is None else Pick(cost, *taken)

    def _lowest_in_groups(self, want: int, number: int, best: Best) -> Take:
        lowest, first = None, 0
        for union in self._in_groups().unions(number, best):
            free_there = union & self._able
            if lowest is not None and free_there & -free_there > first:
                continue  # even the first of them is above what was found
            found = self._threads.take(want, best.cores, best.left, union)
            if lowest is None or lower(found[0], lowest[0]):
                lowest, first = found, found[0] & -found[0]
        assert lowest is not None, "some groups are best"
        return lowest

    def _payable(self, found: Pick) -> bool:
        keep = self._rules.keep
        used = _kept(self._cell, found.cpus, keep) if keep else found.cpus | found.withheld
        return (used & self._cell.pool).bit_count() <= self._budget

    def _within_budget(self, want: int) -> Pick | None:
        if want > self.capacity():
            return None
        policy, keep, weights = self._rules
        if self._budgeted is None:
            self._budgeted = BudgetTables(self._cell, self._able, (policy, bool(keep), weights), self._budget)
        cost, cpus, withheld = self._budgeted.best(want)
        # Groups out of reach are left as well.
        return Pick(cost + (self._free & ~self._able).bit_count() * weights.cell_left, cpus, withheld)

    def capacity(self) -> int:
        """The largest number of CPUs there is a pick for."""
        if self._capacity is None:
            self._capacity = self._told_capacity()
            if self._capacity is None:
                self._capacity = capacity(self._cell, self._held, self._rules, self._budget)
        return self._capacity

    def _told_capacity(self) -> int | None:
        """``capacity`` where it is told at once."""
        if self._hard or (self._rules.keep and self._most_free is not None):
            return None
        threads, budget = self._threads, self._most_used
        if budget is None or budget >= threads.size * self._cell.widest:
            return threads.size
        if self._rules.policy == "prefer":
            return min(threads.size, budget)
        size = unit_size(threads) or 1
        return min(threads.size, budget // size * (1 if self._rules.policy == "isolate" else size))

    def profile(self) -> tuple[object, ...]:
        """Equal for two cells that answer alike but for their ids."""
        if self._profile is None:
            self._profile = self._profiled()
        return self._profile

    def _profiled(self) -> tuple[object, ...]:
        cell = self._cell
        if not self._hard and not self._slow:
            sizes = [size for size, _ in self._threads.by_size]
            frees = [(self._able & mask).bit_count() for mask in cell.cache_masks]
            kinds = kinds_of(self._threads, cell.cache_masks)
            return (self._number, self._budget, *sizes, *sorted(zip(frees, kinds, strict=True)))
        shape = tuple(sorted([self._cache_profile(cache) for cache in cell.caches]))
        everyone = (cell.everyone & cell.pool).bit_count() if self._rules.keep == "node" else 0
        return (self._budget, self._number, everyone, shape)

    def _cache_profile(self, cache: CacheView) -> tuple[object, ...]:
        free, pool, (policy, keep, _) = self._free, self._cell.pool, self._rules
        sizes = sorted([(unit.bit_count(), (unit & pool).bit_count()) for unit in units_of(cache, free, policy)])
        price = (cache.kept & pool).bit_count() if keep and may_keep(self._cell, cache, self._held, keep) else -1
        return (cache.mask & free).bit_count(), price, *sizes

    def least(self, want: int) -> int:
        """No more than ``cost(want)``, at once: as few groups and cores as their sizes allow."""
        if want in self._costs:
            return self._costs[want] or 0
        number = 1 if self._alone is not None else bisect_left(self._reach, want) + 1
        threads = 1 if self._rules.policy == "isolate" else self._cell.widest
        # To spread makes what is left negative, though never as much as CORE_LEFT together.
        return number * CACHES - (-want // threads) * CORES - 2 * CORE_LEFT


def capacity(cell: CpuView, held: int, rules: Rules, budget: int) -> int:
    """The largest number of CPUs a ``CellStock`` can give; ``budget`` at most may come out of the pool."""
    free, pool = cell.dedicated & ~held, cell.pool
    if rules.policy == "prefer":
        return (free & ~pool).bit_count() + min((free & pool).bit_count(), budget)
    goods = []
    for cache in cell.caches:
        units = units_of(cache, free, rules.policy)
        gains = [1 if rules.policy == "isolate" else unit.bit_count() for unit in units]
        if not rules.keep:
            goods += [((unit & pool).bit_count(), gain) for unit, gain in zip(units, gains, strict=True)]
        elif may_keep(cell, cache, held, rules.keep):
            goods.append(((cache.kept & pool).bit_count(), sum(gains)))
    if rules.keep == "node":
        goods = [((cell.everyone & pool).bit_count(), sum(gain for _, gain in goods))]
    return _most(goods, budget)


def _most(goods: Sequence[tuple[int, int]], budget: int) -> int:
    """The largest gain of goods (price, gain) that cost no more than ``budget`` together."""
    costs, gains = sum([price for price, _ in goods]), sum([gain for _, gain in goods])
    if costs <= budget:
        return gains
    # Bit ``gain * width + price`` stands for some of the goods.
    width = costs + 1
    some = with_some(1, doublings([gain * width + price for price, gain in goods]))
    return (some & every_row(width, gains + 1) * ((1 << budget + 1) - 1)).bit_length() // width


# What isolation keeps


def may_keep(cell: CpuView, cache: CacheView, held: int, keep: str) -> bool:
    """Whether one container can have all of this L3 group (for ``node``: all of its cell) to itself."""
    if keep == "node":
        return not cell.exposed and not cell.online & held
    return cache.kept > 0 and not cache.mask & held


def kept_with(cell: CpuView, cpus: int, isolation: str) -> int | None:
    """Mask of what a container with these CPUs of the cell must hold for the grade, the CPUs included.

    None when the grade cannot be had with them: a sibling or a part of the cache is out of anybody's hands.
    """
    if not cpus or isolation in ("thread", "isolated"):
        return cpus
    kept = 0
    for core in cell.cores:
        if core & cpus:
            if core not in cell.whole:
                return None
            kept |= core
    if isolation == "node":
        return None if cell.exposed else kept | cell.everyone
    for cache in cell.caches if isolation == "l3" else ():
        if cache.mask & cpus:
            if not cache.kept:
                return None
            kept |= cache.kept
    return kept


def _unpaid(cell: CpuView, able: int, policy: str) -> int:
    """What can be taken of ``able`` where the pool can pay for nothing; all where that is not so simple.

    CPUs of the pool beside others of their core are left over there, which costs something.
    """
    paid = able & cell.pool
    mixed = policy == "prefer" and any(core & paid and core & able & ~paid for core in cell.cores)
    return able if mixed else able & ~paid


def _keepable(cell: CpuView, held: int, keep: str, budget: int) -> int:
    """Mask of the CPUs of L3 groups (of the cell) that one container can have to itself."""
    if keep == "node":
        fine = may_keep(cell, cell.caches[0], held, keep) and (cell.everyone & cell.pool).bit_count() <= budget
        return cell.dedicated if fine else 0
    able = 0
    for cache in cell.caches:
        if may_keep(cell, cache, held, keep) and (cache.kept & cell.pool).bit_count() <= budget:
            able |= cell.dedicated & cache.mask
    return able


def _kept(cell: CpuView, cpus: int, keep: str) -> int:
    if keep == "node":
        return cell.everyone
    kept = 0
    for cache in cell.caches:
        if cache.mask & cpus:
            kept |= cache.kept
    return kept
