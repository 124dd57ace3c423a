# SPDX-License-Identifier: Apache-2.0
"""Converts containers of the API and their rows to values of ``zun.topology``, and plans to rows."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from zun.topology import CPUPolicy, CpuSet, HostTopology, PlacementRequest, Plan, Usage, amounts, grade_of
from zun.topology.device_request import DeviceRequest, DeviceSame
from zun.topology.ranges import MALFORMED
from zun.topology.request import MemberSame, ThreadPolicy
from zun.topology.view import HostView

CPU_RATIO_KEY = "cpu_allocation_ratio"
RAM_RATIO_KEY = "ram_allocation_ratio"
PERMIT_KEY = "permit"
"""The member of a claim's limits that brings the scheduler's permit (``zun.db.permits``) to the host."""
ATTEMPT_KEY = "attempt"
"""The member that brings the permit to refuse the claim."""
EXACT_KEY = "exact"
"""The member that says that the host carries out the plan as it is or refuses, and makes no other plan."""

MEMBERS = "members"
"""The member of a capsule's ``placement`` that has what is planned for its containers, if they differ: records with
``cpu``, ``memory``, ``cpu_policy`` and ``placement`` like a row, and beside these ``CONTAINERS``, ``INITS`` and
``VOLUMES``."""
TITLE = "title"
"""The names of the containers of a record of ``MEMBERS``, for error messages."""
CONTAINERS = "containers"
"""The positions of the containers that run on what a record of ``MEMBERS`` asks for, without init containers."""
INITS = "init_containers"
"""True in the record on whose place the init containers run."""
VOLUMES = "volumes"
"""The numbers of the volumes in memory that a record of ``MEMBERS`` claims beside the memory of its containers."""
MEMBER_SAME = "same"
"""The member of a capsule's ``placement`` that says what its containers have in common."""

#: Field of PlacementRequest -> field of the API.
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
    "dedicated_cpus": "dedicated_cpus",
    "cache_ways": "cache_ways",
    "cache_mib": "cache_mib",
    "memory_bandwidth": "memory_bandwidth",
}


def placement_request(container: Mapping[str, Any], **changes: Any) -> PlacementRequest:
    """Return the request of ``container`` (an object or a row), with ``changes`` to cpu, memory or cpu_policy."""
    asked = container["placement"] or {}
    if asked.get(MEMBERS):
        members = [replace(placement_request(each), title=each.get(TITLE, "")) for each in asked[MEMBERS]]
        return PlacementRequest.of_members(members, asked.get(MEMBER_SAME) or MemberSame.NONE)
    cpu = changes.get("cpu", container["cpu"])
    memory = changes.get("memory", container["memory"])
    devices = requested_devices(container)
    shape: dict[str, Any] = {"device_same": asked.get("device_same") or DeviceSame.NONE} if devices else {}
    policy = changes.get("cpu_policy", container["cpu_policy"])
    if policy not in (CPUPolicy.DEDICATED, CPUPolicy.MIXED):
        return PlacementRequest(cpus=cpu, memory_mib=memory, cpu_policy=CPUPolicy.SHARED, devices=devices, **shape)
    shape |= {name: asked[field] for name, field in ASKED_AS.items() if asked.get(field)}
    cpus = cpu if policy == CPUPolicy.MIXED else int(cpu)
    return PlacementRequest(cpus=cpus, memory_mib=memory, cpu_policy=policy, devices=devices, **shape)


def requested_devices(container: Mapping[str, Any]) -> tuple[DeviceRequest, ...]:
    """Return the devices that ``container`` (an object or a row) asks for."""
    records = (container["placement"] or {}).get("devices") or ()
    return tuple(DeviceRequest.from_dict(record) for record in records)


