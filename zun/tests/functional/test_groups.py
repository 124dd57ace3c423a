# SPDX-License-Identifier: Apache-2.0
"""Containers of one group that are created at the same time, over real messages and a real database."""

from collections import Counter

import pytest

from zun.db import groups
from zun.tests.fixtures import new_container, wait_for
from zun.tests.functional.cloud import cloud_of, machine

HOSTS = ("one", "two", "three")

cloud = cloud_of(dict.fromkeys(HOSTS, machine()))


def group(policy, **rules):
    return groups.insert({"name": "web", "project_id": "demo", "policy": policy, "rules": rules})


def together(cloud, context, row, count, **fields):
    """``count`` containers of the group, accepted before any of them is placed; as they have become."""
    asked = {"request": {"run": True, "hints": {"group": row["uuid"]}}, "group_uuid": row["uuid"], **fields}
    submitted = [cloud.submit(context, **asked) for _ in range(count)]
    return [cloud.settled(each) for each in submitted]


def outcome(containers):
    """Host -> how many run there, and the reasons of the others."""
    running = Counter(each.host for each in containers if each.status == "Running")
    refused = [each for each in containers if each.status != "Running"]
    assert {each.status for each in refused} <= {"Error"}
    assert all((each.host, each.cpuset) == (None, None) for each in refused)
    return running, [each.status_reason for each in refused]


def only_these_hold(cloud, containers):
    held = {owner for agent in cloud.agents.values() for owner in agent.tracker.usage.owners}
    return held == {each.uuid for each in containers if each.status == "Running"}


@pytest.mark.parametrize(("limit", "count"), [(1, 6), (2, 8)])
def test_anti_affinity_fills_each_host_to_the_limit(cloud, context, limit, count):
    made = together(cloud, context, group("anti-affinity", max_per_host=limit), count)
    running, reasons = outcome(made)
    assert running == dict.fromkeys(HOSTS, limit)
    for reason in reasons:
        assert f"group web, whose policy anti-affinity allows {limit} per host" in reason
        assert not any(host in reason.split() for host in HOSTS), "its user does not see the hosts"
    assert wait_for(lambda: only_these_hold(cloud, made))


def test_affinity_brings_all_to_the_host_of_the_first(cloud, context):
    made = together(cloud, context, group("affinity"), 6, cpu=0.5)
    running, reasons = outcome(made)
    assert len(running) == 1
    for reason in reasons:
        assert "the containers of group web are on another host, and its policy is affinity" in reason
    assert wait_for(lambda: only_these_hold(cloud, made))


def test_what_one_member_gives_back_another_takes(cloud, context):
    row = group("anti-affinity")
    made = together(cloud, context, row, 3)
    assert outcome(made) == (dict.fromkeys(HOSTS, 1), [])
    cloud.compute_api.delete(context, made[0], force=True)
    cloud.gone(made[0])
    (again,) = together(cloud, context, row, 1)
    assert (again.status, again.host) == ("Running", made[0].host)
    assert groups.members([row["uuid"]]) == {row["uuid"]: [made[1].uuid, made[2].uuid, again.uuid]}


def test_soft_groups_refuse_nobody(cloud, context):
    running, reasons = outcome(together(cloud, context, group("soft-anti-affinity"), 6, cpu=0.5))
    assert (running.total(), reasons) == (6, [])


def sent_to(cloud, context, row, host, count):
    """Containers of the group, handed to ``host`` at once by a scheduler that knows nothing of groups."""
    asked = {"request": {"run": True, "hints": {"group": row["uuid"]}}, "group_uuid": row["uuid"], "cpu": 0.5}
    made = [new_container(context, **asked) for _ in range(count)]
    for each in made:
        cloud.compute_api.create(context, host, each, limits={}, alternates=[], tried={})
    return [cloud.settled(each) for each in made]


def test_anti_affinity_members_sent_to_one_host_spread_out(cloud, context):
    """The members arrive at once; the host takes one, and the scheduler tries other hosts for the rest."""
    made = sent_to(cloud, context, group("anti-affinity"), "two", 4)
    running, reasons = outcome(made)
    assert running == dict.fromkeys(HOSTS, 1)
    assert len(reasons) == 1 and "group web, whose policy anti-affinity allows 1 per host" in reasons[0]
    assert wait_for(lambda: only_these_hold(cloud, made))


def test_what_was_sent_beside_its_group_ends_where_the_group_is(cloud, context):
    row = group("affinity")
    (first,) = together(cloud, context, row, 1)
    other = next(host for host in HOSTS if host != first.host)
    made = [first, *sent_to(cloud, context, row, other, 2)]
    assert outcome(made) == ({first.host: 3}, [])
    assert wait_for(lambda: only_these_hold(cloud, made))
