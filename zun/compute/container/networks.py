# SPDX-License-Identifier: Apache-2.0
"""The networks of this host's containers: networks on the host, plugged containers and published ports.

The ports in the database are the target state. ``settle`` reaches this state and can be repeated at any time.
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
from zun.compute.work.queue import Key, Queue
from zun.container.driver.lifecycle import Plug
from zun.network.driver import NetworkDriver
from zun.objects import Container, NetworkPort
from zun.objects.container import published_ports
from zun.objects.placement import held_plan
from zun.topology import Plan
from zun.topology.device_request import GivenDevice, port_of

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Published:
    """The address and the port range where this host publishes exposed ports. The range includes ``last``."""

    address: str
    first: int
    last: int

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        ports = conf.network.published_ports  # the option may also be a falling range: 40000-30000
        return cls(conf.network.published_address, min(ports), max(ports))


class Networks:
    """The networks of one host. Thread-safe. Callers hold the turn of the container that they pass."""

    def __init__(self, hostname: str, driver: NetworkDriver, published: Published) -> None:
        self._hostname = hostname
        self._driver = driver
        self._published = published
        self._queue = Queue()  # only for turns: of networks, and of projects for their default networks
        self._publishing = threading.Lock()
        self._random = random.Random()
        self._not_isolated = ""

    def prepare(self, context: RequestContext, container: Container, ports: Iterable[NetworkPort]) -> Plug | None:
        """Create the networks of ``ports`` on this host and publish exposed ports, before the container is created.

        Return the container's first network. Without ports, return the default network of its project, or None if the
        driver uses a network of the runtime.
        """
        if self._driver.publishes:
            self._publish(context, container)
        plug = None
        for port in with_functions(container, ports):  # the others are connected by ``settle``
            if plug is None:
                plug = self._prepare(port)
            else:
                self._ensure(port)
        if plug is not None:
            return plug
        with self._queue.turn(Key("project", container.project_id)):
            return self._driver.default(container.project_id)

    def rejoin(self, container: Container) -> None:
        """Restore networks that a start needs besides those of the container's ports, if they were removed."""
        with self._queue.turn(Key("project", container.project_id)):
            self._driver.rejoin(container, container.project_id)

    def settle(
        self, context: RequestContext, container: Container, ports: Sequence[NetworkPort] | None = None
    ) -> None:
        """Plug the container into exactly the networks of its ports, and set its ``addresses`` without saving them.

        Ports that are leaving are removed. Callers that have just read the container's ports pass them as ``ports``.
        """
        if ports is None:
            ports = NetworkPort.list_by_container(context, container.uuid)
        staying = with_functions(container, [port for port in ports if not port.leaving])
        before = networks_of(container)
        if ports or before:
            for port in staying:
                self._ensure(port)
            self._driver.plug(container, staying)
        leaving = [port for port in ports if port.leaving]
        for port in leaving:
            port.destroy()
        self.release(leaving)
        container.addresses = settled(container, staying)
        self.left(context, {*before, *(port.network_uuid for port in ports)} - networks_of(container))

    def ports(self, context: RequestContext, container: Container) -> list[NetworkPort]:
        """Return the container's ports, for ``release``."""
        return NetworkPort.list_by_container(context, container.uuid)

    def release(self, ports: Collection[NetworkPort]) -> None:
        """Give back ports of containers whose objects are gone. May be repeated.

        A failure is logged; ``sweep`` tries again when the ports have no row.
        """
        for port in ports:
            try:
                self._driver.release(port)
            except exceptions.ZunError as exc:
                LOG.warning("Port %s is given back later: %s", port.uuid, exc)
        for container in {port.container_uuid for port in ports}:
            try:
                self._driver.release_shared(container)
            except exceptions.ZunError as exc:
                LOG.warning("The security group of container %s is given back later: %s", container, exc)

    def unsettled(self, context: RequestContext, containers: Iterable[Container]) -> set[str]:
        """Return the uuids of ``containers`` on this host whose ``addresses`` differ from their ports."""
        ports: dict[str, list[NetworkPort]] = {}
        for port in NetworkPort.list_by_host(context, self._hostname):
            ports.setdefault(port.container_uuid, []).append(port)
        found = set()
        for each in containers:
            mine = ports.get(each.uuid, ())
            try:
                moved = any(port.leaving for port in mine) or (each.addresses or {}) != settled(each, mine)
                if moved or ((each.cpuset or {}).get("devices") and former_functions(held_plan(each), mine)):
                    found.add(each.uuid)
            except exceptions.RowUnreadable as exc:  # skip only this container
                LOG.error("Container %s is not compared with its networks: %s", each.uuid, exc)
        return found

    def left(self, context: RequestContext, networks: Collection[str]) -> None:
        """Remove ``networks``, which containers left, from this host, unless another container here needs them.

        A failed removal is logged; ``sweep`` tries again.
        """
        for uuid in networks:
            # A new container either has its port in the database already, or its ``prepare`` waits for this turn and
            # then creates the network again.
            with self._queue.turn(Key("network", uuid)):
                if uuid in NetworkPort.networks_of_host(context, self._hostname):
                    continue
                try:
                    self._driver.remove(uuid)
                except exceptions.ZunError as exc:
                    LOG.info("Network %s stays on this host for now: %s", uuid, exc)

    def sweep(self, context: RequestContext, lost: Collection[str] = ()) -> None:
        """Remove networks without containers from this host, which an earlier run or a failure left.

        ``lost`` are ports of containers that run here although the database has lost their rows. They are left alone.
        """
        needed = NetworkPort.networks_of_host(context, self._hostname)
        self.left(context, self._driver.present() - set(needed))
        self._sweep_defaults(context)
        try:
            self._driver.sweep(lambda uuids: {*NetworkPort.known(context, uuids), *lost})
        except exceptions.ZunError as exc:
            LOG.warning("Ports without containers stay for now: %s", exc)
        try:
            self._driver.sweep_shared(lambda uuids: {each.uuid for each in Container.list_by_uuids(context, uuids)})
        except exceptions.ZunError as exc:
            LOG.warning("Security groups without containers stay for now: %s", exc)

    def _sweep_defaults(self, context: RequestContext) -> None:
        """Remove default networks from this host if their projects have no containers here."""
        here = self._driver.defaults()
        if not here:
            return
        for project in here - self._projects(context):
            # The row of a new container is in the database before its network is made, so ``_projects`` finds it.
            with self._queue.turn(Key("project", project)):
                if project in self._projects(context):
                    continue
                try:
                    self._driver.remove_default(project)
                except exceptions.ZunError as exc:
                    LOG.info("The default network of project %s stays on this host for now: %s", project, exc)

    def _projects(self, context: RequestContext) -> set[str]:
        return {each.project_id for each in Container.list_by_host(context, self._hostname)}

    def isolate(self) -> None:
        """Keep containers away from the host and from denied addresses. Log a failure once, until the error changes."""
        try:
            self._driver.isolate()
        except exceptions.ZunError as exc:
            if str(exc) != self._not_isolated:
                LOG.warning("%s", exc)
            self._not_isolated = str(exc)
        else:
            self._not_isolated = ""

    def _ensure(self, port: NetworkPort) -> None:
        with self._queue.turn(Key("network", port.network_uuid)):
            self._driver.ensure(port)

    def _prepare(self, port: NetworkPort) -> Plug:
        with self._queue.turn(Key("network", port.network_uuid)):
            return self._driver.prepare(port)

    def _publish(self, context: RequestContext, container: Container) -> None:
        """Choose host ports for the container's exposed ports and save them. A chosen host port never changes."""
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
        """Return a random free port of this host, so that clients of a former container rarely reach another one."""
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


