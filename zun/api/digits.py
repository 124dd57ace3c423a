# SPDX-License-Identifier: Apache-2.0
"""Numbers that clients write as text."""


def whole(text: str, most: int = 15) -> int | None:
    """The number in ``text``, of ASCII digits and no more than ``most``; None for what is none.

    Python's own ``int`` takes blanks, signs, underscores and the digits of every script, and takes long for thousands.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= most else None
