# SPDX-License-Identifier: Apache-2.0
"""Moves within one host after which claims are nearer: on the cells that they asked for, instead of several far ones.

A container that prefers one cell, and found none with enough room, is on several cells. When others are gone, or can
move, it may be on one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from zun.topology.allocator import granted
from zun.topology.host_topology import HostTopology
from zun.topology.placement import Plan
from zun.topology.rearrange import STEPS, Fits, Move, Rearrangement, Stuck, rearrange
from zun.topology.request import PlacementRequest
from zun.topology.usage import Usage


def remoteness(topology: HostTopology, held: Plan) -> int:
    """Return the sum of the distances from each cell with CPUs of the claim to each other cell of it, 0 for one cell.

    Distances are in the kernel's unit: 20 is a usual remote cell.
    """
    cells = {cell.id: cell for cell in topology.cells}
    return sum(
        cells[a].distance(b) for a in held.cpu_cells for b in held.cells if a != b and a in cells and b in cells
    )


def nearer(
    topology: HostTopology, usage: Usage, movable: Mapping[str, PlacementRequest], *, steps: int = STEPS
) -> Rearrangement:
    """Return moves after which the claims of ``movable`` are less remote in all, none if no moves were found.

    The most remote container is the first one to be brought onto as few cells as it asked for: others move away if they
    must, as ``rearrange`` plans that, and then it moves itself. What makes the sum of all no smaller is left out. So
    each move is valid when it is made. ``proven`` says that no claim is remote any more. ``steps`` bounds the plans for
    each container.
    """
    moves: list[Move] = []

    def total(of: Usage) -> int:
        claims = map(of.claim, movable)
        return sum(remoteness(topology, held) for held in claims if held is not None)

    def remote(owner: str) -> int:
        held = usage.claim(owner)
        return 0 if held is None else remoteness(topology, held)

    for owner in sorted(movable, key=lambda each: (-remote(each), each)):
        if not remote(owner):
            continue
        found = _brought_near(topology, usage, movable, owner, steps)
        if found is not None and total(found.usage) < total(usage):
            moves += found.moves
            usage = found.usage
    return Rearrangement(tuple(moves), usage, proven=total(usage) == 0)


def _brought_near(
    topology: HostTopology, usage: Usage, movable: Mapping[str, PlacementRequest], owner: str, steps: int
) -> Rearrangement | None:
    """Return moves of others, and then of ``owner``, after which it is on as few cells as it asked for."""
    request, held = replace(movable[owner], numa_affinity="require"), usage.claim(owner)
    assert held is not None  # it is remote
    others = {each: wanted for each, wanted in movable.items() if each != owner}
    room = rearrange(topology, usage, others, Fits(request), steps=steps)
    new = None if isinstance(room, Stuck) else granted(topology, room.usage, request)
    if isinstance(room, Stuck) or new is None or room.usage.fits(topology, new) is not None:
        return None
    after = room.usage.without(owner).with_claim(owner, new)
    return Rearrangement((*room.moves, Move(owner, held, new)), after, room.proven)
