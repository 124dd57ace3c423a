# SPDX-License-Identifier: Apache-2.0
"""Work that no row of a container describes: on images, and on parts of the host."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from zun.common.context import RequestContext
from zun.compute.work.queue import Again, Key, Next, Queue

KIND = "errand"


@dataclass(frozen=True, slots=True)
class _Piece:
    """One piece of work of an errand: ``what`` is its name there, ``context`` that of the request."""

    what: str
    work: Callable[[], object]
    context: RequestContext


class Errands:
    """Pieces of work by name, for example an image's uuid or ``pool``. Those of one name are done one after the other.

    A piece that fails is done again later, before the pieces behind it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, list[_Piece]] = {}  # no list is empty
        self._begun: dict[str, _Piece] = {}
        """The piece of each name that is being done, or has failed and is done again."""
        self._queue: Queue | None = None

    def use(self, queue: Queue) -> None:
        """Do the work in ``queue``, which has ``do`` as the handler of ``KIND``."""
        self._queue = queue

    def put(self, context: RequestContext, name: str, what: str, work: Callable[[], object]) -> None:
        """Have ``work`` done, unless a piece ``what`` of this name waits already. Returns at once.

        A piece that has begun does not count: it may have read what has changed since.
        """
        with self._lock:
            pieces = self._waiting.setdefault(name, [])
            if all(what != each.what for each in pieces):
                pieces.append(_Piece(what, work, context))
        self._ask(name)

    def do(self, name: str) -> Next | None:
        """Do the first piece of ``name``."""
        with self._lock:
            piece = self._begun.get(name)
            if piece is None:
                pieces = self._waiting.pop(name, [])
                if not pieces:
                    return None
                piece = self._begun[name] = pieces.pop(0)
                if pieces:
                    self._waiting[name] = pieces
        piece.context.update_store()  # log lines of this thread bear the request's id
        piece.work()
        return Again(0) if self._end(name) else None

    def give_up(self, name: str) -> None:
        """Forget the piece of ``name`` that failed again and again. The pieces behind it have their turn."""
        if self._end(name):
            self._ask(name)

    def names(self) -> set[str]:
        """Return the names of which there is work, under way or waiting."""
        with self._lock:
            return {*self._waiting, *self._begun}

    def _end(self, name: str) -> bool:
        """Forget the piece that has begun. Return whether others wait."""
        with self._lock:
            self._begun.pop(name, None)
            return name in self._waiting

    def _ask(self, name: str) -> None:
        assert self._queue is not None
        self._queue.put(Key(KIND, name))
