# SPDX-License-Identifier: Apache-2.0
"""Keeps shared containers off the CPUs that dedicated ones hold.

The order is what makes dedicated CPUs dedicated: before a dedicated container starts, running shared containers are
narrowed and the kernel is asked whether they left; only after its last process is gone are they widened again.
"""

import logging
import threading
from collections.abc import Mapping

from zun.common import exceptions
from zun.compute.compute_node_tracker import ComputeNodeTracker
from zun.container.driver import ContainerDriver
from zun.objects import Container
from zun.topology import CpuSet, HostTopology, Plan, Usage

LOG = logging.getLogger(__name__)


def pool_of(topology: HostTopology, usage: Usage, plan: Plan) -> CpuSet:
    """The CPUs that a shared container with ``plan`` may run on now: the pool of its cells."""
    return usage.shared_pool(topology, plan.cells)


class SharedPool:
    """The shared containers of this host that exist at the runtime, and the CPUs each may run on now.

    One lock keeps changes in order, over the runtime's answers as well: a later, wider set must not overtake a narrower
    one.
    """

    def __init__(self, tracker: ComputeNodeTracker, driver: ContainerDriver) -> None:
        self._tracker = tracker
        self._driver = driver
        self._lock = threading.Lock()
        self._members: dict[str, tuple[Container, CpuSet]] = {}

    def enter(self, container: Container, cpus: CpuSet) -> None:
        """Note that the runtime has the container, made to run on ``cpus``, before it starts."""
        with self._lock:
            self._members[container.uuid] = (container, cpus)
            self._settle(container.uuid)

    def leave(self, uuid: str) -> None:
        """Note that the runtime has it no more."""
        with self._lock:
            self._members.pop(uuid, None)

    def settle(self) -> None:
        """Bring every member to the pool as it is now; where one had to give up CPUs, see in the kernel that it did.

        Raises PinningMismatch when one did not.
        """
        with self._lock:
            for uuid in list(self._members):
                self._settle(uuid)

    def current(self) -> Mapping[str, CpuSet]:
        """Member -> the CPUs it was last told to run on."""
        with self._lock:
            return {uuid: cpus for uuid, (_, cpus) in self._members.items()}

    def _settle(self, uuid: str) -> None:
        container, now = self._members[uuid]
        usage = self._tracker.usage
        plan = usage.claim(uuid)
        if plan is None:  # released meanwhile; whoever did that also removes the container
            return
        wanted = pool_of(self._tracker.topology, usage, plan)
        if wanted == now:
            return
        try:
            self._driver.update(container, cpuset_cpus=str(wanted))
        except exceptions.ContainerNotFound:
            del self._members[uuid]
            return
        self._members[uuid] = (container, wanted)
        LOG.info("Shared container %s runs on CPUs %s instead of %s", uuid, wanted, now)
        if now - wanted:
            self._check_left(container, now - wanted)

    def _check_left(self, container: Container, given_up: CpuSet) -> None:
        state = self._driver.show(container)
        view = None if state is None else self._driver.kernel_view(container, state)
        if view is not None and (still := (view.cgroup_cpus | view.cpus) & given_up):
            raise exceptions.PinningMismatch(
                reason=f"shared container {container.uuid} was told to leave CPUs {still} and may still run there"
            )
