# SPDX-License-Identifier: Apache-2.0
"""The matching with the lowest CPU ids, against every matching."""

from __future__ import annotations

import random
from itertools import permutations

from zun.tests.unit.topology.hosts import proof_size
from zun.topology.search.lowest import lowest_matching


def test_lowest_matching_has_the_lowest_cpus():
    for seed in range(proof_size(400)):
        rng = random.Random(seed)
        size = rng.randint(2, 5)
        numbers = rng.sample(range(size * 6), size * 6)
        if rng.random() < 0.5:
            numbers.sort()
        cells = [numbers[c::size] if rng.random() < 0.8 else numbers[c * 6 : c * 6 + 6] for c in range(size)]
        taken: set[int] = set()
        for c, cell in enumerate(cells):
            cells[c] = [cpu for cpu in cell if cpu not in taken]
            taken |= set(cells[c])
        wants = [rng.randint(0, 3) for _ in range(size)]
        given = {
            (want, c): sum(1 << cpu for cpu in rng.sample(cell, min(want, len(cell))))
            for want in range(4) for c, cell in enumerate(cells)
        }
        order = rng.sample(range(size), size)
        ways = [sorted({order[row], *(c for c in range(size) if rng.random() < 0.7)}) for row in range(size)]

        def cpus(row, column, given=given, wants=wants):
            return given[wants[row], column]

        found = lowest_matching(ways, order, wants, [sum(1 << cpu for cpu in cell) for cell in cells], cpus)
        assert sorted(found) == list(range(size)), seed
        assert all(column in ways[row] for row, column in enumerate(found)), seed
        every = [way for way in permutations(range(size)) if all(c in ways[row] for row, c in enumerate(way))]
        unions = [sum(cpus(row, column) for row, column in enumerate(way)) for way in [found, *every]]
        # The set that holds the lowest CPU in which two differ is the lower one.
        width = size * 6
        assert all(f"{unions[0]:0{width}b}"[::-1] >= f"{union:0{width}b}"[::-1] for union in unions), seed
