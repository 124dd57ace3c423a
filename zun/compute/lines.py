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
        self._lines: dict[str, collections.deque[tuple[str | None, Callable[[], object]]]] = {}  # what is not begun

    def put(self, about: str, work: Callable[[], object], name: str | None = None) -> None:
        """Returns at once. ``work`` raises nothing.

        What has a ``name`` is left out while something of that name waits: it will find what this would have.
        """
        with self._lock:
            line = self._lines.get(about)
            if line is None:
                self._workers.submit(self._run, about)
                self._lines[about] = collections.deque([(name, work)])
            elif name is None or all(name != other for other, _ in line):
                line.append((name, work))

    def about(self) -> set[str]:
        """What work is under way or waits about."""
        with self._lock:
            return set(self._lines)

    def _run(self, about: str) -> None:
        while True:
            with self._lock:
                line = self._lines[about]
                if not line:
                    del self._lines[about]
                    return
                _, work = line.popleft()
            work()
