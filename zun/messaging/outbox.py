# SPDX-License-Identifier: Apache-2.0
"""Collect small items from many threads and send them together."""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

LOG = logging.getLogger(__name__)


class Outbox:
    """Call ``send`` with all items that were put within ``seconds``, in their order.

    A failure of ``send`` is logged and its items are lost, so use an outbox only for items whose loss is repaired.
    """

    def __init__(self, send: Callable[[Sequence[Any]], object], seconds: float) -> None:
        self._send = send
        self._seconds = seconds
        self._changed = threading.Condition()
        self._items: list[Any] = []
        self._sending = threading.Lock()  # held over I/O, so that items are sent in their order
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None  # made with the first item

    def put(self, item: Any) -> None:
        """Add ``item`` and return at once. An item put after ``close`` is not sent."""
        with self._changed:
            self._items.append(item)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
                self._thread.start()
            elif len(self._items) == 1:
                self._changed.notify()

    def flush(self) -> None:
        """Send the waiting items now, from the calling thread."""
        with self._sending:
            with self._changed:
                items, self._items = self._items, []
            if items:
                try:
                    self._send(items)
                except Exception as exc:
                    LOG.warning("%d pieces of news could not be sent: %s", len(items), exc)

    def close(self) -> None:
        """Send the waiting items, end the thread and return when both are done."""
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
