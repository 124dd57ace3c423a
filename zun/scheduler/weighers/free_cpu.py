# SPDX-License-Identifier: Apache-2.0
from zun.scheduler.host_table import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.scheduler.weighers import HostWeigher


class FreeCPUWeigher(HostWeigher):
    """Prefer hosts with more CPUs that nobody holds for itself."""

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        return float(len(host.topology.cpus - host.topology.reserved - host.usage.held_cpus))
