# SPDX-License-Identifier: Apache-2.0
"""The one queue: who works on which key when. Tests step the threads by hand, on a clock of their own."""

import collections
import contextlib
import logging
import queue as handover
import threading
from concurrent.futures import Executor, ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from zun.common import exceptions
from zun.compute.work.queue import MAX_FAULTS, Again, Instead, Key, Lane, Move, Queue, QueueBusy
from zun.tests.fixtures import AtOnce
from zun.tests.unit.common.proof import busy_switching, proof

SECONDS = 60  # until a thread that does not come counts as hanging
A, B, C = (Key("container", name) for name in "abc")
OPERATION, LONG, LOOK = Lane


def away():
    return exceptions.Unavailable("the engine does not answer")


class Puppet:
    """A thread that works between two reports, and waits for a command after each."""

    own = threading.local()

    def __init__(self, work, *arguments):
        self._reports, self._commands = handover.SimpleQueue(), handover.SimpleQueue()
        self.thread = threading.Thread(target=self._run, args=(work, *arguments), daemon=True)
        self.thread.start()

    def _run(self, work, *arguments):
        Puppet.own.puppet = self
        try:
            work(*arguments)
        finally:
            self._reports.put("ended")

    @classmethod
    def pause(cls, report):
        """Report to the test, and return its next command."""
        me = cls.own.puppet
        me._reports.put(report)
        return me._commands.get(timeout=SECONDS)

    def report(self):
        """Return what the thread reports next."""
        return self._reports.get(timeout=SECONDS)

    def blocked(self):
        return self._reports.empty() and self.thread.is_alive()

    def command(self, command):
        self._commands.put(command)

    def go_on(self, command=None):
        self.command(command)
        return self.report()


class Tokens(Executor):
    """An executor whose threads start when the test says so, in the order of the submissions."""

    def __init__(self):
        self.waiting = collections.deque()

    def submit(self, work, /, *arguments):
        self.waiting.append((work, arguments))


class Host:
    """A queue on a clock of its own, whose handlers do what the test commands."""

    def __init__(self):
        self.now, self.given_up, self.begun = 0.0, [], []
        self.tokens = {lane: Tokens() for lane in Lane}
        self.queue = Queue(
            {"container": self._handle, "image": self._handle},
            {"container": self._beside},
            self.tokens,
            gave_up=lambda key, error: self.given_up.append((key, error)),
            clock=lambda: self.now,
            jitter=lambda: 0,
        )

    def _handle(self, name):
        with contextlib.ExitStack() as block:
            report = name
            while True:
                command = Puppet.pause(report)
                report = "went on"
                match command:
                    case BaseException():
                        raise command
                    case "linger":
                        block.enter_context(self.queue.waiting(Key("container", name)))
                    case "leave":
                        block.close()
                    case ("turn", key):
                        with self.queue.turn(key, 0.01):
                            pass
                    case _:
                        return command

    def _beside(self, name):
        command = Puppet.pause(f"beside {name}")
        if isinstance(command, BaseException):
            raise command

    def put(self, key, lane=OPERATION, after=0.0):
        self.queue.put(key, lane, after)

    def pass_time(self, seconds):
        self.now += seconds
        self.queue.tick()

    def step(self, lane=OPERATION):
        """Let the next thread of ``lane`` begin. Return it and its report, or None and what stopped that."""
        if not self.tokens[lane].waiting:
            return None, "nothing waits"
        work, arguments = self.tokens[lane].waiting.popleft()
        puppet = Puppet(work, *arguments)
        report = puppet.report()
        return (None, "in vain") if report == "ended" else (puppet, report)

    def begin(self, lane=OPERATION):
        """Let the next thread that finds work begin. Return it and its report, or None."""
        while True:
            puppet, report = self.step(lane)
            if puppet is not None:
                self.begun.append(report)
                return puppet, report
            if report == "nothing waits":
                return None

    def run(self, answer=None, lane=OPERATION):
        """Run one handler to its ``answer``. Return the name of its key, or None if none waits."""
        begun = self.begin(lane)
        if begun is None:
            return None
        assert begun[0].go_on(answer) == "ended"
        return begun[1]

    def hold(self, key, lane=OPERATION):
        """Return the thread of a handler that is under way."""
        self.put(key, lane)
        puppet, report = self.begin(lane)
        assert report == key.name
        return puppet

    def call(self, key, patience=None):
        def take():
            try:
                with self.queue.turn(key, patience):
                    Puppet.pause("has the turn")
            except QueueBusy:
                Puppet.pause("busy")

        return Puppet(take)

    def names(self, lane=OPERATION):
        return list(iter(lambda: self.run(lane=lane), None))


