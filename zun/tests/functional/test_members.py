# SPDX-License-Identifier: Apache-2.0
"""Actions on one container of a capsule: done in the turn of the capsule, recorded, and taken up after a crash."""

import threading
import time

import pytest

from zun.api import app as api_app
from zun.common import exceptions
from zun.common.context import admin_context
from zun.common.probes import GRACE, SIDECAR
from zun.common.states import Kind
from zun.compute.container.step import Do
from zun.db import capsules as db_capsules
from zun.db import container_actions as db_actions
from zun.db import containers as db
from zun.db import images as db_images
from zun.objects import Container
from zun.tests.fixtures import wait_for
from zun.tests.functional.api.client import Client
from zun.tests.functional.capsules import member, settled, submit
from zun.tests.functional.cloud import cloud_of, machine
from zun.tests.functional.over_api import OPTIONS, administrator_of
from zun.tests.host_in_memory import look_now
from zun.topology import CpuSet

IGNORES_TERM = ["sh", "-c", "trap '' TERM; sleep 1000"]
HOUR = 3600
ALWAYS = {"restart_policy": {"Name": "always", "MaximumRetryCount": "0"}}

cloud = cloud_of({"one": machine()}, compute__sync_container_state_interval=HOUR, **OPTIONS)


@pytest.fixture
def api(cloud, context):
    application = api_app.build(cloud.conf, scheduler_api=cloud.scheduler_api, compute_api=cloud.compute_api)
    return Client(application, user="demo", project=context.project_id, version="1.51")


@pytest.fixture
def driver(cloud):
    driver = cloud.drivers["one"]
    yield driver
    for uuid in driver.list():  # else whatever a failed test left would be waited for
        driver.exit(uuid)


def capsule(cloud, context, *members, **fields):
    """Return the uuid of a capsule that runs, and the uuids of its containers."""
    uuid = submit(cloud, context, *members, **fields)
    row, rows = settled(cloud, uuid, "Running", "Error")
    assert row["status"] == "Running", row["status_reason"]
    return uuid, [each["uuid"] for each in rows if each["kind"] == Kind.MEMBER]


def ask(api, uuid, path, status=202):
    reply = api.post(f"/v1/containers/{uuid}/{path}")
    assert reply.status == status, reply.body
    return reply


def outcome(api, uuid, action):
    """Wait for the end of the newest action of this name on the member, and return its message and its steps."""

    def ended():
        rows = api.get(f"/v1/containers/{uuid}/container_actions").json["containerActions"]
        newest = next(each for each in rows if each["action"] == action)
        found, steps = db_actions.find(uuid, newest["request_id"])
        return found["finish_time"] and (found["message"], [(each["event"], each["result"]) for each in steps])

    return wait_for(ended)


def well(action):
    return None, [(f"compute__do_container_{action}", "Success")]


def status(uuid):
    return db.get(uuid)["status"]


def test_every_action_is_done_and_recorded(api, cloud, context, driver):
    uuid, (first, second) = capsule(cloud, context, member(1.0), member(1.0))
    held = db.get(uuid)["cpuset"]
    for action, query, then in [
        ("pause", "", "Paused"),
        ("unpause", "", "Running"),
        ("reboot", "", "Running"),
        ("stop", "?timeout=1", "Stopped"),
        ("start", "", "Running"),
        ("kill", "", "Stopped"),
        ("reboot", "", "Running"),
    ]:
        ask(api, first, f"{action}{query}")
        assert outcome(api, first, action) == well(action), action
        wait_for(lambda then=then: status(first) == then)
        row, _ = settled(cloud, uuid, "Running")
        assert row["status_reason"] is None and row["cpuset"] == held
    assert status(second) == "Running" and driver.runtime.objects[second].restarts == 0
    image = ask(api, first, "commit?repository=mine&tag=1").json["uuid"]
    assert outcome(api, first, "commit") == well("commit")
    assert db_images.get(image)["status"] == "Available"
    ended = [each["action"] for each in db_actions.of_container(first)]
    assert ended == ["commit", "reboot", "kill", "start", "stop", "reboot", "unpause", "pause"]
    assert cloud.compute_api.audit(admin_context(), "one", repair=False)["findings"] == []
    assert cloud.agents["one"].tracker.usage.owners == (uuid,)


def test_status_of_capsule_follows_its_members(api, cloud, context):
    uuid, members = capsule(cloud, context, member(1.0), member(1.0))
    ask(api, members[0], "stop")
    outcome(api, members[0], "stop")
    assert settled(cloud, uuid, "Running")
    ask(api, members[1], "kill")
    row, _ = settled(cloud, uuid, "Stopped")
    assert row["cpuset"] is not None
    ask(api, members[1], "start")
    assert settled(cloud, uuid, "Running")


