# SPDX-License-Identifier: Apache-2.0
"""Small news that many threads have, sent together by a thread of its own."""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

LOG = logging.getLogger(__name__)


class Outbox:
    """Sends what is ``put`` with ``send``, all items of ``seconds`` in one call and in their order.

    What cannot be sent is logged and gone: for news that somebody repairs the loss of.
    """

    def __init__(self, send: Callable[[Sequence[Any]], object], seconds: float) -> None:
        self._send = send
        self._seconds = seconds
        self._changed = threading.Condition()
        self._items: list[Any] = []
        self._sending = threading.Lock()  # held over I/O: what was put first is sent first
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None  # only who has news needs one

    def put(self, item: Any) -> None:
        """Returns at once. After ``close`` nothing is sent any more."""
        with self._changed:
            self._items.append(item)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
                self._thread.start()
            elif len(self._items) == 1:
                self._changed.notify()

    def flush(self) -> None:
        """Send now, from this thread, what waits."""
        with self._sending:
            with self._changed:
                items, self._items = self._items, []
            if items:
                try:
                    self._send(items)
                except Exception as exc:
                    LOG.warning("%d pieces of news could not be sent: %s", len(items), exc)

    def close(self) -> None:
        """Send what is left, and return when that is done."""
        self._closing.set()
        with self._changed:
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._items and not self._closing.is_set():
                    self._changed.wait()
            if self._closing.wait(self._seconds):
                break
            self.flush()
        self.flush()
