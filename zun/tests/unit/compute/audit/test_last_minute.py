# SPDX-License-Identifier: Apache-2.0
import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.compute.audit.last_minute import ABOUT_SECONDS, Counts, LastMinute, kept, last_minute
from zun.compute.quiet.resctrl import CacheUse
from zun.container.driver.audit import Activity, Throttling

MIB = 1 << 20


def activity(switches=None, migrations=None, waited=None, stalled=None):
    return Activity(switches, migrations, waited, stalled)


def came(by_cpu):
    return LastMinute(60, sum(by_cpu.values()), interrupts_by_cpu=by_cpu)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        pytest.param(Counts(0, {2: 5, 3: 1}), Counts(60, {2: 7, 3: 1}), came({2: 2}), id="interrupts"),
        pytest.param(Counts(0, {2: 5}), Counts(60, {2: 6, 3: 900}), came({2: 1}), id="grown-by-a-cpu"),
        pytest.param(Counts(0, {2: 5, 3: 9}), Counts(60, {3: 9}), LastMinute(60, 0), id="shrunk-by-a-cpu"),
        pytest.param(Counts(0, {2: 500}), Counts(60, {2: 3}), came({2: 3}), id="cpu-was-offline"),
        pytest.param(
            Counts(0, {}, misses={2: 5, 3: 9}), Counts(60, {}, misses={2: 8, 4: 700}), LastMinute(60, 0, llc_misses=3),
            id="misses-of-the-cpu-that-it-kept",
        ),
        pytest.param(Counts(0, {}, misses={2: 5}), Counts(60, {}), LastMinute(60, 0), id="misses-not-told-now"),
        pytest.param(
            Counts(0, {}, 8, Throttling(3, 1.5)), Counts(61, {}, 4, Throttling(5, 2.0)),
            LastMinute(61, 0, remote_kib=4, throttled_periods=2, throttled_seconds=0.5), id="memory-and-limits",
        ),
        pytest.param(
            Counts(0, {}, None, Throttling(30, 15.0)), Counts(60, {}, None, Throttling(1, 0.5)),
            LastMinute(60, 0, throttled_periods=1, throttled_seconds=0.5), id="new-process-new-group",
        ),
        pytest.param(
            Counts(0, {}, activity=activity({7: 10, 8: 5}, {7: 1, 8: 2}, 1.0, 0.25)),
            Counts(60, {}, activity=activity({7: 13, 8: 5}, {7: 1, 8: 4}, 1.5, 0.25)),
            LastMinute(60, 0, 3, 2, waited_seconds=0.5, stalled_seconds=0.0), id="threads-and-pressure",
        ),
        pytest.param(
            Counts(0, {}, activity=activity({7: 10, 8: 500})), Counts(60, {}, activity=activity({7: 11, 9: 4})),
            LastMinute(60, 0, 5), id="one-thread-ended-one-began",
        ),
        pytest.param(
            Counts(0, {}, activity=activity({7: 1000})), Counts(60, {}, activity=activity({7: 2})),
            LastMinute(60, 0, 2), id="id-of-a-thread-used-again",
        ),
        pytest.param(
            Counts(0, {}, activity=activity({7: 1})), Counts(60, {}, activity=activity({7: 2}, {7: 3}, 1.0)),
            LastMinute(60, 0, 1), id="told-only-once",
        ),
        pytest.param(Counts(0, {}, activity=activity({7: 1})), Counts(60, {}), LastMinute(60, 0), id="not-told-now"),
        pytest.param(Counts(0, None), Counts(60, None), LastMinute(60, None), id="no-cpus-of-its-own"),
        pytest.param(
            Counts(0, {}, caches=CacheUse(0, {"0": 5 * MIB, "1": 9 * MIB}, {"0": 0})),
            Counts(60, {}, caches=CacheUse(4096, {"0": 7 * MIB, "1": 2 * MIB, "2": 50 * MIB}, {"0": MIB - 1})),
            LastMinute(60, 0, llc_occupancy_kib=4, memory_total_mib=4, memory_local_mib=0), id="caches",
        ),
        pytest.param(
            Counts(0, {}), Counts(60, {}, caches=CacheUse(4096, {"0": 1}, None)),
            LastMinute(60, 0, llc_occupancy_kib=4), id="caches-told-only-once",
        ),
    ],
)  # fmt: skip
def test_last_minute(before, now, expected):
    assert last_minute(before, now) == expected


NUMBERS = st.integers(0, 2**40)
THREADS = st.none() | st.dictionaries(st.integers(1, 6), NUMBERS)
TIMES = st.none() | st.floats(0, 1e9)
READINGS = st.builds(
    Counts, st.just(0.0), st.none() | st.dictionaries(st.integers(0, 4), NUMBERS), st.none() | NUMBERS,
    st.none() | st.builds(Throttling, NUMBERS, st.floats(0, 1e9)),
    st.none() | st.builds(Activity, THREADS, THREADS, TIMES, TIMES), THREADS,
    st.none() | st.builds(CacheUse, st.none() | NUMBERS, THREADS, THREADS),
)  # fmt: skip


@given(READINGS, READINGS)
def test_no_difference_is_negative_or_more_than_is_shown(before, now):
    found = last_minute(before, now)
    amounts = [value for value in dataclasses.astuple(found) if not isinstance(value, dict)]
    assert all(value is None or value >= 0 for value in amounts)
    came = sum(found.interrupts_by_cpu.values())
    assert came == 0 if found.interrupts is None else found.interrupts == came <= sum(now.interrupts.values())
    assert found.llc_misses is None or found.llc_misses <= sum(now.misses.values())
    assert found.memory_total_mib is None or found.memory_total_mib << 20 <= sum(now.caches.total.values())
    shown = now.activity or Activity()
    assert found.switches is None or found.switches <= sum(shown.switches.values())
    assert found.migrations is None or found.migrations <= sum(shown.migrations.values())
    assert found.waited_seconds is None or found.waited_seconds <= shown.waited


@pytest.mark.parametrize(
    ("earlier", "at", "left"),
    [
        pytest.param((), 100, (), id="first"),
        pytest.param((90,), 100, (90,), id="only-a-young-one"),
        pytest.param((40, 90), 100, (40, 90), id="young-ones-wait"),
        pytest.param((0, 40, 90), 100, (40, 90), id="older-than-needed-goes"),
        pytest.param((0, 20, 55), 100, (55,), id="just-old-enough"),
    ],
)
def test_kept(earlier, at, left):
    assert tuple(each.at for each in kept([Counts(time, {}) for time in earlier], Counts(at, {}))) == left


@given(st.lists(st.floats(0.01, 200), min_size=1, max_size=60))
def test_audits_in_any_rhythm_compare_with_about_a_minute_ago(steps):
    held, time = (), 0.0
    for step in steps:
        time += step
        now = Counts(time, {})
        held = (*kept(held, now), now)
        assert sum(time - each.at >= ABOUT_SECONDS for each in held) <= 1
