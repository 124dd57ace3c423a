# SPDX-License-Identifier: Apache-2.0
"""Note the work on a container: for users as events of its actions, for operators in the log."""

import contextlib
import logging
import traceback
from collections.abc import Iterator

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.objects import Container, ContainerActionEvent
from zun.objects.container_action import ERROR, SUCCESS

LOG = logging.getLogger(__name__)


def unexpected(error: BaseException) -> str:
    """Return the reason for users of an error that nobody foresaw."""
    return f"Unexpected error of the compute service: {exceptions.first_line(error)}"


class Begun:
    """A step that was noted already, with something else. ``event_id`` is None when nobody asked for its action."""

    def __init__(self, event_id: int | None) -> None:
        self.event_id = event_id


class RecordedStep:
    """A step under way. ``failed`` records an error where no exception does."""

    def __init__(self, event_id: int | None, last: bool) -> None:
        self._event_id = event_id
        self._last = last
        self.noted = False
        self.error: str | None = None

    def failed(self, error: BaseException | str) -> None:
        self.error = error if isinstance(error, str) else "".join(traceback.format_exception(error))

    def save(self, container: Container) -> None:
        """Write the changes and the good end of the step, in one transaction: for the end of the block."""
        if self._event_id is None:
            container.save()
            return
        container.save_step(self._event_id, self._last)
        self.noted = True

    def depart(
        self, container: Container, hostname: str, *, run: bool, layer: str | None
    ) -> tuple[int, Container]:
        """Let the container wait for another host, in one transaction with the good end of the step: for the end.

        Raises Conflict if nobody asked for the step, and those of ``Container.depart``.
        """
        if self._event_id is None:
            raise exceptions.Conflict(f"Nobody wants container {container.uuid} to leave host {hostname} any more.")
        generation, left = container.depart(hostname, self._event_id, run, layer)
        self.noted = True
        return generation, left

    def go_on(self, context: RequestContext, action: str) -> Begun:
        """Write that the step has ended well and that of ``action`` begins, in one transaction: for the end."""
        if self._event_id is None:
            return Begun(None)
        begun = Begun(ContainerActionEvent.go_on(context, self._event_id, event_of(action)))
        self.noted = True
        return begun


def event_of(action: str) -> str:
    """The name of a step. Clients know the steps by their names; those of networks have no "container" in theirs."""
    return f"compute__do_{action}" if action.startswith("network_") else f"compute__do_container_{action}"


@contextlib.contextmanager
def recorded(
    context: RequestContext,
    uuid: str,
    action: str,
    event: str | None = None,
    *,
    last: bool = True,
    begun: Begun | None = None,
) -> Iterator[RecordedStep]:
    """Record the block as the step ``event`` of ``action`` on a container. By default the step has the action's name.

    ``last`` ends the action with the step. An exception is recorded and raised again.
    """
    if begun is None:
        begun = Begun(ContainerActionEvent.start(context, uuid, action, event_of(event or action)))
    step = RecordedStep(begun.event_id, last)
    try:
        yield step
    except BaseException as exc:
        step.failed(exc)
        raise
    finally:
        if begun.event_id is not None and not (step.noted and step.error is None):
            result = SUCCESS if step.error is None else ERROR
            ContainerActionEvent.finish(context, begun.event_id, result, step.error, last)


@contextlib.contextmanager
def logged(action: str, uuid: str) -> Iterator[None]:
    """Log a failure of the block, which must not keep the rest from being done."""
    try:
        yield
    except exceptions.ZunError as exc:
        LOG.warning("Could not %s container %s: %s", action, uuid, exc)
