# SPDX-License-Identifier: Apache-2.0
"""Look up the networks that a request about a container names.

This is the API's half of the network driver; ``zun.network.driver`` is the host's half. ``zun.api.neutron`` asks
Neutron instead of the database.
"""

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.naming import named
from zun.db import network_ports, networks
from zun.objects import Container

Given = Mapping[str, Any]
Wanted = Mapping[str, Any]

# Zun puts a container into this security group if the request names none. To name it therefore changes nothing.
EVERYBODYS_GROUP = "default"


class ContainerNetworks(Protocol):
    """The networks that containers of this cloud can join, for the API.

    ``container_uuid`` is the uuid of a container whose row may not exist yet. A context that is left with an error
    undoes what it did.
    """

    def security_groups(self, context: RequestContext, names: Sequence[str] | None) -> list[str] | None:
        """Return the ids of the security groups. Raises InvalidValue and Conflict."""
        ...

    def group_of(
        self, context: RequestContext, container_uuid: str, exposed: Collection[str]
    ) -> AbstractContextManager[list[str] | None]:
        """Give the security groups of a new container that names none: one that lets ``exposed`` (``80/tcp``) in.

        Gives None if no group is needed.
        """
        ...

    def first_ports(
        self,
        context: RequestContext,
        container_uuid: str,
        nets: Sequence[Given] | None = None,
        groups: Sequence[str] | None = None,
    ) -> AbstractContextManager[Sequence[Wanted]]:
        """Give the ports of a new container of the context's project, in the form of ``zun.db.network_ports``.

        Without ``nets`` the container joins the default network of its project. ``groups`` are ids of security groups.
        Raises NetworkNotFound, PortNotFound, PortInUse, Conflict, Invalid, Forbidden.
        """
        ...

    def port_to_join(
        self, context: RequestContext, container: Container, given: Given
    ) -> AbstractContextManager[Wanted]:
        """Give the port that ``network_attach`` adds to a container. Raises the errors of ``first_ports``."""
        ...

    def network_to_leave(self, context: RequestContext, container: Container, given: Given) -> tuple[str, str]:
        """Return uuid and text of the network that ``network_detach`` names. Raises NetworkNotFound, PortNotFound."""
        ...

    def change_group(self, context: RequestContext, container: Container, name: str, *, add: bool) -> None:
        """Add a security group to the ports of a container, or remove it, and save the container's row.

        Raises InvalidValue.
        """
        ...

    def released(self, ports: Sequence[Mapping[str, Any]]) -> None:
        """Give back the ports (rows) of a container that was removed before a host had it. Raises nothing."""
        ...


class Bridges:
    """The networks of hosts without Neutron, which are rows of the database."""

    def security_groups(self, context: RequestContext, names: Sequence[str] | None) -> list[str] | None:
        return None  # ``zun.api.creation`` refuses them

    def group_of(
        self, context: RequestContext, container_uuid: str, exposed: Collection[str]
    ) -> AbstractContextManager[list[str] | None]:
        return contextlib.nullcontext()  # the host publishes exposed ports

    @contextlib.contextmanager
    def first_ports(
        self,
        context: RequestContext,
        container_uuid: str,
        nets: Sequence[Given] | None = None,
        groups: Sequence[str] | None = None,
    ) -> Iterator[Sequence[Wanted]]:
        """Without ``nets`` and without a default network, the container uses the runtime's own network."""
        project_id = str(context.project_id)
        if not nets:
            row = networks.default(project_id)
            yield [] if row is None else [{"network": row["uuid"]}]
            return
        found = [_port(project_id, each, each.get("v4-fixed-ip") or each.get("v6-fixed-ip")) for each in nets]
        check_twice([each["network"] for each in found], lambda uuid: named(networks.find_for(project_id, uuid)))
        yield found

    @contextlib.contextmanager
    def port_to_join(self, context: RequestContext, container: Container, given: Given) -> Iterator[Wanted]:
        check_one_place(given)
        if "network" in given or "port" in given:
            yield _port(container.project_id, given, given.get("fixed_ip"))
            return
        row = networks.default(container.project_id)
        if row is None:
            raise no_default()
        yield {"network": row["uuid"], "fixed_ip": given.get("fixed_ip")}

    def network_to_leave(self, context: RequestContext, container: Container, given: Given) -> tuple[str, str]:
        if "port" in given:
            asked = network_ports.find_for(container.project_id, given["port"])["network_uuid"]
        else:
            asked = given["network"]
        network = networks.find_for(container.project_id, asked)
        return str(network["uuid"]), named(network)

    def change_group(self, context: RequestContext, container: Container, name: str, *, add: bool) -> None:
        raise no_security_groups("name")

    def released(self, ports: Sequence[Mapping[str, Any]]) -> None:
        return


def check_twice(uuids: Sequence[str], text: Callable[[str], str]) -> None:
    """Raise Invalid if a network is named twice."""
    twice = next((uuid for uuid in uuids if uuids.count(uuid) > 1), None)
    if twice is not None:
        raise exceptions.Invalid(
            f"nets: network {text(twice)} is named more than once. A container is in a network once."
        )


def check_one_place(given: Given) -> None:
    """Raise Invalid if ``network_attach`` names a network and a port."""
    if "network" in given and "port" in given:
        raise exceptions.Invalid("Both a network and a port are named; name one of them.")


def no_default() -> exceptions.Conflict:
    return exceptions.Conflict("This project has no network and none is shared, so a network must be named.")


def port_to_leave(available: ContainerNetworks, context: RequestContext, container: Container, given: Given) -> str:
    """Mark the port that ``network_detach`` names as leaving, and return its uuid.

    Raises NetworkNotFound, PortNotFound, Conflict, and Invalid if the container is not in the network.
    """
    if ("network" in given) == ("port" in given):
        raise exceptions.Invalid("Name either the network or the port that the container is to leave.")
    network, text = available.network_to_leave(context, container, given)
    for port in network_ports.of_container(container.uuid):
        meant = port["network_uuid"] == network and given.get("port", port["uuid"]) == port["uuid"]
        if meant and network_ports.set_leaving(port["uuid"], True):
            return str(port["uuid"])
    raise exceptions.Invalid(f"Container {named(container)} is not in network {text}.")


def no_security_groups(field: str) -> exceptions.InvalidValue:
    return exceptions.InvalidValue(
        f"{field}: the networks of this cloud are bridges of its hosts, which have no security groups. Containers of "
        "one network reach each other, others do not; exposed_ports publishes single ports of a new container."
    )


def _port(project_id: str, given: Given, fixed_ip: str | None) -> Wanted:
    if "port" in given:
        port = network_ports.find_for(project_id, given["port"])
        raise exceptions.PortInUse(port=port["uuid"], container=port["container_uuid"])
    return {"network": networks.find_for(project_id, given["network"])["uuid"], "fixed_ip": fixed_ip}
