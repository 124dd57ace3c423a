# SPDX-License-Identifier: Apache-2.0
"""Queries of container sets. Each function is one transaction.

A set's members are the containers whose rows name the set. The set is a row of its own, which stays until it is
deleted, whatever becomes of its members.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Unpack

import sqlalchemy as sa

from zun.common import exceptions, states
from zun.common.context import RequestContext
from zun.common.states import Kind, Status
from zun.db import (
    console_tokens,
    container_actions,
    containers,
    explanations,
    idents,
    models,
    network_ports,
    paging,
    session,
)

table = models.container_sets
_members = models.containers

_OF_SET = _members.c.set_uuid == sa.bindparam("this_set")
_ALL_MEMBERS = sa.select(_members).where(_OF_SET).order_by(_members.c.set_index, _members.c.id)
_SHOWN = ("uuid", "name", "status", "set_index")


class Lost(NamedTuple):
    """The lost members of a set: their numbers, and the rows that are left of some of them."""

    numbers: tuple[int, ...]
    rows: tuple[session.Row, ...]


@session.retry_adding(table)
def insert(
    values: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    who: Mapping[str, Any],
    quota: Mapping[str, int] | None = None,
    nets: Mapping[str, Sequence[network_ports.Wanted]] | None = None,
    unique: containers.Scope | None = None,
) -> session.Row:
    """Add a set and its members with their actions ``create``, and return the row of the set.

    ``who`` is as of ``container_actions``. The other arguments and the errors are those of ``containers.insert``.
    """
    with containers.adding(rows, quota, nets or {}, unique) as connection:
        container_actions.insert_all_in(connection, [row["uuid"] for row in rows], "create", None, **who)
        return session.add(connection, table, values)


@session.retry
def add_members(
    uuid: str,
    rows: Sequence[Mapping[str, Any]],
    who: Mapping[str, Any],
    quota: Mapping[str, int] | None = None,
    nets: Mapping[str, Sequence[network_ports.Wanted]] | None = None,
    unique: containers.Scope | None = None,
) -> None:
    """Add members to the set in place of lost ones. Raise ContainerSetNotFound, and the errors of ``insert``.

    A number that has a living member by now gets no second one.
    """
    with containers.adding(rows, quota, nets or {}, unique) as connection:
        _lock(connection, uuid)
        new = {row["uuid"] for row in rows}
        found = session.rows(connection, _ALL_MEMBERS, {"this_set": uuid})
        living = {row["set_index"] for row in found if row["uuid"] not in new and not is_lost(row)}
        twice = [row["set_index"] for row in rows if row["set_index"] in living]
        if twice:
            raise exceptions.Conflict(f"Member {min(twice)} of the set was replaced by another request a moment ago.")
        connection.execute(table.update().where(table.c.uuid == uuid).values(status_reason=None, **_now()))
        container_actions.insert_all_in(connection, [row["uuid"] for row in rows], "create", None, **who)


def get(uuid: str) -> session.Row:
    """Return the set of any project. Raises ContainerSetNotFound."""
    return session.found(sa.select(table).where(table.c.uuid == uuid), exceptions.ContainerSetNotFound(set=uuid))


def find(context: RequestContext, ident: str, *, all_projects: bool = False) -> session.Row:
    """Return the set that ``context`` means with a uuid or name, by the rule of ``zun.db.idents``.

    Raises ContainerSetNotFound, and Conflict if several sets have the name.
    """
    mine = table.c.project_id == context.project_id
    visible = idents.reached(mine, context, ident, all_projects=all_projects)
    return idents.find(table, ident, visible, exceptions.ContainerSetNotFound(set=ident))


def page(
    context: RequestContext, *, all_projects: bool = False, **place: Unpack[paging.Place]
) -> list[session.Row]:
    missing = exceptions.ContainerSetNotFound(set=place.get("marker"))
    return paging.behind(table, idents.visible(table, context, all_projects), missing=missing, **place)


def members(uuid: str) -> list[session.Row]:
    """Return the whole rows of the set's members by their numbers. A member that moved left nothing among them."""
    with session.reader() as connection:
        found = session.rows(connection, _ALL_MEMBERS, {"this_set": uuid})
    return [row for row in found if row["kind"] != Kind.LEFTOVER]


def shown_members(uuids: Collection[str]) -> dict[str, list[session.Row]]:
    """Return uuid, name and status of each set's members by their numbers, by set. Empty sets are absent."""
    statement = (
        sa.select(_members.c.set_uuid, *(_members.c[name] for name in _SHOWN))
        .where(_members.c.set_uuid.in_(uuids), _members.c.kind != Kind.LEFTOVER)
        .order_by(_members.c.set_index, _members.c.id)
    )
    found: dict[str, list[session.Row]] = {}
    with session.reader() as connection:
        for row in session.rows(connection, statement):
            found.setdefault(row["set_uuid"], []).append(row)
    return found


def is_lost(row: Mapping[str, Any]) -> bool:
    """Return whether the member with this row will not run again by itself, so that another may replace it."""
    return row["status"] in (Status.ERROR, Status.DEAD, Status.DELETING, Status.DELETED)


def lost(row: Mapping[str, Any]) -> Lost:
    """Return what is lost of the set with this ``row``."""
    found = members(row["uuid"])
    living = {each["set_index"] for each in found if not is_lost(each)}
    left = tuple(each for each in found if is_lost(each) and each["set_index"] not in living)
    return Lost(tuple(number for number in range(row["count"]) if number not in living), left)


