# SPDX-License-Identifier: Apache-2.0
"""Count the connections of a port, by client address and in total."""

import ipaddress
import threading
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

IPV6_CLIENT_BITS = 64  # one client owns every address of such a prefix


def client_of(address: str) -> str:
    """Return who an IP address counts for: the address itself, or its /64 of IPv6."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if found.version == 4:
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, IPV6_CLIENT_BITS), strict=False))


@dataclass(frozen=True, slots=True)
class Entry(Generic[K]):
    """The answer to one more connection. ``close`` is an older connection that must be closed for it."""

    admitted: bool
    close: K | None = None


class Doors(Generic[K]):
    """Admit at most ``per_client`` connections of one client and ``total`` of all; 0 is no limit.

    A connection that waits for its request costs its owner nothing. At a limit the connection that has waited longest
    is closed for the new one, so a client that sends its request at once is served however many silent ones there are.
    If every connection has a request at work, the new one is refused. Threads may share one object.
    """

    def __init__(self, per_client: int, total: int) -> None:
        self._per_client = per_client
        self._total = total
        self._clients: dict[K, str] = {}
        self._counts: Counter[str] = Counter()
        self._waiting: dict[K, None] = {}  # the longest first
        self._lock = threading.Lock()

    def enter(self, connection: K, client: str) -> Entry[K]:
        """Count a new connection, which waits."""
        with self._lock:
            victim = None
            if self._per_client and self._counts[client] >= self._per_client:
                victim = next((each for each in self._waiting if self._clients[each] == client), None)
                full = victim is None
            else:
                full = bool(self._total) and len(self._clients) >= self._total
                if full:
                    victim = next(iter(self._waiting), None)
                    full = victim is None
            if full:
                return Entry(False)
            if victim is not None:
                self._leave(victim)
            self._clients[connection] = client
            self._counts[client] += 1
            self._waiting[connection] = None
            return Entry(True, victim)

    def work(self, connection: K) -> None:
        """Note that the connection's request is complete."""
        with self._lock:
            self._waiting.pop(connection, None)

    def wait(self, connection: K) -> None:
        """Note that the connection waits again, now the shortest of all."""
        with self._lock:
            self._waiting.pop(connection, None)
            if connection in self._clients:
                self._waiting[connection] = None

    def leave(self, connection: K) -> None:
        """Stop counting the connection. Twice is harmless."""
        with self._lock:
            self._leave(connection)

    def waiting(self) -> list[K]:
        """Return the connections that wait, the longest first."""
        with self._lock:
            return list(self._waiting)

    def _leave(self, connection: K) -> None:
        self._waiting.pop(connection, None)
        client = self._clients.pop(connection, None)
        if client is not None:
            self._counts[client] -= 1
            if not self._counts[client]:
                del self._counts[client]
