# SPDX-License-Identifier: Apache-2.0
"""A running service and its signs of life."""

import datetime
from collections.abc import Mapping
from typing import Any, Self

from oslo_versionedobjects import fields

from zun.common.context import RequestContext
from zun.db import services as db
from zun.objects import base


@base.register
class ZunService(base.ZunObject):
    VERSION = "1.0"

    fields = {
        "id": fields.IntegerField(),
        "host": fields.StringField(),
        "binary": fields.StringField(),
        "created_at": base.TimeField(nullable=True),
        "updated_at": base.TimeField(nullable=True),
        "disabled": fields.BooleanField(),
        "disabled_reason": fields.StringField(nullable=True),
        "forced_down": fields.BooleanField(),
        "last_seen_up": base.TimeField(nullable=True),
        "report_count": fields.IntegerField(),
        "availability_zone": fields.StringField(nullable=True),
    }

    id: int
    host: str
    binary: str
    created_at: datetime.datetime | None
    updated_at: datetime.datetime | None
    disabled: bool
    disabled_reason: str | None
    forced_down: bool
    last_seen_up: datetime.datetime | None
    report_count: int
    availability_zone: str | None

    @base.remotable_classmethod
    def heartbeat(cls, context: RequestContext, host: str, binary: str, availability_zone: str) -> None:
        """Note that the service is alive now."""
        db.heartbeat(host, binary, availability_zone)

    @base.remotable_classmethod
    def list(cls, context: RequestContext, binary: str | None = None) -> "list[Self]":
        return [cls.from_row(context, row) for row in db.all_services(binary)]

    @base.remotable_classmethod
    def get_by_host(cls, context: RequestContext, host: str, binary: str) -> Self:
        """Raises ZunServiceNotFound."""
        return cls.from_row(context, db.get(host, binary))

    @base.remotable
    def save(self) -> None:
        """Write what changed. Raises ZunServiceNotFound."""
        changed = self.columns(self.obj_what_changed())
        if changed:
            db.update(self.host, self.binary, changed)
        self.obj_reset_changes()

    @base.remotable
    def destroy(self) -> None:
        """Raises ZunServiceNotFound."""
        db.destroy(self.host, self.binary)


def is_up(service: Mapping[str, Any], now: datetime.datetime, service_down_time: int) -> bool:
    """Whether the service gave a sign of life within ``service_down_time`` seconds and nobody forced it down.

    ``now`` is UTC; ``service`` is an object or a row.
    """
    if service["forced_down"]:
        return False
    return abs(silent_seconds(service, now)) <= service_down_time


def silent_seconds(service: Mapping[str, Any], now: datetime.datetime) -> float:
    """Since its last sign of life, by its host's clock then and by that of ``now``: below 0 if they do not agree."""
    seen = service["last_seen_up"] or service["updated_at"] or service["created_at"]
    return float((now.replace(tzinfo=None) - seen.replace(tzinfo=None)).total_seconds())
