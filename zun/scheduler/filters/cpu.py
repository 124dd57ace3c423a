# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any

from zun.objects.placement import CPU_RATIO_KEY
from zun.scheduler.columns import Bools, Columns
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import HostState, ratio_limit
from zun.scheduler.request_spec import RequestSpec
from zun.topology.request import MICRO


class CPUFilter(HostFilter):
    """Drop hosts without enough CPUs in total, wherever they are.

    Dedicated CPUs are counted one by one; shared ones may be promised ``cpu_allocation_ratio`` times over: the host's,
    or that of one of its aggregates if it is lower.
    """

    measures_capacity = True

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        if spec.dedicated:
            free = float(host.room.isolated if spec.isolated else host.room.dedicated)
        else:
            # Demand is counted in millionths; added up as floats it comes to a little less than it is.
            free = host.room.shared / MICRO
        wanted = spec.placement.cpus
        return None if wanted <= free else f"it has {free:g} CPUs left of the {wanted:g} that are wanted"

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        if spec.dedicated:
            return (table.isolated_room if spec.isolated else table.dedicated_room) >= spec.placement.cpus
        return table.shared_room >= round(spec.placement.cpus * MICRO)

    def limits(self, host: HostState, spec: RequestSpec) -> Mapping[str, Any]:
        """``cpu_allocation_ratio``: the one that the host's aggregates name. What it has it knows best itself."""
        return {} if spec.dedicated else ratio_limit(host.aggregates, CPU_RATIO_KEY)