def with_functions(container: Container, ports: Iterable[NetworkPort]) -> list[NetworkPort]:
    """Return ``ports``, each with the virtual function of the container's plan."""
    found = list(ports)
    if not found:  # reading the plan takes longer than all the rest
        return found
    plan = held_plan(container)
    slots = {port_of(each.name): each.address for each in (plan.devices if plan else ())}
    for port in found:
        port.slot = slots.get(port.uuid)
    return found


def former_functions(plan: Plan | None, ports: Iterable[NetworkPort]) -> tuple[GivenDevice, ...]:
    """Return the virtual functions that ``plan`` has for ports which the container does not have any more."""
    names = {port.uuid for port in ports}
    return tuple(
        each for each in (plan.devices if plan else ()) if (port := port_of(each.name)) and port not in names
    )


def networks_of(container: Container) -> set[str]:
    """Return the network uuids in the container's ``addresses``, without networks of the runtime (``bridge``)."""
    return {network for network in container.addresses or {} if uuidutils.is_uuid_like(network)}


def settled(container: Container, ports: Sequence[NetworkPort]) -> dict[str, Any]:
    """Return the ``addresses`` of a container that is plugged into ``ports``. Networks of the runtime stay."""
    others = {name: items for name, items in (container.addresses or {}).items() if not uuidutils.is_uuid_like(name)}
    return {**others, **{port.network_uuid: port.addresses() for port in ports}}
