# SPDX-License-Identifier: Apache-2.0
"""The order of the work in a queue, and who does the work."""

import collections
import contextlib
import functools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from zun.compute.work.work_queues import Kind, QueueBusy, Work, WorkQueues
from zun.tests.fixtures import wait_for
from zun.tests.unit.common.proof import busy_switching

SECONDS = 60


class Host:
    """Queues with threads of their own. Whatever is ``held`` by a test goes on at the end."""

    def __init__(self, workers=1, stops=1, looks=1):
        names = {Kind.OPERATION: "worker", Kind.LONG_STOP: "stop", Kind.LOOK: "look"}
        counts = dict(zip(names, (workers, stops, looks), strict=True))
        self.threads = {kind: ThreadPoolExecutor(counts[kind], name) for kind, name in names.items()}
        self.queues, self.done, self._holds = WorkQueues(self.threads), [], []

    def put(self, key, name, kind=Kind.OPERATION, /, **options):
        """Queue work that notes its name and its thread."""
        self.queues.put(key, Work(functools.partial(self.note, name), kind, **options))

    def note(self, name):
        self.done.append((name, threading.current_thread().name.partition("_")[0]))

    def hold(self, key, name, kind=Kind.OPERATION, /, **options):
        """Queue work that goes on when the second of the returned events is set. The first tells that it began."""
        begun, go_on = threading.Event(), threading.Event()
        self._holds.append(go_on)

        def work():
            begun.set()
            assert go_on.wait(SECONDS)
            self.note(name)

        self.queues.put(key, Work(work, kind, **options))
        return begun, go_on

    def names(self):
        return [name for name, _ in self.done]

    def settle(self):
        wait_for(lambda: not self.queues._queues)

    def stop(self, *kinds):
        for kind in kinds:
            self.threads[kind].shutdown(wait=True, cancel_futures=kind is Kind.LOOK)

    def close(self):
        for event in self._holds:
            event.set()
        self.stop(Kind.LOOK, Kind.OPERATION, Kind.LONG_STOP)


@pytest.fixture
def host():
    with contextlib.closing(Host()) as host:
        yield host


@pytest.fixture
def wide():
    with contextlib.closing(Host(workers=4, stops=4, looks=4)) as host:
        yield host


# Failures


@pytest.mark.parametrize("error", [ValueError("bad row"), KeyError("cpus"), SystemExit(1)])
@pytest.mark.parametrize("kind", [Kind.OPERATION, Kind.LONG_STOP, Kind.LOOK])
def test_work_that_raises_frees_its_queue(host, kind, error, caplog):
    begun, go_on = threading.Event(), threading.Event()

    def fails():
        begun.set()
        assert go_on.wait(SECONDS)
        raise error

    host.queues.put("a", Work(fails, kind, also="image", name="upload"))
    assert begun.wait(SECONDS)
    host.put("a", "next")
    go_on.set()
    host.settle()
    assert host.names() == ["next"] and host.queues.busy() == set()
    assert "Work upload on a failed" in caplog.text
    with host.queues.turn("a", SECONDS):
        pass


def test_a_beside_that_raises_has_its_turn(wide):
    def fails():
        raise ValueError("bad row")

    begun, go_on = wide.hold("a", "stop", Kind.LONG_STOP, stops=True)
    assert begun.wait(SECONDS)
    wide.put("a", "kill", beside=fails)
    go_on.set()
    wide.settle()
    assert wide.names() == ["stop", "kill"]


def test_work_that_raises_in_the_caller_s_thread(host):
    """The threads have stopped with the service."""
    host.stop(Kind.OPERATION)
    host.queues.put("a", Work(lambda: 1 / 0))
    host.put("a", "next")
    assert host.names() == ["next"] and host.queues.busy() == set()


class Full(ThreadPoolExecutor):
    """Takes work and then says that no thread can be started, as the library's own does when the host has no more."""

    def submit(self, *arguments):
        super().submit(*arguments)
        raise RuntimeError("can't start new thread")


