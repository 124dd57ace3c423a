# SPDX-License-Identifier: Apache-2.0
"""Files of containers on their way through messages: a transfer is opened, moved on piece by piece, and closed.

So neither side ever holds more than a few pieces, however large the archive is. A transfer that nobody moves on ends by
itself after ``idle`` seconds.
"""

import base64
import contextlib
import queue
import threading
import time
from collections.abc import Iterator
from typing import Any, TypeVar

from oslo_utils import uuidutils

from zun.common import exceptions
from zun.container import driver
from zun.objects import Container

PIECE = 1 << 18  # bytes in one message, before base64
_AHEAD = 2  # pieces that wait for the runtime


class _Reading:
    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""
        self.touched = time.monotonic()

    def next(self) -> bytes:
        """Up to PIECE bytes, none at the end."""
        parts, size = [self._rest], len(self._rest)
        while size < PIECE:
            chunk = next(self._chunks, b"")
            if not chunk:
                break
            parts.append(chunk)
            size += len(chunk)
        whole = b"".join(parts)
        self._rest = whole[PIECE:]
        return whole[:PIECE]

    def close(self) -> None:
        close = getattr(self._chunks, "close", None)
        if close is not None:
            close()


class _Writing:
    def __init__(self, archives: driver.Archives, container: Container, path: str, idle: float) -> None:
        self._idle = idle
        self._pieces: queue.Queue[bytes | None] = queue.Queue(_AHEAD)
        self._error: Exception | None = None
        self._gone = threading.Event()
        self.touched = time.monotonic()
        self._thread = threading.Thread(
            target=self._put, args=(archives, container, path), name=f"archive-{container.uuid}", daemon=True
        )
        self._thread.start()

    def push(self, piece: bytes) -> None:
        """Raises what made the runtime stop taking pieces."""
        self._offer(piece)

    def finish(self) -> None:
        """Wait until everything is written; raises what went wrong."""
        self._offer(None)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Break it off, if it has not ended."""
        self._gone.set()

    def _offer(self, piece: bytes | None) -> None:
        while self._thread.is_alive():
            with contextlib.suppress(queue.Full):
                self._pieces.put(piece, timeout=0.2)
                return
        if self._error is not None:
            raise self._error

    def _put(self, archives: driver.Archives, container: Container, path: str) -> None:
        try:
            archives.put_archive(container, path, self._arriving())
        except Exception as exc:
            self._error = exc

    def _arriving(self) -> Iterator[bytes]:
        waited = time.monotonic()
        while True:
            try:
                piece = self._pieces.get(timeout=0.2)
            except queue.Empty:
                if self._gone.is_set() or time.monotonic() - waited > self._idle:
                    raise exceptions.Conflict("The archive was broken off before its end.") from None
                continue
            if piece is None:
                return
            waited = time.monotonic()
            yield piece


T = TypeVar("T", _Reading, _Writing)


class Archives:
    """The transfers of one host, by id. Pieces are base64 text."""

    def __init__(self, runtime: driver.Archives, idle: float = 120) -> None:
        self._runtime = runtime
        self._idle = idle
        self._lock = threading.Lock()
        self._transfers: dict[str, _Reading | _Writing] = {}

    def open_get(self, container: Container, path: str) -> dict[str, Any]:
        """The transfer's ``id``, what is at the ``path``, and whether."""
        chunks, stat = self._runtime.get_archive(container, path)
        return {"id": self._add(_Reading(chunks)), "stat": stat}

    def open_put(self, container: Container, path: str) -> str:
        return self._add(_Writing(self._runtime, container, path, self._idle))

    def pull(self, transfer: str) -> str:
        """The next piece; at the end an empty one, and the transfer is over."""
        reading = self._find(transfer, _Reading)
        try:
            piece = reading.next()
        except Exception:
            self.close(transfer)
            raise
        if not piece:
            self.close(transfer)
        return base64.b64encode(piece).decode()

    def push(self, transfer: str, piece: str) -> None:
        self._find(transfer, _Writing).push(base64.b64decode(piece))

    def finish(self, transfer: str) -> None:
        """Wait until everything that was pushed is written; raises what went wrong."""
        try:
            self._find(transfer, _Writing).finish()
        finally:
            self.close(transfer)

    def close(self, transfer: str) -> None:
        """Forget the transfer, wherever it is. Doing so twice is harmless."""
        with self._lock:
            found = self._transfers.pop(transfer, None)
        if found is not None:
            found.close()

    def running(self) -> int:
        """How many transfers there are."""
        with self._lock:
            return len(self._transfers)

    def _add(self, made: _Reading | _Writing) -> str:
        transfer, now = uuidutils.generate_uuid(), time.monotonic()
        with self._lock:
            old = [each for each, found in self._transfers.items() if now - found.touched > self._idle]
            self._transfers[transfer] = made
        for each in old:
            self.close(each)
        return transfer

    def _find(self, transfer: str, kind: type[T]) -> T:
        with self._lock:
            found = self._transfers.get(transfer)
        if not isinstance(found, kind):
            raise exceptions.Conflict("The transfer of files took too long between two pieces. Try again.")
        found.touched = time.monotonic()
        return found
