# SPDX-License-Identifier: Apache-2.0
from collections import Counter

import pytest

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.compute.host.compute_node_tracker import ComputeNodeTracker
from zun.db import containers, groups
from zun.objects import Container
from zun.objects.placement import cpuset_record
from zun.tests.functional.cloud import machine
from zun.tests.unit.db.rows import CPUSET, NODE, container, group, node, page, together

pytestmark = pytest.mark.usefixtures("database")

MEMBER = RequestContext(user_id="alice", project_id="demo", roles=["member"])
ADMIN = RequestContext(user_id="root", project_id="admin", roles=["admin"])
MISSING = "6f2f36d6-0e5c-4a25-9d3b-6f5a1c2d3e4f"


def claim(row, hostname):
    return containers.claim(row["uuid"], hostname, {"cpuset": CPUSET}, group_uuid=row["group_uuid"])[0]


def by_host(group_row):
    """Host -> how many members of the group hold something there."""
    rows = [row for row in containers.claims() if row["group_uuid"] == group_row["uuid"]]
    return Counter(row["host"] for row in rows)


# insert, find, page, destroy


def test_a_new_group_is_found_by_uuid_and_name():
    row = group(name="web", rules={"max_per_host": 2}, user_id="alice")
    shown = ("name", "project_id", "user_id", "policy", "rules")
    assert [row[name] for name in shown] == ["web", "demo", "alice", "anti-affinity", {"max_per_host": 2}]
    assert groups.get(row["uuid"]) == groups.find(MEMBER, "web") == groups.find(MEMBER, row["uuid"]) == row
    with pytest.raises(exceptions.GroupNotFound, match=MISSING):
        groups.get(MISSING)


def test_a_name_is_there_once_in_a_project():
    group(name="web")
    with pytest.raises(exceptions.Conflict, match="name web exists"):
        group(name="web", policy="affinity")
    group(name="web", project_id="other")


@pytest.mark.parametrize("ident", ["theirs", "Web", MISSING])
def test_what_the_project_does_not_have_is_not_found(ident):
    group(name="web")
    foreign = group(name="theirs", project_id="other")
    for each in (ident, foreign["uuid"]):
        with pytest.raises(exceptions.GroupNotFound, match=each):
            groups.find(MEMBER, each)


def test_an_administrator_needs_a_uuid_for_others():
    mine, theirs = group(name="web", project_id="admin"), group(name="web")
    foreign = group(name="db")
    assert groups.find(ADMIN, "web") == mine
    assert groups.find(ADMIN, theirs["uuid"]) == theirs
    for find, who in ((groups.find, ADMIN), (groups.find_for, "admin")):
        with pytest.raises(exceptions.GroupNotFound):
            find(who, "db")
    with pytest.raises(exceptions.GroupNotFound):
        groups.find_for("admin", foreign["uuid"])


def test_pages():
    for name in ("b", "a"):
        group(name=name)
    theirs = group(name="c", project_id="other")
    names = [row["name"] for row in groups.page(MEMBER, limit=9, sort_key="name")]
    assert names == ["a", "b"]
    assert [row["name"] for row in groups.page(ADMIN, limit=9, all_projects=True)] == ["b", "a", "c"]
    first = groups.page(MEMBER, limit=1)
    assert [row["name"] for row in groups.page(MEMBER, limit=1, marker=first[0]["uuid"])] == ["a"]
    with pytest.raises(exceptions.GroupNotFound):
        groups.page(MEMBER, limit=1, marker=theirs["uuid"])


def test_members_are_the_containers_that_name_it():
    first, second, empty = group(), group(), group()
    rows = [container(group_uuid=each["uuid"]) for each in (first, second, first)]
    container()
    assert groups.members([first["uuid"], second["uuid"], empty["uuid"]]) == {
        first["uuid"]: [rows[0]["uuid"], rows[2]["uuid"]],
        second["uuid"]: [rows[1]["uuid"]],
    }
    assert groups.members([]) == {}


def test_only_an_empty_group_is_deleted():
    row = group(name="web")
    member = container(group_uuid=row["uuid"], status="Error")
    with pytest.raises(exceptions.Conflict, match="Group web has 1 container"):
        groups.destroy(row["uuid"])
    containers.destroy(member["uuid"])
    groups.destroy(row["uuid"])
    with pytest.raises(exceptions.GroupNotFound):
        groups.destroy(row["uuid"])


def test_no_container_comes_into_a_group_that_is_not_there():
    with pytest.raises(exceptions.GroupNotFound):
        container(group_uuid=MISSING)
    assert page(MEMBER, limit=9) == []


def test_either_the_member_or_the_end_of_the_group_comes_first():
    for _ in range(5):
        row = group()

        def race(number, row=row):
            return groups.destroy(row["uuid"]) if number else container(group_uuid=row["uuid"])

        made, destroyed = together(2, race)
        if destroyed is None:
            assert isinstance(made, exceptions.GroupNotFound)
        else:
            assert isinstance(destroyed, exceptions.Conflict) and made["group_uuid"] == row["uuid"]


# claims