def test_work_is_done_once_if_no_thread_can_start():
    with Full(1) as threads:
        queues, done = WorkQueues({Kind.OPERATION: threads}), []
        for number in range(50):
            queues.put("a", Work(functools.partial(done.append, number)))
    assert done == list(range(50)) and queues.busy() == set()


# Operations


def test_work_on_one_key_is_done_in_order(wide):
    done = collections.defaultdict(list)
    for number in range(300):
        key = "abc"[number % 3]
        wide.queues.put(key, Work(functools.partial(done[key].append, number)))
    wide.settle()
    assert dict(done) == {key: list(range(start, 300, 3)) for start, key in enumerate("abc")}


def test_waiting_work_takes_no_worker(wide):
    for _ in range(10):
        wide.hold("slow", "slow")
    wide.put("other", "other")
    wait_for(lambda: wide.names() == ["other"])


def test_a_name_waits_once_and_begins_again(host):
    """The running task may have looked before the change that the new request is about."""
    begun, go_on = host.hold("a", "first", name="look")
    assert begun.wait(SECONDS)
    for _ in range(3):
        host.put("a", "second", name="look")
        host.put("a", "other", name="other")
    host.put("a", "asked")
    go_on.set()
    host.settle()
    assert host.names() == ["first", "second", "other", "asked"]


def test_busy_until_the_work_is_done(host):
    _, go_on = host.hold("under way", "work", also="image of under way")
    host.put("waits", "work", also="image of waits")
    told = host.queues.busy()
    go_on.set()
    host.settle()
    told_so = {"under way", "waits", "image of under way", "image of waits"}
    assert (told, host.queues.busy()) == (told_so, set())


def test_workers_that_are_stopped_leave_no_work_undone(host):
    begun, go_on = host.hold("a", "stop", Kind.LONG_STOP)
    host.put("a", "after")
    assert begun.wait(SECONDS)
    host.stop(Kind.OPERATION)
    host.put("b", "late")
    go_on.set()
    host.stop(Kind.LONG_STOP)
    assert sorted(host.done) == [("after", "stop"), ("late", "MainThread"), ("stop", "stop")]
    assert host.queues._queues == {}


# Stops


def test_a_long_stop_takes_no_worker_and_keeps_its_place(host):
    host.put("a", "before")
    _, go_on = host.hold("a", "stop", Kind.LONG_STOP)
    host.put("a", "after")
    host.put("b", "other")
    wait_for(lambda: "other" in host.names())
    go_on.set()
    host.settle()
    assert [each for each in host.done if each[0] != "other"] == [
        ("before", "worker"),
        ("stop", "stop"),
        ("after", "worker"),
    ]


@pytest.mark.parametrize("begun", [True, False], ids=["under-way", "waits-for-a-thread"])
def test_a_kill_runs_beside_a_stop(host, begun):
    other = None if begun else host.hold("other", "other", Kind.LONG_STOP)[1]
    _, ended = host.hold("a", "stop", Kind.LONG_STOP, stops=True)
    host.put("a", "pause")
    host.put("a", "never", beside=lambda: not ended.set())
    assert ended.wait(SECONDS)
    if other is not None:
        other.set()
    host.settle()
    assert host.names() == ["other"] * (not begun) + ["stop", "pause"]


def test_a_kill_waits_until_the_stop_is_first(wide):
    begun, go_on = wide.hold("a", "commit")
    _, ended = wide.hold("a", "stop", stops=True)
    wide.put("a", "never", beside=lambda: not ended.set())
    assert begun.wait(SECONDS) and not ended.is_set()
    go_on.set()
    wide.settle()
    assert wide.names() == ["commit", "stop"]


def test_a_deletion_beside_a_stop_still_has_its_turn(wide):
    _, ended = wide.hold("a", "stop", stops=True)
    wide.put("a", "pause")
    wide.put("a", "delete", beside=lambda: bool(wide.note("in vain")))
    wait_for(lambda: wide.names())
    wide.put("a", "delete again", beside=lambda: bool(ended.set()))
    wide.put("a", "after")
    wide.settle()
    assert wide.names() == ["in vain", "stop", "pause", "delete", "delete again", "after"]


