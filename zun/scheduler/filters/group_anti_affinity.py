# SPDX-License-Identifier: Apache-2.0
from zun.common.groups import Policy
from zun.scheduler.columns import Bools, Columns
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec


class GroupAntiAffinityFilter(HostFilter):
    """Drop hosts that already hold ``max_per_host`` members of the group, if the group's policy is anti-affinity."""

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        if spec.group is None or spec.group.policy != Policy.ANTI_AFFINITY:
            return None
        return spec.group.broken_by({host.hostname: host.groups.get(spec.group.uuid, 0)}, host.hostname)

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        group = spec.group
        if group is None or group.policy != Policy.ANTI_AFFINITY:
            return table.everything
        members = table.group(group.uuid)
        full = [hostname for hostname, count in members.items() if count >= group.max_per_host]
        return ~table.only(full) if full else table.everything
