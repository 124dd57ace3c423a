# SPDX-License-Identifier: Apache-2.0
import datetime
import itertools

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_utils import timeutils, uuidutils

from zun.common import exceptions, states
from zun.common.context import RequestContext
from zun.common.states import Status
from zun.db import (
    compute_nodes,
    console_tokens,
    container_actions,
    containers,
    explanations,
    models,
    services,
    session,
)
from zun.tests.unit.db.rows import CPUSET, container, explained, node, together, values

pytestmark = pytest.mark.usefixtures("database")
MISSING = "6f2f36d6-0e5c-4a25-9d3b-6f5a1c2d3e4f"


def generation(hostname):
    return compute_nodes.find(hostname)["generation"]


def test_characters_beyond_the_first_plane(context):
    with pytest.raises(exceptions.ContainerNotFound):
        containers.find(context, "\U0001f600")
    row = container(environment={"A": "\U0001f600"})
    assert containers.get(row["uuid"])["environment"] == {"A": "\U0001f600"}


# insert, get


def test_a_new_row_has_what_was_given_and_is_read_back_whole():
    given = values(
        command=["sleep", "1000"],
        environment={"A": "ü", "B": ""},
        labels={},
        placement={"numa_nodes": 2},
        started_at=datetime.datetime(2026, 1, 2, 3, 4, 5, 678901),
        exit_code=-1,
        memory=2**40,
        cpu=0.1,
        status_reason="x" * 60000,
    )
    row = containers.insert(given)
    assert {name: row[name] for name in given} == given
    assert containers.get(given["uuid"]) == row
    assert row["created_at"] is not None and row["updated_at"] is None
    assert (row["host"], row["cpuset"], row["disk"], row["tty"], row["auto_remove"]) == (None, None, 0, False, False)


def test_a_row_without_a_uuid_gets_one():
    given = values()
    del given["uuid"]
    row = containers.insert(given)
    assert uuidutils.is_uuid_like(row["uuid"]) and containers.get(row["uuid"])["name"] == given["name"]


def test_a_uuid_is_there_once():
    row = container()
    with pytest.raises(db_exc.DBDuplicateEntry):
        container(uuid=row["uuid"])


def test_times_keep_their_microseconds():
    moment = datetime.datetime(2026, 5, 6, 7, 8, 9, 123456)
    assert containers.get(container(started_at=moment)["uuid"])["started_at"] == moment


def test_get_finds_whoever_owns_it_and_tells_what_is_missing():
    assert containers.get(container(project_id="other")["uuid"])["project_id"] == "other"
    with pytest.raises(exceptions.ContainerNotFound, match=MISSING):
        containers.get(MISSING)


# unique names

UNIQUE = [containers.Scope.PROJECT, containers.Scope.GLOBAL]


@pytest.mark.parametrize(
    ("unique", "others"),
    [
        pytest.param(None, ["demo", "other"], id="nowhere"),
        pytest.param(containers.Scope.PROJECT, ["other"], id="project"),
        pytest.param(containers.Scope.GLOBAL, [], id="global"),
    ],
)
def test_where_a_name_is_there_once(unique, others):
    container(name="Web"), container(name="db", kind="capsule"), container(name="cache", capsule_uuid=MISSING)
    taken = []
    for project in ("demo", "other"):
        try:
            containers.insert(values(name="wEB", project_id=project), unique=unique)
        except exceptions.ContainerAlreadyExists as exc:
            assert "wEB" in str(exc)
            taken.append(project)
    assert {"demo", "other"} - set(taken) == set(others)
    for name in ("db", "cache", "free"):
        assert containers.insert(values(name=name), unique=unique)["name"] == name


