# SPDX-License-Identifier: Apache-2.0
"""Names and passwords from a file, for installations without keystone."""

import time
from dataclasses import replace

import bcrypt
import pytest

from zun.api import app as api_app
from zun.api import limits
from zun.tests.functional.api.client import Client, basic


def line(user, password):
    return f"{user}:{bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()}\n"


@pytest.fixture
def users(tmp_path):
    file = tmp_path / "htpasswd"
    file.write_text(line("alice", "wonderland") + line("bob", "pässword: 2") + line("root", "toor"))
    return file


@pytest.fixture
def projects(tmp_path):
    file = tmp_path / "projects"
    file.write_text("# who is where\n\nbob : demo : reader\nroot:operators:admin,member\n")
    return file


@pytest.fixture
def build(database, configuration, scheduler, compute, users, projects):
    configuration.set_override("auth_strategy", "http_basic", group="api")
    configuration.set_override("http_basic_user_file", str(users), group="api")
    configuration.set_override("http_basic_project_file", str(projects), group="api")
    return lambda: Client(api_app.build(configuration, scheduler_api=scheduler, compute_api=compute), version="1.40")


CREATE = {"image": "demo"}


def test_who_is_who(build, placed):
    api = build()
    shown = api.post("/v1/containers", CREATE, headers=basic("alice", "wonderland")).json
    assert (shown["user_id"], shown["project_id"]) == ("alice", "alice")
    placed(name="of-demo")
    seen = api.get("/v1/containers", headers=basic("bob", "pässword: 2")).json["containers"]
    assert [item["name"] for item in seen] == ["of-demo"]
    assert api.post("/v1/containers", CREATE, headers=basic("bob", "pässword: 2")).status == 403
    assert api.get("/v1/services", headers=basic("root", "toor")).status == 200
    assert api.get("/v1/services", headers=basic("alice", "wonderland")).status == 403


def test_a_browser_lends_no_password_to_a_foreign_page(build):
    api, login = build(), basic("alice", "wonderland")
    reply = api.post("/v1/containers", CREATE, headers={**login, "Origin": "https://evil.example"})
    assert reply.refusal == (403, "forbidden")
    own = {**login, "Host": "any.example", "Origin": "https://any.example"}
    assert api.post("/v1/containers", CREATE, headers=own).status == 202


def test_without_a_file_of_projects(build, configuration):
    configuration.set_override("http_basic_project_file", None, group="api")
    api = build()
    assert api.get("/v1/services", headers=basic("root", "toor")).status == 403
    shown = api.post("/v1/containers", CREATE, headers=basic("root", "toor")).json
    assert (shown["user_id"], shown["project_id"]) == ("root", "root")


def test_other_words_about_identity_are_not_heard(build):
    forged = {"X-Project-Id": "demo", "X-User-Id": "root", "X-Roles": "admin", "OpenStack-System-Scope": "all"}
    shown = build().post("/v1/containers", CREATE, headers={**forged, **basic("alice", "wonderland")}).json
    assert (shown["user_id"], shown["project_id"], "host" in shown) == ("alice", "alice", False)


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="nothing"),
        pytest.param(basic("alice", "Wonderland"), id="wrong-password"),
        pytest.param(basic("alice", ""), id="no-password"),
        pytest.param(basic("mallory", "wonderland"), id="unknown-user"),
        pytest.param(basic("", "wonderland"), id="no-user"),
        pytest.param(basic("alice\nroot", "wonderland"), id="two-lines"),
        pytest.param(basic("alice", "x" * 73), id="longer-than-bcrypt-takes"),
        pytest.param(basic("alice", "a\0b"), id="nul"),
        pytest.param({"Authorization": "Basic"}, id="scheme-only"),
        pytest.param({"Authorization": "Basic !!!"}, id="not-base64"),
        pytest.param({"Authorization": "Basic /w=="}, id="not-utf-8"),
        pytest.param({"Authorization": "Basic YWxpY2U="}, id="no-colon"),
        pytest.param({"Authorization": "Bearer abc"}, id="another-scheme"),
    ],
)
def test_without_the_password(build, headers):
    reply = build().get("/v1/containers", headers=headers)
    assert (reply.status, reply.headers["www-authenticate"]) == (401, 'Basic realm="zun", charset="UTF-8"')
    assert reply.json == {
        "error": {
            "code": 401,
            "title": "Unauthorized",
            "message": "The request you have made requires authentication.",
        }
    }
    assert reply.headers["x-openstack-request-id"].startswith("req-")


def test_a_name_cannot_write_lines_of_its_own_into_the_log(build, caplog):
    caplog.set_level("INFO")
    build().get("/v1/containers", headers=basic("alice\nRefused nothing", "wonderland"))
    assert "Refused nothing" not in caplog.text


