# SPDX-License-Identifier: Apache-2.0
"""The capability to read the state of containers, and the limits that the kernel enforces."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

from zun.container.driver.container import ContainerView
from zun.container.driver.state import RuntimeState
from zun.topology import CpuSet


@dataclass(frozen=True, slots=True)
class KernelView:
    """The CPUs and memory nodes that the kernel allows a container.

    ``cpus`` and ``mems`` belong to the first process, which may narrow its own sets. ``cgroup_cpus`` and
    ``cgroup_mems`` belong to the control group: the limit that no process inside can widen. ``engine`` has the CPUs of
    the process that started the first one, for the runtime; None if they are unknown.
    """

    cpus: CpuSet
    mems: CpuSet
    cgroup_cpus: CpuSet
    cgroup_mems: CpuSet
    engine: CpuSet | None = None

    @property
    def inherits(self) -> bool:
        """True if the first process may use fewer CPUs than its group because the runtime itself may."""
        return inherited(self.cpus, self.cgroup_cpus, self.engine)


def inherited(cpus: CpuSet, cgroup_cpus: CpuSet, engine: CpuSet | None) -> bool:
    """Return whether ``cpus`` are what the mask of the ``engine`` leaves of a group, and not all of the group."""
    return engine is not None and cpus != cgroup_cpus and cpus == cgroup_cpus & engine


class Inspector(Protocol):
    """Reads the state of containers."""

    def show(self, container: ContainerView) -> RuntimeState | None:
        """Return the state of the container, or None if this host has no object for it."""
        ...

    def list(self) -> dict[str, RuntimeState]:
        """Return the state of every object of this host, by container uuid.

        The method does not know the rows, so ``status`` of an object that never started is None, where ``show`` may
        return Created.
        """
        ...

    def of_other_hosts(self) -> Mapping[str, AbstractSet[str]]:
        """Return the uuids of containers whose objects belong to hosts of other names, by host name."""
        ...

    def kernel_view(self, container: ContainerView, state: RuntimeState) -> KernelView | None:
        """Return the limits that the kernel enforces now, or None if the process of ``state`` is gone.

        DockerError if the kernel's files cannot be read, so that an unreadable limit never passes for an intact one.
        """
        ...

    def use_all_cpus(self, container: ContainerView, state: RuntimeState) -> None:
        """Let the first process of ``state`` use all CPUs of its control group, if it inherits fewer of the runtime.

        A failure is logged: an audit finds such a process.
        """
        ...
