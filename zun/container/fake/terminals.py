# SPDX-License-Identifier: Apache-2.0
"""The in-memory driver's terminals."""

import queue
import uuid as uuids
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from zun.common import exceptions, naming
from zun.container.driver.container import ContainerView
from zun.container.driver.terminals import Stream
from zun.container.fake.operations import OnRuntime
from zun.container.fake.runtime import pretend

END_OF_INPUT = b"\x04"


@dataclass(slots=True)
class PreparedCommand:
    container_uuid: str
    command: tuple[str, ...] = ()
    started: bool = False
    size: tuple[int, int] | None = None


@dataclass(slots=True)
class Echo:
    """A stream that returns its input, as ``cat`` does, until the end of input (Ctrl-D) or a close.

    ``code`` is the exit code at the end of input, None for an attached process.
    """

    code: int | None = None
    _typed: "queue.SimpleQueue[bytes]" = field(default_factory=queue.SimpleQueue)
    _ended: bool = False

    def receive(self) -> bytes:
        if self._ended:
            return b""
        data = self._typed.get()
        self._ended = not data
        return data

    def send(self, data: bytes) -> None:
        before, end, _ = data.partition(END_OF_INPUT)
        if before:
            self._typed.put(before)
        if end:
            self.close()

    def exit_code(self) -> int | None:
        return self.code

    def close(self) -> None:
        self._typed.put(b"")


class InMemoryTerminals(OnRuntime):
    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.commands: dict[str, PreparedCommand] = {}
        self.terminal_sizes: dict[str, tuple[int, int]] = {}

    def attach(self, container: ContainerView) -> Stream:
        with self._operation("attach", container):
            self._running(container, "attach to")
            return Echo()

    def create_exec(self, container: ContainerView, command: Sequence[str], *, interactive: bool) -> str:
        with self._operation("create_exec", container):
            self._running(container, "execute a command in")
            exec_id = uuids.uuid4().hex * 2
            self.commands[exec_id] = PreparedCommand(container.uuid, tuple(command))
            return exec_id

    def open_exec(self, container: ContainerView, exec_id: str) -> Stream:
        with self._operation("open_exec", container):
            command = self._command(container, exec_id)
            if command.started:
                who = naming.of(container)
                raise exceptions.Conflict(f"Cannot execute a command in container {who}: it was started")
            command.started = True
            outcome = pretend(command.command)
            if outcome is None or outcome.seconds:
                return Echo(0)
            ended = Echo(outcome.code)
            ended.send(outcome.output.encode() + END_OF_INPUT)
            return ended

    def resize(self, container: ContainerView, *, width: int, height: int) -> None:
        with self._operation("resize", container):
            if self._find(container).started_at is None:
                self._running(container, "resize the terminal of")
            self.terminal_sizes[container.uuid] = (width, height)

    def resize_exec(self, container: ContainerView, exec_id: str, *, width: int, height: int) -> None:
        with self._operation("resize_exec", container):
            self._command(container, exec_id).size = (width, height)

    def _command(self, container: ContainerView, exec_id: str) -> PreparedCommand:
        found = self.commands.get(exec_id)
        if found is None or found.container_uuid != container.uuid:
            raise exceptions.InvalidValue(f"exec_id: container {naming.of(container)} has no command {exec_id}.")
        return found
