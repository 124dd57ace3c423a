# SPDX-License-Identifier: Apache-2.0
"""The cheapest moves of containers within one host after which a request fits, or a cell is free.

A host may have enough CPUs for a request, but in pieces: two free CPUs on each of four cells do not hold a container of
four. The kernel can move a running container to other CPUs and its memory to other nodes, so ``rearrange`` looks for
containers whose move joins the pieces.

Each move is valid when it is made: the new claim fits beside all claims, that of the container itself among them, so
nothing is ever held twice and no move needs a later one. The answer has the least cost: MiB that must be copied, then
containers that are moved, then the distance between the cells of each moved container. The search is A*: the bound
below is never more than what the rest costs, so the first answer is the best.

The place of a move is the plan of the container on some cells of the host: each cell for a container on one cell, each
pair for two, and the host without one of its cells for more. Where cores have siblings, another choice of CPUs on the
same cells might allow moves that these plans do not; the oracle of the tests counts how seldom.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from zun.topology.allocator import granted
from zun.topology.cpuset import CpuSet, union
from zun.topology.host_topology import HostTopology, view_of
from zun.topology.placement import Plan
from zun.topology.request import PlacementRequest
from zun.topology.usage import Usage

STEPS = 1000
"""Plans that are made for one answer. A plan takes about a tenth of a millisecond."""

_LAST = 20
"""States that are looked at once more when the steps are used up."""

_NEVER = 2**62


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


class Target(Protocol):
    """The goal of the moves."""

    def is_reached(self, topology: HostTopology, usage: Usage) -> bool: ...

    def wanted(self, topology: HostTopology) -> Sequence[tuple[int, int, Sequence[int]]]:
        """Return conditions that must all hold: so many CPUs and MiB are free on one of these cells."""


@dataclass(frozen=True, slots=True)
class Fits:
    """The request fits."""

    request: PlacementRequest

    def is_reached(self, topology: HostTopology, usage: Usage) -> bool:
        return granted(topology, usage, self.request) is not None

    def wanted(self, topology: HostTopology) -> Sequence[tuple[int, int, Sequence[int]]]:
        request = self.request
        if not request.dedicated or request.mixed or request.numa_affinity != "require":
            return ()
        counted = request.ordinary_pages and request.mempolicy == "strict"
        cells = [cell.id for cell in topology.cells if cell.cpus]
        attached = any(not cell.cpus for cell in topology.cells)  # nodes without CPUs lend memory
        cpus, mib = max(request.parts)
        return [(int(cpus), mib if counted and not attached else 0, cells)]


@dataclass(frozen=True, slots=True)
class Free:
    """No container has CPUs or memory of ``cell``."""

    cell: int

    def is_reached(self, topology: HostTopology, usage: Usage) -> bool:
        return not any(self.cell in held.cells for _, held in usage)

    def wanted(self, topology: HostTopology) -> Sequence[tuple[int, int, Sequence[int]]]:
        cell = topology.cell(self.cell)
        return [(len(cell.cpus & topology.dedicated_cpus), 0, [self.cell])]


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


@dataclass(frozen=True, slots=True)
class _Cell:
    """Free CPUs and MiB of a cell, and what each movable container has there: owner, CPUs with withheld ones, MiB."""

    cpus: int
    mib: int
    held: tuple[tuple[str, int, int], ...]
    least: int
    """MiB that must leave the cell before it has what is wanted, _NEVER if it cannot have that."""


@dataclass(frozen=True, slots=True)
class _State:
    usage: Usage
    moves: tuple[Move, ...]
    mib: int
    owners: frozenset[str]
    cells: Mapping[int, _Cell]


class _Search:
    def __init__(
        self, topology: HostTopology, movable: Mapping[str, PlacementRequest], target: Target, steps: int
    ) -> None:
        self._topology, self._movable, self._target = topology, movable, target
        self._steps = self._left = steps
        self._wanted = target.wanted(topology)
        self._parts: dict[frozenset[int], HostTopology] = {}
        self._view = view_of(topology)
        self._dedicated = {cell.id: cell.dedicated for cell in self._view.cells}
        self._cells = [node for node, cpus in self._dedicated.items() if cpus]

    def run(self, usage: Usage) -> Rearrangement | Stuck:
        """Take the state with the least bound again and again, until the target is reached or the steps are over."""
        numbers = itertools.count()
        cells = {cell.id: self._cell(usage, cell.id) for cell in self._topology.cells}
        first = _State(usage, (), 0, frozenset(), cells)
        bound = self._bound(first)
        if bound == _NEVER:
            return Stuck(self._lacking(first), proven=True)
        # Bound on MiB, containers, distance of a reached target, and 1 for a state whose useful moves were tried: its
        # other moves come last among equals.
        waiting = [(bound, int(bound > 0), 0, 0, next(numbers), first, False)]
        seen = {self._key(first): (0, 0)}
        while waiting:
            bound, count, _, rank, _, state, reached = heapq.heappop(waiting)
            if reached:
                return Rearrangement(state.moves, state.usage)
            if rank == 0:
                self._left -= 1
                if self._target.is_reached(self._topology, state.usage):
                    distance = self._distance(state)
                    heapq.heappush(waiting, (state.mib, len(state.owners), distance, 0, next(numbers), state, True))
                    continue
                heapq.heappush(waiting, (bound, count, 0, 1, next(numbers), state, False))
            for move in self._moves(state, useful=rank == 0):
                found = self._after(state, move)
                key, cost = self._key(found), (found.mib, len(found.owners))
                if key in seen and seen[key] <= cost:
                    continue
                seen[key] = cost
                more = self._bound(found)
                if more < _NEVER:
                    entry = (found.mib + more, len(found.owners), 0, 0, next(numbers), found, False)
                    heapq.heappush(waiting, entry)
            if self._left <= 0:
                return self._best_known(waiting)
        return Stuck("no moves of the containers that may be moved help", proven=True)

    def _best_known(self, waiting: list[tuple[int, int, int, int, int, _State, bool]]) -> Rearrangement | Stuck:
        """Return the best answer among the next states."""
        for _, _, _, rank, _, state, reached in heapq.nsmallest(_LAST, waiting, key=lambda entry: entry[:5]):
            if reached or (rank == 0 and self._target.is_reached(self._topology, state.usage)):
                return Rearrangement(state.moves, state.usage, proven=False)
        return Stuck(f"no moves were found with {self._steps} plans", proven=False)

    def _lacking(self, state: _State) -> str:
        """Return what no move can bring together."""
        cpus, mib, among = max(self._wanted, key=lambda each: each[0])
        most = {
            node: state.cells[node].cpus + sum(count for _, count, _ in state.cells[node].held) for node in among
        }
        best = max(most, key=most.__getitem__)
        if most[best] < cpus:
            return f"{cpus} CPUs are wanted on one cell: cell {best} can have {most[best]} free, whatever moves"
        total = sum(each.cpus for each in state.cells.values())
        if total < cpus:
            return f"{cpus} CPUs are wanted: the host has {total} free"
        return f"{mib} MiB are wanted on one cell, and no cell can have them free"

    # States

    def _cell(self, usage: Usage, node: int, held: tuple[tuple[str, int, int], ...] | None = None) -> _Cell:
        """Return the cell, whose movable containers are ``held``, or those of ``usage``."""
        if held is None:
            claims = ((owner, usage.claim(owner)) for owner in self._movable)
            held = tuple(_part(owner, claim, node) for owner, claim in claims if claim and node in claim.cells)
        cpus = (self._dedicated.get(node, 0) & ~usage.held_mask).bit_count()
        mib = usage.free_memory(self._view, node, None, overcommit=False)
        wanted = [(count, amount) for count, amount, among in self._wanted if node in among]
        return _Cell(cpus, mib, held, max((_least(held, c - cpus, m - mib) for c, m in wanted), default=_NEVER))

    def _after(self, state: _State, move: Move) -> _State:
        owner = move.owner
        usage = state.usage.without(owner).with_claim(owner, move.new)
        cells = dict(state.cells)
        for node in {*move.old.cells, *move.new.cells}:
            held = tuple([each for each in cells[node].held if each[0] != owner])
            if node in move.new.cells:
                held += (_part(owner, move.new, node),)
            cells[node] = self._cell(usage, node, held)
        return _State(usage, (*state.moves, move), state.mib + move.mib, state.owners | {owner}, cells)

    def _key(self, state: _State) -> frozenset[tuple[str, int, CpuSet]]:
        """Return a value that is equal for states with equal claims of the movable containers."""
        claims = ((owner, state.usage.claim(owner)) for owner in state.owners)
        return frozenset((owner, held.dedicated_cpus.mask, held.mems) for owner, held in claims if held is not None)

    def _bound(self, state: _State) -> int:
        """Return MiB that must be copied at least, _NEVER if no moves of these containers can help."""
        found = 0
        for cpus, _, among in self._wanted:
            # A move leaves as many CPUs free on the host as before, but for those that it no longer withholds.
            if cpus > sum([each.cpus for each in state.cells.values()]) and not self._withholds(state):
                return _NEVER
            found = max(found, min([state.cells[node].least for node in among], default=_NEVER))
        return found

    def _withholds(self, state: _State) -> bool:
        claims = map(state.usage.claim, self._movable)
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

    def _moves(self, state: _State, *, useful: bool) -> Iterator[Move]:
        """Yield the moves of containers on cells that lack little of what is wanted, or else all others.

        A container that has moved already may move again.
        """
        among = {node for _, _, nodes in self._wanted for node in nodes}
        most = max((cpus for cpus, _, _ in self._wanted), default=0)
        near = {node for node in among if most - state.cells[node].cpus <= most // 2} or among
        for owner, request in self._movable.items():
            held = state.usage.claim(owner)
            if held is None or (not near.isdisjoint(held.cells)) is not useful:
                continue
            known = set()
            for nodes in self._places(held, request, state):
                if self._left <= 0:
                    return
                self._left -= 1
                new = granted(self._on(nodes), state.usage, request)
                if new is None or (mark := (new.dedicated_cpus.mask, new.mems)) in known:
                    continue
                known.add(mark)
                if state.usage.fits(self._topology, new) is None:
                    yield Move(owner, held, new)

    def _places(self, held: Plan, request: PlacementRequest, state: _State) -> Iterator[frozenset[int]]:
        """Yield the sets of cells on which the container may be planned."""
        count = len(held.cpu_cells)
        if count == 1 and request.numa_affinity == "require":
            yield from (frozenset([node]) for node in self._cells if state.cells[node].cpus >= request.own_cpus)
        elif count <= 2:
            yield from map(frozenset, itertools.combinations(self._cells, count))
        else:
            yield from (frozenset(self._cells) - {node} for node in held.cpu_cells)

    def _on(self, nodes: frozenset[int]) -> HostTopology:
        """Return the host with dedicated CPUs on these cells only."""
        if nodes not in self._parts:
            cpus = union([CpuSet.from_mask(self._dedicated[node]) for node in nodes])
            self._parts[nodes] = replace(self._topology, dedicated_set=cpus)
        return self._parts[nodes]


def _part(owner: str, claim: Plan, node: int) -> tuple[str, int, int]:
    share = claim.cells[node]
    return owner, len(share.cpus) + len(share.withheld), share.memory_mib


def _least(held: Sequence[tuple[str, int, int]], cpus: int, mib: int) -> int:
    """Return MiB that leave a cell at least, so that so many more CPUs and MiB of it are free.

    The bound takes the containers with the fewest MiB for each CPU first, and the last of them in part.
    """
    if cpus <= 0 and mib <= 0:
        return 0
    if cpus > sum([count for _, count, _ in held]) or mib > sum([amount for _, _, amount in held]):
        return _NEVER
    least = 0
    for each, count in sorted([(amount / count, count) for _, count, amount in held if count]) if cpus > 0 else ():
        taken = min(count, cpus)
        least += int(each * taken)
        cpus -= taken
        if not cpus:
            break
    return max(least, mib)