@pytest.fixture
def host():
    return Host()


# Puts


def test_keys_of_a_lane_run_in_the_order_of_their_puts(host):
    for key in (B, A, C, A, B):
        host.put(key)
    assert host.names() == ["b", "a", "c"]
    assert host.queue.busy() == set()


def test_a_put_while_the_handler_runs_runs_it_once_more(host):
    first = host.hold(A)
    for _ in range(3):
        host.put(A)
    assert host.run() is None
    first.go_on()
    assert host.names() == ["a"]


@pytest.mark.parametrize(
    ("puts", "lane", "seconds"),
    [
        pytest.param([(LOOK, 0), (OPERATION, 0)], OPERATION, 0, id="asked-for-after-a-look"),
        pytest.param([(LONG, 0), (LOOK, 0)], LONG, 0, id="a-look-after-a-stop"),
        pytest.param([(OPERATION, 0), (LONG, 0)], OPERATION, 0, id="operation-before-long"),
        pytest.param([(LOOK, 9), (LOOK, 4)], LOOK, 4, id="earlier-time"),
        pytest.param([(LOOK, 4), (LOOK, 9)], LOOK, 4, id="later-time"),
        pytest.param([(OPERATION, 9), (LOOK, 2)], OPERATION, 2, id="lane-of-one-time-of-the-other"),
    ],
)
@pytest.mark.parametrize("under_way", [False, True])
def test_puts_merge_to_the_urgent_lane_and_the_earlier_time(host, puts, lane, seconds, under_way):
    first = host.hold(A) if under_way else None
    for each, after in puts:
        host.put(A, each, after)
    if first is not None:
        first.go_on()
    if seconds:
        host.pass_time(seconds - 0.1)
        assert [host.run(lane=each) for each in Lane] == [None] * 3
    host.pass_time(0.2)
    assert {each: host.names(each) for each in Lane} == {each: ["a"] if each is lane else [] for each in Lane}


def test_a_key_of_no_handler_is_refused(host):
    with pytest.raises(ValueError, match="kind of container, image, got Key\\(kind='pod'"):
        host.put(Key("pod", "a"))


def test_equal_names_of_two_kinds_are_two_keys(host):
    host.put(A)
    host.put(Key("image", "a"))
    assert host.names() == ["a", "a"]


# Answers


def test_again_runs_after_its_seconds_in_the_same_lane(host):
    host.put(A, LOOK)
    host.run(Again(5), LOOK)
    host.pass_time(4.9)
    assert host.run(lane=LOOK) is None
    host.pass_time(0.1)
    assert host.names(LOOK) == ["a"]


def test_move_goes_on_in_the_other_lane_at_once(host):
    host.put(A)
    host.run(Move(LONG))
    assert host.queue.busy() == {A}
    assert (host.run(), host.names(LONG)) == (None, ["a"])


def test_a_move_does_not_lose_a_more_urgent_put(host):
    first = host.hold(A)
    host.put(A)
    first.go_on(Move(LONG))
    assert (host.names(LONG), host.names()) == ([], ["a"])


