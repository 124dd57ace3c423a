# SPDX-License-Identifier: Apache-2.0
import pytest
import sqlalchemy as sa

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
