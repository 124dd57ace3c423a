# SPDX-License-Identifier: Apache-2.0
"""Look up the networks that a request about a container names.

This is the API's half of the network driver; ``zun.network.driver`` is the host's half. A driver with a service behind
it, such as Neutron, asks that service here.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from zun.common import exceptions
from zun.common.naming import named
from zun.db import network_ports, networks
from zun.objects import Container

Given = Mapping[str, Any]

# Zun puts a container into this security group if the request names none. To name it therefore changes nothing.
EVERYBODYS_GROUP = "default"


def first_ports(project_id: str, nets: Sequence[Given] | None) -> list[dict[str, Any]]:
    """Return the ports of a new container, in the form that ``zun.db.network_ports`` stores.

    Without ``nets`` the container joins the default network of its project. If the project has none, the container
    gets no port and uses the runtime's own network. Raises NetworkNotFound, PortNotFound, PortInUse, Conflict, Invalid.
    """
    if not nets:
        row = networks.default(project_id)
        return [] if row is None else [{"network": row["uuid"]}]
    found = [_port(project_id, each, each.get("v4-fixed-ip") or each.get("v6-fixed-ip")) for each in nets]
    names = [each["network"] for each in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        network = named(networks.find_for(project_id, twice))
        raise exceptions.Invalid(f"nets: network {network} is named more than once. A container is in a network once.")
    return found


def port_to_join(project_id: str, given: Given) -> dict[str, Any]:
    """Return the port that ``network_attach`` gives a container. Raises the errors of ``first_ports``."""
    if "network" in given and "port" in given:
        raise exceptions.Invalid("Both a network and a port are named; name one of them.")
    if "network" in given or "port" in given:
        return _port(project_id, given, given.get("fixed_ip"))
    row = networks.default(project_id)
    if row is None:
        raise exceptions.Conflict("This project has no network and none is shared, so a network must be named.")
    return {"network": row["uuid"], "fixed_ip": given.get("fixed_ip")}


def port_to_leave(container: Container, given: Given) -> str:
    """Mark the port that ``network_detach`` names as leaving, and return its uuid.

    Raises NetworkNotFound, PortNotFound, Conflict, and Invalid if the container is not in the network.
    """
    if ("network" in given) == ("port" in given):
        raise exceptions.Invalid("Name either the network or the port that the container is to leave.")
    if "port" in given:
        asked = network_ports.find_for(container.project_id, given["port"])["network_uuid"]
    else:
        asked = given["network"]
    network = networks.find_for(container.project_id, asked)
    for port in network_ports.of_container(container.uuid):
        meant = port["network_uuid"] == network["uuid"] and given.get("port", port["uuid"]) == port["uuid"]
        if meant and network_ports.set_leaving(port["uuid"], True):
            return str(port["uuid"])
    raise exceptions.Invalid(f"Container {named(container)} is not in network {named(network)}.")


def no_security_groups(field: str) -> exceptions.InvalidValue:
    return exceptions.InvalidValue(
        f"{field}: the networks of this cloud are bridges of its hosts, which have no security groups. Containers of "
        "one network reach each other, others do not; exposed_ports publishes single ports of a new container."
    )


def _port(project_id: str, given: Given, fixed_ip: str | None) -> dict[str, Any]:
    if "port" in given:
        port = network_ports.find_for(project_id, given["port"])
        raise exceptions.PortInUse(port=port["uuid"], container=port["container_uuid"])
    return {"network": networks.find_for(project_id, given["network"])["uuid"], "fixed_ip": fixed_ip}
