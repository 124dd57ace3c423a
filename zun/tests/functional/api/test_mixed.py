# SPDX-License-Identifier: Apache-2.0
"""What requests may ask of mixed containers, and what is shown of them."""

import pytest

from zun.db import containers as db
from zun.tests.functional.api.client import Client

MIXED = {"image": "demo", "cpu_policy": "mixed", "cpu": 3.5, "memory": 64, "dedicated_cpus": 2}


@pytest.fixture
def api(application):
    return Client(application, user="alice", project="demo", roles="member", version="1.46")


def test_mixed_container_is_stored_and_shown(api):
    reply = api.post("/v1/containers", MIXED)
    assert reply.status == 202, reply.json
    uuid = reply.json["uuid"]
    stored = db.get(uuid)
    assert (stored["cpu"], stored["cpu_policy"], stored["placement"]["dedicated_cpus"]) == (3.5, "mixed", 2)
    for shown in (reply.json, api.get(f"/v1/containers/{uuid}").json, api.get("/v1/containers").json["containers"][0]):
        assert (shown["cpu"], shown["cpu_policy"]) == (3.5, "mixed")
        assert (shown["dedicated_cpus"], shown["cpuset_dedicated"]) == (2, None)
    assert not {"dedicated_cpus", "cpuset_dedicated"} & api.at("1.45").get(f"/v1/containers/{uuid}").json.keys()


def test_other_containers_show_no_dedicated_cpus(api):
    shown = api.post("/v1/containers", {"image": "demo"}).json
    assert (shown["dedicated_cpus"], shown["cpuset_dedicated"]) == (None, None)


@pytest.mark.parametrize("path", ["containers", "placement/dry_run", "placement/capacity"])
@pytest.mark.parametrize(("field", "value"), [("cpu_policy", "mixed"), ("dedicated_cpus", 1)])
def test_older_versions_refuse_mixed(api, path, field, value):
    reply = api.at("1.45").post(f"/v1/{path}", {"image": "demo", field: value})
    assert reply.refusal == (400, "invalid-param-in-version")
    assert field in reply.error["detail"] and "1.46" in reply.error["detail"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"dedicated_cpus": None}, "dedicated_cpus"),
        ({"dedicated_cpus": 0}, "dedicated_cpus"),
        ({"dedicated_cpus": 1.5}, "dedicated_cpus"),
        ({"dedicated_cpus": "2"}, "dedicated_cpus"),
        ({"cpu_policy": "dedicated"}, "dedicated_cpus"),
        ({"cpu_policy": "shared"}, "dedicated_cpus"),
        ({"cpu": 2}, "cpu"),
        ({"memory": None}, "memory"),
        ({"numa_nodes": 2}, "numa_nodes"),
        ({"cpu_isolation": "node"}, "cpu_isolation"),
    ],
)
def test_bad_mixed_requests_name_the_field(api, change, field):
    reply = api.post("/v1/containers", {**MIXED, **change})
    assert reply.status == 400
    assert reply.error["detail"].startswith(f"{field}: "), reply.error


def test_capsules_are_not_mixed(api):
    sized = {"image": "demo", "resources": {"requests": {"cpu": 2, "memory": 64}}}
    body = {"containers": [sized], "placement": {"cpu_policy": "mixed"}}
    reply = api.post("/v1/capsules", {"template": {"kind": "capsule", "metadata": {"name": "small"}, "spec": body}})
    assert reply.status == 400
    assert "cpu_policy: 'mixed' is not one of dedicated, shared" in reply.error["detail"]


def test_quota_counts_all_cpus_of_a_mixed_container(api, configuration):
    assert api.post("/v1/containers", MIXED).status == 202
    quotas = api.get("/v1/quotas/demo?usages=True").json
    assert quotas["cpu"]["in_use"] == 3.5
