# SPDX-License-Identifier: Apache-2.0
"""The events that hosts and the scheduler record of a container's actions."""

import datetime
import threading

import pytest
from oslo_context import context as current

from zun.common import exceptions
from zun.compute import service
from zun.compute.container import road
from zun.compute.container.operations import key_of
from zun.db import container_actions as db
from zun.db import containers as db_containers
from zun.db import models, session
from zun.tests.fixtures import new_container, wait_for
from zun.tests.functional.actions import accept_delete, asked, ended
from zun.tests.functional.cloud import Cloud, machine


def create(cloud, context, **fields):
    container = new_container(context, **fields)
    asking = asked("create", container)
    cloud.scheduler_api.create(asking, container)
    return cloud.settled(container)


@pytest.mark.parametrize(
    ("run", "steps"), [(False, ["compute__do_container_create"]), (True, None)], ids=["create", "run"]
)
def test_creation(cloud, context, run, steps):
    container = create(cloud, context, request={"run": run})
    steps = steps or ["compute__do_container_create", "compute__do_container_start"]
    assert ended(container) == (None, [(step, "Success") for step in steps])


def test_a_creation_that_fails_on_its_host(cloud, context):
    cloud.drivers["one"].fail("create", exceptions.DockerError(error="no space left"))
    container = create(cloud, context)
    assert container.status == "Error"
    assert ended(container) == ("Error", [("compute__do_container_create", "Error")])
    _, (event,) = db.find(container.uuid, "req-1")
    assert "no space left" in event["traceback"] and "Traceback" in event["traceback"]


def test_a_start_that_fails_right_after_the_creation(cloud, context):
    cloud.drivers["one"].fail("start", exceptions.DockerError(error="no such program"))
    container = create(cloud, context)
    assert ended(container) == (
        "Error",
        [("compute__do_container_create", "Success"), ("compute__do_container_start", "Error")],
    )


def test_a_creation_without_a_host(cloud, context):
    container = create(cloud, context, cpu=1000.0)
    assert container.status == "Error"
    assert ended(container) == ("Error", [])


@pytest.mark.parametrize("works", [True, False])
@pytest.mark.parametrize(
    ("action", "status"),
    [
        ("stop", "Running"),
        ("reboot", "Running"),
        ("pause", "Running"),
        ("kill", "Running"),
        ("start", "Stopped"),
        ("unpause", "Paused"),
    ],
)
def test_operations(cloud, context, action, status, works):
    container = create(cloud, context)
    before = {"Stopped": "stop", "Paused": "pause"}.get(status)
    if before:
        getattr(cloud.compute_api, before)(asked(before, container, 2), container)
        ended(container, "req-2")
    if not works:
        cloud.drivers["one"].fail(action, exceptions.DockerError(error="no"))
    if action == "reboot":
        cloud.accept_reboot(container)
    getattr(cloud.compute_api, action)(asked(action, container, 3), container)
    message, result = (None, "Success") if works else ("Error", "Error")
    assert ended(container, "req-3") == (message, [(f"compute__do_container_{action}", result)])


def test_an_operation_that_came_too_late(cloud, context):
    container = create(cloud, context)
    cloud.compute_api.unpause(asked("unpause", container, 2), container)
    assert ended(container, "req-2") == ("Error", [("compute__do_container_unpause", "Error")])


def test_an_operation_whose_message_comes_twice(cloud, context):
    container = create(cloud, context)
    asking = asked("stop", container, 2)
    for _ in range(2):
        cloud.compute_api.stop(asking, container)
    wait_for(lambda: db.find(container.uuid, "req-2")[0]["finish_time"] and not cloud.agents["one"].queue.busy())
    assert ended(container, "req-2") == (None, [("compute__do_container_stop", "Success")])


def test_a_host_removes_old_actions(cloud, context):
    container = create(cloud, context)
    cloud.stop_agent("one")
    ended_long_ago = {"start_time": datetime.datetime(2026, 1, 1), "finish_time": datetime.datetime(2026, 1, 1)}
    row = {"container_uuid": container.uuid, "action": "stop", "project_id": "demo", **ended_long_ago}
    with session.writer() as connection:
        rows = [{**row, "request_id": f"req-{number}"} for number in range(db.KEPT + 9)]
        connection.execute(models.container_actions.insert(), rows)
    cloud.start_agent("one")
    wait_for(lambda: len(db.of_container(container.uuid)) <= db.KEPT)
    kept = [row["request_id"] for row in db.of_container(container.uuid)]
    assert kept == [f"req-{number}" for number in reversed(range(9, db.KEPT + 9))]


