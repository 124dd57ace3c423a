# SPDX-License-Identifier: Apache-2.0
"""The one decision about a container: every status against every wanted action, and what a look without any finds."""

import csv
import datetime
import pathlib
from dataclasses import replace

import pytest

from zun.common import states
from zun.common.states import Status, TaskState
from zun.compute.container.step import (
    NOTHING,
    RULES,
    Case,
    Do,
    Step,
    Unseen,
    Wanted,
    next_step,
)
from zun.container.driver.state import RuntimeState
from zun.topology import CellShare, CpuSet, Plan
from zun.topology.device_request import GivenDevice

THEN = datetime.datetime(2026, 3, 4, 12, 0, 0, 5)
PORT, IMAGE = {"port": "a"}, {"image": "b"}
ACTIONS = {
    "start": (Do.START, {}),
    "stop": (Do.STOP, {"timeout": 5}),
    "pause": (Do.PAUSE, {}),
    "unpause": (Do.UNPAUSE, {}),
    "kill": (Do.KILL, {"signal": None}),
    "commit": (Do.COMMIT, IMAGE),
    "resize_container": (Do.RESIZE, {"cpu": 2.0}),
    "move": (Do.MOVE, {"cpuset": {}}),
}
OWN = {
    Status.CREATING: (Do.CREATE, "create"),
    Status.DELETING: (Do.DELETE, "delete"),
    Status.REBUILDING: (Do.REBUILD, "rebuild"),
}
BEGUN = {"start": "STARTING", "stop": "STOPPING", "pause": "PAUSING", "unpause": "UNPAUSING", "kill": "KILLING"}


def row(status=Status.RUNNING, **fields):
    values = {"task_state": None, "container_id": "abc", "auto_remove": False, "status_reason": None, "hostname": "web"}
    values |= {"kind": "container", "auto_heal": False, "request": {}, "capsule_uuid": None, "cpuset": {"cells": []}}
    values |= {"restart_policy": None, "addresses": None, "started_at": THEN, "finished_at": None, "exit_code": None}
    return {"status": status, **values, **fields}


def state(status=Status.RUNNING, **fields):
    values = {"container_id": "abc", "exit_code": None, "started_at": THEN, "finished_at": None, "error": None}
    return RuntimeState(status=status, pid=42, cpuset_cpus="", cpuset_mems="", **{**values, **fields})


def wanted(action, number=1, **arguments):
    return Wanted(number, action, f"req-{number}", arguments)


REBOOT = row(Status.RESTARTING, task_state=TaskState.REBOOTING)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("status", Status)
def test_an_action_is_done_where_its_status_allows_it(status, action):
    do, arguments = ACTIONS[action]
    one = wanted(action, **arguments)
    done = status in states.ALLOWED[action]
    assert next_step(Case(row(status), (one,))) == Step(do if done else Do.REFUSE, one)


@pytest.mark.parametrize("status", Status)
def test_what_was_half_done_is_taken_up(status):
    """Whatever the runtime has made of the container since, but not when something else was accepted meanwhile."""
    for action, task_state in BEGUN.items():
        one = wanted(action, signal=None)
        step = next_step(Case(row(status, task_state=TaskState[task_state]), (one,)))
        over = status in {*OWN, Status.DELETED}
        assert step == Step(Do.REFUSE if over else ACTIONS[action][0], one)


@pytest.mark.parametrize("status", OWN)
def test_a_status_of_its_own_needs_no_action(status):
    """The row says what is wanted. With the action, the step has its arguments."""
    do, action = OWN[status]
    one = wanted(action, force=False)
    assert next_step(Case(row(status))) == Step(do)
    assert next_step(Case(row(status), (one,))) == Step(do, one)


def test_an_accepted_reboot_comes_before_all_others():
    one = wanted("reboot", timeout=3)
    assert next_step(Case(REBOOT, (one,))) == Step(Do.REBOOT, one)
    assert next_step(Case(REBOOT)) == Step(Do.REBOOT)
    for action in ("stop", "kill"):
        assert next_step(Case(REBOOT, (wanted(action),))).do is Do.REFUSE


@pytest.mark.parametrize("action", ["create", "delete", "rebuild", "reboot"])
def test_an_action_whose_status_is_over_ends(action):
    assert next_step(Case(row(), (wanted(action),))) == Step(Do.REFUSE, wanted(action))


DONE = {"create": "Running", "start": "Running", "stop": "Stopped", "pause": "Paused", "unpause": "Running"}
DONE |= {"reboot": "Running", "rebuild": "Created"}


