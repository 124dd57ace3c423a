# SPDX-License-Identifier: Apache-2.0
"""The form of findings/*.sh, and their table in findings/README.rst. The scripts install packages, so none is run."""

import os
import pathlib
import re

import pytest

FOLDER = pathlib.Path(__file__).parents[3] / "findings"
SCRIPTS = sorted(FOLDER.glob("*.sh"))
NAMES = [script.name for script in SCRIPTS]
ROW = re.compile(
    r"^   \* - ``(?P<name>.+)``\n     - (?P<tool>.+)\n     - (?P<behaviour>.+)\n     - (?P<here>.+)$", re.M
)
FORM = {
    "shebang": r"\A#!/usr/bin/env bash\n# SPDX-License-Identifier: Apache-2\.0\n# \S",
    "output": r"^# Output seen:$",
    "strict": r"^set -euo pipefail$",
    "folder": r"^\w+=\$\(mktemp -d\)$",
    "removed": r"^trap .+ EXIT$",
    "pinned": r"^[^#\n]*[=:]v?\d+\.\d",
    "compared": r"^\[\[? .+ \]",
}
#: The project itself. zunclient and zun-ui are of others.
OURS = re.compile(r"\b(?:import|from) zun\b|-m zun\b|\bzun[/.]|\bzun-(?:api|compute|scheduler|conductor|wsproxy)\b")


@pytest.mark.parametrize("part", FORM)
@pytest.mark.parametrize("script", SCRIPTS, ids=NAMES)
def test_a_finding_has_the_form(script, part):
    assert re.search(FORM[part], script.read_text(), re.MULTILINE), f"{script.name} lacks its {part}: {FORM[part]}"


@pytest.mark.parametrize("script", SCRIPTS, ids=NAMES)
def test_a_finding_runs_without_the_project(script):
    commands = "\n".join(line for line in script.read_text().splitlines() if not line.startswith("#"))
    assert os.access(script, os.X_OK) and not OURS.findall(commands)


def test_the_table_has_each_finding_once_in_order():
    rows = [row["name"] for row in ROW.finditer((FOLDER / "README.rst").read_text())]
    assert rows == NAMES


def test_each_row_names_a_version():
    text = (FOLDER / "README.rst").read_text()
    assert [row["name"] for row in ROW.finditer(text) if not re.search(r"\d", row["tool"])] == []
    assert text.count("   * - ") == len(NAMES) + 1  # a row of another form would be passed over
