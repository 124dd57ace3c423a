# SPDX-License-Identifier: Apache-2.0
import collections
import functools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from zun.compute.lines import Lines
from zun.tests.fixtures import wait_for


def test_work_about_one_thing_is_done_in_its_order():
    done = collections.defaultdict(list)
    with ThreadPoolExecutor(4) as workers:
        lines = Lines(workers, workers)
        for number in range(300):
            lines.put("abc"[number % 3], functools.partial(done["abc"[number % 3]].append, number))
    assert dict(done) == {name: list(range(start, 300, 3)) for start, name in enumerate("abc")}


def test_what_waits_behind_other_work_takes_no_worker():
    go_on, other = threading.Event(), threading.Event()
    with ThreadPoolExecutor(2) as workers:
        lines = Lines(workers, workers)
        for _ in range(10):
            lines.put("slow", lambda: go_on.wait(60))
        lines.put("other", other.set)
        assert other.wait(60)
        go_on.set()


def test_what_waits_already_is_not_asked_for_again():
    """Though it is while it is under way: it may have looked before what it is asked for now."""
    begun, go_on, done = threading.Event(), threading.Event(), []

    def look():
        done.append("look")
        begun.set()
        assert go_on.wait(60)

    with ThreadPoolExecutor(1) as workers:
        lines = Lines(workers, workers)
        lines.put("a", look, name="look")
        assert begun.wait(60)
        for _ in range(3):
            lines.put("a", look, name="look")
            lines.put("a", functools.partial(done.append, "other"), name="other")
        lines.put("a", functools.partial(done.append, "asked"))
        go_on.set()
    assert done == ["look", "look", "other", "asked"]


def test_what_it_is_about_is_told_until_it_is_done():
    go_on = threading.Event()
    with ThreadPoolExecutor(1) as workers:
        lines = Lines(workers, workers)
        for about in ("under way", "waits", "waits"):
            lines.put(about, lambda: go_on.wait(60), also=f"image of what {about}")
        told = lines.about()
        go_on.set()
    told_so = {"under way", "waits", "image of what under way", "image of what waits"}
    assert (told, lines.about()) == (told_so, set())


def test_what_waits_for_long_takes_no_worker_and_keeps_its_place():
    go_on, other, done = threading.Event(), threading.Event(), []
    with ThreadPoolExecutor(1, "waiter") as waiters, ThreadPoolExecutor(1, "worker") as workers:
        lines = Lines(workers, waiters)

        def note(what):
            done.append((what, threading.current_thread().name.partition("_")[0]))

        def wait():
            assert go_on.wait(60)
            note("waited")

        lines.put("a", functools.partial(note, "before"))
        lines.put("a", wait, waits=True)
        lines.put("a", functools.partial(note, "after"))
        lines.put("b", other.set)
        assert other.wait(60)
        go_on.set()
        wait_for(lambda: not lines.about())
    assert done == [("before", "worker"), ("waited", "waiter"), ("after", "worker")]


def test_what_comes_behind_a_long_wait_is_done_though_the_workers_are_stopped():
    go_on, done = threading.Event(), []
    with ThreadPoolExecutor(1) as waiters:
        with ThreadPoolExecutor(1) as workers:
            lines = Lines(workers, waiters)
            lines.put("a", lambda: go_on.wait(60), waits=True)
            lines.put("a", functools.partial(done.append, "after"))
        go_on.set()
    assert (done, lines.about()) == (["after"], set())


def test_what_comes_behind_needs_something_to_be_behind():
    go_on, done = threading.Event(), []
    with ThreadPoolExecutor(1) as workers:
        lines = Lines(workers, workers)
        put_behind = functools.partial(lines.put_behind, "a", functools.partial(done.append, "look"), "look")
        assert not put_behind()
        lines.put("a", lambda: go_on.wait(60))
        lines.put("a", functools.partial(done.append, "asked"))
        assert put_behind() and put_behind()
        go_on.set()
    assert done == ["asked", "look"]


@pytest.mark.parametrize("busy", [False, True])
def test_what_ends_a_wait_is_done_beside_it(busy):
    """Before what waits behind it as well, and also while that waits for a thread."""
    ended, done = threading.Event(), []
    with ThreadPoolExecutor(1) as waiters, ThreadPoolExecutor(1) as workers:
        lines = Lines(workers, waiters)
        if busy:
            lines.put("other", lambda: ended.wait(60), waits=True)
        lines.put("a", lambda: done.append(("stopped", ended.wait(60))), waits=True, lingers=True)
        lines.put("a", functools.partial(done.append, "paused"))
        lines.put("a", functools.partial(done.append, "never"), beside=lambda: not ended.set())
    assert done == [("stopped", True), "paused"]


def test_what_ends_a_wait_that_has_not_begun_waits_for_that():
    go_on, ended, done = threading.Event(), threading.Event(), []
    with ThreadPoolExecutor(2) as workers:
        lines = Lines(workers, workers)
        lines.put("a", lambda: done.append(("committed", go_on.wait(60))))
        lines.put("a", lambda: done.append(("stopped", ended.wait(60))), lingers=True)
        lines.put("a", functools.partial(done.append, "never"), beside=lambda: not ended.set())
        assert not ended.is_set()
        go_on.set()
        wait_for(lambda: not lines.about())
    assert done == [("committed", True), ("stopped", True)]


def test_what_is_done_in_part_beside_a_wait_is_done_in_its_turn():
    ended, done = threading.Event(), []
    with ThreadPoolExecutor(2) as workers:
        lines = Lines(workers, workers)
        lines.put("a", lambda: done.append(("stopped", ended.wait(60))), lingers=True)
        lines.put("a", functools.partial(done.append, "paused"))
        lines.put("a", functools.partial(done.append, "deleted"), beside=lambda: bool(ended.set()))
        lines.put("a", functools.partial(done.append, "after"))
    assert done == [("stopped", True), "paused", "deleted", "after"]


def test_nothing_is_beside_what_does_not_linger():
    go_on, done = threading.Event(), []
    with ThreadPoolExecutor(2) as workers:
        lines = Lines(workers, workers)
        lines.put("a", lambda: done.append(("committed", go_on.wait(60))))
        lines.put("a", functools.partial(done.append, "killed"), beside=lambda: not done.append("beside"))
        go_on.set()
        wait_for(lambda: not lines.about())
    assert done == [("committed", True), "killed"]


def test_a_wait_is_ended_though_the_workers_are_stopped():
    go_on, ended, done = threading.Event(), threading.Event(), []
    with ThreadPoolExecutor(1) as waiters:
        with ThreadPoolExecutor(1) as workers:
            lines = Lines(workers, waiters)
            lines.put("a", lambda: go_on.wait(60), waits=True)
            lines.put("a", lambda: done.append(("stopped", ended.wait(60))), waits=True, lingers=True)
            lines.put("a", functools.partial(done.append, "never"), beside=lambda: not ended.set())
        go_on.set()
    assert (done, lines.about()) == ([("stopped", True)], set())