@pytest.mark.parametrize("unique", UNIQUE)
def test_a_unique_name_is_given_once_when_many_ask_for_it(unique):
    for turn in range(5):

        def insert(number, name=f"web-{turn}"):
            project = "demo" if unique is containers.Scope.PROJECT else f"project-{number}"
            return containers.insert(values(name=name, project_id=project), unique=unique)

        answers = together(8, insert)
        assert [type(each) for each in answers].count(exceptions.ContainerAlreadyExists) == 7


@pytest.mark.parametrize("unique", UNIQUE)
def test_a_name_is_taken_by_one_of_those_who_rename_to_it(unique):
    rows = [container() for _ in range(6)]
    for turn in range(5):

        def rename(number, name=f"web-{turn}"):
            return containers.rename(rows[number]["uuid"], name, "demo", unique)

        answers = together(6, rename)
        assert sorted(map(str, answers)) == [f"A container with name web-{turn} already exists."] * 5 + ["None"]
        assert sum(containers.get(row["uuid"])["name"] == f"web-{turn}" for row in rows) == 1


def test_the_case_of_an_own_unique_name_may_be_changed():
    row = container(name="web")
    containers.rename(row["uuid"], "WEB", "demo", containers.Scope.GLOBAL)
    assert containers.get(row["uuid"])["name"] == "WEB"
    with pytest.raises(exceptions.ContainerNotFound):
        containers.rename(MISSING, "other", "demo", None)


# find

DEMO = RequestContext(user_id="alice", project_id="demo", roles=["member"])
ADMIN = RequestContext(user_id="root", project_id="admin", roles=["admin"])
U = [f"00000000-0000-0000-0000-00000000000{number}" for number in range(6)]


@pytest.mark.parametrize(
    ("context", "ident", "expected"),
    [
        pytest.param(DEMO, "mine", 0, id="own-by-name"),
        pytest.param(DEMO, U[0], 0, id="own-by-uuid"),
        pytest.param(DEMO, "theirs", exceptions.ContainerNotFound, id="foreign-by-name"),
        pytest.param(DEMO, U[1], exceptions.ContainerNotFound, id="foreign-by-uuid"),
        pytest.param(DEMO, "both", 2, id="a-name-is-looked-for-in-the-project"),
        pytest.param(DEMO, "twice", exceptions.Conflict, id="a-name-given-twice"),
        pytest.param(DEMO, "nobody", exceptions.ContainerNotFound, id="unknown-name"),
        pytest.param(DEMO, MISSING, exceptions.ContainerNotFound, id="unknown-uuid"),
        pytest.param(DEMO, "min", exceptions.ContainerNotFound, id="part-of-a-name"),
        pytest.param(DEMO, "%", exceptions.ContainerNotFound, id="no-pattern"),
        pytest.param(ADMIN, U[1], 1, id="admin-by-uuid"),
        pytest.param(ADMIN, "theirs", exceptions.ContainerNotFound, id="admin-by-name"),
        pytest.param(ADMIN, "both", exceptions.ContainerNotFound, id="admin-by-a-name-of-two-projects"),
    ],
)
def test_find_gives_what_the_context_may_see(context, ident, expected):
    names = [("mine", "demo"), ("theirs", "other"), ("both", "demo"), ("both", "other"), ("twice", "demo")]
    for uuid, (name, project) in zip(U, [*names, ("twice", "demo")], strict=True):
        container(uuid=uuid, name=name, project_id=project)
    if isinstance(expected, int):
        assert containers.find(context, ident)["uuid"] == U[expected]
    else:
        with pytest.raises(expected, match="Several" if expected is exceptions.Conflict else ident):
            containers.find(context, ident)


def test_find_in_all_projects():
    mine, theirs = container(name="web")["uuid"], container(name="db", project_id="other")["uuid"]
    for context in (DEMO, ADMIN):
        found = [containers.find(context, ident, all_projects=True)["uuid"] for ident in ("web", "db", theirs)]
        assert found == [mine, theirs, theirs]
    other = container(name="web", project_id="other")["uuid"]
    with pytest.raises(exceptions.Conflict, match=f"Several have the name web.*: {mine}, {other}."):
        containers.find(DEMO, "web", all_projects=True)


