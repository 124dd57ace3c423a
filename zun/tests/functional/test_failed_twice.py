# SPDX-License-Identifier: Apache-2.0
"""A runtime fails twice, at a step and at its undoing: no CPU may get two owners."""

import pytest
from oslo_db import exception as db_exc

from zun.common import exceptions
from zun.common.states import Kind
from zun.compute.container.operations import key_of
from zun.db import containers as db
from zun.objects import Container
from zun.objects.placement import cpuset_record
from zun.tests.fixtures import new_container, wait_for
from zun.tests.functional.actions import rebuild
from zun.tests.functional.cloud import cloud_of, machine
from zun.topology import CpuSet

NEVER = 3600
TWO = {"cpu_policy": "dedicated", "cpu": 2.0}

cloud = cloud_of({"one": machine(cells=1)}, compute__audit_interval=0, compute__sync_container_state_interval=NEVER)


def test_a_rebuilt_one_that_runs_elsewhere_is_stopped(cloud, context):
    driver = cloud.drivers["one"]
    before = cloud.run(context, cpu_policy="dedicated", cpu=2.0)
    driver.before("start", lambda each: driver.disobey(each.uuid, cpus="0-3"))
    assert rebuild(cloud, context, before).status == "Error"
    assert not driver.runtime.objects[before.uuid].pid


def test_a_runtime_that_hangs_is_one_line_in_the_log(cloud, context, caplog):
    driver = cloud.drivers["one"]
    container = cloud.run(context)
    driver.fail("stop", exceptions.Unavailable("Docker on the host did not stop it in time"))
    driver.fail("show", exceptions.Unavailable("Docker on the host did not inspect it in time"), times=1000)
    cloud.compute_api.stop(context, container)
    said = "failed and is done again"
    line, *_ = wait_for(lambda: [each for each in caplog.records if said in each.getMessage()])
    assert line.exc_info is None and line.levelname == "WARNING"
    assert "Docker on the host did not inspect it in time" in line.getMessage()
    driver.end_failures("show")


def test_object_created_after_timeout_goes_with_its_container(cloud, context, monkeypatch):
    """A call that was given up may be carried out later, when there was nothing to remove yet."""
    driver, late = cloud.drivers["one"], []
    really = driver.create

    def create(container, **how):
        late.append(lambda: really(container, **how))
        raise exceptions.Unavailable("Docker on the host did not create it in time; it may still do so.")

    monkeypatch.setattr(driver, "create", create)
    failed = cloud.run(context, **TWO)
    assert (failed.status, failed.host, failed.cpuset) == ("Error", "one", None)
    wait_for(lambda: cloud.agents["one"].tracker.usage.owners == ())
    late[0]()
    assert {*driver.list()} == {failed.uuid}
    cloud.compute_api.delete(context, failed, force=False)
    cloud.gone(failed)
    assert driver.list() == {}


@pytest.mark.parametrize("comes", [True, False])
def test_what_the_runtime_makes_after_its_deletion_goes_with_it(cloud, context, monkeypatch, comes):
    """Its deletion was accepted while the runtime hung, and done before that had gone on."""
    driver, agent, late = cloud.drivers["one"], cloud.agents["one"], []
    really = driver.create

    def create(container, **how):
        late.append(lambda: really(container, **how))
        db.update(container.uuid, {"status": "Deleting"})
        cloud.compute_api.delete(context, container, force=False)
        raise exceptions.Unavailable("Docker on the host did not create it in time; it may still do so.")

    monkeypatch.setattr(driver, "create", create)
    deleted = cloud.submit(context, **TWO)
    wait_for(lambda: db.get(deleted.uuid)["kind"] == Kind.LEFTOVER)
    assert agent.tracker.usage.owners == (deleted.uuid,), "it may yet be made for these CPUs"
    if comes:
        late[0]()
        assert {*driver.list()} == {deleted.uuid}
    agent._compare()
    cloud.gone(deleted)
    assert driver.list() == {}
    wait_for(lambda: agent.tracker.usage.owners == ())


