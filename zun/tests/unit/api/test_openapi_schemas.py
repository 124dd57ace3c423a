# SPDX-License-Identifier: Apache-2.0
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest

from zun.api.microversion import v1
from zun.api.openapi_schemas import Shapes

SINCE = v1(20)


class Part(TypedDict):
    size: float | None


class Thing(TypedDict):
    name: str
    parts: list[Part]
    hint: NotRequired[str]
    color: NotRequired[Annotated[str | None, SINCE]]
    owner: NotRequired[Annotated[Part, SINCE]]


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (str, {"type": "string"}),
        (bool, {"type": "boolean"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (None, {"type": "null"}),
        (Any, {}),
        (int | None, {"type": ["integer", "null"]}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (
            list[str] | None,
            {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
        ),
        (Literal["up", "down"], {"enum": ["up", "down"]}),
        (Part, {"$ref": "#/components/schemas/Part"}),
    ],
)
def test_types(kind, schema):
    assert Shapes(v1(1)).schema(kind) == schema


PART = {"type": "object", "properties": {"size": {"type": ["number", "null"]}}, "required": ["size"]}
REFERENCE = {"$ref": "#/components/schemas/Part"}
COMMON = {"name": {"type": "string"}, "parts": {"type": "array", "items": REFERENCE}, "hint": {"type": "string"}}
NEW = {"x-openstack": {"min-ver": "1.20"}}


@pytest.mark.parametrize(
    ("version", "properties", "required"),
    [
        (v1(19), COMMON, ["name", "parts"]),
        (
            SINCE,
            {**COMMON, "color": {"type": ["string", "null"], **NEW}, "owner": {**REFERENCE, **NEW}},
            ["name", "parts", "color", "owner"],
        ),
    ],
)
def test_members_that_arrive_with_a_version(version, properties, required):
    shapes = Shapes(version)
    shapes.schema(list[Thing])
    thing = {"type": "object", "properties": properties, "required": required}
    assert shapes.components == {"Thing": thing, "Part": PART}


def test_a_shape_that_holds_itself():
    shapes = Shapes(v1(1))
    shapes.schema(Tree)
    assert shapes.components["Tree"]["properties"] == {
        "below": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}}
    }


class Tree(TypedDict):
    below: "list[Tree]"


@pytest.mark.parametrize("kind", [object, set[str], dict[int, str], bytes])
def test_types_that_are_no_json(kind):
    with pytest.raises(TypeError, match="has no JSON schema"):
        Shapes(v1(1)).schema(kind)


def test_names_of_shapes_are_unique():
    shapes = Shapes(v1(1))
    shapes.schema(Part)
    with pytest.raises(TypeError, match="two shapes are called Part"):
        shapes.schema(TypedDict("Part", {"other": str}))