def test_instead_runs_the_other_key_in_the_same_lane(host):
    host.put(A, LOOK)
    host.run(Instead(B), LOOK)
    assert host.names(LOOK) == ["b"] and host.queue._items == {}


# Failures


def test_delays_grow_to_their_limit_and_success_resets_them(host, caplog):
    host.put(A)
    for delay in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]:
        assert host.run(away()) == "a"
        host.pass_time(delay - 0.1)
        assert host.run() is None
        host.pass_time(0.1)
    assert host.run() == "a"
    host.put(A)
    host.run(ValueError("bad row"))
    host.pass_time(1)
    assert host.names() == ["a"] and host.given_up == []


@pytest.mark.parametrize(
    "errors", [[ValueError("bad row")], [ValueError("bad row"), away()]], ids=["alone", "and-outages"]
)
def test_a_key_that_fails_for_good_is_given_up_once(host, errors):
    host.put(A)
    for _ in range(MAX_FAULTS):
        for error in errors:
            host.run(error)
            host.pass_time(300)
    assert host.given_up == [(A, errors[0])]
    host.names()
    assert host.queue._items == {}
    host.put(A)
    host.run(ValueError("anew"))
    host.pass_time(1)
    assert host.names() == ["a"] and len(host.given_up) == 1


@pytest.mark.parametrize(
    ("answer", "delay"),
    [pytest.param(Again(1), 1, id="again-is-a-success"), pytest.param(Move(OPERATION), 4, id="a-move-is-not")],
)
def test_an_answer_resets_the_delay_but_a_move(host, answer, delay):
    host.put(A)
    host.run(away())
    host.pass_time(1)
    host.run(away())
    host.pass_time(2)
    host.run(answer)
    host.pass_time(1)
    host.run(away())
    host.pass_time(delay - 0.1)
    assert host.run() is None
    host.pass_time(0.1)
    assert host.run() == "a"


@pytest.mark.parametrize("error", [ValueError("bad row"), SystemExit(1), KeyboardInterrupt()])
def test_a_queue_outlives_every_failure(host, error, caplog):
    host.queue._gave_up = lambda key, error: 1 / 0
    host.put(A)
    for _ in range(MAX_FAULTS):
        host.run(error)
        host.pass_time(300)
    host.put(A)
    assert host.names() == ["a"] and host.queue._items == {}
    assert "Giving up container a failed as well" in caplog.text


def test_an_outage_is_one_line_and_another_failure_a_traceback(host, caplog):
    for key, error in ((A, away()), (B, ValueError("bad row"))):
        host.put(key)
        host.run(error)
    short, long = caplog.records
    assert (short.levelno, short.exc_info, "\n" in short.getMessage()) == (logging.WARNING, None, False)
    assert "does not answer" in short.getMessage() and "done again in 1.0 s" in short.getMessage()
    assert (long.levelno, long.exc_info[1].args) == (logging.ERROR, ("bad row",))


@pytest.mark.parametrize("when", ["during the run", "after the run"])
@pytest.mark.parametrize(
    ("error", "lane", "seconds"),
    [
        pytest.param(ValueError("bad row"), LOOK, 1, id="echo-of-the-failure"),
        pytest.param(ValueError("bad row"), OPERATION, 0, id="asked-for"),
        pytest.param(away(), LOOK, 0, id="the-engine-is-back"),
    ],
)
def test_a_look_does_not_hasten_what_failed_by_itself(host, error, lane, seconds, when):
    first = host.hold(A)
    if when == "during the run":
        host.put(A, lane)
    first.go_on(error)
    if when == "after the run":
        host.put(A, lane)
    assert (host.run() is None) == (seconds > 0)
    host.pass_time(seconds)
    assert host.names() == (["a"] if seconds else [])


# Turns


def test_a_call_comes_before_the_keys_that_wait(host):
    first = host.hold(A)
    host.put(A)
    call, later = host.call(A), None
    wait_blocked(host, A, 1)
    first.go_on()
    assert call.report() == "has the turn" and host.run() is None
    assert host.queue.busy() == {A}
    call.command(None)
    assert (call.report(), later, host.names()) == ("ended", None, ["a"])


