# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any

import numpy as np

from zun.scheduler.columns import Bools, Columns
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.topology import PlacementRequest, Refusal


class CpuSetFilter(HostFilter):
    """Drop hosts that cannot place the container exactly, and return the exact plan for the hosts that can.

    The filter checks a host in two steps. ``reject`` compares the request with the free CPUs and memory of each cell.
    It needs no search, and drops only hosts that certainly have no place. ``limits`` makes the exact plan, after the
    weighers and for the best hosts only. Shared containers are planned as well, because their memory is booked on
    cells too.
    """

    measures_capacity = True

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        if not spec.dedicated:
            return None
        if not host.enable_cpu_pinning:
            return "it takes no dedicated containers ([compute] enable_cpu_pinning)"
        rooms, request = host.room.cells, spec.placement
        for (cpus, mib), count in _wanted(request).items():
            able = [room for room in rooms if room[0] >= cpus]
            if len(able) < count:
                return _too_few(cpus, "CPUs", count, [room[0] for room in rooms], host)
            if mib is not None and sum(room[1] >= mib for room in able) < count:
                return _too_few(mib, "MiB", count, [room[1] for room in able], None)
        return None

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        if not spec.dedicated:
            return table.everything
        admitted = table.pinning
        for (cpus, mib), count in _wanted(spec.placement).items():
            able = table.cell_cpus >= cpus
            if mib is not None:
                able &= table.cell_memory >= mib
            admitted = admitted & (able.any(axis=0) if count == 1 else np.add.reduce(able, 0, np.int16) >= count)
        return admitted

    def limits(self, host: HostState, spec: RequestSpec) -> Mapping[str, Any] | Refusal:
        """Return the plan as ``cpuset``, or the Refusal.

        ``cells`` in the plan has one record per cell with node, cpuset_cpu, cpuset_cpu_pinned and cpuset_mem.
        ``generation`` in the plan is the generation of the host at planning time.
        """
        answer = host.answer(spec.placement)
        if isinstance(answer, Refusal):
            return answer
        return {"cpuset": {**answer.record, "generation": host.generation}}


def _wanted(request: PlacementRequest) -> Mapping[tuple[int, int | None], int]:
    """Return (CPUs, MiB) -> the number of cells that must have at least this much free.

    Parts of (4 CPUs, 1024 MiB) and (2 CPUs, 512 MiB) give ``{(4, 1024): 1, (2, 512): 2}``: two cells must hold the
    smallest part, and one of them the larger part. MiB is None if memory may come from other cells or is counted in
    huge pages. The result is empty if the request allows any split, or wants CPUs that the kernel isolates, because
    these are not counted by cell.
    """
    if request.members:
        return _of_members(request)
    if request.numa_affinity != "require" or request.isolation == "isolated":
        return {}
    counted = request.mempolicy == "strict" and request.ordinary_pages
    parts = [(cpus, mib if counted else None) for cpus, mib in request.parts]
    if len(parts) == 1:
        return {parts[0]: 1}
    least = min(cpus for cpus, _ in parts), min(mib for _, mib in request.parts) if counted else None
    return {**dict.fromkeys(parts, 1), least: len(parts)}


def _of_members(request: PlacementRequest) -> Mapping[tuple[int, int | None], int]:
    """Return what ``_wanted`` returns: each member must fit on its own."""
    found: dict[tuple[int, int | None], int] = {}
    for member in request.members:
        for wanted, count in _wanted(member).items() if member.dedicated else ():
            found[wanted] = max(found.get(wanted, 0), count)
    return found


def _too_few(wanted: int, unit: str, count: int, rooms: list[int], host: HostState | None) -> str:
    best = max(rooms, default=0)
    where = "" if host is None or not rooms else f"cell {host.cell_ids[rooms.index(best)]} with "
    if count > 1:
        return f"fewer than {count} cells have {wanted} {unit} free"
    return f"no cell has {wanted} {unit} free: best is {where}{best}"
