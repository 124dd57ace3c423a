# SPDX-License-Identifier: Apache-2.0
"""Which CPUs of one cell: the best choice under the thread policy and the isolation grade, exactly.

The rules, most important first: touch few L3 groups, few cores, leave or withhold few threads on them, leave little
in the L3 groups touched (to spread: much), take low ids.

The grades ``l3`` and ``node`` choose among the units of L3 groups (of a cell) that nobody has a CPU of, by the same
rules, and hold the rest of what they touch as well.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple

from zun.topology.budget import BudgetTables
from zun.topology.cost import CACHES, CORE_LEFT, CORES, PACK, Weights
from zun.topology.groups import Best, EvenGroups, MixedGroups, Sort, groups_of, sorts_of
from zun.topology.request import PlacementRequest
from zun.topology.threads import (
    Take,
    Units,
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


_Picked = tuple[int, int, int]
"""The same without what is kept beside the cores."""


MOST_MIXED = 12
"""L3 groups with cores of many sizes of which every choice may be looked at: 924 at most."""

MOST_SUMS = 1 << 17
"""Sums that the cores of a cell may come to, by number, threads and price."""


Choice = tuple[int, int, Best, EvenGroups | MixedGroups | None]
"""What all that is best has in common: cost, number of L3 groups, what is known of these, and where to ask which they
are (None for all there are)."""


class CellStock:
    """What one cell has for one request beside what is ``held``. Answers are remembered.

    At most ``budget`` CPUs, given or withheld, may come out of the shared pool.
    """

    __slots__ = ("_able", "_budget", "_budgeted", "_cache_left", "_capacity", "_cell", "_cell_left", "_choices",
                 "_free", "_groups", "_hard", "_held", "_keep", "_many", "_most_free", "_most_used", "_number",
                 "_picks", "_policy", "_profile", "_reach", "_rules", "_size", "_sorts", "_tables", "_threads",
                 "_units")

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
            self._size = None  # of what is free in a group beside the pairs, not all are single threads to be had
        self._groups = groups = groups_of(cell.cache_masks, able, threads)
        # What the largest, the two largest, ... groups can give.
        sizes = groups.sizes
        self._reach = sizes if len(sizes) == 1 else list(accumulate(sorted(sizes, reverse=True)))
        self._most_used: int | None = None
        self._most_free: int | None = None
        self._hard = False
        if rules.keep == "l3" or (usable & cell.pool).bit_count() > budget:
            self._look_at_budget()
        self._many = len(groups.masks) > MOST_MIXED or (
            self._hard and not rules.keep and self._has_many_sums()
        )
        self._tables: list[EvenGroups | MixedGroups | None] = [None, None]
        self._sorts: list[Sort] | None = None
        self._units: Units | None = None
        self._budgeted: BudgetTables | None = None
        self._capacity: int | None = None
        self._profile: tuple[object, ...] | None = None
        self._choices: dict[int, Choice | None] = {}
        self._picks: dict[int, _Picked | None] = {}

    def _look_at_budget(self) -> None:
        """Put what the pool can pay as a limit on what is used, or on what is free in the groups chosen.

        Where neither says it the choice is hard: what the pool pays must be counted.
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

    def _has_many_sums(self) -> bool:
        """Whether cores that the pool must pay for come to so many sums that tables over CPUs are quicker."""
        if self._number ** 3 <= 2 * MOST_SUMS:  # the price is half of the CPUs at most
            return False
        units = self._cores()
        sizes, paid = [*map(int.bit_count, units)], (sum(units) & self._cell.pool).bit_count()
        threads = sum(sizes)
        above, price = threads - len(units) * min(sizes, default=0), min(paid, threads - paid)
        return (len(units) + 1) * (above + 1) * (price + 1) > MOST_SUMS

    def cost(self, want: int) -> int | None:
        """The cost of ``pick(want)``, mostly without looking for the CPUs; None when there are not so many."""
        if self._many and self._is_mixed(want):
            found = self._picked(want)
            return None if found is None else found[0]
        choice = self._choices[want] if want in self._choices else self._choose(want)
        return None if choice is None else choice[0]

    def _choose(self, want: int, paid: bool = True) -> Choice | None:
        """The best choice of L3 groups, None when there is not enough in them. Without ``paid`` whatever they cost."""
        chosen, reach = None, self._reach
        # Even groups are so much quicker that they are worth tables of their own.
        hard = paid and self._hard and self._is_mixed(want)
        for number in range(bisect_left(reach, want) + 1, len(reach) + 1):
            tables = None
            if number < len(reach) or hard:
                tables = self._tables[hard] or self._in_groups(hard)
            best = self._of_all(want) if tables is None else tables.best(number, want, self._most_free)
            if best is not None:
                cost = self._price(number, best, want)
                chosen = None if cost is None else (cost, number, best, tables)
                break
        self._choices[want] = chosen
        return chosen

    def _is_mixed(self, want: int) -> bool:
        """Whether cores of many sizes, or what the pool can pay, keep groups from being even."""
        return self._size is None or (self._hard and not self._affords_any(want))

    def _affords_any(self, want: int) -> bool:
        """Whether the pool could pay for a pick even if all of it were of the pool."""
        policy = self._policy
        if policy == "isolate":
            want *= self._cell.widest
        elif policy != "prefer":
            want += self._cell.widest - 1  # with as many left over it would do with a core less
        return not self._keep and want <= self._budget

    def _of_all(self, want: int) -> Best | None:
        """The choice of every group."""
        price, free, most = self._threads.price(want), sum(self._groups.frees), self._most_free
        return None if price is None or (most is not None and free > most) else (*price, free, 0)

    def _price(self, number: int, best: Best, want: int) -> int | None:
        """The cost of so many CPUs out of ``number`` L3 groups; None where the pool cannot pay for them."""
        cores, left, free, _ = best
        used = want if self._policy == "prefer" else want + left
        if self._most_used is not None and used > self._most_used:
            return None
        return (
            number * CACHES + cores * CORES + left * CORE_LEFT
            + (free - used) * self._cache_left + (self._number - used) * self._cell_left
        )

    def _in_groups(self, hard: bool) -> EvenGroups | MixedGroups:
        """Tables that choose among the groups; ``hard`` are those that count what the pool pays."""
        size, spread = self._size, self._rules.weights is not PACK
        tables: EvenGroups | MixedGroups
        if size is not None and not hard:
            tables = EvenGroups(self._threads, size, self._groups, self._cell.dedicated.bit_count() + 1, spread)
        else:
            sorts, prices = [(size, 0, firsts) for size, firsts in self._threads.by_size], []
            if hard and self._keep:
                masks = frozenset(self._groups.masks)
                prices = [cache.price for cache in self._cell.caches if cache.mask in masks]
            elif hard and self._able & ~self._cell.pool:
                sorts = self._sorted()
            elif hard:
                sorts = [(size, size, firsts) for size, _, firsts in sorts]
            tables = MixedGroups(sorts, self._policy, self._groups, spread, self._budget, prices)
        self._tables[hard] = tables
        return tables

    def _sorted(self) -> list[Sort]:
        """The cores by what the pool must pay for them."""
        if self._sorts is None:
            self._sorts = sorts_of(self._cores(), self._cell.pool)
        return self._sorts

    def _cores(self) -> Sequence[int]:
        """The units of what is able, where the pool can pay for something."""
        threads = self._threads
        return threads.units if isinstance(threads, Units) else units_of(self._cell, self._able, self._policy)

    def pick(self, want: int) -> Pick | None:
        """The best ``want`` CPUs, None when there are not so many."""
        found = self._picked(want)
        if found is None:
            return None
        cost, cpus, withheld = found
        return Pick(cost, cpus, _kept(self._cell, cpus, self._keep) & ~cpus if self._keep else withheld)

    def cpus(self, want: int) -> int:
        """The CPUs given in ``pick(want)``, which must not be None, for less work."""
        found = self._picked(want)
        assert found is not None, "it has a cost"
        return found[1]

    def _picked(self, want: int) -> _Picked | None:
        """``pick`` without what is kept beside the cores."""
        if want not in self._picks:
            self._picks[want] = self._pick(want)
        return self._picks[want]

    def _pick(self, want: int) -> _Picked | None:
        if self._many and self._is_mixed(want):
            return self._of_many(want)
        choice = self._choices[want] if want in self._choices else self._choose(want)
        return None if choice is None else (choice[0], *self._lowest(want, choice, self._take))

    def _lowest(self, want: int, choice: Choice, take: Callable[[int, int, int, int], Take]) -> Take:
        _, number, (cores, left, free, place), tables = choice
        if tables is None or number == len(self._reach):
            return take(want, cores, left, -1)
        lowest, first = None, 0
        for union in tables.unions(number, free, place):
            free_there = union & self._able
            if lowest is not None and free_there & -free_there > first:
                continue  # even the first of them is above what was found
            found = take(want, cores, left, union)
            if lowest is None or lower(found[0], lowest[0]):
                lowest, first = found, found[0] & -found[0]
        assert lowest is not None, "some groups are best"
        return lowest

    def _take(self, want: int, cores: int, left: int, within: int) -> Take:
        """The lowest of the choices with this price that the pool can pay for, of the cores in ``within``."""
        taken, policy = self._threads.take(want, cores, left, within), self._policy
        if not self._hard or self._keep or self._affords(taken):
            return taken
        if policy == "prefer" and left:
            _, cpus, withheld = self._in_budget_tables().best(want, within)
            return cpus, withheld
        if self._units is None:
            self._units = Units(self._cell, self._able, policy)
        return self._units.take(want, cores, left, within, self._cell.pool, self._budget)

    def _affords(self, taken: Take) -> bool:
        return ((taken[0] | taken[1]) & self._cell.pool).bit_count() <= self._budget

    def _of_many(self, want: int) -> _Picked | None:
        """``pick`` where there are too many sums or choices of groups."""
        if want > self.capacity():
            return None
        if self._hard and not self._keep and (self._size is not None or len(self._groups.masks) <= MOST_MIXED):
            # Often the pool can pay for what is best without it.
            choice = self._choose(want, paid=False)
            if choice is not None and self._affords(taken := self._lowest(want, choice, self._threads.take)):
                return choice[0], *taken
        return self._of_tables(want)

    def _of_tables(self, want: int) -> _Picked:
        cost, cpus, withheld = self._in_budget_tables().best(want)
        # Groups out of reach are left as well.
        return cost + (self._free & ~self._able).bit_count() * self._cell_left, cpus, withheld

    def _in_budget_tables(self) -> BudgetTables:
        if self._budgeted is None:
            policy, keep, weights = self._rules
            self._budgeted = BudgetTables(self._cell, self._able, (policy, bool(keep), weights), self._budget)
        return self._budgeted

    def capacity(self) -> int:
        """The largest number of CPUs there is a pick for."""
        if self._capacity is None:
            self._capacity = self._told_capacity()
            if self._capacity is None:
                self._capacity = self._counted_capacity()
        return self._capacity

    def _counted_capacity(self) -> int:
        if self._keep or self._policy == "prefer":
            return capacity(self._cell, self._held, self._rules, self._budget)
        return _capacity_of(self._cores(), self._policy, self._cell.pool, self._budget)

    @property
    def most(self) -> int:
        """No less than ``capacity``, at once."""
        told = self._told_capacity()
        return self._threads.size if told is None else told

    def _told_capacity(self) -> int | None:
        """``capacity`` where it is told at once."""
        if self._hard or (self._keep and self._most_free is not None):
            return None
        threads, budget = self._threads, self._most_used
        if budget is None or budget >= threads.size * self._cell.widest:
            return threads.size
        if self._policy == "prefer":
            return min(threads.size, budget)
        size = unit_size(threads) or 1
        return min(threads.size, budget // size * (1 if self._policy == "isolate" else size))

    def profile(self) -> tuple[object, ...]:
        """Equal for two cells that answer alike but for their ids."""
        if self._profile is None:
            self._profile = self._profiled()
        return self._profile

    def _profiled(self) -> tuple[object, ...]:
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
        """The first CPUs of cores with so many CPUs, of which the pool must pay so many."""
        if not self._hard:
            return {(size, 0): firsts for size, firsts in self._threads.by_size}
        alike: dict[tuple[int, int], int] = {}
        for size, paid, firsts in sorted(self._sorted()):
            alike[size, paid] = alike.get((size, paid), 0) | firsts
        return alike

    def _cache_profile(self, cache: CacheView) -> tuple[object, ...]:
        free, pool, policy, keep = self._free, self._cell.pool, self._policy, self._keep
        sizes = sorted([(unit.bit_count(), (unit & pool).bit_count()) for unit in units_of(cache, free, policy)])
        price = cache.price if keep and may_keep(self._cell, cache, self._held, keep) else -1
        return (cache.mask & free).bit_count(), price, *sizes

    def least(self, want: int) -> int:
        """No more than ``cost(want)``, at once: as few groups and cores as their sizes allow."""
        if want in self._choices:
            choice = self._choices[want]
            return 0 if choice is None else choice[0]
        number = bisect_left(self._reach, want) + 1
        threads = 1 if self._policy == "isolate" else self._cell.widest
        # To spread makes what is left negative, though never as much as CORE_LEFT together.
        return number * CACHES - (-want // threads) * CORES - 2 * CORE_LEFT


def capacity(cell: CpuView, held: int, rules: Rules, budget: int) -> int:
    """The largest number of CPUs a ``CellStock`` can give; ``budget`` at most may come out of the pool."""
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
    """The same of units that are used as a whole."""
    isolated = policy == "isolate"
    return _most([((unit & pool).bit_count(), 1 if isolated else unit.bit_count()) for unit in units], budget)


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
        if cache.price <= budget and may_keep(cell, cache, held, keep):
            able |= cache.mask
    return able & cell.dedicated


def _kept(cell: CpuView, cpus: int, keep: str) -> int:
    if keep == "node":
        return cell.everyone
    kept = 0
    for cache in cell.caches:
        if cache.mask & cpus:
            kept |= cache.kept
    return kept
