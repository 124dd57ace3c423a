# SPDX-License-Identifier: Apache-2.0
"""The best choice of a given number of L3 groups of one cell, exactly.

If no smaller number of groups suffices, every chosen group is used, whatever CPUs are taken. So the chosen groups are
as good as one large group, and only their sums matter. Each sum that some choice reaches is a bit of one large integer.
One shift adds a group to all choices, and one mask finds the choices that serve.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from zun.topology.search.threads import Threads, Units, columns

Best = tuple[int, int, int, int]
"""Properties that all equally good choices of groups share: cores, threads left over or withheld on them, free CPUs in
the groups, and a mask of unit counts (place), from which ``unions`` finds the choices. Example: (1, 0, 3, 0b10) is one
core, nothing left over, three free CPUs, groups with one unit."""


class GroupList(NamedTuple):
    """The L3 groups of a cell from which CPUs can be taken; all fields have the same order."""

    masks: Sequence[int]
    """CPUs of each group (mask)."""
    sizes: Sequence[int]
    """Number of CPUs that can be taken of each group."""
    frees: Sequence[int]
    """Number of free CPUs of each group, including CPUs of cores that cannot be used."""


def groups_of(masks: Sequence[int], able: int, threads: Threads) -> GroupList:
    """Return the groups that have CPUs of ``threads``. A single group is returned even if it has none.

    ``able`` is the mask of the free CPUs; all of ``threads`` is in it.
    """
    if len(masks) == 1:
        return GroupList(masks, [threads.size], [able.bit_count()])
    sizes = _sizes(masks, able, threads)
    if 0 in sizes:
        masks = [mask for mask, size in zip(masks, sizes, strict=True) if size]
        sizes = [size for size in sizes if size]
    return GroupList(masks, sizes, [(able & mask).bit_count() for mask in masks])


def _sizes(masks: Sequence[int], able: int, threads: Threads) -> list[int]:
    """Return how many CPUs of ``threads`` can be taken of each group."""
    if isinstance(threads, Units):
        usable = threads.firsts if threads.policy == "isolate" else threads.union
    else:
        firsts, ones, pattern, policy = threads
        usable = firsts | ones if policy == "isolate" else firsts * pattern | ones
    return [(usable & mask).bit_count() for mask in masks]


class EvenGroups:
    """Groups whose units all have one size, or (thread policy ``prefer``) are pairs and single threads.

    A group is two numbers: its units (or pairs) and its free CPUs. Bit ``free * width + units`` of a set stands for a
    choice of groups with these sums. Example: with width 5, three free CPUs with one pair are bit 16. Layer n is the
    list of such sets for the first n groups, by the number of groups chosen.
    """

    __slots__ = ("_groups", "_layers", "_needs", "_rows", "_shifts", "_single", "_size", "_spread",
                 "_threads", "_width")

    def __init__(self, threads: Threads, size: int, groups: GroupList, rows: int, spread: bool) -> None:
        """Prepare the sums of ``groups``.

        ``size`` is the size of every unit, or 0 for pairs and single threads. All groups together must have fewer than
        ``rows`` free CPUs. With ``spread`` most free CPUs are best, else fewest.
        """
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
        """Return what the best choices of ``number`` groups share, or None if no such choice can give ``want`` CPUs.

        The groups may have at most ``most`` free CPUs together; None is no limit.
        """
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
        """Return cores, threads left over and the sums that serve: most whole pairs, then no pair broken."""
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
        """Return the CPUs (mask) of each best choice. Of choices that differ in ids only, the lowest is enough."""
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
        """Return the CPUs (mask) of each choice with the sum ``target``, found by going back from the last group."""
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
        """Return the set of the sums of every choice of ``number`` groups."""
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
"""Alike units: CPUs of each, how many of these the shared pool must pay for, and the first CPUs of all (mask).
Example: (2, 1, 0b101) is two units of two CPUs, one of them a pool CPU, with the first CPUs 0 and 2."""


def sorts_of(units: Iterable[int], pool: int) -> list[Sort]:
    """Return the units by sort. Units are alike if their CPUs, and those in ``pool``, have the same offsets."""
    sorts: dict[tuple[int, int], int] = {}
    for unit in units:
        first = unit & -unit
        pattern = unit // first, (unit & pool) // first
        sorts[pattern] = sorts.get(pattern, 0) | first
    return [(unit.bit_count(), paid.bit_count(), firsts) for (unit, paid), firsts in sorts.items()]


def needs(kinds: Sequence[Hashable], masks: Sequence[int], sorts: Iterable[int]) -> list[int]:
    """Return for each group a mask of earlier groups that a choice must have before it may have this one.

    These are groups of the same kind with lower first CPUs in every sort of unit. So a choice without one of them has
    higher ids than the same choice with it.
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
    """Return whether, in every sort, all first CPUs in ``mask`` are below all first CPUs in ``other``."""
    for firsts in sorts:
        above = firsts & other
        # If no first CPU in ``mask`` is above the lowest of ``above``, it is the smaller number.
        if firsts & mask >= (above & -above or 1):
            return False
    return True


@lru_cache(maxsize=1024)
def off_diagonal(width: int, rows: int) -> int:
    """Return the set of all sums except those with exactly twice as many free CPUs as pairs (nothing but pairs)."""
    diagonal = sum(1 << units * (2 * width + 1) for units in range(width))
    return columns(width, rows, 0) & ~diagonal
