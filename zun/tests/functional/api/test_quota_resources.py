# SPDX-License-Identifier: Apache-2.0
"""Every kind of thing that a project creates counts against a quota, and one request has limits."""

import pytest

from zun.db import quotas
from zun.tests.functional.api.client import Client
from zun.tests.functional.api.messages import ARCHIVE

OLD = {"containers": 40, "memory": 51200, "cpu": 20, "disk": 100}
NEW = {
    "ports": 200,
    "images": 20,
    "groups": 40,
    "networks": 10,
    "volumes": 40,
    "registries": 20,
    "terminals": 40,
}
OWN = "/v1/quotas/demo"
KIB = 1024


def capsule(metadata=None, **container):
    spec = {"containers": [{"image": "demo", **container}]}
    return {"template": {"kind": "capsule", "metadata": metadata or {}, "spec": spec}}


def test_new_resources_are_shown_from_their_version_on(api, admin_api):
    for path in (OWN, f"{OWN}/defaults"):
        assert api.at("1.42").get(path).json == OLD
        assert api.at("1.43").get(path).json == OLD | NEW
    used = api.at("1.43").get(f"{OWN}?usages=1").json
    assert used == {name: {"limit": limit, "in_use": 0} for name, limit in (OLD | NEW).items()}
    assert api.at("1.42").get(f"{OWN}?usages=1").json.keys() == OLD.keys()
    assert admin_api.at("1.42").get("/v1/quota_classes/default").json == OLD
    assert admin_api.at("1.43").put("/v1/quota_classes/default", {"volumes": 7}).json == OLD | NEW | {"volumes": 7}
    assert admin_api.at("1.43").put(OWN, {"ports": "-1"}).json == OLD | NEW | {"volumes": 7, "ports": -1}
    assert admin_api.at("1.42").put(OWN, {"cpu": 1}).json == OLD | {"cpu": 1}


@pytest.mark.parametrize("path", [OWN, "/v1/quota_classes/default"])
def test_older_versions_take_no_new_resource(admin_api, path):
    reply = admin_api.at("1.42").put(path, {"ports": 1})
    assert reply.status == 400 and "ports" in reply.error["detail"] and "1.43" in reply.error["detail"]


@pytest.mark.usefixtures("host_row", "host_up")
@pytest.mark.parametrize(
    ("resource", "path", "body"),
    [
        ("containers", "capsules", capsule()),
        ("cpu", "capsules", capsule(resources={"requests": {"cpu": 1}})),
        ("memory", "capsules", capsule(resources={"requests": {"memory": 64}})),
        ("ports", "capsules", capsule(ports=[{"containerPort": 80}])),
        ("ports", "containers", {"image": "demo", "exposed_ports": {"80": {}}}),
        ("volumes", "containers", {"image": "demo", "mounts": [{"source": "data", "destination": "/data"}]}),
        ("groups", "groups", {"name": "web", "policy": "affinity"}),
        ("registries", "registries", {"registry": {"domain": "example.org"}}),
        ("images", "containers/{}/commit?repository=web", None),
    ],
)
def test_each_request_stops_at_the_limit(api, placed, resource, path, body):
    quotas.set_limits("demo", {resource: 0})
    ident = placed().uuid
    quotas.set_limits("demo", {resource: 0})
    before = quotas.usage("demo")
    reply = api.at("1.43").post(f"/v1/{path.format(ident)}", body)
    assert reply.refusal == (403, "over-quota")
    assert f"{resource}: limit 0, in use" in reply.error["detail"]
    assert quotas.usage("demo") == before


def test_a_network_counts_for_the_project_it_is_for(admin_api):
    quotas.set_limits("demo", {"networks": 0})
    assert admin_api.post("/v1/networks", {"name": "own"}).status == 200
    reply = admin_api.at("1.42").post("/v1/networks", {"name": "theirs", "project_id": "demo"})
    assert reply.refusal == (403, "over-quota")


def text(size):
    """A JSON object of so many bytes."""
    return {"a": "x" * (size - len('{"a":""}'))}


def words(size):
    return ["x" * (size - len('[""]'))]


@pytest.mark.parametrize(
    ("field", "most", "made"),
    [
        ("labels", 16 * KIB, text),
        ("environment", 64 * KIB, text),
        ("command", 64 * KIB, words),
        ("entrypoint", 16 * KIB, words),
    ],
)
def test_a_field_has_a_largest_size(api, field, most, made):
    assert api.post("/v1/containers", {"image": "demo", field: made(most)}).status == 202
    reply = api.post("/v1/containers", {"image": "demo", field: made(most + 1)})
    assert reply.status == 400
    assert f"{field}: it has {most + 1} bytes as JSON and may have {most}" in reply.error["detail"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hints", {"a": "x" * 16 * KIB}),
        ("exposed_ports", {f"{number}/tcp": {} for number in range(1, 2000)}),
        ("healthcheck", {"cmd": "x" * 4 * KIB}),
        ("labels", {"ä" * 9000: "x"}),
    ],
)
def test_other_fields_have_one_too(api, field, value):
    reply = api.post("/v1/containers", {"image": "demo", field: value})
    assert reply.status == 400 and f"{field}: it has" in reply.error["detail"]


@pytest.mark.parametrize(
    ("where", "body"),
    [
        ("metadata.labels", capsule({"labels": text(16 * KIB + 1)})),
        ("metadata.annotations", capsule({"annotations": {"deep": [text(64 * KIB)]}})),
        ("spec.containers.0.env", capsule(env=text(64 * KIB + 1))),
        ("spec.containers.0.command and args", capsule(command=words(32 * KIB), args=words(33 * KIB))),
        ("spec.containers.0.ports", capsule(ports=[{"containerPort": number} for number in range(1, 2000)])),
    ],
)
def test_a_template_has_the_same_limits(api, where, body):
    reply = api.post("/v1/capsules", body)
    assert reply.status == 400 and f"template: {where}: it has" in reply.error["detail"]


def test_the_largest_annotations_make_a_bounded_list(api):
    for _ in range(5):
        assert api.post("/v1/capsules", capsule({"annotations": text(64 * KIB)})).status == 202
    assert len(api.get("/v1/capsules").body) < 5 * 68 * KIB


@pytest.fixture
def one_at_once(configuration, scheduler, compute, database):
    from zun.api import app as api_app

    configuration.set_override("archive_transfers", 1, group="api")
    made = api_app.build(configuration, scheduler_api=scheduler, compute_api=compute)
    return Client(made, "alice", "demo", "member", "1.40")


@pytest.mark.usefixtures("host_row", "host_up")
def test_archives_on_their_way_have_a_limit(one_at_once, placed, compute, monkeypatch):
    container = placed().uuid
    inner = []

    def again(context, found, path):
        inner.append(one_at_once.get(f"/v1/containers/{container}/get_archive?path=/x"))
        return {}, iter([ARCHIVE])

    monkeypatch.setattr(compute, "get_archive", again)
    assert one_at_once.get(f"/v1/containers/{container}/get_archive?path=/x").status == 200
    assert [reply.refusal for reply in inner] == [(403, "over-quota")]
    assert "archives: limit 1 at the same time" in inner[0].error["detail"]
    monkeypatch.undo()
    for _ in range(2):  # each gives its place back
        assert one_at_once.get(f"/v1/containers/{container}/get_archive?path=/x").status == 200
        assert one_at_once.post(f"/v1/containers/{container}/put_archive?path=/x", {"data": ""}).status == 200
