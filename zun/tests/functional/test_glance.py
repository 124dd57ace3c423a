# SPDX-License-Identifier: Apache-2.0
"""Images of Glance on a host, with a runtime in memory and a Glance that fails when told to."""

import json
import os
import pathlib
import time
from dataclasses import replace

import pytest
from oslo_db import exception as db_exc
from oslo_utils import uuidutils

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.compute.images.glance_images import FRESH_SECONDS, Kept, removable
from zun.container.driver.images import ImageFacts
from zun.db import container_actions as db_actions
from zun.db import containers as db_containers
from zun.db import images as db_images
from zun.image.glance import Glance
from zun.tests import fake_glance
from zun.tests.fixtures import wait_for
from zun.tests.functional.actions import ended
from zun.tests.functional.cloud import Cloud, machine


@pytest.fixture
def server(request):
    with fake_glance.running() as server:
        server.patience = 1 if "slow" in request.node.name else 60
        yield server


@pytest.fixture
def cloud(database, server, tmp_path):
    options = {**server.options, "glance__images_directory": str(tmp_path / "images"), "glance__image_cache_mb": 0}
    with Cloud({"one": machine(cells=1)}, compute__audit_interval=0, **options) as made:
        made.drivers["one"].images = {}
        yield made


def run(cloud, context, uuid, **fields):
    """Do what the API does for a container of the image."""
    return cloud.run(context, image="web", image_driver="glance", request={"run": True, "glance": uuid}, **fields)


def names(cloud):
    return sorted(cloud.drivers["one"].images)


def test_an_image_is_brought_once(cloud, context, server):
    uuid = server.add(data=fake_glance.saved(["busybox:latest"]))
    for _ in range(2):
        container = run(cloud, context, uuid)
        assert (container.status, container.image, container.status_detail) == ("Running", "web", None)
    assert names(cloud) == [f"zun-glance:{uuid}"], "the archive's own name is nobody's"
    assert server.requests.count(f"GET /v2/images/{uuid}/file") == 1


def test_many_containers_share_a_download(cloud, context, server):
    uuid = server.add()
    server.release.clear()
    request = {"run": True, "glance": uuid}
    made = [cloud.submit(context, image="web", request=request, cpu=0.1, memory=8) for _ in range(5)]
    wait_for(lambda: server.requests)
    server.release.set()
    assert {cloud.settled(each).status for each in made} == {"Running"}
    assert server.requests.count(f"GET /v2/images/{uuid}/file") == 1


@pytest.mark.parametrize("step", ["[0-9a-f]{12}$", "/file$"], ids=["show", "download"])
@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (401, "does not accept our token"),
        (403, "does not let the user of [glance]"),
        (404, "could not be found in Glance"),
        (409, "in use in Glance"),
        (413, "larger than"),
        (500, "is answered with 500"),
        (503, "is answered with 503"),
        ("dropped", "Glance does not answer"),
        ("slow", "Glance does not answer"),
        ("page", "Glance does not answer"),
    ],
)
def test_each_failure_is_in_the_reason(cloud, context, server, step, failure, reason):
    uuid = server.add()
    server.fail("GET", step, failure, times=3)
    container = run(cloud, context, uuid)
    assert container.status == "Error" and reason in container.status_reason and uuid in container.status_reason
    assert "<" not in container.status_reason and names(cloud) == []
    assert not list(pathlib.Path(cloud.conf.glance.images_directory).glob("*"))
    server.failures.clear()
    assert run(cloud, context, uuid).status == "Running"


@pytest.mark.parametrize(
    ("fields", "failure", "reason"),
    [
        ({"status": "deactivated"}, None, "an administrator deactivated it"),
        ({"status": "queued"}, None, "it has no data yet"),
        ({}, 204, "it has no data yet"),
        ({}, "corrupt", "does not have its sha512"),
        ({"data": b"no archive" * 99}, None, "not the archive of an image"),
        ({"data": fake_glance.tar({"etc/passwd": b""})}, None, "not 'docker export'"),
        ({"size": 10**17}, None, "MiB on the disk of the host"),
    ],
)
def test_what_cannot_be_used(cloud, context, server, fields, failure, reason):
    uuid = server.add(**fields)
    if failure is not None:
        server.fail("GET", "/file$", failure)
    container = run(cloud, context, uuid)
    assert container.status == "Error" and reason in container.status_reason
    assert names(cloud) == [] and not list(pathlib.Path(cloud.conf.glance.images_directory).glob("*"))


