# SPDX-License-Identifier: Apache-2.0
"""The listening socket of the websocket proxy, which limits the connections that have not logged in."""

import contextlib
import socket
from typing import Any

from zun.common.doors import Doors, client_of

WAITING_OF_CLIENT = 100  # connections of one address that have not logged in
WAITING = 300  # connections of all addresses that have not logged in


class Listener(socket.socket):
    """Accept connections; at a limit, close the connection that has waited longest for its login.

    asyncio calls ``accept``, and ``close`` of each accepted connection, in one thread.
    """

    @classmethod
    def on(cls, host: str, port: int) -> "Listener":
        """Return a socket that listens on ``host`` and ``port``. Raises OSError if the address cannot be used."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        made = socket.create_server((host, port), family=family)
        listener = cls(made.family, made.type, made.proto, made.detach())
        listener._doors = Doors(WAITING_OF_CLIENT, WAITING)
        listener._waiting = {}
        return listener

    _doors: Doors[Any]  # by the client's address and port
    _waiting: dict[Any, "_Waiting"]

    def accept(self) -> tuple[socket.socket, Any]:
        accepted, address = super().accept()
        connection = _Waiting(accepted.family, accepted.type, accepted.proto, accepted.detach())
        connection.settled = lambda: self.admit(address)
        entry = self._doors.enter(address, client_of(str(address[0])))
        if entry.close is not None:
            with contextlib.suppress(KeyError, OSError):
                self._waiting.pop(entry.close).shutdown(socket.SHUT_RDWR)
        self._waiting[address] = connection
        return connection, address

    def admit(self, address: Any) -> None:
        """Stop counting the connection from ``address``, which has logged in or is closed."""
        self._waiting.pop(address, None)
        self._doors.leave(address)


class _Waiting(socket.socket):
    """A connection that calls ``settled`` once when it is closed."""

    settled: Any = None

    def close(self) -> None:
        if self.settled is not None:
            self.settled()
            self.settled = None
        super().close()
