# SPDX-License-Identifier: Apache-2.0
"""Connections to the daemon that become a raw stream, for attached terminals and executed commands.

docker-py has no documented way to open such a stream. Its ``exec_start(socket=True)`` loses bytes that arrive in one
packet with the header of the answer, and has no timeout. So this module does the short HTTP exchange itself.
"""

import contextlib
import errno
import functools
import json
import os
import select
import socket
import ssl
import struct
import threading
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any, Self

import requests
from docker import errors as docker_errors

from zun.common import exceptions
from zun.container.docker.client import Engine, Settings

_READ = 64 * 1024
_HEAD_LIMIT = 64 * 1024


class Secured:
    """A TLS connection with the methods of a socket that a stream needs.

    One thread may read while another one writes, which OpenSSL does not allow: a lock keeps its steps apart. No step
    blocks. A thread that has to wait does so without the lock.
    """

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self._timeout = connection.gettimeout()
        self._socket = connection
        self._lock = threading.Lock()
        connection.setblocking(False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def settimeout(self, seconds: float | None) -> None:
        self._timeout = seconds

    def setsockopt(self, level: int, option: int, value: bytes) -> None:
        """Set an option of the socket. SO_SNDTIMEO limits ``sendall`` as it does without TLS."""
        self._socket.setsockopt(level, option, value)

    def recv(self, size: int) -> bytes:
        return self._done(lambda: self._socket.recv(size), self._timeout)

    def sendall(self, data: bytes) -> None:
        limit, _ = struct.unpack("@ll", self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, 16))
        view = memoryview(data)
        while view:
            view = view[self._done(functools.partial(self._socket.send, view), self._timeout or limit or None) :]

    def shutdown(self, how: int) -> None:
        socket.socket.shutdown(self._socket, how)  # SSLSocket.shutdown would let later bytes pass undecrypted

    def close(self) -> None:
        with self._lock:
            self._socket.close()

    def _done(self, step: Callable[[], Any], timeout: float | None) -> Any:
        while True:
            try:
                with self._lock:
                    return step()
            except ssl.SSLWantReadError:
                wanted = select.POLLIN
            except ssl.SSLWantWriteError:
                wanted = select.POLLOUT
            number = self._socket.fileno()
            if number < 0:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            poll = select.poll()
            poll.register(number, wanted)
            if not poll.poll(None if timeout is None else timeout * 1000):
                raise TimeoutError("timed out")


def hijack(engine: Engine, path: str, body: Mapping[str, Any] | None = None) -> tuple[socket.socket | Secured, bytes]:
    """POST ``body`` to ``path``, and return the connection and the bytes of the stream that were already read.

    The driver's default timeout holds until Docker has answered; afterwards the connection has no timeout. Raises
    docker-py's errors, and Unavailable if the URL of the daemon is neither unix:// nor tcp://.
    """
    content = b"" if body is None else json.dumps(body).encode()
    head = (
        f"POST {engine.base}{path} HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\n"
        f"Upgrade: tcp\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    connection = _connect(engine.settings)
    try:
        connection.sendall(head.encode() + content)
        status, rest = _response(connection)
        if status not in (101, 200):
            raise _refused(status, connection, rest)
    except BaseException:
        connection.close()
        raise
    connection.settimeout(None)
    return connection, rest


def _connect(settings: Settings) -> socket.socket | Secured:
    url, timeout = urllib.parse.urlsplit(settings.api_url), settings.default_timeout
    if url.scheme in ("unix", "http+unix"):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(timeout)
        try:
            connection.connect(url.netloc + url.path)
        except BaseException:
            connection.close()
            raise
        return connection
    if url.scheme in ("tcp", "http", "https"):
        tls = settings.tls
        plain = socket.create_connection((url.hostname, url.port or (2375 if tls is None else 2376)), timeout)
        if tls is None:
            return plain
        with contextlib.ExitStack() as failing:
            failing.callback(plain.close)
            secured = Secured(tls.context().wrap_socket(plain, server_hostname=url.hostname))
            failing.pop_all()
        return secured
    raise exceptions.Unavailable(
        f"Terminals and commands do not work over [docker] api_url = {settings.api_url}; use unix:// or tcp://."
    )


def _response(connection: socket.socket | Secured) -> tuple[int, bytes]:
    """Return the status of an HTTP response, and the bytes that were read beyond its header."""
    read = b""
    while b"\r\n\r\n" not in read:
        chunk = connection.recv(_READ)
        if not chunk or len(read) > _HEAD_LIMIT:
            raise ConnectionError("the Docker daemon closed the connection before it answered")
        read += chunk
    head, _, rest = read.partition(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]), rest


def _refused(status: int, connection: socket.socket | Secured, rest: bytes) -> docker_errors.APIError:
    """Return the daemon's error as docker-py would have raised it."""
    try:
        message = json.loads(rest or connection.recv(_READ))["message"]
    except (ValueError, KeyError, OSError):
        message = f"status {status}"
    response = requests.Response()
    response.status_code = status
    kind = docker_errors.NotFound if status == 404 else docker_errors.APIError
    return kind(message, response=response, explanation=message)
