# SPDX-License-Identifier: Apache-2.0
"""Imports point one way. The table is the rule; doc/source/contributor/architecture.rst explains it."""

import ast
import graphlib
import importlib.metadata
import pathlib
import re
import sys

import pytest

import zun

ROOT = pathlib.Path(zun.__file__).parent
REQUIREMENTS = ROOT.parent / "requirements.txt"

# Package -> what of the project it may import, a package or one module of it.
MAY_IMPORT = {
    "topology": set(),
    "conf": set(),
    "policies": set(),
    "common": set(),
    "nouns": {"topology"},
    "db": {"common", "nouns", "topology"},
    "objects": {"common", "db", "nouns", "topology"},
    "container": {"common", "topology"},
    "neutron": {"common"},
    "cinder": {"common"},
    "network": {"common", "container", "neutron", "topology.files", "topology.pci_files"},
    "messaging": {"common", "objects"},
    "scheduler": {"common", "messaging", "objects", "db", "topology"},
    "volume": {"cinder", "common", "objects", "container", "topology.mounts"},
    "placement": {"common", "objects", "topology"},
    "image": {"common"},
    "conductor": {"common", "db", "messaging", "nouns", "objects"},
    "compute": {"common", "messaging", "objects", "container", "image", "network", "placement", "volume", "topology"},
    "api": {
        "cinder", "common", "db", "image", "messaging", "neutron", "nouns", "objects", "policies", "topology", "ui",
        "version",
    },
    "console": {"common", "objects", "container"},
    "wsgi": {"cmd", "common", "messaging"},
    "osc": {"nouns", "topology"},
    "ui": set(),
}


def imported(path):
    """Names of the project's modules that a file imports, without the leading ``zun.``."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name.removeprefix("zun.") for name in names if name.startswith("zun."))


def roots_of(path):
    """The first part of the name of every module that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module).split(".")[0]


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_only_what_is_below_it(package):
    allowed = MAY_IMPORT[package] | {package}
    wrong = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / package).rglob("*.py")
        for name in imported(path)
        if not any(name == each or name.startswith(each + ".") for each in allowed)
    }
    assert wrong == set()


# What the search may import beside itself: values, and rules that need no search.
SEARCH_MAY_IMPORT = {
    "amounts", "cache_control", "cells", "cpuset", "device_request", "device_view", "devices", "host_topology",
    "isolation", "masks", "placement", "refusal", "request", "usage", "view",
}


def test_the_search_imports_values_only():
    names = {name for path in (ROOT / "topology" / "search").glob("*.py") for name in imported(path)}
    assert {name for name in names if name.split(".")[1] not in SEARCH_MAY_IMPORT | {"search"}} == set()


def test_only_plan_and_keep_import_the_search():
    users = {
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if path.relative_to(ROOT).parts[0] != "tests" and path.parent.name != "search"
        if any(name.startswith("topology.search.") for name in imported(path))
    }
    assert users == {"topology/allocator.py", "topology/keep.py"}


def test_the_allocator_needs_the_standard_library_only():
    roots = {root for path in (ROOT / "topology").rglob("*.py") for root in roots_of(path)}
    assert roots - sys.stdlib_module_names == {"zun"}


@pytest.mark.skipif(not REQUIREMENTS.exists(), reason="not in an installed package")
def test_the_requirements_are_what_is_imported():
    """The commands of the client come with an extra. SQLAlchemy imports PyMySQL by the name in a URL."""
    others = [path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[0] not in ("tests", "osc")]
    roots = {name for path in others for name in roots_of(path)} - sys.stdlib_module_names - {"zun"}
    distributions = importlib.metadata.packages_distributions()
    listed = re.findall(r"^([\w.-]+)", REQUIREMENTS.read_text(), re.MULTILINE)
    assert {distributions[root][0].lower() for root in roots} | {"pymysql"} == {name.lower() for name in listed}


def modules_of(folder):
    """The file of every module in ``folder`` outside of tests, by the module's name: ``zun.topology.cells``."""
    files = [path for path in folder.rglob("*.py") if "tests" not in path.relative_to(folder).parts]
    names = {path: path.relative_to(folder.parent).with_suffix("").parts for path in files}
    return {".".join(parts[:-1] if parts[-1] == "__init__" else parts): path for path, parts in names.items()}


def imports_of(files):
    """For every module those of ``files`` that it imports, also inside a function or for types only."""
    found = {}
    for module, path in files.items():
        found[module] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                continue
            known = (name if name in files else name.rpartition(".")[0] for name in names)
            found[module] |= {name for name in known if name in files} - {module}
    return found


def circle(graph):
    """Nodes of which each reaches all others, or nothing if ``graph`` (nodes by node) has no circle."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


@pytest.mark.parametrize(
    ("graph", "found"),
    [
        pytest.param({"a": {"b"}, "b": {"c"}, "c": set()}, set(), id="one-way"),
        pytest.param({"a": {"b"}, "b": {"c"}, "c": {"b"}}, {"b", "c"}, id="a-pair"),
        pytest.param({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}, {"a", "b", "c"}, id="three"),
    ],
)
def test_a_circle_is_found(graph, found):
    assert set(circle(graph)) == found


@pytest.mark.parametrize("folder", ["zun", "zun_dashboard", "benchmarks"])
def test_no_imports_go_in_a_circle(folder):
    """A module that imports what imports it cannot be read, tested or moved alone, wherever its import stands."""
    path = ROOT.parent / folder
    if not path.exists():
        pytest.skip("not in an installed package")
    assert circle(imports_of(modules_of(path))) == []


def test_no_test_imports_from_another_test():
    """Code that two tests need is in a module beside them that is no test."""
    tests = ROOT / "tests"
    wrong = {
        str(path.relative_to(tests))
        for path in tests.rglob("*.py")
        if any(part.startswith("test_") for name in imported(path) for part in name.split(".")[1:-1])
    }
    assert wrong == set()
