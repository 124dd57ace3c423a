# SPDX-License-Identifier: Apache-2.0
"""Listing, showing, changing and deleting containers."""

import datetime
import urllib.parse

import pytest
from oslo_utils import timeutils

from zun.common import exceptions
from zun.common.context import admin_context
from zun.common.states import ALLOWED, Status
from zun.db import containers as db
from zun.db import quotas, services
from zun.objects import Container
from zun.objects.placement import cpuset_record
from zun.topology import CellShare, CpuSet, Plan

RESTRICTED = {"host", "runtime", "image_pull_policy", "privileged"}


def names(reply):
    assert reply.status == 200, reply.json
    return [item["name"] for item in reply.json["containers"]]


# The list.


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"command": [], "entrypoint": [], "environment": {}, "labels": {}, "addresses": {}, "ports": []},
        {
            "command": ["a\nb", '"', "\\", "\x1f", "é \U0001f433"],
            "labels": {"é": "\U0001f433", "": '{"a": 1}'},
            "environment": {"A": "null", "B": ""},
            "addresses": {"net": [{"addr": "10.0.0.2", "version": 4, "subnet_id": None, "port": "p"}]},
            "ports": [80, 65535],
            "restart_policy": {"Name": "always", "MaximumRetryCount": "0"},
            "healthcheck": {"cmd": "true", "interval": "5", "retries": "1", "timeout": "2"},
            "security_groups": ["one"],
            "cpu": 1 / 3,
        },
    ],
    ids=["nothing", "empty", "full"],
)
def test_items_of_a_list_are_the_resource_without_links(api, placed, given):
    container = placed(**given)
    item = api.get(f"/v1/containers/{container.uuid}").json
    (listed,) = api.get("/v1/containers").json["containers"]
    assert item.pop("links")
    assert listed == item


def test_a_list_has_the_own_project_unless_all_are_asked_for(api, admin_api, placed):
    placed(name="mine")
    placed(name="theirs", project_id="other")
    placed(name="of-root", project_id="admin")
    assert names(api.get("/v1/containers")) == ["mine"]
    assert names(api.get("/v1/containers?all_projects=no")) == ["mine"]
    assert names(admin_api.get("/v1/containers")) == ["of-root"]
    assert names(admin_api.get("/v1/containers?all_projects=1")) == ["mine", "theirs", "of-root"]
    assert names(admin_api.get("/v1/containers?all_projects=T&project_id=other")) == ["theirs"]
    assert names(api.get("/v1/containers?project_id=other")) == []
    assert api.get("/v1/containers?all_projects=true").refusal == (403, "policy-not-authorized")


@pytest.mark.parametrize("path", ["/v1/containers", "/v1/containers/{}"])
def test_what_only_administrators_see(api, admin_api, placed, path):
    path = path.format(placed(project_id="admin", name="x1").uuid)
    placed(name="x2")
    seen = [
        reply["containers"][0] if "containers" in reply else reply
        for reply in (admin_api.get(path).json, api.in_project("admin").get(path).json)
    ]
    assert seen[0].keys() - seen[1].keys() == RESTRICTED
    assert seen[0]["host"] == "host-1"


FILTERS = [
    ("name=web", ["web"]),
    ("name=WEB", []),
    ("name=", []),
    ("image=nginx", ["web"]),
    ("status=Stopped", ["db"]),
    ("memory=128", ["db"]),
    ("memory=0128", ["db"]),
    ("task_state=container_stopping", ["db"]),
    ("user_id=u", ["web", "db"]),
    ("project_id=demo", ["web", "db"]),
    ("auto_remove=true", ["web"]),
    ("auto_remove=False", ["db"]),
    ("status=Running&image=nginx", ["web"]),
    ("status=Stopped&image=nginx", []),
    ("expand=1", ["web", "db"]),
    ("memory=999999999999999", []),
]


