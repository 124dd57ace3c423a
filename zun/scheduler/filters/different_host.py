# SPDX-License-Identifier: Apache-2.0
from zun.scheduler.columns import Bools, Columns
from zun.scheduler.filters import HostFilter
from zun.scheduler.filters.same_host import holding_any, holds_any
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec


class DifferentHostFilter(HostFilter):
    """Drop hosts with any container from the hint ``different_host``."""

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        if spec.different_host and holds_any(host, spec.different_host):
            return "it has a container whose host was to be avoided (different_host)"
        return None

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        return ~holding_any(table, spec.different_host) if spec.different_host else table.everything
