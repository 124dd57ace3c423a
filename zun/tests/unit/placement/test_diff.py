# SPDX-License-Identifier: Apache-2.0
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.placement.diff import Create, Remove, SetAggregates, SetInventories, SetTraits, steps
from zun.placement.tree import NUMA_ROOT, Disk, Inventory, Provider, tree
from zun.tests.unit.topology.build import flat_host
from zun.tests.unit.topology.hosts import random_topology, random_usage
from zun.topology import Usage

WANTED = tree("h1", flat_host([2, 2]), Usage(), Disk(10), traits=["HW_CPU_X86_AVX"], aggregates=["a"])
ROOT, CELL, OTHER = WANTED
KNOWN = {provider.uuid: provider for provider in WANTED}
NEUTRONS = Provider("n", "h1:NIC Switch agent", ROOT.uuid, {"NET_BW_EGR_KILOBIT_PER_SEC": Inventory(10)})


def without(mapping, *keys):
    return {key: value for key, value in mapping.items() if key not in keys}


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        pytest.param(KNOWN, [], id="nothing-to-do"),
        pytest.param({**KNOWN, "n": NEUTRONS}, [], id="others-stay"),
        pytest.param(
            without(KNOWN, OTHER.uuid),
            [
                Create(OTHER),
                SetInventories(OTHER.uuid, OTHER.inventories),
                SetTraits(OTHER.uuid, OTHER.traits),
                SetAggregates(OTHER.uuid, OTHER.aggregates),
            ],
            id="new-cell",
        ),
        pytest.param(
            {**KNOWN, CELL.uuid: replace(CELL, inventories=without(CELL.inventories, "PCPU"))},
            [SetInventories(CELL.uuid, CELL.inventories)],
            id="both-cpu-classes-at-once",
        ),
        pytest.param({**KNOWN, CELL.uuid: replace(CELL, traits=CELL.traits | {"CUSTOM_SILENT"})}, [], id="operators"),
        pytest.param(
            {**KNOWN, CELL.uuid: replace(CELL, traits=frozenset({"HW_CPU_X86_SGX", "CUSTOM_SILENT"}))},
            [SetTraits(CELL.uuid, CELL.traits | {"CUSTOM_SILENT"})],
            id="flag-gone",
        ),
        pytest.param({**KNOWN, ROOT.uuid: replace(ROOT, aggregates=frozenset({"a", "share"}))}, [], id="a-share"),
        pytest.param(
            {**KNOWN, ROOT.uuid: replace(ROOT, aggregates=frozenset({"b", "share"}))},
            [SetAggregates(ROOT.uuid, frozenset({"a", "share"}))],
            id="left-an-aggregate",
        ),
    ],
)
def test_steps(known, expected):
    assert steps(WANTED, known, aggregates=["a", "b"]) == expected


def test_lost_cell_is_removed():
    assert steps(WANTED[:2], {**KNOWN, "n": NEUTRONS}) == [Remove(OTHER.uuid)]


def test_same_name_by_somebody_else_stays():
    other = Provider("f", "h1_NUMA_7", ROOT.uuid, traits=frozenset({NUMA_ROOT}))
    assert steps(WANTED, {**KNOWN, "f": other}) == []


def test_ratio_of_four_bytes_is_the_same():
    disk = {ROOT.uuid: replace(ROOT, inventories={"DISK_GB": Inventory(10, 0, 1.10000002)})}
    assert steps([replace(ROOT, inventories={"DISK_GB": Inventory(10, 0, 1.1)})], disk) == []


def carried_out(known, todo):
    """Return the records of a server after the steps."""
    after = dict(known)
    for step in todo:
        match step:
            case Create(provider):
                after[provider.uuid] = Provider(provider.uuid, provider.name, provider.parent)
            case SetInventories(uuid, inventories):
                after[uuid] = replace(after[uuid], inventories=inventories)
            case SetTraits(uuid, traits):
                after[uuid] = replace(after[uuid], traits=traits)
            case SetAggregates(uuid, aggregates):
                after[uuid] = replace(after[uuid], aggregates=aggregates)
            case Remove(uuid):
                del after[uuid]
    return after


@given(st.integers(0, 2**32))
def test_from_any_tree_to_any_other(seed):
    rng = random.Random(seed)
    trees = []
    for _ in range(2):
        topology = random_topology(rng)
        trees.append(tree("h1", topology, random_usage(rng, topology), aggregates=rng.choice([["a"], []])))
    before = {**{provider.uuid: provider for provider in trees[0]}, "n": NEUTRONS}
    after = carried_out(before, steps(trees[1], before, aggregates=["a"]))
    assert after == {**{provider.uuid: provider for provider in trees[1]}, "n": NEUTRONS}
    assert steps(trees[1], after, aggregates=["a"]) == []
