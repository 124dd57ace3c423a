# SPDX-License-Identifier: Apache-2.0
"""Moves between hosts beside something else: user actions, restarts, evacuations, rows that cannot be read."""

import contextlib
import threading

import pytest

from zun.common import exceptions
from zun.common.departures import DEPARTED, uuid_of_left
from zun.conductor.facts import Facts
from zun.conductor.rules import RULES, Call
from zun.db import container_actions as db_actions
from zun.db import containers as db
from zun.db import departures as db_departures
from zun.db import drains, evacuations, groups, quotas, services
from zun.db import images as db_images
from zun.objects import Container
from zun.scheduler import service
from zun.tests.fixtures import new_container, wait_for
from zun.tests.functional.cloud import Cloud, machine
from zun.tests.functional.departures import (
    PAIR,
    actions,
    api,
    close,
    cloud,
    container,
    leaves,
    running_on,
    settled,
)
from zun.tests.functional.networks import network
from zun.topology import CpuSet

__all__ = ["api", "cloud", "container"]

WHO = {"request_id": "req-drain", "user_id": "root", "project_id": "admin", "client_address": None}


@pytest.fixture
def paused(cloud):
    """Schedulers that do nothing for containers on their way until the returned function is called."""
    departures = cloud.scheduler.endpoint._departures
    look, departures.look = departures.look, lambda: None

    def go_on():
        departures.look = look

    return go_on


def test_what_was_left_at_a_host_that_it_was_once_taken_from_is_kept(cloud, context, container, paused):
    """It was evacuated from there long ago, or came back from there: request["evacuated"] names the host for ever."""
    db.update(container.uuid, {"request": {**db.get(container.uuid)["request"], "evacuated": ["one"]}})
    leaves(cloud, context, container)
    wait_for(lambda: db.get(container.uuid)["host"] is None)
    cloud.stop_agent("one")
    cloud.start_agent("one")
    assert cloud.drivers["one"].show(container) is not None


def test_a_container_that_came_back_to_a_host_that_dies_runs_again_elsewhere(cloud, context, container, paused):
    leaves(cloud, context, container)
    wait_for(lambda: db.get(container.uuid)["host"] is None)
    cloud.stop_agent("one")
    db.update(container.uuid, {"status": "Error", "status_reason": "no"})
    ((left, row),) = db_departures.under_way()
    assert db_departures.come_back(left, row, "no")
    assert evacuations.runs_again(db.get(container.uuid))


def test_who_reads_its_log_does_not_keep_a_failed_container_there(cloud, context, container, paused):
    two = cloud.drivers["two"]
    two.before("show", lambda _: container.uuid in two.runtime.objects and two.exit(container.uuid, 3))
    leaves(cloud, context, container)
    wait_for(lambda: db.get(container.uuid)["host"] is None)
    row = db.get(container.uuid)
    db_departures.send(row)
    cloud.scheduler.endpoint._place(context, Container.get_by_uuid(context, container.uuid), {}, ())
    wait_for(lambda: db.get(container.uuid)["status"] == "Stopped")
    db_actions.access(container.uuid, "logs", **{**WHO, "request_id": "req-x"})
    paused()
    row = settled(cloud, container)
    assert (row["host"], row["status"]) == ("one", "Running")


def test_a_process_that_stays_is_left_alone_though_it_runs_elsewhere_than_planned(cloud, context, container):
    one = cloud.drivers["one"]
    made = one.runtime.objects[container.uuid]
    made.layer = b" " * 2**23
    pid = one.show(container).pid
    one.disobey(container.uuid, cpus=CpuSet([0, 1, 2, 3]))
    leaves(cloud, context, container, discard_layer=False)
    settled(cloud, container)
    assert one.show(container).pid == pid


