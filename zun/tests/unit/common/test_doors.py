# SPDX-License-Identifier: Apache-2.0
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.common.doors import Doors, Entry, client_of


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8:0:0:ffff::1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("", ""),
    ],
)
def test_client_of(address, client):
    assert client_of(address) == client


def test_the_longest_waiting_of_the_client_makes_room():
    doors = Doors(2, 10)
    assert doors.enter(1, "a") == doors.enter(2, "b") == doors.enter(3, "a") == Entry(True)
    assert doors.enter(4, "a") == Entry(True, 1)
    doors.work(3)
    doors.work(4)
    assert doors.enter(5, "a") == Entry(False)
    doors.wait(3)
    assert doors.enter(5, "a") == Entry(True, 3)


def test_the_longest_waiting_of_all_makes_room():
    doors = Doors(0, 2)
    doors.enter(1, "a"), doors.enter(2, "b")
    doors.work(1)
    assert doors.enter(3, "c") == Entry(True, 2)
    doors.work(3)
    assert doors.enter(4, "d") == Entry(False)
    doors.leave(1)
    doors.leave(1)
    assert doors.enter(4, "d") == Entry(True)


STEPS = st.lists(st.tuples(st.sampled_from(["enter", "work", "wait", "leave"]), st.integers(0, 9)), max_size=60)


@given(STEPS, st.integers(0, 3), st.integers(0, 5))
def test_limits_always_hold(steps, per_client, total):
    doors, inside = Doors(per_client, total), set()
    for step, number in steps:
        if step != "enter":
            getattr(doors, step)(number)
            inside -= {number} if step == "leave" else set()
        elif number not in inside:
            entry = doors.enter(number, str(number % 3))
            inside -= {entry.close}
            inside |= {number} if entry.admitted else set()
        assert set(doors.waiting()) <= inside
        assert not total or len(inside) <= total
        assert not per_client or max(Counter(each % 3 for each in inside).values(), default=0) <= per_client
