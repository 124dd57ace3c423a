# SPDX-License-Identifier: Apache-2.0
"""zun-compute as a set of running parts, for its own program and for the all-in-one."""

import concurrent.futures
import datetime
import functools
import logging
import pathlib
import threading
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import oslo_messaging
from oslo_config import cfg
from oslo_utils import timeutils

from zun.common import exceptions, outages, rpc
from zun.common.context import RequestContext, admin_context
from zun.common.notifications import Notifier
from zun.common.periodic import Periodic
from zun.common.states import TRANSITIONAL, Status, TaskState
from zun.compute.archives import Archives, Space
from zun.compute.auditor import Auditor
from zun.compute.compute_node_tracker import ComputeNodeTracker
from zun.compute.endpoint import ComputeEndpoint
from zun.compute.images import Accounts, Images
from zun.compute.inventory import Inventory, held_alone, inventory, own_zone
from zun.compute.lines import Lines
from zun.compute.namesakes import Namesakes
from zun.compute.networks import Networks, Published
from zun.compute.parts import Parts
from zun.compute.reconcile import Step, first_step
from zun.compute.shared_pool import SharedPool
from zun.compute.terminals import TerminalDesk
from zun.compute.watch import Looks, follow
from zun.container.driver import ContainerDriver
from zun.network.driver import NetworkDriver
from zun.objects import Container, ContainerActionEvent, Image, ZunService
from zun.objects.service import COMPUTE_BINARY
from zun.scheduler.rpcapi import SchedulerAPI
from zun.topology import CpuSet, HostTopology, discover
from zun.topology.cpuset import union
from zun.volume.volumes import Volumes

LOG = logging.getLogger(__name__)

LOST_SECONDS = 600  # a message that has not been read for so long is lost: its host is known to be down much sooner
ARCHIVE_SWEEP_SECONDS = 30
IMAGE_SWEEP_SECONDS = ACTION_SWEEP_SECONDS = 3600
LONG_STOPS = 256  # at the same time; they wait for processes to end, and cost nothing meanwhile
LOOK_SECONDS = 1.0  # that a look waits for what is under way with its container; then it comes behind that
SPARE_LOOKS = 4  # looks at containers in which nothing is under way, at the same time


