# SPDX-License-Identifier: Apache-2.0
"""Images on hosts: which are pulled, with whose credentials, and what their rows say."""

import datetime
import hashlib
from dataclasses import replace

import pytest
from oslo_utils import timeutils, uuidutils

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.secrets import Cipher
from zun.compute import service
from zun.container.driver.images import ImageFacts, RegistryAuth
from zun.db import containers as db_containers
from zun.db import image_grants, registries
from zun.db import images as db
from zun.tests.fixtures import wait_for
from zun.tests.functional.cloud import Cloud, machine

KEY = "k" * 32
ID = "sha256:" + "1" * 64
FACTS = ImageFacts(ID, size=1234)
DIGEST = f"sha256:{hashlib.sha256(ID.encode()).hexdigest()}"
MINE = RegistryAuth("me", "pa55")


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
    names = ("default.io/a:latest", "default.io/a:1", "own.io/a:latest", "own.io/a:1", "OWN.io/a:1")
    cloud.drivers["one"].registry = dict.fromkeys(names, FACTS)
    yield cloud
    cloud.stop()


@pytest.fixture
def registry(database):
    def make(key=KEY, project="demo", password="pa55"):
        row = {"uuid": uuidutils.generate_uuid(), "project_id": project, "domain": "own.io", "username": "me"}
        hidden = Cipher([key]).encrypt(password, registries.owner(row))
        return registries.insert({**row, "user_id": "alice", "password": hidden})["uuid"]

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
    cloud.drivers["one"].before("pull_image", compare)
    cloud.compute_api.image_pull(context, "one", uuid)
    wait_for(lambda: db.get(uuid)["status"] == "Available")
    assert seen == [["Error", "Pulling"]]


def test_a_pull_fills_the_row(cloud, context):
    uuid = image()
    cloud.compute_api.image_pull(context, "one", uuid)
    row = wait_for(lambda: db.get(uuid)["image_id"] and db.get(uuid))
    assert (row["image_id"], row["size"], row["status"], row["status_detail"]) == (
        ID,
        "1234",
        "Available",
        None,
    )
    assert cloud.drivers["one"].pulls == [f"default.io/a@{DIGEST}"]
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
    assert cloud.drivers["one"].credentials == []
    assert (db.get(uuid)["image_id"], "nowhere.io/a" in db.get(uuid)["status_detail"]) == (None, True)
    cloud.compute_api.image_delete(context, "one", uuid)
    wait_for(lambda: not exists(uuid))


@pytest.mark.parametrize("repo", ["a", "nowhere.io/a"])
@pytest.mark.parametrize("begun", [True, False])
def test_a_pull_whose_row_goes_says_so_in_one_line(cloud, context, caplog, repo, begun):
    caplog.set_level("INFO")
    uuid = image(repo)
    if begun:
        cloud.drivers["one"].before("image_digest", lambda _: db.destroy(uuid))
    else:
        db.destroy(uuid)
    cloud.compute_api.image_pull(context, "one", uuid)
    said = wait_for(lambda: [each for each in caplog.records if uuid in each.getMessage()])
    assert [(each.levelname, each.exc_info) for each in said] == [("INFO", None)]
    assert cloud.drivers["one"].pulls == ([f"default.io/a@{DIGEST}"] if begun and repo == "a" else [])
    cloud.compute_api.image_delete(context, "one", uuid)
    said = wait_for(lambda: [each for each in caplog.records if uuid in each.getMessage()][1:])
    assert [(each.levelname, each.exc_info) for each in said] == [("INFO", None)]


def test_a_pull_goes_on_when_nobody_looks_any_more(cloud, context):
    """Others may wait for the same one."""
    uuid = image()
    cloud.drivers["one"].before("pull_image", lambda _: db.destroy(uuid))
    cloud.compute_api.image_pull(context, "one", uuid)
    wait_for(lambda: "default.io/a:1" in cloud.drivers["one"].images)
    assert exists(uuid) is None


def test_an_image_that_somebody_built_since_stays(cloud, context):
    """Its name is that of another image by now, and the row is of an image that nobody finds any more."""
    uuid = image()
    cloud.compute_api.image_pull(context, "one", uuid)
    wait_for(lambda: db.get(uuid)["image_id"])
    images = cloud.drivers["one"].images
    images["default.io/a:1"] = replace(images["default.io/a:1"], image_id="sha256:built-by-hand")
    cloud.compute_api.image_delete(context, "one", uuid)
    wait_for(lambda: not exists(uuid))
    assert images["default.io/a:1"].image_id == "sha256:built-by-hand"


