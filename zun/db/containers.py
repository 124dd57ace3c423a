# SPDX-License-Identifier: Apache-2.0
"""Queries of containers. Each function is one transaction."""

import datetime
import enum
import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple, Unpack

import sqlalchemy as sa
from oslo_utils import timeutils

from zun.common import exceptions, states
from zun.common.context import RequestContext
from zun.common.groups import Group
from zun.common.kinds import Kind
from zun.db import (
    compute_nodes,
    container_actions,
    explanations,
    groups,
    idents,
    models,
    network_ports,
    paging,
    quotas,
    registries,
    session,
)
from zun.db import volumes as project_volumes

table = models.containers
services = models.services

# What the scheduler, and the map of a host, must know of a container that holds resources.
CLAIM_COLUMNS = ("uuid", "name", "host", "cpuset", "cpu", "memory", "disk", "volume_disk", "group_uuid", "image")


# Members of capsules are placed and hold resources with their capsule.
_BY_ITSELF = table.c.capsule_uuid.is_(None)
_WAITING = (table.c.status == states.Status.CREATING, table.c.host.is_(None), _BY_ITSELF)

# What every request needs is built once: building a statement costs more than sending it. The columns to set are those
# of the parameters; the other parameters have names that no column has.
_THIS = table.c.uuid == sa.bindparam("this_uuid")
_INSERT = table.insert()
_WHOLE = sa.select(table).where(_THIS)
_UNREAD = {column.name: models.unread(column) for column in table.c}
_IS_UNPLACED = sa.select(table.c.id).where(_THIS, *_WAITING)
_CLAIM = table.update().where(
    _THIS,
    table.c.status == states.Status.CREATING,
    sa.or_(table.c.host.is_(None), table.c.host == sa.bindparam("this_host")),
)
# What a claim goes on with: the action that its first step belongs to, and whether the container is in any network.
_AFTER_CLAIM = sa.select(
    container_actions.OPEN.scalar_subquery().label("action_id"),
    sa.exists().where(network_ports.table.c.container_uuid == sa.bindparam("this_uuid")).label("in_networks"),
    compute_nodes.GENERATION.scalar_subquery().label("generation"),
)


class Scope(enum.StrEnum):
    """Where a container's name is there once."""

    PROJECT = "project"
    GLOBAL = "global"


_NAMES_LOCK = "all container names"  # the row of quota_locks that is locked for a name in GLOBAL; of no project


class Claimed(NamedTuple):
    """``generation`` is the host's new one; ``event_id`` is None when no step began; ``in_networks``: it has ports."""

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
    """Add a container; ``uuid`` and the times are filled in. Returns the whole row.

    ``quota`` are the operator's default limits; with them, OverQuota when the project may not have it. ``nets`` are the
    ports it gets, and raise what ``network_ports.allot`` does. Raises GroupNotFound, and ContainerAlreadyExists when
    another one has its name where that is ``unique``.
    """
    quotas.make_chargeable(values["project_id"])
    if unique is Scope.GLOBAL:
        quotas.make_chargeable(_NAMES_LOCK)
    with session.writer() as connection:
        if unique is Scope.GLOBAL:
            quotas.lock(connection, _NAMES_LOCK)  # like charge's own, before what fixes what MariaDB shows
        if quota is None:
            quotas.forget(connection, values["project_id"])
        else:
            wanted = {name: values.get(name) or 0 for name in ("cpu", "memory", "disk")}
            wanted["disk"] += values.get("volume_disk") or 0
            quotas.charge(connection, values["project_id"], {"containers": 1, **wanted}, quota)
        if unique is not None:
            _check_name(connection, values["name"], unique, values["project_id"], values["uuid"])
        if values.get("registry_id") is not None:
            registries.hold(connection, values["registry_id"])
        if values.get("group_uuid"):
            groups.lock(connection, values["group_uuid"])
        connection.execute(_INSERT, {**values, "created_at": timeutils.utcnow()})
        network_ports.allot(connection, values["uuid"], nets)
        return session.rows(connection, _WHOLE, {"this_uuid": values["uuid"]})[0]


def get(uuid: str) -> session.Row:
    """The container, whoever owns it. Raises ContainerNotFound."""
    return session.found(_WHOLE, exceptions.ContainerNotFound(container=uuid), {"this_uuid": uuid})


def find(context: RequestContext, ident: str) -> session.Row:
    """The container with this uuid or name that ``context`` may see: its project's, or any for an administrator.

    Raises ContainerNotFound, and Conflict when the name is not unique. Text that looks like a uuid is one.
    """
    visible = _visible(context, bool(context.is_admin))
    return idents.find(table, ident, visible, exceptions.ContainerNotFound(container=ident))