@pytest.mark.parametrize(("query", "found"), FILTERS)
def test_filters(api, placed, query, found):
    placed(name="web", image="nginx", memory=64, auto_remove=True)
    placed("Stopped", name="db", image="postgres", memory=128, task_state="container_stopping")
    assert names(api.get(f"/v1/containers?{query}")) == found


def test_filter_by_host_is_for_who_may_see_it(api, admin_api, placed):
    placed(name="here", project_id="admin")
    placed(name="there", project_id="admin", host="host-2")
    assert names(admin_api.get("/v1/containers?host=host-2")) == ["there"]
    for query in ("host=host-2", "sort_key=host", "host="):
        assert api.get(f"/v1/containers?{query}").refusal == (403, "policy-not-authorized")
    assert admin_api.get("/v1/containers?sort_key=host").status == 200


@pytest.mark.parametrize(
    ("query", "refusal"),
    [
        ("limit=0", (400, "invalid-value")),
        ("limit=-1", (400, "invalid-value")),
        ("limit=x", (400, "invalid-value")),
        ("limit=", (400, "invalid-value")),
        ("limit=1.5", (400, "invalid-value")),
        ("limit=" + "9" * 5000, (400, "invalid-value")),
        ("sort_dir=up", (400, "invalid-value")),
        ("sort_key=colour", (400, "invalid-parameter-value")),
        ("sort_key=environment", (400, "invalid-parameter-value")),
        ("all_projects=maybe", (400, "invalid-value")),
        ("auto_remove=maybe", (400, "invalid-value")),
        ("memory=64M", (400, "invalid-value")),
        ("memory=" + "9" * 30, (400, "invalid-value")),
        ("marker=nobody", (404, "container-not-found")),
        ("marker=0e4e9f1c-0000-0000-0000-000000000000", (404, "container-not-found")),
    ],
)
def test_bad_queries(api, query, refusal):
    assert api.get(f"/v1/containers?{query}").refusal == refusal


@pytest.mark.parametrize("query", ["colour=red", "cpu_policy=dedicated"])
def test_filters_that_are_unknown_are_refused_from_1_41(api, query):
    assert api.get(f"/v1/containers?{query}").status == 200
    assert api.at("1.41").get(f"/v1/containers?{query}").refusal == (400, "invalid-value")


def test_markers_of_others(api, admin_api, placed):
    foreign = placed(project_id="other")
    assert api.get(f"/v1/containers?marker={foreign.uuid}").refusal == (404, "container-not-found")
    assert admin_api.get(f"/v1/containers?marker={foreign.uuid}").refusal == (404, "container-not-found")
    assert names(admin_api.get(f"/v1/containers?marker={foreign.uuid}&all_projects=1")) == []


def walk(api, path):
    """Names on every page, following ``next`` the way stock clients do: its path and query on the known host."""
    pages = []
    while path:
        reply = api.get(path)
        pages.append(names(reply))
        following = reply.json["next"]
        assert following is None or following.startswith("http://zun.example:9517/v1/containers?")
        path = following and following.removeprefix("http://zun.example:9517")
        assert len(pages) < 20
    return pages


@pytest.mark.parametrize(
    ("query", "pages"),
    [
        ("limit=2", [["c0", "c1"], ["c2", "c3"], ["c4"]]),
        ("limit=5", [["c0", "c1", "c2", "c3", "c4"], []]),
        ("limit=6", [["c0", "c1", "c2", "c3", "c4"]]),
        ("limit=2&sort_dir=desc", [["c4", "c3"], ["c2", "c1"], ["c0"]]),
        ("limit=2&sort_key=memory", [["c1", "c3"], ["c0", "c2"], ["c4"]]),
        ("limit=2&sort_key=memory&sort_dir=desc", [["c4", "c2"], ["c0", "c3"], ["c1"]]),
        ("limit=1&image=even", [["c0"], ["c2"], ["c4"], []]),
        ("limit=2&sort_key=hostname", [["c0", "c3"], ["c1", "c2"], ["c4"]]),
        ("sort_key=name&sort_dir=desc", [["c4", "c3", "c2", "c1", "c0"]]),
    ],
)
def test_pages(api, placed, query, pages):
    for number, (memory, hostname) in enumerate([(64, "a"), (32, None), (64, None), (32, "a"), (128, None)]):
        placed(name=f"c{number}", memory=memory, hostname=hostname, image="odd" if number % 2 else "even")
    assert walk(api, f"/v1/containers?{query}") == pages


