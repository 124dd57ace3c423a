# SPDX-License-Identifier: Apache-2.0
"""What was asked of a container and what became of it. Each function is one transaction.

An action is one request; its events are the steps that a compute host does for it. They go with their container. An
action is found by container and request id. Work that a restart interrupted is taken up under another request id: it
then belongs to the newest action of its name that has not ended.
"""

import datetime
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_utils import timeutils

from zun.common import exceptions, states
from zun.db import models, session

ERROR = "Error"
SUCCESS = "Success"

table = models.container_actions
_events = models.container_action_events
_containers = models.containers

# Built once, as those of a claim in zun.db.containers.
_OF_REQUEST = table.c.request_id == sa.bindparam("this_request")
OPEN = (
    sa.select(table.c.id)
    .where(table.c.container_uuid == sa.bindparam("this_uuid"), table.c.action == sa.bindparam("this_action"))
    .where(sa.or_(_OF_REQUEST, table.c.finish_time.is_(None)))
    .order_by(sa.case((_OF_REQUEST, 0), else_=1), table.c.id.desc())
    .limit(1)
)
_ASKED = OPEN.where(_OF_REQUEST)
_FINISH = table.update().where(table.c.id == sa.bindparam("this_action"))
_THIS_EVENT = _events.c.id == sa.bindparam("this_event")
_FINISH_OF_EVENT = table.update().where(
    table.c.id == sa.select(_events.c.action_id).where(_THIS_EVENT).scalar_subquery()
)
_START_EVENT = _events.insert()
_FINISH_EVENT = _events.update().where(_THIS_EVENT)


@session.retry_again
def start(
    again: bool, container_uuid: str, action: str, *, request_id: str, user_id: str | None, project_id: str | None
) -> None:
    """Note that ``action`` was asked for. A container that is already gone is no error."""
    values = {
        "action": action,
        "container_uuid": container_uuid,
        "request_id": request_id,
        "user_id": user_id,
        "project_id": project_id,
        "start_time": timeutils.utcnow(),
    }
    try:
        with session.writer() as connection:
            if again and connection.execute(_ASKED, open_parameters(container_uuid, request_id, action)).first():
                return
            connection.execute(table.insert().values(**values))
    except db_exc.DBReferenceError:
        pass


@session.retry
def fail(container_uuid: str, request_id: str, action: str) -> None:
    """Note that ``action`` has ended in an error."""
    with session.writer() as connection:
        found = _open(connection, container_uuid, request_id, action)
        if found is not None:
            _finish(connection, found, ERROR)


@session.retry
def end_lost(hostname: str, before: datetime.datetime) -> list[session.Row]:
    """End in an error what was asked of the host's containers before ``before`` and never began there.

    A container that is being worked on is left alone: what waits may begin yet, and what begins late all the same is
    found by its request. Gives ``container_uuid``, ``action`` and ``request_id``.
    """
    never_began = (table.c.finish_time.is_(None), ~sa.exists().where(_events.c.action_id == table.c.id))
    lost = (
        sa.select(table.c.id, table.c.container_uuid, table.c.action, table.c.request_id)
        .join(_containers, _containers.c.uuid == table.c.container_uuid)
        .where(_containers.c.host == hostname, _containers.c.task_state.is_(None))
        .where(_containers.c.status.not_in(states.TRANSITIONAL))
        .where(table.c.start_time < before, *never_began)
        .order_by(table.c.id)
    )
    with session.reader() as connection:
        found = session.rows(connection, lost)
    if not found:
        return []
    ended = {"finish_time": timeutils.utcnow(), "message": ERROR}
    with session.writer() as connection:
        return [
            each
            for each in found
            if connection.execute(table.update().where(table.c.id == each["id"], *never_began).values(ended)).rowcount
        ]


@session.retry_again
def start_event(again: bool, container_uuid: str, request_id: str, action: str, event: str) -> int | None:
    """Note that a step of ``action`` begins. Gives its id, None when nobody asked for the action or it is gone."""
    try:
        with session.writer() as connection:
            action_id = _open(connection, container_uuid, request_id, action)
            return start_event_in(connection, action_id, event, again=again)
    except db_exc.DBReferenceError:  # since it was looked for: its container was deleted
        return None


def start_event_in(connection: sa.Connection, action_id: int | None, event: str, *, again: bool) -> int | None:
    """Note that a step of the action ``action_id`` begins, in a transaction that does more. Gives its id.

    ``again``: an earlier attempt may have noted it.
    """
    if action_id is None:
        return None
    if again:
        begun = sa.select(_events.c.id).where(
            _events.c.action_id == action_id, _events.c.event == event, _events.c.finish_time.is_(None)
        )
        noted = connection.execute(begun.order_by(_events.c.id.desc()).limit(1)).scalar()
        if noted is not None:
            return int(noted)
    values = {"action_id": action_id, "event": event, "start_time": timeutils.utcnow()}
    key = connection.execute(_START_EVENT, values).inserted_primary_key
    return None if key is None else int(key[0])


@session.retry
def finish_event(event_id: int, result: str, traceback: str | None, *, last: bool) -> None:
    """Note how a step ended. ``last``: the action has ended with it; after an error it always has."""
    with session.writer() as connection:
        session.together(connection, *ending(event_id, result, traceback, last=last))


def ending(event_id: int, result: str, traceback: str | None, *, last: bool) -> list[session.Statement]:
    """What ``finish_event`` does, for a transaction that does more."""
    this = {"this_event": event_id, "finish_time": timeutils.utcnow()}
    event = (_FINISH_EVENT, {**this, "result": result, "traceback": traceback})
    if not last and result != ERROR:
        return [event]
    return [event, (_FINISH_OF_EVENT, {**this, "message": ERROR if result == ERROR else None})]


def of_container(container_uuid: str) -> list[session.Row]:
    """The actions of a container, newest first."""
    statement = sa.select(table).where(table.c.container_uuid == container_uuid).order_by(table.c.id.desc())
    with session.reader() as connection:
        return session.rows(connection, statement)


def find(container_uuid: str, request_id: str) -> tuple[session.Row, list[session.Row]]:
    """The action of this request and its events, oldest first. Raises ResourceNotFound."""
    same = (table.c.container_uuid == container_uuid, table.c.request_id == request_id)
    with session.reader() as connection:
        action = session.first(connection, sa.select(table).where(*same).order_by(table.c.id))
        if action is None:
            raise exceptions.ResourceNotFound(name="Action", id=request_id)
        steps = sa.select(_events).where(_events.c.action_id == action["id"]).order_by(_events.c.id)
        return action, session.rows(connection, steps)


def open_parameters(container_uuid: str, request_id: str | None, action: str | None) -> dict[str, Any]:
    """What ``OPEN`` asks with, which finds the id of the action."""
    return {"this_uuid": container_uuid, "this_action": action, "this_request": request_id}


def _open(connection: sa.Connection, container_uuid: str, request_id: str, action: str) -> Any:
    """The id of the action, None if there is none."""
    return connection.execute(OPEN, open_parameters(container_uuid, request_id, action)).scalar()


def _finish(connection: sa.Connection, action_id: int, message: str | None) -> None:
    values = {"finish_time": timeutils.utcnow(), "message": message}
    connection.execute(_FINISH, {**values, "this_action": action_id})
