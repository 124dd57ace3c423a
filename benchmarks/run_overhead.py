#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare the time from ``POST /v1/containers?run=true`` to Running with docker-py's create + start.

Both start the same image with the same CPUs, memory node and memory limit on the same daemon, in turn, so that a
machine whose speed drifts drifts for both. Running is seen by the service's own notification, which the all-in-one
writes to its log as it commits the status; nothing is polled. Containers are removed between the measurements, outside
the clock.

    benchmarks/run_overhead.py [--pairs 40] [--batch 24] [--json FILE]
                               [--engine | --distributed | --conductor [--driver fake] | --neutron | --capsule]

``--engine`` has three ways in turn: docker-py, the container driver without the service (create, start, and the look at
what the kernel gave), and the service. It prints the releases of the engine, the requests that the driver sends it,
and the CPU time of each way. For the Docker of another release::

    tools/engine.sh sid .run/venv/bin/python benchmarks/run_overhead.py --engine

``--distributed`` runs zun-api, zun-scheduler and zun-compute over RabbitMQ and MariaDB instead (the URLs are in
ZUN_TEST_RABBIT_URL and ZUN_TEST_MYSQL_URL). ``--conductor`` compares a host that reaches the database through
zun-conductor with one that has a login of it: two hosts of one cloud run a container each in turn, then batches of
containers at once, a claim each. ``--driver fake`` runs the containers of both in memory.

``--neutron`` measures what a port of Neutron adds instead. In turn it runs a container with a new port, runs one
without Neutron, and has Neutron make and bind a port (``requests``). ``active`` is the time from the container's
interface until Neutron has its port ACTIVE. ``added`` is the first time less the three others. The machine must have no
other interface ``tap*``. It needs root and the services of ``tools/services.sh`` (ZUN_TEST_KEYSTONE_URL,
ZUN_TEST_NEUTRON_URL, ZUN_TEST_NEUTRON_OVSDB).

``--capsule`` has in turn a capsule of four members, from the request until it is Running, and four times ``docker run
-d``, one after the other. Docker's containers have a network each, the members share that of the capsule's own object,
which is a fifth container. ``ratio`` is that of the medians. ``exec`` is a command in a member against the same command
in a container of the service, and against ``docker exec``.

One at a time the container is dedicated (one CPU of its own); four at a time they are shared, because four dedicated
ones would need four CPUs. ``added`` is the difference of each pair.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import platform
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import uuid
from collections.abc import Sequence
from typing import Any

import docker
import requests
import sqlalchemy as sa
from keystoneauth1 import adapter as ks_adapter
from keystoneauth1 import session as ksa_session
from keystoneauth1.identity import v3

from zun.container.docker import DockerDriver
from zun.container.docker.client import Settings
from zun.neutron.client import NeutronClient
from zun.tests.integration.container.daemon import root_of_busybox
from zun.tests.integration.container.proxy import proxied
from zun.tests.unit.container.samples import Sample

MEMBERS = 4
EXECS = 5  # of a round
IMAGE, COMMAND, MEMORY_MIB = "zun-demo", ["sleep", "100000"], 64
AT_A_TIME = 4
VERSION = {"OpenStack-API-Version": "container 1.41"}


