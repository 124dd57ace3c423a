# SPDX-License-Identifier: Apache-2.0
"""Queries of registries. Each function is one transaction."""

from collections.abc import Mapping
from typing import Any, Unpack

import sqlalchemy as sa
from oslo_utils import timeutils

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.db import idents, models, paging, session

table = models.registries
FILTERS = frozenset({"name", "domain", "username", "project_id", "user_id"})

_containers = models.containers


def _visible(context: RequestContext, all_projects: bool) -> list[sa.ColumnElement[bool]]:
    return [] if all_projects else [table.c.project_id == context.project_id]


@session.retry_adding(table)
def insert(values: Mapping[str, Any]) -> session.Row:
    """Add a registry; ``uuid`` and the time are filled in. Returns the whole row."""
    with session.writer() as connection:
        return session.add(connection, table, values)


def get(uuid: str) -> session.Row:
    """The registry, whoever owns it. Raises RegistryNotFound."""
    return session.found(sa.select(table).where(table.c.uuid == uuid), exceptions.RegistryNotFound(registry=uuid))


def find(context: RequestContext, ident: str) -> session.Row:
    """By uuid or name, among what ``context`` may see. Raises RegistryNotFound, and Conflict for a name of several."""
    visible = _visible(context, bool(context.is_admin))
    return idents.find(table, ident, visible, exceptions.RegistryNotFound(registry=ident))


def page(
    context: RequestContext, *, filters: Mapping[str, Any], all_projects: bool, **place: Unpack[paging.Place]
) -> list[session.Row]:
    """``filters`` compare for equality."""
    missing = exceptions.RegistryNotFound(registry=place.get("marker"))
    equal = [table.c[name] == value for name, value in filters.items()]
    return paging.behind(table, _visible(context, all_projects), filters=equal, missing=missing, **place)


@session.retry
def update(uuid: str, values: Mapping[str, Any]) -> session.Row:
    """Set ``values`` and return the whole row. Raises RegistryNotFound."""
    same = table.c.uuid == uuid
    with session.writer() as connection:
        if not connection.execute(table.update().where(same).values(**values, updated_at=timeutils.utcnow())).rowcount:
            raise exceptions.RegistryNotFound(registry=uuid)
        return session.rows(connection, sa.select(table).where(same))[0]


@session.retry
def destroy(uuid: str) -> None:
    """Raises RegistryNotFound, and Conflict while a container's image comes from it."""
    with session.writer() as connection:
        # Locked first: whoever adds a container of it does so too (``hold``), and comes before or after this.
        session.locked(connection, table, uuid, exceptions.RegistryNotFound(registry=uuid))
        users = sa.select(_containers.c.uuid).where(_containers.c.registry_id == uuid).limit(1)
        user = connection.execute(users).scalar()
        if user is not None:
            raise exceptions.Conflict(f"Registry {uuid} is used by container {user}. Delete that first.")
        connection.execute(table.delete().where(table.c.uuid == uuid))


def hold(connection: sa.Connection, uuid: str) -> None:
    """Keep the registry from being removed until the transaction ends. Raises RegistryNotFound."""
    found = sa.select(table.c.id).where(table.c.uuid == uuid).with_for_update(read=True)
    if connection.execute(found).first() is None:
        raise exceptions.RegistryNotFound(registry=uuid)
