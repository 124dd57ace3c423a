# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from oslo_config import cfg
from oslo_utils import timeutils

from zun.objects.service import is_up, silent_seconds
from zun.scheduler.columns import Bools, Columns, microseconds
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec

KEPT = 10**9  # microseconds for which a result stays valid if no heartbeat is about to expire


class ComputeFilter(HostFilter):
    """Drop hosts whose compute service is down, disabled or forced down, and hosts without a usable engine."""

    def __init__(self, conf: cfg.ConfigOpts, now: Callable[[], datetime] | None = None) -> None:
        self._down_seconds: int = conf.service_down_time
        self._now = now or timeutils.utcnow

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        service = host.service
        if service is None:
            return "its compute service has never reported"
        if service["disabled"]:
            return "its compute service is disabled"
        if service["forced_down"]:
            return "its compute service is forced down"
        now = self._now()
        if not is_up(service, now, self._down_seconds):
            ahead = -silent_seconds(service, now)
            if ahead > 0:
                return f"its compute service reported {ahead:.0f} s from now: its clock differs from the scheduler's"
            return f"its compute service has not reported for {self._down_seconds} s"
        if host.engine_away:
            return "its container engine cannot be used"
        return None

    def found(self, host: HostState, spec: RequestSpec) -> Mapping[str, Any]:
        service = host.service
        if service is None:
            return {}
        if service["disabled"]:
            return {"disabled_reason": service["disabled_reason"]}
        if host.engine_away:
            return {"engine_away": host.engine_away}
        seen = service["last_seen_up"]
        return {"last_seen_up": None if seen is None else seen.isoformat()}

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        moment = self._now()
        known = table.on_services.get(self)
        if known is not None and known[0] <= moment <= known[1]:
            up: Bools = known[2]
            return up
        now, limit = microseconds(moment), self._down_seconds * 1_000_000
        up = table.serving & (np.abs(table.seen - now) <= limit)
        # The result changes when the first heartbeat expires. A service whose clock is far ahead of the scheduler's
        # counts as down, and may come up before that time.
        ends = np.where(up, table.seen + limit, table.seen - limit - 1)
        lasts = int((ends[ends >= now] - now).min(initial=KEPT))
        if up.all():
            up = table.everything
        table.on_services[self] = moment, moment + timedelta(microseconds=lasts), up
        return up
