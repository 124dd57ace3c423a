# SPDX-License-Identifier: Apache-2.0
"""Which CPUs of one cell, by tables over counts: for what the quick ways do not know.

Slow and rare: where the shared pool cannot pay for all, and threads are left over so that it pays for fewer of a core,
or whole L3 groups are kept; and where cores of many sizes are in many L3 groups.

What is taken is one number, its *place*: how many CPUs, times ``_CPU``, and how many of them the pool pays. What it
costs is one number, its *key*: the cost above the CPUs given, which are taken off, the lowest id as the highest bit. So
both add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from zun.topology.cost import CACHES, CORE_LEFT, CORES, Weights, mirrored
from zun.topology.threads import units_of
from zun.topology.view import CacheView, CpuView

_CPU = 1 << 15
"""More CPUs than a cell has, and small: so a place has one digit of Python's integers, which are quick."""

_MANY = 64
"""Fewer states than these are not worth the sorting."""

Option = tuple[int, int]
"""What one way to use a core, or the first of an L3 group, adds to place and key."""


class _Group(NamedTuple):
    """One L3 group."""

    first: Option
    units: Sequence[int]
    cores: list[list[Option]]
    """The ways to use each."""


class BudgetTables:
    """The cores of one cell and the ways to use each, by L3 group."""

    __slots__ = ("_budget", "_by_size", "_cell", "_free", "_groups", "_keep", "_policy", "_pool", "_weights", "_width")

    def __init__(self, cell: CpuView, free: int, rules: tuple[str, bool, Weights], budget: int) -> None:
        """``rules`` are the thread policy, whether whole L3 groups are kept, and the weights.

        ``budget`` CPUs of the pool must suffice.
        """
        self._cell = cell
        self._policy, self._keep, self._weights = rules
        self._free, self._width, self._budget = free, cell.dedicated.bit_length(), budget
        self._pool = 0 if self._keep else cell.pool  # a group that is kept whole costs the same whatever is used of it
        self._by_size: dict[int, list[int]] = {}
        self._groups: dict[int, _Group] = {}

    def _group(self, cache: CacheView) -> _Group:
        group = self._groups.get(cache.mask)
        if group is None:
            units = units_of(cache, self._free, self._policy)
            price = cache.price if self._keep else 0
            first = CACHES + (cache.mask & self._free).bit_count() * self._weights.cache_left
            cores = [options for unit in units if (options := self._options(unit))]
            group = self._groups[cache.mask] = _Group((price, first << self._width), units, cores)
        return group

    def _options(self, unit: int) -> list[Option]:
        """The ways to use one unit: so many CPUs that the pool pays and so many others, each the lowest there are.

        The last has most CPUs.
        """
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
            if (paid or unpaid) and paid + price <= self._budget
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

    def best(self, want: int, within: int = -1) -> tuple[int, int, int]:
        """Cost, CPUs given and CPUs withheld, of the L3 groups in ``within``. There must be such a choice."""
        key = self._lowest(want, within)
        cost = -(-key >> self._width)  # rounds up: the ids were taken off
        cpus = mirrored(-key & (1 << self._width) - 1, self._width)
        withheld = 0
        if self._policy != "prefer":
            withheld = sum([unit for group in self._groups.values() for unit in group.units if unit & cpus]) ^ cpus
        left = (self._free & ~(cpus | withheld)).bit_count()
        return cost + left * self._weights.cell_left, cpus, withheld

    def _lowest(self, want: int, within: int) -> int:
        """The lowest key of ``want`` CPUs."""
        keys, budget = {0: 0}, self._budget
        groups = [self._group(cache) for cache in self._cell.caches if cache.mask & within]
        # What there must be already, so that all that comes makes ``want``.
        least = want - sum([options[-1][0] // _CPU for group in groups for options in group.cores])
        for group in groups:
            price, first = group.first
            inside = {place + price: key + first for place, key in keys.items() if place % _CPU + price <= budget}
            for options in group.cores:
                least += options[-1][0] // _CPU
                inside = _with(inside, options, least * _CPU, want * _CPU, budget)
                if len(inside) > _MANY:
                    inside = _worth(inside.items(), 0)
            keys = _worth([*keys.items(), *inside.items()], least * _CPU)
        # Of places with as many CPUs the last has the lowest key: the pool pays most there.
        return [*keys.values()][-1]


def _with(keys: dict[int, int], options: list[Option], least: int, most: int, budget: int) -> dict[int, int]:
    """``keys``, the lowest by place, and what becomes possible by using a core in one of these ways.

    Only places of ``least`` to ``most``, for which the pool pays no more than ``budget``.
    """
    found = {place: key for place, key in keys.items() if place >= least}
    most += budget
    for place, key in keys.items():
        for more, more_key in options:
            new = place + more
            if least <= new <= most and new % _CPU <= budget:
                lower = key + more_key
                if new not in found or lower < found[new]:
                    found[new] = lower
    return found


def _worth(found: Iterable[tuple[int, int]], least: int) -> dict[int, int]:
    """Places and keys without those below ``least``, and those for which the pool pays more for nothing better."""
    keys: dict[int, int] = {}
    cpus, best = -1, 0
    for place, key in sorted(found):
        if place >= least and (place // _CPU != cpus or key < best):
            keys[place] = best = key
            cpus = place // _CPU
    return keys
