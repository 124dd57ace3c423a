# SPDX-License-Identifier: Apache-2.0
"""Queries of ports. A port is a container's place in a network, with its addresses.

A wanted port has ``network`` (uuid) and, if the user chose an address, ``fixed_ip``. A port has one address in each
subnet of its network: the chosen address, else the lowest free one. A port of Neutron has Neutron's ``uuid``, the
``fixed_ips`` that Neutron chose, and ``preserve`` if its user made it.
"""

import ipaddress
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_utils import timeutils, uuidutils

from zun.common import exceptions, subnets
from zun.common.naming import named
from zun.db import models, networks, session

table = models.network_ports
_networks = models.networks
_containers = models.containers

# A port, with the columns of its network that the container's host needs.
_WHOLE = sa.select(
    table,
    _networks.c.project_id,
    _networks.c.name.label("network_name"),
    _networks.c.subnets,
).join(_networks, _networks.c.uuid == table.c.network_uuid)

# Built once, like the statements of zun.db.containers. The last two are for a container's record, without ids.
_OF_THIS = table.c.container_uuid == sa.bindparam("this_uuid")
_OF_CONTAINER = _WHOLE.where(_OF_THIS).order_by(table.c.id)
_OF_HOST = (
    _WHOLE.join(_containers, _containers.c.uuid == table.c.container_uuid)
    .where(_containers.c.host == sa.bindparam("this_host"))
    .order_by(table.c.id)
)
_KEPT = sa.select(*(column for column in table.c if column.name != "id")).where(_OF_THIS).order_by(table.c.id)
_KEPT_NETWORKS = sa.select(*(column for column in _networks.c if column.name != "id")).where(
    _networks.c.uuid.in_(sa.select(table.c.network_uuid).where(_OF_THIS))
)

Wanted = Mapping[str, Any]


def allot(connection: sa.Connection, container_uuid: str, wanted: Iterable[Wanted]) -> None:
    """Add ports of the container in the order of ``wanted``, in the caller's transaction.

    Raises NetworkNotFound, InvalidValue for an address outside the network, Conflict for an address in use or a network
    without free addresses, and RowUnreadable for a network whose subnets are malformed.
    """
    asked = list(wanted)
    found = {  # locked in one order, so that no two transactions wait for each other
        uuid: session.locked(connection, _networks, uuid, exceptions.NetworkNotFound(network=uuid))
        for uuid in sorted({each["network"] for each in asked})
    }
    for each in asked:
        network = found[each["network"]]
        if each.get("fixed_ips") is not None:
            addresses = {"fixed_ips": each["fixed_ips"], "preserve": each["preserve"]}
        else:
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


def _addresses(connection: sa.Connection, network: session.Row, fixed_ip: str | None) -> dict[str, Any]:
    chosen = None if fixed_ip is None else ipaddress.ip_address(fixed_ip).version
    versions = {subnets.version(each): each for each in network["subnets"]}
    if chosen is not None and chosen not in versions:
        raise exceptions.InvalidValue(f"Network {named(network)} has no IPv{chosen} subnet, so no address {fixed_ip}.")
    return {
        f"ipv{version}": _address(connection, network, subnet, version, fixed_ip if version == chosen else None)
        for version, subnet in versions.items()
    }


def _address(
    connection: sa.Connection, network: session.Row, subnet: subnets.Subnet, version: int, fixed_ip: str | None
) -> str:
    column = table.c[f"ipv{version}"]
    # A locking read sees the commits until now. MariaDB's other reads see those until the transaction's first read.
    held = sa.select(column).where(table.c.network_uuid == network["uuid"]).with_for_update(read=True)
    used = {value for value in connection.execute(held).scalars() if value is not None}
    if fixed_ip is None:
        free = subnets.free_address(subnet, used)
        if free is None:
            raise exceptions.Conflict(
                f"Network {named(network)} has no free address left in {subnet['cidr']}. Delete containers that "
                "nobody needs, or use another network."
            )
        return free
    subnets.check_address(subnet, fixed_ip)
    if fixed_ip in used:
        raise exceptions.Conflict(
            f"Address {fixed_ip} of network {named(network)} belongs to another container. Choose another one, or "
            "name none: then one is chosen."
        )
    return fixed_ip


def attach(container_uuid: str, wanted: Wanted) -> session.Row:
    """Put the container into one more network, and return the port in the form of ``of_container``.

    Raises ContainerNotFound, Invalid if the container is in the network already, and the errors of ``allot``.
    """
    return _attach_once(container_uuid, {**wanted, "uuid": wanted.get("uuid") or uuidutils.generate_uuid()})


