# SPDX-License-Identifier: Apache-2.0
import datetime

import pytest
import sqlalchemy as sa
from oslo_utils import timeutils

from zun.common import exceptions
from zun.db import container_actions as db
from zun.db import containers, models, session
from zun.tests.unit.db.rows import container, together

pytestmark = pytest.mark.usefixtures("database")


def start(uuid, action="stop", request_id="req-1"):
    db.start(uuid, action, request_id=request_id, user_id="alice", project_id="demo")


def count(table):
    with session.reader() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar()


def test_actions_and_events_go_with_the_container():
    first, second = container()["uuid"], container()["uuid"]
    for uuid in (first, second):
        start(uuid)
        db.start_event(uuid, "req-1", "stop", "compute__do_container_stop")
    containers.destroy(first)
    assert (count(models.container_actions), count(models.container_action_events)) == (1, 1)
    containers.destroy_unplaced(second)
    assert (count(models.container_actions), count(models.container_action_events)) == (0, 0)


def test_old_actions_go_with_their_events_when_there_are_many():
    full, crowded, elsewhere = (container(host=host)["uuid"] for host in ("h1", "h1", "h2"))
    many = {full: db.KEPT, crowded: db.KEPT + 2 * db.OLD_TOGETHER + 50, elsewhere: db.KEPT + 1}
    still_open = {3, db.OLD_TOGETHER, db.KEPT + db.OLD_TOGETHER}
    now = timeutils.utcnow()
    with session.writer() as connection:
        for uuid, number in ((each, number) for each in many for number in range(many[each])):
            row = {"container_uuid": uuid, "action": "stop", "request_id": f"req-{number}", "project_id": "demo"}
            ended = {"start_time": now, "finish_time": None if number in still_open else now}
            action = connection.execute(models.container_actions.insert(), {**row, **ended})
            event = {"action_id": action.inserted_primary_key[0], "event": "compute__do_container_stop"}
            connection.execute(models.container_action_events.insert(), {**event, "start_time": now})
    db.prune("h1")
    kept = [number for number in range(many[crowded]) if number >= many[crowded] - db.KEPT or number in still_open]
    found = db.of_container(crowded)
    assert [each["request_id"] for each in found] == [f"req-{number}" for number in reversed(kept)]
    assert count(models.container_action_events) == many[full] + len(kept) + many[elsewhere]
    assert [len(db.of_container(uuid)) for uuid in (full, elsewhere)] == [many[full], many[elsewhere]]


def test_accesses_push_out_no_other_action():
    uuid = container(host="h1")["uuid"]
    start(uuid)
    now = timeutils.utcnow()
    row = {"container_uuid": uuid, "action": "execute", "project_id": "demo", "start_time": now, "finish_time": now}
    with session.writer() as connection:
        for number in range(db.KEPT + db.OLD_TOGETHER + 1):
            connection.execute(models.container_actions.insert(), {**row, "request_id": f"req-{number}"})
    db.fail(uuid, "req-1", "stop")
    db.prune("h1")
    found = db.of_container(uuid)
    assert (len(found), found[0]["request_id"]) == (db.KEPT + 1, f"req-{db.KEPT + db.OLD_TOGETHER}")
    assert [each["action"] for each in found].count("stop") == 1


def test_an_access_to_a_container_that_is_gone():
    uuid = container()["uuid"]
    containers.destroy(uuid)
    for action in ("logs", "execute"):
        db.access(uuid, action, request_id="req-1", user_id=None, project_id="demo", client_address=None)
    assert db.of_container(uuid) == []


def test_a_read_by_nobody_from_nowhere_is_noted_once():
    uuid = container()["uuid"]
    for number in range(3):
        db.access(uuid, "logs", request_id=f"req-{number}", user_id=None, project_id="demo", client_address=None)
    assert [each["request_id"] for each in db.of_container(uuid)] == ["req-0"]


