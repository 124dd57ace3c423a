# SPDX-License-Identifier: Apache-2.0
"""How much of each resource a project may have, and has. Each function is one transaction but for ``charge``.

What a project uses is the sum of its containers, never a total of its own that could drift, and nothing is reserved
that could leak. It is exact because ``charge`` counts and its caller writes in one transaction, and every such
transaction first locks the project's row of ``quota_locks``.

``defaults`` are the operator's limits by resource; those of the quota class ``default`` go before them, and those of
the project before both.
"""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_utils import timeutils

from zun.common import exceptions
from zun.common.kinds import Kind
from zun.db import models, session

RESOURCES = ("containers", "memory", "cpu", "disk")  # pieces, MiB, CPUs, GiB
UNLIMITED = -1
DEFAULT_CLASS = "default"

Limits = dict[str, int]

_of_projects = models.quotas
_of_classes = models.quota_classes
_locks = models.quota_locks
_containers = models.containers


def limits(project_id: str, defaults: Mapping[str, int]) -> Limits:
    """What the project may have."""
    with session.reader() as connection:
        return _limits(connection, project_id, defaults)


def default_limits(defaults: Mapping[str, int]) -> Limits:
    """What a project may have for which nobody set anything."""
    return class_limits(DEFAULT_CLASS, defaults)


def class_limits(name: str, defaults: Mapping[str, int]) -> Limits:
    """The limits of a quota class; one nobody wrote has the operator's."""
    with session.reader() as connection:
        return {**defaults, **_written(connection, _of_classes, _of_classes.c.class_name == name)}


def usage(project_id: str) -> dict[str, float]:
    """What the containers of the project come to."""
    with session.reader() as connection:
        return _usage(connection, project_id)


@session.retry
def set_limits(project_id: str, wanted: Mapping[str, int]) -> None:
    """Write the limits that ``wanted`` names. They may be below what is used: then nothing more is allowed."""
    _write(_of_projects, {"project_id": project_id}, wanted)


@session.retry
def set_class_limits(name: str, wanted: Mapping[str, int]) -> None:
    _write(_of_classes, {"class_name": name}, wanted)


@session.retry
def reset(project_id: str) -> None:
    """Give the project the default limits again."""
    with session.writer() as connection:
        connection.execute(_of_projects.delete().where(_of_projects.c.project_id == project_id))


def check(project_id: str, growth: Mapping[str, float], defaults: Mapping[str, int]) -> None:
    """Raise OverQuota if ``growth`` is too much at this moment. Only ``charge`` can promise that it fits."""
    with session.reader() as connection:
        _check(connection, project_id, growth, defaults)


@session.retry
def make_chargeable(project_id: str) -> None:
    """See to it that there is a row to lock. A transaction of its own, which must come before that of ``charge``.

    A row that is missing is locked by MariaDB as the gap where it would be: several transactions may hold that, and
    none of them could then insert it.
    """
    found = sa.select(_locks.c.project_id).where(_locks.c.project_id == project_id)
    with session.reader() as connection:
        if connection.execute(found).first() is not None:
            return
    try:
        with session.writer() as connection:
            connection.execute(_locks.insert().values(project_id=project_id))
    except db_exc.DBDuplicateEntry:
        pass  # another request was quicker


def charge(
    connection: sa.Connection, project_id: str, growth: Mapping[str, float], defaults: Mapping[str, int]
) -> None:
    """Let nobody else add to what the project uses until this transaction ends, and raise OverQuota if ``growth`` is
    too much.

    It must be the first statement of the transaction: a query before it would fix what MariaDB shows to those behind.
    """
    lock(connection, project_id)
    _check(connection, project_id, growth, defaults)


def lock(connection: sa.Connection, name: str) -> None:
    """Make others that lock the same row wait until this transaction ends. The row comes from ``make_chargeable``."""
    connection.execute(sa.select(_locks).where(_locks.c.project_id == name).with_for_update())


def _check(
    connection: sa.Connection, project_id: str, growth: Mapping[str, float], defaults: Mapping[str, int]
) -> None:
    allowed, used = _limits(connection, project_id, defaults), _usage(connection, project_id)
    over = [
        f"{name}: limit {allowed[name]}, in use {used[name]:g}, asked for {growth[name]:g} more"
        for name in RESOURCES
        if growth.get(name, 0) > 0 and 0 <= allowed[name] < round(used[name] + growth[name], 6)
    ]
    if over:
        raise exceptions.OverQuota(project=project_id, over="; ".join(over))


def _limits(connection: sa.Connection, project_id: str, defaults: Mapping[str, int]) -> Limits:
    return {
        **defaults,
        **_written(connection, _of_classes, _of_classes.c.class_name == DEFAULT_CLASS),
        **_written(connection, _of_projects, _of_projects.c.project_id == project_id),
    }


def _written(connection: sa.Connection, table: sa.Table, owner: sa.ColumnElement[bool]) -> Limits:
    return {row["resource"]: row["hard_limit"] for row in session.rows(connection, sa.select(table).where(owner))}


def _usage(connection: sa.Connection, project_id: str) -> dict[str, float]:
    columns = {
        "memory": _containers.c.memory,
        "cpu": _containers.c.cpu,
        "disk": _containers.c.disk + _containers.c.volume_disk,
    }
    totals = [sa.func.coalesce(sa.func.sum(column), 0).label(name) for name, column in columns.items()]
    counted = sa.select(sa.func.count().label("containers"), *totals).where(
        _containers.c.project_id == project_id, _containers.c.kind == Kind.CONTAINER
    )
    row = session.rows(connection, counted)[0]
    return {
        "containers": int(row["containers"]),
        "memory": int(row["memory"]),
        "cpu": float(row["cpu"]),
        "disk": int(row["disk"]),
    }


def _write(table: sa.Table, owner: Mapping[str, Any], wanted: Mapping[str, int]) -> None:
    now = timeutils.utcnow()
    with session.writer() as connection:
        for resource, limit in wanted.items():
            row = {**owner, "resource": resource}
            same = [table.c[name] == value for name, value in row.items()]
            update = table.update().where(*same).values(hard_limit=limit, updated_at=now)
            if connection.execute(update).rowcount:
                continue
            try:
                with connection.begin_nested():
                    connection.execute(table.insert().values(**row, hard_limit=limit, created_at=now))
            except db_exc.DBDuplicateEntry:  # somebody wrote it meanwhile
                connection.execute(update)