def test_what_was_left_at_a_host_that_is_gone_for_good_blocks_no_later_move(cloud, context, container, paused):
    leaves(cloud, context, container)
    wait_for(lambda: db.get(container.uuid)["host"] is None)
    cloud.stop_agent("one")
    paused()
    wait_for(lambda: (row := db.get(container.uuid))["status"] == "Running" and DEPARTED not in row["request"])
    services.destroy("one", "zun-compute")
    cloud.machines["three"] = cloud.machines["one"]
    cloud.start_agent("three")
    close(cloud, "three", False)
    pid = cloud.drivers["two"].show(container).pid
    leaves(cloud, context, Container.get_by_uuid(context, container.uuid))
    wait_for(lambda: not db_actions.wanted(container.uuid) and not db.get(container.uuid)["task_state"])
    wait_for(lambda: (row := db.get(container.uuid))["status"] == "Running" and DEPARTED not in row["request"])
    told = actions(container)
    assert db.get(container.uuid)["host"] == "three" or cloud.drivers["two"].show(container).pid == pid, told


def test_a_stop_that_was_accepted_while_it_leaves_is_heard(cloud, context, container):
    cloud.drivers["one"].before("stop", lambda _: cloud.compute_api.stop(context, container))
    leaves(cloud, context, container)
    row = settled(cloud, container)
    assert row["status"] in ("Stopped", "Created"), actions(container)


def test_a_deletion_that_was_accepted_while_it_leaves_starts_nothing_again(cloud, context, container):
    one, started = cloud.drivers["one"], []
    one.before("stop", lambda _: db.update(container.uuid, {"status": "Deleting"}))
    one.before("start", lambda _: started.append(1))
    leaves(cloud, context, container)
    wait_for(lambda: not db.of_uuids([container.uuid]))
    assert not started


def test_a_creation_that_failed_is_not_told_as_moved(cloud, context):
    close(cloud, "two", True)
    container = new_container(context, **PAIR)
    wish = {"containers": [container.uuid], "request_id": "req-drain"}
    db.update(container.uuid, {"status": "Error", "status_reason": "Docker error: no"})
    (told,) = drains.report("one", wish)
    assert told["state"] != "moved", told


def test_undrain_does_not_open_a_host_that_was_closed_by_hand(cloud, context, api):
    services.update("one", "zun-compute", {"disabled": True, "disabled_reason": "a broken disk"})
    api.delete("/v1/hosts/one/drain")
    assert services.get("one", "zun-compute")["disabled"]


def test_an_image_of_one_that_leaves_is_made_or_removed_at_once(cloud, context, container):
    images = []

    def commit(_):
        image = db_images.insert_committed({"project_id": "demo", "host": "one", "repo": "web", "tag": "1"})
        images.append(image["uuid"])
        cloud.compute_api.commit(context, container, image["uuid"])

    cloud.drivers["one"].before("stop", commit)
    leaves(cloud, context, container)
    settled(cloud, container)
    with contextlib.suppress(exceptions.ImageNotFound):
        assert cloud.compared("one", lambda: db_images.get(images[0])["status"] != "Committing")


def test_one_that_comes_back_keeps_to_the_rules_of_its_group(cloud, context, paused):
    group = groups.insert(
        {"name": "web", "project_id": "demo", "policy": "anti-affinity", "rules": {"max_per_host": 1}}
    )
    asked = {"request": {"run": True, "hints": {"group": group["uuid"]}}, "group_uuid": group["uuid"], "cpu": 1.0}
    container = running_on(cloud, context, "one", **asked)
    leaves(cloud, context, container)
    wait_for(lambda: db.get(container.uuid)["host"] is None)
    close(cloud, "two", True)
    other = cloud.run(context, **{**PAIR, **asked})
    paused()
    row = settled(cloud, container)
    assert not (other.host == row["host"] == "one"), "both are on host one"


def test_one_whose_claim_is_unreadable_comes_back(cloud, context, container, paused):
    leaves(cloud, context, container)
    wait_for(lambda: db.get(container.uuid)["host"] is None)
    db.update(uuid_of_left(container.uuid, "one"), {"cpuset": None})
    db.update(container.uuid, {"status": "Error", "status_reason": "no"})
    paused()
    wait_for(lambda: db.get(container.uuid)["host"] == "one")
    wait_for(lambda: not db_actions.wanted(container.uuid), 3)


