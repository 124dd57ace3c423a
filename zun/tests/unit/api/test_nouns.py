# SPDX-License-Identifier: Apache-2.0
"""A noun is found under its own name in every folder."""

import importlib.util
import pathlib

import pytest

import zun.tests.functional.api
from zun import policies
from zun.api.controllers.v1 import NOUNS, Parts

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
    parts = Parts(scheduler_api=None, compute_api=None, settings=_settings())
    name = noun.__module__.rpartition(".")[2]
    assert {route.path.split("/")[0] for route in noun(parts).routes()} == {name}


def test_every_documented_operation_is_a_route():
    parts = Parts(scheduler_api=None, compute_api=None, settings=_settings())
    routes = {f"{route.method} /v1/{route.path}" for noun in NOUNS for route in noun(parts).routes()}
    documented = {
        f"{operation['method']} {operation['path']}"
        for rule in policies.list_rules()
        for operation in getattr(rule, "operations", ())
    }
    assert documented == routes


def test_rules_are_for_project_tokens():
    assert {tuple(rule.scope_types or ()) for rule in policies.list_rules() if ":" in rule.name} == {("project",)}


def _settings():
    from oslo_config import cfg

    from zun import conf as zun_conf
    from zun.api.settings import Settings

    conf = zun_conf.register_opts(cfg.ConfigOpts())
    conf([], project="zun-test", default_config_files=[], default_config_dirs=[])
    return Settings.from_conf(conf)
