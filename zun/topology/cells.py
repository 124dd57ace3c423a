# SPDX-License-Identifier: Apache-2.0
"""A host as ``plan`` sees it: its cells, and the settings of its operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any, Self

from zun.topology.cpuset import NO_CPUS, CpuSet, union
from zun.topology.device_view import DeviceView, build_device_view
from zun.topology.devices import Device
from zun.topology.foreign import NO_FOREIGN, Foreign
from zun.topology.ranges import (
    CELL,
    CELLS,
    CORES,
    DEVICES,
    DISTANCE,
    KINDS,
    MIB,
    NAME,
    NOTE,
    NOTES,
    PAGE_KIB,
    PAGES,
    RATIO,
)
from zun.topology.view import HostView, build_view

LOCAL_DISTANCE = 10
REMOTE_DISTANCE = 20
"""Distances if the firmware gave no table; the kernel's defaults of the same names."""


@dataclass(frozen=True, slots=True)
class NUMACell:
    """One memory node, with or without CPUs. Its id is the kernel's node number: any integer, never a position.

    ``siblings`` has one set for each physical core and ``l3`` one for each L3 cache. Both are cut to the CPUs of this
    cell and are in order of their lowest CPU. A CPU that no sibling set names becomes a core of its own.
    """

    id: int
    cpus: CpuSet = NO_CPUS
    siblings: tuple[CpuSet, ...] = ()
    l3: tuple[CpuSet, ...] = ()
    memory_mib: int = 0
    distances: Mapping[int, int] = field(default_factory=dict, hash=False)
    pages: Mapping[int, int] = field(default_factory=dict, hash=False)
    """Huge pages the kernel has set aside on this cell: count by size in KiB."""
    _: KW_ONLY
    initiators: CpuSet = NO_CPUS
    """Ids of the cells whose CPUs reach this memory best, if the firmware tells (HMAT)."""

    def __post_init__(self) -> None:
        """Raise ValueError if fields contradict each other."""
        if self.id < 0:
            raise ValueError(f"cell id {self.id} is negative: only a kernel node number will do")
        if self.memory_mib < 0 or any(size <= 0 or count < 0 for size, count in self.pages.items()):
            raise ValueError(f"cell {self.id} has a negative amount of memory or pages")
        object.__setattr__(self, "siblings", _partition(self.id, self.cpus, self.siblings))
        object.__setattr__(self, "l3", _cut(self.cpus, self.l3))
        _refuse_overlap(self.id, "L3 caches", self.l3)
        object.__setattr__(self, "distances", dict(self.distances))
        object.__setattr__(self, "pages", dict(self.pages))

    @property
    def small_mib(self) -> int:
        """MiB for ordinary pages: the memory of the cell without its huge page pools."""
        pool_kib = sum(size * count for size, count in self.pages.items())
        return max(0, self.memory_mib - -(-pool_kib // 1024))

    def distance(self, other: int) -> int:
        """Return the distance to cell ``other`` in the kernel's unit: 10 is local, 20 is a usual remote cell."""
        return self.distances.get(other, LOCAL_DISTANCE if other == self.id else REMOTE_DISTANCE)

    def to_dict(self) -> dict[str, Any]:
        """Return the cell as JSON-able values, CPU sets as kernel lists."""
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
        """Return the cell of a record that ``to_dict`` made. Raise one of ``ranges.MALFORMED`` for another record."""
        return cls(
            id=CELL(record["id"]),
            cpus=CpuSet(record["cpus"]),
            siblings=tuple(CpuSet(core) for core in CORES(record.get("siblings", ()))),
            l3=tuple(CpuSet(group) for group in CORES(record.get("l3", ()))),
            memory_mib=MIB(record["memory_mib"]),
            distances={CELL.key(cell): DISTANCE(distance) for cell, distance in record.get("distances", {}).items()},
            pages={PAGE_KIB.key(size): PAGES(count) for size, count in record.get("pages", {}).items()},
            initiators=CpuSet(record.get("initiators", "")),
        )


def only_cell(cells: Sequence[NUMACell]) -> int | None:
    """Return the id of the only cell that has CPUs, or None if several have: everything is nearest to this cell."""
    found = [cell.id for cell in cells if cell.cpus] or [cell.id for cell in cells]
    return found[0] if len(found) == 1 else None


def _cut(cpus: CpuSet, groups: Iterable[CpuSet]) -> tuple[CpuSet, ...]:
    """Return the parts of ``groups`` inside ``cpus``, each once, in order of their lowest CPU."""
    inside = {group & cpus for group in groups} - {NO_CPUS}
    return tuple(sorted(inside, key=lambda group: (group.mask & -group.mask, group.mask)))


def _partition(cell: int, cpus: CpuSet, cores: Iterable[CpuSet]) -> tuple[CpuSet, ...]:
    """Return ``cores`` and a core for each other CPU. Raise ValueError if two cores share a CPU."""
    known = _cut(cpus, cores)
    covered = _refuse_overlap(cell, "cores", known)
    return _cut(cpus, (*known, *(CpuSet((cpu,)) for cpu in cpus - covered)))


def _refuse_overlap(cell: int, what: str, groups: Iterable[CpuSet]) -> CpuSet:
    """Raise ValueError if two of ``groups`` share a CPU, else return all their CPUs."""
    covered = NO_CPUS
    for group in groups:
        if group & covered:
            raise ValueError(f"CPUs {group & covered} of cell {cell} are in two {what}")
        covered |= group
    return covered


@dataclass(frozen=True)
class HostTopology:
    """The cells of a host and the settings of its operator. It changes rarely.

    ``discover()`` fills the first group of fields, ``configured()`` the second. Beside the usage, ``plan()`` needs no
    other facts about a host.

    Each ``cached_property`` follows from the fields alone. It is computed at the first use, because many topologies
    are only read, compared or written.
    """

    cells: tuple[NUMACell, ...] = ()
    sockets: tuple[CpuSet, ...] = ()
    offline: CpuSet = NO_CPUS
    _: KW_ONLY
    isolated: CpuSet = NO_CPUS
    """CPUs that the kernel does not balance (``isolcpus``). Only the isolation grade ``isolated`` gets them, because
    the threads of any other container would all stay on one of these CPUs."""
    exposed: CpuSet = NO_CPUS
    """CPUs whose core has threads in another cell or outside the limits of this process: never given as a whole
    core."""
    exposed_l3: CpuSet = NO_CPUS
    """CPUs whose L3 also serves CPUs of another cell or outside the limits of this process: never given as a whole
    L3."""
    exposed_nodes: CpuSet = NO_CPUS
    """CPUs whose cell has CPUs outside the limits of this process: never given as a whole cell."""
    page_kib: int = 4
    """Size of an ordinary page."""
    devices: tuple[Device, ...] = ()
    """PCI devices, then files, then CDI names, each in order: all as discovered, or those that containers may get."""
    notes: tuple[str, ...] = ()
    """Findings of discovery that an operator should know, in words."""

    reserved: CpuSet = NO_CPUS
    """CPUs that the operator keeps for the host: no container gets them."""
    dedicated_set: CpuSet | None = None
    shared_set: CpuSet | None = None
    reserved_memory_mib: Mapping[int, int] = field(default_factory=dict, hash=False)
    cpu_allocation_ratio: float = 1.0
    ram_allocation_ratio: float = 1.0
    strategy: str = "pack"
    """Choice among equally close places: ``pack`` takes the one that is left with least, ``spread`` with most."""
    foreign: Foreign = NO_FOREIGN
    """The part of ``reserved`` and ``reserved_memory_mib`` that other services have, with all else that they have."""
    pool_beyond: CpuSet = NO_CPUS
    """If this is a part of a host: pool CPUs of the other parts. Not kept in records."""

    _by_id: dict[int, NUMACell] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Raise ValueError for repeated ids, CPUs in two cells, unknown strategies, and ratios of 0 or less."""
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

    def __hash__(self) -> int:
        """Return the hash, computed once: many plans are kept by the topology that they are for."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Integers only: their hashes are the same in every process.
        cells = tuple([(cell.id, cell.cpus.mask, cell.memory_mib) for cell in self.cells])
        return hash((cells, self.isolated.mask, self.reserved.mask))

    def cell(self, cell_id: int) -> NUMACell:
        """Return the cell with this id. Raise KeyError if the host has none."""
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
        """CPUs that dedicated containers may get: the operator's set, or all CPUs that are for no other use.

        CPUs that the kernel isolates are not among them, see ``isolated_cpus``.
        """
        return self._for_dedicated() - self.isolated

    @property
    def isolated_cpus(self) -> CpuSet:
        """CPUs that containers of isolation grade ``isolated`` may get."""
        return self._for_dedicated() & self.isolated

    def cpus_for(self, isolation: str) -> CpuSet:
        """Return the CPUs that dedicated containers of this isolation grade may get."""
        return self.isolated_cpus if isolation == "isolated" else self.dedicated_cpus

    def _for_dedicated(self) -> CpuSet:
        usable = self.cpus - self.reserved
        if self.dedicated_set is not None:
            return usable & self.dedicated_set
        return usable - (self.shared_set or CpuSet())

    @property
    def pool_cpus(self) -> CpuSet:
        """CPUs of the shared pool if no dedicated container holds any of them."""
        usable = self.cpus - self.reserved - self.isolated
        return usable if self.shared_set is None else usable & self.shared_set

    def without_shared_set(self) -> HostTopology:
        """Return this host with all usable CPUs in the pool; dedicated containers may get the same CPUs as before.

        Use it for shared containers whose pool has lost every CPU. Each call returns the same object.
        """
        return self if self.shared_set is None else self._open_pool

    @cached_property
    def _open_pool(self) -> HostTopology:
        return replace(self, dedicated_set=self._for_dedicated(), shared_set=None)

    @cached_property
    def view(self) -> HostView:
        """This host prepared for ``plan()``, for every isolation grade but ``isolated``."""
        return build_view(self, self.dedicated_cpus.mask)

    @cached_property
    def isolated_view(self) -> HostView:
        """This host prepared for ``plan()``, for the isolation grade ``isolated``."""
        return build_view(self, self.isolated_cpus.mask)

    @cached_property
    def device_view(self) -> DeviceView:
        """The devices of this host prepared for ``plan()``."""
        return build_device_view(self)

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
        """Return this host with the operator's settings in place of all earlier ones.

        ``reserved_memory_mib`` is MiB by cell id, or MiB for the whole host, which its cells give in proportion to
        their memory. ``cpu_allocation_ratio`` is the number of shared CPUs that may be promised for each CPU of the
        pool; ``ram_allocation_ratio`` is the same for memory of shared containers. ``strategy`` ``pack`` keeps large
        free places large; ``spread`` gives each container the emptiest of equally close places.
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
        """Return this host if programs outside the service run on the CPUs ``others``.

        No container gets these CPUs. No container gets a core, an L3 or a cell with one of them to itself.
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

    def without_pages(self, kept: Mapping[int, Mapping[int, int]]) -> Self:
        """Return this host if its own programs have ``kept``: huge pages by cell id and size in KiB.

        The pages leave the inventory, and their memory is reserved: ordinary pages do not get it.
        """
        memory, cells = dict(self.reserved_memory_mib), []
        for cell in self.cells:
            gone = kept.get(cell.id, {})
            pages = {size: max(0, count - gone.get(size, 0)) for size, count in cell.pages.items()}
            cells.append(replace(cell, pages=pages))
            if mib := cells[-1].small_mib - cell.small_mib:
                memory[cell.id] = memory.get(cell.id, 0) + mib
        return replace(self, cells=tuple(cells), reserved_memory_mib=memory)

    def shared_with(self, foreign: Foreign) -> Self:
        """Return this host if consumers of other services have ``foreign`` of it.

        Their CPUs and memory are reserved. Their shared demand and their huge pages count as if containers had them.
        """
        if not foreign:
            return self
        memory = dict(self.reserved_memory_mib)
        for cell in self.cells:
            if mib := foreign.share(cell.id).memory_mib:
                memory[cell.id] = memory.get(cell.id, 0) + mib
        return replace(
            self, foreign=foreign, reserved=self.reserved | foreign.withheld, reserved_memory_mib=memory
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the host as JSON-able values, CPU sets as kernel lists; ``from_dict`` returns an equal value."""
        return {
            "cells": [cell.to_dict() for cell in self.cells],
            "sockets": [str(socket) for socket in self.sockets],
            "offline": str(self.offline),
            "isolated": str(self.isolated),
            "exposed": str(self.exposed),
            "exposed_l3": str(self.exposed_l3),
            "exposed_nodes": str(self.exposed_nodes),
            "page_kib": self.page_kib,
            "devices": [device.to_dict() for device in self.devices],
            "notes": list(self.notes),
            "reserved": str(self.reserved),
            "dedicated_set": None if self.dedicated_set is None else str(self.dedicated_set),
            "shared_set": None if self.shared_set is None else str(self.shared_set),
            "reserved_memory_mib": {str(cell): mib for cell, mib in self.reserved_memory_mib.items()},
            "cpu_allocation_ratio": self.cpu_allocation_ratio,
            "ram_allocation_ratio": self.ram_allocation_ratio,
            "strategy": self.strategy,
            **({"foreign": self.foreign.to_dict()} if self.foreign else {}),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Return the host of a record; fields that the record lacks have their defaults.

        Raise one of ``ranges.MALFORMED`` for a record that ``to_dict`` did not make.
        """

        def optional(name: str) -> CpuSet | None:
            return None if record.get(name) is None else CpuSet(record[name])

        reserved_memory = record.get("reserved_memory_mib", {})
        devices = tuple(Device.from_dict(device) for device in DEVICES(record.get("devices", ())))
        if len({device.kind for device in devices}) > KINDS:
            raise ValueError(f"devices must be of at most {KINDS} kinds")
        return cls(
            cells=tuple(NUMACell.from_dict(cell) for cell in CELLS(record["cells"])),
            sockets=tuple(CpuSet(socket) for socket in CELLS(record.get("sockets", ()))),
            offline=CpuSet(record.get("offline", "")),
            isolated=CpuSet(record.get("isolated", "")),
            exposed=CpuSet(record.get("exposed", "")),
            exposed_l3=CpuSet(record.get("exposed_l3", "")),
            exposed_nodes=CpuSet(record.get("exposed_nodes", "")),
            page_kib=PAGE_KIB(record.get("page_kib", 4)),
            devices=devices,
            notes=tuple(map(NOTE, NOTES(record.get("notes", ())))),
            reserved=CpuSet(record.get("reserved", "")),
            dedicated_set=optional("dedicated_set"),
            shared_set=optional("shared_set"),
            reserved_memory_mib={CELL.key(cell): MIB(mib) for cell, mib in reserved_memory.items()},
            cpu_allocation_ratio=RATIO(record.get("cpu_allocation_ratio", 1.0)),
            ram_allocation_ratio=RATIO(record.get("ram_allocation_ratio", 1.0)),
            strategy=NAME(record.get("strategy", "pack")),
            foreign=Foreign.from_dict(record["foreign"]) if "foreign" in record else NO_FOREIGN,
        )


def _spread(total: int, cells: tuple[NUMACell, ...]) -> dict[int, int]:
    """Return MiB by cell id: ``total`` in proportion to the memory of the cells, rounded so that the sum is exact."""
    whole = sum(cell.memory_mib for cell in cells)
    shares, given, seen = {}, 0, 0
    for cell in cells:
        seen += cell.memory_mib
        share = (total * seen // whole if whole else 0) - given
        given += share
        if share:
            shares[cell.id] = share
    return shares
