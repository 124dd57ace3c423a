# SPDX-License-Identifier: Apache-2.0
"""One host as the filters and weighers see it: what it has, who holds what of it, and what that leaves."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple

from zun.objects.placement import (
    CPU_RATIO_KEY,
    RAM_RATIO_KEY,
    disk_promised,
    shared_cpus_left,
    shared_memory_left,
)
from zun.topology import CellShare, HostTopology, PlacementRequest, Plan, Refusal, Usage, plan
from zun.topology.cpuset import NO_CPUS
from zun.topology.holes import Hole, Shape, holes, shapes
from zun.topology.view import view_of

REFUSALS_KEPT = 8
"""By host: whoever is refused there is often asked about again."""


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
        """From a container's row, or its members in a message; None when it holds nothing.

        Raises what ``Plan.from_dict`` does where the row says something else: that host gets no containers.
        """
        if not row["cpuset"]:
            return None
        held = Plan.from_dict(row["cpuset"])
        found = cls(
            interned(held), row["cpu"], row["memory"], disk_promised(row), row.get("group_uuid"), row.get("image")
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
    key = (claim.cpu_policy, claim.isolation, claim.whole_cores, claim.mems.mask, cells)
    known = _plans.get(key)
    if known is None:
        if len(_plans) >= KNOWN:
            _plans.clear()
        bare: dict[int, CellShare] = {
            node: replace(share, pinned=NO_CPUS) if share.pinned else share for node, share in claim.cells.items()
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
    image, ``failures`` are the times (of the table's clock) at which it could not make or start a container.
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
    _known: dict[Any, tuple[object, object, object, Any]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def room(self) -> "Room":
        """What is left."""
        return self._content.room

    @property
    def shapes(self) -> Counter[Shape]:
        """What dedicated containers hold here, cell by cell."""
        return shapes(self.usage)

    @property
    def free_disk(self) -> float:
        """GiB that may still be promised."""
        return self.disk_total * self.disk_allocation_ratio - self.disk_used

    @property
    def cell_ids(self) -> tuple[int, ...]:
        """Of the cells that have CPUs, in the order of ``room.cells``."""
        return tuple(cell.id for cell in view_of(self.topology).cells)

    def taken(self, uuid: str, held: Held) -> "HostState":
        """This host once the container ``uuid``, which held nothing here, holds ``held``."""
        return self.after(self.usage.with_claim(uuid, held.plan), held.disk, held.group, held.image)

    def after(
        self, usage: Usage, disk: int, group: str | None = None, image: str | None = None, count: int = 1
    ) -> "HostState":
        """This host once ``count`` more containers, each with ``disk`` GiB, have brought it to ``usage``."""
        return HostState(  # not by ``replace``, which takes ten times as long
            self.hostname,
            self.topology,
            usage,
            self.generation,
            self.disk_total,
            self.disk_used + count * disk,
            self.disk_allocation_ratio,
            self.enable_cpu_pinning,
            self.availability_zone,
            self.labels,
            self.runtimes,
            self.service,
            self.architecture,
            self.os_type,
            self.aggregates,
            _more(self.groups, group, count),
            _more(self.images, image, count),
            self.failures,
            self._known,
        )

    def answer(self, request: PlacementRequest) -> "Answer | Refusal":
        """What ``plan`` says of ``request`` here; a plan is made once for all hosts that hold the same."""
        content = self._content
        known = _answers.get((content, request)) or self._recall(request)
        if known is not None:
            return known
        found = plan(self.topology, self.usage, request)
        if isinstance(found, Refusal):  # it can be asked who holds what, which is the host's own
            self._remember(request, found)
            return found
        if len(_answers) >= ANSWERS_SHARED:
            _answers.clear()
        answer = _answers[content, request] = Answer(found)
        return answer

    @property
    def _content(self) -> "_Content":
        known: _Content | None = self._recall(_CONTENT)
        if known is None:
            known = _content_of(self)
            self._remember(_CONTENT, known)
        return known

    def _recall(self, key: object) -> Any:
        """What was remembered of this host while it was as it is now, or None."""
        known = self._known.get(key)
        if (
            known is not None
            and known[0] is self.topology
            and known[1] is self.usage
            and known[2] is self.aggregates
        ):
            return known[3]
        return None

    def _remember(self, key: object, found: object) -> None:
        if len(self._known) > REFUSALS_KEPT:
            self._known.clear()
        self._known[key] = (self.topology, self.usage, self.aggregates, found)


@dataclass(frozen=True, slots=True, eq=False)
class _Content:
    """What decides about a host's room and plans, whoever holds it: one object for all hosts that are equal in that."""

    topology: HostTopology
    room: "Room"


# Each entry keeps its topology, so that no other gets its id.
_contents: dict[tuple[object, ...], _Content] = {}
CONTENTS_SHARED = 10_000


