# SPDX-License-Identifier: Apache-2.0
"""Parse the part of a log that a client asks for: ``tail`` and ``since``."""

from datetime import UTC, datetime

from zun.common import exceptions

TIME_FORMAT = "%Y-%m-%d %H:%M:%S,%f"  # UTC


def tail_lines(tail: str | int | None) -> int | str:
    """Return a number of lines, or "all" for anything that is not a number."""
    try:
        lines = int(tail)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "all"
    return lines if lines >= 0 else "all"


def since_epoch(since: str | int | float | None) -> float | None:
    """Return epoch seconds, or None for the beginning of the log. Raises InvalidValue for text in neither format."""
    if since is None or since == "":
        return None
    try:
        seconds = float(since)
    except ValueError:
        try:
            moment = datetime.strptime(str(since), TIME_FORMAT)
        except ValueError as exc:
            raise exceptions.InvalidValue(
                f"'{since}' is not a time. Give epoch seconds or 'YYYY-MM-DD HH:MM:SS,mmm' in UTC."
            ) from exc
        seconds = moment.replace(tzinfo=UTC).timestamp()
    # "nan" is a float to Python; no comparison with it holds.
    return seconds if seconds > 0 else None
