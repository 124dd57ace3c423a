# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any

from zun.objects.placement import CPU_RATIO_KEY
from zun.scheduler.columns import Bools, Columns
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import HostState, ratio_limit
from zun.scheduler.request_spec import RequestSpec
from zun.topology import PlacementRequest, amounts
from zun.topology.request import MICRO


class CPUFilter(HostFilter):
    """Drop hosts whose cells together have too few free CPUs.

    Dedicated CPUs are whole CPUs. Shared CPUs are overcommitted by ``cpu_allocation_ratio``: the lowest ratio that
    the host's aggregates name, or else the host's own. A mixed container wants both.
    """

    measures_capacity = True

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        request, room = spec.placement, host.room
        for wanted, own in zip(_own_cpus(request), (room.dedicated_cpus, room.isolated_cpus), strict=True):
            if wanted > own:
                return f"it has {own} CPUs left of the {wanted} that are wanted"
        # Demand is counted in millionths of a CPU, because a sum of floats can be slightly too small.
        if request.demand > room.shared_room:
            free, asked = amounts.text(room.shared_room / MICRO), amounts.text(request.demand / MICRO)
            of = " of the shared pool" if request.mixed else ""
            return f"it has {free} CPUs{of} left of the {asked} that are wanted"
        return None

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        request = spec.placement
        if not spec.dedicated:
            return table.shared_room >= request.demand
        own, isolated = _own_cpus(request)
        admitted: Bools = table.isolated_cpus >= isolated if isolated else table.dedicated_cpus >= own
        if own and isolated:
            admitted &= table.dedicated_cpus >= own
        return admitted & (table.shared_room >= request.demand) if request.mixed else admitted

    def limits(self, host: HostState, spec: RequestSpec) -> Mapping[str, Any]:
        """Return the ``cpu_allocation_ratio`` that the host's aggregates name."""
        pooled = spec.placement.mixed or not spec.dedicated
        return ratio_limit(host, CPU_RATIO_KEY) if pooled else {}


def _own_cpus(request: PlacementRequest) -> tuple[int, int]:
    """Return the number of own CPUs that are wanted: of those for dedicated use, and of those the kernel isolates."""
    isolated = sum(each.own_cpus for each in request.each if each.isolation == "isolated")
    return request.own_cpus - isolated, isolated
