# SPDX-License-Identifier: Apache-2.0
"""A host as a tree of resource providers: what it is to look like at Placement. Values only, no I/O.

The root has the disk, and devices of an unknown cell. Each cell is a child with its CPUs, memory, huge pages and
devices. An inventory is never smaller than what containers hold of it, because Placement would refuse to record a claim
that stands. What consumers of other services have of these providers is a part of their inventories, which do not grow
for it; what they have beside them is reserved.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil

from zun.common.disk_pools import DiskPool
from zun.common.traits import CPU_TRAITS, HYPERTHREADING
from zun.placement.allocations import (
    DISK_GB,
    MEMORY_MB,
    PAGES,
    PCPU,
    VCPU,
    cell_uuid,
    page_class,
    pool_uuid,
    root_uuid,
    total_of,
)
from zun.topology import HostTopology, NUMACell, Usage
from zun.topology.foreign import Foreign, ForeignShare
from zun.topology.host_topology import view_of
from zun.topology.request import MICRO
from zun.topology.view import HostView

NUMA_ROOT = "HW_NUMA_ROOT"
SHARING = "MISC_SHARES_VIA_AGGREGATE"
OWN_TRAITS = frozenset({NUMA_ROOT, HYPERTHREADING, *CPU_TRAITS})
"""Traits that a cell has or has not by what the hardware says. Others on its provider are the operator's."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """Placement's record of one resource class; its capacity is ``(total - reserved) * allocation_ratio``."""

    total: int
    reserved: int = 0
    allocation_ratio: float = 1.0

    @property
    def capacity(self) -> int:
        """Return the largest amount that may be allocated."""
        return int((self.total - self.reserved) * self.allocation_ratio)


@dataclass(frozen=True, slots=True)
class Provider:
    """One resource provider. ``parent`` is a uuid, None for the root."""

    uuid: str
    name: str
    parent: str | None = None
    inventories: Mapping[str, Inventory] = field(default_factory=dict, hash=False)
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Disk:
    """Disk of a host in GiB: what there is, how often it may be promised, and what containers hold."""

    total: int = 0
    ratio: float = 1.0
    held: int = 0


def tree(
    host: str,
    topology: HostTopology,
    usage: Usage,
    disk: Disk = Disk(),
    *,
    traits: Iterable[str] = (),
    aggregates: Iterable[str] = (),
    pinning: bool = True,
    name: str | None = None,
) -> tuple[Provider, ...]:
    """Return the providers of ``host``, the root first.

    ``traits`` are the traits of the host: each cell with CPUs gets them, but HW_CPU_HYPERTHREADING only if it has
    siblings. ``aggregates`` are uuids. Without ``pinning`` no dedicated CPU is offered. ``name`` is the name of the
    root, if it is not the host's. Cells that the host has lost stay for as long as somebody holds something there.
    """
    groups = frozenset(aggregates)
    held = total_of(plan for _, plan in usage)
    view = view_of(topology)
    devices = _devices(topology, usage, None, held.pop(None, Counter()))
    top = _present({DISK_GB: _disk(disk, topology.foreign), **devices})
    root = Provider(root_uuid(host), name or host, None, top, aggregates=groups)
    known = {cell.id: cell for cell in topology.cells}
    children = []
    for cell_id in sorted(known.keys() | {cell for cell in held if cell is not None}):
        cell, taken = known.get(cell_id), held.get(cell_id, Counter())
        if cell is None:
            inventories, marks = {each: Inventory(amount) for each, amount in taken.items()}, {NUMA_ROOT}
        else:
            inventories = _cpus(topology, view, usage, cell, taken, pinning) | _memory(topology, cell, taken)
            inventories |= _devices(topology, usage, cell_id, taken)
            marks = {NUMA_ROOT, *(set(traits) - {HYPERTHREADING} if cell.cpus else ())}
            if any(len(core) > 1 for core in cell.siblings):
                marks.add(HYPERTHREADING)
        child = f"{host}_NUMA_{cell_id}"
        present = _present(inventories)
        children.append(Provider(cell_uuid(host, cell_id), child, root.uuid, present, frozenset(marks), groups))
    return (root, *children)


def in_pool(providers: Iterable[Provider], pool: DiskPool, held: int) -> tuple[Provider, ...]:
    """Return the providers of a host whose disk is that of ``pool``, and behind them the provider of the pool.

    The pool is shared with every provider in its aggregate. ``held`` are the GiB that containers of all hosts hold.
    """
    own = (
        replace(each, inventories={name: known for name, known in each.inventories.items() if name != DISK_GB})
        for each in providers
    )
    disk = {DISK_GB: _at_least(pool.size, 0, 1.0, held)}
    name, groups = f"DISK_POOL_{pool.uuid}", frozenset({pool.uuid})
    return (*own, Provider(pool_uuid(pool.uuid), name, None, _present(disk), frozenset({SHARING}), groups))


def _present(inventories: Mapping[str, Inventory]) -> dict[str, Inventory]:
    """Return the inventories that have a total above 0, since Placement rejects others."""
    return {name: each for name, each in inventories.items() if each.total}


def _disk(disk: Disk, foreign: Foreign) -> Inventory:
    reserved = int(Fraction(foreign.disk_beside) / Fraction(str(disk.ratio)))
    return _at_least(disk.total, reserved, disk.ratio, disk.held)


def _at_least(total: int, reserved: int, ratio: float, needed: int) -> Inventory:
    """Return an inventory of ``total`` that is large enough for allocations of ``needed``."""
    made = Inventory(total, min(reserved, total), ratio)
    if made.capacity >= needed:
        return made
    total = made.reserved + ceil(needed / Fraction(str(ratio)))
    while Inventory(total, made.reserved, ratio).capacity < needed:  # the ratio is a float, and floats may miss by one
        total += 1
    return Inventory(total, made.reserved, ratio)


def _cpus(
    topology: HostTopology, view: HostView, usage: Usage, cell: NUMACell, taken: Mapping[str, int], pinning: bool
) -> dict[str, Inventory]:
    """Return PCPU and VCPU as they are now: CPUs move between the shared pool and dedicated containers.

    PCPU reserves what the shared containers of the cell need. VCPU is the pool that is left; its total is larger by
    what the rounding of fractions took, so that Placement has room for whatever the planner may still give.
    """
    own = usage.held_cpus & cell.cpus
    dedicable = (topology.dedicated_cpus | topology.isolated_cpus) & cell.cpus if pinning else own
    here, beside = _foreign(topology, cell)
    withheld = topology.foreign.withheld & cell.cpus
    pool = topology.pool_cpus & cell.cpus - own
    position = view.index.get(cell.id)
    budget = room = 0
    if position is not None:
        budget = usage.budget(view, view.cells[position])
        room = ceil(Fraction(usage.shared_room(view, view.cells[position]), MICRO))
    unheld = dedicable - own
    free = len(unheld - pool) + min(budget, len(unheld & pool))
    held, ratio = taken.get(PCPU, 0), topology.cpu_allocation_ratio
    total = max(len(dedicable | own | withheld), held + free)
    elsewhere = int(Fraction(beside.shared) / Fraction(str(ratio)))
    unpromised = int(len(pool) * Fraction(str(ratio)) - Fraction(usage.demand(cell.id), MICRO))
    shared = taken.get(VCPU, 0) + max(0, min(here.shared, unpromised)) + room
    return {
        PCPU: Inventory(total, max(0, total - held - here.cpus - free)),
        VCPU: _at_least(len(pool), elsewhere, ratio, shared),
    }


def _foreign(topology: HostTopology, cell: NUMACell) -> tuple[ForeignShare, ForeignShare]:
    """Return the share of other services in the provider of ``cell``, and their share beside this provider."""
    foreign, nothing = topology.foreign, ForeignShare()
    return foreign.here.get(cell.id, nothing), foreign.beside.get(cell.id, nothing)


def _memory(topology: HostTopology, cell: NUMACell, taken: Mapping[str, int]) -> dict[str, Inventory]:
    """Return ordinary memory in MiB and huge pages by size. Only shared containers are promised memory twice."""
    ratio = max(1.0, topology.ram_allocation_ratio)
    here, beside = _foreign(topology, cell)
    reserved = topology.reserved_memory_mib.get(cell.id, 0) - here.memory_mib
    found = {MEMORY_MB: _at_least(cell.small_mib, reserved, ratio, taken.get(MEMORY_MB, 0))}
    kept = {page_class(size): count for size, count in beside.pages.items()}
    pages = {page_class(size): count for size, count in cell.pages.items()}
    for name in {name for name in taken if name.startswith(PAGES)} | pages.keys():
        found[name] = _at_least(pages.get(name, 0), kept.get(name, 0), 1.0, taken.get(name, 0))
    return found


def _devices(
    topology: HostTopology, usage: Usage, cell_id: int | None, taken: Mapping[str, int]
) -> dict[str, Inventory]:
    """Return the devices of one cell, or of an unknown one, by resource class.

    A device that containers share counts once for each that may have it. A device that nobody can have beside a held
    one, as the physical function of a virtual one or the GPU of a part, is reserved.
    """
    offered, free = Counter[str](), Counter[str]()
    for device in topology.devices:
        if device.cell == cell_id:
            offered[device.counted_as] += device.shared
    for device in usage.free_devices(topology):
        if device.cell == cell_id:
            free[device.counted_as] += usage.shares_left(device)
    held = {given.counted_as for _, plan in usage for given in plan.devices if given.cell == cell_id}
    found = {}
    for name in offered.keys() | {name for name in held if name is not None}:
        usable = free[name] + taken.get(name, 0)
        total = max(offered[name], usable)
        found[name] = Inventory(total, total - usable)
    return found
