# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any

from zun.objects.placement import RAM_RATIO_KEY
from zun.scheduler.columns import Bools, Columns
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import HostState, ratio_limit
from zun.scheduler.request_spec import RequestSpec
from zun.topology import PlacementRequest


class RamFilter(HostFilter):
    """Drop hosts whose cells together have too little free memory.

    Memory for dedicated containers is never overcommitted. Memory for shared containers is overcommitted by
    ``ram_allocation_ratio``: the lowest ratio that the host's aggregates name, or else the host's own.
    """

    measures_capacity = True

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        rooms = host.room.memory_dedicated, host.room.memory_shared
        for wanted, room in zip(_wanted(spec.placement), rooms, strict=True):
            if wanted is not None and wanted > room:
                return f"it has {room} MiB left of the {wanted} that are wanted"
        return None

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        admitted = table.everything
        rooms = table.memory_dedicated, table.memory_shared
        for wanted, room in zip(_wanted(spec.placement), rooms, strict=True):
            if wanted is not None:
                admitted = room >= wanted if admitted is table.everything else admitted & (room >= wanted)
        return admitted

    def limits(self, host: HostState, spec: RequestSpec) -> Mapping[str, Any]:
        """Return the ``ram_allocation_ratio`` that the host's aggregates name."""
        return {} if _wanted(spec.placement)[1] is None else ratio_limit(host, RAM_RATIO_KEY)


def _wanted(request: PlacementRequest) -> tuple[int | None, int | None]:
    """Return the MiB of ordinary pages wanted for CPUs of its own and for the shared pool; None where nothing is.

    ``CpuSetFilter`` counts huge pages, cell by cell, in the plan.
    """
    own = [each.memory_mib for each in request.each if each.dedicated and each.ordinary_pages]
    pooled = [each.memory_mib for each in request.each if not each.dedicated]
    return sum(own) if own else None, sum(pooled) if pooled else None
