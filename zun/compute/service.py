# SPDX-License-Identifier: Apache-2.0
"""Put zun-compute together, start it and stop it, for its own program and for the all-in-one."""

import concurrent.futures
import datetime
import functools
import itertools
import logging
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

import oslo_messaging
import prometheus_client
from oslo_config import cfg
from oslo_utils import timeutils

from zun.common import exceptions, outages
from zun.common.context import RequestContext, admin_context
from zun.common.periodic import Periodic
from zun.compute.audit.auditor import Auditor
from zun.compute.container.networks import Networks, Published
from zun.compute.container.operations import CONTAINER
from zun.compute.endpoint import ComputeEndpoint
from zun.compute.host.compute_node_tracker import ComputeNodeTracker
from zun.compute.host.engine_watch import EngineWatch, Namesakes, Neighbours
from zun.compute.host.host_metrics import HostCollector
from zun.compute.host.inventory import Inventory, inventory, own_zone, pages_of_programs, plans_there
from zun.compute.host.machine import NvmlFacts, discovered
from zun.compute.host.shared_pool import SharedPool
from zun.compute.host_parts import HostParts
from zun.compute.images.glance_images import GlanceImages, local_name
from zun.compute.images.images import Accounts, Images
from zun.compute.images.sessions import Archives, Space, TerminalDesk
from zun.compute.kept.records import Records
from zun.compute.kept.recovery import Outcome
from zun.compute.work.errands import KIND as ERRAND
from zun.compute.work.errands import Errands
from zun.compute.work.queue import Key, Lane, Queue
from zun.compute.work.watch import follow
from zun.container.driver.driver import ContainerDriver
from zun.messaging import releases, rpc
from zun.messaging.notifications import Notifier
from zun.messaging.scheduler_api import SchedulerAPI
from zun.network.driver import NetworkDriver
from zun.objects import ComputeNode, Container, ContainerActionEvent, Image, ZunService
from zun.objects.container_action import LOST_SECONDS
from zun.objects.placement import held_plan
from zun.objects.service import COMPUTE_BINARY
from zun.placement.client import PlacementClient
from zun.placement.enforce import Enforced
from zun.placement.foreign import foreign_of
from zun.placement.ledger import Ledger, NoLedger
from zun.placement.reporter import Reporter
from zun.placement.tree import Disk, Provider, tree
from zun.topology import HostTopology, Plan, host_use
from zun.topology.foreign import NO_FOREIGN, Foreign
from zun.topology.ranges import MALFORMED
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
    ) -> None:
        """``host`` and ``machine`` replace the configured name and the hardware: several hosts fit in one process.

        ``volumes`` replace those that are kept below state_path.
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
        self._repairs: bool = conf.compute.audit_repair
        self._pool = SharedPool(self.tracker, driver, conf.compute.huge_page_base_memory)
        self._records = Records.of_host(conf.state_path, self._host)
        self._namesakes = Namesakes()
        self._neighbours = Neighbours(
            self._host, conf.compute.inventory_interval, sees_rows=conf.compute.database == "direct"
        )
        self._nvml = NvmlFacts()
        self._inventory: Inventory | None = None
        self._uses: dict[str, str] = {}  # by the host itself, of devices by their addresses
        """The inventory that this run wrote last."""
        self._inventory_turn = threading.Lock()
        """One thread at a time makes the inventory: an older look at the host must not replace a newer one."""
        self._stopping = threading.Event()

    def start(self, transport: oslo_messaging.Transport) -> None:
        """Register the host, take up what an earlier run left, then answer messages. Returns when it does."""
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
        self._end_images(context)
        self.queue.start()
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

    def _end_images(self, context: RequestContext) -> None:
        """Put the images that an earlier run did not finish into Error, and remove those whose upload was under way.

        An image for Glance that the runtime does not have may be made yet: the message may still be in the queue.
        """
        reason = "The compute service was restarted. Delete the image and try again."
        found = Image.fail_unfinished(context, self._host, reason)
        for uuid in found or ():  # a conductor of an earlier release returns None
            try:
                if self._driver.find_image(local_name(uuid)) is not None:
                    self.errands.put(uuid, "delete", functools.partial(self._images.delete, context, uuid))
            except exceptions.ZunError as exc:
                LOG.warning("Image %s, whose upload did not end, stays for now: %s", uuid, exc)

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
        self._ledger = self._make_ledger()
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

    def _make_ledger(self) -> Ledger:
        options = self._conf.placement
        if options.mode == "off":
            return NoLedger()
        enforced = Enforced(options.wait, options.on_unavailable == "continue") if options.mode == "enforce" else None
        client = PlacementClient.from_conf(self._conf)
        changed = functools.partial(self._put, "inventory", self._update_inventory)
        return Reporter(self._host, client, self._providers, enforced, changed)

    def _providers(self, name: str, aggregates: Collection[str]) -> tuple[Provider, ...]:
        """The tree of this host at Placement as it is now."""
        assert self._inventory is not None  # the host is known before anybody is told
        columns, tracker = self._inventory.columns, self.tracker
        disk = Disk(columns["disk_total"], columns["disk_allocation_ratio"], tracker.disk_held)
        pinning = columns["enable_cpu_pinning"]
        return tree(
            self._host, tracker.topology, tracker.usage, disk,
            traits=columns["traits"], aggregates=aggregates, pinning=pinning, name=name,
        )  # fmt: skip

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
            (self._sweep_actions, ACTION_SWEEP_SECONDS),
        ]
        return [*tasks, (self._audit, options.audit_interval)] if options.audit_interval else tasks

    def stop(self) -> None:
        self._stopping.set()
        prometheus_client.REGISTRY.unregister(self._metrics)
        self._periodic.stop()
        self._server.stop()
        self._server.wait()
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
        """Tell the schedulers when the engine goes away, and describe it anew when it is back."""
        was_up = self._engine.up
        if self._engine.look(admin_context()) and not was_up:
            self._update_inventory()

    def _update_inventory(self) -> None:
        context = admin_context()
        with self._inventory_turn:
            self._write_inventory(context)
        self.parts.resizer.keep_up(context)

    def _write_inventory(self, context: RequestContext) -> None:
        others = self._plans_of_others(context)
        facts = self._driver.facts()
        if self._machine is None:
            machine = self._nvml.added_to(discovered(cdi_folders=facts.cdi_folders))
        else:
            machine = self._machine()
        plans = self._plans(context)
        held = {device.address for plan in plans for device in plan.devices}
        devices, self._uses = host_use.remembered(machine.devices, self._uses, held)
        found = inventory(
            self._conf,
            replace(machine, devices=devices),
            facts,
            others,
            held,
            neutron=self._network_driver.joins_neutron,
        )
        foreign = self._foreign(context, found.topology)
        found = replace(found, topology=found.topology.shared_with(foreign))
        generation = self.tracker.update_inventory(context, found.topology, found.columns)
        self._engine.found(context, facts.engine)
        if found != self._inventory:
            self._inventory = found
            for note in (*found.topology.notes, *self._used_pages(found.topology, plans)):
                LOG.warning("Reading the hardware: %s", note)
            LOG.info("This host has CPUs %s in %d cells", found.topology.cpus, len(found.topology.cells))
            self._scheduler_api.host_changed(context, host=self._host, generation=generation)
            if foreign:
                LOG.info("Consumers of other services have %s of this host at Placement", foreign)
            self._ledger.look()
            for uuid, plan in self.tracker.usage:
                if plan.devices:  # one of them may be gone, or back
                    self.parts.road.look_soon(uuid)

    def _plans(self, context: RequestContext) -> Sequence[Plan]:
        """Return the plans that containers hold. The first inventory of a run is made before the tracker has claims."""
        if self._inventory is not None:
            return [plan for _, plan in self.tracker.usage]
        containers = Container.list_by_host(context, self._host)
        held = (held_plan(each) for each in containers if each.capsule_uuid is None)
        return [plan for plan in held if plan is not None]

    def _used_pages(self, topology: HostTopology, plans: Sequence[Plan]) -> Iterator[str]:
        """Yield notes on huge pages that containers may still be given and other programs use."""
        try:
            stock = self._driver.page_stock()
        except exceptions.DockerError as exc:
            yield str(exc)
        else:
            yield from pages_of_programs(topology, plans, stock)

    def _foreign(self, context: RequestContext, topology: HostTopology) -> Foreign:
        """Return what other services have of this host. Until Placement has told it, that is as of the last run."""
        if self._inventory is not None:
            before = self._inventory.topology.foreign
        elif self._conf.placement.mode == "off":
            before = NO_FOREIGN
        else:
            row = ComputeNode.topology(context, self._host)
            try:
                before = Foreign.from_dict(row["foreign"]) if "foreign" in row else NO_FOREIGN
            except MALFORMED as exc:  # written by hand; this host writes it anew
                LOG.warning("What other services had of this host cannot be read from its row: %.200r", exc)
                before = NO_FOREIGN
        others = self._ledger.others()
        return before if others is None else foreign_of(topology, self.tracker.usage, others, before.withheld)

    def _plans_of_others(self, context: RequestContext) -> list[Plan]:
        """Return the plans of containers that run here and are none of this host in the database.

        Either a service of another name made them: this service had that name before, or there are two services. Or
        the database has lost their rows.
        """
        there = self._driver.of_other_hosts()
        self._neighbours.tell(there)
        others = [plan for name, uuids in there.items() for plan in self._plans_there(context, name, uuids)]
        return others + self.parts.recovery.plans_without_row(context)

    def _plans_there(self, context: RequestContext, name: str, uuids: Collection[str]) -> list[Plan]:
        """Return the plans of the containers ``uuids`` of another host. A conductor does not tell them."""
        try:
            return plans_there(Container.list_by_host(context, name), uuids)
        except exceptions.Forbidden:
            return []

    def _recover(self, context: RequestContext) -> None:
        """Rebuild what this host holds, and have each of its containers looked at."""
        containers = Container.list_by_host(context, self._host)
        self.tracker.rebuild(containers)
        runtime = self._driver.list()
        lost = self.tracker.recover_lost(containers, runtime)
        self.parts.reconciler.restore(containers, runtime, lost)
        unplugged = self._networks.unsettled(context, containers)
        for container in containers:
            runtime.pop(container.uuid, None)
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
        self._put("pool", self._settle_pool)
        self._put("networks", self._sweep_networks)
        self._put("named volumes", functools.partial(self.parts.named_volumes.remove, context))
        self._put("volumes", self._sweep_volumes)
        self._put("isolation", self._networks.isolate)
        self._put("lost", functools.partial(self._end_lost, context))

    def _sweep_networks(self) -> None:
        context = admin_context()
        self._networks.sweep(context, self.parts.recovery.ports_without_row(context))

    def _sweep_volumes(self) -> None:
        """Give back volumes of containers that are neither in the database nor at the runtime."""
        context = admin_context()

        def known(uuids: Collection[str]) -> set[str]:
            return {*self._driver.list(), *(each.uuid for each in Container.list_by_uuids(context, list(uuids)))}

        self._volumes.sweep(known)

    def _settle_pool(self) -> None:
        """Move the members of the shared pool that could not be moved when CPUs were given back or taken."""
        try:
            self._pool.settle()
        except exceptions.ZunError as exc:
            LOG.warning("The shared pool could not be settled and is tried again: %s", exc)

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

    def _sweep_actions(self) -> None:
        ContainerActionEvent.prune(admin_context(), self._host)

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
            except outages.OUTAGES as exc:
                LOG.warning("Work on %s failed; the next comparison does it: %s", name, exceptions.first_line(exc))

        self.errands.put(name, name, once)

    def _gave_up(self, key: Key, error: BaseException) -> None:
        if key.kind == ERRAND:
            self.errands.drop(key.name)
        else:
            self.parts.road.gave_up(key.name, error)
