# SPDX-License-Identifier: Apache-2.0
from zun.scheduler.columns import Columns, Floats
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.scheduler.weighers import HostWeigher


class FreeRAMWeigher(HostWeigher):
    """Prefer hosts with more free memory, in ordinary and huge pages together."""

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        return host.room.free_memory

    def weigh_all(self, table: Columns, spec: RequestSpec) -> Floats:
        return table.free_memory
