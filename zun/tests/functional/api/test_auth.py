# SPDX-License-Identifier: Apache-2.0
"""Who the API believes to be asking."""

import datetime
import threading
from http.server import HTTPServer

import pytest

from zun.api import app as api_app
from zun.api import auth
from zun.tests.functional.api.client import Client
from zun.tests.http_servers import Handler, serving


@pytest.mark.parametrize(
    ("identity", "project_id", "is_admin"),
    [
        ({}, "admin", True),
        ({"project": "demo"}, "demo", False),
        ({"project": "demo", "user": "alice"}, "demo", False),
        ({"project": "demo", "roles": "member"}, "demo", False),
        ({"project": "demo", "roles": "member,Admin"}, "demo", True),
        ({"roles": "member"}, "admin", False),
        ({"user": "alice"}, "admin", False),
    ],
)
def test_noauth(application, identity, project_id, is_admin):
    client = Client(application, version="1.40", **identity)
    shown = client.post("/v1/containers", {"image": "demo"}).json
    assert (shown["project_id"], shown["user_id"]) == (project_id, identity.get("user", "admin"))
    assert client.get("/v1/services").status == (200 if is_admin else 403)


def test_noauth_believes_a_reader(application):
    client = Client(application, project="demo", roles="reader")
    assert client.get("/v1/containers").status == 200
    assert client.post("/v1/containers", {"image": "demo"}).status == 403


@pytest.mark.parametrize(
    ("address", "served"),
    [
        ("127.0.0.1", True),
        ("127.8.0.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("192.0.2.7", False),
        ("2001:db8::1", False),
        ("::ffff:192.0.2.7", False),
        ("fe80::1%eth0", False),
        ("", False),  # a socket file: who is behind it, a reverse proxy maybe, cannot be seen
        ("localhost", False),
    ],
)
@pytest.mark.parametrize("allowed", [False, True])
def test_noauth_is_for_loopback_whatever_server_listens(
    configuration, database, scheduler, compute, address, served, allowed
):
    configuration.set_override("allow_noauth_on_any_address", allowed, group="api")
    application = api_app.build(configuration, scheduler_api=scheduler, compute_api=compute)
    client = Client(application, version="1.40", address=address)
    reply = client.get("/v1/containers")
    if served or allowed:
        assert reply.status == 200
    else:
        assert reply.refusal == (403, "forbidden") and "allow_noauth_on_any_address" in reply.error["detail"]
    assert client.get("/v1").status == client.get("/").status == client.get("/healthcheck").status == 200


def token(**scope):
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    form = "%Y-%m-%dT%H:%M:%S.%fZ"
    domain = {"id": "default", "name": "Default"}
    return {
        "token": {
            "methods": ["password"],
            "user": {"id": "alice", "name": "alice", "domain": domain},
            "audit_ids": ["x"],
            "issued_at": datetime.datetime.now(datetime.UTC).strftime(form),
            "expires_at": later.strftime(form),
            **scope,
        }
    }


DEMO = {"project": {"id": "demo", "name": "demo", "domain": {"id": "default", "name": "Default"}}}
TOKENS = {
    "service": token(roles=[{"id": "1", "name": "admin"}], **DEMO),
    "member": token(roles=[{"id": "2", "name": "member"}], **DEMO),
    "unscoped": token(),
    "expired": token(roles=[{"id": "2", "name": "member"}], expires_at="2020-01-01T00:00:00.000000Z", **DEMO),
    "of a service": token(roles=[{"id": "3", "name": "service"}], **DEMO),
}


class Keystone(Handler):
    """The part of keystone that its middleware calls."""

    def do_GET(self):
        if self.path.startswith("/v3/auth/tokens"):
            found = TOKENS.get(self.headers["X-Subject-Token"])
            self.answer(200 if found else 404, found or {})
        else:
            href = f"http://127.0.0.1:{self.server.server_port}/v3/"
            links = [{"rel": "self", "href": href}]
            version = {"id": "v3.14", "status": "stable", "links": links}
            self.answer(200, {"version": version, "versions": {"values": [version]}})

    def do_POST(self):
        self.server.goes_on.wait()
        self.body()
        url = f"http://127.0.0.1:{self.server.server_port}/v3"
        faces = self.server.faces
        endpoints = [{"id": face, "interface": face, "region": None, "url": url} for face in faces]
        catalog = [{"type": "identity", "name": "keystone", "endpoints": endpoints}] if faces else []
        self.answer(201, {"token": {**TOKENS["service"]["token"], "catalog": catalog}}, X_Subject_Token="service")


@pytest.fixture
def keystone_server():
    server = HTTPServer(("127.0.0.1", 0), Keystone)
    server.goes_on = threading.Event()
    server.goes_on.set()
    server.faces = ("internal", "public")  # its own endpoints in its catalogue
    with serving(server):
        yield server


@pytest.fixture
def keystone(keystone_server):
    return f"http://127.0.0.1:{keystone_server.server_port}"


@pytest.fixture
def guarded(database, configuration, scheduler, compute, keystone):
    """The application behind keystone's middleware."""
    configuration.set_override("auth_strategy", "keystone", group="api")
    application = api_app.build(configuration, scheduler_api=scheduler, compute_api=compute)
    group = configuration.keystone_authtoken
    assert group.www_authenticate_uri is None
    return application


@pytest.fixture
def configuration(configuration, keystone, tmp_path):
    file = tmp_path / "zun.conf"
    file.write_text(
        "[keystone_authtoken]\n"
        f"auth_url = {keystone}/v3\n"
        "auth_type = password\nusername = zun\npassword = x\nproject_name = service\n"
        "user_domain_id = default\nproject_domain_id = default\n"
    )
    configuration([], project="zun-test", default_config_files=[str(file)], default_config_dirs=[])
    configuration.set_override("auth_strategy", "noauth", group="api")
    return configuration


@pytest.mark.parametrize("headers", [{}, {"X-Auth-Token": "unknown"}, {"X-Project-Id": "demo", "X-Roles": "admin"}])
def test_without_a_good_token(guarded, headers):
    reply = Client(guarded).get("/v1/containers", headers=headers)
    assert reply.status == 401
    assert reply.headers["www-authenticate"].startswith("Keystone uri=")
    assert reply.json["error"].keys() == {"code", "title", "message"}
    assert reply.json["error"]["code"] == 401


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/", "/v1.json", "/.json", "/healthcheck"])
def test_public_paths(guarded, path):
    assert Client(guarded).get(path).status in (200, 204)


def test_with_a_token(guarded, placed):
    reply = Client(guarded).get("/v1/containers", headers={"X-Auth-Token": "member", "X-Roles": "admin"})
    assert (reply.status, reply.json["containers"]) == (200, [])
    asked = {"X-Auth-Token": "member", "X-Project-Id": "other"}
    shown = Client(guarded).post("/v1/containers", {"image": "demo"}, headers=asked).json
    assert (shown["project_id"], shown["user_id"]) == ("demo", "alice")
    assert Client(guarded).get("/v1/services", headers={"X-Auth-Token": "member"}).status == 403
    gone = Client(guarded).delete(f"/v1/containers/{placed('Stopped').uuid}", headers={"X-Auth-Token": "member"})
    assert (gone.status, gone.body) == (204, b"")


@pytest.mark.parametrize(
    ("token", "vouching", "status"),
    [
        ("expired", None, 401),
        ("expired", "member", 401),
        ("expired", "of a service", 200),
        ("member", "of a service", 200),
        ("member", "member", 401),
    ],
)
def test_only_a_service_may_vouch_for_a_token(guarded, token, vouching, status):
    headers = {"X-Auth-Token": token} | ({"X-Service-Token": vouching} if vouching else {})
    assert Client(guarded).get("/v1/containers", headers=headers).status == status


def test_a_token_for_no_project(guarded):
    reply = Client(guarded).get("/v1/containers", headers={"X-Auth-Token": "unscoped"})
    assert reply.refusal == (403, "forbidden")
    assert "OS_PROJECT_NAME" in reply.error["detail"]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("", "auth_type, mostly"),
        ("auth_type = password\n", "auth_url"),
        ("auth_type = pasword\n", "pasword"),
        ("auth_type = password\nauth_url = http://127.0.0.1\nmemcached_servers = h:1\n", "python-memcached"),
    ],
)
def test_no_start_without_a_way_to_keystone(configuration, database, scheduler, compute, tmp_path, lines, said):
    file = tmp_path / "zun.conf"
    file.write_text(f"[keystone_authtoken]\n{lines}")
    configuration([], project="zun-test", default_config_files=[str(file)], default_config_dirs=[])
    configuration.set_override("auth_strategy", "keystone", group="api")
    with pytest.raises(SystemExit, match=said):
        api_app.build(configuration, scheduler_api=scheduler, compute_api=compute)


