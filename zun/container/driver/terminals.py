# SPDX-License-Identifier: Apache-2.0
"""The capability to connect to the processes of a container."""

from collections.abc import Sequence
from typing import Protocol

from zun.container.driver.container import ContainerView


class Stream(Protocol):
    """Both directions of one terminal or command, as raw bytes. One thread may read while another one writes."""

    def receive(self) -> bytes:
        """Wait for output and return it; b"" at the end."""
        ...

    def send(self, data: bytes) -> None:
        """Send ``data`` as input. OSError if the other side is gone."""
        ...

    def exit_code(self) -> int | None:
        """Return the exit code of a command whose output has ended, None if it still runs or was only attached to."""
        ...

    def close(self) -> None:
        """Close the connection, and end a ``receive`` that waits. The process goes on. Closing twice is harmless."""
        ...


class Terminals(Protocol):
    """Connects to processes in a container. A command is identified by the id that ``create_exec`` returned."""

    def attach(self, container: ContainerView) -> Stream:
        """Return a stream of the first process's input, and of its output from now on."""
        ...

    def create_exec(self, container: ContainerView, command: Sequence[str], *, interactive: bool) -> str:
        """Prepare ``command`` without starting it, and return its id of 64 hexadecimal digits.

        An ``interactive`` command has a terminal and an input.
        """
        ...

    def open_exec(self, container: ContainerView, exec_id: str) -> Stream:
        """Start a prepared command. InvalidValue for an unknown id, Conflict if the command was started before."""
        ...

    def resize(self, container: ContainerView, *, width: int, height: int) -> None:
        """Set the size of the first process's terminal in characters. Nothing happens if the process has ended."""
        ...

    def resize_exec(self, container: ContainerView, exec_id: str, *, width: int, height: int) -> None:
        """Set the size of a command's terminal in characters. Nothing happens if the command has ended.

        InvalidValue for an unknown command, Conflict for a command that nobody starts.
        """
        ...
