# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any

from zun.objects.placement import RAM_RATIO_KEY
from zun.scheduler.columns import Bools, Columns
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import HostState, ratio_limit
from zun.scheduler.request_spec import RequestSpec


class RamFilter(HostFilter):
    """Drop hosts whose cells together have too little free memory.

    Memory for dedicated containers is never overcommitted. Memory for shared containers is overcommitted by
    ``ram_allocation_ratio``: the lowest ratio that the host's aggregates name, or else the host's own.
    """

    measures_capacity = True

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        if not spec.placement.ordinary_pages:
            return None  # CpuSetFilter counts huge pages, cell by cell, in the plan
        room = host.room.memory_dedicated if spec.dedicated else host.room.memory_shared
        wanted = spec.placement.memory_mib
        return None if wanted <= room else f"it has {room} MiB left of the {wanted} that are wanted"

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        if not spec.placement.ordinary_pages:
            return table.everything
        room = table.memory_dedicated if spec.dedicated else table.memory_shared
        return room >= spec.placement.memory_mib

    def limits(self, host: HostState, spec: RequestSpec) -> Mapping[str, Any]:
        """Return the ``ram_allocation_ratio`` that the host's aggregates name."""
        return {} if spec.dedicated else ratio_limit(host, RAM_RATIO_KEY)
