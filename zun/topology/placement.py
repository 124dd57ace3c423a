# SPDX-License-Identifier: Apache-2.0
"""What a container gets: a plan, which is also the claim once the agent has taken it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from zun.topology.cpuset import NO_CPUS, CpuSet


@dataclass(frozen=True, slots=True)
class CellShare:
    """What one container takes on one cell."""

    cpus: CpuSet = NO_CPUS
    """Dedicated: CPUs that are the container's alone. Shared: the cell's pool when the plan was made."""
    memory_mib: int = 0
    withheld: CpuSet = NO_CPUS
    """CPUs kept idle for this container, siblings or more: booked like its own, run by nobody."""
    pages: Mapping[int, int] = field(default_factory=dict, hash=False)
    """Huge pages by size in KiB. When there are any, ``memory_mib`` comes out of them."""
    shared: float = 0.0
    """CPU demand of a shared container booked on this cell's pool."""
    pinned: CpuSet = field(default=NO_CPUS, compare=False)
    """CPUs other containers held on the cell when the plan was made: for people, no part of the claim."""

    @property
    def runs_here(self) -> bool:
        """Whether the container runs on CPUs of the cell, and not only has memory there."""
        return bool(self.cpus) or self.shared > 0


@dataclass(frozen=True, slots=True)
class Plan:
    """Exact CPUs, memory nodes and amounts for one container on one host, by cell id."""

    cells: Mapping[int, CellShare] = field(hash=False)
    cpu_policy: str = "dedicated"
    generation: int | None = None
    """Generation of the host the plan was computed from; the caller sets it (``dataclasses.replace``)."""
    mems: CpuSet = None  # type: ignore[assignment]
    """Cells the container's memory comes from (``cpuset_mems``): all of the plan that have memory."""
    isolation: str = "thread"
    """The grade of isolation the plan was asked to keep; see ``grade_of`` for the one it reaches."""
    whole_cores: bool = False
    """Whether it was asked to have its cores to itself: thread policy ``isolate`` or ``require``."""

    def __post_init__(self) -> None:
        cells = dict(self.cells)
        object.__setattr__(self, "cells", dict(sorted(cells.items())) if len(cells) > 1 else cells)
        if self.mems is None:
            object.__setattr__(self, "mems", CpuSet(self.cells))

    @property
    def dedicated(self) -> bool:
        return self.cpu_policy == "dedicated"

    @property
    def keeps(self) -> str:
        """The grade whose CPUs it holds beside its own: that of ``isolation``, at least ``core`` for whole cores."""
        return "core" if self.whole_cores and self.isolation in ("thread", "isolated") else self.isolation

    @property
    def cpus(self) -> CpuSet:
        """CPUs the container may run on (``cpuset_cpus``)."""
        mask = 0
        for share in self.cells.values():
            mask |= share.cpus.mask
        return CpuSet.from_mask(mask)

    @property
    def withheld(self) -> CpuSet:
        """CPUs nobody may run on while this plan is held."""
        mask = 0
        for share in self.cells.values():
            mask |= share.withheld.mask
        return CpuSet.from_mask(mask)

    @property
    def cpu_cells(self) -> tuple[int, ...]:
        """Cells the container runs on: those whose pools are a shared container's CPUs at any time."""
        return tuple(node for node, share in self.cells.items() if share.runs_here)

    @property
    def memory_mib(self) -> int:
        return sum(share.memory_mib for share in self.cells.values())

    def to_dict(self) -> dict[str, Any]:
        """The record kept in the container's row and sent as ``limits['cpuset']``.

        ``mems`` is there only when it is not simply the cells of the plan (some cells have no memory),
        ``isolation`` only when it is more than ``thread``, and ``whole_cores`` only when it is true.
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
        return record

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The plan of a record; keys that ``to_dict`` does not write are ignored."""
        mems = record.get("mems")
        return cls(
            cells={int(share["node"]): _share(share) for share in record["cells"]},
            cpu_policy=str(record["cpu_policy"]),
            generation=record.get("generation"),
            mems=None if mems is None else CpuSet(mems),  # type: ignore[arg-type]
            isolation=str(record.get("isolation", "thread")),
            whole_cores=bool(record.get("whole_cores", False)),
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
    }


def _share(record: Mapping[str, Any]) -> CellShare:
    return CellShare(
        cpus=CpuSet(record["cpuset_cpu"]),
        memory_mib=int(record["cpuset_mem"]),
        withheld=CpuSet(record.get("withheld", "")),
        pages={int(size): int(count) for size, count in record.get("pages", {}).items()},
        shared=float(record.get("shared", 0.0)),
        pinned=CpuSet(record.get("cpuset_cpu_pinned", "")),
    )
