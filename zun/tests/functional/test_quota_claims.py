# SPDX-License-Identifier: Apache-2.0
"""A claim charges what is unknown before it: CPUs that a container keeps idle, and volumes that it makes."""

import pytest

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.mounts import Kind as MountKind
from zun.common.mounts import Mount
from zun.common.states import Kind
from zun.db import containers as db
from zun.db import quotas
from zun.db import volumes as db_volumes
from zun.tests.fixtures import wait_for
from zun.tests.functional.capsules import member, settled, submit
from zun.tests.functional.cloud import cloud_of, machine
from zun.volume.runtime import volume_name

DATA = [Mount(MountKind.VOLUME, "/data", "data").to_dict()]
LIMITS = dict.fromkeys(quotas.RESOURCES, -1)
ALONE = {"cpu_policy": "dedicated", "cpu": 1.0, "memory": 64, "placement": {"cpu_isolation": "node"}}

cloud = cloud_of({"one": machine(cells=1, cores=4, threads=2)}, websocket_proxy__wsproxy_port=0)


def limited(**limits):
    return {"request": {"run": True, "quota": LIMITS | limits}}


def held(cloud):
    return cloud.agents["one"].tracker.usage.held_cpus


@pytest.mark.parametrize(
    ("wanted", "charged"),
    [
        ({"cpu_isolation": "node"}, 8),
        ({"cpu_isolation": "l3"}, 8),
        ({"cpu_isolation": "core"}, 2),
        ({"cpu_thread_policy": "isolate"}, 2),
        ({}, 1),
    ],
)
def test_a_dedicated_container_pays_for_what_it_keeps_idle(cloud, context, wanted, charged):
    container = cloud.run(context, **{**ALONE, "placement": wanted}, **limited(cpu=charged))
    assert (container.status, quotas.usage("demo")["cpu"]) == ("Running", charged)
    cloud.compute_api.delete(context, container, force=True)
    cloud.gone(container)
    assert quotas.usage("demo")["cpu"] == 0


def test_a_claim_over_the_quota_ends_in_error_and_holds_nothing(cloud, context):
    container = cloud.run(context, **ALONE, **limited(cpu=7))
    assert (container.status, container.host, container.cpuset) == ("Error", None, None)
    assert "Quota exceeded for project demo: cpu: limit 7, in use 1, asked for 7 more" in container.status_reason
    assert not held(cloud)
    assert (db.get(container.uuid)["withheld_cpu"], quotas.usage("demo")["cpu"]) == (0, 1)
    assert cloud.run(context, cpu_policy="dedicated", cpu=6.0, memory=64).status == "Running"


def test_a_capsule_pays_for_what_it_keeps_idle(cloud, context):
    asked = {"placement": {"cpu_isolation": "node"}}
    row, _ = settled(cloud, submit(cloud, context, member(1.0), **asked, **limited(cpu=7)), "Error")
    assert "cpu: limit 7, in use 1, asked for 7 more" in row["status_reason"]
    row, _ = settled(cloud, submit(cloud, context, member(1.0), **asked, **limited(cpu=9)), "Running")
    assert quotas.usage("demo")["cpu"] == 9


def test_a_resize_pays_for_the_cores_that_it_takes(cloud, context):
    one = {"cpu_isolation": "core"}
    container = cloud.run(context, **{**ALONE, "placement": one}, **limited())
    with pytest.raises(exceptions.OverQuota, match="cpu: limit 3, in use 2, asked for 2 more"):
        cloud.compute_api.update(context, container, cpu=3.0, quota=LIMITS | {"cpu": 3})
    assert (quotas.usage("demo")["cpu"], len(held(cloud))) == (2, 2)
    cloud.compute_api.update(context, container, cpu=3.0, quota=LIMITS | {"cpu": 4})
    assert (quotas.usage("demo")["cpu"], len(held(cloud))) == (4, 4)


def test_a_volume_over_the_quota_is_not_made(cloud, context):
    container = cloud.run(context, mounts=DATA, **limited(volumes=0))
    assert (container.status, container.host) == ("Error", None)
    assert "volumes: limit 0, in use 0, asked for 1 more" in container.status_reason
    assert db_volumes.hosts("demo", ["data"]) == {}


def unused_volume(cloud, context):
    """The uuid of a volume whose container is gone."""
    container = cloud.run(context, mounts=DATA)
    cloud.compute_api.delete(context, container, force=True)
    cloud.gone(container)
    owner = RequestContext(user_id="alice", project_id="demo")
    return db_volumes.find(owner, "data")["uuid"]


def volume_is_gone():
    return db_volumes.hosts("demo", ["data"]) == {}


def test_a_deleted_volume_is_removed_by_its_host(cloud, context):
    uuid = unused_volume(cloud, context)
    cloud.compute_api.remove_volumes(context, "one")
    db_volumes.begin_to_delete(uuid)
    cloud.compute_api.remove_volumes(context, "one")
    wait_for(volume_is_gone)
    assert cloud.drivers["one"].removed_volumes == [volume_name("demo", "data")]
    assert cloud.run(context, mounts=DATA).status == "Running"


def test_a_volume_whose_message_was_lost_is_removed(cloud, context):
    db_volumes.begin_to_delete(unused_volume(cloud, context))
    assert "being deleted" in cloud.run(context, mounts=DATA).status_reason
    cloud.compared("one", volume_is_gone)


def test_a_volume_that_cannot_be_removed_is_tried_again(cloud, context):
    cloud.drivers["one"].fail("remove_volume", exceptions.Conflict("in use"))
    db_volumes.begin_to_delete(unused_volume(cloud, context))
    cloud.compute_api.remove_volumes(context, "one")
    cloud.compared("one", volume_is_gone)
    assert len(cloud.drivers["one"].removed_volumes) == 1


def test_terminals_of_a_project_have_a_limit(cloud, context):
    container = cloud.run(context, interactive=True, tty=True)
    quotas.set_limits("demo", {"terminals": 1})
    cloud.compute_api.attach(context, container)
    with pytest.raises(exceptions.OverQuota, match="terminals: limit 1, in use 1"):
        cloud.compute_api.attach(context, container)
    with pytest.raises(exceptions.OverQuota, match="terminals: limit 1, in use 1"):
        cloud.compute_api.prepare_exec(context, container, ["sh"], interactive=True)
    assert cloud.drivers["one"].commands == {}


def test_members_of_capsules_keep_nothing_idle_of_their_own(cloud, context):
    uuid = submit(cloud, context, member(1.0), member(1.0), placement={"cpu_isolation": "core"}, **limited())
    row, members = settled(cloud, uuid, "Running")
    assert row["kind"] == Kind.CAPSULE and {each["withheld_cpu"] for each in members} == {0}
