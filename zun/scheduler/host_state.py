# SPDX-License-Identifier: Apache-2.0
"""One host as the filters and weighers see it: what it has, who holds what of it, and what that leaves."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from zun.objects.placement import held_plan, memory_room
from zun.topology import CellShare, CpuSet, HostTopology, PlacementRequest, Plan, Refusal, Usage, plan
from zun.topology.request import MICRO
from zun.topology.view import view_of

CPU_RATIO_KEY = "cpu_allocation_ratio"
RAM_RATIO_KEY = "ram_allocation_ratio"

# Requests of one shape come in numbers, and the alternates of one decision are the best hosts of the next.
ANSWERS_KEPT = 8


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A set of hosts that an administrator says something about. Hosts know theirs, not the other way round."""

    uuid: str
    name: str
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Held:
    """What one container holds of a host, and what else of it decides about others. MiB and GiB.

    ``plan`` says what is held and nothing of how it came about: no generation, no ``pinned``.
    """

    plan: Plan
    cpu: float
    memory: int
    disk: int
    group: str | None = None
    image: str | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Held | None":
        """From a container's row, or its members in a message; None when it holds nothing."""
        held = held_plan(row)
        if held is None:
            return None
        found = cls(
            interned(held), row["cpu"], row["memory"], row["disk"] or 0, row.get("group_uuid"), row.get("image")
        )
        return _same(found, (id(found.plan), found.cpu, found.memory, found.disk, found.group, found.image))


# Equal machines give equal containers equal places, so a cloud has far fewer plans than containers. Emptied when full:
# an entry that is missed costs memory and nothing else.
KNOWN = 100_000
_plans: dict[tuple[object, ...], Plan] = {}
_held: dict[tuple[object, ...], Held] = {}


def interned(claim: Plan) -> Plan:
    """The claim of a plan, one object for all equal ones."""
    cells = tuple(
        (node, share.cpus.mask, share.memory_mib, share.withheld.mask, tuple(share.pages.items()), share.shared)
        for node, share in claim.cells.items()
    )
    key = (claim.cpu_policy, claim.mems.mask, cells)
    known = _plans.get(key)
    if known is None:
        if len(_plans) >= KNOWN:
            _plans.clear()
        bare: dict[int, CellShare] = {
            node: replace(share, pinned=CpuSet()) if share.pinned else share for node, share in claim.cells.items()
        }
        known = _plans[key] = replace(claim, cells=bare, generation=None)
    return known


def _same(found: Held, key: tuple[object, ...]) -> Held:
    """The one object for all equal ones. The plan's identity is good for a key while the entry keeps it alive."""
    known = _held.get(key)
    if known is None:
        if len(_held) >= KNOWN:
            _held.clear()
        known = _held[key] = found
    return known


