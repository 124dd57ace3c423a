# SPDX-License-Identifier: Apache-2.0
"""The decision for each difference between row and runtime: every status against every state."""

import datetime

import pytest

from zun.common import states
from zun.common.states import Status, TaskState
from zun.compute.container.observed import (
    CAPSULE_GONE,
    GONE,
    HEALING,
    RESTARTS,
    limited_otherwise,
    not_restarted,
    observed,
)
from zun.container.driver.state import OUT_OF_MEMORY, RuntimeState

THEN = datetime.datetime(2026, 3, 4, 12, 0, 0, 5)
LATER = datetime.datetime(2026, 3, 4, 13, 0, 0)


def row(status, **fields):
    values = {"task_state": None, "container_id": "abc", "auto_remove": False, "status_reason": "as it was"}
    values |= {"kind": "container", "auto_heal": False, "capsule_uuid": None, "status_detail": None}
    values |= {"request": {"run": False, "hints": {}}}
    times = {"started_at": THEN, "finished_at": None, "exit_code": None}
    return {"status": status, **values, **times, **fields}


def state(status, **fields):
    values = {"container_id": "abc", "exit_code": None, "started_at": THEN, "finished_at": None, "error": None}
    return RuntimeState(status=status, pid=42, cpuset_cpus="", cpuset_mems="", **{**values, **fields})


SEEN = (Status.CREATED, Status.RUNNING, Status.STOPPED, Status.PAUSED, Status.UNKNOWN, Status.RESTARTING, Status.DEAD)
# Their operation will tell what becomes of them; a deleted one has nothing left to tell.
LEFT_ALONE = {Status.CREATING, Status.REBUILDING, Status.DELETING, Status.DELETED}
# An error keeps its reason until the container runs again.
ERROR_ENDS = {Status.RUNNING, Status.PAUSED}


@pytest.mark.parametrize("status", Status)
def test_the_row_follows_what_is_seen(status):
    def expected(seen):
        if status in LEFT_ALONE or status == seen or (status == Status.ERROR and seen not in ERROR_ENDS):
            return {}
        return {"status": seen, "status_reason": None}

    assert {seen: observed(row(status), state(seen)) for seen in SEEN} == {seen: expected(seen) for seen in SEEN}


@pytest.mark.parametrize("status", Status)
def test_what_is_seen_is_a_legal_next_status(status):
    given = [state(seen, error=error) for seen in (*SEEN, None) for error in (None, "it says")]
    for each in (*given, None):
        for ends in ({}, {"auto_remove": True}, {"auto_heal": True}):
            new = observed(row(status, **ends), each).get("status", status)
            assert new == status or new in states.TRANSITIONS[status]


