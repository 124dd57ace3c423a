# SPDX-License-Identifier: Apache-2.0
"""A container runtime in memory, for tests and measurements.

``InMemoryDriver`` implements the Protocols of ``zun.container.driver``, and one set of tests compares it and the
Docker driver. Tests of the service use it instead of mocks, with up to thousands of containers: the cost of an
operation on one container does not depend on their number.
"""

import queue
import signal as signals
import threading
import uuid as uuids
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Self

from oslo_config import cfg

from zun.common import exceptions
from zun.container.driver.audit import DeviceAccess, Intruder, PinningView
from zun.container.driver.container import ContainerView
from zun.container.driver.devices import NO_DEVICES, ContainerDevices
from zun.container.driver.events import RESYNC, RuntimeEvent
from zun.container.driver.facts import EngineFacts, HostFacts, Judge, Store
from zun.container.driver.hugepages import HUGE_PAGES_TARGET, HugePageView, PageStock
from zun.container.driver.images import ImageFacts
from zun.container.driver.inspector import KernelView
from zun.container.driver.lifecycle import Plug, RuntimeMount
from zun.container.driver.state import RuntimeState
from zun.container.fake.archives import InMemoryArchives
from zun.container.fake.audit import PAGE_SIZES, AuditedKernel
from zun.container.fake.console import InMemoryConsole
from zun.container.fake.images import InMemoryImages
from zun.container.fake.runtime import (
    KILLED,
    STOP_TIMEOUT,
    TERMINATED,
    InMemoryRuntime,
    RuntimeObject,
    signal_number,
    utcnow,
)
from zun.container.fake.terminals import InMemoryTerminals
from zun.container.fake.volumes import InMemoryVolumes
from zun.topology import CPUPolicy, CpuSet
from zun.topology.device_request import GivenDevice

DEFAULT_FACTS = HostFacts(
    name="host-1",
    mem_total_mib=16384,
    cpus=8,
    disk_total_gib=100,
    disk_quota_supported=False,
    labels={},
    runtimes=["runc"],
    architecture="x86_64",
    os_type="linux",
    os="In-memory",
    kernel_version="6.1.0",
    engine=EngineFacts("In-memory", "1.0", store=Store(folder="/memory", driver="memory", images="memory")),
    cpu_flags=frozenset({"sse2", "avx", "avx2"}),
)


@dataclass(frozen=True, slots=True)
class Update:
    """The arguments of one call of ``update``."""

    uuid: str
    cpu: float | None
    memory: int | None
    cpuset_cpus: str | None
    cpuset_mems: str | None


@dataclass(frozen=True, slots=True)
class Disobedience:
    """The sets that the kernel shows instead of the configured ones. If ``repairable``, an update or start ends it."""

    cpus: CpuSet | None
    mems: CpuSet | None
    repairable: bool


