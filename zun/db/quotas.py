# SPDX-License-Identifier: Apache-2.0
"""Limits and usage of each resource of a project.

A function without the argument ``connection`` is one transaction; ``adding`` opens one for its caller.

The usage of a project is counted from its rows. No separate total could drift, and no reservation could leak. The
count is exact, because ``charge`` counts and its caller writes in one transaction, and every such transaction first
locks the project's row of ``quota_locks``.

That row also has a ceiling for each resource: the usage is at most the ceiling. Additions raise the ceiling or make it
unknown (``forget``); removals leave it as it is. A request that fits below the ceiling is granted without counting. If
a request does not fit, or the ceiling is unknown, the rows are counted. The request is then refused, or the ceiling is
set to the counted usage.

Example: limit 10, usage 4, ceiling 9. A request for 1 fits. A second request for 1 does not fit below the ceiling 10,
so the rows are counted: usage 5, the request is granted, and the ceiling becomes 6.

``defaults`` are the operator's limits by resource. Limits of the quota class ``default`` override them, and limits of
the project override both.

Devices are counted by the name that a request gives them: resource ``device:gpu`` for the alias ``gpu``. They have no
ceiling, because the names are the operator's; if there is a limit, the rows are counted.
"""

import contextlib
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_utils import timeutils

from zun.common import exceptions
from zun.common.states import Kind
from zun.db import models, session
from zun.topology import amounts
from zun.topology.ranges import MALFORMED

LOG = logging.getLogger(__name__)

SIZES = ("containers", "memory", "cpu", "disk")  # number, MiB, CPUs, GiB: the resources of the first API versions
RESOURCES = (*SIZES, "ports", "images", "groups", "networks", "volumes", "registries", "terminals")
DEVICE = "device:"  # beginning of the resources of devices; an alias or a resource class follows
UNLIMITED = -1
DEFAULT_CLASS = "default"

Limits = dict[str, int]

_of_projects = models.quotas
_of_classes = models.quota_classes
_locks = models.quota_locks
_containers = models.containers

Ceiling = Mapping[str, Any]  # by resource; None: unknown
_UNKNOWN: Ceiling = dict.fromkeys(RESOURCES)

# Built once, because building a statement takes longer than sending it.
_OWNER: sa.BindParameter[str] = sa.bindparam("owner")
_ROW = sa.select(*(_locks.c[name] for name in RESOURCES)).where(_locks.c.project_id == _OWNER)
_LOCKED_ROW = _ROW.with_for_update()
_SET_CEILING = _locks.update().where(_locks.c.project_id == _OWNER)
_RAISE = {
    name: _SET_CEILING.values({name: _locks.c[name] + sa.bindparam("more", type_=_locks.c[name].type)})
    for name in ("cpu", "disk")
}
_CLASS = sa.select(_of_classes.c.resource, _of_classes.c.hard_limit, sa.literal_column("0").label("nearness"))
_PROJECT = sa.select(_of_projects.c.resource, _of_projects.c.hard_limit, sa.literal_column("1").label("nearness"))
_LIMITS = _CLASS.where(_of_classes.c.class_name == DEFAULT_CLASS).union_all(
    _PROJECT.where(_of_projects.c.project_id == _OWNER)
)

# A capsule's row has the sum of its containers' resources. For the resource "containers" the members count and the
# capsule does not: its sandbox, which keeps the network, is no container of the user.
_HOLDS = _containers.c.kind.in_((Kind.CONTAINER, Kind.CAPSULE))


