# SPDX-License-Identifier: Apache-2.0
"""Connections to ports of a container, made inside its network namespace.

A socket belongs to the network in which it was made, whatever its thread does later (network_namespaces(7)). So a
thread of its own enters the network, makes the socket and ends: no thread of the agent ever comes back from there.
"""

import ctypes
import functools
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from zun.common import exceptions, naming
from zun.container.docker.client import OnEngine
from zun.container.docker.state import runtime_state
from zun.container.driver.container import ContainerView

CLONE_NEWNET = 0x40000000
#: Addresses for documentation (RFC 5737, RFC 3849): a route to them is the way out of the container's network.
_OUTSIDE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
_LOOPBACK = "127.0.0.1"


class DockerConnections(OnEngine):
    def connect(self, container: ContainerView, host: str | None, port: int, timeout: float) -> socket.socket:
        with self._engine.translated("connect to", container):
            found = self._engine.find(container)
        pid = 0 if found is None else runtime_state(found, container.status).pid
        if not pid:
            raise exceptions.Conflict(f"Cannot connect to container {naming.of(container)}: it is not running.")
        return connected(Path(self.settings.root, "proc", str(pid), "ns/net"), host, port, timeout)


def connected(namespace: Path, host: str | None, port: int, timeout: float) -> socket.socket:
    """Return a TCP connection to ``host`` (None: the own address) made in a network namespace. Raises OSError."""
    address = _LOOPBACK if host == "localhost" else host or own_address(namespace)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = inside(namespace, functools.partial(socket.socket, family, socket.SOCK_STREAM))
    try:
        made.settimeout(timeout)
        made.connect((address, port))
    except BaseException:
        made.close()
        raise
    return made


def own_address(namespace: Path) -> str:
    """Return the address with which the namespace reaches others, or that of the loopback without a way out."""
    for family, outside in _OUTSIDE:
        try:
            with inside(namespace, functools.partial(socket.socket, family, socket.SOCK_DGRAM)) as found:
                found.connect((outside, 9))  # of a datagram socket: nothing is sent
                return str(found.getsockname()[0])
        except OSError:  # the network has no way out, or the kernel does not know the family
            continue
    return _LOOPBACK


def inside(namespace: Path, make: Callable[[], socket.socket]) -> socket.socket:
    """Return what ``make`` returns in the network namespace. Raises OSError."""
    outcome: list[socket.socket | OSError] = []

    def work() -> None:
        try:
            with open(namespace, "rb", buffering=0) as file:
                libc = ctypes.CDLL(None, use_errno=True)
                if libc.setns(file.fileno(), CLONE_NEWNET):
                    number = ctypes.get_errno()
                    raise OSError(number, f"the container's network cannot be entered: {os.strerror(number)}")
            outcome.append(make())
        except OSError as exc:
            outcome.append(exc)

    thread = threading.Thread(target=work, name="network of a container")
    thread.start()
    thread.join()
    found = outcome[0]
    if isinstance(found, OSError):
        raise found
    return found
