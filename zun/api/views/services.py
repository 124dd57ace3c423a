# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from zun.api.views import times


class Service(TypedDict):
    id: int
    host: str
    binary: str
    disabled: bool
    disabled_reason: str | None
    forced_down: bool
    last_seen_up: str | None
    report_count: int
    state: str
    availability_zone: str
    created_at: str | None
    updated_at: str | None


class Services(TypedDict):
    services: list[Service]


class Changed(TypedDict):
    """The changed members of a service."""

    host: str
    binary: str
    disabled: NotRequired[bool]
    disabled_reason: NotRequired[str | None]
    forced_down: NotRequired[bool]


class ChangedService(TypedDict):
    service: Changed


def show(row: Mapping[str, Any], *, up: bool, zone: str) -> Service:
    return {
        "id": row["id"],
        "host": row["host"],
        "binary": row["binary"],
        "disabled": bool(row["disabled"]),
        "disabled_reason": row["disabled_reason"],
        "forced_down": bool(row["forced_down"]),
        "last_seen_up": times.of_service(row["last_seen_up"]),
        "report_count": row["report_count"],
        "state": "up" if up else "down",
        "availability_zone": zone,
        "created_at": times.of_service(row["created_at"]),
        "updated_at": times.of_service(row["updated_at"]),
    }
