# SPDX-License-Identifier: Apache-2.0
"""Moves of containers within their host, over real messages and a real database; runtime and kernel are in memory."""

import threading
from dataclasses import replace

import pytest

from zun.api import app as api_app
from zun.common import exceptions
from zun.common.context import admin_context
from zun.db import container_actions as db_actions
from zun.db import containers as db
from zun.objects.placement import held_plan, placement_request
from zun.tests.fixtures import new_container, wait_for
from zun.tests.functional.api.client import Client
from zun.tests.functional.cloud import Cloud, machine
from zun.topology import CpuSet, PlacementRequest, plan
from zun.topology.cpuset import union
from zun.topology.rearrange import Fits, rearrange

PAIR = {"cpu_policy": "dedicated", "cpu": 2.0, "memory": 512}
NEVER = {"compute__audit_interval": 0, "compute__sync_container_state_interval": 3600}


@pytest.fixture
def cloud(database):
    with Cloud({"one": machine(cells=2, cores=4)}, **NEVER) as cloud:
        yield cloud


@pytest.fixture
def driver(cloud):
    return cloud.drivers["one"]


@pytest.fixture
def container(cloud, context):
    return cloud.run(context, **PAIR)


@pytest.fixture
def tracker(cloud):
    return cloud.agents["one"].tracker


def elsewhere(tracker, container):
    """Return a plan for the container on the cell where it is not: the free part of its own cell is taken before."""
    (home,) = held_plan(container).cells
    rest = plan(tracker.topology, tracker.usage, PlacementRequest(2, 512))
    found = plan(tracker.topology, tracker.usage.with_claim("", rest), PlacementRequest(2, 512))
    assert home in rest.cells and home not in found.cells
    return found


def ended(uuid):
    """Wait until the last action of the container has ended, and return its message and its step's result and text."""

    def last():
        action = db_actions.of_container(uuid)[0]
        return action if action["finish_time"] else None

    action = wait_for(last)
    _, steps = db_actions.find(uuid, action["request_id"])
    return action["action"], [(each["event"], each["result"], each["traceback"]) for each in steps]


def moved(cloud, context, container, new, **more):
    cloud.compute_api.move(context, container, new, **more)
    action, steps = ended(container.uuid)
    assert action == "move"
    return steps, cloud.settled(container)


def test_a_container_moves_with_its_memory(cloud, context, driver, container, tracker):
    old, new = held_plan(container), elsewhere(tracker, container)
    driver.kernel.pages[container.uuid] = {min(old.mems): 100}
    pid = driver.show(container).pid
    steps, now = moved(cloud, context, container, new)
    assert [(event, result) for event, result, _ in steps] == [("compute__do_container_move", "Success")]
    assert (now.cpuset["cpuset_cpus"], now.cpuset["cpuset_mems"]) == (str(new.cpus), str(new.mems))
    state = driver.show(container)
    assert (CpuSet(state.cpuset_cpus), CpuSet(state.cpuset_mems), state.pid) == (new.cpus, new.mems, pid)
    assert driver.kernel.pages[container.uuid] == {min(new.mems): 100}
    assert tracker.usage.claim(container.uuid).cpus == new.cpus
    assert tracker.usage.held_cpus == new.cpus
    assert (now.status, now.cpu, now.memory) == ("Running", 2.0, 512)


def test_both_claims_are_held_meanwhile(cloud, context, driver, container, tracker):
    old, new = held_plan(container), elsewhere(tracker, container)
    held = []
    driver.before("update", lambda _: held.append(tracker.usage.held_cpus))
    moved(cloud, context, container, new)
    assert held == [old.cpus | new.cpus]


