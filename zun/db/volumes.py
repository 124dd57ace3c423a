# SPDX-License-Identifier: Apache-2.0
"""Queries of the named volumes of projects. The files of a volume are at the runtime of its host."""

import contextlib
from collections.abc import Collection
from typing import Any, Unpack

import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_utils import timeutils, uuidutils

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.mounts import mounts_of, volume_names
from zun.common.states import Kind
from zun.db import idents, models, paging, session

table = models.volumes
_containers = models.containers


def _named(project_id: str, names: Collection[str]) -> sa.ColumnElement[bool]:
    return sa.and_(table.c.project_id == project_id, table.c.name.in_(names))


def hosts(project_id: str, names: Collection[str]) -> dict[str, str]:
    """Return the host of each existing volume among ``names``, by name."""
    if not names:
        return {}
    statement = sa.select(table.c.name, table.c.host).where(_named(project_id, names))
    with session.reader() as connection:
        return {row.name: row.host for row in connection.execute(statement)}


def missing(connection: sa.Connection, project_id: str, names: Collection[str]) -> int:
    """Return how many of the distinct ``names`` are no volume of the project."""
    there = sa.select(sa.func.count()).select_from(table).where(_named(project_id, names))
    return len(names) - int(connection.execute(there).scalar_one())


def hold(connection: sa.Connection, project_id: str, names: Collection[str], hostname: str) -> None:
    """Add missing volumes on ``hostname``, and check that the others are there. Raises VolumeElsewhere, VolumeLeaving.

    The caller charges the project for the new volumes.
    """
    for name in sorted(names):  # in one order, so that no two transactions wait for each other
        same = sa.and_(table.c.project_id == project_id, table.c.name == name)
        try:
            with connection.begin_nested():
                values = {"uuid": uuidutils.generate_uuid(), "created_at": timeutils.utcnow(), "deleting": False}
                values |= {"project_id": project_id, "name": name, "host": hostname}
                connection.execute(table.insert().values(**values))
        except db_exc.DBDuplicateEntry:
            # A locking read shows what others committed since this transaction began.
            found = connection.execute(sa.select(table.c.host, table.c.deleting).where(same).with_for_update()).first()
            if found is None or found.deleting:
                raise exceptions.VolumeLeaving(volume=name) from None
            if found.host != hostname:
                raise exceptions.VolumeElsewhere(host=hostname, volume=name) from None


def find(context: RequestContext, ident: str) -> session.Row:
    """Return the volume that ``context`` means, by the rule of ``zun.db.idents``. Raises VolumeNotFound."""
    visible = idents.reached(table.c.project_id == context.project_id, context, ident)
    return idents.find(table, ident, visible, exceptions.VolumeNotFound(volume=ident))


def page(
    context: RequestContext, *, all_projects: bool = False, **place: Unpack[paging.Place]
) -> list[session.Row]:
    missing_marker = exceptions.VolumeNotFound(volume=place.get("marker"))
    return paging.behind(table, idents.visible(table, context, all_projects), missing=missing_marker, **place)


def _mounting(project_ids: Collection[str]) -> sa.Select[Any]:
    """Return the query of the containers and capsules of the projects that mount something."""
    columns = (_containers.c.uuid, _containers.c.name, _containers.c.project_id, _containers.c.mounts)
    return sa.select(*columns).where(
        _containers.c.project_id.in_(project_ids),
        _containers.c.mounts.is_not(None),
        _containers.c.capsule_uuid.is_(None),
        _containers.c.kind != Kind.LEFTOVER,  # its host removes nothing that the runtime still mounts
    )


def mounted(project_ids: Collection[str]) -> set[tuple[str, str]]:
    """Return the project and the name of each volume that a container of the projects mounts.

    A container whose mounts cannot be read counts for none; ``begin_to_delete`` names it.
    """
    found: set[tuple[str, str]] = set()
    if not project_ids:
        return found
    with session.reader() as connection:
        for user in session.rows(connection, _mounting(project_ids)):
            with (
                contextlib.suppress(exceptions.RowUnreadable),
                models.readable(_containers.c.mounts, user["uuid"], "Delete that container."),
            ):
                found |= {(user["project_id"], name) for name in volume_names(mounts_of(user))}
    return found


@session.retry
def begin_to_delete(uuid: str) -> None:
    """Mark the volume for removal by its host. Raises VolumeNotFound, and Conflict while a container mounts the volume.

    From then on ``hold`` refuses the volume, so that no new container mounts it.
    """
    with session.writer() as connection:
        # Locked first, like in ``hold``: no claim takes the volume at the same time.
        row = session.locked(connection, table, uuid, exceptions.VolumeNotFound(volume=uuid))
        for user in session.rows(connection, _mounting([row["project_id"]])):
            with models.readable(_containers.c.mounts, user["uuid"], "Delete that container."):
                names = volume_names(mounts_of(user))
            if row["name"] in names:
                raise exceptions.Conflict(
                    f"Volume {row['name']} is mounted by {user['name'] or 'capsule'} ({user['uuid']}). Delete that "
                    "first; a stopped container and one in Error count too."
                )
        connection.execute(table.update().where(table.c.uuid == uuid).values(deleting=True))


def to_delete(hostname: str) -> list[session.Row]:
    """Return the volumes that ``hostname`` is to remove."""
    with session.reader() as connection:
        return session.rows(connection, sa.select(table).where(table.c.host == hostname, table.c.deleting.is_(True)))


@session.retry
def destroy(uuid: str) -> None:
    """Remove the row of a volume that is marked for removal, if it exists."""
    with session.writer() as connection:
        connection.execute(table.delete().where(table.c.uuid == uuid, table.c.deleting.is_(True)))
