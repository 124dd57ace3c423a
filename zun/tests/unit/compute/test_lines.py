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
