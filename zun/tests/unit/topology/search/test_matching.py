# SPDX-License-Identifier: Apache-2.0
"""The matching of parts and cells, against every order."""

from __future__ import annotations

import random
from itertools import combinations, permutations

import pytest

from zun.tests.unit.topology.hosts import proof_size
from zun.topology.search.matching import cheapest_matching, column_bounds


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
            assert max(found.column_prices) == 0
            assert all(not price for c, price in enumerate(found.column_prices) if c not in order)


def test_column_bounds_never_exceed_the_cost():
    for seed in range(proof_size(300)):
        rng = random.Random(seed)
        rows, columns = rng.randint(1, 4), rng.randint(1, 7)
        odds = rng.choice((0, 0.3))
        costs = [[None if rng.random() < odds else rng.randint(-20, 20) for _ in range(columns)] for _ in range(rows)]
        found = cheapest_matching(costs)
        if found is None or not all(any(cost is not None for cost in column) for column in zip(*costs, strict=True)):
            continue
        bounds = column_bounds(costs, found)
        assert all(bound >= price for bound, price in zip(bounds, found.column_prices, strict=True)), seed
        for chosen in combinations(range(columns), rows):
            matching = cheapest_matching([[row[c] for c in chosen] for row in costs])
            least = sum(found.row_prices) + sum(bounds[c] for c in chosen)
            assert matching is None or least <= matching.cost, (seed, chosen)


def test_column_bound_of_an_unused_column_is_its_cost():
    """The price of an unused column is 0 although the column costs 70 more than the others."""
    costs = [[1, 2, 72], [2, 1, 71]]
    found = cheapest_matching(costs)
    assert found.column_prices == [0, 0, 0]
    assert column_bounds(costs, found) == [0, 0, 70]


@pytest.mark.parametrize("size", [20])
def test_matching_of_many_parts(size):
    """Nova tries their orders, of which there are 20!."""
    costs = [[(row - column) ** 2 if (row + column) % 3 else None for column in range(size)] for row in range(size)]
    total, order, *_ = cheapest_matching(costs)
    assert sorted(order) == list(range(size))
    assert total == sum((row - column) ** 2 for row, column in enumerate(order))


def test_first_prices_do_not_change_the_cost():
    for seed in range(proof_size(300)):
        rng = random.Random(seed)
        size = rng.randint(1, 5)
        costs = [[None if rng.random() < 0.2 else rng.randint(-9, 9) for _ in range(size)] for _ in range(size)]
        of_columns = [rng.randint(-9, 9) for _ in range(size)]
        of_rows = [
            min([cost - price for cost, price in zip(row, of_columns, strict=True) if cost is not None], default=0)
            for row in costs
        ]
        found, expected = cheapest_matching(costs, (of_rows, of_columns)), cheapest_matching(costs)
        assert (found is None) == (expected is None), seed
        assert found is None or found.cost == expected.cost, seed