def wait_blocked(host, key, calls):
    """Wait until so many callers stand in the queue of a key."""
    pause = threading.Event()
    for _ in range(SECONDS * 1000):
        with host.queue._lock:
            if len(host.queue._items[key].calls) == calls:
                return
        pause.wait(0.001)
    raise AssertionError("no caller came")


def test_a_call_takes_a_key_that_no_thread_has_taken_yet(host):
    host.put(A)
    call = host.call(A)
    assert call.report() == "has the turn" and host.begin() is None
    call.go_on()
    assert host.names() == ["a"]


def test_a_call_gives_up_after_its_patience(host):
    first = host.hold(A)
    call = host.call(A, patience=0.001)
    assert call.report() == "busy"
    first.go_on()
    assert host.queue._items == {}


def test_a_thread_keeps_the_turn_that_it_has(host):
    first = host.hold(A)
    assert first.go_on(("turn", A)) == "went on"
    with pytest.raises(RuntimeError), host.queue.turn(B), host.queue.turn(B, 0):
        raise RuntimeError
    assert host.queue.busy() == {A}


def test_calls_need_no_handlers():
    queue = Queue()
    with queue.turn(Key("network", "n")), queue.turn(Key("project", "n")):
        assert len(queue.busy()) == 2
    queue.stop()


# Beside


@pytest.mark.parametrize(("lane", "other"), [(OPERATION, LONG), (LONG, OPERATION), (LOOK, LONG)])
def test_a_put_runs_beside_a_handler_that_waits(host, lane, other):
    """In another lane than the handler's own, whose threads may all wait in the same way."""
    stop = host.hold(A, lane)
    stop.go_on("linger")
    for _ in range(3):
        host.put(A)
    kill, report = host.begin(other)
    assert report == "beside a" and host.begin(other) is None
    kill.go_on()
    assert host.begin(other) is None
    stop.go_on("leave")
    stop.go_on()
    assert host.names() == ["a"] and host.queue._items == {}


def test_a_put_before_the_wait_runs_beside_as_well(host):
    """The handler may have read the row before the kill was accepted."""
    stop = host.hold(A)
    host.put(A)
    assert host.begin(LONG) is None
    stop.go_on("linger")
    assert host.begin(LONG)[1] == "beside a"


def test_a_put_while_beside_runs_runs_it_once_more(host):
    stop = host.hold(A)
    stop.go_on("linger")
    host.put(A)
    kill, _ = host.begin(LONG)
    host.put(A)
    assert host.begin(LONG) is None
    kill.go_on()
    assert host.begin(LONG)[1] == "beside a"


def test_the_end_of_the_wait_waits_for_what_runs_beside(host):
    stop = host.hold(A)
    stop.go_on("linger")
    host.put(A)
    kill, _ = host.begin(LONG)
    host.put(A)
    stop.command("leave")
    assert stop.blocked()
    kill.go_on()
    assert stop.report() == "went on" and host.begin(LONG) is None


def test_beside_never_runs_after_the_wait(host):
    stop = host.hold(A)
    stop.go_on("linger")
    host.put(A)
    stop.go_on("leave")
    assert host.step(LONG) == (None, "in vain")
    stop.go_on()
    assert host.names() == ["a"]


def test_a_beside_that_fails_leaves_the_key_its_turn(host, caplog):
    stop = host.hold(A)
    stop.go_on("linger")
    host.put(A)
    kill, _ = host.begin(LONG)
    kill.go_on(ValueError("bad row"))
    stop.go_on(ValueError("the stop fails inside the block"))
    host.pass_time(1)
    assert host.names() == ["a"] and "Work beside container a failed" in caplog.text


