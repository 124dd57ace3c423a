# SPDX-License-Identifier: Apache-2.0
from zun.scheduler.columns import Bools, Columns
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec


class PciPassthroughFilter(HostFilter):
    """The place where devices will be matched. No request can ask for one yet, so every host passes.

    TODO: once requests and inventories have devices, ``reject`` compares them by kind and by cell (a device of unknown
    locality is a case of its own), and the plan takes them: it is ``zun.topology.plan`` that says on which cell.
    """

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        return None

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        return table.everything
