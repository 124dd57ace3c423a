# SPDX-License-Identifier: Apache-2.0
"""The place of a container on a host. A ``Plan`` is the claim as well, once the agent has taken it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from zun.topology import amounts
from zun.topology.cache_control import NO_PART, Part
from zun.topology.cpuset import NO_CPUS, CpuSet
from zun.topology.device_request import GivenDevice
from zun.topology.ranges import (
    CELL,
    CELLS,
    CPUS,
    DEVICES,
    GENERATION,
    MIB,
    PAGE_KIB,
    PAGES,
    PERCENT,
    WAYS,
    Listed,
    shown,
)
from zun.topology.request import CPUPolicy, Isolation


@dataclass(frozen=True, slots=True)
class CellShare:
    """The CPUs and memory that one container takes on one cell."""

    cpus: CpuSet = NO_CPUS
    """For a dedicated or mixed container its own CPUs; for a shared container the pool of the cell when the plan was
    made."""
    memory_mib: int = 0
    withheld: CpuSet = NO_CPUS
    """CPUs kept idle for this container, for example siblings. They are booked like its own; no container runs on
    them."""
    pages: Mapping[int, int] = field(default_factory=dict, hash=False)
    """Number of huge pages by size in KiB. If there are any, ``memory_mib`` is in them. Example: {2048: 4} is 8 MiB.
    In a plan with parts, ``memory_mib`` is that of all parts, in pages and beside them; the parts tell which."""
    shared: float = 0.0
    """CPU demand of a shared or mixed container booked on this cell's pool."""
    pinned: CpuSet = field(default=NO_CPUS, compare=False)
    """CPUs that other containers held on the cell when the plan was made. For people only, not part of the claim."""
    pool: CpuSet = field(default=NO_CPUS, compare=False)
    """For a mixed container the pool of the cell when the plan was made: the CPUs where it runs beside its own. Not
    part of the claim, because the pool changes with other containers."""

    @property
    def runs_here(self) -> bool:
        """True if the container runs on CPUs of the cell, False if it has only memory there."""
        return bool(self.cpus) or self.shared > 0


