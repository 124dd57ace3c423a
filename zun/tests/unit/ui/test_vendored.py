# SPDX-License-Identifier: Apache-2.0
"""Libraries of the page that others wrote: the files of their npm packages, unchanged, with their licences."""

import csv
import hashlib
import pathlib

import zun

FOLDER = pathlib.Path(zun.__file__).parent / "ui/static/vendor"
ROWS = list(csv.DictReader((FOLDER / "SOURCES.csv").open()))


def test_vendored_files_have_the_listed_hashes():
    found = {row["file"]: hashlib.sha256((FOLDER / row["file"]).read_bytes()).hexdigest() for row in ROWS}
    assert found == {row["file"]: row["sha256"] for row in ROWS}


def test_each_vendored_file_is_listed():
    assert {path.name for path in FOLDER.iterdir()} == {"SOURCES.csv", *(row["file"] for row in ROWS)}


def test_each_package_has_its_licence_beside_it():
    licensed = {row["package"] for row in ROWS if row["path"] == "LICENSE"}
    assert licensed == {row["package"] for row in ROWS}


def test_own_files_of_the_page_begin_with_the_licence():
    texts = {path.name: path.read_text() for path in FOLDER.parent.iterdir() if path.is_file()}
    assert [name for name, text in texts.items() if "SPDX-License-Identifier: Apache-2.0" not in text[:80]] == []
