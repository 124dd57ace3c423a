# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any

from zun.objects.placement import CPU_RATIO_KEY
from zun.scheduler.columns import Bools, Columns
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import HostState, ratio_limit
from zun.scheduler.request_spec import RequestSpec
from zun.topology import amounts
from zun.topology.request import MICRO


class CPUFilter(HostFilter):
    """Drop hosts whose cells together have too few free CPUs.

    Dedicated CPUs are whole CPUs. Shared CPUs are overcommitted by ``cpu_allocation_ratio``: the ratio of the host, or
    a lower ratio of one of its aggregates.
    """

    measures_capacity = True

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        if spec.dedicated:
            free = float(host.room.isolated_cpus if spec.isolated else host.room.dedicated_cpus)
        else:
            # Demand is counted in millionths of a CPU, because a sum of floats can be slightly too small.
            free = host.room.shared_room / MICRO
        wanted = spec.placement.cpus
        if wanted <= free:
            return None
        return f"it has {amounts.text(free)} CPUs left of the {amounts.text(wanted)} that are wanted"

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        if spec.dedicated:
            return (table.isolated_cpus if spec.isolated else table.dedicated_cpus) >= spec.placement.cpus
        return table.shared_room >= round(spec.placement.cpus * MICRO)

    def limits(self, host: HostState, spec: RequestSpec) -> Mapping[str, Any]:
        """Return the ``cpu_allocation_ratio`` of the host's aggregates. The host applies its own ratio itself."""
        return {} if spec.dedicated else ratio_limit(host.aggregates, CPU_RATIO_KEY)
