# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

from zun.api import microversion
from zun.api.views import links, members
from zun.nouns import owned

NOUN = "registries"
HIDDEN = "***"
Registry = Annotated[members.Shown, members.Answer(owned.Registry)]


class OneRegistry(TypedDict):
    registry: Registry


class Registries(TypedDict):
    registries: list[Registry]
    next: str | None


def show(row: Mapping[str, Any], base_url: str | None = None) -> Registry:
    """Show a registry. Its password is never shown, only whether it has one. Links come with a ``base_url``."""
    found = ... if base_url is None else links.item(base_url, NOUN, row["uuid"])
    password = None if row["password"] is None else HIDDEN
    return members.show(owned.Registry, row, microversion.MAX, password=password, links=found)
