# SPDX-License-Identifier: Apache-2.0
"""Drains: the wish that all containers of a host move to other hosts, some at a time. It is in the host's service row.

Schedulers carry it out. An action ``leave`` of a container that has the request id of the drain says that the container
has been tried.
"""

import itertools
import re
from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa

from zun.common.departures import departed
from zun.common.states import ALLOWED, RUNS, TRANSITIONAL, Kind, Status
from zun.db import container_actions, containers, departures, evacuations, models, session
from zun.db import services as db_services
from zun.db.services import COMPUTE_BINARY

services, table = models.services, containers.table
_actions = models.container_actions

REASON = "The host is being drained."
_CLOSED = ("disabled", "disabled_reason")
_DRAINED = dict(zip(_CLOSED, (True, REASON), strict=True))
_CLASS = re.compile(r"[\w.]+: ")  # before the message in the last line of a traceback


def begin(host: str, *, parallel: int, discard_layer: bool, who: Mapping[str, Any]) -> None:
    """Let the host get no new containers, and have those that it has moved. ``who`` as of ``container_actions``.

    A drain that is under way is replaced: what it could not move is tried again. Raises ZunServiceNotFound.
    """
    service = db_services.get(host, COMPUTE_BINARY)
    before = (service["drain"] or {}).get("before") or {name: service[name] for name in _CLOSED}
    listed = [row["uuid"] for row in evacuations.containers_of(host)]
    wish = {"parallel": parallel, "discard_layer": discard_layer, "containers": listed, "before": before, **who}
    since = session.now().isoformat()
    db_services.update(host, COMPUTE_BINARY, {**_DRAINED, "drain": {**wish, "since": since}})


def end(host: str) -> None:
    """End the drain of the host, which is open or closed as it was before. Nothing happens without a drain."""
    wish = wishes().get(host)
    if wish is not None:
        db_services.update(host, COMPUTE_BINARY, {**dict(wish["before"]), "drain": None})


def wishes() -> dict[str, Mapping[str, Any]]:
    """Return the drains under way, by host."""
    statement = sa.select(services.c.host, services.c.drain).where(
        services.c.binary == COMPUTE_BINARY, services.c.drain.is_not(None)
    )
    with session.reader() as connection:
        found = connection.execute(statement)
        return {host: wish for host, wish in found if isinstance(wish, Mapping) and "request_id" in wish}


@session.retry
def accept_next(host: str, request_id: str) -> list[str]:
    """Accept that containers leave the host, as many as the drain of this request has parallel; return their uuids.

    One scheduler at a time does this for a host.
    """
    listed = evacuations.containers_of(host)
    if all(departures.obstacle(row) is not None for row in listed):
        return []  # nothing can leave: a drain that has come to its end is looked at until its host is opened again
    uuids = [row["uuid"] for row in listed]
    with session.writer() as connection:
        wish = session.first(connection, sa.select(services.c.drain).where(_is(host)).with_for_update())
        drain = None if wish is None else wish["drain"]
        if not drain or drain["request_id"] != request_id:
            return []
        tried = _tried(connection, uuids, request_id)  # before the rows: what leaves meanwhile counts twice, not never
        rows = session.rows(connection, sa.select(table).where(table.c.host == host).order_by(table.c.id))
        free = drain["parallel"] - len(_under_way(rows)) - sum(not ended for ended in tried.values())
        ready = (row for row in rows if row["uuid"] in uuids and row["uuid"] not in tried)
        able = (row for row in ready if departures.obstacle(row) is None)
        accepted = []
        who = {name: drain[name] for name in ("request_id", "user_id", "project_id", "client_address")}
        for row in itertools.islice(able, max(0, free)):
            uuid, same = row["uuid"], (table.c.host == host, table.c.status == row["status"])
            steady = table.update().where(table.c.uuid == uuid, *same)
            if connection.execute(steady.values(updated_at=session.now())).rowcount:
                arguments = {"discard_layer": drain["discard_layer"], "run": row["status"] in RUNS}
                container_actions.insert_in(connection, uuid, "leave", arguments, **who)
                accepted.append(uuid)
        return accepted


def report(host: str, wish: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what has become of the containers of a drain: ``container``, ``name``, ``state``, ``to``, ``reason``.

    ``state`` is waits, moves, moved or stays; ``to`` the host of one that has moved; ``reason`` why one stays.
    """
    uuids = list(dict.fromkeys([*wish["containers"], *(row["uuid"] for row in evacuations.containers_of(host))]))
    with session.reader() as connection:
        tried = _tried(connection, uuids, wish["request_id"])
    # After the actions: a row may say that the container is away already, not that it is here yet.
    found = {row["uuid"]: row for row in containers.of_uuids(uuids)}
    return [_told(found[uuid], host, tried, wish["request_id"]) for uuid in uuids if uuid in found]


def _told(row: Mapping[str, Any], host: str, tried: Mapping[str, bool], request_id: str) -> dict[str, Any]:
    uuid, state, to, reason = row["uuid"], "waits", None, None
    on_its_way = row["status"] == Status.CREATING and departed(row["request"]) is not None
    if on_its_way or tried.get(uuid) is False:
        state = "moves"
    elif row["status"] == Status.ERROR and row["host"] is None:
        state, reason = "stays", row["status_reason"] or "it is in Error without a host"
    elif row["host"] not in (host, None):
        state, to = "moved", row["host"]
    elif uuid in tried and row["host"] == host:
        state, reason = "stays", _failure(row, request_id)
    elif not waits(row):
        reason = departures.obstacle(row)
        state = "waits" if reason is None else "stays"
    return {"container": uuid, "name": row["name"], "state": state, "to": to, "reason": reason}


def waits(row: Mapping[str, Any]) -> bool:
    """Return whether something is done with the container that ends by itself, so that it can leave then."""
    return row["host"] is None or (row["status"] in TRANSITIONAL and row["status"] not in ALLOWED["leave"])


def _failure(row: Mapping[str, Any], request_id: str) -> str:
    """Return why a container that was tried is at its host."""
    _, steps = container_actions.find(row["uuid"], request_id)
    said = [step["traceback"] for step in steps if step["result"] == container_actions.ERROR and step["traceback"]]
    if said:
        *lines, last = str(said[-1]).strip().splitlines()
        return _CLASS.sub("", last, count=1) if lines else last
    return row["status_reason"] or "it has come back"


def _under_way(rows: Collection[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return what containers left whose way has not ended."""
    return [row for row in rows if row["kind"] == Kind.LEFTOVER and row["status"] != Status.DELETING]


def _tried(connection: sa.Connection, uuids: Collection[str], request_id: str) -> dict[str, bool]:
    """Return which of the containers the request has had leave, each with whether its action has ended.

    Those that leave because of another request are among them.
    """
    open_or_mine = sa.or_(_actions.c.request_id == request_id, _actions.c.finish_time.is_(None))
    mine = (_actions.c.container_uuid.in_(uuids), _actions.c.action == "leave", open_or_mine)
    found = connection.execute(sa.select(_actions.c.container_uuid, _actions.c.finish_time).where(*mine))
    return {uuid: ended is not None for uuid, ended in found}


def _is(host: str) -> sa.ColumnElement[bool]:
    return sa.and_(services.c.host == host, services.c.binary == COMPUTE_BINARY)
