# SPDX-License-Identifier: Apache-2.0
"""The record of the actions on containers and their outcome. Each function is one transaction.

An action is one request; its events are the steps that a compute host does for it. Actions are removed with their
container. The host also removes an action that has ended once ``KEPT`` newer ones exist, because listing the actions
of a container and starting the next one read all of them.

An action is found by its container and request id. After a restart, interrupted work goes on under another request id.
It then belongs to the newest open action of its name and continues the open step of that action.

The open actions of a container, oldest first and without accesses, are what is wanted of the container. Each has its
``arguments``, so that a lost message costs nothing. An action without arguments (null) is done by whoever got a message
with them: a creation, or an action that a service of the release before has accepted.

An access reads or uses a container without changing the service's data: a command, a terminal, a log, an archive. It
is an action without events, which is recorded as ended when access is granted, in one statement. ``KEPT`` accesses are
kept in addition to ``KEPT`` other actions.
"""

import contextlib
import datetime
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_utils import timeutils

from zun.common import exceptions, states
from zun.db import models, session

ERROR = "Error"
SUCCESS = "Success"
UNKNOWN_END = "Its host could not note how it ended. What became of it is to be seen in the container's status."

KEPT = 1000  # accesses of each container, and the same number of other actions
ACCESSES = ("attach", "execute", "get_archive", "logs", "put_archive", "stats", "top")
READS = frozenset({"logs", "stats", "top"})  # clients repeat these every few seconds
LOST_SECONDS = 600  # a message that nobody has read for so long is lost: its host is known to be down much sooner
READ_AGAIN = datetime.timedelta(hours=1)  # a read by the same user from the same address is recorded once in this time
OLD_TOGETHER = 100  # most old actions that one transaction removes

table = models.container_actions
_events = models.container_action_events
_containers = models.containers

# Built once, like the statements of zun.db.containers.
_OF_REQUEST = table.c.request_id == sa.bindparam("this_request")
OPEN = (  # the action of a request, else the newest open one: ``of_containers`` chooses alike
    sa.select(table.c.id)
    .where(table.c.container_uuid == sa.bindparam("this_uuid"), table.c.action == sa.bindparam("this_action"))
    .where(sa.or_(_OF_REQUEST, table.c.finish_time.is_(None)))
    .order_by(sa.case((_OF_REQUEST, 0), else_=1), table.c.id.desc())
    .limit(1)
)
_ASKED = OPEN.where(_OF_REQUEST)
_OF_THIS = table.c.container_uuid == sa.bindparam("this_uuid")
_IS_ACCESS = table.c.action.in_(ACCESSES)


