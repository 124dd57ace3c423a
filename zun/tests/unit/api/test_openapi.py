# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document follows the table of routes: a route that does not say what it takes and gives fails here."""

import json

import openapi_spec_validator
import pytest

from zun import policies
from zun.api import microversion, openapi
from zun.api.microversion import v1
from zun.api.routes import NOTHING, UNTOLD
from zun.api.schemas import Field, Schema
from zun.tests.unit.api.table import ROUTES


def document(version=microversion.MAX, auth_strategy="keystone", routes=ROUTES):
    return openapi.document(routes, policies.list_rules(), version, auth_strategy)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_a_route_says_what_it_takes_and_gives(route):
    assert route.returns is not UNTOLD, "give the Route the type of its view as returns="
    assert (route.returns is NOTHING) == (route.status == 204)
    if route.method in ("POST", "PUT", "PATCH"):
        told = (route.body, route.arguments)
        assert sum(each is not None for each in told) == 1, "give the Route the schema of its body= or arguments="
    if route.method == "GET" and "{" not in route.path and route.path not in NO_PAGES:
        assert route.query is not None, "give the Route the parameters of its list as query="


NO_PAGES = {"services"}


@pytest.mark.parametrize(
    ("version", "auth_strategy"),
    [*((version, "keystone") for version in (1, 4, 13, 19, 40, 41, 42)), (42, "noauth"), (42, "http_basic")],
)
def test_the_document_is_valid(version, auth_strategy):
    made = document(v1(version), auth_strategy)
    assert list(openapi_spec_validator.OpenAPIV31SpecValidator(made).iter_errors()) == []


@pytest.mark.parametrize("version", microversion.EVERY, ids=str)
def test_the_document_has_the_routes_of_its_version(version):
    wanted = {(f"/v1/{route.path}", route.method.lower()) for route in ROUTES if route.since <= version <= route.until}
    made = document(version)
    found = {(path, method) for path, operations in made["paths"].items() for method in operations}
    assert found == wanted | {("/", "get"), ("/v1", "get"), ("/v1/openapi.json", "get")}
    assert made["info"]["version"] == str(version)
    idents = [each["operationId"] for operations in made["paths"].values() for each in operations.values()]
    assert len(idents) == len(set(idents))


@pytest.mark.parametrize(("version", "there"), [(1, set()), (9, {"hostname"}), (40, {"hostname", "entrypoint"})])
def test_fields_of_create_arrive_with_their_version(version, there):
    operation = document(v1(version))["paths"]["/v1/containers"]["post"]
    fields = operation["requestBody"]["content"]["application/json"]["schema"]
    assert {"hostname", "entrypoint", "numa_nodes"} & fields["properties"].keys() == there
    assert fields["required"] == ["image"] and not fields["additionalProperties"]
    if "hostname" in there:
        assert fields["properties"]["hostname"]["x-openstack"] == {"min-ver": "1.9"}


def test_what_a_create_says():
    operation = document()["paths"]["/v1/containers"]["post"]
    assert operation["summary"] == "Create a container."
    assert operation["x-openstack-policies"][0] == "container:create"
    assert operation["x-openstack"] == {"min-ver": "1.1"}
    assert operation["responses"].keys() == {
        *("202", "400", "401", "403", "404", "406", "409", "413", "415", "503"),
    }
    assert "Location" in operation["responses"]["202"]["headers"]
    shape = operation["responses"]["202"]["content"]["application/json"]["schema"]
    assert shape == {"$ref": "#/components/schemas/Container"}


def test_every_operation_has_a_summary():
    operations = [each for operations in document()["paths"].values() for each in operations.values()]
    assert [each["operationId"] for each in operations if not each["summary"]] == []


def nameless_patterns(schema):
    """The patterns of a schema whose refusal would show the client a regular expression."""
    if isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str) and "description" not in schema:
            yield schema["pattern"]
        schema = schema.values()
    if not isinstance(schema, str | int | float | None):
        for each in schema:
            yield from nameless_patterns(each)


def test_a_pattern_is_told_in_words():
    assert set(nameless_patterns(document()["paths"])) == set()


def test_patterns_are_those_of_ecmascript():
    assert r"\\Z" not in json.dumps(document())


def test_a_query_has_no_null():
    schema = Schema({"host": Field({"type": ["string", "null"]}), "color": Field({"enum": ["red", None]})})
    route = openapi.Route("GET", "things", lambda call: None, query=schema, returns=str)
    _, host, color = document(routes=[route])["paths"]["/v1/things"]["get"]["parameters"]
    assert (host["schema"], color["schema"]) == ({"type": ["string"]}, {"enum": ["red"]})


def test_which_refusals_an_operation_tells_of():
    paths = document()["paths"]

    def refusals(method, path):
        return sorted(set(paths[path][method]["responses"]) - {"200", "202", "204", "304", "401"})

    always = ["400", "403", "404", "406", "503"]
    assert refusals("get", "/v1/openapi.json") == ["400", "406"]
    assert refusals("get", "/v1/containers") == always
    assert refusals("get", "/v1/containers/{ident}/logs") == sorted([*always, "409", "429"])
    assert refusals("delete", "/v1/services") == sorted([*always, "409"])
    assert refusals("post", "/v1/containers") == sorted([*always, "409", "413", "415"])
