# SPDX-License-Identifier: Apache-2.0
"""Conditional requests: an answer has a tag, and who sends the tag back is told 304 as long as nothing changed."""

import dataclasses
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oslo_utils import fixture as oslo_fixture

from zun.api import app as api_app
from zun.api.controllers.v1 import hosts
from zun.api.views import containers as container_views
from zun.common.context import RequestContext
from zun.db import aggregates, compute_nodes, session
from zun.db import containers as db
from zun.tests.fixtures import new_container
from zun.tests.functional.api.client import Client
from zun.tests.functional.api.conftest import HOST, inventory
from zun.topology import HostTopology, PlacementRequest, Usage, plan

LISTS = ("/v1/containers", "/v1/hosts")


@pytest.fixture(autouse=True)
def one_moment():
    """Nothing but the rows tells two changes apart: all of them happen at the same time."""
    clock = oslo_fixture.TimeFixture()
    clock.setUp()
    yield clock
    clock.cleanUp()


@pytest.fixture
def client(admin_api, host_row):
    return admin_api.at("1.48")


@pytest.fixture
def held(placed):
    """A container with a claim on HOST."""
    return placed(name="web", labels={"a": "b"}, cpuset=claim())


def claim(cpus=2):
    node = HostTopology.from_dict(inventory()["topology"])
    request = PlacementRequest(cpu_policy="dedicated", cpus=cpus, memory_mib=64)
    return plan(node, Usage(), request).to_dict()


def unchanged(client, path, tag):
    """Whether the answer to ``path`` is still that of ``tag``."""
    reply = client.get(path, headers={"If-None-Match": tag})
    assert reply.status in (200, 304)
    assert (reply.headers["etag"] == tag) == (reply.status == 304)
    return reply.status == 304


def paths(container):
    everywhere = "all_projects=true"
    return (
        f"/v1/containers?{everywhere}",
        f"/v1/containers/{container.uuid}",
        "/v1/hosts",
        f"/v1/hosts/{HOST}",
        f"/v1/hosts/{HOST}/topology",
    )


def test_answer_with_a_tag_is_the_same_as_before_but_for_its_headers(client, held):
    for path in paths(held):
        reply = client.get(path)
        assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
        assert reply.headers["etag"].startswith('W/"')
        assert reply.headers["cache-control"] == "private, no-cache"
        assert reply.headers["vary"] == "OpenStack-API-Version, X-User-Id, X-Project-Id, X-Roles"


def test_304_has_the_headers_of_the_answer_and_no_body(client, held):
    for path in paths(held):
        whole = client.get(path).headers
        reply = client.get(path, headers={"If-None-Match": whole["etag"]})
        assert (reply.status, reply.body) == (304, b"")
        gone = ("content-type", "content-length", "x-openstack-request-id")
        assert {name: value for name, value in reply.headers.items() if name not in gone} == {
            name: value for name, value in whole.items() if name not in gone
        }


def test_304_reads_no_plan_and_draws_nothing(client, held, monkeypatch):
    tags = {path: client.get(path).headers["etag"] for path in paths(held)}

    def never(*_arguments, **_named):
        raise AssertionError("an answer was made")

    for module, name in ((container_views, "page"), (container_views, "show"), (hosts.views, "show")):
        monkeypatch.setattr(module, name, never)
    monkeypatch.setattr(hosts.views, "topology", never)
    monkeypatch.setattr(db, "claims", never)
    monkeypatch.setattr(compute_nodes, "find", never)
    monkeypatch.setattr(compute_nodes, "usage", never)
    assert all(unchanged(client, path, tag) for path, tag in tags.items())


OF_CONTAINERS, OF_HOSTS = {0, 1}, {2, 3, 4}  # of ``paths``