class InMemoryDriver(InMemoryImages, InMemoryVolumes, InMemoryConsole, InMemoryArchives, InMemoryTerminals):
    """A driver whose containers exist only in memory. Threads may share one driver.

    ``cpus`` and ``mems`` are the ids that the kernel knows. If they are given, the driver refuses other ids as Docker
    does. Several drivers with one ``runtime`` stand for several agents on one daemon.

    Beyond the Protocols, for tests:

    - :meth:`fail` and :meth:`before` disturb an operation, :meth:`disobey` lets the kernel show other sets.
    - :meth:`cut_events` and :meth:`join_events` interrupt the stream of events, :meth:`heard` tells whether every
      event was processed.
    - :meth:`exit` ends a process.
    - ``kernel`` has the further findings of an audit; ``updates`` and ``pulls`` record the calls.
    """

    def __init__(
        self,
        host_facts: HostFacts = DEFAULT_FACTS,
        *,
        images: Mapping[str, ImageFacts] | None = None,
        registry: Mapping[str, ImageFacts] | None = None,
        cpus: CpuSet | None = None,
        mems: CpuSet | None = None,
        runtime: InMemoryRuntime | None = None,
    ) -> None:
        super().__init__(
            images=images,
            registry=registry,
            host_facts=host_facts,
            runtime=runtime or InMemoryRuntime(),
        )
        self.updates: list[Update] = []
        self.kernel = AuditedKernel()
        self._cpus, self._mems = cpus, mems
        self._disobedient: dict[str, Disobedience] = {}

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """Return a driver without containers for this host: the entry point of ``container_driver = fake``."""
        return cls(replace(DEFAULT_FACTS, name=conf.host))

    # Controls for tests

    def disobey(
        self,
        uuid: str,
        *,
        cpus: CpuSet | str | None = None,
        mems: CpuSet | str | None = None,
        repairable: bool = False,
    ) -> None:
        """Let the kernel show other sets for the container, which may not exist yet. Without sets, end this."""
        with self.runtime.lock:
            if cpus is None and mems is None:
                self._disobedient.pop(uuid, None)
                return
            self._disobedient[uuid] = Disobedience(
                CpuSet(cpus) if isinstance(cpus, str) else cpus,
                CpuSet(mems) if isinstance(mems, str) else mems,
                repairable,
            )

    def exit(self, uuid: str, code: int = 0, *, out_of_memory: bool = False) -> None:
        """End the container's process as if it ended by itself. The restart policy applies."""
        with self.runtime.lock:
            self.runtime.objects[uuid].out_of_memory = out_of_memory
            self.runtime.end(self.runtime.objects[uuid], code, by_itself=True)

    def cut_events(self) -> None:
        """Suppress the events of this host's containers until ``join_events``."""
        with self.runtime.lock:
            self.runtime.silent.add(self.host_facts.name)

    def join_events(self) -> None:
        """Connect the stream of events again. It begins with a resync; events of the meantime are lost."""
        with self.runtime.lock:
            self.runtime.silent.discard(self.host_facts.name)
            for listener in self.runtime.listeners[self.host_facts.name]:
                listener.put(RuntimeEvent("", RESYNC))

    def replace_engine(self, engine: EngineFacts, *, moved: bool = False) -> None:
        """Let ``engine`` come in the place of the present one. It shows the containers that were made in its store.

        ``moved``: everything was moved to its store before.
        """
        with self.runtime.lock:
            if not moved:
                self.runtime.change_store(self.host_facts.engine.store, engine.store)
            self.host_facts = replace(self.host_facts, engine=engine)
            self._judged = False
        self.join_events()

    def heard(self) -> bool:
        """Return whether every listener has processed every event of this host so far."""
        with self.runtime.lock:
            return not any(each.unfinished_tasks for each in self.runtime.listeners[self.host_facts.name])

    def write_log(self, uuid: str, line: str) -> None:
        with self.runtime.lock:
            self.runtime.objects[uuid].log.append((utcnow(), line))

    # Lifecycle

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
    ) -> str:
        image = image or container.image
        with self._operation("create", container):
            if self.images is not None and image not in self.images:
                raise exceptions.ImageNotFound(image=image)
            self._check_sets(container.uuid, cpuset_cpus, cpuset_mems)
            if join is not None and join not in self.runtime.by_host[self.host_facts.name]:
                raise exceptions.DockerError(error=f"no such container: {join}")
            given = _given(devices)
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
                cpu=_limit(container, container.cpu),
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

    # Inspector

    def show(self, container: ContainerView) -> RuntimeState | None:
        with self._operation("show", container):
            found = self.runtime.objects.get(container.uuid)
            if found is None or found.host != self.host_facts.name:
                return None
            return found.state(container.status)

    def list(self) -> dict[str, RuntimeState]:
        with self._operation("list", None):
            return {uuid: each.state(None) for uuid, each in self.runtime.by_host[self.host_facts.name].items()}

    def of_other_hosts(self) -> Mapping[str, AbstractSet[str]]:
        with self._operation("of_other_hosts", None):
            here = self.host_facts.name
            return {name: {*found} for name, found in self.runtime.by_host.items() if found and name != here}

    def kernel_view(self, container: ContainerView, state: RuntimeState) -> KernelView | None:
        with self._operation("kernel_view", container):
            return self._kernel_view(container.uuid, state.pid)

    def _kernel_view(self, uuid: str, pid: int) -> KernelView | None:
        found = self.runtime.objects.get(uuid)
        if found is None or not found.pid or found.pid != pid:
            return None
        cpus = CpuSet(found.cpuset_cpus) if found.cpuset_cpus else self._all_cpus()
        mems = CpuSet(found.cpuset_mems) if found.cpuset_mems else self._all_mems()
        wrong = self._disobedient.get(found.uuid)
        if wrong is not None:
            cpus = cpus if wrong.cpus is None else wrong.cpus
            mems = mems if wrong.mems is None else wrong.mems
        return KernelView(cpus=cpus, mems=mems, cgroup_cpus=cpus, cgroup_mems=mems)

    def use_all_cpus(self, container: ContainerView, state: RuntimeState) -> None:
        """Do nothing: processes in memory inherit nothing."""

    # Auditor

    def pinning_view(self, container: ContainerView, state: RuntimeState) -> PinningView | None:
        with self._operation("pinning_view", container):
            seen = self._kernel_view(container.uuid, state.pid)
            return None if seen is None else self.kernel.view(container.uuid, state.pid, seen)

    def device_access(self, container: ContainerView, state: RuntimeState, devices: ContainerDevices) -> DeviceAccess:
        with self._operation("device_access", container):
            return self.kernel.device_access(_given(devices), self._find(container))

    def intruders(
        self, cpus: CpuSet, known: Callable[[str], bool], *, processes: bool = True, unplaced: bool = False
    ) -> Sequence[Intruder]:
        with self._operation("intruders", None):
            return self.kernel.found(cpus, known, processes=processes)

    # Resources

    def update(
        self,
        container: ContainerView,
        *,
        cpu: float | None = None,
        memory: int | None = None,
        cpuset_cpus: str | None = None,
        cpuset_mems: str | None = None,
    ) -> None:
        with self._operation("update", container):
            self.updates.append(Update(container.uuid, cpu, memory, cpuset_cpus, cpuset_mems))
            for name, value in (("cpuset_cpus", cpuset_cpus), ("cpuset_mems", cpuset_mems)):
                if value is not None and not value.strip():
                    raise exceptions.Invalid(f"{name} is empty. To unpin, give every allowed id.")
            found = self._find(container)
            self._check_sets(found.uuid, cpuset_cpus or "", cpuset_mems or "")
            found.cpuset_cpus = cpuset_cpus or found.cpuset_cpus
            found.cpuset_mems = cpuset_mems or found.cpuset_mems
            found.memory = memory or found.memory
            if cpu is not None:
                found.cpu, found.cap = _limit(container, cpu), None
            if cpuset_cpus or cpuset_mems:
                self._repair(found)

    # HugePages

    def limit_pages(self, container: ContainerView, state: RuntimeState, pages: Mapping[int, int]) -> None:
        with self._operation("limit_pages", container):
            found = self.runtime.objects.get(container.uuid)
            if found is None or not found.pid or found.pid != state.pid or not self.kernel.limits_pages:
                return
            limits = {size: pages.get(size, 0) * size * 1024 for size in PAGE_SIZES}
            used = self.kernel.pages_used(container.uuid)
            if any(used.get(size, 0) * size * 1024 > limit for size, limit in limits.items()):
                raise exceptions.Conflict(f"Container {found.uuid} uses more huge pages than {pages or 'none'}")
            found.page_limits = limits

    def huge_pages(self, container: ContainerView, state: RuntimeState) -> HugePageView | None:
        with self._operation("huge_pages", container):
            found = self.runtime.objects.get(container.uuid)
            if found is None or not found.pid or found.pid != state.pid:
                return None
            limits = found.page_limits or dict.fromkeys(PAGE_SIZES)
            mounted = next((each.page_kib for each in found.mounts if each.target == HUGE_PAGES_TARGET), None)
            return HugePageView(
                limits if self.kernel.limits_pages else None, self.kernel.huge_pages.get(container.uuid, {}), mounted
            )

    def page_stock(self) -> Mapping[int, Mapping[int, PageStock]]:
        with self._operation("page_stock", None):
            return self.kernel.page_stock

    # EventSource

    def events(self, stop: threading.Event) -> Iterator[RuntimeEvent]:
        inbox: queue.Queue[RuntimeEvent] = queue.Queue()
        listeners = self.runtime.listeners[self.host_facts.name]
        with self.runtime.lock:
            listeners.append(inbox)
        try:
            yield RuntimeEvent("", RESYNC)
            while not stop.is_set():
                try:
                    event = inbox.get(timeout=0.05)
                except queue.Empty:
                    continue
                yield event
                inbox.task_done()
        finally:
            with self.runtime.lock:
                listeners.remove(inbox)

    # Facts

    def facts(self) -> HostFacts:
        with self._operation("facts", None):
            return self.host_facts

    def judged_by(self, judge: Judge) -> None:
        self._judge, self._judged = judge, False

    def ping(self) -> None:
        with self._operation("ping", None):
            pass

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

    def _repair(self, target: RuntimeObject) -> None:
        wrong = self._disobedient.get(target.uuid)
        if wrong is not None and wrong.repairable:
            del self._disobedient[target.uuid]

    def _all_cpus(self) -> CpuSet:
        return CpuSet(range(self.host_facts.cpus)) if self._cpus is None else self._cpus

    def _all_mems(self) -> CpuSet:
        return CpuSet([0]) if self._mems is None else self._mems

    def _check_sets(self, uuid: str, cpus: str, mems: str) -> None:
        for asked, known, what in ((cpus, self._cpus, "CPUs"), (mems, self._mems, "memory nodes")):
            if asked and known is not None and not CpuSet(asked) <= known:
                raise exceptions.DockerError(
                    f"Requested {what} of container {uuid} are not available - asked {asked}, known {known}"
                )


def _given(devices: ContainerDevices) -> tuple[GivenDevice, ...]:
    """Return the given devices. DeviceUnusable if the host does not offer one any more."""
    if devices.lost is not None:
        raise exceptions.DeviceUnusable(reason=devices.lost)
    return devices.given


def _limit(container: ContainerView, cpu: float | None) -> float | None:
    """Return the CPU limit or weight of the container: None for a dedicated container, which owns its CPUs."""
    return None if container.cpu_policy == CPUPolicy.DEDICATED else cpu
