# SPDX-License-Identifier: Apache-2.0
"""Actions on an existing container: start, stop, reboot, rebuild, pause, kill, commit, delete.

Each action may run twice for one container: after a crash, or because a message came twice.
"""

import contextlib
import functools
import logging
from collections.abc import Callable

from oslo_db import exception as db_exc

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.image_reference import join
from zun.common.naming import named
from zun.common.probes import grace_of, is_sidecar
from zun.common.states import RUNS, Kind, Status, TaskState, awaits_reboot
from zun.compute.container.capsules import STARTS_UP
from zun.compute.container.networks import Networks, networks_of
from zun.compute.container.observed import take_over
from zun.compute.container.operations import TOO_LATE, Operations
from zun.compute.container.record import logged, recorded, unexpected
from zun.compute.container.runtime_objects import RuntimeObjects
from zun.compute.host.holdings import Holdings
from zun.compute.host.shared_pool import SharedPool
from zun.compute.images.glance_images import GlanceImages
from zun.compute.work.errands import Errands
from zun.container.driver.driver import ContainerDriver
from zun.messaging.notifications import Notifier
from zun.objects import Container, Image
from zun.objects.image import REBUILD
from zun.objects.placement import held_plan
from zun.topology import Plan

LOG = logging.getLogger(__name__)


