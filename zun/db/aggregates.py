# SPDX-License-Identifier: Apache-2.0
"""Queries of host aggregates. Each function is one transaction.

A host may be in one availability zone and one disk pool only, so every change of an aggregate depends on the other
aggregates and locks all of them. Aggregates are few, and only administrators change them.
"""

from collections.abc import Callable, Mapping
from typing import Any, Unpack

import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_utils import timeutils, uuidutils

from zun.common import disk_pools, exceptions, zones
from zun.common.disk_pools import DiskPool
from zun.db import idents, models, paging, session

table = models.aggregates
nodes = models.compute_nodes
_ALL = sa.select(table).order_by(table.c.id)


def all_aggregates() -> list[session.Row]:
    """Return every aggregate, oldest first, with uuid, name, metadata (text by name) and hosts (sorted names)."""
    with session.reader() as connection:
        return session.rows(connection, _ALL)


def page(**place: Unpack[paging.Place]) -> list[session.Row]:
    return paging.behind(table, [], missing=exceptions.AggregateNotFound(aggregate=place.get("marker")), **place)


def find(ident: str) -> session.Row:
    """Return the aggregate with this uuid or name. Text that looks like a uuid is a uuid. Raises AggregateNotFound."""
    return idents.find(table, ident, [], exceptions.AggregateNotFound(aggregate=ident))


def insert(name: str, metadata: Mapping[str, str]) -> session.Row:
    """Add an aggregate without hosts and return the whole row. Raises Conflict if the name is taken."""
    return _insert({"name": name, "metadata": dict(metadata), "hosts": []})


@session.retry_adding(table)
def _insert(values: Mapping[str, Any]) -> session.Row:
    try:
        with session.writer() as connection:
            return session.add(connection, table, values)
    except db_exc.DBDuplicateEntry:
        raise _taken(values["name"]) from None


def update(ident: str, *, name: str | None = None, metadata: Mapping[str, str | None]) -> session.Row:
    """Set the name, if given, and the given members of the metadata. Members whose value is None are removed.

    Returns the whole row. Raises AggregateNotFound, and Conflict if the name is taken, if a host of the aggregate is in
    another zone than ``metadata`` names, or if a host would be in a second disk pool.
    """

    def change(row: session.Row, others: list[session.Row]) -> dict[str, Any]:
        merged = {**row["metadata"], **metadata}
        left = {key: value for key, value in merged.items() if value is not None}
        for host in row["hosts"]:
            _check_zone(host, left, others)
            _check_pool(host, left, others)
        return {"name": name or row["name"], "metadata": left}

    try:
        return _change(ident, change)
    except db_exc.DBDuplicateEntry:
        raise _taken(str(name)) from None


def add_host(ident: str, host: str) -> session.Row:
    """Add ``host`` to the aggregate and return the whole row. Raise AggregateNotFound or ComputeNodeNotFound.

    Raise Conflict if the aggregate has the host already, or if another aggregate puts the host into another zone or
    into another disk pool.
    """

    def change(row: session.Row, others: list[session.Row]) -> dict[str, Any]:
        if host in row["hosts"]:
            raise exceptions.Conflict(f"Host {host} is in aggregate {row['name']} already.")
        _check_zone(host, row["metadata"], others)
        _check_pool(host, row["metadata"], others)
        with models.readable(table.c.hosts, row["uuid"], "Write the names of its hosts, as a list."):
            return {"hosts": sorted([*row["hosts"], host])}

    return _change(ident, change, host)


def remove_host(ident: str, host: str) -> session.Row:
    """Remove ``host`` and return the aggregate's whole row. Raises AggregateNotFound and AggregateHostNotFound."""

    def change(row: session.Row, others: list[session.Row]) -> dict[str, Any]:
        if host not in row["hosts"]:
            raise exceptions.AggregateHostNotFound(aggregate=row["name"], host=host)
        return {"hosts": [each for each in row["hosts"] if each != host]}

    return _change(ident, change)


def locked_pool(connection: sa.Connection, uuid: str, hostname: str) -> tuple[DiskPool, list[str]] | None:
    """Lock an aggregate's row until the transaction ends, and return its disk pool with the names of the hosts.

    Returns None if ``hostname`` is not in the pool any more. The lock must be the first statement of its transaction,
    as in ``groups.lock``.
    """
    try:
        row = session.locked(connection, table, uuid, exceptions.AggregateNotFound(aggregate=uuid))
    except exceptions.AggregateNotFound:
        return None
    pool = disk_pools.pool(row)
    return None if pool is None or hostname not in row["hosts"] else (pool, row["hosts"])


@session.retry
def destroy(ident: str) -> None:
    """Remove the aggregate. Raises AggregateNotFound, and Conflict if the aggregate has hosts."""
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
    """Set the values that ``change`` returns for the aggregate and the others. ``host`` must be a compute node."""
    with session.writer() as connection:
        row, others = _locked(connection, ident)
        known = sa.select(nodes.c.id).where(nodes.c.hostname == host)
        if host is not None and session.first(connection, known) is None:
            raise exceptions.ComputeNodeNotFound(compute_node=host)
        same = table.c.id == row["id"]
        connection.execute(table.update().where(same).values(**change(row, others), updated_at=timeutils.utcnow()))
        return session.rows(connection, sa.select(table).where(same))[0]


def _locked(connection: sa.Connection, ident: str) -> tuple[session.Row, list[session.Row]]:
    """Return the aggregate and the list of all others, locked until the transaction ends."""
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


def _check_pool(host: str, metadata: Mapping[str, str], others: list[session.Row]) -> None:
    present = disk_pools.pool_of(host, others)
    if present is not None and disk_pools.size_of(metadata) is not None:
        raise exceptions.Conflict(
            f"Host {host} is in disk pool {present.name} already, and can be in one only. Remove it from that "
            "aggregate first."
        )


def _taken(name: str) -> exceptions.Conflict:
    return exceptions.Conflict(f"An aggregate with name {name} exists already. Choose another name.")
