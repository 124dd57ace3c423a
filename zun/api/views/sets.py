# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict

from zun.api import microversion
from zun.api.views import links, members
from zun.nouns import owned

NOUN = "sets"


class Member(TypedDict):
    uuid: str
    name: str
    status: str


ContainerSet = Annotated[members.Shown, members.Answer(owned.ContainerSet, members=list[Member])]


class ContainerSets(TypedDict):
    sets: list[ContainerSet]
    next: str | None


def show(row: Mapping[str, Any], found: Sequence[Mapping[str, Any]], base_url: str) -> ContainerSet:
    """Return the representation of a set. ``found`` are uuid, name and status of its members, by number."""
    shown = [{name: each[name] for name in ("uuid", "name", "status")} for each in found]
    linked = links.item(base_url, NOUN, row["uuid"])
    return members.show(owned.ContainerSet, row, microversion.MAX, links=linked, members=shown)
