# SPDX-License-Identifier: Apache-2.0
"""Containers of several hosts take their disk from one pool."""

import pytest

from zun.db import aggregates
from zun.db import containers as db
from zun.tests.fixtures import wait_for
from zun.tests.functional.cloud import Cloud, machine

SMALL = {"cpu": 0.1, "memory": 16}


@pytest.fixture
def cloud(database):
    """Hosts one and two are in a pool of 10 GiB, three is not. The disk of each has 100 GiB by its driver."""
    cloud = Cloud({name: machine(cells=1) for name in ("one", "two", "three")})
    uuid = aggregates.insert("ceph", {"disk_pool_gb": "10"})["uuid"]
    for name in ("one", "two"):
        aggregates.add_host(uuid, name)
    yield cloud
    cloud.stop()


def on_pool(**more):
    """A container that may only come to the hosts of the pool."""
    return {**SMALL, **more, "placement": {"member_of": [[aggregates.find("ceph")["uuid"]]]}}


def test_hosts_of_a_pool_divide_it(cloud, context):
    made = [cloud.run(context, disk=4, **on_pool()) for _ in range(3)]
    assert [each.status for each in made] == ["Running", "Running", "Error"], [each.status_reason for each in made]
    assert "disk pool ceph has 2 GiB of disk left of the 4 that are wanted" in made[2].status_reason
    assert cloud.run(context, disk=2, **on_pool()).status == "Running"
    assert sum(db.disk_holders(["one", "two"]).values()) == 10
    assert cloud.run(context, disk=4, **SMALL).host == "three"
    cloud.compute_api.delete(context, made[0], force=True)
    cloud.gone(made[0])
    assert cloud.run(context, disk=4, **on_pool()).status == "Running"


def test_agent_refuses_what_a_stale_scheduler_sends(cloud, context):
    """The scheduler believes that the pool is larger; the claim does not."""
    cloud.scheduler.table.refresh()
    table = cloud.scheduler.table
    table.refresh = table.catch_up = lambda *_: True
    uuid = aggregates.find("ceph")["uuid"]
    aggregates.update(uuid, metadata={"disk_pool_gb": "3"})
    container = cloud.run(context, disk=4, **on_pool())
    assert container.status == "Error"
    assert "disk pool ceph has 3 GiB of disk left of the 4" in container.status_reason


def test_host_that_leaves_the_pool_has_its_own_disk(cloud, context):
    first = cloud.run(context, disk=8, **on_pool())
    aggregates.remove_host("ceph", first.host)
    wait_for(lambda: cloud.run(context, disk=8, **on_pool()).status == "Running")
    assert cloud.scheduler.table.host(first.host).disk_used == 8