def _old(which: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Return the query for a container's ended actions among ``which`` that are older than the newest ``KEPT``."""
    oldest = sa.select(table.c.id).where(_OF_THIS, which).order_by(table.c.id.desc()).offset(KEPT - 1).limit(1)
    ended = (table.c.id < oldest.scalar_subquery(), table.c.finish_time.is_not(None))
    return sa.select(table.c.id).where(_OF_THIS, which, *ended).order_by(table.c.id).limit(OLD_TOGETHER)


_OLD = [(_IS_ACCESS, _old(_IS_ACCESS)), (~_IS_ACCESS, _old(~_IS_ACCESS))]
_READ = (
    sa.select(table.c.id)
    .where(_OF_THIS, table.c.action == sa.bindparam("this_action"), table.c.start_time > sa.bindparam("since"))
    .where(table.c.user_id.is_not_distinct_from(sa.bindparam("user_id")))
    .where(table.c.project_id == sa.bindparam("project_id"))
    .where(table.c.client_address.is_not_distinct_from(sa.bindparam("client_address")))
    .where(table.c.message.is_(None))
    .limit(1)
)
_NOTED = (  # the id of the action's open step
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
_START_EVENTS = _START_EVENT.returning(_events.c.action_id, _events.c.id)
_BEGUN = (
    sa.select(_events.c.action_id, sa.func.max(_events.c.id))
    .where(_events.c.action_id.in_(sa.bindparam("these_actions", expanding=True)))
    .where(_events.c.event == sa.bindparam("this_event"), _events.c.finish_time.is_(None))
    .group_by(_events.c.action_id)
)
_WANTED = (
    sa.select(table, sa.exists().where(_events.c.action_id == table.c.id).label("begun"))
    .where(table.c.finish_time.is_(None), table.c.action.not_in(ACCESSES))
    .order_by(table.c.id)
)
_WANTED_OF_THIS = _WANTED.where(_OF_THIS)
_OF_ASKED = _ASKED.add_columns(table.c.finish_time, table.c.arguments.is_(sa.null()).label("bare"))
_NOTE = table.update().where(table.c.id == sa.bindparam("this_action"), table.c.arguments.is_(sa.null()))
_FINISH_EVENT = _events.update().where(_THIS_EVENT, _events.c.finish_time.is_(None))


def access(
    container_uuid: str,
    action: str,
    *,
    request_id: str,
    user_id: str | None,
    project_id: str | None,
    client_address: str | None,
) -> None:
    """Record that an access was granted. One of ``READS`` is recorded once in ``READ_AGAIN`` for a user and address.

    A repeated read costs one query and no write. Nothing happens if the container is gone.
    """
    who = {"user_id": user_id, "project_id": project_id, "client_address": client_address}
    if action in READS:
        since = timeutils.utcnow() - READ_AGAIN
        asked = {"this_uuid": container_uuid, "this_action": action, "since": since, **who}
        with session.reader() as connection:
            if connection.execute(_READ, asked).first():
                return
    start(container_uuid, action, request_id=request_id, ended=True, **who)


def start(
    container_uuid: str,
    action: str,
    *,
    request_id: str,
    user_id: str | None,
    project_id: str | None,
    client_address: str | None = None,
    ended: bool = False,
) -> None:
    """Record the request of ``action``, and its end if ``ended``.

    ``client_address`` is the address of the client. Nothing happens if the container is gone.
    """
    now = timeutils.utcnow()
    values = {
        "action": action,
        "container_uuid": container_uuid,
        "request_id": request_id,
        "user_id": user_id,
        "project_id": project_id,
        "client_address": client_address,
        "start_time": now,
        "finish_time": now if ended else None,
    }

    def attempt(again: bool) -> None:
        with session.writer() as connection:
            if not (again and is_asked(connection, container_uuid, request_id, action)):
                connection.execute(table.insert().values(**values))

    with contextlib.suppress(db_exc.DBReferenceError):
        session.repeat(attempt)


def is_asked(connection: sa.Connection, container_uuid: str, request_id: str, action: str) -> bool:
    """Return whether ``action`` of this request is recorded, whether or not it has ended."""
    return connection.execute(_ASKED, open_parameters(container_uuid, request_id, action)).first() is not None


def wanted(container_uuid: str) -> list[session.Row]:
    """Return the open actions of a container but accesses, oldest first: what is wanted of the container.

    Each has ``id``, ``action``, ``request_id``, ``user_id``, ``project_id``, ``start_time`` and its ``arguments``,
    which are empty for an action that has none in its row: that one is ``bare``. ``begun``: a step of it has begun.
    """
    with session.reader() as connection:
        found = session.rows(connection, _WANTED_OF_THIS, {"this_uuid": container_uuid})
    return list(map(_as_wanted, found))


def wanted_on(hostname: str) -> dict[str, list[session.Row]]:
    """Return what is wanted of the containers of a host, by uuid. Containers of which nothing is wanted are absent."""
    of_host = _WANTED.join(_containers, _containers.c.uuid == table.c.container_uuid)
    with session.reader() as connection:
        found = session.rows(connection, of_host.where(_containers.c.host == hostname))
    many: dict[str, list[session.Row]] = {}
    for row in found:
        many.setdefault(row["container_uuid"], []).append(_as_wanted(row))
    return many


def _as_wanted(row: session.Row) -> session.Row:
    named = ("id", "action", "request_id", "user_id", "project_id", "start_time", "begun")
    bare = row["arguments"] is None
    return {**{name: row[name] for name in named}, "arguments": row["arguments"] or {}, "bare": bare}


@session.retry
def note_arguments(
    container_uuid: str,
    action: str,
    arguments: Mapping[str, Any],
    *,
    request_id: str,
    user_id: str | None,
    project_id: str,
) -> None:
    """Write the arguments that came with the message of a service of the release before into the request's action.

    An action that has arguments keeps them, and an action that has ended stays as it is. A request without an action
    gets one, because the release before records no deletion of a capsule and no resize. Nothing happens if the
    container is gone.
    """
    with contextlib.suppress(db_exc.DBReferenceError), session.writer() as connection:
        found = connection.execute(_OF_ASKED, open_parameters(container_uuid, request_id, action)).first()
        if found is None:
            who = {"request_id": request_id, "user_id": user_id, "project_id": project_id, "client_address": None}
            insert_in(connection, container_uuid, action, arguments, **who)
        elif found.finish_time is None and found.bare:
            connection.execute(_NOTE, {"this_action": found.id, "arguments": dict(arguments)})


def insert_in(
    connection: sa.Connection, container_uuid: str, action: str, arguments: Mapping[str, Any] | None, **who: str | None
) -> None:
    """Record an open action in the caller's transaction. ``arguments`` is None for one that a message begins.

    ``who`` has ``request_id``, ``user_id``, ``project_id`` and ``client_address``.
    """
    insert_all_in(connection, [container_uuid], action, arguments, **who)


def insert_all_in(
    connection: sa.Connection,
    container_uuids: Sequence[str],
    action: str,
    arguments: Mapping[str, Any] | None,
    **who: str | None,
) -> None:
    """Record an open action of one request for each of the containers, as ``insert_in`` does."""
    given = None if arguments is None else dict(arguments)
    values = {"action": action, "arguments": given, **who, "start_time": timeutils.utcnow()}
    connection.execute(table.insert(), [{"container_uuid": uuid, **values} for uuid in container_uuids])


def fail_late_in(
    connection: sa.Connection, container_uuid: str, request_id: str, action: str, event: str, reason: str
) -> None:
    """Let an action that has ended be one that failed, for the ``reason`` of a step ``event``."""
    now = timeutils.utcnow()
    found = connection.execute(_ASKED, open_parameters(container_uuid, request_id, action)).scalar()
    if found is not None:
        connection.execute(_FINISH, {"this_action": found, "finish_time": now, "message": ERROR})
        values = {"action_id": found, "event": event, "start_time": now, "finish_time": now}
        connection.execute(_START_EVENT, {**values, "result": ERROR, "traceback": reason})


def open_besides(connection: sa.Connection, container_uuid: str, action_id: int) -> list[str]:
    """Return the names of what is wanted of the container beside this action."""
    found = session.rows(connection, _WANTED_OF_THIS, {"this_uuid": container_uuid})
    return [row["action"] for row in found if row["id"] != action_id]


def of_step(connection: sa.Connection, event_id: int) -> session.Row:
    """Return the action of a step. Raises ResourceNotFound."""
    found = session.first(
        connection, sa.select(table).where(table.c.id == _ACTION_OF_EVENT.scalar_subquery()), {"this_event": event_id}
    )
    if found is None:
        raise exceptions.ResourceNotFound(f"There is no step {event_id} of an action.")
    return found


def end_all_in(connection: sa.Connection, container_uuid: str, message: str) -> None:
    """End what is open of a container in an error, in the caller's transaction."""
    now = timeutils.utcnow()
    open_ = (table.c.container_uuid == container_uuid, table.c.finish_time.is_(None))
    for ident in connection.execute(sa.select(table.c.id).where(*open_)).scalars().all():
        connection.execute(table.update().where(table.c.id == ident).values(finish_time=now, message=ERROR))
        _end_steps(connection, ident, now)


@session.retry
def end(container_uuid: str, action_id: int, event: str, reason: str | None) -> None:
    """End an open action of this container, in an error if there is a ``reason``.

    Nothing happens if the action has ended or is of another container. Open steps end with the action. If none is open,
    a step ``event`` is recorded with the reason, because users read reasons at steps.
    """
    now = timeutils.utcnow()
    this = table.update().where(table.c.id == action_id, _OF_THIS, table.c.finish_time.is_(None))
    message = None if reason is None else ERROR
    with session.writer() as connection:
        if not connection.execute(this, {"this_uuid": container_uuid, "finish_time": now, "message": message}).rowcount:
            return
        result = {"finish_time": now, "result": SUCCESS if reason is None else ERROR, "traceback": reason}
        steps = _events.update().where(_events.c.action_id == action_id, _events.c.finish_time.is_(None))
        if not connection.execute(steps.values(**result)).rowcount and reason is not None:
            values = {"action_id": action_id, "event": event, "start_time": now, **result}
            connection.execute(_START_EVENT, values)


@session.retry
def fail(container_uuid: str, request_id: str, action: str) -> None:
    """Record that ``action`` has ended in an error."""
    with session.writer() as connection:
        found = connection.execute(OPEN, open_parameters(container_uuid, request_id, action)).scalar()
        if found is not None:
            connection.execute(_FINISH, {"this_action": found, "finish_time": timeutils.utcnow(), "message": ERROR})


def fail_open_in(connection: sa.Connection, container_uuids: Collection[str], action: str) -> None:
    """Let the open ``action`` of each of the containers end in an error, in the caller's transaction."""
    mine = (table.c.container_uuid.in_(container_uuids), table.c.action == action, table.c.finish_time.is_(None))
    connection.execute(table.update().where(*mine).values(finish_time=timeutils.utcnow(), message=ERROR))


def prune(hostname: str) -> None:
    """Remove the old actions of the containers of this host, in several transactions."""
    many = sa.select(table.c.container_uuid).join(_containers, _containers.c.uuid == table.c.container_uuid)
    many = many.where(_containers.c.host == hostname).group_by(table.c.container_uuid)
    for which, old in _OLD:
        with session.reader() as connection:
            found = connection.execute(many.where(which).having(sa.func.count() > KEPT)).scalars().all()
        for uuid in found:
            while _prune_some(uuid, old):
                pass


@session.retry
def _prune_some(container_uuid: str, which: sa.Select[Any]) -> bool:
    """Remove up to OLD_TOGETHER old actions, and return whether there may be more."""
    with session.writer() as connection:
        old = connection.execute(which, {"this_uuid": container_uuid}).scalars().all()
        if old:
            connection.execute(table.delete().where(table.c.id.in_(old)))
        return len(old) == OLD_TOGETHER


@session.retry
def end_lost(hostname: str | None, before: datetime.datetime, busy: Collection[str] = ()) -> list[session.Row]:
    """End lost actions in an error: open ones from before ``before``, on which nobody works and nobody will.

    The message of such an action was lost, or its worker could not write the end. Only containers of this host (None:
    of no host) are searched. A host finds actions with arguments by itself, so only bare ones are lost there. A
    container with a task or a transitional status, a container in ``busy`` and an action with a step since ``before``
    are left alone. If an ended action begins late, ``start_event`` finds it by its request id.

    Returns ``container_uuid``, ``action``, ``request_id`` and whether the action had ``begun``.
    """
    steps = sa.select(_events.c.id).where(_events.c.action_id == table.c.id)
    open_still = (table.c.finish_time.is_(None), ~steps.where(_events.c.start_time >= before).exists())
    lost = (
        sa.select(table.c.id, table.c.container_uuid, table.c.action, table.c.request_id)
        .add_columns(steps.exists().label("begun"))
        .join(_containers, _containers.c.uuid == table.c.container_uuid)
        .where(_containers.c.host == hostname)  # None: IS NULL
        .where(_containers.c.task_state.is_(None), _containers.c.status.not_in(states.TRANSITIONAL))
        .where(table.c.start_time < before, *open_still)
        .order_by(table.c.id)
    )
    if hostname is not None:
        lost = lost.where(table.c.arguments.is_(sa.null()))
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
    """Record that a step of ``action`` begins, or continue its open step, and return the id of the step.

    A step is continued after an interruption under another request id, or if its message arrived twice. An action that
    was ended in an error, for example as lost, is open again. None if the action does not exist or has succeeded.
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


def start_event_in(connection: sa.Connection, action_id: int, event: str, *, again: bool) -> int:
    """Record that a step of the action ``action_id`` begins, in the caller's transaction, and return the step's id.

    If ``again``, an earlier attempt may have recorded the step; then its id is returned.
    """
    return start_events_in(connection, [action_id], event, again=again)[action_id]


def start_events_in(connection: sa.Connection, action_ids: Sequence[int], event: str, *, again: bool) -> dict[int, int]:
    """Record that a step of each action begins, as ``start_event_in`` does, and return the steps' ids by action."""
    if not action_ids:
        return {}
    found: dict[int, int] = {}
    if again:
        asked = {"these_actions": list(action_ids), "this_event": event}
        found = {action: int(ident) for action, ident in connection.execute(_BEGUN, asked)}
    now = timeutils.utcnow()
    missing = [{"action_id": each, "event": event, "start_time": now} for each in action_ids if each not in found]
    if missing:
        found |= {action: int(ident) for action, ident in connection.execute(_START_EVENTS, missing)}
    return found


@session.retry
def finish_event(event_id: int, result: str, traceback: str | None, *, last: bool) -> None:
    """Record the end of an open step. With ``last`` or the result Error, the action ends with the step."""
    with session.writer() as connection:
        ended = finish_event_in(connection, event_id, result, traceback, last=last)
        if ended and result == ERROR:
            # Before an interruption the action may have reached a later step, which stays open.
            found = connection.execute(_ACTION_OF_EVENT, {"this_event": event_id}).scalar()
            _end_steps(connection, found, timeutils.utcnow())


def finish_event_in(
    connection: sa.Connection, event_id: int, result: str, traceback: str | None, *, last: bool
) -> bool:
    """Record the end of a step as ``finish_event`` does, in the caller's transaction. Return whether it was open."""
    this = {"this_event": event_id, "finish_time": timeutils.utcnow()}
    if not connection.execute(_FINISH_EVENT, {**this, "result": result, "traceback": traceback}).rowcount:
        return False
    if last or result == ERROR:
        connection.execute(_FINISH_OF_EVENT, {**this, "message": ERROR if result == ERROR else None})
    return True


@session.retry
def next_event(event_id: int, event: str) -> int | None:
    """Record that a step has ended well and ``event`` of the same action begins, and return the id of the latter.

    An open step ``event``, from before an interruption, is continued. None if the action was deleted.
    """
    with session.writer() as connection:
        finish_event_in(connection, event_id, SUCCESS, None, last=False)
        found = connection.execute(_ACTION_OF_EVENT, {"this_event": event_id}).scalar()
        return None if found is None else start_event_in(connection, found, event, again=True)


def _end_steps(connection: sa.Connection, action_id: int | None, now: datetime.datetime) -> None:
    """End the open steps of the action in an error, because nobody will report their end."""
    left = _events.update().where(_events.c.action_id == action_id, _events.c.finish_time.is_(None))
    connection.execute(left.values(finish_time=now, result=ERROR, traceback=UNKNOWN_END))


def of_container(container_uuid: str) -> list[session.Row]:
    """Return the actions of a container, newest first."""
    statement = sa.select(table).where(table.c.container_uuid == container_uuid).order_by(table.c.id.desc())
    with session.reader() as connection:
        return session.rows(connection, statement)


def find(container_uuid: str, request_id: str) -> tuple[session.Row, list[session.Row]]:
    """Return the first action of this request and its events, oldest first. Raises ResourceNotFound.

    A move to another host has several actions with its request id: ``leave``, ``create`` and maybe ``start``.
    """
    same = (table.c.container_uuid == container_uuid, table.c.request_id == request_id)
    with session.reader() as connection:
        action = session.first(connection, sa.select(table).where(*same).order_by(table.c.id))
        if action is None:
            raise exceptions.ResourceNotFound(
                f"The Action resource {request_id} could not be found. List the container's with 'openstack "
                "appcontainer action list'."
            )
    return action, steps_of(action["id"])


def steps_of(action_id: int) -> list[session.Row]:
    """Return the events of the action, oldest first."""
    steps = sa.select(_events).where(_events.c.action_id == action_id).order_by(_events.c.id)
    with session.reader() as connection:
        return session.rows(connection, steps)


def open_parameters(container_uuid: str, request_id: str | None, action: str | None) -> dict[str, Any]:
    """Return the parameters of ``OPEN``, the query for the id of an action."""
    return {"this_uuid": container_uuid, "this_action": action, "this_request": request_id}


def _begins(
    connection: sa.Connection, container_uuid: str, request_id: str, action: str, event: str
) -> sa.Row[Any] | None:
    """Return the action of a step that begins, or None. ``noted`` is the id of the step if the step is open."""
    asked = {**open_parameters(container_uuid, request_id, action), "this_event": event}
    return connection.execute(_BEGINS, asked).first()
