# SPDX-License-Identifier: Apache-2.0
"""The columns and processes that a request may select of a container."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.common.processes import FIELDS, FULL, LONG, Selection, selection
from zun.tests.unit.common.samples import NASTY

PID, ARGS, CMD = ("pid", "PID"), ("args", "COMMAND"), ("args", "CMD")


@pytest.mark.parametrize(
    ("ps_args", "expected"),
    [
        (None, Selection()),
        ("", Selection()),
        ("-ef", Selection(FULL)),
        ("aux", Selection(LONG)),
        ("-aux", Selection(LONG)),
        ("1 2", Selection(FULL, frozenset({1, 2}))),
        ("1,2", Selection(FULL, frozenset({1, 2}))),
        ("-p 17", Selection(FULL, frozenset({17}))),
        ("-o pid,cmd", Selection((PID, CMD))),
        ("-eo pid,command", Selection((PID, ARGS))),
        ("-opid -oargs 5", Selection((PID, ARGS), frozenset({5}))),
        ("-o %cpu,start", Selection((("pcpu", "%CPU"), ("stime", "STIME")))),
    ],
)
def test_selection(ps_args, expected):
    assert selection(ps_args) == expected


@pytest.mark.parametrize("ps_args", NASTY)
def test_options_of_ps_are_refused(ps_args):
    with pytest.raises(ValueError, match="Give process ids, 'aux', '-ef', or '-o'"):
        selection(ps_args)


@given(st.text(alphabet="-aefoxuwpidcmdargs,= 0123456789+:_%HO", max_size=40))
def test_selected_cells_come_from_the_given_processes(ps_args):
    """Every answer has only columns of the table and processes of the container."""
    rows = [{field: f"{pid}-{field}" for field in FIELDS} | {"pid": str(pid)} for pid in (3, 14)]
    try:
        wanted = selection(ps_args)
    except ValueError:
        return
    answer = wanted.of(rows)
    cells = {frozenset(row.values()) for row in rows}
    assert len(answer["Titles"]) == len(wanted.columns)
    assert all(any(set(row) <= whole for whole in cells) for row in answer["Processes"])


def test_only_the_asked_processes_are_shown():
    rows = [dict.fromkeys(FIELDS, "x") | {"pid": str(pid)} for pid in (3, 14)]
    assert selection("-o pid 14 15").of(rows) == {"Titles": ["PID"], "Processes": [["14"]]}
    assert selection("15").of(rows)["Processes"] == []
