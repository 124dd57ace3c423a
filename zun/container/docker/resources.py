# SPDX-License-Identifier: Apache-2.0
"""Change the limits of a container."""

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docker import errors as docker_errors

from zun.common import exceptions
from zun.common.naming import called
from zun.common.units import MIB
from zun.container.docker.client import ask, object_name
from zun.container.docker.create import DEFAULT_SHARES, cpu_limits, memory_limits
from zun.container.docker.errors import ENDING
from zun.container.docker.kernel import let_memory_follow, memory_in_use
from zun.container.docker.weighing import DockerWeights
from zun.container.driver.container import ContainerView
from zun.container.weights import Curve, linear
from zun.topology import CPUPolicy
from zun.topology.files import text_of
from zun.topology.mounts import mountinfo

LOG = logging.getLogger(__name__)

_ENDING_DELAYS = (0.02, 0.05, 0.1, 0.2, 0.4)  # seconds before each new attempt to update an ending process


class DockerResources(DockerWeights):
    def update(
        self,
        container: ContainerView,
        *,
        cpu: float | None = None,
        memory: int | None = None,
        cpuset_cpus: str | None = None,
        cpuset_mems: str | None = None,
    ) -> None:
        settings = self.settings
        change = update_arguments(
            container.cpu_policy,
            cpu=cpu,
            memory=memory,
            cpuset_cpus=cpuset_cpus,
            cpuset_mems=cpuset_mems,
            hard_cpu_limit=settings.hard_cpu_limit,
            swap_mib=settings.memory_swap_mib,
            curve=self.curve(container),
        )
        if not change:
            return
        name = object_name(container.uuid)
        with self._engine.translated("update", container):
            found = self._engine.api.inspect_container(name) if memory or cpuset_mems else {}
            if memory:
                self._check_memory(container, found, change["mem_limit"], change["memswap_limit"])
            if cpuset_mems and found["HostConfig"].get("CpusetMems") != cpuset_mems:
                self._let_memory_follow(container, found)
            if cpu is not None and container.cpu_policy in (CPUPolicy.DEDICATED, CPUPolicy.MIXED):
                self._lift(name)
            answer = self._updated(name, change)
        for warning in answer.get("Warnings") or ():
            LOG.warning("Docker warns about container %s: %s", container.uuid, warning)
        self.weigh(container, cpu)

    def _let_memory_follow(self, container: ContainerView, found: Mapping[str, Any]) -> None:
        """Prepare a running container for other memory nodes. A failure is logged: then its memory stays."""
        if not found["State"]["Pid"]:
            return
        try:
            let_memory_follow(Path(self.settings.root), found["State"]["Pid"], found["Id"])
        except (FileNotFoundError, ProcessLookupError):
            return  # it has just ended
        except (OSError, ValueError) as exc:
            LOG.warning("The memory of container %s stays where it is: %s", container.uuid, exc)

    def _check_memory(self, container: ContainerView, found: Mapping[str, Any], limit: int, both: int) -> None:
        """Raise Conflict if a running container uses more than ``limit`` bytes. ``both`` is memory plus swap.

        With version 2 of control groups Docker and Podman accept such a limit, and the kernel ends the processes.
        """
        pid, root = found["State"]["Pid"], Path(self.settings.root)
        if not pid or 0 < (found["HostConfig"].get("Memory") or 0) <= limit:
            return
        try:
            groups, mounts = text_of(root / "proc" / str(pid) / "cgroup"), mountinfo(root)
        except (FileNotFoundError, ProcessLookupError):
            return  # it has just ended
        used = memory_in_use(root, groups, mounts, found["Id"], both if both < 0 else both - limit)
        if used is not None and used > limit:
            raise exceptions.Conflict(
                f"memory {limit // MIB} is below the {-(-used // MIB)} MiB that the processes of container "
                f"{called(container.name, container.uuid)} use, and the kernel would end them. Let them free memory, "
                "or stop the container first."
            )

    def _lift(self, name: str) -> None:
        """Raise a limit of ``docker update --cpus`` to all CPUs of the host, because Docker cannot remove the limit."""
        api = self._engine.api
        nano = api.inspect_container(name)["HostConfig"].get("NanoCpus") or 0
        if nano and nano < (most := api.info()["NCPU"] * 1_000_000_000):
            ask(api, "POST", f"/containers/{name}/update", json={"NanoCpus": most})  # docker-py lacks the field

    def _updated(self, name: str, change: Mapping[str, Any]) -> Any:
        """Update the container and return Docker's answer. Try again if the process ends at this moment.

        In this case Docker also takes back the configuration of the next start, and a restart policy would start the
        container on its old CPUs. The next attempt finds no process and only changes the configuration.
        """
        for delay in _ENDING_DELAYS:
            try:
                return self._engine.api.update_container(name, **change)
            except docker_errors.APIError as exc:
                if not ENDING.search(str(exc.explanation)):
                    raise
            time.sleep(delay)
        return self._engine.api.update_container(name, **change)


def update_arguments(
    cpu_policy: str | None,
    *,
    cpu: float | None,
    memory: int | None,
    cpuset_cpus: str | None,
    cpuset_mems: str | None,
    hard_cpu_limit: bool,
    swap_mib: int,
    curve: Curve = linear,
) -> dict[str, Any]:
    """Return docker-py's arguments for an update, empty if nothing changes.

    CPUs and memory nodes go into one request, which Docker applies in one step on cgroup version 1.
    """
    change: dict[str, Any] = {}
    for name, value in (("cpuset_cpus", cpuset_cpus), ("cpuset_mems", cpuset_mems)):
        if value is None:
            continue
        if not value.strip():
            # Docker answers 200 and keeps the old set (moby#41946).
            raise exceptions.Invalid(f"{name} is empty, which Docker would ignore. To unpin, give every allowed id.")
        change[name] = value
    if memory is not None:
        limits = memory_limits(memory, swap_mib)
        change["mem_limit"], change["memswap_limit"] = (
            limits.get("Memory", memory * MIB),
            limits.get("MemorySwap", -1),
        )
    if cpu is not None:
        limits = cpu_limits(cpu_policy, cpu, hard=hard_cpu_limit, curve=curve)
        # Remove the other kind of limit: the container may have become dedicated, or the operator may have changed
        # [docker] hard_cpu_limit since its creation.
        change["cpu_shares"] = limits.get("CpuShares", DEFAULT_SHARES)
        change["cpu_quota"] = limits.get("CpuQuota", -1)
        if "CpuPeriod" in limits:
            change["cpu_period"] = limits["CpuPeriod"]
    return change
