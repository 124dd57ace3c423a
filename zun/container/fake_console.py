# SPDX-License-Identifier: Apache-2.0
"""Looking into containers of the in-memory driver."""

from collections.abc import Sequence
from datetime import UTC
from typing import Any

from zun.common import exceptions
from zun.common.logs import since_epoch, tail_lines
from zun.container.driver import ContainerView
from zun.container.fake_operations import OnRuntime
from zun.container.fake_runtime import Outcome, pretend


class InMemoryConsole(OnRuntime):
    def execute(self, container: ContainerView, command: Sequence[str], timeout: float) -> tuple[str, int]:
        with self._operation("execute", container):
            found = self._running(container, "execute a command in")
            if found.paused:
                raise exceptions.Conflict(f"Cannot execute a command in container {found.uuid}: it is paused")
        outcome = pretend(command) or Outcome("", 0)
        if outcome.seconds > timeout:
            # Raised at once: the wait would prove nothing.
            raise exceptions.Conflict(f"The command did not end within {timeout:g} seconds in {container.uuid}")
        return outcome.output, outcome.code

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
        with self._operation("logs", container):
            lines = tuple(self._find(container).log) if stdout else ()
        start, count = since_epoch(since), tail_lines(tail)
        if start is not None:
            lines = tuple(line for line in lines if line[0].replace(tzinfo=UTC).timestamp() >= start)
        if isinstance(count, int):
            lines = lines[len(lines) - min(count, len(lines)) :]
        return "".join(f"{when.isoformat()}Z {text}\n" if timestamps else f"{text}\n" for when, text in lines)

    def top(self, container: ContainerView, ps_args: str | None = None) -> dict[str, Any]:
        with self._operation("top", container):
            found = self._running(container, "list the processes of")
            row = ["root", str(found.pid), "1", "0", "00:00", "?", "00:00:00", " ".join(found.command)]
            return {"Titles": ["UID", "PID", "PPID", "C", "STIME", "TTY", "TIME", "CMD"], "Processes": [row]}

    def stats(self, container: ContainerView) -> dict[str, Any]:
        with self._operation("stats", container):
            found = self._running(container, "read the statistics of")
            limit = found.memory or self.host_facts.mem_total_mib
            return {
                "CONTAINER": container.name or f"zun-{found.uuid}",
                "CPU %": 0.0,
                "MEM USAGE(MiB)": 1.0,
                "MEM LIMIT(MiB)": float(limit),
                "MEM %": 100.0 / limit,
                "BLOCK I/O(B)": "0/0",
                "NET I/O(B)": "0/0",
            }