def test_a_key_of_a_later_time_runs_beside_when_it_is_due(host):
    stop = host.hold(A)
    stop.go_on("linger")
    host.put(A, after=5)
    assert host.begin(LONG) is None
    host.pass_time(5)
    assert host.begin(LONG)[1] == "beside a"


def test_who_has_no_turn_cannot_wait(host):
    with pytest.raises(RuntimeError, match="only the thread that has the turn"), host.queue.waiting(A):
        pass
    assert host.queue._items == {}


def test_beside_cannot_ask_for_the_turn():
    """Its owner would wait for it, and it for the owner."""
    asked = threading.Event()

    def beside(name):
        with pytest.raises(RuntimeError, match="would wait forever"), queue.turn(A):
            pass
        asked.set()

    def stop(name):
        with queue.waiting(A):
            if not asked.is_set():
                queue.put(A)
                assert asked.wait(SECONDS)

    with ThreadPoolExecutor(1) as workers, ThreadPoolExecutor(1) as long:
        queue = Queue({"container": stop}, {"container": beside}, {OPERATION: workers, LONG: long})
        queue.put(A)
        assert asked.wait(SECONDS)
        queue.stop()


# What is busy


def test_a_look_that_only_waits_is_not_busy(host):
    first = host.hold(B, LOOK)
    host.put(A, LOOK)
    host.put(C, LONG, after=9)
    assert host.queue.busy() == {B, C}
    first.go_on()
    assert host.queue.busy() == {C}


# The end


def test_stop_drops_looks_and_delays_and_does_the_rest(host):
    look = host.hold(Key("image", "under way"), LOOK)
    operation = host.hold(A)
    host.put(A)
    for name, lane, after in (("look", LOOK, 0), ("late", OPERATION, 9), ("stop", LONG, 0), ("asked", OPERATION, 0)):
        host.put(Key("container", name), lane, after)
    stopping = Puppet(host.queue.stop)
    wait_stopping(host)
    for lane in Lane:
        host.put(Key("container", "too late"), lane)
    assert stopping.blocked()
    operation.go_on(Again(0))
    look.go_on(away())
    assert sorted(host.names()) == ["a", "asked"]
    assert host.names(LOOK) == []
    host.run(Move(OPERATION), LONG)
    assert host.names() == ["stop"]
    assert stopping.report() == "ended" and host.queue._items == {}


def wait_stopping(host):
    pause = threading.Event()
    while not host.queue._stopping:
        pause.wait(0.001)


@pytest.mark.parametrize("when", ["before the put", "after the put"])
def test_stop_does_not_wait_for_threads_that_were_ended(host, when):
    ended = ThreadPoolExecutor(1)
    ended.shutdown()
    if when == "before the put":
        host.tokens.update(dict.fromkeys(Lane, ended))
    for lane, key in zip(Lane, (A, B, C), strict=True):
        host.put(key, lane)
    host.tokens.update(dict.fromkeys(Lane, ended))
    assert Puppet(host.queue.stop).report() == "ended"
    assert host.queue._items == {}


def test_no_key_is_lost_if_no_thread_can_start(host, caplog):
    tokens, host.tokens[OPERATION] = host.tokens[OPERATION], ThreadPoolExecutor(1)
    host.tokens[OPERATION].shutdown()
    host.put(A)
    host.put(B)
    host.tokens[OPERATION] = tokens
    host.pass_time(0.9)
    assert host.run() is None
    host.pass_time(0.1)
    assert host.names() == ["a", "b"]
    assert "no thread of lane OPERATION for container a" in caplog.text


def test_a_beside_without_a_thread_is_asked_for_again(host):
    tokens, host.tokens[LONG] = host.tokens[LONG], ThreadPoolExecutor(1)
    host.tokens[LONG].shutdown()
    host.hold(A).go_on("linger")
    host.put(A)
    host.tokens[LONG] = tokens
    host.pass_time(1)
    assert host.begin(LONG)[1] == "beside a"


