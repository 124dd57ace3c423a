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
    """A row's and a column's price together are no more than the cost of the two, and as much where they are matched:
    all together they are the total cost. Where columns are left over, none has a price above 0, and these have 0."""


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
    return Matching(sum(prices[0]) + sum(prices[1]), column_of, *prices)


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
    of_columns = prices[1]
    for r, (row, price) in enumerate(zip(costs, prices[0], strict=True)):
        for column, cost in enumerate(row):
            if row_of[column] < 0 and cost == price + of_columns[column]:
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
    lengths: list[int | None] = [None] * len(row_of)
    previous = [(-1, -1)] * len(row_of)
    left = list(range(len(row_of)))
    done: list[tuple[int, int, int]] = []
    row, column, reached = start, -1, 0
    while True:
        base, row_costs = reached - row_price[row], costs[row]
        least, nearest = None, -1
        for other in left:
            cost, known = row_costs[other], lengths[other]
            if cost is not None:
                length = base + cost - column_price[other]
                if known is None or length < known:
                    lengths[other] = known = length
                    previous[other] = row, column
            if known is not None and (least is None or known < least):
                least, nearest = known, other
        if least is None:
            return None
        column, reached = nearest, least
        row = row_of[column]
        if row < 0:
            break
        left.remove(column)
        done.append((row, column, reached))
    row_price[start] += reached
    for row, used, length in done:
        row_price[row] += reached - length
        column_price[used] -= reached - length
    return column, previous
