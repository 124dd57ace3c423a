# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any

from zun.objects.placement import memory_room, memory_used
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_table import HostState
from zun.scheduler.request_spec import RequestSpec


class RamFilter(HostFilter):
    """Drop hosts without enough memory in total, wherever it is.

    Memory of dedicated containers is promised once, that of shared ones ``ram_allocation_ratio`` times.
    """

    measures_capacity = True

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        if spec.placement.page_size not in (None, "small"):
            return None  # huge pages are counted apart, cell by cell, in the plan
        room, wanted = self._room(host, spec), spec.placement.memory_mib
        return None if wanted <= room else f"it has {room} MiB left of the {wanted} that are wanted"

    def limits(self, host: HostState, spec: RequestSpec) -> Mapping[str, Any]:
        """``memory``: MiB of ordinary pages that may be promised on the whole host."""
        return {"memory": sum(memory_used(host.usage).values()) + self._room(host, spec)}

    @staticmethod
    def _room(host: HostState, spec: RequestSpec) -> int:
        return memory_room(host.topology, host.usage, dedicated=spec.dedicated)
