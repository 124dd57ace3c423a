# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any

from zun.api.views import times


def show(row: Mapping[str, Any], *, up: bool, zone: str) -> dict[str, Any]:
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
