# SPDX-License-Identifier: Apache-2.0
"""Moves of containers from one host to another one: the way there, and the way back."""

import threading

import pytest
from oslo_db import exception as db_exc

from zun.common import exceptions
from zun.common.departures import DEPARTED, uuid_of_left
from zun.db import container_actions as db_actions
from zun.db import containers as db
from zun.db import departures, evacuations, services
from zun.objects import Container
from zun.objects.placement import held_plan
from zun.scheduler.service import SchedulerService
from zun.tests.fixtures import wait_for
from zun.tests.functional.departures import (
    actions,
    api,
    close,
    cloud,
    container,
    holders,
    leaves,
    running_on,
    settled,
)
from zun.topology import CpuSet

__all__ = ["api", "cloud", "container"]


def test_a_container_moves_to_the_other_host(cloud, context, container):
    leaves(cloud, context, container)
    row = settled(cloud, container)
    assert (row["host"], row["status"], row["request"]["run"]) == ("two", "Running", True)
    assert actions(container) == [("leave", None), ("create", None)]
    assert wait_for(lambda: not holders(cloud, "one"))
    assert holders(cloud, "two") == {container.uuid: held_plan(row).cpus}
    assert cloud.drivers["one"].show(container) is None
    assert cloud.drivers["two"].show(container).pid

def test_what_it_held_is_held_until_it_is_there(cloud, context, container):
    held = []
    cpus = held_plan(container).cpus
    cloud.drivers["two"].before("start", lambda _: held.append(holders(cloud, "one")))
    leaves(cloud, context, container)
    settled(cloud, container)
    assert held == [{uuid_of_left(container.uuid, "one"): cpus}]


@pytest.mark.parametrize("how", ["create", "start", "ends", "full", "mismatch"])
def test_a_container_that_cannot_be_there_comes_back(cloud, context, container, how):
    object_before = cloud.drivers["one"].show(container).container_id
    two = cloud.drivers["two"]
    if how in ("create", "start"):
        two.fail(how, exceptions.DockerError(error="no"))
    elif how == "full":
        running_on(cloud, context, "two", cpu=4.0)
    elif how == "mismatch":
        two.disobey(container.uuid, cpus=CpuSet([0, 1, 2, 3]))
    else:
        two.before("show", lambda _: container.uuid in two.runtime.objects and two.exit(container.uuid, 3))
    leaves(cloud, context, container)
    row = settled(cloud, container)
    assert (row["host"], row["status"]) == ("one", "Running")
    assert row["status_reason"] is None or row["status_reason"].startswith("It could not move")
    assert cloud.drivers["one"].show(container).container_id == object_before
    assert holders(cloud, "one") == {container.uuid: held_plan(container).cpus}
    assert wait_for(lambda: container.uuid not in holders(cloud, "two"))
    assert actions(container) == [("leave", "Error"), ("create", actions(container)[1][1]), ("start", None)]


def test_a_stopped_container_is_made_there_and_not_started(cloud, context, container):
    cloud.compute_api.stop(context, container)
    wait_for(lambda: db.get(container.uuid)["status"] == "Stopped")
    leaves(cloud, context, container, run=False)
    row = settled(cloud, container)
    assert (row["host"], row["status"]) == ("two", "Created")
    assert actions(container)[1:] == [("leave", None), ("create", None)]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"request": {"run": True, "host": "one"}}, "it was asked for on this host"),
        ({"mounts": [{"type": "local", "destination": "/d", "size_mib": 1024}]}, "it mounts volumes"),
        ({"placement": {"movable": False}}, "it is not movable"),
        ({"auto_remove": True}, "it removes itself"),
    ],
)
def test_what_is_tied_to_its_host_goes_on_there(cloud, context, container, values, reason):
    """Nothing of it was known when the move was accepted."""
    cloud.drivers["one"].before("stop", lambda _: db.update(container.uuid, values))
    leaves(cloud, context, container)
    row = settled(cloud, container)
    assert (row["host"], row["status"]) == ("one", "Running")
    (action,) = db_actions.of_container(container.uuid)[:1]
    _, (step,) = db_actions.find(container.uuid, action["request_id"])
    assert (action["action"], action["message"]) == ("leave", "Error") and reason in step["traceback"]
    assert cloud.drivers["one"].show(container).pid


@pytest.mark.parametrize("fails", [False, True])
def test_what_it_has_written_moves_along(cloud, context, container, fails):
    cloud.drivers["one"].runtime.objects[container.uuid].layer = b"a tar"
    if fails:
        cloud.drivers["two"].fail("put_archive", exceptions.DockerError(error="no"))
    leaves(cloud, context, container, discard_layer=False)
    row = settled(cloud, container)
    assert row["host"] == ("one" if fails else "two")
    assert cloud.drivers[row["host"]].runtime.objects[container.uuid].layer == b"a tar"
    assert departures.layer_of(container.uuid) is None


