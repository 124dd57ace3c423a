# SPDX-License-Identifier: Apache-2.0
"""How several schedulers keep out of each other's way: each keeps a share of the hosts.

A scheduler looks among its own hosts first. Where the best host is another's, that scheduler is handed the request, so
that as a rule one alone decides about a host. This is advice, never a lock: schedulers that disagree about who is
there cost a refused claim at most.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from zun.common.context import RequestContext
from zun.objects import Container

WORD_SECONDS = 1.0
"""Each scheduler gives a sign of life so often."""

SILENCE_SECONDS = 5 * WORD_SECONDS
"""After so long without one it counts as gone, and the others share its hosts."""


class Messages(Protocol):
    """What of SchedulerAPI is needed here."""

    def scheduler_seen(self, context: RequestContext, *, name: str, leaving: bool) -> None: ...

    def hand_over(
        self, context: RequestContext, container: Container, *, to: str, tried: Mapping[str, str], passed: list[str]
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Shares:
    """Hosts, in the order of their names, dealt to ``names`` in turn. ``rank`` is our place among them."""

    names: tuple[str, ...]
    rank: int

    @property
    def mine(self) -> slice:
        """The rows that are ours."""
        return slice(self.rank, None, len(self.names))

    def other_keeper(self, row: int, passed: Collection[str]) -> str | None:
        """Who keeps the host, unless that is us or one of ``passed``."""
        place = row % len(self.names)
        return None if place == self.rank or self.names[place] in passed else self.names[place]


class Peers:
    """The schedulers that are there, this one always among them. Thread-safe."""

    def __init__(
        self, name: str, messages: Messages | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Without ``messages`` it is the only one."""
        self._name = name
        self._messages = messages
        self._clock = clock
        self._lock = threading.Lock()
        self._until: dict[str, float] = {}

    def seen(self, name: str, *, leaving: bool = False) -> None:
        """Note a sign of life, or the last one."""
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
        """Give a sign of life to the others, or say that there will be no more."""
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
        """Give the request to another scheduler. ``passed`` had it already, this one excepted."""
        assert self._messages is not None, "nobody else was ever seen"
        self._messages.hand_over(context, container, to=to, tried=tried, passed=[*passed, self._name])
