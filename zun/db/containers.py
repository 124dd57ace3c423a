# SPDX-License-Identifier: Apache-2.0
"""Queries of containers. Each function is one transaction."""

import contextlib
import datetime
import enum
import functools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple, Unpack

import sqlalchemy as sa
from oslo_utils import timeutils

from zun.common import exceptions, states
from zun.common.context import RequestContext
from zun.common.groups import Group
from zun.common.states import Kind
from zun.db import (
    aggregates,
    compute_nodes,
    console_tokens,
    container_actions,
    explanations,
    groups,
    idents,
    models,
    network_ports,
    networks,
    paging,
    quotas,
    registries,
    session,
)
from zun.db import volumes as project_volumes

table = models.containers
services = models.services

# Columns of a claim for the scheduler, and for the map of a host with those that say who may see whose it is.
CLAIM_COLUMNS = ("uuid", "name", "host", "cpuset", "cpu", "memory", "disk", "volume_disk", "group_uuid", "image")
OWNER_COLUMNS = ("project_id", "user_id", "kind")
MAP_COLUMNS = ("uuid", "name", "cpuset", *OWNER_COLUMNS)


# Members of capsules are placed and hold resources with their capsule.
_BY_ITSELF = table.c.capsule_uuid.is_(None)
_DISK = table.c.disk + table.c.volume_disk
_WAITING = (table.c.status == states.Status.CREATING, table.c.host.is_(None), _BY_ITSELF)

# Built once, because building a statement takes longer than sending it. An INSERT or UPDATE sets the columns that its
# parameters name. Parameters of conditions have names of no column, for example this_uuid.
_THIS = table.c.uuid == sa.bindparam("this_uuid")
_INSERT = table.insert()
_WHOLE = sa.select(table).where(_THIS)
_THESE = sa.select(table).where(table.c.uuid.in_(sa.bindparam("these_uuids", expanding=True)))
_OF_HOST = sa.select(table).where(table.c.host == sa.bindparam("this_host"))
_UNREAD = {column.name: models.unread(column) for column in table.c}
_IS_UNPLACED = sa.select(table.c.id).where(_THIS, *_WAITING)
_CLAIMABLE = (
    table.c.status == states.Status.CREATING,
    sa.or_(table.c.host.is_(None), table.c.host == sa.bindparam("this_host")),
)
_CLAIM = table.update().where(_THIS, *_CLAIMABLE)
_AWAITS_REBOOT = sa.and_(
    table.c.status == states.Status.RESTARTING, table.c.task_state.is_not_distinct_from(states.TaskState.REBOOTING)
)
# Read after claims: the actions of which their first steps may be, and whether the containers are in any network.
_actions = container_actions.table
_AFTER_CLAIMS = (
    sa.select(
        table.c.uuid,
        sa.exists().where(network_ports.table.c.container_uuid == table.c.uuid).label("in_networks"),
        _actions.c.id.label("action_id"),
        _actions.c.request_id,
    )
    .select_from(
        table.outerjoin(
            _actions,
            sa.and_(
                _actions.c.container_uuid == table.c.uuid,
                _actions.c.action == sa.bindparam("this_action"),
                sa.or_(
                    _actions.c.request_id.in_(sa.bindparam("these_requests", expanding=True)),
                    _actions.c.finish_time.is_(None),
                ),
            ),
        )
    )
    .where(table.c.uuid.in_(sa.bindparam("these_uuids", expanding=True)))
)
_CLAIMED_NOW = sa.select(table.c.uuid, table.c.status, table.c.host, table.c.updated_at).where(
    table.c.uuid.in_(sa.bindparam("these_uuids", expanding=True))
)


class Scope(enum.StrEnum):
    """The scope in which the name of a container is unique."""

    PROJECT = "project"
    GLOBAL = "global"


_NAMES_LOCK = "all container names"  # the row of quota_locks that is locked for a name in GLOBAL


class Claimed(NamedTuple):
    """The result of a claim: the host's new generation, the step that began (or None), whether there are ports."""

    generation: int
    event_id: int | None
    in_networks: bool


def _visible(context: RequestContext, all_projects: bool) -> list[sa.ColumnElement[bool]]:
    containers = [table.c.kind == Kind.CONTAINER]
    return containers if all_projects else [*containers, table.c.project_id == context.project_id]


@session.retry_adding(table)
def insert(
    values: Mapping[str, Any],
    quota: Mapping[str, int] | None = None,
    nets: Sequence[network_ports.Wanted] = (),
    unique: Scope | None = None,
) -> session.Row:
    """Add a container, fill in ``uuid`` and the times, and return the whole row.

    ``quota`` are the operator's default limits. With ``quota``, OverQuota if the container exceeds the project's
    limits. ``nets`` are the ports of the container and raise the errors of ``network_ports.allot``. Raises
    GroupNotFound, and ContainerAlreadyExists if another container in the scope ``unique`` has the name.
    """
    with adding([values], quota, {values["uuid"]: nets}, unique) as connection:
        return session.rows(connection, _WHOLE, {"this_uuid": values["uuid"]})[0]


