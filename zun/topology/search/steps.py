# SPDX-License-Identifier: Apache-2.0
"""The limit on the work of one plan. Steps are counted, not time, so equal questions get equal answers everywhere.

A step is about the work of one branch of a search over 16 cells: a few microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

STEPS = 50_000
"""Steps of one plan. Trying every choice of 8 of 16 cells takes 48,619 steps."""

FURTHER_STEPS = 50_000
"""Steps of all plans together that word one refusal, find its nearest request, or find its smallest changes."""


class Steps:
    """The steps left to one plan, shared by all its searches."""

    __slots__ = ("_first", "_kept", "cut", "left")

    def __init__(self, left: int = STEPS) -> None:
        self.left = self._first = left
        self._kept = 0
        self.cut = False
        """True if a search left something out for lack of steps. Then its answer is not proven."""

    def spend(self, steps: int) -> bool:
        """Take off some steps. If they are used up, note that and return False: the search must end."""
        self.left -= steps
        if self.left < self._kept:
            self.cut = True
            return False
        return True

    @property
    def spent(self) -> int:
        """Return the steps taken off so far, also those beyond the limit."""
        return self._first - self.left

    @property
    def over(self) -> bool:
        """Return whether the steps are used up."""
        return self.left <= self._kept

    @contextmanager
    def keeping(self, share: float) -> Iterator[None]:
        """Keep this share of the steps left for later searches. Example: 0.75."""
        before = self._kept
        self._kept = max(before, before + int((self.left - before) * share))
        try:
            yield
        finally:
            self._kept = before
