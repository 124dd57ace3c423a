# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any

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
        promised = sum(plan.memory_mib for _, plan in host.usage)
        free = self._may_promise(host, spec) - promised
        wanted = spec.placement.memory_mib
        return None if wanted <= free else f"it has {max(0, free)} MiB left of the {wanted} that are wanted"

    def limits(self, host: HostState, spec: RequestSpec) -> Mapping[str, Any]:
        """``memory``: MiB that may be promised on the whole host."""
        return {"memory": self._may_promise(host, spec)}

    @staticmethod
    def _may_promise(host: HostState, spec: RequestSpec) -> int:
        kept = sum(host.topology.reserved_memory_mib.values())
        ratio = 1.0 if spec.dedicated else host.topology.ram_allocation_ratio
        return int((host.topology.memory_mib - kept) * ratio)
