# SPDX-License-Identifier: Apache-2.0
"""The best CPUs out of some cores, without regard to L3 groups.

A *unit* is the mask of what one core can give: its free threads (thread policy ``prefer``), or the whole core if every
thread is free (other policies). Example: core 0-1 of which 1 is held gives 0b01 or nothing. The *first* of a unit is
its lowest CPU, as a mask. Fewer cores are better, then fewer threads left over or withheld on them, then lower ids.
The best choice has a closed form, because replacing a unit by one of the same size with a lower first CPU never makes a
choice worse.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from zun.topology.masks import lowest
from zun.topology.view import CacheView, CpuView, by_size

Take = tuple[int, int]
"""CPUs given and CPUs withheld (masks)."""

Kind = tuple[int, ...]
"""Number of units of each sort, for example of each size: (2, 1) is two single threads and one pair."""


class Regular(NamedTuple):
    """Whole free cores whose threads have the same offsets, and single free threads.

    Both kinds occur together only if a core has two threads.
    """

    firsts: int
    """Mask of the first thread of each whole free core."""
    ones: int
    """Mask of the single free threads."""
    pattern: int
    """The threads of a core relative to its first: 0b11 for core 4-5, 0b100000001 for core 0,8. ``firsts * pattern`` is
    the mask of all their threads."""
    policy: str

    @property
    def size(self) -> int:
        """Number of CPUs that can be taken."""
        each = 1 if self.policy == "isolate" else self.pattern.bit_count()
        return each * self.firsts.bit_count() + self.ones.bit_count()

    @property
    def by_size(self) -> tuple[tuple[int, int], ...]:
        """Each size of units with the first CPUs (mask) of the units of this size."""
        return (1, self.ones), (self.pattern.bit_count(), self.firsts)

    def price(self, want: int) -> tuple[int, int] | None:
        """Return the fewest cores with ``want`` CPUs and the least threads left over on them, or None."""
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
        """Return the lowest CPUs among choices of this price, of cores in ``within`` (mask, -1 is all)."""
        firsts, ones, pattern, policy = self
        if within >= 0:
            firsts, ones = firsts & within, ones & within
        if policy == "isolate":
            used = want - ones.bit_count() if ones else want
            if used <= 0:
                return lowest(ones, want), 0
            firsts = lowest(firsts, used)
            return firsts | ones, firsts * (pattern ^ 1)
        # Take an odd thread from a core that is already broken.
        used = (want + left - cores) // (pattern.bit_count() - 1) if firsts else 0
        union = lowest(firsts, used) * pattern
        if used < cores:
            union |= lowest(ones, cores - used)
        return _trimmed(union, left, policy) if left else (union, 0)


class Units:
    """The free cores of a cell, of any sizes, in order of their lowest CPU."""

    __slots__ = ("_reached", "by_size", "firsts", "policy", "size", "union", "units")

    def __init__(self, cell: CpuView, free: int, policy: str) -> None:
        self.policy = policy
        # For whole cores, the cell knows the sizes beforehand.
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
        """Number of CPUs that can be taken."""
        self._reached = 0

    def price(self, want: int) -> tuple[int, int] | None:
        """Return the fewest cores with ``want`` CPUs and the least threads left over on them, or None."""
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

    def take(self, want: int, cores: int, left: int, within: int = -1) -> Take:
        """Return the lowest CPUs among choices of this price, of cores in ``within`` (mask, -1 is all)."""
        firsts, union = self.firsts & within, self.union & within
        if firsts.bit_count() != cores:
            inside = [unit for unit in self.units if unit & within]
            chosen = _lowest(inside, cores, want + left)
            union = sum(chosen)
            firsts &= union
        if self.policy == "isolate":
            return firsts, union ^ firsts
        return _trimmed(union, left, self.policy)


def _lowest(units: Sequence[int], cores: int, threads: int) -> Sequence[int]:
    """Return the ``cores`` units with the lowest ids that have ``threads`` threads together. Such units must exist.

    Each unit, in rising order, is chosen if later units can add up to the rest.
    """
    sizes = [unit.bit_count() for unit in units]
    if max(sizes) == min(sizes):
        return units[:cores]
    # Bit ``number * width + size`` of a set stands for some units: their number, and the sum of their threads.
    width = sum(sizes) + 1
    reached, after = 1, []
    for size in reversed(sizes):
        after.append(reached)
        reached |= reached << width + size
    place, chosen = cores * width + threads, []
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
    """Return for each of ``masks`` how many units of each sort it has; a sort is the mask of its first CPUs."""
    counts = [[(firsts & mask).bit_count() for mask in masks] for firsts in sorts]
    return [*zip(*counts, strict=True)] or [()] * len(masks)


@lru_cache(maxsize=4096)
def steps(kind: Kind, sizes: tuple[int, ...], width: int) -> tuple[int, ...]:
    """Return the steps from which ``with_some`` makes every choice of cores: bit ``cores * width + threads``.

    All cores together must have fewer threads than ``width``. Example: with width 10, two cores of three threads are
    bit 26.
    """
    return doublings([width + size for size, count in zip(sizes, kind, strict=True) for _ in range(count)])


def doublings(amounts: Sequence[int]) -> tuple[int, ...]:
    """Return fewer amounts that reach the same sums: equal ones are taken together by one, two, four, ...

    Example: seven times 3 becomes (3, 6, 12).
    """
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
    """Return the amounts that are in ``reached`` or become so by adding some of ``steps``; bit n is amount n.

    Example: 0b1 with the steps 2 and 3 is 0b101101: 0, 2, 3 and 5.
    """
    for step in steps:
        reached |= reached << step
    return reached


def fewest(reached: int, width: int, rows: int, want: int, policy: str) -> tuple[int, int] | None:
    """Return the fewest cores for ``want`` CPUs and the least threads left over on them, or None without so many.

    ``reached`` has bit ``cores * width + threads`` for each choice of cores; all have fewer cores than ``rows``.
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
    """Return the set of all pairs (bit ``row * width + column``) whose column is ``first`` or more.

    Example: width 3, two rows, first 2 is 0b100100.
    """
    return ((1 << width) - (1 << first)) * every_row(width, rows) if first < width else 0


