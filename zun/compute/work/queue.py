# SPDX-License-Identifier: Apache-2.0
"""The one queue of the agent: which key is worked on next, by which thread, and who has a key to itself.

The contributor page order-of-work has the rules with a diagram.
"""

import contextlib
import enum
import heapq
import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import NamedTuple

from zun.common import exceptions, outages

LOG = logging.getLogger(__name__)

LONGEST_DELAY = 300.0  # seconds between two runs of a key that fails
MAX_FAULTS = 8  # failures other than outages, without a success, until a key is given up: about two minutes
NO_THREAD_SECONDS = 1.0  # until a thread is asked for again after the host could not start one


class Key(NamedTuple):
    """The key of work: its kind (a container or an errand), and the uuid or name of what is worked on."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Lane(enum.IntEnum):
    """Threads of one purpose, the most urgent first."""

    OPERATION = 0
    """Somebody asked for the work: ``[compute] workers`` threads."""
    LONG = 1
    """The work may wait for processes to end for hours, and takes no worker meanwhile."""
    LOOK = 2
    """Something may have changed: an event of the runtime, a comparison. Dropped when the service stops."""


@dataclass(frozen=True, slots=True)
class Again:
    """Run the handler again after so many seconds, in the same lane."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Move:
    """Run the handler again at once, in another lane."""

    lane: Lane


@dataclass(frozen=True, slots=True)
class Instead:
    """Run the handler of another key: a member of a capsule is looked at with its capsule."""

    key: Key


Next = Again | Move | Instead
Handler = Callable[[str], Next | None]


class QueueBusy(Exception):
    """Others had the key for as long as the caller could wait."""


class _Call(NamedTuple):
    """A caller's own thread that waits for the turn of a key."""

    thread: int
    granted: threading.Event


@dataclass(slots=True, eq=False)
class _Item:
    """The state of one key. A key without work has none."""

    key: Key
    lane: Lane | None = None
    """The handler is to run in this lane. None: nothing waits."""
    due: float = 0.0
    """The handler is to run at this time of the clock or later."""
    handed: Lane | None = None
    """The lane whose threads may take the key now."""
    owner: int | None = None
    """The thread that has the key to itself: one that runs the handler, or a caller."""
    runs: Lane | None = None
    """The lane in which the handler runs. None for a caller."""
    calls: deque[_Call] = field(default_factory=deque)
    lingers: bool = False
    """The owner only waits for processes to end."""
    news: bool = False
    """There was a put since ``beside`` ran last."""
    asked: bool = False
    """A thread was asked for to run ``beside``."""
    beside: int | None = None
    """The thread that runs ``beside``."""
    failures: int = 0
    """Since the last success."""
    faults: int = 0
    """The failures among them that were no outages."""
    quiet: float = 0.0
    """Looks wait until this time: events that a failed handler caused itself must not hasten its next run."""

    def forget_failures(self) -> None:
        self.failures, self.faults, self.quiet = 0, 0, 0.0


