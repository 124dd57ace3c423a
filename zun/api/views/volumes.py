# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

from zun.api import microversion
from zun.api.views import links, members
from zun.nouns import owned

NOUN = "volumes"
Volume = Annotated[members.Shown, members.Answer(owned.Volume)]


class Volumes(TypedDict):
    volumes: list[Volume]
    next: str | None


def show(row: Mapping[str, Any], base_url: str, *, host: bool, mounted: bool) -> Volume:
    """Return a volume. ``host`` says whether the caller may see its host, which is None otherwise.
    ``mounted`` says whether a container mounts the volume.
    """
    return members.show(
        owned.Volume,
        row,
        microversion.MAX,
        links=links.item(base_url, NOUN, row["uuid"]),
        status="Deleting" if row["deleting"] else "In-use" if mounted else "Available",
        host=row["host"] if host else None,
    )
