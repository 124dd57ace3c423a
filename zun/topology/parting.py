# SPDX-License-Identifier: Apache-2.0
"""Several containers on what was taken for all of them by one plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zun.topology.allocator import plan
from zun.topology.cells import HostTopology
from zun.topology.cpuset import NO_CPUS
from zun.topology.placement import CellShare, Plan
from zun.topology.refusal import Refusal
from zun.topology.request import PlacementRequest
from zun.topology.usage import Usage

_OTHERS = "others"


def parted(topology: HostTopology, whole: Plan, requests: Sequence[tuple[float, int]]) -> tuple[Plan, ...]:
    """The part of ``whole`` that each of ``requests`` gets, which are CPUs and MiB, and together at most ``whole``.

    Dedicated parts have CPUs of their own. They are placed by ``plan`` itself, on a host where everything else is
    taken, the largest first: a part keeps to one cell, and siblings stay together, wherever the others leave it that.
    Its memory is on its own cells, or, where the others left too little there, on the nearest of ``whole``.
    Shared parts all run where ``whole`` does. ``whole`` has no huge pages.
    """
    if not whole.dedicated:
        return tuple(_share(whole, cpus, memory) for cpus, memory in requests)
    # What it holds is its own, also where the operator would not give it any more by now.
    topology = replace(topology, dedicated_set=whole.cpus, shared_set=None, reserved=NO_CPUS, isolated=NO_CPUS)
    usage = Usage().with_claim(_OTHERS, _all_but(topology, whole))
    parts: dict[int, Plan] = {}
    for position in sorted(range(len(requests)), key=lambda each: (-requests[each][0], -requests[each][1], each)):
        parts[position] = _part(topology, usage, whole, *requests[position])
        usage = usage.with_claim(str(position), parts[position])
    return tuple(parts[position] for position in range(len(requests)))


def _part(topology: HostTopology, usage: Usage, whole: Plan, cpus: float, memory: int) -> Plan:
    # No isolation: what a grade withholds belongs to the whole, and within it there are no strangers.
    request = PlacementRequest(cpus=cpus, memory_mib=memory, numa_affinity="prefer")
    answer = plan(topology, usage, request)
    if isinstance(answer, Refusal):
        answer = plan(topology, usage, replace(request, numa_affinity="none", mempolicy="preferred"))
    if isinstance(answer, Refusal):
        raise ValueError(f"{cpus:g} CPUs and {memory} MiB are not left of what was taken for all: {answer.message}")
    # What asks for no memory still has some, and on its own cells there may be none of what was taken.
    return replace(answer, generation=whole.generation, mems=answer.mems & whole.mems or whole.mems)


def _all_but(topology: HostTopology, whole: Plan) -> Plan:
    """A claim on everything that is not of ``whole``."""
    cells = {}
    for node, free in Usage().free(topology).items():
        own = whole.cells.get(node, CellShare())
        cells[node] = CellShare(
            cpus=topology.cell(node).cpus - own.cpus,
            memory_mib=free.memory_mib - own.memory_mib,
        )
    return Plan(cells)


def _share(whole: Plan, cpus: float, memory: int) -> Plan:
    """As ``whole``, with the part of its amounts that is this container's."""
    total = sum(share.shared for share in whole.cells.values()) or 1.0
    return replace(
        whole,
        cells={
            node: replace(
                share,
                shared=round(share.shared * cpus / total, 6),
                memory_mib=share.memory_mib * memory // (whole.memory_mib or 1),
            )
            for node, share in whole.cells.items()
        },
    )
