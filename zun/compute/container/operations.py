# SPDX-License-Identifier: Apache-2.0
"""The frame of every operation: its turn on the container, the current row, and the row saved at the end."""

import contextlib
import logging
from collections.abc import Iterator, Sequence

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.naming import named
from zun.common.states import TaskState, awaits_reboot
from zun.compute.host.holdings import Holdings
from zun.compute.work.queue import Key, Queue, QueueBusy
from zun.messaging.notifications import Notifier
from zun.objects import Container

LOG = logging.getLogger(__name__)

PATIENCE = 5.0  # seconds, with an operation under way, of who has a caller that waits
TOO_LATE = "The container is gone, or its status does not allow this any more."

CONTAINER = "container"
"""The kind of the keys of containers in the queue. A capsule is one."""


def key_of(uuid: str) -> Key:
    """Return the key of a container in the queue."""
    return Key(CONTAINER, uuid)


def row_of(context: RequestContext, uuid: str) -> Container | None:
    """Return the container as its row is now, or None if it is gone. A conductor also returns None for another host's.
    """
    return next(iter(Container.list_by_uuids(context, [uuid])), None)


class Operations:
    """Operations on the containers of one host. Each has the turn of the container in the queue."""

    def __init__(self, hostname: str, notifier: Notifier, holdings: Holdings, queue: Queue) -> None:
        self._hostname = hostname
        self._notifier = notifier
        self._holdings = holdings
        self.queue = queue

    @contextlib.contextmanager
    def undisturbed(
        self, context: RequestContext, uuid: str, patience: float | None = None, *, capsule: str | None = None
    ) -> Iterator[Container | None]:
        """Give the container as its row is now, or None if it is gone. The block has the container's turn.

        A member of ``capsule`` has that of its capsule: its own would keep what is put for it from being heard.

        Raises ContainerBusy when an operation works on it for longer than ``patience`` seconds.
        """
        with contextlib.ExitStack() as turn:
            try:
                turn.enter_context(self.queue.turn(key_of(capsule or uuid), patience))
            except QueueBusy:
                row = row_of(context, uuid)
                called = uuid if row is None else named(row)
                others = () if capsule is None else Container.list_by_capsule(context, capsule)
                raise exceptions.ContainerBusy(container=called, reason=_doing(row, others)) from None
            yield row_of(context, uuid)

    @contextlib.contextmanager
    def action(
        self, context: RequestContext, uuid: str, action: str, task_state: TaskState, *, capsule: str | None = None
    ) -> Iterator[Container | None]:
        """Give the container with ``task_state`` set. The end of the block saves it and notifies.

        None when it is gone, on another host, or its status changes at this moment. ``capsule`` as of ``undisturbed``.
        """
        with self.undisturbed(context, uuid, capsule=capsule) as current:
            if current is not None and current.host != self._hostname:
                LOG.warning("Container %s is on host %s: no %s here", uuid, current.host, action)
                current = None
            if current is None or not _begun(current, task_state):
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

        Raises StatusChanged when the status is not ``before`` any more: the API has accepted something meanwhile,
        which is the next step.
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


def _doing(container: Container | None, others: Sequence[Container]) -> str:
    """Return the reason of ContainerBusy: the operation that is under way, perhaps on another one of its capsule."""
    if container is not None and container.task_state is not None:
        return f"its task_state is {container.task_state}; try again when it has none"
    for each in others:
        if each.task_state is not None:
            what = f"the task_state of container {named(each)}, which is in the same capsule, is {each.task_state}"
            return f"{what}; try again when it has none"
    what = "it" if not others else "a container of its capsule"  # a commit, a resize and a move have no task state
    return f"an image is made of {what}, or {what} is being resized or moved; try again in a moment"


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
