# SPDX-License-Identifier: Apache-2.0
"""The whole service: from the cast of a create to the claim that a compute service has committed.

One process is zun-scheduler, one plays zun-compute on every host: real trackers, operations and claims with the
in-memory driver. They talk over RabbitMQ and share a MariaDB. Only the addressing differs from a cloud: the hosts share
a few queues, since ten thousand servers do not fit in one process, so the name of the host travels in the limits.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import multiprocessing
import os
import pathlib
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

import psutil
import sqlalchemy as sa
from oslo_config import cfg
from oslo_utils import timeutils
from oslo_versionedobjects import base as ovo

from benchmarks.scheduling import clouds
from zun import conf as zun_conf
from zun.cmd import program
from zun.common.context import RequestContext
from zun.common.secrets import Cipher
from zun.compute.container.creation import Order
from zun.compute.endpoint import ComputeEndpoint
from zun.compute.host.compute_node_tracker import ComputeNodeTracker
from zun.compute.host.shared_pool import SharedPool
from zun.compute.host_parts import HostParts
from zun.conductor.endpoint import ConductorEndpoint
from zun.conductor.facts import Facts
from zun.conductor.service import THREADS as CONDUCTOR_THREADS
from zun.container.fake import InMemoryDriver
from zun.db import compute_nodes, models, session
from zun.db import containers as db
from zun.messaging import rpc
from zun.messaging.compute_api import VERSION, ComputeAPI, Request
from zun.messaging.conductor_api import ConductorAPI
from zun.messaging.scheduler_api import SchedulerAPI
from zun.objects import Container
from zun.objects.base import ZunObject
from zun.scheduler import filters, weighers
from zun.scheduler.endpoint import SchedulerEndpoint
from zun.scheduler.host_table import HostTable
from zun.scheduler.service import THREADS
from zun.tests.host_in_memory import parts_in_memory
from zun.topology import HostTopology

AGENTS = "benchmark"
HOST = "benchmark-host"  # the member of the limits that names the host
BURST = 100  # containers
WORKERS = 4  # of the process that plays all agents: more would fight over its interpreter, which agents do not share
CONTEXT = RequestContext(user_id="alice", project_id="demo", roles=["member"])


class SharedQueue(ComputeAPI):
    """Sends the messages for every host to the one process that plays all agents."""

    def _tell(
        self, context: RequestContext, host: str | None, method: str, version: str = VERSION, **arguments: Any
    ) -> None:
        for each in arguments.get("orders", [arguments]):
            each["limits"][HOST] = host
        super()._tell(context, AGENTS, method, version, **arguments)


class Witness(SchedulerAPI):
    """Notes when a claim was committed, which is when schedulers are told of it."""

    def __init__(self, transport: Any, report: Connection) -> None:
        super().__init__(transport)
        self._report = report
        self._lock = threading.Lock()

    def host_changed(self, context: RequestContext, **change: Any) -> None:
        now = time.monotonic()
        if change.get("held"):
            with self._lock:
                self._report.send_bytes(f"{change['uuid']} {now}".encode())
        super().host_changed(context, **change)


class EachHost(ovo.VersionedObjectIndirectionAPI):  # type: ignore[misc]
    """The way to the database through conductors, for threads that play a host each."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._hosts: dict[str, ConductorAPI] = {}
        self._playing = threading.local()

    def play(self, host: str) -> None:
        """Let this thread be ``host``."""
        self._playing.api = self._hosts.get(host) or self._hosts.setdefault(host, ConductorAPI(self._transport, host))

    def object_action(self, *arguments: Any) -> Any:
        return self._playing.api.object_action(*arguments)

    def save_claims(self, *arguments: Any) -> Any:
        return self._playing.api.save_claims(*arguments)

    def object_class_action_versions(self, *arguments: Any) -> Any:
        return self._playing.api.object_class_action_versions(*arguments)


class Silent:
    def status_changed(self, context: RequestContext, container: Container) -> None:
        """Do nothing: the benchmark reads no notifications."""


