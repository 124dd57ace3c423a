# SPDX-License-Identifier: Apache-2.0
"""``plan``: the one place that decides about CPUs and memory nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from zun.topology.cells import HostTopology
from zun.topology.cost import DISTANCE
from zun.topology.cover import Cover
from zun.topology.cpuset import NO_CPUS, CpuSet
from zun.topology.explain import explain
from zun.topology.lowest import lowest_matching
from zun.topology.matching import Matching, cheapest_matching
from zun.topology.nearest import changes, nearest
from zun.topology.placement import CellShare, Plan
from zun.topology.question import Part, Question, Stocks, Taken, in_mib
from zun.topology.refusal import Refusal
from zun.topology.request import MICRO, PlacementRequest
from zun.topology.sets import Chosen, SetSearch, Supply, alike, distances_among, peers_among
from zun.topology.usage import Usage
from zun.topology.view import CellView, HostView, id_bits, low_ids, view_of


def plan(topology: HostTopology, usage: Usage, request: PlacementRequest) -> Plan | Refusal:
    """The best place for ``request`` on this host, or why there is none.

    Exact and deterministic: a refusal means that no choice of CPUs and cells would do, and equal
    arguments get equal answers.
    """
    if request.dedicated:
        topology = usage.with_pool(topology)
    view = view_of(topology, request.isolation)
    stocks: Stocks = {}
    questions = [Question(view, usage, request, size, stocks) for size in page_sizes(topology, request)]
    found = _in_its_shape(questions) or _in_few_cells(questions)
    if found is not None:
        return found
    refusal = explain(topology, usage, request, questions)
    near = (topology, usage, request, plan, questions)
    return replace(refusal, _find=partial(nearest, *near), _list=partial(changes, *near))


def page_sizes(topology: HostTopology, request: PlacementRequest) -> list[int | None]:
    """Page sizes to try, best first: KiB of huge pages, None for ordinary pages. Empty: the host has none such."""
    wanted = request.page_size
    if request.ordinary_pages:
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
            return book(question, taken, draw(question, taken))
    return None


def _one_cell(question: Question) -> list[Taken] | None:
    ((cpus, mib),) = question.request.parts
    need = question.need(mib)
    if not question.strict and need > question.anywhere:
        return None
    if len(question.view.cells) == 1:
        (cell,) = question.view.cells
        offer = question.offer(cell, cpus, need)
        return None if offer is None else [Taken(cell, offer, need, mib)]
    best, best_cell = None, None
    for cell in question.view.cells:
        cost = question.cost(cell, cpus, need)
        if cost is not None and (best is None or cost < best):
            best, best_cell = cost, cell
    return None if best_cell is None else [_taken(question, best_cell, (cpus, need, mib))]


def _taken(question: Question, cell: CellView, part: Part) -> Taken:
    cpus, need, mib = part
    offer = question.offer(cell, cpus, need)
    assert offer is not None, "it has a cost"
    return Taken(cell, offer, need, mib)


def _several_cells(question: Question) -> list[Taken] | None:
    """Every part of the request on a cell of its own: nearest cells, then the best fit on them."""
    cells = question.view.cells
    if question.request.numa_nodes > len(cells):
        return None
    parts = sorted(((cpus, question.need(mib), mib) for cpus, mib in question.request.parts), reverse=True)
    if not question.strict and sum(part[1] for part in parts) > question.anywhere:
        return None
    different = [*dict.fromkeys(parts)]
    if len(different) > 1 and question.exceeds(parts):
        return None
    by_cell = [question.costs(cell, different) for cell in cells]
    useful = [c for c, column in enumerate(by_cell) if column.count(None) < len(column)]
    if len(useful) < len(parts):
        return None
    able = [cells[c] for c in useful]
    rows_of = dict(zip(different, zip(*[by_cell[c] for c in useful], strict=True), strict=True))
    rows = [rows_of[part] for part in parts]
    if len(different) == 1:
        chosen = _same_parts(question.view, rows, able)
    else:
        chosen = _other_parts(question, parts, rows, able)
    if chosen is None:
        return None
    return [_taken(question, able[c], part) for part, c in zip(parts, chosen, strict=True)]


Rows = Sequence[Sequence[int | None]]
"""Costs by part and by position of the cell among the useful ones."""


def _same_parts(view: HostView, rows: Rows, cells: list[CellView]) -> Sequence[int] | None:
    """Equal parts, so any order of the chosen cells is the same answer: positions of the cells, by part."""
    costs = [cost for cost in rows[0] if cost is not None]
    bits = id_bits(view)[0]
    keys = [(cost << bits) - low for cost, low in zip(costs, low_ids(view, cells), strict=True)]

    def leaf(chosen: Chosen, limit: int | None) -> int:
        return sum(keys[c] for c in chosen)

    return _set_search(view, cells, len(rows), keys, 0, leaf, (), costs).run()


def _other_parts(
    question: Question, parts: Sequence[Part], rows: Rows, cells: list[CellView]
) -> Sequence[int] | None:
    """Unequal parts: sets of cells are searched, and in each the cheapest matching is computed."""
    view = question.view
    if len(rows) == len(cells):
        every = cheapest_matching(rows)
        return None if every is None else _lowest_cpus(question, parts, rows, cells, tuple(range(len(cells))), every)
    # The ids of the cells are in the costs: so the cheapest matching of all is on the best cells, distances apart.
    bits, lows = id_bits(view)[0], low_ids(view, cells)
    keys: Rows = [
        [None if cost is None else (cost << bits) - low for cost, low in zip(row, lows, strict=True)]
        for row in rows
    ]
    overall = cheapest_matching(keys)
    if overall is None:
        return None
    known: dict[Chosen, Matching | None] = {}

    def leaf(chosen: Chosen, limit: int | None) -> int | None:
        prices = [*overall.row_prices], [overall.column_prices[c] for c in chosen]
        matching = known[chosen] = cheapest_matching([[row[c] for c in chosen] for row in keys], prices)
        return None if matching is None else matching.cost

    able = [tuple(int(cost is not None) for cost in row) for row in rows]
    supplies = [Supply(cells_able, able.count(cells_able)) for cells_able in set(able)]
    profiles = [*zip(*rows, strict=True)]
    # No matching on some cells costs less than the prices say.
    search = _set_search(
        view, cells, len(rows), overall.column_prices, sum(overall.row_prices), leaf, supplies, profiles
    )
    search.leaf_steps = len(rows) ** 2 // 8
    search.try_first(tuple(sorted(overall.columns)))
    chosen = search.run()
    if chosen is None:
        return None
    matching = known[chosen]
    assert matching is not None, "it has a cost"
    return _lowest_cpus(question, parts, keys, cells, chosen, matching)


def _lowest_cpus(
    question: Question, parts: Sequence[Part], rows: Rows, cells: list[CellView], chosen: Chosen, matching: Matching
) -> list[int]:
    """Of the cheapest ways to put the parts on the chosen cells, the one with the lowest CPU ids."""
    ways = [
        [c for c, price in enumerate(matching.column_prices) if row[chosen[c]] == own + price]
        for row, own in zip(rows, matching.row_prices, strict=True)
    ]
    if all(len(columns) == 1 for columns in ways):
        return [chosen[columns[0]] for columns in ways]
    if question.dedicated:
        sizes, masks = [part[0] for part in parts], [cells[c].dedicated & ~question.held for c in chosen]
    else:
        masks = [cells[c].pool & ~question.held for c in chosen]  # for every part, whatever its size
        sizes = [max(map(int.bit_count, masks))] * len(parts)
    found = lowest_matching(
        ways, matching.columns, sizes, masks, lambda row, column: question.cpus(cells[chosen[column]], parts[row][0])
    )
    return [chosen[column] for column in found]


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
        distances=distances_among(view, cells),
        weight=DISTANCE << id_bits(view)[0],
        unary=unary,
        base=base,
        leaf=leaf,
        supplies=supplies,
        alike=alike(profiles, peers_among(view, cells)),
    )


# Any cells


def _in_few_cells(questions: list[Question]) -> Plan | None:
    """The request over as few and as close cells as possible, whatever its shape, in the first page size for that."""
    if not questions or questions[0].request.numa_affinity == "require":
        return None
    covers = [Cover(question) for question in questions]
    for count in range(1, len(questions[0].view.cells) + 1):
        for cover in covers:
            taken = cover.best(count)
            if taken is not None:
                return book(cover.question, taken, draw_together(cover.question, taken))
    return None


# The answer


Memory = dict[int, tuple[int, int]]
"""By node, in units and in MiB."""


def book(question: Question, taken: list[Taken], drawn: Memory) -> Plan:
    """An answer as exact CPUs and amounts of memory by cell."""
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
            0.0 if question.dedicated else amount / MICRO,
            CpuSet.from_mask(entry.cell.dedicated & question.held),
        )
    request = question.request
    mems = _mems(question.view, cells)
    return Plan(cells, request.cpu_policy, None, mems, request.isolation, request.whole_cores)


def _mems(view: HostView, cells: dict[int, CellShare]) -> CpuSet:
    """Nodes the memory is booked on; for a request without memory, cells of the plan that have any."""
    mask = 0
    for node, share in cells.items():
        if share.memory_mib:
            mask |= 1 << node
    return CpuSet.from_mask(mask) if mask else CpuSet(node for node in cells if node in view.with_memory)


def draw(question: Question, taken: list[Taken]) -> Memory:
    """The memory of parts that have a cell each."""
    for cell, _, need, _ in taken:
        if need > question.room(cell.id):
            return _draw_widely(question, taken)
    return {cell.id: (need, mib) for cell, _, need, mib in taken}


def _draw_widely(question: Question, taken: list[Taken]) -> Memory:
    """Each cell's own memory first, then that of the nearest others it may have."""
    drawn: dict[int, dict[int, int]] = {entry.cell.id: {} for entry in taken}
    left = {node: question.room(node) for node in question.view.small_mib}
    for own in (True, False):
        for cell, _, need, _ in taken:
            missing = need - sum(drawn[cell.id].values())
            if not missing:
                continue
            for node in [cell.id] if own else [node for _, node in question.beyond((cell,))]:
                units = min(missing, left[node])
                if units:
                    drawn[cell.id][node] = drawn[cell.id].get(node, 0) + units
                    left[node] -= units
                    missing -= units
    total: Memory = {}
    for cell, _, _, mib in taken:
        shares = drawn[cell.id]
        for node, more in zip(shares, in_mib(mib, question.page_kib, list(shares.values())), strict=True):
            units, sofar = total.get(node, (0, 0))
            total[node] = (units + shares[node], sofar + more)
    return total


def draw_together(question: Question, taken: list[Taken]) -> Memory:
    """The memory of a request that all cells serve together: as its CPUs are on them, then what is nearest to these."""
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
    """The cells, those nearest to all the CPUs first, of which each has so many, and then where else memory is from."""

    def away(cell: CellView) -> tuple[int, int]:
        return sum([weight * other.apart[cell.id] for other, weight in zip(cells, weights, strict=True)]), cell.id

    return [*[cell.id for cell in sorted(cells, key=away)], *[node for _, node in question.beyond(cells)]]
