# SPDX-License-Identifier: Apache-2.0
"""The in-memory driver's kernel as an audit sees it. Tests set its findings."""

from collections.abc import Callable
from dataclasses import dataclass, field

from zun.common.units import MIB
from zun.container.driver.audit import DeviceAccess, Intruder, ParentGroup, PinningView, ThreadGroup, Throttling
from zun.container.driver.hugepages import PageStock
from zun.container.driver.inspector import KernelView
from zun.container.fake.runtime import RuntimeObject
from zun.topology import CpuSet
from zun.topology.device_request import GivenDevice

PAGE_SIZES = (2048, 1048576)  # KiB


@dataclass(slots=True)
class AuditedKernel:
    """The findings that tests set.

    - ``narrowed``: uuid -> CPUs of a second thread, which narrowed its own set.
    - ``pages``: uuid -> MiB by memory node, for example ``{uuid: {0: 512}}``.
    - ``throttling``: uuid -> how its CPU time was limited.
    - ``parents``: the groups above every container, the nearest first.
    - ``devices``: uuid -> how its devices are given to it.
    - ``intruders``: candidates; an audit reports those on its CPUs.
    - ``huge_pages``: uuid -> pages in use by memory node and size in KiB, for example ``{uuid: {0: {2048: 3}}}``.
    - ``page_stock``: the huge pages of the host by memory node and size in KiB.
    - ``limits_pages``: whether the kernel has the controller that limits huge pages.
    """

    narrowed: dict[str, CpuSet] = field(default_factory=dict)
    pages: dict[str, dict[int, int]] = field(default_factory=dict)
    throttling: dict[str, Throttling] = field(default_factory=dict)
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
        return PinningView(
            cgroup_cpus=seen.cgroup_cpus,
            cgroup_mems=seen.cgroup_mems,
            threads=tuple(threads),
            parents=tuple(self.parents),
            pages={node: size * MIB for node, size in self.pages.get(uuid, {}).items()},
            throttling=self.throttling.get(uuid),
        )

    def found(self, cpus: CpuSet, known: Callable[[str], bool], *, processes: bool) -> list[Intruder]:
        """Return the intruders on ``cpus``, except those whose id is the uuid of a ``known`` container."""
        return [
            each
            for each in self.intruders
            if each.cpus & cpus and (processes or each.kind == "container") and not known(each.id)
        ]
