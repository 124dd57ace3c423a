# SPDX-License-Identifier: Apache-2.0
"""Capsules through scheduler and hosts: one claim, init containers first, every member on its part."""

import threading
from dataclasses import replace

import pytest
from oslo_db import exception as db_exc

from zun.common import exceptions
from zun.common.context import admin_context
from zun.common.states import Kind
from zun.container.driver.images import ImageFacts
from zun.db import capsules as db_capsules
from zun.db import compute_nodes
from zun.db import containers as db
from zun.objects import Container
from zun.tests.fixtures import wait_for
from zun.tests.functional.capsules import member, settled, submit
from zun.tests.functional.cloud import Cloud, cloud_of, machine, without
from zun.tests.functional.over_api import OPTIONS, administrator_of
from zun.tests.host_in_memory import look_now
from zun.topology import CpuSet
from zun.topology.device_request import DeviceMatch, DeviceRequest
from zun.topology.devices import Device, DeviceType

cloud = cloud_of({"one": machine()}, compute__sync_container_state_interval=3600, **OPTIONS)


def sets(cloud, row):
    found = cloud.drivers["one"].runtime.objects[row["uuid"]]
    return CpuSet(found.cpuset_cpus), found.cpuset_mems


def test_members_have_their_own_cpus_of_one_place(cloud, context):
    uuid = submit(cloud, context, member(2.0, 100), member(1.0, 50))
    row, members = settled(cloud, uuid, "Running")
    whole = CpuSet(row["cpuset"]["cpuset_cpus"])
    (first, first_mems), (second, second_mems) = (sets(cloud, each) for each in members)
    assert (len(first), len(second), first & second, first | second) == (2, 1, CpuSet(), whole)
    assert first_mems == second_mems == row["cpuset"]["cpuset_mems"]
    assert sets(cloud, row) == (whole, first_mems)
    assert {each["status"] for each in members} == {"Running"} and {each["host"] for each in members} == {"one"}
    assert {cloud.drivers["one"].runtime.objects[each["uuid"]].join for each in members} == {uuid}
    # One claim, for the host, the scheduler and the operator.
    assert cloud.agents["one"].tracker.usage.owners == (uuid,)
    assert compute_nodes.usage()["one"] == compute_nodes.HostUsage(1, 3.0, 150, 0)
    cloud.scheduler.table.refresh()
    assert cloud.scheduler.table.host("one").usage.owners == (uuid,)
    audit = cloud.compute_api.audit(admin_context(), "one", repair=False)
    assert audit["findings"] == [] and audit["containers"] == {**dict.fromkeys(audit["containers"], 0), "ok": 3}
    api = administrator_of(cloud)
    (claim,) = api.get("/v1/hosts/one/topology").json["claims"]
    assert (claim["container"], CpuSet(claim["cpuset_cpus"])) == (uuid, whole)
    assert claim["members"] == [
        {"container": each["uuid"], "name": each["name"], "cpuset_cpus": str(sets(cloud, each)[0])} for each in members
    ]
    assert "members" not in api.at("1.50").get("/v1/hosts/one/topology").json["claims"][0]


def test_finding_of_the_audit_names_the_member(cloud, context):
    _, (first, _) = settled(cloud, submit(cloud, context, member(1.0), member(1.0)), "Running")
    driver = cloud.drivers["one"]
    driver.disobey(first["uuid"], cpus="40-41")
    found = cloud.compute_api.audit(admin_context(), "one", repair=False)["findings"]
    assert {(each["container"], each["name"]) for each in found} == {(first["uuid"], first["name"])}


def test_explanation_of_a_member_is_that_of_its_capsule(cloud, context):
    api = administrator_of(cloud)
    _, (only,) = settled(cloud, submit(cloud, context, member(64.0)), "Error")
    explained = api.get(f"/v1/containers/{only['uuid']}/explain")
    assert explained.status == 200 and explained.json["details"], explained.body


