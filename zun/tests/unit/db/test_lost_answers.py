# SPDX-License-Identifier: Apache-2.0
"""A connection that is lost while a transaction is committed: the row is there, and nobody was told."""

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_utils import uuidutils

from zun.common import exceptions
from zun.common.subnets import Pool
from zun.db import (
    aggregates,
    capsules,
    container_actions,
    containers,
    groups,
    images,
    models,
    network_ports,
    networks,
    quotas,
    registries,
    session,
)
from zun.tests.unit.db.rows import CPUSET, node, values

QUOTA = {"containers": 1, "cpu": 1, "memory": 64, "disk": 0}
SUBNET = {"cidr": "10.1.2.0/24", "gateway": "10.1.2.1"}
IMAGE = {"project_id": "demo", "host": "h1", "repo": "r", "tag": "t"}
OWNER = {"project_id": "demo", "user_id": "alice"}
GROUP = {**OWNER, "name": "g", "policy": "affinity", "rules": {}}


def unnamed(**fields):
    """Return the values of a request for a container; the row adds its uuid."""
    made = values(**OWNER, **fields)
    del made["uuid"]
    return made


@pytest.fixture
def losing(database, monkeypatch):
    """A function that has the answers to so many of the next commits lost."""
    quotas.make_chargeable("demo")
    quotas.make_chargeable("all networks")
    engines, left = session._current(), 0
    dialect = engines.writer.dialect
    commit = dialect.do_commit

    def lost(*_arguments):
        nonlocal left
        if left:
            left -= 1
            raise db_exc.DBConnectionError

    def lossy(connection):
        commit(connection)
        lost()

    def lose(commits):
        nonlocal left
        left = commits

    monkeypatch.setattr(dialect, "do_commit", lossy)
    lose.lost = lost
    return lose


@pytest.mark.parametrize(
    ("add", "table"),
    [
        pytest.param(lambda: containers.insert(unnamed(), QUOTA), "containers", id="all-of-a-quota"),
        pytest.param(lambda: groups.insert(GROUP), "container_groups", id="group"),
        pytest.param(lambda: aggregates.insert("a", {}), "aggregates", id="aggregate"),
        pytest.param(
            lambda: networks.insert({**OWNER, "name": "n"}, [SUBNET], Pool("10.0.0.0/16", 24)), "networks", id="network"
        ),
        pytest.param(lambda: registries.insert({**OWNER, "domain": "example.org"}), "registries", id="registry"),
        pytest.param(lambda: images.insert(IMAGE), "images", id="image"),
        pytest.param(lambda: images.insert_committed(IMAGE), "images", id="committed-image"),
    ],
)
def test_what_was_added_is_there_once(losing, add, table):
    losing(1)
    row = add()
    with session.reader() as connection:
        found = session.rows(connection, sa.select(models.metadata.tables[table]))
    assert found == [row]


def test_a_capsule_is_there_once_with_its_members(losing):
    losing(1)
    uuid = uuidutils.generate_uuid()
    row = capsules.insert(values(uuid=uuid, **OWNER), [unnamed(name="one", kind="member")])
    assert row["uuid"] == uuid
    assert [member["name"] for member in capsules.members([uuid])[uuid]] == ["one"]


def test_what_was_refused_is_refused(losing):
    containers.insert(unnamed(), QUOTA)
    losing(1)
    with pytest.raises(exceptions.OverQuota):
        containers.insert(unnamed(), QUOTA)


CREATING = frozenset({"Creating"})


@pytest.fixture
def losing_single(losing):
    """Like ``losing``, but the answers of the next statements are lost where one statement is a commit."""
    single = session._current().single
    if single is not None:
        sa.event.listen(single, "after_cursor_execute", losing.lost)
    yield losing
    if single is not None:
        sa.event.remove(single, "after_cursor_execute", losing.lost)


def test_a_status_that_was_set_is_nobody_else_s(losing_single):
    row = containers.insert(unnamed())
    losing_single(1)
    containers.update(row["uuid"], {"status": "Deleting"}, only_from=CREATING)
    assert containers.get(row["uuid"])["status"] == "Deleting"
    with pytest.raises(exceptions.StatusChanged):
        containers.update(row["uuid"], {"status": "Deleting"}, only_from=CREATING)


def test_a_claim_that_was_given_back_is_told(losing):
    node("h1")
    row = containers.insert(unnamed())
    claimed = containers.claim(row["uuid"], "h1", {"cpuset": CPUSET})
    losing(1)
    ended = {"status": "Error", "cpuset": None, "host": None}
    assert containers.change_claim(row["uuid"], "h1", ended, only_from=CREATING) > claimed.generation
    assert (containers.get(row["uuid"])["status"], containers.claims(["h1"])) == ("Error", [])
    with pytest.raises(exceptions.StatusChanged):
        containers.change_claim(row["uuid"], "h1", ended, only_from=CREATING)


def test_a_claim_begins_its_step_once(losing):
    node("h1")
    row = containers.insert(unnamed())
    container_actions.start(row["uuid"], "create", request_id="req-1", user_id=None, project_id="demo")
    losing(1)
    claimed = containers.claim(row["uuid"], "h1", {"cpuset": CPUSET}, step=("req-1", "create", "do_create"))
    assert [event["id"] for event in container_actions.find(row["uuid"], "req-1")[1]] == [claimed.event_id]
    assert [claim["uuid"] for claim in containers.claims(["h1"])] == [row["uuid"]]


