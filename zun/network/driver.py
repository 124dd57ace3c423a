# SPDX-License-Identifier: Apache-2.0
"""The interface of a network driver, which makes a host agree with the ports of its containers.

A port says in which network a container is, and with which addresses; ports are decided before a driver is called.
Each method may be repeated after a crash. Failures raise the same exceptions as in ``zun.container.driver``.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from zun.container.driver.lifecycle import Plug


class Plugged(Protocol):
    """The part of a container that a driver reads."""

    @property
    def uuid(self) -> str: ...
    @property
    def name(self) -> str | None: ...


class PortView(Protocol):
    """A container's place in a network, such as ``zun.objects.NetworkPort``. ``subnets`` are those of the network."""

    @property
    def uuid(self) -> str: ...
    @property
    def container_uuid(self) -> str: ...
    @property
    def network_uuid(self) -> str: ...
    @property
    def network_name(self) -> str | None: ...
    @property
    def project_id(self) -> str: ...
    @property
    def subnets(self) -> Sequence[Mapping[str, Any]]: ...
    @property
    def ipv4(self) -> str | None: ...
    @property
    def ipv6(self) -> str | None: ...
    @property
    def preserve(self) -> bool: ...
    @property
    def slot(self) -> str | None:
        """PCI address of the virtual function that the container holds for this port; None for most ports."""
        ...


class NetworkDriver(Protocol):
    """The networks of one host."""

    publishes: bool
    """Whether exposed ports of containers are published at ports of the host."""
    joins_neutron: bool
    """Whether the networks are those of Neutron."""

    def start(self) -> None:
        """Begin to serve the runtime, before any other call. Raises Misconfigured."""
        ...

    def stop(self) -> None: ...

    def ensure(self, port: PortView) -> None:
        """Create the port's network on this host if it is missing."""
        ...

    def prepare(self, port: PortView, *, primary: bool = True) -> Plug:
        """Do as ``ensure``, and return how a new container is attached to the network.

        The ``primary`` port of a container has its default route.
        """
        ...

    def default(self, project_id: str) -> Plug | None:
        """Create the project's default network on this host if it is missing, and return how to attach a container.

        Returns None if containers without a network are on a network of the runtime. Raises Conflict if no subnet is
        left.
        """
        ...

    def rejoin(self, container: Plugged, project_id: str) -> None:
        """Make a stopped container ready for a start, if a network that the start needs was removed meanwhile.

        A container on the project's default network is attached to it again.
        """
        ...

    def defaults(self) -> set[str]:
        """Return the ids of the projects whose default networks are on this host."""
        ...

    def remove_default(self, project_id: str) -> None:
        """Remove the project's default network from this host. Raises Conflict like ``remove``."""
        ...

    def isolate(self) -> None:
        """Keep containers of all present and future networks away from the host and from denied addresses.

        Raises Unavailable, with a text for the operator, if this host cannot set the rules.
        """
        ...

    def plug(self, container: Plugged, ports: Sequence[PortView]) -> None:
        """Attach the container, running or not, to the networks of ``ports`` and detach it from other API networks.

        ``prepare`` must have created the networks. Networks of the runtime itself stay. Raises ContainerVanished if
        the runtime has no such container.
        """
        ...

    def release(self, port: PortView) -> None:
        """Give back a port whose container left the network. May be repeated: a port that is gone is no error."""
        ...

    def release_shared(self, container_uuid: str) -> None:
        """Give back what the ports of a container share, if none of them is left. Called after ``release``."""
        ...

    def sweep(self, known: Callable[[Collection[str]], Collection[str]]) -> None:
        """Remove what an earlier run left of ports that no container has any more.

        ``known`` returns those of the uuids that are ports of a container.
        """
        ...

    def sweep_shared(self, existing: Callable[[Collection[str]], Collection[str]]) -> None:
        """Remove what ports shared of containers that do not exist any more.

        ``existing`` returns those of the uuids that are containers.
        """
        ...

    def present(self) -> set[str]:
        """Return the uuids of the networks for which ``remove`` has something to do on this host."""
        ...

    def remove(self, network_uuid: str) -> None:
        """Remove the network from this host, if it exists. Raises Conflict while a container is attached to it.

        What a container's next start needs of the network stays.
        """
        ...

    def is_free(self, host_ip: str, host_port: int, protocol: str) -> bool:
        """Return whether no program, in a container or not, listens on this port of the host."""
        ...
