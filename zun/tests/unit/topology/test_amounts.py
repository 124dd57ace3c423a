# SPDX-License-Identifier: Apache-2.0
"""Amounts: exact sums, short texts."""

import decimal
import json
import pathlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import zun
from zun.topology import amounts

SOURCES = sorted(path for path in pathlib.Path(zun.__file__).parent.rglob("*.py") if "tests" not in path.parts)

# What the API takes for one container, at its finest.
CPUS = st.decimals("0.000001", 4096, places=6)


def plain(total):
    """``total`` as a person writes it."""
    return f"{total:f}".rstrip("0").rstrip(".") if "." in f"{total:f}" else f"{total:f}"


@given(st.lists(CPUS, max_size=200))
def test_sums_of_cpus_are_written_exactly(cpus):
    total = sum(cpus, decimal.Decimal())
    added = sum(map(float, cpus))
    assert amounts.text(added) == plain(total)
    assert decimal.Decimal(json.dumps(amounts.exact(added))) == total


@given(CPUS, CPUS)
def test_differences_are_written_exactly(more, less):
    assert amounts.text(float(more) - float(less)) == plain(more - less)


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        (0, "0"),
        (0.1 + 0.2, "0.3"),
        (sum([0.1] * 96), "9.6"),
        (-0.0000001, "0"),
        (100, "100"),
        (1_048_576, "1048576"),
        (1_048_576.5, "1048576.5"),
        (0.000001, "0.000001"),
        (1e300, "1e+300"),
        (float("inf"), "inf"),
    ],
)
def test_text(amount, expected):
    assert amounts.text(amount) == expected


@pytest.mark.parametrize("amount", [3, 3.25, 0.1])
def test_exact_keeps_what_is_exact(amount):
    assert json.dumps(amounts.exact(amount)) == json.dumps(amount)


def test_nobody_else_rounds_amounts():
    """``:g`` writes 1048576 as 1.04858e+06, and two places that round are not one."""
    own = {"topology/amounts.py", "common/exceptions.py"}  # the latter: seconds of a timeout
    found = [
        f"{path}: {line.strip()}"
        for path in SOURCES
        if not str(path).endswith(tuple(own))
        for line in path.read_text().splitlines()
        if re.search(r":[.0-9]*g\}|\bround\([^()]*(\([^()]*\)[^()]*)*, 6\)", line)
    ]
    assert found == []