def test_member_is_looked_into_like_a_container_by_its_uuid(cloud, context):
    api = administrator_of(cloud)
    uuid = submit(cloud, context, member(1.0, kind=Kind.INIT, command=["true"]), member(2.0), member(1.0))
    init, *_ = db_capsules.members([uuid])[uuid]
    wait_for(lambda: cloud.drivers["one"].runtime.objects.get(init["uuid"]))
    cloud.drivers["one"].exit(init["uuid"], 0)
    row, (_, first, second) = settled(cloud, uuid, "Running")
    for each in (first, second):
        at = f"/v1/containers/{each['uuid']}"
        assert api.post(f"{at}/execute?command=hostname").json["exit_code"] == 0
        for what in ("logs", "top", "stats"):
            assert api.get(f"{at}/{what}").status == 200, what
    assert api.get(f"/v1/containers/{init['uuid']}/logs").status == 200
    # A name is unique in the capsule only.
    for ident in (first["name"], row["uuid"]):
        assert api.get(f"/v1/containers/{ident}/logs").status == 404
    assert api.get(f"/v1/containers/{first['uuid']}").json["uuid"] == first["uuid"]


def test_a_capsule_that_is_larger_than_a_cell_fits_nowhere(cloud, context):
    uuid = submit(cloud, context, member(3.0), member(2.0))
    row, members = settled(cloud, uuid, "Error")
    assert "Nearest miss" in row["status_reason"]
    assert {each["status"] for each in members} == {"Error"} and row["cpuset"] is None
    assert settled(cloud, submit(cloud, context, member(2.0), member(2.0)), "Running")


def test_init_containers_run_one_after_another_and_first(cloud, context):
    order, alive = [], []
    driver = cloud.drivers["one"]

    def note(container):
        if driver.runtime.objects[container.uuid].pid:
            return  # told again, which changes nothing
        order.append(container.uuid)
        alive.append(sum(bool(each.pid) for each in driver.runtime.objects.values()))

    driver.before("start", note)
    inits = [member(3.0, kind=Kind.INIT, command=["true"]), member(1.0, kind=Kind.INIT, command=["sleep", "7"])]
    uuid = submit(cloud, context, *inits, member(1.0), member(1.0))
    first, second, *members = db_capsules.members([uuid])[uuid]
    wait_for(lambda: driver.runtime.objects.get(second["uuid"]) and driver.runtime.objects[second["uuid"]].pid)
    assert db.get(uuid)["status"] == "Creating" and first["uuid"] in driver.runtime.objects
    assert not any(each["uuid"] in driver.runtime.objects for each in members)
    # Larger than all members together: the capsule holds as much as its largest init container.
    assert db.get(uuid)["cpu"] == 3.0 and len(sets(cloud, first)[0]) == 3
    driver.exit(second["uuid"])
    row, rows = settled(cloud, uuid, "Running")
    assert order == [uuid, *(each["uuid"] for each in rows)]
    assert alive == [0, 1, 1, 1, 2]  # the network's keeper, and what has not ended
    assert [each["status"] for each in rows] == ["Stopped", "Stopped", "Running", "Running"]
    whole = CpuSet(row["cpuset"]["cpuset_cpus"])
    assert all(sets(cloud, each)[0] <= whole for each in rows)


def test_registry_that_is_not_allowed_says_whose_image_it_has(cloud, context):
    refused = exceptions.InvalidValue("image: no images may come from registry.example.org.")
    driver = cloud.drivers["one"]
    driver.images = {"pause": ImageFacts("sha256:pause")}
    driver.fail("pull_image", refused)
    row, _ = settled(cloud, submit(cloud, context, member(1.0, name="capsule-web-log")), "Error")
    assert row["status_reason"].startswith("Container capsule-web-log: image: no images may come from")
    driver.images = {}
    driver.fail("pull_image", refused)
    row, _ = settled(cloud, submit(cloud, context, member(1.0), name="second"), "Error")
    assert "Nothing is wrong with the template" in row["status_reason"]


@pytest.mark.parametrize(
    ("log", "told"), [([], ""), (["first", "no such\x00table\x1b", ""], ", and its log with: no such table")]
)
def test_a_failed_init_container_ends_the_capsule(cloud, context, log, told):
    driver = cloud.drivers["one"]
    driver.before("start", lambda each: [driver.write_log(each.uuid, line) for line in log])
    uuid = submit(cloud, context, member(1.0, kind=Kind.INIT, command=["false"]), member(1.0))
    row, members = settled(cloud, uuid, "Error")
    assert f"ended with exit code 1{told}. The containers after it" in row["status_reason"]
    assert {each["status"] for each in members} == {"Error"}
    assert wait_for(lambda: len(cloud.agents["one"].tracker.usage) == 0)
    assert cloud.drivers["one"].list() == {}


