# SPDX-License-Identifier: Apache-2.0
"""Which CPUs of one cell: the best choice under the thread policy, exactly.

A *unit* is what one core can give: its free threads (``prefer``), or the whole core when every thread of
it is free (``isolate``, ``require``). Units are masks. The rules, most important first: touch few L3
groups, few cores, leave or withhold few threads on them, leave little in the L3 groups touched, take low ids.

Within one L3 group the best choice has a closed form, because exchanging a unit for one of the same size
with a lower first CPU never makes a choice worse. Several groups are combined by dynamic programming.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from zun.topology.cost import CACHE_LEFT, CACHES, CELL_LEFT, CORE_LEFT, CORES, mirrored
from zun.topology.view import CacheView, CellView


class Pick(NamedTuple):
    """CPUs given and withheld (masks), and what the choice costs."""

    cost: int
    cpus: int
    withheld: int


def pick(cell: CellView, held: int, want: int, policy: str, budget: int) -> Pick | None:
    """The best ``want`` CPUs of ``cell`` beside those ``held``, None when there are not so many.

    At most ``budget`` CPUs, given or withheld, may come out of the shared pool.
    """
    free = cell.dedicated & ~held
    best = _unlimited(cell, free, want, policy)
    if best is None or ((best.cpus | best.withheld) & cell.pool).bit_count() <= budget:
        return best
    if policy == "prefer" and not free & ~cell.pool:
        return None  # the pool pays for every CPU whichever they are
    return _within_budget(cell, free, want, policy, budget)


def capacity(cell: CellView, held: int, policy: str, budget: int) -> int:
    """The largest number of CPUs ``pick`` can give; ``budget`` of them at most may come out of the pool."""
    free = cell.dedicated & ~held
    if policy == "prefer":
        return (free & ~cell.pool).bit_count() + min((free & cell.pool).bit_count(), budget)
    units = [unit for cache in cell.caches for unit in units_of(cell, cache, free, policy)]
    if policy == "isolate":
        return _most_cores(units, cell.pool, budget)
    return _most_threads(units, cell.pool, budget)


def _most_cores(units: Sequence[int], pool: int, budget: int) -> int:
    count = 0
    for price in sorted((unit & pool).bit_count() for unit in units):
        budget -= price
        if budget < 0:
            break
        count += 1
    return count


def _most_threads(units: Sequence[int], pool: int, budget: int) -> int:
    """Most threads on whole units of which at most ``budget`` are of the pool (a knapsack by pool threads)."""
    if sum((unit & pool).bit_count() for unit in units) <= budget:
        return sum(unit.bit_count() for unit in units)
    best = {0: 0}
    for unit in units:
        price, gain = (unit & pool).bit_count(), unit.bit_count()
        for used, threads in list(best.items()):
            if used + price <= budget and best.get(used + price, -1) < threads + gain:
                best[used + price] = threads + gain
    return max(best.values())


def units_of(cell: CellView, cache: CacheView, free: int, policy: str) -> list[int]:
    """The units of one L3 group, in order of their lowest CPU."""
    if policy == "prefer":
        # Of a broken core the lowest thread may be the one taken, so its place among the others changes.
        return sorted((core & free for core in cache.cores if core & free), key=_first)
    whole = [core for core in cache.cores if core in cell.whole and not core & ~free]
    return whole if policy == "isolate" else [core for core in whole if core & (core - 1)]


def _first(unit: int) -> int:
    return unit & -unit


# One cell


def _unlimited(cell: CellView, free: int, want: int, policy: str) -> Pick | None:
    """``pick`` as if the pool did not matter."""
    if len(cell.caches) == 1:
        taken = _stock(cell, cell.caches[0], free, policy).take(want)
        return taken and _priced(taken, free, free)
    stocks = [_stock(cell, cache, free, policy) for cache in cell.caches]
    sizes = [stock.size for stock in stocks]
    if max(sizes) >= want:
        return _in_one_cache(cell, stocks, free, want)
    if sum(sizes) < want:
        return None
    return _across_caches(cell, stocks, free, want)


def _priced(taken: Pick, cache_free: int, cell_free: int) -> Pick:
    """``taken`` inside one L3 group, with what it leaves of the group and of the cell."""
    cost, cpus, withheld = taken
    used = (cpus | withheld).bit_count()
    cost += CACHES + (cache_free.bit_count() - used) * CACHE_LEFT + (cell_free.bit_count() - used) * CELL_LEFT
    return Pick(cost, cpus, withheld)


def _in_one_cache(cell: CellView, stocks: Sequence[Stock], free: int, want: int) -> Pick | None:
    best = None
    for cache, stock in zip(cell.caches, stocks, strict=True):
        if stock.size < want or (taken := stock.take(want)) is None:
            continue
        found = _priced(taken, cache.mask & free, free)
        if best is None or found.cost < best.cost or (found.cost == best.cost and _lower(found.cpus, best.cpus)):
            best = found
    return best


def _lower(mask: int, other: int) -> bool:
    """Whether ``mask`` has the lower ids: it holds the lowest CPU in which the two differ."""
    differ = mask ^ other
    return bool(differ & -differ & mask)


def _across_caches(cell: CellView, stocks: Sequence[Stock], free: int, want: int) -> Pick | None:
    """The best choice over the smallest number of L3 groups that suffices: two or more."""
    falling = sorted((stock.size for stock in stocks), reverse=True)
    caches, total = 0, 0
    while total < want:
        total += falling[caches]
        caches += 1
    width = cell.dedicated.bit_length()
    # best[groups used][CPUs taken] is (cost and ids in one number, CPUs, withheld)
    best: list[dict[int, tuple[int, int, int]]] = [{} for _ in range(caches + 1)]
    best[0][0] = (0, 0, 0)
    for cache, stock in zip(cell.caches, stocks, strict=True):
        # What the largest other groups cannot give, this one must.
        others = falling[:caches]
        others.remove(stock.size if stock.size in others else others[-1])
        least = max(1, want - sum(others))
        table = [
            (count, *_keyed(taken, cache.mask & free, width))
            for count in range(least, min(stock.size, want) + 1)
            if (taken := stock.take(count)) is not None
        ]
        for used in range(caches - 1, -1, -1):
            grown = best[used + 1]
            for have, (key, cpus, withheld) in best[used].items():
                for count, more_key, more_cpus, more_withheld in table:
                    if have + count > want:
                        break
                    known = grown.get(have + count)
                    if known is None or key + more_key < known[0]:
                        grown[have + count] = (key + more_key, cpus | more_cpus, withheld | more_withheld)
    return _finished(best[caches].get(want), free, width)


def _keyed(taken: Pick, cache_free: int, width: int) -> tuple[int, int, int]:
    left = cache_free.bit_count() - (taken.cpus | taken.withheld).bit_count()
    cost = taken.cost + CACHES + left * CACHE_LEFT
    return (cost << width) - mirrored(taken.cpus, width), taken.cpus, taken.withheld


def _finished(found: tuple[int, int, int] | None, free: int, width: int) -> Pick | None:
    if found is None:
        return None
    key, cpus, withheld = found
    cost = -(-key >> width)  # rounds up: the ids were taken off
    left = (free & ~(cpus | withheld)).bit_count()
    return Pick(cost + left * CELL_LEFT, cpus, withheld)


# One L3 group. The costs of these picks count cores and what is left of them, no more.


class Pairs(NamedTuple):
    """Cores of two threads at one stride: free pairs and single free threads, by first thread."""

    pairs: int
    ones: int
    stride: int
    policy: str

    @property
    def size(self) -> int:
        if self.policy == "isolate":
            return self.pairs.bit_count()
        return 2 * self.pairs.bit_count() + self.ones.bit_count()

    def take(self, want: int) -> Pick | None:
        pairs, ones, stride, policy = self
        free_pairs = pairs.bit_count()
        if policy == "isolate":
            if free_pairs < want:
                return None
            cpus = lowest(pairs, want)
            return Pick(want * (CORES + CORE_LEFT), cpus, cpus << stride)
        used = min(free_pairs, want // 2)
        rest = want - 2 * used
        if rest <= ones.bit_count():
            firsts = lowest(pairs, used)
            # An odd thread comes from a core that is already broken.
            return Pick((used + rest) * CORES, firsts | firsts << stride | lowest(ones, rest), 0)
        if rest == 1 and used < free_pairs:
            firsts = lowest(pairs, used + 1)
            return _trimmed(firsts | firsts << stride, used + 1, 1, policy)
        return None


class Threads(NamedTuple):
    """Cores of one thread."""

    ones: int

    @property
    def size(self) -> int:
        return self.ones.bit_count()

    def take(self, want: int) -> Pick | None:
        if self.ones.bit_count() < want:
            return None
        return Pick(want * CORES, lowest(self.ones, want), 0)


class Units(NamedTuple):
    """Cores of any sizes."""

    units: Sequence[int]
    policy: str

    @property
    def size(self) -> int:
        return len(self.units) if self.policy == "isolate" else sum(map(int.bit_count, self.units))

    def take(self, want: int) -> Pick | None:
        if self.policy == "isolate":
            return _take_isolated(self.units, want)
        sizes = {unit.bit_count() for unit in self.units}
        if len(sizes) == 1:
            return _take_uniform(self.units, want, sizes.pop(), self.policy)
        return _take_mixed(self.units, want, self.policy)


Stock = Pairs | Threads | Units


def _stock(cell: CellView, cache: CacheView, free: int, policy: str) -> Stock:
    """What is free in one L3 group, in the form in which it is quickest to choose from."""
    stride = cache.stride
    if stride < 0:
        return Units(units_of(cell, cache, free, policy), policy)
    here = free & cache.mask
    if stride == 0:
        if policy == "require":
            return Threads(0)
        return Threads(here if policy == "prefer" else here & cache.whole)
    pairs = here & cache.firsts & (here >> stride)
    if policy == "prefer":
        return Pairs(pairs, here & ~(pairs | pairs << stride), stride, policy)
    return Pairs(pairs & cache.whole, 0, stride, policy)


def _take_isolated(units: Sequence[int], want: int) -> Pick | None:
    """Cores with few threads first: they keep few siblings idle."""
    if len(units) < want:
        return None
    chosen = sorted(units, key=lambda unit: (unit.bit_count(), unit & -unit))[:want]
    cpus = sum(unit & -unit for unit in chosen)
    withheld = sum(chosen) ^ cpus
    return Pick(want * CORES + withheld.bit_count() * CORE_LEFT, cpus, withheld)


def _take_uniform(units: Sequence[int], want: int, size: int, policy: str) -> Pick | None:
    cores = -(-want // size)
    if len(units) < cores:
        return None
    return _trimmed(sum(units[:cores]), cores, cores * size - want, policy)


def _trimmed(union: int, cores: int, left: int, policy: str) -> Pick:
    """The union of ``cores`` units without its ``left`` highest threads, which ``require`` keeps idle."""
    cpus = union
    for _ in range(left):
        cpus ^= 1 << (cpus.bit_length() - 1)
    withheld = union ^ cpus if policy == "require" else 0
    return Pick(cores * CORES + left * CORE_LEFT, cpus, withheld)


def _take_mixed(units: Sequence[int], want: int, policy: str) -> Pick | None:
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
        if best is None or left < best_left or _lower(found.cpus, best.cpus):
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
    rest = mask
    for _ in range(count):
        rest &= rest - 1
    return mask ^ rest


# With a budget


def _within_budget(cell: CellView, free: int, want: int, policy: str, budget: int) -> Pick | None:
    """As ``pick`` when the budget decides: the same search, also by CPUs taken out of the pool.

    Slow and rare: only where CPUs of one cell differ in what they cost the pool, so where the operator's
    sets overlap or cores have different numbers of threads.
    """
    width = cell.dedicated.bit_length()
    whole: States = {(0, 0): (0, 0, 0)}
    for cache in cell.caches:
        inside: States = {(0, 0): (0, 0, 0)}
        for unit in units_of(cell, cache, free, policy):
            _extend(inside, list(_options(unit, policy, cell.pool, width)), want, budget)
        first = (CACHES + (cache.mask & free).bit_count() * CACHE_LEFT) << width
        used = [
            (count, paid, key + first, cpus, withheld)
            for (count, paid), (key, cpus, withheld) in inside.items()
            if count
        ]
        _extend(whole, used, want, budget)
    found = [state for (count, _), state in whole.items() if count == want]
    return _finished(min(found), free, width) if found else None


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


def _options(unit: int, policy: str, pool: int, width: int) -> Iterator[Option]:
    """The ways to use one unit."""
    size = unit.bit_count()
    if policy == "prefer":
        inside, outside = unit & pool, unit & ~pool
        for paid in range(inside.bit_count() + 1):
            for unpaid in range(outside.bit_count() + 1):
                used = paid + unpaid
                if used:
                    cpus = lowest(inside, paid) | lowest(outside, unpaid)
                    cost = CORES + (size - used) * CORE_LEFT - used * CACHE_LEFT
                    yield used, paid, (cost << width) - mirrored(cpus, width), cpus, 0
        return
    for used in range(1, 2 if policy == "isolate" else size + 1):
        cpus = lowest(unit, used)
        cost = CORES + (size - used) * CORE_LEFT - size * CACHE_LEFT
        yield used, (unit & pool).bit_count(), (cost << width) - mirrored(cpus, width), cpus, unit ^ cpus
