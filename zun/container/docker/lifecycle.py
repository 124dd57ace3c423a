# SPDX-License-Identifier: Apache-2.0
"""Create, move and remove containers."""

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from docker import APIClient
from docker import errors as docker_errors

from zun.common import exceptions
from zun.container.docker.client import NOWHERE, Engine, object_name
from zun.container.docker.create import dedicated_in, endpoint, request_body
from zun.container.docker.device_host import DockerDevices
from zun.container.docker.devices import VARIABLE
from zun.container.docker.errors import memory_blamed, says
from zun.container.docker.facts import disk_quota_supported
from zun.container.docker.kernel import DockerKernel
from zun.container.docker.weighing import DockerWeights
from zun.container.driver.container import ContainerView
from zun.container.driver.devices import NO_DEVICES, ContainerDevices
from zun.container.driver.lifecycle import Plug, RuntimeMount

LOG = logging.getLogger(__name__)

#: Seconds that Docker's stop and restart wait by default. docker-py adds them to the timeout of the request.
STOP_TIMEOUT = 10
_LEAVING = frozenset({"removing", "dead"})


class DockerLifecycle(DockerDevices, DockerWeights, DockerKernel):
    """Runs each operation but ``create`` with one call to the daemon.

    With ``joins_at_creation``, a new object is in its first network from the beginning. Docker's would look for this
    network at each start, although the container has left it.
    """

    joins_at_creation = False

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._described: tuple[APIClient | None, bool, str] = (None, False, "")

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
        memory: int | None = None,
        devices: ContainerDevices = NO_DEVICES,
        dedicated_cpus: str = "",
        cgroup_parent: str = "",
    ) -> str:
        given = self.passthrough(container, devices)
        self.await_cards(container, devices, join)
        disk_quota, log_driver = self._daemon()
        body = request_body(
            container,
            cpuset_cpus=cpuset_cpus,
            cpuset_mems=cpuset_mems,
            settings=self.settings,
            disk_quota=disk_quota,
            log_driver=log_driver,
            plug=plug,
            mounts=(*mounts, *given.mounts),
            join=join,
            memory=memory,
            dedicated_cpus=dedicated_cpus,
            curve=self.curve(container),
        )
        if cgroup_parent:
            body["HostConfig"]["CgroupParent"] = cgroup_parent
        given.apply(body)
        if image is not None:
            body["Image"] = image
        connected = [NOWHERE]
        if self.joins_at_creation and plug is not None and plug.network != NOWHERE:
            body["NetworkingConfig"] = {"EndpointsConfig": {plug.network: endpoint(container, plug)}}
            connected = [plug.network]
        name = object_name(container.uuid)
        with self._engine.translated("create", container), memory_blamed(container.memory):
            try:
                answer = self._engine.api.create_container_from_config(body, name)
            except docker_errors.APIError as exc:
                if exc.status_code != 409:
                    raise
                found = self._adopt(container, body)
                if found is not None:
                    self._attach(container, found["Id"], found["NetworkSettings"]["Networks"] or (), plug)
                    return found["Id"]
                answer = self._engine.api.create_container_from_config(body, name)
            self._attach(container, answer["Id"], connected, plug)
        for warning in answer.get("Warnings") or ():
            # Docker drops a limit that its kernel does not support, and reports it only here.
            LOG.warning("Docker warns about container %s: %s", container.uuid, warning)
        return answer["Id"]

    def _attach(
        self, container: ContainerView, container_id: str, connected: Collection[str], plug: Plug | None
    ) -> None:
        """Connect an object, which is in the networks ``connected``, to the first network of its container."""
        if plug is None or plug.network == NOWHERE or plug.network in connected:
            return
        api = self._engine.api
        if NOWHERE in connected:  # Docker refuses any other network beside it
            api.disconnect_container_from_network(container_id, NOWHERE, force=True)
        api.connect_container_to_network(container_id, plug.network, **endpoint(container, plug))

    def start(self, container: ContainerView) -> None:
        with self._engine.translated("start", container), memory_blamed(container.memory):
            self._engine.api.start(object_name(container.uuid))
        self.weigh(container, container.cpu)

    def stop(self, container: ContainerView, timeout: int | None = None) -> None:
        with self._engine.translated("stop", container):
            self._engine.api.stop(object_name(container.uuid), timeout)

    def reboot(self, container: ContainerView, timeout: int | None = None) -> None:
        with self._engine.translated("restart", container), memory_blamed(container.memory):
            self._engine.api.restart(object_name(container.uuid), STOP_TIMEOUT if timeout is None else timeout)
        self.weigh(container, container.cpu)

    def pause(self, container: ContainerView) -> None:
        with self._engine.translated("pause", container):
            self._engine.api.pause(object_name(container.uuid))

    def unpause(self, container: ContainerView) -> None:
        with self._engine.translated("unpause", container):
            self._engine.api.unpause(object_name(container.uuid))

    def kill(self, container: ContainerView, signal: str | None = None) -> None:
        with self._engine.translated("kill", container):
            try:
                self._engine.api.kill(object_name(container.uuid), signal or "SIGKILL")
            except docker_errors.APIError as exc:
                if says(exc, "invalid signal", "does not support signal"):
                    raise exceptions.InvalidValue(f"'{signal}' is no signal. Give a name such as SIGTERM.") from exc
                raise

    def delete(self, container: ContainerView, *, force: bool = False) -> None:
        with self._engine.translated("delete", container):
            found = self._engine.find(container)
            if found is not None:
                self._remove(found["Id"], force=force)
            elif (left := self.left_running(container)) is not None:
                raise exceptions.DockerError(str(left.error))

    def _adopt(self, container: ContainerView, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return Docker's description of an earlier attempt's object, or None if its name is free now.

        Docker cannot change the devices and the environment of an object. So an object with other devices is removed,
        and an object that tells a mixed container other CPUs.
        """
        found = self._inspect(container)
        if found is None:
            return None
        labels = found["Config"]["Labels"] or {}
        if not self._engine.owns(labels, container.uuid):
            raise exceptions.ContainerAlreadyExists(
                f"Docker object {object_name(container.uuid)} exists and is not of this host's agent. Remove or "
                f"rename it, then create the container again."
            )
        told = dedicated_in(found["Config"]["Env"]) == dedicated_in(body.get("Env"))
        if found["State"]["Status"] in _LEAVING or not told or _devices(found, found["Config"]) != _devices(body, body):
            self._remove(found["Id"], force=True)
            return None
        host_config = found["HostConfig"]
        cpuset_cpus, cpuset_mems = body["HostConfig"]["CpusetCpus"], body["HostConfig"]["CpusetMems"]
        if (cpuset_cpus or host_config["CpusetCpus"]) != host_config["CpusetCpus"] or (
            cpuset_mems or host_config["CpusetMems"]
        ) != host_config["CpusetMems"]:
            # The earlier attempt had another plan.
            self._engine.api.update_container(found["Id"], cpuset_cpus=cpuset_cpus, cpuset_mems=cpuset_mems)
        LOG.info("Adopted object %s of container %s", found["Id"], container.uuid)
        return found

    def _inspect(self, container: ContainerView) -> dict[str, Any] | None:
        try:
            return self._engine.api.inspect_container(object_name(container.uuid))
        except docker_errors.NotFound:
            return None

    def _remove(self, container_id: str, *, force: bool) -> None:
        api = self._engine.api
        try:
            # v removes the anonymous volumes, which nobody could find again.
            api.remove_container(container_id, v=True, force=force)
        except docker_errors.NotFound:
            return
        except docker_errors.APIError as exc:
            if not says(exc, "already in progress"):
                raise
            # auto_remove, or a request that timed out, is removing the object. Wait until its processes are gone.
            try:
                answer = api.wait(container_id, timeout=self.settings.default_timeout, condition="removed")
            except docker_errors.NotFound:
                return
            if failed := answer.get("Error"):
                raise exceptions.DockerError(f"Docker could not delete the container: {failed.get('Message')}") from exc

    def _daemon(self) -> tuple[bool, str]:
        """Return whether the daemon can limit disks, and its log driver. Ask once for each client of the engine."""
        api = self._engine.api
        if self._described[0] is not api:
            with self._engine.translated("describe itself"):
                info = api.info()
            self._described = api, disk_quota_supported(info, self.settings.root), str(info.get("LoggingDriver") or "")
        return self._described[1:]


def _devices(described: Mapping[str, Any], config: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return everything in a request or in Docker's description that says which devices a container has."""
    host = described["HostConfig"]
    variables = sorted(each for each in config.get("Env") or () if each.startswith(f"{VARIABLE}="))
    names = sorted(name for each in host.get("DeviceRequests") or () for name in each.get("DeviceIDs") or ())
    return sorted((each["PathOnHost"], each["PathInContainer"]) for each in host.get("Devices") or ()), names, variables
