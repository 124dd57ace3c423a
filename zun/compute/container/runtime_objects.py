# SPDX-License-Identifier: Apache-2.0
"""Make, start, check and remove a container's object at the runtime.

The object is found by the container's uuid, so that each step may be done twice.
"""

import base64
import concurrent.futures
import contextlib
import logging
import time
from collections.abc import Callable, Collection, Iterator

from oslo_utils import timeutils

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.departures import departed, owner_of
from zun.common.probes import is_sidecar
from zun.common.states import Kind, Status
from zun.compute.container.device_rules import given_to
from zun.compute.container.networks import Networks
from zun.compute.container.observed import take_over, told_by_runtime
from zun.compute.container.record import logged
from zun.compute.host.shared_pool import SharedPool
from zun.compute.images.images import Accounts, ImageStore, made_of, seen_now_and_then
from zun.container.driver.devices import ContainerDevices
from zun.container.driver.driver import ContainerDriver
from zun.container.driver.hugepages import HUGE_PAGES_TARGET
from zun.container.driver.inspector import KernelView
from zun.container.driver.lifecycle import RuntimeMount
from zun.container.driver.partition import slice_of
from zun.container.driver.state import RuntimeState
from zun.objects import Container, NetworkPort
from zun.objects.wishes import Wishes
from zun.topology import CpuSet, Plan
from zun.topology.devices import Device
from zun.volume.volumes import Volumes

LOG = logging.getLogger(__name__)

SANDBOX_IMAGE = (
    "The host cannot get image {}, which keeps the network of every capsule. Nothing is wrong with the template. Tell "
    "the operator: pull that image on the host, or set [capsule] sandbox_image of zun-api to one in a registry that "
    "the hosts reach and that [docker] allows. The log of zun-compute has the registry's answer."
)