def test_a_container_that_has_written_much_stays_unless_that_may_be_lost(cloud, context, container):
    cloud.drivers["one"].runtime.objects[container.uuid].layer = b" " * (4 * 2**20 + 1)
    pid = cloud.drivers["one"].show(container).pid
    leaves(cloud, context, container, discard_layer=False)
    row = settled(cloud, container)
    assert (row["host"], cloud.drivers["one"].show(container).pid) == ("one", pid)
    _, (step,) = db_actions.find(container.uuid, db_actions.of_container(container.uuid)[0]["request_id"])
    assert "has written more than" in step["traceback"] and "--discard-layer" in step["traceback"]
    leaves(cloud, context, container)
    assert settled(cloud, container)["host"] == "two"
    assert cloud.drivers["two"].runtime.objects[container.uuid].layer == b""


def test_a_deletion_on_the_way_deletes_both(cloud, context, container):
    cloud.drivers["two"].fail("create", exceptions.DockerError(error="no"))
    cloud.drivers["two"].before("create", lambda _: db.update(container.uuid, {"status": "Deleting"}))
    leaves(cloud, context, container)
    wait_for(lambda: db.get(container.uuid)["status"] == "Deleting")
    cloud.compute_api.delete(context, Container.get_by_uuid(context, container.uuid), force=True)
    wait_for(lambda: not db.of_uuids([container.uuid, uuid_of_left(container.uuid, "one")]))
    assert wait_for(lambda: not holders(cloud, "one") and not holders(cloud, "two"))
    assert [cloud.drivers[name].show(container) for name in ("one", "two")] == [None, None]


def test_an_agent_that_starts_in_the_middle_holds_what_was_left(cloud, context, container):
    close(cloud, "two", True)
    cpus = held_plan(container).cpus
    carrier = cloud.scheduler.endpoint._departures
    look, carrier.look = carrier.look, list
    leaves(cloud, context, container)
    wait_for(lambda: db.get(container.uuid)["host"] is None)
    cloud.stop_agent("one")
    agent = cloud.start_agent("one")
    assert holders(cloud, "one") == {uuid_of_left(container.uuid, "one"): cpus}
    assert cloud.drivers["one"].show(container) is not None
    carrier.look = look
    row = settled(cloud, container)
    assert (row["host"], row["status"]) == ("one", "Running")
    assert agent.tracker.usage.claim(container.uuid).cpus == cpus


def test_a_claim_that_comes_back_is_never_free(cloud, context, container):
    """The agent looks at what the container left, whose row is gone, before it looks at the container."""
    close(cloud, "two", True)
    cpus = held_plan(container).cpus
    cloud.scheduler.endpoint._departures.look = list
    leaves(cloud, context, container)
    wait_for(lambda: db.get(container.uuid)["host"] is None)
    left = uuid_of_left(container.uuid, "one")
    wait_for(lambda: left in holders(cloud, "one"))
    road = cloud.agents["one"].parts.road
    [(row_of_left, row)] = departures.under_way()
    assert departures.come_back(row_of_left, row, "no host takes it")
    road.look(left)
    assert list(holders(cloud, "one").values()) == [cpus]  # of what it left, or of the container already
    road.look(container.uuid)
    assert settled(cloud, container)["status"] == "Running"
    assert holders(cloud, "one") == {container.uuid: cpus}


def test_a_new_host_that_dies_is_evacuated(cloud, context, container):
    """The container comes back from a host that nobody hears of any more."""
    started = threading.Event()
    cloud.drivers["two"].before("create", lambda _: (started.set(), exceptions_of_death()))
    leaves(cloud, context, container)
    wait_for(started.is_set)
    row = wait_for(lambda: (row := db.get(container.uuid))["host"] == "two" and row)
    assert evacuations.obstacle(row) is None and evacuations.runs_again(row)


def exceptions_of_death():
    raise db_exc.DBConnectionError("the host is gone")


def test_the_api_moves_one(cloud, context, api, container):
    answer = api.post(f"/v1/containers/{container.uuid}/move?host=two&discard_layer=true")
    assert answer.status == 202, answer.body
    assert settled(cloud, container)["host"] == "two"
    request = answer.headers["x-openstack-request-id"]
    assert {(each["action"], each["request_id"]) for each in db_actions.of_container(container.uuid)[:2]} == {
        ("leave", request),
        ("create", request),
    }


@pytest.mark.parametrize(
    ("query", "values", "status", "words"),
    [
        ("host=one", {}, 409, "is on host one already"),
        ("host=nobody", {}, 404, "nobody"),
        ("", {"cpu": 8.0}, 409, "stays on host one: "),
        ("", {"auto_remove": True}, 409, "it removes itself"),
        ("", {"status": "Paused"}, 409, "move container"),
        ("discard_layer=perhaps", {}, 400, "discard_layer"),
    ],
)
def test_the_api_refuses_what_cannot_be(cloud, context, api, container, query, values, status, words):
    db.update(container.uuid, values) if values else None
    answer = api.post(f"/v1/containers/{container.uuid}/move?{query}")
    assert answer.status == status and words in answer.error["detail"], answer.body
    assert "leave" not in [action for action, _ in actions(container)]


