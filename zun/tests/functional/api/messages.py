# SPDX-License-Identifier: Apache-2.0
"""The other services as the API sees them: messages go into ``sent``, answers come from attributes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from zun.common.context import RequestContext
from zun.messaging.compute_api import VERSION, ComputeAPI
from zun.objects import Container
from zun.objects.image import image_found

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

    def check_sets(self) -> None:
        """Do nothing: there is no pin."""

    def create_set(self, context: RequestContext, uuid: str) -> None:
        if self.failure:
            raise self.failure
        self.sent.append(("create_set", uuid))

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

    def find_moves(self, context: RequestContext, container: Container, *, near: bool = False) -> dict[str, Any]:
        if self.failure:
            raise self.failure
        self.sent.append(("find_moves", container.uuid))
        return {"host": None, "moves": [], "proven": True, "reason": "full"}

    def find_places(
        self, context: RequestContext, uuids: Sequence[str], leaving: str, to: str | None = None
    ) -> dict[str, Any]:
        if self.failure:
            raise self.failure
        self.sent.append(("find_places", leaving))
        return {uuid: {"host": to or "host-2", "reason": None} for uuid in uuids}


class ComputeMessages(ComputeAPI):
    """``sent`` has (method, uuid, arguments), ``quotas`` the default limits that went with a new size."""

    answers: Mapping[str, Any] = {
        "logs": "one\ntwo\n",
        "execute": ("hello\n", 3),
        "prepare_exec": ("ab" * 32, "ws://proxy/?token=1&exec_id=" + "ab" * 32),
        "attach": "ws://proxy/?token=1",
        "top": {"Titles": ["PID"], "Processes": [["1"]]},
        "stats": {"CONTAINER": "web", "CPU %": 1.5},
    }

    def can_act(self, action: str, *, member: bool = False) -> bool:
        return True

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, dict[str, Any]]] = []
        self.quotas: list[dict[str, int]] = []
        self.images_of_host: list[str] = []
        self.failure: Exception | None = None

    def _tell(
        self, context: RequestContext, host: str | None, method: str, version: str = VERSION, **arguments: Any
    ) -> None:
        assert host is not None, "a message to nobody"
        container = arguments.pop("container", None)
        if container is None:
            about, arguments["host"] = arguments.pop("image", ""), host
        else:
            about = container.uuid
        self._send(method, about, arguments)

    def _ask(
        self, context: RequestContext, host: str | None, method: str, version: str = VERSION, **arguments: Any
    ) -> Any:
        self._tell(context, host, method, version, **arguments)
        return self.answers.get(method)

    def _send(self, method: str, about: str, arguments: dict[str, Any]) -> None:
        if self.failure:
            raise self.failure
        self.sent.append((method, about, arguments))

    def act(self, context: RequestContext, container: Container, action: str, arguments: Mapping[str, Any]) -> None:
        assert container.host is not None, "a message to nobody"
        if "quota" in arguments:
            self.quotas.append(arguments["quota"])
            arguments = {name: value for name, value in arguments.items() if value and name != "quota"}
        self._send(action, container.uuid, dict(arguments))

    def update(self, context: RequestContext, container: Container, *, quota: Any, **size: Any) -> Container:
        self.quotas.append(quota)
        self._send("update", container.uuid, size)
        changed = Container.get_by_uuid(context, container.uuid)
        for name in size.keys() - {"keep_cpus"}:
            setattr(changed, name, size[name])
        changed.save()
        return changed

    def audit(self, context: RequestContext, host: str, *, repair: bool = False) -> dict[str, Any]:
        self._send("audit", host, {"repair": repair})
        return {"host": host, "findings": [], "containers": {"ok": 2}, "totals": {"audits": 7}}

    def image_search(self, context: RequestContext, host: str, name: str, *, exact: bool) -> list[dict[str, Any]]:
        self._send("image_search", name, {"host": host, "exact": exact})
        registry = [{"name": name, "description": "", "metadata": {"is_official": False, "star_count": 0}}]
        return [*(image_found(name, ["1"], "sha256:1", 9) for name in self.images_of_host), *registry]

    def get_archive(
        self, context: RequestContext, container: Container, path: str
    ) -> tuple[dict[str, Any], Iterator[bytes]]:
        self._send("get_archive", container.uuid, {"path": path})
        stat = {"name": "hosts", "size": 7, "mode": 420, "mtime": "2026-01-31T12:00:00Z", "linkTarget": ""}
        return stat, iter([ARCHIVE[:5], ARCHIVE[5:]])

    def put_archive(self, context: RequestContext, container: Container, path: str, pieces: Iterable[bytes]) -> None:
        self._send("put_archive", container.uuid, {"path": path, "archive": b"".join(pieces)})
