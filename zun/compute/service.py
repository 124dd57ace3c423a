# SPDX-License-Identifier: Apache-2.0
"""Put zun-compute together, start it and stop it, for its own program and for the all-in-one."""

import concurrent.futures
import datetime
import functools
import itertools
import logging
import threading
from collections.abc import Callable, Collection

import oslo_messaging
import prometheus_client
from oslo_config import cfg
from oslo_utils import timeutils

from zun.common import exceptions, outages
from zun.common.context import RequestContext, admin_context
from zun.common.periodic import Periodic
from zun.common.whole_files import place_of
from zun.compute.audit.auditor import Auditor
from zun.compute.container.networks import Networks, Published
from zun.compute.container.operations import CONTAINER
from zun.compute.container.runtime_objects import at_runtime
from zun.compute.endpoint import ComputeEndpoint
from zun.compute.host.compute_node_tracker import ComputeNodeTracker
from zun.compute.host.cpuset_files import CpusetFiles
from zun.compute.host.engine_watch import EngineWatch, Namesakes
from zun.compute.host.host_inventory import HostInventory
from zun.compute.host.host_metrics import HostCollector
from zun.compute.host.inventory import own_zone
from zun.compute.host.shared_pool import SharedPool
from zun.compute.host_parts import HostParts
from zun.compute.images.glance_images import GlanceImages
from zun.compute.images.images import Accounts, Images
from zun.compute.images.sessions import Archives, Space, TerminalDesk
from zun.compute.kept.records import Records
from zun.compute.kept.recovery import Outcome
from zun.compute.quiet.quiet import quiet_of
from zun.compute.work.errands import KIND as ERRAND
from zun.compute.work.errands import Errands
from zun.compute.work.queue import Key, Lane, Queue
from zun.compute.work.watch import follow
from zun.container.driver.driver import ContainerDriver
from zun.messaging import releases, rpc
from zun.messaging.notifications import Notifier
from zun.messaging.scheduler_api import SchedulerAPI
from zun.network.driver import NetworkDriver
from zun.objects import Container, ContainerActionEvent, Image, ZunService
from zun.objects.container_action import LOST_SECONDS
from zun.objects.service import COMPUTE_BINARY
from zun.placement.client import PlacementClient
from zun.placement.enforce import Enforced
from zun.placement.ledger import Ledger, NoLedger
from zun.placement.reporter import Reporter
from zun.placement.tree import Provider
from zun.topology import HostTopology
from zun.volume.volumes import Volumes

LOG = logging.getLogger(__name__)

ARCHIVE_SWEEP_SECONDS = 30
IMAGE_SWEEP_SECONDS = ACTION_SWEEP_SECONDS = 3600
LONG_STOPS = 256  # at the same time; they wait for processes to end, and cost nothing meanwhile


