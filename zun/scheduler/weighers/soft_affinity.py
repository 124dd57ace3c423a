# SPDX-License-Identifier: Apache-2.0
import numpy as np

from zun.common.groups import Policy
from zun.scheduler.columns import Columns, Floats
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.scheduler.weighers import HostWeigher


class SoftAffinityWeigher(HostWeigher):
    """Prefer hosts with more members of the request's group, if the group's policy is soft-affinity."""

    policy = Policy.SOFT_AFFINITY
    sign = 1.0

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        if spec.group is None or spec.group.policy != self.policy:
            return 0.0
        return self.sign * host.groups.get(spec.group.uuid, 0)

    def weigh_all(self, table: Columns, spec: RequestSpec) -> Floats:
        if spec.group is None or spec.group.policy != self.policy:
            return table.nothing
        weights = np.zeros(len(table))
        for hostname, count in table.group(spec.group.uuid).items():
            weights[table.row(hostname)] = self.sign * count
        return weights
