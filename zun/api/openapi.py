# SPDX-License-Identifier: Apache-2.0
"""Build the OpenAPI 3.1 document from the parts that answer requests: the table of routes, the schemas of arguments,
the types of views, the descriptions of policies. Nothing is described a second time.

A document describes one microversion. ``x-openstack`` names the first and last version of an operation or a member, as
OpenStack's own documents do.
"""

import http
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from oslo_policy import policy as oslo_policy

from zun.api import errors, microversion, request
from zun.api.microversion import Version
from zun.api.openapi_schemas import JsonSchema, Shapes
from zun.api.routes import NOTHING, Route
from zun.api.schemas import Schema
from zun.api.views import versions

Document = dict[str, Any]

_SECURITY: Mapping[str, JsonSchema] = {
    "keystone": {"type": "apiKey", "in": "header", "name": "X-Auth-Token", "description": "A token of keystone."},
    "http_basic": {"type": "http", "scheme": "basic"},
}


def document(
    routes: Iterable[Route], rules: Sequence[oslo_policy.RuleDefault], version: Version, auth_strategy: str
) -> Document:
    """Return the document. ``rules`` describe the operations and name their policies. Raises TypeError for a view
    without a type.
    """
    shapes, by_operation = Shapes(version), _by_operation(rules)
    paths: dict[str, dict[str, Any]] = {
        "/": {"get": _public("version_range", "Show the range of microversions.", versions.Root, shapes)},
        "/v1": {"get": _public("collections", "Link to the collections.", versions.V1, shapes)},
        "/v1/openapi.json": {"get": _self(shapes)},
    }
    secured = auth_strategy in _SECURITY
    for route in routes:
        if route.since <= version <= route.until:
            operation = _operation(route, by_operation, version, shapes, secured=secured)
            paths.setdefault(f"/v1/{route.path}", {})[route.method.lower()] = operation
    error, unknown = shapes.schema(errors.Errors), shapes.schema(errors.Unidentified)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Zun",
            "version": str(version),
            "description": f"{versions.DESCRIPTION} This document is of microversion {version}; ?version=X.Y gives "
            "that of another one.",
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": shapes.components,
            "parameters": {"Microversion": _version_header(version), "IfNoneMatch": _IF_NONE_MATCH},
            "responses": {
                f"Error{status}": _response(http.HTTPStatus(status).phrase, unknown if status == 401 else error)
                for status in sorted(_ERRORS)
            },
            **({"securitySchemes": {auth_strategy: dict(_SECURITY[auth_strategy])}} if secured else {}),
        },
        **({"security": [{auth_strategy: []}]} if secured else {}),
    }


_IF_NONE_MATCH: JsonSchema = {
    "name": "If-None-Match",
    "in": "header",
    "description": "The ETag of an answer that the client has: 304 if the answer would be the same.",
    "required": False,
    "schema": {"type": "string"},
}
_ALWAYS = frozenset({400, 403, 404, 406, 503})
_WITH_BODY = frozenset({409, 413, 415})
_ERRORS = _ALWAYS | _WITH_BODY | {401, 429}


def _by_operation(rules: Iterable[oslo_policy.RuleDefault]) -> dict[tuple[str, str], list[oslo_policy.RuleDefault]]:
    found: dict[tuple[str, str], list[oslo_policy.RuleDefault]] = {}
    for rule in rules:
        for operation in getattr(rule, "operations", ()):
            found.setdefault((operation["method"], operation["path"]), []).append(rule)
    return found


def _public(ident: str, summary: str, shape: Any, shapes: Shapes) -> JsonSchema:
    return {
        "operationId": ident,
        "tags": ["versions"],
        "summary": summary,
        "security": [],
        "responses": {"200": _response("OK", shapes.schema(shape))},
    }


def _self(shapes: Shapes) -> JsonSchema:
    shown = _public("openapi", "Show this document.", dict[str, Any], shapes)
    shown["parameters"] = [{"name": "version", "in": "query", "schema": {"type": "string"}}]
    shown["responses"] |= {str(status): {"$ref": f"#/components/responses/Error{status}"} for status in (400, 406)}
    return shown


