# SPDX-License-Identifier: Apache-2.0
"""Mounts through scheduler and hosts: where volumes keep their containers, and what disk they take."""

import pytest

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.mounts import Kind, Mount
from zun.db import compute_nodes
from zun.db import containers as db
from zun.db import volumes as db_volumes
from zun.tests.fixtures import wait_for
from zun.tests.functional.cloud import cloud_of, machine

DATA = [Mount(Kind.VOLUME, "/data", "data").to_dict()]
LOCAL = [Mount(Kind.LOCAL, "/scratch", size_mib=1500).to_dict()]

cloud = cloud_of({"one": machine(), "two": machine()})


def at(host):
    return {"run": True, "host": host}


def test_a_volume_is_where_it_was_first_mounted(cloud, context):
    first = cloud.run(context, mounts=DATA, request=at("two"))
    assert (first.status, first.host) == ("Running", "two")
    assert db_volumes.hosts("demo", ["data", "other"]) == {"data": "two"}
    # Chosen before the volume was anywhere: the claim finds it out, and the next host is tried.
    late = cloud.run(context, mounts=DATA, request=at("one"))
    assert late.status == "Error" and "volume data of the project is on another host" in late.status_reason
    assert (late.host, late.cpuset) == (None, None)
    wandering = [cloud.run(context, mounts=DATA) for _ in range(3)]
    assert {each.host for each in wandering} == {"two"}
    # The same name in another project is another volume.
    other = RequestContext(user_id="bob", project_id="other", roles=["member"])
    assert cloud.run(other, mounts=DATA, request=at("one")).host == "one"
    # It stays when its containers go.
    for container in (first, *wandering):
        cloud.compute_api.delete(context, container, force=True)
        cloud.gone(container)
    assert db_volumes.hosts("demo", ["data"]) == {"data": "two"}
    assert wait_for(lambda: not any(owner == first.uuid for owner, _ in cloud.volumes["two"].made))


def test_local_mounts_are_made_counted_and_removed(cloud, context):
    container = cloud.run(context, mounts=LOCAL, volume_disk=2, disk=3, request=at("one"))
    assert container.status == "Running"
    assert cloud.volumes["one"].made == {(container.uuid, 0): Mount.from_dict(LOCAL[0])}
    mounted = cloud.drivers["one"].runtime.objects[container.uuid].mounts
    assert [(each.kind, each.target) for each in mounted] == [("bind", "/scratch")]
    assert compute_nodes.usage(["one"])["one"].disk == 5
    cloud.scheduler.table.refresh()
    assert cloud.scheduler.table.host("one").disk_used == 5
    cloud.stop_agent("one")
    agent = cloud.start_agent("one")
    assert sum(agent.tracker._disks.values()) == 5
    assert cloud.volumes["one"].restored == [(container.uuid, 0)]
    cloud.compute_api.delete(context, container, force=True)
    cloud.gone(container)
    assert cloud.volumes["one"].made == {}


BUSY = exceptions.VolumeError(mount="/scratch", reason="umount: target is busy")


def test_deletion_fails_if_a_mount_cannot_be_removed(cloud, context):
    container = cloud.run(context, mounts=LOCAL, volume_disk=2, request=at("one"))
    cloud.volumes["one"].stuck = BUSY
    cloud.compute_api.stop(context, container, timeout=0)
    container = wait_for(lambda: (now := cloud.settled(container)).status == "Stopped" and now)
    cloud.compute_api.delete(context, container, force=False)
    failed = wait_for(lambda: (now := cloud.settled(container)).status == "Error" and now)
    assert failed.status_reason == "It could not be deleted: Mount /scratch: umount: target is busy"
    assert compute_nodes.usage(["one"])["one"].disk == 2
    cloud.volumes["one"].stuck = None
    cloud.compute_api.delete(context, container, force=False)
    cloud.gone(container)
    assert cloud.volumes["one"].made == {}


@pytest.mark.parametrize("restarted", [False, True])
def test_forced_deletion_retries_a_mount_that_is_busy(cloud, context, restarted):
    container = cloud.run(context, mounts=LOCAL, volume_disk=2, request=at("one"))
    cloud.volumes["one"].stuck = BUSY
    cloud.compute_api.delete(context, container, force=True)
    wait_for(lambda: db.get(container.uuid)["kind"] == "leftover")
    assert compute_nodes.usage(["one"])["one"].disk == 2
    (finding,) = cloud.compute_api.audit(context, "one", repair=False)["findings"]
    assert (finding["code"], finding["container"]) == ("leftover", container.uuid)
    if restarted:
        cloud.stop_agent("one")
    cloud.volumes["one"].stuck = None
    if restarted:
        cloud.start_agent("one")
    else:
        cloud.agents["one"]._compare()
    cloud.gone(container)
    assert cloud.volumes["one"].made == {}
    assert (compute_nodes.usage(["one"]), cloud.drivers["one"].list()) == ({}, {})


def test_busy_mount_of_failed_creation_stays_until_deletion(cloud, context):
    cloud.volumes["one"].stuck = BUSY
    cloud.drivers["one"].fail("start", exceptions.DockerError(error="no"))
    container = cloud.run(context, mounts=LOCAL, volume_disk=2, request=at("one"))
    assert (container.status, container.host) == ("Error", "one")
    cloud.volumes["one"].stuck = None
    cloud.compute_api.delete(context, container, force=False)
    cloud.gone(container)
    assert cloud.volumes["one"].made == {}


def test_a_mount_that_cannot_be_made_is_an_error_that_says_so(cloud, context):
    cloud.volumes["one"].failure = exceptions.VolumeError(mount="/scratch", reason="mkfs.ext4: no space left")
    container = cloud.run(context, mounts=LOCAL, request=at("one"))
    assert container.status == "Error" and "no space left" in container.status_reason
    assert (container.cpuset, cloud.volumes["one"].made, cloud.drivers["one"].list()) == (None, {}, {})