def test_a_name_of_many_tells_ten_uuids():
    uuids = [container(name="web")["uuid"] for _ in range(12)]
    with pytest.raises(exceptions.Conflict) as caught:
        containers.find(DEMO, "web")
    assert f"{', '.join(uuids[:10])}, ...." in str(caught.value) and uuids[10] not in str(caught.value)


def test_names_know_case():
    for name in ("web", "Web"):
        container(name=name)
    assert [containers.find(DEMO, name)["name"] for name in ("web", "Web")] == ["web", "Web"]


def test_text_that_looks_like_a_uuid_is_no_name():
    container(name=MISSING)
    with pytest.raises(exceptions.ContainerNotFound):
        containers.find(DEMO, MISSING)


# update


def statuses(old):
    """Status -> what becomes of a container in status ``old`` that is to have it."""
    found = {}
    for new in Status:
        uuid = container(status=old)["uuid"]
        try:
            containers.update(uuid, {"status": new, "status_reason": "because"})
        except exceptions.IllegalTransition as exc:
            assert str(exc) == f"Container {uuid} cannot go from {old} to {new}."
        row = containers.get(uuid)
        found[new] = (row["status"], row["status_reason"])
    return found


@pytest.mark.parametrize("old", Status)
def test_a_status_is_set_only_where_the_table_leads(old):
    legal = states.TRANSITIONS[old] | {old}
    assert statuses(old) == {new: (new, "because") if new in legal else (old, None) for new in Status}


@pytest.mark.parametrize(
    ("now", "new", "error"),
    [
        ("Running", "Stopped", None),
        ("Rebuilding", "Stopped", exceptions.StatusChanged),  # which may precede it, but was not seen
        ("Creating", "Paused", exceptions.IllegalTransition),  # which was seen, but may not precede it
    ],
)
def test_a_status_is_set_only_from_those_it_was_decided_for(now, new, error):
    row = container(status=now, host="h1", cpuset=CPUSET)
    node("h1")
    values = {"status": new, "status_reason": "because"}
    for change in (
        lambda: containers.update(row["uuid"], values, only_from=frozenset({"Running", "Creating"})),
        lambda: containers.change_claim(row["uuid"], "h1", values, only_from=frozenset({"Running", "Creating", new})),
    ):
        if error is None:
            change()
        else:
            with pytest.raises(error) as caught:
                change()
            assert type(caught.value) is error
    row = containers.get(row["uuid"])
    assert (row["status"], row["status_reason"]) == ((now, None) if error else (new, "because"))


@pytest.mark.parametrize("only_from", [frozenset(), frozenset({"Creating"})], ids=["none", "none-before-it"])
@pytest.mark.parametrize("values", [{"status": "Paused"}, {"exit_code": 1}], ids=str)
def test_what_was_decided_for_no_status_is_not_set(only_from, values):
    uuid = container(status="Running")["uuid"]
    with pytest.raises(exceptions.StatusChanged):
        containers.update(uuid, values, only_from=only_from)
    assert (containers.get(uuid)["status"], containers.get(uuid)["exit_code"]) == ("Running", None)


def test_what_was_decided_for_a_status_is_set_only_in_it():
    uuid = container(status="Rebuilding")["uuid"]
    with pytest.raises(exceptions.StatusChanged):
        containers.update(uuid, {"exit_code": 1}, only_from=frozenset({"Running"}))
    containers.update(uuid, {"exit_code": 2}, only_from=frozenset({"Running", "Rebuilding"}))
    assert (containers.get(uuid)["status"], containers.get(uuid)["exit_code"]) == ("Rebuilding", 2)
    containers.update(uuid, {"exit_code": 3})
    assert containers.get(uuid)["exit_code"] == 3


