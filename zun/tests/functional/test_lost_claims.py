# SPDX-License-Identifier: Apache-2.0
"""Rows that do not say what their containers hold: written by hand, or by an import. The runtime still shows it."""

import logging

import pytest
import sqlalchemy as sa

from zun.api import microversion
from zun.api.views import hosts
from zun.compute.container import creation
from zun.db import compute_nodes, models, session
from zun.db import containers as db
from zun.objects import Container
from zun.tests.fixtures import wait_for
from zun.tests.functional.capsules import member, settled, submit
from zun.tests.functional.cloud import cloud_of, machine
from zun.tests.functional.lost_claims import by_hand, findings, restart
from zun.topology import CpuSet

TWO = {"cpu_policy": "dedicated", "cpu": 2.0, "memory": 64}
FULL = {"cpu_policy": "dedicated", "cpu": 4.0, "memory": 64}
CLAIMS = ["0-3", '"0-3"', "5", "[]", "{}", '["x"]', '{"cells": 1, "cpu_policy": "dedicated"}', "true", None]

cloud = cloud_of({"one": machine()}, compute__audit_interval=0)


def errors(caplog, uuid):
    return [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR and uuid in each.getMessage()]


@pytest.mark.parametrize("text", CLAIMS)
def test_an_agent_starts_and_keeps_what_a_row_does_not_say(cloud, context, caplog, text):
    lost, other = cloud.run(context, **TWO, disk=3), cloud.run(context, **TWO)
    by_hand(lost.uuid, "cpuset", text)
    agent = restart(cloud)
    (line,) = errors(caplog, lost.uuid)
    assert f"Container {lost.uuid} ({lost.name}): its row does not say what it holds of host one" in line
    assert "on CPUs 0-1 and memory nodes 0" in line and "audit one --repair" in line
    assert {*agent.tracker.usage.owners} == {lost.uuid, other.uuid}
    assert agent.tracker._disks == {lost.uuid: 3, other.uuid: 0}
    assert agent.tracker.usage.held_cpus == CpuSet("0-3")
    agent._compare()
    for repair in (False, True):
        assert findings(cloud, context, repair) == [(lost.uuid, "drifted", "claim", repair)]
    assert findings(cloud, context) == []
    assert db.get(lost.uuid)["cpuset"] == lost.cpuset | {"generation": None}
    table = cloud.scheduler.table
    wait_for(lambda: table.refresh() or table.host("one"))
    assert cloud.run(context, **FULL).cpuset["cpuset_cpus"] == "4-7"
    assert cloud.run(context, **TWO).status == "Error"
    cloud.compute_api.delete(context, lost, force=True)
    cloud.gone(lost)
    wait_for(lambda: agent.tracker.usage.held_cpus == CpuSet("2-7"))
    assert not any(each.exc_info for each in caplog.records if each.levelno >= logging.WARNING)


def test_a_row_that_is_emptied_meanwhile_gives_nothing_away(cloud, context):
    """The comparison of all containers sees it; nobody is told that the CPUs are free."""
    agent = cloud.agents["one"]
    lost = cloud.run(context, **TWO, placement={"cpu_isolation": "node"})
    held = agent.tracker.usage.claim(lost.uuid).cells
    by_hand(lost.uuid, "cpuset", None)
    agent.parts.resizer.settle(context, lost.uuid)
    assert agent.tracker.usage.claim(lost.uuid).cells == held
    there = cloud.drivers["one"].runtime.objects[lost.uuid]
    there.cpuset_cpus = "0-2"
    assert findings(cloud, context, repair=True) == [
        (lost.uuid, "drifted", "claim", True),
        (lost.uuid, "drifted", "config", True),
    ], "it is known better than from the runtime"
    assert db.get(lost.uuid)["cpuset"] == lost.cpuset
    assert there.cpuset_cpus == "0-1"
    assert agent.tracker.usage.claim(lost.uuid).cells == held
    assert agent.tracker.disagreeing(Container.list_by_host(context, "one")) == set()


def test_what_is_gone_at_the_runtime_as_well_is_given_back(cloud, context):
    agent = cloud.agents["one"]
    lost = cloud.run(context, **TWO)
    by_hand(lost.uuid, "cpuset", None)
    cloud.drivers["one"].delete(lost, force=True)
    agent.parts.resizer.settle(context, lost.uuid)
    assert agent.tracker.usage.owners == ()


def test_the_schedulers_hear_of_a_row_that_was_mended(cloud, context):
    lost = cloud.run(context, **TWO)
    by_hand(lost.uuid, "cpuset", None)
    restart(cloud)
    table = cloud.scheduler.table
    assert wait_for(lambda: table.refresh() or table.host("one")).usage.owners == ()
    by_hand(lost.uuid, "cpuset", '{"cells": 1}')
    assert hosts.topology(compute_nodes.find("one"), db.claims(["one"]), microversion.MAX)["claims"] == []
    findings(cloud, context, repair=True)
    wait_for(lambda: table.host("one").usage.owners == (lost.uuid,))


def test_two_that_run_on_the_same_cpus_are_named_and_not_written(cloud, context, caplog):
    lost, other = cloud.run(context, **TWO), cloud.run(context, **TWO)
    by_hand(lost.uuid, "cpuset", None)
    cloud.drivers["one"].runtime.objects[lost.uuid].cpuset_cpus = "1-2"
    agent = restart(cloud)
    (line,) = errors(caplog, lost.uuid)
    assert "delete the container and create it anew; its row cannot be mended, since CPUs 2 belong to others" in line
    assert agent.tracker.usage.held_twice == CpuSet("2")
    assert findings(cloud, context, repair=True) == [(lost.uuid, "drifted", "claim", False)]
    assert db.get(lost.uuid)["cpuset"] is None
    assert cloud.drivers["one"].show(other).cpuset_cpus == "2-3"


