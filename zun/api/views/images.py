# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any

from zun.api import microversion
from zun.api.views import links

NOUN = "images"


def show(row: Mapping[str, Any], version: microversion.Version, base_url: str) -> dict[str, Any]:
    """An image of a host. What a pull finds out is null until it has ended, and stays so if it failed."""
    status = {"status": row["status"], "status_detail": row["status_detail"]}
    return {
        "uuid": row["uuid"],
        "image_id": row["image_id"],
        "repo": row["repo"],
        "tag": row["tag"],
        "size": row["size"],
        "project_id": row["project_id"],
        "host": row["host"],
        "links": links.item(base_url, NOUN, row["uuid"]),
        **(status if version >= microversion.PULL_STATUS else {}),
    }
