# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypedDict

from zun.api import microversion
from zun.api.views import members, times
from zun.nouns import cloud

Action = Annotated[members.Shown, members.Answer(cloud.Action)]
Event = Annotated[members.Shown, members.Answer(cloud.Event)]


class _Events(TypedDict):
    events: list[Event]


ActionWithEvents = Annotated[members.Shown, members.Answer(cloud.Action, "ActionWithEvents", own=_Events)]


class Actions(TypedDict):
    containerActions: list[Action]


def show(row: Mapping[str, Any], version: microversion.Version, *, clients: bool) -> Action:
    """Return one action. Its ``client_address`` is null unless the caller may see ``clients``."""
    address = row["client_address"] if clients else None
    return members.show(cloud.Action, row, version, time=times.of_service, client_address=address)


def with_events(
    row: Mapping[str, Any],
    events: Iterable[Mapping[str, Any]],
    version: microversion.Version,
    *,
    clients: bool,
    tracebacks: bool,
) -> ActionWithEvents:
    """Return the action with its events. Tracebacks are for operators only."""
    return {**show(row, version, clients=clients), "events": [_event(each, tracebacks) for each in events]}


def _event(row: Mapping[str, Any], tracebacks: bool) -> Event:
    told = row["traceback"] if tracebacks else None
    return members.show(cloud.Event, row, microversion.MAX, time=times.of_service, traceback=told)
