# SPDX-License-Identifier: Apache-2.0
"""Bring the rows of this host's containers and the objects at the runtime into agreement."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.states import STEADY, Kind, Status
from zun.compute.container.capsules import CapsuleMembers
from zun.compute.container.creation import Creation
from zun.compute.container.device_rules import given_to, reason_now
from zun.compute.container.operations import Operations
from zun.compute.container.reconcile_rules import awaits_reboot, limited_otherwise, take_over
from zun.compute.container.record import logged
from zun.compute.container.runtime_objects import RuntimeObjects
from zun.compute.host.shared_pool import SharedPool
from zun.compute.kept.records import Records
from zun.container.driver.driver import ContainerDriver
from zun.container.driver.state import RuntimeState
from zun.messaging.notifications import Notifier
from zun.objects import Container, ContainerActionEvent
from zun.objects.base import naive
from zun.objects.placement import held_plan
from zun.topology import CpuSet, Plan
from zun.volume.volumes import Volumes

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Seen:
    """The result of a look: ``to_rebuild``, or the ``capsule`` with which the container is to be looked at."""

    to_rebuild: bool = False
    capsule: str | None = None


class Reconciler:
    def __init__(
        self,
        hostname: str,
        *,
        pool: SharedPool,
        driver: ContainerDriver,
        notifier: Notifier,
        volumes: Volumes,
        operations: Operations,
        members: CapsuleMembers,
        creation: Creation,
        objects: RuntimeObjects,
        records: Records,
    ) -> None:
        self._hostname = hostname
        self._pool = pool
        self._driver = driver
        self._notifier = notifier
        self._volumes = volumes
        self._operations = operations
        self._members = members
        self._creation = creation
        self._objects = objects
        self._records = records

    def restore(
        self, containers: Sequence[Container], runtime: Mapping[str, RuntimeState], lost: Mapping[str, Plan]
    ) -> None:
        """Bring what exists at the runtime to what its row holds: an interrupted resize may have left more, or less.

        ``lost`` is what those hold whose rows do not say it.

        Nobody may claim anything before this is done. First the dedicated containers, so that they leave what they do
        not hold, then the shared ones, which may then be told to run there. What cannot be brought back is logged and
        left to the audit: one container must not keep the service from starting.
        """
        for container in containers:
            if container.uuid in runtime:
                self._volumes.restore(container)
        plans = [(each, held_plan(each) or lost.get(each.uuid)) for each in containers if each.uuid in runtime]
        held = [(each, plan) for each, plan in plans if plan is not None]
        for container, plan in held:
            state = runtime[container.uuid]
            right = CpuSet(state.cpuset_cpus) == plan.cpus and CpuSet(state.cpuset_mems) == plan.mems
            memory = self._pool.ordinary_memory(plan, container.memory)
            right &= not limited_otherwise(container, state, memory)
            if not plan.uses_pool and not right:
                LOG.warning(
                    "Container %s holds CPUs %s and %s MiB and has %s and %s; it gets what it holds",
                    container.uuid,
                    plan.cpus,
                    memory,
                    state.cpuset_cpus,
                    state.memory,
                )
                with logged("move back", container.uuid):
                    self._pool.change(container, plan, cpu=container.cpu, memory=container.memory, back=True)
        for container, plan in held:
            with logged("limit the huge pages of", container.uuid):
                self._pool.limit_pages(container, plan, runtime[container.uuid])
        for container, plan in held:
            if plan.uses_pool:
                with logged("bring to the shared pool", container.uuid):
                    self._pool.enter(container, plan, CpuSet(runtime[container.uuid].cpuset_cpus))
                    if limited_otherwise(container, runtime[container.uuid], container.memory):
                        LOG.warning("Container %s has other limits than it holds; it gets these", container.uuid)
                        self._pool.change(container, plan, cpu=container.cpu, memory=container.memory)

    def sync(self, context: RequestContext, uuid: str) -> bool:
        """Look at a container, or at a member and then its capsule. Returns whether to ``rebuild`` the container."""
        seen = self.look(context, uuid)
        return seen.to_rebuild if seen.capsule is None else self.look_at_member(context, uuid, seen.capsule)

    def look(self, context: RequestContext, uuid: str) -> Seen:
        """Bring the row of a container to what the runtime says.

        Nothing is done about a member of a capsule: ``look_at_member`` needs the turn of the capsule first.
        """
        with self._operations.undisturbed(context, uuid) as current:
            if current is not None and current.capsule_uuid is not None:
                return Seen(capsule=current.capsule_uuid)
            return Seen(self._look_at(context, current))

    def look_at_member(self, context: RequestContext, uuid: str, capsule: str) -> bool:
        """Bring the row of a member to what the runtime says, and take the next step of its capsule.

        Returns whether to ``rebuild`` the member.
        """
        with self._operations.queues.turn(capsule):  # the capsule's creation works on its members as well
            with self._operations.undisturbed(context, uuid) as current:
                to_rebuild = self._look_at(context, current)
            if not self._creation.resume(context, capsule):
                self.look(context, capsule)
        return to_rebuild

    def _look_at(self, context: RequestContext, current: Container | None) -> bool:
        if current is None or current.host != self._hostname or awaits_reboot(current):
            return False
        before, state = current.status, self._seen(context, current)
        wrong = self._limited(current, state)
        if wrong is not None:
            state = self._seen(context, current)
        take_over(current, state)
        if wrong is not None and current.status != before:
            current.status_reason = wrong
        self._look_at_devices(current)
        heal = before != current.status == Status.REBUILDING
        if heal:
            ContainerActionEvent.ask(context, current.uuid, current.project_id, "rebuild")
        try:
            self._operations.save(context, current, before)
        except exceptions.StatusChanged as exc:
            LOG.info("%s", exc)
            return False
        if current.status != Status.DELETED:
            self._records.keep_whole(context, current)
        if current.status != before:
            LOG.info("Container %s is %s, it was %s", current.uuid, current.status, before)
            self._notifier.status_changed(context, current)
        return heal

    def _limited(self, container: Container, state: RuntimeState | None) -> str | None:
        """Limit the huge pages of a process that the runtime started by itself: its control group is a new one.

        A process that has already taken pages of others is ended. Returns why, or None.
        """
        plan = held_plan(container)
        if plan is None or state is None or naive(container.started_at) == state.started_at:
            return None
        with logged("limit the huge pages of", container.uuid):
            try:
                self._pool.limit_pages(container, plan, state)
            except exceptions.Conflict as exc:
                LOG.warning("Container %s is ended: %s", container.uuid, exc)
                self._driver.kill(container)
                return str(exc)
        return None

    def _look_at_devices(self, container: Container) -> None:
        """Let the row tell of devices that are gone, and give a container its interfaces again.

        The kernel took the interfaces back if the runtime has started the container anew.
        """
        plan = held_plan(container)
        if plan is None or not given_to(container, plan):
            return
        if container.status not in STEADY or container.task_state is not None:
            return
        devices = self._objects.devices(container, plan)
        container.status_reason = reason_now(container.status_reason, devices)
        if container.status == Status.RUNNING:
            with logged("move network interfaces into", container.uuid):
                self._driver.join_interfaces(container, devices)

    def _seen(self, context: RequestContext, container: Container) -> RuntimeState | None:
        """Return the runtime's state of a container. A running capsule has the status of its members."""
        state = self._driver.show(container)
        if container.kind == Kind.CAPSULE and state is not None and state.status == Status.RUNNING:
            return self._members.seen(context, container, state)
        return state
