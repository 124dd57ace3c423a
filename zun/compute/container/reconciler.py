# SPDX-License-Identifier: Apache-2.0
"""Bring the rows of this host's containers and the objects at the runtime into agreement."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.states import STEADY, Kind, Status
from zun.compute.container.capsules import CapsuleMembers
from zun.compute.container.device_rules import given_to, reason_now
from zun.compute.container.observed import limited_otherwise, observed
from zun.compute.container.operations import Operations
from zun.compute.container.prober import Prober
from zun.compute.container.record import logged
from zun.compute.container.runtime_objects import RuntimeObjects, at_runtime
from zun.compute.host.shared_pool import SharedPool
from zun.compute.kept.records import Records
from zun.container.driver.driver import ContainerDriver
from zun.container.driver.state import RuntimeState
from zun.messaging.notifications import Notifier
from zun.objects import Container
from zun.objects.base import naive
from zun.objects.placement import held_plan
from zun.topology import CpuSet, Plan
from zun.volume.volumes import Volumes

LOG = logging.getLogger(__name__)


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
        objects: RuntimeObjects,
        records: Records,
        prober: Prober,
    ) -> None:
        self._hostname = hostname
        self._pool = pool
        self._driver = driver
        self._notifier = notifier
        self._volumes = volumes
        self._operations = operations
        self._members = members
        self._objects = objects
        self._records = records
        self._prober = prober

    def restore(
        self, containers: Sequence[Container], runtime: Mapping[str, RuntimeState], lost: Mapping[str, Plan]
    ) -> None:
        """Bring what exists at the runtime to what its row holds: an interrupted resize may have left more, or less.

        ``lost`` is what those hold whose rows do not say it.

        Nobody may claim anything before this is done. First the dedicated containers, so that they leave what they do
        not hold, then the shared ones, which may then be told to run there. What cannot be brought back is logged and
        left to the audit: one container must not keep the service from starting.
        """
        for container in map(at_runtime, containers):
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

    def compare(
        self, context: RequestContext, container: Container, state: RuntimeState | None, wrong: Mapping[str, Any]
    ) -> None:
        """Bring the row of a container to ``state``, what the runtime shows. ``wrong`` are its columns that differ."""
        before = container.status
        ended = self._limited(container, state)
        if ended is not None:
            wrong = observed(container, self.seen(context, container))
        for name, value in wrong.items():
            setattr(container, name, value)
        if ended is not None and container.status != before:
            container.status_reason = ended
        self._look_at_devices(container)
        try:
            if before != container.status == Status.REBUILDING:
                container.save_healing((before,))
            else:
                self._operations.save(context, container, before)
        except exceptions.StatusChanged as exc:
            LOG.info("%s", exc)
            return
        if container.status != Status.DELETED:
            self._records.keep_whole(context, container)
        if container.status != before:
            LOG.info("Container %s is %s, it was %s", container.uuid, container.status, before)
            self._notifier.status_changed(context, container)

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

    def seen(self, context: RequestContext, container: Container) -> RuntimeState | None:
        """Return the runtime's state of a container. A running capsule has the status of its members."""
        state = self._driver.show(container)
        if container.kind == Kind.CAPSULE and state is not None and state.status == Status.RUNNING:
            return self._members.seen(context, container, state)
        return state if container.kind != Kind.MEMBER else self._prober.seen(container, state)
