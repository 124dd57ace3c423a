# SPDX-License-Identifier: Apache-2.0
"""The last value that each field of a request takes, and the first that it refuses.

What is taken is shown and stored whole, and is no longer than its column: SQLite would store any length.
"""

import pytest
import sqlalchemy as sa

from zun.db import models, session

WIDE = "\N{GRINNING FACE}"  # one character, four bytes, two of JavaScript's
UUID = "00000000-0000-4000-8000-000000000000"
NOWHERE = 404  # the form is right, and there is nothing of the name


@pytest.fixture
def wide_open(configuration):
    """Set every other limit so high that these requests stay below it."""
    for resource in ("containers", "cpu", "memory", "disk"):
        configuration.set_override(resource, -1, group="quota")
    configuration.set_override("auth_encryption_key", "k" * 32)


@pytest.fixture
def root(wide_open, admin_api, host_row, host_up):
    """An administrator, who may name every field, at the version that has them all."""
    return admin_api.at("1.43")


def check(client, method, path, last, first, name, status):
    """``last`` is answered with ``status`` and ``first`` refused by ``name``; gives the answer to ``last``.

    A ``status`` of 400 is for what has the right form and another fault.
    """
    refused = client.send(method, path, first)
    assert refused.refusal == (400, "schema-validation-error"), refused.json
    assert name in refused.error["detail"] and len(refused.error["detail"]) < 600
    taken = client.send(method, path, last)
    assert taken.status == status, taken.json
    assert status != 400 or taken.refusal[1] != "schema-validation-error", "it was refused for its form"
    with session.reader() as connection:
        for column in [each for table in models.metadata.sorted_tables for each in table.c]:
            if isinstance(column.type, sa.String) and column.type.length:
                longest = connection.scalar(sa.select(sa.func.max(sa.func.length(column)))) or 0
                assert longest <= column.type.length, column
    return taken


def row(field, last, first, status=202):
    return pytest.param(field, last, first, status, id=f"{field}-{str(last)[:20]}")


DEDICATED = {"cpu_policy": "dedicated", "cpu": 2, "memory": 2048}
CREATE = [
    row("name", "ab", "a"),
    row("name", "n" * 255, "n" * 256),
    row("name", None, ""),
    row("image", "aa", "a"),
    row("image", "aa" + WIDE * 253, "aa" + WIDE * 254),
    row("cpu", "0.1000000000000", "0.10000000000000"),
    row("cpu", "2", ""),
    row("cpu", 0.1, 0.0999),
    row("cpu", 16, 16.0001),
    row("memory", "000000000000512", "0000000000000512"),
    row("memory", 4, 3),
    row("memory", 8192, 8193),
    row("disk", 1, 0),
    row("disk", "160", "161"),
    row("workdir", WIDE * 255, WIDE * 256),
    row("runtime", WIDE * 255, WIDE * 256),
    row("availability_zone", WIDE, ""),
    row("availability_zone", WIDE * 255, WIDE * 256),
    row("host", "h" * 255, "h" * 256, NOWHERE),
    row("host", "-", "", NOWHERE),
    row("registry", "rr", "r", NOWHERE),
    row("registry", "r" * 255, "r" * 256, NOWHERE),
    row("environment", {" ": ""}, {"": ""}),
    row("environment", {"A" * 300: "=" * 300}, {"A=": ""}),
    row("security_groups", ["default"], [""]),
    row("security_groups", ["s" * 255], ["s" * 256], 400),  # there are none
    row("restart_policy", {"Name": "on-failure", "MaximumRetryCount": 0}, {"Name": "no", "MaximumRetryCount": -1}),
    *(
        row(
            "restart_policy",
            {"Name": "on-failure", "MaximumRetryCount": last},
            {"Name": "on-failure", "MaximumRetryCount": first},
        )
        for last, first in [(999999999, 1000000000), ("999999999", "1000000000"), ("0", ""), (3.0, 1e300)]
    ),
    row("nets", [{"network": "n" * 255}], [{"network": "n" * 256}], NOWHERE),
    row("nets", [{"network": "n"}], [{"network": ""}], NOWHERE),
    row("nets", [{"port": "p" * 255}], [{"port": "p" * 256}], NOWHERE),
    row("mounts", [{"source": "ab", "destination": "/"}], [{"source": "ab", "destination": ""}], 400),
    row("numa_nodes", 1, 0, 400),  # of a container that is not dedicated
    row("numa_nodes", 1024, 1025, 400),
    row("numa_cpus", [1] * 1024, [1] * 1025, 400),
    row("numa_cpus", [1], [], 400),
    row("numa_mem", [1], [0], 400),
    row("numa_mem", [10**12], [10**12 + 1], 400),
    row("mem_page_size", 4, 3, 400),
    row("mem_page_size", 2**40, 2**41, 400),
    row("mem_page_size", "000000000004", "0000000000004", 400),
]


