# SPDX-License-Identifier: Apache-2.0
"""Take containers away from a host that is down, so that schedulers place them elsewhere.

The host may come back with the objects of these containers at its runtime. ``request`` of the row names the hosts that
the container was taken from: such a host removes the object, see ``of_others``.
"""

from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa

from zun.common.departures import departed
from zun.common.mounts import Kind as MountKind
from zun.common.mounts import mounts_of
from zun.common.states import Kind, Status
from zun.db import compute_nodes, console_tokens, container_actions, containers, network_ports, session

TAKEN_FROM = "evacuated"
"""The member of ``request`` with the names of the hosts."""

REASON = "Its host was down, and the container was taken to another host."

_ENDED = frozenset({Status.CREATED, Status.STOPPED})
_TAKEN = _ENDED | {Status.RUNNING, Status.PAUSED, Status.UNKNOWN, Status.RESTARTING}
BOUND = frozenset({MountKind.VOLUME, MountKind.LOCAL})
_STAYING = BOUND | {MountKind.CINDER}  # nobody detaches it from a host that is down

table = containers.table


def obstacle(row: Mapping[str, Any]) -> str | None:
    """Return why the container of this row cannot live elsewhere, or None if it can."""
    if row["kind"] != Kind.CONTAINER:
        return "it is a capsule: delete it, and create it anew"
    if row["status"] not in _TAKEN and not _arrives(row):
        return f"its status is {row['status']}"
    if (reason := tie(row, _STAYING)) is not None:
        return reason
    return "it has ports of Neutron" if network_ports.is_joined(row["uuid"]) else None


def tie(row: Mapping[str, Any], staying: Collection[MountKind] = BOUND) -> str | None:
    """Return what ties the container of this row to its host, or None. ``staying`` are mounts that no other host has.
    """
    if row["request"].get("host"):
        return "it was asked for on this host, by name or by its image or volume"
    if any(mount.kind in staying for mount in mounts_of(row)):
        return "it mounts volumes"
    return None


def unpublished(exposed: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the exposed ports without the ports of a host: those of another one may be taken."""
    if exposed is None:
        return None
    return {port: {} for port in exposed}


def _arrives(row: Mapping[str, Any]) -> bool:
    """Return whether the container is being made there on its way from another host, to which it can come back."""
    return bool(row["status"] == Status.CREATING and departed(row["request"]))


def runs_again(row: Mapping[str, Any]) -> bool:
    """Return whether the container is started at its new host: it ran when its host was seen last."""
    if _arrives(row):
        return bool(row["request"].get("run"))
    if any(each["action"] == "start" for each in container_actions.wanted(row["uuid"])):  # it came back from a move
        return True
    return row["status"] not in _ENDED and (row["status"] != Status.UNKNOWN or row["finished_at"] is None)


@session.retry
def take(row: Mapping[str, Any], **who: str | None) -> int | None:
    """Let the container of this row wait for a host, and return the new generation of the one that it leaves.

    None if the row has changed since. What is open of its actions is ended, and the creation elsewhere is an action
    with ``who``, as of ``container_actions.insert_in``.
    """
    hostname = row["host"]
    request = {**row["request"], "run": runs_again(row), TAKEN_FROM: [*row["request"].get(TAKEN_FROM, ()), hostname]}
    with session.writer() as connection:
        if not let_wait_in(connection, row, request, REASON, **who):
            return None
        return compute_nodes.next_generation(connection, hostname)


def let_wait_in(
    connection: sa.Connection, row: Mapping[str, Any], request: Mapping[str, Any], reason: str, **who: str | None
) -> bool:
    """Let the container of this row wait for a host, in the caller's transaction. False if the row has changed since.

    What is open of its actions ends with the ``reason``, and its creation is an action with ``who``.
    """
    nothing = ("host", "task_state", "cpuset", "container_id", "addresses", "status_detail")
    values = {
        **dict.fromkeys((*nothing, "started_at", "finished_at", "exit_code")),
        "status": Status.CREATING,
        "status_reason": reason,
        "request": request,
        "exposed_ports": unpublished(row["exposed_ports"]),
    }
    same = (table.c.uuid == row["uuid"], table.c.host == row["host"], table.c.status == row["status"])
    if not connection.execute(table.update().where(*same).values(**values, updated_at=session.now())).rowcount:
        return False
    console_tokens.remove_in(connection, [row["uuid"]])
    container_actions.end_all_in(connection, row["uuid"], reason)
    container_actions.insert_in(connection, row["uuid"], "create", None, **who)
    return True


def of_others(hostname: str, uuids: Collection[str]) -> list[str]:
    """Return those of ``uuids`` that were taken from ``hostname`` and are not there: their rows tell."""
    rows = containers.of_uuids(uuids) if uuids else ()
    return [row["uuid"] for row in rows if row["host"] != hostname and hostname in row["request"].get(TAKEN_FROM, ())]


def containers_of(hostname: str) -> list[session.Row]:
    """Return the rows of containers and capsules on the host, without members of capsules."""
    statement = sa.select(table).where(table.c.host == hostname, table.c.capsule_uuid.is_(None))
    with session.reader() as connection:
        return session.rows(connection, statement.where(table.c.kind != Kind.LEFTOVER).order_by(table.c.id))