def test_a_container_that_is_gone():
    uuid = container()["uuid"]
    start(uuid)
    event = db.start_event(uuid, "req-1", "stop", "compute__do_container_stop")
    containers.destroy(uuid)
    start(uuid)
    db.finish_event(event, "Success", None, last=True)
    db.fail(uuid, "req-1", "stop")
    assert db.start_event(uuid, "req-1", "stop", "compute__do_container_stop") is None
    assert db.of_container(uuid) == []


def test_a_container_that_goes_while_a_step_begins(monkeypatch):
    uuid = container()["uuid"]
    start(uuid)
    there = db._begins

    def then_gone(connection, *action):
        found = there(connection, *action)
        connection.execute(models.containers.delete().where(models.containers.c.uuid == uuid))
        return found

    monkeypatch.setattr(db, "_begins", then_gone)
    assert db.start_event(uuid, "req-1", "stop", "compute__do_container_stop") is None
    assert count(models.container_action_events) == 0


STOP = ("req-1", "stop", "compute__do_container_stop")


def test_what_nobody_works_on_ends(monkeypatch):
    """Whether it never reached the host or began there; but not while it may be at work."""
    idle = {"status": "Running", "host": "h1"}
    lost, begun, homeless = (container(**{**idle, **each})["uuid"] for each in ({}, {}, {"host": None}))
    late, begun_late, busy = (container(**idle)["uuid"] for _ in range(3))
    spared = [
        late,
        begun_late,
        busy,
        container(**{**idle, "task_state": "container_stopping"})["uuid"],
        container(**{**idle, "status": "Rebuilding"})["uuid"],
        container(**{**idle, "host": "h2"})["uuid"],
        container(host=None)["uuid"],
    ]
    for uuid in (lost, begun, homeless, *spared[1:]):
        start(uuid)
    for uuid in (begun, busy):
        db.start_event(uuid, *STOP)
    before = timeutils.utcnow() + datetime.timedelta(seconds=1)
    monkeypatch.setattr(timeutils, "utcnow", lambda: before)
    start(late)
    db.start_event(begun_late, *STOP)
    found = db.end_lost("h1", before, [busy]) + db.end_lost(None, before)
    assert {(each["container_uuid"], each["action"], each["request_id"], bool(each["begun"])) for each in found} == {
        (lost, "stop", "req-1", False),
        (begun, "stop", "req-1", True),
        (homeless, "stop", "req-1", False),
    }
    assert db.end_lost("h1", before, [busy]) + db.end_lost(None, before) == []
    for uuid in (lost, begun, homeless):
        ended = db.find(uuid, "req-1")[0]
        assert (ended["message"], ended["finish_time"] is not None) == ("Error", True)
    (step,) = db.find(begun, "req-1")[1]
    assert (step["result"], step["traceback"], step["finish_time"]) == ("Error", db.UNKNOWN_END, before)
    assert [db.find(uuid, "req-1")[0]["finish_time"] for uuid in spared] == [None] * len(spared)
    event = db.start_event(lost, *STOP)  # it was only late
    db.finish_event(event, "Success", None, last=True)
    assert db.find(lost, "req-1")[0]["message"] is None


def test_what_is_taken_up_goes_on_with_its_step():
    uuid = container()["uuid"]
    start(uuid)
    interrupted = db.start_event(uuid, *STOP)
    assert db.start_event(uuid, "req-background", *STOP[1:]) == interrupted
    db.finish_event(interrupted, "Success", None, last=True)
    assert [each["result"] for each in db.find(uuid, "req-1")[1]] == ["Success"]


def test_repeated_message_resumes_the_interrupted_action():
    """The first was killed before it did anything to the container."""
    uuid = container()["uuid"]
    start(uuid)
    interrupted = db.start_event(uuid, *STOP)
    assert db.start_event(uuid, *STOP) == interrupted
    db.finish_event(interrupted, "Success", None, last=True)
    assert [each["result"] for each in db.find(uuid, "req-1")[1]] == ["Success"]