def test_a_drain_that_is_asked_for_again_accepts_no_container_twice(cloud, context, api, paused):
    for _ in range(2):
        running_on(cloud, context, "one", cpu=1.0)
    cloud.agents["one"].queue.stop()
    accepted = []
    for number in range(2):
        drains.begin("one", parallel=1, discard_layer=True, who={**WHO, "request_id": f"req-{number}"})
        accepted += drains.accept_next("one", f"req-{number}")
    assert len(accepted) == 1, accepted


def test_a_host_ends_no_action_of_another_container_by_a_departure(cloud, context, container, paused):
    """All containers of a drain have its request id. A host may name any step of that request."""
    facts = Facts()
    other = running_on(cloud, context, "two", cpu=1.0)
    who = {"request_id": "req-drain", "user_id": "u", "project_id": "demo"}
    for each in (container, other):
        db_actions.note_arguments(each.uuid, "leave", {"discard_layer": True}, **who)
    step = db_actions.start_event(other.uuid, "req-drain", "leave", "e")
    call = Call("Container", "depart", {"hostname": "one", "step": step, "run": True}, key=container.uuid)
    refused = [rule("one", call, facts) for rule in RULES[("Container", "depart")]]
    assert any(refused), "host one may end a step of a container of host two"


def test_the_reason_of_one_that_stays_is_for_people(cloud, context, container):
    cloud.drivers["one"].runtime.objects[container.uuid].layer = b" " * 2**23
    drains.begin("one", parallel=1, discard_layer=False, who=WHO)
    told = wait_for(lambda: (told := drains.report("one", drains.wishes()["one"])[0])["state"] == "stays" and told)
    assert not told["reason"].startswith("zun."), told["reason"]


def test_a_dry_run_says_the_same_of_what_is_being_made_as_the_drain(cloud, context, api, container):
    cloud.stop_looking("one")
    db.update(container.uuid, {"status": "Rebuilding"})
    (told,) = api.post("/v1/hosts/one/drain", {"dry_run": True}).json["containers"]
    (real,) = drains.report("one", {"containers": [container.uuid], "request_id": "req"})
    assert told["state"] == real["state"], (told, real)


def test_a_host_does_not_take_what_left_for_a_loss_of_the_database(cloud, context, container, paused, monkeypatch):
    """A conductor answers with rows of the host only."""
    leaves(cloud, context, container)
    wait_for(lambda: db.get(container.uuid)["host"] is None)
    agent, whole = cloud.agents["one"], Container.list_by_uuids
    monkeypatch.setattr(
        Container, "list_by_uuids", lambda *given: [each for each in whole(*given) if each.host == "one"]
    )
    assert agent.recover(context, dry_run=True) == []
    assert agent.parts.recovery.plans_without_row(context) == []


def test_what_the_engine_starts_again_meanwhile_is_stopped(cloud, context, container, paused):
    leaves(cloud, context, container)
    wait_for(lambda: db.get(container.uuid)["host"] is None)
    cloud.drivers["one"].start(container)  # restart policy always, and the engine was restarted
    assert cloud.compared("one", lambda: not cloud.drivers["one"].show(container).pid)


def test_one_that_comes_back_finds_its_networks(cloud, context, paused):
    """The host compares while the container is away: no container with a port in the network is there."""
    net = network("one")
    close(cloud, "two", True)
    container = cloud.run(context, nets=[net], **PAIR)
    close(cloud, "two", False)
    leaves(cloud, context, container)
    wait_for(lambda: db.get(container.uuid)["host"] is None)
    cloud.compared("one", lambda: net not in cloud.networks["one"].present())

    def start(_):  # as Docker does
        if net not in cloud.networks["one"].present():
            raise exceptions.DockerError(error=f"network {net} not found")

    cloud.drivers["one"].before("start", start)
    cloud.drivers["two"].fail("create", exceptions.DockerError(error="no"))
    paused()
    wait_for(lambda: db.get(container.uuid)["host"] == "one" and not db_actions.wanted(container.uuid))
    row = db.get(container.uuid)
    assert row["status"] == "Running", row["status_reason"]


def test_mounts_of_what_was_left_are_restored_after_a_boot(cloud, context, paused):
    mounts = [{"type": "bind", "source": "dGV4dA==", "destination": "/data"}]
    container = running_on(cloud, context, "one", mounts=mounts)
    leaves(cloud, context, container)
    wait_for(lambda: db.get(container.uuid)["host"] is None)
    cloud.stop_agent("one")
    cloud.volumes["one"].restored.clear()
    cloud.start_agent("one")
    paused()
    cloud.drivers["two"].fail("create", exceptions.DockerError(error="no"))
    assert cloud.volumes["one"].restored


