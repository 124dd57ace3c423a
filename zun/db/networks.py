# SPDX-License-Identifier: Apache-2.0
"""Queries of networks. Each function is one transaction.

Networks are added one after the other in the whole cloud, so that no two of them have addresses in common.
"""

import ipaddress
import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Unpack

import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_utils import uuidutils

from zun.common import exceptions, subnets
from zun.common.context import RequestContext
from zun.common.naming import named
from zun.common.subnets import Pool
from zun.db import idents, models, paging, quotas, session

LOG = logging.getLogger(__name__)

table = models.networks
_ports = models.network_ports

_LOCK = "all networks"  # the row of quota_locks that is locked to add a network


def _of(project_id: str | sa.BindParameter[str]) -> sa.ColumnElement[bool]:
    return sa.or_(table.c.project_id == project_id, table.c.shared.is_(True))


# Built once, because every creation uses it and building a statement takes longer than sending it.
_PROJECT: sa.BindParameter[str] = sa.bindparam("this_project")
_DEFAULT = (
    sa.select(table)
    .where(_of(_PROJECT))
    .order_by(sa.case((table.c.project_id == _PROJECT, 0), else_=1), table.c.created_at, table.c.id)
    .limit(1)
)


def _visible(context: RequestContext, all_projects: bool) -> list[sa.ColumnElement[bool]]:
    return [] if all_projects else [_of(str(context.project_id))]


@session.retry_adding(table)
def insert(
    values: Mapping[str, Any],
    wanted: Sequence[Mapping[str, str]],
    pool: Pool,
    quota: Mapping[str, int] | None = None,
) -> session.Row:
    """Add a network, fill in ``uuid`` and the time, and return the whole row.

    ``wanted`` are the subnets, each with ``cidr`` and ``gateway``. Without subnets the network gets an IPv4 block of
    the ``pool``. Conflict if a subnet or the whole pool is in use. ``quota`` are the operator's default limits. With
    ``quota``, OverQuota if the project may not have another network.
    """
    quotas.make_chargeable(_LOCK)
    quotas.make_chargeable(values["project_id"])
    with session.writer() as connection:
        quotas.lock(connection, _LOCK)
        quotas.grow(connection, values["project_id"], {"networks": 1}, quota)
        kept = session.rows(connection, sa.select(table.c.uuid, table.c.subnets))
        used = [cidr for row in kept for cidr in _cidrs(row)]
        given = list(wanted) or [_from(pool, used)]
        for each in given:
            other = subnets.overlapping(ipaddress.ip_network(each["cidr"]), used)
            if other is not None:
                raise exceptions.Conflict(
                    f"Subnet {each['cidr']} overlaps with {other} of another network. Choose one that is free, or name "
                    "none: then one is chosen."
                )
        made = [{"uuid": uuidutils.generate_uuid(), **each} for each in given]
        return session.add(connection, table, {**values, "subnets": made})


def restore_in(connection: sa.Connection, values: Mapping[str, Any]) -> None:
    """Add a network again that a record has, unless it exists. Conflict if another network has addresses of it.

    The caller holds ``lock`` of the networks.
    """
    kept = session.rows(connection, sa.select(table.c.uuid, table.c.subnets))
    if any(row["uuid"] == values["uuid"] for row in kept):
        return
    used = [cidr for row in kept for cidr in _cidrs(row)]
    for each in [] if values["neutron_net_id"] == values["uuid"] else values["subnets"]:  # Neutron's may overlap
        other = subnets.overlapping(ipaddress.ip_network(each["cidr"]), used)
        if other is not None:
            raise exceptions.Conflict(
                f"its network {values['name'] or values['uuid']} has subnet {each['cidr']}, and another network has "
                f"{other} by now. Delete that network, and recover again"
            )
    connection.execute(table.insert().values(**values))


def make_lockable() -> None:
    """Add the row that ``lock`` locks, if it is missing, in a transaction before that."""
    quotas.make_chargeable(_LOCK)


def lock(connection: sa.Connection) -> None:
    """Keep others from adding networks until the transaction ends."""
    quotas.lock(connection, _LOCK)


