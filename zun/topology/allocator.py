# SPDX-License-Identifier: Apache-2.0
"""``plan``: the one place that decides about CPUs and memory nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from zun.topology.cells import HostTopology
from zun.topology.cost import DISTANCE, REMOTE, mirrored
from zun.topology.cpuset import CpuSet
from zun.topology.explain import explain
from zun.topology.nearest import nearest
from zun.topology.placement import CellShare, Plan
from zun.topology.question import Offer, Question
from zun.topology.refusal import Refusal
from zun.topology.request import MICRO, NUMAAffinity, PlacementRequest
from zun.topology.sets import SetSearch, alike_cells, cheapest_matching
from zun.topology.usage import Usage
from zun.topology.view import CellView, HostView, view_of

_REQUIRE, _NONE = NUMAAffinity.REQUIRE.value, NUMAAffinity.NONE.value

class Taken(NamedTuple):
    """One cell of an answer: the CPUs it gives, and the memory wanted for it in units and in MiB."""

    cell: CellView
    offer: Offer
    need: int
    mib: int


def plan(topology: HostTopology, usage: Usage, request: PlacementRequest) -> Plan | Refusal:
    """The best place for ``request`` on this host, or why there is none.

    Exact and deterministic: a refusal means that no choice of CPUs and cells would do, and equal
    arguments get equal answers.
    """
    view = view_of(topology)
    questions = [Question.of(view, usage, request, size) for size in page_sizes(topology, request)]
    found = _in_its_shape(questions) or _in_few_cells(questions)
    if found is not None:
        return found
    refusal = explain(topology, usage, request, questions)
    return replace(refusal, _find=partial(nearest, topology, usage, request, plan))


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


def _in_its_shape(questions: list[Question]) -> Plan | None:
    """The request on exactly the cells it asks for, in the first page size that serves."""
    for question in questions:
        request = question.request
        if request.numa_affinity == _NONE:
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
        if offer is not None and (best is None or offer.cost < best.cost):
            best, best_cell = offer, cell
    if best is None or best_cell is None:
        return None
    return [Taken(best_cell, best, need, mib)]


def _several_cells(question: Question) -> list[Taken] | None:
    """Every part of the request on a cell of its own: nearest cells, then the best fit on them."""
    parts = sorted(((cpus, question.need(mib), mib) for cpus, mib in question.request.parts), reverse=True)
    cells = question.view.cells
    if len(parts) > len(cells) or (not question.strict and sum(part[1] for part in parts) > question.anywhere):
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


def _id_bits(view: HostView) -> tuple[int, int]:
    """Width of the cell ids and of the CPU ids at the low end of a key."""
    return len(view.cells), max(1, (view.dedicated | view.pool).bit_length())


def _key(view: HostView, cell: CellView, offer: Offer) -> int:
    """Cost, then low cell ids, then low CPU ids, as one number that can be added up over cells."""
    cell_bits, cpu_bits = _id_bits(view)
    low_cell = 1 << (cell_bits - 1 - cell.index)
    return (((offer.cost << cell_bits) - low_cell) << cpu_bits) - mirrored(offer.cpus, cpu_bits)


def _weight(view: HostView) -> int:
    cell_bits, cpu_bits = _id_bits(view)
    return DISTANCE << (cell_bits + cpu_bits)


Rows = list[list[Offer | None]]
"""Offers by part and by position of the cell among the useful ones."""


def _same_parts(view: HostView, rows: Rows, cells: list[CellView]) -> Sequence[int] | None:
    """Equal parts, so any order of the chosen cells is the same answer: positions of the cells, by part."""
    offers = [offer for offer in rows[0] if offer is not None]
    keys = [_key(view, cell, offer) for cell, offer in zip(cells, offers, strict=True)]
    distances = _between(view, cells)
    search = SetSearch(
        count=len(rows),
        distances=distances,
        weight=_weight(view),
        unary=keys,
        base=0,
        leaf=lambda chosen: sum(keys[c] for c in chosen),
        promise=lambda chosen, rest, more: 0,
        alike=alike_cells([offer.cost for offer in offers], distances),
    )
    return search.run()


def _other_parts(view: HostView, rows: Rows, cells: list[CellView]) -> Sequence[int] | None:
    """Unequal parts: sets of cells are searched, and in each the cheapest matching is computed."""
    keys = [
        [None if offer is None else _key(view, cell, offer) for cell, offer in zip(cells, row, strict=True)]
        for row in rows
    ]
    overall = cheapest_matching(keys)
    if overall is None:
        return None
    able = [sum(1 << c for c, key in enumerate(row) if key is not None) for row in keys]
    wanted = [(mask, able.count(mask)) for mask in set(able)]

    def leaf(chosen: tuple[int, ...]) -> int | None:
        matching = cheapest_matching([[row[c] for c in chosen] for row in keys])
        return None if matching is None else matching[0]

    def promise(chosen: int, rest: int, more: int) -> int | None:
        within_reach = chosen | rest
        return 0 if all((mask & within_reach).bit_count() >= count for mask, count in wanted) else None

    distances = _between(view, cells)
    search = SetSearch(
        count=len(keys),
        distances=distances,
        weight=_weight(view),
        unary=[0] * len(cells),
        base=overall[0],
        leaf=leaf,
        promise=promise,
        alike=alike_cells([tuple(o and o.cost for o in column) for column in zip(*rows, strict=True)], distances),
    )
    chosen = search.run()
    if chosen is None:
        return None
    matching = cheapest_matching([[row[c] for c in chosen] for row in keys])
    assert matching is not None
    return [chosen[column] for column in matching[1]]


def _between(view: HostView, cells: list[CellView]) -> list[list[int]]:
    return [[view.distances[a.index][b.index] for b in cells] for a in cells]


def _in_few_cells(questions: list[Question]) -> Plan | None:
    """The request over as few and as close cells as possible, whatever its shape."""
    best, fewest = None, None
    for question in questions:
        if question.request.numa_affinity == _REQUIRE:
            return None
        taken = _cover(question)
        if taken is not None and (fewest is None or len(taken) < fewest):
            best, fewest = _plan(question, taken), len(taken)
    return best


def _cover(question: Question) -> list[Taken] | None:
    """CPUs and memory freely over the fewest cells: all but one give every CPU they can."""
    request = question.request
    cpus = int(request.cpus) if question.dedicated else round(request.cpus * MICRO)
    need = question.need(request.memory_mib)
    if not question.strict and need > question.anywhere:
        return None
    cells = [cell for cell in question.view.cells if question.capacity(cell) >= 0]
    if question.dedicated or question.strict:
        cells = [cell for cell in cells if question.capacity(cell) > 0 or question.reach(cell) > 0 or not cpus]
    return _Cover(question, cells, cpus, need).best()


class _Cover:
    """Search for the fewest cells that have ``cpus`` CPUs and ``need`` units of memory together."""

    def __init__(self, question: Question, cells: list[CellView], cpus: int, need: int) -> None:
        self.question, self.cells, self.cpus, self.need = question, cells, cpus, need
        self.caps = [question.capacity(cell) for cell in cells]
        self.own = [question.own(cell) for cell in cells]
        self.reach = [question.reach(cell) for cell in cells] if question.strict else [need] * len(cells)
        self.distances = _between(question.view, cells)
        self.bits = _id_bits(question.view)

    def best(self) -> list[Taken] | None:
        alike = alike_cells([self.question.profile(cell) for cell in self.cells], self.distances)
        for count in range(self._fewest(), len(self.cells) + 1):
            search = SetSearch(
                count=count,
                distances=self.distances,
                weight=_weight(self.question.view),
                unary=[0] * len(self.cells),
                base=-(1 << sum(self.bits)),  # ids lower a key by less than this
                leaf=self._leaf,
                promise=self._promise,
                alike=alike,
            )
            chosen = search.run()
            if chosen is not None:
                return self._taken(chosen)
        return None

    def _fewest(self) -> int:
        """No set smaller than this can do, whichever cells it has."""
        for count in range(1, len(self.cells) + 1):
            if _top(self.caps, count) >= self.cpus and _top(self.reach, count) >= self.need:
                return count
        return len(self.cells) + 1

    def _promise(self, chosen: int, rest: int, more: int) -> int | None:
        inside = [c for c in range(len(self.cells)) if chosen >> c & 1]
        left = [c for c in range(len(self.cells)) if rest >> c & 1]
        for amounts, wanted in ((self.caps, self.cpus), (self.reach, self.need)):
            if sum(amounts[c] for c in inside) + _top([amounts[c] for c in left], more) < wanted:
                return None
        own = sum(self.own[c] for c in inside) + _top([self.own[c] for c in left], more)
        return max(0, self.need - own) * REMOTE << sum(self.bits)

    def _leaf(self, chosen: tuple[int, ...]) -> int | None:
        if sum(self.caps[c] for c in chosen) < self.cpus or sum(self.reach[c] for c in chosen) < self.need:
            return None
        offers = self._offers(chosen)
        own = sum(self.own[c] for c in chosen)
        cost = sum(offer.cost for offer in offers) + self.question.memory_cost(own, self.need)
        return self._ranked(chosen, offers, cost)

    def _ranked(self, chosen: tuple[int, ...], offers: Sequence[Offer], cost: int) -> int:
        cell_bits, cpu_bits = self.bits
        ids = sum(1 << (cell_bits - 1 - self.cells[c].index) for c in chosen)
        given = 0
        if self.question.dedicated:
            for offer in offers:
                given |= offer.cpus
        return (((cost << cell_bits) - ids) << cpu_bits) - mirrored(given, cpu_bits)

    def _offers(self, chosen: tuple[int, ...]) -> list[Offer]:
        """What each chosen cell gives: as few of them as can give all CPUs, each but one giving all it can.

        Where more cells were chosen than the CPUs need (memory decided), those with most CPUs give them.
        """
        givers, total = [], 0
        for c in sorted(chosen, key=lambda c: (-self.caps[c], c)):
            givers.append(c)
            total += self.caps[c]
            if total >= self.cpus:
                break
        best: list[Offer] | None = None
        best_key = 0
        for last in givers:
            offers = [self._offer(c, total, last, givers) for c in chosen]
            key = self._ranked(chosen, offers, sum(offer.cost for offer in offers))
            if best is None or key < best_key:
                best, best_key = offers, key
        assert best is not None
        return best

    def _offer(self, c: int, total: int, last: int, givers: list[int]) -> Offer:
        amount = self.caps[c] if c in givers else 0
        if c == last:
            amount -= total - self.cpus
        offer = self.question.cpu_offer(self.cells[c], amount)
        assert offer is not None, "a cell gives less than its capacity"
        return offer

    def _taken(self, chosen: tuple[int, ...]) -> list[Taken]:
        offers = self._offers(chosen)
        weights = [offer.cpus.bit_count() for offer in offers]
        units = _share_out(self.need, weights, [self.own[c] for c in chosen], [self.reach[c] for c in chosen])
        mibs = _in_mib(self.question.request.memory_mib, self.question.page_kib, units)
        return [
            Taken(self.cells[c], offer, need, mib)
            for c, offer, need, mib in zip(chosen, offers, units, mibs, strict=True)
        ]


def _top(amounts: Sequence[int], count: int) -> int:
    return sum(sorted(amounts, reverse=True)[:count])


def _share_out(need: int, weights: Sequence[int], own: Sequence[int], reach: Sequence[int]) -> list[int]:
    """``need`` units over cells: by their CPUs first, then where there is own memory, then attached memory."""
    shares, seen, given, whole = [], 0, 0, sum(weights)
    for weight, room in zip(weights, own, strict=True):
        seen += weight
        share = (need * seen // whole if whole else 0) - given
        given += share
        shares.append(min(share, room))
    for rooms in (own, reach):
        for c, room in enumerate(rooms):
            shares[c] += max(0, min(need - sum(shares), room - shares[c]))
    return shares


def _plan(question: Question, taken: list[Taken]) -> Plan:
    """The answer as exact CPUs and amounts of memory by cell."""
    drawn = _draw(question, taken)
    given = {entry.cell.id: entry for entry in taken}
    cells = {}
    for node in sorted({*given, *drawn}):
        units, mib = drawn.get(node, (0, 0))
        pages = {question.page_kib: units} if question.page_kib is not None and units else {}
        entry = given.get(node)
        if entry is None:
            cells[node] = CellShare(memory_mib=mib, pages=pages)
            continue
        offer = entry.offer
        cells[node] = CellShare(
            cpus=CpuSet.from_mask(offer.cpus),
            memory_mib=mib,
            withheld=CpuSet.from_mask(offer.withheld),
            pages=pages,
            shared=0.0 if question.dedicated else offer.amount / MICRO,
            pinned=CpuSet.from_mask(entry.cell.dedicated & question.held),
        )
    return Plan(cells, question.request.cpu_policy, None, _mems(question.view, cells))


def _mems(view: HostView, cells: Mapping[int, CellShare]) -> CpuSet:
    """Nodes the memory is booked on; for a request without memory, cells of the plan that have any."""
    booked = [node for node, share in cells.items() if share.memory_mib]
    return CpuSet(booked or [node for node in cells if node in view.with_memory])


def _draw(question: Question, taken: list[Taken]) -> dict[int, tuple[int, int]]:
    """(units, MiB) by node: every cell's own memory first, then attached nodes, then (preferred) the nearest others."""
    drawn: dict[int, dict[int, int]] = {entry.cell.id: {} for entry in taken}
    left = {node: question.room(node) for node in question.view.small_mib}
    for stage in ("own", "attached", "spill"):
        for cell, _, need, _ in taken:
            missing = need - sum(drawn[cell.id].values())
            nodes = {"own": cell.nodes[:1], "attached": cell.nodes[1:], "spill": cell.spill}[stage]
            for node in nodes if missing else ():
                units = min(missing, left[node])
                if units:
                    drawn[cell.id][node] = drawn[cell.id].get(node, 0) + units
                    left[node] -= units
                    missing -= units
    total: dict[int, tuple[int, int]] = {}
    for cell, _, _, mib in taken:
        parts = drawn[cell.id]
        for node, more in zip(parts, _in_mib(mib, question.page_kib, list(parts.values())), strict=True):
            units, sofar = total.get(node, (0, 0))
            total[node] = (units + parts[node], sofar + more)
    return total


def _in_mib(mib: int, page_kib: int | None, units: Sequence[int]) -> list[int]:
    """``mib`` cut into the MiB that each amount of units stands for; the last page may be partly empty."""
    if page_kib is None:
        return list(units)
    shares, seen, given = [], 0, 0
    for count in units:
        seen += count
        share = min(mib, -(-seen * page_kib // 1024)) - given
        given += share
        shares.append(share)
    return shares
