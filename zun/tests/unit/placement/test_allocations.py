# SPDX-License-Identifier: Apache-2.0
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.placement.allocations import (
    Holding,
    allocations_of,
    cell_uuid,
    drift,
    resources_of,
    root_uuid,
    total_of,
)
from zun.tests.unit.topology.build import demanding, holding, smt_host
from zun.tests.unit.topology.hosts import random_topology, random_usage
from zun.topology import CellShare, CpuSet, Plan

SMT = smt_host(2, 4)


@pytest.mark.parametrize(
    ("disk", "pool", "expected"),
    [
        (0, None, {}),
        (0, "u", {}),
        (5, None, {root_uuid("h1"): {"DISK_GB": 5}}),
        (5, "u", {"u": {"DISK_GB": 5}}),
    ],
)
def test_disk_is_of_the_host_or_its_pool(disk, pool, expected):
    assert allocations_of("h1", demanding({0: 0.0}), disk, pool) == expected


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        pytest.param(holding("0-1", SMT, memory_mib=64), {0: {"PCPU": 2, "MEMORY_MB": 64}}, id="one-cell"),
        pytest.param(
            holding("7-9", SMT, memory_mib=64), {0: {"PCPU": 1, "MEMORY_MB": 64}, 1: {"PCPU": 2}}, id="two-cells"
        ),
        pytest.param(holding("0", SMT, withheld="1"), {0: {"PCPU": 2}}, id="idle-siblings-count"),
        pytest.param(
            Plan({0: CellShare(CpuSet("0-1"), 64, CpuSet("2"), shared=1.5)}, "mixed"),
            {0: {"PCPU": 3, "VCPU": 2, "MEMORY_MB": 64}}, id="mixed-takes-both",
        ),
        pytest.param(demanding({0: 0.5}, 64), {0: {"VCPU": 1, "MEMORY_MB": 64}}, id="fraction-is-rounded-up"),
        pytest.param(demanding({1: 0.1 + 0.2 + 1.7}), {1: {"VCPU": 2}}, id="float-error-is-not-a-cpu"),
        pytest.param(demanding({0: 0.0}, 64), {0: {"MEMORY_MB": 64}}, id="no-cpu"),
        pytest.param(demanding({0: 0.0}), {}, id="nothing"),
        pytest.param(
            Plan({3: CellShare(CpuSet("0"), 8, pages={2048: 4})}),
            {3: {"PCPU": 1, "CUSTOM_HUGEPAGES_2048KB": 4}},
            id="pages-are-not-ordinary-memory",
        ),
        pytest.param(
            Plan.joined([
                Plan({0: CellShare(CpuSet("0"), 8, pages={2048: 4})}),
                Plan({0: CellShare(CpuSet("1"), 64, CpuSet("2"))}),
                demanding({0: 0.5, 1: 0.25}, 16),
            ]),
            {
                0: {"PCPU": 3, "VCPU": 1, "MEMORY_MB": 80, "CUSTOM_HUGEPAGES_2048KB": 4},
                1: {"VCPU": 1, "MEMORY_MB": 16},
            },
            id="of-a-capsule-part-by-part",
        ),
    ],
)
def test_resources_of_a_plan(plan, expected):
    assert resources_of(plan) == expected


def test_disk_is_on_the_root():
    plan = holding("8", SMT, memory_mib=64)
    cell = {cell_uuid("h1", 1): {"PCPU": 1, "MEMORY_MB": 64}}
    assert allocations_of("h1", plan, 0) == cell
    assert allocations_of("h1", plan, 3) == {**cell, root_uuid("h1"): {"DISK_GB": 3}}


def test_uuids_are_of_one_host_and_one_cell():
    made = [root_uuid("h1"), root_uuid("h2"), cell_uuid("h1", 0), cell_uuid("h1", 1), cell_uuid("h2", 0)]
    assert len(set(made)) == len(made)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param({"a": {"r": {"PCPU": 2}}}, (set(), set()), id="equal"),
        pytest.param({"a": {"r": {"PCPU": 2}, "other": {"VCPU": 1}}}, (set(), set()), id="elsewhere-is-not-ours"),
        pytest.param({"a": {"r": {"PCPU": 1}}}, ({"a"}, set()), id="another-amount"),
        pytest.param({"a": {"other": {"PCPU": 2}}}, ({"a"}, set()), id="another-provider"),
        pytest.param({}, ({"a"}, set()), id="missing"),
        pytest.param({"a": {"r": {"PCPU": 2}}, "b": {"r": {"PCPU": 1}}}, (set(), {"b"}), id="nobodys"),
    ],
)
def test_drift(seen, expected):
    assert drift({"a": Holding({"r": {"PCPU": 2}}, "p", "u")}, seen, {"r"}) == expected


@given(st.integers(0, 2**32))
def test_totals_are_the_sums(seed):
    rng = random.Random(seed)
    plans = [plan for _, plan in random_usage(rng, random_topology(rng))]
    total = total_of(plans)
    for cell, taken in total.items():
        for name, amount in taken.items():
            assert amount == sum(resources_of(plan).get(cell, {}).get(name, 0) for plan in plans) > 0
