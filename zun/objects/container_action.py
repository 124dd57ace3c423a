# SPDX-License-Identifier: Apache-2.0
"""The actions that are wanted of a host's containers, and the steps that the host does for them, as it notes them."""

import datetime
from collections.abc import Collection, Mapping
from typing import Any

from oslo_utils import timeutils

from zun.common.context import RequestContext
from zun.db import container_actions as db
from zun.objects import base
from zun.objects.arguments import Prose

SUCCESS, ERROR, LOST_SECONDS = db.SUCCESS, db.ERROR, db.LOST_SECONDS


@base.register
class ContainerActionEvent(base.ZunObject):
    """The row of an action's step. Services only write it over RPC, so the object has no fields."""

    VERSION = "1.2"  # 1.1: go_on, 1.2: wanted, wanted_on, note_arguments, end

    @classmethod
    @base.remotable
    def ask(cls, context: RequestContext, container_uuid: str, project_id: str, action: str) -> None:
        """Note an ``action`` that no user asked for, but a service by itself: for hosts of release 1.0."""
        db.start(container_uuid, action, request_id=context.request_id, user_id=None, project_id=project_id)

    @classmethod
    @base.remotable
    def wanted(cls, context: RequestContext, container_uuid: str) -> list[dict[str, Any]]:
        """Return what is wanted of a container, oldest first. See ``zun.db.container_actions.wanted``."""
        return [dict(row) for row in db.wanted(container_uuid)]

    @classmethod
    @base.remotable
    def wanted_on(cls, context: RequestContext, hostname: str) -> dict[str, list[dict[str, Any]]]:
        """Return what is wanted of the containers of a host, by uuid, oldest first."""
        return {uuid: [dict(row) for row in found] for uuid, found in db.wanted_on(hostname).items()}

    @classmethod
    @base.remotable
    def note_arguments(
        cls, context: RequestContext, container_uuid: str, project_id: str, action: str, arguments: Mapping[str, Any]
    ) -> None:
        """Write the arguments of a message of the release before into the action of its request."""
        db.note_arguments(
            container_uuid,
            action,
            arguments,
            request_id=context.request_id,
            user_id=context.user_id,
            project_id=project_id,
        )

    @classmethod
    @base.remotable
    def end(
        cls, context: RequestContext, container_uuid: str, action_id: int, event: str, reason: Prose | None = None
    ) -> None:
        """End an open action of the container, in an error if there is a ``reason``. It may have no step."""
        db.end(container_uuid, action_id, event, reason)

    @classmethod
    @base.remotable
    def start(cls, context: RequestContext, container_uuid: str, action: str, event: str) -> int | None:
        """Note the begin of a step and return its event id, or None if the action was never requested."""
        return db.start_event(container_uuid, context.request_id, action, event)

    @classmethod
    @base.remotable
    def finish(cls, context: RequestContext, event_id: int, result: str, traceback: Prose | None, last: bool) -> None:
        db.finish_event(event_id, result, traceback, last=last)

    @classmethod
    @base.remotable
    def go_on(cls, context: RequestContext, event_id: int, event: str) -> int | None:
        """Note that a step has ended well and ``event`` of its action begins. Return the id of the latter, or None."""
        return db.next_event(event_id, event)

    @classmethod
    @base.remotable
    def prune(cls, context: RequestContext, hostname: str) -> None:
        """Remove the old actions, with their events, of the host's containers that have many."""
        db.prune(hostname)

    @classmethod
    @base.remotable
    def end_lost(
        cls, context: RequestContext, hostname: str, before: datetime.datetime, busy: Collection[str] = ()
    ) -> list[dict[str, Any]]:
        """End in an error what was asked of the host's containers before ``before`` and will not end by itself.

        For hosts of release 1.0: later ones do every open action.

        Nothing that was asked after this moment is ended, and nothing of ``busy`` containers. Gives the actions, each
        with ``container_uuid``, ``action``, ``request_id`` and whether it had ``begun``.
        """
        return [dict(row) for row in db.end_lost(hostname, min(before, timeutils.utcnow()), busy)]
