# SPDX-License-Identifier: Apache-2.0
"""tools/sbom.py lists what is installed."""

import importlib.metadata
import json
import pathlib
import re
import subprocess
import sys

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from zun.tests.integration import foreign

pytestmark = [pytest.mark.slow, pytest.mark.foreign, pytest.mark.timeout(900)]
ROOT = pathlib.Path(__file__).parents[3]


def sbom(file, *words):
    """Write an SBOM with tools/sbom.py, and return it with its components by name."""
    python = foreign.installed("sbom") / "bin/python"
    subprocess.run([python, ROOT / "tools/sbom.py", *words, file], check=True, capture_output=True, timeout=800)
    made = json.loads(file.read_text())
    return made, {canonicalize_name(each["name"]): each for each in made["components"]}


def test_the_sbom_of_the_wheel_has_the_versions_with_hashes(tmp_path):
    """The tool builds the wheel and installs it and the archives of requirements-hashed.txt."""
    _, components = sbom(tmp_path / "sbom.json")
    lines = re.findall(r"^(\w.*) \\$", (ROOT / "requirements-hashed.txt").read_text(), re.MULTILINE)
    pins = [each for each in map(Requirement, lines) if each.marker is None or each.marker.evaluate()]
    pinned = {canonicalize_name(each.name): str(each.specifier).removeprefix("==") for each in pins}
    found = {name: each["version"] for name, each in components.items()}
    assert found.keys() - pinned.keys() <= {"zun", "pip"}  # pip is of every new environment
    assert {name: found.get(name) for name in pinned} == pinned
    assert "zun" in found


def test_the_sbom_has_the_product_and_what_it_needs(tmp_path):
    made, components = sbom(tmp_path / "sbom.json", "--python", sys.executable)
    assert made["bomFormat"] == "CycloneDX"
    needs = {each["ref"]: each.get("dependsOn", ()) for each in made["dependencies"]}
    ours = {ref.partition("==")[0] for ref in needs[components["zun"]["bom-ref"]]}
    required = [Requirement(each) for each in importlib.metadata.requires("zun") or ()]
    wanted = {canonicalize_name(each.name) for each in required if each.marker is None}
    assert "docker" in wanted
    assert wanted <= {canonicalize_name(name) for name in ours}
    assert components["docker"]["purl"].startswith("pkg:pypi/docker@")
    assert components["docker"]["licenses"]
