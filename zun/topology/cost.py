# SPDX-License-Identifier: Apache-2.0
"""The one objective: a lexicographic key, packed into an integer so that parts of a plan simply add up.

Each rule is a field, more important ones further left. Sums of fields stay below the width of a field,
so comparing two sums compares the rules one after the other. How the last three rules count is the operator's
choice, ``PACK`` or ``SPREAD``.
"""

from __future__ import annotations

from typing import NamedTuple

_WIDTHS = (
    ("MEM_LEFT", 64),  # MiB or pages left on the cells used: prefer the cell that is already full
    ("CELL_LEFT", 64),  # free CPUs left on the cells used (millionths of a CPU for shared containers)
    ("CACHE_LEFT", 32),  # free CPUs left in the L3 groups used
    ("CORE_LEFT", 32),  # threads left over or withheld on the cores used
    ("CORES", 32),  # cores used
    ("CACHES", 32),  # L3 groups used
    ("CROWD", 64),  # shared demand above one CPU per CPU of the pool, in millionths
    ("AWAY", 64),  # how far the memory is from each cell that gives CPUs, where some give memory only
    ("DISTANCE", 40),  # between the cells used, every pair, there and back
    ("FAR", 64),  # how far the memory is that is not on the cells used: the distances of all its units
    ("REMOTE", 64),  # memory that is not on the cells used
)


def _weights() -> dict[str, int]:
    weights, position = {}, 0
    for name, width in _WIDTHS:
        weights[name] = 1 << position
        position += width
    return weights


_WEIGHTS = _weights()
AWAY = _WEIGHTS["AWAY"]
CORE_LEFT = _WEIGHTS["CORE_LEFT"]
CORES = _WEIGHTS["CORES"]
CACHES = _WEIGHTS["CACHES"]
CROWD = _WEIGHTS["CROWD"]
DISTANCE = _WEIGHTS["DISTANCE"]
FAR = _WEIGHTS["FAR"]
REMOTE = _WEIGHTS["REMOTE"]


class Weights(NamedTuple):
    """What one unit left over costs, by where it is left."""

    cache_left: int
    cell_left: int
    mem_left: int


PACK = Weights(_WEIGHTS["CACHE_LEFT"], _WEIGHTS["CELL_LEFT"], _WEIGHTS["MEM_LEFT"])
"""Better is what leaves least."""
SPREAD = Weights(*(-weight for weight in PACK))
"""Better is what leaves most. A negative field borrows from the one to its left, in all sums alike: the order of
sums is still that of the rules, but a field cannot be cut out of one."""


def mirrored(mask: int, width: int) -> int:
    """``mask`` read backwards in ``width`` bits: of two sets of one size, the one with the lower ids is larger."""
    return int(f"{mask:0{width}b}"[::-1], 2)
