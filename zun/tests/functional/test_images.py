# SPDX-License-Identifier: Apache-2.0
"""Images on hosts: which are pulled, with whose credentials, and what their rows say."""

import pytest

from zun.common import exceptions
from zun.common.secrets import Cipher
from zun.compute import service
from zun.container.driver import ImageFacts, RegistryAuth
from zun.db import containers as db_containers
from zun.db import images as db
from zun.db import registries
from zun.tests.fixtures import wait_for
from zun.tests.functional.cloud import Cloud, machine

KEY = "k" * 32
FACTS = ImageFacts("sha256:1", size=1234)


@pytest.fixture
def cloud(database):
    cloud = Cloud(
        {"one": machine(cells=1)},
        compute__audit_interval=0,
        auth_encryption_key=KEY,
        docker__default_registry="default.io",
        docker__default_registry_username="operator",
        docker__default_registry_password="0",
    )
    cloud.drivers["one"].images = {}
    names = ("default.io/a:latest", "default.io/a:1", "own.io/a:latest", "own.io/a:1")
    cloud.drivers["one"].registry = dict.fromkeys(names, FACTS)
    yield cloud
    for option in ("default_registry", "default_registry_username", "default_registry_password"):
        cloud.conf.clear_override(option, group="docker")
    cloud.conf.clear_override("auth_encryption_key")
    cloud.stop()


@pytest.fixture
def registry(database):
    def make(key=KEY):
        account = {"username": "me", "password": Cipher([key]).encrypt("pa55")}
        return registries.insert({"project_id": "demo", "user_id": "alice", "domain": "own.io", **account})["uuid"]

    return make


def image(repo="a", tag="1"):
    return db.insert({"project_id": "admin", "host": "one", "repo": repo, "tag": tag})["uuid"]


def test_a_pull_that_could_not_note_its_end_is_an_error(cloud, context, monkeypatch):
    """And not while it is under way."""
    lost, uuid, agent = image(), image("b"), cloud.agents["one"]
    seen = []

    def compare(_):
        monkeypatch.setattr(service, "LOST_SECONDS", -60)
        agent._end_lost(context)
        seen.append([db.get(each)["status"] for each in (lost, uuid)])

    cloud.drivers["one"].registry["default.io/b:1"] = FACTS
    cloud.drivers["one"].before("ensure", compare)
    cloud.compute_api.image_pull(context, "one", uuid)
    wait_for(lambda: db.get(uuid)["status"] == "Available")
    assert seen == [["Error", "Pulling"]]


def test_a_pull_fills_the_row(cloud, context):
    uuid = image()
    cloud.compute_api.image_pull(context, "one", uuid)
    row = wait_for(lambda: db.get(uuid)["image_id"] and db.get(uuid))
    assert (row["image_id"], row["size"], row["status"], row["status_detail"]) == (
        "sha256:1",
        "1234",
        "Available",
        None,
    )
    assert cloud.drivers["one"].pulls == ["default.io/a:1"]
    assert cloud.drivers["one"].credentials == [RegistryAuth("operator", "0")]
    cloud.compute_api.image_delete(context, "one", uuid)
    wait_for(lambda: not exists(uuid))
    assert cloud.drivers["one"].images == {}


def exists(uuid):
    try:
        return db.get(uuid)
    except exceptions.ImageNotFound:
        return None


def test_a_pull_that_fails_says_why(cloud, context):
    uuid = image("nowhere.io/a")
    cloud.compute_api.image_pull(context, "one", uuid)
    wait_for(lambda: db.get(uuid)["status"] == "Error")
    assert cloud.drivers["one"].credentials == [None]
    assert (db.get(uuid)["image_id"], "nowhere.io/a" in db.get(uuid)["status_detail"]) == (None, True)
    cloud.compute_api.image_delete(context, "one", uuid)
    wait_for(lambda: not exists(uuid))