def test_pages_of_all_projects_stay_of_all_projects(admin_api, placed):
    for number in range(3):
        placed(name=f"c{number}", project_id=f"p{number}")
    assert walk(admin_api, "/v1/containers?limit=1&all_projects=1") == [["c0"], ["c1"], ["c2"], []]


def test_form_of_next(api, placed):
    first = placed(name="abc")
    following = api.get("/v1/containers?limit=1&name=abc").json["next"]
    query = urllib.parse.parse_qsl(urllib.parse.urlsplit(following).query)
    assert query == [
        ("sort_key", "id"),
        ("sort_dir", "asc"),
        ("limit", "1"),
        ("marker", first.uuid),
        ("name", "abc"),
    ]
    other = api.get("/v1/containers?limit=1&resource_url=things").json["next"]
    assert other.startswith("http://zun.example:9517/v1/things?")


def test_the_operators_limit(configuration, database, scheduler, compute, placed):
    from zun.api import app
    from zun.tests.functional.api.client import Client

    configuration.set_override("max_limit", 2, group="api")
    api = Client(app.build(configuration, scheduler_api=scheduler, compute_api=compute), project="demo", version="1.40")
    for number in range(3):
        placed(name=f"c{number}")
    for query in ("", "?limit=3", "?limit=2"):
        reply = api.get(f"/v1/containers{query}")
        assert names(reply) == ["c0", "c1"]
        assert "limit=2&" in reply.json["next"]


# Finding one.


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("PATCH", "", {}),
        ("DELETE", "", None),
        *(("POST", f"/{name}", None) for name in ("start", "stop", "reboot", "pause", "unpause", "kill")),
        ("POST", "/execute", {"command": "ls"}),
        ("POST", "/resize_container", {}),
        ("GET", "/logs", None),
        ("GET", "/top", None),
        ("GET", "/stats", None),
    ],
)
def test_containers_that_one_does_not_see(api, admin_api, placed, compute, method, path, body):
    foreign = placed(project_id="other", name="theirs")
    idents = [foreign.uuid, "theirs", "nobody", foreign.uuid.upper(), foreign.uuid.replace("-", ""), "%20", "x" * 300]
    for ident in idents:
        reply = api.send(method, f"/v1/containers/{ident}{path}", body)
        assert reply.refusal == (404, "container-not-found"), ident
    for ident in (foreign.uuid.upper(), foreign.uuid.replace("-", "")):
        assert admin_api.send(method, f"/v1/containers/{ident}{path}", body).refusal == (404, "container-not-found")
    assert compute.sent == []
    assert db.get(foreign.uuid)["status"] == "Running"


def test_by_name(api, admin_api, placed):
    mine = placed(name="web")
    placed(name="web", project_id="other")
    assert api.get("/v1/containers/web").json["uuid"] == mine.uuid
    assert admin_api.get("/v1/containers/web").refusal == (404, "container-not-found")
    assert admin_api.get("/v1/containers/web?all_projects=1").refusal == (409, "conflict")
    assert admin_api.get(f"/v1/containers/{mine.uuid}").json["name"] == "web"
    placed(name="web")
    assert api.get("/v1/containers/web").refusal == (409, "conflict")
    assert api.delete("/v1/containers/web").refusal == (409, "conflict")


@pytest.mark.parametrize("value", ["False", "0", "no", "f"])
def test_all_projects_false_needs_no_right(api, placed, value):
    container = placed("Stopped")
    assert api.get(f"/v1/containers/{container.uuid}?all_projects={value}").status == 200
    assert api.delete(f"/v1/containers/{container.uuid}?all_projects={value}").status == 204


