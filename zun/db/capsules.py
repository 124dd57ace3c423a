# SPDX-License-Identifier: Apache-2.0
"""Queries of capsules and their members, which are rows of the containers' table. Each function is one transaction."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Unpack

import sqlalchemy as sa
from oslo_utils import timeutils, uuidutils

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.kinds import Kind
from zun.common.states import Status
from zun.db import idents, models, network_ports, paging, session

table = models.containers


def _visible(context: RequestContext, all_projects: bool) -> list[sa.ColumnElement[bool]]:
    ours = [table.c.kind == Kind.CAPSULE]
    return ours if all_projects else [*ours, table.c.project_id == context.project_id]


@session.retry_adding(table)
def insert(
    capsule: Mapping[str, Any], members: Sequence[Mapping[str, Any]], nets: Sequence[network_ports.Wanted] = ()
) -> session.Row:
    """Add a capsule, whose ``uuid`` is set, and its members in the order in which they are started.

    ``nets`` are the ports that it gets, and raise what ``network_ports.allot`` does.
    """
    with session.writer() as connection:
        row = session.add(connection, table, {**capsule, "kind": Kind.CAPSULE})
        common = {name: row[name] for name in ("project_id", "user_id", "created_at")} | {"capsule_uuid": row["uuid"]}
        for member in members:
            connection.execute(table.insert().values({**member, **common, "uuid": uuidutils.generate_uuid()}))
        network_ports.allot(connection, row["uuid"], nets)
        return row


def find(context: RequestContext, ident: str, *, all_projects: bool) -> session.Row:
    """The capsule with this uuid or name. Raises ContainerNotFound, and Conflict when the name is not unique."""
    return idents.find(table, ident, _visible(context, all_projects), _not_found(ident))


def page(
    context: RequestContext, *, all_projects: bool = False, **place: Unpack[paging.Place]
) -> list[session.Row]:
    missing = _not_found(place.get("marker"))
    return paging.behind(table, _visible(context, all_projects), missing=missing, **place)


def _not_found(ident: str | None) -> exceptions.ContainerNotFound:
    """The code is a container's, which clients know."""
    return exceptions.ContainerNotFound(
        f"Capsule {ident} could not be found. List them with 'openstack appcontainer capsule list'."
    )


def members(uuids: Collection[str]) -> dict[str, list[session.Row]]:
    """Capsule -> its members in the order in which they are started."""
    found: dict[str, list[session.Row]] = {uuid: [] for uuid in uuids}
    statement = sa.select(table).where(table.c.capsule_uuid.in_(uuids)).order_by(table.c.id)
    with session.reader() as connection:
        for row in session.rows(connection, statement):
            found[row["capsule_uuid"]].append(row)
    return found


@session.retry
def end_members(uuid: str, reason: str, removed: bool = True) -> None:
    """The capsule ends in Error: so do its members, which, once ``removed``, hold nothing and are nowhere."""
    mine = table.update().where(table.c.capsule_uuid == uuid)
    values = {"status": Status.ERROR, "status_reason": reason, "task_state": None, "updated_at": timeutils.utcnow()}
    if removed:
        values |= {"container_id": None, "cpuset": None, "host": None}
    with session.writer() as connection:
        connection.execute(mine.values(values))
