# SPDX-License-Identifier: Apache-2.0
"""The search over sets of cells, against every set."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from zun.tests.unit.topology.hosts import proof_size
from zun.topology import CpuSet, HostTopology, NUMACell, PlacementRequest, Plan, Usage, plan
from zun.topology.search.sets import ALWAYS_EXACT, FEW_SETS, SetSearch, Supply, alike
from zun.topology.search.steps import STEPS


def everything(search: SetSearch) -> int | None:
    """The least cost over all sets."""
    size = len(search.unary)
    costs = []
    for chosen in combinations(range(size), search.count):
        cost = search.leaf(chosen, None)
        if cost is not None:
            far = sum(search.distances[a][b] for a, b in combinations(chosen, 2))
            costs.append(cost + far * search.weight)
    return min(costs, default=None)


@pytest.mark.parametrize("few", [0, FEW_SETS])
def test_search_finds_the_cheapest_set(few):
    for seed in range(proof_size(300)):
        rng = random.Random(seed)
        size = rng.randint(1, 8)
        far = [[0] * size for _ in range(size)]
        for a, b in combinations(range(size), 2):
            far[a][b] = far[b][a] = rng.choice(rng.choice(((20,), (32, 44), (21, 25, 40, 64))))
        unary = [rng.randint(-50, 50) for _ in range(size)]
        amounts = [rng.randint(0, 5) for _ in range(size)]
        wanted, soft = rng.randint(0, 12), rng.randint(0, 12)

        def leaf(chosen, limit, unary=unary, amounts=amounts, wanted=wanted, soft=soft):
            have = sum(amounts[c] for c in chosen)
            return None if have < wanted else sum(unary[c] for c in chosen) + 7 * max(0, soft - have)

        search = SetSearch(
            count=rng.randint(1, size), distances=tuple(map(tuple, far)), weight=rng.choice((0, 1, 100)), unary=unary,
            base=0, leaf=leaf, supplies=(Supply(amounts, wanted), Supply(amounts, soft, 7)), few=few,
        )
        expected = everything(search)
        search.run()
        assert search.best_cost == expected, seed


def test_sixteen_cells_never_use_up_the_steps():
    """The worst there is: no set serves, no bound helps, so every one is looked at."""
    search = SetSearch(
        count=ALWAYS_EXACT // 2, distances=((0,) * ALWAYS_EXACT,) * ALWAYS_EXACT, weight=1,
        unary=[0] * ALWAYS_EXACT, base=0, leaf=lambda chosen, limit: None, leaf_steps=1000,
    )
    assert search.run() is None
    assert search.steps.left == STEPS - 48619


def test_48_cells_end_in_time_with_a_plan():
    """Forty-eight cells at random distances: too many to try all, so the answer need only be one that serves."""
    rng = random.Random(1)
    far = {(a, b): 10 if a == b else rng.randint(11, 60) for a in range(48) for b in range(48)}
    topology = HostTopology(tuple(
        NUMACell(node, CpuSet(range(node * 4, node * 4 + 4)), memory_mib=rng.randint(10, 20),
                 distances={b: far[node, b] for b in range(48)})
        for node in range(48)
    ))
    for request in (
        PlacementRequest(48, 240, numa_nodes=24),
        PlacementRequest(50, 300, numa_cpus=[1, 2, 3, 4] * 5, numa_mem=[15] * 20),
        PlacementRequest(100, 500, numa_affinity="none"),
    ):
        answer = plan(topology, Usage(), request)
        assert isinstance(answer, Plan)
        assert plan(topology, Usage(), request) == answer
    assert plan(topology, Usage(), PlacementRequest(193, 10, numa_affinity="none")).code == "cpus"


def test_alike_is_the_last_equal_earlier_position():
    assert alike(["a", "b", "a", "a"], [0, 1, 3, 7]) == [-1, -1, 0, 2]
    assert alike(["a", "a", "a"], [0, 0, 1]) == [-1, -1, 0]
