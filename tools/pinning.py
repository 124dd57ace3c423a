#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wait for a container to run, and compare its CPUs in the kernel with its CPUs in the API.

Standard library only.  The exit status is 0 when they agree.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

VERSION = "container 1.41"


def container(endpoint: str, name: str) -> dict[str, Any]:
    """Return the container as the API shows it at the first microversion with placement."""
    request = urllib.request.Request(
        f"{endpoint.rstrip('/')}/containers/{urllib.parse.quote(name, safe='')}",
        headers={"OpenStack-API-Version": VERSION, "Accept": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def wait_for_running(endpoint: str, name: str, seconds: float) -> dict[str, Any]:
    """Poll until the container runs; SystemExit with the service's reason when it will not."""
    deadline = time.monotonic() + seconds
    while True:
        found = container(endpoint, name)
        if found["status"] == "Running":
            return found
        if found["status"] in ("Error", "Deleted", "Dead", "Stopped"):
            reason = found.get("status_reason") or "no reason given"
            sys.exit(f"error: container {name} is {found['status']}: {reason}")
        if time.monotonic() > deadline:
            sys.exit(f"error: container {name} is still {found['status']} after {seconds:.0f} s; see the log")
        time.sleep(0.25)


def main_process(uuid: str) -> int:
    """Return the process id of the container's first process, as this machine counts."""
    inspect = subprocess.run(
        ["docker", "inspect", "--format", "{{.State.Pid}}", f"zun-{uuid}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if inspect.returncode != 0:
        sys.exit(f"error: docker inspect zun-{uuid}: {inspect.stderr.strip()}")
    return int(inspect.stdout)


def process_status(pid: int) -> dict[str, str]:
    """Return the lines of /proc/<pid>/status by name."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}


def cpuset_files(pid: int) -> tuple[str, str, str]:
    """Return CPUs and memory nodes of the process's cpuset cgroup, and the name of the file with the CPUs."""
    for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpuset" in controllers.split(","):
            folder = pathlib.Path("/sys/fs/cgroup/cpuset") / path.lstrip("/")
            names = ("cpuset.cpus", "cpuset.mems")
        elif controllers == "" and pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists():
            folder = pathlib.Path("/sys/fs/cgroup") / path.lstrip("/")
            names = ("cpuset.cpus.effective", "cpuset.mems.effective")
        else:
            continue
        cpus, mems = ((folder / name).read_text().strip() for name in names)
        return cpus, mems, names[0]
    sys.exit(f"error: process {pid} is in no cpuset cgroup")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--endpoint", default="http://127.0.0.1:9517/v1", help="the API (default %(default)s)")
    parser.add_argument(
        "--wait", type=float, default=60, metavar="SECONDS", help="for the container to run (default 60)"
    )
    parser.add_argument("container", help="name or uuid")
    arguments = parser.parse_args()

    try:
        found = wait_for_running(arguments.endpoint, arguments.container, arguments.wait)
    except (urllib.error.URLError, TimeoutError) as exc:
        sys.exit(f"error: {arguments.endpoint}: {exc}")
    pid = main_process(found["uuid"])
    try:
        status = process_status(pid)
        group_cpus, group_mems, file = cpuset_files(pid)
    except FileNotFoundError as exc:
        sys.exit(f"error: no {exc.filename}: the Docker daemon is on another machine or in another namespace")

    rows = [
        ("", "CPUs", "memory nodes"),
        ("the API's claim", str(found.get("cpuset_cpus")), str(found.get("cpuset_mems"))),
        (f"/proc/{pid}/status", status["Cpus_allowed_list"], status["Mems_allowed_list"]),
        (f"its cgroup, {file}", group_cpus, group_mems),
    ]
    first = max(len(row[0]) for row in rows)
    print(f"{found['name']} ({found['uuid']}) runs on {found['host']}, {found.get('cpu_policy')}")
    for source, cpus, mems in rows:
        print(f"  {source:<{first}}  {cpus:<8}  {mems}")
    if len({row[1:] for row in rows[1:]}) != 1:
        print("error: they do not agree", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