@pytest.mark.parametrize("end", ["stop?timeout=1", "kill"])
@pytest.mark.parametrize("by", ["network", "agent"])
def test_stopped_member_stays_stopped(api, cloud, context, driver, end, by):
    """Its policy starts what ended by itself: not what somebody has ended, also if the others join a new network."""
    uuid, (stopped, other) = capsule(cloud, context, member(1.0, **ALWAYS), member(1.0, **ALWAYS), **ALWAYS)
    ask(api, stopped, end)
    assert outcome(api, stopped, end.partition("?")[0])[0] is None
    objects = driver.runtime.objects
    if by == "agent":
        cloud.stop_agent("one")
    driver.exit(uuid, 137)
    if by == "agent":
        cloud.start_agent("one")
    wait_for(lambda: objects[other].started_at > objects[uuid].started_at)
    settled(cloud, uuid, "Running")
    assert (status(stopped), objects[stopped].pid, status(other)) == ("Stopped", 0, "Running")
    ask(api, stopped, "start")
    assert outcome(api, stopped, "start") == well("start")
    driver.exit(uuid, 137)  # from now on it is to run again
    wait_for(lambda: objects[stopped].started_at > objects[uuid].started_at)


def test_start_of_a_member_starts_the_network_before(api, cloud, context, driver):
    never = {"restart_policy": {"Name": "no", "MaximumRetryCount": "0"}}
    uuid, (first, second) = capsule(cloud, context, member(1.0, **never), member(1.0, **never), **never)
    for each in (first, second, uuid):  # as a boot of the host ends them
        driver.exit(each, 137)
    settled(cloud, uuid, "Stopped")
    wait_for(lambda: {status(first), status(second)} == {"Stopped"})
    order = []
    driver.before("start", lambda container: order.append(container.uuid))
    ask(api, first, "start")
    assert outcome(api, first, "start") == well("start")
    settled(cloud, uuid, "Running")
    assert order == [uuid, first] and status(second) == "Stopped"


def test_stop_waits_as_long_as_the_template_says(api, cloud, context):
    _, (stubborn,) = capsule(cloud, context, member(1.0, command=IGNORES_TERM, request={"run": True, "grace": 1}))
    ask(api, stubborn, "stop")
    assert outcome(api, stubborn, "stop") == well("stop")
    (asked,) = db_actions.of_container(stubborn)
    assert asked["arguments"] == {"timeout": 1} and status(stubborn) == "Stopped"


def test_sidecar_runs_with_those_that_it_serves(api, cloud, context, driver):
    sidecar = {"request": {"run": True, SIDECAR: True}, **ALWAYS}
    uuid, (proxy, served) = capsule(cloud, context, member(1.0, **sidecar), member(1.0))
    for then in ("Stopped", "Running", "Stopped"):
        ask(api, served, "start" if then == "Running" else "stop")
        wait_for(lambda then=then: (status(served), status(proxy)) == (then, then))
        settled(cloud, uuid, then)
    assert db.get(proxy)["request"]["run"] is True  # nobody but the service stopped it
    ask(api, served, "start")
    wait_for(lambda: (status(served), status(proxy)) == ("Running", "Running"))
    ask(api, proxy, "stop")
    outcome(api, proxy, "stop")
    ask(api, served, "reboot")
    assert outcome(api, served, "reboot") == well("reboot")
    assert status(proxy) == "Stopped"


def with_slow_sidecars(cloud, context, driver, count=1, **served):
    """Return the uuids of a capsule, its sidecars, which start up when port 80 answers, and two containers."""
    startup = {"tcpSocket": {"port": 80}, "periodSeconds": 0.02, "timeoutSeconds": 5, "failureThreshold": 100000}
    request = {"run": True, SIDECAR: True, "probes": {"startup": startup}}
    others = [member(1.0, **served), member(1.0, **served)]
    uuid = submit(cloud, context, *(member(1.0, request=request, **ALWAYS) for _ in range(count)), *others)
    rows = db_capsules.members([uuid])[uuid]
    for each in rows[:count]:
        wait_for(lambda each=each: running(driver, each["uuid"]))
        driver.answer(each["uuid"], 80, b"")
    settled(cloud, uuid, "Running")
    return uuid, *(each["uuid"] for each in rows)


def running(driver, uuid):
    found = driver.runtime.objects.get(uuid)
    return found is not None and bool(found.pid)


def stop_all(api, driver, sidecars, served):
    """Stop the containers, so that their sidecars are stopped as well. These do not start up as before."""
    for each in served:
        ask(api, each, "stop")
        outcome(api, each, "stop")
    for each in sidecars:
        wait_for(lambda each=each: status(each) == "Stopped")
        driver.answer(each, 80, None)


