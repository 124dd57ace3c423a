# SPDX-License-Identifier: Apache-2.0
"""Queries of the tokens that open terminals. Each function is one transaction."""

import datetime

import sqlalchemy as sa

from zun.db import models, session

table = models.console_tokens


@session.retry
def add(
    token_hash: str,
    container_uuid: str,
    exec_id: str | None,
    now: datetime.datetime,
    expires_at: datetime.datetime,
) -> None:
    """Add one, and drop those that expired before ``now``."""
    values = {"container_uuid": container_uuid, "exec_id": exec_id, "expires_at": expires_at}
    with session.writer() as connection:
        connection.execute(table.delete().where(table.c.expires_at <= now))
        connection.execute(table.insert().values(token_hash=token_hash, **values))


def find(token_hash: str, now: datetime.datetime) -> session.Row | None:
    """``container_uuid`` and ``exec_id`` of a token that is valid ``now`` and whose container is still there."""
    containers = models.containers
    statement = (
        sa.select(table.c.container_uuid, table.c.exec_id)
        .join(containers, containers.c.uuid == table.c.container_uuid)
        .where(table.c.token_hash == token_hash, table.c.expires_at > now)
    )
    with session.reader() as connection:
        return session.first(connection, statement)