def test_a_reboot_of_one_that_failed_there_does_not_cost_it_the_way_back(cloud, context, api, container, paused):
    """Its object could not be removed at the new host, so that its row names that host. Users may restart it."""
    two = cloud.drivers["two"]
    two.fail("start", exceptions.DockerError(error="no"))
    two.fail("delete", exceptions.DockerError(error="no"))
    leaves(cloud, context, container)
    row = wait_for(lambda: (row := db.get(container.uuid))["host"] is None and row)
    db_departures.send(row)
    cloud.scheduler.endpoint._place(context, Container.get_by_uuid(context, container.uuid), {}, ())
    row = wait_for(lambda: (row := db.get(container.uuid))["status"] == "Error" and row)
    assert row["host"] == "two"
    go_on = threading.Event()
    two.before("reboot", lambda _: go_on.wait(20))
    two.fail("reboot", exceptions.DockerError(error="no"), times=9)
    assert api.post(f"/v1/containers/{container.uuid}/reboot").status == 202
    paused()
    cloud.scheduler.endpoint.carry_on()
    go_on.set()
    wait_for(lambda: DEPARTED not in db.get(container.uuid)["request"])
    wait_for(lambda: not db_actions.wanted(container.uuid))
    row = db.get(container.uuid)
    assert row["status"] == "Running" or cloud.drivers["one"].show(container) is not None, actions(container)


def test_a_drain_ends_though_a_command_fails_again_and_again(cloud, context, api):
    policy = {"Name": "always", "MaximumRetryCount": "0"}
    close(cloud, "two", True)
    container = cloud.submit(context, **PAIR, command=["false"], restart_policy=policy)
    wait_for(lambda: db.get(container.uuid)["status"] == "Restarting")
    close(cloud, "two", False)
    drains.begin("one", parallel=2, discard_layer=True, who=WHO)
    assert wait_for(lambda: drains.report("one", drains.wishes()["one"])[0]["state"] in ("moved", "stays"))


@pytest.mark.parametrize("mounts", [["x"]])
def test_a_malformed_row_keeps_no_others_waiting_on_a_drained_host(cloud, context, mounts):
    odd, other = (running_on(cloud, context, "one", cpu=1.0) for _ in range(2))
    cloud.stop_looking("one")
    db.update(odd.uuid, {"mounts": mounts})
    drains.begin("one", parallel=1, discard_layer=True, who=WHO)
    drains.accept_next("one", WHO["request_id"])
    assert db_actions.wanted(other.uuid) or db.get(other.uuid)["host"] == "two"


def test_quotas_count_the_same_in_every_phase_of_a_return(database, context, monkeypatch):
    monkeypatch.setattr(service, "MOVES_INTERVAL", 0.05)
    machines = {name: machine(cells=1, cores=4, threads=2) for name in ("one", "two")}
    with Cloud(machines, compute__audit_interval=0) as cloud:
        container = running_on(cloud, context, "one", placement={"cpu_isolation": "core"}, cpu=1.0)
        assert db.get(container.uuid)["withheld_cpu"], db.get(container.uuid)
        before, seen = quotas.usage("demo"), []
        departures = cloud.scheduler.endpoint._departures
        go_on = departures._go_on

        def noted(left, row):
            seen.append(quotas.usage("demo"))
            go_on(left, row)

        departures._go_on = noted
        cloud.drivers["two"].fail("create", exceptions.DockerError(error="no"))
        leaves(cloud, context, container)
        row = settled(cloud, container)
        assert row["host"] == "one"
        assert [each["cpu"] for each in [*seen, quotas.usage("demo")] if each != before] == []


