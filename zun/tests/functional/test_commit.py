# SPDX-License-Identifier: Apache-2.0
"""Images made of containers, over real messages, with a runtime in memory: who has them, and what becomes of them."""

import threading

import pytest
from oslo_db import exception as db_exc

from zun.common import exceptions
from zun.compute import service
from zun.container.driver.images import ImageFacts
from zun.db import container_actions as db_actions
from zun.db import containers as db_containers
from zun.db import images as db
from zun.tests.fixtures import wait_for


@pytest.fixture
def cloud(cloud):
    cloud.drivers["one"].images = {}
    cloud.drivers["one"].registry = {"zun-demo": ImageFacts("sha256:1")}
    return cloud


def commit(cloud, context, container):
    """Do what the API does; gives the uuid of the image."""
    image = db.insert_committed({"project_id": "demo", "host": "one", "repo": "web", "tag": "1"})
    db_actions.start(container.uuid, "commit", request_id=context.request_id, user_id="alice", project_id="demo")
    cloud.compute_api.commit(context, container, image["uuid"])
    return image["uuid"]


def ended(container):
    """Return the message of the action and the results of its steps."""

    def look():
        action, events = db_actions.find(container.uuid, db_actions.of_container(container.uuid)[0]["request_id"])
        return action["finish_time"] and (action["message"], [(each["event"], each["result"]) for each in events])

    return wait_for(look)


def gone(uuid):
    try:
        db.get(uuid)
    except exceptions.ImageNotFound:
        return True
    return False


def test_an_image_is_made_used_and_removed(cloud, context):
    driver = cloud.drivers["one"]
    source = cloud.run(context)
    uuid = commit(cloud, context, source)
    assert ended(source) == (None, [("compute__do_container_commit", "Success")])
    row = db.get(uuid)
    assert (row["image_id"], row["size"], row["status"]) == (f"sha256:zun-commit:{uuid}", "1000", "Available")
    assert driver.commits == {f"zun-commit:{uuid}": source.uuid}
    assert db_containers.get(source.uuid)["status"] == "Running"
    # None is pulled, whatever the policy of the container says.
    driver.pulls.clear()
    made = cloud.run(context, image="web:1", image_pull_policy="always", request={"run": True, "committed": uuid})
    assert (made.status, made.image, driver.pulls) == ("Running", "web:1", [])
    cloud.compute_api.image_delete(context, "one", uuid)
    wait_for(lambda: gone(uuid))
    assert f"zun-commit:{uuid}" not in driver.images
    lost = cloud.run(context, image="web:1", request={"run": True, "committed": uuid})
    assert lost.status == "Error" and uuid in lost.status_reason and driver.pulls == []


@pytest.mark.parametrize("image", ["zun-commit:{}", "docker.io/zun-commit:{}", "x/zun-commit"])
def test_nobody_gets_it_by_its_local_name(cloud, context, image):
    source = cloud.run(context)
    uuid = commit(cloud, context, source)
    ended(source)
    thief = cloud.run(context, image=image.format(uuid))
    assert thief.status == "Error" and "name or uuid" in thief.status_reason


@pytest.mark.parametrize("reason", ["docker", "status"])
def test_a_commit_that_fails_leaves_no_image(cloud, context, reason):
    source = cloud.run(context, request={"run": reason == "docker"})  # nothing is made of one that never ran
    if reason == "docker":
        cloud.drivers["one"].fail("commit", exceptions.DockerError(error="no space left"))
    uuid = commit(cloud, context, source)
    assert ended(source) == ("Error", [("compute__do_container_commit", "Error")])
    assert gone(uuid)


def test_one_that_is_deleted_before_it_is_made_is_not_kept(cloud, context):
    driver, source = cloud.drivers["one"], cloud.run(context)

    def delete(_):
        (name,) = (each["uuid"] for each in db.page(context, limit=9, marker=None, sort_key="id", sort_dir="asc"))
        cloud.compute_api.image_delete(context, "one", name)
        wait_for(lambda: gone(name))

    driver.before("commit", delete)
    uuid = commit(cloud, context, source)
    assert ended(source) == ("Error", [("compute__do_container_commit", "Error")])
    assert driver.commits == {f"zun-commit:{uuid}": source.uuid} and f"zun-commit:{uuid}" not in driver.images


