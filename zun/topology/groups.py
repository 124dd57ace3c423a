# SPDX-License-Identifier: Apache-2.0
"""Which L3 groups of a cell: the best choice of a given number of them, exactly.

The fewest groups that suffice are all used whatever is taken of them, so together they are as good as one group, and
only sums over the chosen groups matter. Sums that some choice reaches are the bits of one large integer, so that one
shift adds a group to every choice there is, and one mask finds those that serve.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from operator import itemgetter, mul, sub
from struct import unpack
from typing import NamedTuple

from zun.topology.threads import Threads, Units, columns, kinds_of, steps, with_some

Best = tuple[int, int, int, int]
"""What the best choices of so many groups have in common: cores, threads left over or withheld on these, free CPUs in
the chosen groups, and what tells ``unions`` which choices they are (place)."""


FEW_GROUPS = 8
"""Up to here it is quicker to list all choices at once, 256 at most, than those of so many groups one by one."""


class GroupList(NamedTuple):
    """The groups of a cell from which CPUs can be taken, in one order."""

    masks: Sequence[int]
    sizes: Sequence[int]
    """CPUs that can be taken of each."""
    frees: Sequence[int]
    """Free CPUs, also of cores that cannot be used."""


def groups_of(masks: Sequence[int], able: int, threads: Threads) -> GroupList:
    """The groups of these ``masks`` that have something of ``threads``, all of it in ``able``; one alone as it is."""
    if len(masks) == 1:
        return GroupList(masks, [threads.size], [able.bit_count()])
    sizes = _sizes(masks, able, threads)
    if 0 in sizes:
        masks = [mask for mask, size in zip(masks, sizes, strict=True) if size]
        sizes = [size for size in sizes if size]
    return GroupList(masks, sizes, [(able & mask).bit_count() for mask in masks])


def _sizes(masks: Sequence[int], able: int, threads: Threads) -> list[int]:
    if isinstance(threads, Units):
        usable = threads.firsts if threads.policy == "isolate" else threads.union
    else:
        firsts, ones, pattern, policy = threads
        usable = firsts | ones if policy == "isolate" else firsts * pattern | ones
    return [(usable & mask).bit_count() for mask in masks]


class EvenGroups:
    """Groups whose cores are alike: all of one size, or (thread policy ``prefer``) free pairs and single threads.

    A group is two numbers: its units (there: pairs) and its free CPUs. Bit ``free * width + units`` of a set stands
    for a choice of groups with these sums. A layer is what some of the first groups come to, by their number.
    """

    __slots__ = ("_groups", "_layers", "_needs", "_rows", "_shifts", "_single", "_size", "_spread",
                 "_threads", "_width")

    def __init__(self, threads: Threads, size: int, groups: GroupList, rows: int, spread: bool) -> None:
        """``size`` is that of every unit, 0 for pairs and single threads; no group has ``rows`` free CPUs or more,
        nor have all together."""
        self._threads, self._size, self._groups = threads, size, groups
        self._rows, self._spread = rows, spread
        if size == 0:
            pairs = dict(threads.by_size)[2]
            counts = [(pairs & mask).bit_count() for mask in groups.masks]
            self._width = rows // 2 + 1
        else:
            counts = [-(-number // size) if threads.policy != "isolate" else number for number in groups.sizes]
            self._width = rows
        width = self._width
        self._shifts = [free * width + count for free, count in zip(groups.frees, counts, strict=True)]
        self._single = 0
        self._layers: list[list[int]] = []
        self._needs: list[int] | None = None

    def best(self, number: int, want: int, most: int | None) -> Best | None:
        """The best ``number`` groups with ``most`` free CPUs at most; None when no such choice can give ``want``."""
        sums = self._sums(number)
        width = self._width
        if most is not None:
            sums &= (1 << (most + 1) * width) - 1
        if self._size:
            cores = want if self._threads.policy == "isolate" else -(-want // self._size)
            left = cores * self._size - want
            sums &= columns(width, self._rows, cores)
        else:
            cores, left, sums = self._of_pairs(sums >> want * width << want * width, want)
        if not sums:
            return None
        free = (sums.bit_length() - 1 if self._spread else (sums & -sums).bit_length() - 1) // width
        return cores, left, free, sums >> free * width & (1 << width) - 1

    def _of_pairs(self, sums: int, want: int) -> tuple[int, int, int]:
        """Cores, threads left over, and the sums that serve: as many pairs as can be used, then no broken one."""
        width, rows, half = self._width, self._rows, want >> 1
        serve = sums & columns(width, rows, half)
        if serve:
            if not want & 1:
                return half, 0, serve
            exact = serve & off_diagonal(width, rows)
            return (half + 1, 0, exact) if exact else (half + 1, 1, serve)
        enough, too_many = 0, half
        while too_many - enough > 1:
            middle = (enough + too_many) >> 1
            if sums & columns(width, rows, middle):
                enough = middle
            else:
                too_many = middle
        return want - enough, 0, sums & columns(width, rows, enough)

    def unions(self, number: int, free: int, place: int) -> list[int]:
        """Masks of the best choices: of choices that differ in their ids only, the lowest suffices."""
        masks = self._groups.masks
        if self._needs is None:
            self._needs = needs(self._shifts, masks, [firsts for _, firsts in self._threads.by_size])
        target = free * self._width
        found = []
        while place:
            reached = target + (place & -place).bit_length() - 1
            place &= place - 1
            if number > 1:
                found += self._reaching(number, reached)
                continue
            for shift, need, mask in zip(self._shifts, self._needs, masks, strict=True):
                if shift == reached and not need:
                    found.append(mask)
        return found

    def _reaching(self, number: int, target: int) -> list[int]:
        """Masks of the choices with these sums, found by going back from the last group to the first."""
        layers, requires, shifts, masks = self._layers, self._needs, self._shifts, self._groups.masks
        assert requires is not None, "it was asked by unions"
        found = []
        open_ends = [(len(shifts), number, target, 0, 0)]
        while open_ends:
            position, number, target, union, must = open_ends.pop()
            while number:
                position -= 1
                layer, rest = layers[position], target - shifts[position]
                without = number <= position and not must >> position & 1 and layer[number] >> target & 1
                if rest >= 0 and layer[number - 1] >> rest & 1:
                    need = (must | requires[position]) & ((1 << position) - 1)
                    if need.bit_count() < number:
                        if without:
                            open_ends.append((position, number, target, union, must))
                        number, target, union, must = number - 1, rest, union | masks[position], need
                        continue
                if not without:
                    break
            else:
                found.append(union)
        return found

    def _sums(self, number: int) -> int:
        """The sums of every choice of so many groups."""
        if number == 1:
            if not self._single:
                for shift in self._shifts:
                    self._single |= 1 << shift
            return self._single
        if not self._layers or number >= len(self._layers[-1]):
            layer = [1]
            self._layers = [layer]
            for shift in self._shifts:
                more = [a | b << shift for a, b in zip(layer[1:], layer, strict=False)]
                layer = [1, *more, layer[-1] << shift] if len(layer) <= number else [1, *more]
                self._layers.append(layer)
        return self._layers[-1][number]


Sort = tuple[int, int, int]
"""Cores that are alike: CPUs of each, how many of these the shared pool must pay for, and their lowest CPUs (mask)."""


def sorts_of(units: Iterable[int], pool: int) -> list[Sort]:
    """The units by how their CPUs lie, and which of these are of ``pool``: alike are those that can be used alike."""
    sorts: dict[tuple[int, int], int] = {}
    for unit in units:
        first = unit & -unit
        pattern = unit // first, (unit & pool) // first
        sorts[pattern] = sorts.get(pattern, 0) | first
    return [(unit.bit_count(), paid.bit_count(), firsts) for (unit, paid), firsts in sorts.items()]


class MixedGroups:
    """Groups with cores of many sizes, or for which the pool may be too short.

    Bit ``cores * width + threads * row + paid`` of a set stands for some of the cores: how many they are, their threads
    above the fewest that so many can have, and those that the pool pays; or, where there are fewer of these in all,
    those that it does not pay.
    """

    __slots__ = ("_budget", "_choices_of", "_coding", "_counted", "_firsts", "_groups", "_halves", "_kinds",
                 "_largest", "_layers", "_low", "_policy", "_priced", "_prices", "_row", "_rows", "_sets", "_size",
                 "_sizes", "_smallest", "_spread", "_steps", "_unpaid", "_width")

    def __init__(
        self, sorts: Sequence[Sort], policy: str, groups: GroupList, spread: bool, budget: int, prices: Sequence[int]
    ) -> None:
        """``budget`` CPUs are what the pool can pay; ``prices`` what it must for each group, empty for nothing."""
        self._policy, self._spread, self._groups, self._budget, self._prices = policy, spread, groups, budget, prices
        sizes, paid, self._firsts = zip(*sorts, strict=True)
        counts = [*map(int.bit_count, self._firsts)]
        cores, threads, price = sum(counts), _sum(counts, sizes), _sum(counts, paid)
        smallest: int = min(sizes)
        largest: int = max(sizes)
        self._smallest, self._largest = smallest, largest
        above = [size - smallest for size in sizes]
        self._unpaid = 2 * price > threads
        if self._unpaid:
            price, paid = threads - price, tuple(map(sub, sizes, paid))
        self._row = row = price + 1
        self._width = width = (threads - cores * smallest + 1) * row
        self._counted = row > 1 or self._unpaid
        self._rows, self._size = cores + 1, len(groups.masks)
        field = max(cores, self._slack_of(cores, threads)).bit_length()
        self._sizes = sizes
        price_bits = sum(prices).bit_length()
        low = self._low = self._size + price_bits
        self._priced = (1 << price_bits) - 1
        # Of the code of a choice: masks for its positions and for one field, and where slack and free CPUs are.
        self._coding = (1 << self._size) - 1, (1 << field) - 1, low + field, low + 2 * field
        self._kinds = kinds_of(self._firsts, groups.masks)
        amounts = tuple([threads * row + own for threads, own in zip(above, paid, strict=True)])
        self._steps = [steps(kind, amounts, width) for kind in self._kinds]
        self._sets: dict[int, int] = {0: 1}
        self._layers: list[int] = []
        self._halves: tuple[_Part, _Part | None] | None = None
        self._choices_of: dict[int, list[int]] = {}

    def best(self, number: int, want: int, most: int | None) -> Best | None:
        """The best ``number`` groups, None when none can give ``want``; there is no saying how much may be free."""
        assert most is None
        sets, size, low, priced, budget = self._sets, self._size, self._low, self._priced, self._budget
        every, some, slack_bit, free_bit = self._coding
        sums = self._sums(number)
        while found := self._fewest(sums, want):
            cores, left, place = found
            slack = self._slack_of(cores, want + left)
            choices = self._choices_of.get(number) or self._choices(number)
            start = bisect_left(choices, want + left << free_bit)
            for code in reversed(choices) if self._spread else islice(choices, start, None):
                if code >> low & some < cores or code >> slack_bit & some < slack:
                    continue
                if priced and code >> size & priced > budget:
                    continue
                chosen = code & every
                if (sets.get(chosen) or self._reach(chosen)) & place:
                    return cores, left, code >> free_bit, place
            sums = self._payable_sums(number)
        return None

    def _slack_of(self, cores: int, threads: int) -> int:
        """How far so many threads of some cores are above the fewest (``isolate``: below the most) they can have.

        No choice can give them whose cores have less of it all together.
        """
        return cores * self._largest - threads if self._policy == "isolate" else threads - cores * self._smallest

    def _payable_sums(self, number: int) -> int:
        """What some of the cores of so many groups come to that the pool can pay for."""
        sums, size, every = 0, self._size, self._coding[0]
        for code in self._choices(number):
            if code >> size & self._priced <= self._budget:
                sums |= self._sets.get(code & every) or self._reach(code & every)
        return sums

    def _fewest(self, sums: int, want: int) -> tuple[int, int, int] | None:
        """The fewest cores for ``want`` CPUs, the least threads left over on them, and the set of all such sums."""
        width, row, smallest = self._width, self._row, self._smallest
        isolated = self._policy == "isolate"
        cores = want if isolated else -(-want // self._largest)
        while cores < self._rows:
            # Those who have enough threads.
            lack = want - cores * smallest
            enough = lack * row if lack > 0 and not isolated else 0
            start = cores * width + enough
            some = sums >> start & (1 << width - enough) - 1 if enough < width else 0
            while some:
                more = ((some & -some).bit_length() - 1) // row * row
                left = (enough + more) // row - lack
                payable = (self._payable(want, left) if self._counted else 1) << more
                if some & payable:
                    return cores, left, payable << start
                some = some >> more + row << more + row
            if isolated:
                break
            cores += 1
        return None

    def _payable(self, want: int, left: int) -> int:
        """A set of the last of the numbers: all that the pool can pay for."""
        # Threads that are left over need not be paid for, unless they are withheld.
        most = self._budget + left if self._policy == "prefer" else self._budget
        if self._unpaid:
            return (1 << self._row) - (1 << min(max(0, want + left - most), self._row))
        return (1 << min(most + 1, self._row)) - 1

    def unions(self, number: int, free: int, place: int) -> Iterator[int]:
        """Masks of the best choices: of choices that differ in their ids only, the lowest suffices."""
        choices, masks, size, sets = self._choices(number), self._groups.masks, self._size, self._sets
        every, _, slack_bit, free_bit = self._coding
        # No choice serves that has less slack: these come first.
        cores, above = divmod((place & -place).bit_length() - 1, self._width)
        slack = self._slack_of(cores, cores * self._smallest + above // self._row)
        start = bisect_left(choices, free << free_bit | slack << slack_bit)
        for code in islice(choices, start, None):
            if code >> free_bit > free:
                break
            chosen = code & every
            if code >> size & self._priced <= self._budget and (sets.get(chosen) or self._reach(chosen)) & place:
                union = 0
                while chosen:
                    union |= masks[(chosen & -chosen).bit_length() - 1]
                    chosen &= chosen - 1
                yield union

    def _choices(self, number: int) -> list[int]:
        """Every choice, by its free CPUs; of choices that differ in their ids only the lowest.

        A choice is coded: its free CPUs, then the slack of its cores, their number, their price if groups have any,
        and a mask of its positions.
        """
        choices = self._choices_of.get(number)
        if choices is None:
            some, others = self._halves or self._in_halves()
            found = some[1][number](some[0]) if others is None else _together(some, others, number)
            choices = self._choices_of[number] = sorted(found)
        return choices

    def _in_halves(self) -> tuple[_Part, _Part | None]:
        """Every choice: if there are few groups out of all, else out of the first half and out of the other."""
        (masks, numbers, frees), kinds, size = self._groups, self._kinds, self._size
        low, (_, _, slack_bit, free_bit) = self._low, self._coding
        isolated = self._policy == "isolate"
        chains: list[list[int]] = []
        last: dict[Hashable, tuple[int, list[int]]] = {}
        for position, kind in enumerate(zip(frees, kinds, self._prices or [0] * size, strict=True)):
            mask, before = masks[position], last.get(kind)
            free, counts, price = kind
            cores = sum(counts)
            slack = self._slack_of(cores, _sum(counts, self._sizes) if isolated else numbers[position])
            code = free << free_bit | slack << slack_bit | cores << low | price << size | 1 << position
            if before is not None and are_lower(before[0], mask, self._firsts):
                chain = before[1]
                chain.append(chain[-1] + code)
            else:
                chain = [code]
                chains.append(chain)
            last[kind] = mask, chain
        if size <= FEW_GROUPS:
            self._halves = _part(chains), None
        else:
            half = len(chains) // 2
            self._halves = _part(chains[:half]), _part(chains[half:])
        return self._halves

    def _reach(self, chosen: int) -> int:
        """What some of the cores of these groups come to."""
        position = chosen.bit_length() - 1
        rest = chosen ^ 1 << position
        found = self._sets.get(rest) or self._reach(rest)
        for step in self._steps[position]:
            found |= found << step
        self._sets[chosen] = found
        return found

    def _sums(self, number: int) -> int:
        """What some of the cores of any so many groups come to."""
        if number == self._size:
            every = (1 << number) - 1
            return self._sets.get(every) or self._reach(every)
        if number >= len(self._layers):
            block = self._rows * self._width
            some, whole = 1, (1 << (number + 1) * block) - 1
            for more in self._steps:
                some |= with_some(some, more) << block & whole
            self._layers = [some >> n * block & (1 << block) - 1 for n in range(number + 1)]
        return self._layers[number]


def _sum(counts: Sequence[int], amounts: Sequence[int]) -> int:
    return sum(map(mul, counts, amounts))


_Pick = Callable[[Sequence[int]], Sequence[int]]

_Part = tuple[Sequence[int], Sequence[_Pick]]
"""Codes of every choice out of some groups, and what picks those of so many groups."""


def _part(chains: Sequence[Sequence[int]]) -> _Part:
    """Every sum of one or none of each chain, by how far along these are together."""
    lengths = tuple(map(len, chains))
    if sum([chain[-1] for chain in chains]) >= 1 << 32:
        codes = [0]
        for chain in chains:
            codes += [code + more for more in chain for code in codes]
        return codes, _numbered(lengths)
    # Side by side in one integer one addition makes as many of them as there are.
    together, bits = 0, 32
    for chain in chains:
        fewer, ones, step = together, _ones(bits), bits
        for more in chain:
            together |= fewer + more * ones << bits
            bits += step
    return unpack(f"<{bits // 32}I", together.to_bytes(bits // 8, "little")), _numbered(lengths)


@lru_cache(maxsize=1024)
def _ones(bits: int) -> int:
    """A one in every 32 bits."""
    return ((1 << bits) - 1) // ((1 << 32) - 1)


def _together(some: _Part, others: _Part, number: int) -> list[int]:
    """Codes of the choices of so many groups out of both parts."""
    (codes, picks), (other_codes, other_picks) = some, others
    return [
        code + more
        for count in range(max(0, number + 1 - len(other_picks)), min(number + 1, len(picks)))
        for code in picks[count](codes)
        for more in other_picks[number - count](other_codes)
    ]


@lru_cache(maxsize=1024)
def _numbered(lengths: tuple[int, ...]) -> Sequence[Callable[[Sequence[int]], Sequence[int]]]:
    """What picks those sums that are so far along."""
    counts = [0]
    for length in lengths:
        counts = [count + more for more in range(length + 1) for count in counts]
    found: list[list[int]] = [[] for _ in range(max(counts) + 1)]
    for position, count in enumerate(counts):
        found[count].append(position)
    # For a single position ``itemgetter`` gets the sum itself.
    return [itemgetter(*some) if len(some) > 1 else itemgetter(slice(some[0], some[0] + 1)) for some in found]


def needs(kinds: Sequence[Hashable], masks: Sequence[int], sorts: Iterable[int]) -> list[int]:
    """For each group a mask of earlier ones that every choice may be required to have before this one.

    Those are of the same kind, and the first CPUs of their units are lower, sort by sort.
    """
    found = [0] * len(kinds)
    if len(set(kinds)) == len(kinds):
        return found
    last: dict[Hashable, int] = {}
    for position, (kind, mask) in enumerate(zip(kinds, masks, strict=True)):
        before = last.get(kind)
        if before is not None and are_lower(masks[before], mask, sorts):
            found[position] = found[before] | 1 << before
        last[kind] = position
    return found


def are_lower(mask: int, other: int, sorts: Iterable[int]) -> bool:
    """Whether the first CPUs in ``mask`` are below those in ``other``, sort by sort."""
    for firsts in sorts:
        above = firsts & other
        # Nothing in ``mask`` is above the lowest of them: then it is the smaller number.
        if firsts & mask >= (above & -above or 1):
            return False
    return True


@lru_cache(maxsize=1024)
def off_diagonal(width: int, rows: int) -> int:
    """A set with every sum whose higher number is not twice the lower one."""
    diagonal = sum(1 << units * (2 * width + 1) for units in range(width))
    return columns(width, rows, 0) & ~diagonal
