# SPDX-License-Identifier: Apache-2.0
"""The files of the panels agree with each other. Horizon reads them in test_clients_panels.py of integration."""

import ast
import pathlib
import re

import pytest

import zun_dashboard
from zun_dashboard import elements

ROOT = pathlib.Path(zun_dashboard.__file__).parent
ENABLED = sorted((ROOT / "enabled").glob("_[0-9]*.py"))


def constants(path):
    """The constants of an enabled file."""
    assigned = (node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign))
    literal = (node for node in assigned if not isinstance(node.value, ast.Call))
    return {node.targets[0].id: ast.literal_eval(node.value) for node in literal}


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)


def test_the_panels_import_nothing_of_zun():
    """Horizon's environment may lack the libraries of the service."""
    wrong = {(path.name, name) for path in ROOT.rglob("*.py") for name in imported(path) if name.split(".")[0] == "zun"}
    assert wrong == set()


def test_every_panel_is_in_one_enabled_file():
    added = {told["ADD_PANEL"]: told["PANEL"] for told in map(constants, ENABLED) if "ADD_PANEL" in told}
    panels = {}
    for path in ROOT.glob("*/panel.py"):
        (kind,) = (node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef))
        (slug,) = re.findall(r'slug = "(\w+)"', path.read_text())
        panels[f"zun_dashboard.{path.parent.name}.panel.{kind.name}"] = slug
    assert added == panels


def test_one_enabled_file_adds_the_application():
    """With two, Django would not start: the label of the application would not be unique."""
    assert [path.name for path in ENABLED if "ADD_INSTALLED_APPS" in constants(path)] == [ENABLED[0].name]


@pytest.mark.parametrize("dashboard", ["project", "admin"])
def test_each_dashboard_has_the_group_before_the_panel(dashboard):
    told = [constants(path) for path in ENABLED]
    groups = [at for at, each in enumerate(told) if each.get("PANEL_GROUP_DASHBOARD") == dashboard]
    panels = [at for at, each in enumerate(told) if each.get("PANEL_DASHBOARD") == dashboard]
    assert len(groups) == len(panels) == 1 and groups < panels
    assert told[groups[0]]["PANEL_GROUP"] == told[panels[0]]["PANEL_GROUP"]


def test_modules_that_the_page_loads_are_there():
    """The page is in STATIC_URL/zun_dashboard, the elements in STATIC_URL/horizon/lib/NAME."""
    script = (ROOT / "static/zun_dashboard/panel.js").read_text()
    named = re.findall(r'(?:from "|import\(`)(.+)/', script)
    assert named == [f"../horizon/lib/{elements.NAME}"] * 2
    modules = ["api", *re.findall(r'show\("zun-(\w+)"', script)]
    assert [each for each in modules if not pathlib.Path(elements.BASE_DIR, f"{each}.js").is_file()] == []
    assert len(modules) == 5


def test_the_page_has_no_inline_script():
    """A Content-Security-Policy may forbid it."""
    page = (ROOT / "templates/zun_dashboard/page.html").read_text()
    assert re.findall(r"<script(?! type=.module. src=)|<style|\son\w+=|\sstyle=", page) == []


def test_the_panel_is_no_template_of_angularjs():
    page = (ROOT / "templates/zun_dashboard/page.html").read_text()
    assert '<div id="zun-panel" ng-non-bindable ' in page
