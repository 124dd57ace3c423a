# SPDX-License-Identifier: Apache-2.0
"""Decide when which part of a host table is compared with the database again."""

import contextlib
import math
from collections.abc import Callable, Iterator

PAUSE = 20  # the pause is 20 times as long as the comparison, so comparing takes at most 1/20 of the time
LONGEST = 30.0  # seconds; even after a slow comparison, heartbeats in the table must not look expired
SILENCE = 2  # pauses


class Pace:
    """The schedule of comparisons: all hosts once in ``seconds``, in slices of ``together`` hosts.

    If a round over all hosts takes long, the next round comes later: after a round of 0.5 s, the pause is 10 s. One
    thread compares at a time. Other threads may ask which comparisons are due.
    """

    def __init__(self, seconds: float, together: int, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self.together = together
        self._compared = float("-inf")  # time; grows by (pause / number of slices) with each slice
        self._this_round = 0.0  # seconds that the slices of this round took so far
        self._last_round = 0.0

    def due(self, hosts: int) -> int:
        """Return the number of slices that are due: 3 of 10 after 30 % of the pause."""
        late, pause = self._clock() - self._compared, self._pause()
        return self._slices(hosts) if late >= pause else int(late * self._slices(hosts) / pause)

    def all_are_due(self) -> bool:
        return self._clock() - self._compared >= self._pause()

    def is_silence(self) -> bool:
        """Return whether the last comparison is so long ago that no requests can have come since."""
        return self._clock() - self._compared > SILENCE * self._pause()

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Measure the comparison of all hosts, which is the body of the ``with`` block."""
        start = self._clock()
        yield
        self._compared = self._clock()
        self._last_round, self._this_round = self._compared - start, 0.0

    @contextlib.contextmanager
    def slice(self, hosts: int) -> Iterator[None]:
        """Measure the comparison of the next slice, which is the body of the ``with`` block."""
        start = self._clock()
        self._compared += self._pause() / self._slices(hosts)  # before the comparison: a failed slice waits too
        yield
        self._this_round += self._clock() - start

    def end_round(self) -> None:
        """Note that the last slice of the round has been compared."""
        self._last_round, self._this_round = self._this_round, 0.0

    def _slices(self, hosts: int) -> int:
        return max(1, math.ceil(hosts / self.together))

    def _pause(self) -> float:
        """Return the seconds from one comparison of a host to its next comparison."""
        return max(self._seconds, min(PAUSE * self._last_round, LONGEST)) if self._seconds else 0.0
