# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

from zun.api import microversion
from zun.api.views import links, members
from zun.common import zones
from zun.nouns import cloud

NOUN = "aggregates"
Aggregate = Annotated[members.Shown, members.Answer(cloud.Aggregate)]


class Aggregates(TypedDict):
    aggregates: list[Aggregate]
    next: str | None


def show(row: Mapping[str, Any], base_url: str) -> Aggregate:
    zone = row["metadata"].get(zones.KEY)
    found = links.item(base_url, NOUN, row["uuid"])
    return members.show(cloud.Aggregate, row, microversion.MAX, availability_zone=zone, links=found)