@pytest.mark.parametrize(
    ("there", "reason", "hint"),
    [((), "The host cannot get image pause", True), (("pause",), "Container capsule-web-log: Image ", False)],
)
def test_a_missing_image_says_whose_it_is(cloud, context, there, reason, hint):
    cloud.drivers["one"].images = {name: ImageFacts(f"sha256:{name}") for name in there}
    row, _ = settled(cloud, submit(cloud, context, member(1.0, name="capsule-web-log")), "Error")
    assert reason in row["status_reason"]
    assert ("[capsule] sandbox_image" in row["status_reason"]) is hint


@pytest.mark.parametrize("number", [1, 2])
def test_a_member_that_cannot_be_made_ends_the_capsule(cloud, context, number):
    driver, calls = cloud.drivers["one"], []

    def fail(container):
        calls.append(container)
        if len(calls) == number + 1:
            raise exceptions.DockerError(error="no space left on device")

    driver.before("create", fail)
    row, _ = settled(cloud, submit(cloud, context, member(1.0), member(1.0)), "Error")
    assert "no space left" in row["status_reason"] and row["cpuset"] is None
    assert driver.list() == {}


def test_a_capsule_whose_cpu_goes_offline_meanwhile_names_it(cloud, context):
    agent, driver = cloud.agents["one"], cloud.drivers["one"]
    taken = []

    def goes_offline(container):
        taken.extend(CpuSet(driver.runtime.objects[container.uuid].cpuset_cpus))
        left = without(cloud.machines["one"], CpuSet(taken[:1]))
        agent.tracker.update_inventory(context, left, agent._inventory.columns)

    driver.before("start", goes_offline)
    row, members = settled(cloud, submit(cloud, context, member(1.0), member(1.0)), "Error", "Running")
    assert row["status_reason"].startswith(f"CPUs {taken[0]} went offline on the host")
    assert row["cpuset"] is None and {each["status"] for each in members} == {"Error"}
    assert driver.runtime.objects == {}
    wait_for(lambda: agent.tracker.usage.owners == ())


def test_what_members_come_to(cloud, context):
    uuid = submit(cloud, context, member(1.0), member(1.0), restart_policy={"Name": "no", "MaximumRetryCount": "0"})
    _, members = settled(cloud, uuid, "Running")
    driver = cloud.drivers["one"]
    driver.exit(members[0]["uuid"], 1)
    wait_for(lambda: db.get(members[0]["uuid"])["status"] == "Stopped")
    assert db.get(uuid)["status"] == "Running"
    driver.exit(members[1]["uuid"])
    row, _ = settled(cloud, uuid, "Stopped")
    assert row["cpuset"] is not None and driver.runtime.objects[uuid].pid


def test_a_member_that_ends_while_it_is_started_is_told(cloud, context):
    """Its end is looked at when the row says that it runs, not before."""
    driver, parts, looks = cloud.drivers["one"], cloud.agents["one"].parts, []

    def ends(container):
        if container.capsule_uuid is None:
            return
        driver.exit(container.uuid, 3)
        looks.append(threading.Thread(target=look_now, args=(parts, container.uuid)))
        looks[0].start()
        wait_for(lambda: cloud.waiting(container.capsule_uuid))

    driver.cut_events()
    driver.before("kernel_view", ends)
    uuid = submit(cloud, context, member(1.0))
    wait_for(lambda: db.get(uuid)["status"] != "Creating")
    looks[0].join()
    (only,) = db_capsules.members([uuid])[uuid]
    assert (only["status"], only["exit_code"], db.get(uuid)["status"]) == ("Stopped", 3, "Stopped")


def test_a_member_that_vanished_is_told(cloud, context):
    uuid = submit(cloud, context, member(1.0), member(1.0))
    _, members = settled(cloud, uuid, "Running")
    driver = cloud.drivers["one"]
    with driver.runtime.lock:
        driver.runtime.remove(driver.runtime.objects[members[0]["uuid"]])
    row, _ = settled(cloud, uuid, "Error")
    assert members[0]["name"] in row["status_reason"] and "does not exist" in row["status_reason"]


