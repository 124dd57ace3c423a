# SPDX-License-Identifier: Apache-2.0
"""tools/sbom.py lists what is installed."""

import importlib.metadata
import json
import pathlib
import subprocess
import sys

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from zun.tests.integration import foreign

pytestmark = [pytest.mark.slow, pytest.mark.foreign, pytest.mark.timeout(900)]
ROOT = pathlib.Path(__file__).parents[3]


def test_the_sbom_has_the_product_and_what_it_needs(tmp_path):
    file = tmp_path / "sbom.json"
    python = foreign.installed("sbom") / "bin/python"
    command = [python, ROOT / "tools/sbom.py", "--python", sys.executable, file]
    subprocess.run(command, check=True, capture_output=True, timeout=110)
    sbom = json.loads(file.read_text())
    assert sbom["bomFormat"] == "CycloneDX"
    components = {canonicalize_name(each["name"]): each for each in sbom["components"]}
    needs = {each["ref"]: each.get("dependsOn", ()) for each in sbom["dependencies"]}
    ours = {ref.partition("==")[0] for ref in needs[components["zun"]["bom-ref"]]}
    required = [Requirement(each) for each in importlib.metadata.requires("zun") or ()]
    wanted = {canonicalize_name(each.name) for each in required if each.marker is None}
    assert "docker" in wanted
    assert wanted <= {canonicalize_name(name) for name in ours}
    assert components["docker"]["purl"].startswith("pkg:pypi/docker@")
    assert components["docker"]["licenses"]
