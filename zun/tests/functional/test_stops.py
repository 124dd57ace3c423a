# SPDX-License-Identifier: Apache-2.0
"""A container ends while a stop waits for its processes."""

import threading

import pytest

from zun.common import exceptions
from zun.compute.container.observed import RESTARTS
from zun.compute.container.operations import key_of
from zun.container.fake import lifecycle
from zun.db import container_actions as db_actions
from zun.db import containers as db
from zun.objects import Container
from zun.tests.fixtures import wait_for
from zun.tests.functional.actions import HOUR, WELL, accept_delete, asked, ended, wanted
from zun.tests.functional.cloud import Cloud, machine

IGNORES_TERM = ["sh", "-c", "trap '' TERM; sleep 1000"]


@pytest.fixture
def cloud(database):
    cloud = Cloud(
        {"one": machine(cells=1, cores=4)}, compute__audit_interval=0, compute__sync_container_state_interval=HOUR
    )
    yield cloud
    for uuid in cloud.drivers["one"].list():  # else whatever a failed test left would be waited for
        cloud.drivers["one"].exit(uuid)
    cloud.stop()


@pytest.fixture
def container(cloud, context):
    return cloud.run(context, command=IGNORES_TERM, cpu_policy="dedicated", cpu=2.0)


def stop(cloud, container, timeout=HOUR, number=2):
    """Ask for it, and wait until it is under way."""
    cloud.compute_api.stop(asked("stop", container, number), container, timeout=timeout)
    wait_for(lambda: db.get(container.uuid)["task_state"] == "container_stopping")


BADLY = {action: ("Error", [(f"compute__do_container_{action}", "Error")]) for action in ("stop", "kill")}


@pytest.mark.parametrize("behind", [False, True])
def test_a_kill_ends_a_container_that_is_being_stopped(cloud, container, behind):
    """Also when something else waits for the stop."""
    stop(cloud, container)
    if behind:
        cloud.compute_api.pause(asked("pause", container, 3), container)
    cloud.compute_api.kill(asked("kill", container, 4), container)
    assert (ended(container, "req-2"), ended(container, "req-4")) == (WELL["stop"], WELL["kill"])
    found = cloud.settled(container)
    assert (found.status, found.status_reason, found.exit_code) == ("Stopped", None, 137)
    assert not behind or ended(container, "req-3")[0] == "Error"


def test_a_signal_that_ends_nothing_leaves_the_stop_alone(cloud, container):
    stop(cloud, container)
    cloud.compute_api.kill(asked("kill", container, 3), container, signal="SIGHUP")
    assert ended(container, "req-3") == WELL["kill"]
    row = db.get(container.uuid)
    assert (row["status"], row["task_state"]) == ("Running", "container_stopping")
    cloud.compute_api.kill(asked("kill", container, 4), container)
    assert (ended(container, "req-2"), ended(container, "req-4")) == (WELL["stop"], WELL["kill"])


def test_a_kill_that_fails_leaves_the_stop_alone(cloud, container):
    stop(cloud, container)
    cloud.compute_api.kill(asked("kill", container, 3), container, signal="SIGFOO")
    assert ended(container, "req-3") == BADLY["kill"]
    assert db.get(container.uuid)["task_state"] == "container_stopping"
    assert not db_actions.find(container.uuid, "req-2")[0]["finish_time"]
    cloud.compute_api.kill(asked("kill", container, 4), container)
    assert cloud.settled(container).status == "Stopped"


def test_a_kill_whose_message_comes_twice(cloud, container):
    stop(cloud, container)
    asking = asked("kill", container, 3)
    for _ in range(2):
        cloud.compute_api.kill(asking, container)
    wait_for(lambda: ended(container, "req-3") and not cloud.agents["one"].queue.busy())
    assert (ended(container, "req-2"), cloud.settled(container).status) == (WELL["stop"], "Stopped")


def test_a_kill_that_comes_late_leaves_a_restart_alone(cloud, context, container):
    """The API accepts none during a restart; one that it accepted before may be a message that comes a second time."""
    cloud.accept_reboot(container)
    cloud.compute_api.reboot(asked("reboot", container, 2), container, timeout=HOUR)
    cloud.compute_api.kill(asked("kill", container, 3), container)
    assert ended(container, "req-3") == BADLY["kill"]
    assert cloud.drivers["one"].show(container).pid
    accept_delete(container)
    cloud.compute_api.delete(context, container, force=True)
    cloud.gone(container)


def test_a_second_stop_waits_for_the_first(cloud, container):
    """And finds nothing to stop. Whoever cannot wait kills."""
    stop(cloud, container)
    cloud.compute_api.stop(asked("stop", container, 3), container, timeout=0)
    cloud.compute_api.kill(asked("kill", container, 4), container)
    assert [ended(container, f"req-{number}") for number in (2, 3, 4)] == [WELL["stop"], BADLY["stop"], WELL["kill"]]


@pytest.mark.parametrize(
    "how", [{"force": True}, {"stop_timeout": 0}, {"force": True, "stop_timeout": 0}], ids=["force", "stop", "both"]
)
@pytest.mark.parametrize("action", ["stop", "reboot"])
def test_a_deletion_waits_for_no_stop(cloud, context, container, action, how):
    driver, usage, seen = cloud.drivers["one"], cloud.agents["one"].tracker, []
    driver.before("delete", lambda each: seen.append(each.uuid in usage.usage.owners))
    if action == "reboot":
        cloud.accept_reboot(container)
    begun = threading.Event()
    driver.before(action, lambda _: begun.set())
    getattr(cloud.compute_api, action)(asked(action, container, 2), container, timeout=HOUR)
    assert begun.wait(60)
    accept_delete(container)
    for _ in range(2):  # the message may come twice
        cloud.compute_api.delete(context, container, **how)
    cloud.gone(container)
    wait_for(lambda: not cloud.agents["one"].queue.busy())
    assert (driver.list(), list(usage.usage.owners), seen) == ({}, [], [True])


