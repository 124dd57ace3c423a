# SPDX-License-Identifier: Apache-2.0
"""What was asked of a container and what became of it. Each function is one transaction.

An action is one request; its events are the steps that a compute host does for it. They go with their container, and
before that when they have ended and ``KEPT`` newer ones are there: all of a container's are looked at for each later
one, and listed together. Its host removes those. An action is found by container and request id. Work that a restart
interrupted is taken up under another request id: it then belongs to the newest action of its name that has not ended,
and goes on with the step of that which has not.
"""

import datetime
from collections.abc import Collection
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_utils import timeutils

from zun.common import exceptions, states
from zun.db import models, session

ERROR = "Error"
SUCCESS = "Success"
UNKNOWN_END = "Its host could not note how it ended. What became of it is to be seen in the container's status."

KEPT = 1000  # of each container
OLD_TOGETHER = 100  # removed in one transaction, so that none is large

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
_OF_THIS = table.c.container_uuid == sa.bindparam("this_uuid")
_OLDEST_KEPT = sa.select(table.c.id).where(_OF_THIS).order_by(table.c.id.desc()).offset(KEPT - 1).limit(1)
_OLD = (
    sa.select(table.c.id)
    .where(_OF_THIS, table.c.id < _OLDEST_KEPT.scalar_subquery(), table.c.finish_time.is_not(None))
    .order_by(table.c.id)
    .limit(OLD_TOGETHER)
)
_NOTED = (  # a step of it that has begun and not ended
    sa.select(sa.func.max(_events.c.id))
    .where(_events.c.action_id == table.c.id, _events.c.event == sa.bindparam("this_event"))
    .where(_events.c.finish_time.is_(None))
    .scalar_subquery()
)
_BEGINS = OPEN.add_columns(table.c.finish_time, table.c.message, _NOTED.label("noted"))
_FINISH = table.update().where(table.c.id == sa.bindparam("this_action"))
_THIS_EVENT = _events.c.id == sa.bindparam("this_event")
_ACTION_OF_EVENT = sa.select(_events.c.action_id).where(_THIS_EVENT)
_FINISH_OF_EVENT = table.update().where(table.c.id == _ACTION_OF_EVENT.scalar_subquery())
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
        found = connection.execute(OPEN, open_parameters(container_uuid, request_id, action)).scalar()
        if found is not None:
            connection.execute(
                _FINISH, {"this_action": found, "finish_time": timeutils.utcnow(), "message": ERROR}
            )


def prune(hostname: str) -> None:
    """Remove the old ones of the containers of this host, in several transactions."""
    many = sa.select(table.c.container_uuid).join(_containers, _containers.c.uuid == table.c.container_uuid)
    many = many.where(_containers.c.host == hostname).group_by(table.c.container_uuid)
    with session.reader() as connection:
        found = connection.execute(many.having(sa.func.count() > KEPT)).scalars().all()
    for uuid in found:
        while _prune_some(uuid):
            pass


@session.retry
def _prune_some(container_uuid: str) -> bool:
    """Returns whether there may be more."""
    with session.writer() as connection:
        old = connection.execute(_OLD, {"this_uuid": container_uuid}).scalars().all()
        if old:
            connection.execute(table.delete().where(table.c.id.in_(old)))
        return len(old) == OLD_TOGETHER