@pytest.mark.parametrize("way", [{"from": "one", "to": 3, "sent": True}])
def test_malformed_ways_end(cloud, context, container, paused, way):
    leaves(cloud, context, container)
    row = wait_for(lambda: (row := db.get(container.uuid))["host"] is None and row)
    db.update(container.uuid, {"request": {**row["request"], "departed": way}})
    paused()

    def ended():  # a sweep leaves alone a row that the end of its way changes in the same moment: the next one has it
        cloud.scheduler.endpoint.sweep(0)
        return db.get(container.uuid)["status"] in ("Running", "Error")

    wait_for(ended)
    wait_for(lambda: not db.of_uuids([uuid_of_left(container.uuid, "one")]))


def test_what_a_container_writes_while_it_is_stopped_is_not_lost(cloud, context, container):
    """Programs write their state when they get SIGTERM. Nobody gave the word --discard-layer."""
    one = cloud.drivers["one"]
    one.before("stop", lambda _: setattr(one.runtime.objects[container.uuid], "layer", b"its state"))
    leaves(cloud, context, container, discard_layer=False)
    row = settled(cloud, container)
    assert row["host"] == "two"
    assert cloud.drivers["two"].runtime.objects[container.uuid].layer == b"its state"


def test_a_rebuild_at_its_new_host_does_not_let_it_be_on_its_way_for_ever(cloud, context, api, container, paused):
    leaves(cloud, context, container)
    row = wait_for(lambda: (row := db.get(container.uuid))["host"] is None and row)
    db_departures.send(row)
    cloud.scheduler.endpoint._place(context, Container.get_by_uuid(context, container.uuid), {}, ())
    wait_for(lambda: db.get(container.uuid)["status"] == "Running")
    begun, go_on = threading.Event(), threading.Event()
    cloud.drivers["two"].before("create", lambda _: (begun.set(), go_on.wait(20)))
    assert api.post(f"/v1/containers/{container.uuid}/rebuild?image=zun-demo:2&image_driver=docker").status == 202
    assert begun.wait(20)
    paused()
    wait_for(lambda: DEPARTED not in db.get(container.uuid)["request"])
    go_on.set()
    wait_for(lambda: db.get(container.uuid)["status"] == "Running" and not db_actions.wanted(container.uuid))
    assert DEPARTED not in db.get(container.uuid)["request"]


def test_a_host_lets_no_container_leave_when_the_action_has_ended(cloud, context, container, paused):
    """The container came back, or stayed, or the operator changed his mind. The host may do it at any time later."""
    who = {"request_id": "req-drain", "user_id": "u", "project_id": "demo"}
    cloud.stop_looking("one")
    db_actions.note_arguments(container.uuid, "leave", {"discard_layer": True}, **who)
    step = db_actions.start_event(container.uuid, "req-drain", "leave", "e")
    db_actions.end(container.uuid, db_actions.find(container.uuid, "req-drain")[0]["id"], "e", "it stays")
    call = Call("Container", "depart", {"hostname": "one", "step": step, "run": True}, key=container.uuid)
    assert any(rule("one", call, Facts()) for rule in RULES[("Container", "depart")])


def test_a_host_takes_nothing_whose_remains_it_has_yet_to_delete(cloud, context, container):
    """Its object there has the same name, and would be deleted with what was left."""
    one = cloud.drivers["one"]
    one.fail("delete", exceptions.DockerError(error="no"), times=99)
    leaves(cloud, context, container)
    wait_for(lambda: (row := db.get(container.uuid))["host"] == "two" and DEPARTED not in row["request"])
    there = Container.get_by_uuid(context, container.uuid)
    leaves(cloud, context, there, host="one")
    steps = wait_for(lambda: _ended(container))
    assert "has left this host a moment ago" in steps[-1]["traceback"]
    assert wait_for(lambda: db.get(container.uuid)["status"] == "Running") and db.get(container.uuid)["host"] == "two"
    one.end_failures("delete")
    cloud.compared("one", lambda: not db.of_uuids([uuid_of_left(container.uuid, "one")]))
    leaves(cloud, context, there, host="one")
    wait_for(lambda: (row := db.get(container.uuid))["host"] == "one" and row["status"] == "Running")


def _ended(container):
    """Return the steps of the newest action ``leave``, once it has failed."""
    action = next(each for each in db_actions.of_container(container.uuid) if each["action"] == "leave")
    return db_actions.steps_of(action["id"]) if action["message"] else None
