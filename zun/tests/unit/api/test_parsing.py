# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.api.parsing import whole_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("007", 7),
        ("123456789012345", 123456789012345),
        *((text, None) for text in ("", "1234567890123456", "-1", "+1", " 1", "1_0", "1.0", "²", "١٢")),
    ],
)
def test_a_whole_number_is_ascii_digits_and_not_too_many(text, number):
    assert whole_number(text) == number


def test_a_caller_may_take_fewer_digits():
    assert (whole_number("65535", 5), whole_number("065535", 5)) == (65535, None)
