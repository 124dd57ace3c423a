# SPDX-License-Identifier: Apache-2.0
"""Hosts whose names are not what they should be."""

import logging
from dataclasses import replace

import pytest

from zun.common import exceptions
from zun.compute.service import ComputeService
from zun.container.fake import InMemoryDriver
from zun.db import compute_nodes, services
from zun.db import containers as db
from zun.network.fake import InMemoryNetworks
from zun.objects import Container
from zun.tests.fixtures import wait_for
from zun.tests.functional.capsules import member, settled, submit
from zun.tests.functional.cloud import cloud_of, machine
from zun.topology import CpuSet
from zun.topology.cpuset import union
from zun.volume.fake import InMemoryVolumeDriver

cloud = cloud_of({"one": machine()}, compute__heartbeat_interval=1)


@pytest.fixture
def renamed(cloud, monkeypatch):
    """Gives the host another name, the second time that it starts."""
    driver = cloud.drivers["one"]
    # Rows have the agent's name, and the runtime that of its driver.
    monkeypatch.setattr(driver, "host_facts", replace(driver.host_facts, name="one"))

    def rename():
        cloud.stop_agent("one")
        services.destroy("one", "zun-compute")
        table = cloud.scheduler.table
        wait_for(lambda: table.refresh() or table.host("one").service is None)  # nothing more is sent there
        facts = replace(driver.host_facts, name="another")
        cloud.machines["another"], cloud.drivers["another"] = machine(), InMemoryDriver(facts, runtime=driver.runtime)
        return cloud.start_agent("another")

    return rename


def test_a_host_that_was_renamed_says_what_it_leaves_alone(cloud, context, renamed, caplog):
    driver = cloud.drivers["one"]
    there = [cloud.run(context) for _ in range(2)]
    renamed()
    old = driver.host_facts.name
    assert f"The runtime has 2 containers of host {old}, which this one (another) does not touch" in caplog.text
    assert {*driver.list()} == {each.uuid for each in there}


def test_renamed_host_spares_dedicated_cpus_of_old_containers(cloud, context, renamed):
    """They are spared while such a container exists: running, stopped, or the rest of a capsule."""
    driver = cloud.drivers["one"]
    running, stopped = (cloud.run(context, cpu_policy="dedicated", cpu=1.0) for _ in range(2))
    cloud.run(context, cpu=2.0)  # on all CPUs that are left, as everybody else is
    capsule, (member_row,) = settled(cloud, submit(cloud, context, member(1.0)), "Running")
    driver.exit(stopped.uuid)
    driver.delete(Container.from_row(context, capsule), force=True)
    agent = renamed()
    assert capsule["uuid"] not in driver.list() and member_row["uuid"] in driver.list()
    shared = cloud.run(context, cpu=1.0)
    dedicated = [cloud.run(context, cpu_policy="dedicated", cpu=1.0) for _ in range(4)]
    assert [each.host for each in (shared, *dedicated)] == ["another"] * 5
    spared = union(CpuSet(each["cpuset"]["cpuset_cpus"]) for each in (running, stopped, capsule))
    given = union(CpuSet(each.cpuset["cpuset_cpus"]) for each in dedicated)
    assert (len(spared), len(given), spared & given) == (3, 4, CpuSet(""))
    assert CpuSet(cloud.drivers["another"].runtime.objects[shared.uuid].cpuset_cpus) == CpuSet("0-7") - spared - given
    assert cloud.run(context, cpu_policy="dedicated", cpu=1.0).status == "Error", "one is left to the shared ones"
    driver.delete(stopped, force=True)  # by whoever cleans up
    agent._update_inventory()
    freed = cloud.run(context, cpu_policy="dedicated", cpu=1.0)
    assert (freed.status, freed.cpuset["cpuset_cpus"]) == ("Running", stopped.cpuset["cpuset_cpus"])


