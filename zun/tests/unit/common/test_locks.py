# SPDX-License-Identifier: Apache-2.0
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from zun.common.locks import KeyedLocks, StillHeld
from zun.tests.unit.common.proof import busy_switching


@pytest.mark.parametrize("keys", [("a",), ("a", "b", "c")])
def test_one_at_a_time_for_each_key(keys):
    locks = KeyedLocks()
    counts = dict.fromkeys(keys, 0)
    start = threading.Barrier(8)

    def work():
        start.wait(60)
        for turn in range(150):
            key = keys[turn % len(keys)]
            with locks(key):
                seen = counts[key]
                for _ in range(5):  # time for another thread to read the same number
                    pass
                counts[key] = seen + 1

    with busy_switching(), ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(work) for _ in range(8)]:
            done.result()
    assert counts == dict.fromkeys(keys, 8 * 150 // len(keys))


def test_other_keys_do_not_wait():
    locks = KeyedLocks()

    def take(key):
        with locks(key):
            return key

    with ThreadPoolExecutor(1) as pool, locks("a"):
        assert pool.submit(take, "b").result(timeout=60) == "b"


def test_who_waits_goes_on_when_the_key_is_left():
    locks = KeyedLocks()
    order = []
    waiting = threading.Event()

    def second():
        waiting.set()
        with locks("a"):
            order.append("second")

    with ThreadPoolExecutor(1) as pool:
        with locks("a"):
            done = pool.submit(second)
            assert waiting.wait(60)
            order.append("first")
        done.result(timeout=60)
    assert order == ["first", "second"]


def test_who_has_waited_long_enough_goes_away():
    locks = KeyedLocks()

    def take(patience):
        with locks("a", patience):
            return patience

    with ThreadPoolExecutor(1) as pool:
        with locks("a"), pytest.raises(StillHeld):
            pool.submit(take, 0.01).result(timeout=60)
        assert pool.submit(take, 0.01).result(timeout=60) == 0.01
    assert locks.wanted() == {}


def test_the_holder_may_enter_again():
    locks = KeyedLocks()
    with locks("a"), locks("a"):
        pass
    assert locks.wanted() == {}


def test_keys_are_forgotten_when_nobody_wants_them():
    locks = KeyedLocks()
    with locks("a"), locks("b"):
        assert set(locks.wanted()) == {"a", "b"}
    with pytest.raises(RuntimeError), locks("c"):
        raise RuntimeError
    with ThreadPoolExecutor(8) as pool:

        def take(number):
            with locks(f"key-{number % 5}"):
                return number

        list(pool.map(take, range(500)))
    assert locks.wanted() == {}
