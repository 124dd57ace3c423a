# SPDX-License-Identifier: Apache-2.0
"""Let a container leave this host for another one: stop it, and keep its object and claim until it is there."""

import base64
import logging

from oslo_db import exception as db_exc

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.states import ALLOWED, RUNS, TaskState
from zun.compute.container.observed import take_over
from zun.compute.container.operations import TOO_LATE, Operations, row_of
from zun.compute.container.record import logged, recorded
from zun.compute.container.runtime_objects import RuntimeObjects, at_runtime
from zun.compute.host.holdings import Holdings
from zun.container.driver.driver import ContainerDriver
from zun.messaging.notifications import Notifier
from zun.objects import Container
from zun.objects.placement import held_plan

LOG = logging.getLogger(__name__)


class Departures:
    def __init__(
        self,
        hostname: str,
        driver: ContainerDriver,
        notifier: Notifier,
        operations: Operations,
        holdings: Holdings,
        objects: RuntimeObjects,
        most_layer: int,
    ) -> None:
        """``most_layer`` is how many bytes may move along that a container has written into its own file system."""
        self._hostname = hostname
        self._driver = driver
        self._notifier = notifier
        self._operations = operations
        self._holdings = holdings
        self._objects = objects
        self._most_layer = most_layer

    def leave(
        self,
        context: RequestContext,
        container: Container,
        *,
        discard_layer: bool,
        run: bool = False,
        host: str | None = None,
    ) -> None:
        """Stop the container and let it wait for another host, ``host`` if given, which the schedulers send it to.

        Its object and its claim stay here until it is there, or comes back. ``run`` says that it ran when this was
        accepted. Unless ``discard_layer``, what it has written into its own file system moves along, if that is little.
        One that cannot leave goes on here, and the step has the reason.
        """
        uuid, outage = container.uuid, None
        with (
            logged("let leave", uuid),
            self._operations.undisturbed(context, uuid) as current,
            recorded(context, uuid, "leave") as step,
        ):
            if current is None or current.host != self._hostname:
                raise exceptions.Conflict(TOO_LATE)
            interrupted = current.task_state == TaskState.STOPPING
            runs, stopped = current.status in RUNS or (interrupted and run), interrupted
            try:
                if not discard_layer:
                    self._packed(current)  # before it is stopped: most of what cannot move is seen now
                current.task_state = TaskState.STOPPING
                current.save(only_from=(current.status,))
                stopped = True
                self._driver.stop(current)
                layer = None if discard_layer else self._packed(current)
                self._objects.detach(current)
                generation, left = step.depart(current, self._hostname, run=runs, layer=layer)
            except db_exc.DBConnectionError as exc:  # it may have left: the step stays open, and is done again
                step.noted, outage = True, exc
            except Exception:
                self._stay(context, uuid, start=runs and stopped)
                raise
            else:
                self._holdings.departed(context, uuid, left, generation)
                LOG.info("Container %s has left for %s; what it left is %s", uuid, host or "another host", left.uuid)
                self._notifier.status_changed(context, current)
        if outage is not None:
            raise outage

    def _packed(self, container: Container) -> str | None:
        """Return what the container has written into its own file system, in base64, or None for nothing.

        Raises Conflict, with what helps, if that cannot move along.
        """
        try:
            packed = self._driver.pack_layer(container, self._most_layer)
        except exceptions.Conflict as exc:
            raise exceptions.Conflict(
                f"{exc} Move it with --discard-layer (discard_layer=true) if what it has written may be lost."
            ) from exc
        return base64.b64encode(packed).decode() or None

    def _stay(self, context: RequestContext, uuid: str, *, start: bool) -> None:
        """Let a container that could not leave go on as before, if its row says that it is here."""
        container = row_of(context, uuid)
        plan = None if container is None else held_plan(container)
        if container is None or plan is None or container.host != self._hostname:
            return
        with logged("keep", uuid):
            state = self._driver.show(container)
            if start and state is not None and not state.pid and container.status in ALLOWED["leave"]:
                with logged("start again", uuid):
                    self._objects.start(container, plan)
            container.task_state = None
            take_over(container, self._driver.show(container))
            container.save(only_from=ALLOWED["leave"])

    def keep_still(self, left: Container) -> None:
        """End the processes of what a container left here, if the engine has started it again, as at a boot."""
        container = at_runtime(left)
        state = self._driver.show(container)
        if state is not None and state.pid:
            LOG.warning("The engine has started container %s, which is on its way to another host", container.uuid)
            with logged("stop", container.uuid):
                self._driver.stop(container)