@pytest.mark.parametrize("when", ["init", "running"])
def test_delete(cloud, context, when):
    command = ["sleep", "7"] if when == "init" else ["true"]
    uuid = submit(cloud, context, member(1.0, kind=Kind.INIT, command=command), member(1.0))
    init, *_ = db_capsules.members([uuid])[uuid]
    driver = cloud.drivers["one"]
    wait_for(lambda: init["uuid"] in driver.runtime.objects and driver.runtime.objects[init["uuid"]].started_at)
    if when == "running":
        settled(cloud, uuid, "Running")
    capsule = Container.from_row(context, db.get(uuid))
    cloud.compute_api.delete(context, capsule, force=True)
    cloud.gone(capsule)
    assert db_capsules.members([uuid])[uuid] == [] and driver.list() == {}
    assert wait_for(lambda: len(cloud.agents["one"].tracker.usage) == 0)


def test_failed_capsule_that_cannot_be_removed_ends_in_error(cloud, context):
    """The members are in Error too, and the capsule keeps its claim."""
    driver = cloud.drivers["one"]
    driver.fail("start", exceptions.Unavailable())
    driver.fail("delete", exceptions.Unavailable(), times=1000)
    uuid = submit(cloud, context, member(1.0))
    _, (only,) = settled(cloud, uuid, "Error")
    assert only["status"] == "Error"
    assert cloud.agents["one"].tracker.usage.claim(uuid) is not None
    driver.end_failures("delete")
    capsule = Container.from_row(context, db.get(uuid))
    cloud.compute_api.delete(context, capsule, force=True)
    cloud.gone(capsule)
    assert driver.list() == {}


def test_members_are_ended_later_if_database_was_unreachable(cloud, context, monkeypatch):
    driver, agent, end = cloud.drivers["one"], cloud.agents["one"], db_capsules.end_members
    lost = threading.Event()

    def away(*_arguments):
        monkeypatch.setattr(db_capsules, "end_members", end)
        lost.set()
        raise db_exc.DBConnectionError

    monkeypatch.setattr(db_capsules, "end_members", away)
    driver.fail("start", exceptions.Unavailable())
    driver.fail("delete", exceptions.Unavailable(), times=1000)
    uuid = submit(cloud, context, member(1.0))
    wait_for(lost.is_set)
    wait_for(lambda: not agent.queue.busy())
    driver.end_failures("delete")
    agent._compare()
    _, (only,) = settled(cloud, uuid, "Running", "Error")
    assert only["status"] in ("Running", "Error")


@pytest.mark.parametrize("ended", [False, True])
def test_the_agent_goes_on_after_a_restart(cloud, context, ended):
    uuid = submit(cloud, context, member(1.0, kind=Kind.INIT, command=["sleep", "7"]), member(2.0))
    init, *_ = db_capsules.members([uuid])[uuid]
    driver = cloud.drivers["one"]
    wait_for(lambda: init["uuid"] in driver.runtime.objects and driver.runtime.objects[init["uuid"]].pid)
    wait_for(lambda: not db.get(uuid)["task_state"])
    cloud.stop_agent("one")
    if ended:
        driver.exit(init["uuid"])
    agent = cloud.start_agent("one")
    if not ended:
        driver.exit(init["uuid"])
    _, members = settled(cloud, uuid, "Running")
    assert agent.tracker.usage.owners == (uuid,)
    assert driver.runtime.objects[init["uuid"]].restarts == 0
    held = {each["uuid"]: sets(cloud, each) for each in members}
    cloud.stop_agent("one")
    agent = cloud.start_agent("one")
    assert agent.tracker.usage.owners == (uuid,)
    assert held == {each["uuid"]: sets(cloud, each) for each in members}
    audit = cloud.compute_api.audit(admin_context(), "one", repair=False)
    assert audit["findings"] == []


@pytest.mark.parametrize("watched", [True, False])
def test_members_join_a_network_that_was_made_anew(cloud, context, watched):
    always = {"restart_policy": {"Name": "always", "MaximumRetryCount": "0"}}
    uuid = submit(cloud, context, member(1.0, **always), member(1.0, **always))
    _, members = settled(cloud, uuid, "Running")
    driver = cloud.drivers["one"]
    if not watched:
        cloud.stop_agent("one")
    driver.exit(members[0]["uuid"], 1)  # started again by the runtime, before the network is
    driver.exit(uuid, 137)
    if not watched:
        cloud.start_agent("one")
    objects = driver.runtime.objects
    wait_for(lambda: all(objects[each["uuid"]].started_at > objects[uuid].started_at for each in members))
    assert settled(cloud, uuid, "Running")


