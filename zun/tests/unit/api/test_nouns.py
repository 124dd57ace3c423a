# SPDX-License-Identifier: Apache-2.0
"""A noun is found under its own name in every folder."""

import importlib.util
import pathlib

import pytest

import zun
import zun.tests.functional.api
from zun import policies
from zun.api.controllers.v1 import NOUNS
from zun.tests.unit.api.table import DEPENDENCIES, ROUTES

REFERENCE = pathlib.Path(zun.__file__).parents[1] / "doc/source/reference/api.rst"
MODULES = [noun.__module__.rpartition(".")[2] for noun in NOUNS]


@pytest.mark.parametrize("noun", MODULES)
@pytest.mark.parametrize("folder", ["zun.api.controllers.v1", "zun.api.views", "zun.policies"])
def test_files_of_a_noun(folder, noun):
    assert importlib.util.find_spec(f"{folder}.{noun}") is not None


@pytest.mark.parametrize("noun", MODULES)
def test_tests_of_a_noun(noun):
    (folder,) = zun.tests.functional.api.__path__
    assert pathlib.Path(folder, f"test_{noun}.py").exists()


@pytest.mark.parametrize("noun", NOUNS)
def test_routes_begin_with_the_noun(noun):
    name = noun.__module__.rpartition(".")[2]
    prefix = BELOW.get(name, name)
    for route in noun(DEPENDENCIES).routes():
        assert f"{route.path}/".startswith(f"{prefix}/")


# Nouns that are parts of another one, and where.
BELOW = {"container_actions": "containers/{ident}/container_actions"}


def test_every_documented_operation_is_a_route():
    routes = {f"{route.method} /v1/{route.path}" for route in ROUTES}
    documented = {
        f"{operation['method']} {operation['path']}"
        for rule in policies.list_rules()
        for operation in getattr(rule, "operations", ())
    }
    assert documented == routes


@pytest.mark.skipif(not REFERENCE.exists(), reason="the documentation is not installed")
def test_the_reference_lists_every_route():
    listed = {
        tuple(line.split()[:2]): line.split()[2]
        for line in REFERENCE.read_text().splitlines()
        if line.startswith(("GET ", "POST ", "PUT ", "PATCH ", "DELETE ")) and "/v1/" in line
    }
    routes = {(route.method, f"/v1/{route.path}"): str(route.since) for route in ROUTES}
    documents = {("GET", "/v1/openapi.json"): "all"}
    assert listed == routes | documents


def test_rules_are_for_project_tokens():
    assert {tuple(rule.scope_types or ()) for rule in policies.list_rules() if ":" in rule.name} == {("project",)}