def touch(uuid: str, seen: Any) -> bool:
    """Set ``updated_at`` of the set if it is as it was ``seen``. Return whether it was: one of several schedulers wins.
    """
    same = table.c.updated_at.is_(None) if seen is None else table.c.updated_at == seen
    with session.writer() as connection:
        return bool(connection.execute(table.update().where(table.c.uuid == uuid, same).values(**_now())).rowcount)


@session.retry
def accept(
    uuid: str,
    action: str,
    *,
    allowed: Collection[str],
    values: Mapping[str, Any],
    arguments: Mapping[str, Any],
    who: Mapping[str, Any],
    only: Collection[str] | None = None,
) -> list[session.Row]:
    """Record ``action`` for each member of the set that has a host and whose status is in ``allowed``.

    Set ``values`` of these members and return their rows. With ``only``, other members are left alone.
    """
    with session.writer() as connection:
        rows = _locked_members(connection, uuid)
        placed = [row for row in rows if row["host"] is not None and (only is None or row["uuid"] in only)]
        able = [row for row in placed if row["status"] in allowed]
        if action in states.AFTER_REBOOT:
            able = [row for row in able if not states.awaits_reboot(row)]
        _accept(connection, able, action, values, arguments, who)
        return able


@session.retry
def delete(
    uuid: str, allowed: Collection[str], arguments: Mapping[str, Any], who: Mapping[str, Any]
) -> tuple[list[session.Row], list[session.Row]]:
    """Remove the set with those members that have no host, and record ``delete`` for the others.

    Returns the rows of both. Raises StatusChanged, and changes nothing, if the status of a member is not in
    ``allowed``. A claim of a host comes before or after: no member escapes.
    """
    with session.writer() as connection:
        rows = [row for row in _locked_members(connection, uuid) if row["status"] != Status.DELETING]
        placed = [row for row in rows if row["host"] is not None]
        refusing = next((row for row in placed if row["status"] not in allowed), None)
        if refusing is not None:
            raise exceptions.StatusChanged(uuid=refusing["uuid"], old=refusing["status"], new=Status.DELETING)
        removed = _remove_unplaced(connection, rows)
        _accept(connection, placed, "delete", {"status": Status.DELETING}, arguments, who)
        connection.execute(table.delete().where(table.c.uuid == uuid))
        return removed, placed


@session.retry
def remove_unplaced(uuids: Collection[str]) -> list[session.Row]:
    """Remove those containers that have no host, and return their rows."""
    with session.writer() as connection:
        found = session.rows(connection, sa.select(_members).where(_members.c.uuid.in_(uuids)))
        return _remove_unplaced(connection, found)


def end_waiting(uuid: str, waiting: Collection[str], reason: str, record: Mapping[str, Any] | None) -> list[str]:
    """Put the members ``waiting`` into Error if they still wait for a host, and note the reason at the set.

    Their creation ends in an error, and ``record`` is kept as their explanation. Returns the uuids of these members.
    """
    ended = {"status": Status.ERROR, "status_reason": reason, "task_state": None, **_now()}
    still = (_members.c.uuid.in_(waiting), _members.c.status == Status.CREATING, _members.c.host.is_(None))

    def attempt(again: bool) -> list[str]:
        with session.writer() as connection:
            chosen = list(connection.execute(sa.select(_members.c.uuid).where(*still).with_for_update()).scalars())
            connection.execute(_members.update().where(_members.c.uuid.in_(chosen)).values(**ended))
            connection.execute(table.update().where(table.c.uuid == uuid).values(status_reason=reason, **_now()))
            container_actions.fail_open_in(connection, chosen, "create")
            if chosen and record:
                explanations.put_in(connection, chosen, record)
            return chosen

    return session.repeat(attempt)


def _locked_members(connection: sa.Connection, uuid: str) -> list[session.Row]:
    rows = session.rows(connection, _ALL_MEMBERS.with_for_update(), {"this_set": uuid})
    return [row for row in rows if row["kind"] != Kind.LEFTOVER]


def _accept(
    connection: sa.Connection,
    rows: Sequence[session.Row],
    action: str,
    values: Mapping[str, Any],
    arguments: Mapping[str, Any],
    who: Mapping[str, Any],
) -> None:
    uuids = [row["uuid"] for row in rows]
    if uuids:
        connection.execute(_members.update().where(_members.c.uuid.in_(uuids)).values(**values, **_now()))
        container_actions.insert_all_in(connection, uuids, action, arguments, **who)


def _lock(connection: sa.Connection, uuid: str) -> session.Row:
    return session.locked(connection, table, uuid, exceptions.ContainerSetNotFound(set=uuid))


def _remove_unplaced(connection: sa.Connection, rows: Sequence[session.Row]) -> list[session.Row]:
    uuids = [row["uuid"] for row in rows if row["host"] is None]
    gone = _members.delete().where(_members.c.uuid.in_(uuids), _members.c.host.is_(None))
    if uuids:
        connection.execute(gone)
        console_tokens.remove_in(connection, uuids)
        explanations.remove_in(connection, uuids)
    return [row for row in rows if row["host"] is None]


def _now() -> dict[str, Any]:
    return {"updated_at": session.now()}