def learn(values: Mapping[str, Any]) -> session.Row:
    """Write what Neutron says of a network, which may be known already, and return the row."""
    given = {name: value for name, value in values.items() if name != "uuid"}
    same = table.c.uuid == values["uuid"]

    @session.retry
    def changed() -> session.Row | None:
        with session.writer() as connection:
            connection.execute(table.update().where(same).values(**given))
            return session.first(connection, sa.select(table).where(same))

    row = changed()
    if row is None:
        try:
            return _add(values)
        except db_exc.DBDuplicateEntry:  # another request added it meanwhile
            row = changed()
    if row is None:
        raise exceptions.NetworkNotFound(network=values["uuid"])
    return row


@session.retry_adding(table)
def _add(values: Mapping[str, Any]) -> session.Row:
    with session.writer() as connection:
        return session.add(connection, table, values)


def readable_subnets(uuid: str) -> AbstractContextManager[None]:
    """Return a context that turns errors of malformed subnets into RowUnreadable."""
    return models.readable(
        table.c.subnets,
        uuid,
        "Write them anew, or delete the network with its containers: until then nobody can join it, those who are in "
        "it are not compared with it, and another network may get the same addresses.",
    )


def _cidrs(row: session.Row) -> list[str]:
    """Return the blocks of a network's subnets, or no blocks if the subnets are malformed, which is logged."""
    try:
        with readable_subnets(row["uuid"]):
            return [str(ipaddress.ip_network(each["cidr"])) for each in row["subnets"]]
    except exceptions.RowUnreadable as exc:
        LOG.error("%s", exc)
        return []


def _from(pool: Pool, used: Sequence[str]) -> dict[str, str]:
    cidr = subnets.free_block(pool, used)
    return {"cidr": cidr, "gateway": subnets.default_gateway(ipaddress.ip_network(cidr))}


def find(context: RequestContext, ident: str) -> session.Row:
    """Return the network that ``context`` means with a uuid, a name or the id that its creator gave the network.

    The rule of ``zun.db.idents`` holds. If the project has no network of this name, the name means a shared network.
    Raises NetworkNotFound, and Conflict if the name is not unique.
    """
    return _find(idents.reached(_of(str(context.project_id)), context, ident), ident, context.project_id)


def find_to_change(context: RequestContext, ident: str) -> session.Row:
    """Like ``find``, but a name never means a network that another project shares."""
    row = find(context, ident)
    if row["project_id"] != context.project_id and not uuidutils.is_uuid_like(ident):
        raise exceptions.NetworkNotFound(network=ident)
    return row


def find_for(project_id: str, ident: str) -> session.Row:
    """Like ``find``, among the networks that containers of the project may join: its own and the shared ones."""
    return _find([_of(project_id)], ident, project_id)


def _find(visible: Sequence[sa.ColumnElement[bool]], ident: str, project_id: str | None) -> session.Row:
    same = sa.or_(idents.called(table, ident), table.c.neutron_net_id == ident)
    with session.reader() as connection:
        rows = session.rows(connection, sa.select(table).where(same, *visible).order_by(table.c.id))
    if uuidutils.is_uuid_like(ident):
        rows = rows[:1]  # creators may have given several networks one id: it means the oldest
    else:
        rows = [row for row in rows if row["project_id"] == project_id] or rows
    return idents.only(rows, ident, exceptions.NetworkNotFound(network=ident))


def default(project_id: str) -> session.Row | None:
    """Return the network for containers that name none: the project's oldest, else the oldest shared one, else None."""
    with session.reader() as connection:
        return session.first(connection, _DEFAULT, {"this_project": project_id})


def page(context: RequestContext, *, all_projects: bool, **place: Unpack[paging.Place]) -> list[session.Row]:
    missing = exceptions.NetworkNotFound(network=place.get("marker"))
    return paging.behind(table, _visible(context, all_projects), missing=missing, **place)


@session.retry
def destroy(uuid: str) -> None:
    """Remove the network. Raises NetworkNotFound, and Conflict while containers are in the network."""
    with session.writer() as connection:
        # Locked first, like in ``allot``: no container joins the network while it is being removed.
        row = session.locked(connection, table, uuid, exceptions.NetworkNotFound(network=uuid))
        users = connection.execute(
            sa.select(sa.func.count()).select_from(_ports).where(_ports.c.network_uuid == uuid)
        ).scalar()
        if users:
            raise exceptions.Conflict(
                f"Network {named(row)} has {users} containers, stopped ones and those of other projects included. "
                "Delete or detach them first."
            )
        connection.execute(table.delete().where(table.c.uuid == uuid))
