# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest
from hypothesis import given

from zun.objects.placement import cpuset_record
from zun.scheduler import plan_cache
from zun.scheduler.host_state import Aggregate, Answer, Held, claim_of
from zun.scheduler.plan_cache import PlanCache
from zun.tests.functional.cloud import machine
from zun.tests.unit.common.proof import proof
from zun.tests.unit.scheduler.hosts import host, placements, used_hosts
from zun.topology import CellShare, CpuSet, PlacementRequest, Plan, Refusal, Usage, plan
from zun.topology.ranges import MALFORMED


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


def row(plan, **changes):
    held = {"cpu": 2.0, "memory": 64, "disk": 1, "volume_disk": 2, "group_uuid": None, "image": "busybox"}
    return {**held, "cpuset": cpuset_record(plan), **changes}


@given(used_hosts())
@proof(examples=200)
def test_claim_of_a_row_is_the_object_of_the_choice(state):
    for _, claim in state.usage:
        made, plans = replace(claim, generation=7), PlanCache()
        held = plans.held(Held(claim_of(made), 2.0, 64, 3, None, "busybox"))
        assert plans.held_by_row(row(made)) is held
        assert plans.held_by_row(row(made, volume_disk=3)) == replace(held, disk=4)
        assert PlanCache().held_by_row(row(made)) == held


def test_claim_with_parts_is_the_object_of_the_choice():
    members = [PlacementRequest(1, 64), PlacementRequest(1.5, 64, "mixed", dedicated_cpus=1)]
    made = plan(machine(), Usage(), PlacementRequest.of_members(members))
    plans = PlanCache()
    held = plans.held(Held(claim_of(made), 2.5, 128, 3, None, "busybox"))
    changes = {"cpu": 2.5, "memory": 128, "disk": 3, "volume_disk": 0}
    assert plans.held_by_row(row(made, **changes)) is held
    assert PlanCache().held_by_row(row(made, **changes)) == held
    other = Plan.joined([replace(made.parts[0], cpu_policy="shared"), made.parts[1]])
    assert plans.held_by_row(row(other, **changes)) is not held


def test_record_of_a_known_claim_is_not_parsed(monkeypatch):
    plans, claim = PlanCache(), Plan({0: CellShare(CpuSet("0-1"), 64)})
    first = plans.held_by_row(row(claim))
    monkeypatch.setattr(Held, "of", None)
    later = replace(claim, cells={0: replace(claim.cells[0], pinned=CpuSet("4-5"))}, generation=3)
    assert plans.held_by_row(row(later)) is first
    with pytest.raises(TypeError):
        plans.held_by_row(row(claim, memory=65))


@pytest.mark.parametrize("record", [{}, None], ids=["empty", "none"])
def test_row_without_a_claim_holds_nothing(record):
    assert PlanCache().held_by_row({**row(Plan({})), "cpuset": record}) is None


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"cpuset": {"cells": 7}}, id="no-list"),
        pytest.param({"cpuset": {"cells": [{"node": []}]}}, id="no-number"),
        pytest.param({"memory": "many"}, id="memory"),
    ],
)
def test_malformed_row_is_an_error(changes):
    with pytest.raises(MALFORMED):
        PlanCache().held_by_row(row(Plan({0: CellShare(CpuSet("0"), 64)}), **changes))
