# SPDX-License-Identifier: Apache-2.0
"""The resources of a host that consumers of other services have, as Placement knows them: amounts, no CPU ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from zun.topology.cpuset import NO_CPUS, CpuSet
from zun.topology.ranges import AMOUNT, CELL, PAGE_KIB


@dataclass(frozen=True, slots=True)
class ForeignShare:
    """The amounts that consumers of other services have of one cell."""

    cpus: int = 0
    """CPUs of their own (PCPU)."""
    shared: int = 0
    """CPU demand on the shared pool (VCPU)."""
    memory_mib: int = 0
    pages: Mapping[int, int] = field(default_factory=dict, hash=False)
    """Number of huge pages by size in KiB."""

    def plus(self, other: ForeignShare) -> ForeignShare:
        """Return the sum of both shares."""
        sizes = self.pages.keys() | other.pages.keys()
        return ForeignShare(
            self.cpus + other.cpus,
            self.shared + other.shared,
            self.memory_mib + other.memory_mib,
            {size: self.pages.get(size, 0) + other.pages.get(size, 0) for size in sorted(sizes)},
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the share as JSON-able values."""
        return {
            "cpus": self.cpus,
            "shared": self.shared,
            "memory_mib": self.memory_mib,
            "pages": {str(size): count for size, count in self.pages.items()},
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Return the share of a record that ``to_dict`` made."""
        pages = {PAGE_KIB.key(size): AMOUNT(count) for size, count in record["pages"].items()}
        return cls(AMOUNT(record["cpus"]), AMOUNT(record["shared"]), AMOUNT(record["memory_mib"]), pages)


@dataclass(frozen=True, slots=True)
class Foreign:
    """Everything of one host that consumers of other services have.

    ``here`` are allocations of this service's own providers, by cell id. ``beside`` are those of another service's
    providers of the same host. If that service tells no cells, the amounts are exact for the host and a guess for a
    cell.
    """

    here: Mapping[int, ForeignShare] = field(default_factory=dict, hash=False)
    beside: Mapping[int, ForeignShare] = field(default_factory=dict, hash=False)
    withheld: CpuSet = NO_CPUS
    """CPUs that no container gets, as many as the consumers have of their own."""
    disk_here: int = 0
    """GiB."""
    disk_beside: int = 0

    def __bool__(self) -> bool:
        return bool(self.here or self.beside or self.disk)

    @property
    def disk(self) -> int:
        """GiB of disk."""
        return self.disk_here + self.disk_beside

    def share(self, cell_id: int) -> ForeignShare:
        """Return the amounts of one cell."""
        nothing = ForeignShare()
        return self.here.get(cell_id, nothing).plus(self.beside.get(cell_id, nothing))

    @property
    def total(self) -> ForeignShare:
        """The amounts of all cells together."""
        return _sum([*self.here.values(), *self.beside.values()])

    def __str__(self) -> str:
        """Return the amounts for people: ``2 CPUs, 300 MiB of memory``."""
        total = self.total
        amounts = [
            (total.cpus, "CPUs"),
            (total.shared, "shared CPUs"),
            (total.memory_mib, "MiB of memory"),
            *((count, f"pages of {size} KiB") for size, count in total.pages.items()),
            (self.disk, "GiB of disk"),
        ]
        return ", ".join(f"{amount} {unit}" for amount, unit in amounts if amount) or "nothing"

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON-able values; ``from_dict`` returns an equal value."""
        return {
            "here": {str(cell): share.to_dict() for cell, share in self.here.items()},
            "beside": {str(cell): share.to_dict() for cell, share in self.beside.items()},
            "withheld": str(self.withheld),
            "disk_here": self.disk_here,
            "disk_beside": self.disk_beside,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Return the value of a record that ``to_dict`` made."""
        here, beside = (
            {CELL.key(cell): ForeignShare.from_dict(share) for cell, share in record[part].items()}
            for part in ("here", "beside")
        )
        return cls(here, beside, CpuSet(record["withheld"]), AMOUNT(record["disk_here"]), AMOUNT(record["disk_beside"]))


NO_FOREIGN = Foreign()


def _sum(shares: Iterable[ForeignShare]) -> ForeignShare:
    total = ForeignShare()
    for share in shares:
        total = total.plus(share)
    return total
