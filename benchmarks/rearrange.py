# SPDX-License-Identifier: Apache-2.0
"""CPU time and quality of the planner of moves within one host, ``zun.topology.rearrange``.

    python benchmarks/rearrange.py [--seeds FIRST-LAST] [--steps N] [--only TEXT] [--json FILE]

Each question is a crowded host and a request that the host has enough free CPUs and memory for, but not on one cell.
Prints for each case the median, the 99th percentile and the maximum of the CPU time in milliseconds, how many questions
were answered with moves, how many of the answers are proven best (of refusals: proven that no moves exist), and the
median of the containers that are moved. Times are of the process (``time.process_time_ns``), each question asked once.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.shapes import host
from zun.topology import HostTopology, PlacementRequest, Plan, Usage, plan
from zun.topology.rearrange import STEPS, Fits, Free, Rearrangement, Stuck, Target, rearrange

GOALS = {"median": 20.0, "p99": 500.0}
"""Milliseconds on 8 cells with 64 containers."""

Question = tuple[HostTopology, Usage, dict[str, PlacementRequest], Target]


@dataclass(frozen=True)
class Case:
    """Hosts of ``cells`` cells of 16 CPUs with ``containers`` containers each."""

    name: str
    cells: int = 8
    containers: int = 64
    smt: int = 1
    mib: int = 65536
    """Memory of one cell. The containers hold 1 to 4 GiB a CPU, 2.25 on average."""
    sizes: tuple[int, ...] = (1, 1, 1, 2, 2, 2, 3, 4)
    nodes: int = 1
    """Cells that the request is for."""
    free: bool = False
    """The target is a free cell."""

    def questions(self, seeds: Sequence[int]) -> Iterator[Question]:
        for seed in seeds:
            yield self.question(random.Random(f"{self.name} {seed}"))

    def question(self, rng: random.Random) -> Question:
        """Return a host that was filled and lost containers, and a request that does not fit."""
        topology = host(self.cells, 16, smt=self.smt, remote="sockets")
        topology = replace(topology, cells=tuple(replace(cell, memory_mib=self.mib) for cell in topology.cells))
        while True:
            usage, movable = self._filled(rng, topology)
            if self.free:
                return topology, usage, movable, Free(rng.randrange(self.cells))
            free = list(usage.free(topology).values())
            cpus, mib = sum(len(cell.cpus) for cell in free), sum(cell.memory_mib for cell in free)
            wanted = [
                request
                for count in range(2, min(cpus, 12 * self.nodes) + 1)
                if (request := PlacementRequest(count, min(count * 2048, mib), numa_nodes=min(count, self.nodes)))
                and not isinstance(plan(topology, usage, request), Plan)
            ]
            if wanted:
                return topology, usage, movable, Fits(rng.choice(wanted))

    def _filled(self, rng: random.Random, topology: HostTopology) -> tuple[Usage, dict[str, PlacementRequest]]:
        """Return the claims of containers on random cells, as many as the case has, after a third more came and went.
        """
        usage, movable = Usage(), {}
        parts = [replace(topology, dedicated_set=cell.cpus) for cell in topology.cells]
        refused = 0
        for number in range(10 * self.containers):
            cpus = rng.choice(self.sizes)
            request = PlacementRequest(cpus, cpus * rng.choice((1024, 2048, 2048, 4096)))
            placed = plan(rng.choice(parts), usage, request)
            if isinstance(placed, Plan):
                usage, movable[str(number)] = usage.with_claim(str(number), placed), request
            else:
                refused += 1
            if len(movable) > self.containers * 4 // 3 or refused > self.containers:
                break
        while len(movable) > self.containers:
            gone = rng.choice(list(movable))
            usage = usage.without(gone)
            del movable[gone]
        return usage, movable


CASES = (
    Case("8 cells, 64 containers"),
    Case("8 cells, 64 containers, 2 threads a core", smt=2),
    Case("8 cells, 64 containers, little memory", mib=36864),
    Case("8 cells, 64 containers, a request for 2 cells", nodes=2),
    Case("8 cells, 64 containers, free a cell", sizes=(1, 1, 1, 1, 2), free=True),
    Case("8 cells, 46 containers, larger ones", containers=46, sizes=(1, 2, 2, 3, 4)),
    Case("4 cells, 24 containers", cells=4, containers=24, sizes=(1, 2, 3, 4)),
    Case("2 cells, 12 containers", cells=2, containers=12, sizes=(1, 2, 3, 4)),
    Case("4 cells, 12 large containers", cells=4, containers=12, sizes=(2, 4, 5, 6, 8)),
    Case("8 cells, 12 large containers", containers=12, sizes=(4, 6, 8, 10, 12)),
)


def measure(case: Case, seeds: Sequence[int], steps: int) -> dict[str, float]:
    times, answers = [], []
    for question in case.questions(seeds):
        start = time.process_time_ns()
        answers.append(rearrange(*question, steps=steps))
        times.append((time.process_time_ns() - start) / 1e6)
    found = [answer for answer in answers if isinstance(answer, Rearrangement)]
    stuck = [answer for answer in answers if isinstance(answer, Stuck)]
    return {
        "median": statistics.median(times),
        "p99": statistics.quantiles(times, n=100, method="inclusive")[98],
        "max": max(times),
        "found": len(found),
        "proven": sum(answer.proven for answer in found),
        "refused": len(stuck),
        "proven_refused": sum(answer.proven for answer in stuck),
        "moved": statistics.median([len(answer.owners) for answer in found] or [0]),
        "mib": sum(answer.mib for answer in found),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", metavar="FIRST-LAST", default="1-200", help="one question a seed (default 1-200)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"plans for one answer (default {STEPS})")
    parser.add_argument("--only", metavar="TEXT", default="", help="cases with this text in their name")
    parser.add_argument("--json", metavar="FILE", help="also write the figures there")
    asked = parser.parse_args(arguments)
    first, _, last = asked.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    print(f"{'ms of CPU time, ' + str(len(seeds)) + ' questions a case':<50}{'median':>8}{'p99':>8}{'max':>8}"
          f"{'moves':>7}{'proven':>8}{'none':>6}{'proven':>8}{'moved':>7}")
    result = {}
    for case in CASES:
        if asked.only in case.name:
            row = result[case.name] = measure(case, seeds, asked.steps)
            print(f"{case.name:<50}{row['median']:>8.1f}{row['p99']:>8.1f}{row['max']:>8.1f}{row['found']:>7}"
                  f"{row['proven']:>8}{row['refused']:>6}{row['proven_refused']:>8}{row['moved']:>7g}", flush=True)
    if asked.json:
        Path(asked.json).write_text(json.dumps(result, indent=1) + "\n")
    if row := result.get(CASES[0].name):
        told = [f"{name} {row[name]:.1f} of {most:g} ms" for name, most in GOALS.items()]
        print(f"goals on {CASES[0].name}: {', '.join(told)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