@pytest.mark.parametrize(("field", "last", "first", "status"), CREATE)
def test_create_a_container(root, field, last, first, status):
    body = {"image": "demo"}
    taken = check(root, "POST", "/v1/containers", {**body, field: last}, {**body, field: first}, field, status)
    if status == 202 and isinstance(last, str) and field in ("name", "image", "workdir", "runtime"):
        assert root.get(f"/v1/containers/{taken.json['uuid']}").json[field] == last


@pytest.mark.parametrize(
    ("field", "last", "first", "status"),
    [
        row("name", "n" * 255, "n" * 256, 200),
        row("cpu", 16, 17, 200),
        row("memory", "4", "3", 200),
        row("keep_cpus", "0" * 4095 + "1", "0" * 4096 + "1", 400),
        row("keep_cpus", "8191", "9" * 4000, 400),
    ],
)
def test_change_a_container(root, placed, field, last, first, status):
    path = f"/v1/containers/{placed().uuid}"
    check(root, "PATCH", path, {field: last}, {field: first}, field, status)
    assert status == 400 or str(root.get(path).json[field]) in (str(last), f"{last}.0")


@pytest.mark.parametrize(
    ("action", "last", "first", "status"),
    [
        row("stop", {"timeout": 3600}, {"timeout": 3601}),
        row("stop", {"timeout": 0}, {"timeout": -1}),
        row("stop", {"timeout": "000000000003600"}, {"timeout": "0000000000003600"}),
        row("reboot", {"timeout": ""}, {"timeout": None}),
        row("kill", {"signal": "64"}, {"signal": "65"}),
        row("kill", {"signal": "1"}, {"signal": "0"}),
        row("resize", {"w": 65535, "h": 1}, {"w": 65536, "h": 1}, 200),
        row("resize", {"w": 1, "h": 65535}, {"w": 1, "h": 65536}, 200),
        row("resize", {"w": 1, "h": 1}, {"w": 1, "h": 0}, 200),
        row("resize", {"w": "1", "h": 1}, {"w": "", "h": 1}, 200),
        row("execute_resize", *({"w": 1, "h": 1, "exec_id": "a" * size} for size in (64, 65)), 200),
        row("execute_resize", *({"w": 1, "h": 1, "exec_id": "0" * size} for size in (64, 63)), 200),
        row("execute", {"command": "a"}, {"command": ""}, 200),
        row("rebuild", {"image": WIDE * 255}, {"image": WIDE * 256}),
        row("rebuild", {"image_driver": ""}, {"image_driver": "d" * 256}),
        row("rebuild", {"image_driver": "d" * 255}, {"image_driver": ["d"]}, 400),  # none of the drivers
        row("network_attach", {"network": "n" * 255}, {"network": "n" * 256}, NOWHERE),
        row("network_attach", {"port": "p" * 255}, {"port": "p" * 256}, NOWHERE),
        row("network_detach", {"network": "n" * 255}, {"network": "n" * 256}, NOWHERE),
        row("network_detach", {"port": "p"}, {"port": ""}, NOWHERE),
    ],
)
def test_do_with_a_container(root, placed, action, last, first, status):
    field = next(name for name in first if first[name] != last.get(name))
    check(root, "POST", f"/v1/containers/{placed().uuid}/{action}", last, first, field, status)


