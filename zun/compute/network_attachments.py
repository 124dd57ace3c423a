# SPDX-License-Identifier: Apache-2.0
"""Containers join networks and leave them while they are there."""

import contextlib
import logging
from collections.abc import Iterator

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.states import TaskState
from zun.compute.networks import Networks
from zun.compute.operations import TOO_LATE, Operations
from zun.compute.record import logged, recorded
from zun.objects import Container, NetworkPort

LOG = logging.getLogger(__name__)


class NetworkAttachments:
    def __init__(self, networks: Networks, operations: Operations) -> None:
        self._networks = networks
        self._operations = operations

    def attach(self, context: RequestContext, container: Container, *, port: str) -> None:
        """Plug the container into the network of its new port. When that fails it has no such port."""
        with self._change(context, container, "network_attach", TaskState.NETWORK_ATTACHING) as failed:
            if failed is not None:
                self._withdraw(context, failed, port, leaving=True)

    def detach(self, context: RequestContext, container: Container, *, port: str) -> None:
        """Unplug the container from the networks of its ports that are leaving. When that fails it keeps them."""
        with self._change(context, container, "network_detach", TaskState.NETWORK_DETACHING) as failed:
            if failed is not None:
                self._withdraw(context, failed, port, leaving=False)

    @contextlib.contextmanager
    def _change(
        self, context: RequestContext, container: Container, action: str, task_state: TaskState
    ) -> Iterator[Container | None]:
        """Settle the container's networks; when that fails, the container, for the block to take back what was new."""
        with (
            recorded(context, container.uuid, action) as step,
            self._operations.task(context, container.uuid, task_state) as current,
        ):
            if current is None:
                step.failed(TOO_LATE)
                yield None
                return
            try:
                self._networks.settle(context, current)
            except exceptions.ZunError as exc:
                step.failed(exc)
                LOG.warning("Container %s: %s failed: %s", current.uuid, action, exc)
                yield current
            else:
                yield None

    def settle(self, context: RequestContext, container: Container) -> None:
        """Bring the networks of the container to what its ports say: an interrupted operation may have stopped between.

        A failure is in the log; the next comparison tries again.
        """
        with (
            logged("settle the networks of", container.uuid),
            self._operations.task(context, container.uuid, TaskState.NETWORK_ATTACHING) as current,
        ):
            if current is not None:
                self._networks.settle(context, current)

    def _withdraw(self, context: RequestContext, container: Container, port: str, *, leaving: bool) -> None:
        """Take back what could not be done about ``port``: it goes, or it stays after all."""
        for each in NetworkPort.list_by_container(context, container.uuid):
            if each.uuid == port:
                each.leaving = leaving
                each.save()
        with logged("take back the change of the networks of", container.uuid):
            self._networks.settle(context, container)