def test_a_deletion_that_fails(cloud, context):
    container = create(cloud, context)
    cloud.drivers["one"].fail("delete", exceptions.DockerError(error="busy"))
    cloud.compute_api.delete(asked("delete", container, 2), container)
    assert ended(container, "req-2") == ("Error", [("compute__do_container_delete", "Error")])


def test_work_is_logged_with_the_id_of_its_request(cloud, context):
    """A creation and an action, each in a thread that did something else before."""
    driver, seen = cloud.drivers["one"], []
    for call in ("create", "stop"):
        driver.before(call, lambda _: seen.append(current.get_current().request_id))
    container = create(cloud, context)
    cloud.compute_api.stop(asked("stop", container, 2), container, timeout=1)
    assert ended(container, "req-2") == (None, [("compute__do_container_stop", "Success")])
    assert seen == ["req-1", "req-2"]


def test_a_deletion_takes_everything_along(cloud, context):
    container = create(cloud, context)
    accept_delete(container)
    cloud.compute_api.delete(asked("delete", container, 2), container, force=True)
    cloud.gone(container)
    assert db.of_container(container.uuid) == []


def test_an_interrupted_operation_ends_under_its_own_action(cloud, context):
    container = create(cloud, context)
    cloud.stop_agent("one")
    stop = asked("stop", container, 2)
    db_containers.update(container.uuid, {"task_state": "container_stopping"})
    cloud.compute_api.stop(stop, container)
    cloud.start_agent("one")
    assert ended(container, "req-2") == (None, [("compute__do_container_stop", "Success")])


def test_what_waits_for_a_free_thread_is_not_lost(database, context, monkeypatch):
    cloud = Cloud({"one": machine(cells=1, cores=4)}, compute__workers=1, compute__sync_container_state_interval=3600)
    free = threading.Event()
    try:
        busy, container, agent = create(cloud, context), create(cloud, context), cloud.agents["one"]
        cloud.drivers["one"].before("pause", lambda _: free.wait(60))
        cloud.compute_api.pause(asked("pause", busy, 2), busy)
        cloud.compute_api.stop(asked("stop", container, 3), container)
        wait_for(lambda: key_of(container.uuid) in agent.queue.busy())
        monkeypatch.setattr(service, "LOST_SECONDS", -60)
        agent._end_lost(context)
        assert db.find(container.uuid, "req-3")[0]["message"] is None
        free.set()
        assert ended(container, "req-3") == (None, [("compute__do_container_stop", "Success")])
    finally:
        free.set()
        cloud.stop()


@pytest.mark.parametrize("begun", [False, True], ids=["its message was lost", "its end could not be noted"])
def test_a_request_without_a_message_is_done(database, context, monkeypatch, begun):
    """Also one of the release before, whose message had the arguments: it is done without any."""
    monkeypatch.setattr(road, "ARGUMENTS_SECONDS", 0)
    often = {"compute__audit_interval": 0, "compute__sync_container_state_interval": 1}
    with Cloud({"one": machine(cells=1, cores=4)}, **often) as cloud:
        container = create(cloud, context)
        asked("stop", container, number=2)
        if begun:
            db.start_event(container.uuid, "req-2", "stop", "compute__do_container_stop")
        assert ended(container, "req-2") == (None, [("compute__do_container_stop", "Success")])
        assert cloud.settled(container).status == "Stopped"


def test_a_scheduler_ends_what_was_asked_of_a_container_without_a_host(cloud, context, caplog):
    """Its host gave it up before the message came. No host may touch its records."""
    container = create(cloud, context)
    asked("stop", container, number=2)
    db_containers.update(container.uuid, {"status": "Error", "host": None})
    cloud.scheduler.endpoint.end_lost(3600)
    assert db.find(container.uuid, "req-2")[0]["finish_time"] is None
    cloud.scheduler.endpoint.end_lost(0)
    assert ended(container, "req-2") == ("Error", [])
    assert f"Container {container.uuid} has no host: stop of request req-2 is ended" in caplog.text