def page(
    context: RequestContext,
    names: Sequence[str],
    *,
    filters: Mapping[str, Any] | None = None,
    all_projects: bool = False,
    unread: Set[str] = frozenset(),
    **place: Unpack[paging.Place],
) -> Iterator[session.Columns]:
    """The columns ``names`` of a page, some rows at a time. ``filters`` compare for equality.

    Those that are in ``unread`` can be written to an answer and not be looked into: JSON is as it is stored, and times
    are text, as ``str`` has them.
    """
    with session.reader() as connection:
        statement = paging.selected(
            connection,
            table,
            _visible(context, all_projects),
            filters=[table.c[name] == value for name, value in (filters or {}).items()],
            missing=exceptions.ContainerNotFound(container=place.get("marker")),
            columns=[_UNREAD[name] for name in names],
            **place,
        )
        for found in session.columns(connection, statement):
            for name in names:
                read = _reader(table.c[name].type, name in unread, connection.dialect)
                if read is not None:
                    found[name] = [None if value is None else read(value) for value in found[name]]
            yield found


def _reader(kind: sa.types.TypeEngine[Any], unread: bool, dialect: sa.Dialect) -> Callable[[Any], Any] | None:
    """What makes values of what ``models.unread`` selects, if they are none yet."""
    if isinstance(kind, models.Json):
        return kind.passing_on(dialect) if unread else kind.read
    if isinstance(kind, sa.DateTime):
        return models.time_as_text if unread else datetime.datetime.fromisoformat
    return bool if isinstance(kind, sa.Boolean) else None


def visible(context: RequestContext, uuids: Collection[str]) -> set[str]:
    """Those of ``uuids`` that are containers which ``context`` may see: its project's, or any for an administrator."""
    conditions = _visible(context, bool(context.is_admin))
    with session.reader() as connection:
        return set(connection.execute(sa.select(table.c.uuid).where(table.c.uuid.in_(uuids), *conditions)).scalars())


def of_host(hostname: str) -> list[session.Row]:
    """Every container, capsule and member whose work is on ``hostname``, holding a claim or not."""
    with session.reader() as connection:
        return session.rows(connection, sa.select(table).where(table.c.host == hostname))


def claims(hostnames: Collection[str] | None = None) -> list[session.Row]:
    """CLAIM_COLUMNS of the containers that hold resources, of these hosts or of all."""
    statement = sa.select(*(table.c[name] for name in CLAIM_COLUMNS)).where(table.c.cpuset.is_not(None), _BY_ITSELF)
    if hostnames is not None:
        statement = statement.where(table.c.host.in_(hostnames))
    with session.reader() as connection:
        return session.rows(connection, statement)


def unplaced() -> list[session.Row]:
    """Containers that were accepted and have no host yet, oldest first."""
    statement = sa.select(table).where(*_WAITING)
    with session.reader() as connection:
        return session.rows(connection, statement.order_by(table.c.id))