def test_two_agents_of_one_runtime_say_so(cloud, context, renamed, caplog):
    """Once, however many containers the other one makes; and not because of what one has left."""
    cloud.run(context)
    agent = renamed()
    agent._update_inventory()
    assert "Another zun-compute" not in caplog.text
    driver = cloud.drivers["one"]
    facts = replace(driver.host_facts, name="third")
    cloud.machines["third"], cloud.drivers["third"] = machine(), InMemoryDriver(facts, runtime=driver.runtime)
    cloud.start_agent("third")
    for _ in range(2):
        made = cloud.run(context, request={"run": True, "host": "third"})
        assert made.status == "Running"
        agent._update_inventory()
    assert caplog.text.count("Another zun-compute works with the same runtime, as host third") == 1


@pytest.mark.parametrize(("cores", "status"), [(2, "Error"), (16, "Running")])
def test_a_host_with_other_hardware_under_its_old_name(cloud, context, cores, status):
    """And with an empty runtime: the machine was replaced. Where the CPUs are held by who was there, nobody is made."""
    lost = cloud.run(context, cpu_policy="dedicated", cpu=4.0)
    healed = cloud.run(context, cpu=0.5, auto_heal=True)
    generation = compute_nodes.find("one")["generation"]
    cloud.stop_agent("one")
    del cloud.drivers["one"]
    cloud.machines["one"] = machine(cells=1, cores=cores)
    cloud.start_agent("one")
    node = compute_nodes.find("one")
    assert node["cpus"] == cores and node["generation"] > generation
    wait_for(lambda: db.get(lost.uuid)["status"] == "Error")
    there = {healed.uuid} if status == "Running" else set()
    wait_for(lambda: db.get(healed.uuid)["status"] == status and {*cloud.drivers["one"].list()} == there)
    db.update(lost.uuid, {"status": "Deleting"})
    cloud.compute_api.delete(context, lost, force=True)
    cloud.gone(lost)
    another = cloud.run(context, cpu_policy="dedicated", cpu=float(cores - 1))
    assert (another.status, another.status_reason) == ("Running", None)


def test_two_agents_of_one_name_say_so(cloud, caplog):
    caplog.set_level(logging.ERROR, logger="zun.compute.service")
    assert "Another zun-compute" not in caplog.text
    other = ComputeService(
        cloud.conf,
        InMemoryDriver(),
        InMemoryNetworks(),
        host="one",
        machine=lambda: machine(cells=1),
        volumes=InMemoryVolumeDriver().as_volumes(),
    )
    other.start(cloud.transport)
    try:
        wait_for(lambda: caplog.text.count("Another zun-compute runs as host one") >= 2, seconds=60)
    finally:
        other.stop()


def test_agent_starts_after_two_agents_gave_one_cpu_twice(cloud, context, caplog):
    """Nobody else gets the CPU before both are gone."""
    one = {"cpu_policy": "dedicated", "cpu": 1.0}
    first, second = cloud.run(context, **one), cloud.run(context, **one)
    cloud.stop_agent("one")
    db.update(second.uuid, {"cpuset": db.get(first.uuid)["cpuset"]})
    agent = cloud.start_agent("one")
    assert f"CPU 0 belongs to containers {first.uuid}, {second.uuid}: delete all but one of them." in caplog.text
    assert agent.tracker.usage.held_twice == CpuSet("0")
    wait_for(lambda: cloud.drivers["one"].runtime.objects[second.uuid].cpuset_cpus == "0")  # as the rows say
    with pytest.raises(exceptions.Conflict, match="Delete one of the two"):
        cloud.compute_api.update(context, second, cpu=2.0, memory=None)

    def place():
        """The CPUs of all others that find room."""
        found = [cloud.run(context, **one) for _ in range(8)]
        cpus = union(CpuSet(each.cpuset["cpuset_cpus"]) for each in found if each.status == "Running")
        for each in found:
            if not db.destroy_unplaced(each.uuid):
                cloud.compute_api.delete(context, Container.get_by_uuid(context, each.uuid), force=True)
            cloud.gone(each)
        return cpus

    for last in (first, second):
        assert place() == CpuSet("1-7")
        cloud.compute_api.delete(context, Container.get_by_uuid(context, last.uuid), force=True)
        cloud.gone(last)
    assert place() == CpuSet("0-7")
    assert "Traceback" not in caplog.text
