# SPDX-License-Identifier: Apache-2.0
"""Do what is wanted of the containers of this host: their open actions, with the arguments that the API has written."""

import functools
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from zun.common import exceptions, outages
from zun.common.context import RequestContext, admin_context
from zun.compute.host_parts import HostParts
from zun.compute.work.work_queues import Kind, Work, WorkQueues
from zun.objects import Container, ContainerActionEvent

LOG = logging.getLogger(__name__)

LONG_SECONDS = 10  # of a stop: what runtimes, and clients, wait by default

Action = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Way:
    """How an action is done: ``work``, and what ``Work`` says about it."""

    work: Callable[..., object]
    stops: bool = False
    beside: Callable[..., bool] | None = None


class Wanted:
    """Does what is wanted, each action once. Messages, the start of the service and each comparison have it look.

    An action that cannot be done by its arguments alone, for example a creation, is left to its own message.
    """

    def __init__(self, parts: HostParts, queues: WorkQueues) -> None:
        self._queues = queues
        self._under_way: set[int] = set()  # ids of actions whose work waits or is being done
        self._lifecycle = lifecycle = parts.lifecycle
        attachments = parts.attachments
        self._ways = {
            "start": _Way(lifecycle.start),
            "stop": _Way(lifecycle.stop, stops=True),
            "reboot": _Way(lifecycle.reboot, stops=True),
            "rebuild": _Way(lifecycle.rebuild),
            "pause": _Way(lifecycle.pause),
            "unpause": _Way(lifecycle.unpause),
            "kill": _Way(lifecycle.kill, beside=lifecycle.kill_beside),
            "resize_container": _Way(parts.resizer.resize),
            "commit": _Way(self._commit),
            "network_attach": _Way(attachments.attach),
            "network_detach": _Way(attachments.detach),
            "delete": _Way(lifecycle.delete, beside=lifecycle.hasten_delete),
        }

    def look(self, uuid: str) -> None:
        """Read soon what is wanted of the container, and queue what is not under way. Returns at once."""
        self._queue(uuid, "look", self.look_now, uuid)

    def note(self, context: RequestContext, container: Container, action: str, arguments: Mapping[str, Any]) -> None:
        """Write the arguments of a message of the release before into its action, then look. Returns at once."""
        self._queue(container.uuid, None, self._note, context, container, action, arguments)

    def _queue(self, uuid: str, name: str | None, work: Callable[..., object], *arguments: Any) -> None:
        """Queue ``work`` beside the queue of the container, which may be at a long stop that a kill must end."""
        run = functools.partial(_logged, uuid, work, *arguments)
        self._queues.put(f"wanted of {uuid}", Work(run, name=name, also=uuid))

    def _note(self, context: RequestContext, container: Container, action: str, arguments: Mapping[str, Any]) -> None:
        ContainerActionEvent.note_arguments(context, container.uuid, container.project_id, action, dict(arguments))
        self.look_now(container.uuid)

    def look_now(self, uuid: str) -> bool:
        """Queue what is wanted of the container and not under way. Return whether the host does any of that."""
        found = [each for each in ContainerActionEvent.wanted(admin_context(), uuid) if self.is_mine(each)]
        for each in found:
            self._put(uuid, each)
        return bool(found)

    def is_mine(self, action: Action) -> bool:
        """Return whether the host does the action by its arguments alone."""
        return not action["bare"] and action["action"] in self._ways

    def _put(self, uuid: str, action: Action) -> None:
        ident, arguments = action["id"], action["arguments"]
        if ident in self._under_way or arguments.get("image") in self._queues.busy():  # its image is being uploaded
            return
        self._under_way.add(ident)
        way = self._ways[action["action"]]
        do = functools.partial(self._do, uuid, action)
        hastens = way.beside is not None and not (action["action"] == "delete" and _is_patient(arguments))
        self._queues.put(
            uuid,
            Work(
                functools.partial(do, way.work),
                _kind_of(arguments.get("timeout")) if way.stops else Kind.OPERATION,
                also=arguments.get("image"),
                stops=way.stops,
                beside=functools.partial(do, way.beside, beside=True) if hastens else None,
            ),
        )

    def _commit(self, context: RequestContext, container: Container, *, image: str) -> None:
        self._lifecycle.commit(context, container, image)

    def _do(self, uuid: str, action: Action, work: Callable[..., object], *, beside: bool = False) -> bool:
        """Do the action unless it has ended meanwhile. Return whether nothing is left to do."""
        context = RequestContext(
            user_id=action["user_id"],
            project_id=action["project_id"],
            request_id=action["request_id"],
            overwrite=False,
        )
        context.update_store()  # log lines of this thread bear the request's id
        done = True
        try:
            open_still = ContainerActionEvent.wanted(context, uuid)
            if any(each["id"] == action["id"] for each in open_still):
                answer = _logged(uuid, work, context, Container(context, uuid=uuid), **action["arguments"])
                done = not beside or bool(answer)
        except outages.OUTAGES as exc:
            LOG.warning("%s: %s is done later: %s", uuid, action["action"], exceptions.first_line(exc))
        finally:
            if done:
                self._under_way.discard(action["id"])
        return done


def _logged(uuid: str, work: Callable[..., object], *arguments: Any, **named: Any) -> object:
    """Return what ``work`` returns, or None if it fails. The next comparison looks again at what is wanted."""
    try:
        return work(*arguments, **named)
    except outages.OUTAGES as exc:
        LOG.warning("%s: %s failed: %s", uuid, work.__name__, exceptions.first_line(exc))
    except Exception:
        LOG.exception("%s: %s failed", uuid, work.__name__)
    return None


def _is_patient(delete: Mapping[str, Any]) -> bool:
    """Return whether the deletion waits for a stop that is under way."""
    return not delete["force"] and delete["stop_timeout"] is None


def _kind_of(timeout: int | None) -> Kind:
    """Return the kind of a stop that waits for ``timeout`` seconds."""
    return Kind.LONG_STOP if (timeout or 0) > LONG_SECONDS else Kind.OPERATION