@pytest.mark.parametrize(
    ("change", "other"),
    [
        pytest.param(lambda row: db.update(row.uuid, {"status": "Stopped"}), {0, 1, 4}, id="status"),
        pytest.param(lambda row: db.update(row.uuid, {"labels": {"a": "c"}}), {0, 1, 4}, id="labels"),
        pytest.param(lambda row: db.rename(row.uuid, "other", "demo", None), {0, 1, 4}, id="name"),
        pytest.param(
            lambda row: db.change_claim(row.uuid, HOST, {"cpuset": claim(4), "cpu": 4.0}),
            OF_CONTAINERS | OF_HOSTS,
            id="usage",
        ),
        pytest.param(
            lambda row: db.change_claim(row.uuid, HOST, {"cpuset": None}), OF_CONTAINERS | OF_HOSTS, id="release"
        ),
        pytest.param(lambda row: db.change_group(row.uuid, "g", add=True), {0, 1, 4}, id="security-group"),
        pytest.param(lambda row: compute_nodes.put(HOST, inventory(os="other")), OF_HOSTS, id="inventory"),
        pytest.param(lambda row: compute_nodes.put(HOST, inventory()), set(), id="inventory-as-it-was"),
        pytest.param(lambda row: compute_nodes.add_traits(HOST, ["CUSTOM_A"]), OF_HOSTS, id="traits"),
        pytest.param(lambda row: aggregates.insert("rack", {}), {2, 3}, id="aggregate"),
        pytest.param(
            lambda row: new_container(RequestContext(project_id="third", user_id="u")), {0}, id="another-container"
        ),
    ],
)
def test_change_makes_other_tags_where_it_shows(client, held, change, other):
    before = [(path, client.get(path).headers["etag"]) for path in paths(held)]
    change(held)
    assert {number for number, (path, tag) in enumerate(before) if not unchanged(client, path, tag)} == other


def test_second_change_at_the_same_moment_makes_another_tag(client, held):
    seen = set()
    for status in ("Stopped", "Running", "Stopped", "Running"):
        db.update(held.uuid, {"status": status})
        seen |= {client.get(path).headers["etag"] for path in paths(held)[:2]}
    assert len(seen) == 8


def test_row_in_the_place_of_a_deleted_one_has_another_tag(client, placed):
    """SQLite gives the id of a deleted row to the next one."""
    one = placed(name="web")
    tag = client.get("/v1/containers?all_projects=true").headers["etag"]
    db.destroy(one.uuid)
    assert not unchanged(client, "/v1/containers?all_projects=true", tag)
    other = placed(name="web")
    assert other.id == one.id
    assert not unchanged(client, "/v1/containers?all_projects=true", tag)


def test_deleted_container_is_404_and_not_304(client, held):
    tag = client.get(f"/v1/containers/{held.uuid}").headers["etag"]
    db.destroy(held.uuid)
    assert client.get(f"/v1/containers/{held.uuid}", headers={"If-None-Match": tag}).status == 404
    assert client.get(f"/v1/containers/{held.uuid}", headers={"If-None-Match": "*"}).status == 404


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"user": "bob"}, id="user"),
        pytest.param({"project": "other"}, id="project"),
        pytest.param({"roles": "admin,auditor"}, id="roles"),
        pytest.param({"version": "1.46"}, id="version"),
        pytest.param({"version": "1.40"}, id="version-without-placement"),
    ],
)
def test_another_caller_or_version_has_another_tag(client, held, other):
    for path in paths(held)[:4]:
        tag = client.get(path).headers["etag"]
        assert not unchanged(dataclasses.replace(client, **other), path, tag)


@pytest.mark.parametrize("query", ["limit=1", "name=web", "sort_key=name", "all_projects=true&limit=9"])
def test_another_query_has_another_tag(client, held, query):
    tags = {client.get(f"/v1/containers{query}").headers["etag"] for query in ("", "?all_projects=true", f"?{query}")}
    assert len(tags) == 3


def test_another_address_of_the_api_has_another_tag(client, held):
    """Its links are in the answer."""
    tag = client.get("/v1/hosts").headers["etag"]
    assert not unchanged(client, "/v1/hosts", tag.replace("a", "b") if "a" in tag else '"x"')
    reply = client.get("/v1/hosts", headers={"If-None-Match": tag, "Host": "cloud.example"})
    assert reply.status == 200


def test_age_is_told_anew_each_minute(client, held, one_moment):
    path = f"/v1/containers/{held.uuid}"
    tags = {client.get(path).headers["etag"]}
    for _ in range(4):
        one_moment.advance_time_seconds(30)
        tags.add(client.get(path).headers["etag"])
    assert len(tags) == 3


def test_page_of_a_list_has_a_tag_of_its_rows_alone(client, placed):
    first, second = placed(name="a"), placed(name="b")
    path = "/v1/containers?all_projects=true&limit=1"
    behind = f"{path}&marker={first.uuid}"
    tags = [client.get(each).headers["etag"] for each in (path, behind)]
    db.update(second.uuid, {"status": "Stopped"})
    assert [unchanged(client, each, tag) for each, tag in zip((path, behind), tags, strict=True)] == [True, False]