@pytest.mark.parametrize("faces", [("public",), ()], ids=["another-interface", "no-catalogue"])
def test_the_catalogue_has_no_way_back_to_keystone(guarded, keystone_server, caplog, faces):
    keystone_server.faces = faces
    reply = Client(guarded).get("/v1/containers", headers={"X-Auth-Token": "member"})
    assert reply.refusal == (503, "unavailable")
    (line,) = [each for each in caplog.messages if "no way back to keystone" in each]
    assert "[keystone_authtoken] interface, region_name" in line
    keystone_server.faces = ("internal",)
    assert Client(guarded).get("/v1/containers", headers={"X-Auth-Token": "member"}).status == 200


def test_keystone_hangs(configuration, keystone_server, database, scheduler, compute, monkeypatch):
    monkeypatch.setattr(auth, "KEYSTONE_SECONDS", 1)
    configuration.set_override("auth_strategy", "keystone", group="api")
    application = api_app.build(configuration, scheduler_api=scheduler, compute_api=compute)
    configuration.set_override("http_request_max_retries", 0, group="keystone_authtoken")
    keystone_server.goes_on.clear()
    reply = Client(application).get("/v1/containers", headers={"X-Auth-Token": "member"})
    keystone_server.goes_on.set()
    assert reply.refusal == (503, "unavailable")


def test_keystone_is_gone(guarded, keystone_server):
    keystone_server.shutdown()
    keystone_server.server_close()
    reply = Client(guarded).get("/v1/containers", headers={"X-Auth-Token": "member"})
    assert reply.refusal == (503, "unavailable")
    assert "keystone" in reply.error["detail"].lower()


def test_unauthorized_reply_names_request_id_and_microversion(guarded):
    reply = Client(guarded, version="1.20").get("/v1/containers")
    assert reply.status == 401
    assert reply.headers["openstack-api-version"] == "container 1.20"
    assert reply.headers["x-openstack-request-id"].startswith("req-")
