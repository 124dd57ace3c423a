# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any

from zun.scheduler.columns import Bools, Columns
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec


class RetryFilter(HostFilter):
    """Drop hosts that already refused this request."""

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        return "it refused the claim before" if host.hostname in spec.tried else None

    def found(self, host: HostState, spec: RequestSpec) -> Mapping[str, Any]:
        """Return the refusal in the host's own words, which may contain the name of the host."""
        return {"answer": spec.tried[host.hostname]}

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        return ~table.only(spec.tried) if spec.tried else table.everything