@session.retry
def _attach_once(container_uuid: str, wanted: Wanted) -> session.Row:
    with session.writer() as connection:
        # Locked, so that two requests do not both put the container into the same network.
        there = session.locked(
            connection, _containers, container_uuid, exceptions.ContainerNotFound(container=container_uuid)
        )
        same = _WHOLE.where(table.c.container_uuid == container_uuid, table.c.network_uuid == wanted["network"])
        before = session.first(connection, same)
        if before is not None and before["uuid"] == wanted["uuid"]:
            return before  # an earlier attempt added it and lost its connection before the answer
        if before is not None:
            network = named({"name": before["network_name"], "uuid": before["network_uuid"]})
            if before["leaving"]:
                raise exceptions.Conflict(
                    f"Container {named(there)} is just leaving network {network}. Try again in a moment."
                )
            raise exceptions.Invalid(f"Container {named(there)} is in network {network} already.")
        allot(connection, container_uuid, [wanted])
        return session.rows(connection, same)[0]


def set_leaving(uuid: str, leaving: bool) -> bool:
    """Set whether the container is to leave the network. Return whether the port changed: False if it is gone."""
    same = sa.and_(table.c.uuid == uuid, table.c.leaving.is_(not leaving))

    def attempt(again: bool) -> bool:
        with session.writer() as connection:
            if connection.execute(table.update().where(same).values(leaving=leaving)).rowcount:
                return True
            return again and connection.execute(sa.select(table.c.id).where(table.c.uuid == uuid)).first() is not None

    return session.repeat(attempt)


@session.retry
def destroy(uuid: str) -> None:
    """Remove the port, if it exists. Its addresses are free again."""
    with session.writer() as connection:
        connection.execute(table.delete().where(table.c.uuid == uuid))


def of_container(container_uuid: str) -> Sequence[session.Row]:
    """Return the ports of the container with data of their networks, oldest first."""
    with session.reader() as connection:
        return session.rows(connection, _OF_CONTAINER, {"this_uuid": container_uuid})


def is_joined(container_uuid: str) -> bool:
    """Return whether the container has ports of Neutron."""
    return any(port["fixed_ips"] is not None for port in of_container(container_uuid))


def of_host(hostname: str) -> Sequence[session.Row]:
    """Return the ports of every container of the host with data of their networks, oldest first."""
    with session.reader() as connection:
        return session.rows(connection, _OF_HOST, {"this_host": hostname})


def restore_in(connection: sa.Connection, ports: Iterable[Mapping[str, Any]]) -> None:
    """Add ports again that a record has. Conflict if an address of one belongs to another container by now."""
    for port in ports:
        try:
            with connection.begin_nested():
                connection.execute(table.insert().values(**port))
        except db_exc.DBDuplicateEntry:
            addresses = " and ".join(each for each in (port["ipv4"], port["ipv6"]) if each)
            raise exceptions.Conflict(
                f"its address {addresses} of network {port['network_uuid']} belongs to another container by now. "
                "Delete one of the two, and recover again"
            ) from None


def recorded(container_uuid: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of the container's ports and of their networks, without ids, for the records of its host."""
    this = {"this_uuid": container_uuid}
    with session.reader() as connection:
        ports, found = (session.rows(connection, each, this) for each in (_KEPT, _KEPT_NETWORKS))
        return [_plain(row) for row in ports], [_plain(row) for row in found]


def _plain(row: session.Row) -> dict[str, Any]:
    return {str(name): value for name, value in row.items()}


def known(uuids: Collection[str]) -> set[str]:
    """Return those of ``uuids`` that are ports of a container."""
    with session.reader() as connection:
        return set(connection.execute(sa.select(table.c.uuid).where(table.c.uuid.in_(uuids))).scalars())


def networks_of_host(hostname: str) -> set[str]:
    """Return the uuids of the networks that have containers on the host."""
    statement = (
        sa.select(table.c.network_uuid)
        .distinct()
        .join(_containers, _containers.c.uuid == table.c.container_uuid)
        .where(_containers.c.host == hostname)
    )
    with session.reader() as connection:
        return set(connection.execute(statement).scalars())


def find_for(project_id: str, uuid: str) -> session.Row:
    """Return a port of one of the project's containers. Raises PortNotFound."""
    statement = (
        sa.select(table)
        .join(_containers, _containers.c.uuid == table.c.container_uuid)
        .where(table.c.uuid == uuid, _containers.c.project_id == project_id)
    )
    return session.found(statement, exceptions.PortNotFound(port=uuid))
