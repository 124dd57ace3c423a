# SPDX-License-Identifier: Apache-2.0
"""Huge pages that the machine reserved at boot: each container gets its own, on its cells, and no other pages."""

import subprocess
import sys

import pytest

from zun.tests.fixtures import wait_for
from zun.tests.machines import probes
from zun.tests.machines.containers import PATIENCE
from zun.tests.machines.containers import one_more_refused as refused
from zun.tests.machines.kernel import free_huge_pages as free

MIB = 1 << 20
SIZE = 2048
BASE = 256 * MIB
"""Ordinary memory of a container with huge pages: the default of [compute] huge_page_base_memory."""


def limit(group, name):
    return (group / name).read_text().strip()


@pytest.fixture
def reserved(huge_pages, containers):
    """Node -> its huge pages, all of them free."""
    wait_for(lambda: free() == huge_pages, PATIENCE)  # the test before has given them back
    return huge_pages


def test_pages_are_on_the_cell_and_no_more(containers, reserved, nodes_of, record_property):
    placed = containers.dedicated(1, memory=16, mem_page_size=SIZE, command=probes.taking_pages(8))
    (node,) = nodes_of(placed.cpus)
    assert placed.memory_mib == {node: 16}
    for kind in ("max", "rsvd.max"):
        assert limit(placed.group, f"hugetlb.2MB.{kind}") == str(16 * MIB)
        assert limit(placed.group, f"hugetlb.1GB.{kind}") == "0"
    assert limit(placed.group, "memory.max") == str(BASE)
    assert refused(placed.pid)
    assert free() == {**reserved, node: reserved[node] - 8}
    assert limit(placed.group, "hugetlb.2MB.current") == str(16 * MIB)
    record_property("node; free pages by node; limits", f"{node}; {free()}; hugetlb.2MB.max 16 MiB, memory.max 256 MiB")
    containers.delete(placed.uuid)
    wait_for(lambda: free() == reserved, PATIENCE)


def test_pages_of_two_cells(containers, reserved, nodes_of, record_property):
    placed = containers.dedicated(
        2, memory=24, numa_nodes=2, mem_page_size=SIZE, command=probes.taking_pages_on_each_cpu(6)
    )
    nodes = nodes_of(placed.cpus)
    assert placed.memory_mib == dict.fromkeys(nodes, 12)
    assert refused(placed.pid)
    assert free() == {node: count - 6 * (node in nodes) for node, count in reserved.items()}
    record_property("booked MiB; free pages by node", f"{placed.memory_mib}; {free()}")


def test_pages_of_every_cell_are_given_once(containers, reserved, record_property):
    """Containers without a claim get no pages while all are free. Then four containers hold all; a fifth is refused."""
    others = [
        containers.shared(memory=64, command=probes.taking_pages(0)),
        containers.dedicated(1, memory=64, command=probes.taking_pages(0)),
    ]
    for other in others:
        assert (limit(other.group, "hugetlb.2MB.max"), limit(other.group, "hugetlb.2MB.rsvd.max")) == ("0", "0")
        assert refused(other.pid)
    assert free() == reserved
    placed = [
        containers.dedicated(1, memory=2 * count, mem_page_size=SIZE, command=probes.taking_pages(count))
        for count in reserved.values()
    ]
    reason = containers.refusal(1, memory=4, mem_page_size=SIZE)
    assert all(refused(each.pid) for each in placed)
    assert free() == dict.fromkeys(reserved, 0)
    record_property("free pages by node; reason of the fifth", f"{free()}; {reason}")


def test_audit_reports_strangers_on_the_node(containers, api, reserved, nodes_of, record_property):
    placed = containers.dedicated(1, memory=32, mem_page_size=SIZE)
    (node,) = nodes_of(placed.cpus)
    (host,) = (each["hostname"] for each in api.get("/hosts")["hosts"])

    def findings():
        answer = api.request("POST", f"/hosts/{host}/audit", json={}).json()
        return [each for each in answer["findings"] if each["layer"] in ("pages", "limit")]

    assert findings() == []
    command = ["numactl", f"--membind={node}", sys.executable, "-c", probes.stranger(3)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "taken\n"
            (finding,) = findings()
        finally:
            process.kill()
    assert (finding["container"], finding["code"], finding["layer"]) == (placed.uuid, "foreign", "pages")
    wait_for(lambda: findings() == [], PATIENCE)
    record_property("finding", finding["detail"])
