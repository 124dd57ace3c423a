# SPDX-License-Identifier: Apache-2.0
"""Compare how many requests a cloud accepts under our placement policy and under others.

    python benchmarks/packing.py [--json FILE] [--hosts CSV] [--requests CSV] [--seeds FIRST-LAST] [--mix NAME ...]
                                 [--load L] [--count N]
    python benchmarks/packing.py --gpu [--gpu-trace FILE] [--gpu-hosts N] [--seeds FIRST-LAST] [--load L] [--json FILE]

Replays one sequence of requests under each policy: ``ours`` (``[scheduler] weighers`` as in OURS, which is for clouds
with one scheduler and not the default, and ``zun.topology.plan``), Nova's weighers and order of cells when packing and
when spreading, a random host and its first cell, and the first host with the first and fewest cells (a packed kubelet).
Which host *could* hold a request is decided alike for all, exactly and cell by cell; they differ in what they choose.

Input: ``--hosts`` has the columns count, cells, cpus, memory_mib (both of one cell) and optionally cells_per_socket,
near, far (distances inside a socket and between sockets). ``--requests`` (plain or .gz, else ZUN_PACKING_TRACE, else
generated) has vcpus and memory_mib and optionally arrival_s, lifetime_s (empty: for ever), numa_nodes, numa_affinity.

``--gpu`` asks for whole GPUs instead, parts of one rounded up: see benchmarks/packing_gpu.py.

The mixes: ``fill`` has the requests in an order drawn by the seed, none ends, and as many as a perfect packing could
hold are asked for (``--load`` times that). ``churn`` has them begin and end, about ``--load`` times the cloud at once.

What is promised of ours is not that nobody ever accepts more: no policy can that does not know what will be asked
(doc/source/contributor/decisions/no-policy-always-wins.rst). It is that over the runs of a mix nobody accepts more in
all, nobody beats ours more often than ours beats it, and nobody is beaten by others on fewer runs. After each mix
stands whether that was kept, and who accepted more than whom.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import heapq
import itertools
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from oslo_config import cfg

from benchmarks import packing_gpu
from benchmarks.shapes import equal_cells
from zun.conf import scheduler as options
from zun.scheduler import weighers
from zun.scheduler.columns import Columns
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.topology import PlacementRequest, Plan, plan

LOCAL = 10
OURS = ("StrandedWeigher=1000000.0", "FreeCPUWeigher=1.0", "FreeRAMWeigher=1.0")
POLICIES = ("ours", "nova-pack", "nova-spread", "random", "lowest-id")
MIXES = ("fill", "churn", "wide-fill", "wide-churn")
PROMISED = {"first_requests": "accepted before the first refusal", "cpus": "CPUs accepted in all"}
GRANTED = {"cpu_seconds": "CPU-seconds granted", "mib_seconds": "MiB-seconds granted"}
"""What users get if containers end: a container that runs for a day counts more than one that runs for a minute."""
ASKED = {"first_requests": "asked", "cpus": "asked_cpus"} | {metric: f"asked_{metric}" for metric in GRANTED}
"""An upper bound for every policy: the requests that all CPUs and all memory together could serve."""
METRICS = ("first_requests", "first_cpus", "requests", "cpus", "single_cell", "distance", "stranded")


@dataclass(frozen=True)
class Kind:
    """``count`` equal hosts of ``cells`` cells with ``cpus`` CPUs and ``memory_mib`` each."""

    count: int
    cells: int
    cpus: int
    memory_mib: int
    cells_per_socket: int = 1
    near: int = 12
    far: int = 32

    def distance(self, a: int, b: int) -> int:
        if a == b:
            return LOCAL
        return self.near if a // self.cells_per_socket == b // self.cells_per_socket else self.far


SITES = {
    "16 hosts of 4 x 16 CPUs, 4 GiB a CPU": (Kind(16, 4, 16, 65536, 2),),
    "16 hosts of 2 x 32 CPUs, 4 GiB a CPU": (Kind(16, 2, 32, 131072),),
    "32 hosts of 2 x 16 CPUs, 3.5 GiB a CPU": (Kind(32, 2, 16, 57344),),
    "12 hosts of 2 x 24 and 6 of 4 x 16": (Kind(12, 2, 24, 98304), Kind(6, 4, 16, 81920, 2)),
}


@dataclass(frozen=True)
class Ask:
    cpus: int
    memory_mib: int
    arrival: float = 0.0
    lifetime: float | None = None
    numa_nodes: int = 1
    affinity: str = "require"

    @property
    def parts(self) -> list[tuple[int, int]]:
        """Return CPUs and MiB for each cell, largest first, as ``PlacementRequest`` splits them."""
        return sorted(self.placement.parts, reverse=True)

    @property
    def placement(self) -> PlacementRequest:
        return PlacementRequest(
            self.cpus, self.memory_mib, numa_nodes=self.numa_nodes, numa_affinity=self.affinity
        )


# Requests


def generated(seed: int, count: int, *, wide: bool) -> list[Ask]:
    """Sizes and proportions of an invented cloud; how common each size is differs by seed."""
    draw = random.Random(seed)
    sizes = (1, 2, 3, 4, 6, 8, 12, 16)
    common = [often * draw.uniform(0.2, 1) for often in (8, 8, 4, 6, 3, 4, 1, 1.5)]
    asks = []
    for number in range(count):
        cpus = draw.choices(sizes, common)[0]
        mib = cpus * draw.choice((1024, 2048, 2048, 4096, 4096, 8192))
        ask = Ask(cpus, mib, float(number), draw.expovariate(1 / 600))
        kind = draw.random()
        if wide and kind < 0.1:
            cpus = draw.choice((8, 12, 16, 24))
            ask = replace(ask, cpus=cpus, memory_mib=cpus * 2048, numa_nodes=2)
        elif wide and kind < 0.2:
            cpus = draw.choice((12, 20, 28))
            ask = replace(ask, cpus=cpus, memory_mib=cpus * 2048, affinity="prefer")
        asks.append(ask)
    return asks


def read_requests(name: str) -> list[Ask]:
    path = Path(name)
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return [
            Ask(
                int(row["vcpus"]),
                int(float(row["memory_mib"])),
                float(row.get("arrival_s") or number),
                float(row["lifetime_s"]) if row.get("lifetime_s") else None,
                int(row.get("numa_nodes") or 1),
                row.get("numa_affinity") or "require",
            )
            for number, row in enumerate(csv.DictReader(file))
        ]


def read_hosts(name: str) -> tuple[Kind, ...]:
    with open(name) as file:
        return tuple(
            Kind(**{key: int(value) for key, value in row.items() if value}) for row in csv.DictReader(file)
        )


def holdable(kinds: Sequence[Kind], ask: Ask) -> bool:
    """Return whether some empty host holds the request. A request that fits nowhere compares no policies."""
    for kind in kinds:
        free = [[kind.cpus, kind.memory_mib] for _ in range(kind.cells)]
        if next(ways(free, ask, range(kind.cells)), None) is not None:
            return True
    return False


def sequence(
    kinds: Sequence[Kind], mix: str, seed: int, trace: Sequence[Ask] | None, load: float, count: int
) -> list[Ask]:
    """Return the requests of one run, with the times of ``churn`` stretched to ``load``."""
    cpus = sum(kind.count * kind.cells * kind.cpus for kind in kinds)
    mib = sum(kind.count * kind.cells * kind.memory_mib for kind in kinds)
    draw = random.Random(seed)
    if trace is None:
        pool = generated(seed, count if mix.endswith("churn") else cpus, wide=mix.startswith("wide"))
    elif mix == "churn":
        start = draw.randrange(max(1, len(trace) - count))
        pool = list(trace[start : start + count])
    else:
        pool = draw.sample(list(trace), min(cpus, len(trace)))
    known: dict[tuple[int, int, int, str], bool] = {}
    asks = []
    for ask in pool:
        key = (ask.cpus, ask.memory_mib, ask.numa_nodes, ask.affinity)
        if key not in known:
            known[key] = holdable(kinds, ask)
        if known[key]:
            asks.append(ask)
    if mix.endswith("churn"):
        span = asks[-1].arrival - asks[0].arrival
        ends = [ask.lifetime if ask.lifetime is not None else span for ask in asks]
        busy = max(
            sum(ask.cpus * end for ask, end in zip(asks, ends, strict=True)) / cpus,
            sum(ask.memory_mib * end for ask, end in zip(asks, ends, strict=True)) / mib,
        )
        return [
            replace(ask, lifetime=end * load * span / busy) for ask, end in zip(asks, ends, strict=True)
        ]
    taken, wanted_cpus, wanted_mib = [], 0, 0
    for ask in asks:
        wanted_cpus, wanted_mib = wanted_cpus + ask.cpus, wanted_mib + ask.memory_mib
        if wanted_cpus > cpus * load or wanted_mib > mib * load:
            break
        taken.append(replace(ask, lifetime=None))
    return taken


# Policies


Share = dict[int, tuple[int, int]]
"""CPUs and MiB by cell."""


def ways(free: Sequence[Sequence[int]], ask: Ask, order: Sequence[int]) -> Iterator[Share]:
    """Every way onto the cells, as many as are asked for and then, where allowed, as few as serve; in ``order``."""
    if ask.affinity != "none":
        parts = ask.parts
        sets = itertools.combinations if len(set(parts)) == 1 else itertools.permutations
        for cells in sets(order, len(parts)):
            if all(free[c][0] >= cpus and free[c][1] >= mib for c, (cpus, mib) in zip(cells, parts, strict=True)):
                yield dict(zip(cells, parts, strict=True))
    if ask.affinity == "require":
        return
    for number in range(1, len(order) + 1):
        for cells in itertools.combinations(order, number):
            room = [sum(free[cell][what] for cell in cells) for what in (0, 1)]
            if room[0] >= ask.cpus and room[1] >= ask.memory_mib:
                yield _filled(free, ask, cells)


def _filled(free: Sequence[Sequence[int]], ask: Ask, cells: Sequence[int]) -> Share:
    """One cell after the other gives all it has until there is enough."""
    share, cpus, mib = {}, ask.cpus, ask.memory_mib
    for cell in cells:
        share[cell] = (min(cpus, free[cell][0]), min(mib, free[cell][1]))
        cpus, mib = cpus - share[cell][0], mib - share[cell][1]
    return share


class Peer:
    """The policy of another scheduler, which knows the free CPUs and MiB by host and cell."""

    def __init__(self, kinds: Sequence[Kind], name: str, seed: int) -> None:
        self.kinds = [kind for kind in kinds for _ in range(kind.count)]
        self.free = [[[kind.cpus, kind.memory_mib] for _ in range(kind.cells)] for kind in self.kinds]
        self.name, self.random = name, random.Random(seed)

    def place(self, number: int, ask: Ask) -> tuple[int, Share] | None:
        able = [host for host, cells in enumerate(self.free) if self._holds(cells, ask)]
        for host in self._ranked(able):
            free = self.free[host]
            share = next(ways(free, ask, self._cells(free)))
            for cell, (cpus, mib) in share.items():
                free[cell][0] -= cpus
                free[cell][1] -= mib
            return host, share
        return None

    @staticmethod
    def _holds(cells: list[list[int]], ask: Ask) -> bool:
        if ask.numa_nodes == 1 and any(cpus >= ask.cpus and mib >= ask.memory_mib for cpus, mib in cells):
            return True
        if ask.numa_nodes == 1 and ask.affinity == "require":
            return False
        return next(ways(cells, ask, range(len(cells))), None) is not None

    def _ranked(self, able: list[int]) -> list[int]:
        if self.name == "lowest-id" or not able:
            return able
        if self.name == "random":
            return [self.random.choice(able)]
        # Nova's CPUWeigher and RAMWeigher, normalised over the hosts that passed, multipliers 1 or -1.
        sign = -1.0 if self.name == "nova-pack" else 1.0
        totals = [0.0] * len(able)
        for what in (0, 1):
            left = [sum(cell[what] for cell in self.free[host]) for host in able]
            low, high = min(left), max(left)
            for index, value in enumerate(left):
                totals[index] += sign * (value - low) / (high - low) if high > low else 0.0
        return [able[max(range(len(able)), key=totals.__getitem__)]]

    def _cells(self, free: list[list[int]]) -> list[int]:
        """Return the cells in the order of Nova's option packing_host_numa_cells_allocation_strategy."""
        if self.name == "nova-pack":
            return sorted(range(len(free)), key=lambda cell: free[cell][0])
        if self.name == "nova-spread":
            return sorted(range(len(free)), key=lambda cell: -free[cell][0])
        return list(range(len(free)))

    def release(self, number: int, host: int, share: Share) -> None:
        for cell, (cpus, mib) in share.items():
            self.free[host][cell][0] += cpus
            self.free[host][cell][1] += mib

    def free_cpus(self) -> int:
        return sum(cell[0] for cells in self.free for cell in cells)