def test_a_step_that_has_ended_stays_as_it_is():
    uuid = container()["uuid"]
    start(uuid)
    step = db.start_event(uuid, *STOP)
    db.finish_event(step, "Success", None, last=True)
    before = db.find(uuid, "req-1")
    start(uuid, request_id="req-2")
    other = db.start_event(uuid, "req-2", *STOP[1:])
    for result in ("Error", "Success"):
        db.finish_event(step, result, "trace", last=True)
        containers.update(uuid, {}, step_done=step, last=True)
    assert db.find(uuid, "req-1") == before
    assert (db.find(uuid, "req-2")[0]["finish_time"], db.find(uuid, "req-2")[1][0]["id"]) == (None, other)


def test_repeated_message_after_the_end_changes_nothing():
    uuid = container()["uuid"]
    start(uuid)
    db.finish_event(db.start_event(uuid, *STOP), "Success", None, last=True)
    before = db.find(uuid, "req-1")
    assert db.start_event(uuid, *STOP) is None
    assert db.find(uuid, "req-1") == before


@pytest.mark.parametrize("lost", [True, False], ids=["it was taken for lost", "it failed"])
def test_what_begins_after_its_end_has_not_ended(lost):
    """So that it ends, with its step, if it is killed."""
    uuid = container(status="Running", host="h1")["uuid"]
    start(uuid)
    soon = timeutils.utcnow() + datetime.timedelta(seconds=60)
    if lost:
        assert len(db.end_lost("h1", soon)) == 1
    else:
        db.finish_event(db.start_event(uuid, *STOP), "Error", "trace", last=True)
    assert db.start_event(uuid, *STOP) is not None
    action, events = db.find(uuid, "req-1")
    assert (action["finish_time"], action["message"], events[-1]["finish_time"]) == (None, None, None)
    assert [each["begun"] for each in db.end_lost("h1", soon)] == [True]
    action, events = db.find(uuid, "req-1")
    assert (action["message"], [each["result"] for each in events]) == ("Error", ["Error"] * len(events))
    assert None not in (action["finish_time"], *(each["finish_time"] for each in events))


def test_an_error_ends_an_action_and_a_step_in_between_does_not():
    uuid = container()["uuid"]
    start(uuid, "create")
    first = db.start_event(uuid, "req-1", "create", "one")
    db.finish_event(first, "Success", None, last=False)
    assert db.find(uuid, "req-1")[0]["finish_time"] is None
    second = db.start_event(uuid, "req-1", "create", "two")
    db.finish_event(second, "Error", "trace", last=False)
    action, events = db.find(uuid, "req-1")
    assert (action["message"], action["finish_time"] is not None) == ("Error", True)
    assert [(each["event"], each["result"], each["traceback"]) for each in events] == [
        ("one", "Success", None),
        ("two", "Error", "trace"),
    ]


def test_an_error_ends_a_step_that_was_interrupted_further_on():
    uuid = container()["uuid"]
    start(uuid, "rebuild")
    for event in ("one", "two"):
        step = db.start_event(uuid, "req-1", "rebuild", event)
        if event == "one":
            db.finish_event(step, "Success", None, last=False)
    again = db.start_event(uuid, "req-background", "rebuild", "one")
    db.finish_event(again, "Error", "trace", last=False)
    found = [(each["event"], each["result"], each["traceback"]) for each in db.find(uuid, "req-1")[1]]
    assert found == [("one", "Success", None), ("two", "Error", db.UNKNOWN_END), ("one", "Error", "trace")]


def test_another_request_takes_up_what_has_not_ended():
    uuid = container()["uuid"]
    for number in (1, 2, 3):
        start(uuid, request_id=f"req-{number}")
    start(uuid, "start", "req-4")
    db.fail(uuid, "req-3", "stop")
    assert db.start_event(uuid, "req-background", "stop", "x") is not None
    assert [len(db.find(uuid, f"req-{number}")[1]) for number in (1, 2, 3, 4)] == [0, 1, 0, 0]
    assert db.start_event(uuid, "req-background", "pause", "x") is None


