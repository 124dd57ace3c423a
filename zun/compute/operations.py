# SPDX-License-Identifier: Apache-2.0
"""What every operation stands on: the container to itself, its row as it is now, and its row written at the end."""

import contextlib
import logging
from collections.abc import Iterator

from zun.common import exceptions, states
from zun.common.context import RequestContext
from zun.common.locks import KeyedLocks
from zun.common.notifications import Notifier
from zun.common.states import Status, TaskState
from zun.compute.holdings import Holdings
from zun.objects import Container

LOG = logging.getLogger(__name__)

TOO_LATE = "The container is gone, or its status does not allow this any more."


class Operations:
    """Operations on the containers of one host, one at a time in each. ``locks`` are by the container's uuid."""

    def __init__(self, hostname: str, notifier: Notifier, holdings: Holdings) -> None:
        self._hostname = hostname
        self._notifier = notifier
        self._holdings = holdings
        self.locks = KeyedLocks()

    @contextlib.contextmanager
    def undisturbed(self, context: RequestContext, uuid: str) -> Iterator[Container | None]:
        """The container as its row is now; inside the block no operation works on it. None when it is gone."""
        with self.locks(uuid):
            try:
                container = Container.get_by_uuid(context, uuid)
            except exceptions.ContainerNotFound:
                container = None
            yield container

    @contextlib.contextmanager
    def action(
        self, context: RequestContext, uuid: str, action: str, task_state: TaskState
    ) -> Iterator[Container | None]:
        """The container with ``task_state`` set while the block runs, saved and told about at its end.

        None when it is gone, or not in a status for ``action`` any more.
        """
        with self.undisturbed(context, uuid) as current:
            if current is None or not _still_allowed(action, current):
                yield None
                return
            before = current.status
            current.task_state = task_state
            current.save()
            try:
                yield current
            finally:
                current.task_state = None
                with contextlib.suppress(exceptions.ContainerNotFound):
                    try:
                        self.save(context, current, before)
                    except exceptions.StatusChanged as exc:
                        LOG.info("%s", exc)
                        current.obj_reset_changes(["status", "status_reason", "request"])
                        self.save(context, current, before)
            LOG.info("Container %s is %s after %s", current.uuid, current.status, action)
            self._notifier.status_changed(context, current)

    @contextlib.contextmanager
    def task(self, context: RequestContext, uuid: str, task_state: TaskState) -> Iterator[Container | None]:
        """The container, in whatever status, with ``task_state`` set while the block runs, and saved at its end.

        None when it is gone, or its object is not of this host: then there is nothing to do here.
        """
        with self.undisturbed(context, uuid) as current:
            if current is None or current.host != self._hostname or current.container_id is None:
                yield None
                return
            current.task_state = task_state
            current.save()
            try:
                yield current
            finally:
                current.task_state = None
                with contextlib.suppress(exceptions.ContainerNotFound):
                    current.save()

    def save(self, context: RequestContext, container: Container, before: str) -> None:
        """Write what changed since the status was ``before``. What removed itself at the runtime gives back what it
        held.

        Raises StatusChanged when the API has accepted something meanwhile, whose message will come: its status stays.
        """
        changed = container.obj_what_changed()
        if "cpuset" in changed and container.cpuset is None:
            generation = container.save_changed_claim(self._hostname, only_from=(before,))
            self._holdings.released(context, container.uuid, generation)
        elif changed:
            container.save(only_from=(before,))


def _still_allowed(action: str, container: Container) -> bool:
    # The API set Restarting or Rebuilding when it accepted that; an interrupted operation is taken up where it was.
    # Restarting is also what the runtime may call it. A rebuild that was taken up before its message came is done.
    if container.task_state:
        return True
    if action == "rebuild":
        allowed = container.status == Status.REBUILDING
    else:
        allowed = container.status in states.ALLOWED[action]
    if allowed or (action == "reboot" and container.status == Status.RESTARTING):
        return True
    LOG.info("Container %s is %s by now: no %s", container.uuid, container.status, action)
    return False
