# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any

from zun.scheduler.columns import Bools, Columns
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec


class LabelFilter(HostFilter):
    """Drop hosts that lack a label from the hints ``label:NAME=VALUE``, or have another value for it."""

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        for name, value in spec.labels.items():
            if host.labels.get(name) != value:
                return f"its label {name} is not {value!r}"
        return None

    def found(self, host: HostState, spec: RequestSpec) -> Mapping[str, Any]:
        return {"labels": {name: host.labels.get(name) for name in spec.labels}}

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        if not spec.labels:
            return table.everything
        wanted = tuple(sorted(spec.labels.items()))
        return table.matching(("labels",), wanted, lambda host: self.reject(host, spec) is None)
