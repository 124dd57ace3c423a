# SPDX-License-Identifier: Apache-2.0
"""Queries of the images that were pulled to hosts or made there of containers. Each function is one transaction."""

import datetime
import hashlib
from collections.abc import Collection, Mapping
from typing import Any, Unpack

import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_utils import timeutils, uuidutils

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.image_reference import LOCAL, Reference
from zun.common.states import ImageStatus
from zun.db import models, paging, session

table = models.images


def _made(project_id: str | sa.BindParameter[str]) -> sa.ColumnElement[bool]:
    return sa.and_(table.c.project_id == project_id, table.c.local_name != "", table.c.image_id.is_not(None))


# Each create asks for one: building the statement costs more than sending it.
_COMMITTED = sa.select(table).where(_made(sa.bindparam("this_project"))).order_by(table.c.id.desc()).limit(1)
_COMMITTED_UUID = _COMMITTED.where(table.c.uuid == sa.bindparam("this_uuid"))
_COMMITTED_NAME = _COMMITTED.where(table.c.repo == sa.bindparam("this_repo"), table.c.tag == sa.bindparam("this_tag"))


@session.retry_adding(table)
def insert(values: Mapping[str, Any]) -> session.Row:
    """Add an image; ``uuid``, the time and, without one, the status Pulling are filled in. Returns the whole row.

    Raises ImageAlreadyExists when the host has this repo and tag.
    """
    values = {"status": ImageStatus.PULLING, **values}
    try:
        with session.writer() as connection:
            return session.add(connection, table, {**values, "pulled": _digest(values)})
    except db_exc.DBDuplicateEntry:
        raise exceptions.ImageAlreadyExists(**{name: values[name] for name in ("repo", "tag", "host")}) from None


@session.retry_adding(table)
def insert_committed(values: Mapping[str, Any]) -> session.Row:
    """Add an image that is being made of a container. Names are not unique: the newest of a name is meant by it."""
    whole = {**values, "status": ImageStatus.COMMITTING, "local_name": f"{LOCAL}:{values['uuid']}"}
    with session.writer() as connection:
        return session.add(connection, table, whole)


def committed(project_id: str, name: str, host: str | None = None) -> session.Row | None:
    """The newest image that the project made, on ``host`` or anywhere, and calls ``name``; None if there is none.

    ``name`` may be its uuid. One that is still being made is none yet.
    """
    named: dict[str, Any] = {"this_project": project_id}
    if uuidutils.is_uuid_like(name):
        statement, named["this_uuid"] = _COMMITTED_UUID, name
    else:
        try:
            reference = Reference.parse(name)
        except ValueError:
            return None
        statement, named["this_repo"], named["this_tag"] = _COMMITTED_NAME, reference.repo, reference.version
    if host is not None:
        statement = statement.where(table.c.host == host)
    with session.reader() as connection:
        return session.first(connection, statement, named)


def search_committed(project_id: str, term: str) -> list[session.Row]:
    """The images that the project made whose name, without a tag, has ``term`` in it."""
    statement = sa.select(table).where(_made(project_id), table.c.repo.contains(term, autoescape=True))
    with session.reader() as connection:
        return session.rows(connection, statement.order_by(table.c.id))


def _digest(values: Mapping[str, Any]) -> str:
    """The names are longer together than what a database can keep unique."""
    return hashlib.sha256("\0".join(values[name] for name in ("host", "repo", "tag")).encode()).hexdigest()


def get(uuid: str, project_id: str | None = None) -> session.Row:
    """The image, only of this project if one is given. Raises ImageNotFound."""
    statement = sa.select(table).where(table.c.uuid == uuid)
    if project_id is not None:
        statement = statement.where(table.c.project_id == project_id)
    return session.found(statement, exceptions.ImageNotFound(image=uuid))


def page(context: RequestContext, **place: Unpack[paging.Place]) -> list[session.Row]:
    """Those of the project."""
    missing = exceptions.ImageNotFound(image=place.get("marker"))
    return paging.behind(table, [table.c.project_id == context.project_id], missing=missing, **place)


@session.retry
def fail_unfinished(
    host: str, reason: str, before: datetime.datetime | None = None, busy: Collection[str] = ()
) -> None:
    """Nothing pulls or makes these images of ``host`` any more: all, or those asked for ``before`` and not ``busy``."""
    unfinished = (ImageStatus.PULLING, ImageStatus.COMMITTING)
    under_way = (table.c.host == host) & table.c.status.in_(unfinished) & table.c.uuid.not_in(busy)
    if before is not None:
        under_way &= table.c.created_at < before
    values = {"status": ImageStatus.ERROR, "status_detail": reason, "updated_at": timeutils.utcnow()}
    with session.reader() as connection:
        found = list(connection.execute(sa.select(table.c.uuid).where(under_way)).scalars())
    if found:
        with session.writer() as connection:
            connection.execute(table.update().where(table.c.uuid.in_(found), under_way).values(values))


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
