# SPDX-License-Identifier: Apache-2.0
"""Which CPUs of one cell, by tables over counts: for cells that the quick ways do not know.

Slow and rare: where CPUs of one cell differ in what they cost the shared pool and it cannot pay for all (the
operator's sets overlap, or cores or L3 groups that are taken whole have different sizes), or where cores of many sizes
are in many L3 groups.

What is taken is one number, its *place*: how many CPUs, times ``_CPU``, and how many of them the pool pays. What it
costs is one number, its *key*: the cost above the CPUs given, which are taken off, the lowest id as the highest bit. So
both add up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

from zun.topology.cost import CACHES, CORE_LEFT, CORES, Weights, mirrored
from zun.topology.threads import units_of
from zun.topology.view import CpuView

_CPU = 1 << 32

_MANY = 64
"""Fewer states than these are not worth the sorting."""

Option = tuple[int, int]
"""What one way to use a core, or the first of an L3 group, adds to place and key."""


class _Group(NamedTuple):
    """One L3 group."""

    first: Option
    cores: list[list[Option]]


class BudgetTables:
    """The cores of one cell and the ways to use each."""

    __slots__ = ("_by_size", "_free", "_groups", "_policy", "_pool", "_reach", "_units", "_unpaid", "_weights",
                 "_width")

    def __init__(self, cell: CpuView, free: int, rules: tuple[str, bool, Weights]) -> None:
        """``rules`` are the thread policy, whether whole L3 groups are kept, and the weights."""
        self._policy, keep, self._weights = rules
        self._free, self._width = free, cell.dedicated.bit_length()
        self._pool = 0 if keep else cell.pool  # a group that is kept whole costs the same whatever is used of it
        self._by_size: dict[int, list[int]] = {}
        self._units: list[int] = []
        self._groups, sizes, unpaid = [], [], []
        for cache in cell.caches:
            units = units_of(cache, free, self._policy)
            price = (cache.kept & cell.pool).bit_count() if keep else 0
            first = CACHES + (cache.mask & free).bit_count() * self._weights.cache_left
            self._groups.append(_Group((price, first << self._width), [self._options(unit) for unit in units]))
            self._units += units
            sizes.append(len(units) if self._policy == "isolate" else sum(units).bit_count())
            unpaid.append((sum(units) & ~self._pool).bit_count())
        # What the largest, the two largest, ... groups can give, and how much they have that is not of the pool.
        self._reach = [*accumulate(sorted(sizes, reverse=True))]
        self._unpaid = [*accumulate(sorted(unpaid, reverse=True))]

    def _options(self, unit: int) -> list[Option]:
        """The ways to use one unit: so many CPUs that the pool pays and so many others, each the lowest there are."""
        if self._policy == "prefer":
            price, inside, outside = 0, self._ids(unit & self._pool), self._ids(unit & ~self._pool)
        else:
            price, inside, outside = (unit & self._pool).bit_count(), [0], self._ids(unit)
            if self._policy == "isolate":
                outside = outside[:2]
        costs = self._costs(unit.bit_count())
        return [
            ((paid + unpaid) * _CPU + paid + price, costs[paid + unpaid] - first - other)
            for paid, first in enumerate(inside)
            for unpaid, other in enumerate(outside)
            if paid or unpaid
        ]

    def _ids(self, mask: int) -> list[int]:
        """What the lowest 0, 1, 2, ... CPUs take off a key."""
        ids, found, top = 0, [0], 1 << self._width
        while mask:
            low = mask & -mask
            mask ^= low
            ids += top >> low.bit_length()
            found.append(ids)
        return found

    def _costs(self, size: int) -> list[int]:
        """What a core of this size adds to a key when 0, 1, 2, ... of its CPUs are used."""
        if size not in self._by_size:
            taken = [used if self._policy == "prefer" else size for used in range(size + 1)]
            self._by_size[size] = [
                CORES + (size - used) * CORE_LEFT - gone * self._weights.cache_left << self._width
                for used, gone in enumerate(taken)
            ]
        return self._by_size[size]

    def best(self, want: int, budget: int) -> tuple[int, int, int]:
        """Cost, CPUs given and CPUs withheld, where ``budget`` CPUs of the pool suffice."""
        fewest = 1 + max(bisect_left(self._reach, want), bisect_left(self._unpaid, want - budget))
        several = (self._keys(want, budget, number) for number in range(fewest, len(self._groups) + 1))
        key = min(next(filter(None, several)).values())
        cost = -(-key >> self._width)  # rounds up: the ids were taken off
        cpus = mirrored(-key & (1 << self._width) - 1, self._width)
        withheld = 0
        if self._policy != "prefer":
            withheld = sum([unit for unit in self._units if unit & cpus]) ^ cpus
        left = (self._free & ~(cpus | withheld)).bit_count()
        return cost + left * self._weights.cell_left, cpus, withheld

    def _keys(self, want: int, budget: int, most: int) -> dict[int, int]:
        """The lowest keys of ``most`` groups or fewer by their places, all of ``want`` CPUs."""
        keys, later = {0: 0}, self._reach[-1]
        # To spread makes what is less than a core negative; together it is less than a core.
        limit = (most + 1) * CACHES - CORES << self._width
        for group in self._groups:
            price, first = group.first
            inside = {
                place + price: key + first
                for place, key in keys.items()
                if place % _CPU + price <= budget and key + first < limit
            }
            for options in group.cores:
                later -= options[-1][0] // _CPU
                _use(inside, options, want, budget)
                if len(inside) > _MANY:
                    inside = _worth(inside.items(), (want - later) * _CPU)
            keys = _worth([*keys.items(), *inside.items()], (want - later) * _CPU)
        return keys


def _use(keys: dict[int, int], options: list[Option], want: int, budget: int) -> None:
    """Add to ``keys``, the lowest by place, what becomes possible by using a core in one of these ways."""
    most = want * _CPU + budget
    for place, key in list(keys.items()):
        for more, more_key in options:
            new = place + more
            if new <= most and new % _CPU <= budget:
                lower = key + more_key
                if new not in keys or lower < keys[new]:
                    keys[new] = lower


def _worth(found: Iterable[tuple[int, int]], least: int) -> dict[int, int]:
    """Places and keys without those below ``least``, and those for which the pool pays more for nothing better."""
    keys: dict[int, int] = {}
    cpus, best = -1, 0
    for place, key in sorted(found):
        if place >= least and (place // _CPU != cpus or key < best):
            keys[place] = best = key
            cpus = place // _CPU
    return keys