def test_unknown_requests():
    with pytest.raises(exceptions.ResourceNotFound, match="req-9"):
        db.find(container()["uuid"], "req-9")


def test_many_at_once():
    uuid = container()["uuid"]
    assert together(16, lambda number: start(uuid, request_id=f"req-{number}")) == [None] * 16
    assert len(db.of_container(uuid)) == 16


CREATE = ("req-1", "create", "compute__do_container_create")


def test_a_claim_begins_the_step_and_the_next_change_ends_it():
    uuid = container()["uuid"]
    start(uuid, "create")
    event = containers.claim(uuid, "h1", {"cpuset": {"cells": []}}, step=CREATE).event_id
    _, (begun,) = db.find(uuid, "req-1")
    assert (begun["id"], begun["event"], begun["finish_time"]) == (event, "compute__do_container_create", None)
    containers.update(uuid, {"status": "Created"}, step_done=event, last=True)
    action, (ended,) = db.find(uuid, "req-1")
    assert (ended["result"], ended["finish_time"] is not None) == ("Success", True)
    assert (action["message"], action["finish_time"] is not None) == (None, True)
    assert containers.get(uuid)["status"] == "Created"


def test_a_step_ends_and_the_next_one_begins():
    """Twice, as after a lost answer: there is one of each."""
    uuid = container()["uuid"]
    start(uuid, "create")
    first = db.start_event(uuid, *CREATE)
    second = db.next_event(first, "compute__do_container_start")
    assert db.next_event(first, "compute__do_container_start") == second
    action, steps = db.find(uuid, "req-1")
    assert [(each["id"], each["event"], each["result"]) for each in steps] == [
        (first, "compute__do_container_create", "Success"),
        (second, "compute__do_container_start", None),
    ]
    assert action["finish_time"] is None


def test_a_claim_that_fails_begins_no_step():
    uuid = container()["uuid"]
    start(uuid, "create")
    containers.claim(uuid, "h1", {"cpuset": {"cells": []}})
    with pytest.raises(exceptions.Conflict):
        containers.claim(uuid, "h2", {"cpuset": {"cells": []}}, step=CREATE)
    assert db.find(uuid, "req-1")[1] == []


def test_a_change_that_fails_ends_no_step():
    uuid = container(status="Deleting")["uuid"]
    start(uuid, "create")
    event = db.start_event(uuid, *CREATE)
    with pytest.raises(exceptions.IllegalTransition):
        containers.update(uuid, {"status": "Created"}, step_done=event, last=True)
    assert db.find(uuid, "req-1")[1][0]["finish_time"] is None


def test_a_claim_for_which_nobody_asked_has_no_step():
    uuid = container()["uuid"]
    assert containers.claim(uuid, "h1", {"cpuset": {"cells": []}}, step=CREATE).event_id is None


def test_the_action_of_the_request_goes_before_one_that_is_open():
    uuid = container()["uuid"]
    for request_id in ("req-1", "req-2"):
        start(uuid, "stop", request_id)
    db.start_event(uuid, "req-1", "stop", "of the request")
    db.start_event(uuid, "req-9", "stop", "of the newest open one")
    assert [each["event"] for each in db.find(uuid, "req-1")[1]] == ["of the request"]
    assert [each["event"] for each in db.find(uuid, "req-2")[1]] == ["of the newest open one"]


def accept(uuid, action="stop", request_id="req-1", **arguments):
    who = {"request_id": request_id, "user_id": "alice", "project_id": "demo", "client_address": None}
    containers.accept(uuid, action, allowed=None, values={}, arguments=arguments, **who)


def note(uuid, action="stop", request_id="req-1", **arguments):
    db.note_arguments(uuid, action, arguments, request_id=request_id, user_id="alice", project_id="demo")


def wanted(uuid):
    return [(each["action"], each["request_id"], each["arguments"], each["bare"]) for each in db.wanted(uuid)]


