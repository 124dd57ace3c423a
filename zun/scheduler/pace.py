# SPDX-License-Identifier: Apache-2.0
"""When which part of a table is compared with the database again."""

import contextlib
import math
from collections.abc import Callable, Iterator

PAUSE = 20  # times as long as comparing took: it is no more than a twentieth of the work
LONGEST = 30.0  # seconds, also where the database once took its time: what services reported must not grow old here
SILENCE = 2  # such pauses


class Pace:
    """All hosts once in ``seconds``, or less often where that takes long, ``together`` of them at a time.

    One thread compares at a time; the others may ask what is due.
    """

    def __init__(self, seconds: float, together: int, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self.together = together
        self._compared = float("-inf")  # moves on by a slice's part of the pause with each slice
        self._this_round = 0.0  # seconds that its slices took so far
        self._last_round = 0.0

    def due(self, hosts: int) -> int:
        """How many slices should have been compared again by now."""
        late, pause = self._clock() - self._compared, self._pause()
        return self._slices(hosts) if late >= pause else int(late * self._slices(hosts) / pause)

    def all_are_due(self) -> bool:
        return self._clock() - self._compared >= self._pause()

    def is_silence(self) -> bool:
        """Whether nobody has compared anything for so long that there were no requests."""
        return self._clock() - self._compared > SILENCE * self._pause()

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Inside, all hosts are compared."""
        start = self._clock()
        yield
        self._compared = self._clock()
        self._last_round, self._this_round = self._compared - start, 0.0

    @contextlib.contextmanager
    def slice(self, hosts: int) -> Iterator[None]:
        """Inside, the next slice is compared."""
        start = self._clock()
        self._compared += self._pause() / self._slices(hosts)  # also where it fails: the next attempt has time
        yield
        self._this_round += self._clock() - start

    def end_round(self) -> None:
        """The slice was the last one."""
        self._last_round, self._this_round = self._this_round, 0.0

    def _slices(self, hosts: int) -> int:
        return max(1, math.ceil(hosts / self.together))

    def _pause(self) -> float:
        """Seconds from one comparison of a host to the next."""
        return max(self._seconds, min(PAUSE * self._last_round, LONGEST)) if self._seconds else 0.0
