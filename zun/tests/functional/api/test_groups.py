# SPDX-License-Identifier: Apache-2.0
"""Container groups over HTTP, and the hints of create that name them or other containers."""

import pytest

from zun.api import networks
from zun.common.context import admin_context
from zun.db import containers
from zun.db import groups as db

PATH = "/v1/groups"
MISSING = "6f2f36d6-0e5c-4a25-9d3b-6f5a1c2d3e4f"


@pytest.fixture
def users(api):
    return api.at("1.42")


@pytest.fixture
def web(users):
    """The uuid of an anti-affinity group of project ``demo``."""
    return users.post(PATH, {"name": "web", "policy": "anti-affinity"}).json["uuid"]


@pytest.fixture
def theirs(users):
    """The uuid of a group of another project."""
    return users.in_project("other").post(PATH, {"name": "theirs", "policy": "affinity"}).json["uuid"]


def rows():
    """Every group there is."""
    return db.page(admin_context(), limit=100, all_projects=True)


@pytest.mark.parametrize(
    ("policy", "rules"),
    [
        ("affinity", {}),
        ("soft-affinity", {}),
        ("soft-anti-affinity", {}),
        ("anti-affinity", {}),
        ("anti-affinity", {"max_per_host": 3}),
    ],
)
def test_create_and_show(users, policy, rules):
    reply = users.post(PATH, {"name": "web.front", "policy": policy, **({"rules": rules} if rules else {})})
    made = reply.json
    assert (reply.status, reply.headers["location"]) == (201, f"http://zun.example:9517{PATH}/{made['uuid']}")
    created = made.pop("created_at")
    assert created is not None and made == {
        "uuid": made["uuid"],
        "links": [
            {"href": f"http://zun.example:9517{PATH}/{made['uuid']}", "rel": "self"},
            {"href": f"http://zun.example:9517/groups/{made['uuid']}", "rel": "bookmark"},
        ],
        "name": "web.front",
        "project_id": "demo",
        "user_id": "alice",
        "policy": policy,
        "rules": rules,
        "members": [],
        "updated_at": None,
    }
    for ident in (made["uuid"], "web.front"):
        reply = users.get(f"{PATH}/{ident}")
        assert (reply.status, reply.json) == (200, {**made, "created_at": created})


def test_list(users, admin_api, web, theirs):
    users.post(PATH, {"name": "db", "policy": "affinity"})

    def names(client, query=""):
        reply = client.get(f"{PATH}{query}")
        assert reply.status == 200, reply.json
        return [each["name"] for each in reply.json["groups"]]

    assert names(users) == ["web", "db"]
    assert names(users, "?sort_key=name&sort_dir=asc&limit=1") == ["db"]
    assert names(users, f"?marker={web}") == ["db"]
    assert names(admin_api.at("1.42")) == []
    assert sorted(names(admin_api.at("1.42"), "?all_projects=1")) == ["db", "theirs", "web"]
    following = admin_api.at("1.42").get(f"{PATH}?all_projects=1&limit=1").json["next"]
    assert "all_projects=true" in following and "limit=1" in following


@pytest.mark.parametrize(
    ("query", "refusal"),
    [
        ("all_projects=1", (403, "policy-not-authorized")),
        ("all_projects=maybe", (400, "invalid-value")),
        ("limit=x", (400, "invalid-value")),
        ("sort_key=rules", (400, "invalid-parameter-value")),
        (f"marker={MISSING}", (404, "group-not-found")),
    ],
)
def test_bad_lists(users, web, query, refusal):
    assert users.get(f"{PATH}?{query}").refusal == refusal


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({}, "required"),
        ({"name": "new"}, "policy"),
        ({"policy": "affinity"}, "name"),
        ({"name": None, "policy": "affinity"}, "name"),
        ({"name": "n", "policy": "affinity"}, "name"),
        ({"name": "a/b", "policy": "affinity"}, "name"),
        ({"name": MISSING, "policy": "affinity"}, "uuid"),
        ({"name": "new", "policy": "apart"}, "policy"),
        ({"name": "new", "policy": None}, "policy"),
        ({"name": "new", "policy": ["affinity"]}, "policy"),
        ({"name": "new", "policy": "anti-affinity", "rules": None}, "rules"),
        ({"name": "new", "policy": "anti-affinity", "rules": {"max_per_host": 0}}, "max_per_host"),
        ({"name": "new", "policy": "anti-affinity", "rules": {"max_per_host": 1.5}}, "max_per_host"),
        ({"name": "new", "policy": "anti-affinity", "rules": {"max_per_host": 10**7}}, "max_per_host"),
        ({"name": "new", "policy": "anti-affinity", "rules": {"colour": 1}}, "rules"),
        ({"name": "new", "policy": "affinity", "project_id": "other"}, "project_id"),
    ],
)
def test_a_bad_argument_is_named_and_makes_nothing(users, body, word):
    reply = users.post(PATH, body)
    assert reply.refusal == (400, "schema-validation-error")
    assert word in reply.error["detail"]
    assert rows() == []


