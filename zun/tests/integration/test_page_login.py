# SPDX-License-Identifier: Apache-2.0
"""The login of the page at a real keystone."""

import logging

import pytest

from zun.api import app as api_app
from zun.api import limits
from zun.tests.fixtures import written_conf
from zun.tests.functional.api.client import Client
from zun.tests.functional.api.messages import ComputeMessages, SchedulerMessages


@pytest.fixture
def page(keystone, database, tmp_path):
    """The API with its page, behind keystone."""
    settings = "".join(f"{name} = {value}\n" for name, value in keystone.settings().items())
    conf = written_conf(tmp_path, f"[keystone_authtoken]\n{settings}[ui]\nenabled = true\n")
    application = api_app.build(conf, scheduler_api=SchedulerMessages(), compute_api=ComputeMessages())
    return Client(application, version="latest")


@pytest.fixture(scope="module")
def of_two(keystone):
    """A user with roles in two projects, of which one is the default project."""
    user = keystone.user("of-two", "demo", "member")
    keystone.admin.roles.grant(keystone.roles["reader"], user=user, project=keystone.projects["other"])
    keystone.admin.users.update(user, default_project=keystone.projects["demo"])
    return keystone.named("of-two")


def login(page, status=200, **given):
    reply = page.post("/ui/login", given)
    assert reply.status == status, reply.body
    assert reply.headers["cache-control"] == "no-store"
    return reply


def serves(page, token):
    return page.get("/v1/containers", headers={"X-Auth-Token": token}).status


def test_user_of_one_project_is_signed_in_there(page, keystone):
    name = keystone.named("member")
    shown = login(page, user=name, password=name).json
    demo = {"id": keystone.projects["demo"].id, "name": keystone.named("demo"), "domain_id": "default"}
    assert (shown["user"]["name"], shown["project"], shown["projects"]) == (name, demo, [])
    assert "member" in shown["roles"] and shown["expires_at"] > "2026"
    assert serves(page, shown["token"]) == 200


def test_user_of_two_projects_chooses_one(page, keystone, of_two):
    shown = login(page, user=of_two, password=of_two).json
    assert (shown["project"], shown["roles"]) == (None, [])
    assert {each["name"] for each in shown["projects"]} == {keystone.named("demo"), keystone.named("other")}
    assert serves(page, shown["token"]) == 403  # it is for no project
    other = keystone.projects["other"].id
    chosen = login(page, token=shown["token"], project_id=other).json
    assert (chosen["project"]["id"], chosen["projects"], serves(page, chosen["token"])) == (other, [], 200)
    assert "reader" in chosen["roles"]
    changed = login(page, token=chosen["token"], project=keystone.named("demo")).json
    assert changed["project"]["name"] == keystone.named("demo") and "member" in changed["roles"]


def test_project_can_be_named_at_once(page, keystone, of_two):
    named = {"project": keystone.named("other"), "project_domain": "Default", "user_domain": "Default"}
    assert login(page, user=of_two, password=of_two, **named).json["project"]["name"] == keystone.named("other")


def test_token_of_the_command_line_is_taken_as_it_is(page, keystone):
    token = keystone.token("reader")
    shown = login(page, token=token).json
    assert (shown["token"], shown["user"]["name"]) == (token, keystone.named("reader"))
    assert shown["project"]["name"] == keystone.named("demo")


@pytest.mark.parametrize(
    "changes",
    [
        {"password": "secret-word"},
        {"user": "nobody-secret-word"},
        {"user_domain": "nowhere"},
        {"project": "nothing"},
        {"project": "of-another"},
        {"project_id": "0" * 32},
        {"user": None, "password": None, "token": "secret-word"},
        {"user": None, "password": None, "token": "gAAAAAsecret-word"},
    ],
)
def test_wrong_login_is_401_and_tells_no_secret(page, keystone, changes, caplog):
    caplog.set_level(logging.DEBUG)
    name = keystone.named("member")
    if changes.get("project") == "of-another":
        changes = {"project": keystone.named("other")}
    given = {"user": name, "password": name, **changes}
    reply = login(page, 401, **{key: value for key, value in given.items() if value is not None})
    assert reply.headers["www-authenticate"] == "Zun-Login" and "refused" in reply.error["detail"]
    assert "secret-word" not in reply.body.decode()
    assert "secret-word" not in caplog.text.replace("user nobody-secret-word", "")


def test_no_password_or_token_is_in_the_log(page, keystone, caplog):
    caplog.set_level(logging.DEBUG)
    name = keystone.named("logged")
    user = keystone.admin.users.create(name, domain="default", password="hunter-2-hunter")
    keystone.admin.roles.grant(keystone.roles["member"], user=user, project=keystone.projects["demo"])
    caplog.clear()
    shown = login(page, user=name, password="hunter-2-hunter").json
    login(page, token=shown["token"])
    assert "hunter-2-hunter" not in caplog.text and shown["token"] not in caplog.text


def test_wrong_passwords_make_the_user_wait(page, keystone):
    name = keystone.named("stranger")
    for _ in range(limits.WRONG_PASSWORDS):
        login(page, 401, user=name, password="wrong")
    reply = login(page, 429, user=name, password=name)
    assert reply.headers["retry-after"] == str(limits.WAIT_SECONDS)
    other = keystone.named("reader")
    assert login(page, user=other, password=other).json["project"] is not None
