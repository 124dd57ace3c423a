# SPDX-License-Identifier: Apache-2.0
"""Containers on their way from one host to another.

A container that departs waits for a host like a new one. What it left, a row of the kind ``LEFTOVER`` at its old host,
keeps its claim and its object there, so that it can come back. ``request`` of the container says that it is on its way;
``request`` of what it left says whose it is.
"""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from zun.common import exceptions
from zun.common.departures import DEPARTED, LEFT_BY, MOVABLE, owner_of, uuid_of_left
from zun.common.states import ALLOWED, Kind, Status, awaits_reboot
from zun.db import compute_nodes, container_actions, containers, evacuations, models, session
from zun.topology.ranges import MALFORMED

LEFT = Status.DEAD
"""The status of what a container left, until its way ends. Hardly any other row has it, and statuses have an index."""
REASON = "It moves to another host."
BACK = "scheduler__come_back"
"""The step of the action ``leave`` that says why the container came back."""

_NOT_KEPT = ("id", "revision", "updated_at", "registry_id", "task_state", "environment")
_GIVEN_BACK = (
    *("host", "cpuset", "container_id", "disk", "volume_disk", "withheld_cpu", "exit_code"),
    *("addresses", "exposed_ports", "started_at", "finished_at"),
)

table, layers = containers.table, models.layers
_OPEN = sa.select(table).where(table.c.status == LEFT, table.c.kind == Kind.LEFTOVER)


def obstacle(row: Mapping[str, Any]) -> str | None:
    """Return why the container of this row cannot move to another host, or None if it can."""
    try:
        return _obstacle(row)
    except MALFORMED:  # written by hand
        return "its row in the database cannot be read"


def _obstacle(row: Mapping[str, Any]) -> str | None:
    if row["kind"] != Kind.CONTAINER:
        return "it is a capsule: delete it, and create it anew"
    if row["status"] not in ALLOWED["leave"]:
        return f"its status is {row['status']}"
    if awaits_reboot(row):
        return "a restart of it is under way"
    if (row["placement"] or {}).get(MOVABLE) is False:
        return "it is not movable, as its user said"
    if row["auto_remove"]:
        return "it removes itself when it is stopped"
    return evacuations.tie(row)


@session.retry
def depart(
    uuid: str, hostname: str, *, step: int, run: bool, layer: str | None = None
) -> tuple[int, session.Row]:
    """Let the container wait for another host, with its claim and its object kept for it.

    ``step`` is the event of its action ``leave``, which ends well. ``run`` says whether it is started at its new host,
    where it gets its ``layer``: a tar in base64, from the root on.
    Returns the new generation of ``hostname``, and the row of what it leaves. Raises ContainerNotFound, and Conflict
    with the reason if it cannot leave any more.
    """
    left = sa.select(table).where(table.c.uuid == uuid_of_left(uuid, hostname))
    with session.writer() as connection:
        row = session.locked(connection, table, uuid, exceptions.ContainerNotFound(container=uuid))
        before = session.first(connection, left)
        if before is None:
            action = container_actions.of_step(connection, step)
            _check(connection, row, hostname, action)
            asked = {name: action[name] for name in ("request_id", "user_id")}
            kept = {name: value for name, value in row.items() if name not in _NOT_KEPT}
            status = row["status"] if row["status"] == Status.CREATED else Status.STOPPED
            kept |= {"uuid": uuid_of_left(uuid, hostname), "kind": Kind.LEFTOVER, "created_at": session.now()}
            kept |= {"status": LEFT, "request": {LEFT_BY: {"uuid": uuid, "run": run, "status": status, **asked}}}
            connection.execute(table.insert(), kept)
            container_actions.finish_event_in(connection, step, container_actions.SUCCESS, None, last=True)
            way = {"from": hostname, "to": (action["arguments"] or {}).get("host"), "sent": False, "layer": bool(layer)}
            if layer:
                connection.execute(layers.insert(), {"container_uuid": uuid, "data": layer})
            who = {**asked, "project_id": action["project_id"], "client_address": action["client_address"]}
            request = {**_without(row["request"], hostname), "run": run, DEPARTED: way}
            evacuations.let_wait_in(connection, row, request, REASON, **who)
        elif row["host"] is not None:
            raise exceptions.Conflict(
                f"Host {hostname} has not deleted yet what container {uuid} left there before. Try again in a moment."
            )
        return compute_nodes.next_generation(connection, hostname), session.rows(connection, left)[0]


def _check(
    connection: sa.Connection, row: Mapping[str, Any], hostname: str, action: Mapping[str, Any]
) -> None:
    """Raise Conflict unless ``action`` lets the container leave now, and nothing else is to be done with it before."""
    uuid = row["uuid"]
    if row["host"] != hostname:
        raise exceptions.Conflict(f"Container {uuid} is not on host {hostname} any more.")
    if (action["container_uuid"], action["action"], action["finish_time"]) != (uuid, "leave", None):
        raise exceptions.Conflict(f"Nobody wants container {uuid} to leave host {hostname} any more.")
    if (reason := obstacle(row)) is not None:
        raise exceptions.Conflict(f"Container {uuid} cannot move to another host: {reason}.")
    if others := container_actions.open_besides(connection, uuid, action["id"]):
        raise exceptions.Conflict(f"Container {uuid} stays for what was asked of it since: {', '.join(others)}.")


