# SPDX-License-Identifier: Apache-2.0
"""Files into and out of containers, over HTTP."""

import base64
import json

import pytest

from zun.common.states import ALLOWED, Status
from zun.tests.functional.api.messages import ARCHIVE

pytestmark = pytest.mark.usefixtures("host_up")


@pytest.fixture
def url(placed):
    return f"/v1/containers/{placed(name='web').uuid}"


@pytest.mark.parametrize(("version", "encoded"), [("1.1", False), ("1.24", False), ("1.25", True), ("1.41", True)])
def test_get(api, url, compute, version, encoded):
    reply = api.at(version).get(f"{url}/get_archive?path=/etc/hosts")
    assert reply.status == 200 and reply.headers["content-type"].startswith("application/json")
    data = base64.b64encode(ARCHIVE).decode() if encoded else ARCHIVE.decode("utf-8", "replace")
    assert reply.json["data"] == data
    assert reply.json["stat"] == {
        "name": "hosts",
        "size": 7,
        "mode": 420,
        "mtime": "2026-01-31T12:00:00Z",
        "linkTarget": "",
    }
    assert compute.sent[0][2] == {"path": "/etc/hosts"}


@pytest.mark.parametrize("in_query", [True, False])
@pytest.mark.parametrize(("version", "encoded"), [("1.1", False), ("1.24", False), ("1.25", True), ("1.41", True)])
def test_put(api, url, compute, version, encoded, in_query):
    archive = ARCHIVE if encoded else "tar ä\0".encode()
    data = base64.b64encode(archive).decode() if encoded else archive.decode()
    body = {"data": data} if in_query else {"path": "/tmp", "data": data}
    reply = api.at(version).post(f"{url}/put_archive{'?path=/tmp' if in_query else ''}", body)
    assert (reply.status, reply.body) == (200, b"null")
    assert compute.sent[0][2] == {"path": "/tmp", "archive": archive}


def test_it_is_not_bound_to_the_size_of_other_bodies(api, url, compute):
    archive = bytes(4 << 20)
    body = {"data": base64.b64encode(archive).decode()}
    assert api.post(f"{url}/put_archive?path=/tmp", body).status == 200
    assert compute.sent[0][2]["archive"] == archive


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize(("verb", "action"), [("GET", "get_archive"), ("POST", "put_archive")])
def test_only_some_statuses_allow_it(api, placed, compute, verb, action, status):
    reply = api.send(verb, f"/v1/containers/{placed(str(status)).uuid}/{action}?path=/x", {"data": ""})
    if status in ALLOWED[action]:
        assert reply.status == 200
    else:
        assert reply.refusal == (409, "invalid-state-exception")


@pytest.mark.parametrize(
    ("verb", "path", "body", "code", "member"),
    [
        ("GET", "get_archive", None, "schema-validation-error", "path"),
        ("GET", "get_archive?path=", None, "schema-validation-error", "path"),
        ("GET", "get_archive?path=/x&colour=red", None, "schema-validation-error", "colour"),
        ("GET", "get_archive?path=x", None, "invalid-value", "path"),
        ("GET", "get_archive?path=/x/../../etc", None, "invalid-value", "path"),
        ("POST", "put_archive", {"data": ""}, "schema-validation-error", "path"),
        ("POST", "put_archive", {"path": "/x"}, "schema-validation-error", "data"),
        ("POST", "put_archive?path=/x", {}, "schema-validation-error", "data"),
        ("POST", "put_archive?path=/x", {"path": "/x", "data": ""}, "schema-validation-error", "path"),
        ("POST", "put_archive?path=/x", {"colour": "red", "data": ""}, "schema-validation-error", "colour"),
        ("POST", "put_archive", {"data": "", "path": "/x"}, "schema-validation-error", "path"),
        ("POST", "put_archive?path=/x", {"data": "", "colour": "red"}, "validation-error", "last"),
        ("POST", "put_archive?path=/x", {"data": None}, "schema-validation-error", "data"),
        ("POST", "put_archive?path=/..", {"data": ""}, "invalid-value", "path"),
        ("POST", "put_archive?path=/x", {"data": "not base64!"}, "base-64-exception", "base64"),
        ("POST", "put_archive?path=/x", ["data"], "validation-error", "JSON"),
    ],
)
def test_a_bad_request_is_named_and_reaches_no_host(api, url, compute, verb, path, body, code, member):
    reply = api.send(verb, f"{url}/{path}", body)
    assert reply.refusal == (400, code), reply.json
    assert member in reply.error["detail"]
    assert compute.sent == []


def test_a_body_that_breaks_off(api, url, compute):
    raw = json.dumps({"data": base64.b64encode(ARCHIVE).decode()}).encode()[:-20]
    assert api.post(f"{url}/put_archive?path=/x", raw=raw).refusal == (400, "validation-error")
    assert compute.sent == []


def test_a_host_that_is_down(api, admin_api, url):
    admin_api.put("/v1/services/force_down?host=host-1&binary=zun-compute&forced_down=True")
    assert api.get(f"{url}/get_archive?path=/x").refusal == (503, "host-unavailable")
    assert api.post(f"{url}/put_archive?path=/x", {"data": ""}).refusal == (503, "host-unavailable")
