# SPDX-License-Identifier: Apache-2.0
"""The isolation grade that a container really has, told from the CPUs that it holds."""

from __future__ import annotations

from dataclasses import replace

from zun.topology.cpuset import CpuSet
from zun.topology.host_topology import HostTopology, view_of
from zun.topology.isolation import kept_with
from zun.topology.masks import lowest
from zun.topology.placement import Plan
from zun.topology.usage import Usage


def grade_of(topology: HostTopology, plan: Plan) -> str | None:
    """Return the strongest grade that ``plan`` keeps whoever comes later, or None for a shared container.

    The grade may be more than the request asked for: eight CPUs can be a whole L3 by chance. It is less only if the
    host has changed since, for example if a sibling came online. The grade is ``isolated`` if the kernel isolates every
    CPU of the plan.
    """
    if not plan.dedicated:
        return None
    if plan.dedicated_cpus and plan.dedicated_cpus <= topology.isolated:
        return "isolated"
    return next((grade for grade in ("node", "l3", "core") if _keeps(topology, plan, grade)), "thread")


def kept_up(topology: HostTopology, usage: Usage, plan: Plan) -> Plan:
    """Return ``plan`` with the CPUs that came online since and belong to its cores or its isolation grade.

    ``plan`` is part of ``usage``. A new CPU is withheld if nobody holds it and the shared containers can do without it.
    If there is no such CPU, the same plan is returned.

    The CPUs of an L3 cache or a cell are withheld all together or not at all, because a part would take CPUs from
    others and guarantee nothing. Siblings on the plan's own cores are withheld one by one, as far as they are free now
    and for dedicated use (for the grade ``isolated``: isolated by the kernel).
    """
    for number, part in enumerate(plan.parts):
        kept = kept_up(topology, usage, part)
        if kept is not part:  # the next call looks at the other parts, beside what this one holds now
            return replace(
                plan.joined([*plan.parts[:number], kept, *plan.parts[number + 1 :]]), generation=plan.generation
            )
    if plan.parts or not plan.dedicated or plan.keeps in ("thread", "isolated"):
        return plan
    view, cells = view_of(usage.with_pool(topology), plan.isolation), dict(plan.cells)
    for node, share in plan.cells.items():
        if node not in view.index:
            continue
        cell = view.cells[view.index[node]]
        budget, own = usage.budget(view, cell), share.cpus.mask | share.withheld.mask
        more = (kept_with(cell, share.cpus.mask, plan.keeps) or 0) & ~own
        if not more or more & usage.held_mask or (more & cell.pool).bit_count() > budget:
            more = sum(core for core in cell.cores if core & share.cpus.mask) & cell.dedicated & ~own & ~usage.held_mask
            more = more & ~cell.pool | lowest(more & cell.pool, budget)
        if more:
            cells[node] = replace(share, withheld=share.withheld | CpuSet.from_mask(more))
    return plan if cells == plan.cells else replace(plan, cells=cells)


def has_whole_cores(topology: HostTopology, plan: Plan) -> bool:
    """Return whether ``plan`` holds every core that it has a CPU of completely.

    A core with threads in another cell, or outside the limits of this process, never counts as held completely.
    """
    cpus = plan.dedicated_cpus
    own = cpus | plan.withheld
    cores = [core for cell in topology.cells for core in cell.siblings if core & cpus]
    return not any(core - own or core & topology.exposed for core in cores)


def _keeps(topology: HostTopology, plan: Plan, grade: str) -> bool:
    """Return whether ``plan`` holds all CPUs that ``grade`` asks for."""
    view = view_of(topology)
    for node, share in plan.cells.items():
        if not share.cpus:
            continue
        if node not in view.index:
            return False
        kept = kept_with(view.cells[view.index[node]], share.cpus.mask, grade)
        if kept is None or kept & ~(share.cpus.mask | share.withheld.mask):
            return False
    return True
