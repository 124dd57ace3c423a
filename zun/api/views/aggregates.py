# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any, TypedDict

from zun.api.views import links, times
from zun.common import zones

NOUN = "aggregates"


class Aggregate(TypedDict):
    uuid: str
    links: list[links.Link]
    name: str
    availability_zone: str | None
    hosts: list[str]
    metadata: dict[str, str]
    created_at: str | None
    updated_at: str | None


class Aggregates(TypedDict):
    aggregates: list[Aggregate]
    next: str | None


def show(row: Mapping[str, Any], base_url: str) -> Aggregate:
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
