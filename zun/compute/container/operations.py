# SPDX-License-Identifier: Apache-2.0
"""The frame of every operation: its turn on the container, the current row, and the row saved at the end."""

import contextlib
import logging
from collections.abc import Iterator

from zun.common import exceptions, states
from zun.common.context import RequestContext
from zun.common.naming import named
from zun.common.states import TRANSITIONAL, Status, TaskState
from zun.compute.container.reconcile_rules import awaits_reboot
from zun.compute.host.holdings import Holdings
from zun.compute.work.work_queues import QueueBusy, WorkQueues
from zun.messaging.notifications import Notifier
from zun.objects import Container

LOG = logging.getLogger(__name__)

PATIENCE = 5.0  # seconds, with an operation under way, of who has a caller that waits
TOO_LATE = "The container is gone, or its status does not allow this any more."

_ACCEPTED = {"reboot": Status.RESTARTING, "rebuild": Status.REBUILDING}  # set by the API when it accepts these


class Operations:
    """Operations on the containers of one host. Each takes its turn in the container's queue."""

    def __init__(self, hostname: str, notifier: Notifier, holdings: Holdings, queues: WorkQueues) -> None:
        self._hostname = hostname
        self._notifier = notifier
        self._holdings = holdings
        self.queues = queues

    @contextlib.contextmanager
    def undisturbed(
        self, context: RequestContext, uuid: str, patience: float | None = None
    ) -> Iterator[Container | None]:
        """Give the container as its row is now, or None if it is gone. The block has the container's turn.

        Raises ContainerBusy when an operation works on it for longer than ``patience`` seconds.
        """
        with contextlib.ExitStack() as turn:
            try:
                turn.enter_context(self.queues.turn(uuid, patience))
            except QueueBusy:
                found = _found(context, uuid)
                called = uuid if found is None else named(found)
                raise exceptions.ContainerBusy(container=called, reason=_doing(found)) from None
            yield _found(context, uuid)

    @contextlib.contextmanager
    def action(
        self, context: RequestContext, uuid: str, action: str, task_state: TaskState
    ) -> Iterator[Container | None]:
        """Give the container with ``task_state`` set. The end of the block saves it and notifies.

        None when it is gone, on another host, or not in a status for ``action`` any more.
        """
        with self.undisturbed(context, uuid) as current:
            if current is not None and current.host != self._hostname:
                LOG.warning("Container %s is on host %s: no %s here", uuid, current.host, action)
                current = None
            if current is None or not _still_allowed(action, task_state, current) or not _begun(current, task_state):
                yield None
                return
            before = current.status
            try:
                yield current
            finally:
                current.task_state = None
                self._end(context, current, before)
            LOG.info("Container %s is %s after %s", current.uuid, current.status, action)
            self._notifier.status_changed(context, current)

    @contextlib.contextmanager
    def task(self, context: RequestContext, uuid: str, task_state: TaskState) -> Iterator[Container | None]:
        """Give the container in any status with ``task_state`` set. The end of the block saves it.

        None when it is gone, or its object is not of this host: then there is nothing to do here.
        """
        with self.undisturbed(context, uuid) as current:
            if current is None or current.host != self._hostname or current.container_id is None:
                yield None
                return
            before = current.status
            mine = not awaits_reboot(current) and _begun(current, task_state)  # else it is that of what was accepted
            try:
                yield current
            finally:
                if mine:
                    current.task_state = None
                self._end(context, current, before)

    def _end(self, context: RequestContext, current: Container, before: str) -> None:
        with contextlib.suppress(exceptions.ContainerNotFound):
            try:
                self.save(context, current, before)
            except exceptions.StatusChanged as exc:
                LOG.info("%s", exc)
                # What was accepted meanwhile has set these; whatever else was found out is still so.
                current.obj_reset_changes(["status", "status_reason", "request", "task_state"])
                self.save(context, current)

    def save(self, context: RequestContext, container: Container, before: str | None = None) -> None:
        """Save the changes. A container that removed itself gives back its claim; schedulers hear of claims.

        Raises StatusChanged when the status is not ``before`` any more: the API has accepted something meanwhile, whose
        message will come.
        """
        changed = container.obj_what_changed()
        only_from = None if before is None else (before,)
        if "cpuset" in changed:
            generation = container.save_changed_claim(self._hostname, only_from=only_from)
            if container.cpuset is None:
                self._holdings.released(context, container.uuid, generation)
            else:
                self._holdings.tell(context, container, generation)
        elif changed:
            container.save(only_from=only_from)


def _found(context: RequestContext, uuid: str) -> Container | None:
    try:
        return Container.get_by_uuid(context, uuid)
    except exceptions.ContainerNotFound:
        return None


def _doing(container: Container | None) -> str:
    """Return the reason of ContainerBusy: the operation that is under way."""
    if container is None or container.task_state is None:  # a commit writes none, and a resize has none
        return "an image is made of it, or it is being resized; try again in a moment"
    return f"its task_state is {container.task_state}; try again when it has none"


def _begun(container: Container, task_state: TaskState) -> bool:
    """Set its task state, unless the API has accepted something since the row was read. Returns whether it is set."""
    container.task_state = task_state
    try:
        container.save(only_from=(container.status,))
    except exceptions.StatusChanged as exc:
        LOG.info("%s", exc)
        container.obj_reset_changes(["task_state"])
        return False
    return True


def _still_allowed(action: str, task_state: TaskState, container: Container) -> bool:
    # One with a status of its own is done once: if it was taken up before its message came, it has that no more.
    due = {_ACCEPTED[action]} if action in _ACCEPTED else states.ALLOWED[action]
    # An interrupted one is taken up where it was, whatever the runtime has made of the container since.
    interrupted = container.task_state == task_state and container.status not in TRANSITIONAL - {Status.RESTARTING}
    # A stop or a kill does not end an accepted reboot, which is still to come or was lost.
    free = action in _ACCEPTED or not awaits_reboot(container)
    if interrupted or (container.status in due and free):
        return True
    LOG.info("Container %s is %s by now: no %s", container.uuid, container.status, action)
    return False
