# SPDX-License-Identifier: Apache-2.0
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.db import aggregates
from zun.objects import ComputeNode, allocation_ratios
from zun.tests.functional.cloud import machine
from zun.tests.unit.common.proof import proof
from zun.tests.unit.db.rows import NODE

CPU, RAM = "cpu_allocation_ratio", "ram_allocation_ratio"
MACHINE = machine().configured(cpu_allocation_ratio=2.0, ram_allocation_ratio=1.5)


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        pytest.param([], {}, id="no-aggregate"),
        pytest.param([{"disk": "ssd"}], {}, id="no-ratio"),
        pytest.param([{CPU: "16"}], {CPU: 16.0}, id="raised"),
        pytest.param([{CPU: "0.5"}], {CPU: 0.5}, id="lowered"),
        pytest.param([{CPU: "16", RAM: "1.5"}, {CPU: "4"}], {CPU: 4.0, RAM: 1.5}, id="lowest-of-several"),
        pytest.param([{CPU: "many"}, {CPU: "4"}], {CPU: 4.0}, id="typing-error-is-ignored"),
        pytest.param([{CPU: "0"}, {RAM: "-1"}, {RAM: "1/0"}], {}, id="no-positive-number"),
        pytest.param([{CPU: "1000001"}, {RAM: "1e7"}, {RAM: "9" * 33}], {}, id="too-large"),
        pytest.param([{CPU: "1000000"}], {CPU: 1e6}, id="largest"),
        pytest.param([{CPU: 4}, {RAM: None}], {}, id="written-by-hand"),
    ],
)
def test_ratios_of_aggregates(metadata, expected):
    assert allocation_ratios.of_aggregates(metadata) == expected


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        pytest.param({}, (2.0, 1.5), id="the-hosts-own"),
        pytest.param({CPU: 16.0}, (16.0, 1.5), id="cpu-raised"),
        pytest.param({CPU: 0.5, RAM: 1.0}, (0.5, 1.0), id="both-lowered"),
    ],
)
def test_ratios_replace_the_hosts_own(ratios, expected):
    found = allocation_ratios.promised(MACHINE, ratios)
    assert (found.cpu_allocation_ratio, found.ram_allocation_ratio) == expected
    assert (found is MACHINE) == (not ratios)


def test_equal_hosts_share_one_topology():
    hosts = [allocation_ratios.promised(machine(), {CPU: 3.0}) for _ in range(2)]
    assert hosts[0] is hosts[1] is allocation_ratios.promised(hosts[0], {CPU: 3.0})


@proof(100)
@given(st.lists(st.dictionaries(st.sampled_from([CPU, RAM]), st.fractions(Fraction(1, 10**6), 10**6).map(str))))
def test_no_aggregate_names_less_than_the_ratio(metadata):
    found = allocation_ratios.of_aggregates(metadata)
    for key in (CPU, RAM):
        named = [float(Fraction(each[key])) for each in metadata if len(each.get(key, "x" * 33)) <= 32]
        assert found.get(key) == min(named, default=None)


def test_host_reads_the_ratios_of_its_own_aggregates(database, context):
    ComputeNode.put(context, "h1", {**NODE, "topology": machine().to_dict()})
    for name, metadata in (("mine", {CPU: "4", RAM: "2"}), ("low", {CPU: "3"}), ("other", {CPU: "1"})):
        aggregates.insert(name, metadata)
    for name in ("mine", "low"):
        aggregates.add_host(name, "h1")
    assert ComputeNode.allocation_ratios(context, "h1") == {CPU: 3.0, RAM: 2.0}
    assert ComputeNode.allocation_ratios(context, "h2") == {}