class Agents:
    """The RPC surface of zun-compute, for every host."""

    target = ComputeEndpoint.target

    def __init__(self, transport: Any, report: Connection, workers: int) -> None:
        self._scheduler = Witness(transport, report)
        self._workers = ThreadPoolExecutor(workers)
        self._state = tempfile.TemporaryDirectory(prefix="zun-benchmark-")
        self._hosts = self._start()

    @rpc.quick
    def create(
        self,
        context: RequestContext,
        *,
        container: Container,
        limits: Mapping[str, Any],
        alternates: Sequence[Mapping[str, Any]],
        tried: Mapping[str, str],
    ) -> None:
        self._workers.submit(self._create_many, [Order(context, container, limits, alternates, tried)])

    @rpc.quick
    def create_many(
        self, context: RequestContext, *, containers: Sequence[Container], orders: Sequence[Mapping[str, Any]]
    ) -> None:
        pairs = zip(containers, orders, strict=True)
        self._workers.submit(self._create_many, [Order.of(context, container, order) for container, order in pairs])

    def _create_many(self, orders: Sequence[Order]) -> None:
        host = orders[0].limits[HOST]
        if isinstance(ZunObject.indirection_api, EachHost):
            ZunObject.indirection_api.play(host)
        later: list[Callable[[], bool]] = []
        self._hosts[host].creation.create(orders, lambda _, work: later.append(work))
        for work in later:
            work()

    def _start(self) -> dict[str, HostParts]:
        """Start all agents from rows that are read once for all hosts."""
        held: dict[str, list[Container]] = {}
        for claim in db.claims():
            known = {name: claim[name] for name in ("uuid", "disk", "volume_disk", "cpuset")}
            # Claims are of what is not in a capsule, and they say themselves whether their cores are whole.
            container = Container(None, **known, capsule_uuid=None, placement={})
            held.setdefault(claim["host"], []).append(container)
        topologies: dict[str, HostTopology] = {}
        started = {}
        names = sorted(compute_nodes.generations())
        for at in range(0, len(names), 500):
            for node in compute_nodes.inventories(names[at : at + 500]):
                name, text = node["hostname"], node["topology"]
                if text not in topologies:
                    topologies[text] = HostTopology.from_dict(json.loads(text))
                tracker, driver = ComputeNodeTracker(name), InMemoryDriver()
                # As update_inventory would leave them, which would write every row again.
                tracker._topology = topologies[text]
                tracker._disk_limit = node["disk_total"] * node["disk_allocation_ratio"]
                tracker._generation = node["generation"]
                tracker.rebuild(held.get(name, []))
                started[name] = parts_in_memory(
                    cfg.CONF,
                    name,
                    tracker,
                    SharedPool(tracker, driver),
                    driver,
                    scheduler_api=self._scheduler,
                    notifier=Silent(),
                    records=pathlib.Path(self._state.name, name),
                )
        return started


def configuration() -> cfg.ConfigOpts:
    conf = zun_conf.register_opts(cfg.CONF)
    conf([], project="zun", default_config_files=[], default_config_dirs=[])
    conf.set_default("service_down_time", 86400)  # nobody gives a sign of life here
    logging.disable(logging.WARNING)
    # Queues of this run's own: the broker may have some of a cloud that is tested there, with other settings.
    run = os.environ.setdefault("BENCHMARK_RUN", str(os.getpid()))
    rpc.SCHEDULER_TOPIC, rpc.COMPUTE_TOPIC = f"benchmark.scheduler.{run}", f"benchmark.compute.{run}"
    rpc.CONDUCTOR_TOPIC = f"benchmark.conductor.{run}.{{host}}"
    rpc.CONDUCTORS_TOPIC = rpc.CONDUCTOR_TOPIC.format(host="#")
    return conf


def _serve(control: Connection) -> None:
    """Answer questions about CPU time until told to stop."""
    while control.recv() == "cpu":
        control.send(time.process_time())


def play_scheduler(database: str, rabbit: str, control: Connection) -> None:
    conf = configuration()
    rpc.register_opts(conf)
    conf.set_default("executor_thread_pool_size", THREADS)  # as the program does
    session.configure(database, pool_size=20, max_overflow=40)
    transport = rpc.get_transport(conf, rabbit)
    program.collect_garbage_seldom()  # as the program does
    table = HostTable(booking_seconds=60)
    start = time.monotonic()
    table.refresh()
    loaded = time.monotonic() - start
    endpoint = SchedulerEndpoint(
        table,
        filters.load(conf.scheduler.enabled_filters, conf),
        weighers.load(conf.scheduler.weighers, conf),
        SharedQueue(transport),
        max_attempts=conf.scheduler.max_attempts,
        alternates=conf.scheduler.alternates,
        host_subset_size=conf.scheduler.host_subset_size,
    )
    server = rpc.get_server(transport, rpc.SCHEDULER_TOPIC, f"benchmark-{os.getpid()}", [endpoint])
    server.start()
    control.send(loaded)
    _serve(control)
    server.stop()


def play_conductor(database: str, rabbit: str, control: Connection) -> None:
    conf = configuration()
    session.configure(database, pool_size=20, max_overflow=40)
    transport, endpoint = rpc.get_transport(conf, rabbit), ConductorEndpoint(Facts(), Cipher(()))
    server = rpc.get_server(
        transport, rpc.CONDUCTORS_TOPIC, f"/{os.getpid()}", [endpoint], CONDUCTOR_THREADS, addressed=True
    )
    server.start()
    control.send(0.0)
    _serve(control)
    server.stop()


