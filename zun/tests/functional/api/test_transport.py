# SPDX-License-Identifier: Apache-2.0
"""Paths, verbs, bodies and headers, whatever the resource."""

import io
import re

import pytest

from zun.api import app as api_app
from zun.db import session
from zun.tests.functional.api.client import Client

LIST = {"containers": [], "next": None}
MIB = 1024 * 1024


@pytest.mark.parametrize(
    "path",
    [
        "/v1/containers",
        "/v1/containers/",
        "/v1/containers//",
        "/v1/containers.json",
        "/v1/containers.json/",
        "/containers",
        "/containers/",
        "/v1/containers/?limit=1",
        "/v1/containers?limit=1&marker=",
    ],
)
def test_spellings_of_a_collection(api, path):
    assert (api.get(path).status, api.get(path).json) == (200, LIST)


@pytest.mark.parametrize(
    "form",
    [
        "/v1/containers/{}",
        "/v1/containers/{}/",
        "/v1/containers//{}",
        "/v1/containers/{}.json",
        "/containers/{}",
        "/containers//{}?all_projects=False",
    ],
)
def test_spellings_of_an_item(api, placed, form):
    container = placed()
    assert api.get(form.format(container.uuid)).json["uuid"] == container.uuid


@pytest.mark.parametrize("form", ["/v1/containers/{}/stats", "/v1/containers//{}/stats/", "/containers/{}/stats.json"])
def test_spellings_of_an_action(api, placed, host_up, form):
    assert api.get(form.format(placed().uuid)).status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/v1//containers",
        "//containers",
        "/v2/containers",
        "/v1/nothing",
        "/nothing",
        "/v1/containers/x/nothing",
        "/v1/containers/x/start/y",
        "/v1/services/enable/x",
        "/v1/services/7",
        "/v1/availability_zones/nova",
        "/v1/containers/%00",
        "/v1/containers/a%0ab",
        "/v1/containers/%ff",
        "/v1/capsules/x/y/z",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
def test_paths_that_are_none(api, method, path):
    assert api.send(method, path, {}).refusal == (404, "")


@pytest.mark.parametrize("name", ["a.txt", "a.b", "web.v2"])
def test_names_with_dots_are_legal_and_out_of_reach(api, placed, name):
    container = placed(name=name)
    reply = api.get(f"/v1/containers/{name}")
    assert reply.refusal == (404, "") and "give the uuid" in reply.error["detail"]
    assert api.post(f"/v1/containers/{name}/stop").status == 202
    assert api.get(f"/v1/containers/{container.uuid}").json["name"] == name


def test_json_is_no_part_of_a_name(api, placed):
    container = placed(name="web")
    assert api.get("/v1/containers/web.json").json["uuid"] == container.uuid


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PUT", "/v1/containers", 405),
        ("DELETE", "/v1/containers", 405),
        ("POST", "/v1/containers/x", 405),
        ("PUT", "/v1/containers/x", 405),
        ("GET", "/v1/containers/x/start", 404),
        ("POST", "/v1/containers/x/logs", 404),
        ("POST", "/v1/hosts", 405),
        ("DELETE", "/v1/hosts/x", 405),
        ("POST", "/v1/services", 405),
        ("PUT", "/v1/services/x", 404),
        ("POST", "/v1/availability_zones", 405),
        ("POST", "/", 405),
        ("POST", "/v1", 405),
        ("OPTIONS", "/v1/containers", 405),
        ("OPTIONS", "/v1/containers/x/start", 405),
        ("TRACE", "/v1/containers", 405),
    ],
)
def test_a_wrong_verb_is_told_what_to_do_instead(api, method, path, status):
    reply = api.send(method, path)
    assert reply.refusal == (status, "")
    assert ("allow" in reply.headers) == (status == 405)
    assert reply.error["detail"]  # what to do instead


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/containers", "/v1/containers/x", "/v1/containers/x/start"])
def test_head_is_refused_without_a_body(api, path):
    reply = api.send("HEAD", path)
    assert (reply.status, reply.body) == (405, b"")


