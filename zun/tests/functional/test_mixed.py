# SPDX-License-Identifier: Apache-2.0
"""Mixed containers from an accepted request to the runtime: CPUs of their own, and the pool of the same cell."""

import pytest

from zun.common import exceptions
from zun.db import containers as db
from zun.db import models, session
from zun.tests.fixtures import wait_for
from zun.tests.functional.cloud import Cloud, cloud_of, machine
from zun.tests.functional.lost_claims import by_hand, findings, restart
from zun.topology import CpuSet

MIXED = {"cpu_policy": "mixed", "cpu": 3.0, "memory": 64, "placement": {"dedicated_cpus": 2}}
DEDICATED = {"cpu_policy": "dedicated", "cpu": 1.0, "memory": 64}

cloud = cloud_of({"one": machine()}, compute__audit_interval=0)


def runs_on(cloud, container):
    return CpuSet(cloud.drivers["one"].show(container).cpuset_cpus)


def own(container):
    return CpuSet(container.cpuset["cpuset_dedicated"])


def test_mixed_container_runs_on_its_own_cpus_and_the_pool(cloud, context):
    mixed = cloud.run(context, **MIXED)
    assert (mixed.status, mixed.status_reason) == ("Running", None)
    assert (own(mixed), mixed.cpuset["cpuset_cpus"], mixed.cpuset["cpuset_mems"]) == (CpuSet("0-1"), "0-3", "0")
    assert runs_on(cloud, mixed) == CpuSet("0-3")
    usage = cloud.agents["one"].tracker.usage
    assert (usage.held_cpus, usage.demand(0)) == (CpuSet("0-1"), 1_000_000)
    assert cloud.drivers["one"].show(mixed).dedicated_cpus == "0-1"


def test_pool_of_a_mixed_container_narrows_and_grows(cloud, context):
    mixed = cloud.run(context, **MIXED)
    other = cloud.run(context, **DEDICATED)
    taken = CpuSet(other.cpuset["cpuset_cpus"])
    assert taken == CpuSet("2")
    wait_for(lambda: runs_on(cloud, mixed) == CpuSet("0-1,3"))
    on_other_cell = cloud.run(context, **DEDICATED)  # the last pool CPU of cell 0 stays for the mixed container
    assert on_other_cell.cpuset["cpuset_mems"] == "1"
    assert findings(cloud, context) == []
    cloud.compute_api.delete(context, other, force=True)
    cloud.gone(other)
    wait_for(lambda: runs_on(cloud, mixed) == CpuSet("0-3"))
    assert findings(cloud, context) == []


def test_audit_repairs_a_mixed_container_changed_by_hand(cloud, context):
    mixed = cloud.run(context, **MIXED)
    cloud.drivers["one"].update(mixed, cpuset_cpus="0-7")
    assert findings(cloud, context) != []
    findings(cloud, context, repair=True)
    assert (findings(cloud, context), runs_on(cloud, mixed)) == ([], CpuSet("0-3"))


def test_resize_changes_the_share_of_the_pool_only(cloud, context):
    mixed = cloud.run(context, **MIXED)
    changed = cloud.compute_api.update(context, mixed, cpu=4.0, memory=128)
    assert (changed.cpu, changed.memory, own(changed)) == (4.0, 128, CpuSet("0-1"))
    usage = cloud.agents["one"].tracker.usage
    assert (usage.held_cpus, usage.demand(0)) == (CpuSet("0-1"), 2_000_000)
    smaller = cloud.compute_api.update(context, cloud.settled(mixed), cpu=2.25, keep_cpus="0")
    assert (smaller.cpu, own(smaller)) == (2.25, CpuSet("0-1"))
    assert cloud.agents["one"].tracker.usage.demand(0) == 250_000
    assert cloud.drivers["one"].show(mixed).cpu == 2.25
    assert findings(cloud, context) == []


