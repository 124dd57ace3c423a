# SPDX-License-Identifier: Apache-2.0
"""Connections of zun-api's own server. A request takes a thread only when it has arrived.

cheroot gives a connection to a thread at its first byte, and its timeout applies to a single read. So sixteen clients
that send a byte now and then would hold all threads. Here the accepting thread also reads heads and small bodies.
"""

import contextlib
import enum
import functools
import re
import socket
import ssl
import time
from typing import Any

import cheroot.ssl
from cheroot import errors, makefile, server

from zun.api import errors as api_errors
from zun.api import limits
from zun.cmd import framing

SECONDS = limits.SECONDS
RATE = limits.RATE
REQUEST_SECONDS = limits.REQUEST_SECONDS
DISCARDED_BYTES = 1 << 26  # most bytes of an unread body: many clients read the answer only after sending the body
PIECE = 1 << 16
_PIECES_AT_ONCE = 32  # then it is the turn of other connections
_HEAD_END = re.compile(rb"\n\r?\n")
_NOT_HTTPS = b"This port speaks https, and the request is plain http. Use a URL that begins with https://.\n"


class TLS(cheroot.ssl.Adapter):  # type: ignore[misc]
    """TLS for new connections. ``Connection.step`` does the handshake: a slow client would hold the accepting thread.

    The handshake costs that thread about a millisecond with an RSA key, and a tenth of that with an elliptic curve.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context

    def bind(self, sock: socket.socket) -> socket.socket:
        return sock

    def wrap(self, sock: socket.socket) -> tuple[ssl.SSLSocket, dict[str, str]]:
        try:
            wrapped = self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        except OSError as exc:  # the client has gone
            raise errors.FatalSSLAlert(str(exc)) from exc
        return wrapped, self.get_environ()

    def get_environ(self) -> dict[str, str]:
        return {"HTTPS": "on"}

    def makefile(self, sock: socket.socket, mode: str = "r", bufsize: int = -1) -> Any:
        return makefile.MakeFile(sock, mode, bufsize)


class Step(enum.Enum):
    """The next need of a connection."""

    READY = enum.auto()  # a thread: the request is complete, or so malformed that cheroot answers at once
    WAIT = enum.auto()  # more bytes
    GONE = enum.auto()  # to be closed


class Wire:
    """The socket of one connection, as the two files that cheroot reads and writes.

    A thread may wait SECONDS for the client. Each byte that is sent or received adds 1 / RATE of a second again, up to
    SECONDS. At 0 seconds, or REQUEST_SECONDS after ``restart``, TimeoutError is raised. ``buffer`` has the bytes that
    were read ahead.
    """

    bytes_read = bytes_written = 0  # cheroot's statistics, which are off

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.restart()
        self.buffer = bytearray()
        self.ended = False
        self.closed = False

    def restart(self) -> None:
        """Allow SECONDS and REQUEST_SECONDS again, for the next request."""
        self._left = SECONDS
        self._end = time.monotonic() + REQUEST_SECONDS

    def read(self, size: int = -1) -> bytes:
        while (size < 0 or len(self.buffer) < size) and self._fill(PIECE if size < 0 else size - len(self.buffer)):
            pass
        return self._take(len(self.buffer) if size < 0 else size)

    def readline(self, size: int = -1) -> bytes:
        searched = 0
        while True:
            end = self.buffer.find(b"\n", searched) + 1
            if end or 0 <= size <= len(self.buffer):
                return self._take(min(end or size, size) if size >= 0 else end)
            searched = len(self.buffer)
            if not self._fill(PIECE):
                return self._take(len(self.buffer))

    def write(self, data: bytes) -> int:
        view = memoryview(data)
        while view:
            view = view[self._paced(functools.partial(self._socket.send, view), int) :]
        return len(data)

    def flush(self) -> None:
        """Do nothing, because ``write`` sends at once."""

    def has_data(self) -> bool:
        """Return False: ``_Server.put_conn`` looks at the buffer itself, before cheroot would."""
        return False

    def close(self) -> None:
        self.closed = True
        self.buffer.clear()

    def _take(self, size: int) -> bytes:
        taken = bytes(self.buffer[:size])
        del self.buffer[:size]
        return taken

    def _fill(self, most: int) -> bool:
        if self.ended:
            return False
        data = self._paced(lambda: self._socket.recv(min(most, PIECE)), len)
        self.ended = not data
        self.buffer += data
        return bool(data)

    def _paced(self, move: Any, count: Any) -> Any:
        start = time.monotonic()
        left = min(self._left, self._end - start)
        if left <= 0:
            raise TimeoutError("timed out")
        self._socket.settimeout(left)
        moved = move()
        self._left = min(SECONDS, self._left - (time.monotonic() - start) + count(moved) / RATE)
        return moved


class Connection(server.HTTPConnection):  # type: ignore[misc]
    """A connection that reads its next request without a thread, and closes without losing its answer."""

    def __init__(self, owner: Any, sock: socket.socket, makefile: Any = makefile.MakeFile) -> None:
        super().__init__(owner, sock, makefile)
        self.wire = self.rfile = self.wfile = Wire(sock)
        self.counted = False  # counted among the connections of its client
        self.working = False  # in a thread, or on its way there
        self.evicted = False
        self._lingering = False
        self._discarded = 0
        self._since: float | None = None
        self.rest()

    @property
    def last_used(self) -> float | None:
        """Return the time in seconds from which cheroot counts its timeout. Each byte received adds 1 / RATE."""
        return self._since

    @last_used.setter
    def last_used(self, now: float) -> None:
        if self._since is None:
            self._since = now

    def rest(self) -> None:
        """Prepare the connection to wait for a request."""
        self.socket.setblocking(False)
        self.working = False
        self._since = None
        self._searched = 0
        self._wanted: int | None = None  # bytes of the head and of a small body, once the head is there
        self._chunks: framing.Chunks | None = None  # of a body whose length nobody names
        self._expects = False

    def begin(self) -> None:
        """Prepare the connection for a thread."""
        self.working = True
        self.wire.restart()

    def step(self) -> Step:
        """Read the bytes that have arrived, and return the next need. OSError if the connection is broken."""
        for _ in range(_PIECES_AT_ONCE):
            if not self._lingering and self._has_arrived():
                return Step.READY
            try:
                data = self.socket.recv(PIECE)  # of TLS one whole record, so that OpenSSL keeps no rest for itself
            except (BlockingIOError, ssl.SSLWantReadError):
                self._invite()
                return Step.WAIT
            except ssl.SSLError as exc:
                if exc.reason != "HTTP_REQUEST":
                    raise
                self._refuse_plain_text()
                continue
            if not data:
                self.wire.ended = True
                return Step.READY if self.wire.buffer and not self._lingering and not self.evicted else Step.GONE
            if self._since is not None:
                self._since += len(data) / RATE
            if not self._lingering:
                self.wire.buffer += data
            self._discarded += len(data) if self._lingering else 0
            if self._discarded > DISCARDED_BYTES:
                return Step.GONE
        return Step.READY if not self._lingering and self._has_arrived() else Step.WAIT

    def refuse(self) -> None:
        """Answer 503, if the socket can send at once, and close the connection."""
        with contextlib.suppress(OSError):
            self.socket.send(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        self.close()

    def evict(self) -> None:
        """Shut the connection down to make room. The server's thread then finds it ended and closes it."""
        self.evicted = True
        with contextlib.suppress(OSError):  # it has ended by itself
            # SSLSocket.shutdown would let the bytes that arrived before pass undecrypted.
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection. After an answer, first wait without a thread until the client has stopped sending.

        Closing a socket while bytes arrive resets the connection, and the client may lose the answer.
        """
        if self.working and self.server.ready and not self.wire.ended:
            self.working = False
            self._lingering = True
            with contextlib.suppress(OSError):
                self.rest()
                self._end_tls()
                self.socket.shutdown(socket.SHUT_WR)
                self.wire.buffer.clear()
                self.server.linger(self)
                return
        self.server.leave(self)
        super().close()

    def _end_tls(self) -> None:
        """Tell a client with TLS that nothing was cut off. Its own end of TLS is not awaited."""
        if isinstance(self.socket, ssl.SSLSocket):
            with contextlib.suppress(OSError):
                self.socket.unwrap()

    def _refuse_plain_text(self) -> None:
        """Answer 400 to a client that sends http to a server with TLS, and wait until the client has stopped."""
        head = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n" % len(_NOT_HTTPS)
        self._lingering = True
        with contextlib.suppress(OSError):
            socket.socket.send(self.socket, head + b"Connection: close\r\n\r\n" + _NOT_HTTPS)
            self.socket.shutdown(socket.SHUT_WR)  # ends TLS, too

    def _has_arrived(self) -> bool:
        """Do as ``_arrived``, and refuse a request whose end is in doubt."""
        try:
            return self._arrived()
        except api_errors.RoutingError as exc:
            self._refuse(exc)
            return False

    def _refuse(self, error: api_errors.RoutingError) -> None:
        """Answer with ``error``, and wait until the client has stopped: nobody knows where its next request begins."""
        self._lingering = True
        status, headers, body = api_errors.render(error, "")
        lines = [f"HTTP/1.1 {status} {error.title}", *(f"{name}: {value}" for name, value in headers)]
        head = "\r\n".join([*lines, "Connection: close", "", ""])
        self.wire.buffer.clear()
        with contextlib.suppress(OSError):
            self.socket.send(head.encode("latin-1", "replace") + body)
            self._end_tls()
            self.socket.shutdown(socket.SHUT_WR)

    def _arrived(self) -> bool:
        """Return whether the head has arrived, and the body if it is small. Raises RoutingError for a request that is
        none.
        """
        buffer = self.wire.buffer
        if self._wanted is None:
            if not self._searched:
                while buffer[:2] == b"\r\n":  # between requests (RFC 9112, 2.2)
                    del buffer[:2]
            end = _HEAD_END.search(buffer, max(0, self._searched - 2))
            self._searched = len(buffer)
            if end is None:
                return len(buffer) > limits.HEAD_BYTES
            if end.end() > limits.HEAD_BYTES:
                return True
            found = framing.framing(bytes(buffer[: end.end()]))
            self._expects = found.expects
            self._wanted = end.end()
            if found.length is None:
                self._chunks = framing.Chunks(end.end())
            elif found.length <= limits.BODY_BYTES:
                self._wanted += found.length
        if self._chunks is not None:
            return self._chunks.arrived(buffer, limits.BODY_BYTES)
        return len(buffer) >= self._wanted

    def _invite(self) -> None:
        """Send 100 Continue to a client that waits for it. cheroot sends it again, which HTTP allows."""
        if self._expects:
            self._expects = False
            with contextlib.suppress(OSError):
                self.socket.send(b"HTTP/1.1 100 Continue\r\n\r\n")
