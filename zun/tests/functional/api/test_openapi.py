# SPDX-License-Identifier: Apache-2.0
"""The document as it is served, and that handlers check by the schemas that it shows."""

import urllib.parse

import openapi_spec_validator
import pytest

from zun.api import app as api_app
from zun.api import microversion
from zun.tests.functional.api.client import Client
from zun.tests.functional.api.conftest import HOST
from zun.tests.unit.api.table import ROUTES


@pytest.mark.parametrize("path", ["/v1/openapi.json", "/openapi.json", "/v1/openapi"])
def test_anybody_may_read_it(database, configuration, scheduler, compute, tmp_path, path):
    (tmp_path / "zun.conf").write_text("[keystone_authtoken]\nauth_type = none\n")
    configuration([], project="zun-test", default_config_files=[str(tmp_path / "zun.conf")], default_config_dirs=[])
    configuration.set_override("auth_strategy", "keystone", group="api")
    application = api_app.build(configuration, scheduler_api=scheduler, compute_api=compute)
    reply = Client(application).get(path)
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert reply.json["info"]["version"] == str(microversion.MAX)
    assert reply.json["security"] == [{"keystone": []}]
    openapi_spec_validator.validate(reply.json)


@pytest.mark.parametrize("version", ["1.1", "1.13", "latest"])
def test_the_version_is_chosen_in_the_query(api, version):
    shown = api.get(f"/v1/openapi.json?version={version}").json["info"]["version"]
    assert shown == version.replace("latest", str(microversion.MAX))


@pytest.mark.parametrize(
    ("query", "status"),
    [("version=1.99", 406), ("version=", 406), ("version=x", 406), ("version=1.1&version=1.2", 400)],
)
def test_versions_that_are_none(api, query, status):
    assert api.get(f"/v1/openapi.json?{query}").refusal[0] == status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD"])
def test_it_is_only_read(api, method):
    assert api.send(method, "/v1/openapi.json").status == 405


def named(route):
    """Where an argument that nobody knows is put, and the fields that the answer should name."""
    version = min(route.until, microversion.MAX)
    for schema, place in ((route.query, "query"), (route.body, "body"), (route.arguments, "body")):
        chosen = schema[version] if isinstance(schema, dict) else schema
        if chosen is None or not chosen.names or chosen.described(version)["additionalProperties"]:
            continue
        if place == "query" and route.path not in STRICT_QUERIES:
            continue
        yield pytest.param(route, version, place, chosen, id=f"{route.method} {route.path} {place}")


# Others take what they know of a query and leave the rest aside. Streams are read piece by piece.
STRICT_QUERIES = {"containers", "registries", "containers/{ident}/logs", "containers/{ident}/commit"}
STREAMED = [route for route in ROUTES if route.streams]
# A value for each argument that must be there.
NEEDED = {
    "binary": "zun-compute",
    "command": "ls",
    "data": "",
    "exec_id": "ab" * 32,
    "forced_down": True,
    "h": 1,
    "host": HOST,
    "image": "zun-demo",
    "metadata": {},
    "name": "web",
    "path": "/x",
    "policy": "affinity",
    "registry": {},
    "template": {},
    "repository": "web",
    "repo": "zun-demo",
    "traits": [],
    "w": 1,
}


@pytest.mark.parametrize(
    ("route", "version", "place", "schema"),
    [case for route in ROUTES if route not in STREAMED for case in named(route)],
)
def test_a_handler_checks_by_the_schema_that_is_shown(application, placed, host_up, route, version, place, schema):
    container = placed()
    api = Client(application, user="alice", project="demo", roles="admin", version=str(version))
    path = f"/v1/{route.path}".replace("{ident}", container.uuid).replace("{host}", HOST)
    arguments = {"no-such-argument": 1, **{name: NEEDED[name] for name in schema.described(version)["required"]}}
    if place == "query" or route.method in ("GET", "DELETE"):
        reply = api.send(route.method, f"{path}?{urllib.parse.urlencode(arguments)}", {})
    else:
        reply = api.send(route.method, path, arguments)
    assert reply.status == 400
    assert reply.error["detail"].rstrip(".").endswith(f"possible are {', '.join(sorted(schema.names))}")
