# SPDX-License-Identifier: Apache-2.0
"""The best CPUs of one cell, by tables over counts of CPUs: exact for every case, but slower than sums.

Tables are needed if the shared pool cannot pay for every choice and a limit on CPUs cannot say so, for example if only
some threads of a core are of the pool. They are needed as well if cores of several sizes lie in several L3 groups.

A state of a table is two numbers that add up. Its *place* is ``CPUs * _CPU + CPUs that the pool pays``; for example
``3 * _CPU + 1`` is three CPUs, one of them of the pool. Its *key* is the cost, shifted left, minus the CPUs given with
the lowest id as the highest bit, so that lower ids make a lower key. For each place the table has the lowest key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from zun.topology.masks import mirrored
from zun.topology.search.cost import CACHES, CORE_LEFT, CORES, Weights
from zun.topology.search.threads import units_of
from zun.topology.view import CacheView, CpuView

_CPU = 1 << 15
"""More than the CPUs of a cell, and small: a place is then one digit (30 bits) of a Python integer, which is quick."""

_MANY = 64
"""Number of states above which sorting out beaten states saves time."""

Option = tuple[int, int]
"""Addition to place and key by one way to use a core, or by using an L3 group at all."""


class _Group(NamedTuple):
    """One L3 group."""

    first: Option
    """Addition to place and key by using the group at all."""
    units: Sequence[int]
    """CPUs that each core can give (masks)."""
    cores: list[list[Option]]
    """The ways to use each core."""


class BudgetTables:
    """The ways to use each core of a cell, by L3 group."""

    __slots__ = ("_budget", "_by_size", "_cell", "_free", "_groups", "_keep", "_policy", "_pool", "_weights", "_width")

    def __init__(self, cell: CpuView, free: int, rules: tuple[str, bool, Weights], budget: int) -> None:
        """Prepare tables for the ``free`` CPUs (mask), of which at most ``budget`` may come out of the pool.

        ``rules`` are the thread policy, whether whole L3 groups are kept, and the weights.
        """
        self._cell = cell
        self._policy, self._keep, self._weights = rules
        self._free, self._width, self._budget = free, cell.dedicated.bit_length(), budget
        # A kept group costs the pool the same whatever is used of it. A budget for every CPU limits nothing.
        self._pool = 0 if self._keep or (free & cell.pool).bit_count() <= budget else cell.pool
        self._by_size: dict[int, list[int]] = {}
        self._groups: dict[int, _Group] = {}

    def _group(self, cache: CacheView) -> _Group:
        """Return the L3 group of ``cache``, computed once."""
        group = self._groups.get(cache.mask)
        if group is None:
            units = units_of(cache, self._free, self._policy)
            price = cache.price if self._keep else 0
            first = CACHES + (cache.mask & self._free).bit_count() * self._weights.cache_left
            cores = [options for unit in units if (options := self._options(unit))]
            group = self._groups[cache.mask] = _Group((price, first << self._width), units, cores)
        return group

    def _options(self, unit: int) -> list[Option]:
        """Return the ways to use one unit: the lowest 0, 1, 2, ... pool CPUs with the lowest 0, 1, 2, ... other CPUs.

        The last way has the most CPUs.
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
        """Return what the lowest 0, 1, 2, ... CPUs of ``mask`` take off a key. CPU 0 is the highest bit."""
        ids, found, top = 0, [0], 1 << self._width
        while mask:
            low = mask & -mask
            mask ^= low
            ids += top >> low.bit_length()
            found.append(ids)
        return found

    def _costs(self, size: int) -> list[int]:
        """Return what a core of ``size`` threads adds to a key if 0, 1, 2, ... of its CPUs are used."""
        if size not in self._by_size:
            taken = [used if self._policy == "prefer" else size for used in range(size + 1)]
            self._by_size[size] = [
                CORES + (size - used) * CORE_LEFT - gone * self._weights.cache_left << self._width
                for used, gone in enumerate(taken)
            ]
        return self._by_size[size]

    def best(self, want: int) -> tuple[int, int, int]:
        """Return cost, CPUs given (mask) and CPUs withheld (mask) of the best ``want`` CPUs. A choice must exist."""
        key = self._lowest(want)
        cost = -(-key >> self._width)  # rounds up: the ids were taken off
        cpus = mirrored(-key & (1 << self._width) - 1, self._width)
        withheld = 0
        if self._policy != "prefer":
            withheld = sum([unit for group in self._groups.values() for unit in group.units if unit & cpus]) ^ cpus
        left = (self._free & ~(cpus | withheld)).bit_count()
        return cost + left * self._weights.cell_left, cpus, withheld

    def _lowest(self, want: int) -> int:
        """Return the lowest key of ``want`` CPUs."""
        keys, budget = {0: 0}, self._budget
        groups = [self._group(cache) for cache in self._cell.caches]
        # CPUs that a state must have by now; all later cores together add the rest of ``want``.
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
        # The last state with ``want`` CPUs has the lowest key, since the pool pays most there.
        return [*keys.values()][-1]


def _with(keys: dict[int, int], options: list[Option], least: int, most: int, budget: int) -> dict[int, int]:
    """Return the lowest key by place, after a core is left alone or used in one of the ways ``options``.

    Places are kept if their CPUs are between ``least`` and ``most`` and the pool pays at most ``budget``.
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
    """Return the states from ``least`` on without beaten ones: as many CPUs, no lower key, and the pool pays more."""
    keys: dict[int, int] = {}
    cpus, best = -1, 0
    for place, key in sorted(found):
        if place >= least and (place // _CPU != cpus or key < best):
            keys[place] = best = key
            cpus = place // _CPU
    return keys
