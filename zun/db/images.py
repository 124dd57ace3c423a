# SPDX-License-Identifier: Apache-2.0
"""Queries of the images that hosts pulled or made from containers. Each function is one transaction."""

import datetime
import hashlib
from collections.abc import Collection, Mapping
from typing import Any, Unpack

import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_utils import timeutils, uuidutils

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.image_reference import LOCAL, OF_SERVICE, Reference
from zun.common.states import ImageStatus
from zun.db import models, paging, quotas, session

table = models.images


def _made(project_id: str | sa.BindParameter[str]) -> sa.ColumnElement[bool]:
    return sa.and_(table.c.project_id == project_id, table.c.local_name != "", table.c.image_id.is_not(None))


# Built once, because every creation uses one and building a statement takes longer than sending it.
_COMMITTED = sa.select(table).where(_made(sa.bindparam("this_project"))).order_by(table.c.id.desc()).limit(1)
_COMMITTED_UUID = _COMMITTED.where(table.c.uuid == sa.bindparam("this_uuid"))
_COMMITTED_NAME = _COMMITTED.where(table.c.repo == sa.bindparam("this_repo"), table.c.tag == sa.bindparam("this_tag"))


@session.retry_adding(table)
def insert(values: Mapping[str, Any]) -> session.Row:
    """Add an image and return the whole row. Missing values are filled in: ``uuid``, the time, the status Pulling.

    Raises ImageAlreadyExists if the host has this repo and tag.
    """
    values = {"status": ImageStatus.PULLING, **values}
    try:
        with session.writer() as connection:
            return session.add(connection, table, {**values, "pulled": _digest(values)})
    except db_exc.DBDuplicateEntry:
        raise exceptions.ImageAlreadyExists(**{name: values[name] for name in ("repo", "tag", "host")}) from None


@session.retry_adding(table)
def insert_committed(
    values: Mapping[str, Any], quota: Mapping[str, int] | None = None, *, keeper: str = LOCAL
) -> session.Row:
    """Add an image that is being made from a container. Names are not unique: a name means the newest image.

    ``keeper`` is the repository under which its host keeps the image; OF_SERVICE is for an image that goes to Glance.

    ``quota`` are the operator's default limits. With ``quota``, OverQuota if the project may not have another image.
    """
    whole = {**values, "status": ImageStatus.COMMITTING, "local_name": f"{keeper}:{values['uuid']}"}
    with quotas.adding(values["project_id"], {"images": 1}, quota) as connection:
        return session.add(connection, table, whole)


def committed(project_id: str, name: str, host: str | None = None) -> session.Row | None:
    """Return the newest image that the project made under this name or uuid, on ``host`` or any host, else None.

    An image that is still being made does not count.
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
    """Return the images that the project made whose name without the tag contains ``term``."""
    statement = sa.select(table).where(_made(project_id), table.c.repo.contains(term, autoescape=True))
    with session.reader() as connection:
        return session.rows(connection, statement.order_by(table.c.id))


def _digest(values: Mapping[str, Any]) -> str:
    """Return a digest of host, repo and tag, which together are too long for a unique index."""
    return hashlib.sha256("\0".join(values[name] for name in ("host", "repo", "tag")).encode()).hexdigest()


def get(uuid: str, project_id: str | None = None) -> session.Row:
    """Return the image, of any project unless ``project_id`` is given. Raises ImageNotFound."""
    statement = sa.select(table).where(table.c.uuid == uuid)
    if project_id is not None:
        statement = statement.where(table.c.project_id == project_id)
    return session.found(statement, exceptions.ImageNotFound(image=uuid))


def page(context: RequestContext, **place: Unpack[paging.Place]) -> list[session.Row]:
    """Return a page of the images of the context's project."""
    missing = exceptions.ImageNotFound(image=place.get("marker"))
    return paging.behind(table, [table.c.project_id == context.project_id], missing=missing, **place)


@session.retry
def fail_unfinished(
    host: str, reason: str, before: datetime.datetime | None = None, busy: Collection[str] = ()
) -> list[str]:
    """Put the unfinished images of ``host`` into Error: all, or those from before ``before``, except ``busy`` ones.

    Return the uuids of those that are made for Glance.
    """
    unfinished = (ImageStatus.PULLING, ImageStatus.COMMITTING)
    under_way = (table.c.host == host) & table.c.status.in_(unfinished) & table.c.uuid.not_in(busy)
    if before is not None:
        under_way &= table.c.created_at < before
    values = {"status": ImageStatus.ERROR, "status_detail": reason, "updated_at": timeutils.utcnow()}
    with session.reader() as connection:
        rows = connection.execute(sa.select(table.c.uuid, table.c.local_name).where(under_way))
        found = {row.uuid: row.local_name for row in rows}
    if found:
        with session.writer() as connection:
            connection.execute(table.update().where(table.c.uuid.in_(found), under_way).values(values))
    return sorted(uuid for uuid, name in found.items() if name.startswith(f"{OF_SERVICE}:"))


@session.retry
def update(uuid: str, values: Mapping[str, Any]) -> None:
    """Set ``values``. Raises ImageNotFound."""
    statement = table.update().where(table.c.uuid == uuid).values(**values, updated_at=timeutils.utcnow())
    with session.writer() as connection:
        if not connection.execute(statement).rowcount:
            raise exceptions.ImageNotFound(image=uuid)


@session.retry
def destroy(uuid: str) -> None:
    """Remove the image, if it exists."""
    with session.writer() as connection:
        connection.execute(table.delete().where(table.c.uuid == uuid))