class Late(AtOnce):
    """Says that there is no thread when the work is done already."""

    def submit(self, *arguments):
        super().submit(*arguments)
        raise RuntimeError("cannot schedule new futures after shutdown")


def test_work_is_done_once_though_the_executor_denies_it(caplog):
    done = []
    queue = Queue({"container": done.append}, {}, dict.fromkeys(Lane, Late()))
    for _ in range(3):
        queue.put(A)
    queue.stop()
    assert (done, queue._items, caplog.records) == (["a"] * 3, {}, [])


def test_handlers_may_run_inside_a_put():
    """Nothing is called while the queue's lock is held."""
    done = []

    def handler(name):
        done.append(name)
        if name == "a":
            queue.put(B)
            queue.put(A) if done.count("a") < 3 else None
        return None

    queue = Queue({"container": handler}, {}, dict.fromkeys(Lane, AtOnce()))
    queue.put(A)
    assert done.count("a") == 3 and done.count("b") >= 1 and queue.busy() == set()


def test_the_timer_runs_a_key_at_its_time():
    ran = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        queue = Queue({"container": lambda name: ran.set()}, {}, dict.fromkeys(Lane, pool))
        queue.start()
        queue.put(B, after=3600)
        queue.put(A, after=0.01)
        assert ran.wait(SECONDS)
        queue.stop()
        assert not queue._timer.is_alive()


# Properties


@given(puts=st.lists(st.sampled_from([A, B, C, Key("image", "d"), Key("image", "e")]), max_size=30), data=st.data())
@proof(60)
def test_no_key_overtakes_another_of_its_lane(puts, data):
    """Threads begin in between; the keys begin in the order in which they began to wait."""
    host, waits, ran = Host(), [], []
    for key in puts:
        host.put(key)
        if key.name not in waits:
            waits.append(key.name)
        if data.draw(st.booleans()):
            ran.append((host.run(), waits.pop(0) if waits else None))
    ran += [(name, waits.pop(0)) for name in host.names()]
    assert all(name == due for name, due in ran) and waits == []


class Want:
    """What a key of the model waits for."""

    def __init__(self):
        self.lane, self.due = None, 0.0
        self.handler = self.lane_of_handler = self.beside = self.leaving = None
        self.lingers = self.news = False
        self.calls = collections.deque()
        self.caller = None
        self.failures = self.faults = 0
        self.quiet = 0.0

    @property
    def owned(self):
        return self.handler is not None or self.caller is not None

    def want(self, lane, due):
        due = max(due, self.quiet) if lane is LOOK else due
        if self.lane is not None:
            lane, due = min(lane, self.lane), min(due, self.due)
        self.lane, self.due, self.news = lane, due, True


KEYS = st.sampled_from([A, B])
LANES = st.sampled_from(list(Lane))


