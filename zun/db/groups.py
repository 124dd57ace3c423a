# SPDX-License-Identifier: Apache-2.0
"""Queries of container groups. Each function is one transaction.

A group's members are the containers whose row names it. Whoever adds a member, claims for one or deletes the group
locks the group's row first (``lock``), so the rule that is checked under it is kept.
"""

from collections.abc import Collection, Mapping
from typing import Any, Unpack

import sqlalchemy as sa
from oslo_db import exception as db_exc

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.db import idents, models, paging, session

table = models.container_groups
containers = models.containers


@session.retry_adding(table)
def insert(values: Mapping[str, Any]) -> session.Row:
    """Add a group; ``uuid`` and the times are filled in. Returns the whole row.

    Raises Conflict when the project has one of this name.
    """
    try:
        with session.writer() as connection:
            return session.add(connection, table, values)
    except db_exc.DBDuplicateEntry:
        raise exceptions.Conflict(f"A group with name {values['name']} exists already. Choose another name.") from None


def get(uuid: str) -> session.Row:
    """The group, whoever owns it: uuid, name, project_id, policy and rules among its members. Raises GroupNotFound."""
    return session.found(sa.select(table).where(table.c.uuid == uuid), exceptions.GroupNotFound(group=uuid))


def find(context: RequestContext, ident: str, *, all_projects: bool = False) -> session.Row:
    """The group of the context's project with this uuid or name; with ``all_projects`` of any, the own one first.

    Raises GroupNotFound, and Conflict when several other projects have one of this name. Text that looks like a uuid
    is one.
    """
    statement = sa.select(table).where(idents.called(table, ident), *_visible(context, all_projects))
    with session.reader() as connection:
        found = session.rows(connection, statement)
    own = [row for row in found if row["project_id"] == context.project_id]
    return idents.only(own or found, ident, exceptions.GroupNotFound(group=ident))


def page(
    context: RequestContext, *, all_projects: bool = False, **place: Unpack[paging.Place]
) -> list[session.Row]:
    missing = exceptions.GroupNotFound(group=place.get("marker"))
    return paging.behind(table, _visible(context, all_projects), missing=missing, **place)


def members(uuids: Collection[str]) -> dict[str, list[str]]:
    """Group -> the uuids of its containers, oldest first. Groups without one are absent."""
    statement = (
        sa.select(containers.c.group_uuid, containers.c.uuid)
        .where(containers.c.group_uuid.in_(uuids))
        .order_by(containers.c.id)
    )
    found: dict[str, list[str]] = {}
    with session.reader() as connection:
        for row in connection.execute(statement):
            found.setdefault(row.group_uuid, []).append(row.uuid)
    return found


@session.retry
def destroy(uuid: str) -> None:
    """Raises GroupNotFound, and Conflict when the group has containers."""
    with session.writer() as connection:
        row = lock(connection, uuid)
        mine = sa.select(sa.func.count()).select_from(containers).where(containers.c.group_uuid == uuid)
        count = connection.execute(mine).scalar()
        if count:
            raise exceptions.Conflict(
                f"Group {row['name']} has {count} container{'s' * (count > 1)}. Delete them, then delete the group."
            )
        connection.execute(table.delete().where(table.c.uuid == uuid))


def lock(connection: sa.Connection, uuid: str) -> session.Row:
    """The group, which nobody else locks until the transaction ends. Raises GroupNotFound.

    It must be the first statement of its transaction: MariaDB's later ones then see what others committed before.
    """
    return session.locked(connection, table, uuid, exceptions.GroupNotFound(group=uuid))


def held(connection: sa.Connection, uuid: str, without: str) -> dict[str, int]:
    """How many containers of the group hold resources, by host. The container ``without`` is not counted."""
    statement = (
        sa.select(containers.c.host, sa.func.count())
        .where(containers.c.group_uuid == uuid, containers.c.cpuset.is_not(None), containers.c.uuid != without)
        .group_by(containers.c.host)
    )
    return {host: count for host, count in connection.execute(statement) if host is not None}


def _visible(context: RequestContext, all_projects: bool) -> list[sa.ColumnElement[bool]]:
    return [] if all_projects else [table.c.project_id == context.project_id]
