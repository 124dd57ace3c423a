# SPDX-License-Identifier: Apache-2.0
"""The search over sets of cells and the matching of parts to cells, against every set and every order."""

from __future__ import annotations

import random
from itertools import combinations, permutations

import pytest

from zun.tests.unit.topology.hosts import proof_size
from zun.topology import CpuSet, HostTopology, NUMACell, PlacementRequest, Plan, Usage, plan
from zun.topology.matching import cheapest_matching
from zun.topology.sets import ALWAYS_EXACT, FEW_SETS, STEPS, SetSearch, Supply, alike


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
    assert search.steps == STEPS - 48619


def test_many_cells_end_in_time_and_are_never_refused_wrongly():
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


def test_alike_is_the_last_equal_one_that_is_equally_far():
    assert alike(["a", "b", "a", "a"], [0, 1, 3, 7]) == [-1, -1, 0, 2]
    assert alike(["a", "a", "a"], [0, 0, 1]) == [-1, -1, 0]


def test_matching_is_the_cheapest_of_all_orders():
    for seed in range(proof_size(300)):
        rng = random.Random(seed)
        rows, columns = rng.randint(1, 5), rng.randint(1, 6)
        costs = [
            [None if rng.random() < 0.3 else rng.randint(-20, 20) for _ in range(columns)] for _ in range(rows)
        ]
        totals = [
            sum(costs[row][column] for row, column in enumerate(order))
            for order in permutations(range(columns), rows)
            if all(costs[row][column] is not None for row, column in enumerate(order))
        ]
        found = cheapest_matching(costs)
        if not totals:
            assert found is None, seed
            continue
        total, order = found.cost, found.columns
        assert total == min(totals), seed
        assert len(set(order)) == rows
        assert sum(costs[row][column] for row, column in enumerate(order)) == total
        for row, own in zip(costs, found.row_prices, strict=True):
            assert all(
                cost is None or cost >= own + price for cost, price in zip(row, found.column_prices, strict=True)
            )
        assert all(
            costs[row][column] == found.row_prices[row] + found.column_prices[column]
            for row, column in enumerate(order)
        )
        if rows < columns:
            # What any columns cost is no less than their prices say: the search for cells relies on it.
            assert max(found.column_prices) == 0
            assert all(not price for c, price in enumerate(found.column_prices) if c not in order)


@pytest.mark.parametrize("size", [20])
def test_matching_of_many_parts(size):
    """Nova tries their orders, of which there are 20!."""
    costs = [[(row - column) ** 2 if (row + column) % 3 else None for column in range(size)] for row in range(size)]
    total, order, *_ = cheapest_matching(costs)
    assert sorted(order) == list(range(size))
    assert total == sum((row - column) ** 2 for row, column in enumerate(order))
