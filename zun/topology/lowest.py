# SPDX-License-Identifier: Apache-2.0
"""Of equally cheap ways to give parts of a request cells of their own, the one with the lowest CPU ids.

Ids are looked at in rising order. As long as one undecided cell has all of them, that cell alone decides: of the parts
it can still get, those with the lowest ids there stay. So most CPUs are never worked out, and no large numbers
are compared. Where the ids of cells alternate, this is soon given up and the cheapest matching decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zun.topology.cost import mirrored
from zun.topology.matching import cheapest_matching
from zun.topology.threads import lower

CpusOf = Callable[[int, int], int]
"""Mask of the CPUs which a part (row) gets on a cell (column)."""

STEPS_PER_CELL = 3
"""First threads, their siblings, and one to spare."""


def lowest_matching(ways: Sequence[Sequence[int]], masks: Sequence[int], cpus: CpusOf) -> list[int]:
    """A column for each row, all different, out of those in ``ways``: with the lowest CPUs together.

    There must be such a choice. ``masks`` are the CPUs that a column can give.
    """
    search = _Search(ways, masks, cpus)
    for _ in range(STEPS_PER_CELL * len(masks)):
        if not search.step():
            return search.first()
    return search.compared()


class _Search:
    def __init__(self, ways: Sequence[Sequence[int]], masks: Sequence[int], cpus: CpusOf) -> None:
        self.cpus, self.masks = cpus, masks
        self.left = list(masks)
        self.rows = [{r for r, columns in enumerate(ways) if c in columns} for c in range(len(masks))]
        self.settled: set[int] = set()
        self.column_of = [-1] * len(ways)
        self.row_of = [-1] * len(masks)
        for row in range(len(ways)):
            self._place(row, set())
        self._settle()

    def step(self) -> bool:
        """Look at the ids that come next and belong to one cell; False when there is nothing more to decide."""
        open_columns = [(self.left[c] & -self.left[c], c) for c, rows in enumerate(self.rows) if len(rows) > 1]
        open_columns = sorted(entry for entry in open_columns if entry[0])
        if not open_columns:
            return False
        column = open_columns[0][1]
        ids = self.left[column]
        if len(open_columns) > 1:
            ids &= open_columns[1][0] - 1
        self.left[column] ^= ids
        found = {row: self.cpus(row, column) & ids for row in self.rows[column]}
        self.rows[column] = self._lowest(column, found)
        if len(self.rows[column]) < len(found):
            self._settle()
        return True

    def _lowest(self, column: int, found: dict[int, int]) -> set[int]:
        """The rows that have the lowest ids and leave the others a column each."""
        while True:
            best = -1
            for mask in found.values():
                if best < 0 or lower(mask, best):
                    best = mask
            rows = {row for row, mask in found.items() if mask == best}
            stay = rows if len(rows) == len(found) else {row for row in rows if self._give(row, column)}
            if stay:
                return stay
            for row in rows:
                del found[row]

    def _give(self, row: int, column: int) -> bool:
        """Give ``row`` this column and find others for who had it; False (and nothing changed) when there are none."""
        before, free = self.row_of[column], self.column_of[row]
        if before == row:
            return True
        saved = self.column_of[:], self.row_of[:]
        self.row_of[free] = -1
        self.row_of[column], self.column_of[row] = row, column
        if self._place(before, {column}):
            return True
        self.column_of, self.row_of = saved
        return False

    def _place(self, row: int, seen: set[int]) -> bool:
        """Find a column for ``row``, moving others; never one of ``seen``."""
        able = [column for column, rows in enumerate(self.rows) if row in rows and column not in seen]
        for column in able:
            if self.row_of[column] < 0:
                self.row_of[column], self.column_of[row] = row, column
                return True
        for column in able:
            if column not in seen:
                seen.add(column)
                if self._place(self.row_of[column], seen):
                    self.row_of[column], self.column_of[row] = row, column
                    return True
        return False

    def _settle(self) -> None:
        """A row that is the only one for its column is for no other column."""
        while True:
            new = [c for c, rows in enumerate(self.rows) if len(rows) == 1 and c not in self.settled]
            if not new:
                return
            for column in new:
                self.settled.add(column)
                (row,) = self.rows[column]
                for other, rows in enumerate(self.rows):
                    if other != column:
                        rows.discard(row)

    def first(self) -> list[int]:
        """Of parts that get the same CPUs whatever they are given, the first ones on the first cells."""
        for column, rows in enumerate(self.rows):
            if len(rows) > 1:
                self.rows[column] = {next(row for row in sorted(rows) if self._give(row, column))}
                self._settle()
        return self.column_of

    def compared(self) -> list[int]:
        """The same with all ids of a way as one number."""
        width = max(1, *(mask.bit_length() for mask in self.masks))
        table: list[list[int | None]] = [
            [-mirrored(self.cpus(row, c), width) if row in self.rows[c] else None for c in range(len(self.masks))]
            for row in range(len(self.column_of))
        ]
        found = cheapest_matching(table)
        assert found is not None, "there is a way"
        return found[1]
