# SPDX-License-Identifier: Apache-2.0
"""Work that must not wait on a worker for other work about the same thing."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class _Piece:
    work: Callable[[], object]
    by: Executor
    name: str | None = None
    also: str | None = None
    lingers: bool = False
    beside: Callable[[], bool] | None = None
    given: bool = False
    """Some thread does it, or will once it is free."""


class Lines:
    """Does work on ``workers``: that about one thing piece by piece, in the order in which it came.

    So whatever is asked of one container, which does one thing at a time, takes one worker and leaves the others. What
    only ``waits``, and may for long, is done on ``waiters``.
    """

    def __init__(self, workers: Executor, waiters: Executor) -> None:
        self._workers = workers
        self._waiters = waiters
        self._lock = threading.Lock()
        self._lines: dict[str, list[_Piece]] = {}  # what is not done

    def put(
        self,
        about: str,
        work: Callable[[], object],
        name: str | None = None,
        *,
        also: str | None = None,
        waits: bool = False,
        lingers: bool = False,
        beside: Callable[[], bool] | None = None,
    ) -> None:
        """Returns at once. ``work`` raises nothing. It is ``also`` about something else, whose order it does not keep.

        What has a ``name`` is left out while something of that name waits: it will find what this would have.

        What ``lingers`` waits for something that other work may bring about. That has a ``beside``, which is done as
        soon as what is under way lingers, and tells whether this was all: else ``work`` is done in its turn.
        """
        piece = _Piece(work, self._waiters if waits else self._workers, name, also, lingers, beside)
        with self._lock:
            line = self._lines.get(about, [])
            if _wanted(line, piece):
                line.append(piece)
                for due in _due(line):
                    due.by.submit(self._run, about, due)
                    due.given = True
                self._lines[about] = line

    def put_behind(self, about: str, work: Callable[[], object], name: str) -> bool:
        """As ``put`` if there is work about the same. Returns whether there is."""
        piece = _Piece(work, self._workers, name)
        with self._lock:
            line = self._lines.get(about, [])
            if line and _wanted(line, piece):
                line.append(piece)
            return bool(line)

    def about(self) -> set[str]:
        """What work is under way or waits about."""
        with self._lock:
            others = {piece.also for line in self._lines.values() for piece in line if piece.also is not None}
            return self._lines.keys() | others

    def _run(self, about: str, piece: _Piece) -> None:
        mine = [piece]
        while mine:
            piece = mine.pop(0)
            with self._lock:
                line = self._lines[about]
                beside = None if piece is line[0] else piece.beside
                piece.name = None  # it has begun: nothing is left out for it
            if beside is not None:
                done = beside()
            else:
                piece.work()
                done = True
            with self._lock:
                if done:
                    line.remove(piece)
                else:
                    piece.given, piece.beside = False, None
                if not line:
                    del self._lines[about]
                for due in list(_due(line)):
                    due.given = True
                    if due.by is piece.by and not mine:
                        mine.append(due)
                        continue
                    try:
                        due.by.submit(self._run, about, due)
                    except RuntimeError:  # those are stopped, and this thread has time; first for what ends the other
                        mine.insert(0, due)


def _wanted(line: list[_Piece], piece: _Piece) -> bool:
    return piece.name is None or all(piece.name != other.name for other in line)


def _due(line: list[_Piece]) -> Iterator[_Piece]:
    """What of the line may be begun now."""
    for number, piece in enumerate(line):
        if not piece.given and (number == 0 or (line[0].lingers and piece.beside is not None)):
            yield piece
