# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from zun.api.views import links

NOUN = "registries"
HIDDEN = "***"


class Registry(TypedDict):
    uuid: str
    name: str | None
    domain: str
    username: str | None
    password: str | None
    project_id: str
    user_id: str | None
    links: NotRequired[list[links.Link]]


class OneRegistry(TypedDict):
    registry: Registry


class Registries(TypedDict):
    registries: list[Registry]
    next: str | None


def show(row: Mapping[str, Any], base_url: str | None = None) -> Registry:
    """Show a registry. Its password is never shown, only whether it has one. Links come with a ``base_url``."""
    shown: Registry = {
        "uuid": row["uuid"],
        "name": row["name"],
        "domain": row["domain"],
        "username": row["username"],
        "password": None if row["password"] is None else HIDDEN,
        "project_id": row["project_id"],
        "user_id": row["user_id"],
    }
    if base_url is not None:
        shown["links"] = links.item(base_url, NOUN, row["uuid"])
    return shown
