# SPDX-License-Identifier: Apache-2.0
"""Tasks that a service repeats in the background."""

import concurrent.futures
import logging
import threading
from collections.abc import Callable

from futurist import periodics

from zun.common import exceptions, outages

LOG = logging.getLogger(__name__)


class Periodic:
    """Run each task at start and then every so many seconds. No task waits for another.

    A failing task is logged and runs again. The log has one line instead of a traceback if the database, the message
    queue, a host or its runtime does not answer.
    """

    def __init__(self, tasks: list[tuple[Callable[[], object], float]]) -> None:
        """Take pairs of a function and the seconds between two of its runs."""
        self._worker = periodics.PeriodicWorker(
            [
                (periodics.periodic(spacing=seconds, run_immediately=True)(_own_function(task, seconds)), (), {})
                for task, seconds in tasks
            ],
            executor_factory=lambda: concurrent.futures.ThreadPoolExecutor(max_workers=len(tasks)),
        )
        self._thread = threading.Thread(target=self._worker.start, name="periodic", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the tasks and return when none runs any more."""
        self._worker.stop()
        self._worker.wait()
        self._thread.join()


def _own_function(task: Callable[[], object], seconds: float) -> Callable[[], None]:
    """Return a plain function around ``task``: futurist marks the function it runs, and a bound method cannot be
    marked.
    """
    name = getattr(task, "__qualname__", repr(task))

    def run() -> None:
        try:
            task()
            return
        except outages.OUTAGES as exc:
            reason = exceptions.first_line(exc)
        # Out here, because oslo.log says once more what is being handled.
        LOG.warning("%s failed and runs again in %g s: %s", name, seconds, reason)

    run.__qualname__ = name
    return run