@dataclass(frozen=True, slots=True)
class Plan:
    """Exact CPUs, memory nodes and amounts for one container on one host, by cell id."""

    cells: Mapping[int, CellShare] = field(hash=False)
    cpu_policy: str = "dedicated"
    generation: int | None = None
    """Generation of the host when the plan was made; the caller sets it with ``dataclasses.replace``."""
    mems: CpuSet = None  # type: ignore[assignment]
    """Nodes that give the container's memory (``cpuset_mems``): all cells of the plan that have memory, and the nodes
    that are the memory of its devices."""
    isolation: str = "thread"
    """The isolation grade that was asked for; ``grade_of`` returns the grade that the plan reaches."""
    whole_cores: bool = False
    """True if whole cores were asked for: thread policy ``isolate`` or ``require``."""
    devices: tuple[GivenDevice, ...] = ()
    """The devices of the container, by the order of the request and then by address."""
    cache: Part = NO_PART
    """The part that the container has for itself of each L3 that one of its own CPUs uses."""
    parts: tuple[Plan, ...] = ()
    """Of a capsule whose containers differ, the plan of each member of the request. ``cells`` and ``devices`` are
    their sums, and claims are booked part by part."""

    def __post_init__(self) -> None:
        cells = dict(self.cells)
        object.__setattr__(self, "cells", dict(sorted(cells.items())) if len(cells) > 1 else cells)
        if self.mems is None:
            object.__setattr__(self, "mems", CpuSet(self.cells))
        if self.devices:
            own = CpuSet(each.memory_node for each in self.devices if each.memory_node is not None)
            object.__setattr__(self, "mems", self.mems | own)

    @classmethod
    def joined(cls, parts: Sequence[Plan]) -> Self:
        """Return the plan of a capsule from those of its parts, which are not joined themselves.

        The sandbox of the capsule runs on it: on the own CPUs of all parts, and where a part runs there, on the pool.
        """
        policies = {part.cpu_policy for part in parts}
        policy = policies.pop() if len(policies) == 1 else "mixed"
        cells: dict[int, CellShare] = {}
        for part in parts:
            for node, share in part.cells.items():
                into_pool = policy == "mixed" and not part.dedicated
                cells[node] = _added(cells.get(node, CellShare()), share, into_pool=into_pool)
        mems = 0
        for part in parts:
            mems |= part.mems.mask
        devices = tuple(device for part in parts for device in part.devices)
        return cls(cells, policy, mems=CpuSet.from_mask(mems), devices=devices, parts=tuple(parts))

    @property
    def each(self) -> tuple[Plan, ...]:
        """The plans that are booked: the parts of a capsule whose containers differ, else this plan alone."""
        return self.parts or (self,)

    @property
    def dedicated(self) -> bool:
        """True if the container has CPUs of its own: all of its CPUs, or some (``mixed``)."""
        return self.cpu_policy != "shared"

    @property
    def uses_pool(self) -> bool:
        """True if the container runs on the shared pool, with nothing else or beside its own CPUs (``mixed``)."""
        return self.cpu_policy != "dedicated"

    @property
    def keeps(self) -> str:
        """The grade whose CPUs the plan holds: ``isolation``, but at least ``core`` if whole cores were asked for."""
        return "core" if self.whole_cores and self.isolation in ("thread", "isolated") else self.isolation

    @property
    def cpus(self) -> CpuSet:
        """CPUs the container may run on (``cpuset_cpus``), those of the pool as they were when the plan was made."""
        mask = 0
        for share in self.cells.values():
            mask |= share.cpus.mask | share.pool.mask
        return CpuSet.from_mask(mask)

    @property
    def dedicated_cpus(self) -> CpuSet:
        """CPUs of the container's own, without withheld ones; empty for a shared container."""
        if not self.dedicated:
            return NO_CPUS
        mask = 0
        for share in self.cells.values():
            mask |= share.cpus.mask
        return CpuSet.from_mask(mask)

    @property
    def withheld(self) -> CpuSet:
        """CPUs that no container may run on while this plan is held."""
        mask = 0
        for share in self.cells.values():
            mask |= share.withheld.mask
        return CpuSet.from_mask(mask)

    @property
    def cpu_cells(self) -> tuple[int, ...]:
        """Ids of the cells that the container runs on. A shared container always runs on the present pools of these."""
        return tuple(node for node, share in self.cells.items() if share.runs_here)

    @property
    def memory_mib(self) -> int:
        """MiB of all cells together."""
        return sum(share.memory_mib for share in self.cells.values())

    @property
    def pages(self) -> dict[int, int]:
        """Huge pages of the container, by size in KiB. Example: {2048: 8} is 16 MiB. Empty without huge pages.

        A plan with parts has none, because the sandbox of a capsule uses none: its parts have them.
        """
        total: dict[int, int] = {}
        if self.parts:
            return total
        for share in self.cells.values():
            for size, count in share.pages.items():
                total[size] = total.get(size, 0) + count
        return total

    def to_dict(self) -> dict[str, Any]:
        """Return the record for the container's row and for ``limits['cpuset']``.

        ``mems`` is left out if it is simply the cells of the plan, ``isolation`` if it is ``thread``, and
        ``whole_cores`` if it is False, ``devices`` and ``parts`` if there are none, and ``cache_ways`` and
        ``memory_bandwidth`` if they are 0.
        """
        record: dict[str, Any] = {
            "cpu_policy": self.cpu_policy,
            "generation": self.generation,
            "cells": [_share_record(cell, share) for cell, share in self.cells.items()],
        }
        if self.mems != CpuSet(self.cells):
            record["mems"] = str(self.mems)
        if self.isolation != "thread":
            record["isolation"] = self.isolation
        if self.whole_cores:
            record["whole_cores"] = True
        if self.devices:
            record["devices"] = [each.to_dict() for each in self.devices]
        if self.cache.ways:
            record["cache_ways"] = self.cache.ways
        if self.cache.bandwidth:
            record["memory_bandwidth"] = self.cache.bandwidth
        if self.parts:
            record["parts"] = [part.to_dict() for part in self.parts]
        return record

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Return the plan of a record. Keys that ``to_dict`` does not write are ignored.

        Raise one of ``ranges.MALFORMED`` for a record that ``to_dict`` did not make.
        """
        mems = record.get("mems")
        policy, isolation = record["cpu_policy"], record.get("isolation", "thread")
        if policy not in _POLICIES or isolation not in _GRADES:
            raise ValueError(f"cpu_policy {shown(policy)} and isolation {shown(isolation)} are not known")
        return cls(
            cells={CELL(share["node"]): _share(share) for share in CELLS(record["cells"])},
            cpu_policy=policy,
            generation=GENERATION.or_none(record.get("generation")),
            mems=None if mems is None else CpuSet(mems),  # type: ignore[arg-type]
            isolation=isolation,
            whole_cores=bool(record.get("whole_cores", False)),
            devices=tuple(GivenDevice.from_dict(each) for each in DEVICES(record.get("devices", ()))),
            cache=Part(WAYS(record.get("cache_ways", 0)), PERCENT(record.get("memory_bandwidth", 0))),
            parts=tuple(cls.from_dict({**each, "parts": ()}) for each in _PARTS(record.get("parts", ()))),
        )


_PARTS = Listed("parts of a plan", 256)
_POLICIES = frozenset(map(str, CPUPolicy))
_GRADES = frozenset(map(str, Isolation))


def _added(one: CellShare, other: CellShare, *, into_pool: bool) -> CellShare:
    """Return the sum of the shares of two parts on one cell. With ``into_pool`` the CPUs of ``other`` are the pool."""
    sizes = one.pages.keys() | other.pages.keys()
    return CellShare(
        cpus=one.cpus if into_pool else one.cpus | other.cpus,
        memory_mib=one.memory_mib + other.memory_mib,
        withheld=one.withheld | other.withheld,
        pages={size: one.pages.get(size, 0) + other.pages.get(size, 0) for size in sorted(sizes)},
        shared=amounts.exact(one.shared + other.shared),
        pinned=one.pinned | other.pinned,
        pool=one.pool | other.pool | (other.cpus if into_pool else NO_CPUS),
    )


def _share_record(cell: int, share: CellShare) -> dict[str, Any]:
    return {
        "node": cell,
        "cpuset_cpu": str(share.cpus),
        "cpuset_cpu_pinned": str(share.pinned),
        "cpuset_mem": share.memory_mib,
        "withheld": str(share.withheld),
        "pages": {str(size): count for size, count in share.pages.items()},
        "shared": share.shared,
        **({"pool": str(share.pool)} if share.pool else {}),
    }


def _share(record: Mapping[str, Any]) -> CellShare:
    return CellShare(
        cpus=CpuSet(record["cpuset_cpu"]),
        memory_mib=MIB(record["cpuset_mem"]),
        withheld=CpuSet(record.get("withheld", "")),
        pages={PAGE_KIB.key(size): PAGES(count) for size, count in record.get("pages", {}).items()},
        shared=CPUS(record.get("shared", 0.0)),
        pinned=CpuSet(record.get("cpuset_cpu_pinned", "")),
        pool=CpuSet(record.get("pool", "")),
    )
