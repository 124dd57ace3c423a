# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any

from zun.scheduler.filters import HostFilter
from zun.scheduler.host_table import HostState
from zun.scheduler.request_spec import RequestSpec


class CPUFilter(HostFilter):
    """Drop hosts without enough CPUs in total, wherever they are.

    Dedicated CPUs are counted one by one; shared ones may be promised ``cpu_allocation_ratio`` times over.
    """

    measures_capacity = True

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        if spec.dedicated:
            free = float(len(host.topology.cpus_for(spec.placement.isolation) - host.usage.held_cpus))
        else:
            # Demand is counted in millionths; added up as floats it comes to a little less than it is.
            free = round(sum(cell.shared for cell in host.usage.free(host.topology).values()), 6)
        wanted = spec.placement.cpus
        return None if wanted <= free else f"it has {free:g} CPUs left of the {wanted:g} that are wanted"

    def limits(self, host: HostState, spec: RequestSpec) -> Mapping[str, Any]:
        """``cpu``: what may be promised of this kind of CPU on the whole host."""
        if spec.dedicated:
            return {"cpu": float(len(host.topology.cpus_for(spec.placement.isolation)))}
        pool = len(host.usage.shared_pool(host.topology))
        return {"cpu": pool * host.topology.cpu_allocation_ratio}
