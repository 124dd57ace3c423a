# SPDX-License-Identifier: Apache-2.0
"""Turns 'nothing fits' into the first condition that rules every choice out, in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from zun.topology.cells import HostTopology
from zun.topology.cores import capacity
from zun.topology.question import Question
from zun.topology.refusal import Refusal, RefusalCode, Wanted
from zun.topology.request import MICRO, NUMAAffinity, PlacementRequest
from zun.topology.usage import Usage
from zun.topology.view import CellView

_UNBOUNDED = 1 << 62


def explain(
    topology: HostTopology, usage: Usage, request: PlacementRequest, questions: Sequence[Question]
) -> Refusal:
    """The refusal of a request for which every question was answered in the negative."""
    page_kib = questions[-1].page_kib if questions else None
    wanted = tuple(_wanted(request, cpus, mib, page_kib) for cpus, mib in request.parts)
    if questions:
        code, message = _reason(topology, request, questions[-1])
    else:
        code, message = RefusalCode.PAGE_SIZE, _no_such_pages(topology, request)
    return Refusal(code, message, wanted, _free=partial(usage.free, topology))


def _wanted(request: PlacementRequest, cpus: int, mib: int, page_kib: int | None) -> Wanted:
    return Wanted(cpus if request.dedicated else cpus / MICRO, mib, page_kib)


def _no_such_pages(topology: HostTopology, request: PlacementRequest) -> str:
    sizes = sorted({size for cell in topology.cells for size, count in cell.pages.items() if count})
    there = ", ".join(f"{size} KiB" for size in sizes) or "none"
    wanted = "huge pages" if request.page_size == "large" else f"pages of {request.page_size} KiB"
    return f"the host has no {wanted}: its huge pages are {there}"


def _reason(topology: HostTopology, request: PlacementRequest, question: Question) -> tuple[RefusalCode, str]:
    cells = question.view.cells
    policy = request.cpu_policy
    if not any(cell.dedicated if question.dedicated else cell.pool for cell in cells):
        return RefusalCode.NO_CPUS, f"no CPU of this host is for {policy} containers"
    together = request.numa_affinity == NUMAAffinity.REQUIRE
    if together and request.numa_nodes > len(cells):
        return (
            RefusalCode.TOO_FEW_CELLS,
            f"the host has {_count(len(cells), 'cell')} with CPUs: {request.numa_nodes} are wanted",
        )
    if question.dedicated and request.thread_policy == "require" and not any(cell.smt for cell in cells):
        return RefusalCode.NO_SMT, "no core of this host has sibling threads: thread policy require needs them"
    return _short(question) if together else _short_in_all(question)


Measure = tuple[RefusalCode, Callable[[CellView], int], int, str]
"""A code, what a cell has of the thing, which of a part's two amounts is compared, and words for it."""


def _measures(question: Question) -> list[Measure]:
    """What a part needs of a cell, in the order in which refusals name it."""
    held = question.held
    policy = question.request.thread_policy
    pages = question.page_kib
    memory: Measure = (
        (RefusalCode.MEMORY, question.reach, 1, "MiB")
        if pages is None
        else (RefusalCode.PAGES, question.reach, 1, f"pages of {pages} KiB")
    )
    if not question.dedicated:
        return [(RefusalCode.SHARED_POOL, question.capacity, 0, "CPUs left in the shared pool"), memory]
    on = "cores of their own" if policy == "isolate" else "whole cores"
    return [
        (RefusalCode.CPUS, lambda cell: (cell.dedicated & ~held).bit_count(), 0, "CPUs"),
        (RefusalCode.CORES, lambda cell: capacity(cell, held, policy, _UNBOUNDED), 0, f"CPUs on {on}"),
        (RefusalCode.SHARED_FLOOR, question.capacity, 0, "CPUs beside those its shared containers need"),
        memory,
    ]


def _short(question: Question) -> tuple[RefusalCode, str]:
    """The reason when every part must have a cell of its own."""
    cells = question.view.cells
    parts = [(cpus, question.need(mib)) for cpus, mib in question.request.parts]
    for code, has, which, words in _measures(question):
        if which == 1 and not question.strict:
            needed = sum(need for _, need in parts)
            if needed > question.anywhere:
                return code, f"the host has {question.anywhere} {words} free: {needed} are wanted"
            continue
        amounts = sorted(((max(0, has(cell)), -cell.index) for cell in cells), reverse=True)
        for position, wanted in enumerate(sorted((part[which] for part in parts), reverse=True)):
            if amounts[position][0] < wanted or (which == 0 and has(cells[-amounts[position][1]]) < 0):
                return code, _too_little(question, amounts, position, wanted, which, words)
    if len(set(parts)) > 1:
        return RefusalCode.SHAPE, "each part fits on some cell, but not all parts on different cells at once"
    return RefusalCode.APART, _apart(question, *parts[0])


def _too_little(
    question: Question, amounts: list[tuple[int, int]], position: int, wanted: int, which: int, words: str
) -> str:
    cells = question.view.cells
    best = amounts[0][0]
    amount = _amount(question, wanted, which)
    if position == 0:
        cell = cells[-amounts[0][1]].id
        return f"no cell has {amount} {words} free: best is cell {cell} with {_amount(question, best, which)}"
    have = sum(1 for has, _ in amounts if has >= wanted)
    return f"{_count(have, 'cell')} of {len(cells)} can give {amount} {words} free: {position + 1} are wanted"


def _amount(question: Question, amount: int, which: int) -> str:
    return f"{amount / MICRO:g}" if which == 0 and not question.dedicated else str(amount)


def _apart(question: Question, cpus: int, need: int) -> str:
    able = [cell.id for cell in question.view.cells if question.cpu_offer(cell, cpus) is not None]
    roomy = [cell.id for cell in question.view.cells if question.remembers(cell, need)]
    unit = "MiB" if question.page_kib is None else f"pages of {question.page_kib} KiB"
    return (
        f"CPUs and memory are free on different cells: {_amount(question, cpus, 0)} CPUs on {_ids(able)},"
        f" {need} {unit} on {_ids(roomy)}"
    )


def _ids(cells: Sequence[int]) -> str:
    return ("cell " if len(cells) == 1 else "cells ") + ", ".join(str(cell) for cell in cells)


def _short_in_all(question: Question) -> tuple[RefusalCode, str]:
    """The reason when any cells would have done."""
    request = question.request
    totals = (
        int(request.cpus) if question.dedicated else round(request.cpus * MICRO),
        question.need(request.memory_mib),
    )
    for code, has, which, words in _measures(question):
        if which == 1 and not question.strict:
            have = question.anywhere
        else:
            have = sum(max(0, has(cell)) for cell in question.view.cells)
        if have < totals[which]:
            there, wanted = _amount(question, have, which), _amount(question, totals[which], which)
            return code, f"all cells together have {there} {words} free: {wanted} are wanted"
    if not question.dedicated:
        return RefusalCode.SHARED_POOL, "the shared pool is empty"
    return RefusalCode.APART, "CPUs and memory are free, but not within reach of each other"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
