# SPDX-License-Identifier: Apache-2.0
"""CPU time of one placement decision, on the hosts that matter and on those that broke others.

    python benchmarks/plan.py [--json FILE] [--seconds S] [--only TEXT] [--nova-python PATH]

Prints median and 99th percentile of the CPU time of ``zun.topology.plan`` per case, in microseconds, and in the
same run those of Nova's ``numa_fit_instance_to_host`` on the same free CPUs and memory where nova is
importable: here, or by the Python of another virtual environment of the same version (``python -m venv V &&
V/bin/pip install nova``).
Times are of the process (``time.process_time_ns``), so other work on the machine matters little.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from zun.topology import CellShare, CpuSet, HostTopology, NUMACell, PlacementRequest, Plan, Usage, plan

Questions = list[tuple[HostTopology, Usage, PlacementRequest]]


@dataclass(frozen=True)
class Case:
    """A list of questions that are asked in turn, so that a case can be many hosts."""

    name: str
    questions: Questions
    limit_us: float | None = None
    """What the design allows: the 99th percentile where ``of`` says so, else the median."""
    of: str = "median"


def host(
    cells: int, cpus: int, *, smt: int = 2, caches: int = 1, memory_only: int = 0, remote: str = "equal"
) -> HostTopology:
    """``cells`` equal cells of ``cpus`` CPUs, threads numbered as on x86: first every core, then the siblings."""
    cores = cells * cpus // smt
    ids = range(cells + memory_only)
    built = []
    for cell in ids:
        first = cell * cpus // smt
        mine = range(first, first + cpus // smt) if cell < cells else range(0)
        siblings = tuple(CpuSet(core + thread * cores for thread in range(smt)) for core in mine)
        step = max(1, len(siblings) // caches)
        groups = [siblings[start : start + step] for start in range(0, len(siblings), step)]
        built.append(
            NUMACell(
                id=cell,
                cpus=CpuSet(cpu for core in siblings for cpu in core),
                siblings=siblings,
                l3=tuple(CpuSet(cpu for core in group for cpu in core) for group in groups),
                memory_mib=65536,
                distances={other: distance(remote, cell, other) for other in ids},
            )
        )
    return HostTopology(tuple(built))


def distance(kind: str, a: int, b: int) -> int:
    if a == b:
        return 10
    if kind == "equal":
        return 20
    if kind == "sockets":
        return 12 if a // 4 == b // 4 else 32
    return 11 + random.Random(f"{min(a, b)}-{max(a, b)}").randrange(30)


def half_full(topology: HostTopology, seed: int, share: float = 0.5) -> Usage:
    """Random threads taken, as after many odd-sized containers: the worst case for packing."""
    rng = random.Random(seed)
    shares = {}
    for cell in topology.cells:
        cpus = list(cell.cpus)
        taken = rng.sample(cpus, int(len(cpus) * rng.uniform(0, 2 * share) * 0.999))
        shares[cell.id] = CellShare(CpuSet(taken), rng.randrange(32768))
    return Usage().with_claim("others", Plan(shares))


def idle(topology: HostTopology, request: PlacementRequest) -> Questions:
    return [(topology, Usage(), request)]


def used(topology: HostTopology, *requests: PlacementRequest) -> Questions:
    """The requests in turn on 200 usages of a host."""
    return [(topology, half_full(topology, seed), requests[seed % len(requests)]) for seed in range(200)]


def cases() -> Iterator[Case]:
    yield from one_cell_cases()
    yield from eight_cell_cases()
    yield from sixteen_cell_cases()
    wide = host(2, 32, memory_only=32)
    parts = {wanted: PlacementRequest(8, 2048, numa_nodes=wanted) for wanted in (1, 2, 3)}
    yield Case("34 cells of which 2 have CPUs, 1 part", idle(wide, parts[1]), 1000)
    yield Case("34 cells of which 2 have CPUs, 2 parts", idle(wide, parts[2]), 1000)
    yield Case("34 cells of which 2 have CPUs, 3 parts (refused)", idle(wide, parts[3]), 1000)


def one_cell_cases() -> Iterator[Case]:
    """Requests for one cell: nearly all there are."""
    four, isolated = PlacementRequest(4, 2048), PlacementRequest(16, 2048, thread_policy="isolate")
    one, two, split = host(1, 64), host(2, 64), host(2, 64, caches=8)
    yield Case("1 cell of 64 CPUs, idle, 4 CPUs", idle(one, four), 20)
    yield Case("1 cell of 64 CPUs, fragmented, 4 CPUs", used(one, four), 20)
    yield Case("1 cell of 64 CPUs, idle, 16 isolated", idle(one, isolated), 20)
    yield Case("2 cells of 64 CPUs, idle, 4 CPUs", idle(two, four), 40)
    yield Case("2 cells of 64 CPUs, fragmented, 4 CPUs", used(two, four), 40)
    yield Case("2 cells of 64 CPUs, idle, 2 parts", idle(two, PlacementRequest(8, 2048, numa_nodes=2)))
    yield Case("2 cells of 64 CPUs in 8 L3, fragmented, 4 CPUs", used(split, four))
    yield Case("2 cells of 64 CPUs in 8 L3, fragmented, 20 CPUs", used(split, PlacementRequest(20, 2048)))
    yield Case("2 cells of 64 CPUs, a shared container", used(two, PlacementRequest(1.5, 512, cpu_policy="shared")))
    yield Case("2 cells of 64 CPUs, refused", idle(two, PlacementRequest(65, 512)))


def eight_cell_cases() -> Iterator[Case]:
    for wanted in (2, 4, 8):
        sizes = [1 + 2 * part for part in range(wanted)]
        requests = {
            "equal": PlacementRequest(8 * wanted, 8192, numa_nodes=wanted),
            "unequal": PlacementRequest(sum(sizes), 8192, numa_nodes=wanted, numa_cpus=sizes),
        }
        for kind, request in requests.items():
            yield Case(f"8 cells of 16 CPUs, idle, {wanted} {kind} parts", idle(host(8, 16), request), 1000)
            for remote in ("sockets", "any"):
                questions = used(host(8, 16, remote=remote), request)
                yield Case(f"8 cells, fragmented, {remote} distances, {wanted} {kind} parts", questions, 1000)
    many = PlacementRequest(70, 8192, numa_affinity="prefer")
    yield Case("8 cells, fragmented, 70 CPUs on few cells", used(host(8, 16, remote="sockets"), many), 1000)


def sixteen_cell_cases() -> Iterator[Case]:
    mixed = [
        PlacementRequest(8, 4096, numa_nodes=2),
        PlacementRequest(24, 4096, numa_nodes=8),
        PlacementRequest(21, 4096, numa_cpus=[1, 2, 3, 4, 5, 6]),
        PlacementRequest(36, 4096, numa_cpus=[1, 2, 3, 4, 5, 6, 7, 8]),
        PlacementRequest(100, 8192, numa_affinity="none"),
    ]
    for remote in ("equal", "sockets", "any"):
        questions = used(host(16, 16, remote=remote), *mixed)
        yield Case(f"16 cells of 16 CPUs, {remote} distances, any shape", questions, 100_000, "p99")


def measure(function: Callable[..., Any], questions: Sequence[tuple[Any, ...]], seconds: float) -> dict[str, float]:
    """Median and 99th percentile of one call in microseconds of CPU time, over at least 200 calls if they fit."""
    for arguments in questions:
        function(*arguments)
    times: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end and len(times) < 20_000:
        for arguments in questions:
            start = time.process_time_ns()
            function(*arguments)
            times.append((time.process_time_ns() - start) / 1000)
    percentiles = statistics.quantiles(times, n=100) if len(times) > 1 else times * 99
    return {"median": round(percentiles[49], 1), "p99": round(percentiles[98], 1), "calls": len(times)}


class Nova:
    """Nova's decision on the same host and for the same parts. Raises ImportError where nova is not installed."""

    def __init__(self) -> None:
        from nova import objects
        from nova.virt import hardware

        # It logs an error for each combination it does not like, tens of thousands of them.
        logging.disable(logging.CRITICAL)
        objects.register_all()
        self._objects, self._fit = objects, hardware.numa_fit_instance_to_host

    def prepare(self, topology: HostTopology, usage: Usage, request: PlacementRequest) -> tuple[Any, Any, Any]:
        """The question in Nova's objects, made beforehand: their making is no part of what is measured."""
        limits = self._objects.NUMATopologyLimits(cpu_allocation_ratio=1.0, ram_allocation_ratio=1.0)
        return self._host(topology, usage), self._instance(request), limits

    def _host(self, topology: HostTopology, usage: Usage) -> Any:
        free = usage.free(topology)
        return self._objects.NUMATopology(cells=[
            self._objects.NUMACell(
                id=cell.id,
                socket=0,
                cpuset=set(),
                pcpuset=set(cell.cpus),
                pinned_cpus=set(cell.cpus - free[cell.id].cpus),
                siblings=[set(core) for core in cell.siblings],
                cpu_usage=0,
                memory=cell.memory_mib,
                memory_usage=cell.memory_mib - free[cell.id].memory_mib,
                mempages=[self._objects.NUMAPagesTopology(size_kb=4, total=cell.memory_mib * 256, used=0, reserved=0)],
                network_metadata=self._objects.NetworkMetadata(physnets=set(), tunneled=False),
            )
            for cell in topology.cells
        ])

    def _instance(self, request: PlacementRequest) -> Any:
        cells, first = [], 0
        for number, (cpus, mib) in enumerate(request.parts):
            cells.append(self._objects.InstanceNUMACell(
                id=number,
                cpuset=set(),
                pcpuset=set(range(first, first + cpus)),
                memory=mib,
                cpu_policy="dedicated",
                cpu_thread_policy=request.thread_policy,
            ))
            first += cpus
        return self._objects.InstanceNUMATopology(cells=cells)

    def fit(self, host_topology: Any, instance: Any, limits: Any) -> Any:
        return self._fit(host_topology, instance, provider_mapping=None, limits=limits)

    def measure(self, questions: Questions, seconds: float) -> dict[str, float] | None:
        """As ``measure``; None when one round of the questions takes more than a minute."""
        prepared = [self.prepare(*question) for question in questions]

        def too_long(signum: int, frame: object) -> None:
            raise TimeoutError

        signal.signal(signal.SIGALRM, too_long)
        signal.setitimer(signal.ITIMER_REAL, 60 + seconds)
        try:
            return measure(self.fit, prepared, seconds)
        except TimeoutError:
            return None
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


