# SPDX-License-Identifier: Apache-2.0
"""The assignment of parts to cells that has the lowest CPU ids among equally cheap ones.

CPU ids are looked at in rising order. The next ids belong to one undecided cell, and that cell alone decides: of the
parts that it can still get, only the parts with the lowest ids there stay. So the CPUs of most pairs of part and cell
are never computed. If the ids of cells alternate, each look decides little. After a few looks a cheapest matching over
the CPUs as numbers decides instead.

Parts are rows, cells are columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from zun.topology.masks import lower, mirrored
from zun.topology.search.matching import cheapest_matching

CpusOf = Callable[[int, int], int]
"""Returns the CPUs (mask) that a part (row) gets on a cell (column)."""

STEPS_PER_CELL = 5
"""Looks at each cell before numbers decide: first threads, up to three siblings, and one to spare."""


def lowest_matching(
    ways: Sequence[Sequence[int]], columns: Sequence[int], sizes: Sequence[int], masks: Sequence[int], cpus: CpusOf
) -> list[int]:
    """Return a column of its own for each row so that the CPUs of all rows together have the lowest ids.

    ``ways`` are the columns that each row may have, ``columns`` is one valid choice. No row gets more CPUs than its
    size; falling sizes are quickest. ``masks`` are the CPUs that each column can give.
    """
    search = _Search(ways, columns, sizes, masks, cpus)
    for _ in range(STEPS_PER_CELL * len(masks)):
        if not search.step():
            return search.first()
    return search.compared()


class _Search:
    """The pairs of row and column that are still possible, as masks, and one valid choice.

    Every possible pair is part of some valid choice.
    """

    def __init__(
        self,
        ways: Sequence[Sequence[int]],
        columns: Sequence[int],
        sizes: Sequence[int],
        masks: Sequence[int],
        cpus: CpusOf,
    ) -> None:
        self.cpus, self.sizes, self.masks = cpus, sizes, masks
        self.left = list(masks)
        """By column, the CPUs (mask) not looked at."""
        self.had = [0] * len(masks)
        """By column, how many of the CPUs looked at each of its rows gets."""
        self.given: list[dict[int, int]] = [{} for _ in masks]
        self.columns = [sum([1 << column for column in able]) for able in ways]
        self.rows = [0] * len(masks)
        for row, able in enumerate(ways):
            for column in able:
                self.rows[column] |= 1 << row
        self.column_of, self.row_of = [*columns], [0] * len(masks)
        for row, column in enumerate(columns):
            self.row_of[column] = row
        self._prune()

    def _prune(self) -> None:
        """Drop each pair of row and column that no valid choice has.

        A row can take a column only if the row that has it now can move on, and so on, back to the first row's column.
        """
        moved = [1 << row for row in range(len(self.columns))]
        """By row, the rows (mask) that may have to move if this row moves, itself included."""
        able = [row for row, columns in enumerate(self.columns) if columns & (columns - 1)]
        for row in able:
            for column in _bits(self.columns[row]):
                moved[row] |= 1 << self.row_of[column]
        for row in able:
            bit, more = 1 << row, moved[row]
            for other in able:
                if moved[other] & bit:
                    moved[other] |= more
        for column, row in enumerate(self.row_of):
            if never := self.rows[column] & ~moved[row]:
                self.rows[column] ^= never
                for other in _bits(never):
                    self.columns[other] ^= 1 << column

    def step(self) -> bool:
        """Look at the next ids, which belong to one cell. Return False if nothing is left to decide."""
        open_columns = sorted([
            (left & -left, column)
            for column, (left, rows) in enumerate(zip(self.left, self.rows, strict=True))
            if left and rows & (rows - 1)
        ])
        if not open_columns:
            return False
        column = open_columns[0][1]
        ids = self.left[column]
        if len(open_columns) > 1:
            ids &= open_columns[1][0] - 1
        self.left[column] ^= ids
        rows, alike = self._lowest(column, ids)
        if rows != self.rows[column]:
            self._keep(column, rows)
        if alike:
            self.left[column] = 0  # these rows get the same CPUs, so further ids decide nothing
        return True

    def _lowest(self, column: int, ids: int) -> tuple[int, bool]:
        """Return the rows (mask) that get the lowest of these ids, and whether all of them get the same CPUs."""
        given, had = self.given[column], self.had[column]
        rows, best, certain = 0, -1, 0
        whole: set[int] = set()
        for row in _bits(self.rows[column]):
            # A row too small for all ids that the best row surely has cannot be as good.
            if self.sizes[row] - had < certain:
                continue
            mask = given.get(row)
            if mask is None:
                mask = given[row] = self.cpus(row, column)
            here = mask & ids
            if here == best:
                rows |= 1 << row
                whole.add(mask)
            elif best < 0 or lower(here, best):
                rows, best, whole = 1 << row, here, {mask}
                missing = ids & ~here
                certain = (here & (missing & -missing) - 1).bit_count() if missing else here.bit_count()
        self.had[column] += best.bit_count()
        return rows, len(whole) == 1

    def _keep(self, column: int, rows: int) -> None:
        """Keep only these rows (mask) for a column."""
        for row in _bits(self.rows[column] & ~rows):
            self.columns[row] ^= 1 << column
        self.rows[column] = rows
        if not rows >> self.row_of[column] & 1:
            self._give(rows.bit_length() - 1, column)
        self._prune()

    def _give(self, row: int, column: int) -> None:
        """Give ``row`` this column, its former row another column, and so on, up to the column that ``row`` had."""
        last, asked, seen = self.column_of[row], [(self.row_of[column], -1)], 1 << column
        self.row_of[column], self.column_of[row] = row, column
        # Breadth first, each entry: a row that loses its column, and the entry whose row takes that column.
        for number, (other, _) in enumerate(asked):
            able = self.columns[other] & ~seen
            if able >> last & 1:
                break
            seen |= able
            asked += [(self.row_of[column], number) for column in _bits(able)]
        column = last
        while number >= 0:
            row, number = asked[number]
            self.row_of[column], self.column_of[row], column = row, column, self.column_of[row]

    def first(self) -> list[int]:
        """Put rows whose order does not matter on the first columns, and return the column of each row."""
        for column, rows in enumerate(self.rows):
            if rows & (rows - 1):
                self._keep(column, rows & -rows)
        return self.column_of

    def compared(self) -> list[int]:
        """Return the column of each row, by a cheapest matching over the CPUs as numbers."""
        width = max(1, *(mask.bit_length() for mask in self.masks))
        table: list[list[int | None]] = [
            [-mirrored(self.cpus(row, c), width) if columns >> c & 1 else None for c in range(len(self.masks))]
            for row, columns in enumerate(self.columns)
        ]
        found = cheapest_matching(table)
        assert found is not None, "there is a way"
        return found.columns


@lru_cache(maxsize=1024)
def _bits(mask: int) -> tuple[int, ...]:
    """Return the positions of the bits of ``mask``: (0, 2) for 0b101."""
    return tuple([bit for bit in range(mask.bit_length()) if mask >> bit & 1])
