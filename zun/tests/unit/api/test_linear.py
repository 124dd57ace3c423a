# SPDX-License-Identifier: Apache-2.0
"""No regular expression that sees the text of a client takes more than linear time."""

import ast
import importlib
import pathlib
import re

import pytest

import zun
from zun.tests import linear
from zun.tests.unit.api.table import schemas

ROOT = pathlib.Path(zun.__file__).parent
#: What a request passes, besides the schemas.
_SERVER = [ROOT / "cmd" / name for name in ("api.py", "framing.py", "wire.py")]
FILES = sorted([*ROOT.glob("api/**/*.py"), *ROOT.glob("common/*.py"), *_SERVER])
SEARCHES = {"search", "finditer", "findall", "split", "sub", "subn"}


def patterns(schema):
    """The regular expressions of a schema, at any depth."""
    if isinstance(schema, list):
        return set().union(*map(patterns, schema))
    if not isinstance(schema, dict):
        return set()
    own = {schema["pattern"]} if isinstance(schema.get("pattern"), str) else set()
    return own.union(schema.get("patternProperties", ()), *map(patterns, schema.values()))


PATTERNS = sorted(set().union(*map(patterns, schemas())))


def test_the_patterns_of_the_schemas_are_found():
    assert len(PATTERNS) > 15
    assert "[a-zA-Z0-9][a-zA-Z0-9_.-]" in PATTERNS


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_of_schemas_are_linear(pattern):
    linear.check(pattern, searched=True)


def compiled():
    for path in FILES:
        text = path.read_text()
        searched = set(re.findall(rf"\b(\w+)\.(?:{'|'.join(SEARCHES)})\(", text))
        module = importlib.import_module("zun." + ".".join(path.relative_to(ROOT).with_suffix("").parts))
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern):
                yield pytest.param(value, name in searched, id=f"{path.stem}.{name}")


@pytest.mark.parametrize(("pattern", "searched"), list(compiled()))
def test_compiled_patterns_are_linear(pattern, searched):
    linear.check(pattern, searched=searched)


@pytest.mark.parametrize("path", [path for path in FILES if "api" in path.parts or path.parent.name == "cmd"], ids=str)
def test_no_pattern_hides_in_a_function(path):
    """So that the tests above see each one: they are compiled where the module is read."""
    calls = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if isinstance(node.func.value, ast.Name) and node.func.value.id == "re"
    ]
    assert {node.func.attr for node in calls} <= {"compile", "escape"}


@pytest.mark.parametrize(
    ("pattern", "searched"),
    [
        pytest.param(r"^[^\n]*[a-z][a-z.][^\n]*\Z", True, id="the-old-name-of-an-image"),
        pytest.param(r"(a+)+b", False, id="loop-in-a-loop"),
        pytest.param(r"(ab|[a-c]d)*e", False, id="alternatives-that-begin-alike"),
        pytest.param(r"\s*,?\s*x", False, id="neighbours-that-overlap"),
        pytest.param(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?", False, id="loop-before-its-own-end"),
        pytest.param(r"(a?)*b", False, id="loop-of-nothing"),
        pytest.param(r" +x", True, id="searched-from-every-blank"),
        pytest.param(r"(?i)(A+a)*", False, id="alike-without-case"),
    ],
)
def test_a_slow_pattern_is_told(pattern, searched):
    with pytest.raises(linear.Doubtful):
        linear.check(pattern, searched=searched)


@pytest.mark.parametrize(
    ("pattern", "searched"),
    [
        (r"^[0-9]*(\.([0-9]+))?\Z", True),
        (r"[a-z]+(?:-+[a-z]+)*", False),
        (r"\n[^\nx]*x", True),
        (r"(?:(?P<domain>[a-z]+)/)?(?P<path>[a-z]+)", False),
    ],
)
def test_a_linear_pattern_passes(pattern, searched):
    linear.check(pattern, searched=searched)
