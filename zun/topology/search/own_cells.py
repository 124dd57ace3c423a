# SPDX-License-Identifier: Apache-2.0
"""Each part of a request on a cell of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations

from zun.topology.masks import mirrored
from zun.topology.search.cost import DISTANCE, id_bits, low_ids
from zun.topology.search.devices import Teller
from zun.topology.search.lowest import lowest_matching
from zun.topology.search.matching import Matching, cheapest_matching, column_bounds
from zun.topology.search.question import Part, Question, Taken
from zun.topology.search.sets import Chosen, SetSearch, Supply, alike, distances_among, mask_of, peers_among
from zun.topology.view import CellView

STEPS_OF_AN_ORDER = 4
"""Steps that it takes to try out whether cells that have memory in common have enough for parts in one order."""


def on_own_cells(question: Question) -> list[Taken] | None:
    """Return the best cells for the parts of the request, one cell for each part, or None if they do not fit."""
    return _one_cell(question) if question.request.numa_nodes == 1 else _several_cells(question)


def _one_cell(question: Question) -> list[Taken] | None:
    """Return the best cell for a request with one part, the lowest id among equals."""
    ((cpus, mib),) = question.request.parts
    need = question.need(mib)
    if not question.strict and need > question.anywhere:
        return None
    if len(question.view.cells) == 1:
        (cell,) = question.view.cells
        offer = question.offer(cell, cpus, need)
        if offer is None or (question.devices is not None and question.devices.cost(1) is None):
            return None
        return [Taken(cell, offer, need, mib)]
    best, best_cell = None, None
    far = question.device_teller(question.view.cells, 0)
    for cell in question.view.cells:
        cost = question.cost(cell, cpus, need)
        if far is not None and cost is not None:
            beside = far(1 << cell.index)
            cost = None if beside is None else cost + beside
        if cost is not None and (best is None or cost < best):
            best, best_cell = cost, cell
    return None if best_cell is None else [_taken(question, best_cell, (cpus, need, mib))]


def _taken(question: Question, cell: CellView, part: Part) -> Taken:
    """Return the choice of ``cell`` for ``part``, which the cell can serve."""
    cpus, need, mib = part
    offer = question.offer(cell, cpus, need)
    assert offer is not None, "it has a cost"
    return Taken(cell, offer, need, mib)


def _several_cells(question: Question) -> list[Taken] | None:
    """Return a cell for each of several parts: the nearest cells, then the best fit on them."""
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
        chosen = _same_parts(question, parts[0][1], rows, able)
    else:
        chosen = _other_parts(question, parts, rows, able)
    if chosen is None:
        return None
    return [_taken(question, able[c], part) for part, c in zip(parts, chosen, strict=True)]


Rows = Sequence[Sequence[int | None]]
"""Costs by part and by position of the cell; only cells that can serve some part have a position."""


def _same_parts(question: Question, need: int, rows: Rows, cells: list[CellView]) -> Sequence[int] | None:
    """Return the positions of the cells for equal parts: any order of the chosen cells is the same answer."""
    view = question.view
    costs = [cost for cost in rows[0] if cost is not None]
    bits = id_bits(view)[0]
    keys = [(cost << bits) - low for cost, low in zip(costs, low_ids(view, cells), strict=True)]

    far = question.device_teller(cells, bits)

    def leaf(chosen: Chosen, limit: int | None) -> int | None:
        cost = sum(keys[c] for c in chosen)
        if question.lends and question.poured([(cells[c], need) for c in chosen]) is None:
            return None
        if far is None:
            return cost
        beside = far(mask_of(chosen))
        return None if beside is None else cost + beside

    return _set_search(question, cells, len(rows), keys, 0, leaf, (), costs, far).run()


def _other_parts(
    question: Question, parts: Sequence[Part], rows: Rows, cells: list[CellView]
) -> Sequence[int] | None:
    """Return the position of the cell of each unequal part: search sets of cells, and match the parts in each set."""
    view = question.view
    far = question.device_teller(cells, id_bits(view)[0])
    if len(rows) == len(cells):
        if far is not None and far((1 << len(cells)) - 1) is None:
            return None
        if question.lends:
            best = _with_memory(question, parts, rows, cells, tuple(range(len(cells))))
            return None if best is None else best[1]
        every = cheapest_matching(rows)
        return None if every is None else _lowest_cpus(question, parts, rows, cells, tuple(range(len(cells))), every)
    # The cell ids are part of the keys, so the cheapest matching of all has the best cells if distances are ignored.
    bits, lows = id_bits(view)[0], low_ids(view, cells)
    keys: Rows = [
        [None if cost is None else (cost << bits) - low for cost, low in zip(row, lows, strict=True)]
        for row in rows
    ]
    overall = cheapest_matching(keys)
    if overall is None:
        return None
    bounds = column_bounds(keys, overall)
    known: dict[Chosen, Matching | None] = {}

    def leaf(chosen: Chosen, limit: int | None) -> int | None:
        prices = [*overall.row_prices], [bounds[c] for c in chosen]
        beside = 0 if far is None else far(mask_of(chosen))
        if beside is None or (beside and limit is not None and sum(prices[0]) + sum(prices[1]) + beside >= limit):
            return None
        if question.lends:
            best = _with_memory(question, parts, keys, cells, chosen)
            return None if best is None else best[0] + beside
        matching = known[chosen] = cheapest_matching([[row[c] for c in chosen] for row in keys], prices)
        return None if matching is None else matching.cost + beside

    able = [tuple(int(cost is not None) for cost in row) for row in rows]
    supplies = [Supply(cells_able, able.count(cells_able)) for cells_able in set(able)]
    profiles = [*zip(*rows, strict=True)]
    # A matching on any set of cells costs at least all row prices plus the bounds of these cells.
    search = _set_search(question, cells, len(rows), bounds, sum(overall.row_prices), leaf, supplies, profiles, far)
    search.leaf_steps = len(rows) ** 2 // 8
    search.try_first(tuple(sorted(overall.columns)))
    chosen = search.run()
    if chosen is None:
        return None
    if question.lends:
        best = _with_memory(question, parts, keys, cells, chosen)
        return None if best is None else best[1]
    matching = known[chosen]
    assert matching is not None, "it has a cost"
    return _lowest_cpus(question, parts, keys, cells, chosen, matching)


def _with_memory(
    question: Question, parts: Sequence[Part], rows: Rows, cells: list[CellView], chosen: Chosen
) -> tuple[int, list[int]] | None:
    """Return the cost and the cell of each part if cells have memory in common, or None if these do not serve.

    A matching does not see what is in common, so every order of the parts is tried.
    """
    _, width = id_bits(question.view)
    best: tuple[int, int, list[int]] | None = None
    for order in permutations(chosen):
        costs = [row[c] for row, c in zip(rows, order, strict=True)]
        cost = sum([each for each in costs if each is not None])
        if None in costs or (best is not None and cost > best[0]):
            continue
        if not question.steps.spend(STEPS_OF_AN_ORDER):
            break
        if question.poured([(cells[c], part[1]) for c, part in zip(order, parts, strict=True)]) is None:
            continue
        cpus = sum([question.cpus(cells[c], part[0]) for c, part in zip(order, parts, strict=True)])
        key = cost, -mirrored(cpus, width), [*order]
        best = key if best is None else min(best, key)
    return None if best is None else (best[0], best[2])


def _lowest_cpus(
    question: Question, parts: Sequence[Part], rows: Rows, cells: list[CellView], chosen: Chosen, matching: Matching
) -> list[int]:
    """Return the cell of each part in the cheapest matching that has the lowest CPU ids."""
    ways = [
        [c for c, price in enumerate(matching.column_prices) if row[chosen[c]] == own + price]
        for row, own in zip(rows, matching.row_prices, strict=True)
    ]
    if all(len(columns) == 1 for columns in ways):
        return [chosen[columns[0]] for columns in ways]
    if question.dedicated:
        sizes, masks = [part[0] for part in parts], [cells[c].dedicated & ~question.barred for c in chosen]
    else:
        masks = [cells[c].pool & ~question.held for c in chosen]  # a shared part runs on the whole pool of its cell
        sizes = [max(map(int.bit_count, masks))] * len(parts)
    found = lowest_matching(
        ways, matching.columns, sizes, masks, lambda row, column: question.cpus(cells[chosen[column]], parts[row][0])
    )
    return [chosen[column] for column in found]


def _set_search(
    question: Question,
    cells: list[CellView],
    count: int,
    unary: Sequence[int],
    base: int,
    leaf: Callable[[Chosen, int | None], int | None],
    supplies: Sequence[Supply],
    profiles: Sequence[object],
    far: Teller | None,
) -> SetSearch:
    """Return the search for ``count`` of these cells; equal ``profiles`` make cells alike.

    ``far`` is the cost of the devices. Profiles know neither devices nor memory in common, so with these no cells are
    alike.
    """
    view = question.view
    return SetSearch(
        count=count,
        distances=distances_among(view, cells),
        weight=DISTANCE << id_bits(view)[0],
        unary=unary,
        base=base,
        leaf=leaf,
        supplies=supplies if far is None else [*far.supplies, *supplies],
        alike=alike(profiles, peers_among(view, cells)) if far is None and not question.lends else (),
        floor=far,
        steps=question.steps,
    )