def test_the_verb_cannot_be_changed_by_a_parameter(api, placed):
    container = placed("Stopped")
    assert api.get(f"/v1/containers/{container.uuid}?_method=DELETE").json["status"] == "Stopped"
    assert "containers" in api.get("/v1/containers?_method=POST").json


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        (None, 200),
        ("", 200),
        ("*/*", 200),
        ("application/json", 200),
        ("application/*", 200),
        ("text/html, application/json;q=0.5", 200),
        ("text/html, */*;q=0.1", 200),
        ("application/json; charset=utf-8", 200),
        ("text/html", 406),
        ("application/xml, text/plain", 406),
        ("application/json;q=0, */*", 406),
        ("*/*;q=0", 406),
    ],
)
def test_accept(api, accept, status):
    reply = api.get("/v1/containers", headers={"Accept": accept})
    assert reply.status == status
    assert reply.headers["content-type"] == "application/json"
    if status == 406:
        assert reply.refusal == (406, "")
        assert reply.headers["openstack-api-version"] == "container 1.40"


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 202),
        ("application/json; charset=utf-8", 202),
        ("Application/JSON", 202),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("application/octet-stream", 415),
        ("", 415),
        (None, 415),
    ],
)
def test_content_type_of_create(api, content_type, status):
    reply = api.post("/v1/containers", {"image": "demo"}, content_type=content_type)
    assert reply.status == status
    if status == 415:
        assert reply.refusal == (415, "unsupported-media-type")


FOREIGN_TYPES = ["application/octet-stream", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]


@pytest.mark.parametrize("content_type", [*FOREIGN_TYPES, "application/json; charset=utf-8", "", None])
def test_a_body_of_another_type_is_refused(api, placed, compute, content_type):
    container = placed()
    reply = api.post(f"/v1/containers/{container.uuid}/stop", {"timeout": 3}, content_type=content_type)
    if content_type in FOREIGN_TYPES:
        assert reply.refusal == (415, "unsupported-media-type") and content_type in reply.error["detail"]
        assert not compute.sent
    else:
        assert reply.status == 202
        assert compute.sent == [("stop", container.uuid, {"timeout": 3})]


@pytest.mark.parametrize("content_type", [*FOREIGN_TYPES, "application/json", None])
def test_without_a_body_its_type_does_not_matter(api, placed, content_type):
    path = f"/v1/containers/{placed().uuid}"
    assert api.post(f"{path}/stop", content_type=content_type).status == 202
    assert api.delete(f"{path}?stop=True", content_type=content_type).status == 204


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"{", "not valid JSON"),
        (b"{'image': 'x'}", "not valid JSON"),
        (b'{"image": "demo"', "not valid JSON"),
        (b'{"image": "demo"} x', "not valid JSON"),
        (b'{"image": "demo", "cpu": NaN}', "NaN is not a JSON number"),
        (b'{"image": "demo", "cpu": Infinity}', "Infinity is not a JSON number"),
        (b'{"image": "demo", "cpu": 1e999}', "too large"),
        (b'{"image": "demo", "cpu": ' + b"9" * 5000 + b"}", "not valid JSON"),
        (b"\xff\xfe{}", "not valid JSON"),
        (b"[" * 10_000 + b"]" * 10_000, "nested too deeply"),
        (b"[" * 100_000, "too large"),
        (b'{"image": "demo", "hints": ' + b'{"a":' * 30 + b"1" + b"}" * 31, "nested too deeply"),
        (b'{"image": "demo", "hints": {"a": ' + b"9" * 4000 + b"}}", "too large"),
        (b"[]", "an array"),
        (b'"image"', "a string"),
        (b"7", "a number"),
        (b"true", "a boolean"),
        (rb'{"image": "demo", "name": "a\u0000b"}', "NUL"),
        (rb'{"image": "demo", "labels": {"a\u0000": "b"}}', "NUL"),
        (rb'{"image": "demo", "command": ["\ud800"]}', "surrogate"),
    ],
)
def test_bodies_that_are_no_json_object(api, placed, raw, said):
    path = f"/v1/containers/{placed().uuid}"
    for method, where in (("POST", "/v1/containers"), ("PATCH", path), ("POST", f"{path}/stop")):
        reply = api.send(method, where, raw=raw)
        assert reply.refusal == (400, "validation-error")
        assert said in reply.error["detail"]


def test_values_that_are_just_possible(api):
    body = b'{"image": "demo", "hints": ' + b'{"a":' * 28 + b"[" + b"9" * 300 + b"]" + b"}" * 29
    assert api.post("/v1/containers", raw=body).status == 202


