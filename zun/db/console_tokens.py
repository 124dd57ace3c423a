# SPDX-License-Identifier: Apache-2.0
"""Queries of the tokens that open terminals. Each function is one transaction."""

import datetime
from collections.abc import Collection, Mapping

import sqlalchemy as sa

from zun.db import models, quotas, session

table = models.console_tokens


@session.retry
def add(
    token_hash: str,
    container_uuid: str,
    exec_id: str | None,
    user_id: str | None,
    now: datetime.datetime,
    expires_at: datetime.datetime,
    charged: tuple[str, Mapping[str, int] | None] | None = None,
) -> None:
    """Add a token, and remove the tokens that expired before ``now``.

    ``charged`` is the container's project and the default limits. OverQuota if the project may not have one more
    terminal.
    """
    values = {"container_uuid": container_uuid, "exec_id": exec_id, "user_id": user_id, "expires_at": expires_at}
    project_id, limits = charged or (None, None)
    adding = session.writer() if project_id is None else quotas.adding(project_id, {"terminals": 1}, limits)
    with adding as connection:
        connection.execute(table.delete().where(table.c.expires_at <= now))
        connection.execute(table.insert().values(token_hash=token_hash, **values))


def find(token_hash: str, now: datetime.datetime) -> session.Row | None:
    """Return the row of an unused token that is valid ``now`` and whose container exists, else None."""
    containers = models.containers
    columns = (table.c.token_hash, table.c.container_uuid, table.c.exec_id, table.c.user_id)
    statement = (
        sa.select(*columns)
        .join(containers, containers.c.uuid == table.c.container_uuid)
        .where(table.c.token_hash == token_hash, table.c.expires_at > now, table.c.used_at.is_(None))
    )
    with session.reader() as connection:
        return session.first(connection, statement)


def use(token_hash: str, now: datetime.datetime, expires_at: datetime.datetime) -> bool:
    """Mark a token as used, unless it was used before or has expired, and keep its row until ``expires_at``.

    Return whether this call used the token.
    """
    unused = (table.c.token_hash == token_hash, table.c.expires_at > now, table.c.used_at.is_(None))
    statement = table.update().where(*unused).values(used_at=now, expires_at=expires_at)

    def attempt(again: bool) -> bool:
        with session.writer() as connection:
            if connection.execute(statement).rowcount:
                return True
            used_at = connection.execute(sa.select(table.c.used_at).where(table.c.token_hash == token_hash)).scalar()
            return again and bool(used_at == now)

    return session.repeat(attempt)


@session.retry
def keep(token_hashes: Collection[str], expires_at: datetime.datetime) -> set[str]:
    """Keep the rows of running sessions until ``expires_at``. Return the tokens that have a row and a container."""
    containers = models.containers
    of_sessions = table.c.token_hash.in_(token_hashes)
    statement = (
        sa.select(table.c.token_hash)
        .join(containers, containers.c.uuid == table.c.container_uuid)
        .where(of_sessions, table.c.used_at.is_not(None))
    )
    with session.writer() as connection:
        connection.execute(table.update().where(of_sessions).values(expires_at=expires_at))
        return set(connection.execute(statement).scalars())


@session.retry
def remove(token_hash: str) -> None:
    """Remove a token, if it exists."""
    with session.writer() as connection:
        connection.execute(table.delete().where(table.c.token_hash == token_hash))


def remove_in(connection: sa.Connection, container_uuids: Collection[str]) -> None:
    """Remove the tokens of containers, in the transaction that removes the containers."""
    connection.execute(table.delete().where(table.c.container_uuid.in_(container_uuids)))
