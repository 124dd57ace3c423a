# SPDX-License-Identifier: Apache-2.0
"""Numbers out of the search, for tests: calls of its functions, CPU ids of its masks."""

from __future__ import annotations

import sys
from collections.abc import Callable


def calls(name: str, action: Callable[[], object]) -> int:
    """Return how often ``action`` calls a Python function of this name."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event == "call" and frame.f_code.co_name == name

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(before)
    return count


def ids(mask: int) -> list[int]:
    """Return the CPU ids of a mask, lowest first: [0, 2] for 0b101."""
    return [cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1]
