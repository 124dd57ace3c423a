# SPDX-License-Identifier: Apache-2.0
"""A refusal has a code, a text, the free amounts, and a nearest request that fits."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from zun.tests.unit.topology.build import cell, demanding, flat_host, host, smt_host, used
from zun.tests.unit.topology.hosts import proof_size, random_case
from zun.topology import CpuSet, PlacementRequest, Plan, Refusal, RefusalCode, Usage, Wanted, plan

SMT = smt_host(2, 4)  # cells 0-7 and 8-15, cores 0-1, 2-3, ...


@pytest.mark.parametrize(("topology", "usage", "request_", "code", "message"), [
    pytest.param(
        SMT, used(SMT, "0-3"), PlacementRequest(9, 10),
        "cpus", "no cell has 9 CPUs free: best is cell 1 with 8", id="cpus",
    ),
    pytest.param(
        SMT, used(SMT, "0,8"), PlacementRequest(4, 10, thread_policy="isolate"),
        "cores", "no cell has 4 CPUs free on cores of their own: best is cell 0 with 3", id="isolate",
    ),
    pytest.param(
        SMT, used(SMT, "0,8,10"), PlacementRequest(7, 10, thread_policy="require"),
        "cores", "no cell has 7 CPUs free on whole cores: best is cell 0 with 6", id="require",
    ),
    pytest.param(
        SMT, Usage().with_claim("s", demanding({0: 3, 1: 2})), PlacementRequest(7, 10),
        "shared-floor", "no cell has 7 CPUs free beside those that shared containers need: best is cell 1 with 6",
        id="floor",
    ),
    pytest.param(
        SMT, used(SMT, "0", memory_mib=300), PlacementRequest(1, 1001),
        "memory", "no cell has 1001 MiB free: best is cell 1 with 1000", id="memory",
    ),
    pytest.param(
        SMT, used(SMT, "0-5", memory_mib=0), PlacementRequest(6, 10, numa_nodes=2, numa_cpus=[3, 3]),
        "cpus", "only 1 of 2 cells can give 3 CPUs free: 2 are wanted", id="second-cell",
    ),
    pytest.param(
        flat_host([2, 2, 2, 2]), used(flat_host([2, 2, 2, 2]), "0-5", memory_mib=0),
        PlacementRequest(3, 10, numa_nodes=3),
        "cpus", "only 1 of 4 cells can give 1 CPU free: 3 are wanted", id="two-cells-more",
    ),
    pytest.param(
        flat_host([4, 4, 1]), Usage(), PlacementRequest(8, 10, numa_cpus=[3, 3, 2]),
        "cpus", "only 2 of 3 cells can give 2 CPUs free: 3 are wanted", id="third-cell-of-unequal",
    ),
    pytest.param(
        SMT.configured(dedicated_set=CpuSet("0,2,4")), Usage(), PlacementRequest(2, 10, thread_policy="require"),
        "cores", "no cell has 2 CPUs free on whole cores: best is cell 0 with 0", id="siblings-of-others",
    ),
    pytest.param(
        host(cell(0, "0 1", 10), cell(4, "2", 99)), Usage(), PlacementRequest(2, 50),
        "apart", "CPUs and memory are free on different cells: 2 CPUs on cell 0, 50 MiB on cell 4", id="apart",
    ),
    pytest.param(
        host(cell(0, "0 1 2", 10), cell(4, "3 4", 99)), Usage(),
        PlacementRequest(5, 20, numa_cpus=[3, 2], numa_mem=[15, 5]),
        "shape", "each part fits on some cell, but not all parts on different cells at once", id="shape",
    ),
    pytest.param(
        SMT, Usage(), PlacementRequest(6, 10, numa_nodes=3),
        "too-few-cells", "the host has 2 cells with CPUs: 3 are wanted", id="cells",
    ),
    pytest.param(
        flat_host([2]), Usage(), PlacementRequest(2, 10, thread_policy="require"),
        "no-smt", "no core of this host has sibling threads: thread policy require needs them", id="smt",
    ),
    pytest.param(
        flat_host([2]), Usage(), PlacementRequest(2, 10, thread_policy="require", page_size=2048),
        "no-smt", "no core of this host has sibling threads: thread policy require needs them", id="smt-before-pages",
    ),
    pytest.param(
        SMT, Usage(), PlacementRequest(6, 10, numa_nodes=3, page_size="large"),
        "too-few-cells", "the host has 2 cells with CPUs: 3 are wanted", id="cells-before-pages",
    ),
    pytest.param(
        host(cell(0, "0", pages={2048: 5, 64: 0})), Usage(), PlacementRequest(1, 1, page_size=1048576),
        "page-size", "the host has no pages of 1048576 KiB: its huge pages are 2048 KiB", id="page-size",
    ),
    pytest.param(
        SMT, Usage(), PlacementRequest(1, 1, page_size="large"),
        "page-size", "the host has no huge pages: its huge pages are none", id="no-huge-pages",
    ),
    pytest.param(
        host(cell(0, "0", pages={2048: 5})), Usage(), PlacementRequest(1, 11, page_size=2048),
        "pages", "no cell has 6 pages of 2048 KiB free: best is cell 0 with 5", id="pages",
    ),
    pytest.param(
        SMT, used(SMT, "0-5"), PlacementRequest(11, 10, numa_affinity="none"),
        "cpus", "all cells together have 10 CPUs free: 11 are wanted", id="whole-host",
    ),
    pytest.param(
        SMT, used(SMT, "0-11"), PlacementRequest(4.5, 10, cpu_policy="shared"),
        "shared-pool", "all cells together have 4 CPUs left in the shared pool: 4.5 are wanted", id="pool",
    ),
    pytest.param(
        SMT.configured(shared_set=CpuSet("8-15")), Usage(), PlacementRequest(1, 1001, cpu_policy="shared"),
        "memory", "the cells of the shared pool together have 1000 MiB free: 1001 are wanted", id="memory-of-the-pool",
    ),
    pytest.param(
        SMT, used(SMT, "0-15"), PlacementRequest(0, 10, cpu_policy="shared"),
        "shared-pool", "the shared pool is empty", id="empty-pool",
    ),
    pytest.param(
        SMT.configured(dedicated_set=CpuSet()), Usage(), PlacementRequest(1, 10),
        "no-cpus", "no CPU of this host is for dedicated containers", id="not-this-host",
    ),
    pytest.param(
        SMT, Usage(), PlacementRequest(1, 2001, mempolicy="preferred"),
        "memory", "the host has 2000 MiB free: 2001 are wanted", id="preferred-memory",
    ),
])
def test_says_why(topology, usage, request_, code, message):
    refusal = plan(topology, usage, request_)
    assert (refusal.code, refusal.message, str(refusal)) == (code, message, message)
    assert refusal.code in RefusalCode


def test_says_what_is_wanted_and_free():
    refusal = plan(SMT, used(SMT, "0-3", memory_mib=400), PlacementRequest(14, 300, numa_cpus=[9, 5]))
    assert refusal.wanted == (Wanted(9, 150), Wanted(5, 150))
    assert {c: (str(f.cpus), len(f.cores), f.memory_mib, f.shared) for c, f in refusal.free.items()} == {
        0: ("4-7", 2, 600, 4.0), 1: ("8-15", 4, 1000, 8.0),
    }


def test_what_is_free_is_what_the_grade_could_get():
    topology = replace(SMT, isolated=CpuSet("2-3,12"))
    free = plan(topology, used(SMT, "3"), PlacementRequest(3, 10, isolation="isolated")).free
    assert {c: (str(f.cpus), f.cores) for c, f in free.items()} == {0: ("2", ()), 1: ("12", ())}
    assert str(plan(topology, Usage(), PlacementRequest(9, 10)).free[0].cpus) == "0-1,4-7"


@pytest.mark.parametrize(("topology", "usage", "request_", "changed"), [
    pytest.param(SMT, Usage(), PlacementRequest(9, 10), {"cpus": 8}, id="fewer-cpus"),
    pytest.param(SMT, Usage(), PlacementRequest(1, 5000), {"memory_mib": 1000}, id="less-memory"),
    pytest.param(
        SMT, used(SMT, "0", "8"), PlacementRequest(4, 10, thread_policy="isolate"), {"cpus": 3}, id="fewer-cores"
    ),
    pytest.param(
        SMT, Usage(), PlacementRequest(12, 10, numa_cpus=[9, 3]), {"cpus": 11, "numa_cpus": (8, 3)}, id="largest-part"
    ),
    pytest.param(
        SMT, Usage(), PlacementRequest(2, 1300, numa_nodes=2, numa_mem=[1200, 100]),
        {"memory_mib": 1100, "numa_mem": (1000, 100)}, id="largest-memory",
    ),
    pytest.param(
        flat_host([1, 1, 1]), used(flat_host([1, 1, 1]), "0-2"), PlacementRequest(1, 10), None, id="nothing-at-all"
    ),
    pytest.param(
        SMT, Usage(), PlacementRequest(2, 10, numa_nodes=2, page_size=2048), {"page_size": None}, id="no-such-pages"
    ),
    pytest.param(
        host(cell(0, "0", 100, pages={2048: 50})), Usage(), PlacementRequest(1, 64, page_size=1048576),
        {"page_size": 2048}, id="smaller-pages",
    ),
    pytest.param(
        flat_host([4]), Usage(), PlacementRequest(2, 10, thread_policy="require"), {"thread_policy": "prefer"},
        id="no-siblings",
    ),
    pytest.param(
        SMT, Usage(), PlacementRequest(3, 10, numa_nodes=3), {"numa_nodes": 1, "numa_affinity": "none"}, id="no-cells"
    ),
    pytest.param(SMT, Usage(), PlacementRequest(20, 5000), {"cpus": 16, "memory_mib": 2000, "numa_affinity": "none"},
                 id="less-of-both"),
    pytest.param(
        SMT, used(SMT, "8-15"), PlacementRequest(4, 10, numa_nodes=2, thread_policy="require"),
        {"numa_nodes": 1, "numa_affinity": "none"}, id="one-cell-is-full",
    ),
])
def test_nearest(topology, usage, request_, changed):
    refusal = plan(topology, usage, request_)
    assert isinstance(refusal, Refusal)
    assert refusal.nearest == (None if changed is None else replace(request_, **changed))


def test_nearest_really_fits_and_is_no_smaller_than_need_be():
    """For random refusals: it fits, and where only one amount differs, one more of it does not."""
    refused = kept_shape = 0
    for seed in range(proof_size(1500)):
        topology, usage, request = random_case(random.Random(seed))
        refusal = plan(topology, usage, request)
        if isinstance(refusal, Plan):
            continue
        refused += 1
        nearest = refusal.nearest
        if nearest is None:
            least = PlacementRequest(1, 0) if request.dedicated else PlacementRequest(0, 0, cpu_policy="shared")
            least = replace(least, memory_mib=min(1, request.memory_mib), mempolicy=request.mempolicy)
            assert isinstance(plan(topology, usage, replace(least, numa_affinity="none")), Refusal), seed
            continue
        assert isinstance(plan(topology, usage, nearest), Plan), seed
        if request.numa_cpus is None and replace(nearest, cpus=request.cpus) == request:
            step = 1 if request.dedicated else 1e-6
            assert isinstance(plan(topology, usage, replace(nearest, cpus=nearest.cpus + step)), Refusal), seed
            kept_shape += 1
        if request.numa_mem is None and replace(nearest, memory_mib=request.memory_mib) == request:
            more = replace(nearest, memory_mib=nearest.memory_mib + 1)
            assert isinstance(plan(topology, usage, more), Refusal), seed
            kept_shape += 1
    assert refused > 300 * min(1, proof_size(1500) / 1500)
    assert kept_shape, "no refusal was near: the test would prove nothing"


def test_refusals_are_values():
    first, second = (plan(SMT, Usage(), PlacementRequest(9, 10)) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    assert first != plan(SMT, Usage(), PlacementRequest(10, 10))