class AllInOne:
    """The service as a process, and its notifications as they come."""

    def __init__(self, folder: pathlib.Path, docker_url: str, more: str = "") -> None:
        """``more`` are further sections of the configuration."""
        folder.mkdir(exist_ok=True)
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        (folder / "zun.conf").write_text(
            f"[DEFAULT]\nhost = benchmark-{uuid.uuid4().hex[:8]}\nstate_path = {folder}/state\n"
            f"[api]\nport = {port}\n[docker]\napi_url = {docker_url}\n[compute]\nreserved_host_memory_mb = 128\n"
            f"[oslo_messaging_notifications]\ndriver = log\n[websocket_proxy]\nwsproxy_port = 0\n{more}"
        )
        self.url = f"http://127.0.0.1:{port}/v1/containers"
        self._seen: dict[tuple[str, str], float] = {}
        self._arrived = threading.Condition()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "zun.cmd.allinone", "--config-file", str(folder / "zun.conf")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._ready = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()
        if not self._ready.wait(60):
            self.stop()
            raise SystemExit("the all-in-one did not become ready within 60 s; run zun-allinone by hand to see why")

    def _read(self) -> None:
        self._follow(self._process)

    def _follow(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            now = time.perf_counter()
            if " is ready on " in line:
                self._ready.set()
            if "oslo.messaging.notification.container." in line:
                event = json.loads(line[line.index("{") :])
                with self._arrived:
                    self._seen[event["payload"]["uuid"], event["payload"]["status"]] = now
                    self._arrived.notify_all()
                if event["payload"]["status"] == "Error":
                    print("error:", event["payload"]["status_reason"], file=sys.stderr)

    def seen(self, container: str, status: str) -> float:
        """Wait until the container becomes ``status`` and return the time of the change."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: (container, status) in self._seen, 60):
                raise SystemExit(f"container {container} did not become {status} within 60 s")
            return self._seen[container, status]

    def cpu_seconds(self) -> float:
        """Return the CPU time of the service so far."""
        fields = pathlib.Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)


class Distributed(AllInOne):
    """The programs of a cloud over RabbitMQ and MariaDB, with a host for each value of ``[compute] database``.

    ``hosts`` has their names by that value.
    """

    def __init__(self, folder: pathlib.Path, docker_url: str, ways: Sequence[str], driver: str = "docker") -> None:
        rabbit, mysql = os.environ["ZUN_TEST_RABBIT_URL"], sa.make_url(os.environ["ZUN_TEST_MYSQL_URL"])
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        name = f"benchmark_{uuid.uuid4().hex[:8]}"
        self.hosts = {way: f"{name.replace('_', '-')}-{way}" for way in ways}
        self._server = sa.create_engine(mysql, isolation_level="AUTOCOMMIT")
        self._database = name
        with self._server.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name}")
        url = mysql.set(database=name).render_as_string(hide_password=False)
        common = (
            f"control_exchange = {name}\ntransport_url = {rabbit}\n[oslo_messaging_rabbit]\n"
            "rabbit_quorum_queue = true\n[oslo_messaging_notifications]\ndriver = log\n"
        )
        database = f"[database]\nconnection = {url}\n"
        controller = f"[DEFAULT]\nhost = {name.replace('_', '-')}\n{common}{database}"
        configs = {
            "api": f"{controller}[api]\nport = {port}\nauth_strategy = noauth\n[quota]\n"
            "containers = -1\ncpu = -1\nmemory = -1\ndisk = -1\n",
            "scheduler": controller,
            **({"conductor": controller} if "conductor" in ways else {}),
        }
        for way, host in self.hosts.items():
            configs[f"compute-{way}"] = (
                f"[DEFAULT]\nhost = {host}\nstate_path = {folder}/{way}\n{common}"
                f"[docker]\napi_url = {docker_url}\n{'' if way == 'conductor' else database}"
                f"[compute]\nreserved_host_memory_mb = 128\ncpu_allocation_ratio = 100\ndatabase = {way}\n"
                f"container_driver = {driver}\n"
            )
        for program, text in configs.items():
            (folder / f"{program}.conf").write_text(text)
        command = [sys.executable, "-m", "zun.cmd.db_manage", "--config-file", str(folder / "api.conf"), "upgrade"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.url = f"http://127.0.0.1:{port}/v1/containers"
        self._seen, self._arrived, self._ready = {}, threading.Condition(), threading.Event()
        self._processes = []
        for program in configs:
            module = f"zun.cmd.{program.partition('-')[0]}"
            process = subprocess.Popen(
                [sys.executable, "-m", module, "--config-file", str(folder / f"{program}.conf")],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            self._processes.append(process)
            threading.Thread(target=self._follow, args=(process,), daemon=True).start()
        deadline = time.monotonic() + 300
        while not self._has_hosts():
            if time.monotonic() > deadline:
                self.stop()
                raise SystemExit("the programs did not become ready within 300 s")
            time.sleep(0.5)

    def _has_hosts(self) -> bool:
        try:
            services, hosts = (
                requests.get(self.url.replace("containers", noun), headers=VERSION, timeout=5).text
                for noun in ("services", "hosts")
            )
        except requests.ConnectionError:
            return False
        return "zun-scheduler" in services and all(host in hosts for host in self.hosts.values())

    def cpu_seconds(self) -> float:
        """Return the CPU time of all programs so far, by the clock that Linux has for each process."""
        return sum(time.clock_gettime(~each.pid << 3 | 2) for each in self._processes)

    def stop(self) -> None:
        for each in self._processes:
            each.terminate()
        for each in self._processes:
            each.wait(60)
        with self._server.connect() as connection:
            connection.exec_driver_sql(f"DROP DATABASE {self._database}")


def through_service(service: AllInOne, http: requests.Session, body: dict[str, Any]) -> tuple[float, str]:
    began = time.perf_counter()
    answer = http.post(service.url + "?run=true", json=body, headers=VERSION)
    answer.raise_for_status()
    container = answer.json()["uuid"]
    return service.seen(container, "Running") - began, container


def through_docker(engine: docker.APIClient, cpus: str, shares: int | None) -> tuple[float, str]:
    began = time.perf_counter()
    host_config = engine.create_host_config(
        cpuset_cpus=cpus, cpuset_mems="0", mem_limit=MEMORY_MIB << 20, cpu_shares=shares
    )
    container = engine.create_container(IMAGE, COMMAND, host_config=host_config)["Id"]
    engine.start(container)
    return time.perf_counter() - began, container


def remove(service: AllInOne, http: requests.Session, container: str) -> None:
    http.delete(f"{service.url}/{container}?force=true", headers=VERSION)
    service.seen(container, "Deleted")


def one_at_a_time(service: AllInOne, engine: docker.APIClient, pairs: int) -> dict[str, Any]:
    http = requests.Session()
    body = {"image": IMAGE, "command": COMMAND, "memory": MEMORY_MIB, "cpu": 1, "cpu_policy": "dedicated"}
    ours, theirs = [], []
    for number in range(pairs + 2):
        taken, container = through_service(service, http, body)
        remove(service, http, container)
        plain, container = through_docker(engine, "0", None)
        engine.remove_container(container, force=True)
        if number >= 2:  # two to warm up
            ours.append(taken * 1000)
            theirs.append(plain * 1000)
    added = [mine - plain for mine, plain in zip(ours, theirs, strict=True)]
    return {
        "service_ms": _figures(ours),
        "docker_ms": _figures(theirs),
        "added_ms": _figures(added),
        "ratio": statistics.median(ours) / statistics.median(theirs),
    }


def through_driver(driver: DockerDriver) -> tuple[float, Sample]:
    """Run a container as the agent does: with the engine's state and the kernel's limits read afterwards."""
    container = Sample(image=IMAGE, command=COMMAND, memory=MEMORY_MIB)
    began = time.perf_counter()
    driver.create(container, cpuset_cpus="0", cpuset_mems="0")
    driver.start(container)
    state = driver.show(container)
    if state is None or driver.kernel_view(container, state) is None:
        raise SystemExit(f"container {container.uuid} has ended; look at the log of the engine")
    return time.perf_counter() - began, container


def three_ways(service: AllInOne, engine: docker.APIClient, url: str, pairs: int) -> dict[str, Any]:
    """Run a container by docker-py, the driver and the service in turn: milliseconds, and CPU time on our side."""
    http, driver = requests.Session(), DockerDriver(Settings(url, f"benchmark-{uuid.uuid4().hex[:8]}"))
    body = {"image": IMAGE, "command": COMMAND, "memory": MEMORY_MIB, "cpu": 1, "cpu_policy": "dedicated"}
    taken: dict[str, list[float]] = {"docker": [], "driver": [], "service": []}
    spent: dict[str, list[float]] = {way: [] for way in taken}
    for number in range(pairs + 2):
        before = time.thread_time()
        plain, container = through_docker(engine, "0", None)
        plain_cpu = time.thread_time() - before
        engine.remove_container(container, force=True)
        before = time.thread_time()
        driven, sample = through_driver(driver)
        driven_cpu = time.thread_time() - before
        driver.delete(sample, force=True)
        before = service.cpu_seconds()
        served, container = through_service(service, http, body)
        served_cpu = service.cpu_seconds() - before
        remove(service, http, container)
        if number >= 2:  # two to warm up
            for way, seconds, cpu in zip(
                taken, (plain, driven, served), (plain_cpu, driven_cpu, served_cpu), strict=True
            ):
                taken[way].append(seconds * 1000)
                spent[way].append(cpu * 1000)
    figures: dict[str, Any] = {f"{way}_ms": _figures(values) for way, values in taken.items()}
    for way in "driver", "service":
        added = [mine - plain for mine, plain in zip(taken[way], taken["docker"], strict=True)]
        ratio = statistics.median(taken[way]) / statistics.median(taken["docker"])
        figures |= {f"{way}_added_ms": _figures(added), f"{way}_ratio": ratio}
    return figures | {f"{way}_cpu_ms": _figures(values) for way, values in spent.items()}


def requests_of_driver(url: str, folder: pathlib.Path) -> list[str]:
    """Return the requests that the driver sends for one container, as ``POST /containers/start``.

    Those of the first connection do not count.
    """
    with proxied(folder / "docker.sock", url) as proxy:
        driver = DockerDriver(Settings(proxy.url, f"benchmark-{uuid.uuid4().hex[:8]}"))
        for _ in range(2):
            proxy.requests.clear()
            _, container = through_driver(driver)
            seen = list(proxy.requests)
            driver.delete(container, force=True)
    return [re.sub(r"/v[0-9.]+(?=/)|/zun-[0-9a-f-]+|[?].*", "", each) for each in seen]


def releases(engine: docker.APIClient) -> str:
    """Return what runs the containers, for example ``Engine 28.5.2, containerd 2.1.4, runc 1.3.3, ...``."""
    parts = [f"{each['Name']} {each['Version']}" for each in engine.version(api_version=False)["Components"]]
    info = engine.info()
    return ", ".join([*parts, info["Driver"], f"kernel {info['KernelVersion']}", f"cgroup v{info['CgroupVersion']}"])


def four_at_a_time(service: AllInOne, engine: docker.APIClient, batch: int, rounds: int = 3) -> dict[str, Any]:
    cpus = "0-1" if len(_online()) > 1 else "0"
    body = {"image": IMAGE, "command": COMMAND, "memory": MEMORY_MIB, "cpu": 0.5}
    https = threading.local()

    def ours(_: int) -> tuple[float, str]:
        if not hasattr(https, "session"):
            https.session = requests.Session()
        return through_service(service, https.session, body)

    ratios, latencies, plain_latencies, rates, plain_rates = [], [], [], [], []
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        for _ in range(rounds):
            began = time.perf_counter()
            mine = list(pool.map(ours, range(batch)))
            mine_seconds = time.perf_counter() - began
            for _, container in mine:
                remove(service, requests.Session(), container)
            began = time.perf_counter()
            plain = list(pool.map(lambda _: through_docker(engine, cpus, 512), range(batch)))
            plain_seconds = time.perf_counter() - began
            for _, container in plain:
                engine.remove_container(container, force=True)
            ratios.append(plain_seconds / mine_seconds)
            rates.append(batch / mine_seconds)
            plain_rates.append(batch / plain_seconds)
            latencies += [taken * 1000 for taken, _ in mine]
            plain_latencies += [taken * 1000 for taken, _ in plain]
    return {
        "service_per_second": statistics.median(rates),
        "docker_per_second": statistics.median(plain_rates),
        "rate_ratio": statistics.median(ratios),
        "service_ms": _figures(latencies),
        "docker_ms": _figures(plain_latencies),
    }


class Neutron:
    """The real Neutron of the tests as its administrator, with a network."""

    def __init__(self) -> None:
        parts = urllib.parse.urlsplit(os.environ["ZUN_TEST_KEYSTONE_URL"])
        login = {
            "auth_url": f"{parts.scheme}://{parts.hostname}:{parts.port}{parts.path}",
            "username": parts.username,
            "password": parts.password,
            "project_name": "admin",
            "user_domain_id": "default",
            "project_domain_id": "default",
        }
        url, ovsdb = os.environ["ZUN_TEST_NEUTRON_URL"], os.environ["ZUN_TEST_NEUTRON_OVSDB"]
        plugin = f"/run/docker/plugins/zun-{uuid.uuid4().hex[:6]}.sock"
        options = {
            "auth_type": "password", **login, "endpoint_override": url, "agent_host": platform.node(),
            "ovsdb_connection": ovsdb, "plugin_socket": plugin,
        }  # fmt: skip
        lines = "".join(f"{name} = {value}\n" for name, value in options.items())
        self.config = f"[network]\ndriver = neutron\n[neutron]\n{lines}"
        session = ksa_session.Session(v3.Password(**login))
        self._http = ks_adapter.Adapter(session, service_type="network", endpoint_override=url)
        self.client = NeutronClient(self._http)
        made = self._http.post("/v2.0/networks", json={"network": {"name": "benchmark"}}).json()["network"]
        self.network = made["id"]
        subnet = {"network_id": self.network, "cidr": "10.9.0.0/24", "ip_version": 4}
        self._http.post("/v2.0/subnets", json={"subnet": subnet})

    def requests(self) -> float:
        """Return the seconds that Neutron takes to make a port and to bind it."""
        owner = {"device_owner": "compute:zun", "device_id": str(uuid.uuid4())}
        began = time.perf_counter()
        port = self.client.create_port(network_id=self.network, **owner)
        self.client.update_port(port["id"], {"binding:host_id": platform.node()})
        taken = time.perf_counter() - began
        self.client.delete_port(port["id"])
        return taken

    def until_active(self) -> float:
        """Wait for the next container's interface, and return the seconds until Neutron has the port ACTIVE."""
        deadline = time.perf_counter() + 60
        while not (taps := [path.name for path in pathlib.Path("/sys/class/net").glob("tap*")]):
            if time.perf_counter() > deadline:
                raise SystemExit("the container had no interface within 60 s")
            time.sleep(0.005)
        began = time.perf_counter()
        (port,) = (each for each in self.client.ports(network_id=self.network) if each["id"].startswith(taps[0][3:]))
        while self.client.port(port["id"])["status"] != "ACTIVE":
            if time.perf_counter() > deadline:
                raise SystemExit(f"port {port['id']} did not become ACTIVE within 60 s")
            time.sleep(0.05)
        return time.perf_counter() - began

    def clean(self) -> None:
        for port in self.client.ports(network_id=self.network):
            self.client.delete_port(port["id"])
        self._http.delete(f"/v2.0/networks/{self.network}")


def with_ports(arguments: argparse.Namespace, place: pathlib.Path) -> dict[str, Any]:
    _engine(arguments.docker_url)
    neutron, http, pool = Neutron(), requests.Session(), concurrent.futures.ThreadPoolExecutor(1)
    plain = AllInOne(place / "plain", arguments.docker_url)
    try:
        service = AllInOne(place / "neutron", arguments.docker_url, neutron.config)
        try:
            body = {"image": IMAGE, "command": COMMAND, "memory": MEMORY_MIB}
            ported = {**body, "nets": [{"network": neutron.network}]}
            times: dict[str, list[float]] = {"with_ms": [], "without_ms": [], "requests_ms": [], "active_ms": []}
            for number in range(arguments.pairs + 2):
                active = pool.submit(neutron.until_active)
                with_port, container = through_service(service, http, ported)
                remove(service, http, container)
                without, container = through_service(plain, http, body)
                remove(plain, http, container)
                row = with_port, without, neutron.requests(), active.result()
                if number >= 2:  # two to warm up
                    for values, taken in zip(times.values(), row, strict=True):
                        values.append(taken * 1000)
        finally:
            service.stop()
    finally:
        plain.stop()
        pool.shutdown()
        neutron.clean()
    added = [one - two - three - four for one, two, three, four in zip(*times.values(), strict=True)]
    return {"with_neutron": {**{name: _figures(values) for name, values in times.items()}, "added_ms": _figures(added)}}


def in_turn(service: Distributed, pairs: int) -> dict[str, Any]:
    """Run a container on each of two hosts in turn: milliseconds, and CPU time of all programs, until it is Running."""
    http = requests.Session()
    taken: dict[str, list[float]] = {way: [] for way in service.hosts}
    spent: dict[str, list[float]] = {way: [] for way in service.hosts}
    for number in range(pairs + 2):
        for way in sorted(service.hosts, reverse=number % 2 == 1):
            before = service.cpu_seconds()
            seconds, container = through_service(service, http, _small(service.hosts[way]))
            cpu = service.cpu_seconds() - before
            remove(service, http, container)
            if number >= 2:  # two to warm up
                taken[way].append(seconds * 1000)
                spent[way].append(cpu * 1000)
    return _compared(taken, "ms") | _compared(spent, "cpu_ms")


def claims_in_turn(service: Distributed, batch: int, rounds: int) -> dict[str, Any]:
    """Ask for ``batch`` containers at once on each of two hosts in turn: how many are Running a second."""
    http = requests.Session()
    taken: dict[str, list[float]] = {way: [] for way in service.hosts}
    spent: dict[str, list[float]] = {way: [] for way in service.hosts}
    with concurrent.futures.ThreadPoolExecutor(2 * AT_A_TIME) as pool:
        for number in range(rounds + 1):
            for way in sorted(service.hosts, reverse=number % 2 == 1):
                bodies = [_small(service.hosts[way])] * batch
                began, before = time.perf_counter(), service.cpu_seconds()
                made = list(pool.map(lambda body: through_service(service, requests.Session(), body), bodies))
                seconds, cpu = time.perf_counter() - began, service.cpu_seconds() - before
                for _, container in made:
                    remove(service, http, container)
                if number >= 1:
                    taken[way].append(batch / seconds)
                    spent[way].append(cpu * 1000 / batch)
    return _compared(taken, "per_second") | _compared(spent, "cpu_ms")


def _small(host: str) -> dict[str, Any]:
    return {"image": IMAGE, "command": COMMAND, "memory": MEMORY_MIB, "cpu": 0.1, "host": host}


def _compared(values: dict[str, list[float]], unit: str) -> dict[str, Any]:
    """Return the figures of both ways, and the median of the ratio of each pair."""
    ratios = [with_one / without for with_one, without in zip(values["conductor"], values["direct"], strict=True)]
    figures = {f"{way}_{unit}": _figures(each) for way, each in values.items()}
    return {**figures, f"{unit}_ratio": statistics.median(ratios)}


def _online() -> list[str]:
    return [path.name for path in pathlib.Path("/sys/devices/system/cpu").glob("cpu[0-9]*")]


def _figures(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        "median": statistics.median(ordered),
        "p99": ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))],
        "min": ordered[0],
        "max": ordered[-1],
    }


