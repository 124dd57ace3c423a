# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict

from zun.api import microversion
from zun.api.views import links, members
from zun.nouns import owned

NOUN = "groups"
Group = Annotated[members.Shown, members.Answer(owned.Group)]


class Groups(TypedDict):
    groups: list[Group]
    next: str | None


def show(row: Mapping[str, Any], uuids: Sequence[str], base_url: str) -> Group:
    """Return the representation of a group. ``uuids`` are those of its containers, oldest first."""
    found = links.item(base_url, NOUN, row["uuid"])
    return members.show(owned.Group, row, microversion.MAX, links=found, members=list(uuids))
