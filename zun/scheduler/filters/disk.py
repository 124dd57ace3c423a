# SPDX-License-Identifier: Apache-2.0
from zun.scheduler.columns import Bools, Columns
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec


class DiskFilter(HostFilter):
    """Drop hosts without enough disk; ``disk_allocation_ratio`` is the host's own."""

    measures_capacity = True

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        free = host.free_disk
        return None if spec.disk <= free else f"it has {free:g} GiB of disk left of the {spec.disk} that are wanted"

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        return table.free_disk >= spec.disk
