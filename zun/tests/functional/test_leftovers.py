# SPDX-License-Identifier: Apache-2.0
"""Containers that were deleted by force, while their host may run them all the same."""

import pytest

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.db import capsules, compute_nodes, groups, networks, quotas, registries, services
from zun.db import containers as db
from zun.objects import Container
from zun.tests.fixtures import wait_for
from zun.tests.functional.capsules import member, settled, submit
from zun.tests.functional.cloud import Cloud, machine
from zun.tests.functional.networks import network
from zun.topology import CpuSet

TWO = {"cpu_policy": "dedicated", "cpu": 2.0}


@pytest.fixture
def cloud(database):
    options = {"compute__audit_interval": 0, "compute__sync_container_state_interval": 3600}
    cloud = Cloud({"one": machine(cells=1)}, **options, scheduler__sweep_interval=3600)
    yield cloud
    cloud.stop()


@pytest.fixture
def stuck(cloud):
    """A set of the uuids of the containers that the runtime fails to remove."""
    found = set()

    def fail(container):
        if container.uuid in found:
            raise exceptions.DockerError(error="busy")

    cloud.drivers["one"].before("delete", fail)
    return found


@pytest.fixture
def leftover(cloud, context, stuck):
    """A container that is deleted and stuck."""
    container = cloud.run(context, **TWO)
    stuck.add(container.uuid)
    delete(cloud, context, container)
    return container


def delete(cloud, context, container):
    cloud.compute_api.delete(context, container, force=True)
    gone(context, container)
    wait_for(lambda: not cloud.agents["one"].queue.busy())


def gone(context, container):
    """Wait until its project, or an administrator, has it no more."""

    def seen(who):
        try:
            return Container.get_by_ident(who, container.uuid)
        except exceptions.ContainerNotFound:
            return None

    wait_for(lambda: not seen(context))
    assert not seen(RequestContext(user_id="root", project_id="admin", roles=["admin"], is_admin=True))


def running(cloud, uuid):
    found = cloud.drivers["one"].runtime.objects.get(uuid)
    return found is not None and bool(found.pid)


def cpus(cloud, uuid):
    return CpuSet(cloud.drivers["one"].runtime.objects[uuid].cpuset_cpus)


@pytest.mark.parametrize("restarted", [False, True])
def test_it_keeps_its_cpus_until_it_is_gone(cloud, context, stuck, leftover, restarted):
    if restarted:
        cloud.stop_agent("one")
        cloud.start_agent("one")
    assert running(cloud, leftover.uuid)
    other = cloud.run(context, **TWO)
    assert other.status == "Running" and not cpus(cloud, other.uuid) & cpus(cloud, leftover.uuid)
    assert cloud.run(context, **TWO).status == "Error", "four CPUs, and four are held"
    stuck.clear()
    cloud.drivers["one"].join_events()  # a comparison
    cloud.gone(leftover)
    assert not running(cloud, leftover.uuid)
    assert cloud.run(context, **TWO).status == "Running"


def test_nothing_of_its_project_is_bound_to_it(cloud, context, stuck):
    group = groups.insert({"uuid": "g", "name": "g", "project_id": "demo", "policy": "affinity", "rules": {}})
    net = network("n")
    registry = registries.insert({"project_id": "demo", "domain": "own.io"})
    container = cloud.run(
        context, group_uuid=group["uuid"], nets=[net], registry_id=registry["uuid"], **TWO
    )
    assert container.status == "Running", container.status_reason
    assert quotas.usage("demo")["containers"] == 1
    stuck.add(container.uuid)
    delete(cloud, context, container)
    assert running(cloud, container.uuid)
    assert quotas.usage("demo", quotas.SIZES) == {"containers": 0, "cpu": 0.0, "memory": 0, "disk": 0}
    groups.destroy(group["uuid"])
    registries.destroy(registry["uuid"])
    networks.destroy(net)


def test_capsule_keeps_its_claim_until_every_member_is_gone(cloud, context, stuck):
    uuid = submit(cloud, context, member(2.0), member(1.0))
    capsule, members = settled(cloud, uuid, "Running")
    capsule = Container.from_row(context, capsule)
    stuck.add(members[0]["uuid"])
    cloud.compute_api.delete(context, capsule, force=True)
    wait_for(lambda: db.get(uuid)["kind"] == "leftover" and not cloud.agents["one"].queue.busy())
    with pytest.raises(exceptions.NotFound):
        capsules.find(context, uuid, all_projects=True)
    assert [running(cloud, each["uuid"]) for each in members] == [True, False]
    assert cloud.run(context, **TWO).status == "Error"
    stuck.clear()
    cloud.drivers["one"].join_events()
    cloud.gone(capsule)
    assert cloud.drivers["one"].list() == {} and cloud.run(context, **TWO).status == "Running"


