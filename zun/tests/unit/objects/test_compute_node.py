# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.db import compute_nodes
from zun.objects import ComputeNode, Container
from zun.tests.functional.cloud import machine
from zun.tests.unit.db.rows import CPUSET, NODE, container
from zun.topology import CpuSet, HostTopology

pytestmark = pytest.mark.usefixtures("database")


def test_a_topology_comes_back_as_it_was_put(context):
    topology = machine(cells=2, cores=2, threads=2).configured(
        reserved_cpus=CpuSet("0"), dedicated_set=CpuSet("1-3"), reserved_memory_mib=100, cpu_allocation_ratio=4.0
    )
    ComputeNode.put(context, "h1", {**NODE, "topology": topology.to_dict()})
    assert HostTopology.from_dict(compute_nodes.find("h1")["topology"]) == topology


def test_a_put_tells_the_generation(context):
    assert ComputeNode.put(context, "h1", NODE) == 0
    Container.get_by_uuid(context, container(host="h1", cpuset=CPUSET)["uuid"]).destroy()
    assert ComputeNode.put(context, "h1", NODE) == 1