@pytest.mark.parametrize("how", ["taken", "locked", "refused", "elsewhere", "self-pinned", "larger", "unreadable"])
def test_a_move_that_fails_changes_nothing(cloud, context, driver, container, tracker, how):
    old, new = held_plan(container), elsewhere(tracker, container)
    record = new.to_dict()
    if how == "taken":
        tracker._usage = tracker.usage.with_claim("somebody", new)
    elif how == "locked":
        driver.kernel.pages[container.uuid] = {min(old.mems): 100}
        driver.kernel.locked.add(container.uuid)
    elif how == "refused":
        driver.fail("update", exceptions.DockerError(error="no"), times=1)
    elif how == "elsewhere":
        driver.disobey(container.uuid, cpus=old.cpus, mems=old.mems)
    elif how == "self-pinned":
        driver.kernel.narrowed[container.uuid] = CpuSet([min(old.cpus)])
    elif how == "larger":
        record = plan(tracker.topology, tracker.usage, PlacementRequest(3, 512)).to_dict()
    else:
        record = {"cells": 7}
    cloud.compute_api.want(context, container, "move", cpuset=record)
    action, steps = ended(container.uuid)
    assert (action, [result for _, result, _ in steps]) == ("move", ["Error"])
    words = {
        "taken": "taken",
        "locked": "100 MiB on memory node",
        "refused": "no",
        "elsewhere": "its cgroup allows CPUs",
        "self-pinned": f"worker ({driver.show(container).pid + 1}) on CPUs {min(old.cpus)}",
        "larger": "3 CPUs and 512 MiB instead of 2 CPUs and 512 MiB",
        "unreadable": "cannot be read",
    }
    assert words[how] in steps[0][2]
    now, state = cloud.settled(container), driver.show(container)
    assert held_plan(now).cpus == old.cpus
    assert (CpuSet(state.cpuset_cpus), CpuSet(state.cpuset_mems)) == (old.cpus, old.mems)
    assert tracker.usage.claim(container.uuid).cpus == old.cpus
    assert {*tracker.usage.owners} - {"somebody"} == {container.uuid}


@pytest.mark.parametrize("locked", [False, True])
def test_huge_pages_move_or_the_container_stays(database, context, locked):
    bare = machine(cells=2, cores=4)
    paged = replace(bare, cells=tuple(replace(cell, pages={2048: 16}) for cell in bare.cells))
    with Cloud({"one": paged}, **NEVER) as cloud:
        driver, tracker = cloud.drivers["one"], cloud.agents["one"].tracker
        container = cloud.run(context, cpu_policy="dedicated", cpu=2.0, memory=8, placement={"mem_page_size": 2048})
        old = held_plan(container)
        request = placement_request(container)
        home = union(paged.cell(node).cpus for node in old.cells)
        away = replace(paged, dedicated_set=paged.cpus - home)
        new = plan(away, tracker.usage, request)
        assert old.pages == new.pages == {2048: 4}
        driver.kernel.huge_pages[container.uuid] = {min(old.mems): {2048: 4}}
        driver.kernel.locked |= {container.uuid} if locked else set()
        steps, now = moved(cloud, context, container, new)
        assert driver.kernel.huge_pages[container.uuid] == {min((old if locked else new).mems): {2048: 4}}
        assert held_plan(now).cpus == (old if locked else new).cpus
        if locked:
            assert f"4 of 2048 KiB on memory node {min(old.mems)}" in steps[0][2]


def test_a_move_goes_on_when_the_one_before_is_given_up(cloud, context, tracker):
    one, two = (cloud.run(context, **PAIR) for _ in range(2))
    new = plan(tracker.topology, tracker.usage, PlacementRequest(2, 512))
    batch, road = admin_context(), cloud.agents["one"].parts.road
    who = {"request_id": batch.request_id, "user_id": None, "project_id": one.project_id}
    db_actions.note_arguments(one.uuid, "move", {"cpuset": new.to_dict(), "after": []}, **who)  # and no message
    cloud.compute_api.want(batch, two, "move", cpuset=held_plan(one).to_dict(), after=[one.uuid])
    wait_for(lambda: cloud.quiet("one", two.uuid))
    road.gave_up(one.uuid, RuntimeError("its row cannot be read"))
    action, ((_, result, reason),) = ended(two.uuid)
    assert (action, result) == ("move", "Error")
    assert "taken" in reason


