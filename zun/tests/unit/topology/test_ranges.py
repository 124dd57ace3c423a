# SPDX-License-Identifier: Apache-2.0
"""Texts of hosts that no database takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.topology.devices import Device
from zun.topology.ranges import Text, cleaned, is_storable

ANY = st.text(st.characters())  # halves of surrogate pairs too


@pytest.mark.parametrize("text", ["a\0b", "\0", "\ud800", "eth\udcff", "\udfff\ud800"])
def test_text_that_no_database_takes_is_refused(text):
    with pytest.raises(ValueError, match="must have no NUL and no half of a surrogate pair"):
        Text("a name", 9)(text)
    with pytest.raises(ValueError, match="must have no NUL and no half of a surrogate pair"):
        Device.from_dict({"address": "/dev/a", "nodes": [text]})


@pytest.mark.parametrize("text", ["", "eth0", "Tür", "\U0001f40b", "\ufffd", "\x01"])
def test_other_text_is_taken(text):
    assert Text("a name", 9)(text) == cleaned(text) == text


@given(ANY)
def test_storable_text_can_be_written_and_cleaned_text_is_storable(text):
    assert is_storable(text) == ("\0" not in text and text.encode("utf-8", "ignore").decode() == text)
    assert is_storable(cleaned(text))
    assert len(cleaned(text)) == len(text)