def is_unplaced(uuid: str) -> bool:
    """Whether the container was accepted, has no host yet, and was not deleted meanwhile."""
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
    """Set ``values``. A status is set only from one that may precede it: else IllegalTransition. ContainerNotFound.

    With ``only_from`` they are set only while the status is one of these: else StatusChanged, and nothing is set.
    ``step_done`` is an event that has ended well with that, and with it, if it is the ``last``, its action.
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
    end = [] if step_done is None else container_actions.ending(step_done, container_actions.SUCCESS, None, last=last)
    with session.writer() as connection:
        if values:
            _update(connection, uuid, values, only_from, *end)
        elif end:
            session.together(connection, *end)


@session.retry
def rename(uuid: str, name: str, project_id: str, unique: Scope | None) -> None:
    """Give the container of ``project_id`` another name. Raises ContainerNotFound, ContainerAlreadyExists."""
    lock = _NAMES_LOCK if unique is Scope.GLOBAL else project_id
    if unique is not None:
        quotas.make_chargeable(lock)
    with session.writer() as connection:
        if unique is not None:
            quotas.lock(connection, lock)
            _check_name(connection, name, unique, project_id, uuid)
        _update(connection, uuid, {"name": name}, None)


def update_if(uuid: str, expected: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    """Set ``values`` if every column in ``expected`` still holds what it says. Returns whether it did."""
    return _update_if_once(uuid, expected, {**values, **_now()})


@session.retry_again
def _update_if_once(again: bool, uuid: str, expected: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    conditions = [
        table.c[name].is_(None) if value is None else table.c[name] == value for name, value in expected.items()
    ]
    statement = table.update().where(table.c.uuid == uuid, *conditions)
    with session.single() as connection:
        if connection.execute(statement.values(**values)).rowcount:
            return True
    if not again:
        return False
    with session.reader() as connection:
        return _is_written(connection, uuid, values)


@session.retry_again
def claim(
    again: bool,
    uuid: str,
    hostname: str,
    values: Mapping[str, Any],
    *,
    group_uuid: str | None = None,
    step: tuple[str, str, str] | None = None,
    volumes: tuple[str, Collection[str]] = ("", ()),
    added_disk: tuple[str, int] = ("", 0),
) -> Claimed:
    """Commit that ``hostname`` holds the container's resources, ``values['cpuset']`` among them.

    ``step`` (request id, action, event) begins with that, if somebody asked for the action. Raises ContainerNotFound
    when the container was deleted meanwhile and Conflict when it is no longer waiting for a host or another one has it:
    then nothing may be started. Raises GroupRuleBroken when the container's group ``group_uuid`` must not have one more
    member here. The group's claims come one after the other, whichever hosts make them, so that each sees those before
    it. ``added_disk`` is a project and how many GiB more ``values`` let it use, whatever its quota.
    """
    request_id, action, event = step or (None, None, "")
    here = {"this_host": hostname}
    parameters = {**values, "host": hostname, "this_uuid": uuid, **here, **_now()}
    project_id, gib = added_disk
    with session.writer() as connection:
        if gib:  # before the group, in the order of ``insert``, whose locks these are
            quotas.add_disk(connection, project_id, gib)
        if group_uuid is not None:
            _check_group(connection, group_uuid, uuid, hostname)
        (claimed, *_), found = session.together(
            connection,
            (_CLAIM, parameters),
            (compute_nodes.COUNT_GENERATION, here),
            (_AFTER_CLAIM, {**here, **container_actions.open_parameters(uuid, request_id, action)}),
        )
        if not claimed:
            row = connection.execute(sa.select(table.c.status, table.c.host).where(table.c.uuid == uuid)).first()
            if row is None:
                raise exceptions.ContainerNotFound(container=uuid)
            raise exceptions.Conflict(f"Container {uuid} is {row.status} on host {row.host}; it waits for no host.")
        project_volumes.hold(connection, *volumes, hostname)
        after = found.one()
        event_id = container_actions.start_event_in(connection, after.action_id, event, again=again)
        return Claimed(after.generation or 0, event_id, bool(after.in_networks))


def change_claim(
    uuid: str,
    hostname: str,
    values: Mapping[str, Any],
    quota: Mapping[str, int] | None = None,
    *,
    only_from: frozenset[str] | None = None,
) -> int:
    """As ``update`` with ``values`` that change or end (``cpuset`` None) what the container holds.

    Returns the new generation. ``quota`` are the operator's default limits; with them, OverQuota when the project may
    not have what is added.
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
    before = None if quota is None else get(uuid)
    if before is not None:
        quotas.make_chargeable(before["project_id"])
    with session.writer() as connection:
        if before is not None and quota is not None:
            growth = {name: values.get(name, before[name]) - before[name] for name in ("cpu", "memory")}
            quotas.charge(connection, before["project_id"], growth, quota)
        _update(connection, uuid, values, only_from)
        return compute_nodes.next_generation(connection, hostname)


def end_unplaced(uuid: str, reason: str, record: Mapping[str, Any] | None = None) -> bool:
    """Put what waits for a host in Error, a capsule with its members, and keep ``record`` as its explanation. Returns
    whether it did: somebody else may have decided about it meanwhile.
    """
    ended = {"status": states.Status.ERROR, "status_reason": reason, "task_state": None, **_now()}
    return _end_unplaced_once(uuid, ended, record)


@session.retry_again
def _end_unplaced_once(again: bool, uuid: str, ended: Mapping[str, Any], record: Mapping[str, Any] | None) -> bool:
    with session.writer() as connection:
        if not connection.execute(table.update().where(table.c.uuid == uuid, *_WAITING).values(**ended)).rowcount:
            return again and _is_written(connection, uuid, ended)
        connection.execute(table.update().where(table.c.capsule_uuid == uuid).values(**ended))
        if record:
            explanations.put_in(connection, uuid, record)
        return True


@session.retry
def destroy(uuid: str) -> int | None:
    """Remove the container and what it holds. Returns its host's new generation, None if it had no host.

    A container that is already gone is no error.
    """
    with session.writer() as connection:
        host = connection.execute(sa.select(table.c.host).where(table.c.uuid == uuid)).scalar()
        connection.execute(table.delete().where(sa.or_(table.c.uuid == uuid, table.c.capsule_uuid == uuid)))
        explanations.remove_in(connection, uuid)
        return compute_nodes.next_generation(connection, host) if host else None


def abandon(uuid: str) -> int:
    """Make a leftover of the container: nobody but its host, which may run it all the same, knows it any more.

    Returns the host's new generation. Raises ContainerNotFound.
    """
    nobodys = {"group_uuid": None, "registry_id": None, "addresses": None, "task_state": None}
    return _abandon_once(uuid, {"kind": Kind.LEFTOVER, "status": states.Status.DELETING, **nobodys, **_now()})


