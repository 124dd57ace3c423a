# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

from zun.scheduler.columns import Bools, Columns
from zun.scheduler.filters import HostFilter
from zun.scheduler.filters.num_instances import most
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec

KEY = "max_io_ops_per_host"


class IoOpsFilter(HostFilter):
    """Drop hosts that make or rebuild ``[scheduler] max_io_ops_per_host`` containers and images at the same time.

    The metadata of an aggregate may have a lower number under the name of the option.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._limit: int | None = conf.scheduler.max_io_ops_per_host
        self.reads_io_ops = self._limit is not None

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        if self._room(host) > 0:
            return None
        return f"it makes as many containers and images at the same time as {KEY} allows"

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        return table.everything if self._limit is None else table.measured(KEY, self._room) > 0

    def _room(self, host: HostState) -> float:
        return most(self._limit, host, KEY) - host.io_ops
