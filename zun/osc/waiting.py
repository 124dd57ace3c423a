# SPDX-License-Identifier: Apache-2.0
"""Implement ``--wait``: wait until a request has succeeded or failed, with a progress bar on a terminal."""

import itertools
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TextIO

from osc_lib import exceptions
from zunclient import exceptions as zun_exceptions

GONE = "gone"
"""Stands among statuses for: there is no such container any more."""

BUSY = frozenset({"Creating", "Restarting", "Rebuilding", "Deleting"})
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 2.0  # seconds between two looks
QUIET = 60.0  # seconds without progress after which the wait ends
PATIENCE = 10.0  # seconds of nothing but restarts after which the wait ends: the command may yet find what it needs
WIDTH = 30  # characters of the bar
_PERCENT = re.compile(r"\b(\d{1,3}) ?%")


@dataclass(frozen=True, slots=True)
class Seen:
    """The result of one look. ``failed`` is the reason why the request cannot succeed; ``text`` is for people.

    ``stuck`` is a reason as well, if every look finds one for PATIENCE seconds.
    """

    done: bool
    busy: bool = True
    failed: str | None = None
    text: str = ""
    stuck: str | None = None

    @property
    def percent(self) -> int | None:
        found = _PERCENT.search(self.text)
        return min(int(found[1]), 100) if found else None


class Stuck(exceptions.CommandError):
    """The request goes on without end, because its command fails each time."""


def until(client: Any, container: str, *wanted: str, **query: Any) -> Callable[[], Seen]:
    """Return a look at ``container`` (name or uuid): done in one of the statuses ``wanted``, failed in Error."""

    def look() -> Seen:
        try:
            shown = client.containers.get(container, **query)
        except zun_exceptions.NotFound:
            shown = None
        if shown is None or shown.status == "Deleted":  # auto_remove: the row is Deleted before it is gone
            return Seen(GONE in wanted, failed=None if GONE in wanted else f"container {container} is gone")
        status = shown.status or "Creating"
        text = getattr(shown, "status_detail", None) or ""
        if status in wanted:
            return Seen(True)
        busy = status in BUSY or bool(getattr(shown, "task_state", None))
        failed = None
        if status == "Error" and not busy:
            failed = f"container {container} is in status Error: {shown.status_reason or 'no reason is given'}"
        stuck = None
        if status == "Restarting" and getattr(shown, "task_state", None) is None:
            stuck = f"container {container} ends again and again, and its restart policy starts it each time"
            if shown.status_reason:
                stuck = f"{stuck}: {shown.status_reason}"
        return Seen(False, busy, failed, text or f"status {status}", stuck)

    return look


def wait(
    look: Callable[[], Seen],
    title: str,
    *,
    out: TextIO | None = None,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Return when ``look`` reports the request as done.

    :raises CommandError: the request failed, or nothing was busy for QUIET seconds.
    :raises Stuck: every look of PATIENCE seconds found the same obstacle.
    """
    with Bar(title, sys.stderr if out is None else out) as bar:
        lengths = itertools.chain(
            itertools.takewhile(lambda s: s < LONGEST_PAUSE, (FIRST_PAUSE * 1.5**n for n in itertools.count())),
            itertools.repeat(LONGEST_PAUSE),
        )
        since = free = clock()
        for length in lengths:
            seen = look()
            if seen.failed is not None:
                raise exceptions.CommandError(seen.failed)
            if seen.done:
                return
            if seen.stuck is None:
                free = clock()
            elif clock() - free > PATIENCE:
                raise Stuck(seen.stuck)
            if seen.busy:
                since = clock()
            elif clock() - since > QUIET:
                raise exceptions.CommandError(f"nothing has been under way for {QUIET:.0f} seconds ({seen.text})")
            bar.draw(seen)
            pause(length)


class Bar:
    """A line that is redrawn on a terminal and cleared at the end. Without a terminal nothing is drawn."""

    def __init__(self, title: str, out: TextIO) -> None:
        self._title, self._out = title, out
        self._steps = itertools.cycle("|/-\\")
        self._drawn = 0

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_: object) -> None:
        self._write("", end="\r")

    def draw(self, seen: Seen) -> None:
        percent = seen.percent
        if percent is None:
            how_far = f"[{next(self._steps)}]"
        else:
            full = percent * WIDTH // 100
            how_far = f"[{'=' * full}{' ' * (WIDTH - full)}] {percent:3} %"
        self._write(f"{self._title} {how_far} {seen.text}"[:120])

    def _write(self, line: str, end: str = "") -> None:
        if self._out.isatty():
            self._out.write("\r" + line.ljust(self._drawn) + end)
            self._out.flush()
            self._drawn = len(line)
