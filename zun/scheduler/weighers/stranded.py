# SPDX-License-Identifier: Apache-2.0
from zun.scheduler.columns import Columns, Floats
from zun.scheduler.host_state import HostState
from zun.scheduler.kept_losses import KeptLosses
from zun.scheduler.request_spec import RequestSpec
from zun.scheduler.weighers import HostWeigher
from zun.topology import PlacementRequest

SCALE = 1000.0
"""Unit: containers lost. A loss of 10 gives the weight 0.990, a loss of 1000 gives 0.5."""


class StrandedWeigher(HostWeigher):
    """Prefer hosts where a dedicated container strands the least capacity; see ``zun.scheduler.packing``.

    The weight is 1 for a host that loses nothing, and 0 for a host without room. Shared containers, and containers on
    CPUs that the kernel isolates, strand nothing: only the other weighers order their hosts.
    """

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        """Return the weight of the host alone, as if it were the whole cloud."""
        return float(self.weigh_all(Columns([host]), spec)[0])

    def weigh_all(self, table: Columns, spec: RequestSpec) -> Floats:
        if not spec.dedicated or spec.isolated or not len(table):
            return table.nothing
        losses = KeptLosses.of(table).losses(_alone(spec.placement))
        weights: Floats = 1 / (1 + losses / SCALE)
        return weights


def _alone(request: PlacementRequest) -> PlacementRequest:
    """Return the request of one container that takes as much as all members of ``request``, over any cells."""
    if not request.members:
        return request
    own = [member for member in request.members if member.dedicated]
    mib = sum(member.memory_mib for member in own if member.ordinary_pages)
    return PlacementRequest(request.own_cpus, mib, numa_affinity="none", devices=request.devices)
