# SPDX-License-Identifier: Apache-2.0
"""The capability to connect to a port of a container from inside its network."""

import socket
from typing import Protocol

from zun.container.driver.container import ContainerView


class Connections(Protocol):
    """Connects to TCP ports inside the network of a container."""

    def connect(self, container: ContainerView, host: str | None, port: int, timeout: float) -> socket.socket:
        """Return a TCP connection that was made inside the network of the running container.

        ``host`` is an IP address or ``localhost``, None for the container's own address. ``timeout`` is in seconds and
        stays that of the connection. OSError if nothing answers, Conflict if the container does not run.
        """
        ...
