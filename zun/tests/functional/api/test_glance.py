# SPDX-License-Identifier: Apache-2.0
"""Requests about images of Glance: found before anything is accepted, and refused with the reason."""

import re

import pytest

from zun.db import capsules as db_capsules
from zun.db import containers as db
from zun.db import images as db_images
from zun.tests import fake_glance
from zun.tests.fixtures import own_conf

pytestmark = pytest.mark.usefixtures("host_row", "host_up")


@pytest.fixture
def server(request):
    with fake_glance.running() as server:
        server.patience = 1 if "slow" in request.node.name else 60
        yield server


@pytest.fixture
def configuration(server):
    names = ["zun.example"]
    return own_conf(api__auth_strategy="noauth", api__host_names=names, default_image_driver="glance", **server.options)


def create(api, image="web", **fields):
    return api.post("/v1/containers", {"image": image, **fields})


def test_the_id_goes_with_the_request(api, server):
    uuid = server.add("web", tags=["1"])
    for image in ("web", "web:1", uuid):
        reply = create(api, image)
        assert (reply.status, reply.json["image"], reply.json["image_driver"]) == (202, image, "glance")
        assert db.get(reply.json["uuid"])["request"]["glance"] == uuid
    assert "glance" not in db.get(create(api, "busybox", image_driver="docker").json["uuid"])["request"]


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"name": "other"}, 400, "image-not-found"),
        ({"status": "queued"}, 409, "conflict"),
        ({"status": "deactivated"}, 409, "conflict"),
        ({"hw_cpu_policy": "dedicated"}, 400, "invalid-value"),
        ({"hw_cpu_policy": "nonsense"}, 400, "invalid-value"),
    ],
)
def test_an_image_that_cannot_be_used(api, server, scheduler, fields, status, code):
    server.add(**fields)
    reply = create(api)
    assert reply.refusal == (status, code)
    assert scheduler.sent == []


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (400, 400), (401, 403), (403, 403), (404, 400), (409, 409), (413, 403), (500, 503), (503, 503),
        ("dropped", 503), ("slow", 503),
    ],
)  # fmt: skip
@pytest.mark.parametrize("step", ["/images$", "/file$"], ids=["list", "check"])
def test_what_glance_answers(api, server, scheduler, step, failure, status):
    server.add()
    server.fail("GET", step, failure)
    reply = create(api)
    assert reply.status == status and "Glance" in reply.json["errors"][0]["detail"] and scheduler.sent == []
    assert "<" not in reply.json["errors"][0]["detail"]


def test_the_image_asks_where_the_request_is_silent(api, server):
    server.add(**{"hw_cpu_policy": "dedicated", "hw_numa_nodes": "2", "os_type": "linux"})
    row = db.get(create(api, cpu=2, memory=64).json["uuid"])
    assert (row["cpu_policy"], row["placement"]["numa_nodes"]) == ("dedicated", 2)
    assert row["request"]["hints"] == {"image:os_type": "linux"}
    refused = create(api.at("1.42"), cpu=2, memory=64, hints={"image:os_type": "windows"}).json["errors"][0]["detail"]
    assert "hints.image:os_type: windows" in refused and "linux" in refused
    missing = create(api).json["errors"][0]["detail"]
    assert missing.startswith("cpu: ") and "The properties of the image ask for cpu_policy dedicated" in missing


def test_a_rebuild_looks_again(api, server, placed):
    old, new = server.add("web"), server.add("new")
    container = placed(image="web", image_driver="glance", request={"run": True, "glance": old})
    path = f"/v1/containers/{container.uuid}/rebuild"

    def asked(query=""):
        reply = api.post(path + query)
        db.update(container.uuid, {"status": "Running"})
        return reply.status, db.get(container.uuid)["request"].get("rebuild")

    assert asked() == (202, {"image": "web", "image_driver": "glance", "glance": old})
    assert asked("?image=new") == (202, {"image": "new", "image_driver": "glance", "glance": new})
    assert asked("?image=other&image_driver=docker") == (202, {"image": "other", "image_driver": "docker"})
    assert asked("?image=unknown")[0] == 400
    server.images[new]["hw_cpu_policy"] = "dedicated"
    assert asked("?image=new")[0] == 400
    server.images[old]["status"] = "deactivated"
    assert asked()[0] == 409


def test_a_commit_makes_the_record(api, server, placed, compute):
    container = placed()
    uuid = api.post(f"/v1/containers/{container.uuid}/commit?repository=team/web&tag=2").json["uuid"]
    made = server.images[uuid]
    assert (made["name"], made["tags"], made["status"]) == ("team/web", ["2"], "queued")
    assert db_images.get(uuid)["local_name"] == f"zun-glance:{uuid}"


@pytest.mark.parametrize(("failure", "status"), [(401, 403), (403, 403), (413, 403), (500, 503), ("slow", 503)])
def test_a_commit_that_glance_refuses(api, server, placed, compute, admin_api, failure, status):
    container = placed()
    server.fail("POST", "/images$", failure)
    reply = api.post(f"/v1/containers/{container.uuid}/commit?repository=web")
    assert reply.status == status and compute.sent == [] and server.images == {}
    assert admin_api.get("/v1/images").json["images"] == []


def test_search_in_glance_and_in_registries(api, server, compute):
    uuid = server.add("web-server")
    found = api.get("/v1/images/web/search").json
    assert [(each["id"], each["name"], each["status"]) for each in found] == [(uuid, "web-server", "active")]
    assert api.get("/v1/images/web/search?exact_match=true").json == []


