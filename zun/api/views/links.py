# SPDX-License-Identifier: Apache-2.0
"""Links to resources, always absolute and never with a mount prefix."""

from typing import NotRequired, TypedDict


class Link(TypedDict):
    href: str
    rel: str
    type: NotRequired[str]


def collection(base_url: str, noun: str) -> list[Link]:
    return [
        {"href": f"{base_url}/v1/{noun}/", "rel": "self"},
        {"href": f"{base_url}/{noun}/", "rel": "bookmark"},
    ]


def item(base_url: str, noun: str, ident: str) -> list[Link]:
    return [
        {"href": f"{base_url}/v1/{noun}/{ident}", "rel": "self"},
        {"href": f"{base_url}/{noun}/{ident}", "rel": "bookmark"},
    ]
