# SPDX-License-Identifier: Apache-2.0
"""A WSGI client that sends exactly what it is told: odd paths, broken bodies, no headers at all."""

import base64
import io
import json
import urllib.parse
from dataclasses import dataclass, replace
from typing import Any

_UNSET: Any = object()


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The one error of an error body."""
        (error,) = self.json["errors"]
        return dict(error)

    @property
    def refusal(self) -> tuple[int, str]:
        """Status and slug."""
        return self.status, self.error["code"].removeprefix("container.")


@dataclass(frozen=True, slots=True)
class Client:
    application: Any
    user: str | None = None
    project: str | None = None
    roles: str | None = None
    version: str | None = None
    address: str = "127.0.0.1"

    def at(self, version: str | None) -> "Client":
        """Return a client that speaks another microversion, or sends no header if ``version`` is None."""
        return replace(self, version=version)

    def in_project(self, project: str) -> "Client":
        return replace(self, project=project)

    def get(self, path: str, **kwargs: Any) -> Reply:
        return self.send("GET", path, **kwargs)

    def post(self, path: str, body: Any = _UNSET, **kwargs: Any) -> Reply:
        return self.send("POST", path, body, **kwargs)

    def put(self, path: str, body: Any = _UNSET, **kwargs: Any) -> Reply:
        return self.send("PUT", path, body, **kwargs)

    def patch(self, path: str, body: Any = _UNSET, **kwargs: Any) -> Reply:
        return self.send("PATCH", path, body, **kwargs)

    def delete(self, path: str, body: Any = _UNSET, **kwargs: Any) -> Reply:
        return self.send("DELETE", path, body, **kwargs)

    def send(
        self,
        method: str,
        path: str,
        body: Any = _UNSET,
        *,
        raw: bytes | None = None,
        content_type: str | None = "application/json",
        headers: dict[str, str] | None = None,
        mount: str = "",
    ) -> Reply:
        """``path`` may have a query and percent escapes. ``raw`` is sent as it is, ``body`` as JSON."""
        payload = raw if raw is not None else b"" if body is _UNSET else json.dumps(body).encode()
        path, _, query = path.partition("?")
        environ: dict[str, Any] = {
            "REQUEST_METHOD": method,
            "SCRIPT_NAME": mount,
            "PATH_INFO": urllib.parse.unquote_to_bytes(path).decode("latin-1"),
            "QUERY_STRING": query,
            "SERVER_NAME": "server",
            "REMOTE_ADDR": self.address,
            "SERVER_PORT": "9517",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "HTTP_HOST": "zun.example:9517",
            "CONTENT_LENGTH": str(len(payload)),
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(payload),
            "wsgi.errors": io.StringIO(),
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
        }
        if content_type is not None:
            environ["CONTENT_TYPE"] = content_type
        sent = {
            "X-User-Id": self.user,
            "X-Project-Id": self.project,
            "X-Roles": self.roles,
            "OpenStack-API-Version": None if self.version is None else f"container {self.version}",
            **(headers or {}),
        }
        for name, value in sent.items():
            if value is not None:
                environ["HTTP_" + name.upper().replace("-", "_")] = value
        started: list[tuple[str, list[tuple[str, str]]]] = []

        def start_response(status: str, response_headers: list[tuple[str, str]], exc_info: Any = None) -> None:
            started.append((status, response_headers))

        answer = self.application(environ, start_response)
        content = b"".join(answer)
        if hasattr(answer, "close"):
            answer.close()
        ((status, response_headers),) = started
        names = [name.lower() for name, _ in response_headers]
        assert len(names) == len(set(names)), f"a header is sent twice: {names}"
        return Reply(int(status.split()[0]), {name.lower(): value for name, value in response_headers}, content)


def basic(user, password):
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}
