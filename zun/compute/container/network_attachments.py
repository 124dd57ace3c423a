# SPDX-License-Identifier: Apache-2.0
"""Attach existing containers to networks and detach them."""

import contextlib
import logging
from collections.abc import Collection, Iterator
from dataclasses import replace

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.states import TaskState
from zun.compute.container.networks import Networks, former_functions
from zun.compute.container.operations import TOO_LATE, Operations
from zun.compute.container.record import logged, recorded
from zun.compute.host.compute_node_tracker import ComputeNodeTracker
from zun.compute.host.holdings import Holdings
from zun.objects import Container, NetworkPort
from zun.objects.placement import cpuset_record, held_plan
from zun.topology import Plan
from zun.topology.device_request import port_of

LOG = logging.getLogger(__name__)


class NetworkAttachments:
    def __init__(
        self, hostname: str, networks: Networks, operations: Operations, tracker: ComputeNodeTracker, holdings: Holdings
    ) -> None:
        self._hostname = hostname
        self._networks = networks
        self._operations = operations
        self._tracker = tracker
        self._holdings = holdings

    def attach(self, context: RequestContext, container: Container, *, port: str) -> None:
        """Plug the container into the network of its new port. If this fails, remove the port."""
        with self._change(context, container, "network_attach", TaskState.NETWORK_ATTACHING) as failed:
            if failed is not None:
                self.withdraw(context, failed, port, leaving=True)

    def detach(self, context: RequestContext, container: Container, *, port: str) -> None:
        """Unplug the container from the networks of its leaving ports. If this fails, the ports stay."""
        with self._change(context, container, "network_detach", TaskState.NETWORK_DETACHING) as failed:
            if failed is not None:
                self.withdraw(context, failed, port, leaving=False)

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
                self._settle(context, current)
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
                self._settle(context, current)

    def _settle(self, context: RequestContext, container: Container) -> None:
        """Plug the container into the networks of its ports, and give back the virtual functions of former ports."""
        ports = NetworkPort.list_by_container(context, container.uuid)
        plan = held_plan(container)
        self._check_files(plan, [each for each in ports if each.leaving])
        former = former_functions(plan, [each for each in ports if not each.leaving])
        self._networks.settle(context, container, ports)
        if plan is None or not former:
            return
        less = replace(plan, devices=tuple(each for each in plan.devices if each not in former))
        names = {each.name for each in former}
        asked = [each for each in container.placement["devices"] if each["name"] not in names]
        container.placement = {**container.placement, "devices": asked}
        container.cpuset = cpuset_record(less, self._tracker.topology)
        generation = container.save_changed_claim(self._hostname)
        self._tracker.hold(container.uuid, less)
        self._holdings.tell(context, container, generation)
        LOG.info("Container %s gave back %s", container.uuid, ", ".join(each.address for each in former))

    def _check_files(self, plan: Plan | None, leaving: Collection[NetworkPort]) -> None:
        """Raise Conflict, and keep the port, if the container would keep files of a virtual function without its port.
        """
        files = {each.address: each.nodes for each in self._tracker.topology.devices}
        slots = {port_of(each.name): each.address for each in (plan.devices if plan else ())}
        for port in leaving:
            if nodes := files.get(slots.get(port.uuid, "")):
                port.leaving = False
                port.save()
                raise exceptions.Conflict(
                    f"Port {port.uuid} cannot be detached: its virtual function {slots[port.uuid]} gives the container "
                    f"{', '.join(nodes)}, which nobody can take from it. Delete the container instead."
                )

    def withdraw(self, context: RequestContext, container: Container, port: str, *, leaving: bool) -> None:
        """Undo a failed change of ``port``: remove the port if ``leaving``, else keep it."""
        for each in NetworkPort.list_by_container(context, container.uuid):
            if each.uuid == port:
                each.leaving = leaving
                each.save()
        with logged("take back the change of the networks of", container.uuid):
            self._networks.settle(context, container)
