# SPDX-License-Identifier: Apache-2.0
"""The parts of one host's agent around a runtime in memory and real rows."""

from zun.compute.host.compute_node_tracker import ComputeNodeTracker
from zun.compute.host.shared_pool import SharedPool
from zun.container.fake import InMemoryDriver
from zun.objects.placement import cpuset_record
from zun.tests.fixtures import new_container
from zun.tests.unit.db.rows import NODE
from zun.topology import CpuSet

COLUMNS = {name: value for name, value in NODE.items() if name != "topology"}


class Agent:
    """A tracker, a shared pool and a runtime of a host with ``topology``."""

    def __init__(self, context, topology, *, disk_total=100, enable_cpu_pinning=True):
        self.context = context
        self.driver = InMemoryDriver()
        self.tracker = ComputeNodeTracker("h1", enable_cpu_pinning=enable_cpu_pinning)
        self.tracker.update_inventory(context, topology, {**COLUMNS, "disk_total": disk_total})
        self.pool = SharedPool(self.tracker, self.driver)

    def claim(self, limits=None, **fields):
        """A container whose claim is taken and written to its row."""
        container = new_container(self.context, **fields)
        claim = self.tracker.container_claim(container, limits)
        container.cpuset = cpuset_record(claim.plan)
        container.save_claim("h1")
        return container, claim.plan

    def run_shared(self, cpu=1.0, memory=16, **fields):
        """A running shared container, a member of the pool."""
        container, plan = self.claim(cpu=cpu, memory=memory, **fields)
        cpus = self.pool.cpus_for(container.uuid, plan)
        self.driver.create(container, cpuset_cpus=str(cpus), cpuset_mems=str(plan.mems))
        self.pool.enter(container, plan, cpus)
        self.driver.start(container)
        return container

    def claim_dedicated(self, cpu, memory=16, **fields):
        """The CPUs of a dedicated container that has claimed and not started yet."""
        container, plan = self.claim(cpu=float(cpu), memory=memory, cpu_policy="dedicated", **fields)
        return container, plan.cpus

    def runs_on(self, container):
        """Return the CPUs that the kernel allows a container now."""
        return self.driver.kernel_view(container, self.driver.show(container)).cgroup_cpus

    def told(self, container):
        """Return the CPUs in the runtime's settings of a container."""
        return CpuSet(self.driver.show(container).cpuset_cpus)
