# SPDX-License-Identifier: Apache-2.0
"""A network driver in memory, for hosts with the in-memory runtime."""

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Self

from oslo_config import cfg

from zun.common import exceptions
from zun.container.driver.lifecycle import Plug
from zun.network.driver import Plugged, PortView


class InMemoryNetworks:
    """``plugged`` has the IPv4 and IPv6 address of each container in each network, by container and network uuid.

    Tests put busy ports of the host into ``busy``, and the error for the next call of a method into ``failures``.
    Without ``own_default``, containers without a network are on a network of the runtime.
    """

    publishes = True
    joins_neutron = False

    def __init__(self, *, own_default: bool = True) -> None:
        self.own_default = own_default
        self.bridges: set[str] = set()
        self.default_bridges: set[str] = set()
        self.isolated = False
        self.plugged: dict[str, dict[str, tuple[str | None, str | None]]] = defaultdict(dict)
        self.busy: set[int] = set()
        self.failures: dict[str, Exception] = {}
        self._lock = threading.Lock()

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """Return networks without containers; the entry point of ``[network] driver = fake``."""
        return cls(own_default=conf.network.default_network == "project")

    def ensure(self, port: PortView) -> None:
        with self._lock:
            self._fail("prepare")
            self.bridges.add(port.network_uuid)

    def start(self) -> None:
        return

    def stop(self) -> None:
        return

    def prepare(self, port: PortView, *, primary: bool = True) -> Plug:
        self.ensure(port)
        return Plug(port.network_uuid, port.ipv4, port.ipv6)

    def default(self, project_id: str) -> Plug | None:
        if not self.own_default:
            return None
        with self._lock:
            self._fail("default")
            self.default_bridges.add(project_id)
        return Plug(f"default-{project_id}", by_name=True)

    def rejoin(self, container: Plugged, project_id: str) -> None:
        self._fail("rejoin")

    def defaults(self) -> set[str]:
        with self._lock:
            return set(self.default_bridges)

    def remove_default(self, project_id: str) -> None:
        with self._lock:
            self._fail("remove_default")
            self.default_bridges.discard(project_id)

    def isolate(self) -> None:
        self._fail("isolate")
        self.isolated = True

    def plug(self, container: Plugged, ports: Sequence[PortView]) -> None:
        with self._lock:
            self._fail("plug")
            missing = {port.network_uuid for port in ports} - self.bridges
            if missing:
                raise exceptions.DockerError(f"network {min(missing)} not found")
            self.plugged[container.uuid] = {port.network_uuid: (port.ipv4, port.ipv6) for port in ports}

    def release(self, port: PortView) -> None:
        self._fail("release")

    def release_shared(self, container_uuid: str) -> None:
        self._fail("release_shared")

    def sweep(self, known: Callable[[Collection[str]], Collection[str]]) -> None:
        self._fail("sweep")

    def sweep_shared(self, existing: Callable[[Collection[str]], Collection[str]]) -> None:
        return

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
