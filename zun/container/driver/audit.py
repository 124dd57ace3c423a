# SPDX-License-Identifier: Apache-2.0
"""The capability to read where threads and pages really are, and the values of an audit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from zun.container.driver.container import ContainerView
from zun.container.driver.devices import ContainerDevices
from zun.container.driver.state import RuntimeState
from zun.topology import CpuSet


@dataclass(frozen=True, slots=True)
class DeviceAccess:
    """The devices that a container is given now. Each is a file of the host, a CDI name or the UUID of a GPU.

    ``wanted`` is what the claim needs, ``configured`` what the runtime has for the next start. The others are empty
    without a process: ``missing`` are files that the container does not see as the host does, ``denied`` are files to
    which its control group gives no access. ``allowed`` are rules that give access to devices beyond the claim, for
    example ``c 10:183 rwm``. ``denied`` and ``allowed`` are None where the kernel does not tell the rules. ``lacking``
    are the PCI addresses of network cards that have no interface in the container's network.
    """

    wanted: frozenset[str]
    configured: frozenset[str]
    missing: tuple[str, ...] = ()
    denied: tuple[str, ...] | None = None
    allowed: tuple[str, ...] | None = None
    lacking: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ThreadGroup:
    """A set of ``count`` threads with the same CPUs and memory nodes. ``tid`` and ``name`` belong to one of them."""

    cpus: CpuSet
    mems: CpuSet
    count: int
    tid: int
    name: str


@dataclass(frozen=True, slots=True)
class ParentGroup:
    """A control group above a container's group, with its CPUs and memory nodes. ``path`` is its directory."""

    path: str
    cpus: CpuSet
    mems: CpuSet


@dataclass(frozen=True, slots=True)
class Throttling:
    """How often, and how long in all, the kernel stopped a container because its CPU time was used up."""

    periods: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Activity:
    """Counters of a container's threads, by their ids, and of its control group. None where the kernel does not tell.

    ``switches`` counts how often the kernel took a CPU from a thread that wanted to go on, ``migrations`` how often a
    thread went to another CPU. ``waited`` is the time in seconds in which some of the threads waited for a CPU,
    ``stalled`` that in which all waited that wanted one.
    """

    switches: Mapping[int, int] | None = None
    migrations: Mapping[int, int] | None = None
    waited: float | None = None
    stalled: float | None = None


@dataclass(frozen=True, slots=True)
class PinningView:
    """The kernel's full report on where a container runs.

    ``parents`` begins with the nearest group. ``pages`` is bytes by memory node, for example ``{0: 4096}``, and empty
    if the kernel does not count pages. ``anonymous`` is the part of it that no file has.
    ``throttling`` is None if the kernel does not limit CPU time of groups.
    ``engine`` is as in ``KernelView``.
    ``weight`` is the group's weight of CPU time, 39 for one CPU; None if the kernel does not weigh groups.
    ``activity`` is None for a shared container. ``tids`` are the ids of all its threads.
    """

    cgroup_cpus: CpuSet
    cgroup_mems: CpuSet
    threads: tuple[ThreadGroup, ...]
    parents: tuple[ParentGroup, ...]
    pages: Mapping[int, int]
    anonymous: Mapping[int, int] = field(default_factory=dict)
    throttling: Throttling | None = None
    engine: CpuSet | None = None
    weight: int | None = None
    activity: Activity | None = None
    tids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Intruder:
    """A container or process that may run on ``cpus`` and belongs to no container of this host.

    For a container, ``id`` and ``name`` are those of its runtime. For a process, ``id`` is the path of its control
    group, ``name`` is the name and id of one process, for example ``cron (812)``, and ``count`` is the number of
    processes in the group with the same CPUs.
    """

    kind: Literal["container", "process"]
    id: str
    name: str
    cpus: CpuSet
    count: int = 1


class Auditor(Protocol):
    """Reads where threads and pages really are. The cost grows with the number of threads and processes."""

    def pinning_view(self, container: ContainerView, state: RuntimeState) -> PinningView | None:
        """Return the CPUs and memory nodes of every thread and page, or None if the process of ``state`` is gone.

        DockerError if the kernel's files cannot be read.
        """
        ...

    def device_access(self, container: ContainerView, state: RuntimeState, devices: ContainerDevices) -> DeviceAccess:
        """Return how ``devices`` are given to the container.

        DeviceUnusable if they cannot be given now: a device is gone, or bound to another driver. DockerError if the
        kernel's files cannot be read.
        """
        ...

    def intruders(
        self, cpus: CpuSet, known: Callable[[str], bool], *, processes: bool = True, unplaced: bool = False
    ) -> Sequence[Intruder]:
        """Return everything that may run on some of ``cpus``, except this host's containers that ``known`` accepts.

        ``known`` is called with the uuid of a container. With ``processes``, processes outside of containers are
        checked too, except kernel threads. A process that may use the same CPUs as the host's first process was placed
        by nobody and counts only with ``unplaced``.
        """
        ...
