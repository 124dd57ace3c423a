# SPDX-License-Identifier: Apache-2.0
"""Work that no row of a container describes: on images, and on parts of the host."""

import threading
from collections.abc import Callable

from zun.compute.work.queue import Again, Key, Next, Queue

KIND = "errand"


class Errands:
    """Pieces of work by name, for example an image's uuid or ``pool``. Those of one name are done one after the other.

    A piece that fails is done again later, before the pieces behind it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pieces: dict[str, list[tuple[str, Callable[[], object]]]] = {}
        self._queue: Queue | None = None

    def use(self, queue: Queue) -> None:
        """Do the work in ``queue``, which has ``do`` as the handler of ``KIND``."""
        self._queue = queue

    def put(self, name: str, what: str, work: Callable[[], object]) -> None:
        """Have ``work`` done, unless a piece ``what`` of this name waits already. Returns at once."""
        assert self._queue is not None
        with self._lock:
            pieces = self._pieces.setdefault(name, [])
            if all(what != waiting for waiting, _ in pieces):
                pieces.append((what, work))
        self._queue.put(Key(KIND, name))

    def do(self, name: str) -> Next | None:
        """Do the first piece of ``name``."""
        with self._lock:
            pieces = self._pieces.get(name, [])
            work = pieces[0][1] if pieces else None
        if work is None:
            return None
        work()
        return Again(0) if self.drop(name) else None

    def names(self) -> set[str]:
        """Return the names of which there is work, under way or waiting."""
        with self._lock:
            return set(self._pieces)

    def has(self, name: str) -> bool:
        """Return whether there is work of this name, under way or waiting."""
        with self._lock:
            return name in self._pieces

    def drop(self, name: str) -> int:
        """Forget the first piece of ``name``, and return how many are left."""
        with self._lock:
            pieces = self._pieces.get(name, [])
            del pieces[:1]
            if not pieces:
                self._pieces.pop(name, None)
            return len(pieces)
