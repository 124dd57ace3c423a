# SPDX-License-Identifier: Apache-2.0
"""The best CPUs out of some cores, when it does not matter which L3 they have.

A *unit* is what one core can give: its free threads (``prefer``), or the whole core when every thread of
it is free (all other policies). Units are masks. Better is: fewer cores, fewer threads left over or withheld on
them, lower ids. This has a closed form, because exchanging a unit for one of the same size with a lower first CPU
never makes a choice worse.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from zun.topology.view import CacheView, CpuView, by_size

Take = tuple[int, int]
"""CPUs given and withheld (masks)."""

Kind = tuple[int, ...]
"""How many units there are of each size, or otherwise alike."""


class Regular(NamedTuple):
    """Whole free cores whose threads lie alike, by first thread, and single free threads.

    There are both kinds of them only where a core has two threads.
    """

    firsts: int
    ones: int
    pattern: int
    """The threads of a core, seen from its first: a product with ``firsts`` is all of them."""
    policy: str

    @property
    def size(self) -> int:
        """How many CPUs can be taken."""
        each = 1 if self.policy == "isolate" else self.pattern.bit_count()
        return each * self.firsts.bit_count() + self.ones.bit_count()

    @property
    def by_size(self) -> tuple[tuple[int, int], ...]:
        """Sizes of units, and the first CPUs of those that have it."""
        return (1, self.ones), (self.pattern.bit_count(), self.firsts)

    def price(self, want: int) -> tuple[int, int] | None:
        """The fewest cores that have so many CPUs, and the least threads left over on them; None without so many."""
        firsts, ones, pattern, policy = self
        wide, cores, ones = pattern.bit_count(), firsts.bit_count(), ones.bit_count()
        if policy == "isolate":
            if want > cores + ones:
                return None
            return want, (want - ones) * (wide - 1) if want > ones else 0
        used = want // wide
        if used > cores:
            used = cores
        rest = want - used * wide
        if rest <= ones:
            return used + rest, 0
        return (used + 1, wide - rest) if rest < wide and used < cores else None

    def take(self, want: int, cores: int, left: int, within: int = -1) -> Take:
        """The lowest of the choices with this price, of the cores in ``within``."""
        firsts, ones, pattern, policy = self
        if within >= 0:
            firsts, ones = firsts & within, ones & within
        if policy == "isolate":
            used = want - ones.bit_count() if ones else want
            if used <= 0:
                return lowest(ones, want), 0
            firsts = lowest(firsts, used)
            return firsts | ones, firsts * (pattern ^ 1)
        # An odd thread comes from a core that is already broken.
        used = (want + left - cores) // (pattern.bit_count() - 1) if firsts else 0
        union = lowest(firsts, used) * pattern
        if used < cores:
            union |= lowest(ones, cores - used)
        return _trimmed(union, left, policy) if left else (union, 0)


class Units:
    """The ``free`` cores of a cell, of any sizes, in order of their lowest CPU."""

    __slots__ = ("_reached", "by_size", "firsts", "policy", "size", "union", "units")

    def __init__(self, cell: CpuView, free: int, policy: str) -> None:
        self.policy = policy
        # Sizes of units, and the first CPUs of those that have it; of whole cores it is known beforehand.
        if policy == "prefer":
            firsts, units = _free_units(cell, free)
            self.union = union = free
            self.by_size = by_size(units, firsts)
        else:
            units = units_of(cell, free, policy)
            self.union = union = sum(units)
            self.by_size = tuple([(size, left) for size, firsts in cell.whole_sizes if (left := firsts & union)])
        self.units = units
        self.firsts = sum([firsts for _, firsts in self.by_size])
        self.size = len(units) if policy == "isolate" else self.union.bit_count()
        """How many CPUs can be taken."""
        self._reached = 0

    def price(self, want: int) -> tuple[int, int] | None:
        """The fewest cores that have so many CPUs, and the least threads left over on them; None without so many."""
        if want > self.size:
            return None
        if len(self.by_size) == 1:
            ((size, _),) = self.by_size
            cores = want if self.policy == "isolate" else -(-want // size)
            return cores, cores * size - want
        width = self.union.bit_count() + 1
        if not self._reached:
            sizes, firsts = zip(*self.by_size, strict=True)
            self._reached = with_some(1, steps(tuple(map(int.bit_count, firsts)), sizes, width))
        return fewest(self._reached, width, len(self.units) + 1, want, self.policy)

    def take(self, want: int, cores: int, left: int, within: int = -1, pool: int = 0, budget: int = 0) -> Take:
        """The lowest of the choices with this price, of the cores in ``within``, with ``budget`` CPUs of ``pool``."""
        firsts, union = self.firsts & within, self.union & within
        if firsts.bit_count() != cores:
            inside = [unit for unit in self.units if unit & within]
            chosen = _lowest(inside, cores, want + left, pool, budget)
            union = sum(chosen)
            firsts &= union
        if self.policy == "isolate":
            return firsts, union ^ firsts
        return _trimmed(union, left, self.policy)


def _lowest(units: Sequence[int], cores: int, threads: int, pool: int, budget: int) -> Sequence[int]:
    """So many cores with so many threads together: each that can be one of them is, those with lower ids first.

    No more than ``budget`` of these threads are of ``pool``.
    """
    sizes = [unit.bit_count() for unit in units]
    if pool:
        prices = [(unit & pool).bit_count() for unit in units]
        budget = min(budget, sum(prices))
        row = sum(prices) + 1
        sizes = [size * row + price for size, price in zip(sizes, prices, strict=True)]
    elif max(sizes) == min(sizes):
        return units[:cores]
    else:
        row, budget = 1, 0
    width = (sum(sizes) // row + 1) * row
    # What is not spent counts as spent in the end. Together with that it may be a row or more, though never where it
    # is looked for: what is left of the budget and what the other cores cost are less.
    reached, after = (2 << budget) - 1, []
    for size in reversed(sizes):
        after.append(reached)
        reached |= reached << width + size
    place, chosen = cores * width + threads * row + budget, []
    for unit, size, rest in zip(units, sizes, reversed(after), strict=True):
        left = place - width - size
        if left >= 0 and rest >> left & 1:
            chosen.append(unit)
            place = left
            if not place:
                break
    return chosen


Threads = Regular | Units


def kinds_of(sorts: Sequence[int], masks: Sequence[int]) -> list[Kind]:
    """How many units of each sort, of which these are the first CPUs, there are in each of ``masks``."""
    counts = [[(firsts & mask).bit_count() for mask in masks] for firsts in sorts]
    return [*zip(*counts, strict=True)] or [()] * len(masks)


@lru_cache(maxsize=4096)
def steps(kind: Kind, sizes: tuple[int, ...], width: int) -> tuple[int, ...]:
    """What ``with_some`` makes cores of: bit ``cores * width + threads`` stands for some of them.

    All together they have fewer threads than ``width``.
    """
    return doublings([width + size for size, count in zip(sizes, kind, strict=True) for _ in range(count)])


def doublings(amounts: Sequence[int]) -> tuple[int, ...]:
    """Amounts of which each sum of some of ``amounts`` is made: of many alike one, two, four and so on together."""
    found = []
    for amount in set(amounts):
        count, together = amounts.count(amount), 1
        while count:
            together = min(together, count)
            found.append(together * amount)
            count -= together
            together *= 2
    return tuple(found)


def with_some(reached: int, steps: Iterable[int]) -> int:
    """``reached``, a set of amounts by bits, and all that comes of it with some of ``steps`` added."""
    for step in steps:
        reached |= reached << step
    return reached


def fewest(reached: int, width: int, rows: int, want: int, policy: str) -> tuple[int, int] | None:
    """The fewest cores for ``want`` CPUs and the least threads left over on them; None when there are not so many.

    ``reached`` is what ``with_some`` makes of ``steps``, of fewer cores than ``rows``.
    """
    if policy == "isolate":
        serve = reached >> want * width & (1 << width) - 1
        return (want, (serve & -serve).bit_length() - 1 - want) if serve else None
    serve = reached & columns(width, rows, want)
    if not serve:
        return None
    cores, threads = divmod((serve & -serve).bit_length() - 1, width)
    return cores, threads - want


@lru_cache(maxsize=8192)
def columns(width: int, rows: int, first: int) -> int:
    """A set of pairs of numbers (bit ``row * width + column``): all whose column is ``first`` or more."""
    return ((1 << width) - (1 << first)) * every_row(width, rows) if first < width else 0


@lru_cache(maxsize=1024)
def every_row(width: int, rows: int) -> int:
    """The same with column 0 of every row."""
    return ((1 << width * rows) - 1) // ((1 << width) - 1)


def threads_of(cell: CpuView, free: int, policy: str) -> Threads:
    """What is ``free`` of a cell, in the form in which it is quickest to choose from."""
    pattern = cell.pattern
    if pattern == 1:
        if policy == "require":
            return Regular(0, 0, 1, "prefer")
        return Regular(0, free if policy == "prefer" else free & cell.whole_firsts, 1, "prefer")
    if pattern:
        firsts = free & cell.wide_firsts
        for step in cell.steps:
            firsts &= free >> step
        if policy != "prefer":
            ones = 0 if policy == "require" else free & cell.whole_firsts & ~cell.wide_firsts
            if not ones or pattern.bit_count() == 2:
                return Regular(firsts & cell.whole_firsts, ones, pattern, policy)
        else:
            ones = free & ~(firsts * pattern)
            if not ones or pattern.bit_count() == 2:
                return Regular(firsts, ones, pattern, policy)
    return Units(cell, free, policy)


def unit_size(threads: Threads) -> int | None:
    """The size of every unit; 0 for free pairs beside single threads (``prefer`` only), None for many sizes."""
    if isinstance(threads, Regular):
        wide = threads.pattern.bit_count()
        if wide == 2 and threads.policy == "prefer":
            return 0
        if threads.firsts:
            return None if threads.ones else wide
        return 1
    sizes = [size for size, _ in threads.by_size]
    if len(sizes) > 1:
        return 0 if threads.policy == "prefer" and sizes == [1, 2] else None
    return sizes[0] if sizes else 1


def units_of(place: CpuView | CacheView, free: int, policy: str) -> Sequence[int]:
    """The units of a cell or of one L3 group, in order of their lowest CPU."""
    if policy == "prefer":
        return _free_units(place, free)[1]
    taken = ~free
    whole = [core for core in place.whole if not core & taken]
    return [core for core in whole if core & (core - 1)] if policy == "require" else whole


def _free_units(place: CpuView | CacheView, free: int) -> tuple[Sequence[int], Sequence[int]]:
    """The first CPUs of what is free of each core, rising, and all of it."""
    units = [unit for core in place.cores if (unit := core & free)]
    firsts = [unit & -unit for unit in units]
    # Of a broken core the lowest thread may be the one taken, so its place among the others changes.
    rising = sorted(firsts)
    if firsts != rising:
        units = [unit for _, unit in sorted(zip(firsts, units, strict=True))]
    return rising, units


def _trimmed(union: int, left: int, policy: str) -> Take:
    """The union of units without its ``left`` highest threads, which go idle where cores are whole."""
    cpus = union
    for _ in range(left):
        cpus ^= 1 << (cpus.bit_length() - 1)
    withheld = 0 if policy == "prefer" else union ^ cpus
    return cpus, withheld


def lowest(mask: int, count: int) -> int:
    """The ``count`` lowest bits of ``mask``."""
    spare = mask.bit_count() - count
    if spare < count:
        for _ in range(spare):
            mask ^= 1 << (mask.bit_length() - 1)
        return mask
    rest = mask
    for _ in range(count):
        rest &= rest - 1
    return mask ^ rest


def lower(mask: int, other: int) -> bool:
    """Whether ``mask`` has the lower ids: it holds the lowest CPU in which the two differ."""
    differ = mask ^ other
    return bool(differ & -differ & mask)
