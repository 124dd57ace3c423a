# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from zun.scheduler.filters import HostFilter
from zun.scheduler.host_table import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.topology import Refusal, plan


class CpuSetFilter(HostFilter):
    """Drop hosts that cannot place the container exactly, and write the NUMA limits of those that can.

    The exact plan is made for the best hosts only, after the weighers. Shared containers are planned as well: their
    memory is booked on its cells like everybody's.
    """

    measures_capacity = True

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        if spec.dedicated and not host.enable_cpu_pinning:
            return "it takes no dedicated containers ([compute] enable_cpu_pinning)"
        return None

    def limits(self, host: HostState, spec: RequestSpec) -> Mapping[str, Any] | Refusal:
        """``cpuset``: the plan. Its ``cells`` hold one record a cell with node, cpuset_cpu, cpuset_cpu_pinned and
        cpuset_mem; its ``generation`` is the host's when the plan was made."""
        answer = plan(host.topology, host.usage, spec.placement)
        if isinstance(answer, Refusal):
            return answer
        return {"cpuset": replace(answer, generation=host.generation).to_dict()}