def waits_for(sidecar):
    name = db.get(sidecar)["name"]
    return lambda uuid: db.get(uuid)["status_reason"] == f"The start-up probe of sidecar {name} has not succeeded yet."


@pytest.mark.parametrize("action", ["start", "reboot"])
def test_started_member_finds_its_sidecar_started_up(api, cloud, context, driver, action):
    """One after the other, as when the capsule is created; the row says what the member waits for."""
    uuid, first, second, one, two = with_slow_sidecars(cloud, context, driver, count=2)
    stop_all(api, driver, [first, second], [one, two])
    ask(api, one, action)
    for sidecar in (first, second):
        wait_for(lambda sidecar=sidecar: waits_for(sidecar)(one))
        look_now(cloud.agents["one"].parts, uuid)
        assert running(driver, sidecar) and not running(driver, one)
        assert running(driver, second) is (sidecar == second)
        assert db.get(one)["task_state"] == ("container_starting" if action == "start" else "container_rebooting")
        driver.answer(sidecar, 80, b"")
    assert outcome(api, one, action) == well(action)
    wait_for(lambda: (status(one), db.get(one)["task_state"], db.get(one)["status_reason"]) == ("Running", None, None))
    assert status(two) == "Stopped"
    ask(api, one, "reboot")  # what runs is restarted at once
    assert outcome(api, one, "reboot") == well("reboot")


def test_nothing_else_waits_for_a_sidecar_that_starts_up(api, cloud, context, driver):
    _, sidecar, one, two = with_slow_sidecars(cloud, context, driver)
    stop_all(api, driver, [sidecar], [one, two])
    ask(api, one, "start")
    wait_for(lambda: waits_for(sidecar)(one))
    image = ask(api, two, "commit?repository=mine&tag=1").json["uuid"]
    assert outcome(api, two, "commit") == well("commit") and db_images.get(image)["status"] == "Available"
    ask(api, sidecar, "kill")  # from now on it is not to run, and nobody waits for it
    assert outcome(api, sidecar, "kill") == well("kill")
    assert outcome(api, one, "start") == well("start")
    assert (status(one), status(sidecar)) == ("Running", "Stopped")


@pytest.mark.parametrize("then", ["deleted", "restarted agent", "sidecar ends", "cannot start"])
def test_start_that_waits_for_a_sidecar(api, cloud, context, driver, then):
    uuid, sidecar, one, two = with_slow_sidecars(cloud, context, driver)
    stop_all(api, driver, [sidecar], [one, two])
    if then == "cannot start":
        for action in ("start", "reboot"):
            driver.fail("start", exceptions.DockerError(error="no such file: /proxy"))
            ask(api, one, action)
            assert outcome(api, one, action)[0] == "Error"
            assert not running(driver, one)  # which nobody may start before the sidecar
            wait_for(lambda: "no such file: /proxy" in (db.get(one)["status_reason"] or ""))
            assert db.get(one)["task_state"] is None
        ask(api, one, "start")
        wait_for(lambda: running(driver, sidecar))
        driver.answer(sidecar, 80, b"")
        assert outcome(api, one, "start") == well("start") and settled(cloud, uuid, "Running")
        return
    ask(api, one, "start")
    wait_for(lambda: waits_for(sidecar)(one))
    row = Container.from_row(context, db.get(uuid))
    if then == "deleted":
        assert api.delete(f"/v1/capsules/{uuid}").status == 204
        cloud.gone(row)
        assert driver.list() == {}
        return
    if then == "restarted agent":
        cloud.stop_agent("one")
        cloud.start_agent("one")
        assert not running(driver, one)
    else:
        begun = driver.runtime.objects[sidecar].started_at
        driver.exit(sidecar, 1)  # the runtime starts it again
        wait_for(lambda: driver.runtime.objects[sidecar].started_at > begun)
        assert not running(driver, one)
    driver.answer(sidecar, 80, b"")
    assert outcome(api, one, "start") == well("start")
    assert settled(cloud, uuid, "Running")[0]["status_reason"] is None


def test_paused_sidecar_keeps_the_one_before(api, cloud, context, driver):
    _, first, second, one, two = with_slow_sidecars(cloud, context, driver, count=2)
    ask(api, second, "pause")
    assert outcome(api, second, "pause") == well("pause")
    for each in (one, two):
        ask(api, each, "stop")
        assert outcome(api, each, "stop") == well("stop")
    look_now(cloud.agents["one"].parts, db.get(one)["capsule_uuid"])
    assert (status(first), status(second)) == ("Running", "Paused")
    stopped = []
    driver.before("stop", lambda container: stopped.append(container.uuid))
    ask(api, second, "unpause")
    wait_for(lambda: stopped == [second, first])
    wait_for(lambda: status(first) == "Stopped")