def run_capsule(service: AllInOne, http: requests.Session) -> tuple[float, str]:
    """Return the seconds until the capsule is Running, and its uuid."""
    requested = {"resources": {"requests": {"cpu": 0.1, "memory": MEMORY_MIB}}}
    members = [{"image": IMAGE, "command": COMMAND, **requested} for _ in range(MEMBERS)]
    template: dict[str, Any] = {"kind": "capsule", "metadata": {"name": "pod"}, "spec": {"containers": members}}
    began = time.perf_counter()
    answer = http.post(_capsules(service), json={"template": template}, headers=VERSION)
    answer.raise_for_status()
    capsule = answer.json()["uuid"]
    return service.seen(capsule, "Running") - began, capsule


def run_by_command(docker: Sequence[str]) -> tuple[float, list[str]]:
    """Return the seconds that ``docker run -d`` takes for as many containers as a capsule has, and their ids."""
    cpus = "0-1" if len(_online()) > 1 else "0"
    limits = ["--cpuset-cpus", cpus, "--cpuset-mems", "0", "--memory", f"{MEMORY_MIB}m", "--cpu-shares", "102"]
    began = time.perf_counter()
    made = [_said([*docker, "run", "-d", *limits, IMAGE, *COMMAND]) for _ in range(MEMBERS)]
    return time.perf_counter() - began, made


