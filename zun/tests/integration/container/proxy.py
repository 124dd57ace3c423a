# SPDX-License-Identifier: Apache-2.0
"""A socket before the daemon's, so that a test can cut connections and see requests without touching the daemon."""

import pathlib
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_CHUNK = 64 * 1024
_REQUEST = re.compile(rb"^([A-Z]+) (\S+) HTTP/1\.1\r$", re.MULTILINE)


class SocketProxy:
    """Forwards every connection to ``path`` to the socket ``target``, as long as it is open.

    ``requests`` are the methods and URLs that went to the target, as ``GET /v1.41/containers/json``.
    """

    def __init__(self, path: pathlib.Path, target: str) -> None:
        self.url = f"unix://{path}"
        self.accepted = 0
        self.requests: list[str] = []
        self._held = threading.Event()
        self._path, self._target = path, target
        self._sockets: list[socket.socket] = []
        self._listener: socket.socket | None = None

    def open(self) -> None:
        self._path.unlink(missing_ok=True)
        self._listener = listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self._path))
        listener.listen()
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def hold(self) -> None:
        """Swallow what comes from now on, as a daemon that hangs."""
        self._held.set()

    def cut(self) -> None:
        """Stop listening and drop every connection."""
        listener, self._listener = self._listener, None
        for each in [listener, *self._sockets]:
            if each is not None:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()
        self._sockets.clear()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self._target)
                self.accepted += 1
                self._sockets += [near, far]
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=self._copy, args=ends, daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                if self._held.is_set():
                    continue
                self.requests += [b" ".join(each).decode() for each in _REQUEST.findall(data)]
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


@contextmanager
def proxied(path: pathlib.Path, target_url: str) -> Iterator[SocketProxy]:
    proxy = SocketProxy(path, target_url.removeprefix("unix://"))
    proxy.open()
    try:
        yield proxy
    finally:
        proxy.cut()
