# SPDX-License-Identifier: Apache-2.0
"""Compare what a cloud grants if containers may be moved within their host, and if they may not.

    python benchmarks/packing_moves.py [--seeds FIRST-LAST] [--mix NAME ...] [--load L] [--count N] [--memory SHARE]
                                       [--hosts CSV] [--requests CSV] [--steps N] [--arranged]
                                       [--json FILE]

Replays the churn of ``benchmarks/packing.py``, whose options are the same, under the policies there and under

* ``in-place``: ``ours``, but a request that no host can hold is planned with ``zun.topology.rearrange`` on each host
  with enough free CPUs and memory in total. The cheapest moves are made: the fewest MiB, then the fewest containers.
* ``host-pools``: ``ours`` with each host as one cell, as if moves within a host cost nothing and always succeeded. It
  shows about how much a mover within hosts can gain.
* ``cloud-pool``: the same with the whole cloud as one cell: about how much a mover between hosts can gain.
* ``limit``: no run, but a bound for every policy and mover, even one that knows the future: at each moment the most
  CPUs of the requests of that moment, in parts if need be, that the CPUs and memory of the whole cloud could serve.

Prints for each cloud the CPU-seconds granted of those asked, the requests refused, and how many of the refusals are for
fragmentation alone: some host, or else only the whole cloud, had enough free CPUs and memory in total. Enough in total
may still be no place: 6 free CPUs beside no memory can stay free however the host is arranged. So for ``ours`` and
``in-place``, ``--arranged`` counts the refusals for which some host would hold the request if its containers were
placed anew, whether moves lead there or not (an integer program, which needs scipy). Prints also for how many of the
refusals of ``ours`` moves were found, if they are not made, and what the moves of ``in-place`` cost.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.packing import (
    POLICIES,
    SITES,
    Ask,
    Kind,
    Ours,
    Peer,
    Share,
    policy_of,
    read_hosts,
    read_requests,
    replay,
    sequence,
)
from zun.topology import PlacementRequest
from zun.topology.rearrange import STEPS, Fits, Rearrangement, rearrange

NAMES = (*POLICIES, "in-place", "host-pools", "cloud-pool")
MIXES = ("churn", "wide-churn")


class InPlace(Ours):
    """Our policy, with moves within one host for a request that no host can hold.

    With ``make`` False the moves are planned and counted, and the request is refused.
    """

    def __init__(self, kinds: Sequence[Kind], steps: int, *, make: bool = True) -> None:
        super().__init__(kinds)
        self.steps, self.make = steps, make
        self.requests: dict[str, PlacementRequest] = {}
        self.touched: list[int] = []
        """Containers moved, for each request that moves made fit."""
        self.copied: list[int] = []
        """MiB, of the same requests."""
        self.planned_ms: list[float] = []
        """CPU time of the planner, for each host that was asked."""

    def place(self, number: int, ask: Ask) -> tuple[int, Share] | None:
        self.requests[str(number)] = ask.placement
        placed = super().place(number, ask)
        if placed is None and self._rearranged(ask):
            placed = super().place(number, ask)
        if placed is None:
            del self.requests[str(number)]
        return placed

    def release(self, number: int, host: int, share: Share) -> None:
        del self.requests[str(number)]
        super().release(number, host, share)

    def arranged(self, ask: Ask) -> bool:
        """Return whether some host would hold the request too if all of its containers were placed anew."""
        for row, (cpus, mib) in enumerate(free_totals(self)):
            if cpus >= ask.cpus and mib >= ask.memory_mib:
                requests = [self.requests[owner] for owner in self.hosts[row].usage.owners]
                items = Counter(item for request in (*requests, ask.placement) for item in pieces(request))
                kind = self.kinds[row]
                if holds(kind.cells, kind.cpus, kind.memory_mib, tuple(sorted(items.items()))):
                    return True
        return False

    def _rearranged(self, ask: Ask) -> bool:
        """Make the cheapest moves after which the request fits. Return whether any were made."""
        found = []
        for row, (cpus, mib) in enumerate(free_totals(self)):
            if cpus < ask.cpus or mib < ask.memory_mib:
                continue
            host = self.hosts[row]
            movable = {owner: self.requests[owner] for owner in host.usage.owners}
            start = time.process_time_ns()
            answer = rearrange(host.topology, host.usage, movable, Fits(ask.placement), steps=self.steps)
            self.planned_ms.append((time.process_time_ns() - start) / 1e6)
            if isinstance(answer, Rearrangement):
                found.append((answer.mib, len(answer.owners), row, answer))
        if not found:
            return False
        mib, count, row, answer = min(found, key=lambda each: each[:3])
        self.touched.append(count)
        self.copied.append(mib)
        if self.make:
            self.hosts.put(replace(self.hosts[row], usage=answer.usage))
        return self.make


class Pools(Ours):
    """Our policy on hosts of one cell, so that the CPUs and memory of a host are never in pieces."""

    def __init__(self, kinds: Sequence[Kind], *, cloud: bool) -> None:
        hosts = [Kind(kind.count, 1, kind.cells * kind.cpus, kind.cells * kind.memory_mib) for kind in kinds]
        cpus, mib = (sum(kind.count * each for kind, each in zip(hosts, amounts, strict=True)) for amounts in (
            [kind.cpus for kind in hosts], [kind.memory_mib for kind in hosts]
        ))
        super().__init__([Kind(1, 1, cpus, mib)] if cloud else hosts)

    def place(self, number: int, ask: Ask) -> tuple[int, Share] | None:
        return super().place(number, replace(ask, numa_nodes=1, affinity="require"))


def pieces(request: PlacementRequest) -> list[tuple[int, int]]:
    """Return CPUs and MiB of what must be on one cell each. A container that may spread is a piece for each CPU."""
    if request.numa_affinity == "require":
        return list(request.parts)
    return [(1, request.memory_mib // request.own_cpus)] * request.own_cpus


@functools.lru_cache(maxsize=100_000)
def holds(cells: int, cpus: int, mib: int, items: tuple[tuple[tuple[int, int], int], ...]) -> bool:
    """Return whether so many items of each size fit ``cells`` equal cells. If that takes too long, return True."""
    from scipy.optimize import Bounds, LinearConstraint, milp  # no other part needs scipy

    sizes, counts = np.array([size for size, _ in items]), np.array([count for _, count in items])
    # x[size, cell] items; each size has its count, and each cell has enough CPUs and MiB
    by_size = np.kron(np.eye(len(items)), np.ones(cells))
    by_cell = [np.kron(sizes[:, what], np.eye(cells)) for what in (0, 1)]
    answer = milp(
        np.zeros(len(items) * cells),
        integrality=np.ones(len(items) * cells),
        bounds=Bounds(0, np.repeat(counts, cells)),
        constraints=[
            LinearConstraint(by_size, counts, counts),
            LinearConstraint(np.vstack(by_cell), -np.inf, np.repeat((cpus, mib), cells)),
        ],
        options={"time_limit": 1.0},
    )
    return answer.status != 2  # 2 is infeasible


def free_totals(policy: Ours | Peer) -> list[tuple[int, int]]:
    """Return the free CPUs and MiB of each host."""
    if isinstance(policy, Peer):
        return [(sum(cell[0] for cell in free), sum(cell[1] for cell in free)) for free in policy.free]
    columns = policy.hosts
    free = [np.maximum(each, 0).sum(0)[: len(columns)].tolist() for each in (columns.cell_cpus, columns.cell_memory)]
    return list(zip(*free, strict=True))


class Watched:
    """A policy, with the number of requests that it refused for fragmentation alone."""

    def __init__(self, policy: Ours | Peer, *, arranged: bool) -> None:
        self.policy, self.kinds, self.count_arranged = policy, policy.kinds, arranged and isinstance(policy, InPlace)
        self.release, self.free_cpus = policy.release, policy.free_cpus
        self.on_host = 0
        """Some host had enough free CPUs and memory in total."""
        self.in_cloud = 0
        """No host had, but the cloud."""
        self.arranged = 0
        """Some host would hold the request if its containers were placed anew."""

    def place(self, number: int, ask: Ask) -> tuple[int, Share] | None:
        placed = self.policy.place(number, ask)
        if placed is None:
            free = free_totals(self.policy)
            if any(cpus >= ask.cpus and mib >= ask.memory_mib for cpus, mib in free):
                self.on_host += 1
                self.arranged += self.count_arranged and self.policy.arranged(ask)
            elif sum(cpus for cpus, _ in free) >= ask.cpus and sum(mib for _, mib in free) >= ask.memory_mib:
                self.in_cloud += 1
        return placed


def limit(kinds: Sequence[Kind], asks: Sequence[Ask]) -> float:
    """Return CPU-seconds that no policy can exceed: at each moment, the CPUs that the whole cloud could serve.

    If memory is short, the requests with the least memory for each CPU are served first, the last of them in part.
    """
    most_cpus = sum(kind.count * kind.cells * kind.cpus for kind in kinds)
    most_mib = sum(kind.count * kind.cells * kind.memory_mib for kind in kinds)
    events = [(ask.arrival, ask.cpus, ask.memory_mib) for ask in asks]
    events += [(ask.arrival + (ask.lifetime or 0.0), -ask.cpus, -ask.memory_mib) for ask in asks]
    alive: defaultdict[float, int] = defaultdict(int)
    """CPUs by MiB for each CPU."""
    total, cpus, before = 0.0, 0.0, 0.0
    for moment, more_cpus, more_mib in sorted(events):
        total += cpus * (moment - before)
        before = moment
        alive[more_mib / more_cpus] += more_cpus
        cpus, mib = 0.0, float(most_mib)
        for each, count in sorted(alive.items()):
            served = min(count, mib / each if each else count)
            cpus, mib = cpus + served, mib - served * each
        cpus = min(cpus, most_cpus)
    return total


def one_run(kinds: Sequence[Kind], asks: Sequence[Ask], seed: int, steps: int, *, arranged: bool) -> dict[str, Any]:
    """Return the figures of each policy on one sequence of requests."""
    row: dict[str, Any] = {"asked": sum(ask.cpus * (ask.lifetime or 0.0) for ask in asks), "requests": len(asks)}
    own = {
        "ours": InPlace(kinds, steps, make=False),
        "in-place": InPlace(kinds, steps),
        "host-pools": Pools(kinds, cloud=False),
        "cloud-pool": Pools(kinds, cloud=True),
    }
    for name in NAMES:
        watched = Watched(own.get(name) or policy_of(name, kinds, seed), arranged=arranged)
        run = replay(watched, asks)
        row[name] = {"cpu_seconds": run.cpu_seconds, "refused": run.refused, "on_host": watched.on_host,
                     "in_cloud": watched.in_cloud, "arranged": watched.arranged}
    row["counted"] = arranged
    row["found"] = len(own["ours"].touched)
    row["moves"] = {each: getattr(own["in-place"], each) for each in ("touched", "copied", "planned_ms")}
    row["limit"] = limit(kinds, asks)
    return row


def show(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print the sums of all seeds."""
    asked = sum(row["asked"] for row in rows)
    print(f"\n{title}, {sum(row['requests'] for row in rows)} requests")
    print(f"{'':<13}{'CPU-seconds':>13}{'refused':>9}{'a host had enough':>19}{'arranged':>10}"
          f"{'the cloud had':>15}")
    for name in NAMES:
        total = {key: sum(row[name][key] for row in rows) for key in rows[0][name]}
        print(f"{name:<13}{total['cpu_seconds'] / asked:>13.2%}{total['refused']:>9}{total['on_host']:>19}"
              f"{total['arranged'] if name in ('ours', 'in-place') else '':>10}{total['in_cloud']:>15}")
    print(f"{'limit':<13}{sum(row['limit'] for row in rows) / asked:>13.2%}")
    found, fit = sum(row["found"] for row in rows), sum(len(row["moves"]["touched"]) for row in rows)
    for name, count in (("ours", found), ("in-place", fit)):
        told = "found moves, and did not make them, for" if name == "ours" else "made moves for"
        on_host, arranged = (sum(row[name][key] for row in rows) for key in ("on_host", "arranged"))
        # The moves that in-place made are no refusals.
        on_host, arranged = (each + (count if name == "in-place" else 0) for each in (on_host, arranged))
        if on_host:
            shares = f"{count / on_host:.0%} of {on_host} that a host had enough for"
            if rows[0]["counted"] and arranged:
                shares += f", {count / arranged:.0%} of {arranged} refused for the arrangement"
            print(f"{name} {told} {count} requests: {shares}")
    touched, copied, times = (
        [each for row in rows for each in row["moves"][name]] for name in ("touched", "copied", "planned_ms")
    )
    if len(touched) > 1:
        print(f"containers moved for a request: median {statistics.median(touched):g}, most {max(touched)}; "
              f"GiB copied: median {statistics.median(copied) / 1024:g}, most {max(copied) / 1024:g}")
        percentiles = statistics.quantiles(times, n=100, method="inclusive")
        print(f"planner, ms of CPU time for each of {len(times)} hosts asked: median {percentiles[49]:.1f}, "
              f"p99 {percentiles[98]:.1f}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="also write the figures of every seed there")
    parser.add_argument("--hosts", metavar="CSV", help="the cloud (default: four built-in ones)")
    parser.add_argument("--requests", metavar="CSV", default=os.environ.get("ZUN_PACKING_TRACE"))
    parser.add_argument("--seeds", metavar="FIRST-LAST", default="1-5")
    parser.add_argument("--mix", nargs="+", choices=MIXES, default=MIXES[:1], help="default: churn")
    parser.add_argument("--load", type=float, default=0.95, help="default: 0.95 of the scarcer resource")
    parser.add_argument("--count", type=int, default=4000, help="requests of one run (default 4000)")
    parser.add_argument("--memory", type=float, default=1.0, metavar="SHARE", help="of the memory of the hosts")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"plans for one answer (default {STEPS})")
    parser.add_argument("--arranged", action="store_true", help="count refusals for the arrangement (needs scipy)")
    asked = parser.parse_args(arguments)
    first, _, last = asked.seeds.partition("-")
    trace = read_requests(asked.requests) if asked.requests else None
    sites = {asked.hosts: read_hosts(asked.hosts)} if asked.hosts else SITES
    result = []
    for mix in asked.mix:
        every = []
        for site, hosts in sites.items():
            kinds = [replace(kind, memory_mib=int(kind.memory_mib * asked.memory)) for kind in hosts]
            rows = []
            for seed in range(int(first), int(last or first) + 1):
                asks = sequence(kinds, mix, seed, trace, asked.load, asked.count)
                rows.append(one_run(kinds, asks, seed, asked.steps, arranged=asked.arranged))
                result.append({"mix": mix, "site": site, "seed": seed, **rows[-1]})
            show(f"{mix}, load {asked.load:g}, {site}", rows)
            every += rows
        if len(sites) > 1:
            show(f"{mix}, load {asked.load:g}, all clouds", every)
    if asked.json:
        Path(asked.json).write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
