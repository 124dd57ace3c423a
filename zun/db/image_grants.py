# SPDX-License-Identifier: Apache-2.0
"""Queries of grants: which projects may use an image that a host pulled with credentials.

Each function is one transaction. An image is ORIGIN@DIGEST, for example ``docker.io/library/nginx@sha256:0d17...``. An
image without any grant is for all projects.
"""

import datetime
from collections.abc import Collection

import sqlalchemy as sa
from oslo_utils import timeutils

from zun.db import models, session

table = models.image_grants

# Built once, because every creation may use it and building a statement takes longer than sending it.
_PROJECTS = sa.select(table.c.project_id).where(
    table.c.image.in_(sa.bindparam("these_images", expanding=True)), table.c.host == sa.bindparam("this_host")
)


def _are(host: str, images: Collection[str]) -> sa.ColumnElement[bool]:
    return sa.and_(table.c.image.in_(images), table.c.host == host)


@session.retry
def grant(host: str, image: str, project_id: str) -> None:
    """Record that the project has shown now that it may use the image. A duplicate row is harmless."""
    same, now = sa.and_(_are(host, [image]), table.c.project_id == project_id), timeutils.utcnow()
    with session.writer() as connection:
        if not connection.execute(table.update().where(same).values(updated_at=now)).rowcount:
            row = {"host": host, "image": image, "project_id": project_id, "updated_at": now}
            connection.execute(table.insert().values(**row))


def projects(host: str, images: Collection[str]) -> set[str]:
    """Return the projects that may use any of ``images``."""
    with session.reader() as connection:
        found = connection.execute(_PROJECTS, {"these_images": list(images), "this_host": host})
        return set(found.scalars())


def images_before(host: str, time: datetime.datetime) -> set[str]:
    """Return the images of ``host`` whose newest grant is older than ``time``, in naive UTC."""
    last = sa.func.max(table.c.updated_at)
    statement = sa.select(table.c.image).where(table.c.host == host).group_by(table.c.image).having(last < time)
    with session.reader() as connection:
        return set(connection.execute(statement).scalars())


@session.retry
def remove(host: str, images: Collection[str], before: datetime.datetime | None = None) -> None:
    """Remove the grants of ``images``, or with ``before`` only the grants that are older."""
    ended = _are(host, images) if before is None else sa.and_(_are(host, images), table.c.updated_at < before)
    with session.writer() as connection:
        connection.execute(table.delete().where(ended))