def test_an_update_says_when_and_touches_nothing_else():
    row = container(labels={"a": "b"})
    containers.update(row["uuid"], {"task_state": "container_creating", "labels": {"c": "d"}})
    after = containers.get(row["uuid"])
    assert after["updated_at"] >= after["created_at"]
    assert dict(after) == {
        **row,
        "task_state": "container_creating",
        "labels": {"c": "d"},
        "updated_at": after["updated_at"],
        "revision": row["revision"] + 1,
    }


def test_a_value_can_be_taken_away():
    row = container(cpuset=CPUSET, host="h1")
    containers.update(row["uuid"], {"cpuset": None, "host": None})
    assert containers.claims() == []


@pytest.mark.parametrize("fields", [{"status": "Running"}, {"task_state": "container_creating"}])
def test_an_update_of_nothing_says_so(fields):
    with pytest.raises(exceptions.ContainerNotFound, match=MISSING):
        containers.update(MISSING, fields)


# update_if


@pytest.mark.parametrize(
    ("expected", "done"),
    [
        pytest.param({}, True, id="no-condition"),
        pytest.param({"status": "Creating", "host": None}, True, id="all-hold"),
        pytest.param({"status": "Creating", "host": "h1"}, False, id="null-is-no-value"),
        pytest.param({"status": "Created"}, False, id="another-value"),
        pytest.param({"name": None}, False, id="a-value-is-not-null"),
    ],
)
def test_update_if_compares_first(expected, done):
    row = container()
    assert containers.update_if(row["uuid"], expected, {"status_reason": "seen"}) is done
    assert containers.get(row["uuid"])["status_reason"] == ("seen" if done else None)


def test_parallel_changes_of_groups_are_all_kept():
    row = container()
    together(8, lambda number: containers.change_group(row["uuid"], f"group-{number}", add=True))
    assert sorted(containers.get(row["uuid"])["security_groups"]) == [f"group-{number}" for number in range(8)]
    together(8, lambda number: containers.change_group(row["uuid"], f"group-{number}", add=False))
    assert containers.get(row["uuid"])["security_groups"] == []
    with pytest.raises(exceptions.ContainerNotFound):
        containers.change_group(MISSING, "group", add=True)


def test_update_if_of_nothing_does_nothing():
    assert containers.update_if(MISSING, {}, {"status_reason": "seen"}) is False


def test_of_many_who_compare_and_swap_one_wins():
    for _ in range(5):
        row = container()
        seen = {"updated_at": row["updated_at"], "host": None}
        won = together(8, lambda number: containers.update_if(row["uuid"], seen, {"status_reason": str(number)}))  # noqa: B023
        assert sorted(won) == [False] * 7 + [True]
        assert containers.get(row["uuid"])["status_reason"] == str(won.index(True))


def test_compare_and_swap_counts_right():
    row = container(memory=0)

    def add(_number):
        done = 0
        while done < 10:
            seen = containers.get(row["uuid"])["memory"]
            done += containers.update_if(row["uuid"], {"memory": seen}, {"memory": seen + 1})

    assert together(8, add) == [None] * 8
    assert containers.get(row["uuid"])["memory"] == 80


# claims


def claim(row, hostname="h1"):
    return containers.claim(row["uuid"], hostname, {"cpuset": CPUSET, "task_state": "container_creating"})[0]


def test_a_claim_is_written_and_the_host_grows_older():
    node("h1"), node("h2")
    first, second = container(), container()
    assert [claim(first), claim(second)] == [1, 2]
    assert (generation("h1"), generation("h2")) == (2, 0)
    row = containers.get(first["uuid"])
    assert (row["host"], row["cpuset"], row["task_state"], row["status"]) == (
        "h1",
        CPUSET,
        "container_creating",
        "Creating",
    )


def test_a_refused_claim_leaves_the_generation():
    node("h1")
    row = container(host="h2")
    with pytest.raises(exceptions.Conflict):
        claim(row)
    assert generation("h1") == 0


