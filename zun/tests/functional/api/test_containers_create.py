# SPDX-License-Identifier: Apache-2.0
"""POST /v1/containers: what is taken, what is stored and what is refused."""

import re

import pytest

from zun.api import app, creation
from zun.common.context import admin_context
from zun.db import containers as db
from zun.db import session, volumes
from zun.objects import Container
from zun.tests.functional.api.client import Client

NOTHING_GIVEN = {
    "image": "demo",
    "project_id": "demo",
    "user_id": "alice",
    "cpu": 1.0,
    "cpu_policy": "shared",
    "memory": "512",
    "disk": 0,
    "command": None,
    "entrypoint": None,
    "environment": None,
    "labels": None,
    "addresses": None,
    "ports": None,
    "security_groups": None,
    "restart_policy": None,
    "healthcheck": None,
    "status": "Creating",
    "task_state": None,
    "status_reason": None,
    "status_detail": None,
    "workdir": None,
    "hostname": None,
    "interactive": False,
    "tty": False,
    "auto_remove": False,
    "auto_heal": False,
    "image_driver": "docker",
    "registry_id": None,
    "updated_at": None,
}
LATER = {
    **{name: [] for name in ("command", "entrypoint", "ports", "security_groups")},
    **{name: {} for name in ("environment", "labels", "addresses", "restart_policy", "healthcheck")},
}


@pytest.fixture(autouse=True)
def much_disk(configuration):
    """The largest disk that a request may name is more than a project may have."""
    configuration.set_override("disk", -1, group="quota")