@session.retry
def end_lost(hostname: str, before: datetime.datetime, busy: Collection[str] = ()) -> list[session.Row]:
    """End in an error what was asked before ``before`` of containers of this host, or of none, and nobody works on.

    Its message was lost, or whoever did it could not write that it ended. A container that is being worked on is left
    alone, as are those of ``busy`` and a step that began since: what waits may begin yet, and what begins late all the
    same is found by its request. Gives ``container_uuid``, ``action``, ``request_id`` and whether it had ``begun``.
    """
    steps = sa.select(_events.c.id).where(_events.c.action_id == table.c.id)
    open_still = (table.c.finish_time.is_(None), ~steps.where(_events.c.start_time >= before).exists())
    lost = (
        sa.select(table.c.id, table.c.container_uuid, table.c.action, table.c.request_id)
        .add_columns(steps.exists().label("begun"))
        .join(_containers, _containers.c.uuid == table.c.container_uuid)
        .where(sa.or_(_containers.c.host == hostname, _containers.c.host.is_(None)))
        .where(_containers.c.task_state.is_(None), _containers.c.status.not_in(states.TRANSITIONAL))
        .where(table.c.start_time < before, *open_still)
        .order_by(table.c.id)
    )
    with session.reader() as connection:
        found = [each for each in session.rows(connection, lost) if each["container_uuid"] not in busy]
    if not found:
        return []
    now = timeutils.utcnow()
    with session.writer() as connection:
        ended = []
        for each in found:
            this = table.update().where(table.c.id == each["id"], *open_still)
            if connection.execute(this.values(finish_time=now, message=ERROR)).rowcount:
                _end_steps(connection, each["id"], now)
                ended.append(each)
        return ended


@session.retry
def start_event(container_uuid: str, request_id: str, action: str, event: str) -> int | None:
    """Note that a step of ``action`` begins, or goes on, if it was interrupted: under another request, or since its
    message came twice. What was taken for lost, or failed, has not ended then.

    Gives its id, None when nobody asked for the action, it is gone, or it has ended well.
    """
    try:
        with session.writer() as connection:
            found = _begins(connection, container_uuid, request_id, action, event)
            if found is None:
                return None
            if found.finish_time is not None:
                if found.message is None:
                    return None
                connection.execute(_FINISH, {"this_action": found.id, "finish_time": None, "message": None})
            return found.noted or start_event_in(connection, found.id, event, again=False)
    except db_exc.DBReferenceError:  # since it was looked for: its container was deleted
        return None


def start_event_in(connection: sa.Connection, action_id: int | None, event: str, *, again: bool) -> int | None:
    """Note that a step of the action ``action_id`` begins, in a transaction that does more. Gives its id.

    ``again``: it may have been noted before.
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
        if result == ERROR:  # before an interruption it may have come further: that step is not come to any more
            found = connection.execute(_ACTION_OF_EVENT, {"this_event": event_id}).scalar()
            _end_steps(connection, found, timeutils.utcnow())


def ending(event_id: int, result: str, traceback: str | None, *, last: bool) -> list[session.Statement]:
    """What ``finish_event`` does, for a transaction that does more."""
    this = {"this_event": event_id, "finish_time": timeutils.utcnow()}
    event = (_FINISH_EVENT, {**this, "result": result, "traceback": traceback})
    if not last and result != ERROR:
        return [event]
    return [event, (_FINISH_OF_EVENT, {**this, "message": ERROR if result == ERROR else None})]


def _end_steps(connection: sa.Connection, action_id: int | None, now: datetime.datetime) -> None:
    """Those of the action that have not ended: nobody will say how they do."""
    left = _events.update().where(_events.c.action_id == action_id, _events.c.finish_time.is_(None))
    connection.execute(left.values(finish_time=now, result=ERROR, traceback=UNKNOWN_END))


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
            raise exceptions.ResourceNotFound(
                f"The Action resource {request_id} could not be found. List the container's with 'openstack "
                "appcontainer action list'."
            )
        steps = sa.select(_events).where(_events.c.action_id == action["id"]).order_by(_events.c.id)
        return action, session.rows(connection, steps)


def open_parameters(container_uuid: str, request_id: str | None, action: str | None) -> dict[str, Any]:
    """What ``OPEN`` asks with, which finds the id of the action."""
    return {"this_uuid": container_uuid, "this_action": action, "this_request": request_id}


def _begins(
    connection: sa.Connection, container_uuid: str, request_id: str, action: str, event: str
) -> sa.Row[Any] | None:
    """The action to begin a step of, None if there is none; ``noted`` is the id of that step if it has not ended."""
    asked = {**open_parameters(container_uuid, request_id, action), "this_event": event}
    return connection.execute(_BEGINS, asked).first()