def test_all_projects_true(api, admin_api, placed):
    path = f"/v1/containers/{placed('Stopped', project_id='other').uuid}?all_projects=true"
    for method in ("GET", "DELETE"):
        assert api.send(method, path).refusal == (403, "policy-not-authorized")
    assert api.get("/v1/containers/x?all_projects=maybe").refusal == (400, "invalid-value")
    assert admin_api.get(path).status == 200
    assert admin_api.delete(path).status == 204


def test_show_reads_the_row_and_asks_nobody(api, placed, compute):
    cpuset = {"cpuset_cpus": "1-2", "cpuset_mems": "0", "cpuset_isolation": "core", "cells": []}
    container = placed(
        cpu_policy="dedicated", cpu=2.0, placement={"numa_nodes": 1, "cpu_thread_policy": "isolate"}, cpuset=cpuset
    )
    shown = api.at("1.41").get(f"/v1/containers/{container.uuid}").json
    assert (shown["cpuset_cpus"], shown["cpuset_mems"], shown["cpuset_isolation"]) == ("1-2", "0", "core")
    assert (shown["numa_nodes"], shown["cpu_thread_policy"], shown["numa_mem"]) == (1, "isolate", None)
    assert "cpuset_cpus" not in api.get(f"/v1/containers/{container.uuid}").json
    assert compute.sent == []


# PATCH.


@pytest.mark.parametrize(
    ("given", "changed"),
    [
        ({}, {}),
        ({"name": "new-name"}, {"name": "new-name"}),
        ({"name": None}, {}),
        ({"auto_heal": "True"}, {"auto_heal": True}),
        ({"auto_heal": False, "name": "new-name"}, {"auto_heal": False, "name": "new-name"}),
        ({"cpu": None, "memory": None}, {}),
    ],
)
def test_changes_of_the_row(api, placed, compute, given, changed):
    container = placed(name="old-name")
    reply = api.patch(f"/v1/containers/{container.uuid}", given)
    before = {"name": "old-name", "auto_heal": False, "cpu": 1.0, "memory": "64", "status": "Running"}
    for shown in (reply.json, api.get(f"/v1/containers/{container.uuid}").json):
        assert {name: shown[name] for name in before} == {**before, **changed}
    assert (reply.status, compute.sent) == (200, [])


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"cpu": "1.5"}, {"cpu": 1.5}),
        ({"memory": "128"}, {"memory": 128}),
        ({"cpu": 2, "memory": 128, "name": "new-name"}, {"cpu": 2.0, "memory": 128}),
    ],
)
def test_changes_that_the_host_makes(api, placed, host_up, compute, given, sent):
    container = placed()
    reply = api.patch(f"/v1/containers/{container.uuid}", given)
    assert reply.status == 200
    assert compute.sent == [("update", container.uuid, sent)]
    assert (reply.json["cpu"], reply.json["memory"]) == (sent.get("cpu", 1.0), str(sent.get("memory", 64)))
    assert reply.json["name"] == given.get("name", container.name)
    assert api.get(f"/v1/containers/{container.uuid}").json["name"] == given.get("name", container.name)


def test_a_host_that_refuses(api, placed, host_up, compute):
    container = placed()
    compute.failure = exceptions.ClaimRefused(host="host-1", reason="cell 0 has 1 CPU left")
    reply = api.patch(f"/v1/containers/{container.uuid}", {"cpu": 2, "name": "new-name"})
    assert reply.refusal == (409, "claim-refused")
    assert "1 CPU left" in reply.error["detail"] and "host-1" not in reply.body.decode()
    assert api.get(f"/v1/containers/{container.uuid}").json["name"] == container.name


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"cpu": 0}, "cpu"),
        ({"cpu": "x"}, "cpu"),
        ({"cpu": 17}, "cpu"),
        ({"memory": 3}, "memory"),
        ({"memory": 1e300}, "memory"),
        ({"name": "a"}, "name"),
        ({"name": 5}, "name"),
        ({"auto_heal": None}, "auto_heal"),
        ({"image": "other"}, "image"),
        ({"status": "Stopped"}, "status"),
    ],
)
@pytest.mark.parametrize(("method", "path"), [("PATCH", ""), ("POST", "/resize_container")])
def test_a_bad_change_is_named_and_reaches_no_host(api, placed, host_up, compute, method, path, given, field):
    reply = api.send(method, f"/v1/containers/{placed().uuid}{path}", given)
    assert reply.refusal == (400, "schema-validation-error")
    assert field in reply.error["detail"]
    assert compute.sent == []


