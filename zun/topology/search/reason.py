# SPDX-License-Identifier: Apache-2.0
"""Find the first condition that rules out every choice, and say it in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from zun.topology import amounts
from zun.topology.cache_control import CacheControl, Part
from zun.topology.device_request import DevicePolicy, DeviceRequest, DeviceSame
from zun.topology.device_view import DeviceView, rivals
from zun.topology.devices import Device
from zun.topology.host_topology import HostTopology, view_of
from zun.topology.refusal import Refusal, RefusalCode, Wanted
from zun.topology.request import MICRO, PlacementRequest
from zun.topology.search.cores import capacity
from zun.topology.search.links import maximal_cliques
from zun.topology.search.nearest import Fits, weaker
from zun.topology.search.question import Question
from zun.topology.search.steps import STEPS, Steps
from zun.topology.usage import Usage
from zun.topology.view import CellView

_UNBOUNDED = 1 << 62
_MOST_NODES = 1024
"""The largest MAX_NUMNODES of any kernel configuration."""


def refused(
    topology: HostTopology, usage: Usage, request: PlacementRequest, questions: Sequence[Question]
) -> Refusal:
    """Return the refusal of a request that fits in no page size."""
    page_kib = questions[-1].page_kib if questions else None
    # A request for more cells than any machine has is not split into parts.
    parts = request.parts if request.numa_nodes <= _MOST_NODES else ()
    code, message = _unfit(request, view_of(topology, request.isolation).cells) or (
        _reason(questions[-1]) if questions else (RefusalCode.PAGE_SIZE, _no_such_pages(topology, request))
    )
    return _refusal(topology, usage, request, code, message, page_kib, parts)


def refused_devices(
    topology: HostTopology, usage: Usage, request: PlacementRequest, fits: Fits, page_kib: int | None
) -> Refusal:
    """Return the refusal of a request that fits without its devices."""
    message = _devices_short(topology, usage, request, fits)
    return _refusal(topology, usage, request, RefusalCode.DEVICES, message, page_kib, request.parts)


def refused_cache(
    topology: HostTopology, usage: Usage, request: PlacementRequest, page_kib: int | None
) -> Refusal:
    """Return the refusal of a request that fits without its part of the caches."""
    message = _cache_short(topology.cache_control, usage, request)
    return _refusal(topology, usage, request, RefusalCode.CACHE, message, page_kib, request.parts)


def _cache_short(control: CacheControl, usage: Usage, request: PlacementRequest) -> str:
    part = control.part(request)
    if not control:
        return "the host gives no parts of its L3 caches and memory bandwidth"
    if part.ways > control.ways or part.bandwidth > control.bandwidth:
        return f"{part} of an L3 are wanted: the host gives at most {Part(control.ways, control.bandwidth)}"
    left = usage.cache_left(control)
    if not any(any(each) for _, each in left):
        return f"nothing is left of any L3, or {_count(control.groups, 'container')} with a part, the most, run here"
    cache, most = max(left, key=lambda each: (min(each[1].ways, part.ways), min(each[1].bandwidth, part.bandwidth)))
    where = f"most is left of that of CPUs {cache}, {most}"
    return f"no L3 with the CPUs and memory has {part} left: {where}"


def unproven(topology: HostTopology, usage: Usage, request: PlacementRequest, page_kib: int | None) -> Refusal:
    """Return the refusal of a request for which the search found no place within its steps."""
    advice = "devices or cells, or for weaker conditions on devices" if request.devices else "cells, or for equal parts"
    message = (
        f"no place was found within {STEPS} steps of search, and it is not proven that there is none: ask for fewer "
        f"{advice}"
    )
    return _refusal(topology, usage, request, RefusalCode.UNPROVEN, message, page_kib, request.parts)


def _refusal(
    topology: HostTopology, usage: Usage, request: PlacementRequest, code: RefusalCode, message: str,
    page_kib: int | None, parts: Sequence[tuple[int, int]],
) -> Refusal:
    wanted = tuple(_wanted(request, cpus, mib, page_kib) for cpus, mib in parts)
    return Refusal(code, message, wanted, _free=partial(usage.free, topology, request.isolation))


def _devices_short(topology: HostTopology, usage: Usage, request: PlacementRequest, fits: Fits) -> str:
    """Return the message for devices that do not serve: too few, ruled out by a condition, or wanted twice."""
    request = replace(request, devices=tuple(each for each in request.devices if each.count))
    every, free = topology.device_view.devices, usage.free_devices(topology)
    asked = [(each, [device for device in free if each.admits(device)]) for each in request.devices]
    for each, devices in asked:
        if len(devices) < each.count:
            able = [device for device in every if each.admits(device)]
            short = f"{len(devices)} of {len(able)} devices {each.name} are free: {each.count} are wanted"
            return f"{short}{_of_shares(every, able, each)}{_excluded(topology.device_view, usage, able)}"
    fewer = [
        replace(request, devices=(*request.devices[:row], weaker(each, DevicePolicy.NONE), *request.devices[row + 1 :]))
        for row, each in enumerate(request.devices)
    ]
    there = [f"{each.name}: {_where(topology.device_view, devices)}" for each, devices in asked]
    loose = replace(request, device_same=DeviceSame.NONE)
    if request.device_same in (DeviceSame.SWITCH, DeviceSame.CELL) and fits(loose):
        words = f"the free devices do not share a {request.device_same} as device_same wants"
        return f"{words}, where CPUs and memory are free: {'; '.join(there)}"
    if request.device_same == DeviceSame.LINK and fits(loose):
        return f"{_unlinked(topology.device_view, asked)}: {'; '.join(there)}"
    for row, (each, other) in enumerate(zip(request.devices, fewer, strict=True)):
        if other != request and fits(other):
            return f"policy {each.numa_policy} rules out free devices for every place of the container: {there[row]}"
    anywhere = replace(loose, devices=tuple(weaker(each, DevicePolicy.NONE) for each in request.devices))
    if anywhere != request and fits(anywhere):
        return f"the policies of the devices rule out every place of the container: {'; '.join(there)}"
    total = sum(each.count for each in request.devices)
    apart = rivals({device.address: device for _, devices in asked for device in devices}.values())
    why = ", and some cannot be in one container" if apart else ""
    return f"the free devices cannot serve all requests at once, for {total} in all{why}: {'; '.join(there)}"


def _excluded(view: DeviceView, usage: Usage, devices: Sequence[Device]) -> str:
    """Return the end of a sentence: which of the devices nobody holds, but a held one rules out. Empty without any."""
    taken = view.taken(sorted(usage.held_devices, key=str))
    holders = [(each.address, taken.get(each.address, each.address)) for each in devices]
    pairs = [(address, holder) for address, holder in holders if address != holder]
    more = f"; so are {len(pairs) - 1} more" if len(pairs) > 1 else ""
    return f"; {view.why_taken(*pairs[0])}{more}" if pairs else ""


def _unlinked(view: DeviceView, asked: Sequence[tuple[DeviceRequest, Sequence[Device]]]) -> str:
    """Return how many of the free devices GPU links join at most, if that is why they do not serve."""
    free = {device.address for _, devices in asked for device in devices if view.can_link(device)}
    steps = Steps()
    most = max(map(len, maximal_cliques(sorted(free), view.linked, steps)), default=0)
    wanted = sum([each.count for each, devices in asked if all(map(view.can_link, devices))])
    kinds = "NVLink or xGMI, which device_same link wants"
    if most < 2:
        return f"no GPU link ({kinds}) joins two of the free devices"
    if most < wanted and not steps.cut:
        return f"GPU links ({kinds}) join at most {most} of the free devices all to all, and {wanted} are wanted"
    return f"the free devices that GPU links ({kinds}) join all to all do not serve, where CPUs and memory are free"


def _of_shares(every: Sequence[Device], able: Sequence[Device], request: DeviceRequest) -> str:
    """Return what the user must know of shared devices where the devices ``able`` are too few, or nothing."""
    if request.count > 1 and any(device.shared > 1 for device in able):
        return ", each another device, because a container has one share of a device at most"
    others = [device for device in every if device.shared > 1 and request.admits(replace(device, shared=1))]
    if others and not able:
        names = ", ".join(sorted({str(device.resource_class) for device in others}))
        return f". The {len(others)} shared ones are for requests that name the resource class {names}"
    return ""


def _where(view: DeviceView, devices: Sequence[Device]) -> str:
    """Return how many devices are free on which cells. Example: "3 free, 2 on cell 0, 1 on no known cell".

    Of a node without CPUs the nearest cells are named: "on node 2, nearest to cell 0".
    """
    counts = Counter([device.cell for device in devices])
    places = sorted(counts, key=lambda cell: (cell is None, cell))
    words = [f"{counts[cell]} on {_place(view, cell)}" for cell in places]
    return f"{len(devices)} free, {', '.join(words)}" if len(words) > 1 else f"free are {words[0]}"


def _place(view: DeviceView, node: int | None) -> str:
    if node is None:
        return "no known cell"
    homes = view.homes.get(node, ())
    return f"cell {node}" if node in homes or not homes else f"node {node}, nearest to {_ids(homes)}"


def _wanted(request: PlacementRequest, cpus: int, mib: int, page_kib: int | None) -> Wanted:
    return Wanted(cpus if request.dedicated else cpus / MICRO, mib, page_kib)


def _no_such_pages(topology: HostTopology, request: PlacementRequest) -> str:
    """Return the message for a page size that the host does not have."""
    sizes = sorted({size for cell in topology.cells for size, count in cell.pages.items() if count})
    there = ", ".join(f"{size} KiB" for size in sizes) or "none"
    wanted = "huge pages" if request.page_size == "large" else f"pages of {request.page_size} KiB"
    return f"the host has no {wanted}: its huge pages are {there}"


def _unfit(request: PlacementRequest, cells: Sequence[CellView]) -> tuple[RefusalCode, str] | None:
    """Return code and message if even the empty host cannot take the request, pages apart, else None."""
    if not any(cell.dedicated if request.dedicated else cell.pool for cell in cells):
        if request.isolation == "isolated":
            return RefusalCode.NO_CPUS, "the kernel isolates no CPU of this host that is for dedicated containers"
        kind = "dedicated" if request.dedicated else "shared"
        return RefusalCode.NO_CPUS, f"no CPU of this host is for {kind} containers"
    if request.numa_affinity == "require" and request.numa_nodes > len(cells):
        have = _count(len(cells), "cell")
        return RefusalCode.TOO_FEW_CELLS, f"the host has {have} with CPUs: {request.numa_nodes} are wanted"
    if request.dedicated and request.thread_policy == "require" and not any(cell.wide_firsts for cell in cells):
        return RefusalCode.NO_SMT, "no core of this host has sibling threads: thread policy require needs them"
    return None


def _reason(question: Question) -> tuple[RefusalCode, str]:
    """Return code and message for a request that a less full host of this kind might take."""
    return _short(question) if question.request.numa_affinity == "require" else _short_in_all(question)


class Measure(NamedTuple):
    """An amount that cells have and parts of a request need, for example free CPUs."""

    code: RefusalCode
    of: Callable[[CellView], int]
    """Returns the amount of a cell, negative if the cell cannot even serve a need of 0."""
    which: int
    """Position in a part of the need to compare: 0 is CPUs, 1 is memory."""
    words: str


def _measures(question: Question) -> list[Measure]:
    """Return the measures of a request in the order in which refusals name them."""
    held, rules, pages = question.barred, question.rules, question.page_kib
    by_core = rules._replace(keep="")
    if pages is None:
        memory = Measure(RefusalCode.MEMORY, question.reach, 1, "MiB free")
    else:
        memory = Measure(RefusalCode.PAGES, question.reach, 1, f"pages of {pages} KiB free")
    if not question.dedicated:
        return [Measure(RefusalCode.SHARED_POOL, question.capacity, 0, "CPUs left in the shared pool"), memory]
    cores = "cores of their own" if rules.policy == "isolate" else "whole cores"
    place = "cells" if rules.keep == "node" else "L3 caches"
    beside = "CPUs free beside those that shared containers need"
    floors = [Measure(RefusalCode.SHARED_FLOOR, question.capacity, 0, beside)]
    if question.demand:
        usage, view = question.usage, question.view
        wanted = amounts.text(question.demand / MICRO)
        floors = [
            Measure(
                RefusalCode.SHARED_FLOOR, lambda cell: capacity(cell, held, rules, usage.budget(view, cell)), 0, beside
            ),
            Measure(
                RefusalCode.SHARED_POOL, question.capacity, 0,
                f"CPUs free beside a shared pool with room for {wanted} CPUs",
            ),
        ]
    return [
        Measure(RefusalCode.CPUS, lambda cell: (cell.dedicated & ~held).bit_count(), 0, "CPUs free"),
        Measure(
            RefusalCode.CORES, lambda cell: capacity(cell, held, by_core, _UNBOUNDED), 0, f"CPUs free on {cores}"
        ),
        Measure(
            RefusalCode.ISOLATION, lambda cell: capacity(cell, held, rules, _UNBOUNDED), 0,
            f"CPUs free on {cores} in {place} that are nobody else's",
        ),
        *floors,
        memory,
    ]


def _short(question: Question) -> tuple[RefusalCode, str]:
    """Return code and message if every part must have a cell of its own."""
    cells = question.view.cells
    parts = [(cpus, question.need(mib)) for cpus, mib in question.request.parts]
    for measure in _measures(question):
        if measure.which == 1 and not question.strict:
            needed = sum(need for _, need in parts)
            if needed > question.anywhere:
                return measure.code, f"the host has {question.anywhere} {measure.words}: {needed} are wanted"
            continue
        amounts = sorted(((measure.of(cell), -cell.id) for cell in cells), reverse=True)
        wishes = sorted((part[measure.which] for part in parts), reverse=True)
        for (amount, _), wanted in zip(amounts, wishes, strict=False):
            if amount < wanted:
                count = sum(wish >= wanted for wish in wishes)
                return measure.code, _too_little(question, measure, amounts, wanted, count)
    if question.lends and all(
        sum(question.offer(cell, *part) is not None for cell in cells) >= parts.count(part) for part in parts
    ):
        return RefusalCode.SHAPE, "each part fits on some cell, but cells without memory need that of other cells"
    if len(set(parts)) > 1:
        return RefusalCode.SHAPE, "each part fits on some cell, but not all parts on different cells at once"
    return RefusalCode.APART, _apart(question, *parts[0])


def _too_little(
    question: Question, measure: Measure, amounts: list[tuple[int, int]], wanted: int, count: int
) -> str:
    """Return the message if fewer than ``count`` cells have the ``wanted`` amount.

    ``amounts`` are (amount, minus cell id), largest first.
    """
    amount = _amount(question, wanted, measure.which)
    words = f"{amount} {measure.words}"
    if amount == "1" and measure.words.startswith("CPUs "):
        words = words.replace("CPUs", "CPU", 1)
    most, cell_id = amounts[0]
    if most < wanted:
        best = _amount(question, max(0, most), measure.which)
        return f"no cell has {words}: best is cell {-cell_id} with {best}"
    have = sum(1 for has, _ in amounts if has >= max(0, wanted))
    return f"only {have} of {len(amounts)} cells can give {words}: {count} are wanted"


def _amount(question: Question, amount: int, which: int) -> str:
    return amounts.text(amount / MICRO) if which == 0 and not question.dedicated else str(amount)


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
    """Return code and message if the parts may be on any cells."""
    request = question.request
    totals = (
        int(request.cpus) if question.dedicated else round(request.cpus * MICRO),
        question.need(request.memory_mib),
    )
    cells = [cell for cell in question.view.cells if question.capacity(cell) >= 0]
    if not cells:
        return RefusalCode.SHARED_POOL, "the shared pool is empty"
    for measure in _measures(question):
        if measure.which == 1:
            have = question.reach_together(cells) if question.strict else question.anywhere
        else:
            have = sum(measure.of(cell) for cell in cells)
        if have < totals[measure.which]:
            there, wanted = (_amount(question, amount, measure.which) for amount in (have, totals[measure.which]))
            some = measure.which == 1 and len(cells) < len(question.view.cells)
            where = "the cells of the shared pool" if some else "all cells"
            return measure.code, f"{where} together have {there} {measure.words}: {wanted} are wanted"
    raise AssertionError("all cells together would serve, yet no set of them does")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
