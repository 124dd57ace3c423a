# SPDX-License-Identifier: Apache-2.0
"""The limit of wrong passwords, with a clock of the test's own."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.api import basic, limits


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_after_the_limit_one_try_a_minute(clock):
    tries = basic.Tries(clock)
    for count in range(1, limits.WRONG_PASSWORDS + 1):
        assert tries.wait("alice", "a") == 0
        assert tries.failed("alice", "a") == count
    for _ in range(3):
        assert tries.wait("alice", "a") == limits.WAIT_SECONDS
        clock.now += limits.WAIT_SECONDS - 0.5
        assert tries.wait("alice", "a") == 1
        clock.now += 0.5
        assert tries.wait("alice", "a") == 0
        tries.failed("alice", "a")
    tries.passed("alice", "a")
    assert tries.wait("alice", "a") == 0 and tries.failed("alice", "a") == 1


def test_the_table_is_bounded(clock, monkeypatch):
    monkeypatch.setattr(limits, "KEPT_NAMES", 3)
    tries = basic.Tries(clock)
    for _ in range(limits.WRONG_PASSWORDS):
        tries.failed("alice", "a")
    for number in range(2):
        tries.failed(f"user-{number}", "a")
    assert tries.wait("alice", "a") > 0
    tries.failed("user-2", "a")
    assert tries.wait("alice", "a") == 0  # the oldest is forgotten
    assert len(tries._failed) == 3


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.booleans()), max_size=60))
def test_a_name_and_address_waits_for_its_own_tries_only(requests):
    tries, since = basic.Tries(Clock()), {}
    for user, address, right in requests:
        waits = since.get((user, address), 0) >= limits.WRONG_PASSWORDS
        assert (tries.wait(user, address) > 0) == waits
        if waits:
            continue
        if right:
            tries.passed(user, address)
            since[user, address] = 0
        else:
            tries.failed(user, address)
            since[user, address] = since.get((user, address), 0) + 1


def test_a_long_name_takes_as_little_room_as_a_short_one():
    tries = basic.Tries()
    tracemalloc.start()
    try:
        for number in range(100):
            tries.failed(f"{number}" + "n" * 100_000, "address")
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()
