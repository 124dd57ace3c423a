# SPDX-License-Identifier: Apache-2.0
from zun.scheduler.columns import Columns, Floats
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.scheduler.weighers import HostWeigher


class FreeCPUWeigher(HostWeigher):
    """Prefer hosts with more CPUs that no container holds as its own."""

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        return float(host.room.unheld_cpus)

    def weigh_all(self, table: Columns, spec: RequestSpec) -> Floats:
        return table.unheld_cpus
