# SPDX-License-Identifier: Apache-2.0
"""One host as filters and weighers see it: its inventory, the claims on it, and its free resources."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Protocol

from zun.common import disk_pools
from zun.common.disk_pools import DiskPool
from zun.db import models
from zun.objects import allocation_ratios
from zun.objects.placement import disk_promised, shared_cpus_left, shared_memory_left
from zun.scheduler.packing import Shape, shapes
from zun.topology import HostTopology, PlacementRequest, Plan, Refusal, Usage, amounts, plan
from zun.topology import together as many
from zun.topology.cpuset import NO_CPUS, CpuSet
from zun.topology.device_request import DevicePolicy, DeviceRequest
from zun.topology.devices import Device
from zun.topology.holes import Hole, holes
from zun.topology.host_topology import view_of
from zun.topology.ranges import CELLS, NAME, RATIO


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A set of hosts with metadata from an administrator. Each host lists its aggregates, not the other way round."""

    uuid: str
    name: str
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Held:
    """The resources of a host that one container holds (MiB and GiB), and its group and image.

    ``plan`` is the claim alone, see ``claim_of``.
    """

    plan: Plan
    cpu: float
    memory: int
    disk: int
    group: str | None = None
    image: str | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Held | None":
        """Return the claim of a container's row, or of the same fields in a message; None if the row has no claim.

        Raise one of ``bounds.MALFORMED`` for a malformed record, and for a number beyond the range of its column.
        """
        record = row["cpuset"]
        if not record:
            return None
        # What ``claim_of`` leaves out is not read: known claims are recognised by the rest.
        claim = Plan.from_dict({**_unpinned(record), "parts": [*map(_unpinned, record.get("parts", ()))]})
        disk = _AMOUNTS["disk"](disk_promised(row))
        group, image = NAME.or_none(row.get("group_uuid")), NAME.or_none(row.get("image"))
        return cls(claim, _AMOUNTS["cpu"](row["cpu"]), _AMOUNTS["memory"](row["memory"]), disk, group, image)


_AMOUNTS = {name: models.containers.c[name].info["range"] for name in ("cpu", "memory", "disk")}


