# SPDX-License-Identifier: Apache-2.0
"""A container made anew, over real messages, with a runtime in memory."""

import pytest

from zun.common import exceptions
from zun.compute.images.images import made_of
from zun.db import containers as db
from zun.objects import Container
from zun.tests.fixtures import wait_for
from zun.tests.functional.actions import accepted, rebuild


def image_there(cloud, container):
    """The image of the object that exists, without the tag."""
    return cloud.drivers["one"].runtime.objects[container.uuid].image.partition(":")[0]


@pytest.mark.parametrize("policy", [{}, {"cpu_policy": "dedicated", "cpu": 2.0}])
@pytest.mark.parametrize(("run", "status"), [(True, "Running"), (False, "Created")])
def test_it_is_another_object_and_keeps_what_it_holds(cloud, context, policy, run, status):
    before = cloud.run(context, **policy)
    after = rebuild(cloud, context, before, run=run, image="other")
    assert (after.status, after.image, after.status_reason) == (status, "other", None)
    assert after.container_id != before.container_id
    assert after.cpuset == before.cpuset
    found = cloud.drivers["one"].runtime.objects[before.uuid]
    assert (found.container_id, found.cpuset_mems) == (after.container_id, "0")
    if policy:
        assert found.cpuset_cpus == before.cpuset["cpuset_cpus"]
    assert bool(found.pid) is run and image_there(cloud, after) == "other"


@pytest.mark.parametrize("step", ["find_image", "create", "start"])
def test_a_rebuild_that_fails(cloud, context, step):
    before = cloud.run(context)
    cloud.stop_looking("one")  # else late news of the old object, which may run on, end the Error
    cloud.drivers["one"].fail(step, exceptions.DockerError(error="no"))
    after = rebuild(cloud, context, before)
    assert (after.status, after.cpuset) == ("Error", before.cpuset)
    assert "no" in after.status_reason
    again = rebuild(cloud, context, after)
    assert (again.status, again.status_reason) == ("Running", None)


def test_container_without_object_after_rebuild_blocks_nobody(cloud, context):
    """Its CPUs are empty: a dedicated container need not wait for it to leave them."""
    before = cloud.run(context)
    cloud.drivers["one"].fail("create", exceptions.DockerError(error="no"))
    assert rebuild(cloud, context, before).status == "Error"
    dedicated = cloud.run(context, cpu_policy="dedicated", cpu=2.0)
    assert (dedicated.status, dedicated.status_reason) == ("Running", None)


def record(container):
    return container.image, container.image_driver, container.request


@pytest.mark.parametrize("step", ["find_image", "delete"])
def test_record_of_an_old_object_that_runs_on(cloud, context, step):
    """Without the image, or while the old object does not go: what runs is the old one, and the record says so."""
    before = cloud.run(context)
    cloud.stop_looking("one")
    cloud.drivers["one"].fail(step, exceptions.DockerError(error="no"))
    after = rebuild(cloud, context, before, image="other")
    assert (after.status, *record(after)) == ("Error", before.image, before.image_driver, {"run": True})
    assert after.status_reason.startswith("rebuild failed: ") and "no" in after.status_reason
    seen = cloud.look(before)
    assert seen.status == "Running"
    assert record(seen) == (before.image, before.image_driver, {"run": True})
    assert seen.container_id == before.container_id == cloud.drivers["one"].runtime.objects[before.uuid].container_id
    assert seen.started_at == before.started_at
    again = rebuild(cloud, context, seen)
    assert (again.status, again.image) == ("Running", before.image)
    assert again.container_id != before.container_id and image_there(cloud, again) == before.image


def test_record_when_no_object_is_left(cloud, context):
    before = cloud.run(context)
    cloud.drivers["one"].fail("create", exceptions.DockerError(error="no"))
    after = rebuild(cloud, context, before, image="other")
    assert (after.status, *record(after)) == ("Error", before.image, before.image_driver, {"run": True})
    assert before.uuid not in cloud.drivers["one"].runtime.objects
    again = rebuild(cloud, context, after)
    assert (again.status, image_there(cloud, again)) == ("Running", before.image)


