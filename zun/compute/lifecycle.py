# SPDX-License-Identifier: Apache-2.0
"""What zun-compute does with a container, step by step, and what each step leaves behind when it fails.

Everything here may run twice for one container: after a crash, or because a message came twice. The runtime's objects
are found by the container's uuid, and what is held is committed to the row before the runtime is touched.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from zun.common import exceptions, states
from zun.common.context import RequestContext
from zun.common.kinds import Kind
from zun.common.notifications import Notifier
from zun.common.secrets import Cipher
from zun.common.states import Status, TaskState
from zun.compute import verify
from zun.compute.capsules import CapsuleMembers
from zun.compute.claims import Claim
from zun.compute.compute_node_tracker import ComputeNodeTracker
from zun.compute.holdings import Holdings
from zun.compute.images import Accounts
from zun.compute.networks import Networks, networks_of
from zun.compute.operations import TOO_LATE, Operations
from zun.compute.reconcile import take_over
from zun.compute.record import Begun, event_of, logged, recorded
from zun.compute.resize import Resize
from zun.compute.runtime_objects import RuntimeObjects
from zun.compute.shared_pool import SharedPool
from zun.container.driver import ContainerDriver, RuntimeState
from zun.objects import Container, ContainerActionEvent, Image, NetworkPort
from zun.objects.container import Claimed
from zun.objects.placement import cpuset_record, held_plan
from zun.scheduler.rpcapi import SchedulerAPI
from zun.topology import CpuSet, Plan
from zun.topology.cpuset import NO_CPUS
from zun.volume.volumes import Volumes

LOG = logging.getLogger(__name__)


class Lifecycle:
    """Works on the containers of one host, one operation a container at a time."""

    def __init__(
        self,
        hostname: str,
        tracker: ComputeNodeTracker,
        pool: SharedPool,
        driver: ContainerDriver,
        scheduler_api: SchedulerAPI,
        notifier: Notifier,
        networks: Networks,
        accounts: Accounts | None = None,
        volumes: Volumes | None = None,
    ) -> None:
        """``accounts`` are those to pull images with; without them only what needs none can be pulled.

        ``volumes`` makes what containers mount; without it nothing can be mounted.
        """
        self._hostname = hostname
        self._tracker = tracker
        self._pool = pool
        self._driver = driver
        self._scheduler_api = scheduler_api
        self._notifier = notifier
        self._networks = networks
        self._volumes = volumes or Volumes({})
        self._holdings = Holdings(hostname, tracker, pool, scheduler_api)
        self._operations = self.operations = Operations(hostname, notifier, self._holdings)
        self._objects = RuntimeObjects(tracker, pool, driver, networks, accounts or Accounts(Cipher(())), self._volumes)
        self._members = CapsuleMembers(hostname, tracker, driver, self._objects)

    # create

    def create(
        self,
        context: RequestContext,
        container: Container,
        *,
        limits: Mapping[str, Any],
        alternates: Sequence[Mapping[str, Any]],
        tried: Mapping[str, str],
    ) -> None:
        """Claim, create, start if asked, and see in the kernel that it runs where it was planned."""
        with self._operations.locks(container.uuid):
            if self._tracker.usage.claim(container.uuid) is not None:
                LOG.info("Container %s is on this host already: its message came twice", container.uuid)
                return
            try:
                claim = self._tracker.container_claim(context, container, limits)
                with claim:
                    committed = self._commit(context, container, claim)
            except exceptions.ClaimRefused as exc:
                LOG.info("Container %s does not fit: %s", container.uuid, exc)
                container.cpuset = container.task_state = None
                # Whoever sent it here believed something else of this host; without this it would do so again.
                self._scheduler_api.host_changed(context, host=self._hostname, generation=self._tracker.generation)
                self._scheduler_api.claim_refused(
                    context,
                    container,
                    host=self._hostname,
                    reason=str(exc),
                    tried=tried,
                    alternates=alternates,
                )
                return
            if committed is not None:
                with claim:
                    self._build(context, container, claim.plan, committed)

    def resume_create(self, context: RequestContext, container: Container) -> None:
        """Finish a creation whose claim was committed and that was interrupted then."""
        with self._operations.undisturbed(context, container.uuid) as current:
            plan = None if current is None else held_plan(current)
            if current is None or plan is None or current.status != Status.CREATING:
                return
            LOG.info("The creation of container %s was interrupted; going on", current.uuid)
            self._tracker.hold(current.uuid, plan)
            self._build(context, current, plan)

    def _commit(self, context: RequestContext, container: Container, claim: Claim) -> Claimed | None:
        """Write the claim to the row, and that the creation begins. None when the container does not wait for this
        host any more.

        Raises ClaimRefused: whether one more of its group may be here, and which host has a volume, is known for
        certain only now.
        """
        container.cpuset = cpuset_record(claim.plan, self._tracker.topology)
        container.task_state = TaskState.CREATING
        try:
            step = (context.request_id, "create", event_of("create"))
            claimed = container.save_claim(self._hostname, step)
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
                container.status, container.task_state = Status.CREATED, None
                if not run:
                    take_over(container, self._driver.show(container))
                    step.save(container)
            if run:
                with recorded(context, container.uuid, "create", "start") as step:
                    container.task_state = TaskState.STARTING
                    self._objects.start(container, plan)
                    if container.kind == Kind.CAPSULE and not self._members.advance(context, container, plan):
                        container.status = Status.CREATING  # an event of a member goes on with it
                    container.task_state = None
                    step.save(container)
        except exceptions.ContainerNotFound:  # its row is gone: a forced delete overtook us
            self._discard(context, container)
            return
        except exceptions.IllegalTransition as exc:  # its deletion was accepted: that finds all there is to remove
            LOG.info("%s", exc)
            return
        except exceptions.ZunError as exc:
            LOG.warning("Container %s could not be created: %s", container.uuid, exc)
            self._give_up(context, container, str(exc), failed=not isinstance(exc, exceptions.Invalid))
        except Exception as exc:
            LOG.exception("Container %s could not be created", container.uuid)
            self._give_up(context, container, f"Unexpected error of the compute service: {exc}", failed=True)
        else:
            LOG.info("Container %s is %s", container.uuid, container.status)
        self._notifier.status_changed(context, container)

    def _give_up(self, context: RequestContext, container: Container, reason: str, *, failed: bool) -> None:
        """Remove what was made, give back what was claimed, and leave the container in Error with the reason.

        What is to be deleted meanwhile keeps its status and its claim until then. ``failed``: another request would
        fail here as well, as far as anybody can tell.
        """
        with logged("remove the object of", container.uuid):
            self._objects.remove(context, container, force=True)
            self._volumes.remove(container)
        container.status, container.status_reason, container.task_state = Status.ERROR, reason, None
        container.status_detail = None
        left = networks_of(container)
        container.cpuset = container.host = container.container_id = container.addresses = None
        if container.kind == Kind.CAPSULE:
            container.end_members(reason)
        try:
            generation = container.save_changed_claim(self._hostname, only_from=(Status.CREATING,))
        except exceptions.ContainerNotFound:
            generation = None
        except exceptions.StatusChanged as exc:
            LOG.info("%s", exc)
            return
        self._holdings.released(context, container.uuid, generation, failed=failed)
        self._networks.left(context, left)

    def _discard(self, context: RequestContext, container: Container) -> None:
        with logged("remove the object of", container.uuid):
            self._objects.remove(context, container, force=True)
            self._volumes.remove(container)
        self._holdings.released(context, container.uuid, None)

    # the operations on a container that is there

    def start(self, context: RequestContext, container: Container) -> None:
        """Start it; a container that cannot be started is in Error with the reason, and keeps what it holds."""
        with (
            recorded(context, container.uuid, "start") as step,
            self._operations.action(context, container.uuid, "start", TaskState.STARTING) as current,
        ):
            if current is None:
                step.failed(TOO_LATE)
                return
            try:
                plan = held_plan(current)
                if plan is None:
                    raise exceptions.Conflict(
                        f"Container {current.uuid} holds no resources, since its creation failed. Create it anew."
                    )
                if plan.cpu_policy == "dedicated":
                    self._pool.settle()
                if networks_of(current):  # somebody may have removed what nothing was running in
                    self._networks.settle(context, current)
                self._objects.start(current, plan)
            except exceptions.PinningMismatch as exc:
                step.failed(exc)
                with logged("stop", current.uuid):
                    self._driver.kill(current)
                current.status, current.status_reason = Status.ERROR, str(exc)
            except exceptions.ZunError as exc:
                step.failed(exc)
                LOG.warning("Container %s could not be started: %s", current.uuid, exc)
                current.status, current.status_reason = Status.ERROR, str(exc)

    def rebuild(self, context: RequestContext, container: Container) -> None:
        """Make its object anew, of the image that the row names now, and start it if ``request['run']`` says so.

        It keeps what it holds. One that cannot be made or started is in Error with the reason.
        """
        uuid = container.uuid
        with self._operations.action(context, uuid, "rebuild", TaskState.REBUILDING) as current:
            run = current is not None and bool(current.request.get("run"))
            try:
                with recorded(context, uuid, "rebuild", last=not run) as step:
                    if current is None:
                        step.failed(TOO_LATE)
                        return
                    plan = held_plan(current)
                    if plan is None:
                        raise exceptions.Conflict(f"Container {uuid} holds no resources. Delete it, create it anew.")
                    self._objects.make(context, current, plan, instead=True)
                    current.status, current.status_reason = Status.CREATED, None
                    current.started_at = current.finished_at = current.exit_code = None
                if run:
                    with recorded(context, uuid, "rebuild", "start"):
                        self._objects.start(current, plan)
            except exceptions.ContainerNotFound:
                raise
            except exceptions.ZunError as exc:
                LOG.warning("Container %s could not be rebuilt: %s", uuid, exc)
                if current is not None:
                    current.status, current.status_reason, current.status_detail = Status.ERROR, str(exc), None

    def stop(self, context: RequestContext, container: Container, timeout: int | None = None) -> None:
        self._simple(context, container, "stop", TaskState.STOPPING, lambda c: self._driver.stop(c, timeout))

    def reboot(self, context: RequestContext, container: Container, timeout: int | None = None) -> None:
        def work(current: Container) -> None:
            if networks_of(current):
                self._networks.settle(context, current)
            self._driver.reboot(current, timeout)

        self._simple(context, container, "reboot", TaskState.REBOOTING, work)

    def pause(self, context: RequestContext, container: Container) -> None:
        self._simple(context, container, "pause", TaskState.PAUSING, self._driver.pause)

    def unpause(self, context: RequestContext, container: Container) -> None:
        self._simple(context, container, "unpause", TaskState.UNPAUSING, self._driver.unpause)

    def kill(self, context: RequestContext, container: Container, signal: str | None = None) -> None:
        self._simple(context, container, "kill", TaskState.KILLING, lambda c: self._driver.kill(c, signal))

    def _simple(
        self,
        context: RequestContext,
        container: Container,
        action: str,
        task_state: TaskState,
        work: Callable[[Container], None],
    ) -> None:
        """One call to the runtime, after which the runtime says what the container is now."""
        with (
            recorded(context, container.uuid, action) as step,
            self._operations.action(context, container.uuid, action, task_state) as current,
        ):
            if current is None:
                step.failed(TOO_LATE)
                return
            current.status_reason = None
            try:
                work(current)
            except exceptions.ZunError as exc:
                step.failed(exc)
                LOG.warning("Container %s: %s failed: %s", current.uuid, action, exc)
                current.status_reason = f"{action} failed: {exc}"
            take_over(current, self._driver.show(current))

    def commit(self, context: RequestContext, container: Container, image_uuid: str) -> None:
        """Make the image of this uuid of the container; if that fails, the image's row is removed.

        Docker lets the processes stand still meanwhile. The row does not say so: nobody else may work on it.
        """
        image = Image.get_by_uuid(context, image_uuid)
        with (
            recorded(context, container.uuid, "commit") as step,
            self._operations.undisturbed(context, container.uuid) as current,
        ):
            try:
                if current is None:
                    raise exceptions.Conflict(TOO_LATE)
                states.check_action("commit", current)
                facts = self._driver.commit(current, image.local_name)
            except exceptions.ZunError as exc:
                step.failed(exc)
                LOG.warning("No image could be made of container %s: %s", container.uuid, exc)
                image.destroy()
                return
            image.image_id, image.size, image.status = facts.image_id, str(facts.size), "Available"
            try:
                image.save()
            except exceptions.ImageNotFound as exc:  # it was deleted meanwhile, when there was nothing to remove
                step.failed(exc)
                with logged("remove the image, which nobody wants any more, of", container.uuid):
                    self._driver.remove_image(image.local_name)
                return
            LOG.info("Image %s is made of container %s", image_uuid, container.uuid)

    def delete(
        self,
        context: RequestContext,
        container: Container,
        *,
        force: bool = False,
        stop_timeout: int | None = None,
    ) -> None:
        """Remove the container, its object first and its row last; what it held is free when no process is left."""
        with (
            self._operations.undisturbed(context, container.uuid) as current,
            recorded(context, container.uuid, "delete") as step,
        ):
            if current is None:
                return
            if current.status != Status.DELETING:
                current.status = Status.DELETING
            current.task_state = TaskState.DELETING
            current.save()
            try:
                if stop_timeout is not None:
                    self._stop_if_there(current, stop_timeout)
                self._objects.remove(context, current, force=force)
            except exceptions.ZunError as exc:
                step.failed(exc)
                if not force:
                    LOG.warning("Container %s could not be deleted: %s", current.uuid, exc)
                    current.status, current.task_state = Status.ERROR, None
                    current.status_reason = f"It could not be deleted: {exc}"
                    current.save()
                    return
                LOG.warning("Container %s is deleted by force although the runtime failed: %s", current.uuid, exc)
            self._volumes.remove(current)
            self._holdings.released(context, current.uuid, current.destroy())
            self._networks.left(context, networks_of(current))
            LOG.info("Container %s is deleted", current.uuid)
            current.status = Status.DELETED
            self._notifier.status_changed(context, current)

    def _stop_if_there(self, container: Container, timeout: int) -> None:
        with contextlib.suppress(exceptions.ContainerNotFound):
            self._driver.stop(container, timeout)

    def update(
        self,
        context: RequestContext,
        container: Container,
        *,
        cpu: float | None = None,
        memory: int | None = None,
        cpu_policy: str | None = None,
        keep_cpus: CpuSet = NO_CPUS,
        quota: Mapping[str, int] | None = None,
    ) -> Container:
        """Change CPUs, memory (MiB) or CPU policy of a container, running or not, on the cells it is on.

        The CPUs of ``keep_cpus`` stay with it.

        New CPUs are claimed and emptied before they are used, old ones given back after they were left. When a step
        fails everything is as before. Raises ClaimRefused when the host has not got what is wanted, and with ``quota``
        (the default limits of projects) OverQuota when the project may not have it.
        """
        with self._operations.undisturbed(context, container.uuid) as current:
            if current is None:
                raise exceptions.ContainerNotFound(container=container.uuid)
            states.check_action("update", current)
            resize = Resize.of(current, cpu, memory, cpu_policy, keep_cpus)
            new = self._tracker.resize(current.uuid, resize.old, resize.request, resize.keep)
            try:
                self._apply_resize(current, resize, new)
                current.cpu, current.memory = resize.cpu, resize.memory
                current.cpuset = cpuset_record(new, self._tracker.topology)
                generation = current.save_changed_claim(self._hostname, quota)
            except Exception:
                self._undo_resize(current, resize)
                raise
            self._tracker.hold(current.uuid, new)
            with logged("widen the shared pool after the resize of", current.uuid):
                self._pool.settle()
            self._holdings.tell(context, current, generation)
            LOG.info("Container %s is %s on CPUs %s with %s MiB", current.uuid, resize.policy, new.cpus, resize.memory)
            return current

    def resize(
        self,
        context: RequestContext,
        container: Container,
        *,
        cpu: float | None,
        memory: int | None,
        cpu_policy: str | None = None,
        keep_cpus: CpuSet = NO_CPUS,
        quota: Mapping[str, int] | None = None,
    ) -> None:
        """As ``update``, for a caller that does not wait: a failure is in the log and leaves everything as it was."""
        with logged("resize", container.uuid):
            self.update(
                context, container, cpu=cpu, memory=memory, cpu_policy=cpu_policy, keep_cpus=keep_cpus, quota=quota
            )

    def _apply_resize(self, container: Container, resize: Resize, new: Plan) -> None:
        """Move the container to ``new``, and see in the kernel that it moved. It holds the old plan meanwhile."""
        container.cpu_policy = resize.policy
        cpus = self._pool.change(container, new, cpu=resize.cpu, memory=resize.memory)
        state = self._driver.show(container)
        view = None if state is None else self._driver.kernel_view(container, state)
        verify.check(cpus, new.mems, view)

    def _undo_resize(self, container: Container, resize: Resize) -> None:
        """Put the container back on what it had, and still holds."""
        container.cpu_policy = str(resize.old.cpu_policy)
        with logged("undo the resize of", container.uuid):
            self._pool.change(container, resize.old, cpu=resize.old_cpu, memory=resize.old_memory)
        self._tracker.hold(container.uuid, resize.old)
        with logged("widen the shared pool after the resize of", container.uuid):
            self._pool.settle()

    # networks

    def network_attach(self, context: RequestContext, container: Container, *, port: str) -> None:
        """Plug the container into the network of its new port. When that fails it has no such port."""
        with self._network_change(context, container, "network_attach", TaskState.NETWORK_ATTACHING) as failed:
            if failed is not None:
                self._withdraw(context, failed, port, leaving=True)

    def network_detach(self, context: RequestContext, container: Container, *, port: str) -> None:
        """Unplug the container from the networks of its ports that are leaving. When that fails it keeps them."""
        with self._network_change(context, container, "network_detach", TaskState.NETWORK_DETACHING) as failed:
            if failed is not None:
                self._withdraw(context, failed, port, leaving=False)

    @contextlib.contextmanager
    def _network_change(
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

    def settle_networks(self, context: RequestContext, container: Container) -> None:
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

    # after a start

    def restore(self, containers: Sequence[Container], runtime: dict[str, RuntimeState]) -> None:
        """Bring what exists at the runtime to what its row holds: an interrupted resize may have left more, or less.

        Nobody may claim anything before this is done. First the dedicated containers, so that they leave what they do
        not hold, then the shared ones, which may then be told to run there. What cannot be brought back is logged and
        left to the audit: one container must not keep the service from starting.
        """
        for container in containers:
            if container.uuid in runtime:
                self._volumes.restore(container)
        held = [(each, plan) for each in containers if each.uuid in runtime and (plan := held_plan(each)) is not None]
        for container, plan in held:
            state = runtime[container.uuid]
            right = CpuSet(state.cpuset_cpus) == plan.cpus and CpuSet(state.cpuset_mems) == plan.mems
            if plan.cpu_policy == "dedicated" and not right:
                LOG.warning(
                    "Container %s holds CPUs %s and is on %s; moving it back",
                    container.uuid,
                    plan.cpus,
                    state.cpuset_cpus,
                )
                with logged("move back", container.uuid):
                    self._pool.change(container, plan, cpu=container.cpu, memory=container.memory)
        for container, plan in held:
            if plan.cpu_policy != "dedicated":
                with logged("bring to the shared pool", container.uuid):
                    self._pool.enter(container, plan, CpuSet(runtime[container.uuid].cpuset_cpus))

    # what the runtime does by itself

    def sync(self, context: RequestContext, uuid: str) -> bool:
        """Bring the row to what the runtime says. Returns whether the container is to be made anew, by ``rebuild``."""
        with self._operations.undisturbed(context, uuid) as current:
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
        if current is None or current.host != self._hostname:
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
        with self._operations.undisturbed(context, uuid) as current:
            plan = None if current is None else held_plan(current)
            if current is not None and plan is not None and current.status == Status.CREATING:
                self._build(context, current, plan)
                return
        self.sync(context, uuid)

    # when the machine has changed

    def keep_up(self, context: RequestContext) -> None:
        """Let claims hold the CPUs that came online since and that their isolation keeps."""
        for uuid in self._tracker.usage.owners:
            grown = self._tracker.keep_up(uuid)
            if grown is None:
                continue
            old, new = grown
            try:
                self._keep_up(context, uuid, new)
            except Exception:
                if self._tracker.usage.claim(uuid) == new:
                    self._tracker.hold(uuid, old)  # which is what the row says; the next time tries again
                raise

    def _keep_up(self, context: RequestContext, uuid: str, new: Plan) -> None:
        self._pool.settle()
        with self._operations.undisturbed(context, uuid) as current:
            if current is None or current.host != self._hostname or self._tracker.usage.claim(uuid) != new:
                return  # it has gone or changed while this waited for it
            current.cpuset = cpuset_record(new, self._tracker.topology)
            self._holdings.tell(context, current, current.save_changed_claim(self._hostname))
        LOG.info("Container %s keeps CPUs %s, which are online now, from others", uuid, new.withheld)