PLACED = {"cpu_policy": "dedicated", "cpu": 4.0, "memory": 256}


@pytest.mark.parametrize(
    ("placement", "given", "field"),
    [
        ({}, {"cpu": 1.5}, "cpu"),
        ({}, {"cpu": 0.5}, "cpu"),
        ({"numa_nodes": 2}, {"cpu": 1}, "numa_nodes"),
        ({"numa_nodes": 2, "numa_cpus": [1, 3]}, {"cpu": 6}, "numa_cpus"),
        ({"numa_nodes": 2, "numa_mem": [128, 128]}, {"memory": 300}, "numa_mem"),
        ({"mem_page_size": 2048}, {"memory": 301}, "memory"),
        ({}, {"cpu": 6}, None),
        ({"numa_nodes": 2, "numa_cpus": [1, 3]}, {"memory": 300}, None),
        ({"numa_nodes": 2}, {"cpu": 2, "memory": 300}, None),
    ],
)
@pytest.mark.parametrize(("method", "path"), [("PATCH", ""), ("POST", "/resize_container")])
def test_size_of_a_dedicated_container(api, placed, host_up, compute, method, path, placement, given, field):
    container = placed(**PLACED, placement=placement)
    reply = api.send(method, f"/v1/containers/{container.uuid}{path}", given)
    if field is None:
        assert reply.status in (200, 202)
        assert len(compute.sent) == 1
    else:
        assert reply.refusal == (400, "invalid-value")
        assert reply.error["detail"].startswith(field)
        assert compute.sent == []


@pytest.mark.parametrize(("method", "path"), [("PATCH", ""), ("POST", "/resize_container")])
@pytest.mark.parametrize(
    ("version", "given", "refused"),
    [
        ("1.41", {"cpu_policy": "shared"}, None),
        ("1.41", {"cpu_policy": "dedicated", "cpu": 3}, None),
        ("1.40", {"cpu_policy": "shared"}, (400, "invalid-param-in-version")),
        ("1.41", {"cpu_policy": "dedicated", "cpu": 1.5}, (400, "invalid-value")),
        ("1.41", {"cpu_policy": "mine"}, (400, "schema-validation-error")),
    ],
)
def test_cpu_policy_changes_from_1_41_on(api, placed, host_up, compute, method, path, version, given, refused):
    container = placed(**PLACED)
    reply = api.send(
        method,
        f"/v1/containers/{container.uuid}{path}",
        given,
        headers={"OpenStack-API-Version": f"container {version}"},
    )
    if refused is None:
        assert [sent for _, _, sent in compute.sent] == [given]
    else:
        assert (reply.refusal, compute.sent) == (refused, [])


