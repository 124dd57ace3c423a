# SPDX-License-Identifier: Apache-2.0
"""The access log: one line for each request, whoever sends it and whatever becomes of it."""

import logging
import re
from dataclasses import replace

import pytest

from zun.api import access_log
from zun.api import app as api_app
from zun.common import exceptions
from zun.tests.functional.api.client import Client

LINE = re.compile(r"(\w+)=(\S+)(?: |$)")


@pytest.fixture
def lines(caplog):
    """Gives the lines of the access log so far, each as a mapping."""
    caplog.set_level(logging.INFO, logger="zun.access")

    def read():
        messages = [each.getMessage() for each in caplog.records if each.name == "zun.access"]
        assert all(LINE.sub("", each) == "" for each in messages), messages
        return [dict(LINE.findall(each)) for each in messages]

    return read


def test_who_asked_what_and_what_became_of_it(api, placed, host_up, lines):
    uuid = placed().uuid
    reply = api.get(f"/v1/containers/{uuid}/logs?tail=5")
    (line,) = lines()
    assert re.fullmatch(r"\d+\.\d{3}", line.pop("seconds"))
    assert line == {
        "client": "127.0.0.1",
        "user": "alice",
        "project": "demo",
        "method": "GET",
        "path": f"/v1/containers/{uuid}/logs",
        "status": "200",
        "bytes": str(len(reply.body)),
        "request_id": reply.headers["x-openstack-request-id"],
    }


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", "200"),
        ("GET", "/v1/nothing", "404"),
        ("GET", "/v1/containers/nothing", "404"),
        ("PUT", "/v1/containers", "405"),
        ("POST", "/v1/containers", "400"),
        ("GET", "/v1/services", "403"),
        ("DELETE", "/v1/containers/a%0Ab", "404"),
    ],
)
def test_each_outcome_is_a_line(api, lines, method, path, status):
    reply = api.send(method, path)
    (line,) = lines()
    assert (line["path"], line["status"], line["bytes"]) == (path, status, str(len(reply.body)))
    assert str(reply.status) == status


def test_a_failure_of_ours_is_a_line(api, placed, compute, host_up, lines):
    compute.failure = exceptions.ZunError("a defect")
    assert api.get(f"/v1/containers/{placed().uuid}/logs").status == 500
    assert [each["status"] for each in lines()] == ["500"]


def test_who_is_not_known_is_nobody(api, lines):
    assert replace(api, address="192.0.2.7").get("/v1/containers").status == 403
    (line,) = lines()
    assert (line["client"], line["user"], line["project"]) == ("192.0.2.7", "-", "-")


def test_secrets_and_commands_stay_out(api, placed, host_up, caplog):
    caplog.set_level(logging.DEBUG, logger="zun")
    headers = {"X-Auth-Token": "s3cret", "Authorization": "Basic s3cret"}
    uuid = placed().uuid
    assert api.post(f"/v1/containers/{uuid}/execute?command=mysql+-ps3cret", headers=headers).status == 200
    assert api.get("/v1/containers?token=s3cret").status == 200
    assert api.at("1.41").get("/v1/containers?token=s3cret").status == 400
    assert "s3cret" not in caplog.text


def test_a_value_cannot_look_like_two(api, lines):
    replace(api, user="bob status=200\npath=/", project="a b").get("/v1/containers/x%20status=200")
    (line,) = lines()
    assert (line["user"], line["project"], line["status"]) == ("bob%20status%3D200%0Apath%3D%2F", "a%20b", "404")
    assert line["path"] == "/v1/containers/x%20status%3D200"


def test_health_is_not_told(api, lines):
    assert api.get("/healthcheck").status == 200
    assert lines() == []


def test_an_application_that_fails_is_told(lines):
    def broken(environ, start_response):
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        access_log.AccessLog(broken)({"REQUEST_METHOD": "GET", "PATH_INFO": "/v1"}, None)
    assert [each["status"] for each in lines()] == ["500"]


def test_it_can_be_turned_off(configuration, database, scheduler, compute, lines):
    configuration.set_override("access_log", False, group="api")
    client = Client(api_app.build(configuration, scheduler_api=scheduler, compute_api=compute), "alice", "demo")
    assert client.get("/v1/containers").status == 200
    assert lines() == []


def test_a_line_begins_with_its_own_request(api, caplog):
    """And not with the one that was answered before in the same thread."""
    caplog.set_level(logging.INFO, logger="zun.access")
    for client in (api, replace(api, address="192.0.2.7")):
        client.get("/v1/containers")
    first, second = (each for each in caplog.records if each.name == "zun.access")
    assert (first.context.user_id, second.context.user_id) == ("alice", None)
    assert second.context.request_id in second.getMessage()