def nova_or_none() -> Nova | None:
    try:
        return Nova()
    except ImportError:
        return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="also write the figures there")
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each case (default 1)")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name has TEXT")
    parser.add_argument("--nova-python", metavar="PATH", help="Python of an environment that has nova")
    options = parser.parse_args()
    if options.nova_python:
        ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
        found = subprocess.run([options.nova_python, "-c", ask], check=True, capture_output=True, text=True)
        sys.path.append(found.stdout.strip())
    nova = nova_or_none()
    if nova is None:
        print("nova is not importable here: no comparison")
    rows = []
    print(f"{'case':62} {'median us':>10} {'p99 us':>10} {'limit':>14}  {'nova median':>11}")
    for case in cases():
        if options.only not in case.name:
            continue
        row: dict[str, Any] = {"case": case.name, **measure(plan, case.questions, options.seconds)}
        row["limit_us"], row["limit_of"] = case.limit_us, case.of
        row["within"] = case.limit_us is None or row[case.of] <= case.limit_us
        if nova is not None and all(q[2].dedicated and q[2].numa_affinity == "require" for q in case.questions):
            row["nova"] = nova.measure(case.questions, options.seconds)
        rows.append(row)
        limit = "" if case.limit_us is None else f"{case.of} {case.limit_us:.0f}"
        theirs = ""
        if "nova" in row:
            theirs = f"{row['nova']['median']:11.1f}" if row["nova"] else "over a minute"
        print(f"{case.name:62} {row['median']:10.1f} {row['p99']:10.1f} {limit:>14}  {theirs}"
              f"{'' if row['within'] else '  OVER'}", flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if all(row["within"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
