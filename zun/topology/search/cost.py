# SPDX-License-Identifier: Apache-2.0
"""The cost of a choice: one integer with a field for each rule, so that the costs of several cells add up.

The most important rule has the highest bits. Sums stay below the width of their field, so comparing two costs compares
the rules one after the other. Example: two L3 groups and three cores, ``2 * CACHES + 3 * CORES``, are more than
``1 * CACHES + 9 * CORES``. The operator's strategy, ``PACK`` or ``SPREAD``, decides how the last three rules count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from zun.topology.view import CellView, HostView

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
    ("DEVICES", 64),  # how far the devices are from the cells that give CPUs
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
DEVICES = _WEIGHTS["DEVICES"]
DISTANCE = _WEIGHTS["DISTANCE"]
FAR = _WEIGHTS["FAR"]
REMOTE = _WEIGHTS["REMOTE"]


class Weights(NamedTuple):
    """The cost of one unit that is left over: a CPU in an L3 group, a CPU on a cell, a MiB or page on a cell."""

    cache_left: int
    cell_left: int
    mem_left: int


PACK = Weights(_WEIGHTS["CACHE_LEFT"], _WEIGHTS["CELL_LEFT"], _WEIGHTS["MEM_LEFT"])
"""Prefer the choice that leaves least."""
SPREAD = Weights(*(-weight for weight in PACK))
"""Prefer the choice that leaves most. A negative field borrows from the field to its left, in all sums alike. So sums
still compare by the rules, but no single field can be cut out of a sum."""


def id_bits(view: HostView) -> tuple[int, int]:
    """Return how many bits the cell ids need below a cost, and how many bits the CPU ids of the host need."""
    return len(view.cells), max(1, (view.dedicated | view.pool).bit_length())


def low_ids(view: HostView, cells: Sequence[CellView]) -> list[int]:
    """Return what each cell takes off the id bits of a key, so that the lower ids win among equal costs.

    Example: on a host with three cells these are 4, 2 and 1.
    """
    width = len(view.cells)
    return [1 << (width - 1 - cell.index) for cell in cells]