def test_text_beyond_ascii_arrives(api):
    body = {"image": "demo", "environment": {"GREETING": "καλημέρα 😀"}, "command": ["printf", "\\u0000"]}
    shown = api.post("/v1/containers", body).json
    assert (shown["environment"], shown["command"]) == (body["environment"], body["command"])


@pytest.mark.parametrize("raw", [b"", b"null", b" null "])
def test_bodies_that_say_nothing(api, placed, raw):
    assert api.post(f"/v1/containers/{placed().uuid}/stop", raw=raw).status == 202
    assert api.post("/v1/containers", raw=raw).refusal == (400, "schema-validation-error")


def test_broken_text_without_a_type_is_left_aside(api, placed):
    path = f"/v1/containers/{placed().uuid}/stop"
    assert api.post(path, raw=b"\x00\x01", content_type=None).status == 202


def test_a_body_of_get_is_not_read(api):
    assert api.get("/v1/containers", raw=b"{").json == LIST


def test_size_of_a_body(api):
    fits = b'{"image": "demo"}' + b" " * (MIB - 17)
    assert api.post("/v1/containers", raw=fits).status == 202
    assert api.post("/v1/containers", raw=fits + b" ").refusal == (413, "request-too-large")


def test_a_body_without_a_length(application):
    """Chunked: the server knows its end, we stop at the limit."""

    def chunked(environ, start_response):
        del environ["CONTENT_LENGTH"]
        environ["HTTP_TRANSFER_ENCODING"] = "chunked"
        return application(environ, start_response)

    api = Client(chunked, project="demo", version="1.40")
    assert api.post("/v1/containers", {"image": "demo"}).status == 202
    assert api.post("/v1/containers", raw=b" " * (MIB + 1)).refusal == (413, "request-too-large")


@pytest.mark.parametrize(
    ("method", "path", "length", "status"),
    [
        ("POST", "containers", "x", 400),
        ("POST", "containers", "-1", 400),
        ("POST", "containers", "\u0661", 400),
        ("POST", "containers", "9" * 30, 413),
        # Nothing reads what these have, or not at once. What a server makes of such a length is another question.
        ("GET", "containers", "-1", 400),
        ("GET", "containers", "+5", 400),
        ("POST", "containers/x/put_archive", "+5", 400),
    ],
)
def test_lengths_that_cannot_be(application, method, path, length, status):
    def lying(environ, start_response):
        environ["CONTENT_LENGTH"] = length
        environ["wsgi.input"] = io.BytesIO(b"{}")
        return application(environ, start_response)

    assert Client(lying, project="demo", version="1.40").send(method, f"/v1/{path}").status == status


@pytest.mark.parametrize(
    "query", ["limit=1&limit=2", "name=a&name=a", "name=%ff", "name=a%00b", "&".join(f"a{n}=1" for n in range(2000))]
)
def test_queries_that_cannot_be_read(api, query):
    assert api.get(f"/v1/containers?{query}").refusal == (400, "validation-error")


def test_an_argument_in_query_and_body(api, placed):
    reply = api.post(f"/v1/containers/{placed().uuid}/stop?timeout=1", {"timeout": 1})
    assert reply.refusal == (400, "schema-validation-error")
    assert "timeout" in reply.error["detail"]


def test_request_ids(api):
    first, second = (api.get("/v1/containers").headers["x-openstack-request-id"] for _ in range(2))
    form = "req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    assert re.fullmatch(form, first) and re.fullmatch(form, second) and first != second
    assert "x-openstack-request-id" in api.get("/v1/nothing").headers


def test_links_have_the_clients_host_and_no_mount(api):
    reply = api.post("/v1/containers", {"image": "demo"}, mount="/container", headers={"Host": "cloud.example"})
    uuid = reply.json["uuid"]
    assert reply.headers["location"] == f"http://cloud.example/v1/containers/{uuid}"
    assert reply.json["links"] == [
        {"href": f"http://cloud.example/v1/containers/{uuid}", "rel": "self"},
        {"href": f"http://cloud.example/containers/{uuid}", "rel": "bookmark"},
    ]


def test_no_content_has_neither_type_nor_length(api, placed):
    reply = api.delete(f"/v1/containers/{placed('Stopped').uuid}")
    assert (reply.status, reply.body) == (204, b"")
    assert not {"content-type", "content-length"} & reply.headers.keys()


