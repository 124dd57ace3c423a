# SPDX-License-Identifier: Apache-2.0
"""Tell why a container does not run: the exit code of its command, and the end of its log."""

import re
import time
from collections.abc import Callable
from typing import Any

from zunclient import exceptions as zun_exceptions

LINES = 10  # of the log
_EXITED = re.compile(r"Exited\((\d+)\)")  # in status_detail of a stopped container
_RESTARTS = re.compile(r"exit code (\d+)")  # in status_reason of one that its restart policy starts again
_LOOKS, _PAUSE = 6, 0.3  # the service tells the code from the first whole second after the end on


def exit_code(client: Any, uuid: str, *, pause: Callable[[float], None] = time.sleep) -> int | None:
    """Return the exit code of the container's command, or None if it runs, is gone, or the service does not tell."""
    for look in range(_LOOKS):
        if look:
            pause(_PAUSE)
        try:
            container = client.containers.get(uuid)
        except zun_exceptions.NotFound:
            return None
        if container.status == "Restarting":
            again = _RESTARTS.search(container.status_reason or "")
            return int(again[1]) if again else None
        if container.status not in ("Stopped", "Dead"):
            return None
        found = _EXITED.match(getattr(container, "status_detail", None) or "")
        if found:
            return int(found[1])
    return None


def log_of(client: Any, uuid: str) -> str:
    """Return the last lines of the container's log with a title, or why there are none."""
    try:
        log = client.containers.logs(uuid, stdout=True, stderr=True, tail=str(LINES))
    except zun_exceptions.ClientException as exc:
        return f"Its log cannot be read: {exc}"
    lines = str(log or "").splitlines()[-LINES:]
    return "\n".join(["The end of its log:", *(f"  {line}" for line in lines)]) if lines else "Its log is empty."
