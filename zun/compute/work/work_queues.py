# SPDX-License-Identifier: Apache-2.0
"""One work queue per container: it decides what happens to the container next, and it is the container's lock.

The contributor page order-of-work has the rules with a diagram.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from enum import Enum

LOG = logging.getLogger(__name__)


class Kind(Enum):
    """The kind of a piece of work decides its priority, highest first here, and who does the work."""

    CALL = "call"
    """Done by the caller's own thread, which waits for its turn: a resize, an audit."""
    OPERATION = "operation"
    """Done by one of ``[compute] workers`` threads."""
    LONG_STOP = "long stop"
    """An operation that may wait for processes to end for hours. It has a thread of its own, and takes no worker."""
    LOOK = "look"
    """Reads what the runtime says of a container. Comes after everything that somebody asked for."""


_PRIORITIES = {Kind.CALL: 0, Kind.OPERATION: 1, Kind.LONG_STOP: 1, Kind.LOOK: 2}


class QueueBusy(Exception):
    """Other work has kept the queue for as long as the caller could wait."""


@dataclass(slots=True, eq=False)
class Work:
    """One piece of work. What ``run`` raises is logged, and the next piece begins."""

    run: Callable[[], object]
    kind: Kind = Kind.OPERATION
    name: str | None = None
    """While work of this name waits in a queue, the queue takes no more of it: the first will see all there is."""
    also: str | None = None
    """The uuid of something else that the work changes. It is busy as well; its own queue does not wait."""
    stops: bool = False
    """The work waits for processes to end. While it is the first of its queue, ``beside`` of other work may run."""
    beside: Callable[[], bool] | None = None
    """Runs while a stop is the first. Returns whether the work is done; if not, or if it raises, ``run`` has its turn.
    """
    handed: bool = field(default=False, init=False)
    """A thread has the work, or takes the work once it is free."""
    thread: int | None = field(default=None, init=False)
    """The thread that is doing the work; None while the work waits."""


@dataclass(slots=True, eq=False)
class _Call(Work):
    """The turn of a caller's own thread."""

    caller: int = field(default_factory=threading.get_ident, init=False)
    granted: threading.Event = field(default_factory=threading.Event, init=False)


class WorkQueues:
    """Queues by key: the uuid of a container, or the name of something else of this host.

    The first piece of a queue has the key to itself. ``executors`` has the threads for each kind of work but calls.
    """

    def __init__(self, executors: Mapping[Kind, Executor]) -> None:
        self._executors = executors
        self._lock = threading.Lock()
        self._queues: dict[str, list[Work]] = {}  # none is empty

    def put(self, key: str, work: Work) -> None:
        """Queue ``work`` behind all work of its priority or a higher one. Returns at once."""
        with self._lock:
            waiting = (each for each in self._queues.get(key, []) if each.thread is None)
            if work.name is not None and any(each.name == work.name for each in waiting):
                return
            own = self._insert(key, work)
        self._do(key, *own)

    @contextlib.contextmanager
    def turn(self, key: str, patience: float | None = None) -> Iterator[None]:
        """Inside the block the calling thread has ``key`` to itself. A thread that has its turn already keeps it.

        Raises QueueBusy if the turn does not come within ``patience`` seconds.
        """
        call = self._call(key)
        if call is None:
            yield
            return
        if not call.granted.wait(patience) and self._withdrawn(key, call):
            raise QueueBusy
        try:
            yield
        finally:
            with self._lock:
                own = self._finish(key, call)
            self._do(key, *own)

    def busy(self) -> set[str]:
        """Return the keys about which work is under way or waits. A look that only waits does not count."""
        with self._lock:
            pieces = [(key, work) for key, queue in self._queues.items() for work in queue]
        asked = [(key, work) for key, work in pieces if work.kind is not Kind.LOOK or work.thread is not None]
        return {key for key, _ in asked} | {work.also for _, work in asked if work.also is not None}

    def _call(self, key: str) -> _Call | None:
        """Queue a turn of the calling thread, or return None if the thread has its turn already."""
        with self._lock:
            queue = self._queues.get(key)
            if queue and queue[0].thread == threading.get_ident():
                return None
            call = _Call(lambda: None, Kind.CALL)
            self._insert(key, call)
            return call

    def _withdrawn(self, key: str, call: _Call) -> bool:
        """Take back a call that waited for too long. Returns False if its turn has come just now."""
        with self._lock:
            if call.handed:
                return False
            self._queues[key].remove(call)  # it was not the first, so nothing else can begin now
            return True

    def _do(self, key: str, *given: Work) -> None:
        """Do ``given`` and, if the threads of other work are stopped meanwhile, what comes after."""
        own = list(given)
        while own:
            work = own.pop(0)
            with self._lock:
                queue = self._queues.get(key, [])
                if work not in queue or work.thread is not None:
                    continue  # the executor took it although it said that it had no thread
                first = queue[0]
                beside = None if work is first else work.beside
                if work is not first and (beside is None or not first.stops):
                    work.handed = False  # a piece of higher priority came between; this one has its turn again
                    continue
                work.thread = threading.get_ident()
            done = _done(key, work, beside)
            with self._lock:
                own = self._finish(key, work, done=done) + own

    def _insert(self, key: str, work: Work) -> list[Work]:
        """Queue ``work`` behind its equals. Returns as ``_hand_out``."""
        queue = self._queues.setdefault(key, [])
        lower = (at for at, each in enumerate(queue) if each.thread is None and _before(work, each))
        queue.insert(next(lower, len(queue)), work)
        return self._hand_out(key)

    def _finish(self, key: str, work: Work, *, done: bool = True) -> list[Work]:
        """Take ``work`` out, or let it wait for its turn if it is not done. Returns as ``_hand_out``."""
        if done:
            self._queues[key].remove(work)
        else:
            work.handed, work.thread, work.beside = False, None, None
        return self._hand_out(key)

    def _hand_out(self, key: str) -> list[Work]:
        """Hand each piece that can begin now to a thread. Returns the pieces that the calling thread must do itself."""
        queue, own = self._queues[key], list[Work]()
        while (work := _due(queue)) is not None:
            work.handed = True
            if isinstance(work, _Call):
                work.thread = work.caller
                work.granted.set()
                continue
            try:
                self._executors[work.kind].submit(self._do, key, work)
            except RuntimeError:  # the service stops, and its threads with it
                if work.kind is Kind.LOOK:
                    queue.remove(work)  # the next start compares all containers
                else:
                    own.insert(0, work)  # first, as it may be what ends a stop behind it
        if not queue:
            del self._queues[key]
        return own


def _done(key: str, work: Work, beside: Callable[[], bool] | None) -> bool:
    """Do the work, or what it does beside a stop. Returns whether it is done. The queue outlives every failure."""
    try:
        if beside is not None:
            return beside()
        work.run()
    except BaseException:
        LOG.exception("Work %s on %s failed; the work behind it goes on", work.name or work.kind.value, key)
        return beside is None
    return True


def _before(work: Work, other: Work) -> bool:
    return _PRIORITIES[work.kind] < _PRIORITIES[other.kind]


def _due(queue: list[Work]) -> Work | None:
    """Return a piece that can begin now and that no thread has."""
    for at, work in enumerate(queue):
        if not work.handed and (at == 0 or (queue[0].stops and work.beside is not None)):
            return work
    return None
