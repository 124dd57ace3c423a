# SPDX-License-Identifier: Apache-2.0
"""Another compute service that reports under this one's name."""

ENOUGH = 3
"""Signs of life of somebody else until there is no doubt: one may be our own, whose answer was lost and came again."""


class Namesakes:
    """Counts the signs of life that are not ours, by how far the common count is ahead of our own."""

    def __init__(self) -> None:
        self._last: int | None = None
        self._others = 0

    def seen(self, count: int | None) -> bool:
        """Whether there is another one, as ``count`` says that we got for our own sign of life. Now and then again
        while it is there."""
        if count is None:
            return False
        between = 0 if self._last is None else count - self._last - 1
        self._last = count
        self._others = self._others + between if between > 0 else max(0, self._others - 1)
        if self._others < ENOUGH:
            return False
        self._others = 0
        return True
