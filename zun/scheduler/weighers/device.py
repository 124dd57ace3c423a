# SPDX-License-Identifier: Apache-2.0
from zun.scheduler.columns import Columns, Floats
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.scheduler.weighers import HostWeigher


class DeviceWeigher(HostWeigher):
    """Prefer hosts with fewer free devices, of any kind.

    A container without devices leaves the hosts with devices to others. A container with devices takes them from the
    host that has the fewest left, so that containers with many devices find a host later.
    """

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        return _weight(host)

    def weigh_all(self, table: Columns, spec: RequestSpec) -> Floats:
        return table.measured("free devices", _weight) if table.with_devices else table.nothing


def _weight(host: HostState) -> float:
    return -float(sum(host.free_devices.values()))
