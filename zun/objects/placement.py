# SPDX-License-Identifier: Apache-2.0
"""Between the containers and hosts of the API and the values of ``zun.topology``."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from zun.topology import CPUPolicy, CpuSet, HostTopology, PlacementRequest, Plan, Usage, grade_of
from zun.topology.request import ThreadPolicy
from zun.topology.view import HostView

CPU_RATIO_KEY = "cpu_allocation_ratio"
RAM_RATIO_KEY = "ram_allocation_ratio"

#: Members of a PlacementRequest -> the API's names for them.
ASKED_AS: Mapping[str, str] = {
    "cpus": "cpu",
    "memory_mib": "memory",
    "cpu_policy": "cpu_policy",
    "thread_policy": "cpu_thread_policy",
    "numa_nodes": "numa_nodes",
    "numa_affinity": "numa_affinity",
    "numa_cpus": "numa_cpus",
    "numa_mem": "numa_mem",
    "mempolicy": "numa_mempolicy",
    "page_size": "mem_page_size",
    "isolation": "cpu_isolation",
}


def placement_request(container: Mapping[str, Any], **changes: Any) -> PlacementRequest:
    """What ``container`` (an object or a row) asks of the allocator, with ``changes`` to cpu, memory or cpu_policy."""
    asked = container["placement"] or {}
    cpu = changes.get("cpu", container["cpu"])
    memory = changes.get("memory", container["memory"])
    if changes.get("cpu_policy", container["cpu_policy"]) != CPUPolicy.DEDICATED:
        return PlacementRequest(cpus=cpu, memory_mib=memory, cpu_policy=CPUPolicy.SHARED)
    shape = {name: asked[field] for name, field in ASKED_AS.items() if asked.get(field)}
    return PlacementRequest(cpus=int(cpu), memory_mib=memory, cpu_policy=CPUPolicy.DEDICATED, **shape)


def cpuset_record(plan: Plan, topology: HostTopology | None = None) -> dict[str, Any]:
    """What a container's row keeps of its plan: the plan itself and the two kernel lists it comes to.

    With the ``topology`` of its host also how isolated it is there (None for a shared container).
    """
    record = {**plan.to_dict(), "cpuset_cpus": str(plan.cpus), "cpuset_mems": str(plan.mems)}
    return record if topology is None else {**record, "cpuset_isolation": grade_of(topology, plan)}


def held_plan(container: Mapping[str, Any]) -> Plan | None:
    """The plan that ``container`` (an object or a row) holds now, as far as that can be read."""
    record = container["cpuset"]
    try:
        plan = Plan.from_dict(record) if record else None
    except (AttributeError, KeyError, TypeError, ValueError):  # written by hand: the agent of its host tells
        return None
    if plan is None or not plan.dedicated or plan.whole_cores:
        return plan
    # The record of an earlier release does not say it; what was asked does.
    asked = container.get("placement")
    policy = asked.get(ASKED_AS["thread_policy"]) if isinstance(asked, Mapping) else None
    return replace(plan, whole_cores=True) if policy in (ThreadPolicy.ISOLATE, ThreadPolicy.REQUIRE) else plan


def disk_promised(container: Mapping[str, Any]) -> int:
    """GiB of a host's disk that ``container`` (an object or a row) takes: its own and that of its local mounts."""
    return (container["disk"] or 0) + (container.get("volume_disk") or 0)


def keep_problem(keep: CpuSet, held: Plan | None, cpus: float | None) -> str | None:
    """Why ``keep`` cannot be the CPUs of a container that stay when it is resized, None when they can.

    ``held`` is what it holds now, ``cpus`` the dedicated CPUs it shall have, None for a shared container.
    """
    if not keep:
        return None
    if held is None or not held.dedicated or cpus is None:
        return "only a container that has dedicated CPUs, and shall have some, can keep any; leave it out"
    if not keep <= held.cpus:
        return f"CPUs {keep - held.cpus} are not among those it has, {held.cpus}"
    if len(keep) > cpus:
        return f"{len(keep)} CPUs cannot stay among {cpus:g}; name fewer, or ask for more cpu"
    return None


def shared_cpus_left(view: HostView, usage: Usage, ratio: Fraction | None) -> int:
    """Demand that the shared pools of all cells still take together, in millionths of a CPU.

    ``ratio`` is for another ``cpu_allocation_ratio`` than the host's.
    """
    return sum(usage.shared_room(view, cell, ratio) for cell in view.cells)


def shared_memory_left(view: HostView, usage: Usage, ratio: Fraction | None) -> int:
    """MiB of ordinary pages that may still be promised to shared containers, on all cells together.

    ``ratio`` is for another ``ram_allocation_ratio`` than the host's.
    """
    most, less = (ratio or view.ram_ratio).as_integer_ratio()
    left = (
        usage.free_memory(view, node, None, overcommit=False) + size * most // less - size
        for node, size in view.small_mib.items()
    )
    return sum(max(0, each) for each in left)


def memory_used(usage: Usage) -> dict[int, int]:
    """MiB of ordinary pages that are promised, by cell id."""
    used: dict[int, int] = {}
    for _, held in usage:
        for node, share in held.cells.items():
            used[node] = used.get(node, 0) + (0 if share.pages else share.memory_mib)
    return used
