# SPDX-License-Identifier: Apache-2.0
"""Make a ``Plan`` from the chosen cells: exact CPUs, and the memory that each node gives."""

from __future__ import annotations

from zun.topology.cpuset import NO_CPUS, CpuSet
from zun.topology.placement import CellShare, Plan
from zun.topology.request import MICRO
from zun.topology.search.question import Question, Taken, in_mib
from zun.topology.view import CellView, HostView

Memory = dict[int, tuple[int, int]]
"""Memory by node id: units (huge pages, or MiB) and MiB. Example: {0: (2, 4)} is two pages of 2 MiB on node 0."""


def book(question: Question, taken: list[Taken], drawn: Memory) -> Plan:
    """Return the plan for the chosen cells ``taken`` and the memory ``drawn``."""
    given = {entry.cell.id: entry for entry in taken}
    page_kib = question.page_kib
    cells = {}
    for node in drawn if drawn.keys() == given.keys() else given.keys() | drawn.keys():
        units, mib = drawn.get(node, (0, 0))
        pages = {page_kib: units} if units and page_kib is not None else {}
        entry = given.get(node)
        if entry is None:
            cells[node] = CellShare(NO_CPUS, mib, NO_CPUS, pages)
            continue
        _, cpus, withheld, amount = entry.offer
        cells[node] = CellShare(
            CpuSet.from_mask(cpus),
            mib,
            CpuSet.from_mask(withheld) if withheld else NO_CPUS,
            pages,
            (question.demand if question.dedicated else amount) / MICRO,
            CpuSet.from_mask(entry.cell.dedicated & question.held),
            CpuSet.from_mask(entry.cell.pool & ~(question.held | cpus | withheld)) if question.demand else NO_CPUS,
        )
    request = question.request
    mems = _mems(question.view, cells)
    if question.devices is None:
        return Plan(
            cells, request.cpu_policy, None, mems, request.isolation, request.whole_cores, cache=question.cache
        )
    # Cells that give memory only have no CPUs.
    devices = question.devices.given(sum([1 << entry.cell.index for entry in taken if entry.offer.cpus]))
    return Plan(
        cells, request.cpu_policy, None, mems, request.isolation, request.whole_cores, devices, question.cache
    )


def _mems(view: HostView, cells: dict[int, CellShare]) -> CpuSet:
    """Return the nodes on which memory is booked. If none is, return the cells of the plan that have memory."""
    mask = 0
    for node, share in cells.items():
        if share.memory_mib:
            mask |= 1 << node
    return CpuSet.from_mask(mask) if mask else CpuSet(node for node in cells if node in view.with_memory)


def draw(question: Question, taken: list[Taken]) -> Memory:
    """Return the memory for parts that have a cell of their own each."""
    for cell, _, need, _ in taken:
        if need > question.room(cell.id):
            return _draw_widely(question, taken)
    return {cell.id: (need, mib) for cell, _, need, mib in taken}


def _draw_widely(question: Question, taken: list[Taken]) -> Memory:
    """Return memory for parts of which some need more than their cell has."""
    drawn = question.poured([(entry.cell, entry.need) for entry in taken])
    assert drawn is not None, "the search has looked"
    total: Memory = {}
    for entry, shares in zip(taken, drawn, strict=True):
        for node, more in zip(shares, in_mib(entry.mib, question.page_kib, list(shares.values())), strict=True):
            units, sofar = total.get(node, (0, 0))
            total[node] = (units + shares[node], sofar + more)
    return total


def draw_together(question: Question, taken: list[Taken]) -> Memory:
    """Return memory for a request that all chosen cells serve together.

    Each cell gives memory in proportion to its CPUs. What is missing comes from the nodes nearest to the CPUs.
    """
    request = question.request
    need, cells = question.need(request.memory_mib), [entry.cell for entry in taken]
    weights = [entry.offer.cpus.bit_count() for entry in taken]
    shares, seen, given, whole = {}, 0, 0, sum(weights)
    for cell, weight in zip(cells, weights, strict=True):
        seen += weight
        share = (need * seen // whole if whole else 0) - given
        given += share
        shares[cell.id] = min(share, question.room(cell.id))
    missing = need - sum(shares.values())
    for node in _nearest(question, cells, weights) if missing else ():
        had = shares.get(node, 0)
        if units := min(missing, question.room(node) - had):
            shares[node] = had + units
            missing -= units
    mibs = in_mib(request.memory_mib, question.page_kib, [*shares.values()])
    return {node: (units, mib) for (node, units), mib in zip(shares.items(), mibs, strict=True)}


def _nearest(question: Question, cells: list[CellView], weights: list[int]) -> list[int]:
    """Return node ids in the order in which memory is taken: the chosen cells, nearest to the CPUs first, then others.

    ``weights`` are the CPUs on each cell.
    """

    def away(cell: CellView) -> tuple[int, int]:
        return sum([weight * other.apart[cell.id] for other, weight in zip(cells, weights, strict=True)]), cell.id

    return [*[cell.id for cell in sorted(cells, key=away)], *[node for _, node in question.beyond(cells)]]