def test_a_kill_runs_beside_nothing_but_a_stop(wide):
    _, go_on = wide.hold("a", "commit")
    wide.put("a", "kill", beside=lambda: not wide.note("beside"))
    go_on.set()
    wide.settle()
    assert wide.names() == ["commit", "kill"]


def test_a_kill_that_was_too_late_for_the_stop_has_its_turn(host):
    """It was handed to the only worker while that was busy elsewhere."""
    _, elsewhere = host.hold("b", "elsewhere")
    _, ended = host.hold("a", "stop", Kind.LONG_STOP, stops=True)
    begun, go_on = host.hold("a", "second stop", Kind.LONG_STOP)
    host.put("a", "kill", beside=lambda: not host.note("beside"))
    ended.set()
    assert begun.wait(SECONDS)
    elsewhere.set()
    host.put("c", "marker")
    wait_for(lambda: "marker" in host.names())
    go_on.set()
    host.settle()
    assert host.names() == ["stop", "elsewhere", "marker", "second stop", "kill"]


def test_a_stop_ends_though_the_workers_are_stopped(host):
    begun, go_on = host.hold("a", "before", Kind.LONG_STOP)
    _, ended = host.hold("a", "stop", Kind.LONG_STOP, stops=True)
    host.put("a", "never", beside=lambda: not ended.set())
    assert begun.wait(SECONDS)
    host.stop(Kind.OPERATION)
    go_on.set()
    host.stop(Kind.LONG_STOP)
    assert (host.names(), host.queues._queues) == (["before", "stop"], {})


# Looks


def test_a_look_comes_after_operations_that_came_later(host):
    begun, go_on = host.hold("a", "first")
    assert begun.wait(SECONDS)
    host.put("a", "look", Kind.LOOK)
    host.put("a", "second")
    host.put("a", "third", Kind.LONG_STOP)
    go_on.set()
    host.settle()
    assert host.done == [("first", "worker"), ("second", "worker"), ("third", "stop"), ("look", "look")]


def test_an_operation_overtakes_a_look_without_a_thread(host):
    begun, go_on = host.hold("b", "other look", Kind.LOOK)
    assert begun.wait(SECONDS)
    host.put("a", "look", Kind.LOOK)
    host.put("a", "operation")
    wait_for(lambda: host.names() == ["operation"])
    go_on.set()
    host.settle()
    assert host.names() == ["operation", "other look", "look"]


def test_a_look_that_was_overtaken_has_its_turn_again(host):
    """The thread that it was handed to comes while the operation is under way."""
    other, go_on = host.hold("b", "other look", Kind.LOOK)
    assert other.wait(SECONDS)
    host.put("a", "look", Kind.LOOK)
    begun, end = host.hold("a", "operation")
    assert begun.wait(SECONDS)
    go_on.set()
    host.put("c", "marker", Kind.LOOK)
    wait_for(lambda: "marker" in host.names())
    end.set()
    host.settle()
    assert host.names() == ["other look", "marker", "operation", "look"]


def test_looks_at_others_do_not_wait_for_workers(host):
    begun, _ = host.hold("a", "operation")
    assert begun.wait(SECONDS)
    host.put("a", "look", Kind.LOOK)
    host.put("b", "look", Kind.LOOK)
    wait_for(lambda: host.done == [("look", "look")])


def test_only_a_look_under_way_is_busy(host):
    begun, _ = host.hold("a", "look", Kind.LOOK)
    assert begun.wait(SECONDS)
    host.put("b", "look", Kind.LOOK)
    assert host.queues.busy() == {"a"}


def test_nobody_looks_after_the_end(host):
    begun, go_on = host.hold("a", "look", Kind.LOOK)
    assert begun.wait(SECONDS)
    host.put("b", "never", Kind.LOOK)
    operation, end = host.hold("c", "operation")
    assert operation.wait(SECONDS)
    host.put("c", "never", Kind.LOOK)
    go_on.set()
    host.stop(Kind.LOOK)
    host.put("d", "never", Kind.LOOK)
    host.put("b", "operation")
    end.set()
    host.stop(Kind.OPERATION)
    assert host.names() == ["look", "operation", "operation"]
    assert host.queues.busy() == set()