def test_sidecar_that_ended_unseen_has_to_start_up_again(api, cloud, context, driver):
    """Its row says yet that it runs and is ready."""
    _, sidecar, one, two = with_slow_sidecars(cloud, context, driver)
    stop_all(api, driver, [sidecar], [one, two])
    unseen = Container.from_row(context, db.get(sidecar))
    unseen.status, unseen.status_detail = "Running", "ready"
    unseen.save()
    ask(api, one, "start")
    wait_for(lambda: waits_for(sidecar)(one))
    assert running(driver, sidecar) and not running(driver, one)
    driver.answer(sidecar, 80, b"")
    assert outcome(api, one, "start") == well("start")


def test_reboot_that_comes_in_the_turn_of_another_member_waits_too(api, cloud, context, driver):
    """The look has read the rows of all members before."""
    uuid, sidecar, one, two = with_slow_sidecars(cloud, context, driver)
    stop_all(api, driver, [sidecar], [one, two])
    asked = []
    driver.before("start", lambda container: asked or asked.append(ask(api, two, "reboot")))
    ask(api, one, "start")
    wait_for(lambda: waits_for(sidecar)(one) and waits_for(sidecar)(two))
    assert not running(driver, two)
    driver.answer(sidecar, 80, b"")
    assert outcome(api, two, "reboot") == well("reboot") and outcome(api, one, "start") == well("start")
    settled(cloud, uuid, "Running")


def test_member_that_waits_does_not_join_a_new_network_before(api, cloud, context, driver):
    uuid, sidecar, one, two = with_slow_sidecars(cloud, context, driver, **ALWAYS)
    for each in (one, two, sidecar, uuid):  # by the engine's own client, so that all of them are to run
        driver.stop(Container.from_row(context, db.get(each)))
    wait_for(lambda: {status(each) for each in (one, two, sidecar)} == {"Stopped"})
    driver.answer(sidecar, 80, None)
    ask(api, one, "start")
    wait_for(lambda: waits_for(sidecar)(one))
    wait_for(lambda: running(driver, two))  # the look that has joined others has come to an end then
    look_now(cloud.agents["one"].parts, uuid)
    assert not running(driver, one)
    driver.answer(sidecar, 80, b"")
    assert outcome(api, one, "start") == well("start")
    settled(cloud, uuid, "Running")


@pytest.mark.parametrize("timeout", [5, HOUR])
def test_kill_ends_a_stop_that_waits(api, cloud, context, timeout):
    _, (stubborn, other) = capsule(cloud, context, member(1.0, command=IGNORES_TERM), member(1.0, **ALWAYS))
    ask(api, stubborn, f"stop?timeout={timeout}")
    wait_for(lambda: db.get(stubborn)["task_state"] == "container_stopping")
    ask(api, other, "kill")  # of another member, which is not stopped
    assert outcome(api, other, "kill") == well("kill")
    assert db.get(stubborn)["task_state"] == "container_stopping"
    ask(api, stubborn, "kill")
    assert (outcome(api, stubborn, "kill"), outcome(api, stubborn, "stop")) == (well("kill"), well("stop"))
    wait_for(lambda: (status(stubborn), status(other)) == ("Stopped", "Stopped"))
    assert db.get(other)["request"]["run"] is False


def test_capsule_shows_what_an_action_waits_for(api, cloud, context, driver, monkeypatch):
    monkeypatch.setattr("zun.compute.endpoint.PATIENCE", 0.1)
    uuid, (stubborn, other) = capsule(cloud, context, member(1.0, command=IGNORES_TERM), member(1.0))
    ask(api, stubborn, f"stop?timeout={HOUR}")
    wait_for(lambda: db.get(stubborn)["task_state"] == "container_stopping")
    ask(api, other, "pause")
    shown = api.get(f"/v1/capsules/{uuid}").json["containers"]
    assert {each["uuid"]: each["task_state"] for each in shown} == {stubborn: "container_stopping", other: None}
    reply = resize(api, other, cpu=1, memory=32)
    assert reply.refusal == (409, "container-busy")
    assert f"({other}) is busy: the task_state of container {db.get(stubborn)['name']} ({stubborn}), which is in the " \
           "same capsule, is container_stopping; try again when it has none" in reply.error["detail"]
    ask(api, stubborn, "kill")
    assert (outcome(api, stubborn, "stop"), outcome(api, other, "pause")) == (well("stop"), well("pause"))