def test_record_of_a_new_object_that_does_not_start(cloud, context):
    before = cloud.run(context)
    cloud.drivers["one"].fail("start", exceptions.DockerError(error="no"))
    after = rebuild(cloud, context, before, image="other")
    assert (after.status, *record(after)) == ("Error", "other", "docker", {"run": True})
    assert after.container_id == cloud.drivers["one"].runtime.objects[before.uuid].container_id != before.container_id


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        pytest.param({}, {"committed": "u"}, {"committed": "u"}, id="made-of-a-container"),
        pytest.param({"committed": "u"}, {}, {}, id="of-a-registry-again"),
        pytest.param({"committed": "u"}, None, {"committed": "u"}, id="the-same"),
    ],
)
def test_made_of(before, wanted, after):
    """Which image made of a container it was goes with the image."""
    rebuild = {} if wanted is None else {"rebuild": {"image": "other", "image_driver": "glance", **wanted}}
    container = Container(image="old", image_driver="docker", request={"run": True, **before, **rebuild})
    made_of(container)
    expected = ("old", "docker") if wanted is None else ("other", "glance")
    assert record(container) == (*expected, {"run": True, **after})


@pytest.mark.parametrize(
    ("step", "after"), [("find_image", False), ("delete", False), ("delete", True), ("create", False), ("create", True)]
)
def test_an_agent_that_ends_within_leaves_it_to_the_next(cloud, context, step, after):
    """Its row is as it was at that step, and names the old image until the next agent has made the new object."""
    before, rows = cloud.run(context), []
    cloud.drivers["one"].before(step, lambda container: rows.append(db.get(before.uuid)))
    cloud.drivers["one"].fail(step, exceptions.DockerError(error="no"), after=after)
    rebuild(cloud, context, before, image="other")
    cloud.stop_agent("one")
    (row,) = rows
    assert (row["status"], row["image"]) == ("Rebuilding", before.image)
    db.update(before.uuid, {name: row[name] for name in ("status", "task_state", "image", "request", "container_id")})
    cloud.start_agent("one")
    settled = wait_for(lambda: now if (now := cloud.settled(before)).status == "Running" else None)
    assert record(settled) == ("other", "docker", {"run": True})
    found = cloud.drivers["one"].runtime.objects[before.uuid]
    assert found.image.startswith("other") and settled.container_id == found.container_id != before.container_id


def test_rebuild_accepted_as_another_operation_ends_runs(cloud, context):
    before = cloud.run(context)

    def accept(_):
        accepted(before, image="other")
        cloud.compute_api.rebuild(context, before)

    cloud.drivers["one"].before("stop", accept)
    cloud.compute_api.stop(context, before, timeout=1)
    after = wait_for(lambda: db.get(before.uuid)["image"] == "other" and cloud.settled(before))
    assert after.status == "Running" and after.container_id != before.container_id


def test_a_rebuild_whose_message_was_lost_is_taken_up(cloud, context):
    before = cloud.run(context)
    cloud.stop_agent("one")
    accepted(before, image="other")
    cloud.start_agent("one")
    after = wait_for(lambda: cloud.settled(before))
    assert (after.status, *record(after)) == ("Running", "other", "docker", {"run": True})
    assert after.container_id != before.container_id


def test_a_rebuild_accepted_by_an_older_api_is_done(cloud, context):
    """An API of the release before wrote the image into the row."""
    before = cloud.run(context)
    db.update(before.uuid, {"status": "Rebuilding", "request": {"run": True}, "image": "other"})
    cloud.compute_api.rebuild(context, before)
    after = cloud.settled(before)
    assert (after.status, after.image) == ("Running", "other") and after.container_id != before.container_id
