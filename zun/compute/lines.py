# SPDX-License-Identifier: Apache-2.0
"""Work that must not wait on a worker for other work about the same thing."""

import collections
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class _Piece:
    work: Callable[[], object]
    by: Executor
    name: str | None = None
    also: str | None = None


class Lines:
    """Does work on ``workers``: that about one thing piece by piece, in the order in which it came.

    So whatever is asked of one container, which does one thing at a time, takes one worker and leaves the others. What
    only ``waits``, and may for long, is done on ``waiters``.
    """

    def __init__(self, workers: Executor, waiters: Executor) -> None:
        self._workers = workers
        self._waiters = waiters
        self._lock = threading.Lock()
        self._lines: dict[str, collections.deque[_Piece]] = {}  # what is not done

    def put(
        self,
        about: str,
        work: Callable[[], object],
        name: str | None = None,
        *,
        also: str | None = None,
        waits: bool = False,
    ) -> None:
        """Returns at once. ``work`` raises nothing. It is ``also`` about something else, whose order it does not keep.

        What has a ``name`` is left out while something of that name waits: it will find what this would have.
        """
        piece = _Piece(work, self._waiters if waits else self._workers, name, also)
        with self._lock:
            if not self._append(about, piece):
                piece.by.submit(self._run, about, piece.by)
                self._lines[about] = collections.deque([piece])

    def put_behind(self, about: str, work: Callable[[], object], name: str) -> bool:
        """As ``put`` if there is work about the same. Returns whether there is."""
        with self._lock:
            return self._append(about, _Piece(work, self._workers, name))

    def about(self) -> set[str]:
        """What work is under way or waits about."""
        with self._lock:
            others = {piece.also for line in self._lines.values() for piece in line if piece.also is not None}
            return self._lines.keys() | others

    def _append(self, about: str, piece: _Piece) -> bool:
        """Returns whether there is a line for it."""
        line = self._lines.get(about)
        if line is not None and (piece.name is None or all(piece.name != other.name for other in line)):
            line.append(piece)
        return line is not None

    def _run(self, about: str, by: Executor) -> None:
        while True:
            with self._lock:
                line = self._lines[about]
                if not line:
                    del self._lines[about]
                    return
                if line[0].by is not by:
                    with contextlib.suppress(RuntimeError):  # those are stopped, and this thread has time
                        line[0].by.submit(self._run, about, line[0].by)
                        return
                piece = line[0]
                line[0] = replace(piece, name=None)  # it has begun: nothing is left out for it
            piece.work()
            with self._lock:
                line.popleft()
