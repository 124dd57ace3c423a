# SPDX-License-Identifier: Apache-2.0
"""Queries of services and their heartbeats. Each function is one transaction."""

from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_utils import timeutils

from zun.common import exceptions
from zun.db import models, session

table = models.services

COMPUTE_BINARY = "zun-compute"


def _is(host: str, binary: str) -> sa.ColumnElement[bool]:
    return sa.and_(table.c.host == host, table.c.binary == binary)


@session.retry
def heartbeat(host: str, binary: str, availability_zone: str) -> int:
    """Record a heartbeat of the service, add the service the first time, and return the count of heartbeats from 0."""
    now = timeutils.utcnow()
    seen = {"last_seen_up": now, "availability_zone": availability_zone}
    again = {**seen, "report_count": table.c.report_count + 1, "updated_at": now}
    update = table.update().where(_is(host, binary)).values(again)
    with session.writer() as connection:
        if not connection.execute(update).rowcount:
            try:
                with connection.begin_nested():
                    connection.execute(table.insert().values(host=host, binary=binary, created_at=now, **seen))
            except db_exc.DBDuplicateEntry:  # another process added it first
                connection.execute(update)
        count: int = connection.execute(sa.select(table.c.report_count).where(_is(host, binary))).scalar_one()
        return count


def get(host: str, binary: str) -> session.Row:
    """Return the service. Raises ZunServiceNotFound."""
    missing = exceptions.ZunServiceNotFound(binary=binary, host=host)
    return session.found(sa.select(table).where(_is(host, binary)), missing)


def all_services(binary: str | None = None, hosts: Collection[str] | None = None) -> list[session.Row]:
    """Return the services, all or those of one ``binary`` and of ``hosts``, in the order of ids."""
    statement = sa.select(table).order_by(table.c.id)
    if binary is not None:
        statement = statement.where(table.c.binary == binary)
    if hosts is not None:
        statement = statement.where(table.c.host.in_(hosts))
    with session.reader() as connection:
        return session.rows(connection, statement)


def closed(binary: str) -> set[str]:
    """Return the hosts whose service ``binary`` is disabled or forced down."""
    statement = sa.select(table.c.host).where(table.c.binary == binary, sa.or_(table.c.disabled, table.c.forced_down))
    with session.reader() as connection:
        return set(connection.execute(statement).scalars())


@session.retry
def update(host: str, binary: str, values: Mapping[str, Any]) -> None:
    """Set ``values``. Raises ZunServiceNotFound."""
    statement = table.update().where(_is(host, binary)).values(**values, updated_at=timeutils.utcnow())
    with session.writer() as connection:
        if not connection.execute(statement).rowcount:
            raise exceptions.ZunServiceNotFound(binary=binary, host=host)


@session.retry
def destroy(host: str, binary: str) -> None:
    """Remove the service. Raises ZunServiceNotFound."""
    with session.writer() as connection:
        if not connection.execute(table.delete().where(_is(host, binary))).rowcount:
            raise exceptions.ZunServiceNotFound(binary=binary, host=host)