def test_a_container_of_an_image_and_nothing_else(api, scheduler):
    reply = api.post("/v1/containers", {"image": "demo"})
    shown = reply.json
    uuid = shown["uuid"]
    assert reply.status == 202
    assert reply.headers["location"] == f"http://zun.example:9517/v1/containers/{uuid}"
    assert re.fullmatch(r"[a-z]+-([1-9]|1\d|2[0-4])-container", shown["name"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{6})?", shown["created_at"])
    own = {"uuid", "name", "created_at", "links"}
    assert {name: value for name, value in shown.items() if name not in own} == NOTHING_GIVEN
    assert scheduler.sent == [("create", uuid)]
    stored = Container.get_by_uuid(admin_context(), uuid)
    assert stored.request == {"run": False, "hints": {}, "availability_zone": None, "host": None}
    assert stored.placement == {} and stored.host is None and stored.cpuset is None
    later = api.get(f"/v1/containers/{uuid}").json
    assert later == {**shown, **LATER}


def test_every_field(admin_api, host_row, scheduler):
    body = {
        "image": "docker.io/library/busybox:1.36",
        "name": "web-1",
        "command": ["sleep", "1000"],
        "entrypoint": ["/bin/sh"],
        "cpu": "1.5",
        "memory": "256",
        "disk": "20",
        "cpu_policy": "shared",
        "workdir": "",
        "environment": {"A": "b"},
        "labels": {"a": "b", "n": 1, "t": True},
        "hints": {"label:rack": "3"},
        "image_pull_policy": "Always",
        "image_driver": "docker",
        "restart_policy": {"Name": "on-failure", "MaximumRetryCount": 3},
        "auto_remove": True,
        "auto_heal": "True",
        "interactive": "true",
        "tty": False,
        "runtime": "runc",
        "hostname": "web",
        "host": "host-1",
        "availability_zone": "nova",
        "security_groups": [],
        "nets": [],
        "mounts": [],
        "healthcheck": {"cmd": "true", "interval": "5", "retries": 2, "timeout": 3},
    }
    reply = admin_api.post("/v1/containers?run=true", body)
    assert reply.status == 202, reply.json
    shown = reply.json
    expected = {
        **{name: body[name] for name in ("image", "name", "command", "entrypoint", "hostname", "environment", "host")},
        **{"cpu": 1.5, "memory": "256", "disk": 20, "labels": {"a": "b", "n": "1", "t": "True"}},
        **{"restart_policy": {"Name": "on-failure", "MaximumRetryCount": "3"}, "image_pull_policy": "always"},
        **{"auto_remove": True, "auto_heal": True, "interactive": True, "tty": False, "image_driver": "docker"},
        **{"runtime": "runc", "privileged": False, "workdir": ""},
        "healthcheck": {"test": "true", "interval": 5, "retries": 2, "timeout": 3},
        "host": None,  # it is wished for, it is not there yet
    }
    assert {name: shown[name] for name in expected} == expected
    stored = Container.get_by_uuid(admin_context(), shown["uuid"])
    assert stored.request == {
        "run": True,
        "hints": {"label:rack": "3", "image:trait:CUSTOM_ZUN_NO_HEALTHCHECKS": "forbidden"},
        "availability_zone": "nova",
        "host": "host-1",
    }


@pytest.mark.parametrize(
    ("run", "stored"),
    [("true", True), ("True", True), ("1", True), ("on", True), ("YES", True), ("no", False), ("0", False)],
)
def test_run(api, run, stored):
    uuid = api.post(f"/v1/containers?run={run}", {"image": "demo"}).json["uuid"]
    assert Container.get_by_uuid(admin_context(), uuid).request["run"] is stored


@pytest.mark.parametrize(
    ("given", "member", "shown"),
    [
        ({"cpu": 0.5}, "cpu", 0.5),
        ({"cpu": ".5"}, "cpu", 0.5),
        ({"cpu": "16"}, "cpu", 16.0),
        ({"cpu": None}, "cpu", 1.0),
        ({"memory": 4}, "memory", "4"),
        ({"memory": "0064"}, "memory", "64"),
        ({"memory": 512.0}, "memory", "512"),
        ({"memory": None}, "memory", "512"),
        ({"disk": None}, "disk", 0),
        ({"disk": 160}, "disk", 160),
        ({"image_driver": None}, "image_driver", "docker"),
        ({"image_driver": "None"}, "image_driver", "docker"),
        ({"image_driver": "docker"}, "image_driver", "docker"),
        (
            {"restart_policy": {"Name": "no", "MaximumRetryCount": "7"}},
            "restart_policy",
            {"Name": "no", "MaximumRetryCount": "0"},
        ),
        ({"restart_policy": {"Name": "always"}}, "restart_policy", {"Name": "always", "MaximumRetryCount": "0"}),
        (
            {"restart_policy": {"Name": "on-failure", "MaximumRetryCount": None}},
            "restart_policy",
            {"Name": "on-failure", "MaximumRetryCount": "0"},
        ),
        (
            {"restart_policy": {"Name": "unless-stopped", "MaximumRetryCount": 0}},
            "restart_policy",
            {"Name": "unless-stopped", "MaximumRetryCount": "0"},
        ),
        ({"exposed_ports": {"80": {}, "443/tcp": {}, "53/udp": None, "53/tcp": {}}}, "ports", [53, 80, 443]),
        ({"exposed_ports": {"38412/sctp": {}}}, "ports", [38412]),
        ({"exposed_ports": {"1": {}, "65535": {}, "00080": {}}}, "ports", [1, 80, 65535]),
        ({"healthcheck": {"cmd": "true"}}, "healthcheck", {"test": "true"}),
        ({"healthcheck": {"cmd": "t", "retries": 999999999}}, "healthcheck", {"test": "t", "retries": 999999999}),
        ({"healthcheck": {"cmd": "t", "start_period": "30"}}, "healthcheck", {"test": "t", "start_period": 30}),
        ({"healthcheck": {"cmd": "true", "unknown": 1, "retries": None}}, "healthcheck", {"test": "true"}),
        ({"auto_heal": "false"}, "auto_heal", False),
        ({"name": "A0._-z"}, "name", "A0._-z"),
        ({"hostname": "h" * 63}, "hostname", "h" * 63),
        ({"labels": {"x": 1.5, "y": ""}}, "labels", {"x": "1.5", "y": ""}),
    ],
)
def test_spellings(api, given, member, shown):
    reply = api.post("/v1/containers", {"image": "demo", **given})
    assert reply.status == 202, reply.json
    assert reply.json[member] == shown


BAD = [
    # (body beside the image, field that the answer names)
    ({"image": None}, "image"),
    ({"image": ""}, "image"),
    ({"image": "x"}, "image"),
    ({"image": "x" * 256}, "image"),
    ({"image": "demo\nforged"}, "image"),
    ({"image": "\x1b[2Jdemo"}, "image"),
    ({"image": "demo\n"}, "image"),
    ({"image": "demo\u2028forged"}, "image"),
    ({"image": 7}, "image"),
    ({"image": ["demo"]}, "image"),
    ({"name": "a"}, "name"),
    ({"name": "-ab"}, "name"),
    ({"name": "a b"}, "name"),
    ({"name": "ab\n"}, "name"),
    ({"name": "a" * 256}, "name"),
    ({"name": 12}, "name"),
    ({"cpu": 0}, "cpu"),
    ({"cpu": 0.09}, "cpu"),
    ({"cpu": 16.1}, "cpu"),
    ({"cpu": "16.1"}, "cpu"),
    ({"cpu": -1}, "cpu"),
    ({"cpu": "-1"}, "cpu"),
    ({"cpu": ""}, "cpu"),
    ({"cpu": "."}, "cpu"),
    ({"cpu": "1e3"}, "cpu"),
    ({"cpu": "1\n"}, "cpu"),
    ({"cpu": "nan"}, "cpu"),
    ({"cpu": "9" * 400}, "cpu"),
    ({"cpu": 10**299}, "cpu"),
    ({"cpu": 1e308}, "cpu"),
    ({"cpu": True}, "cpu"),
    ({"cpu": [1]}, "cpu"),
    ({"cpu": {}}, "cpu"),
    ({"memory": 3}, "memory"),
    ({"memory": 8193}, "memory"),
    ({"memory": "8193"}, "memory"),
    ({"memory": 64.5}, "memory"),
    ({"memory": "64M"}, "memory"),
    ({"memory": ""}, "memory"),
    ({"memory": "٦٤"}, "memory"),
    ({"memory": "9" * 4000}, "memory"),
    ({"memory": 10**299}, "memory"),
    ({"memory": True}, "memory"),
    ({"memory": -64}, "memory"),
    ({"disk": 0}, "disk"),
    ({"disk": 161}, "disk"),
    ({"disk": 1.5}, "disk"),
    ({"disk": 2**70}, "disk"),
    ({"cpu_policy": None}, "cpu_policy"),
    ({"cpu_policy": "pinned"}, "cpu_policy"),
    ({"cpu_policy": "Dedicated"}, "cpu_policy"),
    ({"command": "sleep 10"}, "command"),
    ({"command": ["a", None]}, "command"),
    ({"command": {"a": 1}}, "command"),
    ({"entrypoint": "sh"}, "entrypoint"),
    ({"entrypoint": [["sh"]]}, "entrypoint"),
    ({"workdir": 1}, "workdir"),
    ({"workdir": "/" * 256}, "workdir"),
    ({"environment": {"A": 1}}, "environment"),
    ({"environment": {"A": None}}, "environment"),
    ({"environment": ["A=1"]}, "environment"),
    ({"labels": {"a": None}}, "labels"),
    ({"labels": {"a": {}}}, "labels"),
    ({"labels": "a=b"}, "labels"),
    ({"hints": "a=b"}, "hints"),
    ({"image_driver": "docker2"}, "image_driver"),
    ({"image_driver": "glance"}, "image_driver: 'glance' is not one of docker"),
    ({"image_driver": 1}, "image_driver"),
    ({"restart_policy": "always"}, "restart_policy"),
    ({"restart_policy": {}}, "restart_policy"),
    ({"restart_policy": {"Name": "never"}}, "restart_policy"),
    ({"restart_policy": {"Name": "no", "Extra": 1}}, "restart_policy"),
    ({"restart_policy": {"Name": "on-failure", "MaximumRetryCount": -1}}, "restart_policy"),
    ({"restart_policy": {"Name": "on-failure", "MaximumRetryCount": "x"}}, "restart_policy"),
    ({"restart_policy": {"Name": "on-failure", "MaximumRetryCount": True}}, "restart_policy"),
    ({"restart_policy": {"Name": "on-failure", "MaximumRetryCount": "9" * 5000}}, "restart_policy"),
    ({"restart_policy": {"Name": "always", "MaximumRetryCount": 1}}, "restart_policy"),
    ({"restart_policy": {"Name": "unless-stopped", "MaximumRetryCount": "1"}}, "restart_policy"),
    ({"auto_remove": "true"}, "auto_remove"),
    ({"auto_remove": 1}, "auto_remove"),
    ({"auto_heal": "yes"}, "auto_heal"),
    ({"auto_heal": None}, "auto_heal"),
    ({"interactive": 1}, "interactive"),
    ({"interactive": "1"}, "interactive"),
    ({"tty": "on"}, "tty"),
    ({"privileged": None}, "privileged"),
    ({"hostname": None}, "hostname"),
    ({"hostname": ""}, "hostname"),
    ({"hostname": "a b"}, "hostname"),
    ({"hostname": "a_b!"}, "hostname"),
    ({"hostname": "h" * 64}, "hostname"),
    ({"hostname": "h" * 256}, "hostname"),
    ({"host": None}, "host"),
    ({"availability_zone": ""}, "availability_zone"),
    ({"availability_zone": "z" * 256}, "availability_zone"),
    ({"security_groups": "default"}, "security_groups"),
    ({"security_groups": [""]}, "security_groups"),
    ({"security_groups": ["default", "web"]}, "security_groups"),
    ({"exposed_ports": ["80"]}, "exposed_ports"),
    ({"exposed_ports": {"http": {}}}, "exposed_ports"),
    ({"exposed_ports": {"80/dccp": {}}}, "exposed_ports"),
    ({"exposed_ports": {"80/": {}}}, "exposed_ports"),
    ({"exposed_ports": {"0": {}}}, "exposed_ports"),
    ({"exposed_ports": {"65536": {}}}, "exposed_ports"),
    ({"exposed_ports": {"-80": {}}}, "exposed_ports"),
    ({"exposed_ports": {"000080": {}}}, "exposed_ports"),
    ({"exposed_ports": {"80": {}}, "security_groups": []}, "exposed_ports"),
    ({"nets": "private"}, "nets"),
    ({"nets": [{}]}, "nets"),
    ({"nets": [{"network": "a", "port": "b"}]}, "nets"),
    ({"nets": [{"network": "a", "colour": "b"}]}, "nets"),
    ({"nets": [{"network": ""}]}, "nets"),
    ({"nets": [{"port": "p" * 256}]}, "nets"),
    ({"nets": [{"v4-fixed-ip": "10.1.0.2"}]}, "nets"),
    ({"nets": [{"network": "a", "v4-fixed-ip": "fd00::1"}]}, "nets"),
    ({"nets": [{"network": "a", "v4-fixed-ip": "10.1.0"}]}, "nets"),
    ({"nets": [{"network": "a", "v6-fixed-ip": "10.1.0.2"}]}, "nets"),
    ({"nets": [{"network": "a", "v6-fixed-ip": "fe80::1%eth0"}]}, "nets"),
    ({"mounts": [{"source": "v"}]}, "mounts"),
    ({"mounts": [{"destination": "/d"}]}, "mounts"),
    ({"mounts": [{"destination": "/d", "size": "1M"}]}, "mounts"),
    ({"mounts": [{"destination": "/d", "source": "/etc"}]}, "mounts"),
    ({"mounts": [{"destination": "/d", "size": "1", "name": "x"}]}, "mounts"),
    ({"registry": None}, "registry"),
    ({"healthcheck": "true"}, "healthcheck"),
    ({"healthcheck": {"interval": 5}}, "healthcheck"),
    ({"healthcheck": {"cmd": 5}}, "healthcheck"),
    ({"healthcheck": {"cmd": ""}}, "healthcheck"),
    ({"healthcheck": {"cmd": "true", "retries": 10**9}}, "healthcheck"),
    ({"healthcheck": {"cmd": "true", "interval": "5s"}}, "healthcheck"),
    ({"healthcheck": {"cmd": "true", "retries": True}}, "healthcheck"),
    ({"healthcheck": {"cmd": "true", "timeout": -1}}, "healthcheck"),
    ({"healthcheck": {"cmd": "true", "timeout": 10**30}}, "healthcheck"),
    ({"healthcheck": {"cmd": "true", "start_period": "30s"}}, "healthcheck: start_period"),
    ({"healthcheck": {"cmd": "true", "start_period": -1}}, "healthcheck: start_period"),
    ({"healthcheck": {"cmd": "true", "interval": 10**9}}, "interval must be a whole number from 0 to 999999999, got"),
    ({"healthcheck": {"cmd": "true", "start_interval": 5}}, "healthcheck: there is no start_interval"),
    ({"unknown": 1}, "unknown"),
    ({"run": True}, "run"),
    ({"uuid": "x"}, "uuid"),
    ({"cpuset": {}}, "cpuset"),
    ({"status": "Running"}, "status"),
]


def test_unknown_members_of_a_health_check_from_1_41(api):
    body = {"image": "demo", "healthcheck": {"cmd": "true", "start_perod": 5}}
    assert api.at("1.40").post("/v1/containers", body).json["healthcheck"] == {"test": "true"}
    reply = api.at("1.41").post("/v1/containers", body)
    assert reply.refusal == (400, "invalid-value")
    told = "there is no start_perod; possible are cmd, interval, retries, start_period, timeout"
    assert told in reply.error["detail"]


@pytest.mark.parametrize(("given", "field"), BAD)
def test_a_bad_field_is_named_and_reaches_no_scheduler(api, scheduler, given, field):
    reply = api.post("/v1/containers", {"image": "demo", **given})
    assert reply.status == 400, reply.json
    assert reply.refusal[1] in ("schema-validation-error", "invalid-value")
    assert field in reply.error["detail"]
    assert len(reply.error["detail"]) < 800
    assert scheduler.sent == []
    assert api.get("/v1/containers").json["containers"] == []


def test_without_an_image(api):
    reply = api.post("/v1/containers", {})
    assert reply.refusal == (400, "schema-validation-error")
    assert "image" in reply.error["detail"]


@pytest.mark.parametrize("query", ["run=maybe", "run=", "runn=1", "image=demo", "limit=1"])
def test_bad_queries(api, query):
    assert api.post(f"/v1/containers?{query}", {"image": "demo"}).refusal == (400, "schema-validation-error")


# Fields that need more than being of the project: (field, value).
RESTRICTED = [
    ("runtime", "runc"),
    ("privileged", True),
    ("privileged", False),
    ("privileged", "False"),
    ("image_pull_policy", "never"),
    ("host", "host-1"),
]


@pytest.mark.parametrize(("field", "value"), RESTRICTED)
def test_fields_for_administrators(api, admin_api, host_row, field, value):
    body = {"image": "demo", field: value}
    assert api.post("/v1/containers", body).refusal == (403, "policy-not-authorized")
    expected = 403 if field == "privileged" else 202  # nobody makes privileged containers
    assert admin_api.post("/v1/containers", body).status == expected


@pytest.mark.parametrize("given", [{"runtime": None}, {"image_pull_policy": None}])
def test_null_needs_no_right(api, given):
    assert api.post("/v1/containers", {"image": "demo", **given}).status == 202


def test_a_host_by_its_uuid(admin_api, host_row, scheduler):
    assert admin_api.post("/v1/containers", {"image": "demo", "host": host_row}).status == 202
    ((_, uuid),) = scheduler.sent
    assert Container.get_by_uuid(admin_context(), uuid).request["host"] == "host-1"


def test_a_host_that_is_none(admin_api, scheduler):
    reply = admin_api.post("/v1/containers", {"image": "demo", "host": "host-9"})
    assert reply.refusal == (404, "requested-host-not-found")
    assert admin_api.get("/v1/containers").json["containers"] == []
    assert scheduler.sent == []


def test_the_operators_defaults(configuration, database, scheduler, compute):
    from zun.api import app
    from zun.tests.functional.api.client import Client

    for option, value in {
        "default_cpu": 2.5,
        "default_memory": 1024,
        "default_schedule_zone": "north",
        "maximum_cpus": 64.0,
    }.items():
        configuration.set_override(option, value)
    configuration.set_override("cpu", 70, group="quota")
    api = Client(app.build(configuration, scheduler_api=scheduler, compute_api=compute), project="demo", version="1.40")
    shown = api.post("/v1/containers", {"image": "demo"}).json
    assert (shown["cpu"], shown["memory"]) == (2.5, "1024")
    assert db.get(shown["uuid"])["request"]["availability_zone"] == "north"
    assert api.post("/v1/containers", {"image": "demo", "cpu": 64}).status == 202


@pytest.fixture
def unique(configuration, database, scheduler, compute):
    """Clients of a service where a name is there once in ``scope``: of project demo, and of project other."""

    def unique(scope):
        configuration.set_override("unique_container_name_scope", scope, group="compute")
        made = app.build(configuration, scheduler_api=scheduler, compute_api=compute)
        return [Client(made, project=project, version="1.13") for project in ("demo", "other")]

    return unique


@pytest.mark.parametrize(("scope", "elsewhere"), [("project", 202), ("global", 409)])
def test_a_unique_name_cannot_be_given_twice(unique, scope, elsewhere):
    own, other = unique(scope)
    assert own.post("/v1/containers", {"image": "demo", "name": "web"}).status == 202
    reply = own.post("/v1/containers", {"image": "demo", "name": "WEB"})
    assert reply.refusal == (409, "container-already-exists")
    assert "WEB" in reply.error["detail"]
    assert other.post("/v1/containers", {"image": "demo", "name": "web"}).status == elsewhere
    second = own.post("/v1/containers", {"image": "demo", "name": "db"}).json
    assert own.post(f"/v1/containers/{second['uuid']}/rename?name=Web").refusal == (409, "container-already-exists")
    db.update(second["uuid"], {"status": "Created"})
    assert own.patch(f"/v1/containers/{second['uuid']}", {"name": "web"}).refusal == (409, "container-already-exists")
    renamed = own.patch(f"/v1/containers/{second['uuid']}", {"name": "db2", "auto_heal": True})
    assert (renamed.status, renamed.json["name"], renamed.json["auto_heal"]) == (200, "db2", True)
    assert renamed.json["updated_at"]


def test_a_name_of_ours_does_not_fail_for_being_taken(unique, monkeypatch):
    own, _ = unique("project")
    monkeypatch.setattr(creation, "generated_name", lambda choose: "alpha-1-container")
    names = [own.post("/v1/containers", {"image": "demo"}).json["name"] for _ in range(3)]
    assert names[0] == "alpha-1-container" and len(set(names)) == 3
    assert all(name.startswith("alpha-1-container") for name in names)


def test_names_may_be_given_twice(api):
    for _ in range(2):
        assert api.post("/v1/containers", {"image": "demo", "name": "twin"}).status == 202
    assert api.get("/v1/containers/twin").refusal == (409, "conflict")


# Placement, at 1.41. The rules themselves are in zun/tests/unit/api/test_placement.py.

DEDICATED = {"image": "demo", "cpu_policy": "dedicated", "cpu": 4, "memory": 256}
DEFAULTS = {
    "cpu_thread_policy": "prefer",
    "cpu_isolation": "thread",
    "numa_nodes": 1,
    "numa_affinity": "require",
    "numa_cpus": None,
    "numa_mem": None,
    "numa_mempolicy": "strict",
    "mem_page_size": None,
    "cpuset_cpus": None,
    "cpuset_mems": None,
    "cpuset_isolation": None,
}


@pytest.mark.parametrize(
    ("given", "changed"),
    [
        ({}, {}),
        ({"cpu_thread_policy": "isolate"}, {"cpu_thread_policy": "isolate"}),
        ({"cpu_isolation": "l3"}, {"cpu_isolation": "l3"}),
        ({"numa_nodes": 2}, {"numa_nodes": 2}),
        ({"numa_nodes": 2.0}, {"numa_nodes": 2}),
        ({"numa_cpus": [1, 3]}, {"numa_nodes": 2, "numa_cpus": [1, 3]}),
        ({"numa_cpus": [3.0, 1], "numa_mem": [64, 192]}, {"numa_nodes": 2, "numa_cpus": [3, 1], "numa_mem": [64, 192]}),
        (
            {"numa_affinity": "prefer", "numa_mempolicy": "preferred"},
            {"numa_affinity": "prefer", "numa_mempolicy": "preferred"},
        ),
        ({"mem_page_size": "large"}, {"mem_page_size": "large"}),
        ({"mem_page_size": "2048"}, {"mem_page_size": 2048}),
        ({"mem_page_size": "small"}, {"mem_page_size": "small"}),
        ({"mem_page_size": "any"}, {"mem_page_size": "any"}),
    ],
)
def test_placement_is_stored_and_shown(admin_api, given, changed):
    reply = admin_api.at("1.41").post("/v1/containers", {**DEDICATED, **given})
    assert reply.status == 202, reply.json
    assert {name: reply.json[name] for name in DEFAULTS} == {**DEFAULTS, **changed}
    stored = Container.get_by_uuid(admin_context(), reply.json["uuid"]).placement
    assert stored == {name: value for name, value in {**DEFAULTS, **changed}.items() if value is not None}


def test_dedicated_at_an_old_version(api):
    reply = api.at("1.1").post("/v1/containers", {**DEDICATED, "cpu": "4", "memory": "256"})
    assert (reply.status, reply.json["cpu_policy"]) == (202, "dedicated")
    assert Container.get_by_uuid(admin_context(), reply.json["uuid"]).placement["numa_nodes"] == 1


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"cpu": 1.5}, "cpu"),
        ({"cpu": None}, "cpu"),
        ({"cpu": 0.5}, "cpu"),
        ({"memory": None}, "memory"),
        ({"cpu_policy": "shared", "numa_nodes": 1}, "numa_nodes"),
        ({"numa_nodes": 0}, "numa_nodes"),
        ({"numa_nodes": 5}, "numa_nodes"),
        ({"numa_nodes": True}, "numa_nodes"),
        ({"numa_nodes": "2"}, "numa_nodes"),
        ({"numa_nodes": 10**30}, "numa_nodes"),
        ({"numa_cpus": [1, 2]}, "numa_cpus"),
        ({"numa_cpus": []}, "numa_cpus"),
        ({"numa_cpus": [4, 0]}, "numa_cpus"),
        ({"numa_cpus": [5, -1]}, "numa_cpus"),
        ({"numa_cpus": [True, 3]}, "numa_cpus"),
        ({"numa_cpus": [3.5, 0.5]}, "numa_cpus"),
        ({"numa_cpus": 4}, "numa_cpus"),
        ({"numa_cpus": [2, 2], "numa_nodes": 3}, "numa_cpus"),
        ({"numa_cpus": [2, 2], "numa_mem": [100, 100, 56]}, "numa_mem"),
        ({"numa_mem": [100, 100]}, "numa_mem"),
        ({"numa_mem": ["128", "128"]}, "numa_mem"),
        ({"numa_affinity": "always"}, "numa_affinity"),
        ({"cpu_thread_policy": "avoid"}, "cpu_thread_policy"),
        ({"cpu_isolation": "socket"}, "cpu_isolation"),
        ({"cpu_isolation": 1}, "cpu_isolation"),
        ({"cpu_policy": "shared", "cpu_isolation": "core"}, "cpu_isolation"),
        ({"numa_mempolicy": "bind"}, "numa_mempolicy"),
        ({"mem_page_size": "huge"}, "mem_page_size"),
        ({"mem_page_size": 3}, "mem_page_size"),
        ({"mem_page_size": 2000}, "mem_page_size"),
        ({"mem_page_size": True}, "mem_page_size"),
        ({"mem_page_size": 2**60}, "mem_page_size"),
        ({"mem_page_size": 1048576}, "memory"),
    ],
)
def test_a_bad_placement_is_refused_by_its_field(api, given, field):
    body = {name: value for name, value in {**DEDICATED, **given}.items() if value is not None}
    reply = api.at("1.41").post("/v1/containers", body)
    assert reply.status == 400, reply.json
    assert reply.error["detail"].startswith(field)


