# SPDX-License-Identifier: Apache-2.0
"""The capability to read output, processes and statistics, and to run commands."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from zun.container.driver.container import ContainerView


class Console(Protocol):
    """Reads the log, processes and statistics of a container, and runs commands inside it."""

    def execute(
        self, container: ContainerView, command: Sequence[str], timeout: float, *, ends: bool = False
    ) -> tuple[str, int]:
        """Run ``command`` without a shell and return its output and exit code. The output mixes stdout and stderr.

        Conflict if the command is still running after ``timeout`` seconds. The command then goes on inside the
        container, or if it ``ends``, its process is killed.
        """
        ...

    def logs(
        self,
        container: ContainerView,
        *,
        stdout: bool = True,
        stderr: bool = True,
        timestamps: bool = False,
        tail: str | int | None = "all",
        since: str | int | float | None = None,
    ) -> str:
        """Return the log as text. Conflict if the text is too large to hold in memory.

        ``tail`` is a number of lines; any other text means all lines. ``since`` is epoch seconds, for example
        1767225600, or ``YYYY-MM-DD HH:MM:SS,mmm`` in UTC, else InvalidValue.
        """
        ...

    def top(self, container: ContainerView) -> Sequence[Mapping[str, str]]:
        """Return the processes of the container, each with every field of ``processes.FIELDS``."""
        ...

    def stats(self, container: ContainerView) -> dict[str, Any]:
        """Return the resource use under the API's member names. Conflict if the container is not running."""
        ...
