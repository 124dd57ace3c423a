# SPDX-License-Identifier: Apache-2.0
"""Queries of compute nodes. Each function is one transaction."""

import datetime
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Unpack

import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_utils import timeutils, uuidutils

from zun.common import exceptions
from zun.common.states import Kind
from zun.db import idents, models, paging, session
from zun.topology import amounts

table = models.compute_nodes
services = models.services

# Built once, because every claim uses them and building a statement takes longer than sending it.
_THIS = table.c.hostname == sa.bindparam("this_host")
_LATER = table.c.generation + sa.bindparam("steps")
_NEXT = table.update().where(_THIS).values(generation=_LATER).returning(table.c.generation)
_NEXT_AS_ID = table.update().where(_THIS).values(generation=sa.func.last_insert_id(_LATER))


@dataclass(frozen=True, slots=True)
class HostUsage:
    """The sums of the resources that the containers of one host hold. ``memory`` is in MiB, ``disk`` in GiB."""

    containers: int = 0
    cpu: float = 0.0
    memory: int = 0
    disk: int = 0


@session.retry
def put(hostname: str, values: Mapping[str, Any]) -> session.Row:
    """Write the inventory of ``hostname``, add the node the first time, and return the whole row.

    If the inventory changed, the generation grows, so that caches read the node again before the next claim.
    """
    now = timeutils.utcnow()
    same = table.c.hostname == hostname
    with session.writer() as connection:
        before = session.first(connection, sa.select(table).where(same).with_for_update())
        if before is None:
            row = {
                **values,
                "hostname": hostname,
                "uuid": uuidutils.generate_uuid(),
                "created_at": now,
                "updated_at": now,
            }
            try:
                with connection.begin_nested():
                    connection.execute(table.insert().values(**row))
            except db_exc.DBDuplicateEntry:  # another agent with this host name added it first
                before = session.first(connection, sa.select(table).where(same).with_for_update())
        if before is not None:
            grown = int(any(before[name] != _read_back(value) for name, value in values.items()))
            changes = {**values, "updated_at": now, "generation": table.c.generation + grown}
            connection.execute(table.update().where(same).values(**changes))
        return session.rows(connection, sa.select(table).where(same))[0]


@session.retry
def add_traits(hostname: str, names: Sequence[str]) -> session.Row:
    """Replace the traits that administrators added by ``names``, and return the whole row.

    The generation grows if the traits change. Raise ComputeNodeNotFound if the host has no row.
    """
    same = table.c.hostname == hostname
    with session.writer() as connection:
        before = session.first(connection, sa.select(table).where(same).with_for_update())
        if before is None:
            raise exceptions.ComputeNodeNotFound(compute_node=hostname)
        added = sorted(set(names) - set(before["traits"] or ()))
        if added != (before["added_traits"] or []):
            changes = {"added_traits": added, "generation": table.c.generation + 1}  # updated_at is the agent's
            connection.execute(table.update().where(same).values(**changes))
        return session.rows(connection, sa.select(table).where(same))[0]


def _read_back(value: Any) -> Any:
    """Return ``value`` as its column returns it: ``(1, 2)`` becomes ``[1, 2]``, and ``{0: 1}`` becomes ``{"0": 1}``."""
    return json.loads(json.dumps(value)) if isinstance(value, Mapping | Sequence) else value


def find(ident: str) -> session.Row:
    """Return the node with this uuid or host name. Raises ComputeNodeNotFound."""
    return idents.find(table, ident, [], exceptions.ComputeNodeNotFound(compute_node=ident), name="hostname")


#: Columns that tell whether a host is as it was: the generation grows with its inventory and with its claims.
_REVISION = [table.c[name] for name in ("uuid", "hostname", "generation")]


def revision(ident: str) -> session.Row:
    """Return what ``find`` returns, with ``_REVISION`` only."""
    missing = exceptions.ComputeNodeNotFound(compute_node=ident)
    return idents.find(table, ident, [], missing, name="hostname", columns=_REVISION)


def page_revisions(**place: Unpack[paging.Place]) -> list[tuple[str, int]]:
    """Return what is another list whenever ``page`` has other hosts, or their inventory or usage has changed."""
    missing = exceptions.ComputeNodeNotFound(compute_node=place.get("marker"))
    with session.reader() as connection:
        statement = paging.selected(connection, table, [], missing=missing, columns=_REVISION, **place)
        return [(row.uuid, row.generation) for row in connection.execute(statement)]


