# SPDX-License-Identifier: Apache-2.0
import json
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from zun.objects.placement import cpuset_record, held_plan, memory_used, placement_request
from zun.tests.functional.cloud import machine
from zun.tests.unit.common.proof import proof
from zun.topology import CellShare, CpuSet, HostTopology, NUMACell, PlacementRequest, Plan, Usage, plan

SHARED = {"cpu": 1.5, "memory": 512, "cpu_policy": "shared", "placement": {}}
DEDICATED = {"cpu": 4.0, "memory": 512, "cpu_policy": "dedicated", "placement": {}}


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        pytest.param(SHARED, PlacementRequest(1.5, 512, "shared"), id="shared"),
        pytest.param(
            {**SHARED, "placement": {"numa_nodes": 2, "cpu_thread_policy": "isolate"}},
            PlacementRequest(1.5, 512, "shared"),
            id="shared-has-no-shape",
        ),
        pytest.param({**SHARED, "placement": None}, PlacementRequest(1.5, 512, "shared"), id="nothing-asked"),
        pytest.param(DEDICATED, PlacementRequest(4, 512), id="dedicated"),
        pytest.param(
            {
                **DEDICATED,
                "placement": {
                    "cpu_thread_policy": "require",
                    "cpu_isolation": "l3",
                    "numa_nodes": 2,
                    "numa_affinity": "prefer",
                    "numa_cpus": [1, 3],
                    "numa_mem": [500, 12],
                    "numa_mempolicy": "preferred",
                    "mem_page_size": "2048",
                },
            },
            PlacementRequest(
                4,
                512,
                thread_policy="require",
                numa_nodes=2,
                numa_affinity="prefer",
                numa_cpus=(1, 3),
                numa_mem=(500, 12),
                mempolicy="preferred",
                page_size=2048,
                isolation="l3",
            ),
            id="everything-asked",
        ),
        pytest.param(
            {**DEDICATED, "placement": dict.fromkeys(["cpu_thread_policy", "numa_nodes", "numa_affinity", "numa_mem"])},
            PlacementRequest(4, 512),
            id="nulls-are-defaults",
        ),
        pytest.param(
            {**DEDICATED, "placement": {"numa_cpus": [1, 1, 2]}},
            PlacementRequest(4, 512, numa_nodes=3, numa_cpus=(1, 1, 2)),
            id="a-list-says-how-many-cells",
        ),
    ],
)
def test_what_a_container_asks_of_the_allocator(container, expected):
    assert placement_request(container) == expected


@pytest.mark.parametrize(
    ("container", "changes", "cpus", "memory"),
    [(SHARED, {"cpu": 0.5}, 0.5, 512), (DEDICATED, {"cpu": 2.0, "memory": 64}, 2, 64), (DEDICATED, {}, 4, 512)],
)
def test_changes_replace_what_is_asked(container, changes, cpus, memory):
    request = placement_request(container, **changes)
    assert (request.cpus, request.memory_mib) == (cpus, memory)


@pytest.mark.parametrize(
    ("placement", "names"),
    [
        ({"numa_cpus": [1, 1]}, "numa_cpus"),
        ({"numa_mem": [512, 1]}, "numa_mem"),
        ({"numa_nodes": 5}, "numa_nodes"),
        ({"mem_page_size": "huge"}, "page_size"),
    ],
)
def test_impossible_request_is_refused_by_field(placement, names):
    with pytest.raises(ValueError, match=names):
        placement_request({**DEDICATED, "placement": placement})


def test_a_record_has_the_plan_and_the_kernel_s_lists():
    held = Plan(
        {
            0: CellShare(cpus=CpuSet("0-1"), memory_mib=256, withheld=CpuSet("8-9"), pinned=CpuSet("3")),
            2: CellShare(cpus=CpuSet("4"), memory_mib=256, pages={2048: 128}),
        },
        generation=7,
    )
    assert cpuset_record(held) == {
        "cpu_policy": "dedicated",
        "generation": 7,
        "cells": [
            {
                "node": 0,
                "cpuset_cpu": "0-1",
                "cpuset_cpu_pinned": "3",
                "cpuset_mem": 256,
                "withheld": "8-9",
                "pages": {},
                "shared": 0.0,
            },
            {
                "node": 2,
                "cpuset_cpu": "4",
                "cpuset_cpu_pinned": "",
                "cpuset_mem": 256,
                "withheld": "",
                "pages": {"2048": 128},
                "shared": 0.0,
            },
        ],
        "cpuset_cpus": "0-1,4",
        "cpuset_mems": "0,2",
    }


