# SPDX-License-Identifier: Apache-2.0
"""The machine as the allocator sees it: cells, and what the operator keeps back from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from zun.topology.cpuset import NO_CPUS, CpuSet, union

LOCAL_DISTANCE = 10
REMOTE_DISTANCE = 20
"""The kernel's own defaults (LOCAL_DISTANCE, REMOTE_DISTANCE) where the firmware gave no table."""


@dataclass(frozen=True, slots=True)
class NUMACell:
    """One memory node, with or without CPUs. Its id is the kernel's node number: any integer, never a position.

    ``siblings`` is one set per physical core and ``l3`` one per L3 cache, both cut to the CPUs of this
    cell and in order of their lowest CPU. CPUs named by no sibling set become cores of their own.
    """

    id: int
    cpus: CpuSet = NO_CPUS
    siblings: tuple[CpuSet, ...] = ()
    l3: tuple[CpuSet, ...] = ()
    memory_mib: int = 0
    distances: Mapping[int, int] = field(default_factory=dict, hash=False)
    pages: Mapping[int, int] = field(default_factory=dict, hash=False)
    """Huge pages the kernel has set aside on this cell: count by size in KiB."""
    initiators: CpuSet = NO_CPUS
    """Ids of the cells whose CPUs reach this memory best, where the firmware says so (HMAT)."""

    def __post_init__(self) -> None:
        """Raise ValueError when the parts contradict each other."""
        if self.id < 0:
            raise ValueError(f"cell id {self.id} is negative: only a kernel node number will do")
        if self.memory_mib < 0 or any(size <= 0 or count < 0 for size, count in self.pages.items()):
            raise ValueError(f"cell {self.id} has a negative amount of memory or pages")
        object.__setattr__(self, "siblings", _partition(self.id, self.cpus, self.siblings))
        object.__setattr__(self, "l3", _cut(self.cpus, self.l3))
        object.__setattr__(self, "distances", dict(self.distances))
        object.__setattr__(self, "pages", dict(self.pages))

    @property
    def small_mib(self) -> int:
        """MiB that ordinary pages can use: what the huge page pools have not taken."""
        pool_kib = sum(size * count for size, count in self.pages.items())
        return max(0, self.memory_mib - -(-pool_kib // 1024))

    def distance(self, other: int) -> int:
        """How far ``other`` is, in the kernel's unit (10 is local)."""
        return self.distances.get(other, LOCAL_DISTANCE if other == self.id else REMOTE_DISTANCE)

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "cpus": str(self.cpus),
            "siblings": [str(core) for core in self.siblings],
            "l3": [str(group) for group in self.l3],
            "memory_mib": self.memory_mib,
            "distances": {str(cell): distance for cell, distance in self.distances.items()},
            "pages": {str(size): count for size, count in self.pages.items()},
            "initiators": str(self.initiators),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        return cls(
            id=int(record["id"]),
            cpus=CpuSet(record["cpus"]),
            siblings=tuple(CpuSet(core) for core in record.get("siblings", ())),
            l3=tuple(CpuSet(group) for group in record.get("l3", ())),
            memory_mib=int(record["memory_mib"]),
            distances={int(cell): int(distance) for cell, distance in record.get("distances", {}).items()},
            pages={int(size): int(count) for size, count in record.get("pages", {}).items()},
            initiators=CpuSet(record.get("initiators", "")),
        )


def _cut(cpus: CpuSet, groups: Iterable[CpuSet]) -> tuple[CpuSet, ...]:
    """The parts of ``groups`` inside ``cpus``, in order of their lowest CPU, without repetitions."""
    inside = {group & cpus for group in groups} - {CpuSet()}
    return tuple(sorted(inside, key=tuple))


def _partition(cell: int, cpus: CpuSet, cores: Iterable[CpuSet]) -> tuple[CpuSet, ...]:
    known = _cut(cpus, cores)
    covered = NO_CPUS
    for core in known:
        if core & covered:
            raise ValueError(f"CPUs {core & covered} of cell {cell} are in two cores")
        covered |= core
    return _cut(cpus, (*known, *(CpuSet((cpu,)) for cpu in cpus - covered)))


@dataclass(frozen=True, slots=True)
class HostTopology:
    """A host's cells, and what the operator decided about them: a fact that changes rarely.

    ``discover()`` fills the first group of fields, ``configured()`` the second. Both together are what
    ``plan()`` needs to know about a host besides its usage.
    """

    cells: tuple[NUMACell, ...] = ()
    sockets: tuple[CpuSet, ...] = ()
    offline: CpuSet = NO_CPUS
    isolated: CpuSet = NO_CPUS
    """CPUs the kernel does not balance (``isolcpus``). Only isolation grade ``isolated`` gets them: any other
    container with several threads would find them all on one CPU."""
    exposed: CpuSet = NO_CPUS
    """CPUs whose core has threads in another cell or outside this process's limits: never a whole core to us."""
    exposed_l3: CpuSet = NO_CPUS
    """CPUs whose L3 cache also serves CPUs of another cell or outside this process's limits: never a whole L3 to us."""
    exposed_nodes: CpuSet = NO_CPUS
    """CPUs whose cell has CPUs outside this process's limits: never a whole cell to us."""
    page_kib: int = 4
    """Size of an ordinary page."""
    notes: tuple[str, ...] = ()
    """What discovery found odd, in words."""

    reserved: CpuSet = NO_CPUS
    """CPUs the operator keeps for the host: neither dedicated nor shared."""
    dedicated_set: CpuSet | None = None
    shared_set: CpuSet | None = None
    reserved_memory_mib: Mapping[int, int] = field(default_factory=dict, hash=False)
    cpu_allocation_ratio: float = 1.0
    ram_allocation_ratio: float = 1.0
    strategy: str = "pack"
    """Which of equally close places is better: ``pack`` the one that is left with least, ``spread`` with most."""
    pool_beyond: CpuSet = NO_CPUS
    """Where this is a part of a host, CPUs that shared containers have beside ``pool_cpus``; no part of any record."""

    _by_id: dict[int, NUMACell] = field(init=False, repr=False, compare=False)
    _views: dict[bool | str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Raise ValueError for repeated ids, CPUs in two cells, and ratios that are not positive."""
        cells = tuple(sorted(self.cells, key=lambda cell: cell.id))
        by_id = {cell.id: cell for cell in cells}
        if len(by_id) != len(cells):
            raise ValueError("two cells have the same id")
        seen = NO_CPUS
        for cell in cells:
            if cell.cpus & seen:
                raise ValueError(f"CPUs {cell.cpus & seen} are in two cells")
            seen |= cell.cpus
        for name in ("cpu_allocation_ratio", "ram_allocation_ratio"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be a positive number, not {getattr(self, name)}")
        if self.strategy not in ("pack", "spread"):
            raise ValueError(f"strategy must be pack or spread, not {self.strategy!r}")
        object.__setattr__(self, "cells", cells)
        object.__setattr__(self, "reserved_memory_mib", dict(self.reserved_memory_mib))
        object.__setattr__(self, "_by_id", by_id)
        object.__setattr__(self, "_views", {})

    def cell(self, cell_id: int) -> NUMACell:
        """The cell of that id; KeyError when the host has none."""
        return self._by_id[cell_id]

    @property
    def cpus(self) -> CpuSet:
        """Every online CPU."""
        mask = 0
        for cell in self.cells:
            mask |= cell.cpus.mask
        return CpuSet.from_mask(mask)

    @property
    def memory_mib(self) -> int:
        """MiB of all cells together."""
        return sum(cell.memory_mib for cell in self.cells)

    @property
    def dedicated_cpus(self) -> CpuSet:
        """CPUs a dedicated container may ever get: the operator's set, else all that are for no other use.

        Those the kernel isolates are not among them, see ``isolated_cpus``.
        """
        return self._for_dedicated() - self.isolated

    @property
    def isolated_cpus(self) -> CpuSet:
        """CPUs a container of isolation grade ``isolated`` may ever get."""
        return self._for_dedicated() & self.isolated

    def cpus_for(self, isolation: str) -> CpuSet:
        """CPUs a dedicated container of this isolation grade may ever get."""
        return self.isolated_cpus if isolation == "isolated" else self.dedicated_cpus

    def _for_dedicated(self) -> CpuSet:
        usable = self.cpus - self.reserved
        if self.dedicated_set is not None:
            return usable & self.dedicated_set
        return usable - (self.shared_set or CpuSet())

    @property
    def pool_cpus(self) -> CpuSet:
        """CPUs of the shared pool while no dedicated container holds any."""
        usable = self.cpus - self.reserved - self.isolated
        return usable if self.shared_set is None else usable & self.shared_set

    def without_shared_set(self) -> Self:
        """This host with all usable CPUs in the pool; dedicated containers may get the same as before.

        For shared containers whose pool has lost every CPU. The same object at each call.
        """
        if self.shared_set is None:
            return self
        if "pool" not in self._views:
            self._views["pool"] = replace(self, dedicated_set=self._for_dedicated(), shared_set=None)
        found: Self = self._views["pool"]
        return found

    def configured(
        self,
        *,
        reserved_cpus: CpuSet = NO_CPUS,
        dedicated_set: CpuSet | None = None,
        shared_set: CpuSet | None = None,
        reserved_memory_mib: int | Mapping[int, int] = 0,
        cpu_allocation_ratio: float = 1.0,
        ram_allocation_ratio: float = 1.0,
        strategy: str = "pack",
    ) -> Self:
        """This host with the operator's settings, replacing earlier ones.

        ``reserved_memory_mib`` as a number is for the whole host, taken from its cells in proportion to
        their memory; as a mapping it is MiB by cell id. ``cpu_allocation_ratio`` is how many shared CPUs
        may be promised per CPU of the pool, ``ram_allocation_ratio`` the same for memory of shared containers.
        ``strategy`` ``pack`` keeps large holes large; ``spread`` gives each container the emptiest of equally
        close places.
        """
        if isinstance(reserved_memory_mib, int):
            reserved_memory_mib = _spread(reserved_memory_mib, self.cells)
        if any(mib < 0 for mib in reserved_memory_mib.values()):
            raise ValueError("reserved_memory_mib cannot be negative")
        return replace(
            self,
            reserved=reserved_cpus,
            dedicated_set=dedicated_set,
            shared_set=shared_set,
            reserved_memory_mib=reserved_memory_mib,
            cpu_allocation_ratio=cpu_allocation_ratio,
            ram_allocation_ratio=ram_allocation_ratio,
            strategy=strategy,
        )

    def beside(self, others: CpuSet) -> Self:
        """This host where somebody else runs on ``others``: nobody gets them, nor a core, an L3 or a cell that has one
        of them to himself.
        """
        if not others:
            return self

        def shared(groups: Iterable[CpuSet]) -> CpuSet:
            return union(group for group in groups if group & others)

        caches = [group for cell in self.cells for group in (*cell.l3, cell.cpus - union(cell.l3))]
        return replace(
            self,
            reserved=self.reserved | others,
            exposed=self.exposed | shared(core for cell in self.cells for core in cell.siblings),
            exposed_l3=self.exposed_l3 | shared(caches),
            exposed_nodes=self.exposed_nodes | shared(cell.cpus for cell in self.cells),
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-able form, CPU sets as kernel lists; ``from_dict`` gives an equal value back."""
        return {
            "cells": [cell.to_dict() for cell in self.cells],
            "sockets": [str(socket) for socket in self.sockets],
            "offline": str(self.offline),
            "isolated": str(self.isolated),
            "exposed": str(self.exposed),
            "exposed_l3": str(self.exposed_l3),
            "exposed_nodes": str(self.exposed_nodes),
            "page_kib": self.page_kib,
            "notes": list(self.notes),
            "reserved": str(self.reserved),
            "dedicated_set": None if self.dedicated_set is None else str(self.dedicated_set),
            "shared_set": None if self.shared_set is None else str(self.shared_set),
            "reserved_memory_mib": {str(cell): mib for cell, mib in self.reserved_memory_mib.items()},
            "cpu_allocation_ratio": self.cpu_allocation_ratio,
            "ram_allocation_ratio": self.ram_allocation_ratio,
            "strategy": self.strategy,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The topology of a record; fields the record's writer did not know have their defaults."""

        def optional(name: str) -> CpuSet | None:
            return None if record.get(name) is None else CpuSet(record[name])

        reserved_memory = record.get("reserved_memory_mib", {})
        return cls(
            cells=tuple(NUMACell.from_dict(cell) for cell in record["cells"]),
            sockets=tuple(CpuSet(socket) for socket in record.get("sockets", ())),
            offline=CpuSet(record.get("offline", "")),
            isolated=CpuSet(record.get("isolated", "")),
            exposed=CpuSet(record.get("exposed", "")),
            exposed_l3=CpuSet(record.get("exposed_l3", "")),
            exposed_nodes=CpuSet(record.get("exposed_nodes", "")),
            page_kib=int(record.get("page_kib", 4)),
            notes=tuple(record.get("notes", ())),
            reserved=CpuSet(record.get("reserved", "")),
            dedicated_set=optional("dedicated_set"),
            shared_set=optional("shared_set"),
            reserved_memory_mib={int(cell): int(mib) for cell, mib in reserved_memory.items()},
            cpu_allocation_ratio=float(record.get("cpu_allocation_ratio", 1.0)),
            ram_allocation_ratio=float(record.get("ram_allocation_ratio", 1.0)),
            strategy=str(record.get("strategy", "pack")),
        )


def _spread(total: int, cells: tuple[NUMACell, ...]) -> dict[int, int]:
    """``total`` MiB in proportion to the cells' memory, rounded so that the sum is exact."""
    whole = sum(cell.memory_mib for cell in cells)
    shares, given, seen = {}, 0, 0
    for cell in cells:
        seen += cell.memory_mib
        share = (total * seen // whole if whole else 0) - given
        given += share
        if share:
            shares[cell.id] = share
    return shares
