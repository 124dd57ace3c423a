# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.api import tags


@pytest.mark.parametrize(
    ("header", "matched"),
    [
        (None, False),
        ("", False),
        ('"a"', True),
        ('W/"a"', True),
        ('"b"', False),
        ('"b", "a"', True),
        ('"b",W/"a"', True),
        ("*", True),
        (" * ", True),
        ("a", False),
        ('"A"', False),
        ('"ba"', False),
        ('"a', False),
    ],
)
@pytest.mark.parametrize("weak", ["", "W/"])
def test_if_none_match(header, matched, weak):
    assert tags.matches(header, f'{weak}"a"') == matched