class Lifecycle:
    def __init__(
        self,
        pool: SharedPool,
        driver: ContainerDriver,
        notifier: Notifier,
        networks: Networks,
        operations: Operations,
        holdings: Holdings,
        objects: RuntimeObjects,
        glance: GlanceImages,
        errands: Errands,
    ) -> None:
        self._pool = pool
        self._driver = driver
        self._notifier = notifier
        self._networks = networks
        self._operations = operations
        self._holdings = holdings
        self._objects = objects
        self._glance = glance
        self._errands = errands

    def start(
        self, context: RequestContext, container: Container, failure: exceptions.ZunError | None = None
    ) -> None:
        """Start it; a container that cannot be started is in Error with the reason, and keeps what it holds.

        ``failure`` is why what it needs could not be started. Then it is not tried.
        """
        with (
            recorded(context, container.uuid, "start") as step,
            self._operations.action(
                context, container.uuid, "start", TaskState.STARTING, capsule=container.capsule_uuid
            ) as current,
        ):
            if current is None:
                step.failed(TOO_LATE)
                return
            _wish(current, run=True)
            try:
                if failure is not None:
                    raise failure
                self._objects.start(current, self._ready(context, current))
            except exceptions.ZunError as exc:
                step.failed(exc)
                LOG.warning("Container %s could not be started: %s", current.uuid, exc)
                current.status, current.status_reason = Status.ERROR, str(exc)

    def start_again(self, context: RequestContext, container: Container) -> None:
        """Start a container as the runtime tried to while this service was away. The runtime does not try again."""
        LOG.info("The runtime could not start container %s again; it is started now", container.uuid)
        with logged("start again", container.uuid):
            self._driver.start(container)

    def _ready(self, context: RequestContext, container: Container) -> Plan:
        """Prepare CPUs and networks for a start, and return the plan. Raises Conflict without a claim."""
        plan = held_plan(container)
        if plan is None:
            raise exceptions.Conflict(
                f"Container {named(container)} holds no resources, since its creation failed. Create it anew."
            )
        if container.capsule_uuid is not None:
            self._wake(context, container)
        self._pool.ready(container, plan)
        self._objects.align(container, plan)
        if networks_of(container):  # somebody may have removed what nothing was running in
            self._networks.settle(context, container)
        if container.capsule_uuid is None:
            self._networks.rejoin(container)
        return plan

    def wake(self, context: RequestContext, member: Container, sidecar: str) -> exceptions.ZunError | None:
        """Start what a member needs, as far as the sidecar that must start up before the member is started.

        The row says what the member waits for. Returns why something could not be started, or None.
        """
        with self._operations.undisturbed(context, member.uuid, capsule=member.capsule_uuid) as current:
            if current is None:
                return None
            try:
                awaited = self._wake(context, current, sidecar)
            except exceptions.ZunError as exc:
                LOG.info("What container %s needs could not be started: %s", member.uuid, exceptions.first_line(exc))
                return exc
            if not awaits_reboot(current):
                current.task_state = TaskState.STARTING
            current.status_reason = STARTS_UP.format(awaited)
            with contextlib.suppress(exceptions.StatusChanged):
                current.save(only_from=(current.status,))
            return None

    def _wake(self, context: RequestContext, member: Container, last: str | None = None) -> str | None:
        """Start what a member needs: the object of its capsule, which has the network, and dismissed sidecars.

        ``last`` is the uuid of the last sidecar to start, whose name is returned. None starts all of them.

        The row of the capsule stays as it is: by its old time of start, the next look has the other members join the
        new network.
        """
        capsule = Container.get_by_uuid(context, str(member.capsule_uuid))
        state = self._driver.show(capsule)
        if state is not None and not state.pid:
            LOG.info("Capsule %s does not run; it is started before its member", capsule.uuid)
            self._objects.start(capsule, self._ready(context, capsule))
        if is_sidecar(member):
            return None
        for each in filter(is_sidecar, Container.list_by_capsule(context, capsule.uuid)):
            if each.status in RUNS | {Status.STOPPED} and each.request.get("run", True):
                state = self._driver.show(each)
                if state is not None and state.status == Status.STOPPED:
                    self._objects.start(each, self._ready(context, each))
                    each.save()
            if each.uuid == last:
                return each.name
        return None

    def rebuild(self, context: RequestContext, container: Container) -> None:
        """Make its object anew, of the image in ``request['rebuild']`` or the row's own, and start it if
        ``request['run']`` says so.

        It keeps what it holds. One that cannot be made or started is in Error with the reason. If the runtime refuses
        to make it, its row goes on naming the image that it was made of before.
        """
        uuid = container.uuid
        with self._operations.action(context, uuid, "rebuild", TaskState.REBUILDING) as current:
            run, begun = current is not None and bool(current.request.get("run")), False
            try:
                with recorded(context, uuid, "rebuild", last=not run) as step:
                    begun = True
                    if current is None:
                        step.failed(TOO_LATE)
                        return
                    plan = held_plan(current)
                    if plan is None:
                        raise exceptions.Conflict(
                            f"Container {named(current)} holds no resources. Delete it, create it anew."
                        )
                    self._objects.make(context, current, plan, instead=True)
                    current.started_at = current.finished_at = current.exit_code = None
                    if not run:
                        current.status, current.status_reason = Status.CREATED, None
                if run:
                    with recorded(context, uuid, "rebuild", "start"):
                        self._objects.start(current, plan)
            except (exceptions.ContainerNotFound, db_exc.DBConnectionError):
                raise  # it is gone, or nothing is wrong with it: it is rebuilt again
            except Exception as exc:
                if current is None or not begun or current.status != Status.REBUILDING:
                    raise  # nothing is done, or all is: the next look rebuilds it, or ends the action
                known = isinstance(exc, exceptions.ZunError)
                LOG.warning("Container %s could not be rebuilt: %s", uuid, exc, exc_info=not known)
                why = str(exc) if known else unexpected(exc)
                current.status, current.status_detail = Status.ERROR, None
                current.status_reason = f"rebuild failed: {why}"
                current.request = {name: value for name, value in current.request.items() if name != REBUILD}

    def stop(self, context: RequestContext, container: Container, timeout: int | None = None) -> None:
        def work(current: Container) -> None:
            _wish(current, run=False)
            self._driver.stop(current, timeout)

        self._simple(context, container, "stop", TaskState.STOPPING, work)

    def dismiss(self, context: RequestContext, container: Container) -> None:
        """Stop a sidecar that nobody needs now. It is to run again with the containers that it serves."""
        grace = grace_of(container)
        self._simple(context, container, "stop", TaskState.STOPPING, lambda c: self._driver.stop(c, grace))

    def reboot(
        self,
        context: RequestContext,
        container: Container,
        timeout: int | None = None,
        failure: exceptions.ZunError | None = None,
    ) -> None:
        """Restart it. ``failure`` as of ``start``."""

        def work(current: Container) -> None:
            _wish(current, run=True)
            if failure is not None:
                raise failure
            plan = self._ready(context, current)
            try:
                self._objects.reboot(current, plan, timeout)
            except exceptions.PinningMismatch:
                current.status = Status.ERROR
                raise

        self._simple(context, container, "reboot", TaskState.REBOOTING, work)

    def renew(self, context: RequestContext, container: Container, reason: str) -> None:
        """Restart a container of a capsule because a probe failed, or end it if its restart policy is ``no``."""
        again = (container.restart_policy or {}).get("Name") not in (None, "", "no")
        LOG.warning("Container %s is %s: %s", container.uuid, "restarted" if again else "ended", reason)

        def work(current: Container) -> None:
            if again:
                self._objects.reboot(current, self._ready(context, current), grace_of(current))
            else:
                self._driver.stop(current, grace_of(current))

        action, task_state = ("reboot", TaskState.REBOOTING) if again else ("stop", TaskState.STOPPING)
        told = f"{reason}. {'It was restarted' if again else 'It was ended, as its restart policy says'}."
        self._simple(context, container, action, task_state, work, told)

    def pause(self, context: RequestContext, container: Container) -> None:
        self._simple(context, container, "pause", TaskState.PAUSING, self._driver.pause)

    def unpause(self, context: RequestContext, container: Container) -> None:
        self._simple(context, container, "unpause", TaskState.UNPAUSING, self._driver.unpause)

    def kill(self, context: RequestContext, container: Container, signal: str | None = None) -> None:
        def work(current: Container) -> None:
            if _ends(signal):
                _wish(current, run=False)
            self._driver.kill(current, signal)

        self._simple(context, container, "kill", TaskState.KILLING, work)

    def kill_beside(self, context: RequestContext, container: Container, signal: str | None = None) -> None:
        """Send the signal while a stop is under way, which writes the result."""
        with recorded(context, container.uuid, "kill") as step:
            try:
                self._driver.kill(container, signal)
                LOG.info("Container %s: kill beside a stop; its task is %s", container.uuid, container.task_state)
                if container.capsule_uuid is not None and container.task_state is None and _ends(signal):
                    _wish(container, run=False)  # the stop is of another member
                    container.save()
            except exceptions.ZunError as exc:
                step.failed(exc)
                LOG.warning("Container %s: kill failed: %s", container.uuid, exc)

    def _simple(
        self,
        context: RequestContext,
        container: Container,
        action: str,
        task_state: TaskState,
        work: Callable[[Container], None],
        why: str | None = None,
    ) -> None:
        """One call to the runtime, after which the runtime says what the container is now, and ``why`` if it is given.
        """
        with (
            recorded(context, container.uuid, action) as step,
            self._operations.action(
                context, container.uuid, action, task_state, capsule=container.capsule_uuid
            ) as current,
        ):
            if current is None:
                step.failed(TOO_LATE)
                return
            current.status_reason = failure = None
            try:
                work(current)
                failure = why
            except exceptions.ZunError as exc:
                step.failed(exc)
                LOG.warning("Container %s: %s failed: %s", current.uuid, action, exc)
                current.status_reason = failure = f"{action} failed: {exc}"
            take_over(current, self._driver.show(current))
            if current.status_reason is None:  # another status than before has a reason of its own, or none
                current.status_reason = failure

    def commit(self, context: RequestContext, container: Container, image_uuid: str) -> None:
        """Make the image of this uuid of the container; if that fails, the image's row is removed.

        Docker lets the processes stand still meanwhile. The row does not say so: nobody else may work on it. An image
        for Glance is uploaded then, in a queue of its own, so that the container's next operation need not wait.
        """
        image: Image | None = None
        with contextlib.suppress(exceptions.ImageNotFound):
            image = Image.get_by_uuid(context, image_uuid)
        uploads = image is not None and image.of_glance
        with (
            recorded(context, container.uuid, "commit", last=not uploads) as step,
            self._operations.undisturbed(context, container.uuid, capsule=container.capsule_uuid) as current,
        ):
            if image is None:
                step.failed(exceptions.ImageNotFound(image=image_uuid))
                LOG.info("Image %s was deleted before it was made of container %s", image_uuid, container.uuid)
                return
            try:
                if current is None:
                    raise exceptions.Conflict(TOO_LATE)
                if uploads:
                    self._glance.note_use(image.uuid)
                facts = self._driver.commit(current, image.local_name)
            except exceptions.ZunError as exc:
                step.failed(exc)
                LOG.warning("No image could be made of container %s: %s", container.uuid, exc)
                self._drop_image(image)
                return
            if uploads:
                image.status_detail = "Uploading the image to Glance"
            else:
                image.set_available(facts.image_id, facts.size)
            try:
                image.save()
            except exceptions.ImageNotFound as exc:  # it was deleted meanwhile, when there was nothing to remove
                step.failed(exc)
                with logged("remove the image, which nobody wants any more, of", container.uuid):
                    self._driver.remove_image(image.local_name)
                return
            LOG.info("Image %s is made of container %s", image_uuid, container.uuid)
        if uploads:
            upload = functools.partial(self._upload, context, container.uuid, image)
            self._errands.put(context, image.uuid, "upload", upload)

    def _upload(self, context: RequestContext, uuid: str, image: Image) -> None:
        """Give Glance the image that was made of container ``uuid``, whose row is not needed any more then."""
        try:
            with recorded(context, uuid, "commit", "upload"):
                self._glance.give(image.uuid, join(image.repo, image.tag))
        except exceptions.ZunError as exc:
            LOG.warning("The image of container %s could not be uploaded: %s", uuid, exc)
            self._drop_image(image)
        else:
            _forget(image)

    def refuse_commit(self, context: RequestContext, image_uuid: str) -> None:
        """Remove the image of a commit that its container's status does not allow any more."""
        with contextlib.suppress(exceptions.ImageNotFound):
            self._drop_image(Image.get_by_uuid(context, image_uuid))

    def _drop_image(self, image: Image) -> None:
        """Remove the image and its row. The runtime may have made the image without an answer."""
        if image.of_glance:
            self._glance.drop(image.uuid)
        else:
            with logged("remove the image, which is no use, of", image.uuid):
                self._driver.remove_image(image.local_name)
        _forget(image)

    def delete(
        self,
        context: RequestContext,
        container: Container,
        *,
        force: bool = False,
        stop_timeout: int | None = None,
    ) -> None:
        """Remove the container, its object first and its row last; what it held is free when no process is left.

        One that the runtime fails to remove by force is a leftover from then on, and the next comparison tries again.
        So is one that the runtime may make yet.
        """
        with (
            self._operations.undisturbed(context, container.uuid) as current,
            recorded(context, container.uuid, "delete") as step,
        ):
            if current is None:
                return
            leftover, networks = current.kind == Kind.LEFTOVER, networks_of(current)
            force = force or leftover
            if current.status != Status.DELETING:
                current.status = Status.DELETING
            current.task_state = TaskState.DELETING
            current.save()
            try:
                if stop_timeout is not None:
                    self._objects.stop(context, current, stop_timeout)
                self._objects.remove(context, current, force=force)
            except exceptions.ZunError as exc:
                step.failed(exc)
                if not force:
                    LOG.warning("Container %s could not be deleted: %s", current.uuid, exc)
                    current.status, current.task_state = Status.ERROR, None
                    current.status_reason = f"It could not be deleted: {exc}"
                    current.save()
                    return
                LOG.warning("Container %s is deleted and not gone: it keeps what it holds: %s", current.uuid, exc)
                if not leftover:
                    self._abandon(context, current, networks)
                return
            if self._objects.may_come(current.uuid) and not leftover:
                LOG.info("Container %s is deleted; the next comparison looks whether it was made since", current.uuid)
                self._abandon(context, current, networks)
                return
            # While its row is there: whoever sees the container gone may use or delete its ports and groups.
            self._networks.release(self._networks.ports(context, current))
            self._holdings.released(context, current.uuid, current.destroy())
            LOG.info("Container %s is deleted", current.uuid)
            if not leftover:
                self._gone(context, current, networks)

    def end(self, container: Container) -> None:
        """End the processes of a container that is to be deleted, while a stop waits for them."""
        with logged("end the processes of", container.uuid), contextlib.suppress(exceptions.Conflict):
            self._driver.kill(container)

    def end_within(self, context: RequestContext, container: Container, seconds: int) -> None:
        """Tell the processes to end within so many seconds, as the deletion does after the stop that waits for them."""
        try:
            self._objects.stop(context, container, seconds)
        except Exception as exc:  # of a thread of its own. The deletion stops them, too
            LOG.warning("The processes of container %s go on until its deletion: %s", container.uuid, exc)

    def _abandon(self, context: RequestContext, container: Container, networks: set[str]) -> None:
        """Hide the container from everybody but this host, which keeps its row as a leftover."""
        self._holdings.tell(context, container, container.abandon())
        self._gone(context, container, networks)

    def _gone(self, context: RequestContext, container: Container, networks: set[str]) -> None:
        """Clean up its networks and tell that the container is deleted."""
        self._networks.left(context, networks)
        container.status = Status.DELETED
        self._notifier.status_changed(context, container)


def _wish(container: Container, *, run: bool) -> None:
    """Note whether a member of a capsule is to run: one that somebody stopped does not join a new network."""
    if container.capsule_uuid is not None:
        container.request = {**container.request, "run": run}


def _ends(signal: str | None) -> bool:
    """Return whether the signal of a kill ends any process. Of another one, the program decides what happens."""
    return signal is None or signal.upper().removeprefix("SIG") in ("KILL", "9")


def _forget(image: Image) -> None:
    """Remove the row of the image, which somebody may have deleted meanwhile."""
    with contextlib.suppress(exceptions.ImageNotFound):
        image.destroy()