def layer_of(uuid: str) -> str | None:
    """Return the layer of a container on its way, or None."""
    with session.reader() as connection:
        return connection.execute(sa.select(layers.c.data).where(layers.c.container_uuid == uuid)).scalar()


def under_way() -> list[tuple[session.Row, session.Row | None]]:
    """Return what containers left whose way has not ended, oldest first, each with its container or None."""
    with session.reader() as connection:
        left = session.rows(connection, _OPEN.order_by(table.c.id))
    owners = {each["uuid"]: owner for each in left if (owner := owner_of(each["request"])) is not None}
    found = {row["uuid"]: row for row in containers.of_uuids(owners.values())} if owners else {}
    return [(each, found.get(owners[each["uuid"]])) for each in left if each["uuid"] in owners]


def send(row: Mapping[str, Any]) -> bool:
    """Note that the container of this row is sent to a host. Return False if somebody else did, or it has changed."""
    request = {**row["request"], DEPARTED: {**row["request"][DEPARTED], "sent": True}}
    return containers.update_if(row["uuid"], {"host": None, "updated_at": row["updated_at"]}, {"request": request})


@session.retry
def end(left: Mapping[str, Any], row: Mapping[str, Any] | None) -> bool:
    """End the way of a container, which is at its new host or gone: its old host deletes what it left.

    False if its row has changed since, in which case nothing is done.
    """
    with session.writer() as connection:
        if row is not None:
            update = table.update().where(*_as_is(row)).values(request=_without(row["request"]))
            if not connection.execute(update.values(updated_at=session.now())).rowcount:
                return False
            _forget_layer(connection, row["uuid"])
        ended = table.update().where(table.c.uuid == left["uuid"]).values(status=Status.DELETING)
        connection.execute(ended.values(updated_at=session.now()))
        return True


@session.retry
def come_back(left: Mapping[str, Any], row: Mapping[str, Any], reason: str) -> bool:
    """Give the container back what it left, because it could not move. It is started again if it ran.

    Its action ``leave`` has the reason; ``status_reason`` has it until the container runs. False if its row has changed
    since, in which case nothing is done.
    """
    asked, lost = left["request"][LEFT_BY], row["host"]
    request = {**_without(row["request"], left["host"]), "run": asked["run"]}
    if lost is not None:  # the host may still have an object of it
        request[evacuations.TAKEN_FROM] = [*request.get(evacuations.TAKEN_FROM, ()), lost]
    values = {name: left[name] for name in _GIVEN_BACK}
    values |= {"status": asked["status"], "status_reason": f"It could not move to another host: {reason}"}
    values |= {"request": request, "task_state": None}
    with session.writer() as connection:
        update = table.update().where(*_as_is(row)).values(**values, status_detail=None, updated_at=session.now())
        if not connection.execute(update).rowcount:
            return False
        connection.execute(table.delete().where(table.c.uuid == left["uuid"]))
        _forget_layer(connection, row["uuid"])
        container_actions.end_all_in(connection, row["uuid"], reason)
        container_actions.fail_late_in(connection, row["uuid"], asked["request_id"], "leave", BACK, reason)
        if asked["run"]:
            who = {"request_id": asked["request_id"], "user_id": asked["user_id"], "project_id": row["project_id"]}
            container_actions.insert_in(connection, row["uuid"], "start", {}, **who, client_address=None)
        for host in {left["host"], lost} - {None}:
            compute_nodes.next_generation(connection, host)
        return True


def _forget_layer(connection: sa.Connection, uuid: str) -> None:
    connection.execute(layers.delete().where(layers.c.container_uuid == uuid))


def _as_is(row: Mapping[str, Any]) -> list[sa.ColumnElement[bool]]:
    """Return the conditions that the row is as it was read."""
    host = table.c.host.is_(None) if row["host"] is None else table.c.host == row["host"]
    return [
        table.c.uuid == row["uuid"],
        table.c.updated_at == row["updated_at"],
        table.c.status == row["status"],
        host,
    ]


def _without(request: Mapping[str, Any], host: str | None = None) -> dict[str, Any]:
    """Return ``request`` of a container that is on no way, and was not taken from ``host``."""
    kept = {name: value for name, value in request.items() if name not in (DEPARTED, evacuations.TAKEN_FROM)}
    taken = [each for each in dict.fromkeys(request.get(evacuations.TAKEN_FROM, ())) if each != host]
    return {**kept, evacuations.TAKEN_FROM: taken} if taken else kept