@lru_cache(maxsize=1024)
def every_row(width: int, rows: int) -> int:
    """Return the set of all pairs (bit ``row * width + column``) whose column is 0. Example: 0b1001 for 3 and 2."""
    return ((1 << width * rows) - 1) // ((1 << width) - 1)


def threads_of(cell: CpuView, free: int, policy: str) -> Threads:
    """Return the cores of a cell that the free CPUs (mask) allow: ``Regular`` if possible, because it is quicker."""
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
    """Return the size that all units have, 0 for pairs and single threads (``prefer``), or None for other mixes."""
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
    """Return the units of a cell or of one L3 group, in order of their lowest CPU."""
    if policy == "prefer":
        return _free_units(place, free)[1]
    taken = ~free
    whole = [core for core in place.whole if not core & taken]
    return [core for core in whole if core & (core - 1)] if policy == "require" else whole


def _free_units(place: CpuView | CacheView, free: int) -> tuple[Sequence[int], Sequence[int]]:
    """Return the first free CPU of each core (masks), rising, and the free CPUs of these cores in the same order."""
    units = [unit for core in place.cores if (unit := core & free)]
    firsts = [unit & -unit for unit in units]
    # The lowest thread of a broken core may be held, so the order by free CPUs may differ from the order of cores.
    rising = sorted(firsts)
    if firsts != rising:
        units = [unit for _, unit in sorted(zip(firsts, units, strict=True))]
    return rising, units


def _trimmed(union: int, left: int, policy: str) -> Take:
    """Return the CPUs of ``union`` without its ``left`` highest threads; on whole cores these are withheld."""
    cpus = union
    for _ in range(left):
        cpus ^= 1 << (cpus.bit_length() - 1)
    withheld = 0 if policy == "prefer" else union ^ cpus
    return cpus, withheld
