# SPDX-License-Identifier: Apache-2.0
"""Parts of a request on cells of their own: how much of the search is needed."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from zun.tests.unit.topology.search.counting import calls
from zun.topology import CellShare, CpuSet, HostTopology, NUMACell, PlacementRequest, Plan, Usage, plan


@pytest.mark.parametrize("seed", range(3))
def test_unequal_parts_on_16_cells_take_few_matchings(seed):
    """Memory is short on most cells, distances are random: with prices as bounds 1,600 to 3,000 are computed."""
    rng = random.Random(seed)
    far = {(a, b): rng.randint(11, 40) for a, b in combinations(range(16), 2)}
    topology = HostTopology(tuple(
        NUMACell(a, CpuSet(range(32 * a, 32 * a + 32)), memory_mib=65536,
                 distances={b: 10 if a == b else far[min(a, b), max(a, b)] for b in range(16)})
        for a in range(16)
    ))
    usage = Usage().with_claim("others", Plan({a: CellShare(CpuSet(), rng.randrange(32768)) for a in range(16)}))
    sizes = [rng.randint(2, 8) for _ in range(8)]
    request = PlacementRequest(sum(sizes), 330_000, numa_cpus=sizes, mempolicy="preferred")
    assert calls("cheapest_matching", lambda: plan(topology, usage, request)) < 200
