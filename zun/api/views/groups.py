# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from zun.api.views import links, times

NOUN = "groups"


class Group(TypedDict):
    uuid: str
    links: list[links.Link]
    name: str
    project_id: str
    user_id: str | None
    policy: str
    rules: dict[str, int]
    members: list[str]
    created_at: str | None
    updated_at: str | None


class Groups(TypedDict):
    groups: list[Group]
    next: str | None


def show(row: Mapping[str, Any], members: Sequence[str], base_url: str) -> Group:
    """Return the representation of a group. ``members`` are the uuids of its containers, oldest first."""
    return {
        "uuid": row["uuid"],
        "links": links.item(base_url, NOUN, row["uuid"]),
        "name": row["name"],
        "project_id": row["project_id"],
        "user_id": row["user_id"],
        "policy": row["policy"],
        "rules": row["rules"],
        "members": list(members),
        "created_at": times.of_resource(row["created_at"]),
        "updated_at": times.of_resource(row["updated_at"]),
    }
