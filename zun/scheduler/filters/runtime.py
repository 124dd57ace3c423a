# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any

from zun.scheduler.columns import Bools, Columns
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec


class RuntimeFilter(HostFilter):
    """Drop hosts without the requested container runtime."""

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        if spec.runtime and spec.runtime not in host.runtimes:
            return f"it has no runtime {spec.runtime}"
        return None

    def found(self, host: HostState, spec: RequestSpec) -> Mapping[str, Any]:
        return {"runtimes": sorted(host.runtimes)}

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        if not spec.runtime:
            return table.everything
        return table.matching(("runtimes",), spec.runtime, lambda host: self.reject(host, spec) is None)