@pytest.mark.parametrize("policy", ["affinity", "soft-affinity", "soft-anti-affinity"])
def test_only_anti_affinity_has_rules(users, policy):
    reply = users.post(PATH, {"name": "new", "policy": policy, "rules": {"max_per_host": 2}})
    assert reply.refusal == (400, "invalid-value") and "max_per_host" in reply.error["detail"]
    assert users.post(PATH, {"name": "new", "policy": policy, "rules": {}}).status == 201


def test_a_name_is_taken_in_its_own_project_only(users, web):
    body = {"name": "web", "policy": "affinity"}
    reply = users.post(PATH, body)
    assert reply.refusal == (409, "conflict") and "web" in reply.error["detail"]
    assert users.in_project("other").post(PATH, body).status == 201


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("ident", ["nobody", "theirs", MISSING, "{theirs}"])
def test_groups_that_the_project_has_not(users, web, theirs, method, ident):
    assert users.send(method, f"{PATH}/{ident.format(theirs=theirs)}").refusal == (404, "group-not-found")


def test_an_administrator_sees_and_ends_any(admin_api, web, theirs):
    admins = admin_api.at("1.42")
    assert admins.get(f"{PATH}/{theirs}").json["project_id"] == "other"
    assert admins.get(f"{PATH}/{web}").json["name"] == "web"
    assert admins.delete(f"{PATH}/{theirs}").status == 204


def test_delete(users, web):
    member = users.post("/v1/containers", {"image": "demo", "hints": {"group": "web"}}).json
    reply = users.delete(f"{PATH}/web")
    assert reply.refusal == (409, "conflict") and "1 container" in reply.error["detail"]
    assert users.delete(f"/v1/containers/{member['uuid']}").status == 409  # it is being created
    containers.destroy(member["uuid"])
    reply = users.delete(f"{PATH}/{web}")
    assert (reply.status, reply.body) == (204, b"")
    assert users.get(PATH).json == {"groups": [], "next": None}


ROUTES = [
    ("GET", "", None),
    ("POST", "", {"name": "new", "policy": "affinity"}),
    ("GET", "/web", None),
    ("DELETE", "/web", None),
]


@pytest.mark.parametrize(("method", "path", "body"), ROUTES)
def test_from_its_microversion(users, web, method, path, body):
    reply = users.at("1.41").send(method, PATH + path, body)
    assert reply.refusal == (406, "") and "1.42" in reply.error["detail"]


# The hints of create.


@pytest.mark.parametrize("by", ["uuid", "name"])
def test_a_container_joins_a_group(users, scheduler, web, by):
    hints = {"group": web if by == "uuid" else "web", "label:disk": "ssd"}
    reply = users.post("/v1/containers", {"image": "demo", "hints": hints})
    assert (reply.status, reply.json["group_uuid"]) == (202, web)
    uuid = reply.json["uuid"]
    row = containers.get(uuid)
    assert row["group_uuid"] == web
    assert row["request"]["hints"] == {"group": web, "label:disk": "ssd"}
    assert users.get(f"{PATH}/web").json["members"] == [uuid]
    assert users.get(PATH).json["groups"][0]["members"] == [uuid]
    assert users.get(f"/v1/containers/{uuid}").json["group_uuid"] == web
    assert "group_uuid" not in users.at("1.41").get(f"/v1/containers/{uuid}").json
    assert scheduler.sent == [("create", uuid)]


def test_a_container_of_no_group(users):
    reply = users.post("/v1/containers", {"image": "demo", "hints": {"group": None, "same_host": None}})
    assert (reply.status, reply.json["group_uuid"]) == (202, None)
    assert containers.get(reply.json["uuid"])["request"]["hints"] == {}


