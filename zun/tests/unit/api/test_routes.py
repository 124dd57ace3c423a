# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.api.errors import MethodNotAllowed, PathNotFound
from zun.api.routes import Answer, Route, Router


def answer(call):
    return Answer()


ROWS = [
    Route("GET", "things", answer),
    Route("POST", "things", answer),
    Route("GET", "things/{ident}", answer),
    Route("POST", "things/{ident}/start", answer),
    Route("PUT", "things/enable", answer),
    Route("GET", "things/{ident}/parts/{part}", answer),
    Route("GET", "things/{folder}/{ident}/look", answer),
    Route("GET", "others/{ident}", answer),
]


@pytest.mark.parametrize(
    ("method", "segments", "row", "parameters"),
    [
        ("GET", ("things",), 0, {}),
        ("POST", ("things",), 1, {}),
        ("GET", ("things", "x"), 2, {"ident": "x"}),
        ("POST", ("things", "x", "start"), 3, {"ident": "x"}),
        ("POST", ("things", "start", "start"), 3, {"ident": "start"}),
        ("PUT", ("things", "enable"), 4, {}),
        ("GET", ("things", "enable"), 2, {"ident": "enable"}),
        ("GET", ("things", "x", "parts", "y"), 5, {"ident": "x", "part": "y"}),
        ("GET", ("things", "x", "parts", "look"), 5, {"ident": "x", "part": "look"}),
        ("GET", ("things", "x", "y", "look"), 6, {"folder": "x", "ident": "y"}),
        ("GET", ("things", "x", "y", "z", "look"), 6, {"folder": "x", "ident": "y/z"}),
        ("GET", ("things", "x", "parts", "look", "", "z", "look"), 6, {"folder": "x", "ident": "parts/look//z"}),
    ],
)
def test_rows_that_match(method, segments, row, parameters):
    assert Router(ROWS).match(method, segments) == (ROWS[row], parameters)


@pytest.mark.parametrize(
    ("method", "segments", "error"),
    [
        ("PUT", ("things",), MethodNotAllowed),
        ("PUT", ("things", "x"), MethodNotAllowed),
        ("GET", ("things", "x", "start"), PathNotFound),
        ("OPTIONS", ("things", "x", "start"), MethodNotAllowed),
        ("POST", ("things", "x", "stop"), PathNotFound),
        ("GET", ("things", "x", "start", "now"), PathNotFound),
        ("GET", ("other",), PathNotFound),
        ("GET", ("others",), PathNotFound),
        ("POST", ("others", "x"), MethodNotAllowed),
        ("GET", ("things", "x", "parts"), PathNotFound),
        ("POST", ("things", "x", "parts", "y"), PathNotFound),
        ("GET", ("things", "x", "parts", "y", "z"), PathNotFound),
        ("GET", ("things", "x", "y", "z", "start"), PathNotFound),
    ],
)
def test_rows_that_do_not(method, segments, error):
    with pytest.raises(error):
        Router(ROWS).match(method, segments)


def test_a_path_has_one_row_a_verb():
    with pytest.raises(ValueError, match=r"two rows for GET things/\{other\}"):
        Router([*ROWS, Route("GET", "things/{other}", answer)])
