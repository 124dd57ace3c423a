# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest
from hypothesis import given

from zun.scheduler import plan_cache
from zun.scheduler.host_state import Aggregate, Answer, Held
from zun.scheduler.plan_cache import PlanCache
from zun.tests.functional.cloud import machine
from zun.tests.unit.common.proof import proof
from zun.tests.unit.scheduler.hosts import host, placements, used_hosts
from zun.topology import CellShare, CpuSet, PlacementRequest, Plan, Refusal, Usage, plan


@given(used_hosts(), used_hosts(), placements())
@proof(examples=200)
def test_a_shared_plan_is_the_plan_of_each_host(first, second, request):
    # The same claims under other names, and with more room than that: what is shared must tell these apart.
    renamed = replace(first, hostname="h2", usage=Usage((f"{owner}-2", claim) for owner, claim in first.usage))
    elsewhere = replace(second, topology=first.topology, usage=Usage())
    plans = PlanCache()
    for state in (first, renamed, second, elsewhere):
        expected = plan(state.topology, state.usage, request)
        answer = plans.answer(state, request)
        if isinstance(expected, Plan):
            assert answer.plan.to_dict() == expected.to_dict()
            assert answer.record == expected.to_dict()
            assert answer.claim == expected
        else:
            assert str(answer) == str(expected)
    if isinstance(plan(first.topology, first.usage, request), Plan):
        assert plans.answer(renamed, request) is plans.answer(first, request)


@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        pytest.param(PlacementRequest(0.5, 3000, cpu_policy="shared"), PlacementRequest(1, 2000), id="memory"),
        pytest.param(
            PlacementRequest(3.5, 1, cpu_policy="shared"),
            PlacementRequest(1, 1, cpu_policy="shared"),
            id="demand",
        ),
        pytest.param(
            PlacementRequest(0.5, 4, cpu_policy="shared", page_size=2048),
            PlacementRequest(1, 4, page_size=2048),
            id="pages",
        ),
    ],
)
def test_hosts_with_different_amounts_share_no_plan(held, wanted):
    plain = machine(cells=1)
    topology = replace(plain, cells=tuple(replace(cell, pages={2048: 2}) for cell in plain.cells))
    empty = host("h1", topology)
    claim = plan(topology, Usage(), held)
    fuller = host("h2", topology, usage=Usage({"c": claim}))
    plans = PlanCache()
    assert isinstance(plans.answer(empty, wanted), Answer)
    assert str(plans.answer(fuller, wanted)) == str(plan(topology, fuller.usage, wanted))
    assert isinstance(plans.answer(fuller, wanted), Refusal)


def test_hosts_share_plans_whatever_their_aggregates():
    topology, plans = machine(), PlanCache()
    first, second = (host(f"h{number}", topology, aggregates=each) for number, each in enumerate(
        ((), (Aggregate("u1", "some", {"ssd": "true"}),))
    ))
    assert plans.answer(first, PlacementRequest(2, 64)) is plans.answer(second, PlacementRequest(2, 64))


def test_equal_topologies_share_plans_and_changed_ones_do_not():
    plans, request = PlanCache(), PlacementRequest(1, 64)
    answers = [plans.answer(host("h1", each), request) for each in (machine(), machine(), machine(cores=2))]
    assert answers[0] is answers[1]
    assert answers[2] is not answers[0]
    assert answers[2].plan == plan(machine(cores=2), Usage(), request)


def test_a_full_cache_is_emptied(monkeypatch):
    monkeypatch.setattr(plan_cache, "ANSWERS", 2)
    plans, state = PlanCache(), host()
    for cpus in (1, 2, 3, 1):
        assert plans.answer(state, PlacementRequest(cpus, 0)).plan == plan(
            state.topology, state.usage, PlacementRequest(cpus, 0)
        )
    assert len(plans._answers) == 2


def test_equal_claims_are_one_object_and_different_ones_are_not():
    def held(cpus, disk=1):
        return Held(Plan({0: CellShare(CpuSet(cpus), 64)}), 2.0, 64, disk)

    plans = PlanCache()
    first, same, other, larger = (plans.held(each) for each in (held("0-1"), held("0-1"), held("2-3"), held("0-1", 2)))
    assert first is same
    assert larger.plan is first.plan
    assert (other, larger) == (held("2-3"), held("0-1", 2))
