# SPDX-License-Identifier: Apache-2.0
"""The text that says since when a container is what it is. It is made when it is looked at, so it is never old."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from zun.common.states import Status

_UNITS = ((86400, "days"), (3600, "hours"), (60, "mins"), (1, "seconds"))


def status_detail(row: Mapping[str, Any], now: datetime) -> str | None:
    """The text for a container's row at ``now`` (UTC without a zone), None when there is nothing to say.

    What an operation wrote there itself (how far a pull is) comes first. The forms are Zun's, a trailing blank
    included.
    """
    if row["status_detail"]:
        return str(row["status_detail"])
    match row["status"]:
        case Status.RUNNING:
            return _since("Up {}", row["started_at"], now)
        case Status.PAUSED:
            return _since("Up {} (paused)", row["started_at"], now)
        case Status.STOPPED:
            return _since(f"Exited({row['exit_code']}) {{}} ago ", row["finished_at"], now)
        case Status.CREATED | Status.RESTARTING | Status.DEAD:
            return str(row["status"])
    return None


def age(seconds: float) -> str | None:
    """The largest whole unit only (``3 hours``), None below one second."""
    for size, name in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {name}"
    return None


def _since(text: str, moment: datetime | None, now: datetime) -> str | None:
    if moment is not None and moment.tzinfo is not None:
        moment = moment.replace(tzinfo=None)
    passed = None if moment is None else age((now - moment).total_seconds())
    return None if passed is None else text.format(passed)
