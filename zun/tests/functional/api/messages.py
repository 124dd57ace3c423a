# SPDX-License-Identifier: Apache-2.0
"""The other services as the API sees them: messages go into ``sent``, answers come from attributes."""

from collections.abc import Iterable, Iterator
from typing import Any

from zun.common.context import RequestContext
from zun.objects import Container

#: What is at every path of every container.
ARCHIVE = bytes(range(256)) * 3 + "tar ä".encode()


class SchedulerMessages:
    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        self.placed: list[dict[str, Any]] = []  # what a dry run answers
        self.failure: Exception | None = None

    def create(self, context: RequestContext, container: Container) -> None:
        if self.failure:
            raise self.failure
        self.sent.append(("create", container.uuid))

    def dry_run(self, context: RequestContext, container: Container, *, count: int) -> dict[str, Any]:
        if self.failure:
            raise self.failure
        self.sent.append(("dry_run", container.uuid))
        return {"placed": self.placed, "refusal": None}

    def capacity(self, context: RequestContext, container: Container, *, limit: int) -> dict[str, Any]:
        if self.failure:
            raise self.failure
        self.sent.append(("capacity", container.uuid))
        hosts = [{"host": each["host"], "count": 1, "code": "cpus", "reason": "full"} for each in self.placed]
        return {"total": len(hosts), "complete": True, "hosts": hosts}


class ComputeMessages:
    """``sent`` has (method, uuid, arguments), ``quotas`` the default limits that went with a new size."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, dict[str, Any]]] = []
        self.quotas: list[dict[str, int]] = []
        self.failure: Exception | None = None

    def _send(self, method: str, container: Container, **arguments: Any) -> None:
        if self.failure:
            raise self.failure
        assert container.host is not None, "a message to nobody"
        self.sent.append((method, container.uuid, arguments))

    def start(self, context: RequestContext, container: Container) -> None:
        self._send("start", container)

    def stop(self, context: RequestContext, container: Container, timeout: int | None = None) -> None:
        self._send("stop", container, timeout=timeout)

    def reboot(self, context: RequestContext, container: Container, timeout: int | None = None) -> None:
        self._send("reboot", container, timeout=timeout)

    def rebuild(self, context: RequestContext, container: Container) -> None:
        self._send("rebuild", container)

    def pause(self, context: RequestContext, container: Container) -> None:
        self._send("pause", container)

    def unpause(self, context: RequestContext, container: Container) -> None:
        self._send("unpause", container)

    def kill(self, context: RequestContext, container: Container, signal: str | None = None) -> None:
        self._send("kill", container, signal=signal)

    def delete(
        self, context: RequestContext, container: Container, *, force: bool = False, stop_timeout: int | None = None
    ) -> None:
        self._send("delete", container, force=force, stop_timeout=stop_timeout)

    def resize(self, context: RequestContext, container: Container, *, quota: Any, **size: Any) -> None:
        self.quotas.append(quota)
        self._send("resize", container, **size)

    def update(self, context: RequestContext, container: Container, *, quota: Any, **size: Any) -> Container:
        self.quotas.append(quota)
        self._send("update", container, **size)
        changed = Container.get_by_uuid(context, container.uuid)
        for name in size.keys() - {"keep_cpus"}:
            setattr(changed, name, size[name])
        changed.save()
        return changed

    def logs(
        self,
        context: RequestContext,
        container: Container,
        *,
        stdout: bool = True,
        stderr: bool = True,
        timestamps: bool = False,
        tail: str = "all",
        since: str | None = None,
    ) -> str:
        how = {"stdout": stdout, "stderr": stderr, "timestamps": timestamps, "tail": tail, "since": since}
        self._send("logs", container, **how)
        return "one\ntwo\n"

    def execute(self, context: RequestContext, container: Container, command: list[str]) -> tuple[str, int]:
        self._send("execute", container, command=command)
        return "hello\n", 3

    def prepare_exec(
        self, context: RequestContext, container: Container, command: list[str], *, interactive: bool
    ) -> tuple[str, str]:
        self._send("prepare_exec", container, command=command, interactive=interactive)
        return "ab" * 32, "ws://proxy/?token=1&exec_id=" + "ab" * 32

    def attach(self, context: RequestContext, container: Container) -> str:
        self._send("attach", container)
        return "ws://proxy/?token=1"

    def resize_terminal(
        self, context: RequestContext, container: Container, *, width: int, height: int, exec_id: str | None = None
    ) -> None:
        self._send("resize_terminal", container, width=width, height=height, exec_id=exec_id)

    def top(self, context: RequestContext, container: Container, ps_args: str | None = None) -> dict[str, Any]:
        self._send("top", container, ps_args=ps_args)
        return {"Titles": ["PID"], "Processes": [["1"]]}

    def audit(self, context: RequestContext, host: str, *, repair: bool = False) -> dict[str, Any]:
        if self.failure:
            raise self.failure
        self.sent.append(("audit", host, {"repair": repair}))
        return {"host": host, "findings": [], "containers": {"ok": 2}, "totals": {"audits": 7}}

    def stats(self, context: RequestContext, container: Container) -> dict[str, Any]:
        self._send("stats", container)
        return {"CONTAINER": container.name, "CPU %": 1.5}

    def get_archive(
        self, context: RequestContext, container: Container, path: str
    ) -> tuple[dict[str, Any], Iterator[bytes]]:
        self._send("get_archive", container, path=path)
        stat = {"name": "hosts", "size": 7, "mode": 420, "mtime": "2026-01-31T12:00:00Z", "linkTarget": ""}
        return stat, iter([ARCHIVE[:5], ARCHIVE[5:]])

    def put_archive(self, context: RequestContext, container: Container, path: str, pieces: Iterable[bytes]) -> None:
        self._send("put_archive", container, path=path, archive=b"".join(pieces))

    def commit(self, context: RequestContext, container: Container, image: str) -> None:
        self._send("commit", container, image=image)

    def network_attach(self, context: RequestContext, container: Container, port: str) -> None:
        self._send("network_attach", container, port=port)

    def network_detach(self, context: RequestContext, container: Container, port: str) -> None:
        self._send("network_detach", container, port=port)

    def image_pull(self, context: RequestContext, host: str, image: str) -> None:
        self._tell("image_pull", image, host=host)

    def image_delete(self, context: RequestContext, host: str, image: str) -> None:
        self._tell("image_delete", image, host=host)

    def image_search(self, context: RequestContext, host: str, name: str, *, exact: bool) -> list[dict[str, Any]]:
        self._tell("image_search", name, host=host, exact=exact)
        return [{"name": name, "description": "", "metadata": {"is_official": False, "star_count": 0}}]

    def _tell(self, method: str, about: str, **arguments: Any) -> None:
        if self.failure:
            raise self.failure
        self.sent.append((method, about, arguments))
