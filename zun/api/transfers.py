# SPDX-License-Identifier: Apache-2.0
"""Limit the archives of one project that are on their way at the same time in this process."""

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from zun.common import exceptions


class Transfers:
    """Threads may share it. ``limit`` is for each project; -1 is none."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()

    def _begin(self, project_id: str) -> None:
        with self._lock:
            running = self._running[project_id]
            if 0 <= self._limit <= running:
                over = f"archives: limit {self._limit} at the same time, in use {running}, asked for 1 more"
                raise exceptions.OverQuota(project=project_id, over=over)
            self._running[project_id] += 1

    def _end(self, project_id: str) -> None:
        with self._lock:
            self._running[project_id] -= 1
            if not self._running[project_id]:
                del self._running[project_id]

    @contextlib.contextmanager
    def one(self, project_id: str) -> Iterator[None]:
        """Count one more until the work inside is done. Raises OverQuota."""
        self._begin(project_id)
        try:
            yield
        finally:
            self._end(project_id)

    def counted(self, project_id: str, begin: Callable[[], Iterable[bytes]]) -> Iterator[bytes]:
        """Return the pieces of ``begin()``, counted as a transfer from before that call until they end or are closed.

        Raises OverQuota.
        """

        def whole() -> Iterator[bytes]:
            with self.one(project_id):
                pieces = begin()
                yield b""
                yield from pieces

        made = whole()
        next(made)  # begun, so that it ends however it is left, even before anybody wants a piece
        return made
