# SPDX-License-Identifier: Apache-2.0
"""The services and what administrators do with them."""

import datetime
import re

import pytest
from oslo_utils import timeutils

from zun.db import services as db
from zun.objects import ZunService
from zun.objects.service import INTERNAL_ZONE

SERVICE = "host=host-1&binary=zun-compute"


def listed(admin_api):
    (service,) = admin_api.get("/v1/services").json["services"]
    return service


def test_the_list(admin_api, host_up):
    assert admin_api.get("/v1/services/").json.keys() == {"services"}
    service = listed(admin_api)
    times = {name: service.pop(name) for name in ("created_at", "last_seen_up")}
    assert service == {
        "id": 1,
        "host": "host-1",
        "binary": "zun-compute",
        "disabled": False,
        "disabled_reason": None,
        "forced_down": False,
        "report_count": 0,
        "state": "up",
        "availability_zone": "nova",
        "updated_at": None,
    }
    for time in times.values():
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}", time)


@pytest.mark.parametrize(("seconds", "state"), [(0, "up"), (170, "up"), (200, "down"), (-170, "up"), (-200, "down")])
def test_state_by_the_last_heartbeat(admin_api, host_up, seconds, state):
    seen = timeutils.utcnow() - datetime.timedelta(seconds=seconds)
    db.update("host-1", "zun-compute", {"last_seen_up": seen})
    assert listed(admin_api)["state"] == state


def test_a_service_of_no_zone_is_in_the_default_one(admin_api, host_up):
    db.update("host-1", "zun-compute", {"availability_zone": None})
    assert listed(admin_api)["availability_zone"] == "nova"


@pytest.mark.parametrize("as_body", [False, True])
def test_enable_and_disable(admin_api, host_up, as_body):
    def put(action, **more):
        given = {"host": "host-1", "binary": "zun-compute", **more}
        if as_body:
            return admin_api.put(f"/v1/services/{action}", given)
        return admin_api.put(f"/v1/services/{action}?" + "&".join(f"{name}={value}" for name, value in given.items()))

    reply = put("disable", disabled_reason="broken")
    expected = {"host": "host-1", "binary": "zun-compute", "disabled": True, "disabled_reason": "broken"}
    assert (reply.status, reply.json) == (200, {"service": expected})
    assert expected.items() <= listed(admin_api).items()
    reply = put("enable")
    expected |= {"disabled": False, "disabled_reason": None}
    assert (reply.status, reply.json) == (200, {"service": expected})
    assert expected.items() <= listed(admin_api).items()
    assert put("disable").json["service"]["disabled_reason"] is None


@pytest.mark.parametrize(("text", "value"), [("True", True), ("true", True), ("False", False)])
def test_force_down(admin_api, host_up, text, value):
    reply = admin_api.put(f"/v1/services/force_down?{SERVICE}&forced_down={text}")
    expected = {"host": "host-1", "binary": "zun-compute", "forced_down": value}
    assert (reply.status, reply.json) == (200, {"service": expected})
    assert (listed(admin_api)["forced_down"], listed(admin_api)["state"]) == (value, "down" if value else "up")


def test_delete(admin_api, host_up):
    reply = admin_api.delete(f"/v1/services?{SERVICE}", content_type="application/octet-stream")
    assert (reply.status, reply.json) == (200, None)
    assert admin_api.get("/v1/services").json == {"services": []}
    assert admin_api.delete(f"/v1/services?{SERVICE}").refusal == (404, "zun-service-not-found")


@pytest.mark.parametrize(
    ("method", "path", "word"),
    [
        ("PUT", "/enable", "host"),
        ("PUT", "/enable?host=host-1", "binary"),
        ("PUT", "/disable?binary=zun-compute", "host"),
        ("PUT", f"/disable?{SERVICE}&disabled_reason=", "disabled_reason"),
        ("PUT", f"/disable?{SERVICE}&disabled_reason={'x' * 256}", "disabled_reason"),
        ("PUT", "/enable?host=a%20b&binary=x", "host"),
        ("PUT", "/enable?host=&binary=x", "host"),
        ("PUT", f"/force_down?{SERVICE}", "forced_down"),
        ("PUT", f"/force_down?{SERVICE}&forced_down=maybe", "forced_down"),
        ("PUT", f"/enable?{SERVICE}&colour=red", "colour"),
        ("DELETE", "", "host"),
        ("DELETE", "?host=host-1", "binary"),
    ],
)
def test_a_bad_argument_is_named_and_changes_nothing(admin_api, host_up, method, path, word):
    before = listed(admin_api)
    reply = admin_api.send(method, f"/v1/services{path}")
    assert reply.refusal == (400, "schema-validation-error")
    assert word in reply.error["detail"]
    assert listed(admin_api) == before


@pytest.mark.parametrize("action", ["enable", "disable", "force_down"])
def test_services_that_are_none(admin_api, host_up, action):
    reply = admin_api.put(
        f"/v1/services/{action}",
        {"host": "h", "binary": "b"} | ({"forced_down": True} if action == "force_down" else {}),
    )
    assert reply.refusal == (404, "zun-service-not-found")


@pytest.mark.parametrize("query", ["marker=x", "limit=5", "sort_key=host", "sort_dir=asc"])
def test_the_list_has_no_pages(admin_api, host_up, query):
    """The library of the stock client may ask for one."""
    assert len(admin_api.get(f"/v1/services/?{query}").json["services"]) == 1


@pytest.fixture
def others(admin_api, database):
    """A scheduler that came before the host, and a proxy beside it."""
    for host, binary in (("control", "zun-scheduler"), ("host-1", "zun-wsproxy")):
        ZunService.heartbeat(None, host, binary, INTERNAL_ZONE)
    ZunService.heartbeat(None, "host-1", "zun-compute", "nova")
    ZunService.heartbeat(None, "control", "zun-scheduler", INTERNAL_ZONE)
    return admin_api


def test_other_services_follow_the_hosts(others):
    found = [
        (each["binary"], each["host"], each["state"], each["availability_zone"], each["report_count"])
        for each in others.get("/v1/services").json["services"]
    ]
    assert found == [
        ("zun-compute", "host-1", "up", "nova", 0),
        ("zun-scheduler", "control", "up", "internal", 1),
        ("zun-wsproxy", "host-1", "up", "internal", 0),
    ]
    zones = others.get("/v1/availability_zones").json["availability_zones"]
    assert "internal" not in {each["availability_zone"] for each in zones}


@pytest.mark.parametrize("action", ["enable", "disable", "force_down"])
@pytest.mark.parametrize(("host", "binary"), [("control", "zun-scheduler"), ("host-1", "zun-wsproxy")])
def test_only_hosts_are_changed(others, action, host, binary):
    more = {"forced_down": True} if action == "force_down" else {}
    reply = others.put(f"/v1/services/{action}", {"host": host, "binary": binary, **more})
    assert reply.status == 400
    assert f"{binary} of {host} cannot be changed: only zun-compute" in reply.error["detail"]
    assert db.get(host, binary)["disabled"] is db.get(host, binary)["forced_down"] is False


def test_another_service_is_deleted(others):
    assert others.delete("/v1/services?host=control&binary=zun-scheduler").status == 200
    assert len(others.get("/v1/services").json["services"]) == 2
