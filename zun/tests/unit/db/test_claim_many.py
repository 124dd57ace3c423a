# SPDX-License-Identifier: Apache-2.0
"""Claims of one host that are written together: each ends as if it were alone."""

import pytest
from oslo_db import exception as db_exc

from zun.common import exceptions
from zun.db import aggregates, compute_nodes, container_actions, containers, groups, quotas, session, volumes
from zun.db.containers import Claimed, Wanted, claim_many
from zun.tests.unit.db.rows import container, group, held_volume, node, together, written

pytestmark = pytest.mark.usefixtures("database")

STEP = ("req-1", "create", "compute__do_container_create")


def cpuset(number):
    return {"cells": [], "cpuset_cpus": str(number), "cpuset_mems": "0"}


def wanted(row, number=0, **more):
    values = {"cpuset": cpuset(number), "task_state": "container_creating"}
    return Wanted(uuid=row["uuid"], values=values, step=STEP, **more)


def begin(row, request_id="req-1"):
    container_actions.start(row["uuid"], "create", request_id=request_id, user_id="u", project_id="demo")


def steps_of(row):
    return [each["event"] for each in container_actions.find(row["uuid"], "req-1")[1]]


def test_each_row_has_its_own_claim():
    node("h1")
    rows = [container() for _ in range(5)]
    for row in rows[1:]:
        begin(row)
    before = compute_nodes.generations()["h1"].generation
    claimed = claim_many("h1", [wanted(row, number) for number, row in enumerate(rows)])
    assert [each.generation - before for each in claimed] == [1, 2, 3, 4, 5]
    assert compute_nodes.generations()["h1"].generation == before + 5
    assert claimed[0].event_id is None, "nobody asked for an action"
    assert len({each.event_id for each in claimed}) == 5
    for number, row in enumerate(rows):
        found = containers.get(row["uuid"])
        assert (found["host"], found["cpuset"], found["task_state"]) == ("h1", cpuset(number), "container_creating")
        assert number == 0 or steps_of(row) == [STEP[2]]


def test_more_claims_need_no_more_statements():
    node("h1")

    def statements(count):
        rows = [container() for _ in range(count)]
        for row in rows:
            begin(row)
        with written() as sent:
            claim_many("h1", [wanted(row) for row in rows])
        return len(sent)

    assert statements(2) == statements(20) == statements(1)


REFUSED = [
    pytest.param(lambda: {"uuid": "6f2f36d6-0e5c-4a25-9d3b-6f5a1c2d3e4f"}, {}, exceptions.ContainerNotFound, id="gone"),
    pytest.param(lambda: container(status="Deleting"), {}, exceptions.Conflict, id="to-be-deleted"),
    pytest.param(lambda: container(host="h2"), {}, exceptions.Conflict, id="of-another-host"),
    pytest.param(container, {"disk_pool": ("ceph", 9)}, exceptions.ClaimRefused, id="pool-too-small"),
    pytest.param(container, {"group_uuid": "nowhere"}, exceptions.GroupNotFound, id="group-gone"),
    pytest.param(container, {"volumes": ("demo", ["data"])}, exceptions.VolumeElsewhere, id="volume-elsewhere"),
    pytest.param(container, {"withheld": 2, "quota": {"cpu": 1}}, exceptions.ClaimOverQuota, id="over-quota"),
]


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize(("make", "more", "error"), REFUSED)
def test_a_refused_one_does_not_spoil_the_others(make, more, error, at):
    node("h1")
    uuid = aggregates.insert("ceph", {"disk_pool_gb": "8"})["uuid"]
    aggregates.add_host(uuid, "h1")
    held_volume("demo", "data", "h2")
    if "disk_pool" in more:
        more = {"disk_pool": (uuid, 9)}
    good, bad = [container(), container()], make()
    asked = [wanted(row, number) for number, row in enumerate(good)]
    asked.insert(at, wanted(bad, 7, **more))
    before = compute_nodes.generations()["h1"].generation
    outcomes = claim_many("h1", asked)
    assert isinstance(outcomes.pop(at), error)
    assert [each.generation - before for each in outcomes] == [1, 2]
    assert {row["uuid"]: row["cpuset"] for row in containers.claims(["h1"])} == {
        row["uuid"]: cpuset(number) for number, row in enumerate(good)
    }
    with pytest.raises(error):
        containers.claim(bad["uuid"], "h1", {"cpuset": cpuset(7)}, **more)


