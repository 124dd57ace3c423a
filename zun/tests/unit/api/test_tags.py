# SPDX-License-Identifier: Apache-2.0
import dataclasses
import datetime

import pytest

from zun.api import tags

ASKED = tags.Asked("http://a/v1/containers", "limit=1", "1.48", "u", "p", ("member",), "1.0")
NOW = datetime.datetime(2026, 1, 1)


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


def test_tag_is_one_of_a_request_and_a_state():
    state = (["host"], [(1, 2, NOW)], 5)
    assert tags.tag(ASKED, state) == tags.tag(dataclasses.replace(ASKED), (["host"], [(1, 2, NOW)], 5))
    others = [
        (dataclasses.replace(ASKED, **{field.name: ("x",) if field.name == "roles" else "x"}), state)
        for field in dataclasses.fields(ASKED)
    ]
    others += [
        (ASKED, other)
        for other in (
            ([], [(1, 2, NOW)], 5),
            (["host"], [], 5),
            (["host"], [(1, 3, NOW)], 5),
            (["host"], [(1, 2, None)], 5),
            (["host"], [(1, 2, NOW)], 6),
        )
    ]
    assert len({tags.tag(*each) for each in [(ASKED, state), *others]}) == len(others) + 1


@pytest.mark.parametrize(("seconds", "minute"), [(0, 0), (59.9, 0), (60, 1), (119, 1), (120.5, 2)])
def test_minute(seconds, minute):
    assert tags.minute(seconds) == minute
