# SPDX-License-Identifier: Apache-2.0
"""Allocations of other services on a host, and the resources that are left to these services. Values only, no I/O.

Placement tells amounts. The planner gives exact CPUs, so that as many CPUs as others have of their own are chosen here
and withheld from containers.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

from zun.placement.allocations import DISK_GB, MEMORY_MB, PCPU, VCPU, Resources, page_class
from zun.placement.tree import Inventory
from zun.topology import CpuSet, HostTopology, NUMACell, Usage
from zun.topology.cpuset import NO_CPUS, union
from zun.topology.foreign import NO_FOREIGN, Foreign, ForeignShare
from zun.topology.host_topology import view_of

_CELL_NAME = re.compile(r"_NUMA_?(\d+)$")


@dataclass(frozen=True, slots=True)
class Beside:
    """One provider of another service on this host. ``cell`` is None if the provider is not one of a single cell."""

    taken: Resources
    """The amounts that its consumers have."""
    inventories: Mapping[str, Inventory] = field(default_factory=dict)
    cell: int | None = None


@dataclass(frozen=True, slots=True)
class Others:
    """The amounts that consumers of other services have of this host.

    ``here`` are those of this service's own providers, by cell id, and None for the root. ``beside`` are the providers
    of another service that has a root of the host's name.
    """

    here: Mapping[int | None, Resources] = field(default_factory=dict)
    beside: tuple[Beside, ...] = ()


def cell_of(names: Iterable[str]) -> int | None:
    """Return the cell id that the name of a provider or of one of its ancestors ends with: 1 for ``host_NUMA1``.

    ``names`` begin with the provider itself.
    """
    found = (_CELL_NAME.search(name) for name in names)
    return next((int(match[1]) for match in found if match), None)


def foreign_of(topology: HostTopology, usage: Usage, others: Others, before: CpuSet = NO_CPUS) -> Foreign:
    """Return the amounts of ``others``, cell by cell, for the host ``topology`` without these amounts.

    An amount of a provider without a cell is spread over the cells by their size. ``before`` are the CPUs that were
    withheld so far: they stay withheld as long as others need as many.
    """
    if others == Others():
        return NO_FOREIGN
    cells = {cell.id: cell for cell in topology.cells}
    spare = _Spare(topology, usage, before)
    here = {cell: _share(topology, taken, taken.get(PCPU, 0)) for cell, taken in others.here.items() if cell in cells}
    withheld = [spare.take([cells[cell]], share.cpus) for cell, share in sorted(here.items())]
    beside: dict[int, ForeignShare] = {}
    for each in sorted(others.beside, key=lambda one: (one.cell is None, one.cell or 0)):
        where = [cells[each.cell]] if each.cell in cells else list(topology.cells)
        cpus, shared = _on_our_cpus(topology, where, each)
        taken = spare.take(where, cpus)
        withheld.append(taken)
        for cell, share in _spread(topology, where, {**each.taken, VCPU: shared}, taken):
            beside[cell] = beside.get(cell, ForeignShare()).plus(share)
    found = Foreign(
        _some(here), _some(beside), union(withheld),
        others.here.get(None, {}).get(DISK_GB, 0), sum(each.taken.get(DISK_GB, 0) for each in others.beside),
    )  # fmt: skip
    return found or NO_FOREIGN


def _some(shares: Mapping[int, ForeignShare]) -> dict[int, ForeignShare]:
    return {cell: share for cell, share in sorted(shares.items()) if share != ForeignShare()}


def _share(topology: HostTopology, taken: Resources, cpus: int) -> ForeignShare:
    """Return the amounts of one cell, with so many CPUs of their own."""
    pages = {size: taken[name] for size in _sizes(topology) if (name := page_class(size)) in taken}
    return ForeignShare(cpus, taken.get(VCPU, 0), taken.get(MEMORY_MB, 0), pages)


def _sizes(topology: HostTopology) -> list[int]:
    return sorted({size for cell in topology.cells for size in cell.pages})


def _on_our_cpus(topology: HostTopology, cells: Sequence[NUMACell], other: Beside) -> tuple[int, int]:
    """Return how many own CPUs, and how much shared demand, the consumers of ``other`` may have on our CPUs.

    The operator divides the CPUs between the services. As long as the CPUs of ``other`` are no more than this service
    leaves, the two do not meet. If they are more, as many as there are too many may be ours. Shared CPUs count as the
    allocation ratio of ``other`` promises them. Example: of 8 CPUs this service has 6 and Nova reports 4, so that Nova
    may have 2 of ours.
    """
    online = union(cell.cpus for cell in cells)
    ours = (topology.dedicated_cpus | topology.isolated_cpus | topology.pool_cpus) & online
    reported = sum(each.total for name, each in other.inventories.items() if name in (PCPU, VCPU))
    common = max(0, min(reported - len(online - ours), len(ours)))
    own = min(other.taken.get(PCPU, 0), common)
    promised = other.inventories.get(VCPU, Inventory(0)).allocation_ratio
    shared = min(Fraction(other.taken.get(VCPU, 0)) / Fraction(str(promised)), Fraction(common))
    return own, ceil(shared * Fraction(str(topology.cpu_allocation_ratio)))


def _spread(
    topology: HostTopology, cells: Sequence[NUMACell], taken: Resources, withheld: CpuSet
) -> Iterator[tuple[int, ForeignShare]]:
    """Yield the shares of the cells in ``taken``: memory by their memory, shared CPUs by their part of the pool."""
    parts: dict[int, dict[str, int]] = {cell.id: {} for cell in cells}

    def divide(name: str, sizes: Sequence[int]) -> None:
        total, whole, given, seen = taken.get(name, 0), sum(sizes), 0, 0
        for cell, size in zip(cells, sizes, strict=True):
            seen += size
            amount = (total * seen // whole if whole else 0) - given
            given += amount
            if amount:
                parts[cell.id][name] = amount

    divide(MEMORY_MB, [cell.memory_mib for cell in cells])
    divide(VCPU, [len(topology.pool_cpus & cell.cpus) for cell in cells])
    for size in _sizes(topology):
        divide(page_class(size), [cell.pages.get(size, 0) for cell in cells])
    for cell in cells:
        yield cell.id, _share(topology, parts[cell.id], len(withheld & cell.cpus))


class _Spare:
    """CPUs that can be withheld, each once.

    The first are those withheld ``before``, then CPUs that no container holds, then held ones: such a CPU stays out of
    use when its container gives it back. The pool keeps the CPUs that shared containers need. Within a cell the last
    cores go first, whole ones.
    """

    def __init__(self, topology: HostTopology, usage: Usage, before: CpuSet) -> None:
        view, held, pool = view_of(topology), usage.held_cpus, topology.pool_cpus
        usable = topology.dedicated_cpus | topology.isolated_cpus
        self._left: dict[int, list[list[int]]] = {}
        for cell in topology.cells:
            order = [cpu for core in reversed(cell.siblings) for cpu in core if cpu in usable]
            known = [cpu for cpu in order if cpu in before]
            position = view.index.get(cell.id)
            budget = 0 if position is None else usage.budget(view, view.cells[position])
            budget -= sum(cpu in pool for cpu in known)
            free = []
            for cpu in order:
                if cpu in before or cpu in held:
                    continue
                if cpu in pool:
                    if budget <= 0:
                        continue
                    budget -= 1
                free.append(cpu)
            self._left[cell.id] = [known, free, [cpu for cpu in order if cpu in held and cpu not in before]]

    def take(self, cells: Sequence[NUMACell], count: int) -> CpuSet:
        """Return ``count`` CPUs of ``cells``, each from the cell with most left, or fewer if there are no more."""
        taken: list[int] = []
        for rank in range(3):
            lists = [self._left[cell.id][rank] for cell in cells]
            while len(taken) < count and any(lists):
                taken.append(max(lists, key=len).pop(0))
        return CpuSet(taken)
