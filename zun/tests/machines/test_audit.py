# SPDX-License-Identifier: Apache-2.0
"""The audit of a host, of what only a machine with several memory nodes can show."""

from zun.tests.machines import kernel, probes
from zun.tests.machines.containers import when_touched


def _audit(containers, **given):
    host = containers.topology()["host"]
    answer = containers.api.request("POST", f"/hosts/{host}/audit", json=given)
    assert answer.status_code == 200, answer.text
    return answer.json()


def _found(answer, uuid):
    return [each for each in answer["findings"] if each["container"] == uuid]


def test_pages_on_another_node_are_found(containers, machine, nodes_of, record_property):
    placed = containers.dedicated(1, memory=256, command=probes.touching(128))
    (node,) = nodes_of(placed.cpus)
    when_touched(placed.pid)
    assert _found(_audit(containers), placed.uuid) == []
    other = max(machine.cell(node).distances, key=machine.cell(node).distance)
    kernel.program("migratepages", str(placed.pid), str(node), str(other))
    moved = kernel.anonymous_mib(placed.pid)
    assert set(moved) == {other}
    (finding,) = _found(_audit(containers), placed.uuid)
    assert (finding["code"], finding["layer"]) == ("remote-pages", "pages")
    kernel.program("migratepages", str(placed.pid), str(other), str(node))
    assert set(kernel.anonymous_mib(placed.pid)) == {node}
    assert _found(_audit(containers), placed.uuid) == []
    record_property("finding", finding["detail"])


def test_a_group_written_by_hand_is_repaired(containers, machine, record_property):
    placed = containers.dedicated(2, memory=64)
    other = next(cell for cell in machine.cells if cell.cpus.isdisjoint(placed.cpus))
    (placed.group / "cpuset.cpus").write_text(str(other.cpus))
    assert kernel.allowed(placed.pid)[0] == other.cpus
    (finding,) = _found(_audit(containers), placed.uuid)
    assert (finding["code"], finding["layer"], finding["repaired"]) == ("drifted", "cgroup", False)
    (mended,) = _found(_audit(containers, repair=True), placed.uuid)
    assert mended["repaired"]
    assert containers.look(placed.uuid) == placed
    assert _found(_audit(containers), placed.uuid) == []
    record_property("finding", finding["detail"])