@pytest.mark.parametrize("repo", ["a", "nowhere.io/a"])
@pytest.mark.parametrize("begun", [True, False])
def test_a_pull_whose_row_goes_says_so_in_one_line(cloud, context, caplog, repo, begun):
    caplog.set_level("INFO")
    uuid = image(repo)
    if begun:
        cloud.drivers["one"].before("ensure", lambda _: db.destroy(uuid))
    else:
        db.destroy(uuid)
    cloud.compute_api.image_pull(context, "one", uuid)
    said = wait_for(lambda: [each for each in caplog.records if uuid in each.getMessage()])
    assert [(each.levelname, each.exc_info) for each in said] == [("INFO", None)]
    assert cloud.drivers["one"].pulls == ([cloud_name(repo)] if begun else [])
    cloud.compute_api.image_delete(context, "one", uuid)
    said = wait_for(lambda: [each for each in caplog.records if uuid in each.getMessage()][1:])
    assert [(each.levelname, each.exc_info) for each in said] == [("INFO", None)]


def cloud_name(repo):
    return f"default.io/{repo}:1" if "." not in repo else f"{repo}:1"


def test_a_pull_goes_on_when_nobody_looks_any_more(cloud, context):
    """Others may wait for the same one."""
    uuid = image()
    cloud.drivers["one"].before("ensure", lambda _: db.destroy(uuid))
    cloud.compute_api.image_pull(context, "one", uuid)
    wait_for(lambda: "default.io/a:1" in cloud.drivers["one"].images)
    assert exists(uuid) is None


def test_an_image_in_use_stays(cloud, context):
    uuid = image()
    db.update(uuid, {"image_id": "sha256:1"})
    tried = []
    cloud.drivers["one"].before("remove_image", tried.append)
    cloud.drivers["one"].fail("remove_image", exceptions.Conflict("a container uses it"))
    cloud.compute_api.image_delete(context, "one", uuid)
    wait_for(lambda: tried)
    wait_for(lambda: "a container uses it" in (db.get(uuid)["status_detail"] or ""))
    cloud.compute_api.image_delete(context, "one", uuid)
    wait_for(lambda: not exists(uuid))


def test_search(cloud, context):
    def found(name, exact):
        return [each["name"] for each in cloud.compute_api.image_search(context, "one", name, exact=exact)]

    assert found("own.io", False) == ["own.io/a:latest", "own.io/a:1"]
    assert found("own.io", True) == []
    assert found("own.io/a:1", True) == ["own.io/a:1"]


@pytest.mark.parametrize(
    ("name", "of_registry", "pulled", "auth"),
    [
        ("a", True, "own.io/a:latest", RegistryAuth("me", "pa55")),
        ("own.io/a:1", True, "own.io/a:1", RegistryAuth("me", "pa55")),
        ("default.io/a:1", True, "default.io/a:1", RegistryAuth("operator", "0")),
        ("a:1", False, "default.io/a:1", RegistryAuth("operator", "0")),
        ("own.io/a:1", False, "own.io/a:1", None),
    ],
)
def test_a_container(cloud, context, registry, name, of_registry, pulled, auth):
    container = cloud.run(context, image=name, registry_id=registry() if of_registry else None)
    assert (container.status, container.image, container.status_reason) == ("Running", name, None)
    assert (cloud.drivers["one"].pulls, cloud.drivers["one"].credentials) == ([pulled], [auth])
    assert db_containers.get(container.uuid)["status_detail"] is None


def test_a_password_that_this_host_cannot_read(cloud, context, registry):
    container = cloud.run(context, image="a", registry_id=registry("x" * 32))
    assert container.status == "Error" and "auth_encryption_key" in container.status_reason
    assert cloud.drivers["one"].pulls == []


def test_how_far_a_pull_is_can_be_seen(cloud, context):
    seen = []
    driver = cloud.drivers["one"]
    driver.before("create", lambda container: seen.append(db_containers.get(container.uuid)["status_detail"]))
    container = cloud.run(context, image="a")
    assert (container.status, seen) == ("Running", ["Pulling default.io/a:latest"])
    assert db_containers.get(container.uuid)["status_detail"] is None


def test_a_pull_that_fails_says_nothing_of_progress(cloud, context):
    container = cloud.run(context, image="nowhere.io/a")
    assert container.status == "Error" and "nowhere.io/a" in container.status_reason
    assert db_containers.get(container.uuid)["status_detail"] is None