@pytest.mark.parametrize("case", ["shared", "mixed"])
def test_only_dedicated_containers_move(cloud, context, tracker, case):
    fields = {"shared": {"cpu": 1.0, "memory": 64}, "mixed": {"cpu_policy": "mixed", "cpu": 2.0, "memory": 64}}[case]
    if case == "mixed":
        fields["placement"] = {"dedicated_cpus": 1}
    container = cloud.run(context, **fields)
    new = plan(tracker.topology, tracker.usage, PlacementRequest(1, 64))
    steps, _ = moved(cloud, context, container, new)
    assert "Only a dedicated container without devices can be moved" in steps[0][2]


def test_a_stopped_container_moves(cloud, context, driver, container, tracker):
    cloud.compute_api.stop(context, container)
    cloud.settled(container)
    wait_for(lambda: db.get(container.uuid)["status"] == "Stopped")
    new = elsewhere(tracker, container)
    steps, now = moved(cloud, context, container, new)
    assert [result for _, result, _ in steps] == ["Success"]
    assert (now.status, now.cpuset["cpuset_cpus"]) == ("Stopped", str(new.cpus))
    cloud.compute_api.start(context, container)
    wait_for(lambda: db.get(container.uuid)["status"] == "Running")
    assert CpuSet(driver.show(container).cpuset_cpus) == new.cpus


def test_moves_wait_for_those_before_them(cloud, context, driver, tracker):
    """The second move needs CPUs that the first one leaves, and its message comes first."""
    one, two = (cloud.run(context, **PAIR) for _ in range(2))
    cloud.run(context, **PAIR)  # three pairs on eight CPUs
    first_old, second_old = held_plan(one), held_plan(two)
    (free,) = (cell for cell in tracker.topology.cells if len(cell.cpus - tracker.usage.held_cpus) == 2)
    new = plan(tracker.topology, tracker.usage, PlacementRequest(2, 512))
    assert new.cpus <= free.cpus
    go_on = threading.Event()
    driver.before("update", lambda uuid: uuid == two.uuid or go_on.wait(60))
    batch = admin_context()
    cloud.compute_api.want(batch, one, "move", cpuset=new.to_dict(), after=[])
    cloud.compute_api.want(batch, two, "move", cpuset=first_old.to_dict(), after=[one.uuid])
    wait_for(lambda: cloud.quiet("one", two.uuid))
    assert held_plan(db.get(two.uuid)).cpus == second_old.cpus
    go_on.set()
    assert [ended(each.uuid)[1][0][1] for each in (one, two)] == ["Success", "Success"]
    assert [held_plan(db.get(each.uuid)).cpus for each in (one, two)] == [new.cpus, first_old.cpus]


def test_a_request_fits_after_the_moves_of_a_plan(cloud, context, tracker):
    """Each cell has two CPUs free; after one move a container of four fits."""
    pairs = [cloud.run(context, **PAIR) for _ in range(4)]
    for each in (pairs[0], pairs[3]):
        cloud.compute_api.delete(context, each, force=True)
        cloud.gone(each)
    four = PlacementRequest(4, 512)
    assert {len(cell.cpus - tracker.usage.held_cpus) for cell in tracker.topology.cells} == {2}
    movable = {each.uuid: PlacementRequest(2, 512) for each in pairs[1:3]}
    found = rearrange(tracker.topology, tracker.usage, movable, Fits(four))
    (move,) = found.moves
    (container,) = (each for each in pairs if each.uuid == move.owner)
    moved(cloud, context, container, move.new)
    big = cloud.run(context, cpu_policy="dedicated", cpu=4.0, memory=512)
    assert big.status == "Running"


# The scheduler and the API