@pytest.mark.parametrize("ident", ["nobody", "theirs", "{theirs}", MISSING, "", 7, ["web"], {"name": "web"}])
def test_groups_that_no_container_can_join(users, scheduler, web, theirs, ident):
    group = ident.format(theirs=theirs) if isinstance(ident, str) else ident
    reply = users.post("/v1/containers", {"image": "demo", "hints": {"group": group}})
    assert reply.refusal == (400, "invalid-value")
    assert "hints.group" in reply.error["detail"]
    assert scheduler.sent == [] and containers.unplaced() == []


def test_a_group_that_goes_while_a_container_joins_it(users, scheduler, web, monkeypatch):
    looked_up = networks.Bridges.first_ports

    def gone(*arguments):
        db.destroy(web)
        return looked_up(*arguments)

    monkeypatch.setattr(networks.Bridges, "first_ports", gone)
    reply = users.post("/v1/containers", {"image": "demo", "hints": {"group": "web"}})
    assert reply.refusal == (400, "invalid-value") and "hints.group" in reply.error["detail"]
    assert scheduler.sent == []


def test_an_administrator_joins_groups_of_the_own_project_only(admin_api, web):
    reply = admin_api.at("1.42").post("/v1/containers", {"image": "demo", "hints": {"group": web}})
    assert reply.refusal == (400, "invalid-value")


@pytest.mark.parametrize("name", ["same_host", "different_host"])
@pytest.mark.parametrize("as_list", [True, False])
def test_neighbours(users, placed, name, as_list):
    mine = placed().uuid
    hint = [mine, placed().uuid, mine] if as_list else mine
    reply = users.post("/v1/containers", {"image": "demo", "hints": {name: hint}})
    assert reply.status == 202
    assert containers.get(reply.json["uuid"])["request"]["hints"] == {name: hint[:2] if as_list else [mine]}


@pytest.mark.parametrize("name", ["same_host", "different_host"])
@pytest.mark.parametrize(
    "hint",
    [
        pytest.param(lambda mine, theirs: [mine, MISSING], id="one-unknown"),
        pytest.param(lambda mine, theirs: theirs, id="another-project-s"),
        pytest.param(lambda mine, theirs: "web", id="a-name"),
        pytest.param(lambda mine, theirs: 7, id="a-number"),
        pytest.param(lambda mine, theirs: {"uuid": mine}, id="an-object"),
        pytest.param(lambda mine, theirs: [[mine]], id="a-list-in-a-list"),
    ],
)
def test_neighbours_that_are_none(users, scheduler, placed, name, hint):
    value = hint(placed(name="web").uuid, placed(project_id="other").uuid)
    reply = users.post("/v1/containers", {"image": "demo", "hints": {name: value}})
    assert reply.refusal == (400, "invalid-value")
    assert f"hints.{name}" in reply.error["detail"]
    assert scheduler.sent == []


def test_an_administrator_has_neighbours_in_any_project(admin_api, placed):
    body = {"image": "demo", "hints": {"same_host": placed(project_id="other").uuid}}
    assert admin_api.at("1.42").post("/v1/containers", body).status == 202


@pytest.mark.parametrize(
    "given",
    [
        {"group": "web"},
        {"group": "nobody"},
        {"same_host": "no uuid"},
        {"different_host": ["4ad32a94-1d42-4ee9-bd5f-3f0d0ac3ee0a"]},
        {"group": {"deep": [1]}, "same_host": 5},
        {"image:trait:NAME": "required"},
        {"image:hw_pci_numa_affinity_policy": "nonsense"},
        {"image:pci_passthrough:alias": "gpu"},
        {"image:architecture": "s390x"},
    ],
    ids=str,
)
def test_hints_are_ignored_below_their_version(users, web, given):
    for older in ("1.1", "1.40", "1.41"):
        reply = users.at(older).post("/v1/containers", {"image": "demo", "hints": {**given, "label:rack": "3"}})
        assert reply.status == 202
        row = containers.get(reply.json["uuid"])
        assert (row["request"]["hints"], row["group_uuid"]) == ({"label:rack": "3"}, None)


@pytest.mark.parametrize("hint", ["image:trait:HW_CPU_X86_AVX2", "image:pci_passthrough:alias"])
def test_later_hints_are_refused_by_our_versions(users, hint):
    reply = users.at("1.42").post("/v1/containers", {"image": "demo", "hints": {hint: "required"}})
    assert reply.refusal == (400, "invalid-param-in-version") and hint in reply.error["detail"]
