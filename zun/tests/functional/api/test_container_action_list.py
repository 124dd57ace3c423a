# SPDX-License-Identifier: Apache-2.0
"""The actions of a container, as the API records them. Events of hosts are in functional/test_container_actions."""

import base64
import datetime
import re
from dataclasses import replace

import pytest

from zun.common import exceptions
from zun.db import container_actions as db

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}")


def actions(api, uuid):
    return api.get(f"/v1/containers/{uuid}/container_actions").json["containerActions"]


def one(api, uuid, request_id):
    return api.get(f"/v1/containers/{uuid}/container_actions/{request_id}")


def test_creation(api):
    reply = api.post("/v1/containers", {"image": "demo"})
    uuid, request_id = reply.json["uuid"], reply.headers["x-openstack-request-id"]
    (action,) = actions(api, uuid)
    assert TIME.fullmatch(action.pop("start_time"))
    assert action == {
        "action": "create",
        "container_uuid": uuid,
        "request_id": request_id,
        "user_id": "alice",
        "project_id": "demo",
        "finish_time": None,
        "message": None,
    }
    shown = one(api, uuid, request_id).json
    assert {name: shown[name] for name in action} == action and shown["events"] == []


@pytest.mark.parametrize(
    ("verb", "action", "status"),
    [
        *(("POST", each, "Running") for each in ("stop", "reboot", "rebuild", "pause", "kill")),
        ("POST", "start", "Stopped"),
        ("POST", "unpause", "Paused"),
        ("DELETE", "", "Stopped"),
    ],
)
def test_what_is_recorded(api, placed, verb, action, status):
    container = placed(status, name="web")
    reply = api.send(verb, f"/v1/containers/web/{action}")
    assert reply.status in (202, 204)
    (found,) = actions(api, container.uuid)
    assert (found["action"], found["request_id"]) == (action or "delete", reply.headers["x-openstack-request-id"])
    assert (found["finish_time"], found["message"]) == (None, None)


ACCESSES = [
    ("GET", "attach"),
    ("POST", "execute?command=ls"),
    ("POST", "execute?command=ls&run=false&interactive=true"),
    ("GET", "get_archive?path=/a"),
    ("GET", "logs"),
    ("GET", "top"),
    ("GET", "stats"),
]


@pytest.mark.parametrize(("method", "path"), ACCESSES)
def test_an_access_names_who_and_from_where(api, placed, host_up, method, path):
    uuid = placed(interactive=True).uuid
    reply = replace(api, address="127.0.0.7").send(method, f"/v1/containers/{uuid}/{path}")
    assert reply.status == 200
    (found,) = actions(api.at("1.42"), uuid)
    assert TIME.fullmatch(found["start_time"]) and found["start_time"] == found.pop("finish_time")
    del found["start_time"]
    assert found == {
        "action": path.partition("?")[0],
        "container_uuid": uuid,
        "request_id": reply.headers["x-openstack-request-id"],
        "user_id": "alice",
        "project_id": "demo",
        "message": None,
        "client_address": "127.0.0.7",
    }
    shown = one(api.at("1.42"), uuid, found["request_id"]).json
    assert (shown["events"], shown["client_address"]) == ([], "127.0.0.7")


def test_an_archive_that_comes_is_an_access(api, placed, host_up):
    uuid = placed().uuid
    body = {"data": base64.b64encode(b"x").decode()}
    assert api.post(f"/v1/containers/{uuid}/put_archive?path=/a", body).status == 200
    assert [each["action"] for each in actions(api, uuid)] == ["put_archive"]


@pytest.mark.parametrize(("method", "path"), ACCESSES)
def test_an_access_that_fails_is_an_error(api, placed, host_up, compute, method, path):
    uuid = placed(interactive=True).uuid
    compute.failure = exceptions.HostUnavailable(host="host-1")
    assert api.send(method, f"/v1/containers/{uuid}/{path}").status == 503
    (found,) = actions(api, uuid)
    assert (found["message"], bool(found["finish_time"])) == ("Error", True)


def test_an_administrator_leaves_a_trail_too(api, admin_api, placed, host_up):
    uuid = placed().uuid
    assert admin_api.post(f"/v1/containers/{uuid}/execute?command=ls").status == 200
    (found,) = actions(api, uuid)
    assert (found["action"], found["user_id"], found["project_id"]) == ("execute", "root", "admin")


def test_repeated_reads_are_one_action(api, placed, host_up):
    uuid = placed().uuid
    clients = [api, replace(api, user="bob"), replace(api, address="127.0.0.7"), replace(api, address="::1")]
    for client in clients * 3:
        assert client.get(f"/v1/containers/{uuid}/logs").status == 200
        assert client.post(f"/v1/containers/{uuid}/execute?command=ls").status == 200
    found = [each["action"] for each in actions(api, uuid)]
    assert (found.count("logs"), found.count("execute")) == (4, 12)


def test_a_read_is_told_again_after_a_while(api, placed, host_up, monkeypatch):
    uuid = placed().uuid
    monkeypatch.setattr(db, "READ_AGAIN", datetime.timedelta(0))
    for _ in range(2):
        api.get(f"/v1/containers/{uuid}/logs")
    assert len(actions(api, uuid)) == 2