def cpuset_record(plan: Plan, topology: HostTopology | None = None) -> dict[str, Any]:
    """Return the column ``cpuset`` of a container's row: the plan with its CPUs and memory nodes as kernel lists.

    For a mixed container ``cpuset_dedicated`` has its own CPUs. With the ``topology`` of its host, the record has the
    isolation grade of the plan there as well (None for a shared container).
    """
    record = {**plan.to_dict(), "cpuset_cpus": str(plan.cpus), "cpuset_mems": str(plan.mems)}
    if plan.dedicated and plan.uses_pool:
        record["cpuset_dedicated"] = str(plan.dedicated_cpus)
    return record if topology is None else {**record, "cpuset_isolation": grade_of(topology, plan)}


def held_plan(container: Mapping[str, Any]) -> Plan | None:
    """Return the plan that ``container`` (an object or a row) holds, or None if it holds none or is unreadable."""
    record = container["cpuset"]
    try:
        plan = Plan.from_dict(record) if record else None
    except MALFORMED:  # written by hand: the agent of its host tells
        return None
    if plan is None or not plan.dedicated or plan.whole_cores:
        return plan
    # The record of an earlier release has no whole_cores; the requested thread policy tells it.
    asked = container.get("placement")
    policy = asked.get(ASKED_AS["thread_policy"]) if isinstance(asked, Mapping) else None
    return replace(plan, whole_cores=True) if policy in (ThreadPolicy.ISOLATE, ThreadPolicy.REQUIRE) else plan


def disk_promised(container: Mapping[str, Any]) -> int:
    """Return the GiB of disk that ``container`` (an object or a row) takes, including its local mounts."""
    return (container["disk"] or 0) + (container.get("volume_disk") or 0)


def keep_problem(keep: CpuSet, held: Plan | None, cpus: float | None) -> str | None:
    """Return why a resized container cannot keep the CPUs ``keep``, or None if it can.

    ``held`` is its present plan; ``cpus`` is its new number of dedicated CPUs, None for a shared container.
    """
    if not keep:
        return None
    if held is None or not held.dedicated or cpus is None:
        return "only a container that has dedicated CPUs, and shall have some, can keep any; leave it out"
    if not keep <= held.dedicated_cpus:
        return f"CPUs {keep - held.dedicated_cpus} are not among those it has, {held.dedicated_cpus}"
    if len(keep) > cpus:
        return f"{len(keep)} CPUs cannot stay among {amounts.text(cpus)}; name fewer, or ask for more cpu"
    return None


def mixed_problem(old: str | None, new: str | None) -> str | None:
    """Return why a container of the CPU policy ``old`` cannot get the policy ``new``, or None if it can.

    The environment of a process never changes, so a mixed container keeps its own CPUs for good.
    """
    if old == new or CPUPolicy.MIXED not in (old, new):
        return None
    return f"a container cannot change from {old} to {new}; delete it and create it anew with this policy"


def shared_cpus_left(view: HostView, usage: Usage, ratio: Fraction) -> int:
    """Return the demand that the shared pools of all cells can still take, in millionths of a CPU.

    ``ratio`` is the number of CPUs that may be promised for each CPU of a pool.
    """
    return sum(usage.shared_room(view, cell, ratio) for cell in view.cells)


def shared_memory_left(view: HostView, usage: Usage, ratio: Fraction) -> int:
    """Return the MiB of ordinary pages that all cells can still give to shared containers.

    ``ratio`` is the number of MiB that may be promised for each MiB of a cell.
    """
    most, less = ratio.as_integer_ratio()
    left = (
        usage.free_memory(view, node, None, overcommit=False) + size * most // less - size
        for node, size in view.small_mib.items()
    )
    return sum(max(0, each) for each in left)


def memory_used(usage: Usage) -> dict[int, int]:
    """Return the promised MiB of ordinary pages by cell id."""
    used: dict[int, int] = {}
    for _, held in usage:
        for part in held.each:
            for node, share in part.cells.items():
                used[node] = used.get(node, 0) + (0 if share.pages else share.memory_mib)
    return used
