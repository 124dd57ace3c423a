# SPDX-License-Identifier: Apache-2.0
"""Sets of CPUs as bit masks: bit 5 of an integer is CPU 5, so 0b100001 is CPUs 0 and 5."""

from __future__ import annotations


def lowest(mask: int, count: int) -> int:
    """Return the ``count`` lowest bits of ``mask``. Example: 0b0101 for 0b1101 and 2."""
    spare = mask.bit_count() - count
    if spare < count:
        for _ in range(spare):
            mask ^= 1 << (mask.bit_length() - 1)
        return mask
    rest = mask
    for _ in range(count):
        rest &= rest - 1
    return mask ^ rest


def lower(mask: int, other: int) -> bool:
    """Return whether ``mask`` has the lower ids: it has the lowest CPU in which the two differ."""
    differ = mask ^ other
    return bool(differ & -differ & mask)


def mirrored(mask: int, width: int) -> int:
    """Return ``mask`` read backwards in ``width`` bits, so that lower ids make a larger number.

    Example: 0b011 in three bits is 0b110.
    """
    return int(f"{mask:0{width}b}"[::-1], 2)