def test_nothing_to_say_is_null(api, placed):
    reply = api.post(f"/v1/containers/{placed().uuid}/pause")
    assert (reply.status, reply.body, reply.headers["content-type"]) == (202, b"null", "application/json")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_healthcheck_needs_nobody(application, method):
    reply = Client(application).send(method, "/healthcheck", content_type=None)
    assert reply.status in (200, 204)
    assert "openstack-api-version" not in reply.headers


def test_version_documents(application):
    nobody = Client(application)
    root = nobody.get("/").json
    (version,) = root["versions"]
    assert version == root["default_version"]
    assert {key: version[key] for key in ("id", "status", "min_version", "max_version")} == {
        "id": "v1",
        "status": "CURRENT",
        "min_version": "1.1",
        "max_version": "1.51",
    }
    assert version["links"] == [{"href": "http://zun.example:9517/v1/", "rel": "self"}]
    for path in ("/v1", "/v1/", "/v1.json"):
        document = nobody.get(path).json
        assert document["id"] == "v1"
        nouns = "services containers groups images hosts aggregates availability_zones quotas quota_classes registries"
        for noun in nouns.split():
            assert document[noun] == [
                {"href": f"http://zun.example:9517/v1/{noun}/", "rel": "self"},
                {"href": f"http://zun.example:9517/{noun}/", "rel": "bookmark"},
            ]
    assert nobody.get("/.json").json == root


# What operators put in front.


@pytest.fixture
def configured(configuration, database, scheduler, compute, tmp_path):
    def build(text):
        file = tmp_path / "zun.conf"
        file.write_text(f"[api]\nauth_strategy = noauth\nhost_names = zun.example, cloud.example\n{text}")
        configuration([], project="zun-test", default_config_files=[str(file)], default_config_dirs=[])
        application = api_app.build(configuration, scheduler_api=scheduler, compute_api=compute)
        return Client(application, project="demo", version="1.40")

    return build


@pytest.mark.parametrize(("enabled", "base"), [("true", "https://cloud.example"), ("false", "http://zun.example:9517")])
def test_behind_a_proxy(configured, enabled, base):
    api = configured(f"[oslo_middleware]\nenable_proxy_headers_parsing = {enabled}\n")
    headers = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "cloud.example"}
    reply = api.post("/v1/containers", {"image": "demo"}, headers=headers)
    assert reply.headers["location"] == f"{base}/v1/containers/{reply.json['uuid']}"


@pytest.mark.parametrize(
    ("enabled", "headers", "address"),
    [
        ("false", {"X-Forwarded-For": "127.0.0.9", "Forwarded": "for=127.0.0.9"}, "127.0.0.1"),
        ("true", {}, "127.0.0.1"),
        ("true", {"X-Forwarded-For": "127.0.0.8, 127.0.0.9"}, "127.0.0.9"),
        ("true", {"Forwarded": 'for="[::1]:80", for=127.0.0.9'}, "127.0.0.9"),
        ("true", {"Forwarded": "for=127.0.0.8", "X-Forwarded-For": "127.0.0.9"}, "127.0.0.9"),
    ],
)
def test_the_client_behind_a_proxy(configured, enabled, headers, address):
    api = configured(f"[oslo_middleware]\nenable_proxy_headers_parsing = {enabled}\n").at("1.42")
    uuid = api.post("/v1/containers", {"image": "demo"}, headers=headers).json["uuid"]
    (action,) = api.get(f"/v1/containers/{uuid}/container_actions").json["containerActions"]
    assert action["client_address"] == address


@pytest.mark.parametrize("address", ["192.0.2.7", "unknown"])
@pytest.mark.parametrize("form", ["X-Forwarded-For: 127.0.0.1, {}", "Forwarded: for=127.0.0.1, for={}"])
def test_a_forged_loopback_is_no_administrator(configured, form, address):
    headers = dict([form.format(address).split(": ")])
    api = configured("[oslo_middleware]\nenable_proxy_headers_parsing = true\n")
    assert api.get("/v1/containers", headers=headers).status == 403


