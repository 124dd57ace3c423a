# SPDX-License-Identifier: Apache-2.0
"""The in-memory driver's stream of events."""

import queue
import threading
from collections.abc import Iterator

from zun.container.driver.events import RESYNC, RuntimeEvent
from zun.container.fake.operations import OnRuntime


class InMemoryEvents(OnRuntime):
    def events(self, stop: threading.Event) -> Iterator[RuntimeEvent]:
        inbox: queue.Queue[RuntimeEvent] = queue.Queue()
        listeners = self.runtime.listeners[self.host_facts.name]
        with self.runtime.lock:
            listeners.append(inbox)
        try:
            yield RuntimeEvent("", RESYNC)
            while not stop.is_set():
                try:
                    event = inbox.get(timeout=0.05)
                except queue.Empty:
                    continue
                yield event
                inbox.task_done()
        finally:
            with self.runtime.lock:
                listeners.remove(inbox)

    def cut_events(self) -> None:
        """Suppress the events of this host's containers until ``join_events``."""
        with self.runtime.lock:
            self.runtime.silent.add(self.host_facts.name)

    def join_events(self) -> None:
        """Connect the stream of events again. It begins with a resync; events of the meantime are lost."""
        with self.runtime.lock:
            self.runtime.silent.discard(self.host_facts.name)
            for listener in self.runtime.listeners[self.host_facts.name]:
                listener.put(RuntimeEvent("", RESYNC))

    def heard(self) -> bool:
        """Return whether every listener has processed every event of this host so far."""
        with self.runtime.lock:
            return not any(each.unfinished_tasks for each in self.runtime.listeners[self.host_facts.name])
