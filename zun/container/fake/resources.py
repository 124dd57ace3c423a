# SPDX-License-Identifier: Apache-2.0
"""The in-memory driver's changes of limits."""

from dataclasses import dataclass
from typing import Any

from zun.common import exceptions
from zun.container.driver.container import ContainerView
from zun.container.fake.kernel import InMemoryKernel
from zun.container.fake.operations import limit
from zun.topology import CpuSet


@dataclass(frozen=True, slots=True)
class Update:
    """The arguments of one call of ``update``."""

    uuid: str
    cpu: float | None
    memory: int | None
    cpuset_cpus: str | None
    cpuset_mems: str | None


class InMemoryResources(InMemoryKernel):
    """``updates`` records the calls."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.updates: list[Update] = []

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
            if cpuset_mems and found.pid:
                self.kernel.migrate(found.uuid, CpuSet(cpuset_mems))
            found.memory = memory or found.memory
            if cpu is not None:
                found.cpu, found.cap = limit(container, cpu), None
            if cpuset_cpus or cpuset_mems:
                self._repair(found)
