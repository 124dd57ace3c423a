# SPDX-License-Identifier: Apache-2.0
"""``plan``: the one place that decides about CPUs and memory nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from zun.topology.cells import HostTopology
from zun.topology.cost import DISTANCE, mirrored
from zun.topology.cover import fewest_cells
from zun.topology.cpuset import NO_CPUS, CpuSet
from zun.topology.explain import explain
from zun.topology.matching import cheapest_matching
from zun.topology.nearest import changes, nearest
from zun.topology.placement import CellShare, Plan
from zun.topology.question import Offer, Question, Taken, in_mib
from zun.topology.refusal import Refusal
from zun.topology.request import MICRO, PlacementRequest
from zun.topology.sets import Chosen, SetSearch, Supply, alike, among
from zun.topology.usage import Usage
from zun.topology.view import CellView, HostView, id_bits, view_of


def plan(topology: HostTopology, usage: Usage, request: PlacementRequest) -> Plan | Refusal:
    """The best place for ``request`` on this host, or why there is none.

    Exact and deterministic: a refusal means that no choice of CPUs and cells would do, and equal
    arguments get equal answers.
    """
    view = view_of(topology)
    questions = [Question(view, usage, request, size) for size in page_sizes(topology, request)]
    found = _in_its_shape(questions) or _in_few_cells(questions)
    if found is not None:
        return found
    refusal = explain(topology, usage, request, questions)
    near = (topology, usage, request, plan, questions)
    return replace(refusal, _find=partial(nearest, *near), _list=partial(changes, *near))


def page_sizes(topology: HostTopology, request: PlacementRequest) -> list[int | None]:
    """Page sizes to try, best first: KiB of huge pages, None for ordinary pages. Empty: the host has none such."""
    wanted = request.page_size
    if wanted is None or wanted == "small":
        return [None]
    huge = sorted({size for cell in topology.cells for size, count in cell.pages.items() if count}, reverse=True)
    if wanted == "large":
        return [*huge]
    if wanted == "any":
        return [*huge, None]
    if wanted == topology.page_kib:
        return [None]
    return [size for size in huge if size == wanted]


# The shape that is asked for


def _in_its_shape(questions: list[Question]) -> Plan | None:
    """The request on exactly the cells it asks for, in the first page size that serves."""
    for question in questions:
        request = question.request
        if request.numa_affinity == "none":
            return None
        taken = _one_cell(question) if request.numa_nodes == 1 else _several_cells(question)
        if taken is not None:
            return _plan(question, taken)
    return None


def _one_cell(question: Question) -> list[Taken] | None:
    ((cpus, mib),) = question.request.parts
    need = question.need(mib)
    if not question.strict and need > question.anywhere:
        return None
    best, best_cell = None, None
    for cell in question.view.cells:
        offer = question.offer(cell, cpus, need)
        if offer is not None and (best is None or offer[0] < best[0]):
            best, best_cell = offer, cell
    if best is None or best_cell is None:
        return None
    return [Taken(best_cell, best, need, mib)]


def _several_cells(question: Question) -> list[Taken] | None:
    """Every part of the request on a cell of its own: nearest cells, then the best fit on them."""
    cells = question.view.cells
    if question.request.numa_nodes > len(cells):
        return None
    parts = sorted(((cpus, question.need(mib), mib) for cpus, mib in question.request.parts), reverse=True)
    if not question.strict and sum(part[1] for part in parts) > question.anywhere:
        return None
    offers = {part: [question.offer(cell, part[0], part[1]) for cell in cells] for part in set(parts)}
    useful = [c for c in range(len(cells)) if any(row[c] is not None for row in offers.values())]
    if len(useful) < len(parts):
        return None
    rows = [[offers[part][c] for c in useful] for part in parts]
    search = _same_parts if len(offers) == 1 else _other_parts
    matched = search(question.view, rows, [cells[c] for c in useful])
    if matched is None:
        return None
    taken = []
    for part, row, position in zip(parts, rows, matched, strict=True):
        offer = row[position]
        assert offer is not None
        taken.append(Taken(cells[useful[position]], offer, part[1], part[2]))
    return taken


Rows = list[list[Offer | None]]
"""Offers by part and by position of the cell among the useful ones."""


def _same_parts(view: HostView, rows: Rows, cells: list[CellView]) -> Sequence[int] | None:
    """Equal parts, so any order of the chosen cells is the same answer: positions of the cells, by part."""
    offers = [offer for offer in rows[0] if offer is not None]
    keys = [_key(view, cell, offer) for cell, offer in zip(cells, offers, strict=True)]

    def leaf(chosen: Chosen, limit: int | None) -> int:
        return sum(keys[c] for c in chosen)

    return _set_search(view, cells, len(rows), keys, 0, leaf, (), [offer.cost for offer in offers]).run()


def _other_parts(view: HostView, rows: Rows, cells: list[CellView]) -> Sequence[int] | None:
    """Unequal parts: sets of cells are searched, and in each the cheapest matching is computed."""
    keys = [
        [None if offer is None else _key(view, cell, offer) for cell, offer in zip(cells, row, strict=True)]
        for row in rows
    ]
    overall = cheapest_matching(keys)
    if overall is None or len(rows) == len(cells):
        return overall and overall[1]
    matchings = {}

    def leaf(chosen: Chosen, limit: int | None) -> int | None:
        matching = cheapest_matching([[row[c] for c in chosen] for row in keys])
        if matching is None:
            return None
        matchings[chosen] = [chosen[column] for column in matching[1]]
        return matching[0]

    able = [tuple(int(key is not None) for key in row) for row in keys]
    supplies = [Supply(cells_able, able.count(cells_able)) for cells_able in set(able)]
    profiles = [tuple(None if offer is None else offer.cost for offer in column) for column in zip(*rows, strict=True)]
    search = _set_search(view, cells, len(rows), [0] * len(cells), overall[0], leaf, supplies, profiles)
    search.leaf_steps = len(rows) ** 2 // 8
    search.try_first(tuple(sorted(overall[1])))
    chosen = search.run()
    return None if chosen is None else matchings[chosen]


def _set_search(
    view: HostView,
    cells: list[CellView],
    count: int,
    unary: Sequence[int],
    base: int,
    leaf: Callable[[Chosen, int | None], int | None],
    supplies: Sequence[Supply],
    profiles: Sequence[object],
) -> SetSearch:
    return SetSearch(
        count=count,
        distances=[[view.distances[a.index][b.index] for b in cells] for a in cells],
        weight=DISTANCE << sum(id_bits(view)),
        unary=unary,
        base=base,
        leaf=leaf,
        supplies=supplies,
        alike=alike(profiles, [among(view.peers[cell.index], cells) for cell in cells]),
    )


def _key(view: HostView, cell: CellView, offer: Offer) -> int:
    """Cost, then low cell ids, then low CPU ids, as one number that can be added up over cells."""
    cell_bits, cpu_bits = id_bits(view)
    low_cell = 1 << (cell_bits - 1 - cell.index)
    return (((offer.cost << cell_bits) - low_cell) << cpu_bits) - mirrored(offer.cpus, cpu_bits)


# Any cells


def _in_few_cells(questions: list[Question]) -> Plan | None:
    """The request over as few and as close cells as possible, whatever its shape."""
    best, fewest = None, None
    for question in questions:
        if question.request.numa_affinity == "require":
            return None
        taken = fewest_cells(question)
        if taken is not None and (fewest is None or len(taken) < fewest):
            best, fewest = _plan(question, taken), len(taken)
    return best


# The answer


def _plan(question: Question, taken: list[Taken]) -> Plan:
    """The answer as exact CPUs and amounts of memory by cell."""
    drawn = _draw(question, taken)
    given = {entry.cell.id: entry for entry in taken}
    page_kib = question.page_kib
    cells = {}
    for node in given.keys() | drawn.keys():
        units, mib = drawn.get(node, (0, 0))
        pages = {page_kib: units} if page_kib is not None and units else {}
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
            0.0 if question.dedicated else amount / MICRO,
            CpuSet.from_mask(entry.cell.dedicated & question.held),
        )
    return Plan(cells, question.request.cpu_policy, None, _mems(question.view, cells))


def _mems(view: HostView, cells: dict[int, CellShare]) -> CpuSet:
    """Nodes the memory is booked on; for a request without memory, cells of the plan that have any."""
    mask = 0
    for node, share in cells.items():
        if share.memory_mib:
            mask |= 1 << node
    return CpuSet.from_mask(mask) if mask else CpuSet(node for node in cells if node in view.with_memory)


def _draw(question: Question, taken: list[Taken]) -> dict[int, tuple[int, int]]:
    """Memory as (units, MiB) by node."""
    for cell, _, need, _ in taken:
        if need > question.room(cell.id):
            return _draw_widely(question, taken)
    return {cell.id: (need, mib) for cell, _, need, mib in taken}


def _draw_widely(question: Question, taken: list[Taken]) -> dict[int, tuple[int, int]]:
    """Each cell's own memory first, then that of attached nodes, then (``preferred``) of the nearest others."""
    drawn: dict[int, dict[int, int]] = {entry.cell.id: {} for entry in taken}
    left = {node: question.room(node) for node in question.view.small_mib}
    for nodes_of in (_own_node, _attached_nodes, _other_nodes):
        for cell, _, need, _ in taken:
            missing = need - sum(drawn[cell.id].values())
            for node in nodes_of(cell) if missing else ():
                units = min(missing, left[node])
                if units:
                    drawn[cell.id][node] = drawn[cell.id].get(node, 0) + units
                    left[node] -= units
                    missing -= units
    total: dict[int, tuple[int, int]] = {}
    for cell, _, _, mib in taken:
        shares = drawn[cell.id]
        for node, more in zip(shares, in_mib(mib, question.page_kib, list(shares.values())), strict=True):
            units, sofar = total.get(node, (0, 0))
            total[node] = (units + shares[node], sofar + more)
    return total


def _own_node(cell: CellView) -> tuple[int, ...]:
    return cell.nodes[:1]


def _attached_nodes(cell: CellView) -> tuple[int, ...]:
    return cell.nodes[1:]


def _other_nodes(cell: CellView) -> tuple[int, ...]:
    return cell.spill
