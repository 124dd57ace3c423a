# SPDX-License-Identifier: Apache-2.0
"""The free capacity of a host by cells, in amounts: how many CPUs and how much memory, but not which."""

from __future__ import annotations

from typing import NamedTuple

from zun.topology.cells import HostTopology
from zun.topology.usage import Usage
from zun.topology.view import view_of


class Hole(NamedTuple):
    """The free CPUs and MiB of one cell, or an amount that is taken from them."""

    cpus: int
    memory_mib: int

    def fits(self, other: Hole) -> bool:
        """Return whether ``other`` has at least as many CPUs and as much memory."""
        return self.cpus <= other.cpus and self.memory_mib <= other.memory_mib


def holes(topology: HostTopology, usage: Usage) -> tuple[Hole, ...]:
    """Return the CPUs and MiB that a dedicated container can get on each cell with CPUs, in order of their ids.

    Amounts are never negative. Memory includes the memory-only nodes that are attached to the cell.
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
