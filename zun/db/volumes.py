# SPDX-License-Identifier: Apache-2.0
"""Volumes that projects named: which host has each. Nothing but the host's runtime knows what is in them."""

from collections.abc import Collection

import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_utils import timeutils

from zun.common import exceptions
from zun.db import models, session

table = models.volumes


def hosts(project_id: str, names: Collection[str]) -> dict[str, str]:
    """Volume -> its host, of those of ``names`` that exist."""
    if not names:
        return {}
    statement = sa.select(table.c.name, table.c.host).where(table.c.project_id == project_id, table.c.name.in_(names))
    with session.reader() as connection:
        return {row.name: row.host for row in connection.execute(statement)}


def hold(connection: sa.Connection, project_id: str, names: Collection[str], hostname: str) -> None:
    """Let the volumes be on ``hostname`` from now on, if they are nowhere yet. Raises VolumeElsewhere."""
    for name in sorted(names):  # one order for everybody, so that no two transactions wait for each other
        same = sa.and_(table.c.project_id == project_id, table.c.name == name)
        try:
            with connection.begin_nested():
                values = {"project_id": project_id, "name": name, "host": hostname, "created_at": timeutils.utcnow()}
                connection.execute(table.insert().values(**values))
        except db_exc.DBDuplicateEntry:
            # A locking read shows what others committed since this transaction began.
            host = connection.execute(sa.select(table.c.host).where(same).with_for_update()).scalar()
            if host != hostname:
                raise exceptions.VolumeElsewhere(host=hostname, volume=name) from None