def _content_of(host: HostState) -> _Content:
    topology, aggregates = host.topology, host.aggregates
    cpu_ratio = ram_ratio = None
    if aggregates:
        cpu_ratio = aggregate_ratio(aggregates, CPU_RATIO_KEY, topology.cpu_allocation_ratio)
        ram_ratio = aggregate_ratio(aggregates, RAM_RATIO_KEY, topology.ram_allocation_ratio)
    key = (id(topology), host.usage.totals, cpu_ratio, ram_ratio)
    known = _contents.get(key)
    if known is None:
        if len(_contents) >= CONTENTS_SHARED:
            _contents.clear()
        known = _contents[key] = _Content(topology, _room(topology, host.usage, cpu_ratio, ram_ratio))
    return known


@dataclass(slots=True, eq=False)
class Answer:
    """A plan, and what follows from it, worked out when it is asked for. Nothing of it is ever written to."""

    plan: Plan
    _record: dict[str, Any] | None = None
    _claim: Plan | None = None

    @property
    def record(self) -> Mapping[str, Any]:
        """The plan as it travels."""
        if self._record is None:
            self._record = self.plan.to_dict()
        return self._record

    @property
    def claim(self) -> Plan:
        """The plan as it is held."""
        if self._claim is None:
            self._claim = interned(self.plan)
        return self._claim


# Many hosts are equal, and whoever asks once asks again.
_answers: dict[tuple[_Content, PlacementRequest], Answer] = {}
ANSWERS_SHARED = 10_000


def _more(counts: Mapping[str, int], name: str | None, count: int) -> Mapping[str, int]:
    """``counts`` with ``count`` more of ``name``."""
    return counts if name is None or not count else {**counts, name: counts.get(name, 0) + count}


_CONTENT = "content"


class Room(NamedTuple):
    """What a host has left, in CPUs and MiB. Each number is defined here alone; the table keeps them in columns.

    An aggregate may lower an allocation ratio, and not raise it: the host would grant no more than its own.
    """

    dedicated: int
    """CPUs that a dedicated container may get and nobody holds; of isolation grade ``isolated`` it gets others."""
    isolated: int
    """The same of the CPUs that the kernel isolates, which are for isolation grade ``isolated`` alone."""
    unheld: int
    """CPUs that nobody holds for itself, for whatever use."""
    shared: int
    """Demand that the shared pools of all cells still take together, in millionths of a CPU."""
    memory_dedicated: int
    """Ordinary pages that may be promised to dedicated containers, on all cells together."""
    memory_shared: int
    """The same for shared containers, over-committed."""
    free_memory: float
    """What nobody holds, in ordinary pages and in huge ones."""
    cells: tuple[Hole, ...]
    """What one dedicated container can get on each cell that has CPUs."""


def _room(topology: HostTopology, usage: Usage, cpu_ratio: Fraction | None, ram_ratio: Fraction | None) -> Room:
    """The ratios are those that aggregates lower."""
    view, held = view_of(topology), usage.held_mask
    free = {node: usage.free_memory(view, node, None, overcommit=False) for node in view.small_mib}
    huge = sum(
        usage.free_memory(view, node, size, overcommit=False) * size / 1024
        for node, sizes in view.pages.items()
        for size in sizes
    )
    return Room(
        dedicated=sum((cell.dedicated & ~held).bit_count() for cell in view.cells),
        isolated=(view_of(topology, "isolated").dedicated & ~held).bit_count(),
        unheld=(sum(cell.online for cell in view.cells) & ~(topology.reserved.mask | held)).bit_count(),
        shared=shared_cpus_left(view, usage, cpu_ratio),
        memory_dedicated=sum(max(0, left) for left in free.values()),
        memory_shared=shared_memory_left(view, usage, ram_ratio),
        free_memory=sum(free.values()) + huge,
        cells=holes(topology, usage),
    )


def aggregate_ratio(aggregates: tuple[Aggregate, ...], key: str, own: float) -> Fraction | None:
    """The lowest ratio that the aggregates name if it is below the host's ``own``, else None."""
    lowest = named_ratio(aggregates, key)
    return lowest if lowest is not None and lowest < Fraction(str(own)) else None


def named_ratio(aggregates: tuple[Aggregate, ...], key: str) -> Fraction | None:
    """The lowest ratio that the aggregates name.

    What is no positive number says nothing: a typing error must not close an aggregate.
    """
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
    return min(named, default=None)


def ratio_limit(aggregates: tuple[Aggregate, ...], key: str) -> Mapping[str, str]:
    """What the claim on a host must keep to, besides the host's own ratio, of which it knows best."""
    ratio = named_ratio(aggregates, key)
    return {} if ratio is None else {key: str(ratio)}