@pytest.mark.parametrize(
    ("path", "last", "first"),
    [
        ("top?ps_args=", "1," * 127 + "1", "1," * 128),
        ("logs?since=", "9" * 15, "9" * 16),
        ("logs?since=", "2026-02-28%2012:00:00,123", "2026-02-29%2012:00:00,123"),
        ("get_archive?path=", "/", ""),
    ],
)
def test_ask_of_a_container(root, placed, path, last, first):
    name = path.partition("?")[2].removesuffix("=")
    path = f"/v1/containers/{placed().uuid}/{path}"
    assert root.get(path + last).status == 200
    refused = root.get(path + first)
    assert refused.refusal == (400, "schema-validation-error") and refused.error["detail"].startswith(name)


@pytest.mark.parametrize(("given", "lines"), [("999999999", "999999999"), ("1000000000", "all"), ("-1", "all")])
def test_lines_of_a_log(root, placed, compute, given, lines):
    root.get(f"/v1/containers/{placed().uuid}/logs?tail={given}")
    assert compute.sent[-1][2]["tail"] == lines


@pytest.mark.parametrize(
    ("path", "last", "first", "status"),
    [
        row("dry_run", {"count": 1}, {"count": 0}, 200),
        row("dry_run", {"count": 100}, {"count": 101}, 200),
        row("capacity", {"limit": 1}, {"limit": 0}, 200),
        row("capacity", {"limit": 100_000}, {"limit": 100_001}, 200),
    ],
)
def test_ask_where_containers_would_go(root, path, last, first, status):
    check(root, "POST", f"/v1/placement/{path}", last, first, next(iter(first)), status)


MEMBER = {"image": "demo"}


def mounted(*paths):
    """A volume, and a container that mounts it there."""
    mounts = [{"name": "vv", "mountPath": path} for path in paths]
    return {"volumes": [{"name": "vv", "local": {"size": "1M"}}], "containers": [{**MEMBER, "volumeMounts": mounts}]}


def volumes(number):
    names = [f"v{each}" for each in range(number)]
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in names]
    member = [{**MEMBER, "volumeMounts": half} for half in (mounts[:50], mounts[50:])]
    return {"volumes": [{"name": name, "local": {"size": "1M"}} for name in names], "containers": member}


def source(**kind):
    """A template with one volume, and a container that mounts it."""
    mounts = [{"name": "vv", "mountPath": "/m"}]
    return {"volumes": [{"name": "vv", **kind}], "containers": [{**MEMBER, "volumeMounts": mounts}]}


def member(**fields):
    return {"containers": [{**MEMBER, **fields}]}


def named(name):
    """A template with a volume of this name, and a container that mounts it."""
    given = source(local={"size": 1})
    given["volumes"][0]["name"] = given["containers"][0]["volumeMounts"][0]["name"] = name
    return given


@pytest.mark.parametrize(
    ("field", "last", "first", "status"),
    [
        row("containers", {"containers": [MEMBER] * 100}, {"containers": [MEMBER] * 101}),
        row("initContainers", *({**member(), "initContainers": [MEMBER] * size} for size in (100, 101))),
        row("volumes", volumes(100), volumes(101)),
        row("volumeMounts", *(mounted(*(f"/{each}" for each in range(size))) for size in (100, 101))),
        row("mountPath", mounted("/"), mounted(""), 400),
        row("image", member(image="i" * 255), member(image="i" * 256)),
        row("name", member(name="n" * 255), member(name="n" * 256)),
        row("env", member(env={"A": "="}), member(env={"A=": ""})),
        row("workDir", member(workDir=WIDE * 255), member(workDir=WIDE * 256)),
        row("containerPort", member(ports=[{"containerPort": "00001"}]), member(ports=[{"containerPort": "000001"}])),
        row("containerPort", member(ports=[{"containerPort": "65535"}]), member(ports=[{"containerPort": ""}])),
        row("volumeID", source(cinder={"volumeID": UUID}), source(cinder={"volumeID": UUID + "0"}), 400),
        row("volumeID", source(cinder={"volumeID": UUID}), source(cinder={"volumeID": UUID[1:]}), 400),
        row("name", source(volume={"name": "v" * 128}), source(volume={"name": "v" * 129})),
        row("name", source(volume={"name": "vv"}), source(volume={"name": "v"})),
        row("volumes.0.name", named("v" * 255), named("v" * 256)),
    ],
)
def test_create_a_capsule(root, field, last, first, status):
    body, other = ({"template": {"kind": "capsule", "metadata": {}, "spec": spec}} for spec in (last, first))
    check(root, "POST", "/v1/capsules", body, other, field, status)


