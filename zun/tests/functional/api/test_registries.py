# SPDX-License-Identifier: Apache-2.0
"""Accounts at registries: who sees them, and that nobody sees a password."""

import pytest

from zun.api import app as api_app
from zun.common.secrets import Cipher
from zun.db import containers as db_containers
from zun.db import registries as db
from zun.tests.functional.api.client import Client

KEY = "k" * 32
FULL = {"domain": "quay.io", "name": "quay", "username": "me", "password": "pa55"}


@pytest.fixture(autouse=True)
def key(configuration):
    configuration.set_override("auth_encryption_key", KEY)


@pytest.fixture
def add(api):
    def make(client=None, **fields):
        reply = (client or api).post("/v1/registries", {"registry": {**FULL, **fields}})
        assert reply.status == 201, reply.json
        return reply.json["registry"]["uuid"]

    return make


def kept(uuid):
    """The password, as a host reads it."""
    row = db.get(uuid)
    return Cipher([KEY]).decrypt(row["password"], db.owner(row))


def test_create_and_show(api):
    reply = api.post("/v1/registries", {"registry": FULL})
    assert reply.status == 201
    shown = reply.json["registry"]
    uuid = shown["uuid"]
    assert reply.headers["location"] == f"http://zun.example:9517/v1/registries/{uuid}"
    assert shown == {
        "uuid": uuid,
        "name": "quay",
        "domain": "quay.io",
        "username": "me",
        "password": "***",
        "project_id": "demo",
        "user_id": "alice",
        "links": [
            {"href": f"http://zun.example:9517/v1/registries/{uuid}", "rel": "self"},
            {"href": f"http://zun.example:9517/registries/{uuid}", "rel": "bookmark"},
        ],
    }
    assert api.get(f"/v1/registries/{uuid}").json == api.get("/v1/registries/quay/").json == {"registry": shown}
    del shown["links"]
    assert api.get("/v1/registries").json == {"registries": [shown], "next": None}


def test_the_password_is_stored_encrypted(api, add):
    uuid = add()
    assert "pa55" not in db.get(uuid)["password"] and kept(uuid) == "pa55"
    api.patch(f"/v1/registries/{uuid}", {"registry": {"password": "other"}})
    assert kept(uuid) == "other"


def test_a_domain_is_enough(api):
    shown = api.post("/v1/registries", {"registry": {"domain": "d"}}).json["registry"]
    assert (shown["name"], shown["username"], shown["password"]) == (None, None, None)


def test_without_a_key_there_are_no_passwords(configuration, database, scheduler, compute):
    configuration.clear_override("auth_encryption_key")
    api = Client(
        api_app.build(configuration, scheduler_api=scheduler, compute_api=compute), "alice", "demo", None, "1.40"
    )
    assert api.post("/v1/registries", {"registry": FULL}).refusal == (400, "invalid-value")
    assert api.post("/v1/registries", {"registry": {"domain": "d"}}).status == 201


def test_update(api, add):
    uuid = add()
    reply = api.patch("/v1/registries/quay", {"registry": {"name": "new-name", "domain": "x.io", "password": "new"}})
    assert reply.status == 200
    assert (reply.json["registry"]["name"], reply.json["registry"]["domain"]) == ("new-name", "x.io")
    assert api.get(f"/v1/registries/{uuid}").json == reply.json
    assert api.patch(f"/v1/registries/{uuid}", {"registry": {}}).json == reply.json


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"domain": "evil.io"}, id="domain"),
        pytest.param({"domain": "QUAY.io"}, id="other-letters"),
        pytest.param({"domain": "quay.io:443"}, id="port"),
        pytest.param({"username": "you"}, id="username"),
        pytest.param({"domain": "evil.io", "username": "me", "name": "same"}, id="domain-and-name"),
    ],
)
def test_the_password_follows_to_no_other_account(api, add, change):
    uuid = add()
    before = db.get(uuid)
    reply = api.in_project("demo").patch("/v1/registries/quay", {"registry": change})
    assert reply.refusal == (400, "invalid-value")
    assert reply.error["detail"].startswith(next(iter(change)))
    assert "Give the password in the same request" in reply.error["detail"]
    assert db.get(uuid) == before
    assert api.patch("/v1/registries/quay", {"registry": {**change, "password": "theirs"}}).status == 200
    assert kept(uuid) == "theirs"


@pytest.mark.parametrize("name", ["domain", "username", "password"])
def test_null_changes_no_account(api, add, name):
    uuid = add()
    assert api.patch("/v1/registries/quay", {"registry": {name: None}}).refusal == (400, "schema-validation-error")
    assert kept(uuid) == "pa55"


@pytest.mark.parametrize("change", [{"name": "new-name"}, {"domain": "quay.io", "username": "me"}, {}])
def test_the_same_account_keeps_its_password(api, add, change):
    uuid = add()
    assert api.patch("/v1/registries/quay", {"registry": change}).status == 200
    assert kept(uuid) == "pa55"


def test_a_domain_is_checked_when_it_changes(api, add):
    add()
    reply = api.patch("/v1/registries/quay", {"registry": {"domain": "http://quay.io", "password": "new"}})
    assert reply.status == 400 and "Write quay.io" in reply.error["detail"]


def test_without_a_password_an_account_moves(api):
    api.post("/v1/registries", {"registry": {"domain": "d.io", "name": "quay"}})
    reply = api.patch("/v1/registries/quay", {"registry": {"domain": "e.io", "username": "me"}})
    assert (reply.status, reply.json["registry"]["domain"]) == (200, "e.io")