@pytest.mark.parametrize(("method", "path"), [("PATCH", ""), ("POST", "/resize_container")])
@pytest.mark.parametrize(
    ("version", "given", "sent"),
    [
        ("1.41", {"cpu": 2, "keep_cpus": "3, 1"}, {"cpu": 2.0, "keep_cpus": "1,3"}),
        ("1.41", {"keep_cpus": "0-1"}, {"keep_cpus": "0-1"}),
        ("1.41", {"cpu": 2, "keep_cpus": None}, {"cpu": 2.0}),
        ("1.41", {"cpu": 2, "keep_cpus": ""}, {"cpu": 2.0}),
        ("1.40", {"cpu": 2, "keep_cpus": "1"}, (400, "invalid-param-in-version")),
        ("1.41", {"cpu": 2, "keep_cpus": "1-3"}, (400, "invalid-value")),
        ("1.41", {"keep_cpus": "3-1"}, (400, "schema-validation-error")),
        ("1.41", {"keep_cpus": "99999999999"}, (400, "schema-validation-error")),
        ("1.41", {"keep_cpus": "^1"}, (400, "schema-validation-error")),
        ("1.41", {"keep_cpus": [1]}, (400, "schema-validation-error")),
    ],
)
def test_cpus_that_stay_when_it_is_resized(api, placed, host_up, compute, method, path, version, given, sent):
    held = Plan({0: CellShare(CpuSet("0-3"), 256)})
    container = placed(**PLACED, cpuset=cpuset_record(held))
    reply = api.send(
        method,
        f"/v1/containers/{container.uuid}{path}",
        given,
        headers={"OpenStack-API-Version": f"container {version}"},
    )
    if isinstance(sent, dict):
        assert [arguments for _, _, arguments in compute.sent] == [sent]
    else:
        assert (reply.refusal, compute.sent) == (sent, [])


def test_resize_container_answers_before_it_happens(api, placed, compute):
    container = placed(name="old-name")
    reply = api.post(f"/v1/containers/{container.uuid}/resize_container", {"cpu": 2, "name": "new-name"})
    assert (reply.status, reply.json["cpu"], reply.json["name"]) == (202, 1.0, "new-name")
    assert compute.sent == [("resize_container", container.uuid, {"cpu": 2.0})]
    reply = api.post(f"/v1/containers/{container.uuid}/resize_container?memory=128")
    assert (reply.status, compute.sent[1]) == (202, ("resize_container", container.uuid, {"memory": 128}))
    assert api.post(f"/v1/containers/{container.uuid}/resize_container", {"auto_heal": True}).json["auto_heal"] is True
    assert len(compute.sent) == 2


# DELETE.


@pytest.mark.parametrize("query", ["force=maybe", "stop=", "forced=1", "timeout=3", "all_projects=maybe"])
def test_bad_queries_of_delete(api, placed, query):
    assert api.delete(f"/v1/containers/{placed('Stopped').uuid}?{query}").status == 400


def test_what_the_host_is_told(api, admin_api, placed, compute, host_up):
    cases = [
        (api, "Stopped", "", {"force": False, "stop_timeout": None}),
        (api, "Running", "stop=True", {"force": False, "stop_timeout": 10}),
        (api, "Stopped", "stop=True", {"force": False, "stop_timeout": 10}),  # it may be started meanwhile
        (admin_api, "Running", "force=True", {"force": True, "stop_timeout": None}),
        (admin_api, "Running", "force=True&stop=True", {"force": True, "stop_timeout": 10}),
        (api, "Error", "force=False&stop=False&all_projects=False", {"force": False, "stop_timeout": None}),
    ]
    for client, status, query, arguments in cases:
        container = placed(status)
        reply = client.delete(f"/v1/containers/{container.uuid}?{query}")
        assert (reply.status, reply.body) == (204, b"")
        assert compute.sent.pop() == ("delete", container.uuid, arguments)
        assert api.get(f"/v1/containers/{container.uuid}").json["status"] == "Deleting"


@pytest.mark.parametrize("status", ["Running", "Deleting"])
@pytest.mark.parametrize("why", ["silent", "forced down", "deleted"])
def test_what_is_forced_does_not_wait_for_a_host_that_is_down(api, admin_api, placed, compute, host_up, status, why):
    container = placed(status, cpuset={"cells": []})
    if why == "deleted":
        services.destroy("host-1", "zun-compute")
    else:
        long_ago = timeutils.utcnow() - datetime.timedelta(days=1)
        services.update(
            "host-1", "zun-compute", {"forced_down": True} if why == "forced down" else {"last_seen_up": long_ago}
        )
    quota = {"containers": 1}
    with pytest.raises(exceptions.OverQuota):
        quotas.check("demo", {"containers": 1}, {**dict.fromkeys(quotas.RESOURCES, -1), **quota})
    if status == "Running":
        assert api.delete(f"/v1/containers/{container.uuid}?stop=1").status == 204
        assert api.get(f"/v1/containers/{container.uuid}").json["status"] == "Deleting"
        compute.sent.clear()
    assert admin_api.delete(f"/v1/containers/{container.uuid}?force=1").status == 204
    assert (api.get("/v1/containers").json["containers"], compute.sent) == ([], [])
    for client in (api, admin_api):
        assert client.get(f"/v1/containers/{container.uuid}").status == 404
    assert admin_api.get("/v1/containers?all_projects=1").json["containers"] == []
    quotas.check("demo", {"containers": 1}, {**dict.fromkeys(quotas.RESOURCES, -1), **quota})
    row = db.get(container.uuid)  # for the host, should it come back
    assert (row["kind"], row["status"], row["cpuset"]) == ("leftover", "Deleting", {"cells": []})


