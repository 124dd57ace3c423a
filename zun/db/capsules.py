# SPDX-License-Identifier: Apache-2.0
"""Queries of capsules and their members, which are rows of the containers' table. Each function is one transaction."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Unpack

import sqlalchemy as sa
from oslo_utils import timeutils, uuidutils

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.states import Kind, Status
from zun.db import idents, models, network_ports, paging, quotas, session

table = models.containers


def _visible(context: RequestContext, all_projects: bool) -> list[sa.ColumnElement[bool]]:
    ours = [table.c.kind == Kind.CAPSULE]
    return ours if all_projects else [*ours, table.c.project_id == context.project_id]


@session.retry_adding(table)
def insert(
    capsule: Mapping[str, Any],
    members: Sequence[Mapping[str, Any]],
    nets: Sequence[network_ports.Wanted] = (),
    quota: Mapping[str, int] | None = None,
) -> session.Row:
    """Add a capsule, whose ``uuid`` is set, and its members in their order of starting. Return the capsule's row.

    ``nets`` are the ports of the capsule and raise the errors of ``network_ports.allot``. ``quota`` are the operator's
    default limits. With ``quota``, OverQuota if the capsule's containers or resources exceed the project's limits.
    """
    ports = len(capsule.get("exposed_ports") or ())
    growth = {name: capsule.get(name) or 0 for name in ("cpu", "memory", "disk")}
    growth["disk"] += capsule.get("volume_disk") or 0
    growth |= {"containers": len(members), "ports": ports, **quotas.devices_in(capsule.get("placement"))}
    counts = {"port_count": ports, "device_count": quotas.device_count(capsule.get("placement"))}
    with quotas.adding(capsule["project_id"], growth, quota) as connection:
        row = session.add(connection, table, {**capsule, "kind": Kind.CAPSULE, **counts})
        common = {name: row[name] for name in ("project_id", "user_id", "created_at")} | {"capsule_uuid": row["uuid"]}
        for member in members:
            connection.execute(table.insert().values({**member, **common, "uuid": uuidutils.generate_uuid()}))
        network_ports.allot(connection, row["uuid"], nets)
        return row


def find(context: RequestContext, ident: str, *, all_projects: bool = False) -> session.Row:
    """Return the capsule that ``context`` means with a uuid or name, by the rule of ``zun.db.idents``.

    Raises ContainerNotFound, and Conflict if the name is not unique.
    """
    own = table.c.project_id == context.project_id
    visible = [table.c.kind == Kind.CAPSULE, *idents.reached(own, context, ident, all_projects=all_projects)]
    return idents.find(table, ident, visible, _not_found(ident))


def page(
    context: RequestContext, *, all_projects: bool = False, **place: Unpack[paging.Place]
) -> list[session.Row]:
    missing = _not_found(place.get("marker"))
    return paging.behind(table, _visible(context, all_projects), missing=missing, **place)


def _not_found(ident: str | None) -> exceptions.ContainerNotFound:
    """Return the error for a missing capsule. Its code is that of a missing container, which clients know."""
    return exceptions.ContainerNotFound(
        f"Capsule {ident} could not be found. List them with 'openstack appcontainer capsule list'."
    )


def members(uuids: Collection[str]) -> dict[str, list[session.Row]]:
    """Return the members of each capsule in their order of starting, by the uuid of the capsule."""
    found: dict[str, list[session.Row]] = {uuid: [] for uuid in uuids}
    statement = sa.select(table).where(table.c.capsule_uuid.in_(uuids)).order_by(table.c.id)
    with session.reader() as connection:
        for row in session.rows(connection, statement):
            found[row["capsule_uuid"]].append(row)
    return found


@session.retry
def end_members(uuid: str, reason: str, removed: bool = True) -> None:
    """Put the members of a failed capsule into Error. If ``removed``, they lose their object, claim and host."""
    mine = table.update().where(table.c.capsule_uuid == uuid)
    values = {"status": Status.ERROR, "status_reason": reason, "task_state": None, "updated_at": timeutils.utcnow()}
    if removed:
        values |= {"container_id": None, "cpuset": None, "host": None}
    with session.writer() as connection:
        connection.execute(mine.values(values))
