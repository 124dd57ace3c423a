# SPDX-License-Identifier: Apache-2.0
"""Create a container: from a scheduler's plan to a container that runs there, or to an error and nothing held.

It may run twice for one container: after a crash, or because a message came twice. What is held is committed to the row
before the runtime is touched.
"""

import contextlib
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

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
from zun.container.driver.driver import ContainerDriver
from zun.messaging.notifications import Notifier
from zun.messaging.scheduler_api import SchedulerAPI
from zun.objects import ComputeNode, Container
from zun.objects.container import Claimed
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

    def create(
        self,
        context: RequestContext,
        container: Container,
        *,
        limits: Mapping[str, Any],
        alternates: Sequence[Mapping[str, Any]],
        tried: Mapping[str, str],
    ) -> bool:
        """Claim, create, start if asked, and see in the kernel that it runs where it was planned.

        Returns whether it was done, or refused: False for a container that has a claim on this host already.
        """
        with self._operations.queue.turn(key_of(container.uuid)):
            if self._tracker.usage.claim(container.uuid) is not None:
                LOG.info("Container %s is on this host already: its message came twice", container.uuid)
                return False
            by_default = self._set_default_disk(container)
            began = time.monotonic()
            try:
                self._see_engine(context)
                self._see_departed(container.uuid)
                pool = ComputeNode.disk_pool(context, self._hostname) if disk_promised(container) else None
                claim = self._tracker.container_claim(container, limits, own_disk=pool is None)
                with claim, self._holdings.claiming(container, claim.plan):
                    committed = self._commit(context, container, claim, pool, limits.get(PERMIT_KEY))
            except exceptions.ClaimRefused as exc:
                metrics.CLAIM_SECONDS.labels("refused").observe(time.monotonic() - began)
                self._refuse(
                    context,
                    container,
                    exc,
                    by_default=by_default,
                    permit=limits.get(ATTEMPT_KEY),
                    alternates=alternates,
                    tried=tried,
                )
                return True
            if committed is not None:  # from here on its row says what it holds
                metrics.CLAIM_SECONDS.labels("kept").observe(time.monotonic() - began)
                self._build(context, container, claim.plan, committed)
                metrics.CREATE_SECONDS.labels(container.status).observe(time.monotonic() - began)
            return True

    def _refuse(
        self,
        context: RequestContext,
        container: Container,
        why: exceptions.ClaimRefused,
        *,
        by_default: bool,
        permit: str | None,
        alternates: Sequence[Mapping[str, Any]],
        tried: Mapping[str, str],
    ) -> None:
        """Give the container back to the schedulers as it came. ``by_default``: it got its disk here."""
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
            tried=tried,
            alternates=alternates,
            permit=permit,
        )

    def _see_engine(self, context: RequestContext) -> None:
        """Raise RuntimeAway where the engine is away, and tell the schedulers: the host looks empty, and would get one
        container after the other to fail with.
        """
        if not self._engine.look(context):
            raise exceptions.RuntimeAway()

    def _see_departed(self, uuid: str) -> None:
        """Raise ClaimRefused if this host has yet to delete what the container left here. It has the same name."""
        if self._tracker.usage.claim(uuid_of_left(uuid, self._hostname)) is not None:
            raise exceptions.ClaimRefused(host=self._hostname, reason="the container has left this host a moment ago")

    def resume(self, context: RequestContext, uuid: str) -> bool:
        """Go on with a creation whose claim was committed. Returns whether the container is being created."""
        with self._operations.undisturbed(context, uuid) as current:
            if current is None or current.status != Status.CREATING:
                return False
            plan = held_plan(current)
            if plan is None:
                self._end_lost(context, current)
                return False
            self._tracker.hold(uuid, plan, disk_promised(current))
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

    def _commit(
        self,
        context: RequestContext,
        container: Container,
        claim: Claim,
        pool: DiskPool | None,
        permit: str | None,
    ) -> Claimed | None:
        """Write the claim to the row, and that the creation begins. None when the container does not wait for this
        host any more. If the database does not say whether the claim is written, it is kept until the container is
        looked at again.

        Raises ClaimRefused: whether one more of its group may be here, which host has a volume, and how much the disk
        pool has left, is known for certain only now.
        """
        container.cpuset = cpuset_record(claim.plan, self._tracker.topology)
        container.task_state = TaskState.CREATING
        try:
            step = (context.request_id, "create", event_of("create"))
            claimed = container.save_claim(self._hostname, step, None if pool is None else pool.uuid, permit)
        except exceptions.ClaimRefused:
            raise
        except (exceptions.ContainerNotFound, exceptions.Conflict) as exc:
            LOG.info("Container %s needs no host any more: %s", container.uuid, exc)
            claim.abort()
            # Schedulers do not look before they choose: what they booked here is free again.
            self._scheduler_api.host_changed(
                context, host=self._hostname, generation=self._tracker.generation, uuid=container.uuid
            )
            return None
        LOG.info(
            "Claimed CPUs %s and memory nodes %s for container %s",
            container.cpuset["cpuset_cpus"],
            container.cpuset["cpuset_mems"],
            container.uuid,
        )
        self._holdings.tell(context, container, claimed.generation)
        return claimed

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
