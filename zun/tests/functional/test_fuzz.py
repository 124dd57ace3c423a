# SPDX-License-Identifier: Apache-2.0
"""Requests that nobody would think of, against a whole cloud in memory: none is answered 500, and every answer is one
that the OpenAPI document promises, members included.

The requests are the same at each run. ``ZUN_FUZZ_EXAMPLES`` is how many there are for an operation, with
``ZUN_FUZZ_SEED`` they are other ones, and ``ZUN_FUZZ_DATABASE`` is the URL of an empty database to try instead of
SQLite: ``ZUN_FUZZ_EXAMPLES=1000 ZUN_FUZZ_SEED=7 pytest --timeout 0 THIS_FILE``.
"""

import json
import os
import urllib.parse
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import content_type_conformance

from zun import policies
from zun.api import app as api_app
from zun.api import microversion, openapi
from zun.db import models, session
from zun.tests.functional.api.client import Client
from zun.tests.functional.cloud import Cloud, machine
from zun.tests.unit.api.table import ROUTES

EXAMPLES = int(os.environ.get("ZUN_FUZZ_EXAMPLES", "10"))
SEED = os.environ.get("ZUN_FUZZ_SEED")
WHO = {"X-User-Id": "u", "X-Project-Id": "admin"}
CHECKS = [
    content_type_conformance,
    *map(
        schemathesis.checks.CHECKS.get_one,
        ["status_code_conformance", "response_schema_conformance", "response_headers_conformance"],
    ),
]
# The newest version has nearly everything; an operation that it has no longer is tried where it ends.
VERSIONS = (microversion.MAX, microversion.v1(13), microversion.MIN)


def fuzzed_more(function: Any) -> Any:
    return fuzzed(function, 40)


def fuzzed(function: Any, times: int = 1) -> Any:
    chosen = hypothesis.settings(
        max_examples=times * EXAMPLES,
        derandomize=SEED is None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )(function)
    return chosen if SEED is None else hypothesis.seed(int(SEED))(chosen)


def closed(schema: Any) -> Any:
    """``schema`` without room for members that it does not name."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: closed(value) for name, value in schema.items()}
    if "properties" in found and "additionalProperties" not in found:
        found["additionalProperties"] = False
    return found


def documents() -> dict[str, Any]:
    found = {str(version): openapi.document(ROUTES, policies.list_rules(), version, "noauth") for version in VERSIONS}
    for document in found.values():
        shapes = document["components"]["schemas"]
        links = shapes.pop("V1")  # its other members are the collections
        document["components"]["schemas"] = {**closed(shapes), "V1": links}
    return found


DOCUMENTS = documents()
OPERATIONS = [
    pytest.param(version, path, method, id=f"{version}-{operation['operationId']}")
    for version, document in DOCUMENTS.items()
    for path, operations in document["paths"].items()
    for method, operation in operations.items()
    if version in (str(microversion.MAX), operation.get("x-openstack", {}).get("max-ver"))
]


class Resources:
    """One of each kind, made again when it is gone."""

    def __init__(self, application: Any) -> None:
        self.api = Client(application, version=str(microversion.MAX))
        self._known: dict[str, str] = {}

    def of(self, path: str) -> dict[str, str]:
        """Values for the path's parameters that name something."""
        noun = path.split("/")[2]
        match noun:
            case "containers":
                return {"ident": self._container()}
            case "groups":
                return {"group": self._made("groups", {"name": "apart", "policy": "soft-affinity"})}
            case "aggregates":
                return {"aggregate": self._made("aggregates", {"name": "south"})}
            case "registries":
                return {"ident": self._made("registries", {"registry": {"domain": "registry.example"}})}
            case "networks":
                return {"network": self._made("networks", {"name": "front"})}
            case "images":
                return {"uuid": self._made("images", {"repo": "zun-demo", "host": "one"}), "name": "web", "owner": "a"}
            case "hosts":
                return {"host": "one"}
            case "quotas":
                return {"project_id": "admin"}
        return {}

    def _container(self) -> str:
        uuid = self._known.get("containers")
        if uuid is not None:
            reply = self.api.get(f"/v1/containers/{uuid}")
            if reply.status == 200 and reply.json["status"] in ("Running", "Paused", "Stopped"):
                return uuid
        body = {"image": "zun-demo", "command": ["sleep", "1"], "memory": 16, "cpu": 0.1, "interactive": True}
        reply = self.api.post("/v1/containers?run=true", body)
        assert reply.status == 202, reply
        self._known["containers"] = reply.json["uuid"]
        return self._known["containers"]

    def _made(self, noun: str, body: Any) -> str:
        uuid = self._known.get(noun)
        if uuid is None or self.api.get(f"/v1/{noun}/{uuid}").status != 200:
            listed = self.api.get(f"/v1/{noun}?limit=1").json[noun]
            reply = None if listed else self.api.post(f"/v1/{noun}", body)
            assert reply is None or reply.status < 300, reply
            shown = listed[0] if reply is None else reply.json
            self._known[noun] = shown.get("registry", shown)["uuid"]
        return self._known[noun]


