# SPDX-License-Identifier: Apache-2.0
"""The quota of a project: who sees and changes it, and that it holds."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from zun.db import containers as db
from zun.db import quotas
from zun.tests.fixtures import new_container

DEFAULTS = {"containers": 40, "memory": 51200, "cpu": 20, "disk": 100}
OWN = "/v1/quotas/demo"


def test_limits_and_usages(api, admin_api, placed):
    assert api.get(OWN).json == api.get(f"{OWN}/defaults").json == DEFAULTS
    placed(cpu=1.5, memory=64, disk=2)
    assert admin_api.put(OWN, {"cpu": "30", "memory": -1}).json == {**DEFAULTS, "cpu": 30, "memory": -1}
    assert api.get(OWN).json == {**DEFAULTS, "cpu": 30, "memory": -1}
    assert api.get(f"{OWN}/defaults").json == DEFAULTS
    assert api.get(f"{OWN}?usages=True").json == {
        "containers": {"limit": 40, "in_use": 1},
        "memory": {"limit": -1, "in_use": 64},
        "cpu": {"limit": 30, "in_use": 1.5},
        "disk": {"limit": 100, "in_use": 2},
    }
    reply = admin_api.delete(OWN)
    assert (reply.status, reply.body) == (200, b"null")
    assert admin_api.delete(OWN).status == 200
    assert api.get(OWN).json == DEFAULTS


@pytest.mark.parametrize(("query", "with_usages"), [("usages=False", True), ("usages=", False), ("colour=red", False)])
def test_any_text_asks_for_usages(api, query, with_usages):
    assert isinstance(api.get(f"{OWN}?{query}").json["cpu"], dict) is with_usages


def test_a_class_of_that_name_is_the_default(api, admin_api):
    assert admin_api.put("/v1/quota_classes/default", {"disk": 7}).json == {**DEFAULTS, "disk": 7}
    assert api.get(OWN).json == api.get(f"{OWN}/defaults").json == {**DEFAULTS, "disk": 7}


def test_the_operators_defaults(configuration, api, admin_api, application, scheduler, compute):
    from zun.api import app as api_app
    from zun.tests.functional.api.client import Client

    configuration.set_override("containers", 3, group="quota")
    changed = Client(
        api_app.build(configuration, scheduler_api=scheduler, compute_api=compute), "alice", "demo", "member", "1.40"
    )
    assert changed.get(OWN).json == {**DEFAULTS, "containers": 3}


@pytest.mark.parametrize(
    ("method", "path", "own"),
    [
        ("GET", "/v1/quotas/{}", True),
        ("GET", "/v1/quotas/{}?usages=1", True),
        ("GET", "/v1/quotas/{}/defaults", True),
        ("PUT", "/v1/quotas/{}", False),
        ("DELETE", "/v1/quotas/{}", False),
    ],
)
def test_who_may(api, admin_api, method, path, own):
    body = {"cpu": 1} if method == "PUT" else {}
    assert api.send(method, path.format("demo"), body).status == (200 if own else 403)
    assert api.send(method, path.format("other"), body).refusal == (403, "policy-not-authorized")
    assert admin_api.send(method, path.format("other"), body).status == 200


@pytest.mark.parametrize(
    ("given", "member"),
    [
        ({"cpu": 1.5}, "cpu"),
        ({"cpu": "1.5"}, "cpu"),
        ({"cpu": "x"}, "cpu"),
        ({"cpu": ""}, "cpu"),
        ({"cpu": None}, "cpu"),
        ({"cpu": True}, "cpu"),
        ({"cpu": -2}, "cpu"),
        ({"memory": "-2"}, "memory"),
        ({"disk": 2**31}, "disk"),
        ({"disk": "9" * 5000}, "disk"),
        ({"colour": 1}, "colour"),
        ({"containers": [1]}, "containers"),
    ],
)
@pytest.mark.parametrize("path", [OWN, "/v1/quota_classes/gold"])
def test_a_bad_limit_is_named_and_sets_none(admin_api, path, given, member):
    reply = admin_api.put(path, {"memory": 1, **given})
    assert reply.refusal == (400, "schema-validation-error")
    assert member in reply.error["detail"]
    assert admin_api.get(path).json == DEFAULTS


@pytest.mark.parametrize("version", ["1.1", "1.26", "1.41"])
def test_every_version_has_it(api, admin_api, version):
    assert api.at(version).get(OWN).status == 200
    assert admin_api.at(version).put(f"{OWN}?cpu=3&memory=4").json == {**DEFAULTS, "cpu": 3, "memory": 4}
    assert admin_api.at(version).put(OWN, {}).status == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/quotas", 404),
        ("/v1/quotas/", 404),
        ("/v1/quotas/defaults", 404),
        (f"/v1/quotas/{'x' * 256}", 404),
        ("/v1/quotas/demo/other", 404),
    ],
)
def test_paths_that_are_none(admin_api, path, status):
    assert admin_api.get(path).status == status


def test_quotas_have_no_post(admin_api):
    assert admin_api.post(OWN, {}).status == 405


# (limit, what is asked, resource that is refused)
OVER = [
    ({"containers": 0}, {}, "containers"),
    ({"cpu": 0}, {}, "cpu"),
    ({"memory": 511}, {}, "memory"),
    ({"cpu": 1}, {"cpu": "1.5"}, "cpu"),
    ({"memory": 100}, {"memory": "101"}, "memory"),
    ({"disk": 1}, {"disk": 2}, "disk"),
]


@pytest.mark.parametrize(("limit", "asked", "resource"), OVER)
def test_create_over_the_limit(api, admin_api, scheduler, limit, asked, resource):
    admin_api.put(OWN, limit)
    reply = api.post("/v1/containers", {"image": "demo", **asked})
    assert reply.refusal == (403, "over-quota")
    assert f"{resource}: limit {limit[resource]}, in use 0" in reply.error["detail"]
    assert api.get("/v1/containers").json["containers"] == []
    assert scheduler.sent == []


def test_a_deleted_container_makes_room(api, admin_api):
    admin_api.put(OWN, {"containers": 1})
    first = api.post("/v1/containers", {"image": "demo"}).json["uuid"]
    assert api.post("/v1/containers", {"image": "demo"}).status == 403
    assert api.delete(f"/v1/containers/{first}?stop=1").status == 409  # it waits for the scheduler
    assert admin_api.delete(f"/v1/containers/{first}?force=1").status == 204
    assert api.post("/v1/containers", {"image": "demo"}).status == 202


@pytest.mark.parametrize(("method", "path"), [("PATCH", ""), ("POST", "/resize_container")])
def test_growth_over_the_limit(api, admin_api, placed, host_up, compute, method, path):
    admin_api.put(OWN, {"cpu": 3, "memory": 200})
    url = f"/v1/containers/{placed(cpu=2, memory=100).uuid}{path}"
    for size in ({"cpu": 3.5}, {"memory": 201}, {"cpu": 1, "memory": 201}):
        assert api.send(method, url, size).refusal == (403, "over-quota")
    assert compute.sent == []
    for size in ({"cpu": 3}, {"cpu": 1, "memory": 100}, {"auto_heal": True}):
        assert api.send(method, url, size).status < 300
    assert [DEFAULTS.items() <= quota.items() for quota in compute.quotas] == [True, True]


def test_parallel_creates(api, admin_api):
    """200 requests for 50 places, in more threads than the database has connections."""
    admin_api.put(OWN, {"containers": 50, "cpu": -1, "memory": -1})
    start = threading.Barrier(20)

    def create(_thread):
        start.wait(60)
        return [api.post("/v1/containers", {"image": "demo"}).status for _ in range(10)]

    with ThreadPoolExecutor(20) as pool:
        statuses = [status for some in pool.map(create, range(20)) for status in some]
    assert (statuses.count(202), statuses.count(403)) == (50, 150)
    assert quotas.usage("demo")["containers"] == 50


def test_other_projects_are_not_held_back(api, admin_api, context):
    admin_api.put(OWN, {"containers": 0})
    assert api.in_project("other").post("/v1/containers", {"image": "demo"}).status == 202
    row = db.get(new_container(context).uuid)  # what services make by themselves is not asked for
    assert row["project_id"] == "demo"
