# SPDX-License-Identifier: Apache-2.0
"""The in-memory driver's creation, start, stop and removal of containers."""

import signal as signals
import uuid as uuids
from collections.abc import Sequence

from zun.common import exceptions
from zun.container.driver.container import ContainerView
from zun.container.driver.devices import NO_DEVICES, ContainerDevices
from zun.container.driver.lifecycle import Plug, RuntimeMount
from zun.container.fake.images import InMemoryImages
from zun.container.fake.kernel import InMemoryKernel, still_given
from zun.container.fake.operations import limit
from zun.container.fake.runtime import KILLED, STOP_TIMEOUT, TERMINATED, RuntimeObject, signal_number


class InMemoryLifecycle(InMemoryImages, InMemoryKernel):
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
        image = image or container.image
        with self._operation("create", container):
            if self.images is not None and image not in self.images:
                raise exceptions.ImageNotFound(image=image)
            self._check_sets(container.uuid, cpuset_cpus, cpuset_mems)
            if join is not None and join not in self.runtime.by_host[self.host_facts.name]:
                raise exceptions.DockerError(error=f"no such container: {join}")
            given = still_given(devices)
            found = self.runtime.objects.get(container.uuid)
            if found is not None and found.host != self.host_facts.name:
                raise exceptions.ContainerAlreadyExists(field="uuid", value=container.uuid)
            if found is not None and (found.devices, found.dedicated_cpus) != (given, dedicated_cpus):
                if found.pid:
                    self.runtime.end(found, KILLED, keep=True)
                self.runtime.remove(found)
                found = None
            if found is not None:
                found.cpuset_cpus = cpuset_cpus or found.cpuset_cpus
                found.cpuset_mems = cpuset_mems or found.cpuset_mems
                return found.container_id
            made = RuntimeObject(
                container_id=uuids.uuid4().hex * 2,
                uuid=container.uuid,
                host=self.host_facts.name,
                command=(*(container.entrypoint or ()), *(container.command or ())),
                auto_remove=bool(container.auto_remove),
                restart=dict(container.restart_policy or {}),
                cpuset_cpus=cpuset_cpus,
                cpuset_mems=cpuset_mems,
                cpu=limit(container, container.cpu),
                memory=container.memory if memory is None else memory,
                image=image,
                hostname=container.hostname,
                plug=plug,
                mounts=tuple(mounts),
                join=join,
                devices=given,
                dedicated_cpus=dedicated_cpus,
            )
            self.runtime.add(made)
            return made.container_id

    def start(self, container: ContainerView) -> None:
        with self._operation("start", container):
            found = self._find(container)
            if found.paused:
                raise exceptions.Conflict(f"Cannot start container {found.uuid}: it is paused, unpause it")
            if not found.pid:
                self._start(found)

    def join_interfaces(self, container: ContainerView, devices: ContainerDevices) -> None:
        with self._operation("join_interfaces", container):
            self._find(container)

    def stop(self, container: ContainerView, timeout: int | None = None) -> None:
        with self._operation("stop", container):
            found = self._find(container)
            self._stop(found, timeout)
            found.restarting = False

    def reboot(self, container: ContainerView, timeout: int | None = None) -> None:
        with self._operation("reboot", container):
            found = self._find(container)
            self._stop(found, timeout, keep=True)
            if self.runtime.objects.get(container.uuid) is not found:
                raise exceptions.DockerError(error=f"container {found.uuid} is removed and cannot be started")
            self._start(found)

    def pause(self, container: ContainerView) -> None:
        with self._operation("pause", container):
            found = self._running(container, "pause")
            if found.paused:
                raise exceptions.Conflict(f"Cannot pause container {found.uuid}: it is already paused")
            found.paused = True
            self.runtime.tell(found, "pause")

    def unpause(self, container: ContainerView) -> None:
        with self._operation("unpause", container):
            found = self._find(container)
            if not found.paused:
                raise exceptions.Conflict(f"Cannot unpause container {found.uuid}: it is not paused")
            found.paused = False
            self.runtime.tell(found, "unpause")

    def kill(self, container: ContainerView, signal: str | None = None) -> None:
        with self._operation("kill", container):
            found = self._find(container)
            if found.restarting:  # as in Docker, whatever the signal: no process is there that could get it
                found.restarting = False
                return
            found = self._running(container, "kill")
            # The first process of a pid namespace ignores every signal that it does not handle, except SIGKILL.
            if signal_number(signal or "SIGKILL") == signals.SIGKILL:
                self.runtime.end(found, KILLED)
            else:
                found.signals.append(str(signal))

    def delete(self, container: ContainerView, *, force: bool = False) -> None:
        with self._operation("delete", container):
            found = self.runtime.objects.get(container.uuid)
            if found is None or found.host != self.host_facts.name:
                return
            if found.pid:
                if not force:
                    raise exceptions.Conflict(f"Cannot delete container {found.uuid}: it is running, stop it")
                self.runtime.end(found, KILLED, keep=True)
            self.runtime.remove(found)

    def exit(self, uuid: str, code: int = 0, *, out_of_memory: bool = False) -> None:
        """End the container's process as if it ended by itself. The restart policy applies."""
        with self.runtime.lock:
            self.runtime.objects[uuid].out_of_memory = out_of_memory
            self.runtime.end(self.runtime.objects[uuid], code, by_itself=True)

    def _stop(self, running: RuntimeObject, timeout: int | None, *, keep: bool = False) -> None:
        """End the process. Waiting for a process that ignores SIGTERM releases the lock, so others may kill it."""
        pid = running.pid
        if pid and running.ignores_term:
            limit = STOP_TIMEOUT if timeout is None else timeout
            if not self.runtime.ended.wait_for(lambda: running.pid != pid, limit):
                self.runtime.end(running, KILLED, keep=keep)
        elif pid:
            self.runtime.end(running, TERMINATED, keep=keep)

    def _start(self, stopped: RuntimeObject) -> None:
        self._repair(stopped)
        stopped.restarts = 0
        self.runtime.begin(stopped)
