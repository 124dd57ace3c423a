# SPDX-License-Identifier: Apache-2.0
"""Requests near a refused one that a host could have taken: the part of a refusal a user can act on.

Amounts are found exactly. Where the request is one number, whoever can have much can have less, so its largest value
that fits is bisected. Where it is a list with one entry a cell, the least that must be taken off is a matching of
parts and cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from zun.topology.cells import HostTopology
from zun.topology.matching import cheapest_matching
from zun.topology.placement import Plan
from zun.topology.question import Question
from zun.topology.refusal import Change, Dimension, Refusal
from zun.topology.request import MICRO, CPUPolicy, Isolation, MemPolicy, NUMAAffinity, PlacementRequest, ThreadPolicy
from zun.topology.usage import Usage
from zun.topology.view import CellView

Planner = Callable[[HostTopology, Usage, PlacementRequest], Plan | Refusal]
Fits = Callable[[PlacementRequest], bool]


def nearest(
    topology: HostTopology, usage: Usage, request: PlacementRequest, plan: Planner, questions: Sequence[Question]
) -> PlacementRequest | None:
    """The first of the alternatives that ``plan`` grants; their order is told in ``Refusal.nearest``."""
    fits = _asking(topology, usage, plan)
    fewer, less = _fewer_cpus(request, fits, questions), _less_memory(request, fits, questions)
    if fewer is not None and less is not None:
        return less if _loss(request, less) < _loss(request, fewer) else fewer
    if fewer is not None or less is not None:
        return fewer or less
    relaxed = next((other for other in _relaxed(topology, request) if fits(other)), None)
    return relaxed or _less_of_both(request, fits)


def changes(
    topology: HostTopology, usage: Usage, request: PlacementRequest, plan: Planner, questions: Sequence[Question]
) -> tuple[Change, ...]:
    """The smallest change in each dimension that ``plan`` grants; a dimension in which none does is left out."""
    fits = _asking(topology, usage, plan)
    found = (
        (Dimension.CPUS, _fewer_cpus(request, fits, questions)),
        (Dimension.MEMORY, _less_memory(request, fits, questions)),
        *(
            (dimension, next((other for other in others if fits(other)), None))
            for dimension, others in _conditions(topology, request)
        ),
    )
    return tuple(Change(dimension, other) for dimension, other in found if other is not None)


def _asking(topology: HostTopology, usage: Usage, plan: Planner) -> Fits:
    def fits(other: PlacementRequest) -> bool:
        return isinstance(plan(topology, usage, other), Plan)

    return fits


def _loss(request: PlacementRequest, smaller: PlacementRequest) -> float:
    """The largest part of an amount that is given up."""
    cpus = 1 - smaller.cpus / request.cpus if request.cpus else 0.0
    memory = 1 - smaller.memory_mib / request.memory_mib if request.memory_mib else 0.0
    return max(cpus, memory)


# Less of an amount


def _fewer_cpus(request: PlacementRequest, fits: Fits, questions: Sequence[Question]) -> PlacementRequest | None:
    unit, least = (1, 1) if request.dedicated else (MICRO, 0)
    if request.numa_cpus is None:
        total = round(request.cpus * unit)
        fewest = least and request.numa_nodes
        return _largest(fewest, total - 1, lambda most: replace(request, cpus=most / unit), fits)

    def of(entries: Sequence[int]) -> PlacementRequest:
        parts = tuple(entry / unit for entry in entries)
        return replace(request, cpus=round(sum(parts), 6), numa_cpus=parts)

    entries = [round(entry * unit) for entry in request.numa_cpus]
    if request.numa_affinity != NUMAAffinity.REQUIRE:
        return _largest_total(entries, least, of, fits)
    able = (_fewer_on_own_cells(question, entries, least) for question in questions)
    return _best((of(each) for each in able if each is not None), fits)


def _less_memory(request: PlacementRequest, fits: Fits, questions: Sequence[Question]) -> PlacementRequest | None:
    # A container with no memory at all is nobody's wish.
    if request.numa_mem is None:
        return _largest(1, request.memory_mib - 1, lambda most: replace(request, memory_mib=most), fits)

    def of(entries: Sequence[int]) -> PlacementRequest:
        return replace(request, memory_mib=sum(entries), numa_mem=tuple(entries))

    if request.numa_affinity != NUMAAffinity.REQUIRE:
        return _largest_total(list(request.numa_mem), 1, of, fits)
    able = (_less_on_own_cells(question, request.numa_mem) for question in questions)
    return _best((of(each) for each in able if each is not None and any(each)), fits)


def _largest(
    least: int, most: int, at_most: Callable[[int], PlacementRequest], fits: Fits
) -> PlacementRequest | None:
    """The largest request between the bounds that fits: whoever can have much can have less, so bisect."""
    if most < least or not fits(at_most(least)):
        return None
    while least < most:
        middle = (least + most + 1) // 2
        if fits(at_most(middle)):
            least = middle
        else:
            most = middle - 1
    return at_most(least)


def _largest_total(
    entries: Sequence[int], least: int, of: Callable[[Sequence[int]], PlacementRequest], fits: Fits
) -> PlacementRequest | None:
    """As ``_largest`` for a list of which only the sum matters."""
    fewest = sum(min(entry, least) for entry in entries)
    return _largest(max(fewest, least), sum(entries) - 1, lambda total: of(_levelled(entries, total)), fits)


def _levelled(entries: Sequence[int], total: int) -> list[int]:
    """``entries`` cut to a level, so that they add up to ``total``."""
    low, high = 0, max(entries)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(entry, middle) for entry in entries) <= total:
            low = middle
        else:
            high = middle - 1
    cut = [min(entry, low) for entry in entries]
    rest = total - sum(cut)
    for index, entry in enumerate(entries):
        if rest and entry > low:
            cut[index] += 1
            rest -= 1
    return cut


def _best(candidates: Iterator[PlacementRequest], fits: Fits) -> PlacementRequest | None:
    """The largest of the candidates that fit."""
    fitting = [each for each in candidates if fits(each)]
    return max(fitting, key=lambda each: (each.cpus, each.memory_mib), default=None)


def _fewer_on_own_cells(question: Question, entries: Sequence[int], least: int) -> list[int] | None:
    """Most CPUs by part, when every part keeps its memory and has a cell of its own."""
    needs = [question.need(mib) for _, mib in question.request.parts]
    if not question.strict and sum(needs) > question.anywhere:
        return None

    def given(part: int, cell: CellView) -> int | None:
        cpus = min(entries[part], question.capacity(cell))
        return cpus if cpus >= least and question.remembers(cell, needs[part]) else None

    return _most(entries, question, given)


def _less_on_own_cells(question: Question, entries: Sequence[int]) -> list[int] | None:
    """Most MiB by part, when every part keeps its CPUs and has a cell of its own."""
    parts = [cpus for cpus, _ in question.request.parts]

    def given(part: int, cell: CellView) -> int | None:
        if question.cpu_offer(cell, parts[part]) is None:
            return None
        mib = entries[part]
        if question.strict:
            mib = min(mib, _in_whole_mib(question.reach(cell), question.page_kib))
        return mib if mib >= min(1, entries[part]) else None

    most = _most(entries, question, given)
    if most is None or question.strict:
        return most
    return _within(entries, question)


def _most(
    entries: Sequence[int], question: Question, given: Callable[[int, CellView], int | None]
) -> list[int] | None:
    """The largest amounts by part, over all ways to give every part a cell of its own."""
    cells = question.view.cells
    if not cells or len(entries) > len(cells):
        return None
    amounts = [[given(part, cell) for cell in cells] for part in range(len(entries))]
    missing = [
        [None if amount is None else entry - amount for amount in row]
        for entry, row in zip(entries, amounts, strict=True)
    ]
    matched = cheapest_matching(missing)
    if matched is None:
        return None
    return [row[column] or 0 for row, column in zip(amounts, matched.columns, strict=True)]


def _in_whole_mib(units: int, page_kib: int | None) -> int:
    return units if page_kib is None else units * page_kib // 1024


def _within(entries: Sequence[int], question: Question) -> list[int] | None:
    """``entries`` with the fewest MiB taken off so that together they need no more than the host has anywhere."""
    page_kib, room = question.page_kib, question.anywhere
    if page_kib is None or page_kib <= 1024:
        total = min(sum(entries), _in_whole_mib(room, page_kib))
        return _levelled(entries, total) if total >= sum(min(1, entry) for entry in entries) else None
    needs = [question.need(entry) for entry in entries]
    excess = sum(needs) - room
    cut = list(entries)
    # The last page of each entry is often half empty: those cost least. Every further page is a full one.
    spare = sorted((entries[i] - _in_whole_mib(needs[i] - 1, page_kib), i) for i in range(len(needs)) if needs[i] > 1)
    for _, i in spare[: max(0, excess)]:
        needs[i] -= 1
        excess -= 1
        cut[i] = _in_whole_mib(needs[i], page_kib)
    for i in range(len(needs)):
        more = min(max(0, excess), needs[i] - 1)
        if more > 0:
            needs[i] -= more
            excess -= more
            cut[i] = _in_whole_mib(needs[i], page_kib)
    return cut if excess <= 0 else None


# Other conditions


def _conditions(
    topology: HostTopology, request: PlacementRequest
) -> Iterator[tuple[Dimension, Iterator[PlacementRequest]]]:
    """The same amounts under one other condition, by dimension, the smallest change first."""
    even = replace(request, numa_cpus=None, numa_mem=None)
    if request.numa_affinity == NUMAAffinity.REQUIRE:
        yield Dimension.NODES, (replace(even, numa_nodes=nodes) for nodes in _other_counts(topology, request))
        if even != request and _can_be_even(request):
            yield Dimension.SHAPE, iter((even,))
        yield Dimension.AFFINITY, iter((replace(request, numa_affinity=NUMAAffinity.PREFER),))
    if request.dedicated and request.thread_policy != ThreadPolicy.PREFER:
        yield Dimension.THREADS, iter((replace(request, thread_policy=ThreadPolicy.PREFER),))
    yield Dimension.ISOLATION, (replace(request, isolation=grade) for grade in _lower_grades(request))
    yield Dimension.PAGES, (replace(request, page_size=size) for size in _smaller_pages(topology, request))
    if request.dedicated and request.mempolicy == MemPolicy.STRICT:
        yield Dimension.MEMPOLICY, iter((replace(request, mempolicy=MemPolicy.PREFERRED),))


def _other_counts(topology: HostTopology, request: PlacementRequest) -> list[int]:
    """Numbers of cells to try, those near ``numa_nodes`` first, of two as near the larger."""
    cells = sum(1 for cell in topology.cells if cell.cpus)
    most = min(cells, int(request.cpus)) if request.dedicated else cells
    wanted = request.numa_nodes
    return sorted((n for n in range(1, most + 1) if n != wanted), key=lambda n: (abs(n - wanted), -n))


def _can_be_even(request: PlacementRequest) -> bool:
    return not request.dedicated or request.cpus >= request.numa_nodes


def _lower_grades(request: PlacementRequest) -> list[Isolation]:
    """Isolation grades that ask less, the highest first."""
    if request.isolation == Isolation.ISOLATED:
        return [Isolation.THREAD]  # on other CPUs altogether
    grades = [*Isolation]
    return grades[: grades.index(Isolation(request.isolation))][::-1]


def _smaller_pages(topology: HostTopology, request: PlacementRequest) -> list[int | None]:
    """Page sizes below the one asked for, the largest first, None for ordinary pages."""
    size = request.page_size
    if request.ordinary_pages or size == "any":
        return []
    huge = {each for cell in topology.cells for each, count in cell.pages.items() if count}
    smaller = [each for each in huge if isinstance(size, int) and each < size]
    return [*sorted(smaller, reverse=True), None]


def _relaxed(topology: HostTopology, request: PlacementRequest) -> Iterator[PlacementRequest]:
    """The same amounts with fewer conditions."""
    cells = len(topology.cells)
    even = replace(request, numa_cpus=None, numa_mem=None)
    if request.numa_affinity == NUMAAffinity.REQUIRE:
        most = min(cells, int(request.cpus)) if request.dedicated else cells
        for nodes in range(request.numa_nodes + 1, most + 1):
            yield replace(even, numa_nodes=nodes)
        yield replace(even, numa_nodes=1, numa_affinity=NUMAAffinity.NONE)
    if request.dedicated and request.thread_policy != ThreadPolicy.PREFER:
        yield replace(request, thread_policy=ThreadPolicy.PREFER)
        yield replace(even, numa_nodes=1, numa_affinity=NUMAAffinity.NONE, thread_policy=ThreadPolicy.PREFER)
    if request.isolation != "thread":
        yield replace(request, isolation="thread")
    for size in _smaller_pages(topology, request):
        yield replace(request, page_size=size)


def _less_of_both(request: PlacementRequest, fits: Fits) -> PlacementRequest | None:
    """As many CPUs as there are for a MiB a cell, then as much memory as goes with them."""
    free = replace(
        request, numa_nodes=1, numa_affinity=NUMAAffinity.NONE, numa_cpus=None, numa_mem=None,
        thread_policy=ThreadPolicy.PREFER, isolation="thread", page_size=None, memory_mib=min(1, request.memory_mib),
    )
    fewest = replace(free, cpus=1 if request.cpu_policy == CPUPolicy.DEDICATED else 0)
    start = free if fits(free) else _fewer_cpus(free, fits, ())
    if start is None or not fits(fewest):
        return None
    return _less_memory(replace(start, memory_mib=request.memory_mib + 1), fits, ()) or start