class Ours:
    """Our weighers and the plan, on the values the scheduler has."""

    def __init__(self, kinds: Sequence[Kind], settings: Sequence[str] = OURS) -> None:
        self.kinds = [kind for kind in kinds for _ in range(kind.count)]
        machines = {
            kind: equal_cells(kind.cells, kind.cpus, kind.memory_mib, kind.distance) for kind in kinds
        }
        self.hosts = Columns(HostState(f"host-{row:06}", machines[kind]) for row, kind in enumerate(self.kinds))
        self.weighers = weighers.load(settings, configuration())

    def place(self, number: int, ask: Ask) -> tuple[int, Share] | None:
        spec = RequestSpec(str(number), ask.placement)
        able = self.hosts.dedicated_cpus >= ask.cpus
        for row in weighers.best_first(self.hosts, spec, self.weighers, able):
            host = self.hosts[row]
            answer = plan(host.topology, host.usage, spec.placement)
            if isinstance(answer, Plan):
                self.hosts.put(replace(host, usage=host.usage.with_claim(spec.uuid, answer)))
                return row, {cell: (len(share.cpus), share.memory_mib) for cell, share in answer.cells.items()}
        return None

    def release(self, number: int, host: int, share: Share) -> None:
        state = self.hosts[host]
        self.hosts.put(replace(state, usage=state.usage.without(str(number))))

    def free_cpus(self) -> int:
        return int(self.hosts.dedicated_cpus.sum())