def test_a_read_that_failed_hides_no_other(api, placed, host_up, compute):
    uuid = placed().uuid
    compute.failure = exceptions.HostUnavailable(host="host-1")
    assert api.get(f"/v1/containers/{uuid}/logs").status == 503
    compute.failure = None
    assert api.get(f"/v1/containers/{uuid}/logs").status == 200
    assert [each["message"] for each in actions(api, uuid)] == [None, "Error"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/rename?name=new-name"),
        ("POST", "/resize_container?name=new-name"),
        ("POST", "/execute_resize?w=80&h=25&exec_id=" + "a" * 64),
        ("PATCH", "?cpu=2"),
        ("GET", ""),
    ],
)
def test_what_is_not(api, placed, host_up, method, path):
    uuid = placed().uuid
    version = "1.13" if "rename" in path else "1.40"
    assert api.at(version).send(method, f"/v1/containers/{uuid}{path}").status < 300
    assert actions(api, uuid) == []


@pytest.mark.parametrize(("method", "path"), ACCESSES)
def test_a_refused_access_is_none(api, placed, host_up, method, path):
    uuid = placed("Stopped", interactive=True, host=None).uuid
    assert api.send(method, f"/v1/containers/{uuid}/{path}").status == 409
    assert actions(api, uuid) == []


@pytest.mark.parametrize(("role", "seen"), [("reader", None), ("member", "127.0.0.7"), ("admin", "127.0.0.7")])
def test_addresses_are_for_those_who_may_act(api, placed, role, seen):
    uuid = placed().uuid
    replace(api, address="127.0.0.7").post(f"/v1/containers/{uuid}/stop")
    (found,) = actions(replace(api, roles=role, version="1.42"), uuid)
    assert found["client_address"] == seen


def test_a_refused_request_is_none(api, placed):
    uuid = placed("Paused").uuid
    assert api.post(f"/v1/containers/{uuid}/stop").status == 409
    assert actions(api, uuid) == []


def test_a_message_that_could_not_be_sent(api, placed, compute, scheduler):
    uuid = placed().uuid
    compute.failure = scheduler.failure = exceptions.HostUnavailable(host="host-1")
    assert api.post(f"/v1/containers/{uuid}/stop").status == 202
    (found,) = actions(api, uuid)
    assert (found["message"], found["finish_time"]) == (None, None), "the host finds the action by itself"
    assert api.post("/v1/containers", {"image": "demo", "name": "new-one"}).status == 503
    (found,) = actions(api, "new-one")
    assert found["message"] == "Error" and TIME.fullmatch(found["finish_time"])


def test_a_new_size_is_an_action(api, placed):
    uuid = placed().uuid
    assert api.post(f"/v1/containers/{uuid}/resize_container?cpu=2").status == 202
    assert [each["action"] for each in actions(api, uuid)] == ["resize_container"]


def test_newest_first(api, placed):
    uuid = placed().uuid
    for action in ("pause", "stop", "kill"):
        api.post(f"/v1/containers/{uuid}/{action}")
    assert [action["action"] for action in actions(api, uuid)] == ["kill", "stop", "pause"]


def test_events(api, admin_api, placed):
    uuid = placed().uuid
    request_id = api.post(f"/v1/containers/{uuid}/stop").headers["x-openstack-request-id"]
    event = db.start_event(uuid, request_id, "stop", "compute__do_container_stop")
    (begun,) = one(api, uuid, request_id).json["events"]
    assert TIME.fullmatch(begun.pop("start_time"))
    assert begun == {
        "event": "compute__do_container_stop",
        "finish_time": None,
        "result": None,
        "traceback": None,
    }
    db.finish_event(event, "Error", "the traceback", last=True)
    for asked_by, traceback in ((api, None), (admin_api, "the traceback")):
        shown = one(asked_by, uuid, request_id).json
        (ended,) = shown["events"]
        assert (ended["result"], ended["traceback"]) == ("Error", traceback)
        assert TIME.fullmatch(ended["finish_time"])
        assert (shown["message"], bool(shown["finish_time"])) == ("Error", True)


def test_they_go_with_the_container(api, admin_api):
    uuid = api.post("/v1/containers", {"image": "demo"}).json["uuid"]
    assert len(db.of_container(uuid)) == 1
    assert admin_api.delete(f"/v1/containers/{uuid}?force=1").status == 204
    assert db.of_container(uuid) == []
    assert api.get(f"/v1/containers/{uuid}/container_actions").refusal == (404, "container-not-found")


def test_lookups(api, admin_api, placed):
    theirs = placed(project_id="other").uuid
    mine = placed("Deleting", name="web").uuid
    path = "/v1/containers/{}/container_actions"
    assert api.get(path.format(theirs)).refusal == (404, "container-not-found")
    assert admin_api.get(path.format(theirs)).status == 200
    assert actions(api, "web") == actions(api, mine) == []
    refused = one(api, mine, "req-nothing")
    assert refused.refusal == (404, "resource-not-found")
    assert refused.error["detail"] == (
        "The Action resource req-nothing could not be found. List the container's with 'openstack appcontainer action "
        "list'."
    )
    assert api.get(path.format("web") + "/").status == 200
    assert api.post(path.format("web")).status == 404


def test_an_action_is_its_containers(api, placed):
    first, second = placed().uuid, placed().uuid
    request_id = api.post(f"/v1/containers/{first}/stop").headers["x-openstack-request-id"]
    assert one(api, second, request_id).status == 404


@pytest.mark.parametrize("version", ["1.1", "1.33", "1.41"])
def test_every_version_has_them(api, placed, version):
    uuid = placed().uuid
    api.post(f"/v1/containers/{uuid}/stop")
    (found,) = actions(api.at(version), uuid)
    assert "finish_time" in found and "client_address" not in found
