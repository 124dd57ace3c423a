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
    """Avoid hosts that recently failed to make or start a container.

    The weight is the negative sum of the failures. A failure counts 1 at first, and falls linearly to 0 within
    ``[scheduler] failure_window``: after 150 s of 600 s, one failure gives the weight -0.75. A refused claim is not a
    failure, because the next choice already knows the new state of the host.
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