def configuration() -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    conf.register_opts(options.OPTS, group=options.GROUP)
    conf([], default_config_files=[], default_config_dirs=[])
    return conf


# Runs


@dataclass
class Run:
    """``first_*`` is what was accepted before the first refusal, the others at the end; CPUs by request."""

    first_requests: int = 0
    first_cpus: int = 0
    requests: int = 0
    cpus: int = 0
    cpu_seconds: float = 0.0
    mib_seconds: float = 0.0
    refused: int = 0
    stranded: float = 0.0
    """CPUs free at the first refusal, or at the end without one, as a share of all."""
    single: int = 0
    remote: dict[int, tuple[int, float]] = field(default_factory=dict)
    """CPUs and the mean distance between two of them, by number of the request."""

    @property
    def single_cell(self) -> float:
        return self.single / self.requests if self.requests else 1.0

    @property
    def distance(self) -> float:
        """Return the mean distance between two CPUs of one container, weighted by CPUs. 10 is the same cell."""
        return self.distance_of(self.remote)

    def distance_of(self, numbers: Iterable[int]) -> float:
        remote = [self.remote[number] for number in numbers]
        cpus = sum(each[0] for each in remote)
        return sum(count * far for count, far in remote) / cpus if cpus else float(LOCAL)


def replay(policy: Peer | Ours, asks: Sequence[Ask]) -> Run:
    run, ends = Run(), []
    total = policy.free_cpus()
    for number, ask in enumerate(asks):
        while ends and ends[0][0] <= ask.arrival:
            _, ended, host, share = heapq.heappop(ends)
            policy.release(ended, host, share)
        placed = policy.place(number, ask)
        if placed is None:
            if not run.refused:
                run.first_requests, run.first_cpus = run.requests, run.cpus
                run.stranded = policy.free_cpus() / total
            run.refused += 1
            continue
        host, share = placed
        run.requests += 1
        run.cpus += ask.cpus
        with_cpus = {cell: cpus for cell, (cpus, _) in share.items() if cpus}
        run.single += len(with_cpus) == 1
        pairs = sum(
            a * b * policy.kinds[host].distance(one, other)
            for one, a in with_cpus.items()
            for other, b in with_cpus.items()
        )
        run.remote[number] = (ask.cpus, pairs / ask.cpus**2)
        if ask.lifetime is not None:
            run.cpu_seconds += ask.cpus * ask.lifetime
            run.mib_seconds += ask.memory_mib * ask.lifetime
            heapq.heappush(ends, (ask.arrival + ask.lifetime, number, host, share))
    if not run.refused:
        run.first_requests, run.first_cpus, run.stranded = run.requests, run.cpus, policy.free_cpus() / total
    return run


