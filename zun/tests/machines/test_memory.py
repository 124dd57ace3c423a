# SPDX-License-Identifier: Apache-2.0
"""A container that outgrows its node: kept there when strict, let over when preferred."""

import os
import re
import signal

import pytest

from zun.tests.fixtures import wait_for
from zun.tests.machines import kernel, probes
from zun.tests.machines.containers import PATIENCE


def _grown(pid):
    """Return the most MiB seen on each node in /proc/PID/numa_maps while the process grew.

    Until the process has ended.
    """
    most = {}

    def ended():
        try:
            seen = kernel.anonymous_mib(pid)
        except (FileNotFoundError, ProcessLookupError):
            return True
        for node, mib in seen.items():
            most[node] = max(most.get(node, 0), mib)
        return kernel.status(pid)["State"].startswith("Z")

    def gone():
        try:
            return ended()
        except (FileNotFoundError, ProcessLookupError):
            return True

    wait_for(gone, PATIENCE)
    return {node: round(mib) for node, mib in sorted(most.items())}


def _verdict(pid):
    """The kernel's line about the process that it killed for want of memory."""
    lines = [line for line in kernel.program("dmesg").splitlines() if "oom-kill:" in line and f"pid={pid}," in line]
    assert lines, f"the kernel says nothing of process {pid}"
    return dict(re.findall(r"(constraint|nodemask|mems_allowed|oom_memcg)=([^,]*)", lines[-1]))


def _ended(containers, uuid):
    return wait_for(lambda: containers.api.get(f"/containers/{uuid}")["status"] == "Stopped", PATIENCE)


def _ordinary(cell):
    """MiB of a cell that are not in huge pages."""
    return cell.memory_mib - sum(size * count for size, count in cell.pages.items()) // 1024


def _away_from_node_0(containers, machine):
    """Fill node 0, where the kernel keeps most of its own memory."""
    containers.dedicated(len(machine.cells[0].cpus), memory=32)


def test_a_strict_container_meets_its_own_limit_on_its_node(containers, nodes_of, record_property):
    """Asked for 600 MiB, it would have 2 GiB, which the machine has."""
    placed = containers.dedicated(1, memory=600, command=probes.growing(2048))
    (node,) = nodes_of(placed.cpus)
    most = _grown(placed.pid)
    assert set(most) == {node}
    verdict = _verdict(placed.pid)
    assert verdict["constraint"] == "CONSTRAINT_MEMCG"
    _ended(containers, placed.uuid)
    record_property("node; most MiB seen by node", f"{node}; {most}")
    record_property("verdict", verdict)


@pytest.mark.skipif(os.environ.get("ZUN_NUMAVM") != "1", reason="it takes the whole memory of a node")
def test_a_strict_container_never_spills_from_a_full_node(containers, machine, nodes_of, record_property):
    """It may have all of its node by its limit, and the kernel needs some there: the node runs out first."""
    size = max(map(_ordinary, machine.cells))
    placed = containers.dedicated(1, memory=size, command=probes.growing(size + 1024))
    (node,) = nodes_of(placed.cpus)
    assert _ordinary(machine.cell(node)) == size
    most = _grown(placed.pid)
    assert set(most) == {node}
    assert most[node] > size / 2
    verdict = _verdict(placed.pid)
    assert (verdict["constraint"], verdict["mems_allowed"]) == ("CONSTRAINT_CPUSET", str(node))
    _ended(containers, placed.uuid)
    detail = containers.api.get(f"/containers/{placed.uuid}")["status_detail"]
    assert detail.startswith(f"Exited({128 + signal.SIGKILL})")
    others = sum(cell.memory_mib for cell in machine.cells if cell.id != node)
    record_property("node, its MiB, MiB of the others", f"{node}, {machine.cell(node).memory_mib}, {others}")
    record_property("most MiB seen by node", most)
    record_property("verdict", verdict)


@pytest.mark.skipif(os.environ.get("ZUN_NUMAVM") != "1", reason="it takes the whole memory of a node")
def test_a_preferred_container_spills(containers, machine, nodes_of, record_property):
    _away_from_node_0(containers, machine)
    size = _ordinary(machine.cells[1])
    placed = containers.dedicated(
        1, memory=size + 1000, numa_mempolicy="preferred", command=probes.growing(size + 448)
    )
    (node,) = nodes_of(placed.cpus)
    wait_for(lambda: kernel.status(placed.pid)["Name"] == probes.TOUCHED, PATIENCE)
    pages = kernel.anonymous_mib(placed.pid)
    assert len(placed.mems) == 2 and set(pages) == set(placed.mems)
    (spilled,) = (other for other in pages if other != node)
    assert pages[node] > pages[spilled] > 0
    near = {other: distance for other, distance in machine.cell(node).distances.items() if other != node}
    assert near[spilled] == min(near.values())
    record_property("CPU, node", f"{placed.cpus}, {node}")
    record_property("booked MiB by node", placed.memory_mib)
    record_property("anonymous MiB by node", {each: round(mib) for each, mib in pages.items()})


def test_a_strict_container_larger_than_a_node_is_refused(containers, machine, record_property):
    reason = containers.refusal(1, memory=max(cell.memory_mib for cell in machine.cells) + 1)
    assert "No valid host" in reason
    record_property("reason", reason)