@pytest.mark.parametrize("first", ["stop", "deletion"])
def test_deletion_of_the_capsule_does_not_wait_for_a_stop(api, cloud, context, driver, first):
    """Also for a second stop, which waits behind the first."""
    uuid, members = capsule(cloud, context, *(member(1.0, command=IGNORES_TERM) for _ in range(2)))
    for each in members:
        ask(api, each, f"stop?timeout={HOUR}")
    wait_for(lambda: db.get(members[0])["task_state"] == "container_stopping")
    row = Container.from_row(context, db.get(uuid))
    assert api.delete(f"/v1/capsules/{uuid}").status == 204
    cloud.gone(row)
    assert driver.list() == {} and db_capsules.members([uuid])[uuid] == []


@pytest.mark.parametrize("action", ["stop", "reboot"])
def test_graceful_deletion_takes_one_grace_period_beside_a_stop(api, cloud, context, driver, action):
    """Each of the three, the sidecar among them, would take a grace period of its own; so would a restarted one."""
    grace, told = 3, []
    stubborn = {"command": IGNORES_TERM, "request": {"run": True, GRACE: grace}}
    sidecar = {**stubborn, "request": {"run": True, SIDECAR: True}, **ALWAYS}
    uuid, members = capsule(
        cloud, context, member(1.0, **sidecar), member(1.0, **stubborn), member(1.0, **stubborn),
        request={"run": True, GRACE: grace},
    )  # fmt: skip
    _, one, _ = members
    begun = threading.Event()
    driver.before(action, lambda container: begun.set())
    ask(api, one, f"{action}?timeout={HOUR}")
    assert begun.wait(60)
    row = Container.from_row(context, db.get(uuid))
    driver.before("delete", lambda container: told.append(time.monotonic()))
    began = time.monotonic()
    assert api.delete(f"/v1/capsules/{uuid}").status == 204
    cloud.gone(row)
    assert grace - 1 < told[0] - began < grace * 1.6 and driver.list() == {}


def test_deletion_tells_all_containers_to_end_while_one_is_stopped(api, cloud, context, driver):
    """And a second deletion, in a hurry, is heard meanwhile."""
    told = set()
    stubborn = {"command": IGNORES_TERM, "request": {"run": True, GRACE: HOUR}}
    uuid, (one, two) = capsule(
        cloud, context, member(1.0, **stubborn), member(1.0, **stubborn), request={"run": True, GRACE: HOUR}
    )
    ask(api, one, "stop")
    wait_for(lambda: db.get(one)["task_state"] == "container_stopping")
    driver.before("stop", lambda container: told.add(container.uuid))
    row = Container.from_row(context, db.get(uuid))
    assert api.delete(f"/v1/capsules/{uuid}").status == 204
    wait_for(lambda: told == {one, two})
    assert running(driver, one) and running(driver, two)
    assert api.delete(f"/v1/capsules/{uuid}?force=true").status == 204
    cloud.gone(row)
    assert driver.list() == {}


@pytest.mark.parametrize("policy", ["always", "no"])
@pytest.mark.parametrize("then", ["kill", "delete"])
def test_nobody_waits_for_the_grace_period_after_a_failed_probe(api, cloud, context, driver, policy, then):
    probe = {"tcpSocket": {"port": 80}, "periodSeconds": 0.02, "timeoutSeconds": 5, "failureThreshold": 1}
    request = {"run": True, "grace": HOUR, "probes": {"liveness": probe}}
    restart = {"restart_policy": {"Name": policy, "MaximumRetryCount": "0"}}
    uuid, (stubborn, _) = capsule(
        cloud, context, member(1.0, command=IGNORES_TERM, request=request, **restart), member(1.0)
    )
    wait_for(lambda: db.get(stubborn)["task_state"] is not None)
    pid = driver.runtime.objects[stubborn].pid
    if then == "kill":
        ask(api, stubborn, "kill")
        assert outcome(api, stubborn, "kill") == well("kill")
        wait_for(lambda: driver.runtime.objects[stubborn].pid != pid)
    row = Container.from_row(context, db.get(uuid))
    assert api.delete(f"/v1/capsules/{uuid}").status == 204
    cloud.gone(row)
    assert driver.list() == {}


def test_members_of_one_capsule_do_not_wait_for_another(api, cloud, context):
    _, (stubborn,) = capsule(cloud, context, member(1.0, command=IGNORES_TERM))
    _, (other,) = capsule(cloud, context, member(1.0))
    ask(api, stubborn, f"stop?timeout={HOUR}")
    wait_for(lambda: db.get(stubborn)["task_state"] == "container_stopping")
    ask(api, other, "stop")
    assert outcome(api, other, "stop") == well("stop")
    ask(api, stubborn, "kill")
    outcome(api, stubborn, "stop")