def play_agents(database: str, rabbit: str, control: Connection, report: Connection, conductor: bool = False) -> None:
    conf = configuration()
    session.configure(database, pool_size=20, max_overflow=40)
    transport = rpc.get_transport(conf, rabbit)
    server = rpc.get_host_server(transport, AGENTS, [Agents(transport, report, WORKERS)])
    if conductor:
        ZunObject.indirection_api = EachHost(transport)
    # An agent has one host, and does not stop to look for garbage among the containers of thousands.
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], 1_000_000)
    server.start()
    control.send(0.0)
    _serve(control)
    server.stop()


@contextlib.contextmanager
def own_database(url: str) -> Iterator[str]:
    """Yield the URL of a new database on the server of ``url``, and drop the database at the end."""
    name, parsed = f"zun_bench_{os.getpid()}", sa.make_url(url)
    server = sa.create_engine(parsed, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    try:
        yield parsed.set(database=name).render_as_string(hide_password=False)
    finally:
        session.dispose()
        with server.connect() as connection:
            connection.exec_driver_sql(f"DROP DATABASE {name}")
        server.dispose()


def listener(port: int) -> psutil.Process | None:
    """Return the process that serves ``port`` of this machine."""
    found = psutil.net_connections("tcp")
    pids = [each.pid for each in found if each.status == psutil.CONN_LISTEN and each.laddr.port == port and each.pid]
    return psutil.Process(pids[0]) if pids else None


class Cloud:
    """The processes, and the client that casts to them."""

    def __init__(
        self, database: str, rabbit: str, hosts: int, conductor: bool = False, machine: HostTopology | None = None
    ) -> None:
        session.configure(database)
        clouds.fill([f"host-{number:05}" for number in range(hosts)], machine or clouds.machine())
        conf = configuration()
        spawn = multiprocessing.get_context("spawn")
        ports = {"RabbitMQ": urllib.parse.urlsplit(rabbit).port, "MariaDB": sa.make_url(database).port}
        self._servers = {name: found for name, port in ports.items() if port and (found := listener(port))}
        self._reports, report = spawn.Pipe(duplex=False)
        self._processes, self._controls, answers = [], [], []
        parts: list[tuple[Any, tuple[Any, ...]]] = [(play_scheduler, ()), (play_agents, (report, conductor))]
        self._names = ["scheduler", "agents"]
        if conductor:
            parts.append((play_conductor, ()))
            self._names.append("conductor")
        for play, more in parts:
            control, theirs = spawn.Pipe()
            process = spawn.Process(target=play, args=(database, rabbit, theirs, *more), daemon=True)
            process.start()
            theirs.close()  # so that the end of the process is the end of what it sends
            self._processes.append(process)
            self._controls.append(control)
        answers = [control.recv() for control in self._controls]
        self.load_seconds = answers[0]
        self.transport = rpc.get_transport(conf, rabbit)
        self._api = SchedulerAPI(self.transport)
        self._wishes = clouds.requests(7)
        self.done: dict[str, float] = {}

    def _listen(self, seconds: float) -> bool:
        """Note a claim that is committed within ``seconds``. Return whether a claim arrived."""
        if not self._reports.poll(max(0.0, seconds)):
            return False
        uuid, when = self._reports.recv_bytes().decode().split()
        self.done[uuid] = float(when)
        return True

    def accepted(self, count: int, **fields: Any) -> list[Container]:
        """Return containers as the API has written them, with ``fields`` for each."""
        now = timeutils.utcnow()
        rows = [{**clouds.row(next(self._wishes), now), "request": {"run": False}, **fields} for _ in range(count)]
        with session.writer() as connection:
            connection.execute(models.containers.insert(), rows)
        return [Container.from_row(CONTEXT, db.get(row["uuid"])) for row in rows]

    def closed_loop(self, count: int, in_flight: int) -> dict[str, Any]:
        """Measure throughput with ``in_flight`` requests under way at all times."""
        waiting, sent = self.accepted(count), {}
        before, start = self._cpu_seconds(), time.monotonic()
        for container in waiting:
            while len(sent) - len(self.done) >= in_flight and self._listen(60):
                pass
            sent[container.uuid] = time.monotonic()
            self._api.create(CONTEXT, container)
        self._settle(sent)
        spent = {name: 1000 * (now - before[name]) / count for name, now in self._cpu_seconds().items()}
        return {**self._figures(sent, start), "cpu_ms": spent}

    def burst(self, count: int, together: int) -> float:
        """Return the ms of CPU that the creation of a small container takes, ``together`` in each message to one host.

        The messages go to the host itself, so the time has no part of the scheduler's.
        """
        compute_api = ComputeAPI(self.transport)
        waiting, sent = self.accepted(count, cpu=0.01, memory=1, cpu_policy="shared", placement={}, disk=0), {}
        before = self._cpu_seconds()
        for at in range(0, count, together):
            requests: list[Request] = [
                {"context": CONTEXT, "container": each, "limits": {HOST: "host-00000"}, "alternates": [], "tried": {}}
                for each in waiting[at : at + together]
            ]
            sent |= {each["container"].uuid: time.monotonic() for each in requests}
            compute_api.create_many(AGENTS, requests)
        self._settle(sent)
        for container in waiting:
            while db.get(container.uuid)["status"] == "Creating":
                time.sleep(0.01)
        spent = self._cpu_seconds()
        return 1000 * sum(spent[name] - before[name] for name in spent if name not in ("client", "scheduler")) / count

    def open_loop(self, count: int, per_second: float) -> dict[str, float]:
        """Measure delays of requests sent at a fixed rate, without waiting for earlier requests."""
        waiting, sent = self.accepted(count), {}
        start = time.monotonic()
        for number, container in enumerate(waiting):
            while self._listen(pause := start + number / per_second - time.monotonic()) or pause > 0:
                pass
            sent[container.uuid] = time.monotonic()
            self._api.create(CONTEXT, container)
        self._settle(sent)
        return self._figures(sent, start)

    def _settle(self, sent: Mapping[str, float]) -> None:
        while len(self.done) < len(sent) and self._listen(60):
            pass

    def _figures(self, sent: Mapping[str, float], start: float) -> dict[str, float]:
        ends = {uuid: self.done[uuid] for uuid in sent if uuid in self.done}
        self.done.clear()
        delays = sorted(1000 * (ends[uuid] - sent[uuid]) for uuid in ends)
        return {
            "sent": len(sent),
            "claimed": len(ends),
            "per_second": len(ends) / (max(ends.values()) - start),
            "p50_ms": delays[len(delays) // 2],
            "p99_ms": delays[int(len(delays) * 0.99)],
        }

    def _cpu_seconds(self) -> dict[str, float]:
        """Return the CPU seconds by process. Servers on other machines are left out."""
        spent = {"client": time.process_time()}
        for name, control in zip(self._names, self._controls, strict=True):
            control.send("cpu")
            spent[name] = control.recv()
        return spent | {name: sum(server.cpu_times()[:2]) for name, server in self._servers.items()}

    def stop(self) -> None:
        for control, process in zip(self._controls, self._processes, strict=True):
            control.send("stop")
            process.join(timeout=15)
            if process.is_alive():
                process.terminate()


def run(mysql: str, rabbit: str, hosts: int, count: int, conductor: bool = False) -> dict[str, Any]:
    """Measure throughput with 32 requests under way, then delays at 70 % of that throughput."""
    with own_database(mysql) as database:
        cloud = Cloud(database, rabbit, hosts, conductor)
        try:
            cloud.closed_loop(min(count, 300), 16)  # warm: connections, agents
            closed = cloud.closed_loop(count, 32)
            opened = cloud.open_loop(count, 0.7 * closed["per_second"])
            burst = {each: cloud.burst(BURST, each) for each in (1, BURST)}
            return {
                "hosts": hosts,
                "load_seconds": cloud.load_seconds,
                "closed": closed,
                "open": opened,
                "burst": {"containers": BURST, "single_cpu_ms": burst[1], "together_cpu_ms": burst[BURST]},
            }
        finally:
            cloud.stop()


def packed(mysql: str, rabbit: str, count: int, hosts: int = 8) -> list[dict[str, Any]]:
    """Measure large hosts that are filled one after the other: with 32 requests under way, then with all at once."""
    os.environ["OS_SCHEDULER__WEIGHERS"] = "FreeCPUWeigher=-1.0"  # oslo.config of the scheduler's process reads it
    with own_database(mysql) as database:
        cloud = Cloud(database, rabbit, hosts, machine=clouds.machine(8, 64, 262144))
        try:
            cloud.closed_loop(100, 16)  # warm: connections, agents
            return [{"in_flight": each, **cloud.closed_loop(count, each)} for each in (32, count)]
        finally:
            cloud.stop()
            del os.environ["OS_SCHEDULER__WEIGHERS"]


def in_flight(mysql: str, rabbit: str, hosts: int, counts: Sequence[int], count: int = 600) -> list[dict[str, Any]]:
    """Measure throughput and delay by the number of requests under way."""
    with own_database(mysql) as database:
        cloud = Cloud(database, rabbit, hosts)
        try:
            cloud.closed_loop(300, 16)
            return [{"in_flight": each, **cloud.closed_loop(count, each)} for each in counts]
        finally:
            cloud.stop()
