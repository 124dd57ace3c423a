# SPDX-License-Identifier: Apache-2.0
"""The way of a container between hosts, and drains, in every database."""

import pytest

from zun.common import exceptions
from zun.common.departures import DEPARTED, LEFT_BY, uuid_of_left
from zun.db import container_actions, containers, departures, drains, quotas, services
from zun.tests.unit.db import rows

WHO = {"request_id": "req-1", "user_id": "u", "project_id": "demo", "client_address": None}


@pytest.fixture
def leaving(database):
    """A container of host one that is to leave, and the step of that."""
    for name in ("one", "two"):
        rows.node(name)
        services.heartbeat(name, "zun-compute", "nova")
    return ready()


def ready(**fields):
    made = rows.container(host="one", status="Running", cpuset=rows.CPUSET, container_id="c" * 64, disk=3, **fields)
    who = {name: WHO[name] for name in ("request_id", "user_id", "project_id")}
    container_actions.note_arguments(made["uuid"], "leave", {"host": "two"}, **who)
    return made["uuid"], container_actions.start_event(made["uuid"], "req-1", "leave", "e")


def depart(leaving, **more):
    uuid, step = leaving
    return departures.depart(uuid, "one", step=step, run=True, **more)


def test_what_it_leaves_has_the_claim(leaving):
    uuid = leaving[0]
    before = quotas.usage("demo")
    generation, left = depart(leaving, layer="dGFy")
    assert generation > 0
    row = containers.get(uuid)
    assert (row["host"], row["cpuset"], row["status"]) == (None, None, "Creating")
    assert row["request"][DEPARTED] == {"from": "one", "to": "two", "sent": False, "layer": True}
    assert (left["uuid"], left["host"], left["cpuset"]) == (uuid_of_left(uuid, "one"), "one", rows.CPUSET)
    assert left["request"][LEFT_BY]["request_id"] == "req-1"
    assert departures.layer_of(uuid) == "dGFy"
    assert [each["uuid"] for each in containers.claims(["one"])] == [left["uuid"]]
    assert quotas.usage("demo") == before
    assert [each["action"] for each in container_actions.wanted(uuid)] == ["create"]
    ((found, owner),) = departures.under_way()
    assert (found["uuid"], owner["uuid"]) == (left["uuid"], uuid)
    assert depart(leaving)[1]["uuid"] == left["uuid"], "an answer that was lost is asked for again"


def test_it_is_sent_once(leaving):
    depart(leaving)
    ((_, row),) = departures.under_way()
    assert departures.send(row) and not departures.send(row)
    assert containers.get(row["uuid"])["request"][DEPARTED]["sent"]


def test_it_arrives(leaving):
    depart(leaving, layer="dGFy")
    ((left, _),) = departures.under_way()
    containers.claim(leaving[0], "two", {"cpuset": rows.CPUSET})
    containers.update(leaving[0], {"status": "Running"})
    row = containers.get(leaving[0])
    assert not departures.end(left, {**row, "status": "Stopped"}), "it has changed"
    assert departures.end(left, row)
    assert departures.under_way() == [] and departures.layer_of(leaving[0]) is None
    assert containers.get(left["uuid"])["status"] == "Deleting"
    assert DEPARTED not in containers.get(leaving[0])["request"]


def test_it_comes_back(leaving):
    depart(leaving)
    containers.end_unplaced(leaving[0], "full")
    ((left, row),) = departures.under_way()
    assert not departures.come_back(left, {**row, "host": "two"}, "full"), "it has changed"
    assert departures.come_back(left, row, "full")
    now = containers.get(leaving[0])
    assert (now["host"], now["status"], now["cpuset"], now["disk"]) == ("one", "Stopped", rows.CPUSET, 3)
    assert now["container_id"] == "c" * 64 and DEPARTED not in now["request"]
    assert [each["action"] for each in container_actions.wanted(leaving[0])] == ["start"]
    assert containers.of_uuids([left["uuid"]]) == []
    action, steps = container_actions.find(leaving[0], "req-1")
    assert (action["message"], steps[-1]["traceback"]) == ("Error", "full")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"host": "two"}, "not on host one"),
        ({"status": "Paused"}, "its status is Paused"),
        ({"auto_remove": True}, "removes itself"),
    ],
)
def test_it_stays(leaving, change, words):
    containers.update(leaving[0], change)
    with pytest.raises(exceptions.Conflict, match=words):
        depart(leaving)
    assert departures.under_way() == []


def test_a_step_of_another_container_lets_nothing_leave(leaving):
    other, _ = ready()
    with pytest.raises(exceptions.Conflict, match="Nobody wants"):
        departures.depart(other, "one", step=leaving[1], run=True)


def test_a_drain_lets_some_leave_at_a_time(database):
    for name in ("one", "two"):
        rows.node(name)
        services.heartbeat(name, "zun-compute", "nova")
    uuids = [rows.container(host="one", status="Running", cpuset=rows.CPUSET)["uuid"] for _ in range(3)]
    drains.begin("one", parallel=2, discard_layer=True, who=WHO)
    assert services.closed("zun-compute") == {"one"}
    assert drains.accept_next("one", "req-other") == []
    assert drains.accept_next("one", "req-1") == uuids[:2]
    assert drains.accept_next("one", "req-1") == []
    assert [each["state"] for each in drains.report("one", drains.wishes()["one"])] == ["moves", "moves", "waits"]
    container_actions.end(uuids[0], container_actions.wanted(uuids[0])[0]["id"], "e", "it stays")
    assert drains.accept_next("one", "req-1") == uuids[2:]
    told = drains.report("one", drains.wishes()["one"])[0]
    assert (told["state"], told["reason"]) == ("stays", "it stays")
    drains.end("one")
    assert services.closed("zun-compute") == set() and drains.wishes() == {}