def test_a_pull_outlives_the_token_of_its_user(cloud, server):
    """The token expires during the transfer, which breaks off and begins again."""
    uuid = server.add()
    user = RequestContext(project_id="demo", user_id="alice", auth_token="demo")
    zun_api = Glance.from_conf(cloud.conf)
    assert zun_api.find(user, uuid).uuid == uuid
    server.release.clear()
    server.requests.clear()
    server.fail("GET", "/file$", "truncated")
    made = cloud.submit(user, image="web", request={"run": True, "glance": uuid})
    wait_for(lambda: server.requests)
    server.expired.add("demo")
    server.release.set()
    assert cloud.settled(made).status == "Running"
    assert server.requests.count(f"GET /v2/images/{uuid}/file") == 2
    with pytest.raises(exceptions.Forbidden, match="does not accept the token of the request"):
        zun_api.find(user, uuid)


def test_policies_of_an_image_that_never_changes(cloud, context, server):
    uuid = server.add()
    lacking = run(cloud, context, uuid, image_pull_policy="never")
    assert lacking.status == "Error" and "is not on the host" in lacking.status_reason
    assert run(cloud, context, uuid, image_pull_policy="always").status == "Running"
    server.images[uuid]["status"] = "deactivated"
    for policy, status in (("ifnotpresent", "Running"), ("never", "Running"), ("always", "Error")):
        assert run(cloud, context, uuid, image_pull_policy=policy).status == status


def test_a_host_without_glance(database, context):
    with Cloud({"one": machine(cells=1)}, compute__audit_interval=0) as cloud:
        cloud.drivers["one"].images = {}
        container = run(cloud, context, uuidutils.generate_uuid())
        assert container.status == "Error" and "this host is not configured for Glance" in container.status_reason


def test_nobody_gets_it_by_its_name_on_the_host(cloud, context, server):
    uuid = server.add()
    run(cloud, context, uuid)
    for image in (f"zun-glance:{uuid}", f"docker.io/library/zun-glance:{uuid}", "x/zun-glance"):
        thief = cloud.run(context, image=image)
        assert thief.status == "Error" and "name or uuid" in thief.status_reason


def test_nobody_gets_it_by_the_id_of_its_content(cloud, context, server):
    uuid, ident = server.add(data=fake_glance.saved(config="c" * 64)), "sha256:" + "c" * 64
    run(cloud, context, uuid)
    thief = cloud.run(context, image=ident)
    assert thief.status == "Error" and "Ask for it by its name" in thief.status_reason
    cloud.drivers["one"].images["busybox:latest"] = cloud.drivers["one"].images[f"zun-glance:{uuid}"]
    named = cloud.run(context, image=ident)  # it has a name for everybody as well
    assert "Ask for it by its name" not in (named.status_reason or "")


def test_a_rebuild_of_another_image(cloud, context, server):
    old, new = server.add(), server.add()
    container = run(cloud, context, old)
    rebuild = {"image": "new", "image_driver": "glance", "glance": new}
    db_containers.update(container.uuid, {"request": {**container.request, "rebuild": rebuild}, "status": "Rebuilding"})
    cloud.compute_api.rebuild(context, container)
    rebuilt = wait_for(lambda: (found := cloud.settled(container)).image == "new" and found)
    assert rebuilt.status == "Running" and rebuilt.request["glance"] == new and "rebuild" not in rebuilt.request


def test_unused_images_are_removed(cloud, context, server):
    driver, folder = cloud.drivers["one"], pathlib.Path(cloud.conf.glance.images_directory)
    old, fresh = server.add(), server.add()
    for uuid in (old, fresh):
        run(cloud, context, uuid)
    past = time.time() - FRESH_SECONDS - 1
    os.utime(folder / old, (past, past))
    driver.images["busybox:latest"] = driver.images[f"zun-glance:{old}"]
    driver.images["zun-glance:backup"] = replace(driver.images["busybox:latest"], image_id="sha256:by-hand")
    theirs = folder / server.add()  # of a store of Glance in the same folder
    theirs.write_bytes(b"data")
    os.utime(theirs, (past, past))
    cloud.agents["one"]._sweep_images()
    assert set(names(cloud)) == {"busybox:latest", f"zun-glance:{fresh}", "zun-glance:backup"}
    assert {path.name for path in folder.iterdir()} == {fresh, theirs.name}


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(30, []), (29, ["a", "b"]), (0, ["a", "b"])],
    ids=["enough", "one-too-many", "nothing-kept"],
)
def test_the_longest_unused_go_first(limit, expected):
    now = 10_000.0
    kept = [Kept("b", 10, 5000), Kept("a", 10, 10), Kept("fresh", 10, now - FRESH_SECONDS + 1)]
    assert [each.uuid for each in removable(kept, limit, now)] == expected


