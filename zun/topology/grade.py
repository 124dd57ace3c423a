# SPDX-License-Identifier: Apache-2.0
"""How isolated a container is, by what it holds."""

from __future__ import annotations

from dataclasses import replace

from zun.topology.cells import HostTopology
from zun.topology.cores import kept_with
from zun.topology.cpuset import CpuSet
from zun.topology.placement import Plan
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
    """``plan``, which is part of ``usage``, with what has come to the host since and its grade of isolation keeps.

    A CPU that came online is withheld like its neighbours, if nobody holds it and shared containers can do without
    it. The same plan when there is no such CPU.
    """
    if not plan.dedicated or plan.isolation in ("thread", "isolated"):
        return plan
    view, cells = view_of(usage.with_pool(topology)), dict(plan.cells)
    for node, share in plan.cells.items():
        if node not in view.index:
            continue
        cell = view.cells[view.index[node]]
        kept = kept_with(cell, share.cpus.mask, plan.isolation) or 0
        more = kept & ~(share.cpus.mask | share.withheld.mask)
        if more and not more & usage.held_mask and (more & cell.pool).bit_count() <= usage.budget(view, cell):
            cells[node] = replace(share, withheld=share.withheld | CpuSet.from_mask(more))
    return plan if cells == plan.cells else replace(plan, cells=cells)


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
