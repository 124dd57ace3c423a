# SPDX-License-Identifier: Apache-2.0
"""Who holds what on one host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from typing import Any

from zun.topology.cells import HostTopology
from zun.topology.cores import kept_with
from zun.topology.cpuset import CpuSet
from zun.topology.placement import CellShare, Plan
from zun.topology.refusal import CellFree, Refusal, RefusalCode
from zun.topology.request import MICRO
from zun.topology.view import CellView, HostView, view_of

Problem = tuple[RefusalCode, str]


class ClaimConflict(ValueError):
    """A claim cannot be added because of one that is there; ``owner`` has it and holds ``cpus``."""

    def __init__(self, message: str, owner: str, cpus: CpuSet) -> None:
        super().__init__(message)
        self.owner = owner
        self.cpus = cpus


class Usage:
    """The claims on one host, by owner. Immutable: ``with_claim`` and ``without`` give new values.

    Claims are the truth and the totals beside them are derived from nothing else. They are integers,
    so taking and giving back is exact in any order.
    """

    __slots__ = ("_claims", "_demand", "_held", "_mib", "_pages", "_sharers", "_twice")

    def __init__(
        self, claims: Mapping[str, Plan] | Iterable[tuple[str, Plan]] = (), *, overlapping: bool = False
    ) -> None:
        """Raise ClaimConflict when two claims hold one CPU, unless they are ``overlapping``: whoever reads them cannot
        say which of the two has it, so that nobody else gets it before both are gone.
        """
        self._claims: dict[str, Plan] = {}
        self._held = 0
        self._twice = 0
        self._mib: dict[int, int] = {}
        self._pages: dict[tuple[int, int], int] = {}
        self._demand: dict[int, int] = {}
        self._sharers: dict[int, int] = {}
        for owner, plan in dict(claims).items():
            if not overlapping:
                self._refuse_overlap(owner, plan)
            self._book(owner, plan, 1)

    def with_claim(self, owner: str, plan: Plan) -> Usage:
        """This usage and one more claim.

        The same claim of the same owner again changes nothing (messages come twice). Raises ClaimConflict
        for a CPU that is held, and for an owner that holds something else: take that away first.
        """
        known = self._claims.get(owner)
        if known == plan:
            return self
        if known is not None:
            raise ClaimConflict(
                f"{owner} already holds another claim: use without({owner!r}) before with_claim",
                owner,
                CpuSet.from_mask(_held_by(known)),
            )
        self._refuse_overlap(owner, plan)
        return self._copy()._book(owner, plan, 1)

    def without(self, owner: str) -> Usage:
        """This usage without the claim of ``owner``; the same usage when there is none, so releasing twice is safe."""
        plan = self._claims.get(owner)
        return self if plan is None else self._copy()._book(owner, plan, -1)

    def claim(self, owner: str) -> Plan | None:
        return self._claims.get(owner)

    @property
    def owners(self) -> tuple[str, ...]:
        """In the order of their claims."""
        return tuple(self._claims)

    def owner_of(self, cpu: int) -> str | None:
        """Who holds ``cpu`` for itself, as its own or as a withheld sibling; None for shared and free CPUs."""
        if cpu < 0 or not self._held >> cpu & 1:
            return None
        return next(owner for owner, plan in self._claims.items() if _held_by(plan) >> cpu & 1)

    @property
    def held_cpus(self) -> CpuSet:
        """CPUs that are somebody's own, withheld siblings included."""
        return CpuSet.from_mask(self._held)

    @property
    def held_twice(self) -> CpuSet:
        """CPUs that more than one has for itself, which must not be: see ``overlapping``."""
        return CpuSet.from_mask(self._twice)

    @property
    def held_mask(self) -> int:
        """``held_cpus`` as a mask."""
        return self._held

    @property
    def totals(self) -> tuple[object, ...]:
        """All that ``plan`` looks at: usages with equal totals get equal plans, whoever holds what."""
        amounts = (self._mib, self._pages, self._demand, self._sharers)
        return (self._held, *(frozenset(each.items()) for each in amounts))

    def shared_pool(self, topology: HostTopology, cells: Iterable[int] | None = None) -> CpuSet:
        """CPUs shared containers run on now, of the whole host or of some cells; a cell that is gone has none."""
        pool = topology.pool_cpus.mask & ~self._held
        if cells is None:
            return CpuSet.from_mask(pool)
        wanted = frozenset(cells)
        inside = sum(cell.cpus.mask for cell in topology.cells if cell.id in wanted)
        return CpuSet.from_mask(pool & inside)

    def with_pool(self, topology: HostTopology) -> HostTopology:
        """``topology``, but where its pool has lost every CPU to dedicated use or hardware: without a shared set.

        Shared containers that are there have to run somewhere: on CPUs that nobody holds.
        """
        if not self._sharers or topology.shared_set is None:
            return topology
        view = view_of(topology)
        if (view.pool | view.pool_beyond) & ~self._held:
            return topology
        return topology.without_shared_set() if any(self._sharers.values()) else topology

    def free(self, topology: HostTopology, isolation: str = "thread") -> dict[int, CellFree]:
        """What is left for a container of this isolation grade, by cell id.

        Memory can be negative after the machine lost some.
        """
        view = view_of(topology, isolation)
        return {cell.id: self._free_on(view, cell.id) for cell in topology.cells}

    def _free_on(self, view: HostView, node: int) -> CellFree:
        pages = {size: count - self._pages.get((node, size), 0) for size, count in view.pages[node].items()}
        memory = view.small_mib[node] - self._mib.get(node, 0)
        position = view.index.get(node)
        if position is None:
            return CellFree(memory_mib=memory, pages=pages)
        cell = view.cells[position]
        return CellFree(
            cpus=CpuSet.from_mask(cell.dedicated & ~self._held),
            cores=tuple(CpuSet.from_mask(c) for c in cell.cores if c in cell.whole and not c & self._held),
            memory_mib=memory,
            pages=pages,
            shared=self.shared_room(view, cell) / MICRO,
        )

    def shared_room(self, view: HostView, cell: CellView, ratio: Fraction | None = None) -> int:
        """Demand the pool of ``cell`` still takes, in millionths of a CPU; ``ratio`` is for another than the host's.

        Of a pool that has promised more than it has nothing is left: who has memory only there asks no more.
        """
        pool = (cell.pool & ~self._held).bit_count()
        ratio = ratio or view.cpu_ratio
        return max(0, pool * MICRO * ratio.numerator // ratio.denominator - self._demand.get(cell.id, 0))

    def demand(self, cell_id: int) -> int:
        """Shared demand booked on a cell, in millionths of a CPU."""
        return self._demand.get(cell_id, 0)

    def floor(self, view: HostView, cell: CellView) -> int:
        """CPUs the pool of ``cell`` must keep for the shared containers it has: at least one if there are any.

        One as well where it has the first CPU of the pool of the host, and strays depend on that.
        """
        if not self._sharers.get(cell.id):
            pool = view.pool & ~self._held
            return int(bool(cell.pool & pool & -pool) and self._has_strays(view))
        ratio = view.cpu_ratio
        return max(1, -(-self._demand.get(cell.id, 0) * ratio.denominator // (ratio.numerator * MICRO)))

    def _has_strays(self, view: HostView) -> bool:
        """Whether shared containers run on the pool of the whole host, as their own cells have none, and nobody else
        does: no cell's own containers keep them a CPU."""
        if view.pool_beyond & ~self._held:
            return False
        strays = False
        for node, count in self._sharers.items():
            if count:
                position = view.index.get(node)
                if position is not None and view.cells[position].pool & ~self._held:
                    return False
                strays = True
        return strays

    def budget(self, view: HostView, cell: CellView) -> int:
        """How many CPUs dedicated containers may still take out of the pool of ``cell``."""
        pool = (cell.pool & ~self._held).bit_count()
        return max(0, pool - self.floor(view, cell)) if self._sharers else pool

    def free_memory(self, view: HostView, node: int, page_kib: int | None, *, overcommit: bool) -> int:
        """Room on ``node``: MiB in ordinary pages, or a count of huge pages of ``page_kib``."""
        if page_kib is not None:
            return view.pages[node].get(page_kib, 0) - self._pages.get((node, page_kib), 0)
        size = view.small_mib[node]
        if overcommit:
            size = size * view.ram_ratio.numerator // view.ram_ratio.denominator
        return size - self._mib.get(node, 0)

    def fits(self, topology: HostTopology, plan: Plan) -> Refusal | None:
        """None when every element of ``plan`` is still free, so that it can be claimed as it is."""
        if plan.dedicated:
            topology = self.with_pool(topology)
        view = view_of(topology, plan.isolation)
        for node, share in plan.cells.items():
            if node not in view.small_mib:
                problem: Problem | None = (RefusalCode.CPUS_GONE, f"the host has no cell {node}")
            else:
                problem = self._cpu_problem(view, node, share, plan) or self._memory_problem(view, node, share, plan)
            if problem is not None:
                code, words = problem
                return Refusal(code, words, _free=partial(self.free, topology, plan.isolation))
        return None

    def _cpu_problem(self, view: HostView, node: int, share: CellShare, plan: Plan) -> Problem | None:
        if node not in view.index:
            if share.cpus or share.withheld or share.shared:
                return RefusalCode.CPUS_GONE, f"cell {node} has no CPUs any more"
            return None
        cell = view.cells[view.index[node]]
        if plan.cpu_policy == "shared":
            wanted, room = round(share.shared * MICRO), self.shared_room(view, cell)
            if wanted > room:
                left = f"{room / MICRO:g} CPUs left of {share.shared:g}"
                return RefusalCode.SHARED_POOL, f"the shared pool of cell {node} has {left}"
            if share.cpus and not cell.pool & ~self._held:
                return RefusalCode.SHARED_POOL, f"the shared pool of cell {node} is empty"
            return None
        mask = share.cpus.mask | share.withheld.mask
        # Siblings go idle only where they are for dedicated use; isolation may keep CPUs that are for others.
        others = 0 if plan.isolation == "thread" else share.withheld.mask & cell.everyone
        if gone := mask & ~(cell.dedicated | others):
            return RefusalCode.CPUS_GONE, f"CPUs {CpuSet.from_mask(gone)} of cell {node} are not for dedicated use"
        if taken := mask & self._held:
            return RefusalCode.CPUS_TAKEN, f"CPUs {CpuSet.from_mask(taken)} of cell {node} are taken"
        # A sibling that came online since is the plan's only if it says so.
        kept = kept_with(cell, share.cpus.mask, plan.keeps)
        if kept is None or kept & ~mask:
            if plan.keeps != plan.isolation:
                return RefusalCode.CORES, f"on cell {node} the plan does not hold all of its cores"
            words = f"on cell {node} the plan does not hold all that isolation {plan.isolation} keeps"
            return RefusalCode.ISOLATION, words
        if (mask & cell.pool).bit_count() > self.budget(view, cell):
            return RefusalCode.SHARED_FLOOR, f"shared containers need {self.floor(view, cell)} CPUs of cell {node}"
        return None

    def _memory_problem(self, view: HostView, node: int, share: CellShare, plan: Plan) -> Problem | None:
        for size, count in share.pages.items():
            room = self.free_memory(view, node, size, overcommit=False)
            if count > room:
                return RefusalCode.PAGES, f"cell {node} has {max(0, room)} pages of {size} KiB left of {count}"
        room = self.free_memory(view, node, None, overcommit=plan.cpu_policy == "shared")
        if share.memory_mib and not share.pages and share.memory_mib > room:
            return RefusalCode.MEMORY, f"cell {node} has {max(0, room)} MiB left of {share.memory_mib}"
        return None

    def _refuse_overlap(self, owner: str, plan: Plan) -> None:
        if clash := _held_by(plan) & self._held:
            holder = self.owner_of((clash & -clash).bit_length() - 1)
            cpus = CpuSet.from_mask(clash)
            raise ClaimConflict(
                f"CPUs {cpus} are held by {holder}: plan again from the present usage", str(holder), cpus
            )

    def _copy(self) -> Usage:
        new = Usage()
        new._claims = dict(self._claims)
        new._held, new._twice = self._held, self._twice
        new._mib, new._pages = dict(self._mib), dict(self._pages)
        new._demand, new._sharers = dict(self._demand), dict(self._sharers)
        return new

    def _book(self, owner: str, plan: Plan, sign: int) -> Usage:
        """Add (1) or take off (-1) one claim; only ever called on a value nobody has seen yet."""
        own = _held_by(plan)
        if sign > 0:
            self._claims[owner] = plan
            self._twice |= self._held & own
            self._held |= own
        else:
            del self._claims[owner]
            self._held &= ~own
            if self._twice & own:
                self._held = self._twice = 0
                for other in map(_held_by, self._claims.values()):
                    self._twice |= self._held & other
                    self._held |= other
        for node, share in plan.cells.items():
            for size, count in share.pages.items():
                self._pages[node, size] = self._pages.get((node, size), 0) + sign * count
            if not share.pages:
                self._mib[node] = self._mib.get(node, 0) + sign * share.memory_mib
            if plan.cpu_policy == "shared":
                self._demand[node] = self._demand.get(node, 0) + sign * round(share.shared * MICRO)
                self._sharers[node] = self._sharers.get(node, 0) + (sign if share.runs_here else 0)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Usage, overlapping=bool(self._twice)), (self._claims,)

    def __len__(self) -> int:
        return len(self._claims)

    def __iter__(self) -> Iterator[tuple[str, Plan]]:
        return iter(self._claims.items())

    def __eq__(self, other: object) -> bool:
        return self._claims == other._claims if isinstance(other, Usage) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Usage({self._claims!r})"


def _held_by(plan: Plan) -> int:
    """Mask of what a plan takes for itself alone: nothing when it is shared."""
    if plan.cpu_policy == "shared":
        return 0
    mask = 0
    for share in plan.cells.values():
        mask |= share.cpus.mask | share.withheld.mask
    return mask
