# SPDX-License-Identifier: Apache-2.0
"""Dedicated containers on one memory node and on several: their CPUs, and where their pages are.

``Containers.dedicated`` has compared claim, Docker, control group and every thread before it returns.
"""

from zun.tests.machines import probes
from zun.tests.machines.containers import when_touched

INTERPRETER_MIB = 32
"""More than python3 itself has in anonymous pages."""


def _told(pages):
    return {node: round(mib, 1) for node, mib in pages.items()}


def test_one_node_holds_the_cpus_and_the_pages(containers, nodes_of, record_property):
    placed = containers.dedicated(2, memory=512, command=probes.touching(300))
    (node,) = nodes_of(placed.cpus)
    assert (len(placed.cpus), list(placed.mems), placed.memory_mib) == (2, [node], {node: 512})
    pages = when_touched(placed.pid)
    assert set(pages) == {node} and 300 <= pages[node] < 300 + INTERPRETER_MIB
    record_property("CPUs, node", f"{placed.cpus}, {node}")
    record_property("anonymous MiB by node", _told(pages))


def test_each_node_in_turn_holds_its_own(containers, machine, nodes_of, record_property):
    cells = [cell for cell in machine.cells if cell.cpus and cell.memory_mib]
    seen = {}
    for _ in cells:
        placed = containers.dedicated(len(cells[0].cpus), memory=200, command=probes.touching(100))
        (node,) = nodes_of(placed.cpus)
        pages = when_touched(placed.pid)
        assert (list(placed.mems), set(pages)) == ([node], {node})
        assert 100 <= pages[node] < 100 + INTERPRETER_MIB
        seen[node] = f"CPUs {placed.cpus}, MiB {_told(pages)}"
    assert set(seen) == {cell.id for cell in cells}
    for node, what in seen.items():
        record_property(f"node {node}", what)


def test_two_nodes_are_the_nearest_pair(containers, machine, nodes_of, record_property):
    """With node 0's neighbour full, the lowest free ids are a far pair and a later one is near."""
    near = machine.cells[0]
    neighbour = min((d, other) for other, d in near.distances.items() if other != near.id)[1]
    blocker = containers.dedicated(len(machine.cell(neighbour).cpus))
    if set(nodes_of(blocker.cpus)) != {neighbour}:  # it went to the lowest id: one more goes beside it
        second = containers.dedicated(len(machine.cell(neighbour).cpus))
        assert set(nodes_of(second.cpus)) == {neighbour}
        containers.delete(blocker.uuid)
    placed = containers.dedicated(4, memory=600, numa_nodes=2, command=probes.touching_on_each_cpu(60))
    by_node = nodes_of(placed.cpus)
    assert sorted(len(cpus) for cpus in by_node.values()) == [2, 2]
    assert placed.memory_mib == dict.fromkeys(by_node, 300)
    one, other = by_node
    free = [cell.id for cell in machine.cells if cell.id != neighbour and len(cell.cpus) >= 2]
    nearest = min(machine.cell(a).distance(b) for a in free for b in free if a < b)
    assert machine.cell(one).distance(other) == nearest
    lowest_ids = machine.cell(free[0]).distance(free[1])
    assert nearest < lowest_ids  # a choice by lowest id would be seen
    pages = when_touched(placed.pid)
    assert set(pages) == set(by_node)
    record_property("CPUs by node", {node: str(cpus) for node, cpus in by_node.items()})
    record_property("distance of the pair; of the two lowest free ids", f"{nearest}; {lowest_ids}")
    record_property("anonymous MiB by node", _told(pages))
    for mib in pages.values():  # each page is where it was touched
        assert 120 <= mib < 120 + INTERPRETER_MIB


def test_an_unequal_shape(containers, machine, nodes_of, record_property):
    placed = containers.dedicated(
        4, memory=600, numa_cpus=[1, 3], numa_mem=[150, 450], command=probes.touching_on_each_cpu(60)
    )
    by_node = nodes_of(placed.cpus)
    assert sorted(len(cpus) for cpus in by_node.values()) == [1, 3]
    assert placed.memory_mib == {node: 150 * len(cpus) for node, cpus in by_node.items()}
    one, other = by_node
    every = [cell for cell in machine.cells if cell.cpus]
    assert machine.cell(one).distance(other) == min(a.distance(b.id) for a in every for b in every if a.id < b.id)
    pages = when_touched(placed.pid)
    assert set(pages) == set(by_node)
    record_property("CPUs by node", {node: str(cpus) for node, cpus in by_node.items()})
    record_property("booked MiB by node", placed.memory_mib)
    record_property("anonymous MiB by node", _told(pages))
    for node, cpus in by_node.items():
        assert 60 * len(cpus) <= pages[node] < 60 * len(cpus) + INTERPRETER_MIB


def test_a_shape_that_no_set_of_nodes_has_is_refused(containers, machine, record_property):
    reason = containers.refusal(8, memory=100, numa_cpus=[1, 7])
    assert "No valid host" in reason
    record_property("reason", reason)


def test_one_node_is_a_condition(containers, machine, record_property):
    most = max(len(cell.cpus) for cell in machine.cells)
    reason = containers.refusal(most + 1, memory=100)
    assert "No valid host" in reason
    record_property("reason", reason)


def test_as_few_nodes_as_possible(containers, machine, nodes_of, record_property):
    most = max(len(cell.cpus) for cell in machine.cells)
    placed = containers.dedicated(most + 1, memory=100, numa_affinity="prefer")
    by_node = nodes_of(placed.cpus)
    assert len(by_node) == 2
    record_property("CPUs by node", {node: str(cpus) for node, cpus in by_node.items()})
