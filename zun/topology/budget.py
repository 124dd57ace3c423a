# SPDX-License-Identifier: Apache-2.0
"""Which CPUs of one cell, by tables over counts: for cells that the quick ways do not know.

Slow and rare: where CPUs of one cell differ in what they cost the shared pool and it cannot pay for all (the
operator's sets overlap, or cores or L3 groups that are taken whole have different sizes), or where cores of many sizes
are in many L3 groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zun.topology.cost import CACHES, CORE_LEFT, CORES, Weights, mirrored
from zun.topology.threads import lowest, units_of
from zun.topology.view import CpuView


def within_budget(
    cell: CpuView, free: int, want: int, rules: tuple[str, bool, Weights], budget: int
) -> tuple[int, int, int] | None:
    """Cost, CPUs given and CPUs withheld; None when ``budget`` CPUs of the pool are too few.

    ``rules`` are the thread policy, whether whole L3 groups are kept, and the weights.
    """
    policy, keep, weights = rules
    by_unit = 0 if keep else cell.pool  # a group that is kept whole costs the same whatever is used of it
    width = cell.dedicated.bit_length()
    whole: States = {(0, 0): (0, 0, 0)}
    for cache in cell.caches:
        inside: States = {(0, 0): (0, 0, 0)}
        for unit in units_of(cache, free, policy):
            _extend(inside, list(_options(unit, policy, by_unit, width, weights)), want, budget)
        first = (CACHES + (cache.mask & free).bit_count() * weights.cache_left) << width
        price = (cache.kept & cell.pool).bit_count() if keep else 0
        used = [
            (count, paid + price, key + first, cpus, withheld)
            for (count, paid), (key, cpus, withheld) in inside.items()
            if count
        ]
        _extend(whole, used, want, budget)
    found = [state for (count, _), state in whole.items() if count == want]
    if not found:
        return None
    key, cpus, withheld = min(found)
    cost = -(-key >> width)  # rounds up: the ids were taken off
    left = (free & ~(cpus | withheld)).bit_count()
    return cost + left * weights.cell_left, cpus, withheld


States = dict[tuple[int, int], tuple[int, int, int]]
"""By CPUs taken and CPUs the pool pays: cost and ids in one number, CPUs given, CPUs withheld."""

Option = tuple[int, int, int, int, int]
"""CPUs taken, CPUs the pool pays, cost and ids in one number, CPUs given, CPUs withheld."""


def _extend(states: States, options: Sequence[Option], want: int, budget: int) -> None:
    """Add to ``states`` what becomes possible by using one of ``options``."""
    for (count, paid), (key, cpus, withheld) in list(states.items()):
        for more, price, more_key, more_cpus, more_withheld in options:
            place = (count + more, paid + price)
            if place[0] > want or place[1] > budget:
                continue
            known = states.get(place)
            if known is None or key + more_key < known[0]:
                states[place] = (key + more_key, cpus | more_cpus, withheld | more_withheld)


def _options(unit: int, policy: str, pool: int, width: int, weights: Weights) -> Iterator[Option]:
    """The ways to use one unit."""
    size = unit.bit_count()
    if policy == "prefer":
        inside, outside = unit & pool, unit & ~pool
        for paid in range(inside.bit_count() + 1):
            for unpaid in range(outside.bit_count() + 1):
                used = paid + unpaid
                if used:
                    cpus = lowest(inside, paid) | lowest(outside, unpaid)
                    cost = CORES + (size - used) * CORE_LEFT - used * weights.cache_left
                    yield used, paid, (cost << width) - mirrored(cpus, width), cpus, 0
        return
    for used in range(1, 2 if policy == "isolate" else size + 1):
        cpus = lowest(unit, used)
        cost = CORES + (size - used) * CORE_LEFT - size * weights.cache_left
        yield used, (unit & pool).bit_count(), (cost << width) - mirrored(cpus, width), cpus, unit ^ cpus
