# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable
from datetime import datetime

import numpy as np
from oslo_config import cfg
from oslo_utils import timeutils

from zun.objects.service import is_up
from zun.scheduler.columns import Bools, Columns, microseconds
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec


class ComputeFilter(HostFilter):
    """Drop hosts whose compute service is down, disabled or forced down."""

    def __init__(self, conf: cfg.ConfigOpts, now: Callable[[], datetime] | None = None) -> None:
        self._down_seconds: int = conf.service_down_time
        self._now = now or timeutils.utcnow

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        service = host.service
        if service is None:
            return "its compute service has never reported"
        if service["disabled"]:
            return f"its compute service is disabled: {service['disabled_reason'] or 'no reason given'}"
        if service["forced_down"]:
            return "its compute service is forced down"
        if not is_up(service, self._now(), self._down_seconds):
            return f"its compute service has not reported for {self._down_seconds} s"
        return None

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        silent = np.abs(table.seen - microseconds(self._now()))
        return table.serving & (silent <= self._down_seconds * 1_000_000)