def gone(uuid):
    try:
        db_images.get(uuid)
    except exceptions.ImageNotFound:
        return True
    return False


def commit(cloud, context, server, container, *, tell=True):
    """Do what the API does for a commit into Glance; gives the uuid of the image."""
    row = {"project_id": "demo", "host": "one", "repo": "team/web", "tag": "2"}
    uuid = db_images.insert_committed(row, keeper="zun-glance")["uuid"]
    server.images[uuid] = {
        "id": uuid, "name": "team/web", "owner": "demo", "visibility": "shared", "status": "queued",
        "container_format": "docker", "tags": ["2"],
    }  # fmt: skip
    db_actions.start(container.uuid, "commit", request_id=context.request_id, user_id="alice", project_id="demo")
    if tell:
        cloud.compute_api.commit(context, container, uuid)
    return uuid


def test_a_commit_goes_to_glance(cloud, context, server):
    source = run(cloud, context, server.add())
    uuid = commit(cloud, context, server, source)
    steps = [("compute__do_container_upload", "Success"), ("compute__do_container_commit", "Success")]
    message, events = ended(source, context.request_id)
    assert message is None and sorted(events) == sorted(steps)
    wait_for(lambda: gone(uuid))
    assert server.images[uuid]["status"] == "active"
    with fake_glance.tarfile.open(fileobj=fake_glance.io.BytesIO(server.data[uuid])) as tar:
        assert json.load(tar.extractfile("manifest.json"))[0]["RepoTags"] == ["team/web:2"]
    assert f"zun-glance:{uuid}" in names(cloud)
    server.requests.clear()
    assert run(cloud, context, uuid).status == "Running" and server.requests == []


REFUSALS = [
    (401, "our token"), (403, "role admin"), (404, "could not be found"), (409, "there already"), (413, "quota"),
    (500, "500"), ("dropped", "not answer"), ("slow", "not answer"),
]  # fmt: skip


@pytest.mark.parametrize(("failure", "reason"), REFUSALS)
def test_a_commit_that_glance_refuses(cloud, context, server, failure, reason):
    source = run(cloud, context, server.add())
    server.fail("PUT", "/file$", failure)
    uuid = commit(cloud, context, server, source)
    message, events = ended(source, context.request_id)
    assert message == "Error" and dict(events)["compute__do_container_upload"] == "Error"
    _, steps = db_actions.find(source.uuid, context.request_id)
    assert any(reason in (each["traceback"] or "") for each in steps)
    wait_for(lambda: gone(uuid))
    assert uuid not in server.images and f"zun-glance:{uuid}" not in names(cloud)
    assert cloud.settled(source).status == "Running"
    used, past = pathlib.Path(cloud.conf.glance.images_directory, uuid), time.time() - FRESH_SECONDS - 1
    os.utime(used, (past, past))
    cloud.agents["one"]._sweep_images()
    assert not used.exists()


@pytest.mark.parametrize("failure", ["dropped", 500, None], ids=str)
def test_a_row_that_goes_during_its_upload_frees_all(cloud, context, server, failure):
    """Somebody deleted the row by hand; an image that Glance has stays."""
    source = run(cloud, context, server.add())
    server.release.clear()
    uuid = commit(cloud, context, server, source)
    wait_for(lambda: (row := db_images.get(uuid))["status_detail"] == "Uploading the image to Glance" and row)
    db_images.destroy(uuid)
    if failure:
        server.fail("PUT", "/file$", failure)
    server.release.set()
    wait_for(lambda: not {uuid, source.uuid} & busy(cloud))
    assert (server.images.get(uuid, {}).get("status") == "active") == (failure is None)
    again = commit(cloud, context, server, source)
    wait_for(lambda: gone(again))
    assert server.images[again]["status"] == "active"


def busy(cloud):
    return {key.name for key in cloud.agents["one"].queue.busy()}


@pytest.mark.parametrize("error", [ValueError("bad row"), db_exc.DBConnectionError("gone away")], ids=["row", "outage"])
def test_an_upload_that_breaks_down_frees_all(cloud, context, server, monkeypatch, error):
    def broken(*_):
        raise error

    source = run(cloud, context, server.add())
    server.fail("PUT", "/file$", 500)
    with monkeypatch.context() as patch:
        patch.setattr(db_images, "destroy", broken)
        uuid = commit(cloud, context, server, source)
        ended(source, context.request_id)
        wait_for(lambda: source.uuid not in busy(cloud))
    wait_for(lambda: gone(uuid))  # it is tried again
    again = commit(cloud, context, server, source)
    wait_for(lambda: gone(again))


