# SPDX-License-Identifier: Apache-2.0
"""``plan``: the one function that decides about CPUs and memory nodes. ``search/README.rst`` explains how."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from zun.topology.device_request import GivenDevice
from zun.topology.host_topology import HostTopology, view_of
from zun.topology.placement import Plan
from zun.topology.refusal import Refusal
from zun.topology.request import MemberSame, PlacementRequest
from zun.topology.search.booking import book, draw, draw_together
from zun.topology.search.cover import Cover
from zun.topology.search.devices import DeviceSearch
from zun.topology.search.members import plan_members, refused_members
from zun.topology.search.nearest import changes, further, nearest, without_devices
from zun.topology.search.own_cells import on_own_cells
from zun.topology.search.question import Question, Stocks
from zun.topology.search.reason import refused, refused_cache, refused_devices, unproven
from zun.topology.search.steps import Steps
from zun.topology.usage import Usage


def plan(topology: HostTopology, usage: Usage, request: PlacementRequest) -> Plan | Refusal:
    """Return the best place for ``request`` on this host, or a ``Refusal`` that says why there is none.

    The answer is deterministic: equal arguments get equal answers. It is exact unless the search is so large that its
    steps are used up: a refusal means that no choice of CPUs and cells can serve, or its code is ``UNPROVEN``.
    """
    if request.members:
        steps = Steps()
        found = plan_members(topology, usage, request, granted, steps)
        return found or refused_members(topology, usage, request, granted, plan, steps)
    if request.dedicated and not request.mixed:
        topology = usage.with_pool(topology)
    steps = Steps()
    questions = _questions(topology, usage, request, steps)
    found = _answer(questions)
    if found is not None:
        return found
    near = (topology, usage, request, granted, questions, steps)
    return replace(
        _refusal(topology, usage, request, questions, steps),
        planned=steps.spent,
        _spent=lambda: steps.spent,
        _find=partial(nearest, *near),
        _list=partial(changes, *near),
    )


def _refusal(
    topology: HostTopology, usage: Usage, request: PlacementRequest, questions: list[Question], steps: Steps
) -> Refusal:
    """Return why ``request`` has no plan: the condition without which it would have one, else what is short."""
    if request.wants_cache:
        without = plan(topology, usage, request.without_cache())
        if isinstance(without, Plan):
            return refused_cache(topology, usage, request, questions[-1].page_kib)
        steps.spend(without.planned)
        return without
    plain = Steps() if request.devices else steps
    fits_plain = bool(request.devices) and granted(topology, usage, without_devices(request), plain) is not None
    if (steps if fits_plain else plain).cut:
        return unproven(topology, usage, request, questions[-1].page_kib)
    if fits_plain:
        fits = further(topology, usage, granted, steps)
        return refused_devices(topology, usage, request, fits, questions[-1].page_kib)
    return refused(topology, usage, request, questions)


def page_sizes(topology: HostTopology, request: PlacementRequest) -> list[int | None]:
    """Return the page sizes to try, best first: KiB of huge pages, None for ordinary pages.

    The list is empty if the host has no pages of the size asked for.
    """
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


def granted(topology: HostTopology, usage: Usage, request: PlacementRequest, steps: Steps | None = None) -> Plan | None:
    """Return what ``plan`` returns, but None instead of a refusal, which takes time to word."""
    if request.members:
        return plan_members(topology, usage, request, granted, steps or Steps())
    if request.dedicated and not request.mixed:
        topology = usage.with_pool(topology)
    return _answer(_questions(topology, usage, request, steps or Steps()))


def _questions(topology: HostTopology, usage: Usage, request: PlacementRequest, steps: Steps) -> list[Question]:
    """Return the question of each page size; they share ``steps``."""
    view = view_of(topology, request.isolation)
    stocks: Stocks = {}
    devices = device_search(topology, usage, request, steps) if request.devices else None
    return [Question(view, usage, request, size, stocks, devices, steps) for size in page_sizes(topology, request)]


def device_search(
    topology: HostTopology, usage: Usage, request: PlacementRequest, steps: Steps | None = None
) -> DeviceSearch | None:
    """Return the search for the devices of ``request``, or None if the request is for no device."""
    if not any(each.count for each in request.devices):
        return None
    view = view_of(topology, request.isolation)
    return DeviceSearch(topology.device_view, view, usage.held_devices, request.devices, request.device_same, steps)


def devices_now(topology: HostTopology, request: PlacementRequest, taken: Plan) -> tuple[GivenDevice, ...] | None:
    """Return the devices of a plan as they serve ``request`` today, or None if they no longer do.

    The host may have changed since the plan was made: a device of the same address may be of another kind, on another
    cell or switch, or without a link. Whether the devices are free is for ``Usage.fits``.
    """
    own, offered = {each.address for each in taken.devices}, topology.device_view
    if sum([each.count for each in request.devices]) != len(own):
        return None
    if not own:
        return ()
    only = replace(offered, devices=tuple([device for device in offered.devices if device.address in own]))
    view = view_of(topology, request.isolation)
    search = DeviceSearch(only, view, (), request.devices, request.device_same)
    cells = sum([1 << view.index[node] for node in taken.cpu_cells if node in view.index])
    return None if search.cost(cells) is None else search.given(cells)


def with_devices_now(topology: HostTopology, request: PlacementRequest, taken: Plan) -> Plan | None:
    """Return ``taken`` with its devices as they serve ``request`` today, or None if they no longer do."""
    if not request.members:
        devices = devices_now(topology, request, taken)
        return None if devices is None else replace(taken, devices=devices)
    parts = []
    for member, part in zip(request.members, taken.parts, strict=True):
        today = with_devices_now(topology, member, part)
        if today is None:
            return None
        parts.append(today)
    switches = {topology.device_view.by_address[each.address].switch for part in parts for each in part.devices}
    if request.member_same == MemberSame.SWITCH and (len(switches) > 1 or None in switches):
        return None
    return replace(taken.joined(parts), generation=taken.generation)


def _answer(questions: list[Question]) -> Plan | None:
    """Return the best plan, or None."""
    return _in_its_shape(questions) or _in_few_cells(questions)


# The shape that is asked for


def _in_its_shape(questions: list[Question]) -> Plan | None:
    """Return a plan with one cell for each part of the request, in the first page size that serves, or None."""
    for number, question in enumerate(questions, 1):
        affinity = question.request.numa_affinity
        if affinity == "none":
            return None
        # Other page sizes, or any cells, may serve if this size and shape do not.
        searches_left = len(questions) - number + (affinity == "prefer")
        with question.steps.keeping(searches_left / (searches_left + 1) if question.limited else 0):
            taken = on_own_cells(question)
        if taken is not None:
            return book(question, taken, draw(question, taken))
    return None


# Any cells


def _in_few_cells(questions: list[Question]) -> Plan | None:
    """Return a plan over as few and as close cells as possible, whatever the shape of the request, or None.

    Of equally few cells, the first page size that serves decides.
    """
    if not questions or questions[0].request.numa_affinity == "require":
        return None
    covers = [Cover(question) for question in questions]
    for count in range(1, len(questions[0].view.cells) + 1):
        for cover in covers:
            taken = cover.best(count)
            if taken is not None:
                return book(cover.question, taken, draw_together(cover.question, taken))
    return None
