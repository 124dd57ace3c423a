# SPDX-License-Identifier: Apache-2.0
"""The capability to describe the host and its engine."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Store:
    """Where an engine keeps its containers. An engine shows only the containers of the store that it uses.

    ``engine_id`` is the engine's id, ``folder`` is the folder of its data and ``inode`` the number of this folder in
    its file system, which is another one if a disk is not mounted there. ``driver`` stores the layers of images and
    containers, for example ``overlay2``. ``images`` is who keeps the images: ``containerd`` or the engine itself.
    """

    engine_id: str = ""
    folder: str = ""
    inode: int | None = None
    driver: str = ""
    images: str = ""


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """The engine that runs the containers of a host. A text is empty, and another value None, if it does not tell.

    ``runtime`` is the default runtime with its version, for example ``runc 1.3.6``. With ``live_restore``, containers
    run on while the engine is stopped.
    """

    name: str = ""
    version: str = ""
    api_version: str = ""
    runtime: str = ""
    cgroup_version: int | None = None
    live_restore: bool | None = None
    store: Store = Store()


NO_ENGINE = EngineFacts()
#: Called with the engine at each new connection, and a function that returns the uuids of the containers it shows.
Judge = Callable[[EngineFacts, Callable[[], AbstractSet[str]]], None]


@dataclass(frozen=True, slots=True)
class HostFacts:
    """The runtime's description of its host. ``name`` is the agent's configured host name.

    ``cpu_flags`` are the flags of /proc/cpuinfo that all CPUs have. ``cdi_folders`` are where the runtime looks for CDI
    files, the lowest priority first; empty if it has no CDI of its own. ``cdi_names`` are the CDI devices that it found
    there, None if it does not tell. ``runs_healthchecks`` is False if the engine never runs the health checks of
    containers. ``cgroup_driver`` makes the control groups of containers: ``systemd`` or ``cgroupfs``.
    """

    name: str
    mem_total_mib: int
    cpus: int
    disk_total_gib: int
    disk_quota_supported: bool
    labels: dict[str, str]
    runtimes: list[str]
    architecture: str
    os_type: str
    os: str
    kernel_version: str
    cpu_flags: frozenset[str] = frozenset()
    cdi_folders: tuple[str, ...] = ()
    cdi_names: frozenset[str] | None = None
    runs_healthchecks: bool = True
    engine: EngineFacts = NO_ENGINE
    cgroup_driver: str = ""


class Facts(Protocol):
    """Describes the host."""

    def facts(self) -> HostFacts: ...

    def judged_by(self, judge: Judge) -> None:
        """Call ``judge`` with the engine at each new connection, before anything else is asked.

        If ``judge`` raises Unavailable, every method does, and each asks again.
        """
        ...

    def ping(self) -> None:
        """Raise Unavailable if the runtime does not answer within seconds, even if it hangs."""
        ...
