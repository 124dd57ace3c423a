#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the CPU time that open pages cost the API, and that of one busy client.

    python benchmarks/open_pages.py [--pages N] [--seconds S] [--change-every S] [--database KIND] [--json FILE]

Each page asks every two seconds, with the tag of its last answer, for one view: a third of the pages for the containers
of the project, a third for all hosts, and a third for the map of one host. A container changes every ``--change-every``
seconds, so that all views change. After that one client asks for the same three answers without tags, one request after
the other. Both are in one run, with one worker process as in ``benchmarks/api.py``. ``CPU`` is that of the API, in
seconds of CPU time a second.
"""

import argparse
import contextlib
import http.client
import itertools
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)  # before anything imports oslo.messaging

from benchmarks.api import PROJECT, Worker, database, ours, row  # noqa: E402
from zun.db import compute_nodes, containers, migration, models, session  # noqa: E402
from zun.topology import CpuSet, HostTopology, NUMACell, PlacementRequest, Usage, plan  # noqa: E402

EVERY = 2.0  # seconds between two requests of a page
ROLES = "admin"  # who sees hosts
VERSION = {"OpenStack-API-Version": "container latest"}
INVENTORY = {
    "cpus": 64, "mem_total": 262_144, "disk_total": 1000, "disk_quota_supported": False, "disk_allocation_ratio": 1.0,
    "enable_cpu_pinning": True, "availability_zone": "nova", "labels": {}, "runtimes": ["runc"],
}  # fmt: skip


def machine() -> HostTopology:
    """Two cells of sixteen cores with two threads."""

    def cell(number: int) -> NUMACell:
        first = 32 * number
        cores = tuple(CpuSet(f"{cpu}-{cpu + 1}") for cpu in range(first, first + 32, 2))
        cpus = CpuSet(f"{first}-{first + 31}")
        return NUMACell(number, cpus, cores, (cpus,), 131_072, {number: 10, 1 - number: 20})

    return HostTopology(cells=(cell(0), cell(1)))


def fill(hosts: int, on_each: int) -> str:
    """Write hosts with ``on_each`` pinned containers each. Return the uuid of one container."""
    node, usage, plans = machine(), Usage(), []
    request = PlacementRequest(cpus=2, memory_mib=512)
    for number in range(on_each):
        found = plan(node, usage, request)
        usage = usage.with_claim(str(number), found)
        plans.append(found.to_dict())
    rows = []
    for host, number in itertools.product(range(hosts), range(on_each)):
        made = row(len(rows), PROJECT)
        rows.append({**made, "host": f"host-{host}", "cpuset": {**made["cpuset"], **plans[number]}})
    for host in range(hosts):
        compute_nodes.put(f"host-{host}", {**INVENTORY, "topology": node.to_dict()})
    with session.writer() as connection:
        connection.execute(models.containers.insert(), rows)
    return str(rows[0]["uuid"])


class Page:
    """One open page: a connection of its own, and the tag of its last answer."""

    def __init__(self, port: int, path: str, headers: dict[str, str]) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._path, self._headers, self._tag = path, headers, ""

    def ask(self) -> int:
        """Return the status of the answer."""
        headers = {**self._headers, **({"If-None-Match": self._tag} if self._tag else {})}
        for last in (False, True):
            try:
                self._connection.request("GET", self._path, headers=headers)
                answer = self._connection.getresponse()
                break
            except (http.client.RemoteDisconnected, ConnectionError):  # an idle connection ends
                self._connection.close()
                if last:
                    raise
        answer.read()
        self._tag = answer.headers.get("ETag") or ""
        return answer.status


class Changes:
    """Changes a container and its claim ``every`` seconds; never for 0."""

    def __init__(self, uuid: str, every: float) -> None:
        self._uuid, self._every = uuid, every
        self.count = 0

    def until(self, seconds: float) -> None:
        while self._every and (self.count + 1) * self._every <= seconds:
            self.count += 1
            containers.change_claim(self._uuid, "host-0", {"memory": 512 + self.count % 2})


def views() -> list[str]:
    return ["/v1/containers", "/v1/hosts", "/v1/hosts/host-0/topology"]


def opened(worker: Worker, port: int, pages: int, seconds: float, changes: Changes) -> dict[str, Any]:
    """Return what ``pages`` open pages cost in ``seconds``. On a machine that is too slow for them the requests come
    later, but as many of them.
    """
    headers = {"X-User-Id": "benchmark", "X-Project-Id": PROJECT, "X-Roles": ROLES, **VERSION}
    every = [Page(port, path, headers) for path, _ in zip(itertools.cycle(views()), range(pages), strict=False)]
    for page in every:
        page.ask()
    statuses: dict[int, int] = {}
    before, began = worker.cpu_seconds(), time.monotonic()
    for turn in range(int(seconds / EVERY * pages)):
        due = turn * EVERY / pages
        time.sleep(max(0.0, began + due - time.monotonic()))
        changes.until(due)
        status = every[turn % pages].ask()
        statuses[status] = statuses.get(status, 0) + 1
    asked = sum(statuses.values())
    return {
        "pages": pages,
        "requests_a_second": asked / seconds,
        "unchanged": statuses.get(304, 0) / asked,
        "statuses": {str(status): count for status, count in sorted(statuses.items())},
        "changes": changes.count,
        "cpu": (worker.cpu_seconds() - before) / seconds,
    }


def busy(worker: Worker, seconds: float) -> dict[str, Any]:
    """Return what one client costs that asks without a pause, on a machine that has nothing else to do."""
    for path in views():
        worker.read("GET", path, roles=ROLES)
    before, own, began = worker.cpu_seconds(), time.process_time(), time.monotonic()
    paths, sent = itertools.cycle(views()), 0
    while time.monotonic() - began < seconds or not sent:
        worker.read("GET", next(paths), roles=ROLES)
        sent += 1
    cost = worker.cpu_seconds() - before
    passed = cost + time.process_time() - own  # one of the two always works
    return {"requests_a_second": sent / passed, "cpu": cost / passed, "cpu_of_a_request": cost / sent}


def main() -> None:
    parser = argparse.ArgumentParser(description="What open pages cost the API, beside one busy client.")
    parser.add_argument("--pages", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each of the two")
    parser.add_argument("--change-every", type=float, default=5.0, help="seconds; 0: nothing changes")
    parser.add_argument("--hosts", type=int, default=50)
    parser.add_argument("--on-each", type=int, default=20, help="containers of a host, at most 32")
    parser.add_argument("--database", choices=("sqlite", "mysql", "postgres"), default="sqlite")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        url = stack.enter_context(database(given.database, folder))
        session.configure(url)
        stack.callback(session.dispose)
        migration.upgrade()
        uuid = fill(given.hosts, given.on_each)
        worker = stack.enter_context(ours(url, folder))
        pages = opened(worker, worker.port, given.pages, given.seconds, Changes(uuid, given.change_every))
        client = busy(worker, given.seconds)
    share = pages["cpu"] / client["cpu"]
    print(f"{given.hosts} hosts, {given.hosts * given.on_each} containers, {given.database}")
    print(
        f"{given.pages} open pages: {pages['cpu']:.3f} CPU, {pages['requests_a_second']:.0f} requests a second, "
        f"{pages['unchanged']:.1%} answered 304, {pages['changes']} changes"
    )
    print(f"one busy client: {client['cpu']:.3f} CPU, {client['requests_a_second']:.0f} requests a second")
    print(f"the pages cost {share:.2f} of the client: {'less' if share < 1 else 'MORE'}")
    if given.json:
        given.json.write_text(json.dumps({"open_pages": pages, "busy_client": client, "share": share}, indent=1))


if __name__ == "__main__":
    main()
