# SPDX-License-Identifier: Apache-2.0
"""Change the claim of a container, because a user asks or the machine has changed."""

import contextlib
import logging
import time
from collections.abc import Mapping
from typing import Any, Unpack

from zun.common import exceptions, metrics, states
from zun.common.context import RequestContext
from zun.common.departures import uuid_of_left
from zun.common.naming import named
from zun.compute.audit import audit_rules
from zun.compute.container import move_rules
from zun.compute.container.capsules import resized_member
from zun.compute.container.operations import PATIENCE, Operations, row_of
from zun.compute.container.record import logged, recorded
from zun.compute.container.resize_rules import Resize
from zun.compute.container.runtime_objects import RuntimeObjects
from zun.compute.host.compute_node_tracker import ComputeNodeTracker
from zun.compute.host.holdings import Holdings
from zun.compute.host.shared_pool import SharedPool
from zun.compute.kept.recovery_rules import is_lost
from zun.container.driver.driver import ContainerDriver
from zun.container.driver.state import RuntimeState
from zun.messaging.compute_api import Size
from zun.messaging.notifications import Notifier
from zun.objects import Container
from zun.objects.placement import cpuset_record, held_plan
from zun.topology import CpuSet, Plan
from zun.topology.rearrange import Move

LOG = logging.getLogger(__name__)