@pytest.mark.parametrize(
    ("field", "last", "first", "status"),
    [
        row("name", "n" * 255, "n" * 256),
        row("name", None, ""),
        row("availabilityZone", WIDE * 255, WIDE * 256),
        row("availabilityZone", None, ""),
    ],
)
def test_describe_a_capsule(root, field, last, first, status):
    def body(value):
        own = {"metadata": {"name": value}} if field == "name" else {"metadata": {}, field: value}
        return {"template": {"kind": "capsule", "spec": member(), **own}}

    taken = check(root, "POST", "/v1/capsules", body(last), body(first), field, status)
    assert field != "name" or root.get(f"/v1/capsules/{taken.json['uuid']}").json["name"] == last


REGISTRY, NETWORK, IMAGE = {"domain": "quay.io"}, {"name": "private"}, {"repo": "demo", "host": "host-1"}
GROUP, AGGREGATE = {"name": "web", "policy": "anti-affinity"}, {"name": "rack"}
SERVICE = {"host": "host-1", "binary": "zun-compute"}
KEY = "k" * 255


@pytest.mark.parametrize(
    ("method", "path", "others", "field", "last", "first", "status"),
    [
        ("POST", "registries", REGISTRY, "domain", "d" * 255, "d" * 256, 201),
        ("POST", "registries", REGISTRY, "domain", "d", "", 201),
        ("POST", "registries", REGISTRY, "name", "n" * 255, "n" * 256, 201),
        ("POST", "registries", REGISTRY, "name", "ab", "a", 201),
        ("POST", "registries", REGISTRY, "username", WIDE * 255, WIDE * 256, 201),
        ("POST", "registries", REGISTRY, "username", "u", "", 201),
        ("POST", "registries", REGISTRY, "password", WIDE * 4096, WIDE * 4097, 201),
        ("POST", "registries", REGISTRY, "password", "p", "", 201),
        ("POST", "networks", NETWORK, "name", "aa" + WIDE * 253, "aa" + WIDE * 254, 200),
        ("POST", "networks", NETWORK, "name", "aa", "a", 200),
        ("POST", "networks", NETWORK, "neutron_net_id", "i" * 255, "i" * 256, 200),
        ("POST", "networks", NETWORK, "neutron_net_id", "ii", "i", 200),
        ("POST", "networks", NETWORK, "project_id", WIDE * 255, WIDE * 256, 200),
        ("POST", "networks", NETWORK, "project_id", "p", "", 200),
        ("POST", "networks", NETWORK, "subnets", [{"cidr": "10.1.0.0/16"}], [{"cidr": "10.0.0.0/15"}], 200),
        ("POST", "networks", NETWORK, "subnets", [{"cidr": "10.1.0.0/29"}], [{"cidr": "10.1.0.0/30"}], 200),
        ("POST", "images", IMAGE, "repo", "r" * 255, "r" * 256, 202),
        ("POST", "images", IMAGE, "repo", "rr", "r", 202),
        ("POST", "images", IMAGE, "repo", "rr:" + "t" * 128, "rr:" + "t" * 129, 202),
        ("POST", "images", IMAGE, "host", "h" * 255, "h" * 256, 400),
        ("POST", "images", IMAGE, "host", "hh", "h", 400),
        ("POST", "images", IMAGE, "tag", "t" * 255, "t" * 256, 202),
        ("POST", "images", IMAGE, "image_id", "i" * 255, "i" * 256, 202),
        ("POST", "groups", GROUP, "name", "n" * 255, "n" * 256, 201),
        ("POST", "groups", GROUP, "name", "ab", "a", 201),
        ("POST", "groups", GROUP, "rules", {"max_per_host": 1}, {"max_per_host": 0}, 201),
        ("POST", "groups", GROUP, "rules", {"max_per_host": 10**6}, {"max_per_host": 10**6 + 1}, 201),
        ("POST", "aggregates", AGGREGATE, "name", "n" * 255, "n" * 256, 201),
        ("POST", "aggregates", AGGREGATE, "availability_zone", WIDE * 255, WIDE * 256, 201),
        ("POST", "aggregates", AGGREGATE, "availability_zone", WIDE, "", 201),
        ("POST", "aggregates", AGGREGATE, "metadata", {KEY: WIDE * 255}, {KEY + "k": ""}, 201),
        ("POST", "aggregates", AGGREGATE, "metadata", {"k": ""}, {"": ""}, 201),
        ("POST", "aggregates", AGGREGATE, "metadata", {"k": WIDE * 255}, {"k": WIDE * 256}, 201),
        ("POST", "aggregates/rack/set_metadata", {}, "metadata", {KEY: WIDE * 255}, {KEY: WIDE * 256}, NOWHERE),
        ("POST", "aggregates/rack/add_host", {}, "host", "h" * 255, "h" * 256, NOWHERE),
        ("PUT", "quotas/demo", {}, "memory", -1, -2, 200),
        ("PUT", "quotas/demo", {}, "memory", 2**31 - 1, 2**31, 200),
        ("PUT", "quotas/demo", {}, "memory", "000000000000001", "0000000000000001", 200),
        ("PUT", "quota_classes/" + "c" * 255, {}, "disk", "2147483647", "2147483648", 200),
        ("PUT", "services/disable", SERVICE, "disabled_reason", WIDE * 255, WIDE * 256, 200),
        ("PUT", "services/disable", SERVICE, "disabled_reason", WIDE, "", 200),
        ("PUT", "services/enable", SERVICE, "host", "h" * 255, "h" * 256, NOWHERE),
        ("PUT", "services/enable", SERVICE, "host", "h", "", NOWHERE),
        ("PUT", "services/force_down", {**SERVICE, "forced_down": True}, "binary", "b" * 255, "b" * 256, NOWHERE),
        ("PUT", "services/force_down", {**SERVICE, "forced_down": True}, "binary", "b", "", NOWHERE),
    ],
)
def test_the_other_nouns(root, method, path, others, field, last, first, status):
    def body(value):
        members = {**others, field: value}
        return {"registry": members} if path == "registries" else members

    taken = check(root, method, f"/v1/{path}", body(last), body(first), field, status).json
    shown = taken.get("registry") or taken.get("service") or taken
    if status < 300 and isinstance(last, str) and field in shown and field != "password" and path != "images":
        assert str(shown[field]) == last.lstrip("0")
    elif path == "images" and status == 202:
        assert f"{shown['repo']}:{shown['tag']}" in (last, f"{last}:latest", "demo:latest")