class ComputeService:
    """The agent of one host. Call ``start`` after any fork; ``stop`` lets operations under way finish."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        driver: ContainerDriver,
        network_driver: NetworkDriver,
        *,
        host: str | None = None,
        machine: Callable[[], HostTopology] | None = None,
        volumes: Volumes | None = None,
        kernel: str | None = None,
    ) -> None:
        """``host`` and ``machine`` replace the configured name and the hardware: several hosts fit in one process.

        ``volumes`` replace those that are kept below state_path. ``kernel`` is the root of the machine whose kernel
        keeps the CPUs of containers quiet; without it nothing of the kernel is changed.
        """
        self._conf = conf
        self._driver = driver
        self._network_driver = network_driver
        self._machine = machine
        self._volumes = volumes or Volumes.from_conf(conf, host or conf.host)
        self._host: str = host or conf.host
        self.tracker = ComputeNodeTracker(
            self._host, enable_cpu_pinning=conf.compute.enable_cpu_pinning, default_disk=conf.default_disk
        )
        self._repairs: bool = conf.compute.audit_repair  # now: a value that cannot be read must not end audits later
        self._quiet = quiet_of(conf, self._host, kernel, self.tracker.claimed)
        files = CpusetFiles(place_of(conf.state_path, "cpusets", self._host), driver)
        self._pool = SharedPool(self.tracker, driver, conf.compute.huge_page_base_memory, self._quiet, files)
        self._records = Records.of_host(conf.state_path, self._host)
        self._namesakes = Namesakes()
        self._stopping = threading.Event()

    def start(self, transport: oslo_messaging.Transport) -> None:
        """Register the host, take up the work of an earlier run, then answer messages. Returns at the first."""
        endpoint = self._put_together(transport)
        context = admin_context()
        self._network_driver.start()
        try:
            self._update_inventory()
        except exceptions.Unavailable as exc:
            self._engine.away_at_start(context, str(exc))
            raise
        self._heartbeat()  # not before: a host that does not come up must get no containers
        self._networks.isolate()
        self._recover(context)
        self._ledger.start()
        for uuid in self._images.end_unfinished(context, self._host):
            self.errands.put(context, uuid, "delete", functools.partial(self._images.delete, context, uuid))
        self.queue.start()
        self.parts.prober.start(self.parts.road.look_soon)
        self._server = rpc.get_host_server(transport, self._host, [endpoint])
        self._server.start()
        self._periodic = Periodic(self._tasks())
        self._periodic.start()
        self._events = threading.Thread(target=self._follow_events, name="events", daemon=True)
        self._events.start()
        self._metrics = HostCollector(
            self._host,
            lambda: (self.tracker.topology, self.tracker.usage),
            lambda: len(self.queue.busy()),
            lambda: self._engine.up,
            self.auditor.open_findings,
            self.auditor.readings,
        )
        prometheus_client.REGISTRY.register(self._metrics)

    def _put_together(self, transport: oslo_messaging.Transport) -> ComputeEndpoint:
        """Build the objects of the agent and its RPC endpoint. Start nothing yet."""
        conf = self._conf
        pin = releases.pinned("scheduler", conf.upgrade_levels.scheduler)
        self._scheduler_api = SchedulerAPI(transport, pin=pin)
        notifier = Notifier(conf, f"{COMPUTE_BINARY}.{self._host}")
        accounts = Accounts.from_conf(conf)
        self._engine = EngineWatch.of_host(self._host, self._driver, self._scheduler_api, conf.state_path)
        self._driver.judged_by(self._engine.judge)
        self._networks = Networks(self._host, self._network_driver, Published.from_conf(conf))
        self._ledger = _ledger(
            conf,
            self._host,
            lambda *about: self._inventory.providers(*about),
            lambda: self._put("inventory", self._update_inventory),
        )
        options = conf.compute
        self._threads = {
            Lane.OPERATION: concurrent.futures.ThreadPoolExecutor(options.workers),
            Lane.LONG: concurrent.futures.ThreadPoolExecutor(LONG_STOPS, "stop"),
            Lane.LOOK: concurrent.futures.ThreadPoolExecutor(options.workers, "look"),
        }
        self.errands = Errands()
        self.queue = Queue(
            {CONTAINER: lambda uuid: self.parts.road.look(uuid), ERRAND: self.errands.do},
            {CONTAINER: lambda uuid: self.parts.road.beside(uuid)},
            self._threads,
            gave_up=self._gave_up,
        )
        self.errands.use(self.queue)
        glance = GlanceImages.from_conf(conf, self._driver)
        self.parts = HostParts.of_host(
            self._host,
            tracker=self.tracker,
            pool=self._pool,
            driver=self._driver,
            scheduler_api=self._scheduler_api,
            notifier=notifier,
            networks=self._networks,
            accounts=accounts,
            glance=glance,
            volumes=self._volumes,
            queue=self.queue,
            errands=self.errands,
            ledger=self._ledger,
            records=self._records,
            engine=self._engine,
            most_layer=options.move_layer_mb * 2**20,
        )
        self._inventory = HostInventory(
            conf,
            self._host,
            self._driver,
            self.tracker,
            self._engine,
            self._ledger,
            self._scheduler_api,
            self.parts.recovery,
            joins_neutron=self._network_driver.joins_neutron,
            machine=self._machine,
            quiet=self._quiet,
        )
        self.auditor = Auditor(
            self._host,
            self.tracker,
            self._pool,
            self._driver,
            self.parts.operations,
            notifier,
            self._ledger,
            conf.compute.audit_host_processes,
            self._quiet,
        )
        self._images = Images(self._driver, accounts, self.parts.images, glance)
        self.archives = Archives(self._driver, Space(conf.state_path, conf.compute.archive_space_mb))
        proxy = conf.websocket_proxy
        return ComputeEndpoint(
            self.parts,
            self.queue,
            self.errands,
            console=self._driver,
            execute_timeout=conf.docker.execute_timeout,
            auditor=self.auditor,
            terminals=TerminalDesk(self._driver, proxy.base_url, proxy.token_ttl, conf.quota.terminals),
            images=self._images,
            archives=self.archives,
            recover=self.recover,
        )

    def _tasks(self) -> list[tuple[Callable[[], object], float]]:
        """Return the periodic tasks, each with its interval in seconds."""
        options = self._conf.compute
        tasks: list[tuple[Callable[[], object], float]] = [
            (self._heartbeat, options.heartbeat_interval),
            (self._ping, options.heartbeat_interval),
            (self._update_inventory, options.inventory_interval),
            (self._compare, options.sync_container_state_interval),
            (self.archives.sweep, ARCHIVE_SWEEP_SECONDS),
            (self._sweep_images, IMAGE_SWEEP_SECONDS),
            (lambda: ContainerActionEvent.prune(admin_context(), self._host), ACTION_SWEEP_SECONDS),
        ]
        return [*tasks, (self._audit, options.audit_interval)] if options.audit_interval else tasks

    def stop(self) -> None:
        self._stopping.set()
        prometheus_client.REGISTRY.unregister(self._metrics)
        self._periodic.stop()
        self._server.stop()
        self._server.wait()
        self.parts.prober.stop()
        self.queue.stop()
        for threads in self._threads.values():
            threads.shutdown(wait=True, cancel_futures=True)
        self._ledger.stop()
        self._scheduler_api.close()
        self._events.join(timeout=5)
        self._network_driver.stop()

    def _heartbeat(self) -> None:
        count = ZunService.heartbeat(admin_context(), self._host, COMPUTE_BINARY, own_zone(self._conf))
        if self._namesakes.seen(count):
            LOG.error(
                "Another zun-compute runs as host %s. Each of the two gets some of the other's requests, gives away "
                "its CPUs and takes its containers for lost. Stop one, give each a [DEFAULT] host of its own, and "
                "start both.",
                self._host,
            )

    def _ping(self) -> None:
        """Tell the schedulers when the engine goes away, and describe the engine anew at its return."""
        was_up = self._engine.up
        if self._engine.look(admin_context()) and not was_up:
            self._update_inventory()

    def _update_inventory(self) -> None:
        context = admin_context()
        for uuid in self._inventory.update(context):
            self.parts.road.look_soon(uuid)  # a device of it may be gone, or back
        self.parts.resizer.keep_up(context)

    def _recover(self, context: RequestContext) -> None:
        """Rebuild what this host holds, and have each of its containers looked at."""
        containers = Container.list_by_host(context, self._host)
        self.tracker.rebuild(containers)
        runtime = self._driver.list()
        strange = runtime.keys() - {at_runtime(each).uuid for each in containers}
        try:
            for uuid in self.parts.objects.remove_evacuated(context, self._host, strange):
                del runtime[uuid]
        except exceptions.ZunError as exc:  # the host must start: the audit tells of objects that run there yet
            LOG.error("What was taken to other hosts while this one was down could not be removed: %s", exc)
        lost = self.tracker.recover_lost(containers, runtime)
        self._quiet.settle(thorough=True)
        self.parts.reconciler.restore(containers, runtime, lost)
        unplugged = self._networks.unsettled(context, containers)
        for container in containers:
            runtime.pop(at_runtime(container).uuid, None)
            self.parts.road.look_soon(container.uuid, unplugged=container.uuid in unplugged, first=True)
        for uuid, state in runtime.items():
            LOG.warning(
                "The runtime has container %s (%s) on CPUs %s, of which the database knows nothing. If the database "
                "was lost, 'zun-db-manage recover' brings it back; if it is not wanted, remove it there.",
                uuid,
                state.container_id,
                state.cpuset_cpus,
            )

    def recover(self, context: RequestContext, *, dry_run: bool) -> list[Outcome]:
        """Give the containers that the database has lost their rows back. See ``Recovery.recover``."""
        outcomes = self.parts.recovery.recover(context, dry_run=dry_run)
        if not dry_run:
            self._update_inventory()  # their CPUs count as this host's again
            for outcome in outcomes:
                if outcome["reason"] is None:
                    self.parts.road.look_soon(outcome["uuid"])
        return outcomes

    def _compare(self) -> None:
        """Have every container looked at, and the parts of the host that they share put in order."""
        context = admin_context()
        containers = Container.list_by_host(context, self._host)
        unplugged = self._networks.unsettled(context, containers)
        for uuid in {each.uuid for each in containers} | self.tracker.disagreeing(containers):
            self.parts.road.look_soon(uuid, unplugged=uuid in unplugged)
        self._put("records", functools.partial(self.parts.recovery.keep, context, containers))
        self._put("pool", self._pool.settle)
        self._put("quiet", functools.partial(self._quiet.settle, thorough=True))
        ports = self.parts.recovery.ports_without_row
        self._put("networks", lambda: self._networks.sweep(context, ports(context)))
        self._put("named volumes", functools.partial(self.parts.named_volumes.remove, context))
        self._put("volumes", self._sweep_volumes)
        self._put("isolation", self._networks.isolate)
        self._put("lost", functools.partial(self._end_lost, context))

    def _sweep_volumes(self) -> None:
        """Give back volumes and files of containers that are neither in the database nor at the runtime."""
        context = admin_context()

        def known(uuids: Collection[str]) -> set[str]:
            return {*self._driver.list(), *(each.uuid for each in Container.list_by_uuids(context, list(uuids)))}

        self._volumes.sweep(known)
        self._pool.cpuset_files.sweep(known)

    def _end_lost(self, context: RequestContext) -> None:
        """Tell who waits for them which images will not be made: a message was lost, or an end could not be noted."""
        before = timeutils.utcnow() - datetime.timedelta(seconds=LOST_SECONDS)
        reason = "The compute service could not note how it ended. Delete the image and try again."
        wanted = itertools.chain.from_iterable(ContainerActionEvent.wanted_on(context, self._host).values())
        coming = {each["arguments"]["image"] for each in wanted if "image" in each["arguments"]}
        Image.fail_unfinished(context, self._host, reason, before, sorted(coming | self.errands.names()))

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

    def _follow_events(self) -> None:
        def compare() -> None:
            self._put("comparison", self._compare)
            self._put("inventory", self._update_inventory)  # it may be another engine

        follow(self._driver, self._stopping, one=self.parts.road.look_soon, every=compare)

    def _put(self, name: str, work: Callable[[], object]) -> None:
        """Have ``work`` on a part of the host done soon: once, however often it is asked for while it waits."""

        def once() -> None:
            try:
                work()
            except (exceptions.ZunError, *outages.OUTAGES) as exc:
                LOG.warning("Work on %s failed; the next comparison does it: %s", name, exceptions.first_line(exc))

        self.errands.put(admin_context(), name, name, once)

    def _gave_up(self, key: Key, error: BaseException) -> None:
        if key.kind == ERRAND:
            self.errands.give_up(key.name)
        else:
            self.parts.road.gave_up(key.name, error)


def _ledger(
    conf: cfg.ConfigOpts,
    hostname: str,
    providers: Callable[[str, Collection[str]], tuple[Provider, ...]],
    changed: Callable[[], None],
) -> Ledger:
    """Return what keeps the host's tree at Placement. ``changed`` is called when others took something of it."""
    options = conf.placement
    if options.mode == "off":
        return NoLedger()
    enforced = Enforced(options.wait, options.on_unavailable == "continue") if options.mode == "enforce" else None
    return Reporter(hostname, PlacementClient.from_conf(conf), providers, enforced, changed)
