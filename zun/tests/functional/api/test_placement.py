# SPDX-License-Identifier: Apache-2.0
"""Explanations, dry runs and capacity over HTTP, answered by a real scheduler for real hosts in memory."""

import pytest

from zun.api import app as api_app
from zun.db import containers as db
from zun.db import explanations, groups, images, session, volumes
from zun.messaging.scheduler_api import SchedulerAPI
from zun.tests.fixtures import wait_for
from zun.tests.functional.api.client import Client
from zun.tests.functional.cloud import cloud_of, machine

SECRETS = ("rack7-u11", "rack7-u12")
DEDICATED = {"cpu_policy": "dedicated", "cpu": 2, "memory": 512}
TOO_MUCH = {**DEDICATED, "cpu": 6}

cloud = cloud_of({name: machine() for name in SECRETS})


@pytest.fixture
def application(cloud, configuration):
    configuration.set_override("cpu", -1, group="quota")  # the hosts are the limit here
    return api_app.build(configuration, scheduler_api=cloud.scheduler_api, compute_api=cloud.compute_api)


@pytest.fixture
def api(application):
    return Client(application, user="alice", project="demo", roles="member", version="1.42")


@pytest.fixture
def admin_api(application):
    return Client(application, user="root", project="admin", roles="admin", version="1.42")


def failed(api, body):
    """A container that found no host."""
    uuid = api.post("/v1/containers", {"image": "demo", **body}).json["uuid"]
    wait_for(lambda: db.get(uuid)["status"] == "Error")
    return uuid


def running(api, body):
    uuid = api.post("/v1/containers?run=true", {"image": "demo", **body}).json["uuid"]
    wait_for(lambda: db.get(uuid)["status"] == "Running")
    return db.get(uuid)


# explain


def test_a_user_sees_counts_and_what_would_fit_and_no_host(api):
    uuid = failed(api, TOO_MUCH)
    reply = api.get(f"/v1/containers/{uuid}/explain")
    assert reply.status == 200
    shown = reply.json
    assert shown.pop("created_at")
    assert shown == {
        "container": uuid,
        "reason": db.get(uuid)["status_reason"],
        "wanted": {
            "cpu": 6, "memory": 512, "cpu_policy": "dedicated", "cpu_thread_policy": "prefer", "numa_nodes": 1,
            "numa_affinity": "require", "numa_cpus": None, "numa_mem": None, "numa_mempolicy": "strict",
            "mem_page_size": None, "cpu_isolation": "thread", "disk": 0, "availability_zone": None, "runtime": None,
        },
        "hosts": 2,
        "filters": {"CpuSetFilter": 2},
        "codes": {"cpus": 2},
        "changes": [
            {"dimension": "cpus", "change": {"cpu": 4}},
            {"dimension": "nodes", "change": {"numa_nodes": 2}},
            {"dimension": "affinity", "change": {"numa_affinity": "prefer"}},
        ],
    }
    assert not any(name in reply.body.decode() for name in SECRETS)


def test_each_change_that_is_shown_can_be_asked_for_and_fits(api):
    uuid = failed(api, TOO_MUCH)
    changes = api.get(f"/v1/containers/{uuid}/explain").json["changes"]
    assert len(changes) == 3
    for change in changes:
        body = {name: value for name, value in {**TOO_MUCH, **change["change"]}.items() if value is not None}
        assert api.post("/v1/placement/dry_run", body).json["fits"], change
    assert running(api, body)["status"] == "Running"


def test_an_administrator_sees_the_hosts_node_by_node(api, admin_api):
    uuid = failed(api, TOO_MUCH)
    shown = admin_api.get(f"/v1/containers/{uuid}/explain").json
    assert [each["host"] for each in shown["details"]] == list(SECRETS)
    assert shown["details_left_out"] == 0
    first = shown["details"][0]
    assert (first["code"], first["reason"]) == ("cpus", "no cell has 6 CPUs free: best is cell 0 with 4")
    assert first["free"][1] == {
        "node": 1, "cpus": 4, "whole_cores": 4, "shared": 64.0, "memory_mib": 4096, "pages": {},
    }


def test_what_hosts_have_instead_is_for_administrators(api, admin_api):
    uuid = failed(api, {**DEDICATED, "hints": {"label:rack": "nowhere"}})
    mine = api.get(f"/v1/containers/{uuid}/explain").json
    assert "label rack is not 'nowhere'" in mine["reason"] and "details" not in mine
    theirs = admin_api.get(f"/v1/containers/{uuid}/explain").json["details"]
    assert [each["found"] for each in theirs] == [{"labels": {"rack": None}}] * len(SECRETS)