@pytest.mark.parametrize(("action", "then"), [("stop", "Stopped"), ("reboot", "Running"), ("pause", "Paused")])
def test_lost_message_costs_time_and_nothing_else(api, cloud, context, monkeypatch, action, then):
    uuid, (only,) = capsule(cloud, context, member(1.0))
    monkeypatch.setattr(cloud.compute_api, "act", lambda *_arguments: None)
    ask(api, only, action)
    cloud.agents["one"]._compare()
    assert outcome(api, only, action) == well(action)
    wait_for(lambda: status(only) == then)
    assert settled(cloud, uuid, "Running", "Stopped")


@pytest.mark.parametrize(("action", "then"), [("stop", "Stopped"), ("reboot", "Running")])
def test_restarted_agent_takes_the_action_up(api, cloud, context, driver, action, then):
    """The agent died when the runtime had done it, and before the row said so."""
    uuid, (only,) = capsule(cloud, context, member(1.0))
    cloud.stop_agent("one")
    ask(api, only, action)
    if action == "stop":
        container = Container.from_row(context, db.get(only))
        container.task_state = "container_stopping"
        container.save()
        driver.kill(container)
    cloud.start_agent("one")
    assert outcome(api, only, action) == well(action)
    wait_for(lambda: (status(only), db.get(only)["task_state"]) == (then, None))
    assert settled(cloud, uuid, then)
    assert db.get(only)["request"]["run"] is (action == "reboot")


def test_action_that_came_too_late_says_so(api, cloud, context, driver, monkeypatch):
    _, (only,) = capsule(cloud, context, member(1.0))
    driver.cut_events()
    with monkeypatch.context() as lost:
        lost.setattr(cloud.compute_api, "act", lambda *_arguments: None)
        ask(api, only, "pause")
        container = Container.from_row(context, db.get(only))
        container.status = "Stopped"
        container.save()
    look_now(cloud.agents["one"].parts, only)
    message, [(event, result)] = outcome(api, only, "pause")
    assert (message, event, result) == ("Error", "compute__do_container_pause", "Error")


def test_failed_start_of_a_member_shows_at_the_capsule(api, cloud, context, driver):
    uuid, (first, second) = capsule(cloud, context, member(1.0), member(1.0))
    ask(api, first, "stop")
    outcome(api, first, "stop")
    driver.fail("start", exceptions.DockerError(error="no such file: /app"))
    ask(api, first, "start")
    assert outcome(api, first, "start")[0] == "Error"
    row, _ = settled(cloud, uuid, "Error")
    assert "no such file: /app" in row["status_reason"] and db.get(first)["name"] in row["status_reason"]
    assert status(second) == "Running"
    ask(api, first, "start")
    row, _ = settled(cloud, uuid, "Running")
    assert row["status_reason"] is None


def test_member_that_fails_again_and_again_ends_in_an_error(api, cloud, context, monkeypatch):
    """The other member's action is done."""
    uuid, (broken, other) = capsule(cloud, context, member(1.0), member(1.0))
    performs = cloud.agents["one"].parts.road._performs
    pause = performs[Do.PAUSE]

    def fail(context, container, step):
        if container.uuid == broken:
            raise ZeroDivisionError("division by zero")
        pause(context, container, step)

    monkeypatch.setitem(performs, Do.PAUSE, fail)
    monkeypatch.setattr("zun.compute.work.queue.LONGEST_DELAY", 0.01)
    ask(api, broken, "pause")
    message, _ = outcome(api, broken, "pause")
    assert message == "Error"
    wait_for(lambda: "division by zero" in (db.get(broken)["status_reason"] or ""))
    ask(api, other, "pause")
    assert outcome(api, other, "pause") == well("pause")
    assert settled(cloud, uuid, "Running")


def test_crashing_member_is_shown_as_it_is(cloud, context, driver):
    """The runtime starts it again and again; the row is not left at Restarting."""
    _, (only,) = capsule(cloud, context, member(1.0, **ALWAYS))
    row = Container.from_row(context, db.get(only))
    row.status = "Restarting"
    row.save()
    look_now(cloud.agents["one"].parts, only)
    assert status(only) == "Running"


