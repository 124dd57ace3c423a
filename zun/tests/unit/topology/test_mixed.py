# SPDX-License-Identifier: Apache-2.0
"""Mixed containers in tables: their own CPUs, the pool of the same cell, and why they are refused.

``test_oracle.py`` compares random cases with brute force.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from zun.tests.unit.topology.build import cell, demanding, flat_host, host, smt_host, used
from zun.tests.unit.topology.hosts import mixed_case, proof_size
from zun.topology import CellShare, CpuSet, PlacementRequest, Plan, Refusal, RefusalCode, Usage, amounts, grade_of, plan

SMT = smt_host(2, 4)  # cells 0-7 and 8-15, cores 0-1, 2-3, ...
TWICE = SMT.configured(cpu_allocation_ratio=2.0)
APART = SMT.configured(dedicated_set=CpuSet("0-3,8-11"), shared_set=CpuSet("4-7,12-15"))


def mixed(own, demand, memory=10, **fields):
    cpus = amounts.exact(own + demand)
    return PlacementRequest(cpus, memory, cpu_policy="mixed", dedicated_cpus=own, **fields)


def holder(cell, cpus, demand):
    return Plan({cell: CellShare(CpuSet(cpus), shared=demand)}, "mixed")


@pytest.mark.parametrize(("topology", "usage", "request_", "node", "own", "withheld", "pool"), [
    pytest.param(SMT, Usage(), mixed(2, 2), 0, "0-1", "", "2-7", id="empty-host"),
    pytest.param(SMT, Usage(), mixed(2, 0.5), 0, "0-1", "", "2-7", id="part-of-a-cpu"),
    pytest.param(SMT, Usage(), mixed(6, 2), 0, "0-5", "", "6-7", id="all-of-a-cell"),
    pytest.param(APART, Usage(), mixed(4, 4), 0, "0-3", "", "4-7", id="sets-of-the-operator"),
    pytest.param(APART, Usage({"s": demanding({0: 1})}), mixed(2, 4), 1, "8-9", "", "12-15", id="pool-decides"),
    pytest.param(SMT, used(SMT, "8-9"), mixed(2, 4), 1, "10-11", "", "12-15", id="fuller-cell"),
    pytest.param(SMT, used(SMT, "8-9"), mixed(2, 5), 0, "0-1", "", "2-7", id="fuller-cell-has-too-small-a-pool"),
    pytest.param(TWICE, Usage(), mixed(7, 2), 0, "0-6", "", "7", id="overcommit"),
    pytest.param(
        SMT, Usage(), mixed(2, 2, thread_policy="isolate"), 0, "0,2", "1,3", "4-7", id="idle-siblings-are-not-pool"
    ),
    pytest.param(SMT, Usage(), mixed(3, 2, isolation="core"), 0, "0-2", "3", "4-7", id="whole-cores"),
    pytest.param(
        host(cell(0, "0 1 2 3", l3="0-1 2-3")), Usage(), mixed(1, 2, isolation="l3"), 0, "0", "1", "2-3", id="own-l3"
    ),
    pytest.param(
        SMT.configured(cpu_allocation_ratio=4.0), Usage({"m": holder(0, "0-1", 16)}), mixed(1, 4), 0, "2", "", "3-7",
        id="beside-another-mixed-one",
    ),
    pytest.param(
        host(cell(0, "0 1 2 3", 10), cell(1, "4 5 6 7", 20)), Usage(), mixed(1, 1, 15), 1, "4", "", "5-7", id="memory"
    ),
])
def test_place_of_a_mixed_container(topology, usage, request_, node, own, withheld, pool):
    answer = plan(topology, usage, request_)
    assert isinstance(answer, Plan), answer
    share = answer.cells[node]
    assert (str(share.cpus), str(share.withheld), str(share.pool)) == (own, withheld, pool)
    assert (answer.dedicated_cpus, answer.cpus) == (CpuSet(own), CpuSet(own) | CpuSet(pool))
    assert share.shared == pytest.approx(request_.cpus - request_.own_cpus)
    assert answer.dedicated and answer.uses_pool
    assert usage.fits(topology, answer) is None
    assert grade_of(topology, answer) is not None


@pytest.mark.parametrize(("topology", "usage", "request_", "code", "words"), [
    pytest.param(SMT, Usage(), mixed(9, 1), RefusalCode.CPUS, "no cell has 9 CPUs free", id="own-cpus"),
    pytest.param(
        SMT, Usage(), mixed(6, 3), RefusalCode.SHARED_POOL,
        "no cell has 6 CPUs free beside a shared pool with room for 3 CPUs: best is cell 0 with 5", id="pool",
    ),
    pytest.param(
        SMT, Usage({"s": demanding({0: 5, 1: 5})}), mixed(4, 0.5), RefusalCode.SHARED_FLOOR,
        "no cell has 4 CPUs free beside those that shared containers need", id="floor-of-others",
    ),
    pytest.param(
        APART, Usage(), mixed(4, 5), RefusalCode.SHARED_POOL, "beside a shared pool with room for 5 CPUs",
        id="shared-set-is-too-small",
    ),
    pytest.param(
        SMT.configured(dedicated_set=CpuSet("0-7"), shared_set=CpuSet("8-15")), Usage(), mixed(1, 1),
        RefusalCode.SHARED_POOL, "room for 1 CPUs", id="sets-on-different-cells",
    ),
    pytest.param(SMT, Usage(), mixed(1, 1, 1001), RefusalCode.MEMORY, "1001 MiB free", id="memory"),
    pytest.param(
        host(cell(0, "0 1 2 3")), Usage(), mixed(1, 1, isolation="l3"), RefusalCode.SHARED_POOL, "shared pool",
        id="the-only-l3",
    ),
    pytest.param(
        SMT.configured(shared_set=CpuSet("64")), Usage({"s": demanding({0: 1})}), mixed(1, 1), RefusalCode.SHARED_POOL,
        "room for 1 CPUs", id="pool-has-lost-every-cpu",
    ),
])
def test_refusal_of_a_mixed_container(topology, usage, request_, code, words):
    answer = plan(topology, usage, request_)
    assert isinstance(answer, Refusal)
    assert (answer.code, words in answer.message) == (code, True), answer.message


@pytest.mark.parametrize(("topology", "usage", "request_", "expected"), [
    pytest.param(SMT, Usage(), mixed(6, 3), (6, 2), id="less-of-the-pool"),
    pytest.param(SMT, Usage(), mixed(9, 1), (7, 1), id="fewer-of-its-own"),
    pytest.param(flat_host([4]), Usage(), mixed(4, 0.5), (3, 0.5), id="own-cpus-leave-a-pool"),
    pytest.param(TWICE, Usage(), mixed(6, 9), (4, 8), id="one-of-its-own-makes-room-for-two"),
])
def test_nearest_mixed_request(topology, usage, request_, expected):
    answer = plan(topology, usage, request_)
    assert isinstance(answer, Refusal)
    near = answer.nearest
    assert near is not None
    assert (near.dedicated_cpus, near.demand / 1_000_000) == expected


def test_no_smaller_change_of_cpus_fits():
    """Each change that a refusal names fits, and no request between that and the one refused does."""
    told = 0
    for seed in range(proof_size(300)):
        topology, usage, request = mixed_case(random.Random(seed))
        answer = plan(topology, usage, request)
        for change in answer.changes if isinstance(answer, Refusal) else ():
            assert isinstance(plan(topology, usage, change.request), Plan), (seed, change)
            if str(change.dimension) != "cpus":
                continue
            told += 1
            step = 100_000  # demands of the cases are tenths of a CPU
            for own in range(1, request.own_cpus + 1):
                for demand in range(step, request.demand + 1, step):
                    other = mixed(own, demand / 1_000_000)
                    if change.request.cpus < other.cpus < request.cpus:
                        wanted = replace(request, cpus=other.cpus, dedicated_cpus=own)
                        assert isinstance(plan(topology, usage, wanted), Refusal), (seed, own, demand)
    assert told > proof_size(300) // 20


def test_later_dedicated_containers_leave_the_pool_its_cpus():
    usage = Usage({"m": holder(0, "0-1", 3)})
    answer = plan(SMT.configured(dedicated_set=CpuSet("0-7")), usage, PlacementRequest(4, 0))
    assert isinstance(answer, Refusal) and answer.code == RefusalCode.SHARED_FLOOR
    assert isinstance(plan(SMT.configured(dedicated_set=CpuSet("0-7")), usage, PlacementRequest(3, 0)), Plan)


def test_plan_is_refused_once_the_pool_has_shrunk():
    made = plan(SMT, Usage(), mixed(2, 4))
    assert isinstance(made, Plan)
    problem = used(SMT, "4-6").fits(SMT, made)
    assert problem is not None and problem.code == RefusalCode.SHARED_POOL
    assert used(SMT, "4-5").fits(SMT, made) is None


def test_claim_does_not_depend_on_the_pool():
    """A message that comes twice changes nothing, although the pool has changed between."""
    made = plan(SMT, Usage(), mixed(2, 2))
    assert isinstance(made, Plan)
    usage = Usage().with_claim("m", made)
    cells = {node: replace(share, pool=CpuSet()) for node, share in made.cells.items()}
    assert usage.with_claim("m", replace(made, cells=cells)) is usage
    assert usage.without("m") == Usage()


def test_records_of_other_containers_have_no_new_member():
    for request in (PlacementRequest(2, 10), PlacementRequest(2, 10, cpu_policy="shared")):
        answer = plan(SMT, Usage(), request)
        assert isinstance(answer, Plan)
        assert "dedicated_cpus" not in request.to_dict()
        assert all("pool" not in cell for cell in answer.to_dict()["cells"])
