# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any

from zun.api.views import links

NOUN = "registries"
HIDDEN = "***"


def show(row: Mapping[str, Any], base_url: str | None = None) -> dict[str, Any]:
    """A registry, its password never. Links only with a ``base_url``: a list has none."""
    shown: dict[str, Any] = {
        "uuid": row["uuid"],
        "name": row["name"],
        "domain": row["domain"],
        "username": row["username"],
        "password": HIDDEN,
        "project_id": row["project_id"],
        "user_id": row["user_id"],
    }
    if base_url is not None:
        shown["links"] = links.item(base_url, NOUN, row["uuid"])
    return shown