def _said(command: Sequence[str]) -> str:
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, text=True).stdout.strip()


def _capsules(service: AllInOne) -> str:
    return service.url.replace("containers", "capsules")


def execute(service: AllInOne, http: requests.Session, container: str) -> float:
    """Return the seconds that a command takes in a container."""
    began = time.perf_counter()
    answer = http.post(f"{service.url}/{container}/execute", params={"command": "true"}, headers=VERSION)
    if answer.json()["exit_code"] != 0:
        raise SystemExit(f"the command failed: {answer.text}")
    return time.perf_counter() - began


def with_capsule(arguments: argparse.Namespace, place: pathlib.Path) -> dict[str, Any]:
    _engine(arguments.docker_url)
    docker, http = ["docker", "--host", arguments.docker_url], requests.Session()
    sandbox = f"[capsule]\nsandbox_image = {IMAGE}\nsandbox_command = {','.join(COMMAND)}\n"
    service = AllInOne(place, arguments.docker_url, sandbox)
    taken: dict[str, list[float]] = {"capsule": [], "docker": []}
    spent: dict[str, list[float]] = {"capsule": [], "docker": []}
    execs: dict[str, list[float]] = {"member": [], "container": [], "docker": []}
    try:
        _, single = through_service(service, http, {"image": IMAGE, "command": COMMAND, "memory": MEMORY_MIB})
        for number in range(arguments.pairs + 2):
            before = service.cpu_seconds()
            seconds, capsule = run_capsule(service, http)
            cpu = service.cpu_seconds() - before
            shown = http.get(f"{_capsules(service)}/{capsule}", headers=VERSION).json()
            waited = os.times()
            plain, made = run_by_command(docker)
            ended = os.times()
            plain_cpu = ended.children_user + ended.children_system - waited.children_user - waited.children_system
            for _ in range(EXECS):
                times = (
                    execute(service, http, shown["containers"][0]["uuid"]),
                    execute(service, http, single),
                    _timed([*docker, "exec", made[0], "true"]),
                )
                if number >= 2:
                    for values, each in zip(execs.values(), times, strict=True):
                        values.append(each * 1000)
            http.delete(f"{_capsules(service)}/{capsule}", headers=VERSION).raise_for_status()
            service.seen(capsule, "Deleted")
            _said([*docker, "rm", "--force", *made])
            if number >= 2:  # two to warm up
                row = (seconds, plain, cpu, plain_cpu)
                for values, each in zip((*taken.values(), *spent.values()), row, strict=True):
                    values.append(each * 1000)
        remove(service, http, single)
    finally:
        service.stop()
    ratio = statistics.median(taken["capsule"]) / statistics.median(taken["docker"])
    exec_ratio = statistics.median(execs["member"]) / statistics.median(execs["container"])
    return {
        "capsule": {
            **{f"{way}_ms": _figures(values) for way, values in taken.items()},
            "ratio": ratio,
            **{f"{way}_cpu_ms": _figures(values) for way, values in spent.items()},
        },
        "exec": {**{f"{way}_ms": _figures(values) for way, values in execs.items()}, "ratio": exec_ratio},
    }


