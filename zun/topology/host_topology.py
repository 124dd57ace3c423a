# SPDX-License-Identifier: Apache-2.0
"""A host as ``plan`` sees it: its cells, and the settings of its operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any, Self

from zun.topology.cache_control import NO_CACHE_CONTROL, CacheControl
from zun.topology.cells import NUMACell
from zun.topology.cpuset import NO_CPUS, CpuSet, union
from zun.topology.device_view import DeviceView, build_device_view
from zun.topology.devices import Device
from zun.topology.foreign import NO_FOREIGN, Foreign
from zun.topology.ranges import CELL, CELLS, DEVICES, KINDS, MIB, NAME, NOTE, NOTES, PAGE_KIB, RATIO
from zun.topology.view import HostView, Limits, build_view


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
    cache_control: CacheControl = NO_CACHE_CONTROL
    """What containers may have of the L3 caches and of the memory bandwidth for themselves."""
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
        return self._prepared(self.dedicated_cpus)

    @cached_property
    def isolated_view(self) -> HostView:
        """This host prepared for ``plan()``, for the isolation grade ``isolated``."""
        return self._prepared(self.isolated_cpus)

    def _prepared(self, dedicated: CpuSet) -> HostView:
        everyone = self.dedicated_cpus | self.isolated_cpus | self.pool_cpus
        uses = (dedicated, self.pool_cpus, everyone, self.exposed, self.exposed_l3, self.exposed_nodes)
        return build_view(
            self.cells,
            Limits(*[cpus.mask for cpus in uses]),
            self.foreign,
            self.reserved_memory_mib,
            pool_beyond=self.pool_beyond.mask,
            cpu_ratio=self.cpu_allocation_ratio,
            ram_ratio=self.ram_allocation_ratio,
            spread=self.strategy == "spread",
            cache_control=self.cache_control,
        )

    @cached_property
    def device_view(self) -> DeviceView:
        """The devices of this host prepared for ``plan()``."""
        return build_device_view(self.devices, self.cells, self.sockets)

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
            **({"cache_control": self.cache_control.to_dict()} if self.cache_control else {}),
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
            cache_control=CacheControl.from_dict(record["cache_control"]) if "cache_control" in record
            else NO_CACHE_CONTROL,
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


def view_of(topology: HostTopology, isolation: str = "thread") -> HostView:
    """Return the view of ``topology`` for requests of this isolation grade.

    The grade ``isolated`` has a view of its own, all other grades share one.
    """
    return topology.isolated_view if isolation == "isolated" else topology.view


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
