# SPDX-License-Identifier: Apache-2.0
"""Terminals of containers and of commands in them, over hijacked connections."""

import contextlib
import functools
import socket
import struct
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from docker import errors as docker_errors

from zun.common import exceptions, naming
from zun.container.docker.client import OnEngine, object_name
from zun.container.docker.console import payload
from zun.container.docker.errors import FOREIGN
from zun.container.docker.hijack import Secured, hijack
from zun.container.driver.container import ContainerView
from zun.container.driver.terminals import Stream

_READ = 64 * 1024
_START_SECONDS = 10  # for a proxy to start a command
_NOTICE_SECONDS = 2  # for Docker to notice that a command has ended
_LOOK_SECONDS = 0.02


class DockerTerminals(OnEngine):
    def attach(self, container: ContainerView) -> Stream:
        wanted = {"stream": 1, "stdin": 1, "stdout": 1, "stderr": 1}
        with self._engine.translated("attach to", container):
            found = self._engine.api.inspect_container(object_name(container.uuid))
            if not found["State"]["Running"]:  # Docker would wait for its start
                raise exceptions.Conflict(f"Cannot attach to container {naming.of(container)}: it is not running.")
            tty = found["Config"]["Tty"]
            path = f"/containers/{object_name(container.uuid)}/attach?{urllib.parse.urlencode(wanted)}"
            return DockerStream(*hijack(self._engine, path), framed=not tty)

    def create_exec(self, container: ContainerView, command: Sequence[str], *, interactive: bool) -> str:
        with self._engine.translated("execute a command in", container):
            made = self._engine.api.exec_create(
                object_name(container.uuid), list(command), stdin=interactive, tty=interactive
            )
        return str(made["Id"])

    def open_exec(self, container: ContainerView, exec_id: str) -> Stream:
        with self._engine.translated("execute a command in", container):
            found = self._exec(container, exec_id)
            if found["Pid"] or found["ExitCode"] is not None:  # Docker would report it on the terminal only
                raise exceptions.Conflict(
                    f"Cannot execute a command in container {naming.of(container)}: it was started before; ask for "
                    "another."
                )
            tty = found["ProcessConfig"]["tty"]
            path, body = f"/exec/{exec_id}/start", {"Detach": False, "Tty": tty}
            exit_code = functools.partial(self._exit_code, exec_id)
            return DockerStream(*hijack(self._engine, path, body), framed=not tty, exit_code=exit_code)

    def _exit_code(self, exec_id: str) -> int | None:
        """Return the exit code of a command whose output has ended, None if it still runs or Docker does not answer."""
        try:
            code: int | None = self._awaited(exec_id, _ended, _NOTICE_SECONDS)["ExitCode"]
        except FOREIGN:
            return None
        return code

    def resize(self, container: ContainerView, *, width: int, height: int) -> None:
        with self._engine.translated("resize the terminal of", container):
            name = object_name(container.uuid)
            try:
                self._engine.api.resize(name, height=height, width=width)
            except docker_errors.APIError:
                if self._engine.api.inspect_container(name)["State"]["Status"] != "exited":
                    raise

    def resize_exec(self, container: ContainerView, exec_id: str, *, width: int, height: int) -> None:
        with self._engine.translated("resize a terminal in", container):
            self._exec(container, exec_id)
            # A client resizes as soon as its websocket is open, while the proxy is still starting the command.
            found = self._awaited(exec_id, lambda seen: seen["Running"] or _ended(seen), _START_SECONDS)
            if not found["Running"] and not _ended(found):
                raise exceptions.Conflict(
                    f"Command {exec_id} in container {naming.of(container)} was not started within {_START_SECONDS} "
                    "seconds. Connect to its proxy_url first."
                )
            try:
                self._engine.api.exec_resize(exec_id, height=height, width=width)
            except docker_errors.APIError:
                if not _ended(self._awaited(exec_id, _ended, _NOTICE_SECONDS)):
                    raise

    def _awaited(self, exec_id: str, there: Callable[[dict[str, Any]], bool], seconds: float) -> dict[str, Any]:
        """Return Docker's description of a command as soon as ``there`` accepts it, or after ``seconds``."""
        deadline = time.monotonic() + seconds
        while True:
            found: dict[str, Any] = self._engine.api.exec_inspect(exec_id)
            if there(found) or time.monotonic() >= deadline:
                return found
            time.sleep(_LOOK_SECONDS)

    def _exec(self, container: ContainerView, exec_id: str) -> dict[str, Any]:
        """Return Docker's description of a command of this container. InvalidValue for any other command."""
        api = self._engine.api
        try:
            found: dict[str, Any] = api.exec_inspect(exec_id)
        except docker_errors.NotFound:
            found = {}
        if not found or found["ContainerID"] != api.inspect_container(object_name(container.uuid))["Id"]:
            raise exceptions.InvalidValue(f"exec_id: container {naming.of(container)} has no command {exec_id}.")
        return found


class DockerStream:
    """A stream over a hijacked connection, of which ``rest`` was read before.

    ``send`` raises OSError if the process reads none of its input for ``input_seconds``.
    """

    def __init__(
        self,
        connection: socket.socket | Secured,
        rest: bytes,
        framed: bool,
        input_seconds: int = 300,
        exit_code: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._connection = connection
        self._exit_code = exit_code
        self._closed = False
        # Limit sends alone: a process may be silent for any time.
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

    def exit_code(self) -> int | None:
        return None if self._closed else self._exit_code()

    def close(self) -> None:
        self._closed = True
        with contextlib.suppress(OSError):  # the other side closed it first
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


def _ended(found: Mapping[str, Any]) -> bool:
    """Return whether the command of Docker's description ``found`` has ended, or could not be started."""
    return found["ExitCode"] is not None
