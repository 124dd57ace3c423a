# SPDX-License-Identifier: Apache-2.0
"""Looks at containers when the runtime tells of them, so that what it does on its own is known at once."""

import concurrent.futures
import logging
import threading
from collections.abc import Callable

from zun.common import exceptions, outages
from zun.container.driver import RESYNC, EventSource

LOG = logging.getLogger(__name__)

ANEW_SECONDS = 1.0  # between a defect of a stream and the next stream


class Looks:
    """Looks at containers, each in one thread at a time: what happens during a look brings one more behind it.

    A look waits a moment for the operation under way in its container. With some threads more (``workers``) than there
    are such operations no container's news wait for another container.
    """

    def __init__(self, look: Callable[[str], None], workers: int) -> None:
        self._look = look
        self._pool = concurrent.futures.ThreadPoolExecutor(max_workers=workers, thread_name_prefix="look")
        self._lock = threading.Lock()
        self._again: dict[str, bool] = {}  # containers being looked at, and whether something came since
        self._stopped = False

    def at(self, uuid: str) -> None:
        """Have ``uuid`` looked at, from now on and soon. Returns at once."""
        with self._lock:
            if self._stopped:
                return
            if uuid in self._again:
                self._again[uuid] = True
                return
            self._again[uuid] = False
            self._pool.submit(self._until_quiet, uuid)

    def stop(self) -> None:
        """Returns when nobody looks any more."""
        with self._lock:
            self._stopped = True
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _until_quiet(self, uuid: str) -> None:
        while True:
            try:
                self._look(uuid)
            except outages.OUTAGES as exc:
                LOG.warning("Container %s could not be looked at: %s", uuid, exceptions.first_line(exc))
            except Exception:
                LOG.exception("Container %s could not be looked at; the next comparison of all does it again", uuid)
            with self._lock:
                if self._stopped or not self._again[uuid]:
                    del self._again[uuid]
                    return
                self._again[uuid] = False


def follow(
    source: EventSource, stop: threading.Event, *, one: Callable[[str], None], every: Callable[[], None]
) -> None:
    """Call ``one`` with each container that ``source`` tells of, and ``every`` when it may have missed some.

    Both return at once. Returns soon after ``stop`` was set; until then ``source`` connects again by itself, and
    begins anew after a defect of its own.
    """
    while not stop.is_set():
        try:
            for event in source.events(stop):
                if stop.is_set():
                    return
                if event.action == RESYNC:
                    every()
                else:
                    LOG.debug("Container %s: the runtime says %s", event.uuid, event.action)
                    one(event.uuid)
        except Exception:
            LOG.exception("Following the events of the runtime failed; it begins anew")
        stop.wait(ANEW_SECONDS)