class RuntimeObjects:
    """The objects of containers at the runtime. Callers have the container's turn, and save the container."""

    def __init__(
        self,
        pool: SharedPool,
        driver: ContainerDriver,
        networks: Networks,
        accounts: Accounts,
        images: ImageStore,
        volumes: Volumes,
        offered: Callable[[], tuple[Device, ...]],
    ) -> None:
        """``offered`` returns the devices that the host offers to containers now."""
        self._pool = pool
        self._driver = driver
        self._networks = networks
        self._accounts = accounts
        self._images = images
        self._volumes = volumes
        self._offered = offered
        self._late: dict[str, str] = {}
        """Objects that the runtime was asked to make without an answer. Uuid -> the container it is deleted with."""

    def make(
        self,
        context: RequestContext,
        container: Container,
        plan: Plan,
        *,
        instead: bool = False,
        in_networks: bool = True,
    ) -> None:
        """Create the object, its CPUs and memory nodes set; ``instead`` of the one there is.

        The row names the image of the object before until the runtime has been asked for the new one, and then that
        of the new one, also if there is no answer: it may exist, or come to exist.

        Whether it is ``in_networks`` is asked here unless it is known that it is not. A port that comes or goes from
        now on has a message of its own, which waits for this to be done.
        """
        source = self._accounts.source(context, container)
        name = source.name
        try:
            image = self._images.ensure(context, container.project_id, source, seen_now_and_then(container))
        except (exceptions.Invalid, exceptions.DockerError) as exc:
            if container.kind == Kind.CAPSULE:
                raise type(exc)(SANDBOX_IMAGE.format(name)) from exc
            if container.capsule_uuid is not None:  # the reason is that of the whole capsule
                raise type(exc)(f"Container {container.name}: {exc}") from exc
            raise
        container.status_detail = None
        if instead:  # the image is here: from now on nothing slow can fail
            with self._pool.leaving(container.uuid):
                self._driver.delete(container, force=True)
        joins = container.capsule_uuid is not None  # the network is its capsule's
        ports = NetworkPort.list_by_container(context, container.uuid) if in_networks and not joins else []
        plug = None if joins else self._networks.prepare(context, container, ports)
        had_volumes = instead and container.container_id is not None
        mounts = [*self._volumes.prepare(container, again=had_volumes), *page_mounts(plan)]
        with self._pool.entering(container, plan) as cpus, self._answering(container):
            container.container_id = self._driver.create(
                container,
                cpuset_cpus=str(cpus),
                cpuset_mems=str(plan.mems),
                image=name,
                mounts=[*mounts, *self._pool.told(container, plan, cpus)],
                plug=plug,
                join=container.capsule_uuid,
                memory=self._pool.ordinary_memory(plan, container.memory),
                devices=self.devices(container, plan),
                dedicated_cpus=str(plan.dedicated_cpus) if plan.uses_pool else "",
                cgroup_parent=slice_of(container.uuid) if Wishes.of(container.placement).partition else "",
            )
        made_of(container)
        if not joins:
            self._networks.settle(context, container, ports)
        entrypoint, command = image.invocation(container.entrypoint, container.command)
        container.entrypoint, container.command = entrypoint or [], command or []

    def detach(self, container: Container) -> None:
        """Detach what another host can attach of a container that was stopped. ``start`` attaches it again."""
        self._volumes.detach(container)

    def unpack_layer(self, container: Container) -> None:
        """Give a container that comes from another host what it has written into its own file system there."""
        way = departed(container.request)
        if way is not None and way.get("layer") and (layer := container.layer()) is not None:
            self._driver.put_archive(container, "/", iter([base64.b64decode(layer)]))

    @contextlib.contextmanager
    def _answering(self, container: Container) -> Iterator[None]:
        """Note that the runtime may still make the object, if the block gets no answer."""
        try:
            yield
        except exceptions.Unavailable:
            made_of(container)
            self._late[container.uuid] = container.capsule_uuid or container.uuid
            raise

    def may_come(self, uuid: str) -> bool:
        """Return whether the runtime may still make an object that was removed with ``uuid`` before it existed.

        True once: when the runtime has been asked for that again, later, what was not there will not come.
        """
        late = [each for each, owner in list(self._late.items()) if owner == uuid]
        for each in late:
            del self._late[each]
        return bool(late)

    def align(self, container: Container, plan: Plan) -> None:
        """Before a start, set CPUs and memory nodes again if they were changed at the runtime."""
        with self._pool.steady_for(container) as told:
            state = self._driver.show(container)
            if state is None:
                return
            cpus = told.get(container.uuid, plan.cpus)
            if (CpuSet(state.cpuset_cpus), CpuSet(state.cpuset_mems)) != (cpus, plan.mems):
                LOG.warning("Container %s was set to run on CPUs %s at the runtime", container.uuid, state.cpuset_cpus)
                self._driver.update(container, cpuset_cpus=str(cpus), cpuset_mems=str(plan.mems))

    def devices(self, container: Container, plan: Plan) -> ContainerDevices:
        """Return the devices of ``plan`` for the container's object, with those that this host offers now."""
        return ContainerDevices(given_to(container, plan), self._offered())

    def start(self, container: Container, plan: Plan) -> None:
        """Start the container. Raises PinningMismatch and ends it when the kernel runs it elsewhere than planned.

        Raises DeviceUnusable when a device of its plan is gone, and when a network interface cannot be moved into it.
        """
        self._see_devices(container, plan)
        self._volumes.attach(container)
        self._driver.start(container)
        state = self._verified(container, plan)
        container.status, container.status_reason = Status.RUNNING, None
        container.started_at = timeutils.utcnow() if state is None else state.started_at
        container.finished_at = container.exit_code = None
        container.status_detail = None  # what the probes of an earlier run said
        for name, value in ({} if state is None else told_by_runtime(container, state)).items():
            setattr(container, name, value)
        if state is not None and state.status is not None and state.pid == 0:
            take_over(container, state)

    def reboot(self, container: Container, plan: Plan, timeout: int | None) -> None:
        """Stop the container and start it again. Raises as ``start``."""
        self._see_devices(container, plan)
        self._driver.reboot(container, timeout)
        self._verified(container, plan)

    def _see_devices(self, container: Container, plan: Plan) -> None:
        lost = self.devices(container, plan).lost
        if lost is not None:
            raise exceptions.DeviceUnusable(reason=lost)

    def _verified(self, container: Container, plan: Plan) -> RuntimeState | None:
        try:
            self._limit_pages(container, plan)
            if given_to(container, plan):
                self._driver.join_interfaces(container, self.devices(container, plan))
            return self.check(container, plan)
        except (exceptions.PinningMismatch, exceptions.DeviceUnusable):
            with logged("stop", container.uuid):
                self._driver.kill(container)
            raise

    def _limit_pages(self, container: Container, plan: Plan) -> None:
        """Limit the huge pages of a new process. Raises PinningMismatch if it has taken more before, or cannot be read.

        The kernel has the limits from now on: Docker starts a process in a control group of its own making.
        """
        state = self._driver.show(container)
        try:
            self._pool.limit_pages(container, plan, state)
        except (exceptions.Conflict, exceptions.DockerError) as exc:
            raise exceptions.PinningMismatch(reason=str(exc)) from exc

    def check(self, container: Container, plan: Plan) -> RuntimeState | None:
        """Return the runtime's state. Raises PinningMismatch if the kernel runs the container elsewhere than planned.

        One that has ended, or never ran, runs nowhere.
        """
        state = self._driver.show(container)
        with self._pool.steady_for(container) as told:  # it may be moved until then
            view = None if state is None else self._driver.kernel_view(container, state)
            if state is not None and view is not None and view.inherits:
                LOG.info("The runtime may only run on CPUs %s; container %s gets its own", view.engine, container.uuid)
                self._driver.use_all_cpus(container, state)
                view = self._driver.kernel_view(container, state)
        cpus = told.get(container.uuid, plan.cpus)
        if view is not None and (found := disagreements(cpus, plan.mems, view)):
            raise exceptions.PinningMismatch(reason="; ".join(found))
        if view is not None and (why := self._pool.broken_partition(container.uuid)):
            raise exceptions.PinningMismatch(reason=why)
        return state

    def remove_evacuated(self, context: RequestContext, hostname: str, uuids: Collection[str]) -> list[str]:
        """Remove the objects of those of ``uuids`` that were taken from this host while it was down; return these.

        Their containers are on other hosts by now, or wait for one. Nobody may claim what they run on before.
        """
        taken = Container.evacuated(context, hostname, list(uuids)) if uuids else []
        for uuid in taken:
            LOG.warning("Container %s was taken to another host while this one was down; its object is removed", uuid)
            self._driver.delete(Container(context, uuid=uuid, name=uuid, container_id=None), force=True)
        return taken

    def remove(self, context: RequestContext, container: Container, *, force: bool) -> None:
        """Remove it, those of a capsule's members before and what only they mounted after: else nothing would ever.

        All that can be, raising what went wrong with one. What a container left here that is on another host by now has
        the uuid of the container at the runtime.
        """
        elsewhere = owner_of(container.request) is not None or (
            departed(container.request) is not None and container.status != Status.DELETING
        )
        container = at_runtime(container)
        if container.kind in (Kind.CAPSULE, Kind.LEFTOVER):
            self._remove_members(context, container)
        self._remove_object(container, force=force)
        self._pool.cpuset_files.remove(container.uuid)
        self._volumes.remove(container, elsewhere=elsewhere)

    def stop(self, context: RequestContext, container: Container, timeout: int) -> None:
        """Stop it before it is removed. Each process has until ``timeout`` seconds from now to end.

        The containers of a capsule are stopped together, and then its sidecars, the one that was started last first.
        A failure to stop one is logged: it is removed by force.
        """
        members = Container.list_by_capsule(context, container.uuid) if container.kind == Kind.CAPSULE else []
        if not members:
            with contextlib.suppress(exceptions.ContainerVanished):
                self._driver.stop(container, timeout)
            return
        until = time.monotonic() + timeout

        def stop(member: Container) -> None:
            with logged("stop", member.uuid), contextlib.suppress(exceptions.ContainerVanished):
                self._driver.stop(member, max(0, round(until - time.monotonic())))

        served = [each for each in members if not is_sidecar(each)]
        with concurrent.futures.ThreadPoolExecutor(len(served)) as threads:
            list(threads.map(stop, served))
        for sidecar in reversed([each for each in members if is_sidecar(each)]):
            stop(sidecar)

    def _remove_object(self, container: Container, *, force: bool) -> None:
        if container.uuid in self._late and self._driver.show(container) is not None:
            del self._late[container.uuid]
        with self._pool.leaving(container.uuid):
            self._driver.delete(container, force=force)

    def discard(self, context: RequestContext, container: Container) -> bool:
        """Remove the remains of a creation that is given up. Returns whether nothing is left."""
        removed = False
        with logged("remove the object of", container.uuid):
            self.remove(context, container, force=True)
            removed = True
        return removed

    def _remove_members(self, context: RequestContext, capsule: Container) -> None:
        failure: exceptions.ZunError | None = None
        for member in reversed(Container.list_by_capsule(context, capsule.uuid)):
            try:
                self._remove_object(member, force=True)
            except exceptions.ZunError as exc:
                failure = exc
        if failure is not None:
            raise failure


