#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Speed and memory of the API.

    python benchmarks/api.py [--rows N ...] [--database KIND ...] [--minutes M] [--peer PYTHON] [--json FILE]

For each database (``sqlite``, ``mysql`` at ZUN_TEST_MYSQL_URL, ``postgres`` at ZUN_TEST_POSTGRES_URL) and each number
of containers one worker process, ``zun-api`` with noauth, answers one request after the other. Nine of ten containers
are of one project, whose pages are read; creates are charged to its quota. ``wall`` is what the client waits, ``cpu``
the CPU time of the API process, which also a machine that others use tells. ``loop`` is how many times its usual CPU
time a loop of fixed work took in its 99th percentile, run in between: that much of a 99th percentile is the machine's.
Casts go to RabbitMQ at ZUN_TEST_RABBIT_URL (``eval "$(tools/services.sh env)"``), without one to a queue in the
process.

Memory is that of the last worker under a steady mix of requests for ``--minutes``; it needs RabbitMQ, because a queue
that nobody reads grows.

``--peer`` is the Python of a virtual environment that has zun 18 (``pip install zun==18.0.0 'setuptools<81'``): the CPU
time of its API for the same pages, without a server and without keystone, is taken in the same run.
"""

import argparse
import contextlib
import datetime
import http.client
import json
import os
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)  # before anything imports oslo.messaging

import sqlalchemy as sa  # noqa: E402

from zun.db import migration, models, quotas, session  # noqa: E402

PROJECT, OTHER = "benchmark", "benchmark-other"
VERSION = "container 1.42"
BODY = {"image": "zun-demo", "command": ["sleep", "1000"], "memory": 64, "cpu": 1, "labels": {"app": "web"}}
#: What each request should cost: wall p99 in ms by database, CPU in ms.
GOALS: dict[str, dict[str, float]] = {
    "page of 1000": {"sqlite": 40, "mysql": 60},
    "page of 1000, last": {"sqlite": 40, "mysql": 60},
    "page of 20": {"sqlite": 8, "mysql": 8},
    "page of 20, last": {"sqlite": 8, "mysql": 8},
    "create": {"cpu": 10},
}
#: Measured for zun 18 on another day with keystone and MariaDB, for a ratio where it cannot run here.
ZUN_18 = {"page of 1000": ("wall", 750.0), "page of 20": ("wall", 76.0), "create": ("cpu", 70.0)}


def row(index: int, project: str) -> dict[str, Any]:
    """A container as a create and a claim leave it: every second one is pinned."""
    now = datetime.datetime(2026, 1, 1) + datetime.timedelta(seconds=index, microseconds=index)
    asked = {"numa_nodes": 1, "cpu_thread_policy": "prefer", "cpu_isolation": "thread", "numa_affinity": "require"}
    held = {"cpuset_cpus": "2-3", "cpuset_mems": "0", "cpuset_isolation": "thread"}
    return {
        "uuid": str(uuid.UUID(int=random.Random(index).getrandbits(128), version=4)),
        "name": f"container-{index}",
        "project_id": project,
        "user_id": "benchmark",
        "created_at": now,
        "updated_at": now,
        "started_at": now,
        "image": "registry.example/team/web:1.2",
        "image_driver": "docker",
        "image_pull_policy": "ifnotpresent",
        "cpu": 2.0,
        "cpu_policy": "dedicated" if index % 2 else "shared",
        "memory": 512,
        "disk": 0,
        "placement": asked if index % 2 else {},
        "request": {"run": True, "hints": {}, "availability_zone": None, "host": None},
        "command": ["python3", "-m", "http.server", "8080"],
        "environment": {"LANG": "C.UTF-8", "PORT": "8080"},
        "labels": {"app": "web", "tier": "front"},
        "restart_policy": {"Name": "no", "MaximumRetryCount": "0"},
        "hostname": f"web-{index}",
        "status": "Running",
        "container_id": f"{index:064x}",
        "host": f"host-{index % 500}",
        "cpuset": held,
    }


def kind_is_postgres() -> bool:
    return session.engine().dialect.name == "postgresql"


def fill(count: int) -> None:
    """Write ``count`` containers and quota limits that are checked but never reached."""
    migration.upgrade()
    for start in range(0, count, 2000):
        rows = [row(i, OTHER if i % 10 == 0 else PROJECT) for i in range(start, min(count, start + 2000))]
        with session.writer() as connection:
            connection.execute(models.containers.insert(), rows)
    for project in (PROJECT, OTHER):
        quotas.set_limits(project, {"containers": 10**6, "cpu": 10**7, "memory": 2 * 10**9, "disk": 10**6})
    if session.engine().dialect.name != "sqlite":
        with session.writer() as connection:
            connection.exec_driver_sql("ANALYZE containers" if kind_is_postgres() else "ANALYZE TABLE containers")


@contextlib.contextmanager
def database(kind: str, folder: str) -> Iterator[str]:
    """Yield the URL of a new database, and drop the database at the end."""
    if kind == "sqlite":
        path = Path(folder, f"{uuid.uuid4().hex}.sqlite")
        yield f"sqlite:///{path}"
        return
    server_url = os.environ[{"mysql": "ZUN_TEST_MYSQL_URL", "postgres": "ZUN_TEST_POSTGRES_URL"}[kind]]
    name = f"zun_benchmark_{uuid.uuid4().hex[:12]}"
    server = sa.create_engine(server_url, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
    try:
        yield sa.make_url(server_url).set(database=name).render_as_string(hide_password=False)
    finally:
        with server.connect() as connection:
            connection.execute(sa.text(f"DROP DATABASE {name}"))
        server.dispose()


class Worker:
    """An API process on a port of its own and one connection to it."""

    def __init__(self, command: list[str], port: int, headers: dict[str, str]) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  it lives as long as the process
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)
        self._headers = headers
        deadline = time.monotonic() + 120
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._log.seek(0)
                raise SystemExit(f"{' '.join(command)} does not listen: {self._log.read()[-2000:].decode()}")
            time.sleep(0.1)
        self.port = port
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def send(self, method: str, path: str, body: Any = None, roles: str = "member") -> tuple[int, bytes]:
        raw = None if body is None else json.dumps(body).encode()
        headers = {**self._headers, "X-Roles": roles, **({} if raw is None else {"Content-Type": "application/json"})}
        try:
            self._connection.request(method, path, raw, headers)
            answer = self._connection.getresponse()
        except (http.client.RemoteDisconnected, ConnectionError):  # an idle connection ends
            self._connection.close()
            self._connection.request(method, path, raw, headers)
            answer = self._connection.getresponse()
        return answer.status, answer.read()

    def read(self, method: str, path: str, body: Any = None, roles: str = "member") -> bytes:
        status, raw = self.send(method, path, body, roles)
        if status >= 300:
            raise SystemExit(f"{method} {path} was answered {status}: {raw[:500].decode(errors='replace')}")
        return raw

    def json(self, method: str, path: str, body: Any = None, roles: str = "member") -> Any:
        raw = self.read(method, path, body, roles)
        return json.loads(raw) if raw else None

    def cpu_seconds(self) -> float:
        """Return the CPU time of all threads of the worker, from the kernel's nanoseconds instead of ticks of 10 ms."""
        tasks = Path(f"/proc/{self._process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    def memory_mib(self) -> float:
        """Return the private memory of the worker, with swap and without pages of files, which the kernel may drop."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return sum(int(kib) for kib in re.findall(r"^(?:RssAnon|VmSwap):\s+(\d+) kB", status, re.MULTILINE)) / 1024

    def stop(self) -> None:
        self._connection.close()
        self._process.terminate()
        self._process.wait(30)
        self._log.close()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextlib.contextmanager
def ours(url: str, folder: str) -> Iterator[Worker]:
    port = free_port()
    transport = os.environ.get("ZUN_TEST_RABBIT_URL", "fake://")
    config = Path(folder, "zun.conf")
    config.write_text(
        f"[DEFAULT]\ntransport_url = {transport}\n[api]\nport = {port}\nauth_strategy = noauth\n"
        f"[database]\nconnection = {url}\n"
    )
    headers = {"X-User-Id": "benchmark", "X-Project-Id": PROJECT, "OpenStack-API-Version": VERSION}
    worker = Worker([sys.executable, "-W", "ignore", "-m", "zun.cmd.api", "--config-file", str(config)], port, headers)
    try:
        yield worker
    finally:
        worker.stop()


def measured(
    worker: Worker, request: Callable[[], bytes], times: int, check: Callable[[bytes], None] = lambda answer: None
) -> dict[str, float]:
    """Return the milliseconds from a request to its answer, without the time of ``check``."""
    for _ in range(min(5, times)):
        request()
    walls, cpus, loops = [], [], []
    for _ in range(times):
        before, began = worker.cpu_seconds(), time.perf_counter()
        answer = request()
        walls.append((time.perf_counter() - began) * 1000)
        cpus.append((worker.cpu_seconds() - before) * 1000)
        check(answer)
        loops.append(loop())
    return {
        "p50": statistics.median(walls),
        "p99": _percentile(walls),
        "cpu": statistics.fmean(cpus),
        "cpu_p50": statistics.median(cpus),
        "cpu_p99": _percentile(cpus),
        "loop_spread": _percentile(loops) / statistics.median(loops),
        "times": times,
    }


def loop() -> float:
    """Return the CPU milliseconds of equal calls. Differences between the calls come from the machine."""
    began, words = time.thread_time(), {}
    for number in range(20_000):
        words[number % 1000] = str(number)
    return (time.thread_time() - began) * 1000


def _percentile(values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))]


def requests(worker: Worker, times: int) -> dict[str, dict[str, float]]:
    """Return figures by the name of a request."""

    def page(limit: int, marker: str | None, most: int) -> dict[str, float]:
        path = f"/v1/containers?limit={limit}" + (f"&marker={marker}" if marker else "")

        def check(answer: bytes) -> None:
            if (found := len(json.loads(answer)["containers"])) != limit:
                raise SystemExit(f"{path} has {found} containers")

        return measured(worker, lambda: worker.read("GET", path), most, check)

    found = {}
    for limit in (1000, 20):
        most = times if limit == 20 else max(times // 3, 40)
        found[f"page of {limit}"] = page(limit, None, most)
        found[f"page of {limit}, last"] = page(limit, before_the_last(limit), most)
    found["create"] = measured(worker, lambda: worker.read("POST", "/v1/containers", BODY), times)
    return found


def before_the_last(limit: int) -> str:
    """Return the marker of the project's last full page."""
    table = models.containers
    found = sa.select(table.c.uuid).where(table.c.project_id == PROJECT).order_by(table.c.id.desc())
    with session.reader() as connection:
        return str(connection.execute(found.offset(limit).limit(1)).scalar_one())


def held(worker: Worker, minutes: float, rate: float) -> dict[str, Any]:
    """Return the worker's private memory under ``rate`` requests a second: creates, deletes, pages, single containers.

    ``growth`` is the slope of a straight line through the samples of the second half, in MiB a minute.
    """
    samples: list[tuple[float, float]] = []
    made: list[str] = []
    began, sent = time.monotonic(), 0
    while (passed := time.monotonic() - began) < minutes * 60:
        kind = sent % 10
        if kind < 3:
            made.append(worker.json("POST", "/v1/containers", BODY)["uuid"])
        elif kind < 6:
            worker.json("DELETE", f"/v1/containers/{made.pop()}?force=true", roles="admin")
        elif kind == 9 and sent % 100 == 9:
            worker.json("GET", "/v1/containers?limit=1000")
        elif kind > 7:
            worker.json("GET", "/v1/containers?limit=20")
        else:
            worker.send("GET", f"/v1/containers/container-{sent % 100 + 1}")
        sent += 1
        if sent % max(1, int(rate)) == 0:
            samples.append((passed / 60, worker.memory_mib()))
        time.sleep(max(0.0, began + sent / rate - time.monotonic()))
    later = [sample for sample in samples if sample[0] >= minutes / 2]
    slope = statistics.linear_regression(*zip(*later, strict=True)).slope if len(later) > 1 else 0.0
    quarter = [memory for at, memory in samples if at >= minutes / 4]
    return {
        "minutes": minutes,
        "requests": sent,
        "first_mib": samples[0][1],
        "after_a_quarter_mib": quarter[0],
        "last_mib": samples[-1][1],
        "most_mib": max(memory for _, memory in samples),
        "growth_mib_a_minute": slope,
        "samples": samples,
    }


def peer(python: Path, count: int) -> dict[str, Any]:
    """Return the figures of zun 18's API by request."""
    program = Path(__file__).with_name("api_peer.py")
    with tempfile.TemporaryDirectory() as folder:
        command = [str(python), "-W", "ignore", str(program), folder, str(count)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def show(title: str, figures: dict[str, dict[str, float]], kind: str) -> None:
    head = f"{'wall p50':>9} {'p99':>7} {'cpu mean':>9} {'p50':>7} {'p99':>7} {'loop':>7}"
    print(f"\n{title}\n{'':>20} {head}   goal, ms")
    for name, each in figures.items():
        goals = GOALS.get(name, {})
        words = [f"{what} {goals[key]:g}" for key, what in ((kind, "wall p99"), ("cpu", "cpu")) if key in goals]
        if name in ZUN_18:
            what, theirs = ZUN_18[name]
            own = each["p50"] if what == "wall" else each["cpu"]
            words.append(f"({what}: 1/{theirs / own:.0f} of zun 18, measured elsewhere)")
        wall = f"{each['p50']:>9.1f} {each['p99']:>7.1f}"
        cpu = f"{each['cpu']:>9.1f} {each['cpu_p50']:>7.1f} {each['cpu_p99']:>7.1f}"
        print(f"{name:>20} {wall} {cpu} {each['loop_spread']:>6.1f}x   {' '.join(words)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--database", nargs="+", choices=["sqlite", "mysql", "postgres"], default=["sqlite"])
    parser.add_argument("--times", type=int, default=300, help="requests of a kind; a third for pages of 1000")
    parser.add_argument("--minutes", type=float, default=0.5, help="of the test of memory, 0 for none")
    parser.add_argument("--rate", type=float, default=20, help="requests a second in the test of memory")
    parser.add_argument("--peer", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results: dict[str, Any] = {"requests": []}
    with tempfile.TemporaryDirectory() as folder:
        for kind in options.database:
            for count in options.rows:
                with database(kind, folder) as url:
                    session.configure(url)
                    fill(count)
                    with ours(url, folder) as worker:
                        figures = requests(worker, options.times)
                        results["requests"].append({"database": kind, "rows": count, "figures": figures})
                        show(f"{kind}, {count:,} containers", figures, kind)
                        last = (kind, count) == (options.database[-1], options.rows[-1])
                        if last and options.minutes:
                            results["memory"] = {"database": kind, "rows": count}
                            results["memory"] |= held(worker, options.minutes, options.rate)
                    session.dispose()
    if "memory" in results:
        memory = results["memory"]
        print(
            f"\nmemory over {memory['minutes']:g} minutes, {memory['requests']} requests: "
            f"{memory['first_mib']:.1f} MiB at first, {memory['after_a_quarter_mib']:.1f} after a quarter, "
            f"{memory['last_mib']:.1f} at last; in the second half {memory['growth_mib_a_minute']:+.3f} MiB a minute"
        )
    if options.peer:
        results["peer"] = peer(options.peer, options.rows[0])
        print(f"\nzun 18, sqlite, {options.rows[0]:,} containers, in the process, ms: {json.dumps(results['peer'])}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
