# SPDX-License-Identifier: Apache-2.0
"""Connections to the daemon that become a raw stream, for attached terminals and executed commands.

docker-py has no documented way to open such a stream. Its ``exec_start(socket=True)`` loses bytes that arrive in one
packet with the header of the answer, and has no timeout. So this module does the short HTTP exchange itself.
"""

import json
import socket
import urllib.parse
from collections.abc import Mapping
from typing import Any

import requests
from docker import errors as docker_errors

from zun.common import exceptions
from zun.container.docker.client import Engine

_READ = 64 * 1024
_HEAD_LIMIT = 64 * 1024


def hijack(engine: Engine, path: str, body: Mapping[str, Any] | None = None) -> tuple[socket.socket, bytes]:
    """POST ``body`` to ``path``, and return the connection and the bytes of the stream that were already read.

    The driver's default timeout holds until Docker has answered; afterwards the connection has no timeout. Raises
    docker-py's errors, and Unavailable if the URL of the daemon is neither unix:// nor tcp://.
    """
    content = b"" if body is None else json.dumps(body).encode()
    head = (
        f"POST /v{engine.api.api_version}{path} HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\n"
        f"Upgrade: tcp\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    connection = _connect(engine.settings.api_url, engine.settings.default_timeout)
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


def _connect(api_url: str, timeout: float) -> socket.socket:
    url = urllib.parse.urlsplit(api_url)
    if url.scheme in ("unix", "http+unix"):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(timeout)
        try:
            connection.connect(url.netloc + url.path)
        except BaseException:
            connection.close()
            raise
        return connection
    if url.scheme in ("tcp", "http"):
        return socket.create_connection((url.hostname, url.port or 2375), timeout)
    raise exceptions.Unavailable(
        f"Terminals and commands do not work over [docker] api_url = {api_url}; use unix:// or tcp://."
    )


def _response(connection: socket.socket) -> tuple[int, bytes]:
    """Return the status of an HTTP response, and the bytes that were read beyond its header."""
    read = b""
    while b"\r\n\r\n" not in read:
        chunk = connection.recv(_READ)
        if not chunk or len(read) > _HEAD_LIMIT:
            raise ConnectionError("the Docker daemon closed the connection before it answered")
        read += chunk
    head, _, rest = read.partition(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]), rest


def _refused(status: int, connection: socket.socket, rest: bytes) -> docker_errors.APIError:
    """Return the daemon's error as docker-py would have raised it."""
    try:
        message = json.loads(rest or connection.recv(_READ))["message"]
    except (ValueError, KeyError, OSError):
        message = f"status {status}"
    response = requests.Response()
    response.status_code = status
    kind = docker_errors.NotFound if status == 404 else docker_errors.APIError
    return kind(message, response=response, explanation=message)