def test_one_that_is_deleted_before_it_is_begun_is_not_made(cloud, context, caplog):
    driver, source = cloud.drivers["one"], cloud.run(context)
    with cloud.agents["one"].parts.operations.undisturbed(context, source.uuid):  # so that the commit waits
        uuid = commit(cloud, context, source)
        cloud.compute_api.image_delete(context, "one", uuid)
        wait_for(lambda: gone(uuid))
    assert ended(source) == ("Error", [("compute__do_container_commit", "Error")])
    assert driver.commits == {} and "Traceback" not in caplog.text


def test_a_commit_that_a_restart_lost_is_an_error(cloud, context):
    uuid = db.insert_committed({"project_id": "demo", "host": "one", "repo": "web", "tag": "1"})["uuid"]
    assert db.get(uuid)["status"] == "Committing"
    cloud.stop_agent("one")
    cloud.start_agent("one")
    row = db.get(uuid)
    assert row["status"] == "Error" and "restarted" in row["status_detail"]


def test_one_that_could_not_note_its_end_is_an_error(cloud, context, monkeypatch):
    """But neither the image nor the action while it is being made: the container's row does not tell that it is."""
    agent, source, seen = cloud.agents["one"], cloud.run(context), []

    def compare(_):
        monkeypatch.setattr(service, "LOST_SECONDS", -60)
        agent._end_lost(context)
        (row,) = db.page(context, limit=9, marker=None, sort_key="id", sort_dir="asc")
        seen.append((row["status"], db_actions.of_container(source.uuid)[0]["finish_time"]))

    def gone_away(*_):
        raise db_exc.DBConnectionError("gone away")

    cloud.drivers["one"].before("commit", compare)
    with monkeypatch.context() as patch:
        patch.setattr(db, "update", gone_away)
        uuid = commit(cloud, context, source)
        assert ended(source)[0] == "Error"
    wait_for(lambda: not agent.queue.busy())
    assert (seen, db.get(uuid)["status"]) == ([("Committing", None)], "Committing")
    agent._end_lost(context)
    assert db.get(uuid)["status"] == "Error"


def test_one_that_waits_behind_a_long_stop_is_not_lost(cloud, context, monkeypatch):
    agent, source = cloud.agents["one"], cloud.run(context)
    stopping, go_on = threading.Event(), threading.Event()

    def hold(_):
        stopping.set()
        assert go_on.wait(60)

    cloud.drivers["one"].before("stop", hold)
    try:
        cloud.compute_api.stop(context, source, timeout=900)
        assert stopping.wait(60)
        uuid = commit(cloud, context, source)
        wait_for(lambda: any(each["arguments"].get("image") == uuid for each in db_actions.wanted(source.uuid)))
        monkeypatch.setattr(service, "LOST_SECONDS", -60)
        agent._end_lost(context)
        assert db.get(uuid)["status"] == "Committing"
    finally:
        go_on.set()
    wait_for(lambda: db.get(uuid)["status"] == "Available")


def test_search_finds_what_is_on_the_host_and_no_commits(cloud, context):
    driver = cloud.drivers["one"]
    source = cloud.run(context)
    commit(cloud, context, source)
    ended(source)
    facts = driver.commit(source, "lib/web:2")  # stands for an image somebody pulled
    driver.registry = {"lib/web-server": facts}

    def found(name, exact=False):
        return [each["name"] for each in cloud.compute_api.image_search(context, "one", name, exact=exact)]

    (here, _) = cloud.compute_api.image_search(context, "one", "lib/web", exact=False)
    assert (here["name"], here["tags"], here["id"], here["size"]) == ("lib/web", ["2"], facts.image_id, 1000)
    assert found("lib/web") == found("web") == ["lib/web", "lib/web-server"]
    assert found("lib/web", exact=True) == ["lib/web"] == found("lib/web:2")
    assert found("lib/web:3") == found("zun-commit") == found("commit") == []
    driver.fail("search_images", exceptions.Unavailable("no registry"), times=2)
    assert found("lib/web") == ["lib/web"]
    with pytest.raises(exceptions.Unavailable, match="no registry"):
        found("other")