# Calls


@pytest.mark.parametrize("keys", [("a",), ("a", "b", "c")])
def test_calls_of_one_key_run_one_at_a_time(keys):
    queues = WorkQueues({})
    counts = dict.fromkeys(keys, 0)
    start = threading.Barrier(8)

    def work():
        start.wait(SECONDS)
        for turn in range(150):
            key = keys[turn % len(keys)]
            with queues.turn(key):
                seen = counts[key]
                for _ in range(5):  # time for another thread to read the same number
                    pass
                counts[key] = seen + 1

    with busy_switching(), ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(work) for _ in range(8)]:
            done.result()
    assert counts == dict.fromkeys(keys, 8 * 150 // len(keys))
    assert queues._queues == {}


def test_calls_and_work_exclude_each_other(wide):
    inside, most = [], []

    def work():
        inside.append(1)
        most.append(len(inside))
        inside.pop()

    def call():
        with wide.queues.turn("a"):
            work()

    with busy_switching(), ThreadPoolExecutor(4) as callers:
        for number in range(200):
            wide.queues.put("a", Work(work, [Kind.OPERATION, Kind.LONG_STOP, Kind.LOOK][number % 3]))
            callers.submit(call)
    wide.settle()
    assert most == [1] * 400


def test_a_call_comes_before_work_that_waits(host):
    begun, go_on = host.hold("a", "first")
    assert begun.wait(SECONDS)
    host.put("a", "second")

    def call():
        with host.queues.turn("a"):
            host.note("call")

    with ThreadPoolExecutor(1) as callers:
        callers.submit(call)
        wait_for(lambda: len(host.queues._queues["a"]) == 3)
        go_on.set()
    host.settle()
    assert host.names() == ["first", "call", "second"]


def test_work_waits_for_a_call(host):
    with host.queues.turn("a"):
        host.put("a", "work")
        host.put("b", "other")
        wait_for(lambda: host.names() == ["other"])
        assert host.queues.busy() == {"a"}
    host.settle()
    assert host.names() == ["other", "work"]


def test_other_keys_do_not_wait_for_a_call():
    queues = WorkQueues({})

    def take(key):
        with queues.turn(key):
            return key

    with ThreadPoolExecutor(1) as pool, queues.turn("a"):
        assert pool.submit(take, "b").result(timeout=SECONDS) == "b"


def test_a_call_gives_up_after_its_patience():
    queues = WorkQueues({})

    def take(patience):
        with queues.turn("a", patience):
            return patience

    with ThreadPoolExecutor(1) as pool:
        with queues.turn("a"), pytest.raises(QueueBusy):
            pool.submit(take, 0.01).result(timeout=SECONDS)
        assert pool.submit(take, 0.01).result(timeout=SECONDS) == 0.01
    assert queues._queues == {}


def test_impatient_calls_leave_nothing_behind():
    queues, inside = WorkQueues({}), []

    def take():
        with contextlib.suppress(QueueBusy), queues.turn("a", 0.0001):
            inside.append(1)
            assert inside.pop() and not inside

    with busy_switching(), ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(take) for _ in range(800)]:
            done.result()
    assert queues._queues == {}


def test_a_thread_keeps_the_turn_that_it_has(host):
    with pytest.raises(RuntimeError), host.queues.turn("a"), host.queues.turn("a", 0.01):
        raise RuntimeError
    assert host.queues._queues == {}

    def work():
        with host.queues.turn("a"):
            host.note("work")

    host.queues.put("a", Work(work))
    host.settle()
    assert host.names() == ["work"]


def test_work_behind_a_call_is_done_without_workers(host):
    with host.queues.turn("a"):
        host.put("a", "work")
        host.stop(Kind.OPERATION)
    assert (host.done, host.queues._queues) == ([("work", "MainThread")], {})
