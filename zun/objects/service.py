# SPDX-License-Identifier: Apache-2.0
"""A running service and its heartbeats."""

import datetime
from collections.abc import Mapping
from typing import Any

from zun.common.context import RequestContext
from zun.db import services as db
from zun.objects import base

COMPUTE_BINARY = db.COMPUTE_BINARY
SCHEDULER_BINARY = "zun-scheduler"
CONDUCTOR_BINARY = "zun-conductor"
PROXY_BINARY = "zun-wsproxy"
INTERNAL_ZONE = "internal"
"""Zone of the services that run no containers, as in Nova."""


@base.register
class ZunService(base.ZunObject):
    """The row of a service. Services only write it over RPC, so the object has no fields."""

    VERSION = "1.0"

    @classmethod
    @base.remotable
    def heartbeat(cls, context: RequestContext, host: str, binary: str, availability_zone: str) -> int | None:
        """Record a heartbeat. Return the number of earlier ones, or None if an earlier release recorded it."""
        return db.heartbeat(host, binary, availability_zone)


def is_up(service: Mapping[str, Any], now: datetime.datetime, service_down_time: int) -> bool:
    """Return whether the heartbeat is at most ``service_down_time`` seconds old and the service is not forced down.

    ``now`` is UTC; ``service`` is a row.
    """
    if service["forced_down"]:
        return False
    return abs(silent_seconds(service, now)) <= service_down_time


def silent_seconds(service: Mapping[str, Any], now: datetime.datetime) -> float:
    """Return the seconds from the last heartbeat (by the host's clock) to ``now``; negative if the clocks disagree."""
    return float((now.replace(tzinfo=None) - last_sign(service).replace(tzinfo=None)).total_seconds())


def last_sign(service: Mapping[str, Any]) -> datetime.datetime:
    """Return the time of the last heartbeat by the host's clock, else the time its row was written. UTC."""
    seen: datetime.datetime = service["last_seen_up"] or service["updated_at"] or service["created_at"]
    return seen
