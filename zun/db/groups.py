# SPDX-License-Identifier: Apache-2.0
"""Queries of container groups. Each function is one transaction.

A group's members are the containers whose row names the group. A transaction that adds a member, writes a member's
claim or deletes the group locks the group's row first (``lock``), so the group's rule holds when it commits.
"""

from collections.abc import Collection, Mapping
from typing import Any, Unpack

import sqlalchemy as sa
from oslo_db import exception as db_exc

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.db import idents, models, paging, quotas, session

table = models.container_groups
containers = models.containers


@session.retry_adding(table)
def insert(values: Mapping[str, Any], quota: Mapping[str, int] | None = None) -> session.Row:
    """Add a group, fill in ``uuid`` and the times, and return the whole row.

    Raises Conflict if the project has a group of this name. ``quota`` are the operator's default limits. With
    ``quota``, OverQuota if the project may not have another group.
    """
    try:
        with quotas.adding(values["project_id"], {"groups": 1}, quota) as connection:
            return session.add(connection, table, values)
    except db_exc.DBDuplicateEntry:
        raise exceptions.Conflict(f"A group with name {values['name']} exists already. Choose another name.") from None


def get(uuid: str) -> session.Row:
    """Return the group of any project, with uuid, name, project_id, policy and rules. Raises GroupNotFound."""
    return session.found(sa.select(table).where(table.c.uuid == uuid), exceptions.GroupNotFound(group=uuid))


def find(context: RequestContext, ident: str) -> session.Row:
    """Return the group that ``context`` means with a uuid or name, by the rule of ``zun.db.idents``.

    Raises GroupNotFound.
    """
    return _find(idents.reached(table.c.project_id == context.project_id, context, ident), ident)


def find_for(project_id: str | None, ident: str) -> session.Row:
    """Return the project's own group with this uuid or name. Raises GroupNotFound."""
    return _find([table.c.project_id == project_id], ident)


def _find(visible: list[sa.ColumnElement[bool]], ident: str) -> session.Row:
    return idents.find(table, ident, visible, exceptions.GroupNotFound(group=ident))


def page(
    context: RequestContext, *, all_projects: bool = False, **place: Unpack[paging.Place]
) -> list[session.Row]:
    missing = exceptions.GroupNotFound(group=place.get("marker"))
    return paging.behind(table, idents.visible(table, context, all_projects), missing=missing, **place)


def members(uuids: Collection[str]) -> dict[str, list[str]]:
    """Return the uuids of each group's containers, oldest first, by group. Groups without containers are absent."""
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
    """Remove the group. Raises GroupNotFound, and Conflict if the group has containers."""
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
    """Lock the group's row until the transaction ends, and return the row. Raises GroupNotFound.

    The lock must be the first statement of its transaction. In MariaDB, the later statements then see everything that
    was committed before the lock.
    """
    return session.locked(connection, table, uuid, exceptions.GroupNotFound(group=uuid))


def held(connection: sa.Connection, uuid: str, without: str) -> dict[str, int]:
    """Count the containers of the group that hold resources, by host. The container ``without`` does not count."""
    statement = (
        sa.select(containers.c.host, sa.func.count())
        .where(containers.c.group_uuid == uuid, containers.c.cpuset.is_not(None), containers.c.uuid != without)
        .group_by(containers.c.host)
    )
    return {host: count for host, count in connection.execute(statement) if host is not None}
