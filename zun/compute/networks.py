# SPDX-License-Identifier: Apache-2.0
"""The networks of this host's containers: which of them are here, who is plugged into them, what is published.

The ports in the database say what should be. ``settle`` brings it about and can be repeated at any time.
"""

import logging
import random
import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from oslo_config import cfg
from oslo_utils import uuidutils

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.locks import KeyedLocks
from zun.common.published import published_ports
from zun.container.driver import Plug
from zun.network.driver import NetworkDriver
from zun.objects import Container, NetworkPort

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Published:
    """Where exposed ports are published: the address and the ports (both ends included) of this host."""

    address: str
    first: int
    last: int

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        ports = conf.network.published_ports  # the other way round it is a falling range
        return cls(conf.network.published_address, min(ports), max(ports))


class Networks:
    """Threads may share it. An operation on one container is done by one of them at a time, which callers see to."""

    def __init__(self, hostname: str, driver: NetworkDriver, published: Published) -> None:
        self._hostname = hostname
        self._driver = driver
        self._published = published
        self._locks = KeyedLocks()  # by network
        self._publishing = threading.Lock()
        self._random = random.Random()

    def prepare(self, context: RequestContext, container: Container, ports: Iterable[NetworkPort]) -> Plug | None:
        """Make everything be here that the container, which has ``ports``, is about to be created with.

        Returns its first network, if any.
        """
        self._publish(context, container)
        plugs = [self._prepare(port) for port in ports]
        return plugs[0] if plugs else None

    def settle(
        self, context: RequestContext, container: Container, ports: Sequence[NetworkPort] | None = None
    ) -> None:
        """Plug the container into the networks of its ports and no others, and set its ``addresses``, unsaved.

        The ports that were to go are gone then. ``ports`` are its ports where they have just been read.
        """
        if ports is None:
            ports = NetworkPort.list_by_container(context, container.uuid)
        staying = [port for port in ports if not port.leaving]
        before = networks_of(container)
        if ports or before:
            for port in staying:
                self._prepare(port)
            self._driver.plug(container, staying)
        for port in ports:
            if port.leaving:
                port.destroy()
        container.addresses = settled(container, staying)
        self.left(context, {*before, *(port.network_uuid for port in ports)} - networks_of(container))

    def unsettled(self, context: RequestContext, containers: Iterable[Container]) -> set[str]:
        """The uuids of those of ``containers``, all of this host, whose ``addresses`` are not those of their ports."""
        ports: dict[str, list[NetworkPort]] = {}
        for port in NetworkPort.list_by_host(context, self._hostname):
            ports.setdefault(port.container_uuid, []).append(port)
        found = set()
        for each in containers:
            mine = ports.get(each.uuid, ())
            try:
                if any(port.leaving for port in mine) or (each.addresses or {}) != settled(each, mine):
                    found.add(each.uuid)
            except exceptions.RowUnreadable as exc:  # the other containers are not to wait
                LOG.error("Container %s is not compared with its networks: %s", each.uuid, exc)
        return found

    def left(self, context: RequestContext, networks: Collection[str]) -> None:
        """Containers left these networks: take those off this host that nobody here needs any more.

        What cannot be taken off is logged and tried again by ``sweep``.
        """
        for uuid in networks:
            # A container that comes now has its port already, so that it is seen here, or it brings the network back.
            with self._locks(uuid):
                if uuid in NetworkPort.networks_of_host(context, self._hostname):
                    continue
                try:
                    self._driver.remove(uuid)
                except exceptions.ZunError as exc:
                    LOG.info("Network %s stays on this host for now: %s", uuid, exc)

    def sweep(self, context: RequestContext) -> None:
        """Take off this host whatever an earlier run, or a failure, left without containers."""
        needed = NetworkPort.networks_of_host(context, self._hostname)
        self.left(context, self._driver.present() - set(needed))

    def _prepare(self, port: NetworkPort) -> Plug:
        with self._locks(port.network_uuid):
            return self._driver.prepare(port)

    def _publish(self, context: RequestContext, container: Container) -> None:
        """Choose where the container's exposed ports are published, and save it: it stays the same from now on."""
        exposed = container.exposed_ports or {}
        missing = [port for port, where in exposed.items() if not where.get("host_port")]
        if not missing:
            return
        with self._publishing:
            taken = {
                where["host_port"]
                for each in Container.list_by_host(context, self._hostname)
                for where in published_ports(each.exposed_ports).values()
            }
            chosen = {port: self._choose(port.partition("/")[2], taken) for port in missing}
            container.exposed_ports = {**exposed, **chosen}
            container.save()

    def _choose(self, protocol: str, taken: set[int]) -> dict[str, Any]:
        """A port of this host. Not the lowest: who knew the container before would meet another one there soon."""
        where = self._published
        free = [port for port in range(where.first, where.last + 1) if port not in taken]
        for port in self._random.sample(free, len(free)):
            if self._driver.is_free(where.address, port, protocol):
                taken.add(port)
                return {"host_ip": where.address, "host_port": port}
        raise exceptions.Conflict(
            f"No port from {where.first} to {where.last} is free on the container's host to publish an exposed port "
            "at. Delete containers that expose ports, or enlarge [network] published_ports."
        )


def networks_of(container: Container) -> set[str]:
    """The uuids of the networks that the container's ``addresses`` name; those of the runtime have other names."""
    return {network for network in container.addresses or {} if uuidutils.is_uuid_like(network)}


def settled(container: Container, ports: Sequence[NetworkPort]) -> dict[str, Any]:
    """The container's ``addresses`` when it is plugged in as ``ports`` say; those of the runtime's networks stay."""
    others = {name: items for name, items in (container.addresses or {}).items() if not uuidutils.is_uuid_like(name)}
    return {**others, **{port.network_uuid: port.addresses() for port in ports}}
