# SPDX-License-Identifier: Apache-2.0
"""The state of one container as its runtime describes it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from zun.common.probes import Health
from zun.common.states import Status
from zun.topology.device_request import GivenDevice

#: Reason of a container whose process the kernel killed for lack of memory.
OUT_OF_MEMORY = "It used more memory than it has, so the kernel killed it. Give it more memory and start it again."
#: Name of the project's default network in the addresses of a container.
DEFAULT_NETWORK = "default"


@dataclass(frozen=True, slots=True)
class RuntimeState:
    """The state of one container as its runtime describes it.

    - ``status`` is None if the row keeps its status: for an object that is being removed, and for an object that never
      started, unless the row is Creating or says that the container ran, for example Running.
    - ``pid`` is the id of the first process on the host, 0 without a process.
    - ``exit_code`` is None until a process has ended.
    - ``error`` is the runtime's own text, the reason of the status Unknown, or :data:`OUT_OF_MEMORY`.
    - ``cpuset_cpus`` and ``cpuset_mems`` are the runtime's *configuration* in the kernel's list form, for example
      ``0-3,8``, or "" if unset. :class:`KernelView` has the sets that the kernel enforces.
    - ``hostname`` is the host name inside the container.
    - ``addresses`` are the addresses that the runtime chose, by network; None if the runtime does not report them.
    - ``devices`` are those that the container was created with, ``dedicated_cpus`` the own CPUs of a mixed container as
      a kernel list, "" for other containers.
    - ``cpu`` (CPUs) and ``memory`` (MiB) are the configured limits, None without a limit. ``cap`` (CPUs) is CPU time
      that the container cannot exceed. Without a cap ``cpu`` is a weight: CPU shares by 1024, which are other shares
      for runtimes with another curve (see :mod:`zun.container.weights`).
    - ``health`` is what the probes of a container of a capsule say, None without probes. The agent fills it in.
    """

    container_id: str
    status: Status | None
    exit_code: int | None
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None
    pid: int
    cpuset_cpus: str
    cpuset_mems: str
    hostname: str | None = None
    addresses: Mapping[str, tuple[str, ...]] | None = None
    cpu: float | None = None
    memory: int | None = None
    cap: float | None = None
    devices: tuple[GivenDevice, ...] = ()
    dedicated_cpus: str = ""
    health: Health | None = None

    @property
    def never_started(self) -> bool:
        """True if the object was created and never started."""
        return self.started_at is None and self.finished_at is None