def test_members_of_a_capsule(api, server):
    uuid = server.add()
    template = {"kind": "capsule", "metadata": {}, "spec": {"containers": [{"image": "web"}]}}
    made = api.post("/v1/capsules", {"template": template})
    assert made.status == 202
    capsule = db.get(made.json["uuid"])
    assert capsule["image_driver"] == "docker" and "glance" not in capsule["request"]
    [member] = db_capsules.members([capsule["uuid"]])[capsule["uuid"]]
    assert (member["image_driver"], member["request"]["glance"]) == ("glance", uuid)
    template["spec"]["containers"][0]["image"] = "unknown"
    assert api.post("/v1/capsules", {"template": template}).status == 400


SIZE = {"requests": {"cpu": 2, "memory": 64}}


def capsule(api, *names, placement=None, size=SIZE, **parts):
    containers = [{"image": name, "resources": size} for name in names]
    made = {"containers": containers, **parts, **({} if placement is None else {"placement": placement})}
    return api.post("/v1/capsules", {"template": {"kind": "capsule", "metadata": {}, "spec": made}})


def test_images_of_a_capsule_ask_for_its_place(api, server):
    """For the one place that all containers share, also if one image asks."""
    server.add("web")
    server.add("db", **{"hw_cpu_policy": "dedicated", "hw_numa_nodes": "2", "os_type": "linux"})
    reply = capsule(api, "web", "db")
    assert reply.status == 202, reply.json
    row = db.get(reply.json["uuid"])
    assert (row["cpu_policy"], row["placement"]["numa_nodes"]) == ("dedicated", 2)
    assert row["request"]["hints"] == {"image:os_type": "linux"}
    members = db_capsules.members([row["uuid"]])[row["uuid"]]
    assert [member["cpu_policy"] for member in members] == ["dedicated", "dedicated"]


@pytest.mark.parametrize(
    ("web", "db", "placement", "told"),
    [
        ({"hw_cpu_policy": "dedicated"}, {}, {"cpu_policy": "shared"}, "containers.0.image, .*cpu_policy: shared"),
        ({"hw_numa_nodes": "1"}, {"hw_numa_nodes": "2"}, None, "containers.1.image, joined with .*numa_nodes: 1"),
        ({"os_type": "linux"}, {"os_type": "windows"}, None, "containers.1.image, joined .*hints.image:os_type: linux"),
        ({}, {"hw_mem_page_size": "2MB"}, None, "containers.1.image: its property hw_mem_page_size"),
        ({"hw_cpu_policy": "mixed"}, {}, None, "hw_cpu_policy asks for mixed, which no capsule"),
        ({"hw_numa_nodes": "2"}, {}, None, "dedicated.* The properties of the image ask for numa_nodes 2"),
        ({"hw_cpu_policy": "nonsense"}, {}, None, "containers.0.image, .*property hw_cpu_policy"),
    ],
    ids=["request", "two-images", "two-hints", "pages", "mixed", "alone", "nonsense"],
)
def test_images_that_a_capsule_cannot_join(api, server, scheduler, web, db, placement, told):
    server.add("web", **web)
    server.add("db", **db)
    reply = capsule(api.at("1.46"), "web", "db", placement=placement)
    assert reply.status == 400
    assert re.search(told, reply.json["errors"][0]["detail"]), reply.json["errors"][0]["detail"]
    assert scheduler.sent == []


def test_image_of_a_container_with_its_own_placement_asks_for_that(api, server):
    api = api.at("1.51")
    server.add("web", hw_cpu_policy="dedicated", hw_mem_page_size="2MB", os_type="linux")
    server.add("wide", hw_numa_nodes="2")
    own = {"image": "web", "resources": SIZE, "placement": {"cpu_thread_policy": "isolate"}}
    reply = capsule(api, "web-server", containers=[own, {"image": "web", "resources": SIZE}])
    assert reply.status == 400 and "containers.1.image: its property hw_mem_page_size" in reply.error["detail"]
    row = db.get(capsule(api, containers=[own, {**own, "placement": {"cpu_policy": "dedicated"}}]).json["uuid"])
    first, second = row["placement"]["members"]
    assert [each["cpu_policy"] for each in (row, first, second)] == ["dedicated"] * 3
    assert first["placement"]["mem_page_size"] == second["placement"]["mem_page_size"] == 2048
    assert [each["placement"]["cpu_thread_policy"] for each in (first, second)] == ["isolate", "prefer"]
    assert row["request"]["hints"] == {"image:os_type": "linux"}
    refused = capsule(api, containers=[{**own, "image": "wide"}])
    assert refused.status == 400 and "hw_numa_nodes asks for 2, which no container" in refused.error["detail"]


def test_an_init_container_asks_too(api, server):
    server.add("web")
    server.add("first", hw_cpu_policy="dedicated")
    reply = capsule(api, "web", initContainers=[{"image": "first", "resources": SIZE}])
    assert reply.status == 202 and db.get(reply.json["uuid"])["cpu_policy"] == "dedicated"
    refused = capsule(api, "web", size={}, initContainers=[{"image": "first", "resources": SIZE}])
    assert refused.status == 400
    assert "The properties of the image ask for cpu_policy dedicated" in refused.json["errors"][0]["detail"]
