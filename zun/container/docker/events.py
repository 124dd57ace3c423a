# SPDX-License-Identifier: Apache-2.0
"""Docker's event stream, kept open."""

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from docker.types import CancellableStream

from zun.common import exceptions
from zun.container.docker.client import LABEL_HOST, LABEL_UUID, OnEngine
from zun.container.docker.errors import FOREIGN
from zun.container.driver import RESYNC, RuntimeEvent

LOG = logging.getLogger(__name__)

#: What changes a state. Others are left out at the daemon: a health check alone makes three an interval, and
#: the shared pool an update of every container.
ACTIONS = ("start", "die", "oom", "pause", "unpause", "rename", "destroy")
#: Seconds between two attempts. The longest is what a daemon that came back has to wait for its agent; an
#: attempt at a socket nobody listens to costs nothing.
FIRST_DELAY = 0.2
LONGEST_DELAY = 2.0
#: A connection that lasted this many seconds was a good one.
STABLE = 30.0


class DockerEvents(OnEngine):
    def events(self, stop: threading.Event) -> Iterator[RuntimeEvent]:
        delay, told = FIRST_DELAY, ""
        # From here on Docker repeats what it has buffered, since it answers before it subscribes.
        since = int(time.time())
        while not stop.is_set():
            opened = time.monotonic()
            try:
                stream = self._open(since)
            except exceptions.ZunError as exc:
                if str(exc) != told:  # once, and not at every attempt
                    LOG.warning("No events from Docker, trying again until there are: %s", exc)
                told = str(exc)
            else:
                told = ""
                with _closed_when(stop, stream):
                    yield RuntimeEvent("", RESYNC)
                    for raw in _until_lost(stream):
                        since = raw.get("time", since)
                        if (event := runtime_event(raw)) is not None:
                            yield event
                if not stop.is_set():
                    LOG.warning("Lost the event stream of Docker, connecting again in %s s", delay)
            if time.monotonic() - opened >= STABLE:
                delay = FIRST_DELAY
            stop.wait(delay)
            delay = min(delay * 2, LONGEST_DELAY)

    def _open(self, since: int) -> CancellableStream:
        with self._engine.translated("open the event stream"):
            return self._engine.api.events(
                since=since,
                decode=True,
                filters={
                    "type": "container",
                    "event": list(ACTIONS),
                    "label": f"{LABEL_HOST}={self.settings.host_label}",
                },
            )


def runtime_event(raw: Mapping[str, Any]) -> RuntimeEvent | None:
    """Return Docker's event as ours, None when it is about no container of a row."""
    uuid = ((raw.get("Actor") or {}).get("Attributes") or {}).get(LABEL_UUID)
    action = raw.get("Action") or raw.get("status")
    return RuntimeEvent(uuid, action) if uuid and action in ACTIONS else None


def _until_lost(stream: CancellableStream) -> Iterator[dict[str, Any]]:
    with suppress(*FOREIGN):
        yield from stream


@contextmanager
def _closed_when(stop: threading.Event, stream: CancellableStream) -> Iterator[None]:
    """Inside, ``stream`` ends once ``stop`` is set: only another thread can wake a blocked read."""
    left = threading.Event()

    def watch() -> None:
        # Two events cannot be waited for at once; the pause only bounds how long the thread outlives the
        # stream.
        while not stop.wait(1.0):
            if left.is_set():
                return
        close()

    def close() -> None:
        # The stream may have ended by itself and taken its socket along.
        with suppress(OSError, AttributeError, ValueError):
            stream.close()

    threading.Thread(target=watch, name="docker-events-stop", daemon=True).start()
    try:
        yield
    finally:
        left.set()
        close()
