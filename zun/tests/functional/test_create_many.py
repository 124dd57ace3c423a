# SPDX-License-Identifier: Apache-2.0
"""Several containers in one message to a host: nothing is given twice, and no request is lost."""

import threading

import pytest
from oslo_db import exception as db_exc

from zun.common.context import RequestContext
from zun.db import container_actions as actions
from zun.db import containers as db
from zun.db import models, session
from zun.objects import Container
from zun.tests.fixtures import becomes, new_container, wait_for
from zun.tests.functional.cloud import cloud_of, machine
from zun.tests.unit.db.rows import group
from zun.topology import CpuSet

NEVER = 3600
ONE = {"cpu_policy": "dedicated", "cpu": 1.0}

cloud = cloud_of(
    {"one": machine(cells=1), "two": machine(cells=2)}, compute__audit_interval=0,
    compute__sync_container_state_interval=NEVER,
)  # fmt: skip


def request(context, container):
    return {"context": context, "container": container, "limits": {}, "alternates": [], "tried": {}}


def send(cloud, context, containers, times=1):
    for _ in range(times):
        cloud.compute_api.create_many("one", [request(context, each) for each in containers])


def cpus_of(uuids):
    """Return the CPUs that each container holds, and check that no CPU is held twice."""
    found = [cpu for uuid in uuids for cpu in CpuSet(db.get(uuid)["cpuset"]["cpuset_cpus"])]
    assert len(set(found)) == len(found)
    return found


@pytest.mark.parametrize("times", [1, 2, 3])
def test_all_run_once_however_often_the_message_comes(cloud, context, times):
    many = [new_container(context, **ONE) for _ in range(4)]
    send(cloud, context, many, times)
    for each in many:
        becomes(each, status="Running", host="one")
    assert len(cpus_of([each.uuid for each in many])) == 4
    wait_for(lambda: all(cloud.quiet("one", each.uuid) for each in many))
    assert sorted(cloud.drivers["one"].list()) == sorted(each.uuid for each in many)
    assert {db.get(each.uuid)["status"] for each in many} == {"Running"}


def test_each_creation_is_done_for_whoever_asked_for_it(cloud, context):
    """The second container does not fit, so its request goes to another host by way of a scheduler."""
    others = [RequestContext(user_id=name, project_id=name, roles=["member"]) for name in ("bob", "carol")]
    asked, sizes = [context, *others], (1.0, 4.0, 2.0)
    many = [new_container(who, cpu_policy="dedicated", cpu=cpu) for who, cpu in zip(asked, sizes, strict=True)]
    for who, each in zip(asked, many, strict=True):
        actions.start(
            each.uuid, "create", request_id=who.request_id, user_id=who.user_id, project_id=who.project_id
        )
    cloud.compute_api.create_many("one", [request(who, each) for who, each in zip(asked, many, strict=True)])
    for who, each, host in zip(asked, many, ("one", "two", "one"), strict=True):
        becomes(each, status="Running", host=host)
        wait_for(lambda each=each: all(action["finish_time"] for action in actions.of_container(each.uuid)))
        action, steps = actions.find(each.uuid, who.request_id)
        assert [step["event"] for step in steps] == ["compute__do_container_create", "compute__do_container_start"]
        assert (action["message"], {step["result"] for step in steps}) == (None, {"Success"})


def test_one_without_room_goes_to_another_host(cloud, context):
    """Host one has four CPUs. The other two containers are not held up."""
    many = [new_container(context, cpu_policy="dedicated", cpu=cpu) for cpu in (1.0, 4.0, 2.0)]
    send(cloud, context, many)
    hosts = [becomes(each, status="Running")["host"] for each in many]
    assert hosts == ["one", "two", "one"]


def test_what_was_deleted_meanwhile_is_not_made(cloud, context):
    many = [new_container(context, **ONE) for _ in range(3)]
    with session.writer() as connection:
        connection.execute(models.containers.delete().where(models.containers.c.uuid == many[0].uuid))
    send(cloud, context, many)
    for each in many[1:]:
        becomes(each, status="Running", host="one")
    agent = cloud.agents["one"]
    wait_for(lambda: sorted(agent.tracker.usage.owners) == sorted(each.uuid for each in many[1:]))


def test_a_group_gets_one_member_on_the_host(cloud, context):
    team = group(project_id=context.project_id)["uuid"]
    many = [new_container(context, group_uuid=team, request={"run": True, "hints": {"group": team}}) for _ in range(2)]
    send(cloud, context, many)
    assert sorted(becomes(each, status="Running")["host"] for each in many) == ["one", "two"]


@pytest.mark.parametrize("committed", [False, True])
def test_a_lost_database_leaves_no_claim_without_its_row(cloud, context, monkeypatch, committed):
    """The agent does not know whether its claims are in the database. It goes on with those that are."""
    really, lost = Container.save_claims, []

    def lose(*arguments):
        if not lost:
            lost.append(True)
            if committed:
                really(*arguments)
            raise db_exc.DBConnectionError("gone away")
        return really(*arguments)

    monkeypatch.setattr(Container, "save_claims", lose)
    many = [new_container(context, **ONE) for _ in range(3)]
    send(cloud, context, many)
    agent = cloud.agents["one"]
    if committed:
        for each in many:
            becomes(each, status="Running", host="one")
        assert len(cpus_of([each.uuid for each in many])) == 3
    else:
        wait_for(lambda: lost and agent.tracker.usage.owners == ())
        assert {db.get(each.uuid)["host"] for each in many} == {None}
        send(cloud, context, many)  # a scheduler finds them again
        for each in many:
            becomes(each, status="Running", host="one")


def test_one_that_is_busy_does_not_hold_up_the_others(cloud, context):
    """Its message came before, and its image is on its way."""
    driver, goes_on = cloud.drivers["one"], threading.Event()
    first, *others = many = [new_container(context, **ONE) for _ in range(3)]
    driver.before("create", lambda each: each.uuid == first.uuid and goes_on.wait(60))
    send(cloud, context, [first])
    becomes(first, host="one")
    send(cloud, context, [*others, first])
    for each in others:
        becomes(each, status="Running", host="one")
    goes_on.set()
    becomes(first, status="Running", host="one")
    assert len(cpus_of([each.uuid for each in many])) == 3
