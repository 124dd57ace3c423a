# SPDX-License-Identifier: Apache-2.0
"""Networks of a host in memory, beside the runtime in memory."""

import threading
from collections import defaultdict
from collections.abc import Sequence
from typing import Self

from oslo_config import cfg

from zun.common import exceptions
from zun.container.driver import Plug
from zun.network.driver import Plugged, PortView


class InMemoryNetworks:
    """``plugged`` has the addresses of containers by container and network, as far as ``plug`` brought them about.

    Tests put ports of the host that something listens on into ``busy``, and an error that the next call of a method
    raises into ``failures``.
    """

    def __init__(self) -> None:
        self.bridges: set[str] = set()
        self.plugged: dict[str, dict[str, tuple[str | None, str | None]]] = defaultdict(dict)
        self.busy: set[int] = set()
        self.failures: dict[str, Exception] = {}
        self._lock = threading.Lock()

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """The entry point of ``[network] driver = fake``."""
        return cls()

    def prepare(self, port: PortView) -> Plug:
        with self._lock:
            self._fail("prepare")
            self.bridges.add(port.network_uuid)
        return Plug(port.network_uuid, port.ipv4, port.ipv6)

    def plug(self, container: Plugged, ports: Sequence[PortView]) -> None:
        with self._lock:
            self._fail("plug")
            missing = {port.network_uuid for port in ports} - self.bridges
            if missing:
                raise exceptions.DockerError(f"network {min(missing)} not found")
            self.plugged[container.uuid] = {port.network_uuid: (port.ipv4, port.ipv6) for port in ports}

    def present(self) -> set[str]:
        with self._lock:
            return set(self.bridges)

    def remove(self, network_uuid: str) -> None:
        with self._lock:
            self._fail("remove")
            self.bridges.discard(network_uuid)

    def is_free(self, host_ip: str, host_port: int, protocol: str) -> bool:
        return host_port not in self.busy

    def _fail(self, operation: str) -> None:
        error = self.failures.pop(operation, None)
        if error is not None:
            raise error
