# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zun.api import microversion
from zun.api.errors import VersionNotAcceptable
from zun.api.microversion import MAX, MIN, UnsupportedVersion, Version, negotiate


def test_versions_are_ordered_as_numbers():
    assert Version(1, 9) < Version(1, 10) < Version(2, 0)
    assert microversion.EVERY[0] == MIN and microversion.EVERY[-1] == MAX
    assert len(set(microversion.EVERY)) == 51


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.integers(0, 3))
@example(MIN.major, MIN.minor, 0)
@example(MAX.major, MAX.minor, 0)
@example(MAX.major, MAX.minor + 1, 0)
def test_numbers_in_any_spelling(major, minor, zeros):
    header = f"container {'0' * zeros}{major}.{'0' * zeros}{minor}"
    inside = major == MIN.major and MIN.minor <= minor <= MAX.minor
    try:
        version = negotiate(header)
    except (VersionNotAcceptable, UnsupportedVersion):
        assert not inside
    else:
        assert inside and version == Version(major, minor)


@given(st.text())
def test_any_text_has_an_answer(header):
    try:
        assert MIN <= negotiate(header) <= MAX
    except (VersionNotAcceptable, UnsupportedVersion) as exc:
        assert exc.code == 406 and str(exc)


@pytest.mark.parametrize(
    ("since", "until", "said"),
    [(Version(1, 4), MAX, "from version 1.4."), (MIN, Version(1, 3), "from version 1.1 to 1.3.")],
)
def test_a_window_says_where_it_is(since, until, said):
    outside = MIN if since > MIN else MAX
    with pytest.raises(VersionNotAcceptable) as caught:
        microversion.require(outside, since, until, "GET things")
    assert f"GET things exists {said}" in str(caught.value)
    assert f"container {until}" in str(caught.value)
    microversion.require(since, since, until, "GET things")
    microversion.require(until, since, until, "GET things")
