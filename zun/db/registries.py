# SPDX-License-Identifier: Apache-2.0
"""Queries of registries. Each function is one transaction."""

from collections.abc import Callable, Mapping
from typing import Any, Unpack

import sqlalchemy as sa
from oslo_utils import timeutils

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.naming import named
from zun.db import idents, models, paging, quotas, session

table = models.registries
FILTERS = frozenset({"name", "domain", "username", "project_id", "user_id"})

_containers = models.containers


@session.retry_adding(table)
def insert(values: Mapping[str, Any], quota: Mapping[str, int] | None = None) -> session.Row:
    """Add a registry, fill in ``uuid`` and the time, and return the whole row.

    ``quota`` are the operator's default limits. With ``quota``, OverQuota if the project may not have another registry.
    """
    with quotas.adding(values["project_id"], {"registries": 1}, quota) as connection:
        return session.add(connection, table, values)


def get(uuid: str) -> session.Row:
    """Return the registry of any project. Raises RegistryNotFound."""
    return session.found(sa.select(table).where(table.c.uuid == uuid), exceptions.RegistryNotFound(registry=uuid))


def find(context: RequestContext, ident: str) -> session.Row:
    """Return the registry that ``context`` means with a uuid or name, by the rule of ``zun.db.idents``.

    Raises RegistryNotFound, and Conflict if the name is not unique.
    """
    visible = idents.reached(table.c.project_id == context.project_id, context, ident)
    return idents.find(table, ident, visible, exceptions.RegistryNotFound(registry=ident))


def page(
    context: RequestContext, *, filters: Mapping[str, Any], all_projects: bool, **place: Unpack[paging.Place]
) -> list[session.Row]:
    """Return a page of registries. ``filters`` compare for equality."""
    missing = exceptions.RegistryNotFound(registry=place.get("marker"))
    equal = [table.c[name] == value for name, value in filters.items()]
    return paging.behind(table, idents.visible(table, context, all_projects), filters=equal, missing=missing, **place)


@session.retry
def update(uuid: str, change: Callable[[session.Row], Mapping[str, Any]]) -> session.Row:
    """Set the values that ``change`` returns for the locked row, and return the whole new row.

    The row stays locked from before the call of ``change`` until the write. Raises RegistryNotFound and the errors of
    ``change``.
    """
    same = table.c.uuid == uuid
    with session.writer() as connection:
        row = session.locked(connection, table, uuid, exceptions.RegistryNotFound(registry=uuid))
        values = change(row)
        if not values:
            return row
        connection.execute(table.update().where(same).values(**values, updated_at=timeutils.utcnow()))
        return session.rows(connection, sa.select(table).where(same))[0]


def owner(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the values to which a registry's password is bound: it cannot be decrypted in a row with other values."""
    return tuple(row[name] or "" for name in ("uuid", "project_id", "domain", "username"))


def with_passwords() -> list[str]:
    """Return the uuid of each registry that has a password, of every project, oldest first."""
    with session.reader() as connection:
        statement = sa.select(table.c.uuid).where(table.c.password.is_not(None)).order_by(table.c.id)
        return list(connection.execute(statement).scalars())


@session.retry
def destroy(uuid: str) -> None:
    """Remove the registry. Raises RegistryNotFound, and Conflict while a container uses the registry."""
    with session.writer() as connection:
        # Locked first, like in ``hold``: no container of the registry is added while it is being removed.
        row = session.locked(connection, table, uuid, exceptions.RegistryNotFound(registry=uuid))
        users = sa.select(_containers.c.uuid, _containers.c.name).where(_containers.c.registry_id == uuid).limit(1)
        user = session.first(connection, users)
        if user is not None:
            raise exceptions.Conflict(
                f"Registry {named(row)} is used by container {named(user)}. Delete the container first."
            )
        connection.execute(table.delete().where(table.c.uuid == uuid))


def hold(connection: sa.Connection, uuid: str) -> None:
    """Keep the registry from being removed until the transaction ends. Raises RegistryNotFound."""
    found = sa.select(table.c.id).where(table.c.uuid == uuid).with_for_update(read=True)
    if connection.execute(found).first() is None:
        raise exceptions.RegistryNotFound(registry=uuid)
