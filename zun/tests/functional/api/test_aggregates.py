# SPDX-License-Identifier: Apache-2.0
"""Host aggregates over HTTP: every route, its answers and its refusals."""

import pytest

from zun.db import aggregates as db
from zun.tests.functional.api.conftest import HOST

PATH = "/v1/aggregates"
MISSING = "6f2f36d6-0e5c-4a25-9d3b-6f5a1c2d3e4f"


@pytest.fixture
def admins(admin_api):
    return admin_api.at("1.42")


@pytest.fixture
def south(admins, host_row):
    """An aggregate that puts HOST in zone south. Gives its uuid."""
    uuid = admins.post(PATH, {"name": "south", "availability_zone": "south"}).json["uuid"]
    assert admins.post(f"{PATH}/south/add_host", {"host": HOST}).status == 200
    return uuid


def test_create_and_show(admins):
    body = {"name": "fast.disks", "metadata": {"disk": "ssd"}, "availability_zone": "south"}
    reply = admins.post(PATH, body)
    made = reply.json
    assert (reply.status, reply.headers["location"]) == (201, f"http://zun.example:9517{PATH}/{made['uuid']}")
    created = made.pop("created_at")
    assert created is not None and made == {
        "uuid": made["uuid"],
        "links": [
            {"href": f"http://zun.example:9517{PATH}/{made['uuid']}", "rel": "self"},
            {"href": f"http://zun.example:9517/aggregates/{made['uuid']}", "rel": "bookmark"},
        ],
        "name": "fast.disks",
        "availability_zone": "south",
        "hosts": [],
        "metadata": {"disk": "ssd", "availability_zone": "south"},
        "updated_at": None,
    }
    for ident in (made["uuid"], "fast.disks"):
        reply = admins.get(f"{PATH}/{ident}")
        assert (reply.status, reply.json) == (200, {**made, "created_at": created})


def test_a_name_is_enough(admins):
    made = admins.post(PATH, {"name": "plain"}).json
    assert (made["metadata"], made["availability_zone"]) == ({}, None)


def test_list_in_pages(admins):
    for name in ("bb", "aa", "cc"):
        admins.post(PATH, {"name": name})
    path, pages = f"{PATH}?limit=2&sort_key=name", []
    while path:
        reply = admins.get(path)
        assert reply.status == 200
        pages.append([each["name"] for each in reply.json["aggregates"]])
        path = reply.json["next"] and reply.json["next"].removeprefix("http://zun.example:9517")
    assert pages == [["aa", "bb"], ["cc"]]


@pytest.mark.parametrize(
    ("query", "refusal"),
    [
        ("limit=0", (400, "invalid-value")),
        ("sort_key=hosts", (400, "invalid-parameter-value")),
        ("sort_key=colour", (400, "invalid-parameter-value")),
        (f"marker={MISSING}", (404, "aggregate-not-found")),
    ],
)
def test_bad_lists(admins, query, refusal):
    assert admins.get(f"{PATH}?{query}").refusal == refusal


def test_update(admins, south):
    reply = admins.patch(f"{PATH}/south", {"name": "north", "availability_zone": "north"})
    assert (reply.status, reply.json["uuid"]) == (200, south)
    assert (reply.json["name"], reply.json["availability_zone"]) == ("north", "north")
    assert reply.json == admins.get(f"{PATH}/north").json
    assert admins.patch(f"{PATH}/{south}", {"availability_zone": None}).json["metadata"] == {}
    assert admins.patch(f"{PATH}/{south}", {}).json["name"] == "north"


def test_metadata(admins, south):
    reply = admins.post(f"{PATH}/south/set_metadata", {"metadata": {"disk": "ssd", "a:b": ""}})
    assert (reply.status, reply.json["metadata"]) == (200, {"availability_zone": "south", "disk": "ssd", "a:b": ""})
    reply = admins.post(f"{PATH}/south/set_metadata", {"metadata": {"disk": None, "availability_zone": None}})
    assert (reply.json["metadata"], reply.json["availability_zone"]) == ({"a:b": ""}, None)


def test_hosts(admins, south):
    assert admins.get(f"{PATH}/south").json["hosts"] == [HOST]
    reply = admins.post(f"{PATH}/south/remove_host?host={HOST}")
    assert (reply.status, reply.json["hosts"]) == (200, [])
    assert admins.post(f"{PATH}/{south}/remove_host", {"host": HOST}).refusal == (404, "aggregate-host-not-found")


def test_delete(admins, south):
    reply = admins.delete(f"{PATH}/south")
    assert reply.refusal == (409, "conflict") and "1 host" in reply.error["detail"]
    admins.post(f"{PATH}/south/remove_host", {"host": HOST})
    reply = admins.delete(f"{PATH}/{south}")
    assert (reply.status, reply.body) == (204, b"")
    assert admins.get(PATH).json == {"aggregates": [], "next": None}


@pytest.mark.parametrize(
    ("method", "path", "body", "words"),
    [
        ("POST", "", {"name": "south"}, "name south"),
        ("PATCH", "/other", {"name": "south"}, "name south"),
        ("POST", "/south/add_host", {"host": HOST}, "already"),
        ("POST", "/other/add_host", {"host": HOST}, "zone south"),
    ],
)
def test_a_conflict_is_named_and_changes_nothing(admins, south, method, path, body, words):
    admins.post(PATH, {"name": "other", "availability_zone": "north"})
    before = db.all_aggregates()
    reply = admins.send(method, PATH + path, body)
    assert reply.refusal == (409, "conflict")
    assert words in reply.error["detail"]
    assert db.all_aggregates() == before