@session.retry
def _abandon_once(uuid: str, values: Mapping[str, Any]) -> int:
    ports, tokens = network_ports.table, models.console_tokens
    with session.writer() as connection:
        _update(connection, uuid, values, None)
        connection.execute(ports.delete().where(ports.c.container_uuid == uuid))
        connection.execute(tokens.delete().where(tokens.c.container_uuid == uuid))
        explanations.remove_in(connection, uuid)
        host = connection.execute(sa.select(table.c.host).where(table.c.uuid == uuid)).scalar()
        return compute_nodes.next_generation(connection, host) if host else 0


def stranded(binary: str) -> list[str]:
    """What is to be deleted and has no host that will: an administrator has removed its service ``binary``, or it gave
    the container up while its deletion was accepted.
    """
    serving = sa.select(services.c.host).where(services.c.binary == binary)
    deleting = (table.c.status == states.Status.DELETING, table.c.kind != Kind.LEFTOVER, _BY_ITSELF)
    statement = sa.select(table.c.uuid).where(*deleting, sa.or_(table.c.host.is_(None), table.c.host.not_in(serving)))
    with session.reader() as connection:
        return list(connection.execute(statement).scalars())


@session.retry_again
def destroy_unplaced(again: bool, uuid: str) -> bool:
    """Remove the container if no host has it. Returns whether it did."""
    statement = table.delete().where(table.c.uuid == uuid, table.c.host.is_(None))
    with session.writer() as connection:
        removed = bool(connection.execute(statement).rowcount)
        if removed:
            connection.execute(table.delete().where(table.c.capsule_uuid == uuid))
            explanations.remove_in(connection, uuid)
        elif again:
            return connection.execute(sa.select(table.c.id).where(table.c.uuid == uuid)).first() is None
        return removed


def _check_name(connection: sa.Connection, name: str, unique: Scope, project_id: str, uuid: str) -> None:
    """Raise ContainerAlreadyExists if another container has ``name``. Whoever may give it away waits for our lock."""
    others = [table.c.kind == Kind.CONTAINER, _BY_ITSELF, table.c.uuid != uuid]
    if unique is Scope.PROJECT:
        others.append(table.c.project_id == project_id)
    taken = sa.select(table.c.id).where(sa.func.lower(table.c.name) == name.lower(), *others).limit(1)
    if connection.execute(taken).first() is not None:
        raise exceptions.ContainerAlreadyExists(field="name", value=name)


def _check_group(connection: sa.Connection, group_uuid: str, uuid: str, hostname: str) -> None:
    group = Group.of(groups.lock(connection, group_uuid))
    reason = group.broken_by(groups.held(connection, group_uuid, without=uuid), hostname)
    if reason is not None:
        raise exceptions.GroupRuleBroken(host=hostname, reason=reason)


def _now() -> dict[str, Any]:
    return {"updated_at": timeutils.utcnow()}


def _is_written(connection: sa.Connection, uuid: str, values: Mapping[str, Any]) -> bool:
    """Whether an earlier attempt wrote ``values``, which have ``updated_at``, and nobody wrote anything since."""
    written = connection.execute(sa.select(table.c.updated_at).where(table.c.uuid == uuid)).scalar()
    return bool(written == values["updated_at"])


def _update(
    connection: sa.Connection,
    uuid: str,
    values: Mapping[str, Any],
    only_from: frozenset[str] | None,
    *more: session.Statement,
) -> None:
    """``values`` have ``updated_at``, the same at each attempt. ``more`` travels with that."""
    change = (_setting(values.get("status"), only_from), {**values, "this_uuid": uuid})
    (changed, *_), _ = session.together(connection, change, *more)
    if changed:
        return
    row = connection.execute(sa.select(table.c.status, table.c.updated_at).where(table.c.uuid == uuid)).first()
    if row is None:
        raise exceptions.ContainerNotFound(container=uuid)
    old, new = row.status, values.get("status", row.status)
    if (old, row.updated_at) == (new, values["updated_at"]):
        return  # an earlier attempt set it, and lost its connection before it was told
    refused = exceptions.IllegalTransition if only_from is None or old in only_from else exceptions.StatusChanged
    raise refused(uuid=uuid, old=old, new=new)


@functools.cache
def _setting(status: str | None, only_from: frozenset[str] | None) -> sa.Update:
    """A change of this container to ``status``, from one that may precede it. None: it stays as it is."""
    statement = table.update().where(_THIS)
    if status is None and only_from is None:
        return statement
    before = {old for old, following in states.TRANSITIONS.items() if status in (None, old, *following)}
    if only_from is not None:
        before &= only_from
    return statement.where(sa.or_(*(table.c.status == old for old in sorted(before))))
