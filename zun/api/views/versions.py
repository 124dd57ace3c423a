# SPDX-License-Identifier: Apache-2.0
"""The documents at ``/`` and ``/v1``. Clients read the range of versions from the first."""

from collections.abc import Iterable
from typing import Any

from zun.api import microversion
from zun.api.views import links

_API_REFERENCE = "https://docs.openstack.org/api-ref/application-container/"


def root(base_url: str) -> dict[str, Any]:
    version = {
        "id": "v1",
        "links": [{"href": f"{base_url}/v1/", "rel": "self"}],
        "status": "CURRENT",
        "max_version": str(microversion.MAX),
        "min_version": str(microversion.MIN),
    }
    return {
        "name": "OpenStack Zun API",
        "description": "Containers as a service, with exact placement on CPUs and memory nodes.",
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
