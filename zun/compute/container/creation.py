# SPDX-License-Identifier: Apache-2.0
"""Create a container: from a scheduler's plan to a container that runs there, or to an error and nothing held.

It may run twice for one container: after a crash, or because a message came twice. What is held is committed to the row
before the runtime is touched.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from oslo_db import exception as db_exc

from zun.common import exceptions, metrics
from zun.common.context import RequestContext
from zun.common.departures import uuid_of_left
from zun.common.disk_pools import DiskPool
from zun.common.states import Kind, Status, TaskState
from zun.compute.container.capsules import CapsuleMembers
from zun.compute.container.claims import Claim
from zun.compute.container.networks import Networks, networks_of
from zun.compute.container.observed import never_made, take_over
from zun.compute.container.operations import Operations, key_of
from zun.compute.container.record import Begun, event_of, recorded, unexpected
from zun.compute.container.runtime_objects import RuntimeObjects
from zun.compute.host.compute_node_tracker import ComputeNodeTracker
from zun.compute.host.engine_watch import EngineWatch
from zun.compute.host.holdings import Holdings
from zun.compute.work.queue import QueueBusy
from zun.container.driver.driver import ContainerDriver
from zun.messaging.notifications import Notifier
from zun.messaging.scheduler_api import SchedulerAPI
from zun.objects import ComputeNode, Container
from zun.objects.container import Claimed, Claiming
from zun.objects.placement import ATTEMPT_KEY, PERMIT_KEY, cpuset_record, disk_promised, held_plan
from zun.topology import Plan

LOG = logging.getLogger(__name__)

_ELSEWHERE = (
    exceptions.Invalid,
    exceptions.ContainerNotFound,
    exceptions.ContainerVanished,
    exceptions.VolumeRefused,
)
"""Errors that say nothing about the host. A service that does not answer may be one that only this host cannot reach:
without a count the host would get one container after the other to fail with."""

LOST = (
    "Its creation was interrupted, and its record does not say any more which resources of its host it was to have. "
    "Delete it, and create it anew."
)


class Order(NamedTuple):
    """One container to create here, asked for in ``context``.

    ``limits`` has the plan in ``cpuset`` and what else the claim must keep to. ``alternates`` and ``tried`` go back to
    the schedulers with a refusal.
    """

    context: RequestContext
    container: Container
    limits: Mapping[str, Any]
    alternates: Sequence[Mapping[str, Any]]
    tried: Mapping[str, str]

    @classmethod
    def of(cls, context: RequestContext, container: Container, order: Mapping[str, Any]) -> Order:
        """Return the order for ``container`` of a message ``create_many`` that was sent in ``context``."""
        own = order.get("context")
        who = context if own is None else RequestContext.from_dict(own, overwrite=False)
        return cls(who, container, order["limits"], order["alternates"], order["tried"])


Later = Callable[[str, Callable[[], bool]], object]
"""Takes what is left to do for the container of a uuid. It is to be done in the container's turn."""


def _never(uuid: str, work: Callable[[], bool]) -> None:
    raise AssertionError(f"nothing is left to do for {uuid}: there was one order")


@dataclass(slots=True, eq=False)
class _Attempt:
    """One order on its way to a committed claim. ``by_default``: its container got its disk here."""

    order: Order
    began: float
    by_default: bool
    pool: DiskPool | None = None
    claim: Claim | None = None
    claimed: Claimed | None = None
    error: exceptions.ZunError | None = None

    def end(self, error: BaseException | None) -> None:
        """Give the claim back if one of our own errors kept it from being committed. After any other nobody knows."""
        if self.claim is not None and isinstance(error, exceptions.ZunError):
            self.claim.abort()


