# SPDX-License-Identifier: Apache-2.0
"""The free capacity of a host by cells, in amounts: how many CPUs and how much memory, but not which."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from zun.topology.host_topology import HostTopology, view_of
from zun.topology.usage import Usage


class Hole(NamedTuple):
    """The free CPUs and MiB of one cell, or an amount that is taken from them."""

    cpus: int
    memory_mib: int

    def fits(self, other: Hole) -> bool:
        """Return whether ``other`` has at least as many CPUs and as much memory."""
        return self.cpus <= other.cpus and self.memory_mib <= other.memory_mib


def holes(topology: HostTopology, usage: Usage) -> tuple[Hole, ...]:
    """Return the CPUs and MiB that a dedicated container can get on each cell with CPUs, in order of their ids.

    Amounts are never negative. Memory is that of all nodes for the cell (``CellView.nodes``), so a node that lends to
    several cells counts for each of them.
    """
    view = view_of(topology)
    held = usage.held_mask
    found = []
    for cell in view.cells:
        free = cell.dedicated & ~held
        pooled = (free & cell.pool).bit_count()
        cpus = free.bit_count() - pooled + min(pooled, usage.budget(view, cell))
        room = sum(max(0, usage.free_memory(view, node, None, overcommit=False)) for node in cell.nodes)
        found.append(Hole(cpus, room))
    return tuple(found)


def stranded(topology: HostTopology, usage: Usage) -> dict[int, tuple[float, float]]:
    """Return by cell id the free CPUs and MiB that dedicated containers cannot use because they do not fit together.

    Each dedicated container of the host stands for the ones to come. Free capacity of a cell is stranded for a
    container whose part of one cell does not fit there, and the result is the mean over the containers. Example: 8 CPUs
    are free on a cell, and one container in four has 16 CPUs: 2 CPUs are stranded. On a host without dedicated
    containers, capacity is stranded if not even 1 CPU with 1 MiB fits. Cells without dedicated CPUs are left out.

    Amounts alone count, as in ``holes``, and huge pages count as no memory.
    """
    parts = Counter(
        Hole(len(share.cpus), 0 if share.pages else share.memory_mib)
        for _, plan in usage
        if plan.dedicated
        for share in plan.cells.values()
        if share.cpus
    ) or Counter([Hole(1, 1)])
    found = {}
    for cell, free in zip(view_of(topology).cells, holes(topology, usage), strict=True):
        if cell.dedicated:
            useless = sum(count for part, count in parts.items() if not part.fits(free)) / parts.total()
            found[cell.id] = (free.cpus * useless, free.memory_mib * useless)
    return found
