# SPDX-License-Identifier: Apache-2.0
"""The text that tells for how long a container has had its status. It is made at each request, so it is never old."""

from collections.abc import Mapping, Set
from datetime import datetime, timedelta

from zun.common.states import Status

_UNITS = ((86400, "days"), (3600, "hours"), (60, "mins"), (1, "seconds"))
_UP: Mapping[str, str] = {Status.RUNNING: "Up {}", Status.PAUSED: "Up {} (paused)"}
_ITSELF: Set[str] = frozenset({Status.CREATED, Status.RESTARTING, Status.DEAD})


def status_detail(
    written: str | None,
    status: str,
    started_at: datetime | None,
    finished_at: datetime | None,
    exit_code: int | None,
    now: datetime,
) -> str | None:
    """Return the text for a container at ``now`` (UTC without a zone), or None.

    A text that an operation wrote itself, such as the progress of a pull, comes first. The forms are Zun's, with a
    trailing blank.
    """
    if written:
        return written
    if status in _UP:
        return _since(_UP[status], started_at, now)
    if status == Status.STOPPED:
        return _since(f"Exited({exit_code}) {{}} ago ", finished_at, now)
    return status if status in _ITSELF else None


def age(passed: timedelta) -> str | None:
    """Return the largest whole unit only (``3 hours``), or None below one second."""
    seconds = passed.days * 86400 + passed.seconds
    for size, name in _UNITS:
        if seconds >= size:
            return f"{seconds // size} {name}"
    return None


def _since(text: str, moment: datetime | None, now: datetime) -> str | None:
    if moment is None:
        return None
    if moment.tzinfo is not None:
        moment = moment.replace(tzinfo=None)
    passed = age(now - moment)
    return None if passed is None else text.format(passed)