@pytest.mark.parametrize(
    ("verb", "path", "said"),
    [
        ("DELETE", "", "capsule delete"),
        ("PATCH", "?name=other", "Only its cpu and memory"),
        ("PATCH", "?cpu=1&auto_heal=true", "Only its cpu and memory"),
        ("PATCH", "?cpu_policy=shared", "Only its cpu and memory"),
        ("PATCH", "?cpu=2", "can have 1 CPU and 64 MiB at most"),
        ("PATCH", "?memory=65", "can have 1 CPU and 64 MiB at most"),
        ("POST", "/rebuild", "Create the capsule anew"),
        ("POST", "/resize_container?cpu_policy=shared", "Only its cpu and memory"),
        ("POST", "/network_attach?network=default", "were chosen when"),
        ("POST", "/network_detach?network=default", "were chosen when"),
    ],
)
def test_what_only_the_capsule_has_is_refused_with_what_to_do(api, cloud, context, verb, path, said):
    uuid, (only,) = capsule(cloud, context, member(1.0))
    before = db.get(only)
    reply = api.send(verb, f"/v1/containers/{only}{path}")
    assert reply.refusal == (409, "conflict"), reply.body
    assert said in reply.error["detail"] and (uuid in reply.error["detail"] or "cpu=" in path or "memory=" in path)
    assert db.get(only) == before


def test_administrator_cannot_move_a_member(cloud, context):
    _, (only,) = capsule(cloud, context, member(1.0))
    reply = administrator_of(cloud).post(f"/v1/containers/{only}/move")
    assert reply.status == 409 and "stays on its host" in reply.error["detail"]


def test_status_that_does_not_allow_the_action_is_told(api, cloud, context):
    _, (only,) = capsule(cloud, context, member(1.0))
    for action in ("start", "unpause"):
        reply = api.post(f"/v1/containers/{only}/{action}")
        assert reply.status == 409 and "Running state" in reply.error["detail"]


def test_init_container_runs_once(api, cloud, context, driver):
    uuid = submit(cloud, context, member(1.0, kind=Kind.INIT, command=["sleep", "7"]), member(1.0))
    init, _ = db_capsules.members([uuid])[uuid]
    wait_for(lambda: status(init["uuid"]) == "Running")
    reply = api.post(f"/v1/containers/{init['uuid']}/reboot")
    assert reply.status == 409 and "runs once" in reply.error["detail"]
    ask(api, init["uuid"], "kill")  # of one that does not come to its end
    row, _ = settled(cloud, uuid, "Error")
    assert "exit code 137" in row["status_reason"]


def test_capsule_that_is_being_deleted_takes_no_action(api, cloud, context, monkeypatch):
    uuid, (only,) = capsule(cloud, context, member(1.0))
    cloud.stop_agent("one")
    assert api.delete(f"/v1/capsules/{uuid}").status == 204
    reply = api.post(f"/v1/containers/{only}/stop")
    assert reply.refusal == (409, "conflict") and "being deleted" in reply.error["detail"]
    cloud.start_agent("one")
    wait_for(lambda: not db.of_uuids([uuid]))


def test_others_do_not_reach_a_member(api, cloud, context):
    _, (only,) = capsule(cloud, context, member(1.0))
    stranger = api.in_project("other")
    for verb, path in (("POST", "/stop"), ("DELETE", ""), ("GET", "/container_actions")):
        assert stranger.send(verb, f"/v1/containers/{only}{path}").status == 404
    assert status(only) == "Running"


def test_hosts_of_the_release_before_are_not_asked(api, cloud, context, monkeypatch):
    _, (only,) = capsule(cloud, context, member(1.0))
    monkeypatch.setattr(cloud.compute_api, "can_act", lambda action, *, member=False: not member)
    reply = api.post(f"/v1/containers/{only}/stop")
    assert reply.refusal == (409, "conflict") and "upgrade_levels" in reply.error["detail"]


def sizes(cloud, uuids):
    """Return CPUs, MiB and cpuset_cpus of each container. Row and runtime must agree."""
    found = []
    for uuid in uuids:
        row, made = db.get(uuid), cloud.drivers["one"].runtime.objects[uuid]
        assert row["cpuset"]["cpuset_cpus"] == made.cpuset_cpus and made.memory == row["memory"]
        found.append((row["cpu"], row["memory"], CpuSet(made.cpuset_cpus)))
    return found


def resize(api, uuid, **size):
    query = "&".join(f"{name}={value}" for name, value in size.items())
    return api.patch(f"/v1/containers/{uuid}?{query}")


