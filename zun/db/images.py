# SPDX-License-Identifier: Apache-2.0
"""Queries of the images that were pulled to hosts. Each function is one transaction."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_utils import timeutils, uuidutils

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.db import models, paging, session

table = models.images


@session.retry
def insert(values: Mapping[str, Any]) -> session.Row:
    """Add an image; ``uuid``, the time and, without one, the status Pulling are filled in. Returns the whole row.

    Raises ImageAlreadyExists when the host has this repo and tag.
    """
    uuid = uuidutils.generate_uuid()
    values = {"status": "Pulling", **values}
    try:
        with session.writer() as connection:
            connection.execute(table.insert().values(**values, uuid=uuid, created_at=timeutils.utcnow()))
            return session.rows(connection, sa.select(table).where(table.c.uuid == uuid))[0]
    except db_exc.DBDuplicateEntry:
        raise exceptions.ImageAlreadyExists(**{name: values[name] for name in ("repo", "tag", "host")}) from None


def get(uuid: str, project_id: str | None = None) -> session.Row:
    """The image, only of this project if one is given. Raises ImageNotFound."""
    statement = sa.select(table).where(table.c.uuid == uuid)
    if project_id is not None:
        statement = statement.where(table.c.project_id == project_id)
    with session.reader() as connection:
        row = session.first(connection, statement)
    if row is None:
        raise exceptions.ImageNotFound(image=uuid)
    return row


def page(context: RequestContext, *, limit: int, marker: str | None, sort_key: str, sort_dir: str) -> list[session.Row]:
    """Up to ``limit`` images of the project behind the one whose uuid is ``marker``."""
    own = [table.c.project_id == context.project_id]
    missing = exceptions.ImageNotFound(image=marker)
    return paging.behind(table, own, limit=limit, marker=marker, missing=missing, sort_key=sort_key, sort_dir=sort_dir)


@session.retry
def fail_pulls(host: str, reason: str) -> None:
    """Nothing pulls these images of ``host`` any more."""
    under_way = (table.c.host == host) & (table.c.status == "Pulling")
    values = {"status": "Error", "status_detail": reason, "updated_at": timeutils.utcnow()}
    with session.writer() as connection:
        connection.execute(table.update().where(under_way).values(values))


@session.retry
def update(uuid: str, values: Mapping[str, Any]) -> None:
    """Set ``values``. Raises ImageNotFound."""
    statement = table.update().where(table.c.uuid == uuid).values(**values, updated_at=timeutils.utcnow())
    with session.writer() as connection:
        if not connection.execute(statement).rowcount:
            raise exceptions.ImageNotFound(image=uuid)


@session.retry
def destroy(uuid: str) -> None:
    """An image that is already gone is no error."""
    with session.writer() as connection:
        connection.execute(table.delete().where(table.c.uuid == uuid))
