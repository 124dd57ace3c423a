# SPDX-License-Identifier: Apache-2.0
"""The cheapest way to give every part of a request a cell of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Costs = Sequence[Sequence[int | None]]
"""By part and by cell; None where they do not go together."""


class Matching(NamedTuple):
    """A column of its own for every row, at the least total cost."""

    cost: int
    columns: list[int]
    """By row."""
    row_prices: list[int]
    column_prices: list[int]
    """A row's and a column's price together are no more than the cost of the two, and as much where they are matched.
    Where columns are left over, none has a price above 0, and these have 0."""


Prices = tuple[list[int], list[int]]
"""Of rows and of columns."""


def cheapest_matching(costs: Costs, prices: Prices | None = None) -> Matching | None:
    """None when some row is left without. Any matching at these prices is a cheapest one, and there is no other.

    To begin with ``prices`` is less work when they are nearly right; they are changed. A row's and a column's must be
    no more than the cost of the two, and there must be as many rows as columns.

    Shortest augmenting paths with potentials (Jonker and Volgenant): cubic, and exact because everything is an
    integer.
    """
    rows, columns = len(costs), len(costs[0])
    if rows > columns:
        return None
    row_of = [-1] * columns
    if prices is None:
        prices = _first_prices(costs)
        if prices is None:
            return None
    for start in _unmatched(costs, row_of, prices):
        path = _augmenting_path(costs, start, row_of, prices)
        if path is None:
            return None
        _follow(path, row_of)
    column_of = [0] * rows
    for column, row in enumerate(row_of):
        if row >= 0:
            column_of[row] = column
    return Matching(sum(costs[row][column] or 0 for row, column in enumerate(column_of)), column_of, *prices)


def _first_prices(costs: Costs) -> Prices | None:
    """Prices of rows and columns, whose sums are no higher than any cost; None when a row or column has no cost.

    A column that is left over at the end must have price 0, so only where all are used do columns begin with
    their least cost.
    """
    of_columns = [0] * len(costs[0])
    if len(costs) == len(costs[0]):
        able = [[cost for cost in column if cost is not None] for column in zip(*costs, strict=True)]
        if not all(able):
            return None
        of_columns = [min(column) for column in able]
    of_rows = []
    for row in costs:
        least = [cost - price for cost, price in zip(row, of_columns, strict=True) if cost is not None]
        if not least:
            return None
        of_rows.append(min(least))
    return of_rows, of_columns


def _unmatched(costs: Costs, row_of: list[int], prices: Prices) -> list[int]:
    """Match rows with free columns at their price, in order, and return the rows for which there is none."""
    left = []
    for r, (row, price) in enumerate(zip(costs, prices[0], strict=True)):
        for column, cost in enumerate(row):
            if row_of[column] < 0 and cost is not None and cost == price + prices[1][column]:
                row_of[column] = r
                break
        else:
            left.append(r)
    return left


Path = tuple[int, list[tuple[int, int]]]
"""The last column of a path, and for each column on it (row that reached it, column of that row or -1)."""


def _follow(path: Path, row_of: list[int]) -> None:
    column, previous = path
    while column >= 0:
        row_of[column], column = previous[column]


def _augmenting_path(
    costs: Costs, start: int, row_of: list[int], prices: Prices
) -> Path | None:
    """The cheapest path from a row without a column to a column without a row; brings the prices up to date."""
    row_price, column_price = prices
    cheapest: dict[int, int] = {}
    done: dict[int, int] = {}
    previous = [(-1, -1)] * len(row_of)
    row, column, reached = start, -1, 0
    while True:
        base = reached - row_price[row]
        for other, cost in enumerate(costs[row]):
            if cost is None or other in done:
                continue
            length = base + cost - column_price[other]
            known = cheapest.get(other)
            if known is None or length < known:
                cheapest[other] = length
                previous[other] = row, column
        if not cheapest:
            return None
        column = min(cheapest, key=cheapest.__getitem__)
        reached = cheapest.pop(column)
        row = row_of[column]
        if row < 0:
            break
        done[column] = reached
    row_price[start] += reached
    for used, length in done.items():
        row_price[row_of[used]] += reached - length
        column_price[used] -= reached - length
    return column, previous