def test_the_same_host_may_claim_again():
    node("h1")
    row = container()
    assert [claim(row), claim(row)] == [1, 2]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        pytest.param({"host": "h2"}, "is Creating on host h2", id="another-host-has-it"),
        pytest.param({"host": "h1", "status": "Running"}, "is Running on host h1", id="it-is-made-already"),
        pytest.param({"status": "Error"}, "is Error on host None", id="it-was-given-up"),
        pytest.param({"status": "Deleting"}, "is Deleting on host None", id="it-is-being-deleted"),
    ],
)
def test_what_waits_for_no_host_is_not_claimed(fields, text):
    node("h1")
    row = container(**fields)
    with pytest.raises(exceptions.Conflict, match=text):
        claim(row)
    assert containers.get(row["uuid"]) == row
    assert generation("h1") == 0


def test_what_was_deleted_is_not_claimed():
    node("h1")
    with pytest.raises(exceptions.ContainerNotFound):
        claim({"uuid": MISSING})
    assert generation("h1") == 0


def test_of_many_hosts_one_claims():
    for number in range(8):
        node(f"h{number}")
    for turn in range(1, 4):
        row = container()
        answers = together(8, lambda number: claim(row, f"h{number}"))  # noqa: B023
        (winner,) = [number for number, answer in enumerate(answers) if isinstance(answer, int)]
        losers = [answer for answer in answers if not isinstance(answer, int)]
        assert [type(loser) for loser in losers] == [exceptions.Conflict] * 7
        assert containers.get(row["uuid"])["host"] == f"h{winner}"
        assert sum(generation(f"h{number}") for number in range(8)) == turn


def test_every_claim_of_a_host_has_a_generation_of_its_own():
    node("h1")
    rows = [container() for _ in range(24)]
    answers = together(8, lambda number: [claim(row) for row in rows[number::8]])
    assert sorted(itertools.chain(*answers)) == list(range(1, 25))
    assert generation("h1") == 24


def test_change_claim_sets_and_counts():
    node("h1")
    row = container(host="h1", cpuset=CPUSET, status="Running")
    other = {**CPUSET, "cpuset_cpus": "0-3"}
    assert containers.change_claim(row["uuid"], "h1", {"cpuset": other, "cpu": 4.0}) == 1
    assert containers.change_claim(row["uuid"], "h1", {"cpuset": None, "host": None, "status": "Error"}) == 2
    after = containers.get(row["uuid"])
    assert (after["cpu"], after["cpuset"], after["host"], after["status"]) == (4.0, None, None, "Error")


@pytest.mark.parametrize(
    ("uuid", "error"), [(None, exceptions.IllegalTransition), (MISSING, exceptions.ContainerNotFound)]
)
def test_a_change_that_is_refused_changes_no_generation(uuid, error):
    node("h1")
    row = container(host="h1", cpuset=CPUSET, status="Deleting")
    with pytest.raises(error):
        containers.change_claim(uuid or row["uuid"], "h1", {"cpuset": None, "status": "Running"})
    assert (containers.get(row["uuid"])["cpuset"], generation("h1")) == (CPUSET, 0)


def test_a_host_that_has_no_row_has_generation_0():
    assert claim(container()) == 0


def test_claims_are_the_rows_that_hold_something():
    held = [container(host=host, cpuset=CPUSET, name=name) for host, name in [("h1", "a"), ("h1", "b"), ("h2", "c")]]
    container(host="h1"), container()
    assert sorted(row["name"] for row in containers.claims()) == ["a", "b", "c"]
    assert sorted(row["name"] for row in containers.claims(["h1"])) == ["a", "b"]
    assert containers.claims(["h3"]) == []
    (row,) = containers.claims(["h2"])
    assert dict(row) == {name: held[2][name] for name in containers.CLAIM_COLUMNS}