def test_an_image_in_use_stays(cloud, context):
    uuid = image()
    db.update(uuid, {"image_id": ID})
    cloud.drivers["one"].fail("remove_image", exceptions.Conflict("a container uses it"))
    cloud.compute_api.image_delete(context, "one", uuid)
    row = wait_for(lambda: (row := db.get(uuid)) and row["status_detail"] and row)
    assert "a container uses it" in row["status_detail"] and row["image_id"] == ID
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
        ("a", True, f"own.io/a@{DIGEST}", MINE),
        ("own.io/a:1", True, f"own.io/a@{DIGEST}", MINE),
        ("default.io/a:1", True, "default.io/a:1", RegistryAuth("operator", "0")),
        ("a:1", False, "default.io/a:1", RegistryAuth("operator", "0")),
        ("own.io/a:1", False, "own.io/a:1", None),
        ("OWN.io/a:1", True, f"OWN.io/a@{DIGEST}", MINE),
    ],
)
def test_a_container(cloud, context, registry, name, of_registry, pulled, auth):
    container = cloud.run(context, image=name, registry_id=registry() if of_registry else None)
    assert (container.status, container.image, container.status_reason) == ("Running", name, None)
    assert (cloud.drivers["one"].pulls, cloud.drivers["one"].credentials) == ([pulled], [auth])
    assert db_containers.get(container.uuid)["status_detail"] is None


def test_a_domain_of_an_earlier_release_is_told(cloud, context, registry):
    """Before, every text was stored."""
    uuid = registry()
    registries.update(uuid, lambda row: {"domain": "https://own.io/v2/"})
    container = cloud.run(context, image="a", registry_id=uuid)
    assert container.status == "Error"


def test_a_password_of_another_registry_is_not_sent(cloud, context, registry):
    """Whoever can write the database cannot have a password sent to a host of theirs."""
    theirs, mine = registry(project="other", password="theirs"), registry()
    registries.update(mine, lambda row: {"password": registries.get(theirs)["password"]})
    assert cloud.run(context, image="a", registry_id=mine).status == "Error"
    registries.update(theirs, lambda row: {"project_id": context.project_id})
    assert cloud.run(context, image="a", registry_id=theirs).status == "Error"


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


OTHER = RequestContext(user_id="eve", project_id="other", roles=["member"])
NAME = "own.io/a:1"
POLICIES = [None, "ifnotpresent", "never", "Always"]


@pytest.fixture
def private(cloud, context, registry):
    """A cloud whose host has an image that was pulled with credentials of project demo."""
    driver = cloud.drivers["one"]
    driver.accounts["own.io"] = MINE
    assert cloud.run(context, image=NAME, registry_id=registry()).status == "Running"
    assert (driver.credentials, NAME in driver.images) == ([MINE], True)
    driver.pulls.clear()
    return cloud


def outcome(cloud, context, **fields):
    container = cloud.run(context, image=fields.pop("image", NAME), **fields)
    return container.status, container.status_reason or ""


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("restarted", [False, True])
def test_a_private_image_is_its_projects(private, context, policy, restarted):
    """It needs no registry any more, nor to name one."""
    if restarted:
        private.stop_agent("one")
        private.start_agent("one")
    private.drivers["one"].registry.clear()
    assert outcome(private, context, image_pull_policy=policy)[0] == "Running"


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("image", [NAME, f"own.io/a@{DIGEST}", f"own.io/a:x@{DIGEST}", ID])
def test_a_private_image_is_no_other_projects(private, policy, restarted, image):
    if restarted:
        private.stop_agent("one")
        private.start_agent("one")
    status, reason = outcome(private, OTHER, image=image, image_pull_policy=policy)
    assert status == "Error" and image in reason
    told = policy in ("never", "Always") or image == ID
    assert ("was brought to the host with credentials" in reason) is told
    assert outcome(private, OTHER, image=image, image_pull_policy=policy)[0] == "Error"


@pytest.mark.parametrize("policy", [None, "ifnotpresent", "always"])
def test_another_project_shows_its_own_credentials(private, registry, policy):
    wrong = registry(project="other", password="guessed")
    assert outcome(private, OTHER, registry_id=wrong, image_pull_policy=policy)[0] == "Error"
    assert outcome(private, OTHER)[0] == "Error"
    right = registry(project="other")
    assert outcome(private, OTHER, registry_id=right, image_pull_policy=policy)[0] == "Running"
    assert private.drivers["one"].pulls == [], "the image is here"
    assert outcome(private, OTHER, image_pull_policy="never")[0] == "Running"


def test_while_it_is_pulled_it_is_private_already(cloud, context, registry):
    """The grant is there before the image is."""
    driver = cloud.drivers["one"]
    driver.accounts["own.io"] = MINE
    granted = []
    driver.before("pull_image", lambda _: granted.append(image_grants.projects("one", [f"own.io/a@{DIGEST}"])))
    assert cloud.run(context, image=NAME, registry_id=registry()).status == "Running"
    assert granted == [{"demo"}]


def test_what_everybody_gets_is_for_all_again(private):
    """Credentials were used where none are wanted, to be allowed more pulls for example."""
    driver = private.drivers["one"]
    driver.accounts.clear()
    assert outcome(private, OTHER, image_pull_policy="never")[0] == "Error"
    assert outcome(private, OTHER)[0] == "Running"
    assert driver.pulls == []
    assert outcome(private, OTHER, image_pull_policy="never")[0] == "Running"


def test_what_an_administrator_pulls_is_for_all(private, context):
    private.drivers["one"].accounts.clear()
    uuid = image("own.io/a")
    private.compute_api.image_pull(context, "one", uuid)
    wait_for(lambda: db.get(uuid)["status"] == "Available")
    assert outcome(private, OTHER, image_pull_policy="never")[0] == "Running"


