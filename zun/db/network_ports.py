# SPDX-License-Identifier: Apache-2.0
"""Queries of ports: which container is in which network, and with which addresses.

``wanted`` of a port is its ``network`` (uuid) and, where the user chose one, ``fixed_ip``. A port has an address of
each subnet of its network: the chosen one, else the lowest that is free.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_utils import timeutils, uuidutils

from zun.common import exceptions, subnets
from zun.db import models, networks, session

table = models.network_ports
_networks = models.networks
_containers = models.containers

# A port and what the host of its container must know of the network.
_WHOLE = sa.select(
    table,
    _networks.c.project_id,
    _networks.c.name.label("network_name"),
    _networks.c.subnets,
).join(_networks, _networks.c.uuid == table.c.network_uuid)

Wanted = Mapping[str, Any]


def allot(connection: sa.Connection, container_uuid: str, wanted: Iterable[Wanted]) -> None:
    """Put the container into networks, in this transaction, in the order given.

    Raises NetworkNotFound, InvalidValue for an address that is none of the network's, Conflict for one that is in use
    and for a network that has none left, RowUnreadable for one whose subnets somebody wrote by hand.
    """
    asked = list(wanted)
    found = {  # always in this order, or two could wait for one another
        uuid: session.locked(connection, _networks, uuid, exceptions.NetworkNotFound(network=uuid))
        for uuid in sorted({each["network"] for each in asked})
    }
    for each in asked:
        network = found[each["network"]]
        with networks.readable_subnets(network["uuid"]):
            addresses = _addresses(connection, network, each.get("fixed_ip"))
        values = {
            "uuid": each.get("uuid") or uuidutils.generate_uuid(),
            "network_uuid": network["uuid"],
            "container_uuid": container_uuid,
            "created_at": timeutils.utcnow(),
            **addresses,
        }
        connection.execute(table.insert().values(**values))


def _addresses(connection: sa.Connection, network: session.Row, fixed_ip: str | None) -> dict[str, str]:
    chosen = None if fixed_ip is None else ipaddress.ip_address(fixed_ip).version
    versions = {subnets.version(each): each for each in network["subnets"]}
    if chosen is not None and chosen not in versions:
        raise exceptions.InvalidValue(f"Network {network['uuid']} has no IPv{chosen} subnet, so no address {fixed_ip}.")
    return {
        f"ipv{version}": _address(connection, network, subnet, version, fixed_ip if version == chosen else None)
        for version, subnet in versions.items()
    }


def _address(
    connection: sa.Connection, network: session.Row, subnet: subnets.Subnet, version: int, fixed_ip: str | None
) -> str:
    column = table.c[f"ipv{version}"]
    # A locking read: in MariaDB others would show what there was when the transaction began, not when the lock was got.
    held = sa.select(column).where(table.c.network_uuid == network["uuid"]).with_for_update(read=True)
    used = {value for value in connection.execute(held).scalars() if value is not None}
    if fixed_ip is None:
        free = subnets.free_address(subnet, used)
        if free is None:
            raise exceptions.Conflict(
                f"Network {network['uuid']} has no free address left in {subnet['cidr']}. Delete containers that "
                "nobody needs, or use another network."
            )
        return free
    subnets.check_address(subnet, fixed_ip)
    if fixed_ip in used:
        raise exceptions.Conflict(
            f"Address {fixed_ip} of network {network['uuid']} belongs to another container. Choose another one, or "
            "name none: then one is chosen."
        )
    return fixed_ip


def attach(container_uuid: str, wanted: Wanted) -> session.Row:
    """Put the container into one more network. Returns the port as ``of_container`` does.

    Raises ContainerNotFound, Invalid when it is in it already, and what ``allot`` raises.
    """
    return _attach_once(container_uuid, {**wanted, "uuid": uuidutils.generate_uuid()})


@session.retry
def _attach_once(container_uuid: str, wanted: Wanted) -> session.Row:
    with session.writer() as connection:
        # Locked, so that two requests for one network do not both find that it is not in it.
        there = sa.select(_containers.c.id).where(_containers.c.uuid == container_uuid).with_for_update()
        if connection.execute(there).first() is None:
            raise exceptions.ContainerNotFound(container=container_uuid)
        same = _WHOLE.where(table.c.container_uuid == container_uuid, table.c.network_uuid == wanted["network"])
        before = session.first(connection, same)
        if before is not None and before["uuid"] == wanted["uuid"]:
            return before  # an earlier attempt added it, and lost its connection before it was told
        if before is not None and before["leaving"]:
            raise exceptions.Conflict(f"Container {container_uuid} is just leaving network {wanted['network']}. Wait.")
        if before is not None:
            raise exceptions.Invalid(f"Container {container_uuid} is in network {wanted['network']} already.")
        allot(connection, container_uuid, [wanted])
        return session.rows(connection, same)[0]


@session.retry_again
def set_leaving(again: bool, uuid: str, leaving: bool) -> bool:
    """Say that the container is to leave the network, or is not. Returns whether that is news; a gone port has none."""
    same = sa.and_(table.c.uuid == uuid, table.c.leaving.is_(not leaving))
    with session.writer() as connection:
        if connection.execute(table.update().where(same).values(leaving=leaving)).rowcount:
            return True
        return again and connection.execute(sa.select(table.c.id).where(table.c.uuid == uuid)).first() is not None


@session.retry
def destroy(uuid: str) -> None:
    """The container leaves the network; its addresses are free. One that is gone is no error."""
    with session.writer() as connection:
        connection.execute(table.delete().where(table.c.uuid == uuid))


def of_container(container_uuid: str) -> Sequence[session.Row]:
    """Its ports with what their networks are, in the order it joined them."""
    with session.reader() as connection:
        return session.rows(connection, _WHOLE.where(table.c.container_uuid == container_uuid).order_by(table.c.id))


def of_host(hostname: str) -> Sequence[session.Row]:
    """The ports of every container of the host, in the order that they joined."""
    on_host = _WHOLE.join(_containers, _containers.c.uuid == table.c.container_uuid)
    with session.reader() as connection:
        return session.rows(connection, on_host.where(_containers.c.host == hostname).order_by(table.c.id))


def networks_of_host(hostname: str) -> set[str]:
    """The uuids of the networks that have containers on the host."""
    statement = (
        sa.select(table.c.network_uuid)
        .distinct()
        .join(_containers, _containers.c.uuid == table.c.container_uuid)
        .where(_containers.c.host == hostname)
    )
    with session.reader() as connection:
        return set(connection.execute(statement).scalars())


def find_for(project_id: str, uuid: str) -> session.Row:
    """The port of a container of the project. Raises PortNotFound."""
    statement = (
        sa.select(table)
        .join(_containers, _containers.c.uuid == table.c.container_uuid)
        .where(table.c.uuid == uuid, _containers.c.project_id == project_id)
    )
    return session.found(statement, exceptions.PortNotFound(port=uuid))