def test_what_could_not_be_removed_keeps_its_cpus(cloud, context):
    driver = cloud.drivers["one"]
    driver.fail("start", exceptions.Unavailable(), after=True)
    driver.fail("delete", exceptions.Unavailable())
    failed = cloud.run(context, cpu_policy="dedicated", cpu=2.0)
    other = cloud.run(context, cpu_policy="dedicated", cpu=2.0)
    assert other.status == "Running"  # and the first as well, if it is seen to run after all
    assert not CpuSet(driver.runtime.objects[failed.uuid].cpuset_cpus) & CpuSet(other.cpuset["cpuset_cpus"])
    cloud.compute_api.delete(context, failed, force=True)
    cloud.gone(failed)
    assert cloud.run(context, cpu_policy="dedicated", cpu=2.0).status == "Running"


def test_an_interrupted_deletion_that_fails_keeps_its_cpus(cloud, context):
    driver = cloud.drivers["one"]
    container = cloud.run(context, **TWO)
    cloud.stop_agent("one")
    db.update(container.uuid, {"status": "Deleting"})
    driver.fail("delete", exceptions.Unavailable(), times=1000)
    agent = cloud.start_agent("one")
    wait_for(lambda: db.get(container.uuid)["kind"] == Kind.LEFTOVER)
    assert driver.runtime.objects[container.uuid].pid and agent.tracker.usage.claim(container.uuid) is not None
    driver.end_failures("delete")
    agent._compare()
    cloud.gone(container)
    assert driver.list() == {}


def test_what_could_not_be_moved_back_keeps_both(cloud, context):
    driver = cloud.drivers["one"]
    grown = cloud.run(context, cpu_policy="dedicated", cpu=1.0)
    calls = []

    def fail_the_second(_):
        calls.append(None)
        if len(calls) == 2:
            driver.fail("update", exceptions.Unavailable())

    driver.before("update", fail_the_second)
    driver.fail("update", exceptions.Unavailable(), after=True)
    with pytest.raises(exceptions.Unavailable):
        cloud.compute_api.update(context, Container.get_by_uuid(context, grown.uuid), cpu=2.0, memory=None)
    other = cloud.run(context, cpu_policy="dedicated", cpu=2.0)
    assert not CpuSet(driver.runtime.objects[grown.uuid].cpuset_cpus) & CpuSet(other.cpuset["cpuset_cpus"])
    again = cloud.compute_api.update(context, Container.get_by_uuid(context, grown.uuid), cpu=2.0, memory=None)
    assert not CpuSet(again.cpuset["cpuset_cpus"]) & CpuSet(other.cpuset["cpuset_cpus"])


@pytest.mark.parametrize("action", ["start", "reboot"])
def test_shared_container_created_despite_error_runs_in_pool(cloud, context, action):
    driver = cloud.drivers["one"]
    shared = cloud.run(context)
    driver.fail("create", exceptions.Unavailable(), after=True)
    assert rebuild(cloud, context, shared).status == "Error"
    other = cloud.run(context, cpu_policy="dedicated", cpu=2.0)
    if action == "reboot":
        cloud.accept_reboot(shared)
    getattr(cloud.compute_api, action)(context, shared)
    wait_for(lambda: driver.runtime.objects[shared.uuid].pid)
    assert not CpuSet(driver.runtime.objects[shared.uuid].cpuset_cpus) & CpuSet(other.cpuset["cpuset_cpus"])


def test_a_reboot_of_what_was_never_made_is_an_error_again(cloud, context):
    driver = cloud.drivers["one"]
    driver.fail("create", exceptions.Unavailable())
    driver.fail("delete", exceptions.Unavailable())  # so that it keeps its host
    never_made = cloud.run(context)
    assert (never_made.status, never_made.host, never_made.container_id) == ("Error", "one", None)
    cloud.accept_reboot(never_made)
    cloud.compute_api.reboot(context, never_made, timeout=1)
    after = cloud.settled(never_made)
    assert after.status == "Error" and after.status_reason.startswith("reboot failed: ")


