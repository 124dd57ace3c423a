# SPDX-License-Identifier: Apache-2.0
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_table import HostState
from zun.scheduler.request_spec import RequestSpec


class RetryFilter(HostFilter):
    """Drop hosts that already refused this request."""

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        reason = spec.tried.get(host.hostname)
        return None if reason is None else f"refused the claim before: {reason}"