def test_a_claim_of_what_is_deleted_meanwhile_is_refused(losing, monkeypatch):
    node("h1")
    row = containers.insert(unnamed())

    def accept_delete(_seconds):
        containers.update(row["uuid"], {"status": "Deleting"}, only_from=CREATING)

    monkeypatch.setattr("time.sleep", accept_delete)
    losing(1)
    with pytest.raises(exceptions.Conflict):
        containers.claim(row["uuid"], "h1", {"cpuset": CPUSET})
    assert containers.get(row["uuid"])["host"] == "h1", "which finds it by that when it deletes it"


def test_a_larger_claim_is_charged_once(losing):
    node("h1")
    row = containers.insert(unnamed(), QUOTA)
    containers.claim(row["uuid"], "h1", {"cpuset": CPUSET})
    losing(1)
    larger = {**QUOTA, "containers": 2, "cpu": 2, "memory": 2 * 64}
    containers.change_claim(row["uuid"], "h1", {"cpu": 1.5}, larger)
    locks = models.quota_locks
    with session.reader() as connection:
        assert connection.execute(sa.select(locks.c.cpu).where(locks.c.project_id == "demo")).scalar() == 1.5
    containers.insert(unnamed(cpu=0.5), larger)
    with pytest.raises(exceptions.OverQuota):
        containers.insert(unnamed(cpu=0.5), larger)


def test_an_accepted_action_is_wanted_once(losing):
    row = containers.insert(unnamed(status="Running"))
    stop = {"allowed": frozenset({"Running"}), "values": {"status": "Deleting"}, "arguments": {"timeout": 5}}
    who = {"request_id": "req-1", "user_id": None, "project_id": "demo", "client_address": None}
    losing(1)
    containers.accept(row["uuid"], "delete", **stop, **who)
    assert [each["arguments"] for each in container_actions.wanted(row["uuid"])] == [{"timeout": 5}]
    with pytest.raises(exceptions.StatusChanged):
        containers.accept(row["uuid"], "delete", **stop, **{**who, "request_id": "req-2"})


@pytest.mark.parametrize("recorded", [True, False])
def test_arguments_of_an_old_message_are_noted_once(losing, recorded):
    row = containers.insert(unnamed())
    who = {"request_id": "req-1", "user_id": None, "project_id": "demo"}
    if recorded:
        container_actions.start(row["uuid"], "stop", **who)
    losing(1)
    container_actions.note_arguments(row["uuid"], "stop", {"timeout": 5}, **who)
    assert [each["arguments"] for each in container_actions.wanted(row["uuid"])] == [{"timeout": 5}]


def test_an_action_and_its_step_are_noted_once(losing):
    row = containers.insert(unnamed())
    losing(1)
    container_actions.start(row["uuid"], "stop", request_id="req-1", user_id=None, project_id="demo")
    assert [action["request_id"] for action in container_actions.of_container(row["uuid"])] == ["req-1"]
    losing(1)
    event = container_actions.start_event(row["uuid"], "req-1", "stop", "do_stop")
    assert [each["id"] for each in container_actions.find(row["uuid"], "req-1")[1]] == [event]


def test_a_step_that_is_done_again_is_noted_again(losing):
    row = containers.insert(unnamed())
    container_actions.start(row["uuid"], "stop", request_id="req-1", user_id=None, project_id="demo")
    first = container_actions.start_event(row["uuid"], "req-1", "stop", "do_stop")
    assert first is not None
    container_actions.finish_event(first, "Success", None, last=False)
    assert container_actions.start_event(row["uuid"], "req-1", "stop", "do_stop") not in (None, first)


def test_who_changed_a_row_is_told_so(losing_single):
    row = containers.insert(unnamed())
    expected = {"status": "Creating", "host": None, "updated_at": None}
    losing_single(1)
    assert containers.update_if(row["uuid"], expected, {})
    losing_single(1)
    assert not containers.update_if(row["uuid"], expected, {}), "it is somebody else who asks now"


def test_who_ended_what_waited_is_told_so(losing):
    row = containers.insert(unnamed())
    losing(1)
    assert containers.end_unplaced(row["uuid"], "no host")
    losing(1)
    assert not containers.end_unplaced(row["uuid"], "no host")


def test_who_removed_what_waited_is_told_so(losing):
    node("h1")
    row, placed = containers.insert(unnamed()), containers.insert(unnamed())
    containers.claim(placed["uuid"], "h1", {"cpuset": CPUSET})
    losing(1)
    assert containers.destroy_unplaced(row["uuid"])
    losing(1)
    assert not containers.destroy_unplaced(placed["uuid"])


def test_who_joined_and_left_a_network_is_told_so(losing):
    network = networks.insert({**OWNER, "name": "n"}, [SUBNET], Pool("10.0.0.0/16", 24))
    row = containers.insert(unnamed())
    losing(1)
    port = network_ports.attach(row["uuid"], {"network": network["uuid"]})
    assert network_ports.of_container(row["uuid"]) == [port]
    with pytest.raises(exceptions.Invalid):
        network_ports.attach(row["uuid"], {"network": network["uuid"]})
    losing(1)
    assert network_ports.set_leaving(port["uuid"], True)
    assert not network_ports.set_leaving(port["uuid"], True)


def test_a_database_that_is_away_is_asked_ten_times_more(database, monkeypatch):
    """A wait in another wait would keep a request for minutes."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    asked = []

    def away():
        asked.append(1)
        raise db_exc.DBConnectionError

    monkeypatch.setattr(session, "reader", away)
    with pytest.raises(db_exc.DBConnectionError):
        containers.insert(values(), QUOTA)
    assert len(asked) == 11