class QueueLife(RuleBasedStateMachine):
    """Threads begin, wait and end in any order; a model says what each may do."""

    def __init__(self):
        super().__init__()
        self.host = Host()
        self.model = {key: Want() for key in (A, B)}
        self.given_up = 0

    @initialize(ends=st.booleans())
    def chooses_its_end(self, ends):
        self.drains = ends

    @rule(key=KEYS, lane=LANES, after=st.sampled_from([0, 0, 0, 1, 7]))
    def puts(self, key, lane, after):
        self.model[key].want(lane, self.host.now + after)
        self.host.put(key, lane, after)

    @rule(seconds=st.sampled_from([0, 1, 3, 60]))
    def passes_time(self, seconds):
        self.host.pass_time(seconds)

    @rule(lane=LANES)
    def steps(self, lane):
        puppet, report = self.host.step(lane)
        if puppet is None:
            return
        beside = report.startswith("beside ")
        key = Key("container", report.removeprefix("beside "))
        now = self.model[key]
        if beside:
            assert now.lingers and now.leaving is None, "beside runs outside of the block"
            assert now.beside is None and now.news and now.lane is not None and now.due <= self.host.now
            now.beside, now.news = puppet, False
            return
        assert not now.owned and not now.calls, "a second worker, or before a call"
        assert now.lane is lane and now.due <= self.host.now, "nothing was wanted, or elsewhere, or later"
        now.handler, now.lane_of_handler, now.lane, now.news = puppet, lane, None, False

    def free(self, key):
        """The next caller has the turn now."""
        now = self.model[key]
        if now.calls:
            now.caller = now.calls.popleft()
            assert now.caller.report() == "has the turn"

    def of(self, key, *, lingers):
        now = self.model[key]
        idle = now.handler is not None and now.leaving is None
        return now if idle and (lingers is None or now.lingers is lingers) else None

    @rule(key=KEYS)
    def lingers(self, key):
        now = self.of(key, lingers=False)
        if now is not None:
            assert now.handler.go_on("linger") == "went on"
            now.lingers = True

    @rule(key=KEYS)
    def leaves(self, key):
        now = self.of(key, lingers=True)
        if now is None:
            return
        if now.beside is None:
            assert now.handler.go_on("leave") == "went on"
            now.lingers = False
        else:
            now.handler.command("leave")
            now.leaving = now.handler

    @rule(key=KEYS, fails=st.booleans())
    def beside_ends(self, key, fails):
        now = self.model[key]
        if now.beside is None:
            return
        assert now.leaving is None or now.leaving.blocked()
        assert now.beside.go_on(ValueError("beside") if fails else None) == "ended"
        now.beside = None
        if now.leaving is not None:
            assert now.leaving.report() == "went on"
            now.leaving, now.lingers = None, False

    @rule(
        key=KEYS,
        answer=st.one_of(
            st.none(),
            st.sampled_from([Again(0), Again(2), Instead(A), Instead(B), "outage", "fault", "fault", "fault"]),
            LANES.map(Move),
        ),
    )
    def handler_ends(self, key, answer):
        now = self.of(key, lingers=None)
        if now is None or now.beside is not None:
            return
        command = {"outage": away(), "fault": ValueError("fault")}.get(answer, answer)
        assert now.handler.go_on(command) == "ended"
        lane, now.handler, now.lingers = now.lane_of_handler, None, False
        if answer in ("outage", "fault"):
            self.failed(now, lane, answer == "fault")
        elif not isinstance(answer, Move):
            now.failures, now.faults, now.quiet = 0, 0, 0.0
        match answer:
            case Again(seconds):
                now.want(lane, self.host.now + seconds)
            case Move(other):
                now.want(other, self.host.now)
            case Instead(other):
                self.model[other].want(lane, self.host.now)
        self.free(key)

    def failed(self, now, lane, fault):
        delay = min(300, 2**now.failures)
        now.failures += 1
        now.faults += fault
        if now.faults == MAX_FAULTS:
            self.given_up += 1
            now.failures, now.faults, now.quiet = 0, 0, 0.0
            return
        if fault:
            now.quiet = self.host.now + delay
            if now.lane is LOOK:
                now.lane = None
        now.want(lane, self.host.now + delay)

    @rule(key=KEYS)
    def calls(self, key):
        now = self.model[key]
        puppet = self.host.call(key)
        if now.owned:
            wait_blocked(self.host, key, len(now.calls) + 1)
            now.calls.append(puppet)
        else:
            assert puppet.report() == "has the turn"
            now.caller = puppet

    @rule(key=KEYS)
    def call_ends(self, key):
        now = self.model[key]
        if now.caller is not None:
            assert now.caller.go_on() == "ended"
            now.caller = None
            self.free(key)

    @invariant()
    def busy_says_what_is_asked_for(self):
        asked = {key for key, now in self.model.items() if now.owned or now.lane in (OPERATION, LONG)}
        assert self.host.queue.busy() == asked

    @invariant()
    def gives_up_once(self):
        assert len(self.host.given_up) == self.given_up

    @invariant()
    def forgets_idle_keys(self):
        known = {key for key, now in self.model.items() if now.owned or now.lane is not None}
        assert set(self.host.queue._items) == known

    def end_everything(self):
        for lane in Lane:
            for _ in range(len(self.host.tokens[lane].waiting)):
                self.steps(lane)
        for key in self.model:
            self.beside_ends(key, False)
            self.handler_ends(key, None)
            self.call_ends(key)

    def teardown(self):
        """Either all that was put runs in the end, or the queue stops and drops just what it may drop."""
        if self.drains:
            for _ in range(100):  # more than there are calls, which end one at a time
                self.host.pass_time(300)
                self.end_everything()
            assert all(now.lane is None and not now.owned for now in self.model.values())
            assert self.host.queue._items == {}
        stopping = Puppet(self.host.queue.stop)
        wait_stopping(self.host)
        for now in self.model.values():
            if now.lane is LOOK or now.due > self.host.now:
                now.lane = None
        for _ in range(100):
            self.end_everything()
        assert stopping.report() == "ended" and self.host.queue._items == {}


