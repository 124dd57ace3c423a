# SPDX-License-Identifier: Apache-2.0
"""Looking into containers: commands, logs, processes, figures."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from docker import errors as docker_errors
from docker.utils import version_gte

from zun.common import exceptions
from zun.common.logs import since_epoch, tail_lines
from zun.common.units import MIB
from zun.container.docker.client import OnEngine, object_name
from zun.container.driver import ContainerView

#: An agent must not run out of memory because somebody executes "yes", or has run it all night; and brokers refuse
#: messages that are larger than some times this.
OUTPUT_LIMIT = 16 * MIB
_HEADER = 8
_READ = 64 * 1024


class DockerConsole(OnEngine):
    def execute(self, container: ContainerView, command: Sequence[str], timeout: float) -> tuple[str, int]:
        deadline = time.monotonic() + timeout
        api = self._engine.api
        with self._engine.translated("execute a command in", container.uuid):
            exec_id = api.exec_create(object_name(container.uuid), list(command))["Id"]
            try:
                output = self._read(exec_id, deadline)
                while (code := api.exec_inspect(exec_id)["ExitCode"]) is None:
                    # It closed its output before it ended, or Docker has not yet noticed the end.
                    if time.monotonic() >= deadline:
                        raise TimeoutError
                    time.sleep(0.01)
            except TimeoutError as exc:
                raise exceptions.Conflict(
                    f"The command did not end within {timeout:g} seconds and was left running in container "
                    f"{container.uuid}. Run it in the background, or raise [docker] execute_timeout."
                ) from exc
        return output.decode(errors="replace"), code

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
        with self._engine.translated("read the log of", container.uuid):
            return whole(self._log(object_name(container.uuid), wanted), refusal).decode(errors="replace")

    def top(self, container: ContainerView, ps_args: str | None = None) -> dict[str, Any]:
        with self._engine.translated("list the processes of", container.uuid):
            try:
                found = self._engine.api.top(object_name(container.uuid), ps_args)
            except docker_errors.APIError as exc:
                # Docker passes on what ps says, as a failure of its own.
                if str(exc.explanation).startswith("ps:") or "PID field" in str(exc.explanation):
                    raise exceptions.InvalidValue(
                        f"ps does not accept '{ps_args}': {exc.explanation}. Give options that show PIDs."
                    ) from exc
                raise
        return {"Titles": found["Titles"], "Processes": found["Processes"] or []}

    def stats(self, container: ContainerView) -> dict[str, Any]:
        api = self._engine.api
        with self._engine.translated("read the statistics of", container.uuid):
            # Without one_shot Docker waits a second for the difference of two samples, which nobody asks for
            # here.
            one_shot = True if version_gte(api.api_version, "1.41") else None
            sample = api.stats(object_name(container.uuid), stream=False, one_shot=one_shot)
        if not (sample.get("memory_stats") or {}).get("usage"):
            raise exceptions.Conflict(f"Cannot read the statistics of container {container.uuid}: it is not running.")
        return stats_summary(container.name or object_name(container.uuid), sample)

    def _log(self, name: str, wanted: Mapping[str, Any]) -> Iterator[bytes]:
        """As docker-py's ``logs``, which reads either everything at once or, of a terminal, byte by byte."""
        api = self._engine.api
        tty = api.inspect_container(name)["Config"]["Tty"]
        response = api._get(api._url("/containers/{0}/logs", name), params=wanted, stream=True)
        try:
            api._raise_for_status(response)
            chunks = response.iter_content(_READ)
            yield from chunks if tty else payload(chunks)
        finally:
            response.close()

    def _read(self, exec_id: str, deadline: float) -> bytes:
        """Start the command and return its output once it is complete. TimeoutError at ``deadline``."""
        api = self._engine.api
        handle = api.exec_start(exec_id, socket=True)
        response = handle._response
        # docker-py reads from the handle and so loses what arrived in one packet with the response's header,
        # which is in the reader above it. Its own reads also wait without end.
        reader, channel = response.raw._fp.fp, getattr(handle, "_sock", handle)

        def read() -> bytes:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            channel.settimeout(left)
            return reader.read1(_READ)

        try:
            refusal = f"The command wrote more than {OUTPUT_LIMIT // MIB} MiB. Let it write to a file."
            return whole(payload(iter(read, b"")), refusal)
        finally:
            response.close()


def whole(parts: Iterable[bytes], refusal: str) -> bytes:
    """All of them. Conflict, saying ``refusal``, when that is more than OUTPUT_LIMIT."""
    output = bytearray()
    for part in parts:
        output += part
        if len(output) > OUTPUT_LIMIT:
            raise exceptions.Conflict(refusal)
    return bytes(output)


def payload(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the bytes that Docker's stream format wraps, both streams in the order they came.

    A frame is one byte of stream number, three zeros, four bytes of big-endian length, then the data; frames
    and chunks do not share boundaries.
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

    The CPU share is of all CPUs since the start, not since the last sample (lifecycle contract, "logs, stats,
    top").
    """
    cpu, memory = sample["cpu_stats"], sample["memory_stats"]
    details = memory.get("stats") or {}
    # Version 1 of the control groups counts descendants under total_, version 2 always.
    cache = details.get("total_inactive_file", details.get("inactive_file", 0))
    used, limit = max(memory["usage"] - cache, 0), memory.get("limit", 0)
    return {
        "CONTAINER": name,
        "CPU %": _percent(cpu["cpu_usage"]["total_usage"], cpu.get("system_cpu_usage", 0)),
        "MEM USAGE(MiB)": used / MIB,
        "MEM LIMIT(MiB)": limit / MIB,
        "MEM %": _percent(used, limit),
        "BLOCK I/O(B)": _block_io(sample.get("blkio_stats") or {}),
        "NET I/O(B)": _net_io(sample.get("networks") or {}),
    }


def _percent(part: float, whole: float) -> float:
    return part / whole * 100.0 if whole else 0.0


def _block_io(stats: Mapping[str, Any]) -> str:
    entries = stats.get("io_service_bytes_recursive") or []
    read = sum(entry["value"] for entry in entries if entry["op"].lower() == "read")
    written = sum(entry["value"] for entry in entries if entry["op"].lower() == "write")
    return f"{read}/{written}"


def _net_io(networks: Mapping[str, Mapping[str, int]]) -> str:
    received = sum(network.get("rx_bytes", 0) for network in networks.values())
    sent = sum(network.get("tx_bytes", 0) for network in networks.values())
    return f"{received}/{sent}"
