# SPDX-License-Identifier: Apache-2.0
"""Compare what a container should run on with what the kernel says it does."""

from zun.container.driver import KernelView
from zun.topology import CpuSet


def disagreements(cpus: CpuSet, mems: CpuSet, view: KernelView) -> list[str]:
    """Where ``view`` differs from the planned CPUs and memory nodes, in words; empty when it agrees.

    The control group must be exactly the plan. The first process may have narrowed itself, never widened.
    """
    found = []
    if view.cgroup_cpus != cpus:
        found.append(f"its cgroup allows CPUs {view.cgroup_cpus or 'none'}, the plan is {cpus}")
    if view.cgroup_mems != mems:
        found.append(f"its cgroup allows memory nodes {view.cgroup_mems or 'none'}, the plan is {mems}")
    if not view.cpus <= cpus:
        found.append(f"its first process may run on CPUs {view.cpus}, the plan is {cpus}")
    if not view.mems <= mems:
        found.append(f"its first process may use memory nodes {view.mems}, the plan is {mems}")
    return found