def test_the_model_says_what_each_thread_may_do():
    run_state_machine_as_test(QueueLife, settings=proof(60, stateful_step_count=60, deadline=None))


# Real threads


def test_threads_under_stress_lose_nothing_and_hang_nowhere():
    """Each put sees its number handled; handlers, calls and besides of one key exclude each other as they must."""
    keys = [Key("container", str(number)) for number in range(4)]
    wanted, handled = dict.fromkeys(keys, 0), dict.fromkeys(keys, 0)
    inside, lingers, runs, wrong = dict.fromkeys(keys, 0), dict.fromkeys(keys, False), collections.Counter(), []

    def alone(key):
        inside[key] += 1
        if inside[key] != 1:
            wrong.append(("together", key))

    def handler(name):
        key = Key("container", name)
        alone(key)
        handled[key] = wanted[key]
        runs[key] += 1
        number = runs[key]
        if number % 3 == 0:
            with queue.waiting(key):
                lingers[key] = True
                queue.put(keys[0])
            lingers[key] = False
        with queue.turn(key):
            inside[key] -= 1
        if number % 31 == 0:
            raise ValueError("now and then")
        return [None, None, Move(Lane(number % 3)), Instead(keys[0])][number % 4] if number < 500 else None

    def beside(name):
        # The block that lets this run cannot end before this does.
        if not queue._items[Key("container", name)].lingers and not queue._items[Key("container", name)].beside:
            wrong.append(("beside alone", name))

    def put(number):
        for turn in range(150):
            key = keys[(number + turn) % len(keys)]
            with queue.turn(key):
                alone(key)
                wanted[key] += 1
                inside[key] -= 1
            queue.put(key, Lane(turn % 3), after=0.001 * (turn % 2))
            with contextlib.suppress(QueueBusy), queue.turn(key, 0.0001):
                alone(key)
                inside[key] -= 1

    logging.disable(logging.CRITICAL)
    try:
        pools = {lane: ThreadPoolExecutor(3) for lane in Lane}
        queue = Queue({"container": handler}, {"container": beside}, pools, jitter=lambda: 9.999)  # delays of no time
        queue.start()
        with busy_switching():
            putting = [threading.Thread(target=put, args=(number,), daemon=True) for number in range(4)]
            for each in putting:
                each.start()
            for each in putting:
                each.join(SECONDS)
                assert not each.is_alive()
            for key in keys:
                queue.put(key)
            stopping = threading.Thread(target=queue.stop, daemon=True)
            stopping.start()
            stopping.join(SECONDS)
            assert not stopping.is_alive()
    finally:
        logging.disable(logging.NOTSET)
    for pool in pools.values():
        pool.shutdown()
    assert (wrong, handled, queue._items) == ([], wanted, {})
