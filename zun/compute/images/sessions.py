# SPDX-License-Identifier: Apache-2.0
"""Open transfers of archives of container files through messages, and terminals.

A transfer is opened, its pieces move, and it is closed. Each side holds only a few pieces in memory, even for a large
archive. On the host, the archive goes through a temporary file, so that a slow client never slows down the runtime.
Docker locks a container while it reads or writes an archive: meanwhile it neither describes the container nor changes
its CPUs, and other operations wait. A transfer without progress ends after ``idle`` seconds.
"""

import base64
import contextlib
import functools
import math
import os
import pathlib
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from oslo_utils import uuidutils

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.exceptions import on_failure
from zun.common.units import MIB
from zun.container.driver.archives import Archives as RuntimeArchives
from zun.container.driver.terminals import Terminals
from zun.objects import ConsoleToken, Container

PIECE = 1 << 18  # bytes in one message, before base64


class Space:
    """The disk space below ``directory``. All transfers together use at most ``limit_mib`` of it."""

    def __init__(self, directory: str | pathlib.Path, limit_mib: int) -> None:
        self._directory = pathlib.Path(directory)
        self._limit = limit_mib * MIB
        self._taken = 0
        self._lock = threading.Lock()

    def open(self) -> int:
        """Return the descriptor of a file without a name, which vanishes at the end of its use. Raise Unavailable."""
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._directory, buffering=0) as file:
                return os.dup(file.fileno())
        except OSError as exc:
            raise exceptions.Unavailable(f"The host cannot keep archives on their way: {exc}") from exc

    def take(self, size: int) -> None:
        """Count ``size`` bytes more, or fewer if negative. Raise Unavailable if they exceed the limit."""
        with self._lock:
            if self._taken + size > self._limit:
                raise exceptions.Unavailable(
                    f"The archives under way on this host take {self._limit // MIB} MiB, which is all they may. Try "
                    "again later, copy less at once, or raise [compute] archive_space_mb."
                )
            self._taken += size


class _Transfer:
    """An archive in a file. Every access to the file holds the lock."""

    def __init__(self, space: Space) -> None:
        self.touched = time.monotonic()
        self._space = space
        self._file = space.open()
        self._size = self._passed = 0
        self._changed = threading.Condition()
        self._working = self._closed = False  # whether the runtime uses the file; whether the client is done
        self._error: Exception | None = None

    def close(self) -> None:
        """End the transfer in any state. The file is closed as soon as the runtime no longer uses it."""
        with self._changed:
            if not self._closed:
                self._closed = True
                self._changed.notify_all()
                self._let_go()

    def _append(self, data: bytes) -> None:
        with self._changed:
            self._check_wanted()
            self._space.take(len(data))
            try:
                rest = memoryview(data)
                while rest:
                    written = os.pwrite(self._file, rest, self._size)
                    self._size += written
                    rest = rest[written:]
            except OSError as exc:
                self._space.take(-len(rest))
                raise exceptions.Unavailable(f"The host cannot store the archive for the transfer: {exc}") from exc
            self._changed.notify_all()

    def _next(self) -> bytes:
        """Return the next bytes of the file, at most PIECE bytes."""
        with self._changed:
            self._check_wanted()
            piece = os.pread(self._file, PIECE, self._passed)
            self._passed += len(piece)
            return piece

    def _check_wanted(self) -> None:
        if self._closed:
            raise exceptions.Conflict("The archive was broken off before its end.")

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        """Note when the runtime is done with the file, and keep its error. The body is the work of the runtime."""
        try:
            yield
        except Exception as exc:
            self._error = exc
        finally:
            with self._changed:
                self._working = False
                self._changed.notify_all()
                if self._closed:
                    self._let_go()

    def _let_go(self) -> None:
        if not self._working:
            os.close(self._file)
            self._space.take(-self._size)


class _Reading(_Transfer):
    def __init__(self, space: Space, chunks: Iterator[bytes], name: str) -> None:
        super().__init__(space)
        self._working = True
        threading.Thread(target=self._fill, args=(chunks,), name=name, daemon=True).start()

    def next(self) -> bytes:
        """Return the next piece, at most PIECE bytes, or no bytes at the end. Raise the error of the runtime."""
        with self._changed:
            self._changed.wait_for(lambda: not self._working or self._size - self._passed >= PIECE)
            if self._error is not None:
                raise self._error
            return self._next()

    def _fill(self, chunks: Iterator[bytes]) -> None:
        with self._at_work():
            try:
                for chunk in chunks:
                    self._append(chunk)
            finally:
                close = getattr(chunks, "close", None)
                if close is not None:
                    close()


