# SPDX-License-Identifier: Apache-2.0
"""The in-memory driver's commands, logs, processes and statistics."""

from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any

from zun.common import exceptions, naming
from zun.common.logs import since_epoch, tail_lines
from zun.common.processes import FIELDS
from zun.container.driver.container import ContainerView
from zun.container.fake.operations import OnRuntime
from zun.container.fake.runtime import Outcome, pretend, utcnow
from zun.topology import amounts


class InMemoryConsole(OnRuntime):
    def execute(
        self, container: ContainerView, command: Sequence[str], timeout: float, *, ends: bool = False
    ) -> tuple[str, int]:
        with self._operation("execute", container):
            found = self._running(container, "execute a command in")
            if found.paused:
                raise exceptions.Conflict(f"Cannot execute a command in container {found.uuid}: it is paused")
        outcome = pretend(command) or Outcome("", 0)
        if outcome.seconds > timeout:
            # A real wait would only make tests slower.
            how = "was killed" if ends else "was left running"
            raise exceptions.Conflict(
                f"The command did not end within {amounts.text(timeout)} s in {naming.of(container)} and {how}"
            )
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

    def top(self, container: ContainerView) -> Sequence[Mapping[str, str]]:
        with self._operation("top", container):
            found = self._running(container, "list the processes of")
            known = {"pid": str(found.pid), "ppid": "1", "user": "root", "uid": "0", "stime": "00:00", "tty": "?"}
            known |= {"time": "00:00:00", "etime": "00:00", "stat": "Ss", "args": " ".join(found.command)}
            return [dict.fromkeys(FIELDS, "0") | known]

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

    def write_log(self, uuid: str, line: str) -> None:
        with self.runtime.lock:
            self.runtime.objects[uuid].log.append((utcnow(), line))