@dataclass(frozen=True, slots=True)
class HostState:
    """MiB and GiB. ``service`` is the row of its compute service, None if it has none.

    ``groups`` counts the members of each container group that hold something here, ``images`` the containers of each
    image, ``failures`` are the times (of the table's clock) at which it refused a claim or could not start a container.
    """

    hostname: str
    topology: HostTopology
    usage: Usage = field(default_factory=Usage)
    generation: int = 0
    disk_total: int = 0
    disk_used: int = 0
    disk_allocation_ratio: float = 1.0
    enable_cpu_pinning: bool = True
    availability_zone: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    runtimes: tuple[str, ...] = ()
    service: Mapping[str, Any] | None = None
    architecture: str | None = None
    os_type: str | None = None
    aggregates: tuple[Aggregate, ...] = ()
    groups: Mapping[str, int] = field(default_factory=dict)
    images: Mapping[str, int] = field(default_factory=dict)
    failures: tuple[float, ...] = ()
    _answers: dict[PlacementRequest, tuple[HostTopology, Usage, Plan | Refusal]] = field(
        default_factory=dict, compare=False, repr=False
    )

    # What is left. Each number is defined here and nowhere else; the table keeps them in columns.

    @property
    def dedicated_room(self) -> int:
        """CPUs that a dedicated container may get and nobody holds."""
        return (view_of(self.topology).dedicated & ~self.usage.held_mask).bit_count()

    @property
    def unheld_cpus(self) -> int:
        """CPUs that nobody holds for itself, for whatever use."""
        return len(self.topology.cpus - self.topology.reserved - self.usage.held_cpus)

    @property
    def shared_room(self) -> int:
        """Demand that the shared pools of all cells still take together, in millionths of a CPU.

        An aggregate may lower what is promised per CPU, as its host would not grant more than its own ratio.
        """
        view, usage = view_of(self.topology), self.usage
        lower = aggregate_ratio(self.aggregates, CPU_RATIO_KEY, self.topology.cpu_allocation_ratio)
        if lower is None:
            return sum(max(0, usage.shared_room(view, cell)) for cell in view.cells)
        room = 0
        for cell in view.cells:
            pool = (cell.pool & ~usage.held_mask).bit_count()
            room += max(0, int(pool * MICRO * lower) - usage.demand(cell.id))
        return room

    def memory_room(self, *, dedicated: bool) -> int:
        """MiB of ordinary pages that may still be promised on all cells; those of dedicated containers once."""
        ratio = None if dedicated else aggregate_ratio(
            self.aggregates, RAM_RATIO_KEY, self.topology.ram_allocation_ratio
        )
        return memory_room(self.topology, self.usage, dedicated=dedicated, ratio=ratio)

    @property
    def promised_memory(self) -> int:
        """MiB of ordinary pages that are promised."""
        view = view_of(self.topology)
        return sum(
            size - self.usage.free_memory(view, node, None, overcommit=False) for node, size in view.small_mib.items()
        )

    @property
    def free_memory(self) -> float:
        """MiB that nobody holds, in ordinary pages and in huge ones."""
        view, free = view_of(self.topology), 0.0
        for node, sizes in view.pages.items():
            free += self.usage.free_memory(view, node, None, overcommit=False)
            for size in sizes:
                free += self.usage.free_memory(view, node, size, overcommit=False) * size / 1024
        return free

    @property
    def free_disk(self) -> float:
        """GiB that may still be promised."""
        return self.disk_total * self.disk_allocation_ratio - self.disk_used

    def cell_rooms(self) -> list[tuple[int, int]]:
        """By cell that has CPUs: CPUs for one dedicated container, MiB of ordinary pages it could have there.

        The CPUs are those that the shared containers can spare; the memory is the cell's own and that of memory-only
        nodes attached to it.
        """
        view, usage = view_of(self.topology), self.usage
        rooms = []
        for cell in view.cells:
            free = cell.dedicated & ~usage.held_mask
            pool = (free & cell.pool).bit_count()
            if pool:
                pool = min(pool, usage.budget(view, cell))
            memory = sum(max(0, usage.free_memory(view, node, None, overcommit=False)) for node in cell.nodes)
            rooms.append(((free & ~cell.pool).bit_count() + pool, memory))
        return rooms

    @property
    def cell_ids(self) -> tuple[int, ...]:
        """Of the cells that have CPUs, in the order of ``cell_rooms``."""
        return tuple(cell.id for cell in view_of(self.topology).cells)

    def answer(self, request: PlacementRequest) -> Plan | Refusal:
        """What ``plan`` says of ``request`` here; worked out once while the host is the same."""
        known = self._answers.get(request)
        if known is not None and known[0] is self.topology and known[1] is self.usage:
            return known[2]
        found = plan(self.topology, self.usage, request)
        if len(self._answers) >= ANSWERS_KEPT:
            self._answers.clear()
        self._answers[request] = (self.topology, self.usage, found)
        return found


def aggregate_ratio(aggregates: tuple[Aggregate, ...], key: str, own: float) -> Fraction | None:
    """The lowest ratio that the aggregates name if it is below the host's ``own``, else None.

    What is no positive number says nothing: a typing error must not close an aggregate.
    """
    if not aggregates:
        return None
    named = []
    for aggregate in aggregates:
        text = aggregate.metadata.get(key)
        if text is not None:
            try:
                ratio = Fraction(text)
            except (ValueError, ZeroDivisionError):
                continue
            if ratio > 0:
                named.append(ratio)
    lowest = min(named, default=None)
    return lowest if lowest is not None and lowest < Fraction(str(own)) else None