@contextlib.contextmanager
def adding(
    rows: Sequence[Mapping[str, Any]],
    quota: Mapping[str, int] | None,
    nets: Mapping[str, Sequence[network_ports.Wanted]],
    unique: Scope | None,
) -> Iterator[sa.Connection]:
    """Give a connection in a transaction that has added containers of one project with equal requests.

    ``nets`` are the ports of each container by its uuid. The errors are those of ``insert``; the project is charged for
    all containers at once.
    """
    first = rows[0]
    quotas.make_chargeable(first["project_id"])
    if unique is Scope.GLOBAL:
        quotas.make_chargeable(_NAMES_LOCK)
    with session.writer() as connection:
        if unique is Scope.GLOBAL:
            quotas.lock(connection, _NAMES_LOCK)  # first, as ``charge``: a query fixes MariaDB's snapshot
        growth = {name: first.get(name) or 0 for name in ("cpu", "memory", "disk")}
        growth["disk"] += first.get("volume_disk") or 0
        growth |= {"containers": 1, "ports": len(first.get("exposed_ports") or ())}
        growth |= quotas.devices_in(first.get("placement"))
        quotas.grow(connection, first["project_id"], {name: len(rows) * each for name, each in growth.items()}, quota)
        if unique is not None:
            for row in rows:
                _check_name(connection, row["name"], unique, row["project_id"], row["uuid"])
        if first.get("registry_id") is not None:
            registries.hold(connection, first["registry_id"])
        if first.get("group_uuid"):
            groups.lock(connection, first["group_uuid"])
        counts = {"port_count": growth["ports"], "device_count": quotas.device_count(first.get("placement"))}
        now = timeutils.utcnow()
        connection.execute(_INSERT, [{**row, **counts, "created_at": now} for row in rows])
        for row in rows:
            network_ports.allot(connection, row["uuid"], nets.get(row["uuid"], ()))
        yield connection


@session.retry
def restore(
    values: Mapping[str, Any],
    *,
    withheld: int = 0,
    volumes: Collection[str] = (),
    ports: Sequence[Mapping[str, Any]] = (),
    own_networks: Sequence[Mapping[str, Any]] = (),
) -> int:
    """Add the row of a container that its host knows and the database has lost, and return the host's new generation.

    The container has the resources already, so no limit is asked. ``ports`` and ``own_networks`` are rows of
    ``network_ports`` and ``networks``, ``volumes`` the names of the volumes that it mounts. A group or registry that
    does not exist any more is left out. Raises ContainerAlreadyExists if there is a row, VolumeElsewhere, and Conflict
    if an address or a subnet belongs to something else by now.
    """
    project, uuid, hostname = values["project_id"], values["uuid"], values["host"]
    networks.make_lockable()
    for each in {project, *(network["project_id"] for network in own_networks)}:
        quotas.make_chargeable(each)
    with session.writer() as connection:
        if own_networks:
            networks.lock(connection)
        for each in sorted({project, *(network["project_id"] for network in own_networks)}):
            quotas.forget(connection, each)
        if session.rows(connection, sa.select(table.c.id).where(_THIS), {"this_uuid": uuid}):
            raise exceptions.ContainerAlreadyExists(field="uuid", value=uuid)
        kept = {**values, "port_count": len(values.get("exposed_ports") or ()), "withheld_cpu": withheld}
        for column, other in (("group_uuid", models.container_groups), ("registry_id", models.registries)):
            there = sa.select(other.c.id).where(other.c.uuid == kept[column])
            if kept[column] is not None and connection.execute(there).first() is None:
                kept[column] = None
        connection.execute(_INSERT, kept)
        for network in own_networks:
            networks.restore_in(connection, network)
        network_ports.restore_in(connection, ports)
        project_volumes.hold(connection, project, volumes, hostname)
        return compute_nodes.next_generation(connection, hostname)


def get(uuid: str) -> session.Row:
    """Return the container of any project. Raises ContainerNotFound."""
    return session.found(_WHOLE, exceptions.ContainerNotFound(container=uuid), {"this_uuid": uuid})


def find(
    context: RequestContext, ident: str, *, all_projects: bool = False, members: bool = False
) -> session.Row:
    """Return the container that ``context`` means with a uuid or name, by the rule of ``zun.db.idents``.

    With ``members`` a container of a capsule is found too, by its uuid alone: its name is unique in its capsule only.
    Raises ContainerNotFound, and Conflict if the name is not unique.
    """
    own = table.c.project_id == context.project_id
    kinds = table.c.kind == Kind.CONTAINER
    if members:
        kinds |= table.c.kind.in_((Kind.MEMBER, Kind.INIT)) & (table.c.uuid == ident)
    visible = [kinds, *idents.reached(own, context, ident, all_projects=all_projects)]
    return idents.find(table, ident, visible, exceptions.ContainerNotFound(container=ident))


#: Columns that tell whether a row is as it was. A service of the release before does not raise ``revision``, but sets
#: ``updated_at``.
REVISION_COLUMNS = ("id", "revision", "updated_at")
_REVISION = [models.unread(table.c[name]) for name in REVISION_COLUMNS]


Revision = tuple[Any, ...]


def page_revisions(
    context: RequestContext,
    *,
    filters: Mapping[str, Any] | None = None,
    all_projects: bool = False,
    **place: Unpack[paging.Place],
) -> list[Revision]:
    """Return what is another list whenever ``page`` with these arguments has other rows, or a row has changed."""
    with session.reader() as connection:
        statement = _page(connection, context, filters, all_projects, _REVISION, **place)
        return list(map(tuple, connection.execute(statement).all()))