def figures(runs: dict[str, Run]) -> dict[str, dict[str, float]]:
    """By policy. ``distance_both`` is of the requests that ours accepted too, ``distance_ours`` that of ours there:
    a policy that refuses the large requests has none that are spread."""
    ours = runs["ours"]
    found = {}
    for name, run in runs.items():
        both = run.remote.keys() & ours.remote.keys()
        row = {metric: getattr(run, metric) for metric in (*METRICS, *GRANTED)}
        row |= {"distance_both": run.distance_of(both), "distance_ours": ours.distance_of(both)}
        found[name] = {metric: round(value, 5) for metric, value in row.items()}
    return found


def policy_of(name: str, kinds: Sequence[Kind], seed: int) -> Peer | Ours:
    return Ours(kinds) if name == "ours" else Peer(kinds, name, seed)


def compare(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Return the number of seeds on which each peer did better than ours, by metric."""
    better: dict[str, dict[str, int]] = {}
    for metric in (*METRICS, "distance_both"):
        better[metric] = {}
        for peer in POLICIES[1:]:
            gains = [
                row[peer]["distance_ours"] - row[peer]["distance_both"] if metric == "distance_both"
                else (row[peer][metric] - row["ours"][metric]) * (-1 if metric in ("distance", "stranded") else 1)
                for row in rows
            ]
            better[metric][peer] = sum(gain > 1e-9 for gain in gains)
    return better


def show(title: str, rows: Sequence[dict[str, Any]]) -> None:
    print(f"\n{title}\nbefore the first refusal/in all, CPUs in all, distance\n{'seed':>13} {'asked':>6}", end="")
    print("".join(f"{name:>22}" for name in POLICIES))
    for row in rows:
        runs = [row[name] for name in POLICIES]
        cells = [f"{r['first_requests']:.0f}/{r['requests']:.0f} {r['cpus']:.0f} {r['distance']:.2f}" for r in runs]
        print(f"{row['seed']:>13} {row['asked']:>6}" + "".join(f"{cell:>22}" for cell in cells))
    print("mean of the seeds (in brackets: seeds on which that policy did better than ours)")
    better = compare(rows)
    for metric in (*METRICS, "distance_both"):
        means = [statistics.fmean(row[name][metric] for row in rows) for name in POLICIES]
        told = [f"{means[0]:.3f}"] + [
            f"{mean:.3f} ({better[metric][peer]})" for peer, mean in zip(POLICIES[1:], means[1:], strict=True)
        ]
        print(f"{metric:>20}" + "".join(f"{each:>22}" for each in told))


def losses(rows: Sequence[dict[str, Any]], metric: str) -> dict[str, dict[str, int]]:
    """Return by policy the number of rows on which each other policy, or ``anybody``, did better."""
    found = {}
    for policy in POLICIES:
        more = [[row[other][metric] > row[policy][metric] for other in POLICIES] for row in rows]
        found[policy] = dict(zip(POLICIES, map(sum, zip(*more, strict=True)), strict=True))
        found[policy]["anybody"] = sum(map(any, more))
    return found


def broken(rows: Sequence[dict[str, Any]], metric: str) -> list[str]:
    """Return a sentence for each broken part of the promise, which the docstring of this module states."""
    beaten, total = losses(rows, metric), {name: sum(row[name][metric] for row in rows) for name in POLICIES}
    found = []
    for name in POLICIES[1:]:
        if total[name] > total["ours"] + 1e-9:
            found.append(f"{name} accepts more in all runs together")
        if beaten["ours"][name] > beaten[name]["ours"]:
            found.append(f"{name} beats ours more often than ours beats it")
        if beaten[name]["anybody"] < beaten["ours"]["anybody"]:
            found.append(f"{name} is beaten less often")
    return found


def ahead(sites: dict[str, Sequence[dict[str, Any]]], metric: str) -> list[str]:
    """Return a sentence for each policy that accepts more than ours on average on one cloud."""
    found = []
    for site, rows in sites.items():
        means = {name: statistics.fmean(row[name][metric] for row in rows) for name in POLICIES}
        found += [
            f"{name} {mean:.2f} against {means['ours']:.2f} on {site}"
            for name, mean in means.items()
            if mean > means["ours"] + 1e-9
        ]
    return found


def summarise(mix: str, sites: dict[str, Sequence[dict[str, Any]]]) -> None:
    """Print which policy accepts more, the gap of each to the upper bound, and whether the promise is kept."""
    rows = [row for each in sites.values() for row in each]
    for metric, told in promised(mix).items():
        print(f"\n{mix}, {len(rows)} runs, {told}: on how many the policy above did better than the one at the left")
        print(" " * 13 + "".join(f"{name:>13}" for name in (*POLICIES, "anybody")))
        for name, by in losses(rows, metric).items():
            counts = ["-" if other == name else str(count) for other, count in by.items()]
            print(f"{name:>13}" + "".join(f"{count:>13}" for count in counts))
        bound = sum(row[ASKED[metric]] for row in rows)
        shares = {name: sum(row[name][metric] for row in rows) / bound for name in POLICIES}
        best = sum(max(row[name][metric] for name in POLICIES) for row in rows) / bound
        print("of what was asked: " + ", ".join(f"{name} {share:.1%}" for name, share in shares.items()))
        print(f"the best of these on each run, known afterwards: {best:.1%}")
        print("promise: " + ("; ".join(broken(rows, metric)) or "kept"))
        print("ahead of ours on average on one cloud: " + ("; ".join(ahead(sites, metric)) or "nobody"))
    if mix.endswith("churn"):
        granted(sites)


def promised(mix: str) -> dict[str, str]:
    """Return the metrics of the promise: with ``churn``, also what users get."""
    return PROMISED | GRANTED if mix.endswith("churn") else PROMISED


def granted(sites: dict[str, Sequence[dict[str, Any]]]) -> None:
    """Print by cloud the share that each policy granted of what was asked, and on how many runs nobody granted more."""
    every = {**sites, "all": [row for rows in sites.values() for row in rows]} if len(sites) > 1 else sites
    for metric, told in GRANTED.items():
        print(f"\n{told + ' of those asked (runs first)':>40}" + "".join(f"{name:>14}" for name in POLICIES))
        for site, rows in every.items():
            asked = sum(row[f"asked_{metric}"] for row in rows)
            beaten = losses(rows, metric)
            cells = [
                f"{sum(row[name][metric] for row in rows) / asked:.2%} ({len(rows) - beaten[name]['anybody']})"
                for name in POLICIES
            ]
            print(f"{site:>40}" + "".join(f"{cell:>14}" for cell in cells))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="also write the figures of every seed there")
    parser.add_argument("--hosts", metavar="CSV", help="the cloud (default: four built-in ones)")
    parser.add_argument("--requests", metavar="CSV", default=os.environ.get("ZUN_PACKING_TRACE"))
    parser.add_argument("--seeds", metavar="FIRST-LAST", default="1-5")
    parser.add_argument("--mix", nargs="+", choices=MIXES, help="default: all, or fill and churn with --requests")
    parser.add_argument("--load", type=float, help="default: 1.0 of the cloud for fill, 0.95 for churn")
    parser.add_argument("--count", type=int, default=4000, help="requests of one churn (default 4000)")
    parser.add_argument("--gpu", action="store_true", help="compare how many GPUs each policy gives")
    parser.add_argument("--gpu-trace", metavar="FILE", help="the hosts and requests (.json), or requests alone (CSV)")
    parser.add_argument("--gpu-hosts", type=int, default=96, metavar="N", help="hosts of the cloud (default 96)")
    asked = parser.parse_args(arguments)
    first, _, last = asked.seeds.partition("-")
    if asked.gpu or asked.gpu_trace:
        seeds = range(int(first), int(last or first) + 1)
        ours = weighers.load(OURS, configuration())
        rows = packing_gpu.compare(asked.gpu_trace, asked.gpu_hosts, seeds, asked.load or 1.0, ours)
        if asked.json:
            Path(asked.json).write_text(json.dumps(rows, indent=1) + "\n")
        return 0
    trace = read_requests(asked.requests) if asked.requests else None
    sites = {asked.hosts: read_hosts(asked.hosts)} if asked.hosts else SITES
    result = []
    for mix in asked.mix or (MIXES if trace is None else MIXES[:2]):
        load = asked.load or (0.95 if mix.endswith("churn") else 1.0)
        of_mix: dict[str, Sequence[dict[str, Any]]] = {}
        for site, kinds in sites.items():
            rows: list[dict[str, Any]] = []
            start = time.monotonic()
            for seed in range(int(first), int(last or first) + 1):
                asks = sequence(kinds, mix, seed, trace, load, asked.count)
                runs = {name: replay(policy_of(name, kinds, seed), asks) for name in POLICIES}
                asked_for = {"seed": seed, "asked": len(asks), "asked_cpus": sum(ask.cpus for ask in asks)}
                asked_for["asked_cpu_seconds"] = sum(ask.cpus * (ask.lifetime or 0) for ask in asks)
                asked_for["asked_mib_seconds"] = sum(ask.memory_mib * (ask.lifetime or 0) for ask in asks)
                rows.append(asked_for | figures(runs))
            show(f"{mix}, load {load:g}, {site} ({time.monotonic() - start:.0f} s)", rows)
            lost = {metric: losses(rows, metric) for metric in promised(mix)}
            result.append(
                {"mix": mix, "load": load, "site": site, "trace": asked.requests, "seeds": rows, "losses": lost}
            )
            of_mix[site] = rows
        summarise(mix, of_mix)
    if asked.json:
        Path(asked.json).write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
