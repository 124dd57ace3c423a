# SPDX-License-Identifier: Apache-2.0
"""The cells of a host, and which of them are near."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

from zun.topology.cpuset import NO_CPUS, CpuSet
from zun.topology.ranges import CELL, CORES, DISTANCE, MIB, PAGE_KIB, PAGES

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


def homes(node: NUMACell, working: Sequence[NUMACell]) -> tuple[int, ...]:
    """Return the ids of the cells where ``node`` is: itself if it has CPUs, else the nearest of the ``working`` cells.

    If the firmware names initiators, only these cells count, because distances are often equal for such nodes.
    """
    if node.cpus:
        return (node.id,)
    return nearest(node, [cell for cell in working if cell.id in node.initiators] or working)


def nearest(node: NUMACell, others: Sequence[NUMACell]) -> tuple[int, ...]:
    """Return the ids of the others that are nearest to ``node``, all that are equally near, in order."""
    far = {other.id: apart(node, other) for other in others}
    least = min(far.values(), default=0)
    return tuple(sorted([other for other, distance in far.items() if distance == least]))


def apart(a: NUMACell, b: NUMACell) -> int:
    """Return the distance there plus the distance back."""
    return a.distance(b.id) + b.distance(a.id)


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
