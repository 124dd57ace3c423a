#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Count what disturbs a program on CPUs of its own, beside neighbours that burn CPU, memory, disk and network.

The same program, one spinning process for each of two CPUs, runs in turn

- with plain Docker (``--cpuset-cpus``),
- with this service as it was before it moved interrupts (``interrupts = fixed``),
- with interrupts away, and
- with interrupts away and a partition of each kind,

each for ``--seconds`` (60). On a machine that was booted with ``isolcpus=`` of two CPUs or more, plain Docker on these
CPUs is measured instead: that is the limit. Counted on the two CPUs: device interrupts (``/proc/interrupts``),
involuntary context switches of the program (``/proc/PID/status``), and how often the kernel switched to a task that is
neither the program nor idle (tracepoint ``sched_switch``).

    benchmarks/quiet.py [--seconds 60] [--json FILE]

It needs root, Docker with the image ``numaprobe`` and a machine to itself, as the one of ``tools/numavm-test.sh``,
where times mean nothing and counts do.
"""

import argparse
import contextlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import docker

from zun.tests.integration.programs import Api, Program, free_port
from zun.topology import CpuSet, discover
from zun.topology.interrupts import interrupts

IMAGE = "numaprobe"
VERSION = {"OpenStack-API-Version": "container 1.51"}
TRACING = pathlib.Path("/sys/kernel/tracing")
PATIENCE = 600
SPIN = """
import os
cpus = sorted(os.sched_getaffinity(0))
for cpu in cpus[1:]:
    if not os.fork():
        cpus = [cpu]
        break
os.sched_setaffinity(0, {cpus[0]})
while True:
    pass
"""
BURN = "while True: pass"
MEMORY = """
import mmap
area = mmap.mmap(-1, 64 << 20)
while True:
    for offset in range(0, 64 << 20, 4096):
        area[offset] = 1
"""
DISK = """
import os
file = os.open(PATH, os.O_WRONLY | os.O_CREAT)
while True:
    os.pwrite(file, os.urandom(1 << 16), 0)
    os.fsync(file)
"""
NETWORK = """
import socket
a = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    try:
        a.sendto(bytes(1000), ("10.0.2.2", 9))
    except OSError:
        pass
