# SPDX-License-Identifier: Apache-2.0
"""What every operation stands on: the container to itself, its row as it is now, and its row written at the end."""

import contextlib
import logging
from collections.abc import Iterator

from zun.common import exceptions, states
from zun.common.context import RequestContext
from zun.common.locks import FOR_EVER, KeyedLocks, StillHeld
from zun.common.notifications import Notifier
from zun.common.states import TRANSITIONAL, Status, TaskState
from zun.compute.holdings import Holdings
from zun.compute.reconcile import awaits_reboot
from zun.objects import Container

LOG = logging.getLogger(__name__)

PATIENCE = 5.0  # seconds, with an operation under way, of who has a caller that waits
TOO_LATE = "The container is gone, or its status does not allow this any more."

_ACCEPTED = {"reboot": Status.RESTARTING, "rebuild": Status.REBUILDING}  # set by the API when it accepts these


class Operations:
    """Operations on the containers of one host, one at a time in each.

    ``locks`` are by the container's uuid.
    """

    def __init__(self, hostname: str, notifier: Notifier, holdings: Holdings) -> None:
        self._hostname = hostname
        self._notifier = notifier
        self._holdings = holdings
        self.locks = KeyedLocks()

    @contextlib.contextmanager
    def undisturbed(
        self, context: RequestContext, uuid: str, patience: float = FOR_EVER
    ) -> Iterator[Container | None]:
        """The container as its row is now; inside the block no operation works on it. None when it is gone.

        Raises ContainerBusy when an operation works on it for longer than ``patience`` seconds.
        """
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(self.locks(uuid, patience))
            except StillHeld:
                raise exceptions.ContainerBusy(uuid=uuid, reason=_doing(_found(context, uuid))) from None
            yield _found(context, uuid)

    @contextlib.contextmanager
    def action(
        self, context: RequestContext, uuid: str, action: str, task_state: TaskState
    ) -> Iterator[Container | None]:
        """The container with ``task_state`` set while the block runs, saved and told about at its end.

        None when it is gone, or not in a status for ``action`` any more.
        """
        with self.undisturbed(context, uuid) as current:
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
        """The container, in whatever status, with ``task_state`` set while the block runs, and saved at its end.

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
        """Write what changed. What removed itself at the runtime gives back what it held; others hear of what is held.

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
    """What whoever must come again is told of an operation."""
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
    if interrupted or container.status in due:
        return True
    LOG.info("Container %s is %s by now: no %s", container.uuid, container.status, action)
    return False
