# SPDX-License-Identifier: Apache-2.0
"""The capability to report changes of containers as they happen."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

#: Action of an event that says: events may have been missed, read the state of every container. The uuid is empty.
RESYNC = "resync"


@dataclass(frozen=True, slots=True)
class RuntimeEvent:
    """An event of the container ``uuid``. The receiver reads the container's state to learn the outcome.

    ``action`` is one of Docker's names ``start die oom pause unpause rename destroy``, or :data:`RESYNC` with an empty
    uuid. An event may be delivered twice. A stop, a kill and a restart are reported as ``die`` and ``start``. Docker's
    other actions change no status.
    """

    uuid: str
    action: str


class EventSource(Protocol):
    """Reports changes of containers as they happen."""

    def events(self, stop: threading.Event) -> Iterator[RuntimeEvent]:
        """Yield the events of this host's containers, and end soon after ``stop`` is set.

        The first event of every connection is a :data:`RESYNC`. A lost connection is opened again, with attempts for
        as long as it takes.
        """
        ...
