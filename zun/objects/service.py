# SPDX-License-Identifier: Apache-2.0
"""A running service and its signs of life."""

import datetime
from collections.abc import Mapping
from typing import Any

from zun.common.context import RequestContext
from zun.db import services as db
from zun.objects import base

COMPUTE_BINARY = "zun-compute"


@base.register
class ZunService(base.ZunObject):
    """It is written and never read over RPC, so it has no fields of its own."""

    VERSION = "1.0"
    fields: dict[str, Any] = {}

    @classmethod
    @base.remotable
    def heartbeat(cls, context: RequestContext, host: str, binary: str, availability_zone: str) -> int | None:
        """Note that the service is alive now. Returns how often it was noted; None from the release before."""
        return db.heartbeat(host, binary, availability_zone)


def is_up(service: Mapping[str, Any], now: datetime.datetime, service_down_time: int) -> bool:
    """Whether the service gave a sign of life within ``service_down_time`` seconds and nobody forced it down.

    ``now`` is UTC; ``service`` is a row.
    """
    if service["forced_down"]:
        return False
    return abs(silent_seconds(service, now)) <= service_down_time


def silent_seconds(service: Mapping[str, Any], now: datetime.datetime) -> float:
    """Since its last sign of life, by its host's clock then and by that of ``now``: below 0 if they do not agree."""
    return float((now.replace(tzinfo=None) - last_sign(service).replace(tzinfo=None)).total_seconds())


def last_sign(service: Mapping[str, Any]) -> datetime.datetime:
    """When it gave a sign of life, by its host's clock, or else when its row was written. UTC."""
    seen: datetime.datetime = service["last_seen_up"] or service["updated_at"] or service["created_at"]
    return seen
