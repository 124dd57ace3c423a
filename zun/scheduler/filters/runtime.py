# SPDX-License-Identifier: Apache-2.0
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_table import HostState
from zun.scheduler.request_spec import RequestSpec


class RuntimeFilter(HostFilter):
    """Drop hosts without the runtime that was asked for."""

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        if spec.runtime and spec.runtime not in host.runtimes:
            return f"it has no runtime {spec.runtime}, only {', '.join(sorted(host.runtimes))}"
        return None
