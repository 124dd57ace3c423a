# SPDX-License-Identifier: Apache-2.0
"""Of equally cheap ways to give parts of a request cells of their own, the one with the lowest CPU ids.

Ids are looked at in rising order. As long as one undecided cell has all of them, that cell alone decides: of the parts
it can still get, those with the lowest ids there stay. So most CPUs are never worked out, least of all those of small
parts where a larger one gets all the lowest ids, and no large numbers are compared. Where the ids of cells alternate,
this is soon given up and the cheapest matching decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from zun.topology.cost import mirrored
from zun.topology.matching import cheapest_matching
from zun.topology.threads import lower

CpusOf = Callable[[int, int], int]
"""Mask of the CPUs which a part (row) gets on a cell (column)."""

STEPS_PER_CELL = 5
"""First threads, up to three siblings, and one to spare."""


def lowest_matching(
    ways: Sequence[Sequence[int]], sizes: Sequence[int], masks: Sequence[int], cpus: CpusOf
) -> list[int]:
    """A column for each row, all different, out of those in ``ways``: with the lowest CPUs together.

    There must be such a choice. No row gets more CPUs than its size, which are quickest in falling order. ``masks``
    are the CPUs that a column can give.
    """
    search = _Search(ways, sizes, masks, cpus)
    for _ in range(STEPS_PER_CELL * len(masks)):
        if not search.step():
            return search.first()
    return search.compared()


class _Search:
    """Rows and columns that may still go together, as masks, and one way in which they do."""

    def __init__(
        self, ways: Sequence[Sequence[int]], sizes: Sequence[int], masks: Sequence[int], cpus: CpusOf
    ) -> None:
        self.cpus, self.sizes, self.masks = cpus, sizes, masks
        self.left = list(masks)
        """Ids of a column that were not looked at."""
        self.had = [0] * len(masks)
        """CPUs that each row of a column gets among those that were."""
        self.given: list[dict[int, int]] = [{} for _ in masks]
        self.columns = [sum([1 << column for column in columns]) for columns in ways]
        self.rows = [0] * len(masks)
        for row, columns in enumerate(ways):
            for column in columns:
                self.rows[column] |= 1 << row
        self.free = (1 << len(masks)) - 1
        self.settled = 0
        self.column_of = [-1] * len(ways)
        self.row_of = [-1] * len(masks)
        for row in range(len(ways)):
            self._place(row, 0)
        self._settle()

    def step(self) -> bool:
        """Look at the ids that come next and belong to one cell; False when there is nothing more to decide."""
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
            self.left[column] = 0  # no more ids will tell these rows apart
        return True

    def _lowest(self, column: int, ids: int) -> tuple[int, bool]:
        """The rows that get the lowest of these ids, and whether all of them get the same CPUs.

        One of them has the column now; the others of the best may be such that this leaves some row without.
        """
        given, had = self.given[column], self.had[column]
        rows, best, certain = 0, -1, 0
        whole: set[int] = set()
        for row in _bits(self.rows[column]):
            # Without one of the ids that are certain to be in the best a row cannot be as good.
            if self.sizes[row] - had < certain:
                continue
            mask = given.get(row)
            if mask is None:
                mask = given[row] = self.cpus(row, column)
            here = mask & ids
            if here == best:
                rows |= 1 << row
                whole.add(mask)
            elif (best < 0 or lower(here, best)) and self._give(row, column):
                rows, best, whole = 1 << row, here, {mask}
                missing = ids & ~here
                certain = (here & (missing & -missing) - 1).bit_count() if missing else here.bit_count()
        self.had[column] += best.bit_count()
        return rows, len(whole) == 1

    def _keep(self, column: int, rows: int) -> None:
        """Of the rows of a column keep these."""
        for row in _bits(self.rows[column] & ~rows):
            self.columns[row] ^= 1 << column
        self.rows[column] = rows
        self._settle()

    def _give(self, row: int, column: int) -> bool:
        """Give ``row`` this column and find others for who had it; False (and nothing changed) when there are none."""
        before = self.row_of[column]
        if before == row:
            return True
        saved = self.column_of[:], self.row_of[:], self.free
        free = self.column_of[row]
        self.row_of[free] = -1
        self.free |= 1 << free
        self.row_of[column], self.column_of[row] = row, column
        if self._place(before, 1 << column):
            return True
        self.column_of, self.row_of, self.free = saved
        return False

    def _place(self, row: int, seen: int) -> bool:
        """Find a column for ``row``, moving others; never one of ``seen``."""
        # Breadth first: who gives up which column to whom.
        asked = [(row, -1)]
        for number, (row, _) in enumerate(asked):
            able = self.columns[row] & ~seen
            if free := able & self.free:
                self.free ^= free & -free
                self._move(asked, number, (free & -free).bit_length() - 1)
                return True
            seen |= able
            asked += [(self.row_of[column], number) for column in _bits(able)]
        return False

    def _move(self, asked: Sequence[tuple[int, int]], number: int, column: int) -> None:
        """Give the last one asked this column, and who asked it the column it had, and so on."""
        while number >= 0:
            row, number = asked[number]
            self.row_of[column], self.column_of[row], column = row, column, self.column_of[row]

    def _settle(self) -> None:
        """A row that is the only one for its column is for no other column."""
        while True:
            new = [c for c, rows in enumerate(self.rows) if not rows & (rows - 1) and not self.settled >> c & 1]
            if not new:
                return
            for column in new:
                self.settled |= 1 << column
                only = self.rows[column]
                for other, rows in enumerate(self.rows):
                    if other != column:
                        self.rows[other] = rows & ~only
                self.columns[only.bit_length() - 1] = 1 << column

    def first(self) -> list[int]:
        """Of parts that get the same CPUs whatever they are given, the first ones on the first cells."""
        for column, rows in enumerate(self.rows):
            if rows & (rows - 1):
                self._keep(column, 1 << next(row for row in _bits(self.rows[column]) if self._give(row, column)))
        return self.column_of

    def compared(self) -> list[int]:
        """The same with all ids of a way as one number."""
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
    return tuple([bit for bit in range(mask.bit_length()) if mask >> bit & 1])
