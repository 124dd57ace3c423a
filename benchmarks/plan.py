# SPDX-License-Identifier: Apache-2.0
"""CPU time of one placement decision, on the hosts that matter and on those that broke others.

    python benchmarks/plan.py [--json FILE] [--seconds S] [--only TEXT]

Prints median and 99th percentile of the CPU time of ``zun.topology.plan`` per case, in microseconds, and in the
same run those of Nova's ``numa_fit_instance_to_host`` on the same free CPUs and memory where nova is importable.
Times are of the process (``time.process_time_ns``), so other work on the machine matters little.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from zun.topology import CellShare, CpuSet, HostTopology, NUMACell, PlacementRequest, Plan, Usage, plan


@dataclass(frozen=True)
class Case:
    """A list of questions that are asked in turn, so that a case can be many hosts."""

    name: str
    questions: Sequence[tuple[HostTopology, Usage, PlacementRequest]]
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


def cases() -> Iterator[Case]:
    def idle(topology: HostTopology, request: PlacementRequest) -> list[tuple[HostTopology, Usage, PlacementRequest]]:
        return [(topology, Usage(), request)]

    def used(topology: HostTopology, *requests: PlacementRequest) -> list[tuple[HostTopology, Usage, PlacementRequest]]:
        return [(topology, half_full(topology, seed), requests[seed % len(requests)]) for seed in range(200)]

    four = PlacementRequest(4, 2048)
    yield Case("1 cell of 64 CPUs, idle, 4 CPUs", idle(host(1, 64), four), 20)
    yield Case("1 cell of 64 CPUs, fragmented, 4 CPUs", used(host(1, 64), four), 20)
    yield Case("1 cell of 64 CPUs, idle, 16 isolated", idle(host(1, 64), PlacementRequest(16, 2048, thread_policy="isolate")), 20)
    yield Case("2 cells of 64 CPUs, idle, 4 CPUs", idle(host(2, 64), four), 40)
    yield Case("2 cells of 64 CPUs, fragmented, 4 CPUs", used(host(2, 64), four), 40)
    yield Case("2 cells of 64 CPUs, idle, 8 CPUs on 2 cells", idle(host(2, 64), PlacementRequest(8, 2048, numa_nodes=2)), None)
    yield Case("2 cells of 64 CPUs in 8 L3 groups, fragmented, 4 CPUs", used(host(2, 64, caches=8), four))
    yield Case("2 cells of 64 CPUs in 8 L3 groups, fragmented, 20 CPUs", used(host(2, 64, caches=8), PlacementRequest(20, 2048)))
    yield Case("2 cells, a shared container", used(host(2, 64), PlacementRequest(1.5, 512, cpu_policy="shared")))
    yield Case("2 cells, refused", idle(host(2, 64), PlacementRequest(65, 512)))
    for wanted in (2, 4, 8):
        even = PlacementRequest(8 * wanted, 8192, numa_nodes=wanted)
        yield Case(f"8 cells of 16 CPUs, idle, {wanted} equal parts", idle(host(8, 16), even), 1000)
        yield Case(f"8 cells of 16 CPUs, fragmented, {wanted} equal parts", used(host(8, 16, remote="any"), even), 1000)
        sizes = [1 + 2 * part for part in range(wanted)]
        uneven = PlacementRequest(sum(sizes), 8192, numa_nodes=wanted, numa_cpus=sizes)
        yield Case(f"8 cells of 16 CPUs, idle, {wanted} unequal parts", idle(host(8, 16), uneven), 1000)
        yield Case(
            f"8 cells of 16 CPUs, fragmented, {wanted} unequal parts", used(host(8, 16, remote="sockets"), uneven), 1000
        )
    big = PlacementRequest(70, 8192, numa_affinity="prefer")
    yield Case("8 cells of 16 CPUs, fragmented, 70 CPUs anywhere near", used(host(8, 16, remote="sockets"), big), 1000)
    mixed = [
        PlacementRequest(8, 4096, numa_nodes=2),
        PlacementRequest(24, 4096, numa_nodes=8),
        PlacementRequest(21, 4096, numa_cpus=[1, 2, 3, 4, 5, 6]),
        PlacementRequest(36, 4096, numa_cpus=[1, 2, 3, 4, 5, 6, 7, 8]),
        PlacementRequest(100, 8192, numa_affinity="none"),
    ]
    for kind in ("equal", "sockets", "any"):
        yield Case(f"16 cells of 16 CPUs, {kind} distances, any shape", used(host(16, 16, remote=kind), *mixed), 100_000, "p99")
    wide = host(2, 32, memory_only=32)
    yield Case("34 cells of which 2 have CPUs, 4 CPUs", idle(wide, four), 1000)
    yield Case("34 cells of which 2 have CPUs, 2 parts", idle(wide, PlacementRequest(8, 2048, numa_nodes=2)), 1000)
    yield Case("34 cells of which 2 have CPUs, refused", idle(wide, PlacementRequest(8, 2048, numa_nodes=3)), 1000)


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


def nova_fit() -> Callable[..., Any] | None:
    """Nova's decision with the arguments of ours, or None where nova is not installed."""
    try:
        from nova import objects
        from nova.virt import hardware
    except ImportError:
        return None
    objects.register_all()

    def questions_for(topology: HostTopology, usage: Usage, request: PlacementRequest) -> tuple[Any, Any]:
        free = usage.free(topology)
        cells = [
            objects.NUMACell(
                id=cell.id, cpuset=set(), pcpuset=set(cell.cpus), memory=cell.memory_mib,
                cpu_usage=0, memory_usage=cell.memory_mib - free[cell.id].memory_mib,
                pinned_cpus=set(cell.cpus - free[cell.id].cpus), siblings=[set(core) for core in cell.siblings],
                mempages=[objects.NUMAPagesTopology(size_kb=4, total=cell.memory_mib * 256, used=0, reserved=0)],
            )
            for cell in topology.cells
        ]
        wanted = []
        first = 0
        for number, (cpus, mib) in enumerate(request.parts):
            wanted.append(
                objects.InstanceNUMACell(
                    id=number, cpuset=set(), pcpuset=set(range(first, first + cpus)), memory=mib,
                    cpu_policy="dedicated", cpu_thread_policy=request.thread_policy,
                )
            )
            first += cpus
        limits = objects.NUMATopologyLimits(cpu_allocation_ratio=1.0, ram_allocation_ratio=1.0)
        return (objects.NUMATopology(cells=cells), objects.InstanceNUMATopology(cells=wanted)), limits

    def fit(prepared: tuple[Any, Any]) -> Any:
        (host_topology, instance), limits = prepared
        return hardware.numa_fit_instance_to_host(host_topology, instance, limits=limits)

    fit.prepare = questions_for  # type: ignore[attr-defined]
    return fit


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="also write the figures there")
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each case (default 1)")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name has TEXT")
    options = parser.parse_args()
    nova = nova_fit()
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
            prepared = [(nova.prepare(*question),) for question in case.questions]  # type: ignore[attr-defined]
            row["nova"] = measure(nova, prepared, options.seconds)
        rows.append(row)
        limit = "" if case.limit_us is None else f"{case.of} {case.limit_us:.0f}"
        theirs = f"{row['nova']['median']:11.1f}" if "nova" in row else ""
        print(f"{case.name:62} {row['median']:10.1f} {row['p99']:10.1f} {limit:>14}  {theirs}"
              f"{'' if row['within'] else '  OVER'}", flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if all(row["within"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
