# SPDX-License-Identifier: Apache-2.0
"""Which networks a request about a container means, looked up when it comes.

This is the API's half of the network driver: a driver with a service behind it asks that service here. See
``zun.network.driver`` for the half of the host.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from zun.common import exceptions
from zun.db import network_ports, networks
from zun.objects import Container

Given = Mapping[str, Any]

# In Zun a container whose request names no security group is in this one, so that to name it asks for nothing else.
EVERYBODYS_GROUP = "default"


def wanted(project_id: str, nets: Sequence[Given] | None) -> list[dict[str, Any]]:
    """The ports of a new container of the project, as ``zun.db.network_ports`` has them.

    Without ``nets`` it goes into the default network of its project; there may be none, and then it is in no network of
    ours, but in the runtime's own. Raises NetworkNotFound, PortNotFound, PortInUse, Conflict, Invalid.
    """
    if not nets:
        row = networks.default(project_id)
        return [] if row is None else [{"network": row["uuid"]}]
    found = [_wanted(project_id, each, each.get("v4-fixed-ip") or each.get("v6-fixed-ip")) for each in nets]
    names = [each["network"] for each in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise exceptions.Invalid(f"nets: network {twice} is named more than once. A container is in a network once.")
    return found


def wanted_more(project_id: str, given: Given) -> dict[str, Any]:
    """The port that a container is to get with ``network_attach``. Raises as ``wanted``."""
    if "network" in given and "port" in given:
        raise exceptions.Invalid("Both a network and a port are named; name one of them.")
    if "network" in given or "port" in given:
        return _wanted(project_id, given, given.get("fixed_ip"))
    row = networks.default(project_id)
    if row is None:
        raise exceptions.Conflict("This project has no network and none is shared, so a network must be named.")
    return {"network": row["uuid"], "fixed_ip": given.get("fixed_ip")}


def port_to_leave(container: Container, given: Given) -> str:
    """The uuid of the port that ``network_detach`` means, which is leaving from now on.

    Raises NetworkNotFound, PortNotFound, Conflict, and Invalid when the container is not there.
    """
    if ("network" in given) == ("port" in given):
        raise exceptions.Invalid("Name either the network or the port that the container is to leave.")
    if "port" in given:
        network = network_ports.find_for(container.project_id, given["port"])["network_uuid"]
    else:
        network = networks.find_for(container.project_id, given["network"])["uuid"]
    for port in network_ports.of_container(container.uuid):
        meant = port["network_uuid"] == network and given.get("port", port["uuid"]) == port["uuid"]
        if meant and network_ports.set_leaving(port["uuid"], True):
            return str(port["uuid"])
    raise exceptions.Invalid(f"Container {container.uuid} is not in network {network}.")


def no_security_groups(field: str) -> exceptions.InvalidValue:
    return exceptions.InvalidValue(
        f"{field}: the networks of this cloud are bridges of its hosts, which have no security groups. Containers of "
        "one network reach each other, others do not; exposed_ports publishes single ports of a new container."
    )


def _wanted(project_id: str, given: Given, fixed_ip: str | None) -> dict[str, Any]:
    if "port" in given:
        port = network_ports.find_for(project_id, given["port"])
        raise exceptions.PortInUse(port=port["uuid"], container=port["container_uuid"])
    return {"network": networks.find_for(project_id, given["network"])["uuid"], "fixed_ip": fixed_ip}
