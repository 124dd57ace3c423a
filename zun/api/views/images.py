# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, TypedDict

from zun.api import microversion
from zun.api.views import links

NOUN = "images"


class Image(TypedDict):
    uuid: str
    image_id: str | None
    repo: str
    tag: str
    size: str | None
    project_id: str
    host: str
    links: list[links.Link]
    status: NotRequired[Annotated[str, microversion.PULL_STATUS]]
    status_detail: NotRequired[Annotated[str | None, microversion.PULL_STATUS]]


class Images(TypedDict):
    images: list[Image]
    next: str | None


# What each result has is the registry's, except for ``metadata``.
Found = list[dict[str, Any]]


def show(row: Mapping[str, Any], version: microversion.Version, base_url: str) -> Image:
    """Return an image of a host. Members that a pull finds out are null until the pull has succeeded."""
    shown: Image = {
        "uuid": row["uuid"],
        "image_id": row["image_id"],
        "repo": row["repo"],
        "tag": row["tag"],
        "size": row["size"],
        "project_id": row["project_id"],
        "host": row["host"],
        "links": links.item(base_url, NOUN, row["uuid"]),
    }
    if version >= microversion.PULL_STATUS:
        shown["status"] = row["status"]
        shown["status_detail"] = row["status_detail"]
    return shown
