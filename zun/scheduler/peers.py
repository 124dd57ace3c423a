# SPDX-License-Identifier: Apache-2.0
"""Divide the hosts among several schedulers, so that two of them rarely choose the same host.

A scheduler looks among its own hosts first. If the best host belongs to another scheduler, the request is handed to
that scheduler. So normally one scheduler alone decides about a host. The shares are advice, not locks: if schedulers
disagree about their peers, a host refuses a claim at worst.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from zun.common.context import RequestContext
from zun.objects import Container

WORD_SECONDS = 1.0
"""Interval between two heartbeats of a scheduler."""

SILENCE_SECONDS = 5 * WORD_SECONDS
"""A scheduler without a heartbeat for this long counts as gone, and the others share its hosts."""


class Messages(Protocol):
    """The methods of SchedulerAPI that ``Peers`` uses."""

    def scheduler_seen(self, context: RequestContext, *, name: str, leaving: bool) -> None: ...

    def hand_over(
        self, context: RequestContext, container: Container, *, to: str, tried: Mapping[str, str], passed: list[str]
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Shares:
    """The shares of all schedulers: hosts, sorted by name, are dealt to ``names`` in turn.

    ``rank`` is the index of this scheduler. With two schedulers a and b, rows 0, 2, 4 belong to a, rows 1, 3, 5 to b.
    """

    names: tuple[str, ...]
    rank: int

    @property
    def mine(self) -> slice:
        """The rows of this scheduler: ``1::2`` for the second of two schedulers."""
        return slice(self.rank, None, len(self.names))

    def other_keeper(self, row: int, passed: Collection[str]) -> str | None:
        """Return the scheduler that keeps the host, or None if it is this scheduler or one of ``passed``."""
        place = row % len(self.names)
        return None if place == self.rank or self.names[place] in passed else self.names[place]


class Peers:
    """The running schedulers, always including this one. Thread-safe."""

    def __init__(
        self, name: str, messages: Messages | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start with this scheduler alone. Without ``messages`` it sends no heartbeats and stays alone."""
        self._name = name
        self._messages = messages
        self._clock = clock
        self._lock = threading.Lock()
        self._until: dict[str, float] = {}

    def seen(self, name: str, *, leaving: bool = False) -> None:
        """Note a heartbeat of the scheduler ``name``. If ``leaving``, the scheduler is about to stop."""
        with self._lock:
            if leaving:
                self._until.pop(name, None)
            else:
                self._until[name] = self._clock() + SILENCE_SECONDS

    def shares(self) -> Shares:
        now = self._clock()
        with self._lock:
            if any(until < now for until in self._until.values()):
                self._until = {name: until for name, until in self._until.items() if until >= now}
            names = tuple(sorted({*self._until, self._name}))
        return Shares(names, names.index(self._name))

    def tell(self, context: RequestContext, *, leaving: bool = False) -> None:
        """Send a heartbeat to the other schedulers. If ``leaving``, tell them that this scheduler stops."""
        if self._messages is not None:
            self._messages.scheduler_seen(context, name=self._name, leaving=leaving)

    def hand_over(
        self,
        context: RequestContext,
        container: Container,
        *,
        to: str,
        tried: Mapping[str, str],
        passed: Collection[str],
    ) -> None:
        """Hand the request to the scheduler ``to``. ``passed`` are the schedulers that had it before this one."""
        assert self._messages is not None, "nobody else was ever seen"
        self._messages.hand_over(context, container, to=to, tried=tried, passed=[*passed, self._name])