@pytest.mark.parametrize(
    ("fields", "seen", "expected"),
    [
        pytest.param(
            {"status": Status.RUNNING},
            state(Status.STOPPED, finished_at=LATER, exit_code=137),
            {"status": Status.STOPPED, "status_reason": None, "finished_at": LATER, "exit_code": 137},
            id="it-died",
        ),
        pytest.param(
            {"status": Status.RUNNING},
            state(Status.STOPPED, finished_at=LATER, exit_code=127, error="no such file"),
            {"status": Status.STOPPED, "status_reason": "no such file", "finished_at": LATER, "exit_code": 127},
            id="it-died-with-words",
        ),
        pytest.param(
            {"status": Status.STOPPED, "finished_at": LATER, "exit_code": 0},
            state(Status.STOPPED, finished_at=LATER, exit_code=0, error="old words"),
            {},
            id="nothing-new-keeps-the-reason",
        ),
        pytest.param(
            {"status": Status.STOPPED, "finished_at": LATER, "exit_code": 0},
            state(Status.RUNNING, started_at=LATER),
            {
                "status": Status.RUNNING,
                "status_reason": None,
                "started_at": LATER,
                "finished_at": None,
                "exit_code": None,
            },
            id="it-was-started-by-hand",
        ),
        pytest.param(
            {"status": Status.RUNNING},
            state(Status.RESTARTING, finished_at=LATER, exit_code=3),
            {
                "status": Status.RESTARTING,
                "status_reason": RESTARTS.format(3),
                "finished_at": LATER,
                "exit_code": 3,
            },
            id="it-ends-again-and-again",
        ),
        pytest.param(
            {"status": Status.RESTARTING, "status_reason": RESTARTS.format(3), "exit_code": 3, "finished_at": LATER},
            state(Status.RESTARTING, exit_code=4, finished_at=LATER),
            {"exit_code": 4, "status_reason": RESTARTS.format(4)},
            id="it-ends-otherwise-this-time",
        ),
        pytest.param(
            {"status": Status.RESTARTING, "status_reason": RESTARTS.format(3), "exit_code": 3, "finished_at": LATER},
            state(Status.RUNNING),
            {"status": Status.RUNNING, "status_reason": None, "exit_code": None, "finished_at": None},
            id="it-runs-at-last",
        ),
        pytest.param(
            {"status": Status.RUNNING}, state(Status.RUNNING, started_at=LATER), {"started_at": LATER}, id="restarted"
        ),
        pytest.param(
            {"status": Status.RUNNING, "container_id": "old"},
            state(Status.RUNNING),
            {"container_id": "abc"},
            id="it-has-another-id",
        ),
        pytest.param(
            {"status": Status.ERROR},
            state(Status.STOPPED, finished_at=LATER, exit_code=1),
            {"finished_at": LATER, "exit_code": 1},
            id="an-error-learns-when-it-ended",
        ),
        pytest.param(
            {"status": Status.RUNNING},
            state(None, started_at=None),
            {"started_at": None},
            id="the-runtime-has-nothing-to-say-of-the-status",
        ),
        pytest.param(
            {"status": Status.RUNNING, "started_at": THEN.replace(tzinfo=datetime.UTC)},
            state(Status.RUNNING),
            {},
            id="an-object-s-time-has-a-zone",
        ),
    ],
)
def test_what_is_wrong_in_the_row_and_nothing_else(fields, seen, expected):
    assert observed(row(**fields), seen) == expected


@pytest.mark.parametrize(
    ("policy", "limits", "expected"),
    [
        ("shared", (1.5, 64), False),
        ("shared", (1.4990234375, 64), False),  # a weight is a whole number
        ("shared", (1.25, 64), True),
        ("shared", (511 / 1024, 64), False),  # the shares of 1.5 CPUs for a newer runtime
        ("shared", (None, 64), True),  # it was about to be a dedicated one
        ("shared", (1.5, 32), True),
        ("dedicated", (None, 64), False),
        ("dedicated", (1.0, 64), False),  # what is left of a weight
        ("dedicated", (None, None), True),
        ("dedicated", (None, 16), False),  # its memory is in huge pages
    ],
)
def test_limits_that_are_not_those_of_the_row(policy, limits, expected):
    cpu, memory = limits
    there = state(Status.RUNNING, cpu=cpu, memory=memory)
    assert limited_otherwise({"cpu_policy": policy, "cpu": 1.5, "memory": 64}, there, 16) is expected


VANISHED = {"status": Status.ERROR, "status_reason": GONE}
REMOVED = {"status": Status.DELETED, "cpuset": None}


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize(
    ("fields", "usual", "error"),
    [
        pytest.param({}, VANISHED, {}, id="it-vanished"),
        pytest.param({"kind": "member"}, {**VANISHED, "status_reason": CAPSULE_GONE}, {}, id="a-member-vanished"),
        pytest.param({"auto_remove": True}, REMOVED, {}, id="it-removed-itself"),
        pytest.param({"container_id": None}, {"status": Status.ERROR}, {}, id="it-was-never-made"),
        pytest.param({"container_id": None, "auto_remove": True}, REMOVED, {}, id="it-removed-itself-at-once"),
    ],
)
def test_an_object_that_is_not_there(status, fields, usual, error):
    expected = {} if status in LEFT_ALONE else error if status == Status.ERROR else usual
    assert observed(row(status, **fields), None) == expected


