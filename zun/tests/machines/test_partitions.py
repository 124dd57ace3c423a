# SPDX-License-Identifier: Apache-2.0
"""Containers whose CPUs are a cpuset partition: nothing else of the host can run there."""

import pathlib
import subprocess
import sys

import pytest

from zun.tests.fixtures import wait_for
from zun.tests.machines import kernel, probes
from zun.tests.machines.containers import PATIENCE
from zun.topology import CpuSet, discover
from zun.topology.interrupts import interrupts

pytestmark = pytest.mark.skipif(
    not (kernel.CGROUPS / "cgroup.controllers").exists(), reason="partitions need control groups of version 2"
)
VERSION = {"OpenStack-API-Version": "container 1.51"}


def everybodys():
    """Return the CPUs that groups without a set of their own have."""
    return CpuSet((kernel.CGROUPS / "cpuset.cpus.effective").read_text().strip())


def runs_on(cpu):
    """Return whether a process of the host can be put on a CPU."""
    program = f"import os; os.sched_setaffinity(0, {{{cpu}}})"
    return subprocess.run([sys.executable, "-S", "-c", program], capture_output=True).returncode == 0


def kind_of(group):
    return (group.parent / "cpuset.cpus.partition").read_text().strip()


def audited(containers):
    [host] = containers.api.get("/hosts")["hosts"]
    return containers.api.request("POST", f"/hosts/{host['hostname']}/audit", headers=VERSION).json()


def made(containers, kind, **fields):
    body = {"image": "numaprobe", "cpu": 2, "memory": 64, "cpu_policy": "dedicated", "command": probes.IDLE}
    answer = containers.api.request(
        "POST", "/containers?run=true", json={**body, "cpu_partition": kind, **fields}, headers=VERSION
    )
    assert answer.status_code == 202, answer.text
    return containers.look(answer.json()["uuid"])


@pytest.mark.parametrize("kind", ["root", "isolated"])
def test_nothing_else_can_run_there_until_it_is_deleted(containers, machine, engine, kind, record_property):
    placed = made(containers, kind)
    assert (kind_of(placed.group), everybodys()) == (kind, machine.cpus - placed.cpus)
    assert not any(map(runs_on, placed.cpus)) and runs_on(min(everybodys()))
    record_property(kind, f"CPUs {placed.cpus}; everybody else on {everybodys()}")

    found = discover()  # the kernel takes the CPUs from this process too
    assert (found.cpus, found.isolated) == (machine.cpus, machine.isolated)
    answer = audited(containers)
    assert [each for each in answer["findings"] if each["container"] == placed.uuid] == []

    engine.restart(f"zun-{placed.uuid}", timeout=0)  # a new scope: the partition is the slice
    again = wait_for(lambda: engine.inspect_container(f"zun-{placed.uuid}")["State"]["Pid"], PATIENCE)
    assert kernel.effective(kernel.group_of(again))[0] == placed.cpus and kind_of(kernel.group_of(again)) == kind

    resized = containers.api.request("PATCH", f"/containers/{placed.uuid}", json={"cpu": 3})
    assert resized.status_code == 200, resized.text
    now = containers.look(placed.uuid)
    assert (len(now.cpus), kind_of(now.group), everybodys()) == (3, kind, machine.cpus - now.cpus)

    slice_ = now.group.parent
    containers.api.request("DELETE", f"/containers/{placed.uuid}?force=true")
    wait_for(lambda: everybodys() == machine.cpus and not slice_.exists(), PATIENCE)


def test_interrupts_are_elsewhere(containers):
    placed = made(containers, "none", interrupts="away")
    answer = audited(containers)
    [told] = [each for each in answer["isolation"] if each["container"] == placed.uuid]
    stuck = {int(irq) for irq in told["stuck"]}
    files = {irq: pathlib.Path(f"/proc/irq/{irq}/smp_affinity_list") for irq in interrupts().allowed}
    asked = {irq: CpuSet(file.read_text()) for irq, file in files.items()}
    assert {irq for irq, cpus in asked.items() if cpus & placed.cpus} <= stuck
    # Some controllers change over with the next interrupt: until then IRQs of the audit names it.
    assert {irq for irq, cpus in interrupts().allowed.items() if cpus & placed.cpus} == set(CpuSet(told["irqs"]))


def test_neighbour_that_names_its_cpus_runs_on_its_others(containers, machine, engine):
    """A container beside the service: the partition stays valid."""
    placed = made(containers, "isolated")
    other = min(machine.cpus - placed.cpus)
    config = engine.create_host_config(cpuset_cpus=f"{other},{min(placed.cpus)}")
    foreign = engine.create_container("numaprobe", probes.IDLE, host_config=config)["Id"]
    try:
        engine.start(foreign)
        pid = engine.inspect_container(foreign)["State"]["Pid"]
        assert kernel.allowed(pid)[0] == CpuSet([other])
        assert kind_of(placed.group) == "isolated"
    finally:
        engine.remove_container(foreign, force=True)
    assert (kind_of(placed.group), everybodys()) == ("isolated", machine.cpus - placed.cpus)