@pytest.mark.parametrize(
    ("size", "error"),
    [
        ({"cpu": 100.0}, exceptions.ClaimRefused),
        ({"cpu": 2.0}, exceptions.Invalid),
        ({"cpu_policy": "shared"}, exceptions.Invalid),
        ({"cpu_policy": "dedicated"}, exceptions.Invalid),
        ({"cpu": 4.0, "keep_cpus": "2"}, exceptions.Invalid),
    ],
)
def test_resize_that_cannot_be_leaves_everything(cloud, context, size, error):
    mixed = cloud.run(context, **MIXED)
    with pytest.raises(error):
        cloud.compute_api.update(context, mixed, **size)
    assert db.get(mixed.uuid)["cpu"] == 3.0
    assert (runs_on(cloud, mixed), cloud.agents["one"].tracker.usage.demand(0)) == (CpuSet("0-3"), 1_000_000)
    assert findings(cloud, context) == []


def test_withheld_siblings_are_no_pool(database, context):
    with Cloud({"one": machine(cells=1, cores=4, threads=2)}) as cloud:
        placement = {"dedicated_cpus": 2, "cpu_thread_policy": "isolate"}
        mixed = cloud.run(context, **{**MIXED, "placement": placement})
        assert (own(mixed), runs_on(cloud, mixed)) == (CpuSet("0,2"), CpuSet("0,2,4-7"))
        changed = cloud.compute_api.update(context, mixed, cpu=5.0)
        assert (own(changed), runs_on(cloud, mixed)) == (CpuSet("0,2"), CpuSet("0,2,4-7"))


def test_restart_of_the_agent_keeps_a_mixed_container(cloud, context):
    mixed = cloud.run(context, **MIXED)
    other = cloud.run(context, **DEDICATED)
    cloud.stop_agent("one")
    cloud.drivers["one"].update(mixed, cpuset_cpus="0-3")  # as if the agent had ended before it moved the container
    cloud.start_agent("one")
    wait_for(lambda: runs_on(cloud, mixed) == CpuSet("0-3") - CpuSet(other.cpuset["cpuset_cpus"]))
    assert cloud.agents["one"].tracker.usage.held_cpus == CpuSet("0-2")


def test_lost_claim_of_a_mixed_container_is_recovered(cloud, context):
    mixed = cloud.run(context, **MIXED)
    by_hand(mixed.uuid, "cpuset", None)
    agent = restart(cloud)
    assert (agent.tracker.usage.held_cpus, agent.tracker.usage.demand(0)) == (CpuSet("0-1"), 1_000_000)
    assert findings(cloud, context, repair=True) == [(mixed.uuid, "drifted", "claim", True)]
    assert own(db.get(mixed.uuid) and cloud.settled(mixed)) == CpuSet("0-1")
    assert findings(cloud, context) == []


def test_hosts_without_room_in_the_pool_are_refused(cloud, context):
    cloud.run(context, cpu=1.0, memory=64)
    cloud.run(context, **MIXED)
    refused = cloud.run(context, **{**MIXED, "cpu": 5.5, "placement": {"dedicated_cpus": 4}})
    assert refused.status == "Error"
    assert "No valid host" in refused.status_reason


def test_lost_row_of_a_mixed_container_keeps_its_own_cpus_only(cloud, context):
    """Its pool CPUs are nobody's: another container may have taken one of them, and the row still comes back."""
    mixed = cloud.run(context, **MIXED)
    other = cloud.run(context, **DEDICATED)
    agent = cloud.agents["one"]
    wait_for(lambda: not agent.queue.busy())
    agent._compare()
    wait_for(lambda: not agent.queue.busy())
    cloud.stop_agent("one")
    with session.writer() as connection:
        connection.execute(models.containers.delete().where(models.containers.c.uuid == mixed.uuid))
    recovery = cloud.start_agent("one").parts.recovery
    assert [each.dedicated_cpus for each in recovery.plans_without_row(context)] == [CpuSet("0-1")]
    assert [each["reason"] for each in recovery.recover(context)] == [None]
    assert own(cloud.settled(mixed)) == CpuSet("0-1")
    assert db.get(other.uuid)["cpuset"]["cpuset_cpus"] == "2"