@pytest.fixture(scope="module")
def application(tmp_path_factory):
    session.configure(os.environ.get("ZUN_FUZZ_DATABASE") or f"sqlite:///{tmp_path_factory.mktemp('fuzz')}/zun.sqlite")
    models.metadata.create_all(session.engine())
    cloud = Cloud(
        {"one": machine(), "two": machine()},
        compute__audit_interval=0,
        api__auth_strategy="noauth",
        api__host_names=["zun.example"],
        api__max_limit=20,
        quota__containers=100000,
        quota__memory=-1,
        quota__cpu=-1,
        network__subnet_prefix=16,  # an address for each container that a long run makes
    )
    yield api_app.build(cloud.conf, scheduler_api=cloud.scheduler_api, compute_api=cloud.compute_api)
    cloud.stop()
    session.dispose()


@pytest.fixture(scope="module")
def resources(application):
    return Resources(application)


@pytest.fixture(scope="module")
def schemas(application):
    found = {}
    for version, document in DOCUMENTS.items():
        found[version] = schemathesis.openapi.from_dict(document)
        found[version].app = application
    return found


@pytest.mark.parametrize(("version", "path", "method"), OPERATIONS)
def test_answers_are_what_the_document_says(schemas, resources, version, path, method):
    operation = schemas[version][path][method]
    # Without its version a request speaks another one, whose answers another document describes.
    speaks = {microversion.HEADER: f"container {version}"}
    modes = (GenerationMode.POSITIVE, GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    cases = st.one_of(*(operation.as_strategy(mode, headers=speaks) for mode in modes))

    @fuzzed
    @given(case=cases, exists=st.sampled_from([True, True, True, False]), who=st.sampled_from(["admin", "member"]))
    def check(case, exists, who):
        if exists and "{" in path:
            case.path_parameters = {**case.path_parameters, **resources.of(path)}
        response = case.call(headers={**WHO, "X-Roles": who})
        assert response.status_code != 500, response.content
        case.validate_response(response, checks=CHECKS)

    check()


# Requests that no schema describes.

_BAD_TEXTS = ["\0", "a\0b", "\ud800", "x" * 256, "ä" * 255, "x" * 70000, "", " ", "-1", "1e400", "../..", "%00", "0x10"]
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**31, 2**63, 2**64, -(2**63) - 1, 10**30, 10**400, 1.5e308, -0.0, *_BAD_TEXTS])
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_BODIES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [
            b"[" * 100_000,
            b'{"a":' * 100_000,
            b'{"hints": ' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"}",
            b"1" * 5000,
            b'{"cpu": ' + b"9" * 5000 + b"}",
            b'{"name": "\xff"}',
            b'{"name": "\\u0000"}',
            b'{"name": "\\ud800"}',
            b"\xef\xbb\xbf{}",
            b"null",
            b"NaN",
            b'{"cpu": NaN}',
            b'{"cpu": 1e999}',
            b'{"a": 1, "a": 2}',
        ]
    ),
)
_HEADER = st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=30)
_HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "OpenStack-API-Version": _HEADER
        | st.sampled_from(
            ["container 1.0", "container 1.43", "container 99999999999.1", "latest", "container latest", "compute 1.1"]
        ),
        "Accept": _HEADER | st.sampled_from(["text/html", "*/*;q=x", "application/json;q=0", ";,;"]),
        "X-Openstack-Request-Id": _HEADER,
        "Host": _HEADER,
        "X-Roles": st.sampled_from(["admin", "member", "reader", "nothing", ","]),
        "X-Project-Id": st.sampled_from(["admin", "x" * 256, "ä", "p"]),
        "Transfer-Encoding": st.sampled_from(["chunked", "gzip"]),
        "Content-Length": st.sampled_from(["", "-1", "1e3", "9" * 30, "abc", "0"]),
    },
)
_TYPES = st.sampled_from(
    ["application/json"] * 4 + ["application/json; charset=latin-1", "text/plain", "", None, "\xff/;"]
)
_PLACES = [
    (path, method.upper(), operation)
    for path, operations in DOCUMENTS[str(microversion.MAX)]["paths"].items()
    for method, operation in operations.items()
]


