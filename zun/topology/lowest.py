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
    ways: Sequence[Sequence[int]], columns: Sequence[int], sizes: Sequence[int], masks: Sequence[int], cpus: CpusOf
) -> list[int]:
    """A column for each row, all different, out of those in ``ways``: with the lowest CPUs together.

    ``columns`` is one such choice, of all columns. No row gets more CPUs than its size, which are quickest in falling
    order. ``masks`` are the CPUs that a column can give.
    """
    search = _Search(ways, columns, sizes, masks, cpus)
    for _ in range(STEPS_PER_CELL * len(masks)):
        if not search.step():
            return search.first()
    return search.compared()


class _Search:
    """Rows and columns that may still go together, as masks, and one way in which they do.

    Each two that may are together in some way.
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
        """Ids of a column that were not looked at."""
        self.had = [0] * len(masks)
        """CPUs that each row of a column gets among those that were."""
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
        """Of the rows of a column keep those for which whoever has it now can go elsewhere: the others never get it."""
        moved = [1 << row for row in range(len(self.columns))]
        """For each row those that must move when it does, it among them: who has what it may take, and so on."""
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
        """The rows that get the lowest of these ids, and whether all of them get the same CPUs."""
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
            elif best < 0 or lower(here, best):
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
        if not rows >> self.row_of[column] & 1:
            self._give(rows.bit_length() - 1, column)
        self._prune()

    def _give(self, row: int, column: int) -> None:
        """Give ``row`` this column, and whoever had it another, and so on, up to the column that ``row`` had."""
        last, asked, seen = self.column_of[row], [(self.row_of[column], -1)], 1 << column
        self.row_of[column], self.column_of[row] = row, column
        # Breadth first: who gives up which column to whom.
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
        """Of parts that get the same CPUs whatever they are given, the first ones on the first cells."""
        for column, rows in enumerate(self.rows):
            if rows & (rows - 1):
                self._keep(column, rows & -rows)
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