def test_shared_container_with_lost_claim_leaves_others_cpus(cloud, context):
    lost = cloud.run(context, cpu=1.0, memory=64)
    by_hand(lost.uuid, "cpuset", "{}")
    agent = restart(cloud)
    assert cloud.drivers["one"].show(lost).cpuset_cpus == "0-3"
    dedicated = cloud.run(context, **TWO, placement={"numa_nodes": 2})
    assert not CpuSet(cloud.drivers["one"].show(lost).cpuset_cpus) & CpuSet(dedicated.cpuset["cpuset_cpus"])
    assert findings(cloud, context, repair=True) == [(lost.uuid, "drifted", "claim", True)]
    assert agent.tracker.usage.claim(lost.uuid).memory_mib == 64


def test_capsule_with_lost_claim_keeps_cpus_of_its_members(cloud, context):
    capsule, (row, _) = settled(cloud, submit(cloud, context, member(1.0), member(2.0)), "Running")
    by_hand(capsule["uuid"], "cpuset", '"x"')
    agent = restart(cloud)
    assert len(agent.tracker.usage.held_cpus) == 3 and agent.tracker.may_run(row["uuid"])
    assert findings(cloud, context, repair=True) == [(capsule["uuid"], "drifted", "claim", True)]
    assert findings(cloud, context) == []


def test_what_cannot_be_read_and_is_nowhere_holds_nothing(cloud, context, caplog):
    lost = cloud.run(context, **TWO)
    cloud.drivers["one"].delete(lost, force=True)
    by_hand(lost.uuid, "cpuset", '"0-1"')
    assert restart(cloud).tracker.usage.owners == ()
    (line,) = errors(caplog, lost.uuid)
    assert "holds nothing. Next: delete it, and create it anew" in line


@pytest.mark.parametrize("meanwhile", [False, True])
@pytest.mark.parametrize("text", [*CLAIMS])
def test_a_creation_whose_claim_is_lost_ends(cloud, context, text, meanwhile):
    """An interrupted one of which the runtime has nothing: nobody can go on with it."""
    lost = cloud.run(context, **TWO)
    cloud.drivers["one"].delete(lost, force=True)
    if not meanwhile:
        cloud.stop_agent("one")
    with session.writer() as connection:
        change = "UPDATE containers SET status = 'Creating', task_state = 'container_creating', cpuset = :text"
        connection.execute(sa.text(change), {"text": text})
    agent = cloud.agents["one"] if meanwhile else cloud.start_agent("one")
    agent._compare()
    ended = cloud.settled(lost)
    assert (ended.status, ended.status_reason, ended.cpuset, ended.host) == ("Error", creation.LOST, None, None)
    wait_for(lambda: agent.tracker.usage.owners == ())
    assert db.destroy_unplaced(lost.uuid), "as the API does for a deletion"
    assert cloud.run(context, **TWO).status == "Running"


def test_creation_with_lost_claim_and_object_waits_for_audit(cloud, context):
    lost = cloud.run(context, **TWO)
    with session.writer() as connection:
        connection.execute(sa.text("UPDATE containers SET status = 'Creating', cpuset = '[]'"))
    agent = restart(cloud)
    agent.parts.creation.resume(context, lost.uuid)
    assert db.get(lost.uuid)["status"] == "Creating"
    assert findings(cloud, context, repair=True) == [(lost.uuid, "drifted", "claim", True)]
    agent._compare()
    assert cloud.settled(lost).status == "Running"


@pytest.mark.parametrize("value", ["{}: no JSON", '"JSON of another kind: {}"'], ids=["none", "another"])
@pytest.mark.parametrize("column", [each.name for each in models.containers.c if isinstance(each.type, sa.JSON)])
def test_malformed_value_of_one_container_blocks_no_other(cloud, context, caplog, column, value):
    damaged, other = cloud.run(context, **TWO), cloud.run(context, **TWO)
    by_hand(damaged.uuid, column, value.format(column))
    agent = restart(cloud)
    assert caplog.text.count(f"A value of containers.{column} in the database is no JSON") == 1
    assert agent.tracker.usage.held_cpus == CpuSet("0-3")
    agent._compare()
    cloud.compute_api.stop(context, other)
    assert wait_for(lambda: db.get(other.uuid)["status"] == "Stopped")
    cloud.compute_api.delete(context, damaged, force=True)
    cloud.gone(damaged)


@pytest.mark.parametrize("value", ['["x"]', '{"x": 1}', "5", "no JSON"])
def test_container_with_unreadable_mounts_is_not_made_anew(cloud, context, caplog, value):
    """The container starts and goes as it is. It is not made anew without them."""
    damaged = cloud.run(context, **TWO)
    by_hand(damaged.uuid, "mounts", value)
    restart(cloud)
    assert f"The mounts of container {damaged.uuid} cannot be read from its row. Delete it" in caplog.text
    db.update(damaged.uuid, {"status": "Rebuilding"})
    cloud.compute_api.rebuild(context, damaged)
    assert wait_for(lambda: db.get(damaged.uuid)["status"] == "Error")
    assert "cannot be read from its row" in db.get(damaged.uuid)["status_reason"]
    cloud.compute_api.delete(context, damaged, force=True)
    cloud.gone(damaged)