def test_a_deletion_whose_haste_fails_waits(cloud, context, container):
    stop(cloud, container)
    driver = cloud.drivers["one"]
    tried = threading.Event()
    driver.before("kill", lambda _: tried.set())
    driver.fail("kill", exceptions.Unavailable("Docker does not answer"))
    accept_delete(container)
    cloud.compute_api.delete(context, container, force=True)
    assert tried.wait(60)
    driver.exit(container.uuid, 137)
    cloud.gone(container)
    assert driver.list() == {}


@pytest.mark.parametrize("lost", [False, True], ids=["restarted", "compared"])
@pytest.mark.parametrize(("action", "how"), [("stop", "kill"), ("stop", "delete"), ("reboot", "delete")])
def test_what_is_taken_up_is_cut_short_as_well(cloud, context, container, monkeypatch, action, how, lost):
    """By the next agent, or by a comparison when the end could not be written."""
    monkeypatch.setattr(lifecycle, "STOP_TIMEOUT", HOUR)
    begun = threading.Event()
    cloud.drivers["one"].before(action, lambda _: begun.set())
    if not lost:
        cloud.stop_agent("one")
    if action == "reboot":
        cloud.accept_reboot(container)
    else:
        wanted("stop", container, 2, timeout=None)
        db.update(container.uuid, {"task_state": "container_stopping"})
    if lost:
        cloud.compared("one", begun.is_set)
    else:
        cloud.start_agent("one")
    assert begun.wait(60)
    if how == "kill":
        cloud.compute_api.kill(asked("kill", container, 3), container)
        assert (ended(container, "req-3"), cloud.settled(container).status) == (WELL["kill"], "Stopped")
        return
    accept_delete(container)
    cloud.compute_api.delete(context, container, force=True)
    cloud.gone(container)
    assert cloud.drivers["one"].list() == {}


def test_so_is_what_was_to_be_taken_up_as_something_else(cloud, container, monkeypatch):
    """A comparison had seen it in another state, and waited for who worked on it."""
    monkeypatch.setattr(lifecycle, "STOP_TIMEOUT", HOUR)
    agent, begun = cloud.agents["one"], threading.Event()
    cloud.drivers["one"].before("stop", lambda _: begun.set())
    with agent.queue.turn(key_of(container.uuid)):
        db.update(container.uuid, {"status": "Rebuilding"})
        agent._compare()
        wanted("stop", container, 2, timeout=None)
        db.update(container.uuid, {"status": "Running", "task_state": "container_stopping"})
    assert begun.wait(60)
    cloud.compute_api.kill(asked("kill", container, 3), container)
    assert (ended(container, "req-3"), cloud.settled(container).status) == (WELL["kill"], "Stopped")


def test_a_host_that_is_killed_meanwhile_goes_on(cloud, context, container):
    """Its next agent finds the row as the stop and the deletion left it."""
    cloud.stop_agent("one")
    db.update(container.uuid, {"status": "Deleting", "task_state": "container_stopping"})
    cloud.start_agent("one")
    cloud.gone(container)
    assert (cloud.drivers["one"].list(), list(cloud.agents["one"].tracker.usage.owners)) == ({}, [])


@pytest.fixture
def loop(cloud, context):
    """A container whose command fails at once, and whose restart policy has no end."""
    made = cloud.submit(context, command=["false"], restart_policy={"Name": "always", "MaximumRetryCount": "0"})
    wait_for(lambda: (row := db.get(made.uuid))["status"] == "Restarting" and row["task_state"] is None)
    return Container.get_by_uuid(context, made.uuid)


def test_a_loop_of_restarts_tells_the_exit_code(loop):
    assert (loop.exit_code, loop.status_reason) == (1, RESTARTS.format(1))


@pytest.mark.parametrize("signal", [None, "SIGTERM", "SIGHUP"])
def test_a_kill_ends_a_loop_of_restarts(cloud, loop, signal):
    cloud.compute_api.kill(asked("kill", loop, 3), loop, signal=signal)
    assert ended(loop, "req-3") == WELL["kill"]
    found = cloud.settled(loop)
    assert (found.status, found.status_reason, found.exit_code) == ("Stopped", None, 1)


def test_a_stop_ends_a_loop_of_restarts(cloud, loop):
    cloud.compute_api.stop(asked("stop", loop, 3), loop, timeout=10)
    assert ended(loop, "req-3") == WELL["stop"]
    assert cloud.settled(loop).status == "Stopped"


def test_a_delete_with_stop_ends_a_loop_of_restarts(cloud, context, loop):
    accept_delete(loop)
    cloud.compute_api.delete(context, loop, force=False, stop_timeout=10)
    cloud.gone(loop)


def test_a_stop_leaves_an_accepted_reboot_alone(cloud, container):
    cloud.stop_looking("one")
    cloud.accept_reboot(container)
    cloud.compute_api.stop(asked("stop", container, 3), container, timeout=10)
    assert ended(container, "req-3")[0] == "Error"
    row = db.get(container.uuid)
    assert (row["status"], row["task_state"]) == ("Restarting", "container_rebooting")
