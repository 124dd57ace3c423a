# SPDX-License-Identifier: Apache-2.0
"""The outside effects of an action, in their order, and the faults that one of them may meet."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from oslo_db import exception as db_exc

from zun.common import exceptions
from zun.tests.functional.simulation import Killed


class Part(StrEnum):
    """The part of the world that has the effect."""

    RUNTIME = "runtime"
    NETWORK = "network"
    VOLUME = "volume"
    DATABASE = "database"
    LEDGER = "ledger"
    API = "api"
    """A transaction of the API. The API is another process than the agent."""
    MESSAGE = "message"
    """From the API to the agent, from the agent to the schedulers, or an event of the runtime."""


class Fault(StrEnum):
    KILLED = "killed"
    """The process ends before the effect. The next process finds what was there."""
    EXCEPTION = "exception"
    """An error that nobody expects, in the place of the effect."""
    AWAY = "away"
    """The part does not answer, from this effect to the end of the work."""
    UNANSWERED = "unanswered"
    """The effect takes place, and the caller gets an error."""
    REPEATED = "repeated"
    """The answer is lost, and the caller asks again."""
    LOST = "lost"
    DOUBLED = "doubled"
    LATE = "late"
    """The message arrives when everything else has been done and compared."""


#: Faults of an effect by the part that has it. A kill before a read leaves what a kill before the next write leaves;
#: the lost answer of a read is a part that was away: neither is a cell.
WRITES: dict[Part, tuple[Fault, ...]] = {
    Part.RUNTIME: (Fault.KILLED, Fault.EXCEPTION, Fault.AWAY, Fault.UNANSWERED),
    Part.NETWORK: (Fault.KILLED, Fault.EXCEPTION, Fault.AWAY, Fault.UNANSWERED),
    Part.VOLUME: (Fault.KILLED, Fault.EXCEPTION, Fault.AWAY, Fault.UNANSWERED),
    Part.DATABASE: (Fault.KILLED, Fault.EXCEPTION, Fault.AWAY, Fault.UNANSWERED, Fault.REPEATED),
    Part.LEDGER: (Fault.KILLED, Fault.EXCEPTION, Fault.AWAY),
    Part.API: (Fault.KILLED,),
    Part.MESSAGE: (Fault.LOST, Fault.DOUBLED, Fault.LATE),
}
READS = (Fault.EXCEPTION, Fault.AWAY)

_AWAY: dict[Part, Callable[[], Exception]] = {
    Part.RUNTIME: lambda: exceptions.Unavailable("The runtime does not answer."),
    Part.NETWORK: lambda: exceptions.DockerError("The runtime does not answer."),
    Part.VOLUME: lambda: exceptions.VolumeError("The storage does not answer."),
    Part.DATABASE: lambda: db_exc.DBConnectionError(exceptions.Unavailable("The database does not answer.")),
    Part.LEDGER: lambda: exceptions.ClaimRefused(reason="Placement does not answer."),
}


@dataclass(frozen=True, slots=True)
class Effect:
    part: Part
    name: str
    writes: bool

    @property
    def faults(self) -> tuple[Fault, ...]:
        return WRITES[self.part] if self.writes else READS

    def __str__(self) -> str:
        return f"{self.part} {self.name}"


class Effects:
    """Counts effects, and lets the one with the number ``at`` meet ``fault``.

    ``happened`` are all effects so far, ``done`` the changes of the runtime that took place.
    """

    def __init__(self, marks: Callable[[], object]) -> None:
        """``marks`` gives a value that is another one after each change of anything outside."""
        self._marks = marks
        self.begin()
        self.open = False

    def begin(self, at: int | None = None, fault: Fault | None = None) -> None:
        self.open, self.at, self.fault = True, at, fault
        self.happened: list[Effect] = []
        self.done: list[str] = []
        self._away: Part | None = None

    def end(self) -> None:
        """From now on nothing more goes wrong."""
        self.open, self._away = False, None

    def perform(self, part: Part, name: str, what: Callable[[], Any], again: Callable[[], Any] | None = None) -> Any:
        """Do what has the effect. ``again`` does it once more for a caller that got no answer."""
        fault = self._fault_of_next() if self.open else None
        if fault is Fault.AWAY:
            self._away = part
        if part is self._away:
            self._note(part, name, writes=False)
            raise _AWAY[part]()
        if fault in (Fault.KILLED, Fault.EXCEPTION):
            self._note(part, name, writes=False)
            raise Killed if fault is Fault.KILLED else RuntimeError(f"{name} met an error that nobody expects.")
        before = self._marks() if self.open else None
        number = self._note(part, name, writes=False)
        answer = what()
        if before is not None and (part is Part.API or before != self._marks()):
            self.happened[number] = Effect(part, name, writes=True)
            if part is Part.RUNTIME:
                self.done.append(name)
        if fault is Fault.UNANSWERED:
            raise _AWAY[part]()
        return again() if fault is Fault.REPEATED and again is not None else answer

    def message(self, name: str, arrive: Callable[[], None], later: Callable[[], None]) -> None:
        """Let a message ``arrive`` once, unless it meets a fault. ``later`` keeps it for the end."""
        fault = self._fault_of_next() if self.open else None
        if self.open:
            self._note(Part.MESSAGE, name, writes=True)
        if fault is Fault.LATE:
            later()
        elif fault is not Fault.LOST:
            arrive()
            if fault is Fault.DOUBLED:
                arrive()

    def _fault_of_next(self) -> Fault | None:
        return self.fault if len(self.happened) == self.at else None

    def _note(self, part: Part, name: str, *, writes: bool) -> int:
        if self.open:
            self.happened.append(Effect(part, name, writes))
        return len(self.happened) - 1


class Watched:
    """A part of the world whose ``methods`` are effects of the agent."""

    def __init__(self, target: Any, methods: frozenset[str], perform: Callable[[str, Callable[[], Any]], Any]) -> None:
        self._target, self._methods, self._perform = target, methods, perform

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if name not in self._methods:
            return found
        return lambda *arguments, **named: self._perform(name, lambda: found(*arguments, **named))


def methods_of(protocol: type) -> frozenset[str]:
    """Return the names of the methods of a Protocol and of those it is made of."""
    members = ((name, value) for each in protocol.__mro__ for name, value in vars(each).items())
    return frozenset(name for name, value in members if callable(value) and not name.startswith("_"))


@contextmanager
def nothing_more(effects: Effects) -> Iterator[None]:
    """In the block nothing is an effect: somebody else acts."""
    before, effects.open = effects.open, False
    try:
        yield
    finally:
        effects.open = before