"""


@dataclass(frozen=True, slots=True)
class Counts:
    """The disturbances of the program in one measurement, on its CPUs."""

    mode: str
    cpus: str
    interrupts: int
    involuntary: int
    others: int
    examples: str


@contextlib.contextmanager
def neighbours(folder: pathlib.Path) -> Iterator[None]:
    """Run processes of the host that use everything, and may run wherever the kernel lets them.

    Only while something is counted: an emulated machine would need many minutes to start the service beside them.
    """
    burners = len(discover().cpus)
    programs = [*[BURN] * burners, MEMORY, f"PATH = {str(folder / 'burnt')!r}\n{DISK}", NETWORK]
    running = [subprocess.Popen([sys.executable, "-S", "-c", each]) for each in programs]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


def members(pid: int) -> list[int]:
    """Return the processes of the container whose first process is ``pid``."""
    group = pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    path = next(line.split(":", 2)[2] for line in group if line.startswith("0::") or "cpuset" in line.split(":")[1])
    found = [*pathlib.Path("/sys/fs/cgroup").glob(f"**/{pathlib.Path(path).name}/cgroup.procs")]
    return [int(each) for each in found[0].read_text().split()]


def involuntary(pids: list[int]) -> int:
    texts = [pathlib.Path(f"/proc/{pid}/status").read_text() for pid in pids]
    return sum(int(re.findall(r"^nonvoluntary_ctxt_switches:\s*(\d+)", text, re.M)[0]) for text in texts)


@contextlib.contextmanager
def traced(cpus: CpuSet) -> Iterator[None]:
    """Trace the switches on ``cpus`` meanwhile."""
    event = TRACING / "events/sched/sched_switch/enable"
    (TRACING / "buffer_size_kb").write_text("16384")
    (TRACING / "tracing_cpumask").write_text(f"{cpus.mask:x}")
    (TRACING / "trace").write_text("")
    event.write_text("1")
    try:
        yield
    finally:
        event.write_text("0")


def others(pids: list[int]) -> Counter[str]:
    """Return how often the kernel switched to each other task, by its name, kernel workers without their numbers."""
    found: Counter[str] = Counter()
    for name, pid in re.findall(r"next_comm=(.*?) next_pid=(\d+)", (TRACING / "trace").read_text()):
        if int(pid) not in (0, *pids):
            found[re.sub(r"[/:].*", "", name)] += 1
    return found


def measured(mode: str, cpus: CpuSet, pid: int, seconds: float) -> Counts:
    """Count for ``seconds`` on ``cpus`` beside neighbours, from five seconds after their start."""
    pids = members(pid)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder, neighbours(pathlib.Path(folder)):
        time.sleep(5)
        before, came = involuntary(pids), interrupts().on(cpus)[0]
        with traced(cpus):
            time.sleep(seconds)
        switched, arrived = involuntary(pids) - before, interrupts().on(cpus)[0] - came
    counts = others(pids)
    examples = ", ".join(f"{name} {count}" for name, count in counts.most_common(4))
    return Counts(mode, str(cpus), arrived, switched, counts.total(), examples)


def with_docker(engine: docker.APIClient, mode: str, cpus: CpuSet, seconds: float) -> Counts:
    config = engine.create_host_config(cpuset_cpus=str(cpus))
    made = engine.create_container(IMAGE, ["python3", "-S", "-c", SPIN], host_config=config)["Id"]
    try:
        engine.start(made)
        return measured(mode, cpus, engine.inspect_container(made)["State"]["Pid"], seconds)
    finally:
        engine.remove_container(made, force=True)


def with_service(
    engine: docker.APIClient, folder: pathlib.Path, option: str, wishes: dict[str, dict[str, str]], seconds: float
) -> Iterator[Counts]:
    """Yield the counts of each container of ``wishes``, by mode, on a host with this option ``interrupts``."""
    port = free_port()
    settings = {
        "DEFAULT": {"state_path": folder / option, "host": f"quiet-{uuid.uuid4().hex[:8]}"},
        "api": {"port": port, "rpc_timeout": PATIENCE},
        "docker": {"default_timeout": PATIENCE},
        "compute": {"reserved_host_memory_mb": 0, "audit_interval": 0, "interrupts": option, "workers": 2},
    }
    service = Program(folder, "allinone", f"allinone-{option}", (), settings)
    service.start()
    api = Api(f"http://127.0.0.1:{port}/v1", version=VERSION)
    api.patience = PATIENCE
    try:
        for mode, wish in wishes.items():
            fields = {"image": IMAGE, "cpu": 2, "memory": 128, "cpu_policy": "dedicated", **wish}
            shown = api.settled(api.run(command=["python3", "-S", "-c", SPIN], **fields), PATIENCE)
            assert shown["status"] == "Running", shown["status_reason"]
            pid = engine.inspect_container(f"zun-{shown['uuid']}")["State"]["Pid"]
            yield measured(mode, CpuSet(shown["cpuset_cpus"]), pid, seconds)
            api.delete_all(PATIENCE)
    finally:
        service.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--json", type=pathlib.Path)
    given = parser.parse_args()
    engine, machine = docker.APIClient(version="auto", timeout=PATIENCE), discover()
    results: list[Counts] = []

    def told(counts: Counts) -> None:
        results.append(counts)
        print(
            f"{counts.mode:26} CPUs {counts.cpus:6} interrupts {counts.interrupts:6} involuntary "
            f"{counts.involuntary:6} switches to others {counts.others:6} ({counts.examples})",
            flush=True,
        )

    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        if len(machine.isolated) > 1:
            limit = CpuSet(sorted(machine.isolated)[:2])
            told(with_docker(engine, "isolcpus at boot", limit, given.seconds))
        else:
            two = CpuSet(sorted(machine.cells[0].cpus)[:2])
            told(with_docker(engine, "plain Docker", two, given.seconds))
            folder = pathlib.Path(name)
            now = {
                "interrupts away": {"cpu_partition": "none"},
                "away, partition root": {"cpu_partition": "root"},
                "away, partition isolated": {"cpu_partition": "isolated"},
            }
            for option, wishes in {"fixed": {"before": {}}, "away": now}.items():
                for counts in with_service(engine, folder, option, wishes, given.seconds):
                    told(counts)
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(each) for each in results], indent=1) + "\n")


if __name__ == "__main__":
    main()