def test_browsers_of_another_origin(configured):
    api = configured("[cors]\nallowed_origin = https://ui.example\n")
    origin = {"Origin": "https://ui.example"}
    names = "OpenStack-API-Version,If-None-Match"
    asked = {"Access-Control-Request-Method": "PATCH", "Access-Control-Request-Headers": names}
    preflight = api.send("OPTIONS", "/v1/containers", headers=origin | asked)
    assert preflight.status == 200
    assert preflight.headers["access-control-allow-origin"] == "https://ui.example"
    assert preflight.headers["access-control-allow-headers"] == names
    reply = api.get("/v1/containers", headers=origin)
    assert reply.headers["access-control-allow-origin"] == "https://ui.example"
    assert "OpenStack-API-Version" in reply.headers["access-control-expose-headers"]
    assert "ETag" in reply.headers["access-control-expose-headers"]
    assert "access-control-allow-origin" not in api.get("/v1/containers").headers
    trace = api.send("OPTIONS", "/v1/containers", headers=origin | {"Access-Control-Request-Method": "TRACE"})
    assert "access-control-allow-methods" not in trace.headers


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:9517", "http://zun.example", ""])
def test_a_foreign_origin_changes_nothing(configured, origin, scheduler):
    reply = configured("").post("/v1/containers", {"image": "demo"}, headers={"Origin": origin})
    assert reply.refusal == (403, "forbidden") and "allowed_origin" in reply.error["detail"]
    assert not scheduler.sent


@pytest.mark.parametrize("origin", ["http://zun.example:9517", "https://ui.example"])
def test_own_and_allowed_origins_are_served(configured, origin):
    api = configured("[cors]\nallowed_origin = https://ui.example\n")
    assert api.post("/v1/containers", {"image": "demo"}, headers={"Origin": origin}).status == 202


@pytest.mark.parametrize(
    ("host", "served"),
    [
        ("localhost", True),
        ("LocalHost:9517", True),
        ("127.0.0.1:9517", True),
        ("127.8.0.1", True),
        ("[::1]:9517", True),
        ("192.0.2.9:9517", True),
        ("zun.example", True),
        ("evil.example:9517", False),
        ("localhost.evil.example:9517", False),
        ("127.0.0.1.evil.example", False),
        ("192.0.2.8:9517", False),
        ("[::1", False),
        ("", False),
    ],
)
def test_noauth_answers_its_own_names_only(configured, host, served, scheduler):
    """A page whose name resolves to this machine is of one origin with it, to the browser."""
    api = configured("host_ip = 192.0.2.9\n")
    headers = {"Host": host, "Origin": f"http://{host}"} if served else {"Host": host}
    reply = api.post("/v1/containers", {"image": "demo"}, headers=headers)
    assert (reply.status, bool(scheduler.sent)) == ((202, True) if served else (403, False))
    assert served or "host_names" in reply.error["detail"]


def test_any_address_is_own_where_anybody_may_ask(configured):
    api = configured("host_ip = 0.0.0.0\nallow_noauth_on_any_address = true\n")
    assert api.get("/v1/containers", headers={"Host": "192.0.2.8:9517"}).status == 200
    assert api.get("/v1/containers", headers={"Host": "evil.example"}).status == 403


def test_the_callers_request_id_is_kept_apart(api):
    theirs = "req-0e4e9f1c-0000-0000-0000-000000000000"
    for sent in (theirs, "req-x", "anything"):
        assert api.get("/v1/containers", headers={"X-OpenStack-Request-ID": sent}).headers[
            "x-openstack-request-id"
        ] not in (sent, theirs)


def test_a_page_of_several_pieces_has_a_length(api, placed, monkeypatch):
    monkeypatch.setattr(session, "ROWS_AT_A_TIME", 2)
    uuids = [placed().uuid for _ in range(5)]
    reply = api.get("/v1/containers")
    assert int(reply.headers["content-length"]) == len(reply.body)
    assert [each["uuid"] for each in reply.json["containers"]] == uuids


def test_the_framework_sees_neither_query_nor_body():
    seen, body = {}, io.BytesIO(b'{"data": ""}')
    sent = {"QUERY_STRING": "path=/tmp", "CONTENT_TYPE": "application/json", "CONTENT_LENGTH": "12", "wsgi.input": body}
    api_app.unread(lambda environ, start_response: seen.update(environ) or [])(sent, None)
    assert (seen["QUERY_STRING"], seen["CONTENT_LENGTH"], seen["wsgi.input"].read()) == ("", "0", b"")
    assert seen["zun.request"] is sent and body.tell() == 0
