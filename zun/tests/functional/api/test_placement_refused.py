# SPDX-License-Identifier: Apache-2.0
"""Questions about placement that the API refuses without asking the scheduler, and what a policy hides."""

import pytest

from zun.tests.functional.api.conftest import with_rules
from zun.tests.functional.api.samples import RECORD
from zun.tests.unit.db.rows import explained

__all__ = ["with_rules"]
DEDICATED = {"cpu_policy": "dedicated", "cpu": 2, "memory": 512}


@pytest.mark.parametrize("path", ["/v1/placement/dry_run", "/v1/placement/capacity"])
@pytest.mark.parametrize(
    ("body", "refusal", "named"),
    [
        ({"image": ""}, (400, "schema-validation-error"), "image"),
        ({"mounts": [{"source": "/etc", "destination": "/e"}]}, (400, "invalid-value"), "mounts"),
        ({"name": "web"}, (400, "schema-validation-error"), "name"),
        ({"cpu": "many"}, (400, "schema-validation-error"), "cpu"),
        ({"cpu": -1}, (400, "schema-validation-error"), "cpu"),
        ({"memory": 10**15}, (400, "schema-validation-error"), "memory"),
        ({"cpu_policy": "mine"}, (400, "schema-validation-error"), "cpu_policy"),
        ({"cpu_policy": "dedicated", "cpu": 1.5, "memory": 64}, (400, "invalid-value"), "cpu"),
        ({"cpu_policy": "dedicated", "cpu": 2}, (400, "invalid-value"), "memory"),
        ({"numa_nodes": 2}, (400, "invalid-value"), "numa_nodes"),
        ({**DEDICATED, "numa_cpus": [1, 3]}, (400, "invalid-value"), "numa_cpus"),
        ({**DEDICATED, "numa_nodes": 0}, (400, "schema-validation-error"), "numa_nodes"),
        ({"hints": []}, (400, "schema-validation-error"), "hints"),
        ({"hints": {"group": "nobody"}}, (400, "invalid-value"), "hints.group"),
        ({"hints": {"same_host": "nobody"}}, (400, "invalid-value"), "hints.same_host"),
        ({"count": 0}, (400, "schema-validation-error"), "count"),
        ({"count": 101}, (400, "schema-validation-error"), "count"),
        ({"count": "2"}, (400, "schema-validation-error"), "count"),
        ({"count": True}, (400, "schema-validation-error"), "count"),
        ({"limit": 0}, (400, "schema-validation-error"), "limit"),
        ({"limit": 100_001}, (400, "schema-validation-error"), "limit"),
        ({"limit": None}, (400, "schema-validation-error"), "limit"),
        ({"runtime": "kata"}, (403, "policy-not-authorized"), "container:create:runtime"),
        ({"host": "rack7-u12"}, (403, "policy-not-authorized"), "container:create:requested_destination"),
    ],
)
def test_a_bad_question_is_named_and_reaches_no_scheduler(api, scheduler, path, body, refusal, named):
    reply = api.at("1.42").post(path, body)
    assert reply.refusal == refusal
    assert scheduler.sent == []
    assert named in reply.error["detail"]


@pytest.mark.parametrize("path", ["/v1/placement/dry_run", "/v1/placement/capacity"])
def test_questions_of_another_form(api, admin_api, path):
    api, admin_api = api.at("1.42"), admin_api.at("1.42")
    assert api.post(path, raw=b"[1]").refusal == (400, "validation-error")
    assert api.post(path, raw=b"{").refusal == (400, "validation-error")
    assert api.post(path, raw=b"cpu=1", content_type="text/plain").status == 415
    assert api.get(path).status == 404
    assert api.post("/v1/placement", {}).status == 404
    assert admin_api.post(path, {"host": "nobody"}).refusal == (404, "requested-host-not-found")
    assert api.at("1.41").post(path, {}).status == 406


@pytest.mark.parametrize(
    ("rule", "path"),
    [("placement:dry_run:host", "/v1/placement/dry_run"), ("placement:capacity:host", "/v1/placement/capacity")],
)
def test_hosts_by_rule(with_rules, scheduler, rule, path):
    scheduler.placed = [PLACED]
    members = {name: with_rules(rules).at("1.42").post(path, {}) for name, rules in (("no", {}), ("yes", {rule: "@"}))}
    assert "host-1" not in members["no"].body.decode()
    assert "host-1" in members["yes"].body.decode()


def test_details_by_rule(with_rules, placed):
    uuid = placed("Error").uuid
    explained(uuid, {**RECORD, "details": [{"host": "host-1"}]})
    path = f"/v1/containers/{uuid}/explain"
    assert "details" not in with_rules({}).at("1.42").get(path).json
    assert with_rules({"container:explain:host": "@"}).at("1.42").get(path).json["details"] == [{"host": "host-1"}]


PLACED = {
    "host": "host-1",
    "alternates": [],
    "cpuset": {"cpu_policy": "dedicated", "cells": [{"node": 0, "cpuset_cpu": "0", "cpuset_mem": 64}]},
}
