# SPDX-License-Identifier: Apache-2.0
"""Queries of host aggregates. Each function is one transaction.

There are few aggregates and administrators change them, so a change locks all of them: what one aggregate may become
depends on the others, as a host may be in one availability zone only.
"""

from collections.abc import Callable, Mapping
from typing import Any, Unpack

import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_utils import timeutils, uuidutils

from zun.common import exceptions, zones
from zun.db import idents, models, paging, session

table = models.aggregates
nodes = models.compute_nodes


def all_aggregates() -> list[session.Row]:
    """Every aggregate, oldest first: uuid, name, metadata (text by name) and hosts (sorted names) among its members."""
    with session.reader() as connection:
        return session.rows(connection, sa.select(table).order_by(table.c.id))


def page(**place: Unpack[paging.Place]) -> list[session.Row]:
    return paging.behind(table, [], missing=exceptions.AggregateNotFound(aggregate=place.get("marker")), **place)


def find(ident: str) -> session.Row:
    """The aggregate with this uuid or name. Text that looks like a uuid is one. Raises AggregateNotFound."""
    return idents.find(table, ident, [], exceptions.AggregateNotFound(aggregate=ident))


def insert(name: str, metadata: Mapping[str, str]) -> session.Row:
    """Add an aggregate without hosts. Returns the whole row. Raises Conflict when the name is taken."""
    return _insert({"name": name, "metadata": dict(metadata), "hosts": []})


@session.retry_adding(table)
def _insert(values: Mapping[str, Any]) -> session.Row:
    try:
        with session.writer() as connection:
            return session.add(connection, table, values)
    except db_exc.DBDuplicateEntry:
        raise _taken(values["name"]) from None


def update(ident: str, *, name: str | None = None, metadata: Mapping[str, str | None]) -> session.Row:
    """Set the name, if there is one, and the given members of the metadata; remove those whose value is None.

    Returns the whole row. Raises AggregateNotFound, and Conflict when the name is taken or a host of the aggregate is
    in another zone than ``metadata`` names.
    """

    def change(row: session.Row, others: list[session.Row]) -> dict[str, Any]:
        merged = {**row["metadata"], **metadata}
        left = {key: value for key, value in merged.items() if value is not None}
        for host in row["hosts"]:
            _check_zone(host, left, others)
        return {"name": name or row["name"], "metadata": left}

    try:
        return _change(ident, change)
    except db_exc.DBDuplicateEntry:
        raise _taken(str(name)) from None


def add_host(ident: str, host: str) -> session.Row:
    """Returns the whole row. ``host`` is the name of a compute node, else ComputeNodeNotFound.

    Raises AggregateNotFound, and Conflict when the aggregate has the host, or the host is in another zone than the
    aggregate's by another aggregate.
    """

    def change(row: session.Row, others: list[session.Row]) -> dict[str, Any]:
        if host in row["hosts"]:
            raise exceptions.Conflict(f"Host {host} is in aggregate {row['name']} already.")
        _check_zone(host, row["metadata"], others)
        with models.readable(table.c.hosts, row["uuid"], "Write the names of its hosts, as a list."):
            return {"hosts": sorted([*row["hosts"], host])}

    return _change(ident, change, host)


def remove_host(ident: str, host: str) -> session.Row:
    """Returns the whole row. Raises AggregateNotFound, AggregateHostNotFound."""

    def change(row: session.Row, others: list[session.Row]) -> dict[str, Any]:
        if host not in row["hosts"]:
            raise exceptions.AggregateHostNotFound(aggregate=row["name"], host=host)
        return {"hosts": [each for each in row["hosts"] if each != host]}

    return _change(ident, change)


@session.retry
def destroy(ident: str) -> None:
    """Raises AggregateNotFound, and Conflict when the aggregate has hosts."""
    with session.writer() as connection:
        row, _ = _locked(connection, ident)
        count = len(row["hosts"])
        if count:
            raise exceptions.Conflict(
                f"Aggregate {row['name']} has {count} host{'s' * (count > 1)}. Remove them from it, then delete it."
            )
        connection.execute(table.delete().where(table.c.id == row["id"]))


@session.retry
def _change(
    ident: str, change: Callable[[session.Row, list[session.Row]], dict[str, Any]], host: str | None = None
) -> session.Row:
    """Set what ``change`` makes of the aggregate and all others. ``host`` must be a compute node."""
    with session.writer() as connection:
        row, others = _locked(connection, ident)
        known = sa.select(nodes.c.id).where(nodes.c.hostname == host)
        if host is not None and session.first(connection, known) is None:
            raise exceptions.ComputeNodeNotFound(compute_node=host)
        same = table.c.id == row["id"]
        connection.execute(table.update().where(same).values(**change(row, others), updated_at=timeutils.utcnow()))
        return session.rows(connection, sa.select(table).where(same))[0]


def _locked(connection: sa.Connection, ident: str) -> tuple[session.Row, list[session.Row]]:
    """The aggregate and all the others, which nobody else changes until the transaction ends."""
    rows = session.rows(connection, sa.select(table).order_by(table.c.id).with_for_update())
    key = "uuid" if uuidutils.is_uuid_like(ident) else "name"
    for row in rows:
        if row[key] == ident:
            return row, [other for other in rows if other is not row]
    raise exceptions.AggregateNotFound(aggregate=ident)


def _check_zone(host: str, metadata: Mapping[str, str], others: list[session.Row]) -> None:
    wanted, present = metadata.get(zones.KEY), zones.zone_of(host, None, others)
    if wanted and present and wanted != present:
        raise exceptions.Conflict(
            f"Host {host} is in availability zone {present} by another aggregate, and can be in one zone only. Remove "
            f"it from that aggregate before it comes to zone {wanted}."
        )


def _taken(name: str) -> exceptions.Conflict:
    return exceptions.Conflict(f"An aggregate with name {name} exists already. Choose another name.")
