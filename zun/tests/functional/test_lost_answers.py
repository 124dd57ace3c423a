# SPDX-License-Identifier: Apache-2.0
"""A database that commits and does not get to say so: what is held here is what the row says, and nobody's else."""

import pytest
from oslo_db import exception as db_exc

from zun.db import containers as db
from zun.objects import Container
from zun.objects.placement import held_plan
from zun.tests.fixtures import wait_for
from zun.tests.functional.cloud import without
from zun.topology import CpuSet

TWO = {"cpu_policy": "dedicated", "cpu": 2.0}


@pytest.fixture
def lose(monkeypatch):
    """Lose the answer to the next call of a function of ``zun.db.containers``."""

    def lose(name):
        real = getattr(db, name)

        def once(*args, **kwargs):
            monkeypatch.setattr(db, name, real)
            real(*args, **kwargs)
            raise db_exc.DBConnectionError("gone away")

        monkeypatch.setattr(db, name, once)

    return lose


def compared(cloud, uuid):
    """Compare everything; gives the CPUs that the container has at the runtime once all that know of them agree."""
    driver, tracker = cloud.drivers["one"], cloud.agents["one"].tracker
    driver.join_events()

    def agreed():
        plan, found = held_plan(db.get(uuid)), driver.runtime.objects.get(uuid)
        return found is not None and not tracker.disagrees(uuid, plan) and found.cpuset_cpus == str(plan.cpus)

    wait_for(agreed)
    return CpuSet(driver.runtime.objects[uuid].cpuset_cpus)


@pytest.mark.parametrize(("before", "after"), [(1.0, 2.0), (2.0, 1.0)])
def test_a_resize(cloud, context, lose, before, after):
    container = cloud.run(context, cpu_policy="dedicated", cpu=before)
    lose("change_claim")
    with pytest.raises(db_exc.DBConnectionError):
        cloud.compute_api.update(context, container, cpu=after, memory=None)
    other = cloud.run(context, **TWO)  # before anybody has compared
    cpus = compared(cloud, container.uuid)
    assert len(cpus) == after and not cpus & held_plan(other).cpus


@pytest.mark.parametrize("policy", ["shared", "dedicated"])
@pytest.mark.parametrize(("cpu", "memory"), [(3.0, 96), (2.0, 96), (3.0, 64), (1.0, 32)])
def test_a_resize_that_a_restart_cut_off_has_not_been(cloud, context, policy, cpu, memory):
    """The runtime was told, and the row was not."""
    driver = cloud.drivers["one"]
    container = cloud.run(context, cpu_policy=policy, cpu=2.0, memory=64)
    before = driver.show(container)
    cloud.stop_agent("one")
    cpus = "0-2" if policy == "dedicated" and cpu != 2.0 else before.cpuset_cpus
    driver.update(container, cpu=cpu, memory=memory, cpuset_cpus=cpus)
    cloud.start_agent("one")
    assert driver.show(container) == before
    driver.updates.clear()
    cloud.stop_agent("one")
    cloud.start_agent("one")
    assert driver.updates == []


def test_container_with_offline_cpu_leaves_cpus_of_others(cloud, context):
    """Docker refuses a list with CPUs that are offline, so that it would stay where the resize had brought it."""
    container = cloud.run(context, cpu_policy="dedicated", cpu=2.0)
    cloud.stop_agent("one")
    cloud.drivers["one"].update(container, cpuset_cpus="0-3")
    whole = cloud.machines["one"]
    cloud.machines["one"] = without(whole, CpuSet("1"))
    cloud.drivers["one"]._cpus = cloud.machines["one"].cpus
    cloud.start_agent("one")
    assert held_plan(db.get(container.uuid)).cpus == CpuSet("0-1")
    assert cloud.drivers["one"].show(container).cpuset_cpus == "0"
    cloud.stop_agent("one")
    cloud.machines["one"] = whole
    cloud.drivers["one"]._cpus = whole.cpus
    cloud.start_agent("one")
    assert cloud.drivers["one"].show(container).cpuset_cpus == "0-1"


def test_a_resize_after_that(cloud, context, lose):
    container = cloud.run(context, cpu_policy="dedicated", cpu=1.0)
    lose("change_claim")
    with pytest.raises(db_exc.DBConnectionError):
        cloud.compute_api.update(context, container, cpu=2.0, memory=None)
    again = cloud.compute_api.update(context, container, cpu=3.0, memory=None)
    assert len(compared(cloud, container.uuid)) == len(held_plan(again).cpus) == 3


def test_a_creation(cloud, context, lose):
    lose("claim")
    first = cloud.submit(context, **TWO)
    wait_for(lambda: db.get(first.uuid)["cpuset"])
    second = cloud.run(context, **TWO)
    assert second.status == "Running" and not compared(cloud, first.uuid) & held_plan(second).cpus
    assert cloud.settled(first).status == "Running"


def test_a_deletion(cloud, context, lose):
    container = cloud.run(context, **TWO)
    lose("destroy")
    cloud.compute_api.delete(context, container, force=True)
    cloud.row_gone(container)
    cloud.drivers["one"].join_events()
    wait_for(lambda: not cloud.agents["one"].tracker.usage.owners)
    assert Container.list_by_host(context, "one") == []


def test_an_operation_that_could_not_write_its_end(cloud, context, monkeypatch):
    container, real = cloud.run(context), db.update

    def once(uuid, values, **kwargs):
        if values.get("status") == "Stopped":
            monkeypatch.setattr(db, "update", real)
            raise db_exc.DBConnectionError("gone away")
        real(uuid, values, **kwargs)

    monkeypatch.setattr(db, "update", once)
    cloud.compute_api.stop(context, container, timeout=1)
    wait_for(lambda: db.update is real and not cloud.agents["one"].queue.busy())
    cloud.compared("one", lambda: db.get(container.uuid)["task_state"] is None)
    assert cloud.settled(container).status == "Stopped"


@pytest.mark.parametrize(("run", "outcome"), [(False, "Created"), (True, "Running")])
def test_a_creation_goes_on_when_the_database_is_back(cloud, context, monkeypatch, run, outcome):
    real, agent = db.update, cloud.agents["one"]

    def once(uuid, values, **kwargs):
        if values.get("status") == outcome:
            monkeypatch.setattr(db, "update", real)
            raise db_exc.DBConnectionError("gone away\n[SQL: UPDATE containers]")
        real(uuid, values, **kwargs)

    monkeypatch.setattr(db, "update", once)
    container = cloud.submit(context, **TWO, request={"run": run})
    wait_for(lambda: db.update is real and not agent.queue.busy())
    held = held_plan(db.get(container.uuid))
    agent._compare()
    container = cloud.settled(container)
    assert (container.status, container.status_reason, held_plan(container)) == (outcome, None, held)
    assert cloud.drivers["one"].show(container).cpuset_cpus == str(held.cpus)
