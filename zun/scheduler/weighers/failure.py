# SPDX-License-Identifier: Apache-2.0
import time
from collections.abc import Callable

import numpy as np
from oslo_config import cfg

from zun.scheduler.columns import Columns, Floats
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.scheduler.weighers import HostWeigher


class FailureWeigher(HostWeigher):
    """Avoid hosts that lately could not make or start containers.

    A refused claim is no failure: another host is tried, and the next choice knows better. Each failure counts less as
    time passes, and nothing once ``[scheduler] failure_window`` is over. One of this moment counts 1.
    """

    def __init__(self, conf: cfg.ConfigOpts, now: Callable[[], float] = time.monotonic) -> None:
        self._window: float = conf.scheduler.failure_window
        self._now = now

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        return self._weight(host, self._now())

    def weigh_all(self, table: Columns, spec: RequestSpec) -> Floats:
        if not table.failing:
            return table.nothing
        weights, now = np.zeros(len(table)), self._now()
        for hostname, host in table.failing.items():
            weights[table.row(hostname)] = self._weight(host, now)
        return weights

    def _weight(self, host: HostState, now: float) -> float:
        return -sum(max(0.0, 1 - (now - then) / self._window) for then in host.failures)
