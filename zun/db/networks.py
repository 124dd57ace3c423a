# SPDX-License-Identifier: Apache-2.0
"""Queries of networks. Each function is one transaction.

Networks are made and removed one after the other in the whole cloud, so that no two have addresses in common.
"""

import ipaddress
import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Unpack

import sqlalchemy as sa
from oslo_utils import uuidutils

from zun.common import exceptions, subnets
from zun.common.context import RequestContext
from zun.common.subnets import Pool
from zun.db import idents, models, paging, quotas, session

LOG = logging.getLogger(__name__)

table = models.networks
_ports = models.network_ports

_LOCK = "all networks"  # the row of quota_locks that is locked to add one; of no project


def _of(project_id: str | sa.BindParameter[str]) -> sa.ColumnElement[bool]:
    return sa.or_(table.c.project_id == project_id, table.c.shared.is_(True))


# Each create asks for it: building the statement costs more than sending it.
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
def insert(values: Mapping[str, Any], wanted: Sequence[Mapping[str, str]], pool: Pool) -> session.Row:
    """Add a network; ``uuid`` and the time are filled in. Returns the whole row.

    ``wanted`` are its subnets (``cidr``, ``gateway``). Without any it gets an IPv4 block of the ``pool``. Conflict when
    a subnet is in use already or the pool is.
    """
    quotas.make_chargeable(_LOCK)
    with session.writer() as connection:
        quotas.lock(connection, _LOCK)
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


def readable_subnets(uuid: str) -> AbstractContextManager[None]:
    """For who looks into the subnets of a network. Raises RowUnreadable."""
    return models.readable(
        table.c.subnets,
        uuid,
        "Write them anew, or delete the network with its containers: until then nobody can join it, those who are in "
        "it are not compared with it, and another network may get the same addresses.",
    )


def _cidrs(row: session.Row) -> list[str]:
    """The blocks of a network's subnets. One that nobody can read keeps nobody from having others."""
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
    """By uuid, name or the id that its creator gave it, among what ``context`` may see.

    Raises NetworkNotFound, and Conflict for a name of several.
    """
    return _find(_visible(context, bool(context.is_admin)), ident)


def find_for(project_id: str, ident: str) -> session.Row:
    """As ``find``, among those that containers of the project may join: its own and the shared ones."""
    return _find([_of(project_id)], ident)


def _find(visible: Sequence[sa.ColumnElement[bool]], ident: str) -> session.Row:
    same = sa.or_(idents.called(table, ident), table.c.neutron_net_id == ident)
    # Several rows may have been given one uuid as their id elsewhere; the oldest is meant.
    most = 1 if uuidutils.is_uuid_like(ident) else 2
    with session.reader() as connection:
        rows = session.rows(connection, sa.select(table).where(same, *visible).order_by(table.c.id).limit(most))
    return idents.only(rows, ident, exceptions.NetworkNotFound(network=ident))


def default(project_id: str) -> session.Row | None:
    """Where a container of the project goes that names no network: its oldest, else the oldest shared one."""
    with session.reader() as connection:
        return session.first(connection, _DEFAULT, {"this_project": project_id})


def page(context: RequestContext, *, all_projects: bool, **place: Unpack[paging.Place]) -> list[session.Row]:
    missing = exceptions.NetworkNotFound(network=place.get("marker"))
    return paging.behind(table, _visible(context, all_projects), missing=missing, **place)


@session.retry
def destroy(uuid: str) -> None:
    """Raises NetworkNotFound, and Conflict while containers are in it."""
    with session.writer() as connection:
        # Locked first: whoever puts a container into it does so too, and comes before or after this.
        session.locked(connection, table, uuid, exceptions.NetworkNotFound(network=uuid))
        users = connection.execute(
            sa.select(sa.func.count()).select_from(_ports).where(_ports.c.network_uuid == uuid)
        ).scalar()
        if users:
            raise exceptions.Conflict(
                f"Network {uuid} has {users} containers, stopped ones and those of other projects included. Delete or "
                "detach them first."
            )
        connection.execute(table.delete().where(table.c.uuid == uuid))
