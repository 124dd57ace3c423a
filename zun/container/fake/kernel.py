# SPDX-License-Identifier: Apache-2.0
"""The kernel below the in-memory driver: the sets that it knows and shows, and what an audit finds."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from zun.common import exceptions
from zun.common.units import MIB
from zun.container.driver.audit import (
    Activity,
    DeviceAccess,
    Intruder,
    ParentGroup,
    PinningView,
    ThreadGroup,
    Throttling,
)
from zun.container.driver.devices import ContainerDevices
from zun.container.driver.hugepages import PageStock
from zun.container.driver.inspector import KernelView
from zun.container.fake.operations import OnRuntime
from zun.container.fake.runtime import RuntimeObject
from zun.topology import CpuSet
from zun.topology.device_request import GivenDevice

PAGE_SIZES = (2048, 1048576)  # KiB


@dataclass(frozen=True, slots=True)
class Disobedience:
    """The sets that the kernel shows instead of the configured ones. If ``repairable``, an update or start ends it."""

    cpus: CpuSet | None
    mems: CpuSet | None
    repairable: bool


@dataclass(slots=True)
class AuditedKernel:
    """The findings that tests set.

    - ``narrowed``: uuid -> CPUs of a second thread, which narrowed its own set.
    - ``pages``: uuid -> MiB by memory node, for example ``{uuid: {0: 512}}``. An update of memory nodes moves them,
      but for those of ``locked`` containers.
    - ``throttling``: uuid -> how its CPU time was limited.
    - ``activity``: uuid -> the counters of its threads and its group.
    - ``parents``: the groups above every container, the nearest first.
    - ``devices``: uuid -> how its devices are given to it.
    - ``intruders``: candidates; an audit reports those on its CPUs.
    - ``huge_pages``: uuid -> pages in use by memory node and size in KiB, for example ``{uuid: {0: {2048: 3}}}``. An
      update of memory nodes moves them like ``pages``.
    - ``page_stock``: the huge pages of the host by memory node and size in KiB.
    - ``limits_pages``: whether the kernel has the controller that limits huge pages.
    """

    narrowed: dict[str, CpuSet] = field(default_factory=dict)
    pages: dict[str, dict[int, int]] = field(default_factory=dict)
    locked: set[str] = field(default_factory=set)
    throttling: dict[str, Throttling] = field(default_factory=dict)
    activity: dict[str, Activity] = field(default_factory=dict)
    parents: list[ParentGroup] = field(default_factory=list)
    intruders: list[Intruder] = field(default_factory=list)
    devices: dict[str, DeviceAccess] = field(default_factory=dict)
    huge_pages: dict[str, dict[int, dict[int, int]]] = field(default_factory=dict)
    page_stock: dict[int, dict[int, PageStock]] = field(default_factory=dict)
    limits_pages: bool = True

    def pages_used(self, uuid: str) -> dict[int, int]:
        """Return the huge pages of a container on all memory nodes, by size in KiB."""
        total: dict[int, int] = {}
        for sizes in self.huge_pages.get(uuid, {}).values():
            for size, count in sizes.items():
                total[size] = total.get(size, 0) + count
        return total

    def device_access(self, wanted: tuple[GivenDevice, ...], found: RuntimeObject) -> DeviceAccess:
        """Return how the container has its devices: as it was created, unless a test set another view."""
        asked, has = (frozenset(each.address for each in given) for given in (wanted, found.devices))
        return self.devices.get(found.uuid, DeviceAccess(asked, has))

    def view(self, uuid: str, pid: int, seen: KernelView) -> PinningView:
        """Return the container as an audit sees it. A thread that narrowed its set stays inside its group's set."""
        threads = [ThreadGroup(seen.cpus, seen.mems, 1, pid, "main")]
        if uuid in self.narrowed:
            chosen = self.narrowed[uuid] & seen.cgroup_cpus
            threads.append(ThreadGroup(chosen or seen.cgroup_cpus, seen.mems, 1, pid + 1, "worker"))
        pages = {node: size * MIB for node, size in self.pages.get(uuid, {}).items()}
        return PinningView(
            cgroup_cpus=seen.cgroup_cpus,
            cgroup_mems=seen.cgroup_mems,
            threads=tuple(threads),
            parents=tuple(self.parents),
            pages=pages,
            anonymous=pages,
            throttling=self.throttling.get(uuid),
            activity=self.activity.get(uuid),
            tids=tuple(each.tid for each in threads),
        )

    def migrate(self, uuid: str, mems: CpuSet) -> None:
        """Move the pages of a container that are outside of ``mems`` to the first node of it."""
        if uuid in self.locked:
            return
        first = min(mems)
        if uuid in self.pages:
            away = {node: size for node, size in self.pages[uuid].items() if node not in mems}
            kept = {node: size for node, size in self.pages[uuid].items() if node in mems}
            self.pages[uuid] = {**kept, first: kept.get(first, 0) + sum(away.values())}
        if uuid in self.huge_pages:
            used: dict[int, Counter[int]] = {}
            for node, pages in self.huge_pages[uuid].items():
                used.setdefault(node if node in mems else first, Counter()).update(pages)
            self.huge_pages[uuid] = {node: dict(pages) for node, pages in used.items()}

    def found(self, cpus: CpuSet, known: Callable[[str], bool], *, processes: bool) -> list[Intruder]:
        """Return the intruders on ``cpus``, except those whose id is the uuid of a ``known`` container."""
        return [
            each
            for each in self.intruders
            if each.cpus & cpus and (processes or each.kind == "container") and not known(each.id)
        ]


class InMemoryKernel(OnRuntime):
    """``cpus`` and ``mems`` are the ids that the kernel knows, None for any. ``kernel`` has what an audit finds."""

    def __init__(self, *, cpus: CpuSet | None, mems: CpuSet | None, **more: Any) -> None:
        super().__init__(**more)
        self.kernel = AuditedKernel()
        self._cpus, self._mems = cpus, mems
        self._disobedient: dict[str, Disobedience] = {}

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


def still_given(devices: ContainerDevices) -> tuple[GivenDevice, ...]:
    """Return the given devices. DeviceUnusable if the host does not offer one any more."""
    if devices.lost is not None:
        raise exceptions.DeviceUnusable(reason=devices.lost)
    return devices.given