def test_refusal_comes_before_the_tag(api, held, host_row):
    for path, status in ((f"/v1/containers/{held.uuid}", 304), ("/v1/hosts", 403), ("/v1/hosts/none", 403)):
        assert api.get(path, headers={"If-None-Match": "*"}).status == status
    stranger = api.in_project("other")
    assert stranger.get(f"/v1/containers/{held.uuid}", headers={"If-None-Match": "*"}).status == 404
    assert api.get("/v1/containers?limit=x", headers={"If-None-Match": "*"}).status == 400


def test_changed_right_makes_another_tag(with_rules, held):
    hidden = with_rules({})
    tag = hidden.get(f"/v1/containers/{held.uuid}").headers["etag"]
    shown = with_rules({"container:get_one:host": "role:member"})
    assert not unchanged(shown, f"/v1/containers/{held.uuid}", tag)


def test_map_has_another_tag_for_whom_it_names_others(with_rules, held):
    rules = {"host:topology": "@"}
    path, same = f"/v1/hosts/{HOST}/topology", {"version": "1.48"}
    compute_nodes.put(HOST, inventory())
    tags = {
        dataclasses.replace(with_rules({**rules, **more}), **same).get(path).headers["etag"]
        for more in ({}, {"container:get_one": "!"}, {"container:get_one": "!", "host:topology:holders": "@"})
    }
    assert len(tags) == 2  # with the right to their container, and with that to all holders, all names are shown


def test_document_tells_which_answers_have_tags(client):
    document = client.get("/v1/openapi.json").json
    tagged = {path for path, item in document["paths"].items() if "304" in item.get("get", {}).get("responses", {})}
    items = ("/v1/containers/{ident}", "/v1/hosts/{host}", "/v1/hosts/{host}/topology")
    assert tagged == {"/v1/containers", "/v1/hosts", *items}


def test_other_methods_and_lists_have_no_tag(client, held):
    assert "etag" not in client.get("/v1/services").headers
    reply = client.send("HEAD", "/v1/containers")
    assert reply.status == 405 and "etag" not in reply.headers
    reply = client.post(f"/v1/containers/{held.uuid}/stop", headers={"If-None-Match": "*"})
    assert reply.status != 304


@pytest.fixture
def unconnected(configuration, scheduler, compute):
    """The application before there is a database."""
    return api_app.build(configuration, scheduler_api=scheduler, compute_api=compute)


ACTIONS = st.sampled_from(["add", "destroy", "status", "rename", "resize", "release", "abandon", "inventory", "end"])


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(ACTIONS, st.integers(0, 3)), max_size=12))
def test_equal_tags_are_of_equal_answers(lasting_database, unconnected, actions):
    client = Client(unconnected, user="root", project="admin", roles="admin", version="1.48")
    with lasting_database.empty():
        compute_nodes.put(HOST, inventory())
        seen = {}
        for number, (action, which) in enumerate([("inventory", 0), *actions]):
            act(action, which, number)
            for path in ("/v1/containers?all_projects=true", "/v1/hosts", f"/v1/hosts/{HOST}/topology"):
                reply = client.get(path)
                body = json.loads(reply.body)
                assert seen.setdefault((path, reply.headers["etag"]), body) == body


def act(action, which, number):
    """Do something to the container ``which``, or to HOST."""
    rows = sorted(db.of_host(HOST), key=lambda row: row["id"])
    row = rows[which % len(rows)] if rows else None
    if action == "inventory":
        compute_nodes.put(HOST, inventory(os=f"os-{which}"))
    elif action == "add" or row is None:
        owner = RequestContext(user_id="u", project_id="demo")
        new_container(owner, status="Running", host=HOST, name=f"c{which}", cpuset=claim() if which % 2 else None)
        if which % 2:
            with session.writer() as connection:
                compute_nodes.next_generation(connection, HOST)
    elif action == "destroy":
        db.destroy(row["uuid"])
    elif action == "status":
        db.update(row["uuid"], {"status_reason": f"reason {number}"})
    elif action == "rename":
        db.rename(row["uuid"], f"name-{which}", "demo", None)
    elif action == "resize":
        db.change_claim(row["uuid"], HOST, {"cpuset": claim(2 + which % 2 * 2), "memory": 64 + which})
    elif action == "release":
        db.change_claim(row["uuid"], HOST, {"cpuset": None})
    elif action == "abandon":
        db.abandon(row["uuid"])
    else:
        db.end_unplaced(row["uuid"], "no host")
