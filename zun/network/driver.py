# SPDX-License-Identifier: Apache-2.0
"""What a compute host asks of the networks of its containers.

Which container is in which network, and with which addresses, is decided before anything here is called: it is written
in the container's ports. A driver makes the host agree with them. Each method may be repeated after a crash in its
middle. Failures are raised as the driver of the runtime raises them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from zun.container.driver import Plug


class Plugged(Protocol):
    """The part of a container that a driver reads."""

    @property
    def uuid(self) -> str: ...


class PortView(Protocol):
    """A container's place in a network; ``zun.objects.NetworkPort`` is one. The subnets are those of the network."""

    @property
    def uuid(self) -> str: ...
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


class NetworkDriver(Protocol):
    """The networks of one host."""

    def prepare(self, port: PortView) -> Plug:
        """Make the port's network be on this host, and return how the runtime puts a new container on it."""
        ...

    def plug(self, container: Plugged, ports: Sequence[PortView]) -> None:
        """Put the container, running or not, on the networks of ``ports`` and take it off every other one of ours.

        Their networks are here already (``prepare``). Those of the runtime itself stay as they are. ContainerVanished
        when the runtime has no such container.
        """
        ...

    def present(self) -> set[str]:
        """Return the uuids of the networks that were brought to this host."""
        ...

    def remove(self, network_uuid: str) -> None:
        """Take the network off this host. Fine if it is not here; Conflict while something is plugged into it."""
        ...

    def is_free(self, host_ip: str, host_port: int, protocol: str) -> bool:
        """Whether nothing on the host, container or not, listens on this port."""
        ...
