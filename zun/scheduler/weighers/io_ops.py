# SPDX-License-Identifier: Apache-2.0
from zun.scheduler.columns import Columns, Floats
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.scheduler.weighers import HostWeigher


class IoOpsWeigher(HostWeigher):
    """Prefer hosts that make and rebuild fewer containers and images at present.

    The multiplier is positive, unlike Nova's for the weigher of this name.
    """

    reads_io_ops = True

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        return _weight(host)

    def weigh_all(self, table: Columns, spec: RequestSpec) -> Floats:
        return table.measured("io ops", _weight)


def _weight(host: HostState) -> float:
    return -float(host.io_ops)