FOUR = {"image": "zun-demo", "cpu": 4, "memory": 512, "cpu_policy": "dedicated"}
NOAUTH = {"api__auth_strategy": "noauth", "api__host_names": ["zun.example"], "quota__cpu": -1}


def fragmented(cloud, context, **more):
    """Fill both cells with pairs and delete one pair of each: two CPUs are free on each cell. Return the others."""
    pairs = [cloud.run(context, **PAIR, **more) for _ in range(4)]
    for each in (pairs[0], pairs[3]):
        cloud.compute_api.delete(context, each, force=True)
        cloud.gone(each)
    return pairs[1:3]


def admin(cloud, **more):
    application = api_app.build(cloud.conf, scheduler_api=cloud.scheduler_api, compute_api=cloud.compute_api)
    return Client(application, **{"user": "root", "project": "admin", "roles": "admin", "version": "1.49", **more})


def suggesting(how, **options):
    return Cloud({"one": machine(cells=2, cores=4)}, **NEVER, **NOAUTH, scheduler__rearrange=how, **options)


def test_a_refusal_names_the_moves_that_would_help(database, context):
    with suggesting("suggest") as cloud:
        pairs = fragmented(cloud, context)
        big = cloud.run(context, cpu_policy="dedicated", cpu=4.0, memory=512)
        assert big.status == "Error"
        assert big.status_reason.endswith(
            " It would fit if 1 container of a host was moved on that host (512 MiB of memory). An administrator can "
            "have that done: 'openstack appcontainer host defragment --all --for 4:512'."
        )
        asked = new_container(context, cpu_policy="dedicated", cpu=4.0, memory=512, status="Error")
        assert cloud.scheduler_api.dry_run(context, asked, count=2)["refusal"]["reason"] == big.status_reason
        for each in pairs:
            assert [action["action"] for action in db_actions.of_container(each.uuid)] == []
        for uuid in (each.uuid for each in pairs):
            db.update(uuid, {"placement": {**db.get(uuid)["placement"], "movable": False}})
        assert "moved" not in cloud.run(context, cpu_policy="dedicated", cpu=4.0, memory=512).status_reason


@pytest.mark.parametrize(("option", "said"), [("never", None), ("suggest", False), ("suggest", None)])
def test_nobody_is_moved_against_the_will_of_operator_or_user(database, context, option, said):
    """``said`` is what the users of the others asked for; None leaves it to the operator, who says no."""
    with suggesting(option, scheduler__move_by_default=False) as cloud:
        fragmented(cloud, context, placement={} if said is None else {"movable": said})
        big = cloud.run(context, cpu_policy="dedicated", cpu=4.0, memory=512)
        assert (big.status, "moved" in big.status_reason) == ("Error", False)


def test_a_user_may_allow_what_the_operator_does_not(database, context):
    with suggesting("suggest", scheduler__move_by_default=False) as cloud:
        fragmented(cloud, context, placement={"movable": True})
        assert "1 container" in cloud.run(context, cpu_policy="dedicated", cpu=4.0, memory=512).status_reason


def test_the_scheduler_moves_others_in_place(database, context):
    with suggesting("in-place") as cloud:
        pairs = fragmented(cloud, context)
        pids = [cloud.drivers["one"].show(each).pid for each in pairs]
        big = cloud.run(context, cpu_policy="dedicated", cpu=4.0, memory=512, request={"run": True})
        assert big.status == "Running", big.status_reason
        assert set(big.request["moved_for"]["movers"]) < {each.uuid for each in pairs}
        assert [cloud.drivers["one"].show(each).pid for each in pairs] == pids
        moves = [len(db_actions.of_container(each.uuid)) for each in pairs]
        assert sorted(moves) == [0, 1]
        assert cloud.agents["one"].tracker.usage.held_cpus == CpuSet("0-7")


