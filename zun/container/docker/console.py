# SPDX-License-Identifier: Apache-2.0
"""Commands in containers, and their logs, processes and statistics."""

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from docker.utils import version_gte

from zun.common import exceptions, naming
from zun.common.logs import since_epoch, tail_lines
from zun.common.processes import FIELDS
from zun.common.units import MIB
from zun.container.docker.client import OnEngine, ask, object_name
from zun.container.docker.hijack import hijack
from zun.container.driver.container import ContainerView
from zun.topology import amounts
from zun.topology.files import text_of

#: Most bytes of a command's output or a log. The limit protects the agent's memory from a command such as "yes", and
#: keeps answers below the message size that brokers accept.
OUTPUT_LIMIT = 16 * MIB
_HEADER = 8
_READ = 64 * 1024
# Docker runs the host's ps with these arguments. They are fixed: other options of ps would show the environment of
# processes, or the processes of other containers.
_PS_ARGS = f"-o {','.join(FIELDS)}"


class DockerConsole(OnEngine):
    def execute(
        self, container: ContainerView, command: Sequence[str], timeout: float, *, ends: bool = False
    ) -> tuple[str, int]:
        deadline = time.monotonic() + timeout
        api = self._engine.api
        with self._engine.translated("execute a command in", container):
            exec_id = api.exec_create(object_name(container.uuid), list(command))["Id"]
            try:
                output = self._output(exec_id, deadline)
                while (code := api.exec_inspect(exec_id)["ExitCode"]) is None:
                    # The command closed its output before it ended, or Docker has not yet noticed the end.
                    if time.monotonic() >= deadline:
                        raise TimeoutError
                    time.sleep(0.01)
            except TimeoutError as exc:
                if ends:
                    self._kill(exec_id)
                    within = f"within {amounts.text(timeout)} s"
                    raise exceptions.Conflict(f"The command did not end {within} and was killed.") from exc
                raise exceptions.Conflict(
                    f"The command did not end within {amounts.text(timeout)} s and was left running in container "
                    f"{naming.of(container)}. Run it in the background, or raise [docker] execute_timeout."
                ) from exc
        return output.decode(errors="replace"), code

    def _kill(self, exec_id: str) -> None:
        """Kill the process of a command. Docker itself cannot. Raises docker-py's errors."""
        found = self._engine.api.exec_inspect(exec_id)
        pid = found["Pid"]
        # The number may be another process by now, also of the host, unless its control group is the container's.
        if pid and self._inside(pid, found["ContainerID"]):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

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
        wanted = {
            "stdout": int(stdout),
            "stderr": int(stderr),
            "timestamps": int(timestamps),
            "tail": tail_lines(tail),
            "since": since_epoch(since),
        }
        refusal = f"The log is larger than {OUTPUT_LIMIT // MIB} MiB. Ask for a part of it with tail or since."
        with self._engine.translated("read the log of", container):
            return whole(self._log(object_name(container.uuid), wanted), refusal).decode(errors="replace")

    def top(self, container: ContainerView) -> Sequence[Mapping[str, str]]:
        name = object_name(container.uuid)
        with self._engine.translated("list the processes of", container):
            rows = self._rows(name)
            container_id = self._engine.api.inspect_container(name)["Id"]
        found = [dict(zip(FIELDS, row, strict=True)) for row in rows]
        # Docker filters the output of ps by its own list of ids. The control group of each process is the proof.
        return [each for each in found if self._inside(int(each["pid"]), container_id)]

    def _rows(self, name: str) -> Sequence[Sequence[str]]:
        """Return the lines of ps with the values of FIELDS. Raises docker-py's errors."""
        return self._engine.api.top(name, _PS_ARGS)["Processes"] or []

    def _inside(self, pid: int, container_id: str) -> bool:
        """Return whether ``pid`` is a live process of the container."""
        try:
            return container_id in text_of(Path(self.settings.root, "proc", str(pid), "cgroup"))
        except (FileNotFoundError, ProcessLookupError):
            return False
        except OSError as exc:
            raise exceptions.DockerError(
                f"Cannot read which container process {pid} belongs to: {exc}. The agent must run as root in the "
                "host's pid namespace."
            ) from exc

    def stats(self, container: ContainerView) -> dict[str, Any]:
        api = self._engine.api
        with self._engine.translated("read the statistics of", container):
            # Without one_shot Docker waits a second for a second sample, which nothing here uses.
            one_shot = True if version_gte(api.api_version, "1.41") else None
            sample = api.stats(object_name(container.uuid), stream=False, one_shot=one_shot)
        # What runs has a limit, if only the host's memory. Its use can be 0: the kernel counts memory in batches.
        if not (sample.get("memory_stats") or {}).get("limit"):
            who = naming.of(container)
            raise exceptions.Conflict(f"Cannot read the statistics of container {who}: it is not running.")
        return stats_summary(container.name or object_name(container.uuid), sample)

    def _log(self, name: str, wanted: Mapping[str, Any]) -> Iterator[bytes]:
        """Yield the log in pieces. docker-py's ``logs`` reads all at once, or byte by byte for a terminal."""
        api = self._engine.api
        tty = api.inspect_container(name)["Config"]["Tty"]
        with ask(api, "GET", f"/containers/{name}/logs", params=wanted, stream=True) as response:
            chunks = response.iter_content(_READ)
            yield from chunks if tty else payload(chunks)

    def _output(self, exec_id: str, deadline: float) -> bytes:
        """Start the command and return its whole output. TimeoutError at ``deadline``."""
        connection, first = hijack(self._engine, f"/exec/{exec_id}/start", {"Detach": False, "Tty": False})

        def read() -> bytes:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            connection.settimeout(left)
            return connection.recv(_READ)

        with connection:
            refusal = f"The command wrote more than {OUTPUT_LIMIT // MIB} MiB. Let it write to a file."
            return whole(payload(itertools.chain([first], iter(read, b""))), refusal)


