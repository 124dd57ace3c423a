# SPDX-License-Identifier: Apache-2.0
"""Work that many threads want at the same time, done once."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class SingleFlight:
    """Runs the work of a key once for all threads that ask for it at the same time. They share the outcome.

    Without ``SingleFlight``, a hundred containers of one missing image would each wait for the network.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[Any, Future[None]] = {}

    def do(self, key: Any, work: Callable[[], None]) -> None:
        with self._lock:
            future = self._running.get(key)
            mine = future is None
            if future is None:
                future = self._running[key] = Future()
        if not mine:
            return future.result()
        try:
            work()
        except BaseException as exc:
            future.set_exception(exc)
            raise
        else:
            future.set_result(None)
        finally:
            with self._lock:
                del self._running[key]
        return None
