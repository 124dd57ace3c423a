# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any, TypedDict

from zun.api.views import links, times

NOUN = "volumes"


class Volume(TypedDict):
    uuid: str
    links: list[links.Link]
    name: str
    project_id: str
    status: str
    host: str | None
    created_at: str | None


class Volumes(TypedDict):
    volumes: list[Volume]
    next: str | None


def show(row: Mapping[str, Any], base_url: str, *, host: bool, mounted: bool) -> Volume:
    """Return a volume. ``host`` says whether the caller may see its host, which is None otherwise.
    ``mounted`` says whether a container mounts the volume.
    """
    return {
        "uuid": row["uuid"],
        "links": links.item(base_url, NOUN, row["uuid"]),
        "name": row["name"],
        "project_id": row["project_id"],
        "status": "Deleting" if row["deleting"] else "In-use" if mounted else "Available",
        "host": row["host"] if host else None,
        "created_at": times.of_resource(row["created_at"]),
    }