def test_no_metadata_puts_a_host_in_two_zones(admins, south):
    admins.post(PATH, {"name": "other"})
    assert admins.post(f"{PATH}/other/add_host", {"host": HOST}).status == 200
    for method, path, body in (
        ("PATCH", "other", {"availability_zone": "north"}),
        ("POST", "other/set_metadata", {"metadata": {"availability_zone": "north"}}),
    ):
        reply = admins.send(method, f"{PATH}/{path}", body)
        assert reply.refusal == (409, "conflict") and HOST in reply.error["detail"]


@pytest.mark.parametrize(
    ("method", "path", "body", "word"),
    [
        ("POST", "", {}, "name"),
        ("POST", "", {"name": None}, "name"),
        ("POST", "", {"name": "x"}, "name"),
        ("POST", "", {"name": "a b"}, "name"),
        ("POST", "", {"name": "x" * 256}, "name"),
        ("POST", "", {"name": MISSING}, "uuid"),
        ("POST", "", {"name": "new", "colour": "red"}, "colour"),
        ("POST", "", {"name": "new", "availability_zone": ""}, "availability_zone"),
        ("POST", "", {"name": "new", "availability_zone": 3}, "availability_zone"),
        ("POST", "", {"name": "new", "metadata": []}, "metadata"),
        ("POST", "", {"name": "new", "metadata": {"a": 1}}, "metadata"),
        ("POST", "", {"name": "new", "metadata": {"a": None}}, "metadata"),
        ("POST", "", {"name": "new", "metadata": {"": "a"}}, "metadata"),
        ("POST", "", {"name": "new", "metadata": {"a b": "a"}}, "metadata"),
        ("POST", "", {"name": "new", "metadata": {"a": "x" * 256}}, "metadata"),
        ("POST", "", {"name": "new", "metadata": {"availability_zone": ""}}, "availability_zone"),
        ("PATCH", "/south", {"name": None}, "name"),
        ("PATCH", "/south", {"hosts": []}, "hosts"),
        ("PATCH", "/south", {"availability_zone": ""}, "availability_zone"),
        ("POST", "/south/add_host", {}, "host"),
        ("POST", "/south/add_host", {"host": ""}, "host"),
        ("POST", "/south/add_host", {"host": 1}, "host"),
        ("POST", "/south/remove_host", {}, "host"),
        ("POST", "/south/set_metadata", {}, "metadata"),
        ("POST", "/south/set_metadata", {"metadata": {"a": 1}}, "metadata"),
        ("POST", "/south/set_metadata", {"metadata": None}, "metadata"),
        ("POST", "/south/set_metadata", {"metadata": {"disk_pool_gb": "1.5"}}, "disk_pool_gb"),
    ],
)
def test_a_bad_argument_is_named_and_changes_nothing(admins, south, method, path, body, word):
    before = db.all_aggregates()
    reply = admins.send(method, PATH + path, body)
    assert reply.refusal == (400, "schema-validation-error")
    assert word in reply.error["detail"]
    assert db.all_aggregates() == before


def test_two_zones_for_one_aggregate(admins):
    body = {"name": "both", "availability_zone": "south", "metadata": {"availability_zone": "north"}}
    assert admins.post(PATH, body).refusal == (400, "invalid-value")
    body["metadata"]["availability_zone"] = "south"
    assert admins.post(PATH, body).status == 201


ROUTES = [
    ("GET", "", None),
    ("POST", "", {"name": "new"}),
    ("GET", "/{}", None),
    ("PATCH", "/{}", {"name": "new"}),
    ("DELETE", "/{}", None),
    ("POST", "/{}/add_host", {"host": HOST}),
    ("POST", "/{}/remove_host", {"host": HOST}),
    ("POST", "/{}/set_metadata", {"metadata": {}}),
]


@pytest.mark.parametrize(("method", "path", "body"), [route for route in ROUTES if "{}" in route[1]])
@pytest.mark.parametrize("ident", ["nobody", "no.body", MISSING])
def test_aggregates_that_are_none(admins, south, method, path, body, ident):
    assert admins.send(method, PATH + path.format(ident), body).refusal == (404, "aggregate-not-found")


def test_hosts_that_are_none(admins, south):
    assert admins.post(f"{PATH}/south/add_host", {"host": "h9"}).refusal == (404, "compute-node-not-found")


@pytest.mark.parametrize(("method", "path", "body"), ROUTES)
def test_from_its_microversion(admins, south, method, path, body):
    reply = admins.at("1.41").send(method, PATH + path.format("south"), body)
    assert reply.refusal == (406, "") and "1.42" in reply.error["detail"]


def test_the_zone_of_a_host_is_its_aggregate_s(admins, api, south, host_up):
    """The services know nova; the aggregate says south."""
    assert admins.get("/v1/services").json["services"][0]["availability_zone"] == "south"
    zones = [each["availability_zone"] for each in api.get("/v1/availability_zones").json["availability_zones"]]
    assert zones == ["south"]
