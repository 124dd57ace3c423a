# SPDX-License-Identifier: Apache-2.0
"""The values that a host may write into a column."""

import datetime
import math
from dataclasses import asdict

import pytest

from zun.common.states import Status
from zun.compute.host.inventory import inventory
from zun.container.driver.facts import EngineFacts
from zun.container.fake import InMemoryDriver
from zun.db import bounds, models
from zun.db.bounds import excess, problem
from zun.tests.functional.cloud import configuration, machine
from zun.tests.unit.db import rows

NODES, CONTAINERS = models.compute_nodes.c, models.containers.c


def nested(depth, inner=0):
    value = inner
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("value", [
    0, 1.5, "x", None, True, [], {}, {"a": [1, {"b": "c"}]}, nested(31), 2**63 - 1, "x" * 1000, datetime.datetime.min,
], ids=lambda value: repr(value)[:30])
def test_a_usual_value_has_no_excess(value):
    assert excess(value) is None


@pytest.mark.parametrize(("value", "words"), [
    (nested(32), "is nested deeper than 32"),
    (nested(100_000), "is nested deeper than 32"),
    ({"a": nested(32)}, "is nested deeper than 32"),
    ([0] * 250_001, "has more than 250000 parts"),
    (["x" * 2**20] * 9, "has more than 8388608 characters"),
    ({"k" * 2**23: 0, "l": 0}, "has more than 8388608 characters"),
    ([math.nan], "has the number nan"),
    ({"a": -math.inf}, "has the number -inf"),
    (2**63, "has the number 9223372036854775808"),
    (10**4000, "has the number 1000"),
    ({"a": ["x\0"]}, "has the text 'x\\x00', with a NUL"),
    ("\ud800", "with a NUL or half of a surrogate pair"),
    ({"a\0": 1}, "has a name with a NUL"),
    ({"\udcff": 1}, "has a name with a NUL or half of a surrogate pair"),
], ids=lambda value: repr(value)[:30] if isinstance(value, str) else type(value).__name__)  # fmt: skip
def test_excess_is_named(value, words):
    assert words in excess(value)


ENGINE = {**asdict(EngineFacts("Docker", "28.5.2", "1.51", "runc 1.3.6")), "away": None}


@pytest.mark.parametrize(("column", "value", "words"), [
    pytest.param(NODES.cpus, -1, "cpus must be a whole number from 0 to 8192, got -1", id="negative"),
    pytest.param(NODES.cpus, 8193, "got 8193", id="more-cpus-than-any-kernel"),
    pytest.param(NODES.cpus, True, "got True", id="bool-for-int"),
    pytest.param(NODES.cpus, "8", "got '8'", id="text-for-int"),
    pytest.param(NODES.cpus, None, "cpus must not be empty", id="none"),
    pytest.param(NODES.mem_total, 1e308, "got 1e+308", id="float-for-int"),
    pytest.param(NODES.disk_total, 10**30, "disk in GiB must be", id="huge-int"),
    pytest.param(NODES.disk_allocation_ratio, -1.0, "an allocation ratio must be", id="negative-ratio"),
    pytest.param(NODES.disk_allocation_ratio, math.inf, "got inf", id="infinite-ratio"),
    pytest.param(NODES.disk_allocation_ratio, math.nan, "got nan", id="nan-ratio"),
    pytest.param(NODES.os, "x" * 256, "os must be a text of at most 255 characters", id="long-text"),
    pytest.param(NODES.os, 5, "got 5", id="number-for-text"),
    pytest.param(NODES.architecture, "x" * 33, "at most 32", id="as-short-as-its-column"),
    pytest.param(NODES.enable_cpu_pinning, 1, "must be a bool", id="int-for-bool"),
    pytest.param(NODES.traits, ["T"] * 100_000, "traits must be a list of at most 2000", id="many-traits"),
    pytest.param(NODES.traits, ["T" * 256], "a name must be", id="long-trait"),
    pytest.param(NODES.traits, [["T"]], "a name must be", id="trait-of-another-type"),
    pytest.param(NODES.labels, {"rack": "x" * 5000}, "a label must be", id="long-label"),
    pytest.param(NODES.labels, {"rack": 1}, "a label must be", id="label-of-another-type"),
    pytest.param(NODES.engine, {**ENGINE, "away": "x" * 5000}, "a reason must be", id="long-reason"),
    pytest.param(NODES.engine, {**ENGINE, "version": 28}, "a name must be", id="number-for-version"),
    pytest.param(NODES.engine, {"away": None}, "engine cannot be read: KeyError", id="engine-without-facts"),
    pytest.param(NODES.engine, ENGINE, None, id="engine"),
    pytest.param(NODES.runtimes, ["r"] * 101, "runtimes must be a list", id="many-runtimes"),
    pytest.param(NODES.topology, {}, None, id="no-topology-yet"),
    pytest.param(NODES.topology, {"cells": None}, "topology cannot be read", id="no-cells"),
    pytest.param(CONTAINERS.cpuset, {"junk": 1}, "cpuset cannot be read: KeyError", id="no-plan"),
    pytest.param(CONTAINERS.cpuset, {**rows.CPUSET, "more": nested(40)}, "cpuset is nested deeper", id="deep"),
    pytest.param(CONTAINERS.addresses, {"a": "x" * 2**20}, "addresses has more than", id="large-json"),
    pytest.param(CONTAINERS.ports, {}, "ports must be a JSON array", id="object-for-array"),
    pytest.param(CONTAINERS.exit_code, 2**31, "exit_code must be", id="more-than-its-column"),
    pytest.param(CONTAINERS.started_at, "2026", "started_at must be a datetime", id="text-for-time"),
    pytest.param(CONTAINERS.status_reason, "x" * (2**20 + 1), "status_reason must be", id="long-prose"),
])  # fmt: skip
def test_value_beyond_its_column(column, value, words):
    found = problem(column, value)
    assert (words is None and found is None) or words in found


def test_no_problem_text_is_longer_than_a_few_lines():
    assert max(len(problem(column, {"x": ["y" * 10**6] * 3})) for column in NODES) < 500


def test_inventory_of_a_large_machine_has_no_problem():
    """64 cells with 128 CPUs, and as many devices as eight cards with all their virtual functions."""
    found = inventory(configuration(), machine(cells=64, cores=64), InMemoryDriver().facts())
    record = {**found.topology.to_dict(), "devices": [device(number) for number in range(2048)]}
    values = {**found.columns, "topology": record}
    assert [problem(NODES[name], value) for name, value in values.items()] == [None] * len(values)


def device(number):
    return {
        "address": f"0000:{number >> 8:02x}:{number >> 3 & 31:02x}.{number & 7}",
        "vendor_id": "8086",
        "product_id": "154c",
        "class_id": "020000",
        "cell": 0,
        "path": ["pci0000:00", "0000:00:01.0", "0000:01:00.0", "0000:02:01.0"],
        "type": "type-VF",
        "physical": "0000:00:00.0",
        "iommu_group": number,
        "driver": "iavf",
        "nodes": [],
        "interfaces": [f"enp1s0f0v{number}"],
        "physical_network": "physnet1",
        "trusted": False,
        "resource_class": None,
        "traits": ["CUSTOM_FAST"],
    }


def test_row_of_a_container_has_no_problem():
    made = rows.values(status=str(Status.RUNNING), cpuset=rows.CPUSET, exit_code=-1, mounts=[{"a": "b"}])
    assert bounds.row_problem(made, [CONTAINERS[name] for name in made]) is None
