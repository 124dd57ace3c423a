# SPDX-License-Identifier: Apache-2.0
"""Say what disturbed a container in about the last minute: the difference of two readings of the kernel's counters.

No I/O and no clock. A counter that has become smaller began anew, because its CPU, thread or group did: then all that
it has is of the time between. So no difference is negative or larger than what the counter shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from zun.compute.quiet.resctrl import CacheUse
from zun.container.driver.audit import Activity, Throttling

K = TypeVar("K")

ABOUT_SECONDS = 45.0
"""The least age of the earlier reading. Audits that come more often keep their readings until one is that old."""


@dataclass(frozen=True, slots=True)
class Counts:
    """One reading. ``at`` is in seconds of a clock that never goes back.

    ``interrupts`` and ``misses`` of the last cache are by own CPU of the container; ``interrupts`` is None for one
    without CPUs of its own.
    """

    at: float
    interrupts: Mapping[int, int] | None
    remote_kib: int | None = None
    throttling: Throttling | None = None
    activity: Activity | None = None
    misses: Mapping[int, int] | None = None
    caches: CacheUse | None = None


@dataclass(frozen=True, slots=True)
class LastMinute:
    """The disturbances of one container in ``seconds``. A member is None if the kernel does not report it.

    ``switches`` counts how often the kernel took a CPU from a thread that wanted to go on, ``migrations`` how often one
    went to another CPU. ``remote_kib`` is the memory outside of its memory nodes now. ``waited_seconds`` is the time in
    which some of its threads waited for a CPU, ``stalled_seconds`` that in which all waited. ``interrupts_by_cpu`` has
    the CPUs to which some came. ``llc_occupancy_kib`` is what it has in the L3 caches now, ``memory_total_mib`` what it
    moved between these and memory, ``memory_local_mib`` the part of this that stayed on the node of the cache.
    """

    seconds: float
    interrupts: int | None
    switches: int | None = None
    migrations: int | None = None
    remote_kib: int | None = None
    throttled_periods: int | None = None
    throttled_seconds: float | None = None
    waited_seconds: float | None = None
    stalled_seconds: float | None = None
    llc_misses: int | None = None
    interrupts_by_cpu: Mapping[int, int] = field(default_factory=dict)
    llc_occupancy_kib: int | None = None
    memory_total_mib: int | None = None
    memory_local_mib: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the members, times with milliseconds."""
        told = {name: round(value, 3) if isinstance(value, float) else value for name, value in asdict(self).items()}
        return {**told, "interrupts_by_cpu": {str(cpu): came for cpu, came in self.interrupts_by_cpu.items()}}


def last_minute(before: Counts, now: Counts) -> LastMinute:
    """Return what came between two readings. CPUs that the container had at only one of them do not count."""
    then, since = before.activity or Activity(), now.activity or Activity()
    slow, slower = before.throttling, now.throttling
    came = _grown(before.interrupts, now.interrupts)
    used, uses = before.caches or CacheUse(), now.caches or CacheUse()
    return LastMinute(
        now.at - before.at,
        _sum(came),
        _of_threads(then.switches, since.switches),
        _of_threads(then.migrations, since.migrations),
        now.remote_kib,
        None if slow is None or slower is None else grown(slow.periods, slower.periods),
        None if slow is None or slower is None else grown(slow.seconds, slower.seconds),
        None if then.waited is None or since.waited is None else grown(then.waited, since.waited),
        None if then.stalled is None or since.stalled is None else grown(then.stalled, since.stalled),
        _sum(_grown(before.misses, now.misses)),
        {cpu: count for cpu, count in (came or {}).items() if count},
        None if uses.occupancy is None else uses.occupancy // 1024,
        _mib(_sum(_grown(used.total, uses.total))),
        _mib(_sum(_grown(used.local, uses.local))),
    )


def grown(before: float, now: float) -> Any:
    """Return by how much a counter has grown, of the type of ``now``. A smaller counter began anew."""
    return now - before if now >= before else now


def kept(earlier: Sequence[Counts], now: Counts) -> tuple[Counts, ...]:
    """Return the readings to keep beside ``now``, oldest first: ``now`` is compared with the first of them.

    This is the newest that is old enough, or the oldest if none is, and every reading after it.
    """
    old = [number for number, each in enumerate(earlier) if now.at - each.at >= ABOUT_SECONDS]
    return tuple(earlier[old[-1] if old else 0 :])


def _grown(before: Mapping[K, int] | None, now: Mapping[K, int] | None) -> dict[K, int] | None:
    """Return by how much the counters of the CPUs or caches of both readings have grown."""
    if before is None or now is None:
        return None
    return {key: grown(before[key], count) for key, count in now.items() if key in before}


def _sum(counts: Mapping[K, int] | None) -> int | None:
    return None if counts is None else sum(counts.values())


def _mib(count: int | None) -> int | None:
    return None if count is None else count >> 20


def _of_threads(before: Mapping[K, int] | None, now: Mapping[K, int] | None) -> int | None:
    """Return the sum over the threads of ``now``. A thread that was not there before has done all since then."""
    if before is None or now is None:
        return None
    return sum(grown(before.get(thread, 0), count) for thread, count in now.items())
