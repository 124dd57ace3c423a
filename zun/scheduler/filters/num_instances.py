# SPDX-License-Identifier: Apache-2.0
import math

from oslo_config import cfg

from zun.objects import allocation_ratios
from zun.scheduler.columns import Bools, Columns
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec

KEY = "max_containers_per_host"


class NumInstancesFilter(HostFilter):
    """Drop hosts that hold ``[scheduler] max_containers_per_host`` containers, or fewer if an aggregate says so.

    The metadata of an aggregate may have a lower number under the name of the option. A capsule is one container.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._limit: int | None = conf.scheduler.max_containers_per_host

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        if self._room(host) > 0:
            return None
        return f"it holds as many containers as {KEY} allows"

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        return table.everything if self._limit is None else table.measured(KEY, self._room) > 0

    def _room(self, host: HostState) -> float:
        return most(self._limit, host, KEY) - len(host.usage)


def most(limit: int | None, host: HostState, key: str) -> float:
    """Return the lowest of ``limit`` and the metadata ``key`` of the host's aggregates; infinite without a limit."""
    if limit is None:
        return math.inf
    named = allocation_ratios.lowest((each.metadata for each in host.aggregates), key, math.inf)
    return float(limit) if named is None else min(float(limit), float(named))
