# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.osc import tables

NAMES = ["uuid", "name", "image", "status", "task_state", "addresses", "ports"]
UUID = "4ad32a94-1d42-4ee9-bd5f-3f0d0ac3ee0a"


def line(cells):
    return sum(max(map(len, cell.split("\n")), default=0) for cell in cells) + 3 * len(cells) + 1


def test_a_list_of_containers_has_80_columns():
    row = [UUID, "alpha-12-container", "registry.example:5000/team/app:1.2", "Running", "", "10.224.0.2, fd00::2", ""]
    names, rows = tables.fitted(NAMES, [row, row], 80)
    assert names == ["uuid", "name", "image", "status"] and rows[0][0] == UUID
    assert line(rows[0]) <= 80
    names, rows = tables.fitted(NAMES, [row], 200)
    assert (names, rows) == (["uuid", "name", "image", "status", "addresses"], [[each for each in row if each]])


def test_a_list_without_rows_keeps_its_columns():
    assert tables.fitted(NAMES, [], 80)[1] == []
    assert tables.fitted(["uuid", "name"], [], 80)[0] == ["uuid", "name"]


@given(st.lists(st.lists(st.text("ab c", max_size=60), min_size=5, max_size=5), min_size=1, max_size=4))
def test_no_line_is_longer_and_no_letter_lost(cells):
    names, rows = tables.fitted(["one", "two", "three", "four", "five"], cells, 80)
    for before, after in zip(cells, rows, strict=True):
        assert line(after) <= 80 and line(names) <= 80
        kept = [cell for at, cell in enumerate(before) if any(row[at] for row in cells)][: len(after)]
        assert ["".join(cell.split()) for cell in kept] == ["".join(cell.split()) for cell in after]


def test_one_thing_has_no_empty_rows_and_80_columns():
    values = ["web", "", "x" * 300, "a: b\nc: d"]
    names, shown = tables.told(["name", "status_reason", "environment", "labels"], values, 80)
    assert names == ["name", "environment", "labels"]
    assert all(len(names[1]) + len(part) + 7 <= 80 for cell in shown for part in cell.split("\n"))
    assert "".join(shown[1].split("\n")) == "x" * 300


@pytest.mark.parametrize(("value", "shown"), [(None, ""), ([], ""), ({}, ""), (0, "0"), (False, "False"), ("a", "a")])
def test_text_of_a_value(value, shown):
    assert tables.text(value) == shown
