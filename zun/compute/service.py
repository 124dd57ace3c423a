# SPDX-License-Identifier: Apache-2.0
"""zun-compute as a set of running parts, for its own program and for the all-in-one."""

import concurrent.futures
import datetime
import functools
import logging
import pathlib
import threading
from collections.abc import Callable

import oslo_messaging
from oslo_config import cfg
from oslo_utils import timeutils

from zun.common import exceptions, outages, rpc
from zun.common.context import RequestContext, admin_context
from zun.common.notifications import Notifier
from zun.common.periodic import Periodic
from zun.common.states import TRANSITIONAL, Status
from zun.compute.archives import Archives, Space
from zun.compute.auditor import Auditor
from zun.compute.compute_node_tracker import ComputeNodeTracker
from zun.compute.endpoint import ComputeEndpoint
from zun.compute.images import Accounts, Images
from zun.compute.inventory import inventory
from zun.compute.lines import Lines
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
from zun.topology import HostTopology, discover
from zun.volume.volumes import Volumes

LOG = logging.getLogger(__name__)

LOST_SECONDS = 600  # a message that has not been read for so long is lost: its host is known to be down much sooner
ARCHIVE_SWEEP_SECONDS = 30
IMAGE_SWEEP_SECONDS = 3600
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
        self._pool = SharedPool(self.tracker, driver)
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._under_way: set[str] = set()  # background work that waits for a worker or has one, by what it is about

    def start(self, transport: oslo_messaging.Transport) -> None:
        """Register the host, take up what an earlier run left, then answer messages. Returns when it does."""
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
        self._looks = Looks(self._look, conf.compute.workers + SPARE_LOOKS)
        context = admin_context()
        self._heartbeat()
        self._update_inventory()
        self._recover(context)
        Image.fail_unfinished(context, self._host, "The compute service was restarted. Delete the image and try again.")
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
        endpoint = ComputeEndpoint(
            self.parts,
            self._driver,
            self.auditor,
            TerminalDesk(self._driver, proxy.base_url, proxy.token_ttl),
            Lines(self._workers),
            conf.docker.execute_timeout,
            Images(self._driver, accounts, self.parts.images, self.parts.operations.locks),
            self.archives,
        )
        self._server = rpc.get_server(transport, rpc.COMPUTE_TOPIC, self._host, [endpoint])
        self._server.start()
        tasks: list[tuple[Callable[[], object], float]] = [
            (self._heartbeat, conf.compute.heartbeat_interval),
            (self._update_inventory, conf.compute.inventory_interval),
            (self._sync_all, conf.compute.sync_container_state_interval),
            (self.archives.sweep, ARCHIVE_SWEEP_SECONDS),
            (self._sweep_images, IMAGE_SWEEP_SECONDS),
        ]
        if conf.compute.audit_interval:
            tasks.append((self._audit, conf.compute.audit_interval))
        self._periodic = Periodic(tasks)
        self._periodic.start()
        self._events = threading.Thread(target=self._follow_events, name="events", daemon=True)
        self._events.start()

    def stop(self) -> None:
        self._stopping.set()
        self._periodic.stop()
        self._server.stop()
        self._server.wait()
        self._looks.stop()
        self._workers.shutdown(wait=True)
        self._scheduler_api.close()
        self._events.join(timeout=5)

    def _heartbeat(self) -> None:
        zone = self._conf.compute.availability_zone or self._conf.default_availability_zone
        ZunService.heartbeat(admin_context(), self._host, COMPUTE_BINARY, zone)

    def _update_inventory(self) -> None:
        context = admin_context()
        found = inventory(self._conf, self._machine(), self._driver.facts())
        changed = found.topology != self.tracker.topology
        generation = self.tracker.update_inventory(context, found.topology, found.columns)
        if changed:
            for note in found.topology.notes:
                LOG.warning("Reading the hardware: %s", note)
            LOG.info("This host has CPUs %s in %d cells", found.topology.cpus, len(found.topology.cells))
            self._scheduler_api.host_changed(context, host=self._host, generation=generation)
        self.parts.resizer.keep_up(context)

    def _recover(self, context: RequestContext) -> None:
        """Rebuild what this host holds, and go on with every operation that a stop interrupted."""
        containers = Container.list_by_host(context, self._host)
        self.tracker.rebuild(containers)
        runtime = self._driver.list()
        self.parts.reconciler.restore(containers, runtime)
        for container in containers:
            runtime.pop(container.uuid, None)
            self._submit(functools.partial(self._take_up, context, container.uuid), container.uuid)
        for uuid, state in runtime.items():
            LOG.warning(
                "The runtime has container %s (%s) on CPUs %s, of which the database knows nothing. If it is not "
                "wanted, remove it there.",
                uuid,
                state.container_id,
                state.cpuset_cpus,
            )

    def _take_up(self, context: RequestContext, uuid: str) -> None:
        """Do what is left to do in the container. It is decided once no other operation works on it."""
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
            step = first_step(container)
            if step is not Step.SYNC:
                LOG.info("Container %s was interrupted: %s", uuid, step)
            steps[step](context, container)

    def _sync_all(self) -> None:
        """Compare every container with the runtime, and take up what lost its message or is left to be removed."""
        context = admin_context()
        containers = Container.list_by_host(context, self._host)
        unsettled = self._networks.unsettled(context, containers)
        # What is worked on gets no worker that would wait for it: an image may take hours to come.
        busy = self.parts.operations.locks.wanted()
        for uuid in self.tracker.disagreeing(containers) - busy.keys():
            self._submit(functools.partial(self.parts.resizer.settle, context, uuid), f"claim of {uuid}")
        for container in containers:
            uuid, idle = container.uuid, container.uuid not in busy
            unfinished = container.status in TRANSITIONAL or container.status == Status.DELETED
            # With a task state its operation is over and could not say so: the database was away.
            if idle and (unfinished or container.task_state is not None):
                self._submit(functools.partial(self._take_up, context, uuid), uuid)
            elif not unfinished:
                if idle and uuid in unsettled:
                    settle = functools.partial(self.parts.attachments.settle, context, container)
                    self._submit(settle, f"networks of {uuid}")
                self._looks.at(uuid)
        self._submit(self._settle_pool, "pool")
        self._submit(functools.partial(self._networks.sweep, context), "networks")
        self._submit(functools.partial(self._end_lost, context), "lost")

    def _settle_pool(self) -> None:
        """Widen, or narrow, what could not be when something was given back or taken."""
        try:
            self._pool.settle()
        except exceptions.ZunError as exc:
            LOG.warning("The shared pool could not be settled and is tried again: %s", exc)

    def _end_lost(self, context: RequestContext) -> None:
        """Tell who waits for them what will not end: messages were lost, or an end that the database was not told."""
        before = timeutils.utcnow() - datetime.timedelta(seconds=LOST_SECONDS)
        busy = list(self.parts.operations.locks.wanted())
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
            self.auditor.audit(admin_context(), repair=self._conf.compute.audit_repair)
        except exceptions.ZunError as exc:
            LOG.warning("This host could not be audited: %s", exc)

    def _sweep_images(self) -> None:
        try:
            self.parts.images.sweep(admin_context())
        except exceptions.ZunError as exc:
            LOG.warning("The images of this host could not be looked through and are the next time: %s", exc)

    def _look(self, uuid: str) -> None:
        if self.parts.reconciler.sync(admin_context(), uuid):
            self._submit(functools.partial(self._take_up, admin_context(), uuid), uuid)

    def _follow_events(self) -> None:
        follow(self._driver, self._stopping, one=self._looks.at, every=lambda: self._submit(self._sync_all))

    def _submit(self, work: Callable[[], object], about: str | None = None) -> None:
        """Have a worker do ``work``, unless something ``about`` the same is waiting or under way: the next comparison
        asks again. So what hangs takes one worker, and not one more with each comparison.
        """

        def run() -> None:
            try:
                work()
            except outages.OUTAGES as exc:
                LOG.warning("Background work failed and is taken up again: %s", exceptions.first_line(exc))
            except Exception:
                LOG.exception("Background work failed; the next comparison with the runtime takes it up again")
            finally:
                if about is not None:
                    with self._lock:
                        self._under_way.discard(about)

        with self._lock:
            if self._stopping.is_set() or about in self._under_way:
                return
            if about is not None:
                self._under_way.add(about)
        self._workers.submit(run)
