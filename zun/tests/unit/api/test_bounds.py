# SPDX-License-Identifier: Apache-2.0
"""Every text, list and object of a request has a maximum that its schema names."""

import json
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.api import limits, parsing
from zun.api.schemas import Schema, capsules, containers
from zun.common.exceptions import SchemaValidationError
from zun.tests.unit.api.table import ROUTES, schemas

DATA = "data"  # of put_archive: read as it comes, and never kept


def unbounded(schema, where=""):
    """The places in a schema whose size nothing limits but the body."""
    if not isinstance(schema, dict):
        return
    kinds = schema.get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if "enum" not in schema:
        if "string" in kinds and "maxLength" not in schema:
            yield where, "string"
        if "array" in kinds and "maxItems" not in schema:
            yield where, "array"
        if "object" in kinds and schema.get("additionalProperties") is not False and "maxProperties" not in schema:
            yield where, "object"
        if "pattern" in schema and "maxLength" not in schema and where.rpartition(".")[2] != "allOf":
            yield where, "pattern"
    for name, inner in schema.get("properties", {}).items():
        yield from unbounded(inner, f"{where}.{name}")
    for name in ("items", "additionalProperties", "propertyNames"):
        yield from unbounded(schema.get(name), f"{where}.{name}")
    for name in ("anyOf", "oneOf", "allOf"):
        for inner in schema.get(name, ()):
            yield from unbounded(inner, f"{where}.{name}")
    for inner in schema.get("patternProperties", {}).values():
        yield from unbounded(inner, f"{where}.*")


def test_everything_in_a_request_has_a_maximum():
    found = {place for schema in schemas() for place in unbounded(schema)}
    # These take whatever comes, and look at nothing of it.
    assert found - {("", "object")} == {(f".{DATA}", "string")}


def test_an_unbounded_list_is_found():
    schema = Schema({"names": containers._SECURITY_GROUPS}).described(max(ROUTES[0].until, ROUTES[0].since))
    assert list(unbounded(schema)) == []
    del schema["properties"]["names"]["maxItems"]
    assert list(unbounded(schema)) == [(".names", "array")]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("command", ["a"] * (limits.FIELD_BYTES["command"] // limits.ITEM_BYTES + 1)),
        ("environment", dict.fromkeys(map(str, range(limits.FIELD_BYTES["environment"] // 8 + 1)), "")),
        ("labels", dict.fromkeys(map(str, range(limits.FIELD_BYTES["labels"] // 8 + 1)), "")),
        ("hints", dict.fromkeys(map(str, range(limits.FIELD_BYTES["hints"] // 8 + 1)), "")),
        ("security_groups", ["default"] * (limits.PARTS + 1)),
        ("required_traits", ["CUSTOM_A"] * (limits.FIELD_BYTES["required_traits"] // limits.ITEM_BYTES + 1)),
        ("any_traits", [["CUSTOM_A"] * (limits.PARTS + 1)]),
    ],
)
def test_too_many_are_told_by_their_number(field, value):
    create = next(route for route in ROUTES if (route.method, route.path) == ("POST", "containers")).body
    with pytest.raises(SchemaValidationError, match=rf"^{field}.*it is too long: it has \d+ (items|members) and may"):
        create[max(create)]({"image": "demo", field: value})


@pytest.mark.parametrize("word", ["a" * 65_537, "a" * 400_000, "a b " * 100_000])
def test_a_long_command_is_not_taken_apart(word):
    with pytest.raises(SchemaValidationError, match=r"command: it is too long: .* characters and may have 65536"):
        containers.EXECUTE({"command": word})


def test_a_volume_of_a_capsule_has_a_largest_size():
    volume = {"name": "vv", "cinder": {"size": 1e308}}
    spec = {"containers": [{"image": "aa"}], "volumes": [volume]}
    with pytest.raises(SchemaValidationError, match="at most 1073741824"):
        capsules.CREATE({"template": {"kind": "capsule", "metadata": {}, "spec": spec}})


MOST = limits.BODY_VALUES


def counted(value):
    """How many texts, numbers, lists and objects a value is made of."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(counted, inner))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('a,[]{}"\\ \n'), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.sampled_from('b,"\\{'), max_size=3), inner, max_size=4)
    ),
    max_leaves=30,
)


@given(value=JSON, indent=st.sampled_from([None, 2]))
def test_values_are_counted_as_they_are(value, indent):
    text, number = json.dumps(value, indent=indent), counted(value)
    with mock.patch.object(limits, "BODY_VALUES", number):
        assert parsing.json_value(text) == value
    with (
        mock.patch.object(limits, "BODY_VALUES", number - 1),
        pytest.raises(ValueError, match="texts, numbers, lists and objects together are the most"),
    ):
        parsing.json_value(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" + "1," * (MOST - 2) + "1]",
        "[" + "{}," * (MOST - 2) + "[ ]]",
        '["' + "," * (2 * MOST) + '"]',
        '{"a": "' + "[{," * MOST + '"}',
    ],
    ids=["numbers", "objects", "commas-in-a-text", "brackets-in-a-text"],
)
def test_a_body_with_enough_values_is_read(text):
    assert parsing.json_value(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" + "1," * MOST + "1]",
        '{"a": [' + "{}," * MOST + "[]]}",
        "{" + ",".join(f'"{each}": ""' for each in range(MOST)) + "}",
        "[" + ",".join(['{"a": [1]}'] * (MOST // 3 + 1)) + "]",
    ],
    ids=["numbers", "objects", "members", "nested"],
)
def test_a_body_with_too_many_values_is_refused(text):
    """Even where the rest is no JSON: they are counted before anything is made of them."""
    for each in (text, text[:-1]):
        with pytest.raises(ValueError, match=f"too large: {MOST} texts, numbers, lists and objects"):
            parsing.json_value(each)