class _Writing(_Transfer):
    def __init__(self, space: Space, put: Callable[[Iterator[bytes]], None]) -> None:
        super().__init__(space)
        self._put = put

    def push(self, piece: bytes) -> None:
        self._append(piece)

    def finish(self) -> None:
        """Give the archive to the runtime and wait until all of the archive is written. Raise the runtime's error."""
        with self._changed:
            self._check_wanted()
            self._working = True
            self.touched = math.inf  # never idle, however long the runtime takes
        with self._at_work():
            self._put(iter(self._next, b""))
        if self._error is not None:
            raise self._error


T = TypeVar("T", _Reading, _Writing)


class Archives:
    """The transfers of one host, by id. Pieces are base64 texts: ``hi`` travels as ``aGk=``."""

    def __init__(self, runtime: RuntimeArchives, space: Space, idle: float = 120) -> None:
        self._runtime = runtime
        self._space = space
        self._idle = idle
        self._lock = threading.Lock()
        self._transfers: dict[str, _Reading | _Writing] = {}

    def open_get(self, container: Container, path: str) -> dict[str, Any]:
        """Open a transfer from the container. Return its ``id``, and ``stat`` of the file at ``path``."""
        chunks, stat = self._runtime.get_archive(container, path)
        return {"id": self._add(_Reading(self._space, chunks, f"archive-{container.uuid}")), "stat": stat}

    def open_put(self, container: Container, path: str) -> str:
        return self._add(_Writing(self._space, functools.partial(self._runtime.put_archive, container, path)))

    def pull(self, transfer: str) -> str:
        """Return the next piece. An empty piece ends the transfer."""
        reading = self._find(transfer, _Reading)
        with on_failure(self.close, transfer):
            piece = reading.next()
        if not piece:
            self.close(transfer)
        return base64.b64encode(piece).decode()

    def push(self, transfer: str, piece: str) -> None:
        self._find(transfer, _Writing).push(base64.b64decode(piece))

    def finish(self, transfer: str) -> None:
        """Wait until the runtime has written the pushed archive. Raise the error of the runtime."""
        try:
            self._find(transfer, _Writing).finish()
        finally:
            self.close(transfer)

    def close(self, transfer: str) -> None:
        """End the transfer in any state. Closing a transfer twice is harmless."""
        with self._lock:
            found = self._transfers.pop(transfer, None)
        if found is not None:
            found.close()

    def sweep(self) -> None:
        """Close the transfers without progress for more than ``idle`` seconds."""
        now = time.monotonic()
        with self._lock:
            old = [each for each, found in self._transfers.items() if now - found.touched > self._idle]
        for each in old:
            self.close(each)

    def running(self) -> int:
        """Return the number of open transfers."""
        with self._lock:
            return len(self._transfers)

    def _add(self, made: _Reading | _Writing) -> str:
        transfer: str = uuidutils.generate_uuid()
        with self._lock:
            self._transfers[transfer] = made
        return transfer

    def _find(self, transfer: str, kind: type[T]) -> T:
        with self._lock:
            found = self._transfers.get(transfer)
        if not isinstance(found, kind):
            raise exceptions.Conflict("The transfer of files took too long between two pieces. Try again.")
        found.touched = time.monotonic()
        return found


@dataclass(frozen=True, slots=True)
class TerminalDesk:
    """Hand out the URLs that open terminals at this host's websocket proxy.

    ``base_url`` is how clients reach this host's proxy, ``token_ttl`` is in seconds.

    ``limit`` is how many of its addresses one project may have that are valid, where nobody set it a quota.
    """

    _driver: Terminals
    _base_url: str
    _token_ttl: int
    _limit: int

    def attach(self, context: RequestContext, container: Container) -> str:
        """The URL of the container's own terminal."""
        return self._url(context, container)

    def prepare_exec(
        self, context: RequestContext, container: Container, command: Sequence[str], *, interactive: bool
    ) -> tuple[str, str]:
        """The id of the command and the URL that starts it."""
        # Before, as the runtime keeps a command that nobody starts.
        ConsoleToken.check_quota(context, container.project_id, {"terminals": self._limit})
        exec_id = self._driver.create_exec(container, command, interactive=interactive)
        return exec_id, self._url(context, container, exec_id)

    def resize(self, container: Container, exec_id: str | None, *, width: int, height: int) -> None:
        if exec_id is None:
            self._driver.resize(container, width=width, height=height)
        else:
            self._driver.resize_exec(container, exec_id, width=width, height=height)

    def _url(self, context: RequestContext, container: Container, exec_id: str | None = None) -> str:
        quota = (container.project_id, {"terminals": self._limit})
        token = ConsoleToken.issue(context, container.uuid, exec_id, self._token_ttl, quota)
        query = {"token": token, "uuid": container.uuid} | ({} if exec_id is None else {"exec_id": exec_id})
        return f"{self._base_url}?{urllib.parse.urlencode(query)}"
