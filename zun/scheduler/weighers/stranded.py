# SPDX-License-Identifier: Apache-2.0
import numpy as np

from zun.scheduler.columns import Columns, Floats
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.scheduler.weighers import HostWeigher
from zun.topology import HostTopology
from zun.topology.holes import Demand, Hole, stranded

SCALE = 1000.0
"""Weights are all but linear in losses (in CPUs) that are small beside this one."""


class StrandedWeigher(HostWeigher):
    """Prefer hosts where a dedicated container leaves the most room for others like those the cloud has.

    1 is a host that loses nothing, 0 one that probably cannot hold the request. Shared containers strand nothing,
    nor do those on CPUs that the kernel isolates, which no others get: both are left to the other weighers.
    """

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        """Without ``spec.demand`` the host counts as the whole cloud."""
        if not spec.dedicated or spec.isolated:
            return 0.0
        demand = Columns([host]).demand if spec.demand is None else spec.demand
        return _weight(host.topology, host.holes, spec, demand(spec.placement))

    def weigh_all(self, table: Columns, spec: RequestSpec) -> Floats:
        if not spec.dedicated or spec.isolated:
            return table.nothing
        demand = table.demand(spec.placement)
        known: dict[tuple[int, tuple[Hole, ...]], float] = {}  # many hosts are equal
        weights = np.empty(len(table))
        for row, host in enumerate(table):
            key = (id(host.topology), host.holes)
            weight = known.get(key)
            if weight is None:
                weight = known[key] = _weight(host.topology, host.holes, spec, demand)
            weights[row] = weight
        return weights


def _weight(topology: HostTopology, holes: tuple[Hole, ...], spec: RequestSpec, demand: Demand) -> float:
    loss = stranded(topology, holes, spec.placement, demand)
    return 0.0 if loss is None else 1 / (1 + loss / SCALE)
