#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure idle programs: seconds from start to ready, and resident memory.

    benchmarks/footprint.py [--runs 5] [--settle 3] [--json FILE]

Always measures ``zun-allinone``. With ZUN_TEST_RABBIT_URL and ZUN_TEST_MYSQL_URL set (``tools/services.sh env``) also
``zun-compute``, ``zun-scheduler`` and ``zun-api``, distributed. Beside each stands a Python that imports nothing,
started in the same way: what the interpreter itself costs here.
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from typing import Any


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


def configurations(folder: pathlib.Path) -> dict[str, str]:
    """Return the text of each program's configuration file, by module."""
    name = f"benchmark-{uuid.uuid4().hex[:8]}"
    made = {
        "allinone": f"[DEFAULT]\nhost = {name}\nstate_path = {folder}/state\n[api]\nport = {free_port()}\n"
        "[websocket_proxy]\nwsproxy_port = 0\n[compute]\nreserved_host_memory_mb = 128\n"
    }
    rabbit, mysql = os.environ.get("ZUN_TEST_RABBIT_URL"), os.environ.get("ZUN_TEST_MYSQL_URL")
    if rabbit and mysql:
        common = (
            f"[DEFAULT]\nhost = {name}\ntransport_url = {rabbit}\ncontrol_exchange = {name}\n"
            f"[database]\nconnection = {mysql}\n[compute]\nreserved_host_memory_mb = 128\n"
            "[oslo_messaging_rabbit]\nrabbit_quorum_queue = true\n"
        )
        (folder / "db.conf").write_text(common)
        upgrade = [sys.executable, "-m", "zun.cmd.db_manage", "--config-file", str(folder / "db.conf"), "upgrade"]
        subprocess.run(upgrade, check=True, stdout=subprocess.DEVNULL)
        made |= {"compute": common, "scheduler": common}
        made["api"] = f"{common}[api]\nport = {free_port()}\nauth_strategy = noauth\n"
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    # The first heartbeat, inventory and comparison with the runtime are over after three seconds.
    parser.add_argument("--settle", type=float, default=3.0, help="seconds from ready to idle")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures to this file")
    arguments = parser.parse_args()
    result: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        subjects = {f"zun-{module}": (module, config) for module, config in configurations(path).items()}
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