def test_a_registry_in_use_asks_for_the_password_too(api, add):
    """Its containers are rebuilt from the new domain, with the new password only."""
    uuid = add()
    assert api.post("/v1/containers", {"image": "demo", "registry": uuid}).status == 202
    assert api.patch("/v1/registries/quay", {"registry": {"domain": "evil.io"}}).status == 400
    assert api.patch("/v1/registries/quay", {"registry": {"domain": "new.io", "password": "new"}}).status == 200


def test_delete(api, add):
    add()
    reply = api.delete("/v1/registries/quay")
    assert (reply.status, reply.body) == (204, b"")
    assert api.get("/v1/registries/quay").refusal == (404, "registry-not-found")


@pytest.mark.parametrize(
    ("body", "member"),
    [
        ({}, "registry"),
        ({"registry": None}, "registry"),
        ({"registry": [1]}, "registry"),
        ({"registry": {}}, "domain"),
        ({"registry": {"domain": ""}}, "domain"),
        ({"registry": {"domain": None}}, "domain"),
        ({"registry": {"domain": "d.io\nforged"}}, "domain"),
        ({"registry": {"domain": "https://registry.example:5000/v2/"}}, "Write registry.example:5000"),
        ({"registry": {"domain": "HOST/team"}}, "Write HOST"),
        ({"registry": {"domain": "HOST:port"}}, "domain"),
        ({"registry": {"domain": "two words"}}, "domain"),
        ({"registry": {"domain": "d", "username": "me\r"}}, "username"),
        ({"registry": {"domain": "d", "name": None}}, "name"),
        ({"registry": {"domain": "d", "name": "x"}}, "name"),
        ({"registry": {"domain": "d", "name": "-x"}}, "name"),
        ({"registry": {"domain": "d", "name": "x" * 256}}, "name"),
        ({"registry": {"domain": "d", "username": ""}}, "username"),
        ({"registry": {"domain": "d", "password": ""}}, "password"),
        ({"registry": {"domain": "d", "password": 5}}, "password"),
        ({"registry": {"domain": "d", "colour": "red"}}, "colour"),
        ({"registry": {"domain": "d"}, "colour": "red"}, "colour"),
        ({"domain": "d"}, "registry"),
    ],
)
def test_a_bad_member_is_named_and_makes_nothing(api, body, member):
    reply = api.post("/v1/registries", body)
    assert reply.refusal == (400, "schema-validation-error")
    assert member in reply.error["detail"]
    assert api.get("/v1/registries").json["registries"] == []


def test_a_body_must_be_json(api):
    reply = api.post("/v1/registries", {"registry": FULL}, content_type="text/plain")
    assert reply.refusal == (415, "unsupported-media-type")


def names(client, query=""):
    return [item["name"] for item in client.get(f"/v1/registries{query}").json["registries"]]


def test_a_list_has_the_own_project_unless_all_are_asked_for(api, admin_api, add):
    mine, theirs = add(), add(api.in_project("other"), name="theirs")
    assert names(api) == ["quay"]
    assert names(admin_api) == []
    assert names(admin_api, "?all_projects=1") == ["quay", "theirs"]
    assert api.get("/v1/registries?all_projects=1").refusal == (403, "policy-not-authorized")
    assert api.get("/v1/registries?all_projects=perhaps").refusal == (400, "invalid-value")
    for method in ("GET", "PATCH", "DELETE"):
        body = {"registry": {}} if method == "PATCH" else None
        assert api.send(method, f"/v1/registries/{theirs}", body).refusal == (404, "registry-not-found")
    assert admin_api.get(f"/v1/registries/{mine}").status == 200


def test_a_name_of_several(api, add):
    uuids = [add(), add()]
    reply = api.get("/v1/registries/quay")
    assert reply.refusal == (409, "conflict") and ", ".join(uuids) in reply.error["detail"]


def test_lists(api, add):
    uuids = [add(name=f"r{number}", domain="odd" if number % 2 else "even") for number in range(4)]
    assert names(api, "?domain=even") == ["r0", "r2"]
    assert names(api, "?name=r1&username=me&project_id=demo&user_id=alice") == ["r1"]
    assert names(api, "?sort_key=name&sort_dir=desc") == ["r3", "r2", "r1", "r0"]
    page = api.get("/v1/registries/?limit=2&domain=odd").json
    assert page["next"] is not None and "domain=odd" in page["next"]
    assert names(api, f"?limit=3&marker={uuids[1]}") == ["r2", "r3"]
    assert api.at("1.41").get("/v1/registries?colour=red").refusal == (400, "invalid-value")
    assert api.get("/v1/registries?sort_key=colour").refusal == (400, "invalid-parameter-value")
    assert api.get(f"/v1/registries?marker={uuids[0][:-1]}x").refusal == (404, "registry-not-found")


@pytest.mark.parametrize("version", ["1.1", "1.30", "1.41"])
def test_every_version_has_them(api, version):
    assert api.at(version).post("/v1/registries", {"registry": FULL}).status == 201


@pytest.mark.parametrize("by", ["name", "uuid"])
def test_a_container_from_a_registry(api, add, by):
    uuid = add()
    body = {"image": "demo", "registry": "quay" if by == "name" else uuid}
    container = api.post("/v1/containers", body).json
    assert container["registry_id"] == uuid
    assert api.delete("/v1/registries/quay").refusal == (409, "conflict")
    db_containers.destroy(container["uuid"])
    assert api.delete("/v1/registries/quay").status == 204


def test_a_container_from_a_registry_that_is_none(api, add):
    add(api.in_project("other"))
    for name in ("nothing", "quay"):
        reply = api.post("/v1/containers", {"image": "demo", "registry": name})
        assert reply.refusal == (404, "registry-not-found")
    assert api.get("/v1/containers").json["containers"] == []
