# SPDX-License-Identifier: Apache-2.0
"""The cheapest moves of containers within one host after which a request fits, or a cell is free.

A host may have enough CPUs for a request, but in pieces: two free CPUs on each of four cells do not hold a container of
four. The kernel can move a running container to other CPUs and its memory to other nodes, so ``rearrange`` looks for
containers whose move joins the pieces.

Each move is valid when it is made: the new claim fits beside all claims, that of the container itself among them, so
nothing is ever held twice and no move needs a later one. The answer has the least cost: MiB that must be copied, then
containers that are moved, then the distance between the cells of each moved container.

The search is A*. It takes the state with the least *bound*, which is the cost so far and the least that the rest can
cost, and then adds the states after one more move. As no bound is more than the true cost, the first state that reaches
the target is the best. Two things keep the search small:

* The rest costs at least the cheapest containers that must leave a cell before it has what is wanted (``_least``).
* A container that leaves a cell costs and frees the same wherever it goes. So a container waits with one bound for all
  its places, and places are planned only if that bound is the least.

If half of the steps are used up, the search gives up the proof. From then on it takes the state first that lacks
least, and of equal states the one whose free CPUs are on the fewest cells.

The place of a move is the plan of the container on some cells of the host: each cell for a container on one cell, each
pair for two, and the host without one of its cells for more. An answer is *proven* best among these moves. If the
request or a container has conditions on whole cores or caches, other CPUs of the same cells might allow further moves,
and states with equally many free CPUs on each core count as one.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from zun.topology.allocator import granted
from zun.topology.cpuset import CpuSet, union
from zun.topology.host_topology import HostTopology, view_of
from zun.topology.placement import Plan
from zun.topology.request import PlacementRequest
from zun.topology.usage import Usage

STEPS = 800
"""Plans that are made for one answer, half of them for the proof. A plan takes about a tenth of a millisecond."""

_MIB = 2**20
"""More containers than a host has. A cost is MiB * _MIB + containers, so that MiB count first: 10 MiB of 2 containers
are 10 * _MIB + 2."""

_NEVER = 2**80


@dataclass(frozen=True, slots=True)
class Move:
    """One step: ``owner`` leaves ``old`` for ``new``. Both are held until the container is moved."""

    owner: str
    old: Plan
    new: Plan

    @property
    def mib(self) -> int:
        """MiB that must be copied: the memory on nodes that the new plan does not have."""
        return sum(share.memory_mib for node, share in self.old.cells.items() if node not in self.new.mems)


@dataclass(frozen=True, slots=True)
class Rearrangement:
    """Moves in their order, and the claims after them. ``proven`` says that no cheaper moves reach the target."""

    moves: tuple[Move, ...]
    usage: Usage
    proven: bool = True

    @property
    def mib(self) -> int:
        return sum(each.mib for each in self.moves)

    @property
    def owners(self) -> frozenset[str]:
        return frozenset(each.owner for each in self.moves)


@dataclass(frozen=True, slots=True)
class Stuck:
    """No moves were found. ``proven`` says that there are none."""

    reason: str
    proven: bool


@dataclass(frozen=True, slots=True)
class Wanted:
    """The room that a target needs: ``cpus`` and ``mib`` free on each of ``count`` of the ``cells``.

    The host must have ``all_cpus`` and ``all_mib`` free in total.
    """

    cells: Sequence[int] = ()
    count: int = 0
    cpus: int = 0
    mib: int = 0
    all_cpus: int = 0
    all_mib: int = 0
    cores: bool = False
    """The target cares which cores and L3 caches are free, and not only how many CPUs."""


class Target(Protocol):
    """The goal of the moves."""

    def is_reached(self, topology: HostTopology, usage: Usage) -> bool: ...

    def wanted(self, topology: HostTopology) -> Wanted: ...


@dataclass(frozen=True, slots=True)
class Fits:
    """The request fits."""

    request: PlacementRequest

    def is_reached(self, topology: HostTopology, usage: Usage) -> bool:
        return granted(topology, usage, self.request) is not None

    def wanted(self, topology: HostTopology) -> Wanted:
        request = self.request
        if not request.dedicated or request.mixed or request.isolation == "isolated":
            return Wanted(cores=True)
        mib = request.memory_mib if request.ordinary_pages else 0
        total = Wanted(all_cpus=request.own_cpus, all_mib=mib, cores=_by_cores(request))
        if request.numa_affinity != "require":
            return total
        cells = [cell.id for cell in topology.cells if cell.cpus]
        own_memory = request.mempolicy == "strict" and len(cells) == len(topology.cells)  # other nodes lend memory
        cpus, least_mib = (min(amounts) for amounts in zip(*request.parts, strict=True))
        return replace(
            total, cells=cells, count=request.numa_nodes, cpus=cpus, mib=least_mib if mib and own_memory else 0
        )


@dataclass(frozen=True, slots=True)
class Free:
    """No container has CPUs or memory of ``cell``."""

    cell: int

    def is_reached(self, topology: HostTopology, usage: Usage) -> bool:
        return not any(self.cell in held.cells for _, held in usage)

    def wanted(self, topology: HostTopology) -> Wanted:
        cell = topology.cell(self.cell)
        cpus = len(cell.cpus & topology.dedicated_cpus)
        return Wanted([self.cell], 1, cpus, 0, cpus)


def rearrange(
    topology: HostTopology,
    usage: Usage,
    movable: Mapping[str, PlacementRequest],
    target: Target,
    *,
    steps: int = STEPS,
) -> Rearrangement | Stuck:
    """Return the cheapest moves after which ``target`` is reached, or why there are none.

    ``movable`` are the containers that may be moved, by owner, with the request of each. Containers with devices, and
    those on the shared pool, must not be among them. A target that is reached already gets no moves.
    """
    return _Search(topology, movable, target, steps).run(usage)


def _by_cores(request: PlacementRequest) -> bool:
    return request.whole_cores or request.isolation != "thread"


_Kind = tuple[int, int, int, tuple[tuple[int, int], ...]]


class _Part(NamedTuple):
    """The CPUs and memory of a movable container on one cell. ``cpus`` counts withheld CPUs too."""

    owner: str
    cpus: int
    mib: int
    cost: int
    """The least cost of a move that takes the part away."""
    kind: _Kind
    """Equal for containers that are alike: the request, the place, and whether the container has been moved."""


class _Cell(NamedTuple):
    """Free CPUs and MiB of a cell, and the parts of movable containers there."""

    cpus: int
    mib: int
    parts: tuple[_Part, ...]
    lacking: int
    """The least cost of the moves after which the cell has what is wanted, _NEVER if it cannot have that."""
    key: object
    """Equal for cells that are alike: kinds of the parts and, if cores matter, the free CPUs of each core by L3."""


_Nodes = frozenset[int]


class _State(NamedTuple):
    usage: Usage
    moves: tuple[Move, ...]
    cost: int
    owners: frozenset[str]
    cells: Mapping[int, _Cell]
    lacking: int
    """The least cost of the moves that are left."""
    holes: int
    """A number that is larger if the free CPUs are on fewer cells."""


class _Step(NamedTuple):
    """The next thing to do: plan ``owner`` on each of ``places``, or without one see if the target is reached."""

    state: _State
    owner: str | None = None
    places: Sequence[_Nodes] = ()
    reached: bool = False


class _Search:
    def __init__(
        self, topology: HostTopology, movable: Mapping[str, PlacementRequest], target: Target, steps: int
    ) -> None:
        self._topology, self._movable, self._target = topology, movable, target
        self._steps = self._left = steps
        self._wanted = target.wanted(topology)
        self._among = frozenset(self._wanted.cells)
        self._parts: dict[_Nodes, HostTopology] = {}
        self._view = view_of(topology)
        self._views = {cell.id: cell for cell in self._view.cells}
        self._cells = [cell.id for cell in self._view.cells if cell.dedicated]
        numbers: dict[PlacementRequest, int] = {}
        self._kinds = {owner: numbers.setdefault(request, len(numbers)) for owner, request in movable.items()}
        self._alike = self._cpus_are_alike()
        self._own_memory = len(self._view.cells) == len(topology.cells) and not self._view.lends
        self._numbers = itertools.count()
        self._waiting: list[tuple[tuple[int, ...], _Step]] = []
        self._hurried = False

    def run(self, usage: Usage) -> Rearrangement | Stuck:
        """Take the step with the least bound again and again, until the target is reached or the steps are over."""
        cells = {cell.id: self._cell(usage, cell.id, self._parts_on(usage, cell.id)) for cell in self._topology.cells}
        first = self._state(usage, (), 0, frozenset(), cells)
        if first.lacking >= _NEVER:
            return Stuck(self._reason(first), proven=True)
        seen = {_key(first): 0}
        self._push(_Step(first), first.lacking, first.lacking)
        while self._waiting:
            step = heapq.heappop(self._waiting)[1]
            state = step.state
            if step.reached:
                return Rearrangement(state.moves, state.usage, proven=not self._hurried)
            if self._left <= 0:
                return Stuck(f"no moves were found with {self._steps} plans", proven=False)
            if step.owner is not None:
                for move in self._moves(state, step.owner, step.places):
                    found = self._after(state, move)
                    key = _key(found)
                    if found.lacking < _NEVER and found.cost < seen.get(key, _NEVER):
                        seen[key] = found.cost
                        self._push(_Step(found), found.cost + found.lacking, found.lacking)
            elif self._is_reached(state):
                self._push(_Step(state, reached=True), state.cost, -1, self._distance(state))
            else:
                self._push_owners(state)
            if self._left <= self._steps // 2 and not self._hurried:
                self._hurry()
        return Stuck("no moves of the containers that may be moved help", proven=True)

    def _push(self, step: _Step, bound: int, lacking: int, distance: int = 0) -> None:
        """Add a step. Of equal bounds, a state that reaches the target comes after all that may be nearer."""
        holes = -step.state.holes
        order = (lacking, holes, bound) if self._hurried else (bound, distance, lacking, holes)
        heapq.heappush(self._waiting, ((*order, next(self._numbers)), step))

    def _hurry(self) -> None:
        """Give up the proof: from now on take the state first that lacks least."""
        waiting, self._waiting, self._hurried = self._waiting, [], True
        for (bound, _, lacking, *_), step in waiting:
            self._push(step, bound, lacking)

    def _push_owners(self, state: _State) -> None:
        """Add the steps that move one container, each with a bound for all of its places."""
        kinds: set[object] = set()
        for owner, request in self._movable.items():
            held = state.usage.claim(owner)
            if held is None:
                continue
            part = next(each for each in state.cells[next(iter(held.cells))].parts if each.owner == owner)
            if self._alike and part.kind in kinds:
                continue
            kinds.add(part.kind)
            places = self._places(held, request, state)
            if self._single(held, request):
                (node,) = held.cells
                away = [nodes for nodes in places if node not in nodes]
                if away and (lacking := self._lacking_without(state, node, part)) < _NEVER:
                    self._push(_Step(state, owner, away), state.cost + part.cost + lacking, lacking)
                places = [] if self._alike else [nodes for nodes in places if node in nodes]
            if places:
                new = owner not in state.owners
                self._push(_Step(state, owner, places), state.cost + max(state.lacking, new), state.lacking)

    def _reason(self, state: _State) -> str:
        """Return what no move can bring together."""
        wanted, cells = self._wanted, state.cells
        if wanted.cells:
            most = {node: cells[node].cpus + sum([part.cpus for part in cells[node].parts]) for node in wanted.cells}
            best = max(most, key=most.__getitem__)
            if most[best] < wanted.cpus:
                return (
                    f"{wanted.cpus} CPUs are wanted on one cell: cell {best} can have {most[best]} free, whatever moves"
                )
        total = sum([cell.cpus for cell in cells.values()])
        if total < wanted.all_cpus:
            return f"{wanted.all_cpus} CPUs are wanted: the host has {total} free"
        total = sum([max(0, cell.mib) for cell in cells.values()])
        if total < wanted.all_mib:
            return f"{wanted.all_mib} MiB are wanted: the host has {total} free"
        number = "one cell" if wanted.count == 1 else f"each of {wanted.count} cells"
        return f"{wanted.cpus} CPUs and {wanted.mib} MiB are wanted on {number}, which no moves can free"

    # States

    def _state(
        self, usage: Usage, moves: tuple[Move, ...], cost: int, owners: frozenset[str], cells: Mapping[int, _Cell]
    ) -> _State:
        holes = sum([cell.cpus * cell.cpus for cell in cells.values()])
        return _State(usage, moves, cost, owners, cells, self._lacking(usage, cells), holes)

    def _lacking(self, usage: Usage, cells: Mapping[int, _Cell]) -> int:
        """Return the least cost of moves after which the target can be reached, _NEVER if there are none."""
        wanted = self._wanted
        # A move leaves as many CPUs free on the host as before, but for those that it no longer withholds.
        if wanted.all_cpus > sum([cell.cpus for cell in cells.values()]) and not self._withholds(usage):
            return _NEVER
        if wanted.all_mib > sum([max(0, cell.mib) for cell in cells.values()]):
            return _NEVER
        return self._cheapest([cells[node].lacking for node in wanted.cells])

    def _lacking_without(self, state: _State, node: int, part: _Part) -> int:
        """Return a bound for each state in which ``part`` has left ``node``. Its new cell does not lack less."""
        costs = [state.cells[other].lacking for other in self._wanted.cells if other != node]
        if node in self._among:
            cell = state.cells[node]
            parts = [each for each in cell.parts if each is not part]
            costs.append(self._least(parts, cell.cpus + part.cpus, cell.mib + part.mib))
        return self._cheapest(costs)

    def _cheapest(self, costs: list[int]) -> int:
        """Return the cost of as many cells as are wanted."""
        if self._wanted.count == 1:
            return min(costs, default=_NEVER)
        return min(sum(sorted(costs)[: self._wanted.count]), _NEVER) if len(costs) >= self._wanted.count else _NEVER

    def _least(self, parts: Sequence[_Part], cpus: int, mib: int) -> int:
        return _least(parts, self._wanted.cpus - cpus, self._wanted.mib - mib)

    def _cell(self, usage: Usage, node: int, parts: tuple[_Part, ...]) -> _Cell:
        view = self._views.get(node)
        free = view.dedicated & ~usage.held_mask if view else 0
        cpus, mib = free.bit_count(), usage.free_memory(self._view, node, None, overcommit=False)
        lacking = self._least(parts, cpus, mib) if node in self._among else _NEVER
        key: list[object] = [*sorted([part.kind for part in parts])]
        if view is not None and not self._alike:
            caches = [sorted([(core & free).bit_count() for core in cache.cores]) for cache in view.caches]
            key.append(tuple(map(tuple, sorted(caches))))
        return _Cell(cpus, mib, parts, lacking, tuple(key))

    def _parts_on(self, usage: Usage, node: int) -> tuple[_Part, ...]:
        claims = ((owner, usage.claim(owner)) for owner in self._movable)
        return tuple([self._part(owner, held, node, 1) for owner, held in claims if held and node in held.cells])

    def _part(self, owner: str, held: Plan, node: int, count: int) -> _Part:
        """Return the part of a container on ``node``. ``count`` is 1 if the container has not been moved.

        Each part costs its memory if a move can only take the part as a whole. The first part costs the container.
        """
        share, request = held.cells[node], self._movable[owner]
        whole = request.mempolicy == "strict" and not self._view.lends
        if len(held.cells) > 1:
            whole &= request.numa_affinity == "require" and len({len(each.cpus) for each in held.cells.values()}) == 1
        cost = (share.memory_mib * _MIB if whole else 0) + (count if node == min(held.cells) else 0)
        place = tuple([(cell, len(each.cpus)) for cell, each in held.cells.items()])
        kind = (self._kinds[owner], count, held.mems.mask, place)
        return _Part(owner, len(share.cpus) + len(share.withheld), share.memory_mib, cost, kind)

    def _single(self, held: Plan, request: PlacementRequest) -> bool:
        """Return whether all of the container is on one cell, before and after any move."""
        return len(held.cells) == 1 and request.mempolicy == "strict" and not self._view.lends

    def _after(self, state: _State, move: Move) -> _State:
        owner = move.owner
        usage = state.usage.without(owner).with_claim(owner, move.new)
        cells = dict(state.cells)
        for node in {*move.old.cells, *move.new.cells}:
            parts = tuple([each for each in cells[node].parts if each.owner != owner])
            if node in move.new.cells:
                parts += (self._part(owner, move.new, node, 0),)
            cells[node] = self._cell(usage, node, parts)
        cost = state.cost + move.mib * _MIB + (owner not in state.owners)
        return self._state(usage, (*state.moves, move), cost, state.owners | {owner}, cells)

    def _cpus_are_alike(self) -> bool:
        """Return whether any free CPUs of a cell serve as well as others."""
        if any(cell.dedicated & cell.pool not in (0, cell.dedicated) for cell in self._view.cells):
            return False
        by_cores = self._wanted.cores or any(map(_by_cores, self._movable.values()))
        return not by_cores or all(cell.widest == 1 and len(cell.caches) == 1 for cell in self._view.cells)

    def _is_reached(self, state: _State) -> bool:
        self._left -= 1
        return not state.lacking and self._target.is_reached(self._topology, state.usage)

    def _withholds(self, usage: Usage) -> bool:
        claims = map(usage.claim, self._movable)
        return any(claim is not None and claim.withheld for claim in claims)

    def _distance(self, state: _State) -> int:
        """Return the sum of distances between the cells of each moved container, every pair, both ways."""
        total = 0
        for owner in state.owners:
            claim = state.usage.claim(owner)
            cells = claim.cpu_cells if claim is not None else ()
            total += sum(self._topology.cell(a).distance(b) for a in cells for b in cells if a != b)
        return total

    # The moves

    def _moves(self, state: _State, owner: str, places: Sequence[_Nodes]) -> Iterator[Move]:
        """Yield the moves of ``owner`` to ``places``. A container that was moved already may be moved again."""
        request, held = self._movable[owner], state.usage.claim(owner)
        assert held is not None
        for nodes in places:
            self._left -= 1
            new = granted(self._on(nodes), state.usage, request)
            if new is not None and state.usage.fits(self._topology, new) is None:
                yield Move(owner, held, new)

    def _places(self, held: Plan, request: PlacementRequest, state: _State) -> Sequence[_Nodes]:
        """Return the sets of cells on which the container may be planned."""
        count = 1 if len(held.cells) == 1 else len(held.cpu_cells)
        if count == 1 and request.numa_affinity == "require":
            counted = self._own_memory and request.mempolicy == "strict" and request.ordinary_pages
            cpus, mib = request.own_cpus, request.memory_mib if counted else -_NEVER
            return [
                frozenset([node]) for node in self._cells
                if state.cells[node].cpus >= cpus and state.cells[node].mib >= mib
            ]
        if count <= 2:
            return list(map(frozenset, itertools.combinations(self._cells, count)))
        return [frozenset(self._cells) - {node} for node in held.cpu_cells]

    def _on(self, nodes: _Nodes) -> HostTopology:
        """Return the host with dedicated CPUs on these cells only."""
        if nodes not in self._parts:
            cpus = union([CpuSet.from_mask(self._views[node].dedicated) for node in nodes])
            self._parts[nodes] = replace(self._topology, dedicated_set=cpus)
        return self._parts[nodes]


def _key(state: _State) -> object:
    """Return a value that is equal for states from which moves of equal costs lead to the target."""
    return tuple([cell.key for cell in state.cells.values()])


def _least(parts: Sequence[_Part], cpus: int, mib: int) -> int:
    """Return the least cost of parts that must leave a cell, so that so many more CPUs and MiB of it are free.

    This is a knapsack: ``best[3]`` is the least cost of parts with at least 3 CPUs.
    """
    least = 0
    if cpus > 0:
        best = [0] + [_NEVER] * cpus
        for part in parts:
            for wanted in range(cpus, 0, -1):
                with_it = best[max(0, wanted - part.cpus)] + part.cost
                if with_it < best[wanted]:
                    best[wanted] = with_it
        least = min(best[cpus], _NEVER)
    if mib > 0:
        if mib > sum([part.mib for part in parts]):
            return _NEVER
        least = max(least, (mib - sum([part.mib for part in parts if part.cost < _MIB])) * _MIB)
    return least
