# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.common import exceptions
from zun.objects import ComputeNode
from zun.tests.functional.cloud import machine
from zun.tests.unit.db.rows import NODE
from zun.topology import CpuSet

pytestmark = pytest.mark.usefixtures("database")


def test_a_topology_comes_back_as_it_was_put(context):
    topology = machine(cells=2, cores=2, threads=2).configured(
        reserved_cpus=CpuSet("0"), dedicated_set=CpuSet("1-3"), reserved_memory_mib=100, cpu_allocation_ratio=4.0
    )
    node = ComputeNode.put(context, "h1", {**NODE, "topology": topology.to_dict()})
    assert node.host_topology == topology
    assert ComputeNode.get_by_ident(context, node.uuid).host_topology == topology
    assert ComputeNode.get_by_ident(context, "h1").obj_what_changed() == set()


def test_the_second_put_is_the_same_node(context):
    first = ComputeNode.put(context, "h1", NODE)
    second = ComputeNode.put(context, "h1", {**NODE, "cpus": 16})
    assert (second.uuid, second.cpus, second.generation) == (first.uuid, 16, 0)


def test_pages(context):
    for name in ("b", "a", "c"):
        ComputeNode.put(context, name, NODE)
    first = ComputeNode.page(context, 2)
    assert [node.hostname for node in first] == ["a", "b"]
    assert [node.hostname for node in ComputeNode.page(context, 2, marker=first[-1].uuid)] == ["c"]
    down = ComputeNode.page(context, 3, sort_key="hostname", sort_dir="desc")
    assert [node.hostname for node in down] == ["c", "b", "a"]


def test_a_missing_node_is_named(context):
    with pytest.raises(exceptions.ComputeNodeNotFound, match="h9"):
        ComputeNode.get_by_ident(context, "h9")