def _unpinned(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a plan without what ``claim_of`` leaves out."""
    cells = [{**share, "cpuset_cpu_pinned": "", "pool": ""} for share in CELLS(record["cells"])]
    return {**record, "cells": cells, "generation": None}


def claim_of(plan: Plan) -> Plan:
    """Return ``plan`` without ``generation``, ``pinned`` and ``pool``: these tell when the plan was made, not what it
    holds.
    """
    cells = {
        node: replace(share, pinned=NO_CPUS, pool=NO_CPUS) if share.pinned or share.pool else share
        for node, share in plan.cells.items()
    }
    return replace(plan, cells=cells, generation=None, parts=tuple(map(claim_of, plan.parts)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The free resources of a host, in CPUs and MiB. Each number is defined here and nowhere else."""

    dedicated_cpus: int
    """CPUs that dedicated containers may get and nobody holds, without those for isolation grade ``isolated``."""
    isolated_cpus: int
    """CPUs for isolation grade ``isolated`` that nobody holds. The kernel isolates them; no other grade gets them."""
    unheld_cpus: int
    """CPUs that no container holds as its own, for any use."""
    shared_room: int
    """Demand that the shared pools of all cells can still take together, in millionths of a CPU."""
    memory_dedicated: int
    """MiB in ordinary pages for dedicated containers, on all cells together."""
    memory_shared: int
    """MiB in ordinary pages for shared containers, with overcommit, on all cells together."""
    free_memory: float
    """MiB that nobody holds, in ordinary and in huge pages."""
    cells: tuple[Hole, ...]
    """The most that one dedicated container can get on each cell with CPUs."""


@dataclass(frozen=True)
class Answer:
    """A plan, and its forms as a record and as a claim. Nothing of it is ever written to."""

    plan: Plan

    @cached_property
    def record(self) -> dict[str, Any]:
        """The plan as a message has it."""
        return self.plan.to_dict()

    @cached_property
    def claim(self) -> Plan:
        """The plan as it is held."""
        return claim_of(self.plan)


class KeptAnswers(Protocol):
    def answer(self, host: "HostState", request: PlacementRequest) -> Answer | Refusal:
        """Return what ``answer`` returns, which may have been computed for an equal host."""

    def together(
        self, host: "HostState", request: PlacementRequest, most: int, apart: CpuSet | None
    ) -> tuple[Answer, ...]:
        """Return what ``together`` returns, which may have been computed for an equal host."""


@dataclass(frozen=True)
class HostState:
    """One host at one moment. Memory is in MiB, disk in GiB.

    ``service`` is the row of its compute service, or None. ``engine_away`` says why the host cannot use its container
    engine, None if it can. ``groups`` counts the members of each container group that
    hold resources here, ``images`` the containers of each image. ``io_ops`` counts the containers and images that the
    host makes or rebuilds, with those that were just chosen for the host. ``failures`` are the times (of the table's
    clock) at which the host failed to make or start a container.

    If aggregates name allocation ratios, those of ``topology`` are replaced. A host that leaves such an aggregate needs
    its own ``topology`` again.

    Each ``cached_property`` follows from the fields alone.
    """

    hostname: str
    topology: HostTopology
    _: KW_ONLY
    usage: Usage = field(default_factory=Usage)
    generation: int = 0
    disk_total: int = 0
    disk_used: int = 0
    disk_allocation_ratio: float = 1.0
    enable_cpu_pinning: bool = True
    availability_zone: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    runtimes: tuple[str, ...] = ()
    traits: frozenset[str] = frozenset()
    service: Mapping[str, Any] | None = None
    engine_away: str | None = None
    architecture: str | None = None
    os_type: str | None = None
    aggregates: tuple[Aggregate, ...] = ()
    groups: Mapping[str, int] = field(default_factory=dict)
    images: Mapping[str, int] = field(default_factory=dict)
    failures: tuple[float, ...] = ()
    io_ops: int = 0
    kept: KeptAnswers | None = field(default=None, compare=False, repr=False)
    """The answers that the hosts of a table share, None for a host that is in no table."""

    def __post_init__(self) -> None:
        if self.aggregates:
            promised = allocation_ratios.promised(self.topology, _ratios(self.aggregates))
            object.__setattr__(self, "topology", promised)

    def answer(self, request: PlacementRequest) -> Answer | Refusal:
        """Return the exact answer to ``request``."""
        return answer(self, request) if self.kept is None else self.kept.answer(self, request)

    def together(self, request: PlacementRequest, most: int, apart: CpuSet | None = None) -> tuple[Answer, ...]:
        """Return the exact answers for up to ``most`` containers that ask for the same; see ``topology.together``."""
        return together(self, request, most, apart) if self.kept is None else self.kept.together(
            self, request, most, apart
        )

    @cached_property
    def room(self) -> Room:
        """The free resources of this host."""
        return _room(self.topology, self.usage)

    @cached_property
    def free_devices(self) -> Mapping[Device, int]:
        """The number of free devices of each kind, see ``kind_of``. A shared device counts once for each share left."""
        found: Counter[Device] = Counter()
        if self.topology.devices:
            for device in self.usage.free_devices(self.topology):
                found[kind_of(device)] += self.usage.shares_left(device)
        return found

    @property
    def device_count(self) -> int:
        """The number of devices, free or not. A shared device counts once for each container that may have it."""
        return sum([device.shared for device in self.topology.devices])

    def try_out(self) -> None:
        """Compute what filters and weighers will ask of the host. Raise what a malformed row raises there."""
        _ = self.room, self.free_devices, self.shapes, self.disk_pool, self.own_free_disk

    @property
    def shapes(self) -> Counter[Shape]:
        """The number of dedicated containers of each kind."""
        return shapes(self.usage, self.topology.device_view.by_address if self.topology.devices else None)

    @cached_property
    def disk_pool(self) -> DiskPool | None:
        """The pool from which containers of this host take disk, or None if they take the host's own."""
        for each in self.aggregates:
            size = disk_pools.size_of(each.metadata)
            if size is not None:
                return DiskPool(each.uuid, each.name, size)
        return None

    @property
    def own_free_disk(self) -> float:
        """GiB of the host's own disk that may still be promised. ``RequestSpec.free_disk`` also knows disk pools."""
        used = self.disk_used + self.topology.foreign.disk
        return amounts.exact(self.disk_total * self.disk_allocation_ratio - used)

    @property
    def cell_ids(self) -> tuple[int, ...]:
        """Ids of the cells with CPUs, in the order of ``room.cells``."""
        return tuple(cell.id for cell in view_of(self.topology).cells)

    def taken(self, uuid: str, held: Held) -> "HostState":
        """Return this host after the container ``uuid``, which holds nothing here, has taken ``held``."""
        usage = self.usage.with_claim(uuid, held.plan)
        return self.after(usage, count=1, disk=held.disk, group=held.group, image=held.image)

    def after(self, usage: Usage, *, count: int, disk: int, group: str | None, image: str | None) -> "HostState":
        """Return this host after ``count`` more containers, each with ``disk`` GiB, have brought it to ``usage``."""
        return replace(
            self,
            usage=usage,
            disk_used=self.disk_used + count * disk,
            groups=_more(self.groups, group, count),
            images=_more(self.images, image, count),
        )


@lru_cache(maxsize=10_000)
def kind_of(device: Device) -> Device:
    """Return the device with nothing but what a request may ask for. Its ``cell`` is 0 if the machine tells any."""
    return Device(
        address="",
        vendor_id=device.vendor_id,
        product_id=device.product_id,
        cell=None if device.cell is None else 0,
        type=device.type,
        physical_network=device.physical_network,
        resource_class=device.resource_class,
        traits=device.traits,
        shared=min(device.shared, 2),  # shared or not
    )


def serves(kind: Device, request: DeviceRequest) -> bool:
    """Return whether devices of this kind can serve the request, if their cells are the right ones."""
    anywhere = request.numa_policy in (DevicePolicy.NONE, DevicePolicy.PREFERRED)
    return (anywhere or kind.cell is not None) and request.admits(kind)


def _more(counts: Mapping[str, int], name: str | None, count: int) -> Mapping[str, int]:
    """Return ``counts`` with ``count`` more of ``name``."""
    return counts if name is None or not count else {**counts, name: counts.get(name, 0) + count}


def _room(topology: HostTopology, usage: Usage) -> Room:
    view, held = view_of(topology), usage.held_mask
    free = {node: usage.free_memory(view, node, None, overcommit=False) for node in view.small_mib}
    huge = sum(
        usage.free_memory(view, node, size, overcommit=False) * size / 1024
        for node, sizes in view.pages.items()
        for size in sizes
    )
    return Room(
        dedicated_cpus=sum((cell.dedicated & ~held).bit_count() for cell in view.cells),
        isolated_cpus=(view_of(topology, "isolated").dedicated & ~held).bit_count(),
        unheld_cpus=(sum(cell.online for cell in view.cells) & ~(topology.reserved.mask | held)).bit_count(),
        shared_room=shared_cpus_left(view, usage, view.cpu_ratio),
        memory_dedicated=sum(max(0, left) for left in free.values()),
        memory_shared=shared_memory_left(view, usage, view.ram_ratio),
        free_memory=sum(free.values()) + huge,
        cells=holes(topology, usage),
    )


@lru_cache(maxsize=1000)
def _ratios(aggregates: tuple[Aggregate, ...]) -> allocation_ratios.Ratios:
    return allocation_ratios.of_aggregates(each.metadata for each in aggregates)


def ratio_limit(host: HostState, key: str) -> Mapping[str, str]:
    """Return the limit for a claim: the ratio that the aggregates of the host name. The host knows its own."""
    ratio = allocation_ratios.lowest((each.metadata for each in host.aggregates), key, RATIO.most)
    return {} if ratio is None else {key: str(ratio)}


def answer(host: HostState, request: PlacementRequest) -> Answer | Refusal:
    """Return the exact answer of ``host`` to ``request``. Nothing is kept."""
    found = plan(host.topology, host.usage, request)
    return found if isinstance(found, Refusal) else Answer(found)


def together(host: HostState, request: PlacementRequest, most: int, apart: CpuSet | None) -> tuple[Answer, ...]:
    """Return the exact answers of ``host`` for up to ``most`` equal requests, each beside those before it."""
    return tuple(Answer(each) for each in many.together(host.topology, host.usage, request, most, apart=apart))
