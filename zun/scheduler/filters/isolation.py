# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any

from zun.scheduler.columns import Bools, Columns
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec

KEY = "filter_project_id"


class IsolationFilter(HostFilter):
    """Reserve the hosts of an aggregate for the projects in its metadata ``filter_project_id``.

    The value is a list with commas: ``filter_project_id=P1,P2``. As in Nova, a longer list goes on in keys with the
    same beginning (``filter_project_id-2=P3``). A host in several of these aggregates is reserved for the projects of
    all of them. The projects may also use hosts outside these aggregates.
    """

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        owners = _owners(host)
        return "it is reserved to other projects" if owners and spec.project_id not in owners else None

    def found(self, host: HostState, spec: RequestSpec) -> Mapping[str, Any]:
        return {"projects": sorted(_owners(host))}

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        return table.matching(("aggregates",), (KEY, spec.project_id), lambda host: self.reject(host, spec) is None)


def _owners(host: HostState) -> set[str]:
    return {
        project.strip()
        for aggregate in host.aggregates
        for key, value in aggregate.metadata.items()
        if key.startswith(KEY)
        for project in str(value).split(",")
        if project.strip()
    }