def test_force_is_for_administrators_also_beside_stop(api, placed, compute):
    container = placed()
    for query in ("force=1", "force=1&stop=1"):
        assert api.delete(f"/v1/containers/{container.uuid}?{query}").refusal == (403, "policy-not-authorized")
    assert compute.sent == [] and db.get(container.uuid)["status"] == "Running"


@pytest.mark.parametrize(("status", "query"), [("Error", ""), ("Error", "stop=1")])
def test_what_no_host_ever_had_is_gone_at_once(api, placed, compute, status, query):
    container = placed(status, host=None)
    assert api.delete(f"/v1/containers/{container.uuid}?{query}").status == 204
    assert api.get(f"/v1/containers/{container.uuid}").status == 404
    assert compute.sent == []


def test_a_container_that_is_being_scheduled(api, admin_api, placed):
    container = placed("Creating", host=None)
    assert api.delete(f"/v1/containers/{container.uuid}").refusal == (409, "invalid-state-exception")
    assert admin_api.delete(f"/v1/containers/{container.uuid}?force=1").status == 204
    assert admin_api.get(f"/v1/containers/{container.uuid}").status == 404


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize(
    ("query", "key"), [("", "delete"), ("?force=1", "delete_force"), ("?stop=1", "delete_after_stop")]
)
def test_statuses_that_allow_deletion(admin_api, placed, compute, host_up, status, query, key):
    container = placed(str(status))
    reply = admin_api.delete(f"/v1/containers/{container.uuid}{query}")
    if status in ALLOWED[key]:
        assert reply.status == 204
        assert len(compute.sent) == 1
    else:
        assert reply.refusal == (409, "invalid-state-exception")
        assert container.uuid in reply.error["detail"] and status in reply.error["detail"]
        assert (compute.sent, db.get(container.uuid)["status"]) == ([], status)


def test_somebody_else_was_quicker(api, placed, compute, monkeypatch):
    """The status changes between our look at it and our writing: the answer is the one of a moment later."""
    container = placed("Stopped")
    original = db.find

    def overtaken(*args, **how):
        found = original(*args, **how)
        db.update(container.uuid, {"status": "Deleting"})
        return found

    monkeypatch.setattr(db, "find", overtaken)
    reply = api.post(f"/v1/containers/{container.uuid}/reboot")
    assert reply.refusal == (409, "invalid-state-exception")
    assert "Deleting" in reply.error["detail"]
    assert compute.sent == []


def test_a_host_takes_it_while_it_is_deleted(admin_api, placed, compute, host_up, monkeypatch):
    container = placed("Creating", host=None)
    original, calls = db.find, []

    def overtaken(context, ident, *more, **how):
        found = original(context, ident, *more, **how)
        if not calls:
            db.claim(container.uuid, "host-1", {"cpuset": {"cells": []}})
        calls.append(ident)
        return found

    monkeypatch.setattr(db, "find", overtaken)
    assert admin_api.delete(f"/v1/containers/{container.uuid}?force=1").status == 204
    assert compute.sent == [("delete", container.uuid, {"force": True, "stop_timeout": None})]
    assert Container.get_by_uuid(admin_context(), container.uuid).status == "Deleting"