def test_a_request_that_moves_did_not_help_is_refused(database, context):
    """The container to be moved chose a CPU by itself, so that it stays."""
    with suggesting("in-place") as cloud:
        for each in fragmented(cloud, context):
            cloud.drivers["one"].kernel.narrowed[each.uuid] = CpuSet([min(held_plan(each).cpus)])
        big = cloud.run(context, cpu_policy="dedicated", cpu=4.0, memory=512)
        assert (big.status, len(big.request["moved_for"]["movers"])) == ("Error", 1)
        assert "No valid host" in big.status_reason


def test_a_restarted_scheduler_waits_for_moves(database, context):
    """The scheduler is killed after it began the moves, and looks for lost requests when it starts again."""
    with suggesting("in-place") as cloud:
        fragmented(cloud, context)
        go_on = threading.Event()
        cloud.drivers["one"].before("update", lambda _: go_on.wait(60))
        big = cloud.submit(context, cpu_policy="dedicated", cpu=4.0, memory=512)
        waiting = cloud.scheduler.endpoint._rearranger._waiting
        wait_for(lambda: waiting)
        waiting.clear()
        cloud.scheduler.endpoint.sweep(0)
        assert db.get(big.uuid)["status"] == "Creating"
        go_on.set()
        assert cloud.settled(big).status == "Running"


def test_an_administrator_defragments_a_host(database, context):
    with suggesting("never") as cloud:
        pairs = fragmented(cloud, context)
        api = admin(cloud)
        body = {"cpu": 4, "memory": 512, "host": "one"}
        shown = api.post("/v1/placement/defragment", {**body, "dry_run": True})
        assert shown.status == 200, shown.body
        (move,) = shown.json["moves"]
        assert {**shown.json, "moves": []} == {
            "host": "one",
            "proven": True,
            "reason": None,
            "accepted": 0,
            "moves": [],
        }
        (container,) = (each for each in pairs if each.uuid == move["container"])
        assert (move["old_cpuset_cpus"], move["mib"]) == (str(held_plan(container).cpus), 512)
        assert db_actions.of_container(container.uuid) == []
        done = api.post("/v1/placement/defragment", body)
        assert (done.json["accepted"], done.json["moves"]) == (1, [move])
        action, steps = ended(container.uuid)
        assert (action, steps[0][:2]) == ("move", ("compute__do_container_move", "Success"))
        assert db.get(container.uuid)["cpuset"]["cpuset_cpus"] == move["cpuset_cpus"]
        cloud.settled(container)
        again = wait_for(lambda: (now := api.post("/v1/placement/defragment", body).json)["moves"] == [] and now)
        assert (again["host"], again["accepted"]) == ("one", 0)
        assert cloud.run(context, cpu_policy="dedicated", cpu=4.0, memory=512).status == "Running"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"cpu": 5}, "one: it has 4 CPUs left of the 5 that are wanted"),
        ({"cpu": 4, "memory": 5000}, "4 CPUs and 5000 MiB are wanted on one cell, which no moves can free"),
        ({"cpu": 2, "cpu_policy": "shared"}, "only for dedicated containers"),
    ],
)
def test_no_moves_help(database, context, body, reason):
    with suggesting("never") as cloud:
        fragmented(cloud, context)
        answer = admin(cloud).post("/v1/placement/defragment", {"memory": 512, **body})
        assert answer.status == 200, answer.body
        assert (answer.json["host"], answer.json["moves"]) == (None, [])
        assert reason in answer.json["reason"]


def test_memory_is_the_least_unless_given(database, context):
    with suggesting("never", default_memory=8000) as cloud:
        fragmented(cloud, context)
        answer = admin(cloud).post("/v1/placement/defragment", {"cpu": 4, "dry_run": True})
        assert (answer.status, len(answer.json["moves"])) == (200, 1), answer.body


