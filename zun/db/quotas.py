# SPDX-License-Identifier: Apache-2.0
"""How much of each resource a project may have, and has. Each function is one transaction but for ``charge``.

What a project uses is the sum of its containers, never a total of its own that could drift, and nothing is reserved
that could leak. It is exact because ``charge`` counts and its caller writes in one transaction, and every such
transaction first locks the project's row of ``quota_locks``.

That row also has a ceiling, so that a project of many containers is not added up at each request: what is used is at
most that. Whoever adds raises it, or makes it unknown (``forget``); what is given back leaves it where it is. So a
request that fits below it fits. For one that does not, or where it is unknown, the containers are added up, which
refuses it or sets the ceiling to what there is.

``defaults`` are the operator's limits by resource; those of the quota class ``default`` go before them, and those of
the project before both.
"""

from collections.abc import Mapping, Sequence
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

Ceiling = Mapping[str, Any]  # by resource; None: unknown
_UNKNOWN: Ceiling = dict.fromkeys(RESOURCES)

# Built once: building a statement costs more than sending it.
_OWNER: sa.BindParameter[str] = sa.bindparam("owner")
_ROW = sa.select(*(_locks.c[name] for name in RESOURCES)).where(_locks.c.project_id == _OWNER)
_LOCKED_ROW = _ROW.with_for_update()
_SET_CEILING = _locks.update().where(_locks.c.project_id == _OWNER)
_RAISE_DISK = _SET_CEILING.values(disk=_locks.c.disk + sa.bindparam("gib", type_=sa.BigInteger))
_CLASS = sa.select(_of_classes.c.resource, _of_classes.c.hard_limit, sa.literal_column("0").label("nearness"))
_PROJECT = sa.select(_of_projects.c.resource, _of_projects.c.hard_limit, sa.literal_column("1").label("nearness"))
_LIMITS = _CLASS.where(_of_classes.c.class_name == DEFAULT_CLASS).union_all(
    _PROJECT.where(_of_projects.c.project_id == _OWNER)
)

_TOTALS: Mapping[str, sa.ColumnElement[Any]] = {
    "containers": sa.func.count(),
    **{name: sa.func.coalesce(sa.func.sum(_containers.c[name]), 0) for name in ("memory", "cpu")},
    "disk": sa.func.coalesce(sa.func.sum(_containers.c.disk + _containers.c.volume_disk), 0),
}


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
        written = session.rows(connection, _CLASS.where(_of_classes.c.class_name == name))
    return {**defaults, **{row["resource"]: row["hard_limit"] for row in written}}


def usage(project_id: str) -> dict[str, float]:
    """What the containers of the project come to."""
    with session.reader() as connection:
        return _usage(connection, project_id)


@session.retry
def set_limits(project_id: str, wanted: Mapping[str, int]) -> None:
    """Write the limits that ``wanted`` names. They may be below what is used: then nothing more is allowed.

    What is used is added up anew by the next who adds to it: so this also mends what was done to the rows by hand.
    """
    with session.writer() as connection:
        _write(connection, _of_projects, {"project_id": project_id}, wanted)
        forget(connection, project_id)


@session.retry
def set_class_limits(name: str, wanted: Mapping[str, int]) -> None:
    with session.writer() as connection:
        _write(connection, _of_classes, {"class_name": name}, wanted)


@session.retry
def reset(project_id: str) -> None:
    """Give the project the default limits again."""
    with session.writer() as connection:
        connection.execute(_of_projects.delete().where(_of_projects.c.project_id == project_id))


def check(project_id: str, growth: Mapping[str, float], defaults: Mapping[str, int]) -> None:
    """Raise OverQuota if ``growth`` is too much at this moment. Only ``charge`` can promise that it fits."""
    with session.reader() as connection:
        ceiling = session.first(connection, _ROW, {"owner": project_id}) or _UNKNOWN
        _fitting(connection, project_id, growth, defaults, ceiling)


def make_chargeable(project_id: str) -> None:
    """See to it that there is a row to lock. A transaction of its own, which must come before that of ``charge``: who
    calls it tries both again.

    A row that is missing is locked by MariaDB as the gap where it would be: several transactions may hold that, and
    none of them could then insert it.
    """
    with session.reader() as connection:
        if session.first(connection, _ROW, {"owner": project_id}) is not None:
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
    before = lock(connection, project_id)
    known = _fitting(connection, project_id, growth, defaults, before)
    # A change that fails later gives back what it was granted here; one that shrinks gives back nothing here.
    after = {name: _raised(most, growth.get(name, 0)) for name, most in known.items()}
    if after != before:
        connection.execute(_SET_CEILING, {"owner": project_id, **after})


def _raised(most: float | None, growth: float) -> float | None:
    return None if most is None else most + max(growth, 0)


def forget(connection: sa.Connection, project_id: str) -> None:
    """Something is added without ``charge``: count the containers the next time.

    As with ``charge``, nobody else adds until this transaction ends, and the row comes from ``make_chargeable``.
    """
    connection.execute(_SET_CEILING, {"owner": project_id, **_UNKNOWN})


def add_disk(connection: sa.Connection, project_id: str, gib: int) -> None:
    """A container that was counted without a disk gets one of ``gib`` without ``charge``: raise the ceiling by that.

    As with ``charge``, nobody else adds until this transaction ends. The row is there since the container was added.
    """
    connection.execute(_RAISE_DISK, {"owner": project_id, "gib": gib})


def lock(connection: sa.Connection, name: str) -> Ceiling:
    """Make others that lock the same row wait until this transaction ends. The row comes from ``make_chargeable``."""
    return session.rows(connection, _LOCKED_ROW, {"owner": name})[0]


def _fitting(
    connection: sa.Connection,
    project_id: str,
    growth: Mapping[str, float],
    defaults: Mapping[str, int],
    ceiling: Ceiling,
) -> Ceiling:
    """``ceiling``, or a lower one if ``growth`` does not fit below it. OverQuota if it does not fit at all."""
    allowed = _limits(connection, project_id, defaults)
    limited = [name for name in RESOURCES if growth.get(name, 0) > 0 and allowed[name] >= 0]

    def over(used: Ceiling) -> list[str]:
        return [name for name in limited if allowed[name] < round(used[name] + growth[name], 6)]

    if None not in (ceiling[name] for name in limited) and not over(ceiling):
        return ceiling
    used = {**ceiling, **_usage(connection, project_id, limited)}
    if beyond := over(used):
        told = (
            f"{name}: limit {allowed[name]}, in use {used[name]:g}, asked for {growth[name]:g} more" for name in beyond
        )
        raise exceptions.OverQuota(project=project_id, over="; ".join(told))
    return used


def _limits(connection: sa.Connection, project_id: str, defaults: Mapping[str, int]) -> Limits:
    written = sorted(session.rows(connection, _LIMITS, {"owner": project_id}), key=lambda row: row["nearness"])
    return {**defaults, **{row["resource"]: row["hard_limit"] for row in written}}


def _usage(connection: sa.Connection, project_id: str, names: Sequence[str] = RESOURCES) -> dict[str, float]:
    """Of the resources ``names``: each costs a sum over all containers of the project."""
    counted = sa.select(*(_TOTALS[name].label(name) for name in names)).where(
        _containers.c.project_id == project_id, _containers.c.kind == Kind.CONTAINER
    )
    row = session.rows(connection, counted)[0]
    return {name: float(row[name]) if name == "cpu" else int(row[name]) for name in names}


def _write(connection: sa.Connection, table: sa.Table, owner: Mapping[str, Any], wanted: Mapping[str, int]) -> None:
    now = timeutils.utcnow()
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
