# SPDX-License-Identifier: Apache-2.0
"""Brings the rows of this host's containers and what the runtime has together again."""

import logging
from collections.abc import Mapping, Sequence

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.kinds import Kind
from zun.common.locks import FOR_EVER
from zun.common.notifications import Notifier
from zun.common.states import Status
from zun.compute.capsules import CapsuleMembers
from zun.compute.creation import Creation
from zun.compute.operations import Operations
from zun.compute.reconcile import awaits_reboot, limited_otherwise, take_over
from zun.compute.record import logged
from zun.compute.shared_pool import SharedPool
from zun.container.driver import ContainerDriver, RuntimeState
from zun.objects import Container, ContainerActionEvent
from zun.objects.placement import held_plan
from zun.topology import CpuSet, Plan
from zun.volume.volumes import Volumes

LOG = logging.getLogger(__name__)


class Reconciler:
    def __init__(
        self,
        hostname: str,
        pool: SharedPool,
        driver: ContainerDriver,
        notifier: Notifier,
        volumes: Volumes,
        operations: Operations,
        members: CapsuleMembers,
        creation: Creation,
    ) -> None:
        self._hostname = hostname
        self._pool = pool
        self._driver = driver
        self._notifier = notifier
        self._volumes = volumes
        self._operations = operations
        self._members = members
        self._creation = creation

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
            right &= not limited_otherwise(container, state)
            if plan.dedicated and not right:
                LOG.warning(
                    "Container %s holds CPUs %s and %s MiB and has %s and %s; it gets what it holds",
                    container.uuid,
                    plan.cpus,
                    container.memory,
                    state.cpuset_cpus,
                    state.memory,
                )
                with logged("move back", container.uuid):
                    self._pool.change(container, plan, cpu=container.cpu, memory=container.memory, back=True)
        for container, plan in held:
            if not plan.dedicated:
                with logged("bring to the shared pool", container.uuid):
                    self._pool.enter(container, plan, CpuSet(runtime[container.uuid].cpuset_cpus))
                    if limited_otherwise(container, runtime[container.uuid]):
                        LOG.warning("Container %s has other limits than it holds; it gets these", container.uuid)
                        self._pool.change(container, plan, cpu=container.cpu, memory=container.memory)

    def sync(self, context: RequestContext, uuid: str, patience: float = FOR_EVER) -> bool:
        """Bring the row to what the runtime says. Returns whether the container is to be made anew, by ``rebuild``.

        Raises ContainerBusy when an operation works on it for longer than ``patience`` seconds.
        """
        with self._operations.undisturbed(context, uuid, patience) as current:
            capsule = None if current is None else current.capsule_uuid
            if capsule is None:
                return self._look_at(context, current)
        with self._operations.locks(capsule):  # a member is worked on with its capsule
            with self._operations.undisturbed(context, uuid) as current:
                heal = self._look_at(context, current)
            self._follow_member(context, capsule)
        return heal

    def _look_at(self, context: RequestContext, current: Container | None) -> bool:
        """As ``sync``, with the row as it is now."""
        if current is None or current.host != self._hostname or awaits_reboot(current):
            return False
        before = current.status
        take_over(current, self._seen(context, current))
        heal = before != current.status == Status.REBUILDING
        if heal:
            ContainerActionEvent.ask(context, current.uuid, current.project_id, "rebuild")
        try:
            self._operations.save(context, current, before)
        except exceptions.StatusChanged as exc:
            LOG.info("%s", exc)
            return False
        if current.status != before:
            LOG.info("Container %s is %s, it was %s", current.uuid, current.status, before)
            self._notifier.status_changed(context, current)
        return heal

    def _seen(self, context: RequestContext, container: Container) -> RuntimeState | None:
        """What the runtime says of it, and of a capsule what its members come to."""
        state = self._driver.show(container)
        if container.kind == Kind.CAPSULE and state is not None and state.status == Status.RUNNING:
            return self._members.seen(context, container, state)
        return state

    def _follow_member(self, context: RequestContext, uuid: str) -> None:
        """Something happened to a member of the capsule ``uuid``: take its next step, or tell what its members are."""
        if not self._creation.resume(context, uuid):
            self.sync(context, uuid)