def done(api, host="one"):
    def seen():
        answer = api.get(f"/v1/hosts/{host}/drain")
        return answer.json if answer.json["done"] else None

    return wait_for(seen)


def test_a_host_is_drained_and_opened_again(cloud, context, api):
    moves, stays = running_on(cloud, context, "one", name="moves"), running_on(cloud, context, "one", name="stays")
    db.update(stays.uuid, {"placement": {"movable": False}})
    planned = api.post("/v1/hosts/one/drain", {"dry_run": True}).json
    reason = "it is not movable, as its user said"
    told = [
        {"container": moves.uuid, "name": "moves", "state": "waits", "to": "two", "reason": None},
        {"container": stays.uuid, "name": "stays", "state": "stays", "to": None, "reason": reason},
    ]
    assert planned == {
        **{"host": "one", "since": None, "parallel": 2, "discard_layer": False, "done": False},
        "containers": told,
    }
    assert api.get("/v1/hosts/one/drain").status == 404
    begun = api.post("/v1/hosts/one/drain", {"parallel": 1})
    first, second = (each["state"] for each in begun.json["containers"])
    assert begun.status == 200 and first in ("waits", "moves", "moved") and second == "stays"  # it has begun already
    answer = done(api)
    assert answer["containers"] == [{**told[0], "state": "moved"}, told[1]]
    one = services.get("one", "zun-compute")
    assert (one["disabled"], one["disabled_reason"]) == (True, "The host is being drained.")
    assert api.post("/v1/hosts/one/drain", {"discard_layer": True}).json["parallel"] == 1
    assert done(api)["discard_layer"] is True
    assert api.delete("/v1/hosts/one/drain").status == 204
    assert api.get("/v1/hosts/one/drain").status == 404
    assert not services.get("one", "zun-compute")["disabled"]


def test_what_had_to_stay_is_tried_again_by_the_next_drain(cloud, context, api, container):
    cloud.drivers["two"].fail("create", exceptions.DockerError(error="no"))
    api.post("/v1/hosts/one/drain", {})
    (told,) = done(api)["containers"]
    assert (told["state"], told["reason"]) == ("stays", "Docker error: no")
    assert settled(cloud, container)["host"] == "one"
    api.post("/v1/hosts/one/drain", {})
    (told,) = done(api)["containers"]
    assert (told["state"], told["to"]) == ("moved", "two")


def test_a_drain_lets_no_more_leave_at_a_time_than_it_may(cloud, context, api):
    uuids = [running_on(cloud, context, "one", cpu=1.0).uuid for _ in range(4)]
    away = []

    def leaves_now(_):
        away.append(sum(each["request"].get(DEPARTED) is not None for each in db.of_uuids(uuids)))

    cloud.drivers["one"].before("stop", leaves_now)
    api.post("/v1/hosts/one/drain", {"parallel": 2})
    assert {each["state"] for each in done(api)["containers"]} == {"moved"}
    assert len(away) == 4 and max(away) <= 1  # beside the one that is stopped


def test_a_host_that_is_down_is_not_drained(cloud, context, api, container):
    services.update("one", "zun-compute", {"forced_down": True})
    answer = api.post("/v1/hosts/one/drain", {})
    assert answer.status == 409 and "host evacuate one --host-is-down" in answer.error["detail"]


def test_services_that_are_upgraded_in_the_middle_of_a_drain_leave_processes_alone(cloud, context, api):
    uuids = [running_on(cloud, context, "one", cpu=1.0).uuid for _ in range(4)]
    pids = {uuid: cloud.drivers["one"].runtime.objects[uuid].pid for uuid in uuids}
    halfway, go_on = threading.Event(), threading.Event()
    cloud.drivers["two"].before("create", lambda each: each.uuid == uuids[2] and (halfway.set(), go_on.wait(20)))
    api.post("/v1/hosts/one/drain", {"parallel": 1})
    assert halfway.wait(20)
    there = {uuid: made.pid for uuid, made in cloud.drivers["two"].runtime.objects.items()}
    assert set(there) == set(uuids[:2])
    cloud.stop_agent("one")  # before the third one is there: else the fourth may leave
    cloud.scheduler.stop()
    go_on.set()
    cloud.stop_agent("two")
    waiting = {uuid: made.pid for uuid, made in cloud.drivers["one"].runtime.objects.items()}
    assert waiting[uuids[3]] == pids[uuids[3]]
    cloud.scheduler = SchedulerService(cloud.conf, host="scheduler")
    for host in ("one", "two"):
        cloud.start_agent(host)
    cloud.scheduler.start(cloud.transport)
    assert {each["state"] for each in done(api)["containers"]} == {"moved"}
    now = {uuid: made.pid for uuid, made in cloud.drivers["two"].runtime.objects.items()}
    assert {uuid: now[uuid] for uuid in there} == there and set(now) == set(uuids)