def claim_revisions(hostname: str) -> list[session.Row]:
    """Return REVISION_COLUMNS and OWNER_COLUMNS of the containers that hold resources of a host."""
    statement = sa.select(*_REVISION, *(table.c[name] for name in OWNER_COLUMNS))
    with session.reader() as connection:
        return session.rows(connection, statement.where(*_holding_on([hostname])).order_by(table.c.id))


def _page(
    connection: sa.Connection,
    context: RequestContext,
    filters: Mapping[str, Any] | None,
    all_projects: bool,
    columns: Sequence[sa.ColumnElement[Any]],
    **place: Unpack[paging.Place],
) -> sa.Select[Any]:
    return paging.selected(
        connection,
        table,
        _visible(context, all_projects),
        filters=[table.c[name] == value for name, value in (filters or {}).items()],
        missing=exceptions.ContainerNotFound(container=place.get("marker")),
        columns=columns,
        **place,
    )


def page(
    context: RequestContext,
    names: Sequence[str],
    *,
    filters: Mapping[str, Any] | None = None,
    all_projects: bool = False,
    unread: Set[str] = frozenset(),
    **place: Unpack[paging.Place],
) -> Iterator[session.Columns]:
    """Yield the columns ``names`` of a page, some rows at a time. ``filters`` compare for equality.

    Values of the columns in ``unread`` are ready to be written to an answer: JSON is the stored text, and times are
    text like ``2026-01-31 12:00:00``.
    """
    with session.reader() as connection:
        columns = [_UNREAD[name] for name in names]
        statement = _page(connection, context, filters, all_projects, columns, **place)
        for found in session.columns(connection, statement):
            for name in names:
                read = _reader(table.c[name].type, name in unread, connection.dialect)
                if read is not None:
                    found[name] = [None if value is None else read(value) for value in found[name]]
            yield found


def _reader(kind: sa.types.TypeEngine[Any], unread: bool, dialect: sa.Dialect) -> Callable[[Any], Any] | None:
    """Return the converter for values of a column that ``models.unread`` selected, or None if none is needed."""
    if isinstance(kind, models.Json):
        return kind.passing_on(dialect) if unread else kind.read
    if isinstance(kind, sa.DateTime):
        return models.time_as_text if unread else datetime.datetime.fromisoformat
    return bool if isinstance(kind, sa.Boolean) else None


def visible(context: RequestContext, uuids: Collection[str]) -> set[str]:
    """Return the ``uuids`` of containers that ``context`` may see: its project's, or any for an administrator."""
    conditions = _visible(context, bool(context.is_admin))
    with session.reader() as connection:
        return set(connection.execute(sa.select(table.c.uuid).where(table.c.uuid.in_(uuids), *conditions)).scalars())


def of_host(hostname: str) -> list[session.Row]:
    """Return the rows of all containers, capsules and members on ``hostname``, with or without a claim."""
    with session.reader() as connection:
        return session.rows(connection, _OF_HOST, {"this_host": hostname})


def of_uuids(uuids: Collection[str]) -> list[session.Row]:
    """Return the rows of those ``uuids`` that exist, in any order."""
    with session.reader() as connection:
        return session.rows(connection, _THESE, {"these_uuids": list(uuids)})


_IN_THE_MAKING = (states.Status.CREATING, states.Status.REBUILDING)
_IMAGES_IN_THE_MAKING = (states.ImageStatus.PULLING, states.ImageStatus.COMMITTING)


def in_the_making(hostnames: Collection[str] | None = None) -> dict[str, int]:
    """Return how many containers and images each host makes, rebuilds, pulls or commits. Hosts with none are absent."""
    counts: Counter[str] = Counter()
    for rows, statuses in ((table, _IN_THE_MAKING), (models.images, _IMAGES_IN_THE_MAKING)):
        statement = sa.select(rows.c.host, sa.func.count()).where(rows.c.status.in_(statuses), rows.c.host.is_not(None))
        if hostnames is not None:
            statement = statement.where(rows.c.host.in_(list(hostnames)))
        with session.reader() as connection:
            counts.update({host: int(count) for host, count in connection.execute(statement.group_by(rows.c.host))})
    return dict(counts)


def claims(hostnames: Collection[str] | None = None, columns: Sequence[str] = CLAIM_COLUMNS) -> list[session.Row]:
    """Return ``columns`` of the containers that hold resources, on ``hostnames`` or on all hosts."""
    # Not ``is_(None)``: SQLite would take the index of that column, and read all containers for each call.
    by_itself = sa.func.coalesce(table.c.capsule_uuid, "") == ""
    statement = sa.select(*(table.c[name] for name in columns)).where(table.c.cpuset.is_not(None), by_itself)
    if hostnames is not None:
        statement = statement.where(table.c.host.in_(hostnames))
    with session.reader() as connection:
        return session.rows(connection, statement)


