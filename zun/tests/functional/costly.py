# SPDX-License-Identifier: Apache-2.0
"""The requests of ``sizes`` against the API of a cloud in memory."""

from collections.abc import Iterator
from typing import Any

from zun import policies
from zun.api import microversion, openapi
from zun.api.microversion import Version
from zun.tests.functional import sizes
from zun.tests.functional.api.client import Client, Reply
from zun.tests.unit.api.table import ROUTES

VERSIONS = (microversion.MAX, microversion.v1(13))
OPTIONS = {
    "compute__audit_interval": 0,
    "api__auth_strategy": "noauth",
    "quota__containers": 100_000,
    "quota__memory": -1,
    "quota__cpu": -1,
    "network__subnet_prefix": 16,  # an address for each container that a long run makes
    "api__host_names": ["zun.example"],
    "api__access_log": False,
}


def client(application: Any, version: Version) -> Client:
    return Client(application, user="u", project="admin", roles="admin", version=str(version))


def requests(application: Any, version: Version) -> Iterator[sizes.Request]:
    """Every request of a version, about things that are there."""
    api = client(application, microversion.MAX)
    asked = {"image": "zun-demo", "command": ["sleep", "1"], "memory": 16, "cpu": 0.1, "interactive": True}
    made = api.post("/v1/containers?run=true", asked)
    assert made.status == 202, made
    names = {"{host}": "one", "{project_id}": "admin", "{name}": "web", "{owner}": "a"}

    def filled(path: str) -> str:
        ident = made.json["uuid"] if path.startswith("/v1/containers") else "nothing"
        parts = [names.get(part, ident) if part.startswith("{") else part for part in path.split("/")]
        return "/".join(parts)

    document = openapi.document(ROUTES, policies.list_rules(), version, "noauth")
    # What removes the container comes last.
    found = sorted(sizes.requests(document, filled), key=lambda each: each.method == "DELETE")
    yield from found


def sent(application: Any, version: Version, request: sizes.Request) -> Reply:
    return client(application, version).send(
        request.method, f"{request.path}?{request.query}", raw=request.raw()
    )
