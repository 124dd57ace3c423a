# SPDX-License-Identifier: Apache-2.0
"""How isolated a container is, by what it holds."""

from __future__ import annotations

from dataclasses import replace

from zun.topology.cells import HostTopology
from zun.topology.cores import kept_with
from zun.topology.cpuset import CpuSet
from zun.topology.placement import Plan
from zun.topology.threads import lowest
from zun.topology.usage import Usage
from zun.topology.view import view_of


def grade_of(topology: HostTopology, plan: Plan) -> str | None:
    """The strongest grade that holds as long as ``plan`` is held, whoever comes later; None for a shared one.

    It may be more than was asked: eight CPUs can be a whole L3 by chance. It is less than what was asked only when the
    host has changed since, for instance when a sibling that was offline is online. ``isolated`` where every CPU
    is isolated by the kernel.
    """
    if not plan.dedicated:
        return None
    if plan.cpus and plan.cpus <= topology.isolated:
        return "isolated"
    return next((grade for grade in ("node", "l3", "core") if _keeps(topology, plan, grade)), "thread")


def kept_up(topology: HostTopology, usage: Usage, plan: Plan) -> Plan:
    """``plan``, which is part of ``usage``, with what has come to the host since and belongs to its cores or its grade.

    A CPU that came online is withheld like its neighbours, if nobody holds it and shared containers can do without
    it. The same plan when there is no such CPU.

    What the grade keeps is withheld all together or not at all: less of an L3 or a cell would take from others and
    promise nothing. Of its cores whatever can be had is, as the rest may be some day. Siblings are withheld where
    ``plan`` would give them: those that are for dedicated use, on CPUs that the kernel isolates for ``isolated`` alone.
    """
    if not plan.dedicated or plan.keeps in ("thread", "isolated"):
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
    """Whether every core that ``plan`` has a CPU of is all its own, and nobody beyond our limits is on it."""
    own = plan.cpus | plan.withheld
    cores = [core for cell in topology.cells for core in cell.siblings if core & plan.cpus]
    return not any(core - own or core & topology.exposed for core in cores)


def _keeps(topology: HostTopology, plan: Plan, grade: str) -> bool:
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
