# SPDX-License-Identifier: Apache-2.0
"""The requests that Horizon forwards to the service. Horizon itself runs in integration/test_clients_panels.py."""

import json
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun_dashboard import forwarding
from zun_dashboard.forwarding import Refused

ENDPOINT = "http://zun.example:9517/v1"


@pytest.mark.parametrize(
    ("endpoint", "path", "query", "url"),
    [
        pytest.param(ENDPOINT, "v1/hosts", "", "http://zun.example:9517/v1/hosts", id="version-in-the-catalog"),
        pytest.param(f"{ENDPOINT}/", "v1/hosts", "", "http://zun.example:9517/v1/hosts", id="slash-in-the-catalog"),
        pytest.param("http://zun.example:9517", "v1/hosts", "", "http://zun.example:9517/v1/hosts", id="no-version"),
        pytest.param("https://a/container/v1", "v1/x", "", "https://a/container/v1/x", id="path-of-a-proxy"),
        pytest.param("https://a/v1/v1", "v1/x", "", "https://a/v1/v1/x", id="path-that-looks-like-a-version"),
        pytest.param("http://[::1]:9517/v1", "v1/x", "", "http://[::1]:9517/v1/x", id="ipv6"),
        pytest.param(ENDPOINT, "v1/", "", "http://zun.example:9517/v1/", id="the-version-itself"),
        pytest.param(ENDPOINT, "v1/hosts/a b%2F..", "", "http://zun.example:9517/v1/hosts/a%20b%252F..", id="quoted"),
        pytest.param(ENDPOINT, "v1/hosts/ä?x#y", "", "http://zun.example:9517/v1/hosts/%C3%A4%3Fx%23y", id="signs"),
        pytest.param(ENDPOINT, "v1/a", "b=%20&c=d+e", "http://zun.example:9517/v1/a?b=%20&c=d+e", id="query-as-sent"),
        pytest.param(ENDPOINT, "v1/a", "b=c#d e", "http://zun.example:9517/v1/a?b=c%23d%20e", id="query-unquoted"),
    ],
)
def test_target(endpoint, path, query, url):
    assert forwarding.target(endpoint, path, query) == url


@pytest.mark.parametrize(
    "path",
    ["", "v1x/hosts", "v2/hosts", "/v1/hosts", "//other.example/v1", "v1/../v2", "v1/a/..", "v1/./a", "http://other/v1"],
)
def test_other_paths_are_refused(path):
    with pytest.raises(Refused) as refused:
        forwarding.target(ENDPOINT, path, "")
    assert refused.value.status == 404


@pytest.mark.parametrize("endpoint", ["", "zun.example/v1", "file:///etc/passwd", "http:///v1"])
def test_an_endpoint_without_host_is_refused(endpoint):
    with pytest.raises(Refused) as refused:
        forwarding.target(endpoint, "v1/hosts", "")
    assert refused.value.status == 503


@given(st.text(), st.text())
def test_every_target_is_below_the_endpoint(path, query):
    try:
        url = urlsplit(forwarding.target(ENDPOINT, f"v1/{path}", query))
    except Refused:
        return
    assert (url.scheme, url.netloc, url.fragment) == ("http", "zun.example:9517", "")
    assert url.path.startswith("/v1/") and unquote(url.path) == f"/v1/{path}"
    assert not {".", ".."} & set(url.path.split("/"))


def test_the_service_gets_few_headers_and_the_token():
    sent = {
        "Accept": "application/json",
        "Content-Type": "application/json",
        "If-None-Match": '"7"',
        "OpenStack-API-Version": "container latest",
        "Cookie": "sessionid=secret",
        "X-CSRFToken": "secret",
        "X-Auth-Token": "of the browser",
        "X-Roles": "admin",
        "Host": "horizon.example",
    }
    assert forwarding.request_headers(sent, "token") == {
        "Accept": "application/json",
        "Content-Type": "application/json",
        "If-None-Match": '"7"',
        "OpenStack-API-Version": "container latest",
        "X-Auth-Token": "token",
    }


def test_the_browser_gets_few_headers():
    got = {
        "Content-Type": "application/json; charset=UTF-8",
        "ETag": '"7"',
        "OpenStack-API-Version": "container 1.40",
        "X-Openstack-Request-Id": "req-1",
        "Set-Cookie": "a=b",
        "Location": "http://zun.internal/v1/containers/1",
        "WWW-Authenticate": "Keystone uri=http://keystone.internal",
    }
    assert forwarding.response_headers(got) == {
        "Content-Type": "application/json",
        "ETag": '"7"',
        "OpenStack-API-Version": "container 1.40",
        "X-Openstack-Request-Id": "req-1",
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }


@pytest.mark.parametrize("content", ["text/html", "text/html; charset=utf-8", "image/svg+xml", "application/jsonx"])
def test_no_browser_takes_an_answer_for_a_page(content):
    assert forwarding.response_headers({"Content-Type": content})["Content-Type"] == "application/octet-stream"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 300])
def test_redirects_are_refused(status):
    with pytest.raises(Refused) as refused:
        forwarding.check_status(status)
    assert refused.value.status == 502 and str(status) in refused.value.detail


@pytest.mark.parametrize("status", [200, 202, 204, 304, 400, 401, 404, 503])
def test_other_answers_are_passed_on(status):
    forwarding.check_status(status)


def test_an_answer_of_the_most_bytes_is_passed_on(monkeypatch):
    monkeypatch.setattr(forwarding, "MOST_BYTES", 5)
    assert forwarding.content([b"ab", b"cde"]) == b"abcde" and forwarding.content([]) == b""


def test_a_larger_answer_is_refused_before_its_end(monkeypatch):
    monkeypatch.setattr(forwarding, "MOST_BYTES", 5)
    pieces = iter([b"ab", b"cdef", b"never read"])
    with pytest.raises(Refused) as refused:
        forwarding.content(pieces)
    assert refused.value.status == 502 and list(pieces) == [b"never read"]


def test_a_refusal_has_the_form_of_the_errors_of_the_service():
    (error,) = json.loads(Refused(503, "Service Unavailable", "Try again.").body())["errors"]
    assert (error["status"], error["title"], error["detail"]) == (503, "Service Unavailable", "Try again.")
    assert set(error) == {"request_id", "code", "status", "title", "detail", "links"}
