# SPDX-License-Identifier: Apache-2.0
"""Limit what one project does at the same time in this process: archives on their way, requests that wait."""

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from zun.api import errors
from zun.common import exceptions


class AtOnce:
    """Count by project. Threads may share it. ``limit`` is for each project; -1 is none.

    ``refusal`` returns the error for one more, from the project, the limit and the number in use.
    """

    def __init__(self, limit: int, refusal: Callable[[str, int, int], Exception]) -> None:
        self._limit = limit
        self._refusal = refusal
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()

    def _begin(self, project_id: str) -> None:
        with self._lock:
            running = self._running[project_id]
            if 0 <= self._limit <= running:
                raise self._refusal(project_id, self._limit, running)
            self._running[project_id] += 1

    def _end(self, project_id: str) -> None:
        with self._lock:
            self._running[project_id] -= 1
            if not self._running[project_id]:
                del self._running[project_id]

    @contextlib.contextmanager
    def one(self, project_id: str) -> Iterator[None]:
        """Count one more until the work inside is done. Raises the refusal."""
        self._begin(project_id)
        try:
            yield
        finally:
            self._end(project_id)

    def counted(self, project_id: str, begin: Callable[[], Iterable[bytes]]) -> Iterator[bytes]:
        """Return the pieces of ``begin()``, counted as a transfer from before that call until they end or are closed.

        Raises the refusal.
        """

        def whole() -> Iterator[bytes]:
            with self.one(project_id):
                pieces = begin()
                yield b""
                yield from pieces

        made = whole()
        next(made)  # begun, so that it ends however it is left, even before anybody wants a piece
        return made


def archives(limit: int) -> AtOnce:
    """Return the count of archives. The refusal is OverQuota."""

    def refusal(project_id: str, limit: int, running: int) -> Exception:
        over = f"archives: limit {limit} at the same time, in use {running}, asked for 1 more"
        return exceptions.OverQuota(project=project_id, over=over)

    return AtOnce(limit, refusal)


class TooManyWait(errors.RoutingError):
    """A project's requests hold all the threads that one project may have while they wait."""

    code = 429

    def __init__(self, limit: int) -> None:
        message = (
            f"{limit} requests of this project wait for the answers of hosts already, which is the most in one process "
            "at a time. Send this request again when one of them is answered. See [api] waiting_requests."
        )
        super().__init__(message, headers=[("Retry-After", "1")])


class TooManyLogins(errors.RoutingError):
    """Logins hold all the threads that they may have while keystone answers."""

    code = 429

    def __init__(self, limit: int) -> None:
        message = f"{limit} logins wait for keystone already, the most at a time. Log in again in a moment."
        super().__init__(message, headers=[("Retry-After", "1")])


def logins(limit: int) -> AtOnce:
    """Return the count of logins that wait for keystone, of people whom nobody knows yet: count them as one project.

    The refusal is TooManyLogins.
    """
    return AtOnce(limit, lambda project_id, limit, running: TooManyLogins(limit))


def waits(limit: int) -> AtOnce:
    """Return the count of requests that wait for a host or a scheduler. The refusal is TooManyWait."""
    return AtOnce(limit, lambda project_id, limit, running: TooManyWait(limit))
