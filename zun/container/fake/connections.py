# SPDX-License-Identifier: Apache-2.0
"""The in-memory driver's connections to ports."""

import socket
from collections.abc import Sequence

from zun.container.driver.container import ContainerView
from zun.container.fake.operations import OnRuntime


class InMemoryConnections(OnRuntime):
    _open: Sequence[socket.socket] = ()

    def connect(self, container: ContainerView, host: str | None, port: int, timeout: float) -> socket.socket:
        with self._operation("connect", container):
            answer = self._running(container, "connect to").answers.get(port)
        if answer is None:
            raise ConnectionRefusedError(111, "Connection refused")
        ours, theirs = socket.socketpair()
        theirs.sendall(answer)
        theirs.shutdown(socket.SHUT_WR)
        self._open = [*self._open[-99:], theirs]  # a server reads what it does not understand
        ours.settimeout(timeout)
        return ours

    def answer(self, uuid: str, port: int, text: bytes | None) -> None:
        """Let the container send ``text`` to whoever connects to the port, or let nothing be there (None)."""
        with self.runtime.lock:
            found = self.runtime.objects[uuid]
            if text is None:
                found.answers.pop(port, None)
            else:
                found.answers[port] = text
