# SPDX-License-Identifier: Apache-2.0
"""A dedicated container that grows and shrinks while it runs."""

import time

from zun.tests.machines import kernel, probes


def _resize(containers, uuid, **change):
    began = time.monotonic()
    answer = containers.api.request("PATCH", f"/containers/{uuid}", json=change)
    assert answer.status_code == 200, answer.text
    return time.monotonic() - began


def test_it_grows_and_shrinks_on_its_node(containers, machine, nodes_of, record_property):
    shared = containers.shared(command=probes.several(3))
    placed = containers.dedicated(1, memory=128, command=probes.touching(64))
    home = nodes_of(placed.cpus)
    (node,) = home
    assert shared.mems == placed.mems  # it has something to leave
    record_property("1 CPU", f"{placed.cpus} on node {node}, pid {placed.pid}")
    for cpu in (3, 1, 2, 1):
        seconds = _resize(containers, placed.uuid, cpu=cpu)
        now = containers.look(placed.uuid)  # claim, Docker, control group and threads agree again
        assert (len(now.cpus), now.pid, set(nodes_of(now.cpus))) == (cpu, placed.pid, {node})
        assert (now.mems, now.memory_mib) == (placed.mems, placed.memory_mib)
        assert kernel.effective(shared.group)[0] == machine.cell(node).cpus - now.cpus
        record_property(f"{cpu} CPUs", f"{now.cpus} on node {node}, pid {now.pid}, after {seconds:.1f} s")
    assert set(kernel.anonymous_mib(placed.pid)) == {node}


def test_it_cannot_grow_beyond_its_node(containers, machine, nodes_of, record_property):
    placed = containers.dedicated(1, memory=64)
    (node,) = nodes_of(placed.cpus)
    answer = containers.api.request(
        "PATCH", f"/containers/{placed.uuid}", json={"cpu": len(machine.cell(node).cpus) + 1}
    )
    assert answer.status_code == 409
    assert containers.look(placed.uuid) == placed
    record_property("answer", answer.json()["errors"][0]["detail"])


def test_its_memory_grows_on_its_node(containers, nodes_of, record_property):
    placed = containers.dedicated(1, memory=64)
    (node,) = nodes_of(placed.cpus)
    _resize(containers, placed.uuid, memory=256)
    now = containers.look(placed.uuid)
    assert (now.pid, now.cpus, now.memory_mib) == (placed.pid, placed.cpus, {node: 256})
    limit = int((now.group / "memory.max").read_text())
    assert limit == 256 << 20
    record_property("memory.max", f"{limit >> 20} MiB on node {node}")
