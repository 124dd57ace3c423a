# SPDX-License-Identifier: Apache-2.0
"""One lock a key, there only while somebody wants it."""

import contextlib
import threading
from collections.abc import Iterator

FOR_EVER = -1.0


class StillHeld(Exception):
    """Somebody else has held the lock all the time that there was to wait."""


class KeyedLocks:
    """``with locks(key)`` runs alone among those of the same key."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: dict[str, tuple[threading.RLock, int]] = {}  # key -> the lock and how many want it

    @contextlib.contextmanager
    def __call__(self, key: str, patience: float = FOR_EVER) -> Iterator[None]:
        """Raises StillHeld when it is not free within ``patience`` seconds."""
        with self._wanting(key) as lock:
            if not lock.acquire(timeout=patience):
                raise StillHeld
            try:
                yield
            finally:
                lock.release()

    @contextlib.contextmanager
    def _wanting(self, key: str) -> Iterator[threading.RLock]:
        with self._guard:
            lock, wanting = self._locks.get(key, (threading.RLock(), 0))
            self._locks[key] = (lock, wanting + 1)
        try:
            yield lock
        finally:
            with self._guard:
                lock, wanting = self._locks[key]
                if wanting == 1:
                    del self._locks[key]
                else:
                    self._locks[key] = (lock, wanting - 1)

    def wanted(self) -> dict[str, int]:
        """How many hold or wait for a lock, by its key; the same one who entered again counts again."""
        with self._guard:
            return {key: wanting for key, (_, wanting) in self._locks.items()}
