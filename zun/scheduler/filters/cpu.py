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

    Dedicated CPUs are whole CPUs. Shared CPUs are overcommitted by ``cpu_allocation_ratio``: the lowest ratio that
    the host's aggregates name, or else the host's own. A mixed container wants both.
    """

    measures_capacity = True

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        request, room = spec.placement, host.room
        own = room.isolated_cpus if spec.isolated else room.dedicated_cpus
        if spec.dedicated and request.own_cpus > own:
            return f"it has {own} CPUs left of the {request.own_cpus} that are wanted"
        # Demand is counted in millionths of a CPU, because a sum of floats can be slightly too small.
        if request.demand > room.shared_room:
            free, wanted = amounts.text(room.shared_room / MICRO), amounts.text(request.demand / MICRO)
            of = " of the shared pool" if request.mixed else ""
            return f"it has {free} CPUs{of} left of the {wanted} that are wanted"
        return None

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        request = spec.placement
        if not spec.dedicated:
            return table.shared_room >= request.demand
        admitted: Bools = (table.isolated_cpus if spec.isolated else table.dedicated_cpus) >= request.own_cpus
        return admitted & (table.shared_room >= request.demand) if request.mixed else admitted

    def limits(self, host: HostState, spec: RequestSpec) -> Mapping[str, Any]:
        """Return the ``cpu_allocation_ratio`` that the host's aggregates name."""
        pooled = spec.placement.mixed or not spec.dedicated
        return ratio_limit(host, CPU_RATIO_KEY) if pooled else {}