def test_a_pool_that_could_not_be_widened_is_so_later(cloud, context):
    driver = cloud.drivers["one"]
    shared = cloud.run(context)
    dedicated = cloud.run(context, cpu_policy="dedicated", cpu=2.0)
    assert len(CpuSet(driver.runtime.objects[shared.uuid].cpuset_cpus)) == 2
    driver.fail("update", exceptions.Unavailable())
    cloud.compute_api.delete(context, dedicated, force=True)
    cloud.gone(dedicated)
    wait_for(lambda: not cloud.agents["one"].queue.busy())
    driver.join_events()  # stands for the next comparison of all
    wait_for(lambda: driver.runtime.objects[shared.uuid].cpuset_cpus == "0-3")


@pytest.fixture
def unanswered(cloud, context, monkeypatch):
    """Return a function that has the database go away for good at the next claim, carried out or not.

    The function returns the container. Its attribute ``held`` has what each container held at that moment.
    """
    agent, really = cloud.agents["one"], db.claim_many

    def claim(carried_out, **fields):
        def once(hostname, wanted):
            claim.held |= {each.uuid: agent.tracker.usage.claim(each.uuid) for each in wanted}
            monkeypatch.setattr(db, "claim_many", really)
            if carried_out:
                really(hostname, wanted)
            raise db_exc.DBConnectionError

        monkeypatch.setattr(db, "claim_many", once)
        made = cloud.submit(context, **TWO, **fields)
        wait_for(lambda: db.claim_many is really and key_of(made.uuid) not in agent.queue.busy())
        return made

    claim.held = {}
    return claim


def test_a_claim_that_may_be_committed_is_not_given_to_another(cloud, context, unanswered):
    first = unanswered(carried_out=True)
    other = new_container(context, **TWO)
    # Schedulers have the first one booked, but for one that has just started.
    cloud.compute_api.create(context, "one", other, limits={}, alternates=[], tried={})
    other = cloud.settled(other)
    cloud.agents["one"]._compare()
    assert not CpuSet(cloud.settled(first).cpuset["cpuset_cpus"]) & CpuSet(other.cpuset["cpuset_cpus"])
    assert [db.get(each.uuid)["status"] for each in (first, other)] == ["Running", "Running"]


@pytest.mark.parametrize("by_now", ["waits", "is deleted", "is elsewhere"])
def test_a_claim_that_was_not_committed_is_given_back(cloud, context, unanswered, by_now):
    first = unanswered(carried_out=False)
    agent = cloud.agents["one"]
    claim = unanswered.held[first.uuid]  # a comparison may have given it back already
    if by_now == "is deleted":
        db.destroy(first.uuid)
    if by_now == "is elsewhere":
        db.claim(first.uuid, "another", {"cpuset": cpuset_record(claim, agent.tracker.topology)})
    agent._compare()
    wait_for(lambda: not agent.tracker.usage.owners)
    if by_now != "waits":
        return
    cloud.compute_api.create(context, "one", first, limits={}, alternates=[], tried={})  # as it is swept up
    assert cloud.settled(first).status == "Running"


@pytest.mark.parametrize("runs", [False, True])
def test_what_is_given_back_and_came_after_all_counts_its_disk(cloud, context, unanswered, runs):
    first = cloud.run(context, **TWO, disk=60) if runs else unanswered(carried_out=True, disk=60)
    agent = cloud.agents["one"]
    agent.tracker.release(first.uuid)  # as when the row was compared before the answer that was lost came to be
    agent._compare()
    assert cloud.settled(first).status == "Running"
    wait_for(lambda: agent.tracker.usage.claim(first.uuid) is not None)
    with pytest.raises(exceptions.ClaimRefused, match="free disk 40 GiB"):
        agent.tracker.container_claim(new_container(context, disk=60))