class Resizer:
    def __init__(
        self,
        hostname: str,
        tracker: ComputeNodeTracker,
        pool: SharedPool,
        driver: ContainerDriver,
        notifier: Notifier,
        operations: Operations,
        holdings: Holdings,
        objects: RuntimeObjects,
    ) -> None:
        self._hostname = hostname
        self._tracker = tracker
        self._pool = pool
        self._driver = driver
        self._notifier = notifier
        self._operations = operations
        self._holdings = holdings
        self._objects = objects

    def update(
        self,
        context: RequestContext,
        container: Container,
        *,
        cpu: float | None = None,
        memory: int | None = None,
        cpu_policy: str | None = None,
        keep_cpus: str = "",
        quota: Mapping[str, int] | None = None,
        patience: float | None = None,
    ) -> Container:
        """Change CPUs, memory or CPU policy of a container, running or not, on the cells it is on, as a ``Size`` says.

        New CPUs are claimed and emptied before they are used, old ones given back after they were left. When a step
        fails everything is as before. Raises ClaimRefused when the host has not got what is wanted, and with ``quota``
        OverQuota when the project may not have it. Raises ContainerBusy when another operation works on it for longer
        than ``patience`` seconds.
        """
        turn = self._operations.undisturbed(context, container.uuid, patience, capsule=container.capsule_uuid)
        with turn as current:
            if current is None:
                raise exceptions.ContainerNotFound(container=container.uuid)
            states.check_action("update", current)
            if current.capsule_uuid is not None:
                self._update_member(context, current, cpu, memory)
                return current
            resize = Resize.of(current, cpu, memory, cpu_policy, CpuSet(keep_cpus))
            self._settle(current, resize.old)
            new = self._tracker.resize(current.uuid, resize.request, resize.keep)
            self._carry_out(context, current, resize, new, quota)
            return current

    def _update_member(
        self, context: RequestContext, member: Container, cpu: float | None, memory: int | None
    ) -> None:
        """Change what a container has of its capsule's claim, which stays as it is. No scheduler is asked.

        When a step fails everything is as before.
        """
        capsule = Container.get_by_uuid(context, str(member.capsule_uuid))
        members = Container.list_by_capsule(context, capsule.uuid)
        group = [each for each in members if each.kind == states.Kind.MEMBER]
        size = member.cpu, member.memory
        cpu, memory = size[0] if cpu is None else cpu, size[1] if memory is None else memory
        new, old = resized_member(self._tracker.topology, capsule, group, member, cpu, memory), held_plan(member)
        assert old is not None  # else there is no new one
        try:
            self._pool.change(member, new, cpu=cpu, memory=memory)
            self._objects.check(member, new)
            member.cpu, member.memory, member.cpuset = cpu, memory, cpuset_record(new, self._tracker.topology)
            member.save()
        except exceptions.ZunError:
            with logged("undo the resize of", member.uuid), contextlib.suppress(exceptions.ContainerVanished):
                self._pool.change(member, old, cpu=size[0], memory=size[1], back=True)
            raise
        LOG.info("Container %s runs on CPUs %s with %s MiB of its capsule's", member.uuid, new.cpus, memory)

    def _carry_out(
        self,
        context: RequestContext,
        current: Container,
        resize: Resize,
        new: Plan,
        quota: Mapping[str, int] | None = None,
    ) -> None:
        """Let the container run on ``new``, which it holds beside its old claim, and then hold nothing else.

        When a step fails everything is as before.
        """
        try:
            with self._holdings.claiming(current, new):
                self._apply(current, resize, new)
                current.cpu, current.memory = resize.cpu, resize.memory
                current.cpuset = cpuset_record(new, self._tracker.topology)
                generation = current.save_changed_claim(self._hostname, quota)
        except exceptions.ZunError:
            self._undo(current, resize)
            raise
        # After any other error nobody knows what its row says now: it holds both until ``settle`` has read it.
        self._tracker.hold(current.uuid, new)
        with logged("widen the shared pool after the change of", current.uuid):
            self._pool.settle()
        self._holdings.tell(context, current, generation)
        LOG.info("Container %s is %s on CPUs %s with %s MiB", current.uuid, resize.policy, new.cpus, resize.memory)

    def resize(self, context: RequestContext, container: Container, **size: Unpack[Size]) -> None:
        """Do as ``update`` for a caller that does not wait. A failure is recorded and leaves everything as it was."""
        with logged("resize", container.uuid), recorded(context, container.uuid, "resize_container", "resize"):
            self.update(context, container, **size)

    def move(self, context: RequestContext, container: Container, cpuset: Mapping[str, Any]) -> None:
        """Move the container, running or not, to the plan ``cpuset`` on this host, and its memory with it.

        It holds both claims until the kernel runs it on the new CPUs and has its memory on the new nodes; when a step
        fails everything is as before. A failure is recorded: the plan is not free any more, a program of the container
        has chosen CPUs by itself, or memory stays on the old nodes.
        """
        uuid = container.uuid
        with (
            logged("move", uuid),
            recorded(context, uuid, "move"),
            self._operations.undisturbed(context, uuid) as current,
        ):
            if current is None:
                raise exceptions.ContainerNotFound(container=uuid)
            states.check_action("move", current)
            stay = Resize.of(current, None, None, None)
            new = move_rules.planned(stay.old, cpuset)
            self._settle(current, stay.old)
            if move_rules.is_at(stay.old, new):
                return  # a service that was killed has moved it
            try:
                self._check_inside(current)
                self._tracker.move(uuid, new)
            except exceptions.ZunError:
                self._put_back(current, stay)  # of a move that a killed service has begun
                raise
            began = time.monotonic()
            self._carry_out(context, current, stay, new)
            metrics.MOVED_MIB.inc(Move(uuid, stay.old, new).mib)
            metrics.MOVE_SECONDS.observe(time.monotonic() - began)
            self._notifier.moved(context, current)

    def _check_inside(self, container: Container) -> None:
        """Raise Conflict if threads of the container have chosen CPUs or memory nodes among its own by themselves.

        The kernel would let such a thread run anywhere on the new CPUs, which its program does not expect.
        """
        state = self._running(container)
        view = None if state is None else self._driver.pinning_view(container, state)
        if view is not None and (chosen := audit_rules.self_pinned(view)) is not None:
            raise exceptions.Conflict(
                f"Container {named(container)} is not moved, since its program has chosen among its CPUs and would "
                f"lose the choice: {chosen}. Stop the container, and move it then; or move another."
            )

    def _running(self, container: Container) -> RuntimeState | None:
        """Return the state of a container that has a process, or None."""
        state = self._driver.show(container)
        return state if state is not None and state.pid else None

    def _put_back(self, container: Container, stay: Resize) -> None:
        state = self._driver.show(container)
        if state is not None and CpuSet(state.cpuset_cpus) != stay.old.cpus:
            self._undo(container, stay)

    def settle(self, context: RequestContext, uuid: str) -> None:
        """Let the container hold here what its row says, and run there: a change of that was neither done nor undone.

        A failure of the runtime is in the log; the next comparison tries again.
        """
        with self._operations.undisturbed(context, uuid) as current, logged("settle what is held by", uuid):
            plan = None if current is None or current.host != self._hostname else held_plan(current)
            if current is not None and plan is not None:
                self._holdings.returned(context, current)
                self._settle(current, plan)
                return
            left = row_of(context, uuid_of_left(uuid, self._hostname))
            if left is not None and left.host == self._hostname:
                self._holdings.departed(context, uuid, left, self._tracker.generation)
            elif left is None and self._tracker.usage.claim(uuid_of_left(uuid, self._hostname)) is not None:
                self._holdings.released(context, uuid_of_left(uuid, self._hostname), None)
            elif not self._tracker.disagrees(uuid, None) or (current is None and self._has_come_back(context, uuid)):
                return
            elif self._objects.remove_evacuated(context, self._hostname, [uuid]):
                self._holdings.released(context, uuid, None)
            elif self._has_lost(current):
                LOG.info("Container %s keeps what its row has lost; the audit tells of it", uuid)
            else:
                LOG.warning("Container %s holds nothing of this host any more, as its row says", uuid)
                self._holdings.released(context, uuid, None)

    def _has_come_back(self, context: RequestContext, left: str) -> bool:
        """Return whether a container of this host has left ``left`` here. Then it takes the claim in its own turn."""
        here = Container.list_by_host(context, self._hostname)
        return any(uuid_of_left(each.uuid, self._hostname) == left for each in here)

    def _has_lost(self, container: Container | None) -> bool:
        if container is None or container.host != self._hostname:
            return False
        return is_lost(container, self._driver.show(container))

    def _settle(self, container: Container, plan: Plan) -> None:
        if not self._tracker.disagrees(container.uuid, plan):
            return
        LOG.warning("Container %s holds CPUs %s, as its row says, and nothing else", container.uuid, plan.cpus)
        held = self._tracker.usage.claim(container.uuid)
        if held is None:
            self._tracker.hold(container.uuid, plan, container)
        with contextlib.suppress(exceptions.ContainerVanished):
            self._pool.change(container, plan, cpu=container.cpu, memory=container.memory, back=held == plan)
        self._tracker.hold(container.uuid, plan)  # now: until then it may have run on more
        with logged("widen the shared pool after", container.uuid):
            self._pool.settle()

    def _apply(self, container: Container, resize: Resize, new: Plan) -> None:
        """Move the container to ``new``, and check the move in the kernel. It holds the old plan meanwhile."""
        container.cpu_policy = resize.policy
        self._pool.change(container, new, cpu=resize.cpu, memory=resize.memory)
        self._objects.check(container, new)
        if not resize.old.mems <= new.mems:
            self._check_memory(container, new)

    def _check_memory(self, container: Container, new: Plan) -> None:
        """Raise Conflict if memory of the container is on other nodes than those of ``new``."""
        state = self._running(container)
        if state is None:
            return
        if (view := self._driver.pinning_view(container, state)) is not None:
            move_rules.check_memory(new.mems, view.anonymous)
        huge = self._driver.huge_pages(container, state) if new.pages else None
        if huge is not None and huge.used is not None:  # an old kernel does not count them by node
            move_rules.check_huge_pages(new.mems, huge.used)

    def _undo(self, container: Container, resize: Resize) -> None:
        """Put the container back on the plan before, which is still held."""
        container.cpu_policy = str(resize.old.cpu_policy)
        with logged("undo the resize of", container.uuid):
            with contextlib.suppress(exceptions.ContainerVanished):  # it runs nowhere
                self._pool.change(container, resize.old, cpu=resize.old_cpu, memory=resize.old_memory, back=True)
            # Not before: it may run on the new CPUs as long as nobody knows that it left them.
            self._tracker.hold(container.uuid, resize.old)
        with logged("widen the shared pool after the resize of", container.uuid):
            self._pool.settle()

    def keep_up(self, context: RequestContext) -> None:
        """Let claims hold the CPUs that came online since and that their cores, or their isolation, keep."""
        for uuid in self._tracker.usage.owners:
            grown = self._tracker.keep_up(uuid)
            if grown is None:
                continue
            old, new = grown
            try:
                self._keep_up(context, uuid, new)
            except Exception as exc:
                if self._tracker.usage.claim(uuid) == new:
                    self._tracker.hold(uuid, old)  # which is what the row says; the next time tries again
                if not isinstance(exc, exceptions.ContainerBusy):
                    raise
                LOG.info("CPUs %s are not kept idle yet: %s", new.withheld, exc)

    def _keep_up(self, context: RequestContext, uuid: str, new: Plan) -> None:
        self._pool.settle()
        with self._operations.undisturbed(context, uuid, PATIENCE) as current:
            if current is None or current.host != self._hostname or self._tracker.usage.claim(uuid) != new:
                return  # it has gone or changed while this waited for it
            current.cpuset = cpuset_record(new, self._tracker.topology)
            self._holdings.tell(context, current, current.save_changed_claim(self._hostname))
        LOG.info("Container %s keeps CPUs %s, which are online now, from others", uuid, new.withheld)
