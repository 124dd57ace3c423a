#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure programs: seconds from start to ready, resident memory, and the size of rows.

    benchmarks/footprint.py [--runs 5] [--settle 3] [--fake] [--cloud] [--json FILE]

Always measures ``zun-allinone``. With ZUN_TEST_RABBIT_URL and ZUN_TEST_MYSQL_URL set (``tools/services.sh env``) also
``zun-compute``, ``zun-scheduler`` and ``zun-api``, distributed. Beside each stands a Python that imports nothing,
started in the same way: what the interpreter itself costs here. Docker must answer, except with ``--fake``: containers
and networks are in memory then.

``--cloud`` measures instead the five programs of a distributed installation together, idle and loaded, and the rows in
MariaDB. Loaded: 100 hosts and about 1000 containers in the database, 100 more that the agent runs in memory through
``zun-conductor``, three actions on each of these, and 200 pages of 1000 containers. Nothing else may use the vhost of
ZUN_TEST_RABBIT_URL meanwhile: schedulers of two clouds take each other's requests.
"""

import argparse
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import requests
import sqlalchemy as sa

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from benchmarks.api import database
from benchmarks.scheduling import clouds
from zun.db import migration, session
from zun.tests.fixtures import wait_for
from zun.tests.integration.programs import Api

HOSTS, SMALL, PAGES = 100, 100, 200
CLOUD = ("conductor", "scheduler", "api", "compute", "wsproxy")


def resident_mib(pid: int) -> float:
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def measure(module: str, config: str, folder: pathlib.Path, settle: float) -> tuple[float, float]:
    """Return the seconds to ready of one run, and the MiB ``settle`` seconds later."""
    (folder / "zun.conf").write_text(config)
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", f"zun.cmd.{module}", "--config-file", str(folder / "zun.conf")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        if not any(" is ready" in line for line in process.stdout):
            raise SystemExit(f"zun.cmd.{module} ended before it was ready; run it by hand with {config!r}")
        ready = time.perf_counter() - began
        time.sleep(settle)
        return ready, resident_mib(process.pid)
    finally:
        process.terminate()
        process.wait(30)


def bare_python() -> tuple[float, float]:
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", "print('ready', flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdin is not None
    process.stdout.readline()
    ready = time.perf_counter() - began
    memory = resident_mib(process.pid)
    process.communicate("\n", timeout=10)
    return ready, memory


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def configurations(folder: pathlib.Path, fake: bool) -> dict[str, str]:
    """Return the text of each program's configuration file, by module. ``fake``: with drivers in memory."""
    drivers = "container_driver = fake\n[network]\ndriver = fake\n" if fake else ""
    name = f"benchmark-{uuid.uuid4().hex[:8]}"
    made = {
        "allinone": f"[DEFAULT]\nhost = {name}\nstate_path = {folder}/state\n[api]\nport = {free_port()}\n"
        f"[websocket_proxy]\nwsproxy_port = 0\n[compute]\nreserved_host_memory_mb = 128\n{drivers}"
    }
    rabbit, mysql = os.environ.get("ZUN_TEST_RABBIT_URL"), os.environ.get("ZUN_TEST_MYSQL_URL")
    if rabbit and mysql:
        common = (
            f"[DEFAULT]\nhost = {name}\ntransport_url = {rabbit}\ncontrol_exchange = {name}\n"
            f"[database]\nconnection = {mysql}\n[oslo_messaging_rabbit]\nrabbit_quorum_queue = true\n"
            f"[compute]\nreserved_host_memory_mb = 128\n{drivers}"
        )
        (folder / "db.conf").write_text(common)
        upgrade = [sys.executable, "-m", "zun.cmd.db_manage", "--config-file", str(folder / "db.conf"), "upgrade"]
        subprocess.run(upgrade, check=True, stdout=subprocess.DEVNULL)
        made |= {"compute": common, "scheduler": common}
        made["api"] = f"{common}[api]\nport = {free_port()}\nauth_strategy = noauth\n"
    return made


@contextmanager
def running(module: str, config: str, folder: pathlib.Path) -> Iterator[int]:
    """Give the process id of a program that is ready."""
    (folder / f"{module}.conf").write_text(config)
    command = [sys.executable, "-m", f"zun.cmd.{module}", "--config-file", str(folder / f"{module}.conf")]
    with (folder / f"{module}.log").open("w") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_for(lambda: " is ready" in (folder / f"{module}.log").read_text(), 120)
        yield process.pid
    finally:
        process.terminate()
        process.wait(60)


def stored(engine: sa.Engine, tables: str) -> tuple[int, int]:
    """Return the rows and the bytes, indexes included, of the tables whose names match."""
    found = [name for name in sa.inspect(engine).get_table_names() if re.fullmatch(tables, name)]
    with engine.begin() as connection:
        rows = sum(connection.scalar(sa.text(f"SELECT COUNT(*) FROM {name}")) or 0 for name in found)
        connection.execute(sa.text(f"ANALYZE TABLE {', '.join(found)}"))
        sizes = sa.text(
            "SELECT SUM(DATA_LENGTH + INDEX_LENGTH) FROM information_schema.TABLES"
            " WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN :names"
        ).bindparams(sa.bindparam("names", found, expanding=True))
        return rows, int(connection.scalar(sizes) or 0)


