# SPDX-License-Identifier: Apache-2.0
"""Which L3 groups of a cell: the best choice of a given number of them, exactly.

The fewest groups that suffice are all used whatever is taken of them, so together they are as good as one group, and
only sums over the chosen groups matter. Sums that some choice reaches are the bits of one large integer, so that one
shift adds a group to every choice there is, and one mask finds those that serve.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from zun.topology.threads import Threads, Units, columns, fewest, kinds_of, steps, with_some


class Best(NamedTuple):
    """What the best choices of so many groups have in common."""

    cores: int
    left: int
    """Threads left over or withheld on these cores."""
    free: int
    """Free CPUs in the chosen groups."""
    place: int
    """Tells ``unions`` which choices they are."""


class GroupList(NamedTuple):
    """The groups of a cell from which CPUs can be taken, in one order."""

    masks: Sequence[int]
    sizes: Sequence[int]
    """CPUs that can be taken of each."""
    frees: Sequence[int]
    """Free CPUs, also of cores that cannot be used."""


def groups_of(masks: Sequence[int], able: int, threads: Threads) -> GroupList:
    """The groups of these ``masks`` that have something of ``threads``, all of which is in ``able``."""
    sizes = _sizes(masks, able, threads)
    if 0 in sizes:
        masks = [mask for mask, size in zip(masks, sizes, strict=True) if size]
        sizes = [size for size in sizes if size]
    return GroupList(masks, sizes, [(able & mask).bit_count() for mask in masks])


def _sizes(masks: Sequence[int], able: int, threads: Threads) -> list[int]:
    if isinstance(threads, Units):
        usable = sum([unit & -unit for unit in threads.units] if threads.policy == "isolate" else threads.units)
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
        return Best(cores, left, free, sums >> free * width & (1 << width) - 1)

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

    def unions(self, number: int, best: Best) -> list[int]:
        """Masks of the best choices: of choices that differ in their ids only, the lowest suffices."""
        masks = self._groups.masks
        if self._needs is None:
            self._needs = needs(self._shifts, masks, self._threads)
        place, target = best.place, best.free * self._width
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


class MixedGroups:
    """Groups with cores of many sizes. Bit ``cores * width + threads`` of a set stands for some of the cores."""

    __slots__ = ("_chains", "_choices_of", "_layers", "_masks", "_one", "_policy", "_rows", "_sets", "_size", "_spread",
                 "_steps", "_width")

    def __init__(self, threads: Threads, groups: GroupList, rows: int, spread: bool) -> None:
        """All groups together have fewer than ``rows`` threads."""
        self._spread, self._policy, self._width = spread, threads.policy, rows
        self._masks = groups.masks
        kinds, sizes = kinds_of(threads, groups.masks), tuple([size for size, _ in threads.by_size])
        self._rows = sum([firsts.bit_count() for _, firsts in threads.by_size]) + 1
        self._size = size = len(kinds)
        self._steps = [steps(kind, sizes, rows) for kind in kinds]
        self._sets: dict[int, int] = {0: 1}
        self._layers: list[int] = []
        self._choices_of: dict[int, list[int]] = {}
        # A choice is coded: its free CPUs above a mask of its positions; while it is made, ``_one`` for each as well.
        self._one = rows << size
        self._chains: list[list[int]] = []
        chain_of: list[list[int]] = []
        before = needs([*zip(groups.frees, kinds, strict=True)], groups.masks, threads)
        for position, (free, need) in enumerate(zip(groups.frees, before, strict=True)):
            chain = chain_of[need.bit_length() - 1] if need else [0]
            if not need:
                self._chains.append(chain)
            chain_of.append(chain)
            chain.append(chain[-1] + self._one + (free << size | 1 << position))

    def best(self, number: int, want: int, most: int | None) -> Best | None:
        """The best ``number`` groups, None when none can give ``want``; there is no saying how much may be free."""
        assert most is None
        found = fewest(self._sums(number), self._width, self._rows, want, self._policy)
        if found is None:
            return None
        cores, left = found
        place = cores * self._width + want + left
        choices, enough = self._choices(number), want + left << self._size
        able = reversed(choices) if self._spread else islice(choices, bisect_left(choices, enough), None)
        for code in able:
            if self._reach(code) >> place & 1:
                break
        return Best(cores, left, code >> self._size, place)

    def unions(self, number: int, best: Best) -> Iterator[int]:
        """Masks of the best choices: of choices that differ in their ids only, the lowest suffices."""
        choices, size, masks = self._choices(number), self._size, self._masks
        start, end = bisect_left(choices, best.free << size), bisect_left(choices, best.free + 1 << size)
        for code in choices[start:end]:
            if self._reach(code) >> best.place & 1:
                yield sum([mask for position, mask in enumerate(masks) if code >> position & 1])

    def _choices(self, number: int) -> list[int]:
        """Every choice, by its free CPUs; of choices that differ in their ids only the lowest."""
        if number not in self._choices_of:
            found, left, one = [0], self._size, self._one
            for chain in self._chains:
                left -= len(chain) - 1
                least, end = (number - left) * one, (number + 1) * one
                found = [code for before in found for more in chain if least <= (code := before + more) < end]
            self._choices_of[number] = sorted([code % one for code in found])
        return self._choices_of[number]

    def _reach(self, code: int) -> int:
        """What some of the cores of these groups come to."""
        chosen = code & (1 << self._size) - 1
        found = self._sets.get(chosen)
        if found is None:
            position = chosen.bit_length() - 1
            found = self._sets[chosen] = with_some(self._reach(chosen ^ 1 << position), self._steps[position])
        return found

    def _sums(self, number: int) -> int:
        """What some of the cores of any so many groups come to."""
        if number >= len(self._layers):
            block = self._rows * self._width
            some, whole = 1, (1 << (number + 1) * block) - 1
            for more in self._steps:
                some |= with_some(some, more) << block & whole
            self._layers = [some >> n * block & (1 << block) - 1 for n in range(number + 1)]
        return self._layers[number]


def needs(kinds: Sequence[Hashable], masks: Sequence[int], threads: Threads) -> list[int]:
    """For each group a mask of earlier ones that every choice may be required to have before this one.

    Those are of the same kind, and the first CPUs of their units are lower, size by size.
    """
    found = [0] * len(kinds)
    if len(set(kinds)) == len(kinds):
        return found
    last: dict[Hashable, int] = {}
    for position, (kind, mask) in enumerate(zip(kinds, masks, strict=True)):
        before = last.get(kind)
        if before is not None:
            for _, firsts in threads.by_size:
                one, other = firsts & masks[before], firsts & mask
                # Nothing in ``one`` is above the lowest of ``other``: then it is the smaller number.
                if one >= (other & -other or 1):
                    break
            else:
                found[position] = found[before] | 1 << before
        last[kind] = position
    return found


@lru_cache(maxsize=1024)
def off_diagonal(width: int, rows: int) -> int:
    """A set with every sum whose higher number is not twice the lower one."""
    diagonal = sum(1 << units * (2 * width + 1) for units in range(width))
    return columns(width, rows, 0) & ~diagonal
