# SPDX-License-Identifier: Apache-2.0
"""Follows the events of the runtime, so that changes that the runtime makes by itself come into the rows soon."""

import logging
import threading
from collections.abc import Callable

from zun.container.driver.events import RESYNC, EventSource

LOG = logging.getLogger(__name__)

ANEW_SECONDS = 1.0  # between a defect of a stream and the next stream


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