@pytest.mark.parametrize("action", DONE)
def test_an_action_that_was_done_ends_well(action):
    """The agent was killed after it had written the row, and before it wrote the end of the action."""
    one = replace(wanted(action), begun=True)
    assert next_step(Case(row(DONE[action]), (one,))) == Step(Do.END, one)
    assert next_step(Case(row(DONE[action]), (replace(one, begun=False),))).do is Do.REFUSE  # it is a second one
    assert next_step(Case(row(Status.ERROR), (one,))).do is not Do.END


@pytest.mark.parametrize("action", ["network_attach", "network_detach", "commit", "kill"])
def test_an_action_without_what_it_is_about_ends(action):
    """Its message, of the release before, was lost."""
    assert next_step(Case(row(), (wanted(action),))).do is Do.REFUSE


@pytest.mark.parametrize("status", sorted(set(Status) - set(OWN) - {Status.DELETED}))
def test_networks_change_in_any_status(status):
    one = wanted("network_attach", port="a")
    assert next_step(Case(row(status), (one,))) == Step(Do.ATTACH, one)


def test_actions_come_in_their_order():
    first, second = wanted("pause", 1), wanted("kill", 2, signal=None)
    assert next_step(Case(row(), (first, second))) == Step(Do.PAUSE, first)


@pytest.mark.parametrize(("timeout", "long"), [(None, False), (10, False), (11, True), (3600, True)])
def test_a_long_stop_says_so(timeout, long):
    assert next_step(Case(row(), (wanted("stop", timeout=timeout),))).long is long


@pytest.mark.parametrize(
    ("status", "actions", "do"),
    [
        pytest.param("Running", [wanted("stop")], Do.NOTHING, id="the-stop-itself"),
        pytest.param("Running", [wanted("stop"), wanted("pause", 2)], Do.NOTHING, id="what-waits"),
        pytest.param("Running", [wanted("stop"), wanted("kill", 3, signal=None)], Do.KILL, id="a-kill"),
        pytest.param("Stopped", [wanted("kill", 3, signal=None)], Do.REFUSE, id="too-late"),
        pytest.param("Running", [wanted("stop"), wanted("kill", 3)], Do.REFUSE, id="a-kill-that-lost-its-signal"),
        pytest.param("Deleting", [wanted("delete", 2, force=True)], Do.HASTEN, id="a-forced-deletion"),
        pytest.param("Deleting", [wanted("delete", 2, stop_timeout=0)], Do.HASTEN, id="a-deletion-that-stops"),
        pytest.param("Deleting", [wanted("delete", 2, force=False, stop_timeout=None)], Do.NOTHING, id="a-deletion"),
    ],
)
def test_beside_a_stop_its_end_may_be_hastened(status, actions, do):
    assert next_step(Case(row(status), actions, stopping=True)).do is do


@pytest.mark.parametrize(
    ("later", "do"),
    [
        ((), Do.NOTHING),
        (({"force": True, "stop_timeout": 30},), Do.NOTHING),
        (({"force": True, "stop_timeout": None},), Do.HASTEN),
        (({"force": True, "stop_timeout": 30}, {"force": True, "stop_timeout": None}), Do.HASTEN),
    ],
)
def test_a_deletion_that_waits_is_ended_by_one_in_a_hurry(later, do):
    own = wanted("delete", force=True, stop_timeout=30)
    asked = (own, *(wanted("delete", number, **arguments) for number, arguments in enumerate(later, 2)))
    deleting = row(Status.DELETING)
    assert next_step(Case(deleting, asked, stopping=True, ending=True)).do is do
    step = next_step(Case(deleting, asked))
    assert (step.do, step.waits, step.long) == (Do.DELETE, True, True)
    assert not next_step(Case(deleting, (wanted("delete", force=True, stop_timeout=None),))).waits


def test_no_signal_beside_a_reboot():
    assert next_step(Case(REBOOT, (wanted("kill"),), stopping=True)).do is Do.REFUSE


def test_of_a_row_that_is_gone_the_claim_is_given_back():
    assert next_step(Case(None)) == NOTHING
    assert next_step(Case(None, agrees=False)) == Step(Do.SETTLE_CLAIM)


def test_what_the_host_counts_follows_the_row_before_anything_is_seen():
    case = Case(row(), agrees=False, plugged=False)
    assert next_step(case).do is Do.SETTLE_CLAIM
    assert next_step(replace(case, agrees=True)).do is Do.SETTLE_NETWORKS
    assert next_step(replace(case, agrees=True, plugged=True)).do is Do.ASK


@pytest.mark.parametrize("status", sorted(states.STEADY | {Status.RESTARTING, Status.DEAD}))
def test_without_an_answer_nothing_is_concluded(status):
    assert next_step(Case(row(status), seen=Unseen.AWAY)) == NOTHING