class Creation:
    def __init__(
        self,
        hostname: str,
        *,
        tracker: ComputeNodeTracker,
        driver: ContainerDriver,
        engine: EngineWatch,
        scheduler_api: SchedulerAPI,
        notifier: Notifier,
        networks: Networks,
        operations: Operations,
        holdings: Holdings,
        objects: RuntimeObjects,
        members: CapsuleMembers,
    ) -> None:
        self._hostname = hostname
        self._tracker = tracker
        self._driver = driver
        self._engine = engine
        self._scheduler_api = scheduler_api
        self._notifier = notifier
        self._networks = networks
        self._operations = operations
        self._holdings = holdings
        self._objects = objects
        self._members = members

    def create(self, orders: Sequence[Order], later: Later = _never) -> bool:
        """Claim for all ``orders`` together, and create the container of the first one.

        Each container is created, started if asked, and seen in the kernel to run where it was planned. ``later`` gets
        what is left to do for every other container.

        Returns whether it was done for the first, or refused: False if it has a claim on this host already.
        """
        first, *others = {each.container.uuid: each for each in orders}.values()
        uuid = first.container.uuid
        with self._operations.queue.turn(key_of(uuid)):
            with contextlib.ExitStack() as turns:
                mine = [first]
                for each in others:
                    try:
                        turns.enter_context(self._operations.queue.turn(key_of(each.container.uuid), patience=0))
                        mine.append(each)
                    except QueueBusy:  # its message came twice
                        later(each.container.uuid, functools.partial(self.create, [each]))
                left = self._claim(mine)
            for each in mine[1:]:
                later(each.container.uuid, left[each.container.uuid])
            return left[uuid]()

    def _claim(self, orders: Sequence[Order]) -> dict[str, Callable[[], bool]]:
        """Commit the claims that fit, and give every other container back. Return what is left to do, by uuid."""
        context = orders[0].context  # for what is done once for all of them
        left: dict[str, Callable[[], bool]] = {}
        attempts: list[_Attempt] = []
        for order in orders:
            uuid = order.container.uuid
            if self._tracker.usage.claim(uuid) is not None:
                LOG.info("Container %s is on this host already: its message came twice", uuid)
                left[uuid] = lambda: False
            else:
                attempts.append(_Attempt(order, time.monotonic(), self._set_default_disk(order.container)))
        try:
            self._hold(context, attempts)
            fit = [(each.order.container, each.claim.plan) for each in attempts if each.claim is not None]
            with self._holdings.claiming_many(fit) as refused:
                for each in attempts:
                    each.error = refused.get(each.order.container.uuid, each.error)
                self._commit(context, [each for each in attempts if each.error is None])
        except BaseException as exc:
            for each in attempts:
                each.end(exc)
            raise
        for each in attempts:
            each.end(each.error)
        for attempt in sorted(attempts, key=lambda each: each.error is not None):  # what was claimed is told together
            left[attempt.order.container.uuid] = self._end_claim(attempt)
        return left

    def _hold(self, context: RequestContext, attempts: Sequence[_Attempt]) -> None:
        """Let each container hold its resources here until they are committed, or note why it cannot."""
        pool = None
        try:
            self._see_engine(context)
            if any(disk_promised(each.order.container) for each in attempts):
                pool = ComputeNode.disk_pool(context, self._hostname)
        except exceptions.ClaimRefused as exc:
            for each in attempts:
                each.error = exc
            return
        for each in attempts:
            each.error = self._departed(each.order.container.uuid)
            each.pool = pool if disk_promised(each.order.container) else None
        fit = [each for each in attempts if each.error is None]
        asked = [(each.order.container, each.order.limits) for each in fit]
        for each, claim in zip(fit, self._tracker.container_claims(asked, own_disk=pool is None), strict=True):
            if isinstance(claim, Claim):
                each.claim = claim
            else:
                each.error = claim

    def _commit(self, context: RequestContext, attempts: Sequence[_Attempt]) -> None:
        """Write the claims to the rows, in one transaction, and that the creations begin. Note the outcome of each.

        If the database does not say whether the claims are written, they are kept until their containers are looked at
        again. Whether one more of a group may be here, which host has a volume, and how much the disk pool has left, is
        known for certain only now.
        """
        if not attempts:
            return
        claims = []
        for each in attempts:
            container = each.order.container
            assert each.claim is not None
            container.cpuset = cpuset_record(each.claim.plan, self._tracker.topology)
            container.task_state = TaskState.CREATING
            pool = None if each.pool is None else each.pool.uuid
            step = (each.order.context.request_id, "create", event_of("create"))
            claims.append(Claiming(container, step, pool, each.order.limits.get(PERMIT_KEY)))
        for each, outcome in zip(attempts, Container.save_claims(context, self._hostname, claims), strict=True):
            if isinstance(outcome, exceptions.ZunError):
                each.error = outcome
            else:
                each.claimed = outcome

    def _end_claim(self, attempt: _Attempt) -> Callable[[], bool]:
        """Tell others how the attempt ended. Return what is left to do for the container."""
        context, container, error = attempt.order.context, attempt.order.container, attempt.error
        if isinstance(error, exceptions.ClaimRefused):
            metrics.CLAIM_SECONDS.labels("refused").observe(time.monotonic() - attempt.began)
            self._refuse(attempt.order, error, by_default=attempt.by_default)
            return lambda: True
        if error is not None:
            LOG.info("Container %s needs no host any more: %s", container.uuid, error)
            # Schedulers do not look before they choose: what they booked here is free again.
            self._scheduler_api.host_changed(
                context, host=self._hostname, generation=self._tracker.generation, uuid=container.uuid
            )
            return lambda: True
        assert attempt.claim is not None and attempt.claimed is not None
        plan = attempt.claim.plan
        LOG.info("Claimed CPUs %s and memory nodes %s for container %s", plan.cpus, plan.mems, container.uuid)
        metrics.CLAIM_SECONDS.labels("kept").observe(time.monotonic() - attempt.began)
        self._holdings.tell(context, container, attempt.claimed.generation)
        return functools.partial(self._create_claimed, context, container, attempt)

    def _create_claimed(self, context: RequestContext, container: Container, attempt: _Attempt) -> bool:
        assert attempt.claim is not None
        self._build(context, container, attempt.claim.plan, attempt.claimed)
        metrics.CREATE_SECONDS.labels(container.status).observe(time.monotonic() - attempt.began)
        return True

    def _refuse(self, order: Order, why: exceptions.ClaimRefused, *, by_default: bool) -> None:
        """Give the container back to the schedulers as it came. ``by_default``: it got its disk here."""
        context, container = order.context, order.container
        LOG.info("Container %s does not fit: %s", container.uuid, why)
        container.cpuset = container.task_state = None
        if by_default:  # the next host may have another default, or none
            container.disk = 0
            container.obj_reset_changes(["disk"])
        # Whoever sent it here believed something else of this host; without this it would do so again.
        self._scheduler_api.host_changed(
            context,
            host=self._hostname,
            generation=self._tracker.generation,
            failed=isinstance(why, exceptions.RuntimeAway),
        )
        self._scheduler_api.claim_refused(
            context,
            container,
            host=self._hostname,
            reason=str(why),
            tried=order.tried,
            alternates=order.alternates,
            permit=order.limits.get(ATTEMPT_KEY),
        )

    def _see_engine(self, context: RequestContext) -> None:
        """Raise RuntimeAway where the engine is away, and tell the schedulers: the host looks empty, and would get one
        container after the other to fail with.
        """
        if not self._engine.look(context):
            raise exceptions.RuntimeAway()

    def _departed(self, uuid: str) -> exceptions.ClaimRefused | None:
        """Return a refusal if this host has yet to delete what the container left here. It has the same name."""
        if self._tracker.usage.claim(uuid_of_left(uuid, self._hostname)) is None:
            return None
        return exceptions.ClaimRefused(host=self._hostname, reason="the container has left this host a moment ago")

    def resume(self, context: RequestContext, uuid: str) -> bool:
        """Go on with a creation whose claim was committed. Returns whether the container is being created."""
        with self._operations.undisturbed(context, uuid) as current:
            if current is None or current.status != Status.CREATING:
                return False
            plan = held_plan(current)
            if plan is None:
                self._end_lost(context, current)
                return False
            self._tracker.hold(uuid, plan, current)
            self._build(context, current, plan)
            return True

    def _end_lost(self, context: RequestContext, container: Container) -> None:
        """End an interrupted creation that nobody can go on with. What the runtime has of one is for the audit."""
        if container.host != self._hostname or self._driver.show(container) is not None:
            return
        LOG.warning("Container %s cannot be created: %s", container.uuid, LOST)
        with recorded(context, container.uuid, "create") as step:
            step.failed(LOST)
        self._give_up(context, container, LOST, failed=False)  # after it: the step is this host's as long as the row is
        self._notifier.status_changed(context, container)

    def _set_default_disk(self, container: Container) -> bool:
        """Set this host's default disk, unsaved, if the container names none. Return whether it was set."""
        disk = self._tracker.default_disk
        if not disk or container.disk or container.kind != Kind.CONTAINER:
            return False
        container.disk = disk
        return True

    def _build(
        self, context: RequestContext, container: Container, plan: Plan, committed: Claimed | None = None
    ) -> None:
        """From a committed claim to a container that is Created or Running, or Error with everything given back."""
        run = bool(container.request.get("run"))
        begun = None if committed is None else Begun(committed.event_id)
        in_networks = committed is None or committed.in_networks
        try:
            with recorded(context, container.uuid, "create", last=not run, begun=begun) as step:
                self._objects.make(context, container, plan, in_networks=in_networks)
                self._objects.unpack_layer(container)
                container.status, container.task_state = Status.CREATED, None
                if not run:
                    take_over(container, self._driver.show(container))
                    step.save(container)
                else:
                    begun = step.go_on(context, "start")
            if run:
                with recorded(context, container.uuid, "create", "start", begun=begun) as step:
                    container.task_state = TaskState.STARTING
                    self._objects.start(container, plan)
                    if container.kind == Kind.CAPSULE and not self._members.advance(context, container, plan):
                        container.status = Status.CREATING  # an event of a member goes on with it
                    container.task_state = None
                    step.save(container)
        except exceptions.IllegalTransition as exc:  # its deletion was accepted: that finds all there is to remove
            LOG.info("%s", exc)
            return
        except exceptions.ZunError as exc:
            LOG.warning("Container %s could not be created: %s", container.uuid, exc)
            here = not isinstance(exc, _ELSEWHERE)
            late = isinstance(exc, exceptions.Unavailable)
            self._give_up(context, container, str(exc), failed=here, late=late)
        except db_exc.DBConnectionError:
            raise  # nothing is wrong with the container: the queue tries again
        except Exception as exc:
            LOG.exception("Container %s could not be created", container.uuid)
            self._give_up(context, container, unexpected(exc), failed=True)
        else:
            self._holdings.made(context, container)
            LOG.info("Container %s is %s", container.uuid, container.status)
        self._notifier.status_changed(context, container)

    def give_back(self, context: RequestContext, uuid: str) -> None:
        """Give back what a creation claimed that failed while nobody could tell whether something was made."""
        with self._operations.undisturbed(context, uuid) as current:
            if current is not None and never_made(current):
                reason = current.status_reason or ""
                self._give_up(context, current, reason, failed=False, late=True, only_from=Status.ERROR)

    def _give_up(
        self,
        context: RequestContext,
        container: Container,
        reason: str,
        *,
        failed: bool,
        late: bool = False,
        only_from: Status = Status.CREATING,
    ) -> None:
        """Remove what was made, then give back what was claimed, and leave the container in Error with the reason.

        What is to be deleted meanwhile keeps its status and its claim until then. ``failed``: another request would
        fail here as well, as far as anybody can tell. ``late``: the runtime may make it yet, never to be started. It
        stays on this host, so that its deletion comes here and removes that.
        """
        removed = self._objects.discard(context, container)
        container.status, container.status_reason, container.task_state = Status.ERROR, reason, None
        container.status_detail = None
        if not removed:  # until its deletion finds it gone it may run, and it takes its disk: it keeps what it holds
            if container.kind == Kind.CAPSULE:  # before it: of one that is Error nobody would end the members
                container.end_members(reason, removed=False)
            with contextlib.suppress(exceptions.ContainerNotFound, exceptions.StatusChanged):
                container.save(only_from=(only_from,))
            return
        left = networks_of(container)
        container.cpuset = container.container_id = container.addresses = None
        if not late:
            container.host = None
        if container.kind == Kind.CAPSULE:
            container.end_members(reason)
        try:
            generation = container.save_changed_claim(self._hostname, only_from=(only_from,))
        except exceptions.ContainerNotFound:
            generation = None
        except exceptions.StatusChanged as exc:
            LOG.info("%s", exc)
            return
        self._holdings.released(context, container.uuid, generation, failed=failed)
        self._networks.left(context, left)