def test_member_that_rejoins_on_wrong_cpus_is_stopped(cloud, context):
    """The capsule is in Error, and its other member keeps running."""
    uuid = submit(cloud, context, member(1.0), member(1.0))
    _, (strays, _) = settled(cloud, uuid, "Running")
    driver = cloud.drivers["one"]
    driver.disobey(strays["uuid"], cpus="40-41")
    driver.exit(uuid, 137)
    row, members = settled(cloud, uuid, "Error")
    assert f"{strays['name']}: " in row["status_reason"] and "CPUs 40-41, the plan is" in row["status_reason"]
    assert [each["status"] for each in members] == ["Error", "Running"]
    assert [bool(driver.runtime.objects[each["uuid"]].pid) for each in members] == [False, True]


def test_shared_members_follow_the_pool(cloud, context):
    uuid = submit(cloud, context, *(member(0.5, policy="shared") for _ in range(2)), policy="shared")
    row, members = settled(cloud, uuid, "Running")
    cell = int(row["cpuset"]["cpuset_mems"])
    before = {sets(cloud, each)[0] for each in (row, *members)}
    assert before == {machine().cell(cell).cpus}
    other = settled(cloud, submit(cloud, context, member(2.0)), "Running")[0]
    taken = CpuSet(other["cpuset"]["cpuset_cpus"])
    pool = cloud.agents["one"].tracker.usage.shared_pool(machine(), [cell])
    assert {sets(cloud, each)[0] for each in (row, *members)} == {pool} and not pool & taken


def test_the_network_and_the_published_ports_are_the_capsules(cloud, context):
    where = {"80/tcp": {}}
    uuid = submit(cloud, context, member(1.0, exposed_ports=where), exposed_ports=where)
    row, (only,) = settled(cloud, uuid, "Running")
    assert row["exposed_ports"]["80/tcp"]["host_port"] and only["exposed_ports"] == where
    objects = cloud.drivers["one"].runtime.objects
    assert (objects[uuid].join, objects[only["uuid"]].join, objects[only["uuid"]].plug) == (None, uuid, None)


CARDS = tuple(
    Device(f"/dev/card{number}", type=DeviceType.PATH, nodes=(f"/dev/card{number}",), resource_class="CUSTOM_CARD")
    for number in range(4)
)


def cards(count):
    return DeviceRequest("card", count, (DeviceMatch(resource_class="CUSTOM_CARD"),)).to_dict()


@pytest.mark.parametrize("policy", ["dedicated", "shared"])
def test_a_capsules_devices_are_its_containers(database, context, policy):
    """One claim; each container gets what it asked for, its sandbox nothing, also after the agent is another."""
    spec = '{"path": "/dev/card*", "resource_class": "CUSTOM_CARD"}'
    hosts = {"one": replace(machine(), devices=CARDS)}
    with Cloud(hosts, compute__sync_container_state_interval=3600, devices__device_spec=[spec]) as cloud:
        asks = [{"devices": [cards(1)]}, {}, {"devices": [cards(2)]}]
        every = {"devices": [each for placement in asks for each in placement.get("devices", ())]}
        parts = [member(1.0, policy=policy, placement=placement) for placement in asks]
        uuid = submit(cloud, context, member(1.0, kind=Kind.INIT, command=["true"], policy=policy), *parts,
                      policy=policy, placement=every)
        objects = cloud.drivers["one"].runtime.objects
        row, members = settled(cloud, uuid, "Running")

        def has(each):
            return [given.address for given in objects[each["uuid"]].devices]

        def as_it_must_be():
            assert [has(each) for each in (row, *members)] == [
                [], [], ["/dev/card0"], [], ["/dev/card1", "/dev/card2"]
            ]
            held = cloud.agents["one"].tracker.usage
            assert held.owners == (uuid,)
            assert {each.address for each in held.held_devices} == {"/dev/card0", "/dev/card1", "/dev/card2"}
            assert cloud.compute_api.audit(admin_context(), "one", repair=False)["findings"] == []

        as_it_must_be()
        cloud.stop_agent("one")
        cloud.start_agent("one")
        as_it_must_be()
        other = cloud.run(context, placement={"devices": [cards(2)]})
        assert other.status == "Error" and "1 of 4 devices card are free" in other.status_reason
        cloud.machines["one"] = replace(machine(), devices=CARDS[1:])
        cloud.agents["one"]._update_inventory()
        audit = cloud.compute_api.audit(admin_context(), "one", repair=False)
        assert [(each["container"], each["code"]) for each in audit["findings"]] == [
            (members[1]["uuid"], "device-lost")
        ]
