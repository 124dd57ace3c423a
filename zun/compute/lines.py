# SPDX-License-Identifier: Apache-2.0
"""Work that must not wait on a worker for other work about the same thing."""

import collections
import threading
from collections.abc import Callable
from concurrent.futures import Executor


class Lines:
    """Does work on ``workers``: that about one thing piece by piece, in the order in which it came.

    So whatever is asked of one container, which does one thing at a time, takes one worker and leaves the others.
    """

    def __init__(self, workers: Executor) -> None:
        self._workers = workers
        self._lock = threading.Lock()
        self._lines: dict[str, collections.deque[Callable[[], object]]] = {}  # what waits behind what is being done

    def put(self, about: str, work: Callable[[], object]) -> None:
        """Returns at once. ``work`` raises nothing."""
        with self._lock:
            if about in self._lines:
                self._lines[about].append(work)
                return
            self._workers.submit(self._run, about, work)
            self._lines[about] = collections.deque()

    def _run(self, about: str, work: Callable[[], object]) -> None:
        while True:
            work()
            with self._lock:
                if not self._lines[about]:
                    del self._lines[about]
                    return
                work = self._lines[about].popleft()
