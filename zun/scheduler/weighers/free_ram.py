# SPDX-License-Identifier: Apache-2.0
from zun.scheduler.host_table import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.scheduler.weighers import HostWeigher


class FreeRAMWeigher(HostWeigher):
    """Prefer hosts with more memory left."""

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        return float(host.topology.memory_mib - sum(plan.memory_mib for _, plan in host.usage))
