# SPDX-License-Identifier: Apache-2.0
"""Creating, moving and removing containers."""

import logging
from collections.abc import Sequence
from typing import Any

from docker import errors as docker_errors

from zun.common import exceptions
from zun.container.docker.client import LABEL_UUID, Engine, OnEngine, object_name
from zun.container.docker.create import request_body
from zun.container.docker.facts import disk_quota_supported
from zun.container.driver import ContainerView, Plug, RuntimeMount

LOG = logging.getLogger(__name__)

#: What Docker's own stop and restart wait, in seconds; docker-py must be told to outwait it.
STOP_TIMEOUT = 10
_LEAVING = frozenset({"removing", "dead"})


class DockerLifecycle(OnEngine):
    """One call to the daemon an operation, except where a leftover of a crash has to be looked at."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._disk_quota: bool | None = None

    def create(
        self,
        container: ContainerView,
        *,
        cpuset_cpus: str,
        cpuset_mems: str,
        image: str | None = None,
        plug: Plug | None = None,
        mounts: Sequence[RuntimeMount] = (),
        join: str | None = None,
    ) -> str:
        body = request_body(
            container,
            cpuset_cpus=cpuset_cpus,
            cpuset_mems=cpuset_mems,
            settings=self.settings,
            disk_quota=bool(container.disk) and self._quota_supported(),
            plug=plug,
            mounts=mounts,
            join=join,
        )
        if image is not None:
            body["Image"] = image
        name = object_name(container.uuid)
        with self._engine.translated("create", container.uuid):
            try:
                answer = self._engine.api.create_container_from_config(body, name)
            except docker_errors.APIError as exc:
                if exc.status_code != 409:
                    raise
                found = self._adopt(container, cpuset_cpus, cpuset_mems)
                if found is not None:
                    return found
                answer = self._engine.api.create_container_from_config(body, name)
        for warning in answer.get("Warnings") or ():
            # Docker drops a limit its kernel lacks and tells so here only.
            LOG.warning("Docker warns about container %s: %s", container.uuid, warning)
        return answer["Id"]

    def start(self, container: ContainerView) -> None:
        with self._engine.translated("start", container.uuid):
            self._engine.api.start(object_name(container.uuid))

    def stop(self, container: ContainerView, timeout: int | None = None) -> None:
        with self._engine.translated("stop", container.uuid):
            self._engine.api.stop(object_name(container.uuid), timeout)

    def reboot(self, container: ContainerView, timeout: int | None = None) -> None:
        with self._engine.translated("restart", container.uuid):
            self._engine.api.restart(object_name(container.uuid), STOP_TIMEOUT if timeout is None else timeout)

    def pause(self, container: ContainerView) -> None:
        with self._engine.translated("pause", container.uuid):
            self._engine.api.pause(object_name(container.uuid))

    def unpause(self, container: ContainerView) -> None:
        with self._engine.translated("unpause", container.uuid):
            self._engine.api.unpause(object_name(container.uuid))

    def kill(self, container: ContainerView, signal: str | None = None) -> None:
        with self._engine.translated("kill", container.uuid):
            try:
                self._engine.api.kill(object_name(container.uuid), signal or "SIGKILL")
            except docker_errors.APIError as exc:
                reason = str(exc.explanation)
                if "Invalid signal" in reason or "does not support signal" in reason:
                    raise exceptions.InvalidValue(f"'{signal}' is no signal. Give a name such as SIGTERM.") from exc
                raise

    def delete(self, container: ContainerView, *, force: bool = False) -> None:
        with self._engine.translated("delete", container.uuid):
            found = self._engine.find(container)
            if found is not None:
                self._remove(found["Id"], force=force)

    def _adopt(self, container: ContainerView, cpuset_cpus: str, cpuset_mems: str) -> str | None:
        """Return the id of what an earlier attempt left under the name, or None when the name is free."""
        found = self._inspect(container)
        if found is None:
            return None
        labels = found["Config"]["Labels"] or {}
        if labels.get(LABEL_UUID) != container.uuid or not self._engine.owns(labels):
            raise exceptions.ContainerAlreadyExists(
                f"Docker object {object_name(container.uuid)} exists and is not of this host's agent. Remove or "
                f"rename it, then create the container again."
            )
        if found["State"]["Status"] in _LEAVING:
            self._remove(found["Id"], force=True)
            return None
        host_config = found["HostConfig"]
        if (cpuset_cpus or host_config["CpusetCpus"]) != host_config["CpusetCpus"] or (
            cpuset_mems or host_config["CpusetMems"]
        ) != host_config["CpusetMems"]:
            # The attempt that made it was planned otherwise.
            self._engine.api.update_container(found["Id"], cpuset_cpus=cpuset_cpus, cpuset_mems=cpuset_mems)
        LOG.info("Adopted object %s of container %s", found["Id"], container.uuid)
        return found["Id"]

    def _inspect(self, container: ContainerView) -> dict[str, Any] | None:
        try:
            return self._engine.api.inspect_container(object_name(container.uuid))
        except docker_errors.NotFound:
            return None

    def _remove(self, container_id: str, *, force: bool) -> None:
        api = self._engine.api
        try:
            # v: the volumes nobody named, which nobody could find again.
            api.remove_container(container_id, v=True, force=force)
        except docker_errors.NotFound:
            return
        except docker_errors.APIError as exc:
            if "already in progress" not in str(exc.explanation):
                raise
            # auto_remove, or a request that timed out, is at it: its processes must be gone when this
            # returns.
            try:
                api.wait(container_id, timeout=self.settings.default_timeout, condition="removed")
            except docker_errors.NotFound:
                return

    def _quota_supported(self) -> bool:
        if self._disk_quota is None:
            with self._engine.translated("describe itself"):
                self._disk_quota = disk_quota_supported(self._engine.api.info(), self.settings.root)
        return self._disk_quota
