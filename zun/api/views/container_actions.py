# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, NotRequired, TypedDict

from zun.api import microversion
from zun.api.views import times


class Action(TypedDict):
    action: str
    container_uuid: str
    request_id: str
    user_id: str | None
    project_id: str
    start_time: str | None
    finish_time: str | None
    message: str | None
    client_address: NotRequired[Annotated[str | None, microversion.CLIENTS]]


class Event(TypedDict):
    event: str
    start_time: str | None
    finish_time: str | None
    result: str | None
    traceback: str | None


class ActionWithEvents(Action):
    events: list[Event]


class Actions(TypedDict):
    containerActions: list[Action]


def show(row: Mapping[str, Any], version: microversion.Version, *, clients: bool) -> Action:
    """Return one action. Its ``client_address`` is null unless the caller may see ``clients``."""
    shown: Action = {
        "action": row["action"],
        "container_uuid": row["container_uuid"],
        "request_id": row["request_id"],
        "user_id": row["user_id"],
        "project_id": row["project_id"],
        "start_time": times.of_service(row["start_time"]),
        "finish_time": times.of_service(row["finish_time"]),
        "message": row["message"],
    }
    if version >= microversion.CLIENTS:
        shown["client_address"] = row["client_address"] if clients else None
    return shown


def with_events(
    row: Mapping[str, Any],
    events: Iterable[Mapping[str, Any]],
    version: microversion.Version,
    *,
    clients: bool,
    tracebacks: bool,
) -> ActionWithEvents:
    """Return the action with its events. Tracebacks are for operators only."""
    return {
        **show(row, version, clients=clients),
        "events": [
            {
                "event": event["event"],
                "start_time": times.of_service(event["start_time"]),
                "finish_time": times.of_service(event["finish_time"]),
                "result": event["result"],
                "traceback": event["traceback"] if tracebacks else None,
            }
            for event in events
        ],
    }
