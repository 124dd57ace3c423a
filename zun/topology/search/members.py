# SPDX-License-Identifier: Apache-2.0
"""One plan for several requests that belong together: the members of a capsule whose containers differ.

``plan`` places one member after the other, each beside those before it, and joins what they get. If a member gets no
place, another choice is tried for the member before it: another cell, other pages, other devices, and other CPUs of the
same cell where these can matter to somebody later. The members who can do with least come first: isolation ``l3`` and
``node``, then whole cores, then any CPUs of one cell, then several cells, and at last the shared pool.

The search finds a place if there is one, as long as it has steps and each member with CPUs of its own is on one cell
with memory of its own. Of a member over several cells, or with memory of other cells, some choices are tried only.
If the place has several cells, a second search with few steps looks for a better set of cells.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, combinations
from math import comb

from zun.topology import amounts
from zun.topology.cpuset import CpuSet
from zun.topology.devices import Device
from zun.topology.host_topology import HostTopology, view_of
from zun.topology.placement import Plan
from zun.topology.refusal import Refusal, RefusalCode, Wanted
from zun.topology.request import MICRO, PlacementRequest
from zun.topology.search.steps import FURTHER_STEPS, Steps
from zun.topology.usage import Usage
from zun.topology.view import CellView, HostView

PLAN_STEPS = 50
"""Steps that the plan of one member counts for, beside those of its own search: about its time on a small host."""

NEARER_STEPS = 5_000
"""Limit on the steps of the search for a better joined plan than the first one: some 30 sets of cells for a capsule of
three members."""

MOST_SETS = 2_000
"""The most sets of so many cells that are compared: all sets of four of the sixteen cells of a large host, for example.
Twenty-four cells have 735,471 sets of eight."""

Planner = Callable[[HostTopology, Usage, PlacementRequest, Steps], Plan | None]
"""Plans one member: ``allocator.granted``."""


def plan_members(
    topology: HostTopology, usage: Usage, request: PlacementRequest, planner: Planner, steps: Steps
) -> Plan | None:
    """Return the joined plan of the members of ``request``, or None. If None and ``steps.cut``, nothing is proven."""
    return _Search(topology, usage, request, planner, steps).plan()


def refused_members(
    topology: HostTopology,
    usage: Usage,
    request: PlacementRequest,
    planner: Planner,
    plan: Callable[[HostTopology, Usage, PlacementRequest], Plan | Refusal],
    steps: Steps,
) -> Refusal:
    """Return why the members of ``request`` have no plan together. ``steps`` are those of the search that found none.

    The reasons are, in this order: one member has no place on its own; all together want too much; the search ended at
    its limit; they fit, but without ``member_same`` only; each fits, but not all at once.
    """
    code, words, wanted = _why(topology, usage, request, planner, plan, steps)
    return Refusal(
        code,
        words,
        wanted,
        _free=partial(usage.free, topology),
        planned=steps.spent,
        _spent=lambda: steps.spent,
        _find=partial(_nearest, topology, usage, request, planner, plan, steps),
    )


def _why(
    topology: HostTopology,
    usage: Usage,
    request: PlacementRequest,
    planner: Planner,
    plan: Callable[[HostTopology, Usage, PlacementRequest], Plan | Refusal],
    steps: Steps,
) -> tuple[RefusalCode, str, tuple[Wanted, ...]]:
    for number, member in enumerate(request.members, 1):
        alone = plan(topology, usage, member)
        if isinstance(alone, Refusal):
            return alone.code, f"{_named(request, number)}: {alone.message}", alone.wanted
    wanted = tuple([Wanted(member.cpus, member.memory_mib) for member in request.members])
    view = view_of(topology)
    free = (view.dedicated & ~usage.held_mask).bit_count()
    own = sum([member.own_cpus for member in request.members if member.isolation != "isolated"])
    if own > free:
        return RefusalCode.CPUS, f"the containers want {own} dedicated CPUs together, and {free} are free", wanted
    room = sum([usage.shared_room(view, cell) for cell in view.cells])
    if request.demand > room:
        asked, left = amounts.text(request.demand / MICRO), amounts.text(room / MICRO)
        words = f"the containers want {asked} CPUs of the shared pool, and it has {left}"
        return RefusalCode.SHARED_POOL, words, wanted
    mib = sum([member.memory_mib for member in request.members if member.dedicated and member.ordinary_pages])
    left_mib = sum([max(0, usage.free_memory(view, node, None, overcommit=False)) for node in view.small_mib])
    if mib > left_mib:
        words = f"the containers with CPUs of their own want {mib} MiB together, and {left_mib} are free"
        return RefusalCode.MEMORY, words, wanted
    if steps.cut:
        words = "the search for a place of all containers together ended at its limit of steps and found none"
        return RefusalCode.UNPROVEN, words, wanted
    if request.member_same != "none":
        loose = replace(request, member_same="none")
        if plan_members(topology, usage, loose, planner, Steps(FURTHER_STEPS)) is not None:
            if request.member_same == "switch":
                return RefusalCode.DEVICES, "the containers fit, but not with all devices under one switch", wanted
            what = "cell" if request.member_same == "cell" else "L3 cache"
            return RefusalCode.SHAPE, f"the containers fit, but not with all dedicated CPUs in one {what}", wanted
    return RefusalCode.SHAPE, "each of the containers fits, but not all of them at once", wanted


def _named(request: PlacementRequest, number: int) -> str:
    """Return the words for one member. Examples: "2 CPUs and 512 MiB for capsule-web-nginx", or without a title "2 CPUs
    and 512 MiB, part 1 of 3 of the capsule".
    """
    member = request.members[number - 1]
    asked = f"{amounts.cpus(amounts.text(member.cpus))} and {member.memory_mib} MiB"
    if member.title:
        return f"{asked} for {member.title}"
    return f"{asked}, part {number} of {len(request.members)} of the capsule"


def _nearest(
    topology: HostTopology,
    usage: Usage,
    request: PlacementRequest,
    planner: Planner,
    plan: Callable[[HostTopology, Usage, PlacementRequest], Plan | Refusal],
    steps: Steps,
) -> PlacementRequest | None:
    """Return a request that fits and is near: in a larger part of the host, or with less for one member, or None."""
    further = Steps(FURTHER_STEPS)

    def fits(nearer: PlacementRequest) -> bool:
        return plan_members(topology, usage, nearer, planner, further) is not None

    try:
        for same in {"l3": ("cell", "none"), "cell": ("none",), "switch": ("none",)}.get(request.member_same, ()):
            nearer = replace(request, member_same=same)
            if fits(nearer):
                return nearer
        members = request.members
        for number in sorted(range(len(members)), key=lambda each: (-members[each].cpus, each)):
            others = [*members[:number], *members[number + 1 :]]
            beside = usage
            if others:
                placed = plan_members(topology, usage, PlacementRequest.of_members(others), planner, further)
                if placed is None:
                    continue
                beside = usage.with_claim("the other members", placed)
            answer = plan(topology, beside, members[number])
            less = answer.nearest if isinstance(answer, Refusal) else None
            if less is None or not _only_smaller(less, members[number]):
                continue
            nearer = PlacementRequest.of_members(
                [*members[:number], less, *members[number + 1 :]], request.member_same
            )
            if fits(nearer):
                return nearer
        return None
    finally:
        steps.spend(further.spent)


def _only_smaller(less: PlacementRequest, member: PlacementRequest) -> bool:
    """Return whether two requests differ in their amounts only."""
    return less == replace(
        member,
        cpus=less.cpus,
        memory_mib=less.memory_mib,
        dedicated_cpus=less.dedicated_cpus,
        numa_cpus=less.numa_cpus,
        numa_mem=less.numa_mem,
    )


@dataclass(frozen=True, slots=True)
class _Room:
    """What a member may use: CPUs (mask), and all devices but those ``banned``."""

    cpus: int
    banned: frozenset[str] = frozenset()


class _Search:
    """The search for a place of all members at once."""

    def __init__(
        self, topology: HostTopology, usage: Usage, request: PlacementRequest, planner: Planner, steps: Steps
    ) -> None:
        self._topology, self._usage, self._request = topology, usage, request
        self._planner, self._steps = planner, steps
        self._order = sorted(range(len(request.members)), key=self._rank)
        self._members = [request.members[number] for number in self._order]
        self._cut_out: dict[tuple[HostTopology, _Room], HostTopology] = {}
        self._every = (topology.dedicated_cpus | topology.isolated_cpus).mask

    def plan(self) -> Plan | None:
        """Return the joined plan, or None."""
        for topology in self._hosts():
            for place in self._places(topology):
                if self._steps.over:
                    self._steps.cut = True
                    return None
                found = self._fill(0, self._usage, topology, place, ())
                if found is not None:
                    return self._nearer(topology, found)
        return None

    def _nearer(self, topology: HostTopology, found: Plan) -> Plan:
        """Return a joined plan on fewer cells than ``found`` or on cells nearer to each other, or ``found``.

        The sets of cells are tried in the order of their cost, so the first one that serves is the best. Of these plans
        only one with devices at most as far as those of ``found`` is taken.
        """
        view = view_of(topology)
        own = found.dedicated_cpus.mask
        on = tuple([cell.index for cell in view.cells if cell.online & own])
        if len(on) < 2:
            return found  # each cell was tried alone, the best one first
        most, far, steps = self._cost(view, on), _far(view, found), self._steps
        self._steps = Steps(min(NEARER_STEPS, steps.left))
        try:
            for count in range(2, len(on) + 1):
                for cost, cells in sorted((self._cost(view, each), each) for each in self._sets(view, count)):
                    if cost >= most or self._steps.over:
                        break
                    place = sum([view.cells[each].online for each in cells]) & self._every
                    nearer = self._fill(0, self._usage, topology, place, ())
                    if nearer is not None and _far(view, nearer) <= far:
                        return nearer
                if self._steps.over:
                    break
            return found
        finally:
            steps.spend(self._steps.spent)
            self._steps = steps

    def _sets(self, view: HostView, count: int) -> Iterable[tuple[int, ...]]:
        """Return the sets of so many cells (positions) with free CPUs.

        If these are more than MOST_SETS, return each cell with those nearest to it. Example: 24 sets of 24 cells.
        """
        left = {cell.index: free for cell in view.cells if (free := self._left(cell))}
        if comb(len(left), count) <= MOST_SETS:
            return combinations(left, count)

        def around(cell: int) -> tuple[int, ...]:
            near, sign = view.distances[cell], -1 if view.spread else 1
            order = sorted(left, key=lambda each: (each != cell, near[each], sign * left[each]))
            return tuple(sorted(order[:count]))

        return {around(cell) for cell in left}

    def _cost(self, view: HostView, cells: tuple[int, ...]) -> tuple[int, int, int]:
        """Return a key that sorts sets of cells: fewest, nearest to each other, fullest (emptiest if so configured)."""
        apart = sum([view.distances[a][b] for a, b in combinations(cells, 2)])
        left = sum([self._left(view.cells[each]) for each in cells])
        return len(cells), apart, -left if view.spread else left

    def _left(self, cell: CellView) -> int:
        return (cell.online & self._every & ~self._usage.held_mask).bit_count()

    def _rank(self, number: int) -> tuple[int, float, int, int]:
        member = self._request.members[number]
        if not member.dedicated:
            stage = 4
        elif not _on_one_cell(member):
            stage = 3
        else:
            stage = 0 if member.isolation in ("l3", "node") else 1 if _by_core(member) else 2
        return stage, -member.own_cpus, -member.memory_mib, number

    # Where all members may be

    def _hosts(self) -> Iterator[HostTopology]:
        """Yield the host, or if all devices are to be under one switch, the host with those of each switch alone."""
        if self._request.member_same != "switch":
            yield self._topology
            return
        by_switch: dict[str, list[Device]] = {}
        for device in self._topology.devices:
            if device.switch is not None:
                by_switch.setdefault(device.switch, []).append(device)
        for _, devices in sorted(by_switch.items()):
            yield replace(self._topology, devices=tuple(devices))

    def _places(self, topology: HostTopology) -> Iterator[int]:
        """Yield the CPUs (mask) on which all own CPUs may be: of each part of the host that they must share.

        Without a wish, all on one cell is tried first, then anywhere. Those with too few free CPUs end at once.
        """
        own = [member for member in self._members if member.dedicated]
        if not own:
            yield self._every
            return
        view, same = view_of(topology), self._request.member_same
        parts = [
            group for cell in view.cells for group in (cell.cache_masks if same == "l3" else (cell.online,))
        ]
        free = {part: (part & self._every & ~self._usage.held_mask).bit_count() for part in parts}
        together = len(own) > 1 and all(m.numa_nodes == 1 or m.numa_affinity != "require" for m in own)
        if same in ("cell", "l3") or (together and len(parts) > 1):
            order = sorted(parts, key=lambda part: (-free[part] if view.spread else free[part], part & -part))
            yield from [part & self._every for part in order]
        if same not in ("cell", "l3"):
            yield self._every

    # One member after the other

    def _fill(
        self, depth: int, usage: Usage, topology: HostTopology, place: int, before: tuple[Plan, ...]
    ) -> Plan | None:
        """Return the joined plan with the members from ``depth`` on beside those ``before``, or None."""
        if depth == len(self._members):
            by_number = dict(zip(self._order, before, strict=True))
            joined = Plan.joined([by_number[number] for number in range(len(before))])
            return joined if self._usage.fits(self._topology, joined) is None else None
        if not self._may_fit(depth, usage, topology, place):
            return None
        for candidate in self._candidates(depth, usage, topology, place, before):
            beside = usage.with_claim(f"member {self._order[depth]}", candidate)
            found = self._fill(depth + 1, beside, topology, place, (*before, candidate))
            if found is not None:
                return found
            if self._steps.over:
                self._steps.cut = True
                return None
        return None

    def _may_fit(self, depth: int, usage: Usage, topology: HostTopology, place: int) -> bool:
        """Return False if the members from ``depth`` on certainly lack CPUs, counted only."""
        left = [member for member in self._members[depth:] if member.dedicated]
        free = place & ~usage.held_mask
        if sum([member.own_cpus for member in left]) > free.bit_count():
            return False
        cells = view_of(topology).cells
        if not all(any(_may_give(cell, free, member) for cell in cells) for member in left if _on_one_cell(member)):
            return False
        rooms = [(cell.online & free).bit_count() for cell in cells]
        sizes = sorted([member.own_cpus for member in left if _on_one_cell(member)], reverse=True)
        # Example: three members of 8 CPUs or more have no place on two cells with 13 free CPUs each.
        return all(sum([room // size for room in rooms]) >= count for count, size in enumerate(sizes, 1))

    def _candidates(
        self, depth: int, usage: Usage, topology: HostTopology, place: int, before: Sequence[Plan]
    ) -> Iterator[Plan]:
        """Yield every plan for the member at ``depth`` that can make a difference to those after it, best first."""
        member, later = self._members[depth], self._members[depth + 1 :]
        if not later:
            found = self._granted(topology, usage, member, _Room(place) if member.dedicated else None)
            return iter(()) if found is None else iter((found,))
        if not _on_one_cell(member):
            return self._others(topology, usage, member, later, _Room(place), None)
        free = place & ~usage.held_mask
        cells = [cell for cell in view_of(topology).cells if _may_give(cell, free, member)]
        near = sum([1 << cell.index for cell in cells if any(cell.id in plan.cpu_cells for plan in before)])
        order = sorted(cells, key=lambda cell: self._nearness(cell, near, usage, topology))
        return chain.from_iterable(
            self._others(topology, usage, each, later, _Room(place & cell.online), cell)
            for cell in order
            for each in self._in_one_size(topology, member, later)
        )

    def _nearness(self, cell: CellView, near: int, usage: Usage, topology: HostTopology) -> tuple[int, int, int]:
        """Return a key that sorts cells: nearest to those (mask of positions) of members before, then the fullest."""
        view = view_of(topology)
        far = sum([view.distances[cell.index][other.index] for other in view.cells if near >> other.index & 1])
        free = (cell.dedicated & ~usage.held_mask).bit_count()
        return (0 if near >> cell.index & 1 else 1 + far, -free if view.spread else free, cell.id)

    def _in_one_size(
        self, topology: HostTopology, member: PlacementRequest, later: Sequence[PlacementRequest]
    ) -> list[PlacementRequest]:
        """Return the request in each size of its pages, best first."""
        if member.page_size not in ("any", "large"):
            return [member]
        huge = sorted({s for cell in topology.cells for s, count in cell.pages.items() if count}, reverse=True)
        sizes: list[int | str] = [*huge, *(["small"] if member.page_size == "any" else [])]
        return [replace(member, page_size=size) for size in sizes]

    def _others(
        self,
        topology: HostTopology,
        usage: Usage,
        member: PlacementRequest,
        later: Sequence[PlacementRequest],
        room: _Room,
        cell: CellView | None,
    ) -> Iterator[Plan]:
        """Yield the best plan in ``room``, then those without some of its CPUs or devices, fewest first.

        Each other choice lacks a CPU or a device of the best one, so leaving them out one by one reaches all. Choices
        that differ in the ids of equal cores only are tried once.
        """
        waiting, seen, known = deque([room]), {self._kind(topology, usage, room)}, set()
        while waiting:
            room = waiting.popleft()
            found = self._granted(topology, usage, member, room if member.dedicated else replace(room, cpus=-1))
            if found is None:
                if self._steps.over:
                    return
                continue
            taken = _Room((found.dedicated_cpus | found.withheld).mask, frozenset(d.address for d in found.devices))
            kind = (self._kind(topology, usage, taken), *[(n, s.memory_mib) for n, s in found.cells.items()])
            if kind not in known:
                known.add(kind)
                yield found
            for less in self._without(topology, usage, member, later, room, taken, cell):
                kind_of_less = self._kind(topology, usage, less)
                if kind_of_less not in seen:
                    seen.add(kind_of_less)
                    waiting.append(less)

    def _without(
        self,
        topology: HostTopology,
        usage: Usage,
        member: PlacementRequest,
        later: Sequence[PlacementRequest],
        room: _Room,
        taken: _Room,
        cell: CellView | None,
    ) -> Iterator[_Room]:
        """Yield ``room`` without each of the CPUs, or devices, that ``taken`` has of it and that others could use."""
        if any(each.devices for each in later):
            for address in sorted(taken.banned):
                yield replace(room, banned=room.banned | {address})
        if not member.dedicated:
            return
        if cell is None:
            units: Iterable[int] = [each.online for each in view_of(topology).cells]
        elif not _matters(member, later, cell, usage) or member.isolation == "node":
            return
        elif member.isolation == "l3":
            units = cell.cache_masks
        else:
            units = cell.cores if _by_core(member) else [1 << cpu for cpu in CpuSet.from_mask(taken.cpus)]
        for unit in units:
            if unit & taken.cpus and unit & room.cpus:
                yield replace(room, cpus=room.cpus & ~unit)

    def _kind(self, topology: HostTopology, usage: Usage, room: _Room) -> tuple[object, ...]:
        """Return a value that is equal for rooms that differ in the ids of equal cores of one L3 group only."""
        cores: list[tuple[int, ...]] = []
        for cell in view_of(topology).cells:
            for number, cache in enumerate(cell.caches):
                for core in cache.cores:
                    if inside := core & room.cpus:
                        free = core & ~usage.held_mask
                        masks = (core, free, cell.dedicated & core, cell.pool & core, inside, cell.pool & inside,
                                 inside & free & cell.dedicated)
                        whole = int(core in cell.whole)
                        cores.append((cell.index, number, whole, *[mask.bit_count() for mask in masks]))
        return tuple(sorted(cores)), room.banned

    def _granted(
        self, topology: HostTopology, usage: Usage, member: PlacementRequest, room: _Room | None
    ) -> Plan | None:
        """Return the plan of one member in ``room``, or None."""
        if not self._steps.spend(PLAN_STEPS):
            return None
        return self._planner(topology if room is None else self._only(topology, room), usage, member, self._steps)

    def _only(self, topology: HostTopology, room: _Room) -> HostTopology:
        """Return the host with the CPUs and devices of ``room`` alone. The shared pool stays as it is."""
        if room.cpus & self._every == self._every and not room.banned:
            return topology
        key = (topology, room)
        if key not in self._cut_out:
            devices = topology.devices
            if room.banned:
                devices = tuple([each for each in devices if each.address not in room.banned])
            cpus = topology.dedicated_set
            if room.cpus & self._every != self._every:
                cpus = CpuSet.from_mask(room.cpus & self._every)
            self._cut_out[key] = replace(topology, devices=devices, dedicated_set=cpus)
        return self._cut_out[key]


def _far(view: HostView, joined: Plan) -> int:
    """Return how far the devices of all parts are from the nearest cell that their part runs on, there and back."""
    return sum([
        min([view.cells[view.index[node]].apart.get(device.cell, view.beyond) for node in part.cpu_cells])
        for part in joined.parts
        for device in part.devices
        if device.cell is not None
    ])


def _on_one_cell(member: PlacementRequest) -> bool:
    """Return whether all CPUs of a member are on one cell, with the memory of this cell alone."""
    return (
        member.dedicated
        and member.numa_nodes == 1
        and member.numa_affinity == "require"
        and member.mempolicy == "strict"
    )


def _may_give(cell: CellView, free: int, member: PlacementRequest) -> bool:
    """Return False if ``cell`` certainly has too few of the ``free`` CPUs (mask) for a member, counted only."""
    if member.isolation == "isolated" or not _by_core(member):
        return (cell.online & free).bit_count() >= member.own_cpus
    cores = [core.bit_count() for core in cell.whole if core & free == core]
    return (len(cores) if member.thread_policy == "isolate" else sum(cores)) >= member.own_cpus


def _by_core(member: PlacementRequest) -> bool:
    """Return whether a member takes whole cores."""
    return member.whole_cores or member.isolation in ("core", "l3", "node")


def _matters(member: PlacementRequest, later: Sequence[PlacementRequest], cell: CellView, usage: Usage) -> bool:
    """Return whether it can matter to those ``later`` which CPUs of ``cell`` a member gets, beside how many."""
    free = cell.dedicated & ~usage.held_mask
    if (in_pool := free & cell.pool) not in (0, free):
        return True  # of CPUs in the pool and others, each choice leaves the pool another number
    own = [each for each in later if each.dedicated]
    if member.isolation in ("l3", "node"):
        return bool(own or in_pool)
    alike = len({core.bit_count() for core in cell.cores if core & free}) < 2
    if any(each.isolation in ("l3", "node") or not _on_one_cell(each) for each in own):
        return True
    if any(map(_by_core, own)):
        return not (_by_core(member) and alike)
    return _by_core(member) and not alike and bool(own or in_pool)
