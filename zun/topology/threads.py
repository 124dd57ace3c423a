# SPDX-License-Identifier: Apache-2.0
"""The best CPUs out of some cores, when it does not matter which L3 they have.

A *unit* is what one core can give: its free threads (``prefer``), or the whole core when every thread of
it is free (all other policies). Units are masks. Better is: fewer cores, fewer threads left over or withheld on
them, lower ids. This has a closed form, because exchanging a unit for one of the same size with a lower first CPU
never makes a choice worse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from zun.topology.view import CacheView, CellView


class Take(NamedTuple):
    """CPUs given and withheld (masks), the number of cores they are on, and the threads left over on those."""

    cores: int
    left: int
    cpus: int
    withheld: int


class Pairs(NamedTuple):
    """Cores of two threads at one stride: free pairs by first thread, and single free threads.

    Cores of one thread are single threads; for them every policy is ``prefer``.
    """

    pairs: int
    ones: int
    stride: int
    policy: str

    @property
    def size(self) -> int:
        """How many CPUs can be taken."""
        if self.policy == "isolate":
            return self.pairs.bit_count()
        return 2 * self.pairs.bit_count() + self.ones.bit_count()

    @property
    def doubles(self) -> int:
        """How many cores have two free threads."""
        return self.pairs.bit_count()

    def within(self, mask: int) -> Pairs:
        return Pairs(self.pairs & mask, self.ones & mask, self.stride, self.policy)

    def price(self, want: int) -> tuple[int, int] | None:
        """Cores and threads left over of ``take``, for less work."""
        pairs = self.pairs.bit_count()
        if self.policy == "isolate":
            return (want, want) if want <= pairs else None
        ones = self.ones.bit_count()
        used = want >> 1
        if used > pairs:
            used = pairs
        rest = want - 2 * used
        if rest <= ones:
            return used + rest, 0
        return (used + 1, 1) if rest == 1 and used < pairs else None

    def take(self, want: int) -> Take | None:
        pairs, ones, stride, policy = self
        free_pairs = pairs.bit_count()
        if policy == "isolate":
            if free_pairs < want:
                return None
            cpus = lowest(pairs, want)
            return Take(want, want, cpus, cpus << stride)
        used = min(free_pairs, want // 2)
        rest = want - 2 * used
        if rest <= ones.bit_count():
            firsts = lowest(pairs, used)
            # An odd thread comes from a core that is already broken.
            return Take(used + rest, 0, firsts | firsts << stride | lowest(ones, rest), 0)
        if rest == 1 and used < free_pairs:
            firsts = lowest(pairs, used + 1)
            return _trimmed(firsts | firsts << stride, used + 1, 1, policy)
        return None


@dataclass(slots=True)
class Units:
    """Cores of any sizes, in order of their lowest CPU."""

    units: Sequence[int]
    policy: str
    size: int = 0
    """How many CPUs can be taken."""
    _known: dict[int, Take | None] = field(default_factory=dict)
    _reached: int = 0

    def __post_init__(self) -> None:
        self.size = len(self.units) if self.policy == "isolate" else sum(map(int.bit_count, self.units))

    @property
    def doubles(self) -> int:
        """How many cores have two free threads."""
        return sum(unit.bit_count() == 2 for unit in self.units)

    def within(self, mask: int) -> Units:
        return Units([unit for unit in self.units if unit & mask], self.policy)

    def price(self, want: int) -> tuple[int, int] | None:
        """Cores and threads left over of ``take``, for less work."""
        if want > self.size:
            return None
        width = sum(map(int.bit_count, self.units)) + 1
        if not self._reached:
            self._reached = 1
            for unit in self.units:
                self._reached |= self._reached << width + unit.bit_count()
        return fewest(self._reached, width, want, self.policy)

    def take(self, want: int) -> Take | None:
        if want not in self._known:
            self._known[want] = self._take(want)
        return self._known[want]

    def _take(self, want: int) -> Take | None:
        if self.policy == "isolate":
            return _take_isolated(self.units, want)
        sizes = {unit.bit_count() for unit in self.units}
        if len(sizes) == 1:
            return _take_uniform(self.units, want, sizes.pop(), self.policy)
        return _take_mixed(self.units, want, self.policy)


Threads = Pairs | Units


def fewest(reached: int, width: int, want: int, policy: str) -> tuple[int, int] | None:
    """The fewest cores for ``want`` CPUs and the least threads left over on them; None when there are not so many.

    Bit ``cores * width + threads`` of ``reached`` stands for some of the cores, with fewer threads than ``width``.
    """
    if policy == "isolate":
        serve = reached >> want * width & (1 << width) - 1
        return (want, (serve & -serve).bit_length() - 1 - want) if serve else None
    serve = reached & columns(width, width, want)
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


def threads_of(cell: CellView, free: int, policy: str) -> Threads:
    """What is ``free`` of a cell, in the form in which it is quickest to choose from."""
    stride = cell.stride
    if stride < 0:
        units = [unit for cache in cell.caches for unit in units_of(cell, cache, free, policy)]
        return Units(sorted(units, key=_first), policy)
    if stride == 0:
        if policy == "require":
            return Pairs(0, 0, 0, "prefer")
        return Pairs(0, free if policy == "prefer" else free & cell.whole_firsts, 0, "prefer")
    if policy == "prefer":
        pairs = free & free >> stride & cell.firsts
        return Pairs(pairs, free & ~(pairs | pairs << stride), stride, policy)
    return Pairs(free & free >> stride & cell.whole_firsts, 0, stride, policy)


def unit_size(threads: Threads) -> int | None:
    """The size of every unit; 0 for free pairs beside single threads (``prefer`` only), None for many sizes."""
    if isinstance(threads, Pairs):
        if not threads.stride:
            return 1
        return 0 if threads.policy == "prefer" else 2
    sizes = {unit.bit_count() for unit in threads.units}
    if len(sizes) > 1:
        return 0 if threads.policy == "prefer" and sizes == {1, 2} else None
    return max(sizes, default=1)


def units_of(cell: CellView, cache: CacheView, free: int, policy: str) -> list[int]:
    """The units of one L3 group, in order of their lowest CPU."""
    if policy == "prefer":
        # Of a broken core the lowest thread may be the one taken, so its place among the others changes.
        return sorted([core & free for core in cache.cores if core & free], key=_first)
    whole = [core for core in cache.cores if not core & ~free and core in cell.whole]
    return [core for core in whole if core & (core - 1)] if policy == "require" else whole


def _first(unit: int) -> int:
    return unit & -unit


def _take_isolated(units: Sequence[int], want: int) -> Take | None:
    """Cores with few threads first: they keep few siblings idle."""
    if len(units) < want:
        return None
    chosen = sorted(units, key=lambda unit: (unit.bit_count(), unit & -unit))[:want]
    cpus = sum(unit & -unit for unit in chosen)
    withheld = sum(chosen) ^ cpus
    return Take(want, withheld.bit_count(), cpus, withheld)


def _take_uniform(units: Sequence[int], want: int, size: int, policy: str) -> Take | None:
    cores = -(-want // size)
    if len(units) < cores:
        return None
    return _trimmed(sum(units[:cores]), cores, cores * size - want, policy)


def _trimmed(union: int, cores: int, left: int, policy: str) -> Take:
    """The union of ``cores`` units without its ``left`` highest threads, which go idle where cores are whole."""
    cpus = union
    for _ in range(left):
        cpus ^= 1 << (cpus.bit_length() - 1)
    withheld = 0 if policy == "prefer" else union ^ cpus
    return Take(cores, left, cpus, withheld)


def _take_mixed(units: Sequence[int], want: int, policy: str) -> Take | None:
    """Units of many sizes: fewest units, then least left over, then lowest ids.

    Of each size the units with the lowest first CPU are used, so only counts by size are searched.
    """
    by_size: dict[int, list[int]] = {}
    for unit in units:
        by_size.setdefault(unit.bit_count(), []).append(unit)
    total = cores = 0
    for size in sorted((unit.bit_count() for unit in units), reverse=True):
        if total >= want:
            break
        total, cores = total + size, cores + 1
    if total < want:
        return None
    sizes = sorted(by_size, reverse=True)
    best_left, best = total - want, None
    for counts, left in _counts(sizes, [len(by_size[size]) for size in sizes], cores, want, best_left):
        if left > best_left:
            continue
        union = sum(sum(by_size[size][:count]) for size, count in zip(sizes, counts, strict=True))
        found = _trimmed(union, cores, left, policy)
        if best is None or left < best_left or lower(found.cpus, best.cpus):
            best_left, best = left, found
    return best


def _counts(
    sizes: list[int], most: list[int], cores: int, want: int, slack: int
) -> Iterator[tuple[tuple[int, ...], int]]:
    """Ways to have ``want`` threads on ``cores`` units of these (falling) sizes: counts, and threads left over.

    Not more than ``slack`` are left over.
    """
    if not sizes:
        if cores == 0 and -slack <= want <= 0:
            yield (), -want
        return
    if cores * sizes[0] < want or cores * sizes[-1] > want + slack:
        return
    for count in range(min(most[0], cores), -1, -1):
        for rest, left in _counts(sizes[1:], most[1:], cores - count, want - count * sizes[0], slack):
            yield (count, *rest), left


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