def cloud(folder: pathlib.Path, settle: float) -> dict[str, Any]:
    """Return MiB of each program, idle and loaded, and bytes of each row."""
    rabbit = os.environ["ZUN_TEST_RABBIT_URL"]
    name, port = f"benchmark-{uuid.uuid4().hex[:8]}", free_port()
    result: dict[str, Any] = {}
    with ExitStack() as stack:
        url = stack.enter_context(database("mysql", str(folder)))
        session.configure(url)
        migration.upgrade()
        common = (
            f"[DEFAULT]\nhost = {name}\nstate_path = {folder}/state\n"
            f"transport_url = {rabbit}\ncontrol_exchange = {name}\n"
            "[oslo_messaging_rabbit]\nrabbit_quorum_queue = true\n"
        )
        controller = f"{common}[database]\nconnection = {url}\n"
        host = f"{common}[compute]\ndatabase = conductor\ncontainer_driver = fake\n[network]\ndriver = fake\n"
        texts = {
            "conductor": controller,
            "scheduler": controller,
            "api": f"{controller}[api]\nport = {port}\nauth_strategy = noauth\n[quota]\ncontainers = -1\ncpu = -1\n"
            "memory = -1\ndisk = -1\n",
            "compute": host,
            "wsproxy": f"{host}[websocket_proxy]\nwsproxy_port = {free_port()}\n",
        }
        pids = {module: stack.enter_context(running(module, texts[module], folder)) for module in CLOUD}
        time.sleep(settle)
        result["idle_mib"] = {module: resident_mib(pid) for module, pid in pids.items()}
        empty = stored(session.engine(), "containers"), stored(session.engine(), "container_action.*")
        result["containers"] = clouds.fill([f"{name}-{number}" for number in range(HOSTS)], clouds.machine())
        api = Api(f"http://127.0.0.1:{port}/v1")
        with ThreadPoolExecutor(4) as workers:
            made = list(workers.map(lambda _: api.run(cpu=0.1, memory=4, host=name), range(SMALL)))
            for each in made:
                assert api.settled(each)["status"] == "Running", api.get(f"/containers/{each}")["status_reason"]
            for action in ("stop?timeout=1", "start", "reboot?timeout=1"):
                paths = [f"/containers/{each}/{action}" for each in made]
                for answer in workers.map(partial(api.request, "POST"), paths):
                    assert answer.status_code == requests.codes.accepted, answer.text
                for each in made:
                    api.settled(each)
            pages = ["/containers?all_projects=true&limit=1000" for _ in range(PAGES)]
            for page in workers.map(api.get, pages):
                assert len(page["containers"]) == min(1000, result["containers"] + SMALL)
        time.sleep(settle)
        result["loaded_mib"] = {module: resident_mib(pid) for module, pid in pids.items()}
        rows, size = stored(session.engine(), "containers")
        result["bytes_per_container"] = (size - empty[0][1]) / rows
        size = stored(session.engine(), "container_action.*")[1]
        result["bytes_per_action"] = (size - empty[1][1]) / (4 * SMALL)  # with the events of each
        session.dispose()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    # The first heartbeat, inventory and comparison with the runtime are over after three seconds.
    parser.add_argument("--settle", type=float, default=3.0, help="seconds from ready to idle")
    parser.add_argument("--fake", action="store_true", help="containers and networks in memory, without Docker")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures to this file")
    parser.add_argument("--cloud", action="store_true", help="measure a distributed installation, idle and loaded")
    arguments = parser.parse_args()
    if arguments.cloud:
        with tempfile.TemporaryDirectory() as folder:
            found = cloud(pathlib.Path(folder), arguments.settle)
        print(json.dumps(found, indent=2))
        if arguments.json:
            arguments.json.write_text(json.dumps(found, indent=2) + "\n")
        return
    result: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        configured = configurations(path, arguments.fake)
        subjects = {f"zun-{module}": (module, config) for module, config in configured.items()}
        for name in ["python alone", *subjects]:
            runs = [
                bare_python() if name == "python alone" else measure(*subjects[name], path, arguments.settle)
                for _ in range(arguments.runs + 1)
            ][1:]  # the first run fills the page cache and makes the database
            seconds, memory = zip(*runs, strict=True)
            result[name] = {
                "ready_s": {"median": statistics.median(seconds), "max": max(seconds)},
                "idle_mib": {"median": statistics.median(memory), "max": max(memory)},
            }
    print(f"{'':14} {'ready s':>17} {'idle MiB':>17}")
    print(f"{'':14} {'median':>8} {'max':>8} {'median':>8} {'max':>8}")
    for name, figures in result.items():
        values = [figures[what][which] for what in ("ready_s", "idle_mib") for which in ("median", "max")]
        print(f"{name:14} " + " ".join(f"{value:8.2f}" for value in values))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