def test_another_project_finds_nothing(api):
    uuid = failed(api, TOO_MUCH)
    assert api.in_project("other").get(f"/v1/containers/{uuid}/explain").refusal == (404, "container-not-found")


def test_what_was_not_refused_has_no_explanation(api):
    row = running(api, DEDICATED)
    assert api.get(f"/v1/containers/{row['uuid']}/explain").refusal == (404, "explanation-not-found")
    assert api.get("/v1/containers/nobody/explain").refusal == (404, "container-not-found")


def test_it_is_found_by_name_and_goes_with_the_container(api):
    uuid = failed(api, {**TOO_MUCH, "name": "large"})
    assert api.get("/v1/containers/large/explain").json["container"] == uuid
    assert api.delete("/v1/containers/large").status == 204
    wait_for(lambda: api.get(f"/v1/containers/{uuid}/explain").status == 404)
    with pytest.raises(Exception, match="No explanation"):
        explanations.get(uuid)


# dry run


def test_dry_run_matches_the_next_create_and_books_nothing(api, admin_api):
    for _ in range(3):
        (planned,) = admin_api.post("/v1/placement/dry_run", DEDICATED).json["placements"]
    row = running(api, DEDICATED)
    assert (row["host"], row["cpuset"]["cpuset_cpus"], row["cpuset"]["cpuset_mems"]) == (
        planned["host"], planned["cpuset_cpus"], planned["cpuset_mems"],
    )
    (after,) = admin_api.post("/v1/placement/dry_run", DEDICATED).json["placements"]
    assert (after["host"], after["cpuset_cpus"]) != (planned["host"], planned["cpuset_cpus"])


def test_nothing_is_written_for_it(admin_api):
    assert admin_api.post("/v1/placement/dry_run", {**DEDICATED, "count": 3}).status == 200
    assert admin_api.post("/v1/placement/capacity", DEDICATED).status == 200
    assert admin_api.get("/v1/containers?all_projects=1").json["containers"] == []


def test_a_user_sees_cells_and_counts(api, admin_api):
    body = {**DEDICATED, "cpu": 3, "numa_nodes": 2, "numa_cpus": [2, 1], "count": 2}
    mine = api.post("/v1/placement/dry_run", body)
    cells = [
        {"cpus": 2, "withheld": 0, "memory_mib": 256, "pages": {}},
        {"cpus": 1, "withheld": 0, "memory_mib": 256, "pages": {}},
    ]
    assert mine.json == {"fits": True, "placements": [{"cells": cells}, {"cells": cells}], "refusal": None}
    theirs = admin_api.post("/v1/placement/dry_run", body).json["placements"][0]
    assert (theirs["host"], theirs["alternates"], theirs["cpuset_cpus"], theirs["cpuset_mems"]) == (
        "rack7-u11", ["rack7-u12"], "0-1,4", "0-1",
    )
    assert theirs["cells"][0] == {**cells[0], "node": 0, "cpuset_cpus": "0-1", "withheld_cpus": ""}


def test_of_several_the_first_without_a_place_is_explained(api, admin_api):
    reply = api.post("/v1/placement/dry_run", {**DEDICATED, "cpu": 4, "count": 6})
    assert (reply.status, reply.json["fits"], len(reply.json["placements"])) == (200, False, 4)
    refusal = reply.json["refusal"]
    assert refusal["codes"] == {"cpus": 2} and "details" not in refusal
    assert not any(name in reply.body.decode() for name in SECRETS)
    theirs = admin_api.post("/v1/placement/dry_run", {**DEDICATED, "cpu": 4, "count": 6}).json["refusal"]
    assert [each["host"] for each in theirs["details"]] == list(SECRETS)


def test_a_shared_one_has_its_demand_where_it_runs(api):
    (placed,) = api.post("/v1/placement/dry_run", {"cpu": 1.5, "memory": 64}).json["placements"]
    assert placed["cells"] == [{"cpus": 1.5, "withheld": 0, "memory_mib": 64, "pages": {}}]


def test_an_empty_request_has_the_defaults_of_a_create(api):
    assert api.post("/v1/placement/dry_run", {}).json["fits"] is True


