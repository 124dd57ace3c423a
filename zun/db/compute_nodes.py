# SPDX-License-Identifier: Apache-2.0
"""Queries of compute nodes. Each function is one transaction."""

import datetime
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Unpack

import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_utils import timeutils, uuidutils

from zun.common import exceptions
from zun.common.kinds import Kind
from zun.db import idents, models, paging, session

table = models.compute_nodes
services = models.services

# Built once: every claim counts, and building a statement costs more than sending it.
_THIS = table.c.hostname == sa.bindparam("this_host")
GENERATION = sa.select(table.c.generation).where(_THIS)
COUNT_GENERATION = table.update().where(_THIS).values(generation=table.c.generation + 1)
_NEXT = COUNT_GENERATION.returning(table.c.generation)
_NEXT_AS_ID = table.update().where(_THIS).values(generation=sa.func.last_insert_id(table.c.generation + 1))


@dataclass(frozen=True, slots=True)
class HostUsage:
    """What the containers of one host hold together. ``memory`` is in MiB, ``disk`` in GiB."""

    containers: int = 0
    cpu: float = 0.0
    memory: int = 0
    disk: int = 0


@session.retry
def put(hostname: str, values: Mapping[str, Any]) -> session.Row:
    """Write the inventory of ``hostname``, adding the node the first time. Returns the whole row.

    The generation grows when it is another inventory than before: a cache must not wait for the next claim to see it.
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
            except db_exc.DBDuplicateEntry:  # another agent of the same name was quicker
                before = session.first(connection, sa.select(table).where(same).with_for_update())
        if before is not None:
            grown = int(any(before[name] != _read_back(value) for name, value in values.items()))
            changes = {**values, "updated_at": now, "generation": table.c.generation + grown}
            connection.execute(table.update().where(same).values(**changes))
        return session.rows(connection, sa.select(table).where(same))[0]


def _read_back(value: Any) -> Any:
    """``value`` as it comes out of its column: JSON has no tuples, and keys are text."""
    return json.loads(json.dumps(value)) if isinstance(value, Mapping | Sequence) else value


def find(ident: str) -> session.Row:
    """The node with this uuid or host name. Raises ComputeNodeNotFound."""
    return idents.find(table, ident, [], exceptions.ComputeNodeNotFound(compute_node=ident), name="hostname")


def deserted(binary: str, before: datetime.datetime) -> list[str]:
    """The hosts where nobody has a container and an administrator has removed the service ``binary``, which wrote
    nothing since ``before``. Leftovers are nobody's.
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
    """Remove the node unless its host has written anything since ``before``. Returns whether it did."""
    statement = table.delete().where(table.c.hostname == hostname, table.c.updated_at < before)
    with session.writer() as connection:
        return bool(connection.execute(statement).rowcount)


def page(**place: Unpack[paging.Place]) -> list[session.Row]:
    missing = exceptions.ComputeNodeNotFound(compute_node=place.get("marker"))
    return paging.behind(table, [], missing=missing, **place)


def inventories(hostnames: Collection[str]) -> list[session.Row]:
    """The nodes of ``hostnames``, each with its topology as JSON text: equal machines have equal text."""
    columns = [column for column in table.c if column is not table.c.topology]
    statement = sa.select(*columns, sa.cast(table.c.topology, sa.Text).label("topology"))
    with session.reader() as connection:
        return session.rows(connection, statement.where(table.c.hostname.in_(hostnames)))


def next_generation(connection: sa.Connection, hostname: str) -> int:
    """The node's generation from this transaction on, which changes what is held there; 0 where there is no node.

    One statement: servers that do not return what they have updated tell the id that it says it has inserted.
    """
    here = {"this_host": hostname}
    if connection.dialect.name in ("mysql", "mariadb"):
        return connection.execute(_NEXT_AS_ID, here).lastrowid or 0
    return connection.execute(_NEXT, here).scalar() or 0


class Generation(NamedTuple):
    """Enough to see whether a cache must read the node again."""

    id: int
    generation: int
    updated_at: Any


def generations(*, behind: int = 0, limit: int | None = None) -> dict[str, Generation]:
    """By host name in the order of their ids: all, or up to ``limit`` of those whose id is larger than ``behind``."""
    statement = sa.select(table.c.hostname, table.c.id, table.c.generation, table.c.updated_at)
    statement = statement.where(table.c.id > behind).order_by(table.c.id).limit(limit)
    with session.reader() as connection:
        return {name: Generation(*rest) for name, *rest in connection.execute(statement)}


def sums_of_generations(together: int) -> dict[int, int]:
    """By the hosts' ids, ``together`` of them in one sum: id // together -> sum.

    Another one after any change of what these hosts have or hold: generations only grow.
    """
    part = (table.c.id // together).label("part")
    statement = sa.select(part, sa.func.sum(table.c.generation)).group_by("part")
    with session.reader() as connection:
        return {int(part): int(total) for part, total in connection.execute(statement)}


def usage(hostnames: Collection[str] | None = None) -> dict[str, HostUsage]:
    """What containers hold, by host name. Hosts that hold nothing are absent."""
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
            row.host: HostUsage(row.containers, float(row.cpu), int(row.memory), int(row.disk))
            for row in connection.execute(statement)
        }