def deserted(binary: str, before: datetime.datetime) -> list[str]:
    """Return the hosts that have no containers, no service ``binary`` and a node unchanged since ``before``.

    An administrator has removed the service of each. Leftovers do not count as containers.
    """
    held = models.containers
    here = sa.select(held.c.id).where(held.c.host == table.c.hostname, held.c.capsule_uuid.is_(None))
    served = sa.select(services.c.id).where(services.c.host == table.c.hostname, services.c.binary == binary)
    statement = sa.select(table.c.hostname).where(
        table.c.updated_at < before, ~served.exists(), ~here.where(held.c.kind != Kind.LEFTOVER).exists()
    )
    with session.reader() as connection:
        return list(connection.execute(statement).scalars())


@session.retry
def destroy(hostname: str, before: datetime.datetime) -> bool:
    """Remove the node unless its host has updated it since ``before``. Return whether the node was removed."""
    statement = table.delete().where(table.c.hostname == hostname, table.c.updated_at < before)
    with session.writer() as connection:
        return bool(connection.execute(statement).rowcount)


def page(**place: Unpack[paging.Place]) -> list[session.Row]:
    missing = exceptions.ComputeNodeNotFound(compute_node=place.get("marker"))
    return paging.behind(table, [], missing=missing, **place)


def inventories(hostnames: Collection[str]) -> list[session.Row]:
    """Return the nodes of ``hostnames``. The topology is JSON text, which is equal for equal machines."""
    columns = [column for column in table.c if column is not table.c.topology]
    statement = sa.select(*columns, sa.cast(table.c.topology, sa.Text).label("topology"))
    with session.reader() as connection:
        return session.rows(connection, statement.where(table.c.hostname.in_(hostnames)))


def topology(hostname: str) -> dict[str, Any]:
    """Return the topology in the row of a host, empty if there is no such row, or if its value is no JSON object."""
    rows = inventories([hostname])
    try:
        found = json.loads(rows[0]["topology"]) if rows else {}
    except (RecursionError, ValueError):  # written by hand; its agent writes it anew
        found = {}
    return found if isinstance(found, dict) else {}


def next_generation(connection: sa.Connection, hostname: str, steps: int = 1) -> int:
    """Raise the node's generation by ``steps`` and return the new value, or 0 without a node.

    The caller changes that many claims there. MySQL and MariaDB cannot return the updated value, so the statement
    passes it through LAST_INSERT_ID().
    """
    here = {"this_host": hostname, "steps": steps}
    if connection.dialect.name in ("mysql", "mariadb"):
        return connection.execute(_NEXT_AS_ID, here).lastrowid or 0
    return connection.execute(_NEXT, here).scalar() or 0


class Generation(NamedTuple):
    """The values of a node that tell a cache whether to read the node again."""

    id: int
    generation: int
    updated_at: Any


def generations(*, behind: int = 0, limit: int | None = None) -> dict[str, Generation]:
    """Return generations by host name, in the order of ids: up to ``limit`` nodes with an id above ``behind``."""
    statement = sa.select(table.c.hostname, table.c.id, table.c.generation, table.c.updated_at)
    statement = statement.where(table.c.id > behind).order_by(table.c.id).limit(limit)
    with session.reader() as connection:
        return {name: Generation(*rest) for name, *rest in connection.execute(statement).all()}


def sums_of_generations(together: int) -> dict[int, int]:
    """Return the sums of the generations of ``together`` neighbouring ids each, by ``id // together``.

    For ``together`` 100, key 2 has the sum of the ids 200 to 299. Generations only grow, so a sum changes with every
    change of an inventory or claim of these hosts.
    """
    part = (table.c.id // together).label("part")
    statement = sa.select(part, sa.func.sum(table.c.generation)).group_by("part")
    with session.reader() as connection:
        sums = connection.execute(statement).all()
    return {int(part): int(total) if math.isfinite(total) else -1 for part, total in sums}  # SQLite stores any number


def usage(hostnames: Collection[str] | None = None) -> dict[str, HostUsage]:
    """Return the resources that containers hold, by host name. Hosts without claims are absent."""
    held = models.containers
    statement = (
        sa.select(
            held.c.host,
            sa.func.count().label("containers"),
            sa.func.sum(held.c.cpu).label("cpu"),
            sa.func.sum(held.c.memory).label("memory"),
            sa.func.sum(held.c.disk + held.c.volume_disk).label("disk"),
        )
        .where(held.c.cpuset.is_not(None), held.c.capsule_uuid.is_(None))
        .group_by(held.c.host)
    )
    if hostnames is not None:
        statement = statement.where(held.c.host.in_(hostnames))
    with session.reader() as connection:
        return {
            row.host: HostUsage(row.containers, amounts.exact(float(row.cpu)), int(row.memory), int(row.disk))
            for row in connection.execute(statement)
        }