def test_dedicated_containers_share_out_the_claim_anew(api, cloud, context):
    """No scheduler is asked, nobody else notices, and a container keeps its CPUs as far as it can."""
    uuid, (one, two) = capsule(cloud, context, member(3.0, 96), member(1.0, 32))
    claim, generation = db.get(uuid)["cpuset"], cloud.agents["one"].tracker.generation
    (_, _, before), (_, _, other) = sizes(cloud, [one, two])
    reply = resize(api, two, cpu=2)
    assert reply.status == 409 and "can have 1 CPU and 32 MiB at most" in reply.error["detail"]
    assert resize(api, one, cpu=2, memory=64).json["cpu"] == 2
    assert resize(api, two, cpu=2, memory=64).json["memory"] == "64"
    (first, second) = sizes(cloud, [one, two])
    assert (first[:2], second[:2]) == ((2.0, 64), (2.0, 64))
    assert first[2] < before and other < second[2] and not first[2] & second[2]
    assert first[2] | second[2] == CpuSet(claim["cpuset_cpus"])
    assert (db.get(uuid)["cpuset"], cloud.agents["one"].tracker.generation) == (claim, generation)
    assert db.get(uuid)["cpu"] == 4.0
    audit = cloud.compute_api.audit(admin_context(), "one", repair=False)
    assert audit["findings"] == []


def test_shared_containers_share_out_the_claim_anew(api, cloud, context):
    _, (one, two) = capsule(cloud, context, member(1.5, 96, policy="shared"), member(0.5, policy="shared"),
                            policy="shared")  # fmt: skip
    assert resize(api, two, cpu=0.6).status == 409
    assert resize(api, one, cpu=1, memory=32).status == 200
    assert resize(api, two, cpu=1, memory=128).status == 200
    assert [each[:2] for each in sizes(cloud, [one, two])] == [(1.0, 32), (1.0, 128)]
    assert cloud.drivers["one"].runtime.objects[two].cpu == 1.0


def test_failed_resize_of_a_member_leaves_everything(api, cloud, context, driver):
    _, (one, two) = capsule(cloud, context, member(2.0), member(1.0))
    before = sizes(cloud, [one, two])
    driver.fail("update", exceptions.DockerError(error="no"))
    assert resize(api, one, cpu=1).status == 500
    assert sizes(cloud, [one, two]) == before


def test_resize_of_a_member_is_an_action_too(api, cloud, context):
    _, (one, two) = capsule(cloud, context, member(2.0), member(1.0))
    ask(api, one, "resize_container?cpu=1")
    assert outcome(api, one, "resize_container")[0] is None
    ask(api, two, "resize_container?cpu=3")
    assert outcome(api, two, "resize_container") == ("Error", [("compute__do_container_resize", "Error")])
    assert [each[0] for each in sizes(cloud, [one, two])] == [1.0, 1.0]


def test_members_that_differ_are_resized_within_their_part(api, cloud, context):
    box = {"image": "demo", "resources": {"requests": {"cpu": 1, "memory": 64}}}
    own = {**box, "resources": {"requests": {"cpu": 2, "memory": 64}}, "placement": {"cpu_policy": "dedicated"}}
    spec = {"containers": [own, box, box]}
    template = {"kind": "capsule", "metadata": {"name": "pod"}, "spec": spec}
    uuid = api.post("/v1/capsules", {"template": template}).json["uuid"]
    _, rows = settled(cloud, uuid, "Running")
    dedicated, one, two = (each["uuid"] for each in rows)
    assert resize(api, one, cpu=0.5).status == 200 and resize(api, two, cpu=1.5).status == 200
    reply = resize(api, dedicated, cpu=3)
    assert reply.status == 409 and "can have 2 CPUs and 64 MiB at most" in reply.error["detail"]
    assert resize(api, dedicated, cpu=1).status == 200
    assert resize(api, two, cpu=2).status == 409  # what a dedicated one leaves is no part of the pool
    assert [each[0] for each in sizes(cloud, [dedicated])] == [1.0]


def test_no_container_gets_the_memory_of_a_volume(api, cloud, context):
    box = {"image": "demo", "resources": {"requests": {"cpu": 1, "memory": 64}}}
    own = {**box, "placement": {"cpu_policy": "dedicated"}, "volumeMounts": [{"name": "fast", "mountPath": "/v"}]}
    volumes = [{"name": "fast", "emptyDir": {"medium": "Memory", "sizeLimit": "32M"}}]
    template = {"kind": "capsule", "metadata": {"name": "pod"}, "spec": {"containers": [own, box], "volumes": volumes}}
    row, rows = settled(cloud, api.post("/v1/capsules", {"template": template}).json["uuid"], "Running")
    for each in rows:
        reply = resize(api, each["uuid"], memory=65)
        assert reply.status == 409 and "can have 1 CPU and 64 MiB at most" in reply.error["detail"]
        assert resize(api, each["uuid"], memory=48).status == 200
        assert resize(api, each["uuid"], memory=64).status == 200
    assert db.get(row["uuid"])["cpuset"] == row["cpuset"]