@pytest.mark.parametrize(
    ("request_", "grade"),
    [
        (PlacementRequest(2, 64), "core"),  # these cores have no siblings
        (PlacementRequest(2, 64, isolation="node"), "node"),
        (PlacementRequest(1.5, 64, "shared"), None),
    ],
)
def test_with_its_host_a_record_tells_the_grade_that_is_reached(request_, grade):
    topology = machine(cells=2, cores=4)
    held = plan(topology, Usage().with_claim("c", Plan({0: CellShare(CpuSet("0"))})), request_)
    record = cpuset_record(held, topology)
    assert record["cpuset_isolation"] == grade
    assert held_plan({"cpuset": record}) == held


@pytest.mark.parametrize("record", [None, {}])
def test_nothing_is_held_without_a_record(record):
    assert held_plan({"cpuset": record}) is None


@pytest.mark.parametrize(
    ("policy", "asked", "whole"),
    [
        ("dedicated", {"cpu_thread_policy": "isolate"}, True),
        ("dedicated", {"cpu_thread_policy": "require"}, True),
        ("dedicated", {"cpu_thread_policy": "prefer"}, False),
        ("dedicated", {}, False),
        ("dedicated", None, False),
        ("dedicated", ["by hand"], False),
        ("shared", {"cpu_thread_policy": "isolate"}, False),
    ],
)
def test_old_record_is_completed_from_the_request(policy, asked, whole):
    held = Plan({0: CellShare(CpuSet("0"), 64)}, policy)
    record = cpuset_record(held)
    assert "whole_cores" not in record
    assert held_plan({"cpuset": record, "placement": asked}) == replace(held, whole_cores=whole)
    told = cpuset_record(replace(held, whole_cores=whole))
    assert held_plan({"cpuset": told}) == replace(held, whole_cores=whole)


def hosts():
    """A machine of two cells, one with memory only beside it, huge pages and siblings."""
    two = machine(cells=2, cores=3, threads=2, memory_mib=1024)
    cells = (*(NUMACell(**{**_fields(cell), "pages": {2048: 64}}) for cell in two.cells), NUMACell(5, memory_mib=512))
    return HostTopology(cells).configured(cpu_allocation_ratio=2.0)


def _fields(cell):
    return {name: getattr(cell, name) for name in ("id", "cpus", "siblings", "l3", "memory_mib", "distances")}


@st.composite
def requests(draw):
    policy = draw(st.sampled_from(["dedicated", "shared"]))
    nodes = draw(st.integers(1, 2))
    cpus = draw(st.integers(nodes, 8))
    return PlacementRequest(
        cpus if policy == "dedicated" else cpus / 3,
        draw(st.integers(0, 1500)),
        cpu_policy=policy,
        numa_nodes=nodes,
        thread_policy=draw(st.sampled_from(["prefer", "isolate", "require"])) if policy == "dedicated" else "prefer",
        mempolicy=draw(st.sampled_from(["strict", "preferred"])),
        page_size=draw(st.sampled_from([None, "any", 2048])),
    )


@proof(40)
@given(request=requests(), generation=st.none() | st.integers(0, 2**40))
def test_what_is_held_is_read_back_as_it_was_planned(request, generation):
    answer = plan(hosts(), Usage(), request)
    assume(isinstance(answer, Plan))
    planned = replace(answer, generation=generation)
    record = json.loads(json.dumps(cpuset_record(planned)))
    read = held_plan({"cpuset": record})
    assert read == planned
    assert (record["cpuset_cpus"], record["cpuset_mems"]) == (str(read.cpus), str(read.mems))


def test_memory_in_huge_pages_is_not_counted_with_the_rest():
    assert memory_used(Usage()) == {}
    held = {
        "a": Plan({0: CellShare(memory_mib=1000), 1: CellShare(memory_mib=24)}),
        "b": Plan({0: CellShare(memory_mib=200, pages={2048: 100})}),
        "c": Plan({0: CellShare(memory_mib=76)}, "shared"),
    }
    assert memory_used(Usage(held)) == {0: 1076, 1: 24}