def parts_on(hostname: str) -> dict[str, list[session.Row]]:
    """Return uuid, name and cpuset of the containers of capsules that have a part of its claim, by the capsule's uuid.

    They are in their order of starting, without init containers, whose CPUs are those of others.
    """
    names = ("uuid", "name", "cpuset", "capsule_uuid")
    statement = sa.select(*(table.c[name] for name in names)).order_by(table.c.id)
    mine = (table.c.host == hostname, table.c.kind == Kind.MEMBER, table.c.cpuset.is_not(None))
    found: dict[str, list[session.Row]] = {}
    with session.reader() as connection:
        for row in session.rows(connection, statement.where(*mine)):
            found.setdefault(row["capsule_uuid"], []).append(row)
    return found


def unplaced() -> list[session.Row]:
    """Return the containers that were accepted and have no host yet, oldest first."""
    statement = sa.select(table).where(*_WAITING)
    with session.reader() as connection:
        return session.rows(connection, statement.order_by(table.c.id))


def is_unplaced(uuid: str) -> bool:
    """Return whether the container exists, was accepted and has no host yet."""
    with session.reader() as connection:
        return connection.execute(_IS_UNPLACED, {"this_uuid": uuid}).first() is not None


def update(
    uuid: str,
    values: Mapping[str, Any],
    *,
    only_from: frozenset[str] | None = None,
    step_done: int | None = None,
    last: bool = False,
) -> None:
    """Set ``values``. Raises ContainerNotFound, and IllegalTransition if the old status may not precede the new one.

    With ``only_from``, StatusChanged is raised and nothing is set unless the status is one of these. ``step_done`` is
    the id of an event that has succeeded with this update; if it is the ``last``, its action has succeeded too.
    """
    _update_once(uuid, {**values, **_now()} if values else {}, only_from, step_done, last)


@session.retry
def _update_once(
    uuid: str, values: Mapping[str, Any], only_from: frozenset[str] | None, step_done: int | None, last: bool
) -> None:
    if values and step_done is None:
        with session.single() as connection:
            if connection.execute(_setting(values.get("status"), only_from), {**values, "this_uuid": uuid}).rowcount:
                return
    with session.writer() as connection:
        if values:
            _update(connection, uuid, values, only_from)
        if step_done is not None:
            container_actions.finish_event_in(connection, step_done, container_actions.SUCCESS, None, last=last)


@session.retry
def rename(uuid: str, name: str, project_id: str, unique: Scope | None) -> None:
    """Rename the container of ``project_id``. Raises ContainerNotFound and ContainerAlreadyExists."""
    lock = _NAMES_LOCK if unique is Scope.GLOBAL else project_id
    if unique is not None:
        quotas.make_chargeable(lock)
    with session.writer() as connection:
        if unique is not None:
            quotas.lock(connection, lock)
            _check_name(connection, name, unique, project_id, uuid)
        _update(connection, uuid, {"name": name}, None)


@session.retry
def change_group(uuid: str, group: str, *, add: bool) -> list[str]:
    """Add a security group to the container or remove it, and return all its groups. Raises ContainerNotFound.

    The row is locked, so that of parallel changes each is kept.
    """
    with session.writer() as connection:
        row = session.locked(connection, table, uuid, exceptions.ContainerNotFound(container=uuid))
        others = [each for each in row["security_groups"] or [] if each != group]
        groups = [*others, group] if add else others
        _update(connection, uuid, {"security_groups": groups, **_now()}, None)
    return groups


