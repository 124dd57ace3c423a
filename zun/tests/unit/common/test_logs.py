# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.common import exceptions
from zun.common.logs import since_epoch, tail_lines


@pytest.mark.parametrize(
    ("tail", "expected"),
    [("all", "all"), (None, "all"), ("", "all"), ("ten", "all"), ("10", 10), (10, 10), ("0", 0), ("-1", "all")],
)
def test_tail_lines(tail: str | int | None, expected: int | str) -> None:
    assert tail_lines(tail) == expected


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        (None, None),
        ("", None),
        (0, None),
        (-5, None),
        ("nan", None),
        ("1000000000", 1e9),
        (1000000000.5, 1000000000.5),
        ("2001-09-09 01:46:40,250", 1000000000.25),
    ],
)
def test_since_epoch(since: str | int | float | None, expected: float | None) -> None:
    assert since_epoch(since) == expected


@pytest.mark.parametrize("since", ["yesterday", "2001-09-09", "2001-13-09 01:46:40,250"])
def test_since_nonsense(since: str) -> None:
    with pytest.raises(exceptions.InvalidValue, match="YYYY"):
        since_epoch(since)