def at_runtime(container: Container) -> Container:
    """Return the container as the runtime knows it: what a container left at this host has the container's uuid."""
    owner = owner_of(container.request)
    if owner is None:
        return container
    return Container(container.obj_context, **{**container.columns(), "uuid": owner, "kind": Kind.CONTAINER})


def page_mounts(plan: Plan) -> list[RuntimeMount]:
    """Return the mount of the plan's huge pages, which are all of one size. Empty without huge pages."""
    return [
        RuntimeMount("hugetlbfs", "", HUGE_PAGES_TARGET, size_bytes=count * size * 1024, page_kib=size)
        for size, count in plan.pages.items()
    ]


def disagreements(cpus: CpuSet, mems: CpuSet, view: KernelView) -> list[str]:
    """Return in words the differences of ``view`` from the planned CPUs and memory nodes.

    The control group must be exactly the plan. The first process may have narrowed itself, never widened.
    """
    found = []
    if view.cgroup_cpus != cpus:
        found.append(f"its cgroup allows CPUs {view.cgroup_cpus or 'none'}, the plan is {cpus}")
    if view.cgroup_mems != mems:
        found.append(f"its cgroup allows memory nodes {view.cgroup_mems or 'none'}, the plan is {mems}")
    if not view.cpus <= cpus:
        found.append(f"its first process may run on CPUs {view.cpus}, the plan is {cpus}")
    if not view.mems <= mems:
        found.append(f"its first process may use memory nodes {view.mems}, the plan is {mems}")
    return found
