# SPDX-License-Identifier: Apache-2.0
"""The documents at ``/`` and ``/v1``. Clients read the range of versions from the first."""

from collections.abc import Iterable
from typing import Any, TypedDict

from zun.api import microversion
from zun.api.views import links

DESCRIPTION = "Containers as a service, with exact placement on CPUs and memory."
_API_REFERENCE = "https://docs.openstack.org/api-ref/application-container/"


class Version(TypedDict):
    id: str
    links: list[links.Link]
    status: str
    max_version: str
    min_version: str


class Root(TypedDict):
    name: str
    description: str
    versions: list[Version]
    default_version: Version


class V1(TypedDict):
    """The document at ``/v1``. Each collection has a member with its links besides."""

    id: str
    media_types: list[dict[str, str]]
    links: list[links.Link]


def root(base_url: str) -> Root:
    version: Version = {
        "id": "v1",
        "links": [{"href": f"{base_url}/v1/", "rel": "self"}],
        "status": "CURRENT",
        "max_version": str(microversion.MAX),
        "min_version": str(microversion.MIN),
    }
    return {
        "name": "OpenStack Zun API",
        "description": DESCRIPTION,
        "versions": [version],
        "default_version": version,
    }


def v1(base_url: str, nouns: Iterable[str]) -> dict[str, Any]:
    return {
        "id": "v1",
        "media_types": [{"base": "application/json", "type": "application/vnd.openstack.zun.v1+json"}],
        "links": [
            {"href": f"{base_url}/v1/", "rel": "self"},
            {"href": _API_REFERENCE, "rel": "describedby", "type": "text/html"},
        ],
        **{noun: links.collection(base_url, noun) for noun in nouns},
    }
