# SPDX-License-Identifier: Apache-2.0
from collections import Counter

import pytest

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.states import ALLOWED
from zun.db import container_actions, containers, explanations, sets
from zun.tests.unit.db.rows import CPUSET, SET_WHO, a_set, together, values

pytestmark = pytest.mark.usefixtures("database")

MEMBER = RequestContext(user_id="alice", project_id="demo", roles=["member"])
OTHER = RequestContext(user_id="bob", project_id="other", roles=["member"])
HOW = {"force": False, "stop_timeout": 10}


def statuses(uuid):
    return dict(Counter(row["status"] for row in sets.members(uuid)))


def actions(uuid):
    return {
        row["set_index"]: [each["action"] for each in container_actions.of_container(row["uuid"])]
        for row in sets.members(uuid)
    }


def stop(uuid, **more):
    return sets.accept(uuid, "stop", allowed=ALLOWED["stop"], values={}, arguments={}, who=SET_WHO, **more)


def test_a_new_set_is_found_by_uuid_and_name():
    row, members = a_set("Creating", "Creating", name="web")
    assert sets.get(row["uuid"]) == sets.find(MEMBER, "web") == sets.find(MEMBER, row["uuid"]) == row
    assert [(each["name"], each["set_index"]) for each in members] == [("web-0", 0), ("web-1", 1)]
    assert actions(row["uuid"]) == {0: ["create"], 1: ["create"]}
    assert [each["uuid"] for each in sets.page(MEMBER, limit=9)] == [row["uuid"]]
    assert sets.page(OTHER, limit=9) == []
    with pytest.raises(exceptions.ContainerSetNotFound):
        sets.find(OTHER, "web")


def test_quota_is_asked_once_for_all_members():
    with pytest.raises(exceptions.OverQuota, match="asked for 3 more"):
        rows = [values(name=f"web-{number}", set_uuid=None) for number in range(3)]
        sets.insert({"name": "web"}, rows, SET_WHO, {"containers": 2, "cpu": -1, "memory": -1, "disk": -1, "ports": -1})
    assert sets.page(MEMBER, limit=9) == [] == containers.unplaced()


def test_action_is_recorded_for_members_that_allow_it():
    row, _ = a_set("Running", "Stopped", "Creating", "Running")
    assert [each["set_index"] for each in stop(row["uuid"])] == [0, 3]
    assert actions(row["uuid"]) == {0: ["stop", "create"], 1: ["create"], 2: ["create"], 3: ["stop", "create"]}


def test_action_of_some_members():
    row, members = a_set("Running", "Running")
    assert [each["set_index"] for each in stop(row["uuid"], only=[members[1]["uuid"]])] == [1]


def test_stop_leaves_a_member_that_is_to_be_rebooted():
    row, members = a_set("Running", "Restarting")
    containers.update(members[1]["uuid"], {"task_state": "container_rebooting"})
    assert [each["set_index"] for each in stop(row["uuid"])] == [0]


def test_delete_leaves_members_that_a_host_has():
    row, members = a_set("Running", "Creating", "Deleting")
    removed, deleting = sets.delete(row["uuid"], ALLOWED["delete_after_stop"], HOW, SET_WHO)
    assert [each["uuid"] for each in removed] == [members[1]["uuid"]]
    assert [each["uuid"] for each in deleting] == [members[0]["uuid"]]
    assert {each["status"] for each in containers.of_uuids([each["uuid"] for each in members])} == {"Deleting"}
    with pytest.raises(exceptions.ContainerSetNotFound):
        sets.get(row["uuid"])


def test_delete_changes_nothing_if_a_member_refuses():
    row, _ = a_set("Stopped", "Running", "Creating")
    with pytest.raises(exceptions.StatusChanged):
        sets.delete(row["uuid"], ALLOWED["delete"], HOW, SET_WHO)
    assert statuses(row["uuid"]) == {"Stopped": 1, "Running": 1, "Creating": 1}
    assert sets.get(row["uuid"]) == row


def test_claim_or_delete_of_a_member_wins():
    for _ in range(10):
        row, members = a_set("Creating", "Creating")

        def either(number, uuid=row["uuid"], member=members[0]["uuid"]):
            if number:
                return sets.delete(uuid, frozenset(["Creating"]), HOW, SET_WHO)
            return containers.claim(member, "host-1", {"cpuset": CPUSET})

        claimed, (removed, deleting) = together(2, either)
        lost = isinstance(claimed, (exceptions.ContainerNotFound, exceptions.Conflict))
        assert (len(removed), len(deleting)) == ((2, 0) if lost else (1, 1))


@pytest.mark.parametrize(("found", "count", "numbers"), [
    pytest.param(["Running", "Stopped"], 2, (), id="none"),
    pytest.param(["Running", "Error", "Dead"], 3, (1, 2), id="failed"),
    pytest.param(["Running"], 3, (1, 2), id="missing"),
    pytest.param(["Deleting", "Running"], 2, (0,), id="being-deleted"),
])
def test_lost_members(found, count, numbers):
    row, _ = a_set(*found, count=count)
    assert sets.lost(row).numbers == numbers


def test_number_gets_one_living_member():
    row, members = a_set("Error", "Running", count=3)
    new = values(name="new", set_uuid=row["uuid"], set_index=2)
    sets.add_members(row["uuid"], [new], SET_WHO)
    with pytest.raises(exceptions.Conflict, match="Member 2 of the set was replaced"):
        sets.add_members(row["uuid"], [values(name="new", set_uuid=row["uuid"], set_index=2)], SET_WHO)
    assert [each["set_index"] for each in sets.members(row["uuid"])] == [0, 1, 2]
    assert len(members) == 2


def test_two_replacements_at_once_make_one_member():
    row, _ = a_set("Running", count=2)

    def replace(_):
        try:
            sets.add_members(row["uuid"], [values(name="new", set_uuid=row["uuid"], set_index=1)], SET_WHO)
        except exceptions.Conflict:
            return 0
        return 1

    assert sum(together(3, replace)) == 1
    assert len(sets.members(row["uuid"])) == 2


def test_waiting_members_end_with_the_reason():
    row, members = a_set("Creating", "Running", "Creating")
    uuids = [each["uuid"] for each in members]
    record = {"reason": "full"}
    assert sets.end_waiting(row["uuid"], uuids, "no room", record) == [uuids[0], uuids[2]]
    assert statuses(row["uuid"]) == {"Error": 2, "Running": 1}
    assert sets.get(row["uuid"])["status_reason"] == "no room"
    assert explanations.get(uuids[0])["record"] == record
    assert sets.end_waiting(row["uuid"], uuids, "no room", record) == []


def test_one_of_several_schedulers_touches_a_set():
    row, _ = a_set("Creating")
    assert sum(together(3, lambda _: sets.touch(row["uuid"], row["updated_at"]))) == 1