def test_what_agrees_is_left_alone():
    assert next_step(Case(row(), seen=state())) == NOTHING
    plan = Plan({0: CellShare(CpuSet("0"), 1)}, "dedicated", devices=(GivenDevice("x", "a"),))
    with_device = row(cpuset=plan.to_dict())
    assert next_step(Case(with_device, seen=state())).do is Do.COMPARE
    assert next_step(Case(with_device, seen=state(), compared=True)) == NOTHING


def test_a_task_without_an_action_is_over():
    found = next_step(Case(row(task_state=TaskState.STOPPING), seen=state()))
    assert found == Step(Do.COMPARE, values={"task_state": None})


def test_what_differs_is_written():
    found = next_step(Case(row(), seen=state(Status.PAUSED)))
    assert (found.do, found.values["status"]) == (Do.COMPARE, Status.PAUSED)


def test_what_vanished_is_made_anew_if_that_was_asked():
    found = next_step(Case(row(auto_heal=True), seen=None))
    assert (found.do, found.values["status"]) == (Do.COMPARE, Status.REBUILDING)


def test_a_deleted_row_stays_for_one_look():
    """So that who looks at it sees what became of the container."""
    assert next_step(Case(row(Status.DELETED), compared=True)) == NOTHING
    assert next_step(Case(row(Status.DELETED))).do is Do.DELETE


@pytest.mark.parametrize(("first", "do"), [(True, Do.START_AGAIN), (False, Do.COMPARE)])
def test_a_start_that_the_runtime_failed_is_tried_once(first, do):
    seen = state(Status.STOPPED, error="no such mount", exit_code=128)
    fields = {"restart_policy": {"Name": "always", "MaximumRetryCount": "0"}}
    assert next_step(Case(row(**fields), seen=seen, first=first)).do is do


@pytest.mark.parametrize(
    ("change", "seen", "do"),
    [
        ({}, None, Do.GIVE_BACK),
        ({}, state(Status.CREATED), Do.COMPARE),
        ({}, Unseen.AWAY, Do.NOTHING),
        ({"container_id": "abc"}, None, Do.NOTHING),
        ({"cpuset": None}, None, Do.NOTHING),
        ({"capsule_uuid": "c"}, None, Do.NOTHING),
        ({"status": Status.RUNNING}, None, Do.COMPARE),
    ],
)
def test_a_failed_creation_holds_nothing_for_long(change, seen, do):
    failed = {**row(Status.ERROR, container_id=None), **change}
    assert next_step(Case(failed, seen=seen)).do is do


@pytest.mark.parametrize("status", [Status.CREATING, Status.REBUILDING, Status.DELETING])
def test_the_steps_of_a_member_are_those_of_its_capsule(status):
    assert next_step(Case(row(status, capsule_uuid="c"))) == NOTHING


def test_start_waits_for_sidecars_and_nothing_else_does():
    stopped = row(Status.STOPPED, capsule_uuid="c")
    start, commit = wanted("start"), wanted("commit", 2, **IMAGE)
    wake = Step(Do.WAKE, values={"sidecar": "s"})
    assert next_step(Case(stopped, (start, commit), awaits="s")) == wake
    assert next_step(Case({**REBOOT, "capsule_uuid": "c"}, (), awaits="s")) == wake
    waiting = {**stopped, "task_state": TaskState.STARTING}
    assert next_step(Case(waiting, (start,), awaits="s")) == wake
    assert next_step(Case(waiting, (start,))) == Step(Do.START, start)
    assert next_step(Case(stopped, (commit, start), awaits="s")) == Step(Do.COMMIT, commit)
    assert next_step(Case({**stopped, "status": Status.PAUSED}, (start,), awaits="s")) == Step(Do.REFUSE, start)


@pytest.mark.parametrize("status", Status)
def test_every_case_has_a_step(status):
    """Whatever is wanted, seen and left: a step that changes nothing cannot come for ever."""
    for seen in (Unseen.UNASKED, Unseen.AWAY, None, *map(state, Status)):
        for task_state in (None, *TaskState):
            for action in (None, *ACTIONS, "create", "delete", "network_attach", "of a later release"):
                actions = () if action is None else (wanted(action, **PORT),)
                case = Case(row(status, task_state=task_state), actions, seen)
                step = next_step(case)
                assert (step.do is Do.ASK) <= (seen is Unseen.UNASKED)
                if step.do is Do.COMPARE:
                    after = {**case.row, **step.values}
                    assert next_step(replace(case, row=after, compared=True)).do is not Do.COMPARE


PAGE = pathlib.Path(__file__).parents[5] / "doc/source/contributor/steps.csv"


def test_the_page_has_the_rules_in_their_order():
    """Write into the file what this expects when a rule changes."""
    with PAGE.open(newline="") as file:
        assert list(csv.reader(file)) == [[rule.when, rule.what or str(rule.then)] for rule in RULES]