def test_a_container_keeps_its_page_size(database, context):
    """Both may have any pages. Huge pages are free on the first cell only, so a container on them cannot leave it."""
    bare = machine(cells=2, cores=4)
    paged = replace(bare, cells=(replace(bare.cells[0], pages={2048: 16}), bare.cells[1]))
    with Cloud({"one": paged}, **NEVER, **NOAUTH) as cloud:
        pairs = [cloud.run(context, **{**PAIR, "memory": 8}, placement={"mem_page_size": "any"}) for _ in range(4)]
        held = {each.uuid: held_plan(each) for each in pairs}
        huge = [uuid for uuid, plan in held.items() if plan.pages]
        small = [uuid for uuid, plan in held.items() if not plan.pages]
        assert (len(huge), len(small)) == (2, 2)
        for each in pairs:
            if each.uuid in (huge[0], small[0]):
                cloud.compute_api.delete(context, each, force=True)
                cloud.gone(each)
        (move,) = admin(cloud).post("/v1/placement/defragment", {"cpu": 4, "memory": 8}).json["moves"]
        assert move["container"] == small[1]
        assert ended(small[1])[1][0][1] == "Success"


def test_who_may_defragment(database, context):
    with suggesting("never") as cloud:
        body = {"cpu": 4, "memory": 512}
        assert admin(cloud, roles="member").post("/v1/placement/defragment", body).status == 403
        assert admin(cloud, version="1.48").post("/v1/placement/defragment", body).status == 406


def test_movable_is_asked_for_and_shown_from_1_49(database, context):
    with suggesting("never") as cloud:
        made = admin(cloud).post("/v1/containers?run=false", {**FOUR, "movable": False})
        assert (made.status, made.json["movable"]) == (202, False), made.body
        uuid = made.json["uuid"]
        wait_for(lambda: db.get(uuid)["status"] == "Created")
        change = {"path": f"/v1/containers/{uuid}", "body": {"movable": True}}
        changed = admin(cloud).send("PATCH", **change)
        assert (changed.status, changed.json["movable"], db.get(uuid)["placement"]["numa_nodes"]) == (200, True, 1)
        assert admin(cloud, version="1.48").send("PATCH", **change).status == 400
        assert "movable" not in admin(cloud, version="1.48").get(f"/v1/containers/{uuid}").json
        assert admin(cloud).post("/v1/containers?run=false", FOUR).json["movable"] is None
        assert admin(cloud, version="1.48").post("/v1/containers", {**FOUR, "movable": True}).status == 400


def test_a_remote_container_comes_onto_one_cell(database, context):
    options = {"api__auth_strategy": "noauth", "api__host_names": ["zun.example"], "quota__cpu": -1}
    with Cloud({"one": machine(cells=3, cores=4)}, **options, **NEVER) as cloud:
        application = api_app.build(cloud.conf, scheduler_api=cloud.scheduler_api, compute_api=cloud.compute_api)
        api = Client(application, user="root", project="admin", roles="admin", version="1.49")
        whole = cloud.run(context, cpu_policy="dedicated", cpu=4.0, memory=512)
        for _ in range(2):
            cloud.run(context, **{**PAIR, "cpu": 3.0})
        remote = cloud.run(context, **PAIR, placement={"numa_affinity": "prefer"})
        assert len(held_plan(remote).cpu_cells) == 2
        cloud.compute_api.delete(context, whole, force=True)
        cloud.gone(whole)
        refused = api.post("/v1/placement/defragment", {"near": True})
        assert refused.status == 400 and "name the host" in refused.error["detail"]
        answer = api.post("/v1/placement/defragment", {"near": True, "host": "one"}).json
        assert ([each["container"] for each in answer["moves"]], answer["proven"]) == ([remote.uuid], True)
        assert ended(remote.uuid)[0] == "move"
        assert len(held_plan(db.get(remote.uuid)).cpu_cells) == 1
        # The scheduler may hear of the move a moment after its action has ended.
        wait_for(lambda: len(cloud.scheduler.table.host("one").usage.claim(remote.uuid).cpu_cells) == 1)
        answer = api.post("/v1/placement/defragment", {"near": True, "host": "one"}).json
        assert (answer["moves"], answer["proven"], answer["host"]) == ([], True, "one")