@pytest.mark.parametrize("status", Status)
def test_what_vanished_and_is_to_be_healed(status):
    found = observed(row(status, auto_heal=True), None)
    if status in (Status.CREATED, Status.RUNNING, Status.STOPPED):
        request = {"run": status == Status.RUNNING, "hints": {}}
        assert found == {"status": Status.REBUILDING, "status_reason": HEALING, "request": request}
    else:
        assert found == ({} if status in LEFT_ALONE | {Status.ERROR} else VANISHED)
    if status not in LEFT_ALONE | {Status.ERROR}:
        assert observed(row(status, auto_heal=True, auto_remove=True), None) == REMOVED
        never_made = row(status, auto_heal=True, container_id=None)
        assert observed(never_made, None) == {"status": Status.ERROR}


ALWAYS, NEVER = {"Name": "always"}, {"Name": "no"}
FAILED = state(Status.STOPPED, finished_at=LATER, error='plugin "zun" not found')


@pytest.mark.parametrize(
    ("fields", "seen", "expected"),
    [
        pytest.param({"status": Status.RUNNING}, FAILED, True, id="power-was-lost"),
        pytest.param({"status": Status.STOPPED}, FAILED, True, id="its-end-was-seen"),
        pytest.param({"status": Status.ERROR}, FAILED, False, id="its-own-start-failed"),
        pytest.param({"status": Status.DELETING}, FAILED, False, id="deleted"),
        pytest.param({"status": Status.STOPPED, "task_state": TaskState.STARTING}, FAILED, False, id="under-way"),
        pytest.param({"status": Status.RUNNING, "restart_policy": NEVER}, FAILED, False, id="policy-no"),
        pytest.param({"status": Status.RUNNING, "restart_policy": None}, FAILED, False, id="no-policy"),
        pytest.param({"status": Status.STOPPED}, state(Status.STOPPED), False, id="stopped-by-its-user"),
        pytest.param({"status": Status.STOPPED}, state(Status.STOPPED, error=OUT_OF_MEMORY), False, id="no-memory"),
        pytest.param({"status": Status.RUNNING}, state(Status.RUNNING), False, id="runs"),
        pytest.param({"status": Status.RUNNING}, None, False, id="gone"),
    ],
)
def test_which_containers_are_started_again(fields, seen, expected):
    assert not_restarted(row(**{"restart_policy": ALWAYS, **fields}), seen) is expected


OURS = {"8a5f1c9e-0d3b-4e6f-9a7c-2b1d4e6f8a90": [{"addr": "10.1.0.2", "version": 4, "port": "p", "subnet_id": "s"}]}
CHOSEN = {"port": None, "subnet_id": None, "preserve_on_delete": False}
BRIDGE = {"bridge": [{"addr": "172.17.0.2", "version": 4, **CHOSEN}, {"addr": "fd00::2", "version": 6, **CHOSEN}]}


@pytest.mark.parametrize(
    ("before", "runtime", "after"),
    [
        pytest.param(None, {}, None, id="no-network-is-no-news"),
        pytest.param(None, None, None, id="the-runtime-does-not-tell"),
        pytest.param(BRIDGE, None, BRIDGE, id="nor-does-that-change-anything"),
        pytest.param(None, {"bridge": ("172.17.0.2", "fd00::2")}, BRIDGE, id="it-chose"),
        pytest.param(OURS, {}, OURS, id="ours-are-not-its-to-tell"),
        pytest.param(OURS, {"bridge": ("172.17.0.2", "fd00::2")}, {**OURS, **BRIDGE}, id="both"),
        pytest.param({**OURS, **BRIDGE}, {}, OURS, id="it-stopped"),
    ],
)
def test_addresses_that_the_runtime_chose(before, runtime, after):
    seen = row(Status.RUNNING, addresses=before, hostname="web")
    found = observed(seen, state(Status.RUNNING, addresses=runtime, hostname="abc"))
    assert {**seen, **found}["addresses"] == after and found.keys() <= {"addresses"}
    assert ("addresses" in found) == (before != after)


def test_a_container_without_a_name_of_its_own_learns_it():
    running = row(Status.RUNNING, hostname=None)
    assert observed(running, state(Status.RUNNING, hostname="abc")) == {"hostname": "abc"}
