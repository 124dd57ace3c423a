# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

from zun.api.microversion import Version
from zun.api.views import links, members
from zun.nouns import owned

NOUN = "images"
Image = Annotated[members.Shown, members.Answer(owned.Image)]


class Images(TypedDict):
    images: list[Image]
    next: str | None


# What each result has is the registry's, except for ``metadata``.
Found = list[dict[str, Any]]


def show(row: Mapping[str, Any], version: Version, base_url: str) -> Image:
    """Return an image of a host. Members that a pull finds out are null until the pull has succeeded."""
    return members.show(owned.Image, row, version, links=links.item(base_url, NOUN, row["uuid"]))