def test_hosts_zones_and_labels_count(api, admin_api):
    asked = admin_api.post("/v1/placement/dry_run", {**DEDICATED, "host": "rack7-u12"}).json
    assert asked["placements"][0]["host"] == "rack7-u12"
    elsewhere = api.post("/v1/placement/dry_run", {**DEDICATED, "availability_zone": "gpu"}).json
    assert elsewhere["refusal"]["codes"] == {"zone": 2}
    labelled = api.post("/v1/placement/dry_run", {**DEDICATED, "hints": {"label:disk": "ssd"}}).json
    assert labelled["refusal"]["codes"] == {"label": 2}


def test_hints_are_looked_up_as_for_a_create(api, cloud, monkeypatch):
    row = groups.insert({"name": "web", "project_id": "demo", "policy": "affinity", "rules": {}})
    asked = []
    real = cloud.scheduler_api.dry_run
    monkeypatch.setattr(
        cloud.scheduler_api,
        "dry_run",
        lambda context, container, **rest: asked.append(container) or real(context, container, **rest),
    )
    reply = api.post("/v1/placement/dry_run", {**DEDICATED, "hints": {"group": "web", "same_host": None}})
    assert reply.json["fits"] is True
    (container,) = asked
    assert (container.group_uuid, container.request["hints"]) == (row["uuid"], {"group": row["uuid"]})
    assert groups.members([row["uuid"]]).get(row["uuid"], []) == []


def test_what_is_on_one_host_only_has_it_go_there(api, admin_api):
    """Volumes and images that the project made, as for a create."""

    def on(**fields):
        body = {**DEDICATED, **fields}
        counted = admin_api.in_project("demo").post("/v1/placement/capacity", body).json["hosts"]
        return {each["host"] for each in counted if each["count"]}

    second = SECRETS[1]
    uuid = images.insert_committed({"project_id": "demo", "host": second, "repo": "web", "tag": "1"})["uuid"]
    with session.writer() as connection:
        volumes.hold(connection, "demo", ["data"], second)
    assert on() == on(image="web:1") == on(image="busybox") == set(SECRETS)  # it is still being made
    images.update(uuid, {"image_id": "sha256:1"})
    assert on(image="web:1") == on(image=uuid) == {second}
    mounted = [{"source": "data", "destination": "/d"}]
    assert on(mounts=mounted) == {second}
    assert on(mounts=[{**mounted[0], "source": "other"}]) == set(SECRETS)
    assert api.post("/v1/placement/dry_run", {**DEDICATED, "mounts": mounted, "image": "web:1"}).json["fits"] is True


# capacity


@pytest.mark.parametrize(
    "body",
    [
        {**DEDICATED, "cpu": 3},
        {**DEDICATED, "cpu": 2, "memory": 3000},
        {"cpu_policy": "dedicated", "cpu": 3, "memory": 100, "numa_nodes": 2},
        {"cpu": 1.5, "memory": 1000},
    ],
)
def test_so_many_creates_succeed_then_and_no_more(api, admin_api, body):
    counted = admin_api.post("/v1/placement/capacity", body).json
    assert counted["complete"] is True
    rows = [running(api, body) for _ in range(counted["total"])]
    failed(api, body)
    on = [row["host"] for row in rows]
    assert {each["host"]: each["count"] for each in counted["hosts"]} == {name: on.count(name) for name in SECRETS}
    assert admin_api.post("/v1/placement/capacity", body).json["total"] == 0


def test_a_user_sees_the_total(api):
    reply = api.post("/v1/placement/capacity", DEDICATED)
    assert reply.json == {"total": 8, "complete": True}


def test_counting_stops_at_the_limit(admin_api):
    counted = admin_api.post("/v1/placement/capacity", {**DEDICATED, "limit": 5}).json
    assert (counted["total"], counted["complete"]) == (5, False)
    assert counted["hosts"][0] == {
        "host": "rack7-u11", "count": 4, "code": "cpus", "reason": "no cell has 2 CPUs free: best is cell 0 with 0",
    }


def test_without_a_scheduler_the_answer_is_503(configuration, cloud):
    cloud.scheduler.stop()
    impatient = SchedulerAPI(cloud.transport, timeout=0.2)
    application = api_app.build(configuration, scheduler_api=impatient, compute_api=cloud.compute_api)
    api = Client(application, user="alice", project="demo", roles="member", version="1.42")
    for path in ("dry_run", "capacity"):
        assert api.post(f"/v1/placement/{path}", {}).refusal == (503, "scheduler-unavailable")
    cloud.scheduler.start(cloud.transport)
