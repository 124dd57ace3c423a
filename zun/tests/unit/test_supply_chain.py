# SPDX-License-Identifier: Apache-2.0
"""The files of tested versions and the lower bounds without known advisories agree with each other."""

import importlib.util
import pathlib
import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import zun

ROOT = pathlib.Path(zun.__file__).parents[1]
PRODUCT, TESTS = "requirements-hashed.txt", "test-requirements-hashed.txt"
NOT_LINUX = {"colorama", "pywin32", "win-inet-pton"}  # only installed elsewhere


def tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def requirements(file):
    lines = (ROOT / file).read_text().splitlines()
    return [Requirement(line.partition("#")[0]) for line in lines if line.partition("#")[0].strip()]


def hashed(file):
    """Return the version and the hashes of each package."""
    text = (ROOT / file).read_text()
    entry = r"^([^\s=]+)==([^\s;]+)[^\n]*\\\n((?: +--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)"
    found = re.findall(entry, text, re.MULTILINE)
    assert len(found) == len(re.findall(r"^[^#\s]", text, re.MULTILINE)), "a line has no hash"
    return {canonicalize_name(name): (version, hashes.split()) for name, version, hashes in found}


def constraints():
    lines = (ROOT / "upper-constraints.txt").read_text().splitlines()
    pairs = (line.split("===") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pairs}


@pytest.mark.parametrize("file", [PRODUCT, TESTS])
def test_hashed_versions_are_the_tested_ones(file):
    tested = constraints()
    found = {name: version for name, (version, _) in hashed(file).items() if name not in NOT_LINUX}
    assert found == {name: tested.get(name) for name in found}, "run tools/hashes.py"


@pytest.mark.parametrize(
    ("file", "sources"),
    [
        (PRODUCT, ["requirements.txt"]),
        (TESTS, ["requirements.txt", "test-requirements.txt", "doc/requirements.txt"]),
    ],
)
def test_each_requirement_has_hashes(file, sources):
    found, hashes = hashed(file), tool("hashes")
    wanted = [each for source in sources for each in requirements(source)]
    wanted += map(Requirement, [*hashes.client(), *hashes.BUILD])
    missing = [
        str(each)
        for each in wanted
        if not each.specifier.contains(found.get(canonicalize_name(each.name), ("0", ()))[0], prereleases=True)
    ]
    assert missing == [], "run tools/hashes.py"


def test_lower_bounds_exclude_known_advisories():
    """The table of the page is what requirements.txt and pyproject.toml have."""
    page = (ROOT / "doc/source/contributor/supply-chain.rst").read_text().partition("Lower bounds\n====")[2]
    told = dict(re.findall(r"^``(\S+)``\s+(\d\S*)\s+CVE-", page, re.MULTILINE))
    wanted = [*requirements("requirements.txt"), *map(Requirement, tool("hashes").BUILD)]
    bounds = {each.name: str(each.specifier).removeprefix(">=") for each in wanted}
    assert len(told) == 8
    assert told == {name: bounds[name] for name in told}


@pytest.mark.parametrize("file", ["pyproject.toml", "client/pyproject.toml"])
def test_a_build_needs_what_has_hashes(file):
    assert tomllib.loads((ROOT / file).read_text())["build-system"]["requires"] == list(tool("hashes").BUILD)