def test_a_refused_one_leaves_nothing_behind():
    """Its charge and its new volume are taken back, those of the others stay."""
    node("h1")
    team = group(rules={})["uuid"]
    first, second = (container(group_uuid=team) for _ in range(2))
    both = [
        wanted(row, group_uuid=team, withheld=3, volumes=("demo", [name]))
        for row, name in ((first, "kept"), (second, "dropped"))
    ]
    done, refused = claim_many("h1", both)
    assert isinstance(done, Claimed) and isinstance(refused, exceptions.GroupRuleBroken)
    assert volumes.hosts("demo", ["kept", "dropped"]) == {"kept": "h1"}
    assert quotas.usage("demo", ["cpu"])["cpu"] == 2 + 3
    assert containers.get(second["uuid"])["host"] is None


def test_claims_of_one_message_share_a_pool():
    node("h1")
    uuid = aggregates.insert("ceph", {"disk_pool_gb": "10"})["uuid"]
    aggregates.add_host(uuid, "h1")
    outcomes = claim_many("h1", [wanted(container(disk=4), disk_pool=(uuid, 4)) for _ in range(3)])
    assert [isinstance(each, Claimed) for each in outcomes] == [True, True, False]
    assert sum(containers.disk_holders(["h1"]).values()) == 8


def test_a_group_is_spread_whatever_comes_at_once():
    """Batches of several hosts, each with members of the same two groups."""
    teams = [group(rules={})["uuid"] for _ in range(2)]
    hosts = ["h1", "h2", "h3"]
    for host in hosts:
        node(host)
    asked = {host: [wanted(container(group_uuid=team), group_uuid=team) for team in teams * 2] for host in hosts}
    together(3, lambda number: claim_many(hosts[number], asked[hosts[number]]))
    with session.reader() as connection:
        for team in teams:
            assert groups.held(connection, team, without="") == dict.fromkeys(hosts, 1)


def test_a_second_attempt_finds_the_claims_of_the_first(monkeypatch):
    """The connection is lost after the commit, so nobody knows whether the claims are written."""
    node("h1")
    rows = [container() for _ in range(3)]
    for row in rows:
        begin(row)
    really, times = session.writer, []

    def lost(*arguments):
        context = really(*arguments)

        class Losing:
            def __enter__(self):
                return context.__enter__()

            def __exit__(self, *error):
                context.__exit__(*error)
                times.append(error)
                if len(times) == 1:
                    raise db_exc.DBConnectionError("gone away")

        return Losing()

    monkeypatch.setattr(session, "writer", lost)
    claimed = claim_many("h1", [wanted(row, number) for number, row in enumerate(rows)])
    assert len(times) == 2
    assert all(isinstance(each, Claimed) for each in claimed)
    for number, row in enumerate(rows):
        assert containers.get(row["uuid"])["cpuset"] == cpuset(number)
        assert steps_of(row) == [STEP[2]], "a step is recorded once"


def test_the_action_of_the_request_comes_before_a_newer_one():
    node("h1")
    first, second = (container() for _ in range(2))
    begin(first, "req-1")
    begin(first, "req-2")
    begin(second, "req-3")
    claim_many("h1", [wanted(first), wanted(second)])
    events = {
        (row["uuid"], request): len(container_actions.find(row["uuid"], request)[1])
        for row, request in ((first, "req-1"), (first, "req-2"), (second, "req-3"))
    }
    assert list(events.values()) == [1, 0, 1]
