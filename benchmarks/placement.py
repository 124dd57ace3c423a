#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The price of Placement: claims with each ``[placement] mode``, and decisions beside allocation candidates.

    benchmarks/placement.py --url http://127.0.0.1:8778 [--hosts 4] [--claims 200] [--rounds 3] [--trees 50]

``--url`` is a Placement server without keystone (``auth_strategy = noauth2``): ``tools/services.sh start placement``.

Claims: a scheduler and the agents of ``--hosts`` hosts run in this process, with SQLite, messages in memory and
containers in memory. The time is from the first create to the last container that is Running. The CPU time of this
process goes on until Placement has every allocation. Modes take turns, so that a machine whose speed drifts drifts for
all.

Refusals: a host of eight cells has ``--claims`` containers, and each cell has changed since it was read. The requests
and the time of a claim that Placement refuses, and of a sweep of the whole host in the same state.

Allocations: as many threads as claim send the PUT of a claim to Placement, and nothing else; or the POST of
``TOGETHER`` claims of a host. Placement alone sets both figures.

Ledgers: as many threads write claims of mode enforce, without the rest of an agent, one by one and in sets of
``TOGETHER`` claims of a host. The inventories of the hosts change with each claim, as an agent's do.

Decisions: the trees of ``--trees`` hosts are at Placement and in the scheduler's table. The same dedicated requests go
to both, one after the other: candidates by HTTP, decisions by filters, weighers and exact plans.
"""

import argparse
import contextlib
import json
import logging
import statistics
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import requests
from keystoneauth1 import loading
from oslo_config import cfg

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.scheduling import clouds, core
from zun import conf as zun_conf
from zun.common import exceptions
from zun.common.context import RequestContext
from zun.db import migration, session
from zun.placement import diff
from zun.placement.allocations import Holding, cell_uuid
from zun.placement.client import MICROVERSION, PlacementClient
from zun.placement.enforce import Enforced
from zun.placement.tree import NUMA_ROOT, Disk, tree
from zun.scheduler import filters, select, weighers
from zun.scheduler.columns import Columns
from zun.scheduler.host_state import Held
from zun.scheduler.host_table import HostTable
from zun.scheduler.request_spec import RequestSpec
from zun.tests.fixtures import new_container
from zun.tests.functional.cloud import Cloud, machine
from zun.tests.host_beside_placement import STRICT, HostBesidePlacement
from zun.tests.unit.topology.build import flat_host, holding
from zun.topology import Usage

MODES = ("off", "report", "enforce")
AT_A_TIME = 8
TOGETHER = 16
CONTEXT = RequestContext(user_id="alice", project_id="demo", roles=["member"])


def options(mode: str, url: str) -> dict[str, Any]:
    """Return the options of the group ``[placement]`` as ``Cloud`` takes them."""
    return {"placement__mode": mode, "placement__auth_type": "admin_token", "placement__endpoint": url,
            "placement__token": "admin"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rate:
    """Claims of one mode in one round."""

    per_second: float
    cpu_ms: float
    """CPU time of this process for one claim."""


def claims(mode: str, url: str, hosts: int, count: int) -> Rate:
    """Run ``count`` containers on fresh hosts."""
    cfg.CONF.register_opts(loading.get_auth_plugin_conf_options("admin_token"), group="placement")
    with tempfile.TemporaryDirectory() as folder:
        session.configure(f"sqlite:///{folder}/zun.sqlite")
        migration.upgrade()
        run = uuid.uuid4().hex[:8]
        names = [f"{mode}-{run}-{number}" for number in range(hosts)]
        host = machine(cells=2, cores=count // hosts + 2, memory_mib=64 * count)
        with Cloud(dict.fromkeys(names, host), **options(mode, url)) as cloud, ThreadPoolExecutor(AT_A_TIME) as pool:
            client = None if mode == "off" else PlacementClient.from_conf(cloud.conf)

            def create(_: int) -> str:
                return str(cloud.run(CONTEXT, cpu_policy="dedicated", cpu=1.0, memory=64).status)

            list(pool.map(create, range(AT_A_TIME)))  # connections, threads and caches
            wait_until_written(client, names, AT_A_TIME)
            start, used = time.monotonic(), time.process_time()
            ended = list(pool.map(create, range(count)))
            seconds = time.monotonic() - start
            wait_until_written(client, names, AT_A_TIME + count)
            used = time.process_time() - used
        assert set(ended) == {"Running"}, ended
        return Rate(count / seconds, used / count * 1000)


def wait_until_written(client: PlacementClient | None, names: Sequence[str], count: int) -> None:
    """Wait until Placement has ``count`` containers of the hosts. It is asked seldom, for that costs CPU time too."""
    while client is not None:
        cells = [cell_uuid(name, cell) for name in names for cell in (0, 1)]
        if sum(len(client.allocated(cell)) for cell in cells) == count:
            return
        time.sleep(1)


def puts(url: str, hosts: int, count: int) -> float:
    """Return the first allocations that Placement takes a second, of ``AT_A_TIME`` threads."""
    names = [f"put-{uuid.uuid4().hex[:8]}-{number}" for number in range(hosts)]
    client = client_of(url)
    publish(client, names, cells=2, cpus=64)

    def put(number: int) -> None:
        cell = cell_uuid(names[number % hosts], number // hosts % 2)
        client.allocate(str(uuid.uuid4()), Holding({cell: {"PCPU": 1, "MEMORY_MB": 64}}, "demo", "alice"), None)

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        list(pool.map(put, range(AT_A_TIME)))
        start = time.monotonic()
        list(pool.map(put, range(AT_A_TIME, AT_A_TIME + count)))
        return count / (time.monotonic() - start)


def posts(url: str, hosts: int, count: int) -> float:
    """Return the first allocations that Placement takes a second in requests of ``TOGETHER`` for one host."""
    names = [f"post-{uuid.uuid4().hex[:8]}-{number}" for number in range(hosts)]
    client = client_of(url)
    publish(client, names, cells=2, cpus=count + TOGETHER)

    def post(number: int) -> None:
        changes: dict[str, tuple[Holding, int | None]] = {}
        for one in range(TOGETHER):
            taken = {cell_uuid(names[number % hosts], one % 2): {"PCPU": 1, "MEMORY_MB": 64}}
            changes[str(uuid.uuid4())] = Holding(taken, "demo", "alice"), None
        client.allocate_together(changes)

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        post(0)
        start = time.monotonic()
        sets = max(1, count // TOGETHER)
        list(pool.map(post, range(sets)))
        return sets * TOGETHER / (time.monotonic() - start)


def ledgers(url: str, hosts: int, count: int, together: int) -> float:
    """Return the claims that the ledgers of mode enforce write a second, in sets of ``together`` for one host."""
    count = max(count, together)
    each = count // hosts + together
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ended:
        session.configure(f"sqlite:///{folder}/zun.sqlite")
        migration.upgrade()
        machine = flat_host([each, each], 64 * each)
        there = [HostBesidePlacement(CONTEXT, f"ledger-{uuid.uuid4().hex[:8]}", machine, client_of(url))
                 for _ in range(hosts)]  # fmt: skip
        running = [host.reporter(Enforced(wait=60, go_on=False)) for host in there]
        for ledger in running:
            ledger.start()
            ended.callback(ledger.stop)
        while any(ledger.others() is None for ledger in running):
            time.sleep(0.01)
        sets = []
        for number in range(count // together):
            first = number // hosts * together
            plans = [holding(str((first + one) // 2 + (first + one) % 2 * each), machine, memory_mib=64)
                     for one in range(together)]  # fmt: skip
            sets.append((number % hosts, [(new_container(CONTEXT), plan) for plan in plans]))
        guard = threading.Lock()

        def write(one: tuple[int, list[tuple[Any, Any]]]) -> None:
            host, claims = one
            with guard:
                for container, plan in claims:
                    there[host].usage = there[host].usage.with_claim(container.uuid, plan)
            with running[host].claiming_many(claims) as refused:
                assert not refused, refused
                for container, plan in claims:
                    there[host].commit(container, plan)

        with ThreadPoolExecutor(AT_A_TIME) as pool:
            start = time.monotonic()
            list(pool.map(write, sets))
            return len(sets) * together / (time.monotonic() - start)


def client_of(url: str) -> PlacementClient:
    conf = zun_conf.register_opts(cfg.ConfigOpts())
    conf.register_opts(loading.get_auth_plugin_conf_options("admin_token"), group="placement")
    conf([], project="zun", default_config_files=[], default_config_dirs=[])
    for name, value in options("report", url).items():
        conf.set_override(name.removeprefix("placement__"), value, group="placement")
    return PlacementClient.from_conf(conf)


def publish(client: PlacementClient, names: Iterable[str], cells: int, cpus: int) -> None:
    """Put the trees of idle hosts at Placement."""
    for name in names:
        generations: dict[str, int] = {}
        for step in diff.steps(tree(name, clouds.machine(cells, cpus), Usage(), Disk(1000)), {}, {}):
            match step:
                case diff.Create(provider):
                    generations[provider.uuid] = client.create(provider)
                case diff.SetInventories(provider_uuid, inventories):
                    generations[provider_uuid] = client.set_inventories(
                        provider_uuid, generations[provider_uuid], inventories
                    )
                case diff.SetTraits(provider_uuid, traits):
                    generations[provider_uuid] = client.set_traits(provider_uuid, generations[provider_uuid], traits)


class Counted:
    """A keystoneauth adapter that counts its requests."""

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter
        self.requests = 0

    def request(self, *arguments: Any, **named: Any) -> Any:
        self.requests += 1
        return self._adapter.request(*arguments, **named)


@dataclass(frozen=True, slots=True)
class Cost:
    requests: int
    ms: float


def refusals(adapter: Any, cells: int, held: int) -> dict[str, Cost]:
    """Return the cost of a refused claim and of a whole sweep, on a host whose cells all changed since it was read."""
    host, counted = f"refused-{uuid.uuid4().hex[:8]}", Counted(adapter)
    each = held // cells + 4
    with tempfile.TemporaryDirectory() as folder:
        session.configure(f"sqlite:///{folder}/zun.sqlite")
        migration.upgrade()
        there = HostBesidePlacement(
            CONTEXT, host, flat_host([each] * cells, 64 * each), PlacementClient(counted)  # type: ignore[arg-type]
        )  # fmt: skip
        for number in range(held):
            there.hold(str(number % cells * each + number // cells))
        ledger = there.reporter(STRICT)
        ledger.start()
        try:
            while ledger.others() is None:
                time.sleep(0.01)
            owner = {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE", "consumer_generation": None}
            taken = {"allocations": {cell_uuid(host, 0): {"resources": {"PCPU": 2}}}, **owner}
            path = f"/allocations/{uuid.uuid4()}"
            answer = adapter.request(path, "PUT", json=taken, raise_exc=False, microversion=MICROVERSION)
            assert answer.ok, answer.text
            change_each_cell(there, ledger, each, cells, 4)
            start, before = time.perf_counter(), counted.requests
            try:
                there.enforce(ledger, f"{each - 2}-{each - 1}")
                raise AssertionError("Placement has room for the claim")
            except exceptions.ClaimRefused:
                refused = Cost(counted.requests - before, (time.perf_counter() - start) * 1000)
        finally:
            ledger.stop()
        change_each_cell(there, ledger, each, cells, 3)
        start, before = time.perf_counter(), counted.requests
        ledger.sweep()
        return {"refused": refused, "sweep": Cost(counted.requests - before, (time.perf_counter() - start) * 1000)}


def change_each_cell(there: HostBesidePlacement, ledger: Any, each: int, cells: int, last: int) -> None:
    """Claim one CPU of each cell, the one that is ``last`` from the end."""
    for number in range(cells):
        there.enforce(ledger, str((number + 1) * each - last))


def median(rates: Sequence[Rate]) -> Rate:
    """Return the median of each figure by itself."""
    per_second, cpu_ms = ([getattr(each, name) for each in rates] for name in ("per_second", "cpu_ms"))
    return Rate(statistics.median(per_second), statistics.median(cpu_ms))


def milliseconds(values: list[float]) -> dict[str, float]:
    """Return median and 99th percentile of seconds, in milliseconds."""
    ordered = sorted(values)
    return {"p50_ms": statistics.median(ordered) * 1000, "p99_ms": ordered[int(len(ordered) * 0.99)] * 1000}


def compared(url: str, hosts: int, count: int) -> dict[str, Mapping[str, float]]:
    """Return the wall time of candidates and of decisions for the same dedicated requests."""
    conf = zun_conf.register_opts(cfg.ConfigOpts())
    conf([], project="zun", default_config_files=[], default_config_dirs=[])
    names = [f"candidate-{uuid.uuid4().hex[:8]}-{number}" for number in range(hosts)]
    publish(client_of(url), names, cells=2, cpus=64)
    chosen = filters.load(conf.scheduler.enabled_filters, conf)
    weights = weighers.load(conf.scheduler.weighers, conf)
    asked: list[float] = []
    decided: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        table, _ = core.loaded(folder, hosts, 2, 64, 0.0)
        specs = (spec for spec in clouds.specs(1) if spec.dedicated and spec.placement.numa_nodes == 1)
        with requests.Session() as http:
            http.headers.update({"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"})
            for _, spec in zip(range(count), specs, strict=False):
                asked.append(candidates(http, url, spec))
                decided.append(decision(table, spec, chosen, weights))
    return {"candidates": milliseconds(asked), "decision": milliseconds(decided)}


def candidates(http: requests.Session, url: str, spec: RequestSpec) -> float:
    """Return the seconds of one query for cells that can hold the request."""
    wanted = f"PCPU:{spec.placement.cpus},MEMORY_MB:{spec.placement.memory_mib}"
    start = time.perf_counter()
    answer = http.get(f"{url}/allocation_candidates", params={"resources_N0": wanted, "required_N0": NUMA_ROOT})
    seconds = time.perf_counter() - start
    answer.raise_for_status()
    assert answer.json()["allocation_requests"], "no host has room"
    return seconds


def decision(table: HostTable, spec: RequestSpec, chosen: Sequence[Any], weights: Sequence[Any]) -> float:
    """Return the seconds of one decision: a host and two alternates, each with its exact plan."""

    def choose(hosts: Columns) -> tuple[str, Held] | None:
        answer = select.select(hosts, spec, chosen, weights, 3)
        return None if isinstance(answer, select.NoValidHost) else (answer[0].hostname, answer[0].held(spec))

    start = time.perf_counter()
    table.choose_and_book(spec.uuid, choose)
    seconds = time.perf_counter() - start
    assert table.is_booked(spec.uuid), "no host has room"
    table.unbook(spec.uuid)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="the Placement server")
    parser.add_argument("--hosts", type=int, default=4, help="hosts that claim")
    parser.add_argument("--claims", type=int, default=200, help="claims of a mode and round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--trees", type=int, default=50, help="hosts that decisions and candidates choose from")
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--json", metavar="FILE")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    times = compared(given.url, given.trees, given.queries)  # first: candidates look at all trees that there are
    rates: dict[str, list[Rate]] = {mode: [] for mode in MODES}
    measures = {
        "bare PUT": lambda: puts(given.url, given.hosts, given.claims),
        f"bare POST of {TOGETHER}": lambda: posts(given.url, given.hosts, given.claims),
        "ledgers, one by one": lambda: ledgers(given.url, given.hosts, given.claims, 1),
        f"ledgers, sets of {TOGETHER}": lambda: ledgers(given.url, given.hosts, given.claims, TOGETHER),
    }
    written: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(given.rounds):
        for mode in MODES:
            rates[mode].append(claims(mode, given.url, given.hosts, given.claims))
        for name, measure in measures.items():
            written[name].append(measure())
    off = median(rates["off"])
    print(f"{'mode':<10}{'claims/s':>10}{'of off':>10}{'CPU ms':>10}{'of off':>10}   rounds: claims/s, CPU ms")
    for mode, found in rates.items():
        rate = median(found)
        rounds = "; ".join(f"{each.per_second:.0f}, {each.cpu_ms:.1f}" for each in found)
        ratios = rate.per_second / off.per_second, rate.cpu_ms / off.cpu_ms
        print(f"{mode:<10}{rate.per_second:>10.1f}{ratios[0]:>10.2f}{rate.cpu_ms:>10.1f}{ratios[1]:>10.2f}   {rounds}")
    print(f"{'allocations':<24}{'a second':>10}{'of PUT':>10}   rounds")
    for name, figures in written.items():
        ratio = statistics.median(one / bare for one, bare in zip(figures, written["bare PUT"], strict=True))
        rounds = ", ".join(f"{each:.1f}" for each in figures)
        print(f"{name:<24}{statistics.median(figures):>10.1f}{ratio:>10.2f}   {rounds}")
    costs = refusals(client_of(given.url)._adapter, 8, given.claims)
    for name, cost in costs.items():
        print(f"8 cells, {given.claims} containers, {name}: {cost.requests} requests, {cost.ms:.1f} ms")
    ratio = times["candidates"]["p50_ms"] / times["decision"]["p50_ms"]
    for name, each in times.items():
        print(f"{given.trees} hosts, {name}: p50 {each['p50_ms']:.2f} ms, p99 {each['p99_ms']:.2f} ms")
    print(f"candidates take {ratio:.0f} times as long as a decision")
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            told = {mode: [asdict(each) for each in found] for mode, found in rates.items()}
            costly = {name: asdict(cost) for name, cost in costs.items()}
            rates_alone = {"allocations_per_second": written["bare PUT"], "written": written}
            json.dump({"claims": told, **rates_alone, "refusals": costly, **times}, file)


if __name__ == "__main__":
    main()
