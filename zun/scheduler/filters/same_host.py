# SPDX-License-Identifier: Apache-2.0
import numpy as np

from zun.scheduler.columns import Bools, Columns
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec


class SameHostFilter(HostFilter):
    """Drop hosts without any container from the hint ``same_host``."""

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        if spec.same_host and not holds_any(host, spec.same_host):
            return "it has none of the containers whose host was asked for (same_host)"
        return None

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        return holding_any(table, spec.same_host) if spec.same_host else table.everything


def holds_any(host: HostState, uuids: frozenset[str]) -> bool:
    return any(host.usage.claim(uuid) is not None for uuid in uuids)


def holding_any(table: Columns, uuids: frozenset[str]) -> Bools:
    return np.fromiter((holds_any(host, uuids) for host in table), np.bool_, len(table))