def test_who_gives_no_password_is_not_told_of_as_refused(build, caplog):
    """Clients ask that way first, to learn how they are to say who they are."""
    caplog.set_level("INFO")
    assert build().get("/v1/containers").status == 401
    assert "Refused" not in caplog.text


@pytest.mark.parametrize("path", ["/", "/v1", "/healthcheck"])
def test_public_paths(build, path):
    assert build().get(path).status == 200


def test_errors_behind_it_stay_what_they_are(build, compute):
    reply = build().get("/v1/containers/nothing", headers=basic("root", "toor"))
    assert reply.refusal == (404, "container-not-found")


def test_a_change_of_the_files_counts_at_once(build, users, projects):
    api = build()
    with users.open("a") as file:
        file.write(line("carol", "new"))
    assert api.get("/v1/services", headers=basic("carol", "new")).status == 403
    projects.write_text("carol:operators:admin\n")
    assert api.get("/v1/services", headers=basic("carol", "new")).status == 200
    users.write_text(line("alice", "wonderland"))
    assert api.get("/v1/services", headers=basic("carol", "new")).status == 401


def test_malformed_projects_file_makes_the_api_answer_503(build, projects):
    """A malformed projects file gives nobody extra rights."""
    api = build()
    projects.write_text("alice:alice\n")
    assert api.get("/v1/containers", headers=basic("alice", "wonderland")).refusal == (503, "unavailable")


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("htpasswd", "alice:secret\n", "htpasswd -B"),
        ("htpasswd", "alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n", "htpasswd -B"),
        ("htpasswd", None, "htpasswd -B"),
        ("projects", "alice:demo\n", "line 1"),
        ("projects", "alice::member\n", "line 1"),
        ("projects", "alice:demo:member\nalice:other:admin\n", "line 2"),
        ("projects", None, "projects"),
    ],
)
def test_no_start_with_a_broken_file(build, tmp_path, file, text, said):
    if text is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_text(text)
    with pytest.raises(SystemExit, match=said):
        build()


def seconds(client, user, password):
    """Processor time of this thread for a request that is refused: the least of three."""
    taken = []
    for _ in range(3):
        began = time.thread_time()
        assert client.get("/v1/containers", headers=basic(user, password)).status == 401
        taken.append(time.thread_time() - began)
    return min(taken)


@pytest.mark.parametrize("password", ["wrong", "wonderland", ""])
def test_an_unknown_user_takes_as_long(build, users, password):
    """Also where the cost differs from that of another user."""
    dear = f"carol:{bcrypt.hashpw(b'x', bcrypt.gensalt(9)).decode()}\n"
    users.write_text(line("alice", "other") + dear)
    client = build()
    known, unknown = seconds(client, "carol", password), seconds(client, "mallory", password)
    assert 0.5 < unknown / known < 2


def test_an_unknown_user_has_nobodys_password(build, users):
    users.write_text(line("alice", "wonderland"))
    assert build().get("/v1/containers", headers=basic("mallory", "wonderland")).status == 401


@pytest.mark.parametrize("user", ["alice", "mallory"])
def test_after_many_wrong_passwords_none_is_looked_at(build, caplog, user):
    client = build()
    for _ in range(limits.WRONG_PASSWORDS):
        assert client.get("/v1/containers", headers=basic(user, "wrong")).status == 401
    for password in ("wrong", "wonderland"):
        reply = client.get("/v1/containers", headers=basic(user, password))
        assert reply.refusal == (429, "")
        assert 0 < int(reply.headers["retry-after"]) <= limits.WAIT_SECONDS
        assert reply.headers["retry-after"] in reply.error["detail"]
    elsewhere = replace(client, address="127.0.0.2")
    assert elsewhere.get("/v1/containers", headers=basic("alice", "wonderland")).status == 200
    assert client.get("/v1/containers", headers=basic("bob", "pässword: 2")).status == 200
    warned = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert warned == [f"Refused the password of user {user} from 127.0.0.1"]


def test_a_right_password_forgets_the_wrong_ones(build):
    client = build()
    for _ in range(2):
        for _ in range(limits.WRONG_PASSWORDS - 1):
            assert client.get("/v1/containers", headers=basic("alice", "wrong")).status == 401
        assert client.get("/v1/containers", headers=basic("alice", "wonderland")).status == 200


def test_a_file_of_users_that_goes_lets_nobody_in(build, users):
    client = build()
    users.unlink()
    assert client.get("/v1/containers", headers=basic("alice", "wonderland")).status == 401