def test_an_upload_does_not_hold_the_container(cloud, context, server):
    source = run(cloud, context, server.add())
    server.release.clear()
    uuid = commit(cloud, context, server, source)
    wait_for(lambda: (row := db_images.get(uuid))["status_detail"] == "Uploading the image to Glance" and row)
    cloud.compute_api.stop(context, source, timeout=1)
    wait_for(lambda: cloud.settled(source).status == "Stopped")
    assert not gone(uuid) and uuid in busy(cloud)
    cloud.agents["one"]._sweep_images()
    assert f"zun-glance:{uuid}" in names(cloud), "the limit is 0, but it is needed"
    server.release.set()
    wait_for(lambda: gone(uuid))
    assert server.images[uuid]["status"] == "active"


def test_a_sweep_between_commit_and_upload(cloud, context, server, monkeypatch):
    """The image stays, although the limit is 0."""
    driver, source = cloud.drivers["one"], run(cloud, context, server.add())
    made = driver.commit

    def and_sweep(*args):
        facts = made(*args)
        cloud.agents["one"]._sweep_images()
        return facts

    monkeypatch.setattr(driver, "commit", and_sweep)
    uuid = commit(cloud, context, server, source)
    wait_for(lambda: gone(uuid))
    assert server.images[uuid]["status"] == "active" and f"zun-glance:{uuid}" in names(cloud)


def left(cloud, server, whole):
    """Leave what kill -9 leaves during an upload, or after a ``whole`` one; gives the uuid of the image."""
    uuid = server.add() if whole else server.add(status="queued")
    row = {"uuid": uuid, "project_id": "demo", "host": "one", "repo": "team/web", "tag": "2"}
    db_images.insert_committed(row, keeper="zun-glance")
    (folder := pathlib.Path(cloud.conf.glance.images_directory)).mkdir(exist_ok=True)
    (folder / uuid).touch()
    cloud.drivers["one"].images[f"zun-glance:{uuid}"] = ImageFacts("sha256:left", size=1)
    return uuid


@pytest.mark.parametrize("whole", [False, True])
def test_a_restart_during_an_upload(cloud, server, whole):
    """Nothing is left of the image in Glance, unless it has its data; the row goes."""
    uuid = left(cloud, server, whole)
    cloud.stop_agent("one")
    cloud.start_agent("one")
    wait_for(lambda: gone(uuid))
    assert (uuid in server.images) == whole  # the runtime's is one of the cache


def test_a_restart_before_the_message_of_a_commit(cloud, context, server):
    """The commit is done afterwards."""
    source = run(cloud, context, server.add())
    agent = cloud.agents["one"]
    uuid = commit(cloud, context, server, source, tell=False)
    for found in agent._images.end_unfinished(context, "one"):
        agent._images.delete(context, found)
    cloud.compute_api.commit(context, source, uuid)
    wait_for(lambda: gone(uuid))
    assert server.images[uuid]["status"] == "active"


@pytest.mark.parametrize(
    ("method", "failure", "whole"),
    [("GET", None, False), ("GET", None, True), ("GET", 500, False), ("DELETE", 403, False), ("DELETE", 403, True)],
)
def test_the_row_of_an_upload_is_deleted(cloud, context, server, method, failure, whole):
    """The row stays while Glance does not delete its image."""
    uuid = left(cloud, server, whole)
    if failure:
        server.fail(method, uuid, failure)
    cloud.compute_api.image_delete(context, "one", uuid)
    if failure and not (whole and method == "DELETE"):
        told = wait_for(lambda: db_images.get(uuid)["status_detail"])
        assert "could not be removed" in told and "Glance" in told and uuid in server.images
        cloud.compute_api.image_delete(context, "one", uuid)
    wait_for(lambda: gone(uuid))
    assert (uuid in server.images) == whole == (f"zun-glance:{uuid}" in names(cloud))


def test_a_row_whose_image_is_gone_from_glance(cloud, context, server):
    uuid = left(cloud, server, whole=False)
    del server.images[uuid]
    cloud.compute_api.image_delete(context, "one", uuid)
    wait_for(lambda: gone(uuid))
    assert names(cloud) == []
