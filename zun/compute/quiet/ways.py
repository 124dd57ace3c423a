# SPDX-License-Identifier: Apache-2.0
"""Decide which ways of the L3 caches each container has, and in which order the kernel is told. No I/O.

Ways are ranges of numbers: ``range(2, 5)`` are the ways 2, 3 and 4. Way 0 is the first that containers get; the last
ways are those of everybody else, as the kernel's default group has them. The kernel's groups are the only record: what
they have now decides what happens next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from zun.compute.quiet.rules import Claimed
from zun.topology import CpuSet
from zun.topology.cpuset import NO_CPUS
from zun.topology.resctrl_files import DividedCaches

EVERYBODY = ""
"""The name of the default group. The group of a container has its uuid as the name."""
ALL = 100
"""Percent."""


@dataclass(frozen=True, slots=True)
class Values:
    """The ways and the percent of memory bandwidth of a group, by the id of the cache.

    Ways that are not adjacent are an empty range.
    """

    ways: Mapping[int, range] = field(default_factory=dict)
    bandwidth: Mapping[int, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.ways or self.bandwidth)

    def of(self, cache: int) -> range:
        """Return the ways of a cache."""
        return self.ways.get(cache, range(0))

    def changed_by(self, other: Values) -> Values:
        """Return these values with those of ``other`` in their place."""
        return Values({**self.ways, **other.ways}, {**self.bandwidth, **other.bandwidth})

    def beyond(self, present: Values) -> Values:
        """Return those of these values that differ from ``present``."""
        return Values(
            {cache: ways for cache, ways in self.ways.items() if present.ways.get(cache) != ways},
            {cache: value for cache, value in self.bandwidth.items() if present.bandwidth.get(cache) != value},
        )


@dataclass(frozen=True, slots=True)
class Wanted:
    """The part of one container. A cache of which it has no part is in neither mapping."""

    cpus: CpuSet
    ways: Mapping[int, int]
    bandwidth: Mapping[int, int]


def wanted(claims: Iterable[Claimed], caches: DividedCaches) -> dict[str, Wanted]:
    """Return uuid -> the part of each container that claims ways or bandwidth.

    While it is resized, it has the larger of both claims on each cache, and the CPUs of both.
    """
    claims = list(claims)
    found = {each.uuid: Wanted(NO_CPUS, {}, {}) for each in claims if each.cache_ways or each.memory_bandwidth}
    for each in claims:
        if (before := found.get(each.uuid)) is not None:
            used = [cache for cache, cpus in caches.cpus.items() if cpus & each.cpus]
            found[each.uuid] = Wanted(
                before.cpus | each.all_cpus,
                _larger(before.ways, used, each.cache_ways),
                _larger(before.bandwidth, used, each.memory_bandwidth),
            )
    return found


def _larger(before: Mapping[int, int], caches: Iterable[int], amount: int) -> dict[int, int]:
    return {**before, **{cache: max(before.get(cache, 0), amount) for cache in caches if amount}}


def writes(
    caches: DividedCaches, parts: Mapping[str, Wanted], groups: Mapping[str, Values]
) -> Iterator[tuple[str, Values]]:
    """Yield the group and the values to write, in order, until each container has its part and the others the rest.

    ``groups`` are the present groups: the default group, those of ``parts``, and those of containers without a part,
    which get the same as everybody else. First, everybody else leaves what containers get; then these get it; at the
    end everybody else gets all that is left. No way belongs to two containers at any time, or to one and to everybody
    else.
    """
    present = dict(groups)
    laid = {cache: _laid(cache, caches, parts, groups) for cache in caches.cpus}
    last = {
        name: Values(
            {cache: each.placed.get(name, each.left) for cache, each in laid.items()}, bandwidth(caches, parts, name)
        )
        for name in groups
    }

    def write(name: str, values: Values) -> Iterator[tuple[str, Values]]:
        if due := values.beyond(present[name]):
            present[name] = present[name].changed_by(due)
            yield name, due

    for name, has in groups.items():
        strange = {cache: each for cache, each in laid.items() if name not in each.now}
        away = {cache: each.meanwhile for cache, each in strange.items() if not within(has.of(cache), each.meanwhile)}
        less = {cache: min(value, has.bandwidth.get(cache, ALL)) for cache, value in last[name].bandwidth.items()}
        yield from write(name, Values(away, less))
    for cache, each in laid.items():
        for name, ways in each.moves:
            yield from write(name, Values({cache: ways}))
    for name in groups:
        yield from write(name, last[name])


def bandwidth(caches: DividedCaches, parts: Mapping[str, Wanted], name: str) -> dict[int, int]:
    """Return the percent of a group by the id of the cache: its claim, or what the claims leave. Nothing without limit.

    The kernel rounds a percentage up to its step. What is left is rounded down, but is never below the least.
    """
    if not caches.bandwidth:
        return {}
    step, own = caches.bandwidth_step, parts[name].bandwidth if name in parts else dict[int, int]()
    found = {}
    for cache in caches.cpus:
        claimed = sum(_rounded(part.bandwidth[cache], caches) for part in parts.values() if cache in part.bandwidth)
        left = max((ALL - claimed) // step * step, caches.least_bandwidth)
        found[cache] = _rounded(own[cache], caches) if cache in own else left
    return found


def _rounded(percent: int, caches: DividedCaches) -> int:
    return min(-(-max(percent, caches.least_bandwidth) // caches.bandwidth_step) * caches.bandwidth_step, ALL)


class _Laid(NamedTuple):
    """The ways of each container in one cache: at first, and after the ``moves``, in ``placed``.

    ``now`` are the ways that containers have already and may keep. ``meanwhile`` are the ways that everybody else has
    during the moves, ``left`` those afterwards.
    """

    now: Mapping[str, range]
    moves: Sequence[tuple[str, range]]
    placed: Mapping[str, range]
    meanwhile: range
    left: range


def _laid(
    cache: int, caches: DividedCaches, parts: Mapping[str, Wanted], groups: Mapping[str, Values]
) -> _Laid:
    counts = {name: part.ways[cache] for name, part in parts.items() if cache in part.ways and name in groups}
    now: dict[str, range] = {}
    for name in counts:
        ways = groups[name].of(cache)
        if within(ways, range(caches.room)) and all(apart(ways, other) for other in now.values()):
            now[name] = ways
    moves = list(moved(counts, now, caches.room))
    placed = {**now, **dict(moves)}
    end = max((ways.stop for ways in placed.values()), default=0)
    most = max((ways.stop for ways in (*now.values(), *(ways for _, ways in moves))), default=0)
    return _Laid(now, moves, placed, range(most, caches.ways), range(end, caches.ways))


def moved(counts: Mapping[str, int], now: Mapping[str, range], room: int) -> Iterator[tuple[str, range]]:
    """Yield the moves after which each container has ``counts`` adjacent ways, in order: no two overlap in between.

    Who has enough stays at the same place. Who needs more grows there, or moves to the first hole, and so does a new
    one. If no hole is large enough, all are packed. ``now`` are ways of containers that do not overlap. If the counts
    are more than the room, who has ways keeps these, and who is last gets no more.
    """
    kept = {name: now[name][: counts[name]] for name in sorted(now, key=lambda name: now[name].start)}
    yield from ((name, ways) for name, ways in kept.items() if ways != now[name])
    aims, free = {name: len(ways) for name, ways in kept.items()}, room - sum(map(len, kept.values()))
    for name in (*kept, *sorted(counts.keys() - now.keys())):
        more = counts[name] - aims.get(name, 0)
        if more <= free:
            aims[name] = counts[name]
            free -= more
    placed, moves = dict(kept), []
    for name, count in aims.items():
        if name not in placed or len(placed[name]) < count:
            others = [ways for other, ways in placed.items() if other != name]
            hole = _hole(count, others, room, placed.get(name))
            if hole is None:
                yield from _packed(aims, kept)
                return
            placed[name] = hole
            moves.append((name, hole))
    yield from moves


def _hole(count: int, taken: Sequence[range], room: int, first: range | None) -> range | None:
    """Return ``count`` ways that are free: from the start of ``first`` on if possible, else the lowest; else None."""
    starts = sorted({0, *(ways.stop for ways in taken)})
    for start in ([first.start] if first else []) + starts:
        hole = range(start, start + count)
        if hole.stop <= room and all(apart(hole, ways) for ways in taken):
            return hole
    return None


def _packed(counts: Mapping[str, int], now: Mapping[str, range]) -> Iterator[tuple[str, range]]:
    """Yield moves that leave no hole. ``counts`` has the containers with ways first, the lowest ways first.

    First all move down with the ways that they have, the lowest first. Then they grow, and move up for that, the
    highest first.
    """
    low, end = {}, 0
    for name, ways in now.items():
        low[name] = range(end, end + len(ways))
        end += len(ways)
        if low[name] != ways:
            yield name, low[name]
    end = sum(counts.values())
    for name, count in reversed(list(counts.items())):
        place = range(end - count, end)
        end -= count
        if place != low.get(name):
            yield name, place


def within(ways: range, others: range) -> bool:
    """Return whether there are ways, and all of them are among ``others``."""
    return bool(ways) and others.start <= ways.start and ways.stop <= others.stop


def apart(one: range, other: range) -> bool:
    return one.stop <= other.start or other.stop <= one.start or not one or not other
