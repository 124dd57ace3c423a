# SPDX-License-Identifier: Apache-2.0
"""Requests at each limit of the OpenAPI document, and beyond it.

A schema's node gives values: the largest that fits, the first that does not, and one that fills a body. Each stands
alone in an otherwise smallest request, so that it is the one that costs. The order and the values are always the same.
"""

import functools
import json
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from zun.api import limits

FILLS = limits.BODY_BYTES - 2000  # characters that still fit into a body
QUERY = 100_000  # characters of a value in a query
MANY = 250_000  # items of a list that fill a body
Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """``told`` says which member has which size. ``refused``: no answer but 4xx is right."""

    method: str
    path: str
    told: str
    refused: bool
    raw: Callable[[], bytes] = bytes
    query: str = ""


Value = tuple[str, bool, Callable[[], Any]]  # as told, whether it must be refused, and what makes it


def kinds(schema: Schema) -> list[str]:
    found = schema.get("type", [])
    return [found] if isinstance(found, str) else list(found)


def least(schema: Schema) -> Any:
    """The smallest value of a schema, as far as the words that this project's schemas have say so."""
    if "enum" in schema:
        return schema["enum"][0]
    for name in ("anyOf", "oneOf"):
        if name in schema and "type" not in schema:
            return least(schema[name][0])
    kind = next((each for each in kinds(schema) if each != "null"), "null")
    match kind:
        case "object":
            wanted = [*schema.get("required", ()), *schema.get("oneOf", [{}])[0].get("required", ())]
            wanted += schema.get("anyOf", [{}])[0].get("required", ())
            return {name: least(schema["properties"][name]) for name in wanted}
        case "array":
            return [least(schema["items"])] * schema.get("minItems", 0)
        case "string":
            return _text(schema, max(schema.get("minLength", 0), 2))
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
    return None


def _text(schema: Schema, size: int) -> str:
    """A text of ``size`` characters that most patterns take."""
    pattern = schema.get("pattern", "")
    return ("A" if "A-Z0-9_" in pattern and "a-z" not in pattern else "1" if "[0-9" in pattern else "a") * size


def values(schema: Schema) -> Iterator[Value]:
    """The sizes of one node itself."""
    for kind in kinds(schema):
        yield from _BY_KIND.get(kind, _nothing)(schema)


def _nothing(schema: Schema) -> Iterator[Value]:
    yield from ()


def _texts(schema: Schema) -> Iterator[Value]:
    if "enum" in schema:
        yield "a large text for a word", True, lambda: "x" * FILLS
        return
    most = schema.get("maxLength")
    if most is not None and most < FILLS:
        yield f"{most} characters", False, lambda: _text(schema, most)
        yield f"{most + 1} characters", True, lambda: _text(schema, most + 1)
    yield "a text as large as a body", most is not None and most < FILLS, lambda: _text(schema, FILLS)
    yield "a large text with a line break", False, lambda: _text(schema, 200_000) + "\n" + _text(schema, 100_000)
    yield "a large text of other letters", False, lambda: "\u00e4" * 200_000
    yield "a large text of escapes", False, lambda: '"\\' * 100_000