class ComputeService:
    """The agent of one host. Call ``start`` after any fork; ``stop`` lets operations under way finish."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        driver: ContainerDriver,
        network_driver: NetworkDriver,
        *,
        host: str | None = None,
        machine: Callable[[], HostTopology] = discover,
        volumes: Volumes | None = None,
    ) -> None:
        """``host`` and ``machine`` replace the configured name and the hardware: several hosts fit in one process.

        ``volumes`` replace those that are kept below state_path.
        """
        self._conf = conf
        self._driver = driver
        self._network_driver = network_driver
        self._machine = machine
        self._volumes = volumes or Volumes.of_host(pathlib.Path(conf.state_path, "volumes"))
        self._host: str = host or conf.host
        self.tracker = ComputeNodeTracker(
            self._host, enable_cpu_pinning=conf.compute.enable_cpu_pinning, default_disk=conf.default_disk
        )
        self._repairs: bool = conf.compute.audit_repair
        self._pool = SharedPool(self.tracker, driver)
        self._namesakes = Namesakes()
        self._inventory: Inventory | None = None
        """What this run wrote last."""
        self._left: Mapping[str, AbstractSet[str]] | None = None
        """By host, the containers of other names that were there at the first look."""
        self._neighbours: set[str] = set()
        """Names of which there were more later, so that somebody makes them."""
        self._stopping = threading.Event()

    def start(self, transport: oslo_messaging.Transport) -> None:
        """Register the host, take up what an earlier run left, then answer messages. Returns when it does."""
        endpoint = self._put_together(transport)
        context = admin_context()
        self._heartbeat()
        self._update_inventory()
        self._recover(context)
        Image.fail_unfinished(context, self._host, "The compute service was restarted. Delete the image and try again.")
        self._server = rpc.get_server(transport, rpc.COMPUTE_TOPIC, self._host, [endpoint])
        self._server.start()
        self._periodic = Periodic(self._tasks())
        self._periodic.start()
        self._events = threading.Thread(target=self._follow_events, name="events", daemon=True)
        self._events.start()

    def _put_together(self, transport: oslo_messaging.Transport) -> ComputeEndpoint:
        """Make everything that works here, and what messages are handed to. Nothing is done yet."""
        conf = self._conf
        self._scheduler_api = SchedulerAPI(transport)
        notifier = Notifier(conf, f"{COMPUTE_BINARY}.{self._host}")
        accounts = Accounts.from_conf(conf)
        self._networks = Networks(self._host, self._network_driver, Published.from_conf(conf))
        self.parts = Parts.of_host(
            self._host,
            self.tracker,
            self._pool,
            self._driver,
            self._scheduler_api,
            notifier,
            self._networks,
            accounts,
            self._volumes,
        )
        self._workers = concurrent.futures.ThreadPoolExecutor(max_workers=conf.compute.workers)
        self._stops = concurrent.futures.ThreadPoolExecutor(max_workers=LONG_STOPS, thread_name_prefix="stop")
        self._lines = Lines(self._workers, self._stops)
        self._looks = Looks(self._look, conf.compute.workers + SPARE_LOOKS)
        self.auditor = Auditor(
            self._host,
            self.tracker,
            self._pool,
            self._driver,
            self.parts.operations,
            notifier,
            host_processes=conf.compute.audit_host_processes,
        )
        self.archives = Archives(self._driver, Space(conf.state_path, conf.compute.archive_space_mb))
        proxy = conf.websocket_proxy
        return ComputeEndpoint(
            self.parts,
            self._driver,
            self.auditor,
            TerminalDesk(self._driver, proxy.base_url, proxy.token_ttl),
            self._lines,
            conf.docker.execute_timeout,
            Images(self._driver, accounts, self.parts.images),
            self.archives,
        )

    def _tasks(self) -> list[tuple[Callable[[], object], float]]:
        """What is done again and again, and the seconds between."""
        options = self._conf.compute
        tasks: list[tuple[Callable[[], object], float]] = [
            (self._heartbeat, options.heartbeat_interval),
            (self._update_inventory, options.inventory_interval),
            (self._sync_all, options.sync_container_state_interval),
            (self.archives.sweep, ARCHIVE_SWEEP_SECONDS),
            (self._sweep_images, IMAGE_SWEEP_SECONDS),
            (self._sweep_actions, ACTION_SWEEP_SECONDS),
        ]
        return [*tasks, (self._audit, options.audit_interval)] if options.audit_interval else tasks

    def stop(self) -> None:
        self._stopping.set()
        self._periodic.stop()
        self._server.stop()
        self._server.wait()
        self._looks.stop()
        self._workers.shutdown(wait=True)
        self._stops.shutdown(wait=True)
        self._scheduler_api.close()
        self._events.join(timeout=5)

    def busy(self) -> set[str]:
        """What is worked on, or will be once there is a free thread: nobody may take it for lost."""
        return self._lines.about() | self.parts.operations.locks.wanted().keys()

    def _heartbeat(self) -> None:
        count = ZunService.heartbeat(admin_context(), self._host, COMPUTE_BINARY, own_zone(self._conf))
        if self._namesakes.seen(count):
            LOG.error(
                "Another zun-compute runs as host %s. Each of the two gets some of the other's requests, gives away "
                "its CPUs and takes its containers for lost. Stop one, give each a [DEFAULT] host of its own, and "
                "start both.",
                self._host,
            )

    def _update_inventory(self) -> None:
        context = admin_context()
        found = inventory(self._conf, self._machine(), self._driver.facts(), self._held_by_others(context))
        generation = self.tracker.update_inventory(context, found.topology, found.columns)
        if found != self._inventory:
            self._inventory = found
            for note in found.topology.notes:
                LOG.warning("Reading the hardware: %s", note)
            LOG.info("This host has CPUs %s in %d cells", found.topology.cpus, len(found.topology.cells))
            self._scheduler_api.host_changed(context, host=self._host, generation=generation)
        self.parts.resizer.keep_up(context)

    def _held_by_others(self, context: RequestContext) -> CpuSet:
        """What containers have for themselves that a service of another name made here: this one had that name before,
        or there are two. Whoever manages them, they run.
        """
        there = self._driver.of_other_hosts()
        self._tell_of_others(there)
        return union(held_alone(Container.list_by_host(context, name), uuids) for name, uuids in there.items())

    def _tell_of_others(self, there: Mapping[str, AbstractSet[str]]) -> None:
        if self._left is None:
            self._left = there
            for name, uuids in there.items():
                LOG.warning(
                    "The runtime has %d containers of host %s, which this one (%s) does not touch. Nobody gets the "
                    "CPUs that the database says dedicated ones among them have; what else they use may be given to "
                    "others. If this host had that name, set it again as [DEFAULT] host and restart zun-compute.",
                    len(uuids),
                    name,
                    self._host,
                )
        more = {name for name, uuids in there.items() if uuids - self._left.get(name, frozenset())}
        for name in more - self._neighbours:
            LOG.error(
                "Another zun-compute works with the same runtime, as host %s. The two hear of each other's containers "
                "every %d s ([compute] inventory_interval), and until then may give the same CPUs. Stop one, or give "
                "each CPUs of its own ([compute] cpu_dedicated_set, cpu_shared_set).",
                name,
                self._conf.compute.inventory_interval,
            )
        self._neighbours |= more

    def _recover(self, context: RequestContext) -> None:
        """Rebuild what this host holds, and go on with every operation that a stop interrupted."""
        containers = Container.list_by_host(context, self._host)
        self.tracker.rebuild(containers)
        runtime = self._driver.list()
        lost = self.tracker.recover_lost(containers, runtime)
        self.parts.reconciler.restore(containers, runtime, lost)
        for container in containers:
            runtime.pop(container.uuid, None)
            self._put_take_up(context, container)
        for uuid, state in runtime.items():
            LOG.warning(
                "The runtime has container %s (%s) on CPUs %s, of which the database knows nothing. If it is not "
                "wanted, remove it there.",
                uuid,
                state.container_id,
                state.cpuset_cpus,
            )

    def _put_take_up(self, context: RequestContext, container: Container) -> None:
        lingers = _may_linger(container)
        self._background(container.uuid, self._take_up, context, container.uuid, lingers, lingers=lingers)

    def _take_up(self, context: RequestContext, uuid: str, lingers: bool = False) -> None:
        """Do what is left to do in the container. It is decided once no other operation works on it.

        ``lingers``: who is asked to end its processes meanwhile does not wait for this.
        """
        parts, lifecycle = self.parts, self.parts.lifecycle
        steps: dict[Step, Callable[[RequestContext, Container], object]] = {
            Step.RESUME_CREATE: lambda ctx, each: parts.creation.resume(ctx, each.uuid),
            # What was accepted is deleted, whatever the runtime says: the user cannot ask for it a second time.
            Step.DELETE: lambda ctx, each: lifecycle.delete(ctx, each, force=True),
            Step.START: lifecycle.start,
            Step.STOP: lifecycle.stop,
            Step.REBOOT: lifecycle.reboot,
            Step.REBUILD: lifecycle.rebuild,
            Step.PAUSE: lifecycle.pause,
            Step.UNPAUSE: lifecycle.unpause,
            Step.KILL: lifecycle.kill,
            Step.SETTLE_NETWORKS: parts.attachments.settle,
            Step.SYNC: lambda ctx, each: self._looks.at(each.uuid),
        }
        with self.parts.operations.undisturbed(context, uuid) as container:
            if container is None or container.host != self._host:
                return
            if container.capsule_uuid is not None and container.status in TRANSITIONAL:
                return  # its capsule's step takes it along
            if _may_linger(container) and not lingers:
                self._put_take_up(context, container)  # when this was put its row was another
                return
            step = first_step(container)
            if step is not Step.SYNC:
                LOG.info("Container %s was interrupted: %s", uuid, step)
            steps[step](context, container)

    def _sync_all(self) -> None:
        """Compare every container with the runtime, and take up what lost its message or is left to be removed."""
        context = admin_context()
        containers = Container.list_by_host(context, self._host)
        unsettled = self._networks.unsettled(context, containers)
        for uuid in self.tracker.disagreeing(containers):
            self._background(uuid, self.parts.resizer.settle, context, uuid)
        busy = self.busy()
        for container in containers:
            uuid = container.uuid
            # Its operation is over and could not say so: the database was away.
            left = container.task_state is not None and uuid not in busy
            if left or container.status in TRANSITIONAL or container.status == Status.DELETED:
                self._put_take_up(context, container)
            else:
                if uuid in unsettled and container.task_state is None:
                    self._background(uuid, self.parts.attachments.settle, context, container)
                self._looks.at(uuid)
        self._background("pool", self._settle_pool)
        self._background("networks", self._networks.sweep, context)
        self._background("lost", self._end_lost, context)

    def _settle_pool(self) -> None:
        """Widen, or narrow, what could not be when something was given back or taken."""
        try:
            self._pool.settle()
        except exceptions.ZunError as exc:
            LOG.warning("The shared pool could not be settled and is tried again: %s", exc)

    def _end_lost(self, context: RequestContext) -> None:
        """Tell who waits for them what will not end: messages were lost, or an end that the database was not told."""
        before = timeutils.utcnow() - datetime.timedelta(seconds=LOST_SECONDS)
        busy = self.busy()
        reason = "The compute service could not note how it ended. Delete the image and try again."
        Image.fail_unfinished(context, self._host, reason, before, busy)
        for lost in ContainerActionEvent.end_lost(context, self._host, before, busy):
            LOG.warning(
                "Container %s: %s of request %s %s; whoever asked for it must look, and ask again if need be",
                lost["container_uuid"],
                lost["action"],
                lost["request_id"],
                "began, and nobody could note its end" if lost["begun"] else "never reached this host",
            )

    def _audit(self) -> None:
        try:
            self.auditor.audit(admin_context(), repair=self._repairs)
        except exceptions.ZunError as exc:
            LOG.warning("This host could not be audited: %s", exc)

    def _sweep_images(self) -> None:
        try:
            self.parts.images.sweep(admin_context())
        except exceptions.ZunError as exc:
            LOG.warning("The images of this host could not be looked through and are the next time: %s", exc)

    def _sweep_actions(self) -> None:
        ContainerActionEvent.prune(admin_context(), self._host)

    def _look(self, uuid: str) -> None:
        try:
            vanished = self.parts.reconciler.sync(admin_context(), uuid, LOOK_SECONDS)
        except exceptions.ContainerBusy:
            again = functools.partial(self._looks.at, uuid)
            if not self._lines.put_behind(uuid, again, name="look"):
                again()
            return
        if vanished:
            self._background(uuid, self._take_up, admin_context(), uuid)

    def _follow_events(self) -> None:
        compare = functools.partial(self._background, "comparison", self._sync_all)
        follow(self._driver, self._stopping, one=self._looks.at, every=compare)

    def _background(self, about: str, work: Callable[..., object], *arguments: Any, lingers: bool = False) -> None:
        """Have ``work`` done behind what is under way ``about`` the same: once, however often it is asked meanwhile.

        ``lingers`` as of Lines.
        """

        def run() -> None:
            try:
                work(*arguments)
            except outages.OUTAGES as exc:
                LOG.warning("Background work failed and is taken up again: %s", exceptions.first_line(exc))
            except Exception:
                LOG.exception("Background work failed; the next comparison with the runtime takes it up again")

        if not self._stopping.is_set():
            self._lines.put(about, run, name=work.__name__, lingers=lingers)


def _may_linger(container: Container) -> bool:
    """Whether what is left to do in it waits for its processes to end, as a stop that was asked for does."""
    return container.task_state in (TaskState.STOPPING, TaskState.REBOOTING)
