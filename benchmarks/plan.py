# SPDX-License-Identifier: Apache-2.0
"""CPU time of one placement decision, on the hosts that matter and on those that broke others.

    python benchmarks/plan.py [--json FILE] [--seconds S] [--only TEXT] [--peers | --nova-python PATH]
                              [--against COMMIT]

Prints median, 99th percentile and maximum of the CPU time of ``zun.topology.plan`` per case, in microseconds, and in
the same run the median of Nova's ``numa_fit_instance_to_host`` on the same free CPUs and memory where nova is
importable: here, by the Python of another virtual environment of the same version (``--nova-python``), or from one that
``--peers`` makes with ``pip install`` and keeps in the user's cache folder.

``--against COMMIT`` asks the ``zun`` of an older commit the same questions in the same run, case by case, in a process
of its own, and counts the answers that differ.

Times are of the process (``time.process_time_ns``), though a machine with much other work makes them longer as well.
With more than one question to a case, percentiles and maximum are over the questions, each at the best of its
repetitions; with one question, over the repetitions. A case that takes longer than ``--seconds`` is asked once. At the
end the goals, and whether they are met.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import logging
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, os.environ.get("ZUN_BENCHMARKS_OTHER", sys.path[0]))

from benchmarks.shapes import any_question, half_full, host, large_question, odd_question
from zun.topology import HostTopology, PlacementRequest, Refusal, Usage, plan
from zun.topology.device_request import DeviceMatch, DeviceRequest
from zun.topology.devices import Device

ROOT = Path(__file__).resolve().parents[1]
OTHER = "ZUN_BENCHMARKS_OTHER"
"""Name of the environment variable with the folder of an older ``zun``, for the process that asks it."""

NOVA = "nova==34.0.0"

Questions = list[tuple[HostTopology, Usage, PlacementRequest]]


@dataclass(frozen=True)
class Case:
    """A list of questions that are asked in turn, so that a case can be many hosts."""

    name: str
    questions: Questions
    limit_us: float | None = None
    """The goal: for what ``of`` says, median, p99 or max."""
    of: str = "median"
    slowest_us: float | None = None
    """A second goal, for max."""

    @property
    def goals(self) -> dict[str, float]:
        """The most microseconds by median, p99 or max."""
        found = {} if self.limit_us is None else {self.of: self.limit_us}
        return found if self.slowest_us is None else {**found, "max": self.slowest_us}


def idle(topology: HostTopology, request: PlacementRequest) -> Questions:
    return [(topology, Usage(), request)]


def used(topology: HostTopology, *requests: PlacementRequest) -> Questions:
    """Return the case that asks the requests in turn on 200 usages of a host."""
    return [(topology, half_full(topology, seed), requests[seed % len(requests)]) for seed in range(200)]


def cases() -> Iterator[Case]:
    yield from one_cell_cases()
    yield from eight_cell_cases()
    yield from any_cases()
    yield from sixteen_cell_cases()
    yield from device_cases()
    yield from member_cases()
    yield from large_cases()
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


def device_cases() -> Iterator[Case]:
    """Requests for devices: GPUs and network cards on every cell, each pair of a cell behind a switch of its own."""
    gpu, nic = (DeviceRequest(name, 1, (DeviceMatch(vendor),)) for name, vendor in (("gpu", "10de"), ("nic", "15b3")))
    one, eight = with_devices(host(1, 64), 8), with_devices(host(8, 16, remote="sockets"), 2)
    yield Case("1 cell of 64 CPUs, 8 devices, 1 GPU", used(one, PlacementRequest(4, 2048, devices=(gpu,))), 100)
    for gpus, nics, same in ((2, 2, "none"), (2, 2, "switch"), (3, 1, "switch")):
        wanted = (replace(gpu, count=gpus), replace(nic, count=nics))
        requests = [
            PlacementRequest(sum(parts), 4096, numa_cpus=parts, devices=wanted, device_same=same)
            for parts in ((8, 8), (1, 3), (8, 8, 8, 8), (1, 3, 5, 7))
        ]
        name = f"8 cells, 16 devices, {gpus} GPUs and {nics} NIC, same {same}"
        yield Case(name, used(eight, *requests), 5000, "p99")


def member_cases() -> Iterator[Case]:
    """Capsules whose containers differ: two to six of them, dedicated, mixed and one of the shared pool."""
    for cells, cpus in ((4, 32), (8, 16), (16, 16)):
        topology = host(cells, cpus, remote="any")
        questions = []
        for seed in range(200):
            rng = random.Random(seed)
            members = [any_member(rng, cpus // 2) for _ in range(rng.randint(1, 5))]
            members.append(PlacementRequest(rng.choice((0.5, 2)), 512, "shared"))
            questions.append((topology, half_full(topology, seed), PlacementRequest.of_members(members)))
        yield Case(f"{cells} cells of {cpus} CPUs, fragmented, capsules whose containers differ", questions)


def any_member(rng: random.Random, most: int) -> PlacementRequest:
    """Return the request of a container with up to ``most`` CPUs of its own."""
    own, memory = rng.randint(1, most), rng.choice((512, 2048, 8192))
    if rng.random() < 0.3:
        return PlacementRequest(own + 0.5, memory, "mixed", dedicated_cpus=own)
    return PlacementRequest(own, memory, thread_policy=rng.choice(("prefer", "prefer", "isolate", "require")))


def large_cases() -> Iterator[Case]:
    """Fragmented hosts of many cells; one request in four is for devices, each group of them on one switch."""
    for cells, cpus, devices, p99, slowest in (
        (8, 64, 16, 10_000, 50_000), (16, 32, 32, 10_000, 50_000), (64, 16, 64, None, 250_000)
    ):
        questions = [large_question(seed, cells, cpus, devices) for seed in range(200)]
        chosen = {"without": [q for q in questions if not q[2].devices], "with": [q for q in questions if q[2].devices]}
        name = f"large, {cells} cells of {cpus} CPUs, {devices} devices"
        yield Case(f"{name}, all", questions, p99, "p99", slowest)
        for kind, some in chosen.items():
            yield Case(f"{name}, requests {kind}", some, None, "p99", slowest)


def with_devices(topology: HostTopology, each: int) -> HostTopology:
    devices = [
        Device(
            f"0000:{cell.id:02x}:{number:02x}.0",
            vendor_id=("10de", "15b3")[number % 2],
            cell=cell.id,
            path=("pci", "port", f"switch-{cell.id}-{number // 2}", f"down-{number}"),
        )
        for cell in topology.cells for number in range(each)
    ]
    return replace(topology, devices=tuple(devices))


WORST = (
    127, 343, 370, 598, 619, 695, 817, 823, 1146, 1375, 1430, 1643, 1828, 2043, 2140, 2440, 2692, 2714, 2755, 3249,
    3668, 3869, 3985, 4560, 4821, 4925, 5020, 5033, 5262, 5745, 6014, 6017, 6019, 6152, 6370, 6401, 6463, 6517,
    6532, 6995, 7320, 7344, 8479, 8481, 8775, 9014, 11825, 11958, 13395, 13533, 13835, 13981, 14354, 14680, 15576,
    16160, 16213, 17244, 17249, 17303, 17331, 21121, 22337, 22704, 22781, 22782, 23518, 24645, 24860, 25876, 26898,
    27195, 27840, 28146, 28284, 28332, 29309,
)
"""The slowest of the first 30,000 seeds, found by asking all of them, before and after they were made quicker."""

ODD_WORST = (
    136, 773, 875, 1128, 1153, 1302, 1504, 1548, 1637, 1769, 1808, 2155, 2567, 2771, 3088, 3679, 3905, 4690, 4812,
    4849, 4863, 5266, 5468, 5986, 6040, 6240, 6498, 7222, 7426, 7659, 7746, 8265, 8881, 9231, 9560, 9595, 9736,
    10182, 10867, 10936, 11114, 11166, 11302, 11481, 1003697, 1005649, 1018168, 1019574, 1025083, 1039368,
    2006649, 2013955, 2018136, 2022104, 2024199, 2039576, 3002560, 3035344, 3036245, 3038276, 3046128, 3078057,
    3084230,
)
"""The slowest of the first 12,000, found in the same way, of 50,000 from 1,000,000 on, of 40,000 from 2,000,000 on, and
of 100,000 from 3,000,000 on."""


def any_cases() -> Iterator[Case]:
    """Any machine of up to 8 cells of up to 64 CPUs and 8 L3 each, any request: see ``shapes``."""
    yield Case("up to 8 cells, any shape, any request", [any_question(seed) for seed in range(500)], 2000, "p99")
    yield Case("up to 8 cells, the slowest found", [any_question(seed) for seed in WORST], 20_000, "max")
    odd, slowest = ([odd_question(seed) for seed in seeds] for seeds in (range(500), ODD_WORST))
    yield Case("up to 8 cells, odd cores or overlapping sets, any request", odd, 2000, "p99")
    yield Case("up to 8 cells, odd cores or overlapping sets, the slowest", slowest, 20_000, "max")


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
    yield Case("16 cells of 32 CPUs, 8 unequal parts, little memory", little_memory(), 50_000, "max")


def little_memory() -> Questions:
    """Return questions whose parts need more memory than most cells have left, so that parts spill over."""
    topology = host(16, 32, remote="any")
    questions = []
    for seed in range(200):
        rng = random.Random(seed)
        sizes = [rng.randint(2, 8) for _ in range(8)]
        request = PlacementRequest(sum(sizes), 330_000, numa_cpus=sizes, mempolicy="preferred")
        questions.append((topology, half_full(topology, seed), request))
    return questions


def measure(function: Callable[..., Any], questions: Sequence[tuple[Any, ...]], seconds: float) -> dict[str, float]:
    """Return median, 99th percentile and maximum of one call in microseconds of CPU time."""
    end = time.monotonic() + seconds
    first = timed(function, questions)  # fills caches, so it counts only if it takes all the time
    rounds: list[list[float]] = []
    while time.monotonic() < end and len(rounds) * len(questions) < 20_000:
        rounds.append(timed(function, questions))
    rounds = rounds or [first]
    if len(questions) == 1:
        each = [time for times in rounds for time in times]
    else:
        each = [min(times) for times in zip(*rounds, strict=True)]
    percentiles = statistics.quantiles(each, n=100) if len(each) > 1 else each * 99
    return {
        "median": round(percentiles[49], 1),
        "p99": round(min(percentiles[98], max(each)), 1),
        "max": round(max(each), 1),
        "calls": len(rounds) * len(questions),
    }


def timed(function: Callable[..., Any], questions: Sequence[tuple[Any, ...]]) -> list[float]:
    """Ask each question once, and return the microseconds of CPU time of each."""
    times = []
    for arguments in questions:
        start = time.process_time_ns()
        function(*arguments)
        times.append((time.process_time_ns() - start) / 1000)
    return times


def answers(questions: Questions) -> list[str]:
    """Return a text for each answer that is equal for equal answers."""
    found = [plan(*question) for question in questions]
    # A record has no fields of later releases that are empty, as the text of a value has.
    texts = [
        f"{answer.code} {answer.message}" if isinstance(answer, Refusal) else json.dumps(answer.to_dict())
        for answer in found
    ]
    return [hashlib.sha256(text.encode()).hexdigest()[:16] for text in texts]


class Other:
    """The ``zun`` of another commit, in a process of its own that answers names of cases, one a line, with figures."""

    def __init__(self, commit: str, folder: str, seconds: float) -> None:
        """Put the code of ``commit`` into ``folder``, and start the process."""
        code = subprocess.run(["git", "-C", str(ROOT), "archive", commit, "zun"], check=True, capture_output=True)
        subprocess.run(["tar", "-x", "-C", folder], input=code.stdout, check=True)
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--answer", "--seconds", str(seconds)],
            env={**os.environ, OTHER: folder}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )

    def measure(self, case: Case) -> dict[str, Any]:
        """Return the figures and the answers of one case."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(f"{case.name}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        """End the process."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def answer_names(seconds: float) -> None:
    """Answer the names of cases on standard input, as ``Other`` asks."""
    known = {case.name: case for case in cases()}
    for line in sys.stdin:
        case = known[line.rstrip("\n")]
        figures = measure(plan, case.questions, seconds)
        print(json.dumps({**figures, "answers": answers(case.questions)}), flush=True)


@contextlib.contextmanager
def other_or_none(commit: str | None, seconds: float) -> Iterator[Other | None]:
    if commit is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        other = Other(commit, folder, seconds)
        try:
            yield other
        finally:
            other.end()


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
        """Return the question as Nova's objects. They are built before the measurement, which leaves their cost out."""
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
        """Like the function ``measure``, but return None if one round of the questions takes more than a minute."""
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


