# SPDX-License-Identifier: Apache-2.0
"""Libraries that others wrote, for the page and its tests: files of npm packages, unchanged, with their licences."""

import csv
import hashlib
import pathlib

import pytest

import zun

ROOT = pathlib.Path(zun.__file__).parent
FOLDERS = [ROOT / "ui/static/vendor", ROOT / "tests/browser/vendor"]
pytestmark = pytest.mark.parametrize("folder", FOLDERS, ids=["page", "tests"])


def rows(folder):
    with (folder / "SOURCES.csv").open() as file:
        return list(csv.DictReader(file))


def test_vendored_files_have_the_listed_hashes(folder):
    found = {row["file"]: hashlib.sha256((folder / row["file"]).read_bytes()).hexdigest() for row in rows(folder)}
    assert found == {row["file"]: row["sha256"] for row in rows(folder)}


def test_each_vendored_file_is_listed(folder):
    assert {path.name for path in folder.iterdir()} == {"SOURCES.csv", *(row["file"] for row in rows(folder))}


def test_each_package_has_its_licence_beside_it(folder):
    licensed = {row["package"] for row in rows(folder) if row["path"] == "LICENSE"}
    assert licensed == {row["package"] for row in rows(folder)}
