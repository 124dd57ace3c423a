# SPDX-License-Identifier: Apache-2.0
from datetime import datetime

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from zun.common.context import RequestContext
from zun.compute.kept.recovery_rules import is_lost, recovered, seen
from zun.container.driver.state import RuntimeState
from zun.objects import Container
from zun.objects.placement import ASKED_AS, cpuset_record, placement_request
from zun.tests.functional.cloud import machine, without
from zun.tests.unit.common.proof import proof
from zun.tests.unit.scheduler.hosts import placements, used_hosts
from zun.topology import CellShare, CpuSet, Plan, Usage, plan

CONTEXT = RequestContext(user_id="alice", project_id="demo")
MACHINE = machine(cells=2, cores=4, memory_mib=1024)
BEGUN = datetime(2026, 3, 4)


def state(cpus="0-1", mems="0", started_at=BEGUN):
    return RuntimeState("id", None, None, started_at, None, None, 0, cpus, mems)


def container(**fields):
    values = {"uuid": "6f2f36d6-0e5c-4a25-9d3b-6f5a1c2d3e4f", "cpu": 2.0, "memory": 64, "cpu_policy": "dedicated"}
    more = {"placement": {}, "cpuset": None, "status": "Running", "capsule_uuid": None}
    return Container(CONTEXT, **{**values, **more, **fields})


HELD = cpuset_record(Plan({0: CellShare(CpuSet("0-1"), 64)}))


@pytest.mark.parametrize(
    ("fields", "there", "lost"),
    [
        pytest.param({}, state(), True, id="runs"),
        pytest.param({"status": "Stopped"}, state(), True, id="ran"),
        pytest.param({"status": "Created"}, state(started_at=None), True, id="may-be-started"),
        pytest.param({"status": "Error"}, state(started_at=None), False, id="given-up-and-made-too-late"),
        pytest.param({"status": "Error", "cpuset": {}}, state(started_at=None), True, id="says-something"),
        pytest.param({"cpuset": {"cells": 1}}, state(), True, id="says-nothing-that-can-be-read"),
        pytest.param({"cpuset": HELD}, state(), False, id="says-it"),
        pytest.param({"cpuset": {}}, None, False, id="is-not-there"),
        pytest.param({"capsule_uuid": "a"}, state(), False, id="its-capsule-holds-for-it"),
    ],
)
def test_a_claim_is_lost_if_only_the_runtime_shows_it(fields, there, lost):
    assert is_lost(container(**fields), there) is lost


@pytest.mark.parametrize(
    ("fields", "there", "others", "reason"),
    [
        pytest.param({}, state("0-2"), {}, "it asked for 2 CPUs", id="other-cpus-by-hand"),
        pytest.param({}, state(""), {}, "it asked for 2 CPUs", id="all-cpus"),
        pytest.param({}, state(), {"other": Plan({0: CellShare(CpuSet("1"))})}, "CPUs 1 belong to others", id="twice"),
        pytest.param({}, state(mems="0-1"), {}, "would be elsewhere", id="other-memory-nodes-by-hand"),
        pytest.param({}, state("0,4", "0-1"), {}, "CPUs 0,4 cannot all stay", id="not-as-it-asked"),
        pytest.param({"placement": "x"}, state(), {}, "what it asked for cannot be read", id="unreadable-wish"),
        pytest.param({"placement": {"numa_nodes": 9}}, state(), {}, "what it asked for cannot be", id="impossible"),
        pytest.param({"memory": 2048}, state(), {}, "the host could not give it that now", id="no-memory"),
    ],
)
def test_what_is_not_certain_is_not_written(fields, there, others, reason):
    """The CPUs and nodes that the runtime shows are held all the same."""
    row = container(**fields)
    answer = recovered(MACHINE, Usage(others), row, there)
    assert isinstance(answer, str) and reason in answer
    held = seen(MACHINE, row, there)
    assert (held.cpus, held.mems) == (CpuSet(there.cpuset_cpus), CpuSet(there.cpuset_mems))


def test_a_shared_one_on_two_cells_is_not_told_to_be_on_one():
    """Its first cell could not hold all of it when it came."""
    row = container(cpu_policy="shared")
    assert recovered(MACHINE, Usage(), row, state("0-3")).cpu_cells == (0,)
    assert "would be elsewhere" in recovered(MACHINE, Usage(), row, state("0-7"))


def test_cpus_that_are_offline_are_its_own_when_they_are_back():
    gone = without(MACHINE, CpuSet("1"))
    assert "CPUs 1 cannot stay" in recovered(gone, Usage(), container(), state())
    assert seen(gone, container(), state()).cpus == CpuSet("0-1")
    nowhere = seen(without(MACHINE, CpuSet("0-1")), container(), state(mems=""))
    assert (nowhere.cpus, nowhere.mems) == (CpuSet("0-1"), CpuSet(""))


@proof(200)
@given(host=used_hosts(), request=placements(), grade=st.sampled_from(("thread", "core", "l3", "node")))
def test_what_was_planned_is_found_again(host, request, grade):
    asked = {name: getattr(request, member) for member, name in ASKED_AS.items()}
    own = {name: asked.pop(name) for name in ("cpu", "memory", "cpu_policy")}
    row = container(**own, placement={**asked, "cpu_isolation": grade} if request.dedicated else {})
    before = plan(host.topology, host.usage, placement_request(row))
    assume(isinstance(before, Plan))
    answer = recovered(host.topology, host.usage, row, state(str(before.cpus), str(before.mems)))
    assert isinstance(answer, Plan)
    assert host.usage.fits(host.topology, answer) is None
    assert (answer.mems, answer.memory_mib, answer.isolation) == (before.mems, before.memory_mib, before.isolation)
    if request.dedicated:
        assert (answer.cpus, answer.withheld) == (before.cpus, before.withheld)