def whole(parts: Iterable[bytes], refusal: str) -> bytes:
    """Return the joined ``parts``. Conflict with the text ``refusal`` if they exceed OUTPUT_LIMIT."""
    output = bytearray()
    for part in parts:
        output += part
        if len(output) > OUTPUT_LIMIT:
            raise exceptions.Conflict(refusal)
    return bytes(output)


def payload(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the data of Docker's framed stream, stdout and stderr in the order of arrival.

    A frame is the stream number (one byte), three zeros, the length (four bytes, big-endian) and the data, for example
    ``01 00 00 00 00 00 00 02 'o' 'k'``. A frame may span chunks, and a chunk may hold several frames.
    """
    pending = bytearray()
    missing = 0
    for chunk in chunks:
        pending += chunk
        while pending:
            if missing == 0:
                if len(pending) < _HEADER:
                    break
                missing = int.from_bytes(pending[4:_HEADER], "big")
                del pending[:_HEADER]
                continue
            part = bytes(pending[:missing])
            del pending[: len(part)]
            missing -= len(part)
            yield part


def stats_summary(name: str, sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of the API's answer from one sample of Docker's.

    ``CPU %`` is the container's CPU time divided by the CPU time of all CPUs, both since their start, times 100.
    """
    cpu, memory = sample["cpu_stats"], sample["memory_stats"]
    details = memory.get("stats") or {}
    # Control groups of version 1 count their descendants in total_inactive_file, those of version 2 in inactive_file.
    cache = details.get("total_inactive_file", details.get("inactive_file", 0))
    used, limit = max(memory.get("usage", 0) - cache, 0), memory.get("limit", 0)
    return {
        "CONTAINER": name,
        "CPU %": _percent(cpu["cpu_usage"]["total_usage"], cpu.get("system_cpu_usage", 0)),
        "MEM USAGE(MiB)": amounts.exact(used / MIB),
        "MEM LIMIT(MiB)": amounts.exact(limit / MIB),
        "MEM %": _percent(used, limit),
        "BLOCK I/O(B)": _block_io(sample.get("blkio_stats") or {}),
        "NET I/O(B)": _net_io(sample.get("networks") or {}),
    }


def _percent(part: float, whole: float) -> float:
    return amounts.exact(part / whole * 100.0) if whole else 0.0


def _block_io(stats: Mapping[str, Any]) -> str:
    entries = stats.get("io_service_bytes_recursive") or []
    read = sum(entry["value"] for entry in entries if entry["op"].lower() == "read")
    written = sum(entry["value"] for entry in entries if entry["op"].lower() == "write")
    return f"{read}/{written}"


def _net_io(networks: Mapping[str, Mapping[str, int]]) -> str:
    received = sum(network.get("rx_bytes", 0) for network in networks.values())
    sent = sum(network.get("tx_bytes", 0) for network in networks.values())
    return f"{received}/{sent}"
