# SPDX-License-Identifier: Apache-2.0
"""Tasks that run again and again beside the work of a service."""

import concurrent.futures
import threading
from collections.abc import Callable

from futurist import periodics


class Periodic:
    """Runs each task at once on start and then every so many seconds, none waiting for another.

    A failing task is logged and runs again.
    """

    def __init__(self, tasks: list[tuple[Callable[[], object], float]]) -> None:
        """``tasks`` are pairs of a function and the seconds between two of its runs."""
        self._worker = periodics.PeriodicWorker(
            [
                (periodics.periodic(spacing=seconds, run_immediately=True)(_own_function(task)), (), {})
                for task, seconds in tasks
            ],
            executor_factory=lambda: concurrent.futures.ThreadPoolExecutor(max_workers=len(tasks)),
        )
        self._thread = threading.Thread(target=self._worker.start, name="periodic", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when no task runs any more."""
        self._worker.stop()
        self._worker.wait()
        self._thread.join()


def _own_function(task: Callable[[], object]) -> Callable[[], None]:
    """A plain function around ``task``: futurist marks what it runs, and a bound method cannot be marked."""

    def run() -> None:
        task()

    run.__qualname__ = getattr(task, "__qualname__", repr(task))
    return run
