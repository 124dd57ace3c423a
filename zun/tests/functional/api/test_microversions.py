# SPDX-License-Identifier: Apache-2.0
"""The fields of requests at the first and last microversion that accept them."""

import pytest

from zun.tests.functional.api.client import Client

VERSION_HEADERS = {"openstack-api-version", "openstack-api-minimum-version", "openstack-api-maximum-version", "vary"}


def told(reply):
    """The headers of the version. What else an answer with a tag varies with comes behind."""
    found = {name: reply.headers[name] for name in VERSION_HEADERS}
    return {**found, "vary": found["vary"].partition(", ")[0]}


@pytest.mark.parametrize(
    ("header", "resolved"),
    [
        (None, "1.1"),
        ("container 1.1", "1.1"),
        ("container 1.5", "1.5"),
        ("container 01.05", "1.5"),
        ("container 1.40", "1.40"),
        ("container 1.41", "1.41"),
        ("container 1.42", "1.42"),
        ("container 1.43", "1.43"),
        ("container 1.44", "1.44"),
        ("container 1.46", "1.46"),
        ("container 1.48", "1.48"),
        ("container latest", "1.51"),
        ("container LATEST", "1.51"),
        ("compute latest", "1.51"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/containers", "/containers", "/v1", "/v1/nothing", "/v1/containers/a.txt"])
def test_headers_that_are_understood(api, path, header, resolved):
    reply = api.at(None).get(path, headers={"OpenStack-API-Version": header})
    assert reply.status in (200, 404)
    assert told(reply) == {
        "openstack-api-version": f"container {resolved}",
        "openstack-api-minimum-version": "container 1.1",
        "openstack-api-maximum-version": "container 1.51",
        "vary": "OpenStack-API-Version",
    }


@pytest.mark.parametrize(
    ("version", "resolved"), [("1.1", "1.1"), ("1.12", "1.12"), ("1.40", "1.40"), ("latest", "1.51")]
)
@pytest.mark.parametrize("path", ["/v1/containers", "/containers", "/v1", "/v1/nothing"])
def test_the_official_type_is_understood_and_answered(api, path, version, resolved):
    reply = api.at(None).get(path, headers={"OpenStack-API-Version": f"application-container {version}"})
    assert reply.status in (200, 404)
    assert told(reply) == {
        "openstack-api-version": f"application-container {resolved}",
        "openstack-api-minimum-version": "application-container 1.1",
        "openstack-api-maximum-version": "application-container 1.51",
        "vary": "OpenStack-API-Version",
    }


def test_a_version_out_of_range_is_answered_by_name(api):
    reply = api.at(None).get("/v1/containers", headers={"OpenStack-API-Version": "application-container 1.52"})
    assert (reply.status, reply.headers["openstack-api-version"]) == (406, "application-container 1.52")
    assert reply.headers.keys() >= VERSION_HEADERS


@pytest.mark.parametrize(
    "header",
    [
        "",
        "1.40",
        "container",
        "latest",
        "container 1.40 x",
        "compute 1.1",
        "Container 1.1",
        "Application-Container 1.1",
        "application_container 1.1",
        "application-container",
        "application-container 1",
        "container 1",
        "container a.b",
        "container 1.5.6",
        "container 1.-5",
        "container +1.5",
        "container 1.5, compute 2.1",
        "container 1." + "9" * 5000,
        "container ١.٥",
    ],
)
def test_headers_that_are_not(api, header):
    reply = api.at(None).get("/v1/containers", headers={"OpenStack-API-Version": header})
    assert (reply.refusal, reply.error["title"]) == ((406, ""), "Not Acceptable")
    assert not VERSION_HEADERS & reply.headers.keys()


@pytest.mark.parametrize("version", ["1.0", "1.52", "1.999999999", "0.1", "2.0", "2.15"])
def test_versions_out_of_range(api, version):
    reply = api.at(version).get("/v1/containers")
    assert (reply.refusal, reply.error["title"]) == ((406, ""), "Requested microversion is unsupported")
    assert "1.1" in reply.error["detail"] and "1.51" in reply.error["detail"]
    assert ("mutually exclusive" in reply.error["detail"]) is (not version.startswith("1."))
    assert reply.headers["openstack-api-version"] == f"container {version}"
    assert reply.headers.keys() >= VERSION_HEADERS


@pytest.mark.parametrize("header", ["nonsense", "container 7.7", "container latest", "application-container 1.40"])
def test_the_root_has_no_version(application, header):
    reply = Client(application).get("/", headers={"OpenStack-API-Version": header})
    assert reply.status == 200
    assert not VERSION_HEADERS & reply.headers.keys()


# Windows of whole paths: (method, path, first, last).
WINDOWS = [
    ("GET", "/v1/hosts", 4, 46),
    ("GET", "/v1/hosts/host-1", 4, 46),
    ("GET", "/v1/hosts/host-1/topology", 41, 46),
    ("GET", "/v1/hosts/host-1/traits", 44, 46),
    ("PUT", "/v1/hosts/host-1/traits", 44, 46),
    ("POST", "/v1/containers/x/resize_container", 19, 46),
    ("POST", "/v1/containers/x/rename", 1, 13),
    ("GET", "/v1/containers", 1, 46),
    ("GET", "/v1/availability_zones", 1, 46),
    ("GET", "/v1/services", 1, 46),
    ("GET", "/v1/aggregates", 42, 46),
    ("POST", "/v1/aggregates", 42, 46),
    ("GET", "/v1/aggregates/x", 42, 46),
    ("PATCH", "/v1/aggregates/x", 42, 46),
    ("DELETE", "/v1/aggregates/x", 42, 46),
    ("POST", "/v1/aggregates/x/add_host", 42, 46),
    ("POST", "/v1/aggregates/x/remove_host", 42, 46),
    ("POST", "/v1/aggregates/x/set_metadata", 42, 46),
    ("GET", "/v1/groups", 42, 46),
    ("POST", "/v1/groups", 42, 46),
    ("GET", "/v1/groups/x", 42, 46),
    ("DELETE", "/v1/groups/x", 42, 46),
    ("GET", "/v1/containers/x/explain", 42, 46),
    ("POST", "/v1/placement/dry_run", 42, 46),
    ("POST", "/v1/placement/capacity", 42, 46),
    ("POST", "/v1/containers/x/network_detach", 6, 46),
    ("POST", "/v1/containers/x/network_attach", 8, 46),
    ("GET", "/v1/containers/x/network_list", 13, 46),
    ("POST", "/v1/containers/x/add_security_group", 1, 14),
    ("POST", "/v1/containers/x/remove_security_group", 1, 14),
    ("POST", "/v1/networks", 1, 46),
    ("DELETE", "/v1/networks/x", 27, 46),
    ("GET", "/v1/networks", 42, 46),
    ("GET", "/v1/networks/x", 42, 46),
    ("GET", "/v1/volumes", 43, 46),
    ("GET", "/v1/volumes/x", 43, 46),
    ("DELETE", "/v1/volumes/x", 43, 46),
]


@pytest.mark.parametrize(("method", "path", "first", "last"), WINDOWS)
def test_a_path_is_there_in_its_versions_only(admin_api, method, path, first, last):
    for version in (1, 3, 4, 5, 6, 7, 8, 12, 13, 14, 15, 18, 19, 26, 27, 40, 41, 42, 43, 45, 46):
        reply = admin_api.at(f"1.{version}").send(method, path, {"name": "new-name"} if method == "POST" else {})
        assert (reply.status != 406) == (first <= version <= last), version
        if reply.status == 406:
            assert (reply.refusal, reply.error["title"]) == ((406, ""), "Not Acceptable")
            assert reply.headers["openstack-api-version"] == f"container 1.{version}"


DEDICATED = {"cpu_policy": "dedicated", "cpu": 2, "memory": 64}

# Fields of create that older versions name and refuse: (field, value, first version, other fields it needs).
GATES = [
    ("auto_remove", False, 3, {}),
    ("mounts", [{"source": "v1", "destination": "/d"}], 11, {}),
    ("auto_remove", True, 3, {}),
    ("runtime", "runc", 5, {}),
    ("runtime", "", 5, {}),
    ("hostname", "web", 9, {}),
    ("healthcheck", {"cmd": "true"}, 22, {}),
    ("exposed_ports", {"80/tcp": {}}, 24, {}),
    ("exposed_ports", {}, 24, {}),
    ("cpu_thread_policy", "isolate", 41, DEDICATED),
    ("cpu_isolation", "core", 41, DEDICATED),
    ("numa_nodes", 2, 41, DEDICATED),
    ("numa_affinity", "prefer", 41, DEDICATED),
    ("numa_cpus", [1, 1], 41, DEDICATED),
    ("numa_mem", [60, 4], 41, DEDICATED),
    ("numa_mempolicy", "preferred", 41, DEDICATED),
    ("mem_page_size", "large", 41, DEDICATED),
]


@pytest.mark.parametrize(("field", "value", "first", "others"), GATES)
def test_fields_that_older_versions_refuse(admin_api, field, value, first, others):
    body = {"image": "demo", field: value, **others}
    assert admin_api.at(f"1.{first}").post("/v1/containers", body).status == 202
    for older in {1, first - 1}:
        reply = admin_api.at(f"1.{older}").post("/v1/containers", body)
        assert reply.refusal == (400, "invalid-param-in-version")
        assert field in reply.error["detail"] and f"1.{first}" in reply.error["detail"]


# The same for what this installation has no service for, or nobody may: the later refusal is another one.
@pytest.mark.parametrize(
    ("field", "value", "first", "later"),
    [
        ("mounts", [{"source": "/etc", "destination": "/d"}], 11, (400, "invalid-value")),
        ("privileged", False, 21, (403, "policy-not-authorized")),
        ("registry", "docker", 31, (404, "registry-not-found")),
    ],
)
def test_gates_before_other_refusals(admin_api, field, value, first, later):
    body = {"image": "demo", field: value}
    assert admin_api.at(f"1.{first - 1}").post("/v1/containers", body).refusal == (400, "invalid-param-in-version")
    assert admin_api.at(f"1.{first}").post("/v1/containers", body).refusal == later


# Values that say nothing pass at every version; null is one, and stock clients send the empty ones.
@pytest.mark.parametrize(
    "field",
    [
        {"auto_remove": None},
        {"runtime": None},
        {"mounts": []},
        {"mounts": None},
        {"healthcheck": {}},
        {"healthcheck": None},
        {"exposed_ports": None},
        {"nets": []},
        {"environment": {}, "labels": {}, "hints": {}},
        {"numa_nodes": None, "mem_page_size": None},
        {"cpu_policy": "shared"},
        DEDICATED,
        {"tty": True},
    ],
)
@pytest.mark.parametrize("version", [1, 10, 23, 41])
def test_fields_without_a_gate(api, field, version):
    assert api.at(f"1.{version}").post("/v1/containers", {"image": "demo", **field}).status == 202


# Fields that are unknown below a version: (field, value, first version).
@pytest.mark.parametrize(("field", "value", "first"), [("host", "host-1", 39), ("entrypoint", ["sh"], 40)])
def test_fields_that_older_versions_do_not_know(admin_api, host_row, field, value, first):
    body = {"image": "demo", field: value}
    assert admin_api.at(f"1.{first}").post("/v1/containers", body).status == 202
    reply = admin_api.at(f"1.{first - 1}").post("/v1/containers", body)
    assert reply.refusal == (400, "schema-validation-error")
    assert field in reply.error["detail"]


@pytest.mark.parametrize(
    ("version", "command", "stored"),
    [
        ("1.1", "sh -c 'echo  two words'", ["sh", "-c", "echo  two words"]),
        ("1.19", '"sleep" "10"', ["sleep", "10"]),
        ("1.19", "", None),
        ("1.19", None, None),
        ("1.20", ["sh", "-c", "echo  two words"], ["sh", "-c", "echo  two words"]),
        ("1.20", ["sleep", 10, 1.5], ["sleep", "10", "1.5"]),
        ("1.20", [], None),
        ("1.41", None, None),
        ("1.19", ["sleep"], 400),
        ("1.20", "sleep 10", 400),
        ("1.20", ["sleep", None], 400),
        ("1.20", ["sleep", ["x"]], 400),
        ("1.19", "echo 'open", 400),
    ],
)
def test_form_of_the_command(api, version, command, stored):
    reply = api.at(version).post("/v1/containers", {"image": "demo", "command": command})
    if stored == 400:
        assert reply.status == 400 and "command" in reply.error["detail"]
    else:
        assert (reply.status, reply.json["command"]) == (202, stored)


@pytest.mark.parametrize(
    ("version", "given", "tty"),
    [
        ("1.19", {"interactive": True, "tty": False}, False),
        ("1.19", {"tty": True}, True),
        ("1.20", {"interactive": True, "tty": False}, True),
        ("1.20", {"interactive": "True"}, True),
        ("1.35", {"interactive": False, "tty": True}, False),
        ("1.35", {"tty": True}, True),
        ("1.35", {}, False),
        ("1.36", {"interactive": True, "tty": False}, False),
        ("1.36", {"interactive": True}, False),
        ("1.36", {"tty": "true"}, True),
    ],
)
def test_tty_follows_interactive_for_a_while(api, version, given, tty):
    assert api.at(version).post("/v1/containers", {"image": "demo", **given}).json["tty"] is tty


@pytest.mark.parametrize("version", ["1.19", "1.20"])
def test_security_groups_beside_exposed_ports(api, version):
    """The exclusion starts at 1.20, exposed_ports at 1.24: below, the gate speaks first."""
    body = {"image": "demo", "security_groups": [], "exposed_ports": {"80": {}}}
    assert api.at(version).post("/v1/containers", body).refusal == (400, "invalid-param-in-version")
    assert api.at("1.24").post("/v1/containers", body).refusal == (400, "invalid-value")


PLACEMENT_MEMBERS = {
    "cpu_thread_policy",
    "cpu_isolation",
    "numa_nodes",
    "numa_affinity",
    "numa_cpus",
    "numa_mem",
    "numa_mempolicy",
    "mem_page_size",
    "cpuset_cpus",
    "cpuset_mems",
    "cpuset_isolation",
}


def test_members_of_a_container_that_came_later(api, placed):
    uuid = placed().uuid
    paths = ("/v1/containers", f"/v1/containers/{uuid}")
    for path in paths:
        old, new = (
            reply["containers"][0] if "containers" in reply else reply
            for reply in (api.at(version).get(path).json for version in ("1.40", "1.41"))
        )
        assert new.keys() - old.keys() == PLACEMENT_MEMBERS
        assert old.keys() <= new.keys()
        assert {new[name] for name in PLACEMENT_MEMBERS} == {None}
    old, new = (api.at(version).post("/v1/containers", {"image": "demo"}).json for version in ("1.1", "1.41"))
    assert new.keys() - old.keys() == PLACEMENT_MEMBERS


@pytest.mark.parametrize(
    ("query", "first"), [("stop=1", 12), ("force=1", 7), ("stop=1&force=1", 12), ("stop=0&force=0", 1)]
)
def test_gates_of_delete(admin_api, placed, query, first):
    for version in (first - 1, first):
        if version < 1:
            continue
        reply = admin_api.at(f"1.{version}").delete(f"/v1/containers/{placed('Stopped').uuid}?{query}")
        if version < first:
            assert reply.refusal == (400, "invalid-param-in-version")
        else:
            assert reply.status == 204


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("device_profiles", ["gpu"], "'devices', from version 1.45 on"),
        ("gpus", "all", "'devices', from version 1.45 on"),
        ("cap_add", ["NET_RAW"], "'capabilities', from version 1.46 on"),
        ("cpuset_cpus", "0-1", "'cpu_policy': 'dedicated'"),
    ],
)
def test_a_field_of_another_service_names_ours(api, field, value, said):
    for version in ("1.1", "1.40", "1.41", "latest"):
        reply = api.at(version).post("/v1/containers", {"image": "demo", field: value})
        assert reply.refusal == (400, "schema-validation-error")
        assert field in reply.error["detail"] and said in reply.error["detail"]
        assert api.at(version).post("/v1/containers", {"image": "demo", field: None}).status == 202
    reply = api.at("latest").post("/v1/placement/dry_run", {"cpu": 1, field: value})
    assert reply.status == 400 and said in reply.error["detail"]


def test_python_chi_creates_a_container(api):
    """What python-chi 1.2.10 sends by default: an empty list of device profiles at 1.41."""
    body = {"name": "chi", "image": "demo", "device_profiles": [], "hints": {"reservation": "r-1"}, "interactive": True}
    assert api.at("1.41").post("/v1/containers", body).status == 202
