# SPDX-License-Identifier: Apache-2.0
"""A container service of fixed answers on the loopback that keeps what it was asked."""

import contextlib
import dataclasses
import io
import json
import types
from collections.abc import Iterator, Sequence
from typing import Any

from keystoneauth1 import noauth, session
from zunclient import api_versions
from zunclient.v1 import client as zun_client

from zun.tests import http_servers


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """One request: path with query, version header (without the service word) and decoded body."""

    method: str
    path: str
    version: str | None
    body: Any


class Recorder(http_servers.Server):
    """Answers ``answers[(method, path)]`` as JSON, 404 for the rest; ``asked`` is in order of arrival."""

    def __init__(self, max_version: str, answers: dict[tuple[str, str], tuple[int, Any]]) -> None:
        super().__init__(_Handler)
        versions = [{"id": "v1", "status": "CURRENT", "min_version": "1.1", "max_version": max_version}]
        self.answers = {("GET", "/"): (200, {"versions": versions}), **answers}
        self.asked: list[Asked] = []

    @property
    def endpoint(self) -> str:
        return f"{self.url}/v1"

    @property
    def asked_of_v1(self) -> list[Asked]:
        """Without the requests for the version document."""
        return [one for one in self.asked if one.path != "/"]


class _Handler(http_servers.Handler):
    server: Recorder

    def _answer(self) -> None:
        raw = self.body()
        version = self.headers.get("OpenStack-API-Version")
        self.server.asked.append(
            Asked(
                self.command,
                self.path,
                version.removeprefix("container ") if version else None,
                json.loads(raw) if raw else None,
            )
        )
        missing = (404, {"errors": [{"title": "Not Found", "detail": f"no {self.path} here", "status": 404}]})
        self.answer(*self.server.answers.get((self.command, self.path), missing))

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _answer


@contextlib.contextmanager
def serving(
    answers: dict[tuple[str, str], tuple[int, Any]] | None = None, *, max_version: str = "1.41"
) -> Iterator[Recorder]:
    """Serve in a thread until the block ends."""
    with http_servers.serving(Recorder(max_version, answers or {})) as recorder:
        yield recorder


def client(server: Recorder, version: str = "1.40") -> zun_client.Client:
    auth = noauth.NoAuth(endpoint=server.endpoint)
    return zun_client.Client(session=session.Session(auth=auth), api_version=api_versions.APIVersion(version))


def asked_by(
    command: Any, argv: Sequence[str], answers: dict[tuple[str, str], tuple[int, Any]], max_version: str
) -> list[Asked]:
    """Run a command of the plugin against a service with these answers, and return the requests that it sent."""
    with serving(answers, max_version=max_version) as server:
        manager = types.SimpleNamespace(container=client(server))
        instance = command(types.SimpleNamespace(stdout=io.StringIO(), client_manager=manager), None)
        instance.run(instance.get_parser("openstack").parse_args(argv))
    return server.asked_of_v1
