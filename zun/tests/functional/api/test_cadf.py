# SPDX-License-Identifier: Apache-2.0
"""CADF notifications of requests: who, what, to which container, with which outcome, and no secrets."""

import configparser
import json

import oslo_messaging
import pytest
from keystonemiddleware import audit as middleware
from pycadf import cadftaxonomy

from zun.api import app as api_app
from zun.api import audit
from zun.common import exceptions
from zun.messaging import cadf as cadf_events
from zun.tests import cadf
from zun.tests.fixtures import notifications, own_conf
from zun.tests.functional.api.client import Client
from zun.tests.unit.api.table import ROUTES

ACCESSES = {
    ("POST", "execute?command=echo%20s3cret&run=true"): "update/execute",
    ("GET", "attach"): "update/attach",
    ("GET", "logs"): "read/logs",
    ("GET", "top"): "read/top",
    ("GET", "stats"): "read/stats",
    ("GET", "get_archive?path=/s3cret"): "read/get_archive",
    ("POST", "put_archive?path=/s3cret"): "update/put_archive",
}


@pytest.fixture
def configuration():
    conf = own_conf(api__auth_strategy="noauth", api__host_names=["zun.example"], audit__enabled=True)
    oslo_messaging.get_notification_transport(conf)
    conf.register_opts(middleware.list_opts()[0][1], group=cadf.MIDDLEWARE)
    conf.set_override("driver", "log", group=cadf.MIDDLEWARE)
    return conf


@pytest.fixture
def heard():
    with notifications() as events:
        yield events


def test_a_change_is_two_events(api, placed, heard):
    uuid = placed(name="web").uuid
    reply = api.post("/v1/containers/web/stop", headers={"User-Agent": "python-zunclient", "X-Auth-Token": "t0ken"})
    assert reply.status == 202
    asked, answered = heard
    assert [each["event_type"] for each in heard] == ["audit.http.request", "audit.http.response"]
    assert asked["payload"]["id"] == answered["payload"]["id"]
    cadf.compare("audit.http.request", asked["payload"], uuid)
    cadf.compare("audit.http.response", answered["payload"], uuid)


@pytest.mark.parametrize(("request_line", "action"), ACCESSES.items(), ids=lambda each: str(each[1])[:12])
def test_each_access_is_told_without_secrets(api, placed, host_up, heard, request_line, action):
    uuid = placed(interactive=True, tty=True).uuid
    method, path = request_line
    body = {"data": "czNjcmV0"} if method == "POST" and "archive" in path else None
    api.send(method, f"/v1/containers/{uuid}/{path}", body, headers={"X-Auth-Token": "t0ken"})
    answered = heard[-1]["payload"]
    assert answered["action"] == action
    assert answered["target"]["id"] == uuid
    assert answered["initiator"]["id"] == "alice"
    assert answered["requestPath"] == f"/v1/containers/{uuid}/{path.partition('?')[0]}"
    text = json.dumps(heard)
    assert not any(each in text for each in ("s3cret", "czNjcmV0", "t0ken"))


def test_a_created_container_is_the_target(api, heard):
    reply = api.post("/v1/containers", {"image": "cirros", "environment": {"PASSWORD": "s3cret"}})
    answered = heard[-1]["payload"]
    assert (answered["action"], answered["outcome"]) == ("create", "success")
    assert answered["target"]["id"] == reply.json["uuid"]
    assert "s3cret" not in json.dumps(heard)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/containers/nothing", 404),
        ("DELETE", "/v1/containers/nothing", 404),
        ("POST", "/v1/containers", 400),
        ("GET", "/v1/services", 403),
        ("PUT", "/v1/containers", 405),
    ],
)
def test_a_refused_request_has_its_status(api, heard, method, path, status):
    assert api.send(method, path).status == status
    answered = heard[-1]["payload"]
    assert (answered["outcome"], answered["reason"]["reasonCode"]) == ("failure", str(status))


def test_a_failure_of_ours_has_its_status(api, placed, compute, host_up, heard):
    compute.failure = exceptions.ZunError("a defect")
    assert api.get(f"/v1/containers/{placed().uuid}/logs").status == 500
    assert heard[-1]["payload"]["reason"]["reasonCode"] == "500"


def test_a_client_cannot_choose_its_address(api, heard):
    api.get("/v1/containers", headers={"X-Forwarded-For": "198.51.100.1"})
    assert heard[-1]["payload"]["initiator"]["host"]["address"] == "127.0.0.1"


def test_documents_and_health_are_not_told(api, heard):
    for path in ("/", "/v1", "/v1/openapi", "/healthcheck"):
        assert api.get(path).status == 200
    assert heard == []


def test_methods_can_be_left_out(configuration, scheduler, compute, database, heard):
    configuration.set_override("ignore_req_list", "GET, head", group="audit")
    application = api_app.build(configuration, scheduler_api=scheduler, compute_api=compute)
    api = Client(application, user="alice", project="demo", roles="member", version="1.40")
    assert api.get("/v1/containers").status == 200
    assert heard == []
    assert api.delete("/v1/containers/nothing").status == 404
    assert len(heard) == 2


def test_nothing_is_told_by_default(scheduler, compute, database, heard):
    conf = own_conf(api__auth_strategy="noauth", api__host_names=["zun.example"])
    application = api_app.build(conf, scheduler_api=scheduler, compute_api=compute)
    assert Client(application).get("/v1/containers").status == 200
    assert heard == []


def test_a_driver_is_needed():
    conf = own_conf(audit__enabled=True)
    with pytest.raises(SystemExit, match=r"needs .audit_middleware_notifications"):
        cadf_events.settle(conf)
    assert conf.oslo_messaging_notifications.retry == cadf_events.RETRIES


@pytest.mark.parametrize("text", [None, "no section"])
def test_a_wrong_map_stops_the_program(configuration, tmp_path, text):
    file = tmp_path / "map.conf"
    if text is not None:
        file.write_text(text)
    configuration.set_override("audit_map_file", str(file), group="audit")
    with pytest.raises(SystemExit, match="audit_map_file"):
        audit.wrap(lambda environ, start: [], configuration)


def test_the_map_has_each_route():
    parser = configparser.ConfigParser()
    parser.read(audit.MAP)
    nouns, actions = dict(parser.items("path_keywords")), dict(parser.items("custom_actions"))
    del nouns["target_endpoint_type"], actions["target_endpoint_type"]
    told = set()
    for route in ROUTES:
        segments = route.path.split("/")
        first, last = segments[0], segments[-1]
        assert first in nouns
        if len(segments) > 1 and not last.startswith("{") and last not in nouns:
            told.add(f"{last}/{route.method.lower()}")
    assert actions.keys() == told
    assert all(cadftaxonomy.is_valid_action(each) for each in actions.values())


@pytest.mark.parametrize("name", ["start", "logs", "containers", "disable"])
@pytest.mark.parametrize(("method", "action"), [("DELETE", "delete"), ("PATCH", "update")])
def test_a_name_hides_no_change(api, placed, heard, name, method, action):
    uuid = placed("Stopped", name=name).uuid
    api.send(method, f"/v1/containers/{name}", {} if method == "PATCH" else None)
    answered = heard[-1]["payload"]
    assert (answered["action"], answered["target"]["id"]) == (action, uuid)