def test_of_host_gives_those_with_and_without_a_claim():
    container(host="h1", cpuset=CPUSET, name="a"), container(host="h1", name="b"), container(host="h2")
    assert sorted(row["name"] for row in containers.of_host("h1")) == ["a", "b"]


def test_of_uuids_leaves_out_the_unknown():
    one, two = (container(name=name) for name in "ab")
    assert {row["name"] for row in containers.of_uuids([one["uuid"], two["uuid"], "nobody"])} == {"a", "b"}
    assert containers.of_uuids([]) == []


# destroy


def test_destroy_removes_and_counts():
    node("h1")
    held, unplaced = container(host="h1", cpuset=CPUSET), container()
    assert containers.destroy(held["uuid"]) == 1
    assert containers.destroy(held["uuid"]) is None
    assert containers.destroy(unplaced["uuid"]) is None
    assert containers.unplaced() == containers.claims() == []
    assert generation("h1") == 1


@pytest.mark.parametrize(("fields", "gone"), [({}, True), ({"host": "h1"}, False)])
def test_destroy_unplaced_leaves_what_a_host_has(fields, gone):
    row = container(**fields)
    assert containers.destroy_unplaced(row["uuid"]) is gone
    with session.reader() as connection:
        count = connection.execute(sa.select(sa.func.count()).select_from(models.containers)).scalar()
    assert count == (0 if gone else 1)


def test_either_claim_or_delete_of_unplaced_container_wins():
    node("h1")
    for _ in range(10):
        row = container()

        def race(number, row=row):
            return containers.destroy_unplaced(row["uuid"]) if number else claim(row)

        claimed, destroyed = together(2, race)
        assert isinstance(claimed, int) is not destroyed
        assert isinstance(claimed, (int, exceptions.ContainerNotFound))


# unplaced


def test_unplaced_are_those_that_wait_for_a_host_oldest_first():
    names = [container(name=name)["name"] for name in ("c", "a", "b")]
    container(host="h1"), container(status="Error"), container(status="Deleting")
    assert [row["name"] for row in containers.unplaced()] == names


def test_a_leftover_is_its_hosts_alone():
    node("h1")
    now = timeutils.utcnow()
    row, other = (container(status="Running", host="h1", cpuset=CPUSET) for _ in range(2))
    containers.update(row["uuid"], {"registry_id": "r", "group_uuid": "g", "addresses": {"n": []}})
    for each in (row["uuid"], other["uuid"]):
        explained(each, {"reason": "mine"})
        console_tokens.add(each, each, None, None, now, now + datetime.timedelta(hours=1))
    containers.abandon(row["uuid"])
    with pytest.raises(exceptions.ExplanationNotFound):
        explanations.get(row["uuid"])
    assert explanations.get(other["uuid"])["record"] == {"reason": "mine"}
    with session.reader() as connection:
        tokens = session.rows(connection, sa.select(models.console_tokens))
    assert [each["container_uuid"] for each in tokens] == [other["uuid"]]
    assert containers.abandon(row["uuid"]) == 2
    left = containers.get(row["uuid"])
    assert (left["kind"], left["status"], left["cpuset"]) == ("leftover", "Deleting", CPUSET)
    assert left["registry_id"] is left["group_uuid"] is left["addresses"] is None
    assert {each["uuid"] for each in containers.claims(["h1"])} == {row["uuid"], other["uuid"]}
    with pytest.raises(exceptions.ContainerNotFound):
        containers.find(RequestContext(project_id=row["project_id"], is_admin=True), row["uuid"])
    with pytest.raises(exceptions.ContainerNotFound):
        containers.abandon("nobody")


