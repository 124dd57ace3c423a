# SPDX-License-Identifier: Apache-2.0
"""The page for people under ``/ui/``: its files, their headers, and the login without keystone."""

import bcrypt
import pytest

from zun.api import app as api_app
from zun.api import limits
from zun.api.microversion import MAX
from zun.api.pages import content_security_policy
from zun.common import exceptions
from zun.tests.browser.keystone import PASSWORD, keystone
from zun.tests.functional.api.client import Client, basic
from zun.ui import files

PAGE = files.packaged()[files.PAGE]


@pytest.fixture
def pages(configuration, database, scheduler, compute):
    """Return a function that builds the API with its page and with options (``group__name``)."""

    def build(**options):
        for name, value in {"ui__enabled": True, **options}.items():
            group, _, option = name.partition("__")
            configuration.set_override(option, value, group=group)
        return Client(api_app.build(configuration, scheduler_api=scheduler, compute_api=compute), version="1.40")

    return build


def test_without_the_option_there_is_no_page(api):
    assert (api.get("/ui/").status, api.get("/ui").status, api.get("/ui/config.json").status) == (404, 404, 404)


@pytest.mark.parametrize("path", ["/ui/", "/ui/index.html"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_page_is_served_whole_or_as_its_headers(pages, path, method):
    reply = pages().send(method, path, content_type=None)
    assert (reply.status, reply.body) == (200, PAGE.content if method == "GET" else b"")
    assert {name: reply.headers[name] for name in ("content-type", "content-length", "etag", "cache-control")} == {
        "content-type": "text/html; charset=utf-8",
        "content-length": str(len(PAGE.content)),
        "etag": PAGE.etag,
        "cache-control": "no-cache",
    }
    assert (reply.headers["x-content-type-options"], reply.headers["referrer-policy"]) == ("nosniff", "no-referrer")


def test_unchanged_file_is_answered_304(pages):
    client = pages()
    reply = client.get("/ui/", headers={"If-None-Match": PAGE.etag})
    assert (reply.status, reply.body, reply.headers["etag"]) == (304, b"", PAGE.etag)
    assert client.get("/ui/", headers={"If-None-Match": '"another"'}).status == 200


def test_every_packaged_file_is_served(pages):
    client = pages()
    served = {path: client.get(f"/ui/{path}") for path in files.packaged()}
    assert {path: (reply.status, reply.body) for path, reply in served.items()} == {
        path: (200, file.content) for path, file in files.packaged().items()
    }


@pytest.mark.parametrize("mount", ["", "/container"])
def test_path_without_slash_leads_to_the_page(pages, mount):
    reply = pages().get("/ui", mount=mount)
    assert (reply.status, reply.headers["location"]) == (308, "ui/")  # relative: a proxy may have a prefix of its own


@pytest.mark.parametrize(
    "path",
    [
        "/ui/../conf.py", "/ui/..%2fconf.py", "/ui/%2e%2e/files.py", "/ui//etc/passwd", "/ui/vendor/", "/ui/vendor",
        "/ui/__init__.py", "/ui/files.py", "/ui/vendor/SOURCES.csv", "/ui/index.html/", "/ui/INDEX.HTML",
        "/ui/index.html%00", "/ui/%ff", "/ui/./index.html",
    ],
)  # fmt: skip
def test_no_other_file_is_served(pages, path):
    assert pages().get(path).refusal == (404, "")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_files_can_only_be_read(pages, method):
    reply = pages().send(method, "/ui/")
    assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD")


def rules(text):
    """The directives of a Content-Security-Policy."""
    return ((name, words) for name, *words in (each.split() for each in text.split(";")))


def policy(reply):
    return dict(rules(reply.headers["content-security-policy"]))


def test_page_may_load_and_reach_what_is_its_own_only(pages):
    assert policy(pages().get("/ui/")) == {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'"],
        "connect-src": ["'self'", "ws://127.0.0.1:6784"],
        "frame-src": ["'self'"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
        "frame-ancestors": ["'none'"],
        "require-trusted-types-for": ["'script'"],
        "trusted-types": ["lit-html"],
    }


def test_terminal_is_a_frame_with_styles_of_its_own():
    page, terminal = (dict(rules(content_security_policy(path, ["wss://a"]))) for path in ("", "terminal.html"))
    assert page.keys() - terminal.keys() == {"require-trusted-types-for", "trusted-types"}
    assert {name: words for name, words in terminal.items() if words != page[name]} == {
        "style-src": ["'self'", "'unsafe-inline'"],
        "frame-src": ["'none'"],
        "frame-ancestors": ["'self'"],
    }


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        (["wss://node-1.example:6784"], ["wss://node-1.example:6784"]),
        (["wss://*.example:6784", "ws://[2001:db8::1]:6784/"], ["wss://*.example:6784", "ws://[2001:db8::1]:6784"]),
    ],
)
def test_consoles_are_those_that_the_operator_names(pages, given, allowed):
    assert policy(pages(ui__console_origins=given).get("/ui/"))["connect-src"] == ["'self'", *allowed]


@pytest.mark.parametrize("url", ["https://a.example", "node-1:6784", "wss://", "ws://a; script-src *", "ws://a b", "*"])
def test_malformed_origin_of_consoles_stops_the_program(pages, url):
    with pytest.raises(exceptions.Misconfigured, match=r"\[ui\] console_origins"):
        pages(ui__console_origins=[url])


def test_what_the_page_must_know_before_the_login(pages):
    reply = pages(ui__default_domain="people").get("/ui/config.json")
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert reply.json == {
        "auth_strategy": "noauth",
        "default_domain": "people",
        "min_version": "1.1",
        "max_version": str(MAX),
    }


def test_api_is_the_same_beside_the_page(pages):
    client = pages()
    assert client.get("/v1/containers").json == {"containers": [], "next": None}
    assert client.get("/uix").status == client.get("/v1/ui").status == 404


# The login without keystone.


def test_noauth_needs_no_login_but_tells_who_it_is(pages):
    reply = pages().post("/ui/login", {})
    assert (reply.status, reply.headers["cache-control"]) == (200, "no-store")
    assert reply.json == {
        "token": None,
        "expires_at": None,
        "user": {"id": "admin", "name": "admin"},
        "project": {"id": "admin", "name": "admin"},
        "roles": ["admin"],
        "projects": [],
    }


@pytest.mark.parametrize(
    ("method", "changes", "status"),
    [
        ("GET", {}, 405),
        ("POST", {"headers": {"Origin": "https://evil.example"}}, 403),
        ("POST", {"headers": {"Origin": "http://zun.example:9517"}}, 200),
        ("POST", {"headers": {"Host": "evil.example"}}, 403),
        ("POST", {"content_type": "text/plain"}, 415),
        ("POST", {"content_type": None}, 415),
        ("POST", {"raw": b"["}, 400),
        ("POST", {"raw": b"[]"}, 400),
        ("POST", {"raw": b'{"users": "a"}'}, 400),
        ("POST", {"raw": b" " * 40_000}, 413),
    ],
)
def test_login_takes_requests_of_its_own_page_only(pages, method, changes, status):
    assert pages().send(method, "/ui/login", **{"raw": b"{}", **changes}).status == status


def test_noauth_login_is_for_loopback_like_the_api(pages):
    client = pages()
    far = Client(client.application, address="192.0.2.7")
    assert far.post("/ui/login", {}).refusal == (403, "forbidden")


@pytest.fixture
def people(tmp_path, pages):
    """The page with users of a file: alice, whose password has a colon and an umlaut."""
    file = tmp_path / "htpasswd"
    file.write_text(f"alice:{bcrypt.hashpw('pä:ss'.encode(), bcrypt.gensalt(4)).decode()}\n")
    return pages(api__auth_strategy="http_basic", api__http_basic_user_file=str(file))


def test_password_of_the_file_tells_user_and_project(people):
    reply = people.post("/ui/login", {"user": "alice", "password": "pä:ss"})
    assert reply.status == 200 and "ss" not in reply.body.decode().replace("password", "")
    shown = reply.json
    assert (shown["user"]["id"], shown["project"]["id"], shown["roles"]) == ("alice", "alice", ["member"])


@pytest.mark.parametrize("given", [{}, {"user": "alice"}, {"user": "alice", "password": "no"}, {"password": "pä:ss"}])
def test_wrong_login_is_401(people, given):
    reply = people.post("/ui/login", given)
    assert reply.status == 401 and "www-authenticate" in reply.headers


def test_page_and_api_count_wrong_passwords_together(people):
    for _ in range(limits.WRONG_PASSWORDS):
        people.post("/ui/login", {"user": "alice", "password": "no"})
    reply = people.post("/ui/login", {"user": "alice", "password": "pä:ss"})
    assert (reply.status, reply.headers["retry-after"]) == (429, str(limits.WAIT_SECONDS))
    assert people.get("/v1/containers", headers=basic("alice", "pä:ss")).status == 429


@pytest.mark.parametrize("secret", [123456, ["hunter2"], {"hunter2": 1}, "hunter2" * 2000, ""])
@pytest.mark.parametrize("field", ["password", "token"])
def test_malformed_secret_is_not_quoted(people, field, secret, caplog):
    reply = people.post("/ui/login", {"user": "alice", field: secret})
    assert reply.status == 400 and field in reply.error["detail"]
    assert not any(text in reply.body.decode() + caplog.text for text in ("hunter2", "123456"))


# The login at keystone. zun/tests/integration/test_page_login.py has a real one.


@pytest.fixture
def cloud():
    """A keystone with people."""
    with keystone() as running:
        yield running


@pytest.fixture
def behind_keystone(configuration, cloud, tmp_path, pages):
    """Return a function that builds the page behind the keystone at a URL."""

    def build(url=cloud.url, **options):
        file = tmp_path / "zun.conf"
        file.write_text(
            f"[keystone_authtoken]\nauth_url = {url}\nauth_type = password\nusername = zun\npassword = {PASSWORD}\n"
            "project_name = service\nuser_domain_id = default\nproject_domain_id = default\nhttp_connect_timeout = 5\n"
        )
        configuration([], project="zun-test", default_config_files=[str(file)], default_config_dirs=[])
        return pages(api__auth_strategy="keystone", **options)

    return build


ALICE = {"user": "alice", "password": PASSWORD}


@pytest.mark.parametrize(
    ("given", "project", "choice"),
    [
        (ALICE, None, ["demo", "research"]),
        ({**ALICE, "project": "demo"}, "demo", []),
        ({**ALICE, "project_id": "research"}, "research", []),
        ({"user": "bob", "password": PASSWORD}, "others", []),
    ],
)
def test_login_leads_to_the_project_that_is_named_or_the_only_one(behind_keystone, given, project, choice):
    shown = behind_keystone().post("/ui/login", given).json
    assert (shown["project"] and shown["project"]["name"], [each["name"] for each in shown["projects"]]) == (
        project,
        choice,
    )


def test_token_of_a_login_is_one_of_the_api(behind_keystone):
    client = behind_keystone()
    token = client.post("/ui/login", {**ALICE, "project": "demo"}).json["token"]
    assert client.get("/v1/containers", headers={"X-Auth-Token": token}).status == 200
    again = client.post("/ui/login", {"token": token}).json
    assert (again["token"], again["project"]["name"], again["roles"]) == (token, "demo", ["member"])


@pytest.mark.parametrize(
    ("given", "status", "named"),
    [
        ({}, 400, "user, password"),
        ({"user": "alice"}, 400, "user, password"),
        ({"password": PASSWORD}, 400, "user, password"),
        ({**ALICE, "token": "a"}, 400, "token"),
        ({**ALICE, "project": "demo", "project_id": "demo"}, 400, "project"),
        ({**ALICE, "project": "a\nb"}, 400, "project"),
        ({**ALICE, "domain": "Default"}, 400, "domain"),
        ({**ALICE, "password": "wrong"}, 401, "refused"),
        ({**ALICE, "project": "others"}, 401, "refused"),
        ({"token": "unknown"}, 401, "refused"),
        ({"token": "unknown", "project": "demo"}, 401, "refused"),
        ({"token": "line\nbreak"}, 400, "token"),
        ({"token": "ä"}, 400, "token"),
        ({"token": "a b"}, 400, "token"),
    ],
)
def test_login_that_cannot_be(behind_keystone, given, status, named):
    reply = behind_keystone().post("/ui/login", given)
    assert reply.status == status and named in reply.error["detail"]


def test_login_at_keystone_is_for_the_own_page_too(behind_keystone):
    client = behind_keystone()
    assert client.post("/ui/login", ALICE, headers={"Origin": "https://evil.example"}).status == 403
    assert client.post("/ui/login", ALICE, headers={"Origin": "http://zun.example:9517"}).status == 200


def test_wrong_passwords_at_keystone_make_one_user_at_one_address_wait(behind_keystone):
    client = behind_keystone()
    for _ in range(limits.WRONG_PASSWORDS):
        assert client.post("/ui/login", {**ALICE, "password": "wrong"}).status == 401
    reply = client.post("/ui/login", ALICE)
    assert (reply.status, reply.headers["retry-after"]) == (429, str(limits.WAIT_SECONDS))
    assert client.post("/ui/login", {**ALICE, "user": "bob"}).status == 200
    assert Client(client.application, address="192.0.2.7").post("/ui/login", ALICE).status == 200


def test_keystone_that_does_not_answer_is_503(behind_keystone, caplog):
    reply = behind_keystone("http://127.0.0.1:1/v3").post("/ui/login", ALICE)
    assert reply.status == 503 and "Keystone does not answer" in reply.error["detail"]
    assert PASSWORD not in caplog.text


@pytest.mark.parametrize(("at_once", "status"), [(0, 429), (1, 200), (-1, 200)])
def test_logins_leave_threads_to_the_api(behind_keystone, at_once, status):
    client = behind_keystone(api__waiting_requests=at_once)
    for _ in range(2):
        assert client.post("/ui/login", ALICE).status == status