def test_anti_affinity_leaves_room_for_max_per_host():
    row = group(rules={"max_per_host": 2})
    members = [container(group_uuid=row["uuid"]) for _ in range(4)]
    node("h1"), node("h2")
    claim(members[0], "h1"), claim(members[1], "h1"), claim(members[2], "h2")
    with pytest.raises(exceptions.GroupRuleBroken, match="The host refused the claim: it has 2 containers"):
        claim(members[3], "h1")
    # Nothing of a refused claim stays: the container waits as before.
    assert containers.get(members[3]["uuid"]) == members[3]
    assert containers.is_unplaced(members[3]["uuid"])
    claim(members[3], "h2")
    assert by_host(row) == {"h1": 2, "h2": 2}


def test_the_room_of_one_that_ended_is_free():
    row = group()
    first, second = (container(group_uuid=row["uuid"]) for _ in range(2))
    claim(first, "h1")
    containers.change_claim(first["uuid"], "h1", {"cpuset": None, "host": None, "status": "Error"})
    claim(second, "h1")
    assert by_host(row) == {"h1": 1}


def test_a_claim_that_comes_twice_does_not_count_against_itself():
    row = group()
    member = container(group_uuid=row["uuid"])
    claim(member, "h1"), claim(member, "h1")
    assert by_host(row) == {"h1": 1}


def test_affinity_is_where_the_first_is_until_the_last_has_gone():
    row = group("affinity")
    first, second, third = (container(group_uuid=row["uuid"]) for _ in range(3))
    claim(first, "h1"), claim(second, "h1")
    with pytest.raises(exceptions.GroupRuleBroken, match="on another host"):
        claim(third, "h2")
    containers.destroy(first["uuid"]), containers.destroy(second["uuid"])
    claim(third, "h2")
    assert by_host(row) == {"h2": 1}


@pytest.mark.parametrize("policy", ["soft-affinity", "soft-anti-affinity"])
def test_soft_policies_refuse_nothing(policy):
    row = group(policy)
    for host in ("h1", "h1", "h2"):
        claim(container(group_uuid=row["uuid"]), host)
    assert by_host(row) == {"h1": 2, "h2": 1}


def test_other_groups_and_containers_do_not_count():
    first, second = group(), group()
    for each in (first["uuid"], second["uuid"], None):
        claim(container(group_uuid=each), "h1")
    assert len(containers.claims(["h1"])) == 3


def test_each_group_has_its_own_rule():
    soft, hard = group("soft-anti-affinity"), group()
    for each in (hard, soft):
        claim(container(group_uuid=each["uuid"]), "h1")
    claim(container(group_uuid=soft["uuid"]), "h1")
    with pytest.raises(exceptions.GroupRuleBroken):
        claim(container(group_uuid=hard["uuid"]), "h1")


@pytest.mark.parametrize("limit", [1, 3])
def test_concurrent_claims_of_a_group_stay_within_host_limit(limit):
    row = group(rules={"max_per_host": limit})
    members = [container(group_uuid=row["uuid"]) for _ in range(8)]
    node("h1")
    answers = together(8, lambda number: claim(members[number], "h1"))
    assert sum(isinstance(answer, int) for answer in answers) == limit, answers
    assert sum(isinstance(answer, exceptions.GroupRuleBroken) for answer in answers) == 8 - limit
    assert by_host(row) == {"h1": limit}


def test_concurrent_claims_of_affinity_group_end_on_one_host():
    for _ in range(4):
        row = group("affinity")
        members = [container(group_uuid=row["uuid"]) for _ in range(8)]
        answers = together(8, lambda number: claim(members[number], f"h{number % 4}"))  # noqa: B023
        assert all(isinstance(answer, (int, exceptions.GroupRuleBroken)) for answer in answers), answers
        ((host, count),) = by_host(row).items()
        assert count == 2, f"both members that came to {host} are there, nobody else is"


@pytest.mark.parametrize("policy", ["affinity", "anti-affinity"])
def test_the_trackers_of_two_hosts_keep_the_rule_together(policy):
    """From the tracker's lock to the committed row, as the agents of two hosts do it at the same time."""
    trackers = {}
    for host in ("h1", "h2"):
        trackers[host] = ComputeNodeTracker(host)
        columns = {name: value for name, value in NODE.items() if name != "topology"}
        trackers[host].update_inventory(ADMIN, machine(), columns)
    for _ in range(3):
        row = group(policy)
        members = [Container.from_row(MEMBER, container(group_uuid=row["uuid"], cpu=0.1)) for _ in range(8)]

        def place(number, members=members):
            member, host = members[number], ("h1", "h2")[number % 2]
            with trackers[host].container_claim(member) as taken:
                member.cpuset = cpuset_record(taken.plan)
                return member.save_claim(host)[0]

        answers = together(8, place)
        assert all(isinstance(answer, (int, exceptions.GroupRuleBroken)) for answer in answers), answers
        found = by_host(row)
        assert found == {"h1": 1, "h2": 1} if policy == "anti-affinity" else len(found) == 1
        # What was refused is held in memory no more.
        held = {owner for tracker in trackers.values() for owner in tracker.usage.owners}
        assert held == {each["uuid"] for each in containers.claims()}
