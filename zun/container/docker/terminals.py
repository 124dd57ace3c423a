# SPDX-License-Identifier: Apache-2.0
"""Terminals of containers and of commands in them, over hijacked connections.

docker-py's own attach loses what arrives in one packet with the response's header, so the few bytes of HTTP that
precede a raw stream are spoken here.
"""

import contextlib
import json
import socket
import struct
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

import requests
from docker import errors as docker_errors

from zun.common import exceptions
from zun.container.docker.client import OnEngine, object_name
from zun.container.docker.console import payload
from zun.container.driver import ContainerView, Stream

_READ = 64 * 1024
_HEAD_LIMIT = 64 * 1024


class DockerTerminals(OnEngine):
    def attach(self, container: ContainerView) -> Stream:
        wanted = {"stream": 1, "stdin": 1, "stdout": 1, "stderr": 1}
        with self._engine.translated("attach to", container.uuid):
            found = self._engine.api.inspect_container(object_name(container.uuid))
            if not found["State"]["Running"]:  # Docker would wait until somebody starts it
                raise exceptions.Conflict(f"Cannot attach to container {container.uuid}: it is not running.")
            tty = found["Config"]["Tty"]
            path = f"/containers/{object_name(container.uuid)}/attach?{urllib.parse.urlencode(wanted)}"
            return self._hijack(path, None, framed=not tty)

    def create_exec(self, container: ContainerView, command: Sequence[str], *, interactive: bool) -> str:
        with self._engine.translated("execute a command in", container.uuid):
            made = self._engine.api.exec_create(
                object_name(container.uuid), list(command), stdin=interactive, tty=interactive
            )
        return str(made["Id"])

    def open_exec(self, container: ContainerView, exec_id: str) -> Stream:
        with self._engine.translated("execute a command in", container.uuid):
            found = self._exec(container, exec_id)
            if found["Pid"] or found["ExitCode"] is not None:  # Docker would say so on the terminal only
                raise exceptions.Conflict(
                    f"Cannot execute a command in container {container.uuid}: it was started before; ask for another."
                )
            tty = found["ProcessConfig"]["tty"]
            return self._hijack(f"/exec/{exec_id}/start", {"Detach": False, "Tty": tty}, framed=not tty)

    def resize(self, container: ContainerView, *, width: int, height: int) -> None:
        with self._engine.translated("resize the terminal of", container.uuid):
            self._engine.api.resize(object_name(container.uuid), height=height, width=width)

    def resize_exec(self, container: ContainerView, exec_id: str, *, width: int, height: int) -> None:
        with self._engine.translated("resize a terminal in", container.uuid):
            self._exec(container, exec_id)
            self._engine.api.exec_resize(exec_id, height=height, width=width)

    def _exec(self, container: ContainerView, exec_id: str) -> dict[str, Any]:
        """What Docker knows of a command of this container. InvalidValue when it is none."""
        api = self._engine.api
        try:
            found: dict[str, Any] = api.exec_inspect(exec_id)
        except docker_errors.NotFound:
            found = {}
        if not found or found["ContainerID"] != api.inspect_container(object_name(container.uuid))["Id"]:
            raise exceptions.InvalidValue(f"exec_id: container {container.uuid} has no command {exec_id}.")
        return found

    def _hijack(self, path: str, body: Mapping[str, Any] | None, *, framed: bool) -> "DockerStream":
        """POST to the daemon and keep the connection. ``framed``: the answer is in frames, as without a terminal."""
        content = b"" if body is None else json.dumps(body).encode()
        head = (
            f"POST /v{self._engine.api.api_version}{path} HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\n"
            f"Upgrade: tcp\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        connection = self._connect()
        try:
            connection.sendall(head.encode() + content)
            status, rest = _response(connection)
            if status not in (101, 200):
                raise _refused(status, connection, rest)
        except BaseException:
            connection.close()
            raise
        connection.settimeout(None)
        return DockerStream(connection, rest, framed)

    def _connect(self) -> socket.socket:
        url, timeout = urllib.parse.urlsplit(self.settings.api_url), self.settings.default_timeout
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
            f"Terminals do not work over [docker] api_url = {self.settings.api_url}; use unix:// or tcp://."
        )


class DockerStream:
    """A hijacked connection; ``rest`` is what of it has been read already.

    A process that takes nothing of its input for ``input_seconds`` is as good as gone to whoever sends: OSError.
    """

    def __init__(self, connection: socket.socket, rest: bytes, framed: bool, input_seconds: int = 300) -> None:
        self._connection = connection
        # Of sends alone: nothing to receive for however long is no fault.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", input_seconds, 0))
        raw = self._chunks(rest)
        self._incoming = payload(raw) if framed else raw

    def _chunks(self, rest: bytes) -> Any:
        if rest:
            yield rest
        while True:
            try:
                chunk = self._connection.recv(_READ)
            except OSError:  # closed by the thread that sends, or by the daemon as it stops
                return
            if not chunk:
                return
            yield chunk

    def receive(self) -> bytes:
        return next(self._incoming, b"")

    def send(self, data: bytes) -> None:
        self._connection.sendall(data)

    def close(self) -> None:
        with contextlib.suppress(OSError):  # the other side was quicker
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


def _response(connection: socket.socket) -> tuple[int, bytes]:
    """The status of an HTTP response, and what was read beyond its header."""
    read = b""
    while b"\r\n\r\n" not in read:
        chunk = connection.recv(_READ)
        if not chunk or len(read) > _HEAD_LIMIT:
            raise ConnectionError("the Docker daemon closed the connection before it answered")
        read += chunk
    head, _, rest = read.partition(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]), rest


def _refused(status: int, connection: socket.socket, rest: bytes) -> docker_errors.APIError:
    """The daemon's error, as docker-py would have raised it."""
    try:
        message = json.loads(rest or connection.recv(_READ))["message"]
    except (ValueError, KeyError, OSError):
        message = f"status {status}"
    response = requests.Response()
    response.status_code = status
    kind = docker_errors.NotFound if status == 404 else docker_errors.APIError
    return kind(message, response=response, explanation=message)
