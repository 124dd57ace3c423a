# SPDX-License-Identifier: Apache-2.0
import collections
import functools
import threading
from concurrent.futures import ThreadPoolExecutor

from zun.compute.lines import Lines


def test_work_about_one_thing_is_done_in_its_order():
    done = collections.defaultdict(list)
    with ThreadPoolExecutor(4) as workers:
        lines = Lines(workers)
        for number in range(300):
            lines.put("abc"[number % 3], functools.partial(done["abc"[number % 3]].append, number))
    assert dict(done) == {name: list(range(start, 300, 3)) for start, name in enumerate("abc")}


def test_what_waits_behind_other_work_takes_no_worker():
    go_on, other = threading.Event(), threading.Event()
    with ThreadPoolExecutor(2) as workers:
        lines = Lines(workers)
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
        lines = Lines(workers)
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
        lines = Lines(workers)
        for about in ("under way", "waits", "waits"):
            lines.put(about, lambda: go_on.wait(60))
        told = lines.about()
        go_on.set()
    assert (told, lines.about()) == ({"under way", "waits"}, set())
