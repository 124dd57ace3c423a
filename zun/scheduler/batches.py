# SPDX-License-Identifier: Apache-2.0
"""Send what is for one host together, if it becomes ready while an earlier message to the host is on its way."""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

LOG = logging.getLogger(__name__)

T = TypeVar("T")

MOST = 64
"""Items that wait for a message to one host at most."""


class Batches(Generic[T]):
    """Sends items to hosts with ``send``. Thread-safe.

    The first thread that puts an item for a host sends the message, and then, in one message each time, what other
    threads have put for this host meanwhile. These threads return at once. So an item that comes alone never waits, and
    messages to different hosts are on their way at the same time.
    """

    def __init__(
        self, send: Callable[[str, Sequence[T]], object], name_of: Callable[[T], str], most: int = MOST
    ) -> None:
        """``name_of`` returns what the log calls an item. At most ``most`` items wait for each host."""
        self._send = send
        self._name_of = name_of
        self._most = most
        self._lock = threading.Lock()
        self._waiting: dict[str, list[T]] = {}  # each host to which a message is on its way

    def put(self, host: str, items: Sequence[T]) -> None:
        """Send ``items`` to ``host``, or leave them to the thread that sends to it. Return without knowing the outcome.

        If too many items wait for the host, these are sent beside them, so the thread takes no other work meanwhile.
        """
        with self._lock:
            waiting = self._waiting.get(host)
            if waiting is None:
                self._waiting[host] = []
            elif len(waiting) + len(items) <= self._most:
                waiting.extend(items)
                return
        self._deliver(host, items)
        while waiting is None and (more := self._next(host)):
            self._deliver(host, more)

    def _next(self, host: str) -> list[T]:
        """Return the items that wait for ``host``. If there are none, the next thread that puts some sends them."""
        with self._lock:
            found = self._waiting.pop(host)
            if found:
                self._waiting[host] = []
            return found

    def _deliver(self, host: str, items: Sequence[T]) -> None:
        """Send the items together, or each alone if that fails: what is wrong with one must not hold up the others."""
        try:
            self._send(host, items)
        except Exception:
            if len(items) == 1:
                LOG.exception("%s could not be sent to host %s", self._name_of(items[0]), host)
                return
            for each in items:
                self._deliver(host, [each])
