# SPDX-License-Identifier: Apache-2.0
"""The cheapest assignment of parts of a request to cells, each part to a cell of its own.

Parts are the rows of a table of costs, cells are its columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Costs = Sequence[Sequence[int | None]]
"""Costs by row and column; None if the part cannot be on the cell."""


class Matching(NamedTuple):
    """An assignment of every row to a column of its own at the least total cost, and the prices that prove it."""

    cost: int
    columns: list[int]
    """Column of each row."""
    row_prices: list[int]
    column_prices: list[int]
    """The price of a row plus the price of a column is at most the cost of the two, and equal to it if they match.
    So all prices together are the total cost. If columns are left over, these have price 0 and no column has more."""


def column_bounds(costs: Costs, matching: Matching) -> list[int]:
    """Return by column the highest price that no row exceeds: a lower bound on what the column adds to a matching.

    A matching of every row on any columns costs at least the row prices of ``matching`` plus the bounds of these
    columns. For a column that ``matching`` leaves out, the bound tells how much worse the column is; its price is
    only 0. Every column of ``costs`` needs a cost in some row.
    """
    return [
        min([cost - own for cost, own in zip(column, matching.row_prices, strict=True) if cost is not None])
        for column in zip(*costs, strict=True)
    ]


Prices = tuple[list[int], list[int]]
"""Prices of rows and prices of columns."""


def cheapest_matching(costs: Costs, prices: Prices | None = None) -> Matching | None:
    """Return the cheapest matching, or None if some row cannot have a column.

    A matching is cheapest exactly if each of its pairs costs what its row and column prices add up to.

    ``prices`` to begin with save work if they are nearly right; the lists are changed in place. Then there must be as
    many rows as columns, and a row price plus a column price must not exceed the cost of the two.

    The method is shortest augmenting paths with potentials (Jonker and Volgenant). Time grows with the cube of the
    size. Integers make the result exact.
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
    """Return prices whose sums exceed no cost, or None if a row, or a column that must be used, has no cost.

    A column that is left over at the end must have price 0. So columns begin with their least cost only if all
    columns are used.
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
    """Match each row, in order, with the first free column at its price. Return the rows without such a column."""
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
"""The last column of a path, and by column (row that reached the column, earlier column of that row or -1)."""


def _follow(path: Path, row_of: list[int]) -> None:
    """Give each column of the path to the row that reached it."""
    column, previous = path
    while column >= 0:
        row_of[column], column = previous[column]


def _augmenting_path(
    costs: Costs, start: int, row_of: list[int], prices: Prices
) -> Path | None:
    """Return the cheapest path from the row ``start`` to a column without a row, and update the prices."""
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