def test_what_hosts_without_a_service_were_to_delete():
    services.heartbeat("h1", "zun-compute", "nova")
    services.heartbeat("h2", "zun-scheduler", "nova")
    for host in ("h1", "h2", None):
        for status in ("Running", "Deleting"):
            container(status=status, host=host, name=f"{host} {status}")
    capsule = container(status="Deleting", host="h1")["uuid"]
    container(status="Deleting", host="h2", name="a member", capsule_uuid=capsule)
    names = {containers.get(uuid)["name"]: uuid for uuid in containers.stranded("zun-compute")}
    assert names.keys() == {"h2 Deleting", "None Deleting"}
    lost, unplaced = names["h2 Deleting"], names["None Deleting"]
    containers.abandon(lost)
    assert containers.destroy_unplaced(unplaced) and not containers.destroy_unplaced(lost)
    assert containers.stranded("zun-compute") == []


# accept


def accept(uuid, action="stop", **how):
    who = {"request_id": "req-1", "user_id": "alice", "project_id": "demo", "client_address": "192.0.2.1"}
    how = {"allowed": frozenset(states.ALLOWED[action]), "values": {}, "arguments": {}, **who, **how}
    containers.accept(uuid, action, **how)


def test_an_accepted_action_is_recorded_with_its_status():
    uuid = container(status="Running")["uuid"]
    accept(uuid, "rebuild", values={"status": "Rebuilding", "request": {"run": True}}, arguments={"a": 1})
    row = containers.get(uuid)
    assert (row["status"], row["request"], row["updated_at"] is not None) == ("Rebuilding", {"run": True}, True)
    (action,) = container_actions.of_container(uuid)
    told = {name: action[name] for name in ("action", "request_id", "user_id", "project_id", "client_address")}
    assert told == {
        "action": "rebuild",
        "request_id": "req-1",
        "user_id": "alice",
        "project_id": "demo",
        "client_address": "192.0.2.1",
    }
    assert (action["arguments"], action["finish_time"], action["message"]) == ({"a": 1}, None, None)


@pytest.mark.parametrize("action", sorted(states.ALLOWED.keys() - {"delete_force", "delete_after_stop"}))
@pytest.mark.parametrize("status", sorted(Status))
def test_an_action_is_accepted_in_the_statuses_of_its_table(action, status):
    uuid = container(status=status)["uuid"]
    if status in states.ALLOWED[action]:
        accept(uuid, action)
    else:
        with pytest.raises(exceptions.StatusChanged, match=f"become {status}"):
            accept(uuid, action)
    assert len(container_actions.of_container(uuid)) == (status in states.ALLOWED[action])


@pytest.mark.parametrize("task_state", [None, "container_rebooting", "container_stopping"])
@pytest.mark.parametrize("status", ["Restarting", "Running"])
@pytest.mark.parametrize("action", ["stop", "kill", "delete"])
def test_a_stop_waits_for_an_accepted_reboot(action, status, task_state):
    row = container(status=status, task_state=task_state)
    refused = action in states.AFTER_REBOOT and (status, task_state) == ("Restarting", "container_rebooting")
    if refused:
        with pytest.raises(exceptions.StatusChanged):
            accept(row["uuid"], action, allowed=None)
    else:
        accept(row["uuid"], action, allowed=None)
    assert len(container_actions.of_container(row["uuid"])) == (not refused)
    assert (containers.get(row["uuid"])["updated_at"] is None) == refused


def test_nothing_is_accepted_for_a_container_that_is_gone():
    with pytest.raises(exceptions.ContainerNotFound):
        accept(MISSING)
    assert container_actions.of_container(MISSING) == []


def test_of_parallel_deletions_and_rebuilds_one_is_accepted():
    uuid = container(status="Stopped")["uuid"]
    asked = [("delete", "Deleting"), ("rebuild", "Rebuilding")] * 4

    def ask(number):
        action, status = asked[number]
        accept(uuid, action, values={"status": status}, request_id=f"req-{number}")

    answers = together(len(asked), ask)
    assert answers.count(None) == 1
    assert {type(each) for each in answers} == {type(None), exceptions.StatusChanged}
    assert len(container_actions.of_container(uuid)) == 1