def test_mounts_are_stored_and_never_shown(api, scheduler):
    mounts = [
        {"source": "data", "destination": "/data"},
        {"size": "2", "source": "", "destination": "/scratch"},  # as the dashboard sends it
        {"type": "bind", "source": "aGVsbG8=", "destination": "/etc/hello"},
    ]
    shown = api.post("/v1/containers", {"image": "demo", "mounts": mounts, "disk": 5}).json
    assert "mounts" not in shown and "volume_disk" not in shown
    assert shown["disk"] == 5
    stored = Container.get_by_uuid(admin_context(), shown["uuid"])
    assert stored.mounts == [
        {"type": "volume", "source": "data", "destination": "/data"},
        {"type": "local", "size_mib": 2048, "destination": "/scratch"},
        {"type": "bind", "source": "aGVsbG8=", "destination": "/etc/hello"},
    ]
    assert stored.volume_disk == 2
    assert api.get("/v1/quotas/demo?usages=true").json["disk"]["in_use"] == 7
    assert stored.request["host"] is None


@pytest.mark.parametrize(
    ("field", "items"),
    [
        ("mounts", [{"size": 1, "destination": f"/{number}"} for number in range(101)]),
        ("nets", [{"network": f"net-{number}"} for number in range(101)]),
    ],
)
def test_what_costs_work_has_an_end(api, field, items):
    reply = api.post("/v1/containers", {"image": "demo", field: items})
    assert reply.refusal == (400, "schema-validation-error")
    assert reply.error["detail"].startswith(f"{field}: ") and "too long" in reply.error["detail"]
    assert "too long" not in api.post("/v1/containers", {"image": "demo", field: items[1:]}).body.decode()


def volume_at(host, name="data", project="demo"):
    with session.writer() as connection:
        volumes.hold(connection, project, [name], host)


def test_a_container_goes_where_its_volumes_are(api, admin_api, host_row):
    volume_at("host-1")
    volume_at("elsewhere", name="stray")
    volume_at("elsewhere", project="admin")
    body = {"image": "demo", "mounts": [{"source": "data", "destination": "/d"}]}
    uuid = api.post("/v1/containers", body).json["uuid"]
    assert Container.get_by_uuid(admin_context(), uuid).request["host"] == "host-1"
    both = [*body["mounts"], {"source": "stray", "destination": "/s"}]
    refused = api.post("/v1/containers", {**body, "mounts": both})
    assert refused.refusal == (409, "conflict") and "data, stray" in refused.error["detail"]
    assert "elsewhere" not in refused.error["detail"]
    assert admin_api.post("/v1/containers", {**body, "host": "host-1"}).refusal == (409, "conflict")
