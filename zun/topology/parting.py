# SPDX-License-Identifier: Apache-2.0
"""Split one plan among the containers for which it was made: the members of a capsule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from zun.topology import amounts
from zun.topology.allocator import plan
from zun.topology.cpuset import NO_CPUS, CpuSet, union
from zun.topology.host_topology import HostTopology
from zun.topology.placement import CellShare, Plan
from zun.topology.refusal import Refusal
from zun.topology.request import PlacementRequest
from zun.topology.usage import Usage

_OTHERS = "others"


def parted(topology: HostTopology, whole: Plan, requests: Sequence[tuple[float, int]]) -> tuple[Plan, ...]:
    """Return the part of ``whole`` that each of ``requests`` (CPUs, MiB) gets; together they ask for at most ``whole``.

    Dedicated parts get CPUs of their own. ``plan`` places them, largest first, on a host where all else is taken.
    So a part stays on one cell and siblings stay together if the parts before leave room for that. The memory of a part
    is on its own cells, or on the nearest cells of ``whole`` if too little is left there. Shared parts run on all
    CPUs of ``whole``. No part has devices of its own. ``whole`` must not have huge pages. Raise ValueError if the parts
    ask for more than ``whole``.
    """
    if not whole.dedicated:
        return tuple(_share(whole, cpus, memory) for cpus, memory in requests)
    # The plan keeps its CPUs even if the operator's settings no longer allow them.
    topology = replace(topology, dedicated_set=whole.cpus, shared_set=None, reserved=NO_CPUS, isolated=NO_CPUS)
    usage = Usage().with_claim(_OTHERS, _all_but(topology, whole))
    parts: dict[int, Plan] = {}
    for position in sorted(range(len(requests)), key=lambda each: (-requests[each][0], -requests[each][1], each)):
        parts[position] = _part(topology, usage, whole, *requests[position])
        usage = usage.with_claim(str(position), parts[position])
    return tuple(parts[position] for position in range(len(requests)))


def beside(whole: Plan, parts: Sequence[Plan]) -> Plan:
    """Return what ``parts`` of ``whole`` leave of it. Shared parts leave the CPUs, on which all of them run."""
    if not whole.dedicated:
        return whole
    cells = {}
    for node, share in whole.cells.items():
        taken = [part.cells[node] for part in parts if node in part.cells]
        cells[node] = replace(
            share,
            cpus=share.cpus - union(each.cpus | each.withheld for each in taken),
            memory_mib=max(0, share.memory_mib - sum(each.memory_mib for each in taken)),
        )
    return replace(whole, cells=cells)


def resized_part(
    topology: HostTopology, whole: Plan, others: Sequence[Plan], old: Plan, cpus: float, memory: int
) -> Plan:
    """Return a part of ``whole`` with other amounts in the place of ``old``. ``others`` are the parts beside it.

    The part keeps its CPUs: fewer are some of them, more are these and some that ``others`` leave, on the cells of
    ``old`` if these have enough. A mixed part keeps all of its own CPUs, because its programs have been told. Parts
    that are mixed or in huge pages are alone in ``whole``. Raise ValueError if ``others`` leave too little.
    """
    if whole.uses_pool:
        return _share(whole, cpus - len(whole.dedicated_cpus), memory)
    if whole.pages:
        bare = {node: replace(each, memory_mib=0, pages={}) for node, each in whole.cells.items()}
        part = resized_part(topology, replace(whole, cells=bare), others, old, cpus, 0)
        return _only(_share(whole, cpus, memory), part.cpus)
    rest = beside(whole, others)
    more = int(cpus) - len(old.cpus)
    if more <= 0:
        return parted(topology, _only(rest, old.cpus), [(cpus, memory)])[0]
    free = rest.cpus - old.cpus
    near = free & union(topology.cell(node).cpus for node in old.cpu_cells)
    added = parted(topology, _only(rest, near if len(near) >= more else free), [(more, 0)])[0]
    return parted(topology, _only(rest, old.cpus | added.cpus), [(cpus, memory)])[0]


def _only(whole: Plan, cpus: CpuSet) -> Plan:
    """Return ``whole`` without its other CPUs."""
    return replace(whole, cells={node: replace(each, cpus=each.cpus & cpus) for node, each in whole.cells.items()})


def _part(topology: HostTopology, usage: Usage, whole: Plan, cpus: float, memory: int) -> Plan:
    # Parts need no isolation: the whole plan withholds the CPUs, and the parts trust each other.
    request = PlacementRequest(cpus=cpus, memory_mib=memory, numa_affinity="prefer")
    answer = plan(topology, usage, request)
    if isinstance(answer, Refusal):
        answer = plan(topology, usage, replace(request, numa_affinity="none", mempolicy="preferred"))
    if isinstance(answer, Refusal):
        wanted = f"{amounts.text(cpus)} CPUs and {memory} MiB"
        raise ValueError(f"{wanted} are not left of what was taken for all: {answer.message}")
    # A part that asks for no memory still uses some. Its own cells may have none of the memory of the whole.
    return replace(answer, generation=whole.generation, mems=answer.mems & whole.mems or whole.mems)


def _all_but(topology: HostTopology, whole: Plan) -> Plan:
    """Return a claim on everything on the host except ``whole``."""
    cells = {}
    for node, free in Usage().free(topology).items():
        own = whole.cells.get(node, CellShare())
        cells[node] = CellShare(
            cpus=topology.cell(node).cpus - own.cpus,
            memory_mib=free.memory_mib - own.memory_mib,
        )
    return Plan(cells)


def _share(whole: Plan, cpus: float, memory: int) -> Plan:
    """Return ``whole`` with its amounts reduced to ``cpus`` of the pool and ``memory``. CPUs of its own stay."""
    total, cells = sum(share.shared for share in whole.cells.values()) or 1.0, {}
    for node, share in whole.cells.items():
        mib = share.memory_mib * memory // (whole.memory_mib or 1)
        cells[node] = replace(
            share,
            shared=amounts.exact(share.shared * cpus / total),
            memory_mib=mib,
            pages={size: ceil(mib * 1024 / size) for size in share.pages},
        )
    return replace(whole, devices=(), cells=cells)