def _operation(
    route: Route,
    rules: Mapping[tuple[str, str], Sequence[oslo_policy.RuleDefault]],
    version: Version,
    shapes: Shapes,
    *,
    secured: bool,
) -> JsonSchema:
    asked = rules.get((route.method, f"/v1/{route.path}"), ())
    takes_body = route.method in ("POST", "PUT", "PATCH")
    parameters: list[JsonSchema] = [{"$ref": "#/components/parameters/Microversion"}]
    parameters += [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in route.names
    ]
    if route.tagged:
        parameters.append({"$ref": "#/components/parameters/IfNoneMatch"})
    in_query = [route.query, *([] if takes_body else [route.arguments])]
    parameters += [one for schema in in_query if schema is not None for one in _parameters(schema, version)]
    shown: JsonSchema = {
        "operationId": _ident(route),
        "tags": [route.path.partition("/")[0]],
        "summary": asked[0].description if asked else "",
        "parameters": parameters,
        "responses": _responses(route, shapes, secured=secured, takes_body=takes_body),
        "x-openstack": _window(route),
        "x-openstack-policies": [rule.name for rule in asked],
    }
    body = _body(route, version)
    if takes_body and body is not None:
        shown["requestBody"] = {
            "content": {request.JSON: {"schema": body}},
            "required": bool(body["required"]),
        }
        if route.arguments is not None and body["properties"]:
            shown["requestBody"]["description"] = "A member may stand in the query of the URL instead."
    return shown


def _ident(route: Route) -> str:
    parts = [part.strip("{}") for part in route.path.split("/")]
    return "_".join([route.method.lower(), *parts])


def _window(route: Route) -> JsonSchema:
    until = {} if route.until == microversion.MAX else {"max-ver": str(route.until)}
    return {"min-ver": str(route.since), **until}


def _body(route: Route, version: Version) -> JsonSchema | None:
    chosen = route.body if route.body is not None else route.arguments
    if isinstance(chosen, Mapping):
        chosen = chosen[version]
    return None if chosen is None else chosen.described(version)


def _parameters(schema: Schema, version: Version) -> list[JsonSchema]:
    described = schema.described(version)
    return [
        {"name": name, "in": "query", "required": name in described["required"], "schema": _without_null(each)}
        for name, each in described["properties"].items()
    ]


def _without_null(schema: JsonSchema) -> JsonSchema:
    """Return the schema without null: a query has texts only."""
    found = dict(schema)
    if isinstance(found.get("type"), list):
        found["type"] = [kind for kind in found["type"] if kind != "null"]
    if "enum" in found:
        found["enum"] = [value for value in found["enum"] if value is not None]
    return found


def _responses(route: Route, shapes: Shapes, *, secured: bool, takes_body: bool) -> JsonSchema:
    phrase = http.HTTPStatus(route.status).phrase
    empty = route.returns is NOTHING
    success: JsonSchema = {"description": phrase} if empty else _response(phrase, shapes.schema(route.returns))
    unchanged: JsonSchema = {}
    if route.tagged:
        tag = {"ETag": {"required": True, "schema": {"type": "string"}}}
        success["headers"] = tag
        unchanged = {"304": {"description": http.HTTPStatus.NOT_MODIFIED.phrase, "headers": tag}}
    if route.status in (201, 202) and takes_body and len(route.names) == 0:
        success["headers"] = {"Location": {"required": True, "schema": {"type": "string", "format": "uri"}}}
    statuses = {*_ALWAYS, *([401] if secured else [])}
    if route.names or route.method == "DELETE":
        statuses.add(409)
    if takes_body:
        statuses |= _WITH_BODY
    if route.waits:
        statuses.add(429)
    failures = {str(status): {"$ref": f"#/components/responses/Error{status}"} for status in sorted(statuses)}
    return {str(route.status): success, **unchanged, **failures}


def _response(description: str, schema: JsonSchema) -> JsonSchema:
    return {"description": description, "content": {request.JSON: {"schema": schema}}}


def _version_header(version: Version) -> JsonSchema:
    return {
        "name": microversion.HEADER,
        "in": "header",
        "description": f"Without it the request speaks {microversion.MIN}.",
        "required": version != microversion.MIN,
        "schema": {"type": "string", "enum": [f"{name} {version}" for name in microversion.SERVICES]},
    }
