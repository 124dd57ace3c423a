# SPDX-License-Identifier: Apache-2.0
"""The part of keystone that its middleware, and the login of the page, call. Tests end tokens with ``revoke``."""

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from zun.tests.http_servers import Handler, Server, serving

DOMAIN = {"id": "default", "name": "Default"}
PASSWORD = "secret"
#: User -> its projects, and its roles in each.
USERS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "alice": {"demo": ("member",), "research": ("member",)},
    "bob": {"others": ("member",)},
    "root": {"admin": ("admin", "member")},
    "zun": {"service": ("service", "admin")},
}


class Keystone(Server):
    def __init__(self) -> None:
        super().__init__(_Handler)
        self.tokens: dict[str, tuple[str, str | None]] = {}  # token -> user and project

    @property
    def url(self) -> str:
        return f"{super().url}/v3"

    def revoke(self) -> None:
        """End every token but those of the service."""
        self.tokens = {token: whose for token, whose in self.tokens.items() if whose[0] == "zun"}

    def issue(self, user: str, project: str | None) -> str:
        token = uuid.uuid4().hex
        self.tokens[token] = (user, project)
        return token


@contextmanager
def keystone() -> Iterator[Keystone]:
    with serving(Keystone()) as server:
        yield server


class _Handler(Handler):
    server: Keystone

    def do_GET(self) -> None:
        if self.path.startswith("/v3/auth/tokens"):
            whose = self.server.tokens.get(self.headers["X-Subject-Token"])
            self.answer(200, self._shown(*whose)) if whose else self._refuse(404)
        elif self.path.startswith("/v3/auth/projects"):
            whose = self.server.tokens.get(self.headers["X-Auth-Token"])
            self.answer(200, {"projects": [_project(each) for each in USERS[whose[0]]]}) if whose else self._refuse(401)
        else:
            links = [{"rel": "self", "href": f"{self.server.url}/"}]
            version = {"id": "v3.14", "status": "stable", "links": links}
            self.answer(200, {"version": version, "versions": {"values": [version]}})

    def do_POST(self) -> None:
        asked = json.loads(self.body())["auth"]
        identity = asked["identity"]
        if "password" in identity["methods"]:
            given = identity["password"]["user"]
            user = given["name"] if given["password"] == PASSWORD and given["name"] in USERS else None
        else:
            user = self.server.tokens.get(identity["token"]["id"], (None,))[0]
        if user is None:
            return self._refuse(401)
        scope = asked.get("scope", {})
        wanted = scope.get("project", {}) if isinstance(scope, dict) else {}
        project = wanted.get("name") or wanted.get("id")
        if project is not None and project not in USERS[user]:
            return self._refuse(401)
        token = self.server.issue(user, project)
        return self.answer(201, self._shown(user, project), X_Subject_Token=token)

    def do_DELETE(self) -> None:
        self.server.tokens.pop(self.headers["X-Subject-Token"], None)
        self.answer(204)

    def _shown(self, user: str, project: str | None) -> dict[str, Any]:
        token: dict[str, Any] = {
            "methods": ["password"],
            "issued_at": "2026-01-01T00:00:00.000000Z",
            "expires_at": "2099-01-01T00:00:00.000000Z",
            "user": {"id": f"{user}-id", "name": user, "domain": DOMAIN},
        }
        if project is not None:
            faces = ("internal", "public")
            endpoints = [{"id": face, "interface": face, "region": None, "url": self.server.url} for face in faces]
            token |= {
                "project": _project(project),
                "roles": [{"id": role, "name": role} for role in USERS[user][project]],
                "catalog": [{"type": "identity", "name": "keystone", "endpoints": endpoints}],
            }
        return {"token": token}

    def _refuse(self, status: int) -> None:
        self.answer(status, {"error": {"code": status, "title": "Refused", "message": "The request is refused."}})


def _project(name: str) -> dict[str, Any]:
    return {"id": name, "name": name, "domain": DOMAIN, "domain_id": DOMAIN["id"], "enabled": True, "links": {}}