def test_open_actions_are_wanted_oldest_first():
    uuid, other = (container(host="h1", status="Running")["uuid"] for _ in range(2))
    start(uuid, "create", "req-1")
    accept(uuid, "stop", "req-2", timeout=5)
    accept(uuid, "kill", "req-3", signal="SIGHUP")
    db.access(uuid, "execute", request_id="req-4", user_id=None, project_id="demo", client_address=None)
    accept(uuid, "start", "req-5")
    accept(other, "pause")
    db.end(uuid, db.find(uuid, "req-3")[0]["id"], "e", None)
    with session.writer() as connection:  # an access whose end is open
        open_access = {"container_uuid": uuid, "action": "attach", "request_id": "req-6", "project_id": "demo"}
        connection.execute(models.container_actions.insert(), {**open_access, "start_time": timeutils.utcnow()})
    expected = [
        ("create", "req-1", {}, True),
        ("stop", "req-2", {"timeout": 5}, False),
        ("start", "req-5", {}, False),
    ]
    assert wanted(uuid) == expected
    assert {each["user_id"] for each in db.wanted(uuid)} == {"alice"}
    assert db.wanted_on("h1") == {uuid: db.wanted(uuid), other: db.wanted(other)}
    assert db.wanted_on("h2") == {}


@pytest.mark.parametrize("text", ["[1]", '"x"', "7"])
def test_malformed_arguments_hide_no_other_action(text):
    uuid = container(host="h1")["uuid"]
    for number in (1, 2):
        accept(uuid, "stop", f"req-{number}", timeout=5)
    with session.writer() as connection:
        malformed = "UPDATE container_actions SET arguments = :text WHERE request_id = 'req-1'"
        connection.execute(sa.text(malformed), {"text": text})
    assert wanted(uuid) == [("stop", "req-1", {}, False), ("stop", "req-2", {"timeout": 5}, False)]
    assert [len(found) for found in db.wanted_on("h1").values()] == [2]


@pytest.mark.parametrize("before", ["bare", "with arguments", "ended", "unrecorded"])
def test_arguments_of_an_old_message_are_noted_once(before):
    uuid = container(host="h1")["uuid"]
    if before == "with arguments":
        accept(uuid, timeout=1)
    elif before != "unrecorded":
        start(uuid)
    if before == "ended":
        db.fail(uuid, "req-1", "stop")
    for timeout in (5, 6):
        note(uuid, timeout=timeout)
    kept = {"ended": [], "with arguments": [("stop", "req-1", {"timeout": 1}, False)]}
    assert wanted(uuid) == kept.get(before, [("stop", "req-1", {"timeout": 5}, False)])
    assert len(db.of_container(uuid)) == 1


def test_arguments_of_a_container_that_is_gone():
    uuid = container()["uuid"]
    containers.destroy(uuid)
    note(uuid, timeout=5)
    assert (db.of_container(uuid), db.wanted(uuid)) == ([], [])


@pytest.mark.parametrize("begun", [False, True], ids=["no step", "open step"])
@pytest.mark.parametrize(("reason", "message", "result"), [("too late", "Error", "Error"), (None, None, "Success")])
def test_an_action_ends_by_its_id_once(begun, reason, message, result):
    uuid, other = container()["uuid"], container()["uuid"]
    accept(uuid)
    ident = db.find(uuid, "req-1")[0]["id"]
    if begun:
        db.start_event(uuid, *STOP)
    db.end(other, ident, STOP[2], "of another container")
    assert wanted(uuid) == [("stop", "req-1", {}, False)]
    for said in (reason, "once more"):
        db.end(uuid, ident, STOP[2], said)
    action, steps = db.find(uuid, "req-1")
    assert (action["message"], action["finish_time"] is not None) == (message, True)
    told = [(step["event"], step["result"], step["traceback"]) for step in steps]
    assert told == ([(STOP[2], result, reason)] if begun or reason else [])