def peers_python() -> str:
    """Return the Python of an environment with nova. The first call installs it, which takes some minutes."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "zun-benchmarks" / f"{NOVA}-py{sys.version_info.major}.{sys.version_info.minor}"
    python = folder / "bin" / "python"
    done = folder / "complete"
    if not done.exists():
        print(f"making {folder} with {NOVA}", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", NOVA], check=True)
        done.touch()
    return str(python)


def use(python: str) -> None:
    """Append the packages of another virtual environment to the import path."""
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    found = subprocess.run([python, "-c", ask], check=True, capture_output=True, text=True)
    sys.path.append(found.stdout.strip())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="also write the figures there")
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each case (default 1)")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name has TEXT")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--peers", action="store_true", help=f"make an environment with {NOVA} if there is none yet")
    source.add_argument("--nova-python", metavar="PATH", help="Python of an environment that has nova")
    parser.add_argument("--against", metavar="COMMIT", help="ask the code of this commit too")
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.answer:
        answer_names(options.seconds)
        return 0
    if options.peers or options.nova_python:
        use(options.nova_python or peers_python())
    nova = nova_or_none()
    if nova is None:
        print("nova is not importable here: no comparison (--peers makes an environment that has it)")
    print(f"Python {sys.version}")
    rows = []
    beside = f"   {options.against[:10]}: median, p99, max, other answers" if options.against else ""
    print(f"{'case':60} {'median us':>10} {'p99 us':>10} {'max us':>10} {'goal':>13}   {'nova median':>13}{beside}")
    with other_or_none(options.against, options.seconds) as other:
        for case in cases():
            if options.only in case.name:
                rows.append(asked(case, nova, other, options.seconds))
    conclude(rows)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def asked(case: Case, nova: Nova | None, other: Other | None, seconds: float) -> dict[str, Any]:
    """Measure and print one case, and return its figures."""
    row: dict[str, Any] = {"case": case.name, **measure(plan, case.questions, seconds)}
    row["goals_us"] = case.goals
    row["met"] = {of: row[of] <= limit for of, limit in case.goals.items()}
    if nova is not None and all(comparable(request) for _, _, request in case.questions):
        row["nova"] = nova.measure(case.questions, seconds)
    goal = ", ".join(f"{of} {limit:.0f}" for of, limit in case.goals.items())
    theirs = ""
    if "nova" in row:
        theirs = f"{row['nova']['median']:13.1f}" if row["nova"] else "over a minute"
    missed = "" if all(row["met"].values()) else "  MISSED"
    print(f"{case.name:60} {_in_words(row)} {goal:>13}   {theirs:>13}{missed}", end="", flush=True)
    if other is not None:
        before = other.measure(case)
        told = zip(answers(case.questions), before.pop("answers"), strict=True)
        row["other"] = {**before, "different": sum(a != b for a, b in told)}
        print(f"   {_in_words(before)} {row['other']['different']:>4}", end="")
    print(flush=True)
    return row


def _in_words(row: Mapping[str, Any]) -> str:
    return f"{row['median']:10.1f} {row['p99']:10.1f} {row['max']:10.1f}"


def comparable(request: PlacementRequest) -> bool:
    """Return whether Nova can express the request."""
    return request.dedicated and request.numa_affinity == "require" and request.isolation == "thread"


def conclude(rows: Sequence[dict[str, Any]]) -> None:
    """Print the number of goals met, and each goal missed."""
    goals = [(row, of, limit) for row in rows for of, limit in row["goals_us"].items()]
    missed = [(row, of, limit) for row, of, limit in goals if not row["met"][of]]
    print(f"\n{len(goals) - len(missed)} of {len(goals)} goals met on this machine, as busy as it is")
    for row, of, limit in missed:
        print(f"missed: {row['case']}: {of} {row[of]} us, goal {limit:.0f} us")


if __name__ == "__main__":
    sys.exit(main())
