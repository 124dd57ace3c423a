# SPDX-License-Identifier: Apache-2.0
"""Read Docker's event stream, and connect again whenever it is lost."""

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from docker import APIClient
from docker.types import CancellableStream

from zun.common import exceptions
from zun.container.docker.client import LABEL_HOST, LABEL_UUID, OnEngine
from zun.container.docker.errors import FOREIGN
from zun.container.driver.events import RESYNC, RuntimeEvent

LOG = logging.getLogger(__name__)

#: Actions that change a status. The daemon filters out all others: a health check alone makes three events an
#: interval, and the shared pool one update event for every container.
ACTIONS = ("start", "die", "oom", "pause", "unpause", "rename", "destroy")
#: Seconds between two attempts to connect. LONGEST_DELAY bounds how late the agent notices a daemon that came back.
FIRST_DELAY = 0.2
LONGEST_DELAY = 2.0
#: Seconds after which a connection was good, so that the next delay is FIRST_DELAY again.
STABLE = 30.0


class DockerEvents(OnEngine):
    def events(self, stop: threading.Event) -> Iterator[RuntimeEvent]:
        delay, told = FIRST_DELAY, ""
        # Docker answers before it subscribes. With ``since`` it sends the events between the two from its buffer.
        since = int(time.time())
        while not stop.is_set():
            opened = time.monotonic()
            try:
                api = self._engine.api
                stream = self._open(api, since)
            except exceptions.ZunError as exc:
                if str(exc) != told:  # a new reason: log it once
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
                    self._engine.forget(api)  # it may be upgraded, or set up anew
            if time.monotonic() - opened >= STABLE:
                delay = FIRST_DELAY
            stop.wait(delay)
            delay = min(delay * 2, LONGEST_DELAY)

    def _open(self, api: APIClient, since: int) -> CancellableStream:
        with self._engine.translated("open the event stream"):
            return api.events(
                since=since,
                decode=True,
                filters={
                    "type": "container",
                    "event": list(ACTIONS),
                    "label": f"{LABEL_HOST}={self.settings.host_label}",
                },
            )


def runtime_event(raw: Mapping[str, Any]) -> RuntimeEvent | None:
    """Return Docker's event as a RuntimeEvent, or None if the event is about no container of this service."""
    uuid = ((raw.get("Actor") or {}).get("Attributes") or {}).get(LABEL_UUID)
    action = raw.get("Action") or raw.get("status")
    return RuntimeEvent(uuid, action) if uuid and action in ACTIONS else None


def _until_lost(stream: CancellableStream) -> Iterator[dict[str, Any]]:
    with suppress(*FOREIGN):
        yield from stream


@contextmanager
def _closed_when(stop: threading.Event, stream: CancellableStream) -> Iterator[None]:
    """Close ``stream`` when ``stop`` is set or the block ends. A thread does so, because the block may be reading."""
    left = threading.Event()

    def watch() -> None:
        # A thread cannot wait for two events at once, so it may outlive the stream by one second.
        while not stop.wait(1.0):
            if left.is_set():
                return
        close()

    def close() -> None:
        # The stream may have ended by itself and closed its socket.
        with suppress(OSError, AttributeError, ValueError):
            stream.close()

    threading.Thread(target=watch, name="docker-events-stop", daemon=True).start()
    try:
        yield
    finally:
        left.set()
        close()
