# SPDX-License-Identifier: Apache-2.0
from zun.common.groups import Policy
from zun.scheduler.columns import Bools, Columns
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec


class GroupAffinityFilter(HostFilter):
    """Drop every host without the other members of the request's group, if the group's policy is affinity."""

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        if spec.group is None or spec.group.policy != Policy.AFFINITY:
            return None
        return spec.group.broken_by(spec.group.members, host.hostname)

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        if spec.group is None or spec.group.policy != Policy.AFFINITY or not spec.group.members:
            return table.everything
        # If members are on two hosts, the rule is broken already and no host can satisfy it.
        return table.only(spec.group.members if len(spec.group.members) == 1 else ())
