# SPDX-License-Identifier: Apache-2.0
"""The rules between the NUMA fields, and that what passes them is a request the allocator understands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.api import numa
from zun.api.schemas.numa import FIELDS
from zun.common.exceptions import InvalidValue
from zun.topology import CellShare, CpuSet, PlacementRequest, Plan

ASKED = {"cpu_policy": "dedicated", "cpu": 4.0, "memory": 256}
MIXED = {"cpu_policy": "mixed", "cpu": 4.0, "memory": 64, "dedicated_cpus": 2}
PLAIN = {
    "cpu_thread_policy": "prefer",
    "cpu_isolation": "thread",
    "numa_nodes": 1,
    "numa_affinity": "require",
    "numa_mempolicy": "strict",
}


@pytest.mark.parametrize(
    ("given", "placed"),
    [
        ({"cpu_policy": "shared"}, {}),
        ({}, {}),
        ({"cpu": 1.5, "numa_nodes": None, "mem_page_size": None}, {}),
        (ASKED, PLAIN),
        ({**ASKED, "cpu_isolation": "node"}, {**PLAIN, "cpu_isolation": "node"}),
        ({**ASKED, "numa_nodes": 4}, {**PLAIN, "numa_nodes": 4}),
        ({**ASKED, "numa_nodes": 3}, {**PLAIN, "numa_nodes": 3}),
        ({**ASKED, "numa_cpus": [3, 1]}, {**PLAIN, "numa_nodes": 2, "numa_cpus": [3, 1]}),
        ({**ASKED, "numa_mem": [6, 250]}, {**PLAIN, "numa_nodes": 2, "numa_mem": [6, 250]}),
        ({**ASKED, "numa_cpus": [4], "numa_nodes": 1}, {**PLAIN, "numa_cpus": [4]}),
        ({**ASKED, "mem_page_size": 2048}, {**PLAIN, "mem_page_size": 2048}),
        (
            {**ASKED, "mem_page_size": 2048, "numa_mem": [6, 250]},
            {**PLAIN, "numa_nodes": 2, "mem_page_size": 2048, "numa_mem": [6, 250]},
        ),
    ],
)
def test_what_is_stored(given, placed):
    assert numa.placement(given) == placed


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"cpu_policy": "dedicated"}, "cpu"),
        ({"cpu_policy": "dedicated", "cpu": 2.0}, "memory"),
        ({**ASKED, "cpu": 1.5}, "cpu"),
        ({**ASKED, "cpu": 0.5}, "cpu"),
        ({**ASKED, "cpu": 0.0}, "cpu"),
        ({**ASKED, "memory": None}, "memory"),
        ({**ASKED, "numa_nodes": 5}, "numa_nodes"),
        ({**ASKED, "numa_cpus": [1, 2]}, "numa_cpus"),
        ({**ASKED, "numa_cpus": [2, 3]}, "numa_cpus"),
        ({**ASKED, "numa_cpus": [2, 2], "numa_nodes": 1}, "numa_cpus"),
        ({**ASKED, "numa_cpus": [2, 2], "numa_mem": [256]}, "numa_mem"),
        ({**ASKED, "numa_mem": [100, 155]}, "numa_mem"),
        ({**ASKED, "mem_page_size": 1048576}, "memory"),
        ({**ASKED, "mem_page_size": 2048, "numa_mem": [5, 251]}, "numa_mem"),
        *(({"cpu_policy": "shared", name: 1}, name) for name in FIELDS),
        *(({name: 1}, name) for name in FIELDS),
        ({**ASKED, "dedicated_cpus": 1}, "dedicated_cpus"),
        ({"dedicated_cpus": 1}, "dedicated_cpus"),
        ({"cpu_policy": "mixed", "cpu": 4.0, "memory": 64}, "dedicated_cpus"),
        ({"cpu_policy": "mixed", "memory": 64, "dedicated_cpus": 2}, "cpu"),
        ({**MIXED, "cpu": 2.0}, "cpu"),
        ({**MIXED, "memory": None}, "memory"),
        ({**MIXED, "numa_nodes": 2}, "numa_nodes"),
        ({**MIXED, "numa_mem": [32, 32]}, "numa_nodes"),
        ({**MIXED, "numa_mem": [32]}, "numa_mem"),
        ({**MIXED, "numa_cpus": [4]}, "numa_cpus"),
        ({**MIXED, "numa_affinity": "prefer"}, "numa_affinity"),
        ({**MIXED, "cpu_isolation": "node"}, "cpu_isolation"),
        ({**MIXED, "mem_page_size": 1048576}, "memory"),
    ],
)
def test_what_is_refused(given, field):
    with pytest.raises(InvalidValue) as caught:
        numa.placement(given)
    assert str(caught.value).startswith(f"{field}: ")


@pytest.mark.parametrize("given", [MIXED, {**MIXED, "cpu": 2.5}, {**MIXED, "numa_nodes": 1, "numa_mem": [64]}])
def test_mixed_containers_are_stored_with_their_own_cpus(given):
    placed = numa.placement(given)
    assert (placed["dedicated_cpus"], placed["numa_nodes"], placed["numa_affinity"]) == (2, 1, "require")


@pytest.mark.parametrize(
    ("policy", "size", "field"),
    [
        ("mixed", {"cpu": 2.0}, "cpu"),
        ("mixed", {"cpu": 1.0}, "cpu"),
        ("mixed", {"cpu_policy": "dedicated"}, "cpu_policy"),
        ("mixed", {"cpu_policy": "shared"}, "cpu_policy"),
        ("dedicated", {"cpu_policy": "mixed"}, "cpu_policy"),
        ("shared", {"cpu_policy": "mixed"}, "cpu_policy"),
        ("mixed", {"cpu": 5.5, "memory": 128, "cpu_policy": "mixed"}, None),
    ],
)
def test_sizes_that_a_mixed_container_can_get(policy, size, field):
    placed = numa.placement({**MIXED, "cpu_policy": policy}) if policy == "mixed" else {}
    row = {"cpu": 4.0, "memory": 64, "cpu_policy": policy, "placement": placed, "cpuset": None}
    if field is None:
        return numa.check_resized(row, **size)
    with pytest.raises(InvalidValue, match=f"^{field}: "):
        numa.check_resized(row, **size)


PARTS = st.lists(st.integers(1, 40), min_size=1, max_size=8)


@given(
    cpu=st.floats(0, 100) | st.integers(0, 60).map(float),
    memory=st.integers(0, 4096) | st.none(),
    asked=st.fixed_dictionaries(
        {},
        optional={
            "numa_nodes": st.integers(1, 9),
            "numa_cpus": PARTS,
            "numa_mem": PARTS,
            "cpu_thread_policy": st.sampled_from(["prefer", "isolate", "require"]),
            "cpu_isolation": st.sampled_from(["thread", "core", "l3", "node", "isolated"]),
            "numa_affinity": st.sampled_from(["require", "prefer", "none"]),
            "numa_mempolicy": st.sampled_from(["strict", "preferred"]),
            "mem_page_size": st.sampled_from(["small", "large", "any", 4, 2048, 1048576]),
        },
    ),
    even=st.booleans(),
)
def test_the_allocator_takes_what_passes(cpu, memory, asked, even):
    """And what it does not take does not pass: nobody learns of a bad request only from the scheduler."""
    if even:  # sums that come out even are too rare otherwise
        cpu = float(sum(asked.get("numa_cpus", [cpu])))
        memory = sum(asked["numa_mem"]) if "numa_mem" in asked else memory
    given_ = {"cpu_policy": "dedicated", "cpu": cpu, "memory": memory, **asked}
    try:
        placed = numa.placement(given_)
    except InvalidValue as exc:
        assert str(exc).partition(":")[0] in {"cpu", "memory", *FIELDS}
        return
    made = PlacementRequest(
        cpus=cpu,
        memory_mib=memory,
        thread_policy=placed["cpu_thread_policy"],
        numa_nodes=placed["numa_nodes"],
        numa_affinity=placed["numa_affinity"],
        numa_cpus=placed.get("numa_cpus"),
        numa_mem=placed.get("numa_mem"),
        mempolicy=placed["numa_mempolicy"],
        page_size=placed.get("mem_page_size"),
        isolation=placed["cpu_isolation"],
    )
    assert sum(cpus for cpus, _ in made.parts) == cpu
    assert sum(mib for _, mib in made.parts) == memory
    assert len(made.parts) == placed["numa_nodes"]


ROW = {"cpu_policy": "dedicated", "cpu": 4.0, "memory": 256, "placement": {"numa_nodes": 2, "numa_cpus": [1, 3]}}


@pytest.mark.parametrize(
    ("changed", "cpu", "memory", "field"),
    [
        ({}, None, 300, None),
        ({}, 4.0, None, None),
        ({}, 5.0, None, "numa_cpus"),
        ({}, 1.5, None, "cpu"),
        ({"placement": {}}, 7.0, None, None),
        ({"placement": {"numa_nodes": 2}}, 1.0, None, "numa_nodes"),
        ({"cpu_policy": "shared", "placement": {}}, 1.5, 7, None),
    ],
)
def test_another_size(changed, cpu, memory, field):
    if field is None:
        numa.check_resized({**ROW, **changed}, cpu, memory)
    else:
        with pytest.raises(InvalidValue, match=f"^{field}: "):
            numa.check_resized({**ROW, **changed}, cpu, memory)


HELD = {"cpuset": Plan({0: CellShare(CpuSet("2-5"), 256, withheld=CpuSet("6"))}).to_dict(), "placement": {}}
SHARED = Plan({0: CellShare(CpuSet("0-7"), 256, shared=1.0)}, "shared").to_dict()


@pytest.mark.parametrize(
    ("changed", "asked", "reason"),
    [
        ({}, {"keep_cpus": "2-5"}, None),
        ({}, {"cpu": 1.0, "keep_cpus": "5"}, None),
        ({}, {"cpu": 8.0, "keep_cpus": "3,5"}, None),
        ({}, {"cpu": 1.0, "keep_cpus": "4-5"}, "2 CPUs cannot stay among 1; name fewer, or ask for more cpu"),
        ({}, {"keep_cpus": "1-2"}, "CPUs 1 are not among those it has, 2-5"),
        ({}, {"keep_cpus": "6"}, "CPUs 6 are not among those it has"),  # its sibling, kept idle
        ({}, {"cpu_policy": "shared", "keep_cpus": "2"}, "only a container that has dedicated CPUs"),
        ({"cpu_policy": "shared", "cpuset": SHARED}, {"keep_cpus": "2"}, "only a container that has dedicated CPUs"),
        (
            {"cpu_policy": "shared", "cpuset": SHARED},
            {"cpu_policy": "dedicated", "keep_cpus": "2"},
            "only a container that has dedicated CPUs",
        ),
        ({"cpuset": None}, {"keep_cpus": "2"}, "only a container that has dedicated CPUs"),
    ],
)
def test_cpus_that_stay(changed, asked, reason):
    row = {**ROW, **HELD, **changed}
    if reason is None:
        numa.check_resized(row, **asked)
    else:
        with pytest.raises(InvalidValue, match=f"^keep_cpus: {reason}"):
            numa.check_resized(row, **asked)