def _timed(command: Sequence[str]) -> float:
    began = time.perf_counter()
    _said(command)
    return time.perf_counter() - began


def with_docker(arguments: argparse.Namespace, place: pathlib.Path) -> dict[str, Any]:
    engine = _engine(arguments.docker_url)
    if arguments.distributed:
        service: AllInOne = Distributed(place, arguments.docker_url, ["direct"])
    else:
        service = AllInOne(place, arguments.docker_url)
    try:
        before = service.cpu_seconds()
        single = one_at_a_time(service, engine, arguments.pairs)
        single["service_cpu_ms_each"] = (service.cpu_seconds() - before) * 1000 / (arguments.pairs + 2)
        return {"one_at_a_time": single, "four_at_a_time": four_at_a_time(service, engine, arguments.batch)}
    finally:
        service.stop()


def with_driver(arguments: argparse.Namespace, place: pathlib.Path) -> dict[str, Any]:
    engine, url = _engine(arguments.docker_url), arguments.docker_url
    service = AllInOne(place, url)
    try:
        figures = three_ways(service, engine, url, arguments.pairs)
    finally:
        service.stop()
    sent = requests_of_driver(url, place)
    return {"engine": {"releases": releases(engine), "requests": ", ".join(sent), **figures}}


def with_and_without(arguments: argparse.Namespace, place: pathlib.Path) -> dict[str, Any]:
    if arguments.driver == "docker":
        _engine(arguments.docker_url)
    service = Distributed(place, arguments.docker_url, ["direct", "conductor"], arguments.driver)
    try:
        rounds = max(1, arguments.pairs // 3)
        return {
            "one_at_a_time": in_turn(service, arguments.pairs),
            "claims": claims_in_turn(service, arguments.batch, rounds),
        }
    finally:
        service.stop()


def _engine(url: str) -> docker.APIClient:
    engine = docker.APIClient(url, version="auto", num_pools=AT_A_TIME)
    if not engine.images(IMAGE):
        engine.import_image_from_data(root_of_busybox(), IMAGE, "latest", changes=["ENV PATH=/bin"])
    return engine


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pairs", type=int, default=40, help="measured pairs, one at a time")
    parser.add_argument("--batch", type=int, default=24, help="containers a round, four at a time")
    parser.add_argument("--docker-url", default=os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock"))
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--engine", action="store_true", help="compare the driver and the service with docker-py")
    way.add_argument("--distributed", action="store_true", help="run the programs over RabbitMQ and MariaDB")
    way.add_argument("--conductor", action="store_true", help="compare a host without a database with one that has it")
    way.add_argument("--neutron", action="store_true", help="measure what a port of Neutron adds")
    way.add_argument("--capsule", action="store_true", help="compare a capsule of four with 'docker run' four times")
    parser.add_argument("--driver", choices=["docker", "fake"], default="docker", help="of the hosts of --conductor")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures to this file")
    arguments = parser.parse_args()
    if arguments.driver == "fake" and not arguments.conductor:
        parser.error("--driver fake needs --conductor")
    with tempfile.TemporaryDirectory() as folder:
        ways = {"engine": with_driver, "conductor": with_and_without, "neutron": with_ports, "capsule": with_capsule}
        compare = next((run for name, run in ways.items() if getattr(arguments, name)), with_docker)
        result = compare(arguments, pathlib.Path(folder))
    for name, figures in result.items():
        print(name.replace("_", " "))
        for what, value in figures.items():
            text = "  ".join(f"{k} {v:8.1f}" for k, v in value.items()) if isinstance(value, dict) else value
            print(f"  {what:22} {text:8.3f}" if isinstance(text, float) else f"  {what:22} {text}")
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
