# SPDX-License-Identifier: Apache-2.0
"""Counters of the kernel, on this machine: with an event that every kernel counts."""

import os

import pytest

from zun.compute.audit.cache_misses import CacheMisses
from zun.tests.fixtures import wait_for

SOFTWARE, CPU_CLOCK = 1, 0


@pytest.fixture
def clock():
    made = CacheMisses(SOFTWARE, CPU_CLOCK)
    if made.counted([min(os.sched_getaffinity(0))]) is None:
        pytest.skip("this kernel lets nobody count")
    yield made
    made.close()


def files():
    return len(os.listdir("/proc/self/fd"))


def test_each_cpu_is_counted_from_the_first_question_on(clock):
    cpu = min(os.sched_getaffinity(0))
    first = clock.counted([cpu])
    assert wait_for(lambda: clock.counted([cpu])[cpu] > first[cpu])


def test_counter_of_a_cpu_that_is_no_longer_asked_for_is_closed(clock):
    cpus, before = sorted(os.sched_getaffinity(0)), files()
    assert set(clock.counted(cpus)) == set(cpus)
    assert files() == before + len(cpus) - 1
    assert clock.counted([]) == {} and files() == before - 1


def test_event_that_the_processor_does_not_count_is_none_for_good():
    before, made = files(), CacheMisses(SOFTWARE, 999)
    assert made.counted([0]) is None and made.counted([0]) is None
    assert files() == before
