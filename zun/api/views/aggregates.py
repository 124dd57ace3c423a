# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any

from zun.api.views import links, times
from zun.common import zones

NOUN = "aggregates"


def show(row: Mapping[str, Any], base_url: str) -> dict[str, Any]:
    return {
        "uuid": row["uuid"],
        "links": links.item(base_url, NOUN, row["uuid"]),
        "name": row["name"],
        "availability_zone": row["metadata"].get(zones.KEY),
        "hosts": row["hosts"],
        "metadata": row["metadata"],
        "created_at": times.of_resource(row["created_at"]),
        "updated_at": times.of_resource(row["updated_at"]),
    }