@pytest.mark.parametrize("policy", [None, "always"])
def test_what_was_put_there_by_hand_stays_for_all(cloud, context, registry, policy):
    driver = cloud.drivers["one"]
    driver.accounts["own.io"] = MINE
    cloud.drivers["one"].pull_image(NAME, MINE)
    assert outcome(cloud, context, registry_id=registry(), image_pull_policy=policy)[0] == "Running"
    assert outcome(cloud, OTHER, image_pull_policy="never")[0] == "Running"


@pytest.mark.parametrize("image", ["own.io/a:1", "local:1"])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_digest_that_no_registry_knows_closes_nothing(cloud, policy, image):
    """containerd's image store gives an image that was made on the host a digest: its id."""
    driver = cloud.drivers["one"]
    made_here = ImageFacts(ID, digests=(f"own.io/a@{ID}", f"default.io/local@{ID}"))
    driver.images |= dict.fromkeys(("own.io/a:1", "default.io/local:1"), made_here)
    driver.registry.clear()
    assert outcome(cloud, OTHER, image=image, image_pull_policy=policy) == ("Running", "")
    assert driver.pulls == []


def test_a_private_copy_closes_nothing_but_itself(cloud, context, registry):
    """Somebody pulls from behind a password what everybody uses under another name."""
    driver = cloud.drivers["one"]
    driver.accounts["own.io"] = MINE
    driver.images["busybox:latest"] = ImageFacts(ID, digests=(f"busybox@{DIGEST}", f"own.io/a@{DIGEST}"))
    image_grants.grant("one", f"own.io/a@{DIGEST}", "demo")
    for name in ("docker.io/busybox:latest", "index.docker.io/library/busybox:latest"):
        driver.images[name] = driver.images["busybox:latest"]
        assert outcome(cloud, OTHER, image=name, image_pull_policy="never")[0] == "Running"
    image_grants.grant("one", f"docker.io/library/busybox@{DIGEST}", "demo")
    assert outcome(cloud, OTHER, image="docker.io/busybox:latest", image_pull_policy="never")[0] == "Error"


def test_a_grant_in_the_spelling_of_an_earlier_release_counts(cloud):
    name = f"Own.io/a@{DIGEST}"
    driver = cloud.drivers["one"]
    driver.accounts["Own.io"] = MINE
    driver.images["Own.io/a:1"] = ImageFacts(ID, digests=(name,))
    image_grants.grant("one", name, "demo")
    cloud.agents["one"]._sweep_images()
    assert outcome(cloud, OTHER, image="Own.io/a:1", image_pull_policy="never")[0] == "Error"


@pytest.mark.parametrize(
    ("name", "has"),
    [
        ("myhost:5000/app:2", "myhost:5000/app:2"),
        ("[::1]:5000/app", "[::1]:5000/app:2"),
        ("docker.io/team/app:2", "team/app:2"),
        ("index.docker.io/app", "app:2"),
        (f"myhost:5000/app@{DIGEST}", "myhost:5000/app:2"),
    ],
)
@pytest.mark.parametrize("exact", [False, True])
def test_a_search_finds_each_spelling_of_what_a_host_has(cloud, context, name, has, exact):
    cloud.drivers["one"].images[has] = ImageFacts(ID, digests=(f"{has.removesuffix(':2')}@{DIGEST}",))
    cloud.drivers["one"].images["other:2"] = ImageFacts(ID)
    (found,) = cloud.compute_api.image_search(context, "one", name, exact=exact)
    assert (found["name"], found["tags"]) == (has.removesuffix(":2"), ["2"])
    assert cloud.compute_api.image_search(context, "one", f"{name.partition('@')[0]}:3", exact=exact) == []


def test_a_search_does_not_tell_of_it(private, context, admin):
    """Not its name, nor its id, for which Docker gives an image to whoever serves a manifest with it."""
    driver = private.drivers["one"]
    driver.registry.clear()
    driver.images["own.io/a:open"] = ImageFacts(ID)

    def found(who):
        told = private.compute_api.image_search(who, "one", "own", exact=False)
        return [(each["name"], each["tags"]) for each in told]

    everything = [("own.io/a", ["1"]), ("own.io/a", ["open"])]
    assert found(context) == found(admin) == everything
    assert found(OTHER) == everything[1:]


def test_another_host_knows_nothing_of_it(private):
    assert image_grants.projects("two", [f"own.io/a@{DIGEST}"]) == set()


def test_a_grant_goes_after_its_image(private, monkeypatch):
    agent, name = private.agents["one"], f"own.io/a@{DIGEST}"
    agent._sweep_images()
    assert image_grants.projects("one", [name]) == {"demo"}
    later = timeutils.utcnow() + datetime.timedelta(days=2)
    monkeypatch.setattr(timeutils, "utcnow", lambda: later)
    agent._sweep_images()
    assert image_grants.projects("one", [name]) == {"demo"}
    private.drivers["one"].images.clear()
    agent._sweep_images()
    assert image_grants.projects("one", [name]) == set()