def test_projects_of_quotas(root):
    assert root.put(f"/v1/quotas/{'p' * 255}", {"cpu": 1}).status == 200
    assert root.put(f"/v1/quotas/{'p' * 256}", {"cpu": 1}).status == 404


@pytest.mark.parametrize(
    ("path", "last", "first"),
    [
        ("containers?limit=", "1", "0"),
        ("containers?limit=", "9" * 15, "9" * 16),
        ("containers?memory=", "9" * 15, "9" * 16),
        ("containers?sort_dir=", "desc", "DESC"),
        *((f"{noun}?limit=", "1", "0") for noun in ("capsules", "images", "hosts", "networks", "registries", "groups")),
        *((f"{noun}?limit=", "1", "0") for noun in ("aggregates", "availability_zones")),
    ],
)
def test_lists(root, path, last, first):
    assert root.get(f"/v1/{path}{last}").status == 200
    assert root.get(f"/v1/{path}{first}").refusal == (400, "invalid-value")


def nested(depth):
    """So many lists in one another."""
    return [nested(depth - 1)] if depth > 1 else []


@pytest.mark.parametrize(
    ("last", "first", "said"),
    [
        (nested(30 - 4), nested(31 - 4), "nested too deeply"),  # in four objects
        (10**300 - 1, 10**300, "too large"),
        (-(10**299) + 1, -(10**299) * 10, "too large"),
    ],
)
def test_json(root, last, first, said):
    def body(value):
        return {"template": {"kind": "capsule", "metadata": {"annotations": {"a": value}}, "spec": member()}}

    refused = root.post("/v1/capsules", body(first))
    assert refused.refusal == (400, "validation-error") and said in refused.error["detail"]
    assert root.post("/v1/capsules", body(last)).status == 202