def _held(amount: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    return sa.func.coalesce(sa.func.sum(sa.case((_HOLDS, amount), else_=0)), 0)


_TOTALS: Mapping[str, sa.ColumnElement[Any]] = {
    "containers": sa.func.coalesce(sa.func.sum(sa.case((_containers.c.kind == Kind.CAPSULE, 0), else_=1)), 0),
    "memory": _held(_containers.c.memory),
    "cpu": _held(_containers.c.cpu + _containers.c.withheld_cpu),
    "disk": _held(_containers.c.disk + _containers.c.volume_disk),
    "ports": _held(_containers.c.port_count),
}


def _rows_of(table: sa.Table, *conditions: sa.ColumnElement[bool]) -> sa.ColumnElement[Any]:
    mine = sa.select(sa.func.count()).select_from(table).where(table.c.project_id == _OWNER, *conditions)
    return mine.scalar_subquery()


_tokens = models.console_tokens
_COUNTS: Mapping[str, sa.ColumnElement[Any]] = {
    "images": _rows_of(models.images, models.images.c.local_name != ""),
    "groups": _rows_of(models.container_groups),
    "networks": _rows_of(models.networks),
    "volumes": _rows_of(models.volumes),
    "registries": _rows_of(models.registries),
    "terminals": sa.select(sa.func.count())
    .select_from(_tokens.join(_containers, _containers.c.uuid == _tokens.c.container_uuid))
    .where(_containers.c.project_id == _OWNER, _tokens.c.expires_at > sa.bindparam("now", type_=models.Time))
    .scalar_subquery(),
}


def limits(project_id: str, defaults: Mapping[str, int]) -> Limits:
    """Return the limits of the project."""
    with session.reader() as connection:
        return _limits(connection, project_id, defaults)


def default_limits(defaults: Mapping[str, int]) -> Limits:
    """Return the limits of a project without limits of its own."""
    return class_limits(DEFAULT_CLASS, defaults)


def class_limits(name: str, defaults: Mapping[str, int]) -> Limits:
    """Return the limits of a quota class. Limits that nobody set are the operator's."""
    with session.reader() as connection:
        written = session.rows(connection, _CLASS.where(_of_classes.c.class_name == name))
    return {**defaults, **{row["resource"]: row["hard_limit"] for row in written}}


def usage(project_id: str, names: Sequence[str] = RESOURCES) -> dict[str, float]:
    """Return the project's usage of the resources ``names``."""
    with session.reader() as connection:
        return _usage(connection, project_id, names)


@session.retry
def set_limits(project_id: str, wanted: Mapping[str, int]) -> None:
    """Write the limits in ``wanted``. A limit may be below the usage; additions are then refused.

    The ceiling becomes unknown, so the next addition counts the rows. This also corrects it after changes by hand.
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
    """Raise OverQuota if ``growth`` does not fit at this moment. Only ``charge`` makes sure that it will fit."""
    with session.reader() as connection:
        ceiling = session.first(connection, _ROW, {"owner": project_id}) or _UNKNOWN
        _fitting(connection, project_id, growth, defaults, ceiling)


def make_chargeable(project_id: str) -> None:
    """Add the row of ``quota_locks``, if it is missing, in a transaction before that of ``charge``.

    In MariaDB, locking a missing row locks the gap in its place. Several transactions may hold this lock, and then none
    of them can insert the row. A caller that retries must retry both transactions.
    """
    with session.reader() as connection:
        if session.first(connection, _ROW, {"owner": project_id}) is not None:
            return
    try:
        with session.writer() as connection:
            connection.execute(_locks.insert().values(project_id=project_id))
    except db_exc.DBDuplicateEntry:
        pass  # another request added it first


def charge(
    connection: sa.Connection, project_id: str, growth: Mapping[str, float], defaults: Mapping[str, int]
) -> None:
    """Lock the project's usage until the transaction ends, and raise OverQuota if ``growth`` does not fit.

    The lock must be the first statement of the transaction, because an earlier query would fix MariaDB's snapshot.
    """
    before = lock(connection, project_id)
    known = _fitting(connection, project_id, growth, defaults, before)
    # A later failure rolls the ceiling back. A negative growth does not lower the ceiling.
    after = {name: _raised(known[name], growth.get(name, 0)) for name in RESOURCES}
    if after != before:
        connection.execute(_SET_CEILING, {"owner": project_id, **after})


def _raised(most: float | None, growth: float) -> float | None:
    return None if most is None else amounts.exact(most + max(growth, 0))


@contextlib.contextmanager
def adding(
    project_id: str, growth: Mapping[str, float], defaults: Mapping[str, int] | None
) -> Iterator[sa.Connection]:
    """Give a connection in a transaction that has added ``growth`` to the project's usage as ``grow`` does."""
    make_chargeable(project_id)
    with session.writer() as connection:
        grow(connection, project_id, growth, defaults)
        yield connection


def grow(
    connection: sa.Connection, project_id: str, growth: Mapping[str, float], defaults: Mapping[str, int] | None
) -> None:
    """Charge ``growth`` to the project, or without ``defaults`` add it whatever the limits are."""
    if defaults is None:
        forget(connection, project_id)
    else:
        charge(connection, project_id, growth, defaults)


def forget(connection: sa.Connection, project_id: str) -> None:
    """Make the ceiling unknown for an addition without ``charge``. The next addition counts the rows.

    The project's row stays locked until the transaction ends. The row must exist (``make_chargeable``).
    """
    connection.execute(_SET_CEILING, {"owner": project_id, **_UNKNOWN})


def add(connection: sa.Connection, project_id: str, growth: Mapping[str, float]) -> None:
    """Raise the ceiling of ``cpu`` or ``disk`` for the growth of an existing container without ``charge``.

    The project's row stays locked until the transaction ends. The row exists since the container was added.
    """
    for name in sorted(growth):
        if growth[name] > 0:
            connection.execute(_RAISE[name], {"owner": project_id, "more": growth[name]})


def lock(connection: sa.Connection, name: str) -> Ceiling:
    """Lock the row ``name`` until the transaction ends, and return its ceiling. The row must exist."""
    return session.rows(connection, _LOCKED_ROW, {"owner": name})[0]


def lock_all(connection: sa.Connection, names: Iterable[str]) -> None:
    """Lock the rows of those ``names`` that have one, in one order for all transactions."""
    for name in sorted(names):
        connection.execute(_LOCKED_ROW, {"owner": name}).all()


def _fitting(
    connection: sa.Connection,
    project_id: str,
    growth: Mapping[str, float],
    defaults: Mapping[str, int],
    ceiling: Ceiling,
) -> Ceiling:
    """Return ``ceiling``, or the counted usage if ``growth`` does not fit below it. OverQuota if it does not fit."""
    allowed = _limits(connection, project_id, defaults)
    names = (*RESOURCES, *sorted(growth.keys() - {*RESOURCES}))
    limited = [name for name in names if growth.get(name, 0) > 0 and allowed.get(name, UNLIMITED) >= 0]

    def over(used: Ceiling) -> list[str]:
        return [name for name in limited if allowed[name] < amounts.exact(used[name] + growth[name])]

    if None not in (ceiling.get(name) for name in limited) and not over(ceiling):
        return ceiling
    used = {**ceiling, **_usage(connection, project_id, limited)}
    if beyond := over(used):
        counts = ((name, allowed[name], amounts.text(used[name]), amounts.text(growth[name])) for name in beyond)
        told = (f"{name}: limit {limit}, in use {held}, asked for {more} more" for name, limit, held, more in counts)
        raise exceptions.OverQuota(project=project_id, over="; ".join(told))
    return used


def _limits(connection: sa.Connection, project_id: str, defaults: Mapping[str, int]) -> Limits:
    written = sorted(session.rows(connection, _LIMITS, {"owner": project_id}), key=lambda row: row["nearness"])
    return {**defaults, **{row["resource"]: row["hard_limit"] for row in written}}


def _usage(connection: sa.Connection, project_id: str, names: Sequence[str] = RESOURCES) -> dict[str, float]:
    """Count the resources ``names``. Resources of containers are sums over all containers of the project."""
    used: dict[str, float] = {}
    if summed := [name for name in names if name in _TOTALS]:
        found = sa.select(*(_TOTALS[name].label(name) for name in summed)).where(
            _containers.c.project_id == project_id, _containers.c.kind != Kind.LEFTOVER
        )
        used |= session.rows(connection, found)[0]
    if counted := [name for name in names if name in _COUNTS]:
        values = {"owner": project_id} | ({"now": timeutils.utcnow()} if "terminals" in counted else {})
        used |= session.rows(connection, sa.select(*(_COUNTS[name].label(name) for name in counted)), values)[0]
    if any(name.startswith(DEVICE) for name in names):
        used |= _devices(connection, project_id)
    return {name: amounts.exact(float(used[name])) if name == "cpu" else int(used.get(name, 0)) for name in names}


def _devices(connection: sa.Connection, project_id: str) -> dict[str, float]:
    """Count the devices of the project's containers by resource. Few containers have any, and an index finds these."""
    asked = sa.select(_containers.c.uuid, _containers.c.placement).where(
        _containers.c.project_id == project_id, _containers.c.device_count > 0, _HOLDS
    )
    used: Counter[str] = Counter()
    for row in session.rows(connection, asked):
        try:
            used.update(devices_in(row["placement"]))
        except MALFORMED as exc:  # written by hand: the project's other containers count
            LOG.warning("The devices of container %s count for no quota: placement is malformed: %r", row["uuid"], exc)
    return dict(used)


def devices_in(placement: Mapping[str, Any] | None) -> dict[str, int]:
    """Return the number of devices by resource that a stored request counts as.

    A request counts by its name, and by the resource classes that its alias selects. So a limit of a class holds for
    requests by alias too. Example: the alias ``gpu`` of devices of class CUSTOM_GPU counts as ``device:gpu`` and
    ``device:CUSTOM_GPU``.
    """
    found: Counter[str] = Counter()
    for each in (placement or {}).get("devices") or ():
        names = {each["name"], *(match["resource_class"] for match in each["matches"])} - {None}
        found.update({f"{DEVICE}{name}": each["count"] for name in names})
    return dict(found)


def device_count(placement: Mapping[str, Any] | None) -> int:
    """Return the number of devices that a stored request asks for."""
    return sum(each["count"] for each in (placement or {}).get("devices") or ())


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
