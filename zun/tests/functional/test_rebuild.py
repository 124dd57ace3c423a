# SPDX-License-Identifier: Apache-2.0
"""A container made anew, over real messages, with a runtime in memory."""

import pytest

from zun.common import exceptions
from zun.db import containers as db
from zun.tests.fixtures import wait_for


def rebuild(cloud, context, container, *, run=True, **fields):
    """Do what the API does, and wait for the end."""
    db.update(container.uuid, {"status": "Rebuilding", "request": {"run": run}, **fields})
    cloud.compute_api.rebuild(context, container)
    return wait_for(lambda: cloud.settled(container))


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
    assert bool(found.pid) is run


@pytest.mark.parametrize("step", ["find_image", "create", "start"])
def test_a_rebuild_that_fails(cloud, context, step):
    before = cloud.run(context)
    cloud.drivers["one"].fail(step, exceptions.DockerError(error="no"))
    after = rebuild(cloud, context, before)
    assert (after.status, after.cpuset) == ("Error", before.cpuset)
    assert "no" in after.status_reason
    again = rebuild(cloud, context, after)
    assert (again.status, again.status_reason) == ("Running", None)


def test_what_a_failed_rebuild_left_without_an_object_stands_in_nobodys_way(cloud, context):
    """Its CPUs are empty: a dedicated container need not wait for it to leave them."""
    before = cloud.run(context)
    cloud.drivers["one"].fail("create", exceptions.DockerError(error="no"))
    assert rebuild(cloud, context, before).status == "Error"
    dedicated = cloud.run(context, cpu_policy="dedicated", cpu=2.0)
    assert (dedicated.status, dedicated.status_reason) == ("Running", None)


def test_without_the_image_the_old_object_stays(cloud, context):
    before = cloud.run(context)
    cloud.drivers["one"].fail("find_image", exceptions.ImageNotFound(image="nothing"))
    rebuild(cloud, context, before)
    assert cloud.drivers["one"].runtime.objects[before.uuid].container_id == before.container_id


def test_one_that_is_accepted_while_something_else_ends_is_done(cloud, context):
    before = cloud.run(context)

    def accept(_):
        db.update(before.uuid, {"status": "Rebuilding", "request": {"run": True}, "image": "other"})
        cloud.compute_api.rebuild(context, before)

    cloud.drivers["one"].before("stop", accept)
    cloud.compute_api.stop(context, before, timeout=1)
    after = wait_for(lambda: db.get(before.uuid)["image"] == "other" and cloud.settled(before))
    assert after.status == "Running" and after.container_id != before.container_id


def test_a_rebuild_whose_message_was_lost_is_taken_up(cloud, context):
    before = cloud.run(context)
    cloud.stop_agent("one")
    db.update(before.uuid, {"status": "Rebuilding", "image": "other"})
    cloud.start_agent("one")
    after = wait_for(lambda: cloud.settled(before))
    assert after.status == "Running" and after.container_id != before.container_id
