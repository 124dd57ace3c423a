# SPDX-License-Identifier: Apache-2.0
"""The Sphinx directive ``api-operations``: every operation of the API's OpenAPI document, with parameters and answers.

The document is made from the code at build time, so that the page cannot say anything else than the API does.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from docutils import nodes, statemachine
from oslo_config import cfg
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import nested_parse_with_titles

import zun.common  # noqa: F401  selects the threading backend before oslo.messaging is imported
from zun import conf as zun_conf
from zun import nouns, policies
from zun.api import microversion, openapi
from zun.api.controllers.v1 import NOUNS, Dependencies
from zun.api.settings import Settings
from zun.nouns import cloud, container, owned

Json = Mapping[str, Any]
_FILES = (cloud, container, owned)
NOUN_CLASSES = [each for each in nouns.Noun.__subclasses__() if each.__module__ in {file.__name__ for file in _FILES}]
NO_MEANINGS: Mapping[str, str] = {}
MOST_VALUES = 8  # of an enumeration that are shown


def documents() -> list[Json]:
    """Return the document of the newest version, and of the last version of each operation that ended before."""
    conf = zun_conf.register_opts(cfg.ConfigOpts())
    conf([], default_config_files=[], default_config_dirs=[])
    parts = Dependencies(scheduler_api=None, compute_api=None, settings=Settings.from_conf(conf))  # type: ignore[arg-type]
    routes = [route for noun in NOUNS for route in noun(parts).routes()]
    versions = sorted({microversion.MAX, *(route.until for route in routes)}, reverse=True)
    return [openapi.document(routes, policies.list_rules(), version, "keystone") for version in versions]


def lines(found: list[Json]) -> Iterator[str]:
    """Yield the page: a section for each collection, and one with what the answers contain."""
    groups: dict[str, dict[str, Json]] = {}
    for document in found:
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                groups.setdefault(operation["tags"][0], {}).setdefault(f"{method.upper()} {path}", operation)
    for tag, operations in groups.items():
        yield from titled(tag.replace("_", " ").capitalize(), "=")
        for name, operation in operations.items():
            yield from _operation(name, operation)
    yield from titled("Answers", "=")
    schemas = {name: schema for each in reversed(found) for name, schema in each["components"]["schemas"].items()}
    for name, schema in sorted(schemas.items()):
        yield from ["", f".. _{label(name)}:", ""]
        yield from titled(name, "-")
        members = [(each, "", value) for each, value in schema.get("properties", {}).items()]
        yield from _table("Member", members, schema, meanings(name))


def meanings(schema: str) -> Mapping[str, str]:
    """Return what the members of a noun mean, and nothing for another schema."""
    found = (each for each in NOUN_CLASSES if each.__name__ == schema)
    return {each.name: each.meaning for noun in found for each in nouns.members(noun)}


def titled(title: str, line: str) -> Iterator[str]:
    yield from ["", title, line * len(title), ""]


def label(schema: str) -> str:
    return f"api-schema-{schema.lower()}"


def _operation(name: str, operation: Json) -> Iterator[str]:
    yield from titled(name, "-")
    yield from [operation["summary"], "", f":Versions: {window(operation)}"]
    if operation.get("x-openstack-policies"):
        yield f":Policies: {', '.join(literal(each) for each in operation['x-openstack-policies'])}"
    errors = [status for status in operation["responses"] if int(status) >= 400]
    for status, answer in operation["responses"].items():
        if status not in errors:
            yield f":Answer: {status} {answered(answer)}"
    if errors:
        yield f":Errors: {' '.join(errors)}"
    yield ""
    body = operation.get("requestBody", {"content": {"application/json": {"schema": {}}}})
    schema = body["content"]["application/json"]["schema"]
    rows = [(each["name"], each["in"], each) for each in operation.get("parameters", ()) if "name" in each]
    rows += [(each, "body", value) for each, value in schema.get("properties", {}).items()]
    required = {each["name"] for each in operation.get("parameters", ()) if each.get("required")}
    yield from _table("Parameter", rows, {"required": [*schema.get("required", ()), *required]})


def _table(
    head: str, rows: Iterable[tuple[str, str, Json]], schema: Json, meaning: Mapping[str, str] = NO_MEANINGS
) -> Iterator[str]:
    rows = list(rows)
    if not rows:
        return
    places = any(place for _, place, _ in rows)
    columns = [head, *(["In"] if places else []), "Versions", "Value", *(["Meaning"] if meaning else [])]
    yield from [".. list-table::", "   :header-rows: 1", "   :widths: auto", ""]
    yield from _row(columns)
    for name, place, value in rows:
        told = value.get("schema", value)
        needed = " (required)" if places and name in schema.get("required", ()) else ""
        cells = [literal(name) + needed, *([place] if places else []), window(told), described(told)]
        yield from _row([*cells, *([escaped(meaning.get(name, ""))] if meaning else [])])
    yield ""


def _row(cells: Iterable[str]) -> Iterator[str]:
    for index, cell in enumerate(cells):
        yield f"   {'*' if index == 0 else ' '} - {cell}"


def window(value: Json) -> str:
    """Return the versions of an operation or a member, for example ``1.41 -``; those of the API are left out."""
    told = value.get("x-openstack", {})
    return f"{told['min-ver']} - {told.get('max-ver', '')}".rstrip() if told else ""


def answered(response: Json) -> str:
    schema = response.get("content", {}).get("application/json", {}).get("schema")
    return response["description"] if schema is None else f"{response['description']}: {described(schema)}"


def described(schema: Json) -> str:
    """Return what a value may be, in one line of reStructuredText."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f":ref:`{name} <{label(name)}>`"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(described(each) for each in schema["anyOf"]))
    if "enum" in schema:
        shown = [literal(_text(each)) for each in schema["enum"]]
        return ", ".join(shown[:MOST_VALUES]) + (f" and {len(shown) - MOST_VALUES} more" if shown[MOST_VALUES:] else "")
    kinds = schema.get("type", "any value")
    kinds = [kinds] if isinstance(kinds, str) else list(kinds)
    text = " or ".join(kind for kind in kinds if kind != "null")
    if schema.get("properties"):
        text += " with " + ", ".join(map(literal, schema["properties"]))
    elif "items" in schema:
        text += f" of {described(schema['items'])}"
    if "null" in kinds:
        text = f"{text} or null" if text else "null"
    limits = (("minimum", "at least"), ("maximum", "at most"))
    bounds = [f"{word} {schema[key]}" for key, word in limits if key in schema]
    about = [*bounds, *([schema["description"]] if "description" in schema else [])]
    return ": ".join([text, *([escaped(", ".join(about))] if about else [])])


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def literal(text: str) -> str:
    return f"``{text}``"


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("*", "\\*").replace("`", "\\`").replace("_", "\\_").replace("|", "\\|")


class ApiOperations(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # the code may have changed
        text = statemachine.StringList(list(lines(documents())), source="api_operations")
        found = nodes.section()
        found.document = self.state.document
        nested_parse_with_titles(self.state, text, found)
        return found.children


def setup(app: Any) -> dict[str, Any]:
    app.add_directive("api-operations", ApiOperations)
    return {"version": "1", "parallel_read_safe": True}