def _lists(schema: Schema) -> Iterator[Value]:
    item, most = least(schema["items"]), schema["maxItems"]
    if most * len(json.dumps(item)) < FILLS:
        yield f"{most} items", False, lambda: [item] * most
        yield f"{most + 1} items", True, lambda: [item] * (most + 1)
    yield "as many items as fit", True, lambda: [item] * (FILLS // (len(json.dumps(item)) + 2))
    yield "items of another kind", True, lambda: [[]] * MANY
    yield "items that are nothing", True, lambda: [None] * (FILLS // 6)


def _objects(schema: Schema) -> Iterator[Value]:
    if "maxProperties" in schema:
        inner, most = schema.get("additionalProperties", {}), schema["maxProperties"]
        value = least(inner) if isinstance(inner, Mapping) else "x"
        yield f"{most} members", False, lambda: _members(most, value)
        yield f"{most + 1} members", True, lambda: _members(most + 1, value)
    yield "as many members as fit", True, lambda: _members(60_000, "")
    yield "a member with a long name", False, lambda: {"a" * FILLS: 1}


def _numbers(schema: Schema) -> Iterator[Value]:
    most = schema.get("maximum")
    if most is not None:
        yield "the largest number", False, lambda: most
        yield "one more than the largest number", True, lambda: most + 1
    for number in (-1, 0, 2**31, 2**63, 10**15, 10**299, 1e308, 0.1):
        yield f"the number {number:.3g}", False, functools.partial(type(number), number)


_BY_KIND: Mapping[str, Callable[[Schema], Iterator[Value]]] = {
    "string": _texts,
    "array": _lists,
    "object": _objects,
    "integer": _numbers,
    "number": _numbers,
}


def _members(count: int, value: Any) -> dict[str, Any]:
    return {f"k{number:x}": value for number in range(count)}


def within(schema: Schema) -> Iterator[Value]:
    """The values of a node, and those of each node in it inside of an otherwise smallest value."""
    if "anyOf" in schema and "type" not in schema:
        for each in schema["anyOf"]:
            yield from within(each)
        return
    yield from values(schema)
    for name, inner in schema.get("properties", {}).items():
        around = least(schema) if "object" in kinds(schema) else {}
        for alternative in schema.get("oneOf", ()):  # one of two members: this one, not the other
            if name in alternative.get("required", ()):
                around = {key: value for key, value in around.items() if key in schema.get("required", ())}
        for told, refused, value in within(inner):
            yield f"{name}: {told}", refused, functools.partial(_around, around, name, value)
    if "array" in kinds(schema):
        for told, refused, value in within(schema["items"]):
            yield f"an item: {told}", refused, functools.partial(_listed, value)
    if isinstance(schema.get("additionalProperties"), Mapping):
        for told, refused, value in within(schema["additionalProperties"]):
            yield f"a member: {told}", refused, functools.partial(_around, {}, "key", value)


def _around(around: Schema, name: str, value: Callable[[], Any]) -> Any:
    return {**around, name: value()}


def _listed(value: Callable[[], Any]) -> Any:
    return [value()]


#: Bodies that no schema has. Of each the first must be refused.
WHOLE: Mapping[str, Callable[[], bytes]] = {
    "a body too large": lambda: b" " * limits.BODY_BYTES + b"{}",
    "a body of blanks": lambda: b" " * (limits.BODY_BYTES - 2) + b"{}",
    "deep lists": lambda: b"[" * 500_000,
    "deep objects": lambda: b'{"a":' * 200_000,
    "numbers": lambda: b'{"a": [' + b"1," * 500_000 + b"1]}",
    "fractions": lambda: b'{"a": [' + b"1.5," * 250_000 + b"1]}",
    "objects": lambda: b'{"a": [' + b"{}," * 340_000 + b"1]}",
    "long numbers": lambda: b'{"a": [' + (b"9" * 299 + b",") * 3400 + b"1]}",
    "one number": lambda: b'{"a": ' + b"9" * FILLS + b"}",
    "one name many times": lambda: b"{" + b'"a":1,' * 170_000 + b'"a":1}',
    "as many values as may be": lambda: b'{"a": [' + b"1," * (limits.BODY_VALUES - 3) + b"1]}",
    "escapes": lambda: b'{"a": "' + b"\\u00e4" * 170_000 + b'"}',
    "no text": lambda: b"\xff" * FILLS,
}


def requests(document: Mapping[str, Any], filled: Callable[[str], str]) -> Iterator[Request]:
    """Every request of a document. ``filled`` gives a path with something for its names."""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield from _of_operation(method.upper(), filled(path), operation)


def _of_operation(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[Request]:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    for parameter in operation.get("parameters", ()):
        if parameter.get("in") == "query":
            yield from _queries(method, path, parameter)
    long = urllib.parse.quote("/" * 3) + "a" * QUERY
    yield Request(method, path, "an unknown parameter", False, query=f"{'b' * QUERY}=1")
    yield Request(method, path, "many parameters", False, query="&".join(f"a{each}=1" for each in range(50_000)))
    yield Request(method, path, "escapes in the query", False, query=f"a={'%41' * QUERY}")
    if "{" in path or path.count("/") > 2:
        stem, _, last = path.rpartition("/")
        yield Request(method, f"{stem}/{last}{long}", "a long path", True)
        yield Request(method, f"{stem}{'/a' * QUERY}", "many segments", True)
    if method in ("POST", "PUT", "PATCH"):
        for told, made in WHOLE.items():
            yield Request(method, path, told, told == "a body too large", raw=made)
    if body is not None:
        around = least(body)
        for told, refused, value in within(body):
            yield Request(method, path, told, refused, raw=functools.partial(_body, around, value))


def _body(around: Any, value: Callable[[], Any]) -> bytes:
    made = value()
    return json.dumps({**around, **made} if isinstance(made, dict) else made).encode()


def _queries(method: str, path: str, parameter: Mapping[str, Any]) -> Iterator[Request]:
    for told, refused, value in values(parameter["schema"]):
        made = value()
        if not isinstance(made, list | dict):
            text = str(made)[:QUERY]
            query = urllib.parse.urlencode({parameter["name"]: text})
            yield Request(method, path, f"{parameter['name']}: {told}", refused and len(text) < QUERY, query=query)
