# SPDX-License-Identifier: Apache-2.0
"""Attach existing containers to networks and detach them."""

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
        """Plug the container into the network of its new port. If this fails, remove the port."""
        with self._change(context, container, "network_attach", TaskState.NETWORK_ATTACHING) as failed:
            if failed is not None:
                self._withdraw(context, failed, port, leaving=True)

    def detach(self, context: RequestContext, container: Container, *, port: str) -> None:
        """Unplug the container from the networks of its leaving ports. If this fails, the ports stay."""
        with self._change(context, container, "network_detach", TaskState.NETWORK_DETACHING) as failed:
            if failed is not None:
                self._withdraw(context, failed, port, leaving=False)

    @contextlib.contextmanager
    def _change(
        self, context: RequestContext, container: Container, action: str, task_state: TaskState
    ) -> Iterator[Container | None]:
        """Settle the container's networks. Yield None, or after a failure the container, for the body to undo."""
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
        """Plug the container into the networks of its ports, after an interrupted operation for example.

        A failure is logged; the next comparison tries again.
        """
        with (
            logged("settle the networks of", container.uuid),
            self._operations.task(context, container.uuid, TaskState.NETWORK_ATTACHING) as current,
        ):
            if current is not None:
                self._networks.settle(context, current)

    def _withdraw(self, context: RequestContext, container: Container, port: str, *, leaving: bool) -> None:
        """Undo a failed change of ``port``: remove the port if ``leaving``, else keep it."""
        for each in NetworkPort.list_by_container(context, container.uuid):
            if each.uuid == port:
                each.leaving = leaving
                each.save()
        with logged("take back the change of the networks of", container.uuid):
            self._networks.settle(context, container)