class Queue:
    """Keys that wait for their handlers. Any thread may call any method; the lock is never held while calling out.

    ``handlers`` and ``beside`` are found by the kind of a key and get its name. ``threads`` belong to the caller, who
    ends them after ``stop``. Without arguments the queue only gives turns.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler] = {},
        beside: Mapping[str, Callable[[str], object]] = {},
        threads: Mapping[Lane, Executor] = {},
        *,
        gave_up: Callable[[Key, BaseException], object] = lambda key, error: None,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """``gave_up`` is called once, with the key's turn, for a key whose handler failed MAX_FAULTS times in a row.

        ``jitter`` returns numbers from 0 to 1, which shorten the delay after a failure by up to a tenth.
        """
        self._handlers, self._beside, self._threads = handlers, beside, threads
        self._gave_up, self._clock, self._jitter = gave_up, clock, jitter
        self._lock = threading.Lock()
        self._items: dict[Key, _Item] = {}
        self._needs: deque[tuple[Lane, Callable[[Key, Lane], None], Key]] = deque()
        """Work that no executor was asked for yet. A thread that finds its work done already ends at once."""
        self._times: list[tuple[float, Key]] = []  # a heap. A key that became due earlier stays until its old time
        self._earlier = threading.Condition(self._lock)
        self._ended = threading.Condition(self._lock)
        self._stopping = False
        self._timer: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread that hands out the keys whose time has come. Tests call ``tick`` instead."""
        self._timer = threading.Thread(target=self._follow_clock, name="queue timer", daemon=True)
        self._timer.start()

    def stop(self) -> None:
        """Accept no more keys, drop looks and keys that wait for a time, and return when everything else is done.

        A thread that has a turn must not call this.
        """
        with self._lock:
            self._stopping, now = True, self._clock()
            for item in list(self._items.values()):
                if item.lane is Lane.LOOK or item.due > now:
                    item.lane = None
                item.handed = None  # ask once more: the executor may have been ended
                self._settle(item)
            self._earlier.notify()
        self._ask()
        with self._lock:
            self._ended.wait_for(lambda: not self._items)
        if self._timer is not None:
            self._timer.join()

    def put(self, key: Key, lane: Lane = Lane.OPERATION, after: float = 0.0) -> None:
        """Have the handler of ``key`` run from its beginning, ``after`` seconds from now. Returns at once.

        A key that waits already waits once: in the more urgent lane, for the earlier time.
        """
        if key.kind not in self._handlers:
            raise ValueError(f"key must have a kind of {', '.join(self._handlers)}, got {key!r}")
        with self._lock:
            if not self._stopping:
                self._want(key, lane, after)
        self._ask()

    @contextlib.contextmanager
    def turn(self, key: Key, patience: float | None = None) -> Iterator[None]:
        """Inside the block the calling thread has ``key`` to itself. A thread that has the turn already keeps it.

        Calls come before handlers. Raises QueueBusy if the turn does not come within ``patience`` seconds.
        """
        call = _Call(threading.get_ident(), threading.Event())
        with self._change(key) as item:
            if item.beside == call.thread:
                raise RuntimeError(f"{key} has no turn for what runs beside its handler, which would wait forever")
            mine = item.owner == call.thread
            if not mine:
                item.calls.append(call)
        if mine:
            yield
            return
        try:
            if not call.granted.wait(patience):
                raise QueueBusy
            yield
        finally:
            with self._change(key) as item:
                if call in item.calls:
                    item.calls.remove(call)
                else:
                    item.owner = None

    @contextlib.contextmanager
    def waiting(self, key: Key) -> Iterator[None]:
        """Let ``beside`` run for each put of ``key`` while the block, in its handler, waits for processes to end.

        A put that came earlier in this run of the handler counts as well. The end of the block waits for a ``beside``
        that runs.
        """
        with self._change(key) as item:
            if item.owner != threading.get_ident():
                raise RuntimeError(f"only the thread that has the turn of {key} can let others run beside it")
            item.lingers = True
        try:
            yield
        finally:
            with self._change(key):
                item.lingers = False
                self._ended.wait_for(lambda: item.beside is None)

    def lane_of(self, key: Key) -> Lane | None:
        """Return the lane in which the handler of ``key`` runs now, or None."""
        with self._lock:
            item = self._items.get(key)
            return None if item is None else item.runs

    def busy(self) -> set[Key]:
        """Return the keys under work, and those that wait in another lane than LOOK, perhaps for a later time."""
        with self._lock:
            return {each.key for each in self._items.values() if each.owner or each.lane not in (None, Lane.LOOK)}

    def tick(self) -> None:
        """Hand out the keys whose time has come."""
        with self._lock:
            now = self._clock()
            while self._times and self._times[0][0] <= now:
                item = self._items.get(heapq.heappop(self._times)[1])
                if item is not None:
                    self._settle(item)
        self._ask()

    def _follow_clock(self) -> None:
        while True:
            with self._lock:
                if self._stopping:
                    return
                wait = self._times[0][0] - self._clock() if self._times else None
                if wait is None or wait > 0:
                    self._earlier.wait(wait)
            self.tick()

    # The state of a key: the caller has the lock.

    def _want(self, key: Key, lane: Lane, after: float) -> None:
        """Let ``key`` wait, at most once."""
        if self._stopping and lane is Lane.LOOK:
            return
        item, now = self._items.setdefault(key, _Item(key)), self._clock()
        due = now + after
        if lane is Lane.LOOK:
            due = max(due, item.quiet)
        if item.lane is not None:
            lane, due = min(item.lane, lane), min(item.due, due)
        item.lane, item.due, item.news = lane, due, True
        if due > now:
            self._wake_at(due, key)
        self._settle(item)

    def _wake_at(self, due: float, key: Key) -> None:
        heapq.heappush(self._times, (due, key))
        self._earlier.notify()

    def _settle(self, item: _Item) -> None:
        """Give the key its place after a change: with a caller, in a lane, or nowhere."""
        if item.owner is None and item.calls:
            call = item.calls.popleft()
            item.owner = call.thread
            call.granted.set()
        due = item.lane is not None and item.due <= self._clock()
        handed = item.lane if due and item.owner is None else None
        if handed is not None and handed is not item.handed:
            self._needs.append((handed, self._work, item.key))
        item.handed = handed
        if due and item.lingers and item.news and not item.asked and item.beside is None:
            item.asked = item.key.kind in self._beside
            if item.asked:  # threads of a lane whose handlers all linger would never come
                other = Lane.OPERATION if item.runs is Lane.LONG else Lane.LONG
                self._needs.append((other, self._work_beside, item.key))
        if item.owner is None and item.lane is None:
            self._items.pop(item.key, None)
            self._ended.notify_all()

    @contextlib.contextmanager
    def _change(self, key: Key) -> Iterator[_Item]:
        """Take the lock and give the state of ``key``. Afterwards the key is where it belongs."""
        try:
            with self._lock:
                item = self._items.setdefault(key, _Item(key))
                try:
                    yield item
                finally:
                    self._settle(item)
        finally:
            self._ask()

    def _ask(self) -> None:
        """Ask the executors for the needed threads. Called without the lock, as executors have locks of their own."""
        while True:
            with self._lock:
                if not self._needs:
                    return
                lane, work, key = self._needs.popleft()
            try:
                self._threads[lane].submit(work, key, lane)
            except RuntimeError as exc:  # no thread can be started, or the executor was ended
                with self._lock:
                    item = self._items.get(key)
                    if item is None:
                        continue  # another thread has done the work meanwhile
                    self._wake_at(self._clock() + NO_THREAD_SECONDS, key)
                    item.asked = False
                    if item.handed is lane:
                        item.handed = None
                        if self._stopping:
                            item.lane = None  # the next start looks at everything
                            self._settle(item)
                LOG.warning("The queue gets no thread of lane %s for %s: %s", lane.name, key, exc)

    # What the threads do.

    def _work(self, key: Key, lane: Lane) -> None:
        with self._lock:
            item = self._items.get(key)
            if item is None or item.handed is not lane:
                return  # a caller has taken the key, or a more urgent lane
            item.owner, item.runs = threading.get_ident(), lane
            item.lane = item.handed = None
        answer: Next | None = None
        try:
            answer = self._answer(item)
        finally:
            with self._change(key):
                item.owner = item.runs = None
                match answer:
                    case Move(other):
                        self._want(key, other, 0)
                    case Instead(other):
                        self._want(other, lane, 0)
                    case Again(seconds) if not self._stopping:
                        self._want(key, lane, seconds)

    def _answer(self, item: _Item) -> Next | None:
        """Return the next work on the key: the answer of its handler, or another run after a failure."""
        try:
            answer = self._handlers[item.key.kind](item.key.name)
        except BaseException as exc:
            error = exc
        else:
            if not isinstance(answer, Move):  # else the work still has to succeed
                with self._lock:
                    item.forget_failures()
            return answer
        return self._failed(item, error)  # out here, because oslo.log says once more what is being handled

    def _failed(self, item: _Item, error: BaseException) -> Again | None:
        outage = isinstance(error, outages.OUTAGES)
        with self._lock:
            delay = min(2.0 ** min(item.failures, 30), LONGEST_DELAY) * (1 - self._jitter() / 10)
            item.failures, item.faults = item.failures + 1, item.faults + (not outage)
            last = item.faults >= MAX_FAULTS
            if last:
                item.forget_failures()
            elif not outage:
                item.quiet = self._clock() + delay
                item.lane = None if item.lane is Lane.LOOK else item.lane
        next_time = "given up" if last else f"done again in {delay:.1f} s"
        if isinstance(error, outages.OUTAGES):
            LOG.warning("Work on %s failed and is %s: %s", item.key, next_time, exceptions.first_line(error))
        else:
            LOG.error("Work on %s failed and is %s", item.key, next_time, exc_info=error)
        if not last:
            return Again(delay)
        try:
            self._gave_up(item.key, error)
        except BaseException as exc:
            LOG.error("Giving up %s failed as well", item.key, exc_info=exc)
        return None

    def _work_beside(self, key: Key, _: Lane) -> None:
        with self._lock:
            item = self._items.get(key)
            if item is None:
                return
            item.asked = False
            if not item.lingers or not item.news or item.beside is not None:
                return  # too late; the key has its turn
            item.news, item.beside = False, threading.get_ident()
        try:
            self._beside[key.kind](key.name)
        except BaseException as exc:
            LOG.error("Work beside %s failed; the key still has its turn", key, exc_info=exc)
        finally:
            with self._change(key):
                item.beside = None
                self._ended.notify_all()
