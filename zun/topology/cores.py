# SPDX-License-Identifier: Apache-2.0
"""Which CPUs of one cell: the best choice under the thread policy and the isolation grade, exactly.

A *unit* is what one core can give: its free threads (``prefer``), or the whole core when every thread of
it is free (all other policies). Units are masks. The rules, most important first: touch few L3 groups, few cores,
leave or withhold few threads on them, leave little in the L3 groups touched (to spread: much), take low ids.

The grades ``l3`` and ``node`` choose among the units of L3 groups (of a cell) that nobody has a CPU of, by the same
rules, and hold the rest of what they touch as well.

Within one L3 group the best choice has a closed form, because exchanging a unit for one of the same size
with a lower first CPU never makes a choice worse. Several groups are combined by dynamic programming.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from zun.topology.cost import CACHES, CORE_LEFT, CORES, PACK, Weights, mirrored
from zun.topology.request import PlacementRequest
from zun.topology.view import CacheView, CellView


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


class CellStock:
    """What one cell has for one request beside what is ``held``. Answers are remembered.

    At most ``budget`` CPUs, given or withheld, may come out of the shared pool.
    """

    __slots__ = ("_able", "_best", "_budget", "_cell", "_costs", "_free", "_groups", "_known_plain", "_picks", "_rules",
                 "_sizes", "_stocks")

    def __init__(self, cell: CellView, held: int, rules: Rules, budget: int) -> None:
        self._cell, self._rules, self._budget = cell, rules, budget
        self._free = self._able = cell.dedicated & ~held
        if rules.keep:
            self._able = 0
            for cache in cell.caches:
                if may_keep(cell, cache, held, rules.keep):
                    self._able |= self._free & cache.mask
        self._stocks = [_stock(cell, cache, self._able, rules.policy) for cache in cell.caches]
        self._sizes = [stock.size for stock in self._stocks]
        self._costs: dict[int, int | None] = {}
        self._groups: list[list[int]] = []
        self._picks: dict[int, Pick | None] = {}
        self._best: dict[int, set[int]] = {}
        self._known_plain: bool | None = None

    @property
    def _plain(self) -> bool:
        """Whether all cores are alike, and whichever are taken the pool pays for as many or can pay for all."""
        if self._known_plain is None:
            paid = self._free & self._cell.pool
            even = paid == self._free or paid.bit_count() <= self._budget
            few = len(self._stocks) <= FEW
            self._known_plain = even and few and not self._rules.keep and _alike(self._stocks)
        return self._known_plain

    def cost(self, want: int) -> int | None:
        """The cost of ``pick(want)``, mostly without looking for the CPUs; None when there are not so many."""
        if want in self._costs:
            return self._costs[want]
        if self._plain:
            cost = self._plain_cost(want)
        else:
            found = self.pick(want)
            cost = None if found is None else found.cost
        self._costs[want] = cost
        return cost

    def pick(self, want: int) -> Pick | None:
        """The best ``want`` CPUs, None when there are not so many."""
        if want not in self._picks:
            self._picks[want] = self._pick(want)
        return self._picks[want]

    def _pick(self, want: int) -> Pick | None:
        cell, rules = self._cell, self._rules
        best = self._unlimited(want)
        if best is None:
            return None
        if rules.keep:
            kept = _kept(cell, best.cpus, rules.keep)
            if (kept & cell.pool).bit_count() > self._budget:
                best = None if rules.keep == "node" else self._within_budget(want)
                if best is None:
                    return None
                kept = _kept(cell, best.cpus, rules.keep)
            # Groups out of reach are left as well.
            cost = best.cost + (self._free & ~self._able).bit_count() * rules.weights.cell_left
            return Pick(cost, best.cpus, best.withheld | kept & ~best.cpus)
        if ((best.cpus | best.withheld) & cell.pool).bit_count() <= self._budget:
            return best
        return None if self._plain else self._within_budget(want)

    def _within_budget(self, want: int) -> Pick | None:
        return _within_budget(self._cell, self._able, want, self._rules, self._budget)

    def _unlimited(self, want: int) -> Pick | None:
        """``pick`` as if the pool did not matter."""
        cell, stocks, free, weights = self._cell, self._stocks, self._able, self._rules.weights
        if len(stocks) == 1:
            taken = stocks[0].take(want)
            return taken and _priced(taken, free, free, weights)
        if max(self._sizes) >= want:
            return _in_one_cache(cell, stocks, free, want, weights)
        if sum(self._sizes) < want:
            return None
        if self._plain:
            return self._merged(want)
        return _across_caches(cell, stocks, free, want, weights)

    def least(self, want: int) -> int:
        """No more than ``cost(want)``, at once: as few groups and cores as their sizes allow."""
        if want in self._costs:
            return self._costs[want] or 0
        threads = 1 if self._rules.policy == "isolate" else max(core.bit_count() for core in self._cell.cores)
        # To spread makes what is left negative, though never as much as CORE_LEFT together.
        return _fewest(self._sizes, want) * CACHES - (-want // threads) * CORES - 2 * CORE_LEFT

    # Where all cores are alike, an L3 group is three numbers (pairs, single threads, free CPUs, added up in one
    # integer), and so are several together. The fewest groups that suffice are all used whatever is taken of
    # them, so together they are as good as one group.

    def _plain_cost(self, want: int) -> int | None:
        free, (_, _, weights), policy = self._free.bit_count(), self._rules, self._stocks[0].policy
        used = 2 * want if policy == "isolate" else want if policy == "prefer" else want + (want & 1)
        if self._free & ~self._cell.pool == 0 and used > self._budget:
            return None
        caches = _fewest(self._sizes, want)
        best = None
        for group in self._groups_of(caches) if caches <= len(self._sizes) else ():
            priced = _price(group >> 40, group >> 20 & 0xFFFFF, want, policy)
            if priced is not None:
                priced += (group & 0xFFFFF) * weights.cache_left
                if best is None or priced < best:
                    best = priced
                    self._best[want] = {group}
                elif priced == best:
                    self._best[want].add(group)
        if best is None:
            return None
        return best + caches * CACHES - used * weights.cache_left + (free - used) * weights.cell_left

    def _groups_of(self, caches: int) -> list[int]:
        """The sums of every choice of so many L3 groups, each once."""
        if caches == 1:
            return self._numbers()
        if not self._groups:
            sums: list[set[int]] = [{0}, *(set() for _ in self._stocks)]
            for number, group in enumerate(self._numbers()):
                for chosen in range(number, -1, -1):
                    sums[chosen + 1] |= {group + other for other in sums[chosen]}
            self._groups = [list(each) for each in sums]
        return self._groups[caches]

    def _numbers(self) -> list[int]:
        return [
            stock.pairs.bit_count() << 40 | stock.ones.bit_count() << 20 | (cache.mask & self._free).bit_count()
            for cache, stock in zip(self._cell.caches, self._stocks, strict=True)
            if isinstance(stock, Pairs)
        ]

    def _merged(self, want: int) -> Pick | None:
        """``pick`` over two or more L3 groups of one kind of cores."""
        cost = self.cost(want)
        if cost is None:
            return None
        numbers, best = self._numbers(), None
        for chosen in combinations(range(len(numbers)), _fewest(self._sizes, want)):
            if sum([numbers[c] for c in chosen]) in self._best[want]:
                found = _together([self._stocks[c] for c in chosen]).take(want)
                if found is not None and (best is None or _lower(found.cpus, best.cpus)):
                    best = found
        assert best is not None, "it has a cost"
        return Pick(cost, best.cpus, best.withheld)


FEW = 8
"""L3 groups of a cell of which every choice is looked at: 256 at most."""


def _alike(stocks: Sequence[Stock]) -> bool:
    """Whether cores of these groups can be taken together as if they were in one."""
    first = stocks[0]
    return isinstance(first, Pairs) and all(
        isinstance(stock, Pairs) and stock[2:] == first[2:] for stock in stocks
    )


def _together(stocks: Sequence[Stock]) -> Pairs:
    pairs = ones = stride = 0
    for stock in stocks:
        assert isinstance(stock, Pairs)
        pairs, ones, stride = pairs | stock.pairs, ones | stock.ones, stock.stride
    return Pairs(pairs, ones, stride, stocks[0].policy)


def _fewest(sizes: Sequence[int], want: int) -> int:
    """How many of these can give ``want`` together; more than there are when none can."""
    total = 0
    for number, size in enumerate(sorted(sizes, reverse=True)):
        total += size
        if total >= want:
            return number + 1
    return len(sizes) + 1


def _price(pairs: int, ones: int, want: int, policy: str) -> int | None:
    """The cost of ``Pairs.take`` from so many."""
    if policy == "isolate":
        return want * (CORES + CORE_LEFT) if want <= pairs else None
    used = min(pairs, want // 2)
    rest = want - 2 * used
    if rest <= ones:
        return (used + rest) * CORES
    return (used + 1) * CORES + CORE_LEFT if rest == 1 and used < pairs else None


def capacity(cell: CellView, held: int, rules: Rules, budget: int) -> int:
    """The largest number of CPUs a ``CellStock`` can give; ``budget`` at most may come out of the pool."""
    free, pool = cell.dedicated & ~held, cell.pool
    if rules.policy == "prefer":
        return (free & ~pool).bit_count() + min((free & pool).bit_count(), budget)
    goods = []
    for cache in cell.caches:
        units = units_of(cell, cache, free, rules.policy)
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
    if sum(price for price, _ in goods) <= budget:
        return sum(gain for _, gain in goods)
    best = {0: 0}
    for price, gain in goods:
        for paid, gained in list(best.items()):
            if paid + price <= budget and best.get(paid + price, -1) < gained + gain:
                best[paid + price] = gained + gain
    return max(best.values())


def units_of(cell: CellView, cache: CacheView, free: int, policy: str) -> list[int]:
    """The units of one L3 group, in order of their lowest CPU."""
    if policy == "prefer":
        # Of a broken core the lowest thread may be the one taken, so its place among the others changes.
        return sorted((core & free for core in cache.cores if core & free), key=_first)
    whole = [core for core in cache.cores if core in cell.whole and not core & ~free]
    return [core for core in whole if core & (core - 1)] if policy == "require" else whole


def _first(unit: int) -> int:
    return unit & -unit


# What isolation keeps


def may_keep(cell: CellView, cache: CacheView, held: int, keep: str) -> bool:
    """Whether one container can have all of this L3 group (for ``node``: all of its cell) to itself."""
    if keep == "node":
        return not cell.online & held
    return cache.kept > 0 and not cache.mask & held


def kept_with(cell: CellView, cpus: int, isolation: str) -> int | None:
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
        return kept | cell.everyone
    for cache in cell.caches if isolation == "l3" else ():
        if cache.mask & cpus:
            if not cache.kept:
                return None
            kept |= cache.kept
    return kept


def _kept(cell: CellView, cpus: int, keep: str) -> int:
    if keep == "node":
        return cell.everyone
    kept = 0
    for cache in cell.caches:
        if cache.mask & cpus:
            kept |= cache.kept
    return kept


# One cell


def _priced(taken: Pick, cache_free: int, cell_free: int, weights: Weights) -> Pick:
    """``taken`` inside one L3 group, with what it leaves of the group and of the cell."""
    cost, cpus, withheld = taken
    used = (cpus | withheld).bit_count()
    cost += CACHES + (cache_free.bit_count() - used) * weights.cache_left
    return Pick(cost + (cell_free.bit_count() - used) * weights.cell_left, cpus, withheld)


def _in_one_cache(cell: CellView, stocks: Sequence[Stock], free: int, want: int, weights: Weights) -> Pick | None:
    best = None
    for cache, stock in zip(cell.caches, stocks, strict=True):
        if stock.size < want or (taken := stock.take(want)) is None:
            continue
        found = _priced(taken, cache.mask & free, free, weights)
        if best is None or found.cost < best.cost or (found.cost == best.cost and _lower(found.cpus, best.cpus)):
            best = found
    return best


def _lower(mask: int, other: int) -> bool:
    """Whether ``mask`` has the lower ids: it holds the lowest CPU in which the two differ."""
    differ = mask ^ other
    return bool(differ & -differ & mask)


def _across_caches(cell: CellView, stocks: Sequence[Stock], free: int, want: int, weights: Weights) -> Pick | None:
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
            (count, *_keyed(taken, cache.mask & free, width, weights))
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
    return _finished(best[caches].get(want), free, width, weights)


def _keyed(taken: Pick, cache_free: int, width: int, weights: Weights) -> tuple[int, int, int]:
    left = cache_free.bit_count() - (taken.cpus | taken.withheld).bit_count()
    cost = taken.cost + CACHES + left * weights.cache_left
    return (cost << width) - mirrored(taken.cpus, width), taken.cpus, taken.withheld


def _finished(found: tuple[int, int, int] | None, free: int, width: int, weights: Weights) -> Pick | None:
    if found is None:
        return None
    key, cpus, withheld = found
    cost = -(-key >> width)  # rounds up: the ids were taken off
    left = (free & ~(cpus | withheld)).bit_count()
    return Pick(cost + left * weights.cell_left, cpus, withheld)


# One L3 group. The costs of these picks count cores and what is left of them, no more.


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


@dataclass(slots=True)
class Units:
    """Cores of any sizes."""

    units: Sequence[int]
    policy: str
    size: int = 0
    _known: dict[int, Pick | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.size = len(self.units) if self.policy == "isolate" else sum(map(int.bit_count, self.units))

    def take(self, want: int) -> Pick | None:
        if want not in self._known:
            self._known[want] = self._take(want)
        return self._known[want]

    def _take(self, want: int) -> Pick | None:
        if self.policy == "isolate":
            return _take_isolated(self.units, want)
        sizes = {unit.bit_count() for unit in self.units}
        if len(sizes) == 1:
            return _take_uniform(self.units, want, sizes.pop(), self.policy)
        return _take_mixed(self.units, want, self.policy)


Stock = Pairs | Units


def _stock(cell: CellView, cache: CacheView, free: int, policy: str) -> Stock:
    """What is free in one L3 group, in the form in which it is quickest to choose from."""
    stride = cache.stride
    if stride < 0:
        return Units(units_of(cell, cache, free, policy), policy)
    here = free & cache.mask
    if stride == 0:
        if policy == "require":
            return Pairs(0, 0, 0, "prefer")
        return Pairs(0, here if policy == "prefer" else here & cache.whole, 0, "prefer")
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
    """The union of ``cores`` units without its ``left`` highest threads, which go idle where cores are whole."""
    cpus = union
    for _ in range(left):
        cpus ^= 1 << (cpus.bit_length() - 1)
    withheld = 0 if policy == "prefer" else union ^ cpus
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
    spare = mask.bit_count() - count
    if spare < count:
        for _ in range(spare):
            mask ^= 1 << (mask.bit_length() - 1)
        return mask
    rest = mask
    for _ in range(count):
        rest &= rest - 1
    return mask ^ rest


# With a budget


def _within_budget(cell: CellView, free: int, want: int, rules: Rules, budget: int) -> Pick | None:
    """As ``pick`` when the budget decides: the same search, also by CPUs taken out of the pool.

    Slow and rare: only where CPUs of one cell differ in what they cost the pool, so where the operator's
    sets overlap, or cores or L3 groups that are taken whole have different sizes.
    """
    policy, keep, weights = rules
    by_unit = 0 if keep else cell.pool  # a group that is kept whole costs the same whatever is used of it
    width = cell.dedicated.bit_length()
    whole: States = {(0, 0): (0, 0, 0)}
    for cache in cell.caches:
        inside: States = {(0, 0): (0, 0, 0)}
        for unit in units_of(cell, cache, free, policy):
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
    return _finished(min(found), free, width, weights) if found else None


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
