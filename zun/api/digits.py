# SPDX-License-Identifier: Apache-2.0
"""Numbers that clients write as text."""

LONGEST = 15  # nothing that we count is longer, and no int() of this costs anything


def whole(text: str, most: int = LONGEST) -> int | None:
    """The number in ``text``, of ASCII digits and no more than ``most``; None for what is none.

    Python's own ``int`` takes blanks, signs, underscores and the digits of every script, and takes long for thousands.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= most else None
