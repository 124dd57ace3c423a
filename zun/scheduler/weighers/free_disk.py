# SPDX-License-Identifier: Apache-2.0
from zun.scheduler.columns import Columns, Floats
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.scheduler.weighers import HostWeigher


class FreeDiskWeigher(HostWeigher):
    """Prefer hosts with more free disk, overcommit included. A host in a disk pool has the free disk of the pool."""

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        return spec.free_disk(host)

    def weigh_all(self, table: Columns, spec: RequestSpec) -> Floats:
        return table.free_disk