def _members(operation: Any) -> list[str]:
    """The names that a request's arguments may have."""
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    named = [each["name"] for each in operation.get("parameters", ()) if each.get("in") == "query"]
    return [*body.get("properties", ()), *named, "unknown"]


def _known_good(operation: Any) -> dict[str, Any]:
    """Return the members that a create needs besides the odd one."""
    return {
        "post_containers": {"image": "zun-demo", "memory": 16},
        "post_images": {"repo": "zun-demo", "host": "one"},
        "post_groups": {"name": "odd", "policy": "soft-affinity"},
        "post_aggregates": {"name": "odd"},
        "post_registries": {"registry": {"domain": "d"}},
    }.get(operation.get("operationId", ""), {})


def _check(application: Any, resources: Resources, place: Any, path_value: str, who: str, **request: Any) -> None:
    path, method, _ = place
    chosen = resources.of(path) if path_value == "" and "{" in path else {}
    parts = [chosen.get(part.strip("{}"), path_value or "x") if "{" in part else part for part in path.split("/")]
    query = request.pop("query", "")
    client = Client(application, user="u", project="admin", roles=who, version=str(microversion.MAX))
    target = "/".join(
        part if "{" in part else urllib.parse.quote(part, safe="", errors="surrogatepass") for part in parts
    )
    reply = client.send(method, f"{target}?{query}", **request)
    assert reply.status != 500, (method, target, query, request, reply)
    if reply.status >= 400:
        assert reply.error["status"] == reply.status
    elif reply.body:
        json.loads(reply.body)


_WHO = st.sampled_from(["admin", "member"])
_ODD_PATHS = st.sampled_from(["", "", "", "x", *_BAD_TEXTS]) | st.text(min_size=1, max_size=10)


@fuzzed_more
@given(
    place=st.sampled_from(_PLACES),
    path=_ODD_PATHS,
    who=_WHO,
    headers=_HEADERS,
    content_type=_TYPES,
    raw=_BODIES,
    query=st.binary(max_size=12).map(lambda raw: raw.decode("latin-1"))
    | st.sampled_from(["a=%ff", "limit=%00", "a=1&a=2"]),
)
def test_odd_requests(application, resources, place, path, who, headers, content_type, raw, query):
    _check(application, resources, place, path, who, raw=raw, content_type=content_type, headers=headers, query=query)


@fuzzed_more
@given(data=st.data(), place=st.sampled_from(_PLACES), path=_ODD_PATHS, who=_WHO, value=_VALUES)
def test_odd_values_of_members(application, resources, data, place, path, who, value):
    """In bodies, one member at a time, so that it is the one that is looked at."""
    member = data.draw(st.sampled_from(_members(place[2])))
    good = _known_good(place[2])
    body = {**good, member: value}
    if "registry" in good:
        inner = data.draw(st.sampled_from(["domain", "name", "username", "password"]))
        body = {"registry": {**good["registry"], inner: value}}
    _check(application, resources, place, path, who, raw=json.dumps(body).encode())


@fuzzed_more
@given(
    data=st.data(), place=st.sampled_from(_PLACES), who=_WHO, value=st.sampled_from(_BAD_TEXTS) | st.text(max_size=20)
)
def test_odd_values_of_queries(application, resources, data, place, who, value):
    member = data.draw(st.sampled_from(_members(place[2])))
    query = urllib.parse.urlencode({member: value}, errors="surrogatepass")
    _check(application, resources, place, "", who, query=query)
