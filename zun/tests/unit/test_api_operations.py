# SPDX-License-Identifier: Apache-2.0
"""The page of operations has every route, with its versions, parameters and answers."""

import importlib.util
import pathlib

import pytest

import zun
from zun.tests.unit.api.table import ROUTES

FILE = pathlib.Path(zun.__file__).parents[1] / "doc/ext/api_operations.py"


@pytest.fixture(scope="module")
def extension():
    spec = importlib.util.spec_from_file_location("api_operations", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def page(extension):
    return list(extension.lines(extension.documents()))


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_each_route_is_on_the_page(page, route):
    title = f"{route.method} /v1/{route.path}"
    at = page.index(title)
    assert page[at + 1] == "-" * len(title)
    (versions,) = [line for line in page[at : at + 8] if line.startswith(":Versions:")]
    assert versions.split()[1] == str(route.since)


def test_parameters_and_answers_are_told(page):
    text = "\n".join(page)
    assert ":Answer: 202 Accepted: :ref:`Container <api-schema-container>`" in text
    assert "   * - ``image`` (required)\n     - body\n     - 1.1 -\n     - string: the name of an image" in text
    assert "   * - ``numa_nodes``\n     - body\n     - 1.41 -\n     - integer or null: at least 1, at most 1024" in text
    assert ":Versions: 1.1 - 1.13" in text
    assert ".. _api-schema-container:" in text


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({}, "any value"),
        ({"enum": ["a", None, True]}, "``a``, ``null``, ``true``"),
        ({"enum": list("abcdefghij")}, "``a``, ``b``, ``c``, ``d``, ``e``, ``f``, ``g``, ``h`` and 2 more"),
        ({"type": ["array", "null"], "items": {"type": "string"}}, "array of string or null"),
        ({"type": "object", "properties": {"a": {}}}, "object with ``a``"),
        ({"anyOf": [{"type": "integer"}, {"$ref": "#/x/Host"}]}, "integer or :ref:`Host <api-schema-host>`"),
        ({"type": "string", "description": "a_name*"}, r"string: a\_name\*"),
    ],
)
def test_values_in_one_line(extension, schema, text):
    assert extension.described(schema) == text