def update_if(uuid: str, expected: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    """Set ``values`` if every column in ``expected`` has the expected value. Return whether ``values`` were set."""
    written = {**values, **_now()}
    conditions = [
        table.c[name].is_(None) if value is None else table.c[name] == value for name, value in expected.items()
    ]
    statement = table.update().where(table.c.uuid == uuid, *conditions).values(**written)

    def attempt(again: bool) -> bool:
        with session.single() as connection:
            if connection.execute(statement).rowcount:
                return True
        if not again:
            return False
        with session.reader() as connection:
            return _is_written(connection, uuid, written)

    return session.repeat(attempt)


def accept(
    uuid: str,
    action: str,
    *,
    allowed: frozenset[str] | None,
    values: Mapping[str, Any],
    arguments: Mapping[str, Any],
    request_id: str,
    user_id: str | None,
    project_id: str,
    client_address: str | None,
) -> None:
    """Set ``values`` and record ``action`` with its ``arguments``: from now on the action is wanted of the container.

    Raises ContainerNotFound. Raises StatusChanged, and nothing is recorded, unless the status is in ``allowed`` (None:
    any). An accepted reboot must come first, so StatusChanged is also raised for an action in ``states.AFTER_REBOOT``.
    """
    written = {**values, **_now()}
    who = {"request_id": request_id, "user_id": user_id, "project_id": project_id, "client_address": client_address}
    statement = _setting(values.get("status"), allowed)
    if action in states.AFTER_REBOOT:
        statement = statement.where(~_AWAITS_REBOOT)

    def attempt(again: bool) -> None:
        with session.writer() as connection:
            if again and container_actions.is_asked(connection, uuid, request_id, action):
                return  # an earlier attempt was committed
            if not connection.execute(statement, {**written, "this_uuid": uuid}).rowcount:
                old = connection.execute(sa.select(table.c.status).where(_THIS), {"this_uuid": uuid}).scalar()
                if old is None:
                    raise exceptions.ContainerNotFound(container=uuid)
                raise exceptions.StatusChanged(uuid=uuid, old=old, new=values.get("status", old))
            container_actions.insert_in(connection, uuid, action, arguments, **who)

    session.repeat(attempt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The claim of one container: ``values`` for its row, with the resources in ``values['cpuset']``.

    - ``step`` (request id, action, event) begins with the claim, if the action exists.
    - ``group_uuid`` is the container's group. Claims of one group wait for each other, so each claim sees the earlier
      ones.
    - ``volumes`` (project, names) are mounted; missing ones are created. ``withheld`` is the number of CPUs that are
      kept idle for the container. New volumes and withheld CPUs are charged to the container's project.
    - ``added_disk`` (project, GiB) is disk that ``values`` add, charged whatever the quota.
    - ``quota`` are the operator's default limits.
    - ``disk_pool`` (uuid, GiB) is the disk pool of the host, and what the container takes of it. Claims of one pool
      wait for each other, so the hosts together never promise more than the pool has.
    """

    uuid: str
    values: Mapping[str, Any]
    group_uuid: str | None = None
    step: tuple[str, str, str] | None = None
    volumes: tuple[str, Collection[str]] = ("", ())
    added_disk: tuple[str, int] = ("", 0)
    withheld: int = 0
    quota: Mapping[str, int] | None = None
    disk_pool: tuple[str, int] | None = None

    @property
    def is_plain(self) -> bool:
        """Return whether the claim changes no row but the container's and asks none."""
        others = (self.group_uuid, self.withheld, self.volumes[1], self.added_disk[1])
        return self.disk_pool is None and not any(others)


def claim(uuid: str, hostname: str, values: Mapping[str, Any], **more: Any) -> Claimed:
    """Write the claim of ``hostname`` for one container. ``more`` are further members of ``Wanted``.

    Raises ContainerNotFound if the container was deleted meanwhile, and Conflict if it waits for no host or another
    host has it. In both cases nothing may be started. Raises GroupRuleBroken if the group must not have another member
    on ``hostname``, ClaimRefused if the pool has too little left, and with ``quota`` ClaimOverQuota if the charges
    exceed the project's limits.
    """
    [outcome] = claim_many(hostname, [Wanted(uuid=uuid, values=values, **more)])
    if isinstance(outcome, Claimed):
        return outcome
    raise outcome


def claim_many(hostname: str, wanted: Sequence[Wanted]) -> list[Claimed | exceptions.ZunError]:
    """Write the claims of ``hostname`` for several containers in one transaction.

    Returns for each of ``wanted`` the result, or the error that ``claim`` raises; the others are claimed all the same.
    The claims have consecutive generations of the host, in the order of ``wanted``.
    """

    alone = len(wanted) == 1

    def attempt(again: bool) -> list[Claimed | exceptions.ZunError]:
        before = {row["uuid"]: row for row in _charged(wanted)}
        failed: dict[str, exceptions.ZunError] = {}
        with session.writer() as connection:
            teams = _lock_for_claims(connection, wanted, before, hostname)
            for each in wanted:
                if not each.is_plain:
                    try:
                        with contextlib.nullcontext() if alone else connection.begin_nested():
                            _claim_with_others(connection, hostname, each, before.get(each.uuid), teams)
                    except exceptions.ZunError as exc:
                        if alone or isinstance(exc, exceptions.Unavailable):
                            raise
                        failed[each.uuid] = exc
            failed |= _take(connection, hostname, [each for each in wanted if each.is_plain])
            claimed = [each for each in wanted if each.uuid not in failed]
            found = _begun(connection, hostname, claimed, again=again) if claimed else {}
        return [failed.get(each.uuid) or found[each.uuid] for each in wanted]

    try:
        return session.repeat(attempt)
    except exceptions.ZunError as exc:
        if not alone or isinstance(exc, exceptions.Unavailable):
            raise
        return [exc]


def _charged(wanted: Sequence[Wanted]) -> list[session.Row]:
    """Return the rows of the containers whose claims are charged to their projects."""
    uuids = [each.uuid for each in wanted if each.withheld or each.volumes[1]]
    return of_uuids(uuids) if uuids else []


def _lock_for_claims(
    connection: sa.Connection, wanted: Sequence[Wanted], before: Mapping[str, session.Row], hostname: str
) -> dict[str, Group]:
    """Lock what the claims count: the pool, then projects, then groups, in one order for all hosts. Return the groups.

    All locks come before the first query, which would fix MariaDB's snapshot: what others commit until the last lock is
    seen after it.
    """
    if pool := next((each.disk_pool[0] for each in wanted if each.disk_pool is not None), None):
        aggregates.locked_pool(connection, pool, hostname)
    projects = {row["project_id"] for row in before.values()}
    if len(wanted) > 1 or any(each.group_uuid is not None for each in wanted):  # else the addition is the first lock
        projects |= {each.added_disk[0] for each in wanted if each.added_disk[1]}
    quotas.lock_all(connection, projects)
    teams: dict[str, Group] = {}
    for group in sorted({each.group_uuid for each in wanted if each.group_uuid is not None}):
        with contextlib.suppress(exceptions.GroupNotFound):  # its containers are refused one by one
            teams[group] = Group.of(groups.lock(connection, group))
    return teams


def _claim_with_others(
    connection: sa.Connection,
    hostname: str,
    wanted: Wanted,
    before: session.Row | None,
    teams: Mapping[str, Group],
) -> None:
    """Write a claim that counts in a pool, a project or a group. Raises the errors of ``claim``."""
    project_id, gib = wanted.added_disk
    if wanted.disk_pool is not None:
        _check_pool(connection, *wanted.disk_pool, wanted.uuid, hostname)
    if wanted.withheld or wanted.volumes[1]:
        if before is None:
            raise exceptions.ContainerNotFound(container=wanted.uuid)
        _charge_claim(connection, before, wanted.withheld, wanted.volumes[1], wanted.quota)
    if gib:
        quotas.add(connection, project_id, {"disk": gib})
    if wanted.group_uuid is not None:
        _check_group(connection, wanted.group_uuid, teams.get(wanted.group_uuid), wanted.uuid, hostname)
    for error in _take(connection, hostname, [wanted]).values():
        raise error
    project_volumes.hold(connection, *wanted.volumes, hostname)


def _take(connection: sa.Connection, hostname: str, wanted: Sequence[Wanted]) -> dict[str, exceptions.ZunError]:
    """Set the values and the host of containers that wait for a host.

    Returns the errors by uuid: ContainerNotFound, and Conflict if the container waits for no host.
    """
    failed: dict[str, exceptions.ZunError] = {}
    alike: dict[tuple[str, ...], list[Wanted]] = {}
    for each in wanted:
        alike.setdefault(tuple(sorted(each.values)), []).append(each)
    for names, those in alike.items():
        given = {"host": hostname, "this_host": hostname, **_now()}
        for number, each in enumerate(those):
            own = {**each.values, "withheld_cpu": each.withheld, "this_uuid": each.uuid}
            given |= own if len(those) == 1 else {f"{name}_{number}": value for name, value in own.items()}
        statement = _CLAIM if len(those) == 1 else _taking(len(those), (*names, "withheld_cpu"))
        if connection.execute(statement, given).rowcount != len(those):
            failed |= _not_taken(connection, hostname, [each.uuid for each in those], given["updated_at"])
    return failed


def _not_taken(
    connection: sa.Connection, hostname: str, uuids: list[str], now: datetime.datetime
) -> dict[str, exceptions.ZunError]:
    """Return why rows that a claim should have set at ``now`` are not set."""
    found = {row.uuid: row for row in connection.execute(_CLAIMED_NOW, {"these_uuids": uuids})}
    failed: dict[str, exceptions.ZunError] = {}
    for uuid in uuids:
        row = found.get(uuid)
        if row is None:
            failed[uuid] = exceptions.ContainerNotFound(container=uuid)
        elif (row.status, row.host, row.updated_at) != (states.Status.CREATING, hostname, now):
            failed[uuid] = exceptions.Conflict(
                f"Container {uuid} is {row.status} on host {row.host}; it does not wait for a host."
            )
    return failed


@functools.lru_cache(maxsize=64)
def _taking(count: int, names: tuple[str, ...]) -> sa.Update:
    """Return the statement that claims ``count`` containers, each with its own values of the columns ``names``.

    For two: ``SET cpuset = CASE WHEN uuid = :this_uuid_0 THEN :cpuset_0 WHEN uuid = :this_uuid_1 THEN :cpuset_1 END``.
    """
    uuids = [sa.bindparam(f"this_uuid_{number}", type_=table.c.uuid.type) for number in range(count)]
    own = {}
    for name in names:
        values = (sa.bindparam(f"{name}_{number}", type_=table.c[name].type) for number in range(count))
        own[name] = sa.case(*((table.c.uuid == uuid, value) for uuid, value in zip(uuids, values, strict=True)))
    return table.update().where(table.c.uuid.in_(uuids), *_CLAIMABLE).values(own)


def _begun(
    connection: sa.Connection, hostname: str, claimed: Sequence[Wanted], *, again: bool
) -> dict[str, Claimed]:
    """Raise the host's generation and record the first steps of what was claimed. Return the results by uuid."""
    last = compute_nodes.next_generation(connection, hostname, len(claimed))
    steps = {each.uuid: each.step for each in claimed if each.step is not None}
    _, action, event = next(iter(steps.values()), (None, None, ""))
    asked = {
        "these_uuids": [each.uuid for each in claimed],
        "these_requests": sorted({request for request, _, _ in steps.values()}),
        "this_action": action,
    }
    rows = connection.execute(_AFTER_CLAIMS, asked).all()
    begins: dict[str, tuple[bool, int]] = {}  # whether it is of the claim's request, and the action
    for row in rows:
        if row.action_id is not None and row.uuid in steps:
            found = (row.request_id == steps[row.uuid][0], row.action_id)
            begins[row.uuid] = max(found, begins.get(row.uuid, found))
    events = container_actions.start_events_in(connection, [ident for _, ident in begins.values()], event, again=again)
    in_networks = {row.uuid for row in rows if row.in_networks}
    return {
        each.uuid: Claimed(
            generation=last - len(claimed) + number if last else 0,
            event_id=events[begins[each.uuid][1]] if each.uuid in begins else None,
            in_networks=each.uuid in in_networks,
        )
        for number, each in enumerate(claimed, 1)
    }


def _charge_claim(
    connection: sa.Connection,
    row: session.Row,
    withheld: int,
    names: Collection[str],
    quota: Mapping[str, int] | None,
) -> None:
    """Charge the withheld CPUs and new volumes of a claim to the project of the container ``row``.

    The charge must be the first statement of its transaction. Raises ClaimOverQuota.
    """
    project_id = row["project_id"]
    growth = {"cpu": withheld - row["withheld_cpu"]}  # an earlier attempt may have been committed
    if names:
        quotas.lock(connection, project_id)  # so that nobody adds a volume of these names meanwhile
        growth["volumes"] = project_volumes.missing(connection, project_id, names)
    try:
        quotas.grow(connection, project_id, growth, quota)
    except exceptions.OverQuota as exc:
        raise exceptions.ClaimOverQuota(reason=str(exc)) from exc


def change_claim(
    uuid: str,
    hostname: str,
    values: Mapping[str, Any],
    quota: Mapping[str, int] | None = None,
    *,
    only_from: frozenset[str] | None = None,
) -> int:
    """Update the container with ``values`` that change or end its claim, and return the host's new generation.

    ``cpuset`` None ends the claim. ``quota`` are the operator's default limits. With ``quota``, OverQuota if the added
    resources exceed the project's limits. Raises the errors of ``update``.
    """
    return _change_claim_once(uuid, hostname, {**values, **_now()}, quota, only_from)


@session.retry
def _change_claim_once(
    uuid: str,
    hostname: str,
    values: Mapping[str, Any],
    quota: Mapping[str, int] | None,
    only_from: frozenset[str] | None,
) -> int:
    before = get(uuid) if quota is not None or values.get("withheld_cpu") else None
    if before is not None:
        quotas.make_chargeable(before["project_id"])
    with session.writer() as connection:
        if before is not None:
            growth = {
                name: values.get(name, before[name]) - before[name] for name in ("cpu", "withheld_cpu", "memory")
            }
            growth["cpu"] += growth.pop("withheld_cpu")
            if quota is None:  # the host keeps more CPUs idle than before, whatever the limit
                quotas.add(connection, before["project_id"], {"cpu": growth["cpu"]})
            else:
                quotas.charge(connection, before["project_id"], growth, quota)
        _update(connection, uuid, values, only_from)
        return compute_nodes.next_generation(connection, hostname)


def end_unplaced(uuid: str, reason: str, record: Mapping[str, Any] | None = None) -> bool:
    """Put a container or capsule that waits for a host into Error, and keep ``record`` as the explanation.

    Returns False if the container no longer waits, because another service decided about it meanwhile.
    """
    ended = {"status": states.Status.ERROR, "status_reason": reason, "task_state": None, **_now()}

    def attempt(again: bool) -> bool:
        with session.writer() as connection:
            if not connection.execute(table.update().where(table.c.uuid == uuid, *_WAITING).values(**ended)).rowcount:
                return again and _is_written(connection, uuid, ended)
            connection.execute(table.update().where(table.c.capsule_uuid == uuid).values(**ended))
            if record:
                explanations.put_in(connection, [uuid], record)
            return True

    return session.repeat(attempt)


@session.retry
def destroy(uuid: str) -> int | None:
    """Remove the container and its claim. Return the new generation of its host, or None if it had no host.

    Nothing happens if the container is gone.
    """
    with session.writer() as connection:
        host = connection.execute(sa.select(table.c.host).where(table.c.uuid == uuid)).scalar()
        members = connection.execute(sa.select(table.c.uuid).where(table.c.capsule_uuid == uuid)).scalars()
        console_tokens.remove_in(connection, [uuid, *members])
        connection.execute(table.delete().where(sa.or_(table.c.uuid == uuid, table.c.capsule_uuid == uuid)))
        explanations.remove_in(connection, [uuid])
        return compute_nodes.next_generation(connection, host) if host else None


def abandon(uuid: str) -> int:
    """Turn the container into a leftover, which only its host sees, and return the host's new generation.

    The host may still run the container. Raises ContainerNotFound.
    """
    nobodys = {"group_uuid": None, "registry_id": None, "addresses": None, "task_state": None}
    return _abandon_once(uuid, {"kind": Kind.LEFTOVER, "status": states.Status.DELETING, **nobodys, **_now()})


@session.retry
def _abandon_once(uuid: str, values: Mapping[str, Any]) -> int:
    ports = network_ports.table
    with session.writer() as connection:
        _update(connection, uuid, values, None)
        connection.execute(ports.delete().where(ports.c.container_uuid == uuid))
        console_tokens.remove_in(connection, [uuid])
        explanations.remove_in(connection, [uuid])
        host = connection.execute(sa.select(table.c.host).where(table.c.uuid == uuid)).scalar()
        return compute_nodes.next_generation(connection, host) if host else 0


def stranded(binary: str) -> list[str]:
    """Return the uuids of containers in Deleting that no host will delete.

    An administrator has removed the service ``binary`` of the host, or the host gave the container up while the
    deletion was being accepted.
    """
    serving = sa.select(services.c.host).where(services.c.binary == binary)
    deleting = (table.c.status == states.Status.DELETING, table.c.kind != Kind.LEFTOVER, _BY_ITSELF)
    statement = sa.select(table.c.uuid).where(*deleting, sa.or_(table.c.host.is_(None), table.c.host.not_in(serving)))
    with session.reader() as connection:
        return list(connection.execute(statement).scalars())


def destroy_unplaced(uuid: str) -> bool:
    """Remove the container if no host has it. Return whether the container was removed."""
    statement = table.delete().where(table.c.uuid == uuid, table.c.host.is_(None))

    def attempt(again: bool) -> bool:
        with session.writer() as connection:
            removed = bool(connection.execute(statement).rowcount)
            if removed:
                connection.execute(table.delete().where(table.c.capsule_uuid == uuid))
                explanations.remove_in(connection, [uuid])
            elif again:
                return connection.execute(sa.select(table.c.id).where(table.c.uuid == uuid)).first() is None
            return removed

    return session.repeat(attempt)


def _check_name(connection: sa.Connection, name: str, unique: Scope, project_id: str, uuid: str) -> None:
    """Raise ContainerAlreadyExists if another container has ``name``. The caller holds the lock for names."""
    others = [table.c.kind == Kind.CONTAINER, _BY_ITSELF, table.c.uuid != uuid]
    if unique is Scope.PROJECT:
        others.append(table.c.project_id == project_id)
    taken = sa.select(table.c.id).where(sa.func.lower(table.c.name) == name.lower(), *others).limit(1)
    if connection.execute(taken).first() is not None:
        raise exceptions.ContainerAlreadyExists(field="name", value=name)


def _check_group(connection: sa.Connection, group_uuid: str, group: Group | None, uuid: str, hostname: str) -> None:
    if group is None:
        raise exceptions.GroupNotFound(group=group_uuid)
    reason = group.broken_by(groups.held(connection, group_uuid, without=uuid), hostname)
    if reason is not None:
        raise exceptions.GroupRuleBroken(host=hostname, reason=reason)


def _check_pool(connection: sa.Connection, pool_uuid: str, gib: int, uuid: str, hostname: str) -> None:
    """Check that the disk pool has ``gib`` left beside what the other containers of its hosts hold."""
    found = aggregates.locked_pool(connection, pool_uuid, hostname)
    if found is None:
        raise exceptions.ClaimRefused(host=hostname, reason="its disk pool was changed during the claim")
    pool, hosts = found
    reason = pool.lacking(_disk_held(connection, hosts, without=uuid), gib)
    if reason is not None:
        raise exceptions.ClaimRefused(host=hostname, reason=reason)


def _disk_held(connection: sa.Connection, hostnames: Collection[str], *, without: str) -> int:
    held = sa.select(sa.func.sum(_DISK)).where(*_holding_on(hostnames), table.c.uuid != without)
    return int(connection.execute(held).scalar() or 0)


def disk_holders(hostnames: Collection[str]) -> dict[str, int]:
    """Return the GiB of disk of each container on ``hostnames`` that holds resources, by uuid."""
    with session.reader() as connection:
        found = connection.execute(sa.select(table.c.uuid, _DISK).where(*_holding_on(hostnames)))
        return {uuid: int(gib) for uuid, gib in found}


def _holding_on(hostnames: Collection[str]) -> list[sa.ColumnElement[bool]]:
    return [table.c.host.in_(hostnames), table.c.cpuset.is_not(None), _BY_ITSELF]


def _now() -> dict[str, Any]:
    return {"updated_at": session.now()}


def _is_written(connection: sa.Connection, uuid: str, values: Mapping[str, Any]) -> bool:
    """Return whether the row still has the ``updated_at`` of ``values``: an earlier attempt was the last writer."""
    written = connection.execute(sa.select(table.c.updated_at).where(table.c.uuid == uuid)).scalar()
    return bool(written == values["updated_at"])


def _update(
    connection: sa.Connection, uuid: str, values: Mapping[str, Any], only_from: frozenset[str] | None
) -> None:
    """Set ``values`` like ``update``. ``updated_at`` in ``values`` is the same at each attempt."""
    if connection.execute(_setting(values.get("status"), only_from), {**values, "this_uuid": uuid}).rowcount:
        return
    row = connection.execute(sa.select(table.c.status, table.c.updated_at).where(table.c.uuid == uuid)).first()
    if row is None:
        raise exceptions.ContainerNotFound(container=uuid)
    old, new = row.status, values.get("status", row.status)
    if (old, row.updated_at) == (new, values["updated_at"]):
        return  # an earlier attempt set it and lost its connection before the answer
    refused = exceptions.IllegalTransition if only_from is None or old in only_from else exceptions.StatusChanged
    raise refused(uuid=uuid, old=old, new=new)


@functools.cache
def _setting(status: str | None, only_from: frozenset[str] | None) -> sa.Update:
    """Return the statement that changes this container from a status that may precede ``status`` (None: any)."""
    statement = table.update().where(_THIS)
    if status is None and only_from is None:
        return statement
    before = {old for old, following in states.TRANSITIONS.items() if status in (None, old, *following)}
    if only_from is not None:
        before &= only_from
    # Of no status at all: without "false" the row would be changed whatever its status is.
    return statement.where(sa.or_(sa.false(), *(table.c.status == old for old in sorted(before))))
