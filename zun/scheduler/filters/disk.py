# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any

from zun.scheduler.columns import Bools, Columns
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.topology import amounts


class DiskFilter(HostFilter):
    """Drop hosts without enough free disk, of their own or of the disk pool that they are in.

    Each host reports its own ``disk_allocation_ratio``. A pool has none: its size is what may be promised.
    """

    measures_capacity = True

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        free = spec.free_disk(host)
        if spec.disk <= free:
            return None
        if host.disk_pool is not None:
            return host.disk_pool.lacking(host.disk_pool.size - free, spec.disk)
        return f"it has {amounts.text(free)} GiB of disk left of the {spec.disk} that are wanted"

    def found(self, host: HostState, spec: RequestSpec) -> Mapping[str, Any]:
        return {} if host.disk_pool is None else {"disk_pool": host.disk_pool.name}

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        return table.free_disk >= spec.disk