def test_the_audit_names_it(cloud, context, stuck, leftover):
    answer = cloud.compute_api.audit(context, "one", repair=True)
    (finding,) = answer["findings"]
    assert (finding["code"], finding["container"], finding["repaired"]) == ("leftover", leftover.uuid, False)
    assert answer["containers"] == {"ok": 0, "leftover": 1}
    stuck.clear()
    cloud.drivers["one"].join_events()
    cloud.gone(leftover)
    assert cloud.compute_api.audit(context, "one", repair=True)["findings"] == []


def test_audit_reports_a_capsule_with_only_a_member_left(cloud, context, stuck):
    uuid = submit(cloud, context, member(1.0), member(1.0))
    capsule, members = settled(cloud, uuid, "Running")
    stuck.add(members[0]["uuid"])
    cloud.compute_api.delete(context, Container.from_row(context, capsule), force=True)
    wait_for(lambda: db.get(uuid)["kind"] == "leftover" and not cloud.agents["one"].queue.busy())
    objects = cloud.drivers["one"].runtime.objects
    del objects[uuid]  # somebody at the runtime's command line
    (finding,) = cloud.compute_api.audit(context, "one", repair=False)["findings"]
    assert (finding["code"], finding["container"]) == ("leftover", uuid)
    assert objects[members[0]["uuid"]].container_id in finding["detail"]


def test_a_deletion_that_comes_again_is_tried_again(cloud, context, stuck, leftover):
    tried = []
    cloud.drivers["one"].before("delete", tried.append)
    stuck.clear()
    cloud.drivers["one"].fail("delete", exceptions.DockerError(error="busy"))
    cloud.compute_api.delete(context, leftover, force=False)
    wait_for(lambda: tried and not cloud.agents["one"].queue.busy())
    assert (db.get(leftover.uuid)["status"], db.get(leftover.uuid)["kind"]) == ("Deleting", "leftover")
    cloud.compute_api.delete(context, leftover, force=False)
    cloud.gone(leftover)


def test_only_what_an_administrator_has_given_up_is_abandoned(cloud, context):
    """The scheduler's part: a host whose compute service was deleted never comes back, or does and removes it."""
    container, other = cloud.run(context, **TWO), cloud.run(context, **TWO)
    cloud.stop_agent("one")
    db.update(container.uuid, {"status": "Deleting"})
    services.update("one", "zun-compute", {"forced_down": True})
    cloud.scheduler.endpoint.abandon()
    assert Container.get_by_ident(context, container.uuid).status == "Deleting"
    services.destroy("one", "zun-compute")
    for _ in range(2):
        cloud.scheduler.endpoint.abandon()
        gone(context, container)
    assert Container.get_by_ident(context, other.uuid).status == "Running"
    assert running(cloud, container.uuid)
    cloud.start_agent("one")
    cloud.gone(container)
    assert not running(cloud, container.uuid) and running(cloud, other.uuid)


def test_retired_host_is_removed_and_may_come_back(cloud, context, stuck):
    """A host is removed after its service and its last container are gone and it stopped writing."""
    def listed():
        return [row["hostname"] for row in compute_nodes.page(limit=9)]

    container = cloud.run(context, **TWO)
    cloud.stop_agent("one")
    cloud.scheduler.endpoint.retire(0)
    assert listed() == ["one"], "it has a service"
    services.destroy("one", "zun-compute")
    cloud.scheduler.endpoint.retire(0)
    assert listed() == ["one"], "it has a container"
    db.update(container.uuid, {"status": "Deleting"})
    cloud.scheduler.endpoint.abandon()
    cloud.scheduler.endpoint.retire(3600)
    assert listed() == ["one"], "it wrote a moment ago"
    cloud.scheduler.endpoint.retire(0)
    assert listed() == [] and db.get(container.uuid)["kind"] == "leftover"
    wait_for(lambda: cloud.scheduler.table.refresh() or not cloud.scheduler.table.hosts())
    assert "no compute host" in cloud.run(context, **TWO).status_reason
    assert running(cloud, container.uuid)
    stuck.add(container.uuid)
    cloud.start_agent("one")
    others = [cloud.run(context, **TWO) for _ in range(2)]
    assert listed() == ["one"]
    assert [each.status for each in others] == ["Running", "Error"], "what runs there still keeps its CPUs"
    assert not cpus(cloud, others[0].uuid) & cpus(cloud, container.uuid)
    stuck.clear()
    cloud.drivers["one"].join_events()
    cloud.gone(container)
    assert cloud.run(context, **TWO).status == "Running"


def test_deletion_accepted_during_failed_creation_completes(cloud, context):
    """The host would have heard of it, but it was killed. Nothing of the container is there any more."""
    cloud.drivers["one"].fail("create", exceptions.DockerError(error="full"), times=2)
    container, capsule = cloud.run(context).uuid, submit(cloud, context, member(1.0))
    settled(cloud, capsule, "Error")
    for uuid in (container, capsule):
        assert db.get(uuid)["host"] is None
        db.update(uuid, {"status": "Deleting"})  # as the API does, which had read the row when a host had it
    cloud.scheduler.endpoint.abandon()
    for uuid in (container, capsule):
        with pytest.raises(exceptions.ContainerNotFound):
            db.get(uuid)
    assert capsules.members([capsule]) == {capsule: []}
