# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from zun.scheduler.columns import Bools, Columns
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.topology.view import view_of


class RamFilter(HostFilter):
    """Drop hosts without enough memory in total, wherever it is.

    Memory of dedicated containers is promised once, that of shared ones ``ram_allocation_ratio`` times: the host's, or
    that of one of its aggregates if it is lower.
    """

    measures_capacity = True

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        if not spec.placement.ordinary_pages:
            return None  # huge pages are counted apart, cell by cell, in the plan
        room = host.room.memory_dedicated if spec.dedicated else host.room.memory_shared
        wanted = spec.placement.memory_mib
        return None if wanted <= room else f"it has {room} MiB left of the {wanted} that are wanted"

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        if not spec.placement.ordinary_pages:
            return table.everything
        room = table.memory_dedicated if spec.dedicated else table.memory_shared
        return room >= spec.placement.memory_mib

    def limits(self, host: HostState, spec: RequestSpec) -> Mapping[str, Any]:
        """``memory``: MiB of ordinary pages that may be promised on the whole host.

        For a dedicated container that is all that over-commitment allows, as its plan counts cell by cell: a cell that
        is promised to shared containers more than once takes nothing from the others.
        """
        if spec.dedicated:
            view = view_of(host.topology)
            return {"memory": int(sum(view.small_mib.values()) * max(Fraction(1), view.ram_ratio))}
        return {"memory": host.room.promised + host.room.memory_shared}
