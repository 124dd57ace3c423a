# SPDX-License-Identifier: Apache-2.0
"""Devices of claims in the life of a host's containers. The claims name them; the runtime is in memory."""

import logging
from dataclasses import replace

import pytest

from zun.container.driver.audit import DeviceAccess
from zun.db import containers as db
from zun.db import models, session
from zun.objects.placement import held_plan, placement_request
from zun.tests.fixtures import new_container, wait_for
from zun.tests.functional.cloud import Cloud, cloud_of, machine
from zun.topology import plan
from zun.topology.device_request import DeviceMatch, DeviceRequest, GivenDevice
from zun.topology.devices import Device, DeviceType

FILES = tuple(Device(path, type=DeviceType.PATH, nodes=(path,)) for path in ("/dev/card0", "/dev/card1"))
WITH_FILES = replace(machine(), devices=FILES)
SPEC = '{"path": "/dev/card*", "resource_class": "CUSTOM_CARD"}'
DEDICATED = {"cpu_policy": "dedicated", "cpu": 2.0, "memory": 512}

cloud = cloud_of({"one": WITH_FILES}, compute__audit_interval=0, devices__device_spec=[SPEC])


@pytest.fixture
def run(cloud, context):
    """Runs a container with devices, as the scheduler's message to the agent does."""

    def run(*addresses, **fields):
        container = new_container(context, **(fields or DEDICATED))
        tracker = cloud.agents["one"].tracker
        answer = plan(tracker.topology, tracker.usage, placement_request(container))
        given = tuple(GivenDevice("card", address) for address in addresses)
        limits = {"cpuset": replace(answer, devices=given).to_dict()}
        cloud.compute_api.create(context, "one", container, limits=limits, alternates=[], tried={})
        return cloud.settled(container)

    return run


def at_runtime(cloud, container):
    return [each.address for each in cloud.drivers["one"].runtime.objects[container.uuid].devices]


def claimed(container):
    return [each.address for each in held_plan(db.get(container.uuid)).devices]


def reason(container):
    return db.get(container.uuid)["status_reason"]


def offer(cloud, *devices):
    """The machine has these devices from now on, and the agent looks."""
    cloud.machines["one"] = replace(machine(), devices=devices)
    cloud.agents["one"]._update_inventory()


def found(cloud, context):
    answer = cloud.compute_api.audit(context, "one", repair=False)
    return [(each["container"], each["code"], each["layer"]) for each in answer["findings"]]


@pytest.mark.parametrize("fields", [DEDICATED, {"cpu": 1.0, "memory": 64}], ids=["dedicated", "shared"])
def test_a_container_keeps_its_devices(cloud, context, run, fields):
    container = run("/dev/card0", **fields)
    assert container.status == "Running"

    def kept():
        assert at_runtime(cloud, container) == claimed(container) == ["/dev/card0"]
        assert found(cloud, context) == []

    kept()
    cloud.compute_api.update(context, container, cpu=1.0, memory=256)
    kept()
    db.update(container.uuid, {"status": "Rebuilding"})
    cloud.compute_api.rebuild(context, container)
    assert cloud.settled(container).status == "Running"
    kept()
    cloud.accept_reboot(container)
    cloud.compute_api.reboot(context, container)
    assert cloud.settled(container).status == "Running"
    kept()
    cloud.stop_agent("one")
    held = cloud.start_agent("one").tracker.usage.claim(container.uuid)
    assert [each.address for each in held.devices] == ["/dev/card0"]
    kept()


def test_a_lost_device_degrades_its_holder_only(cloud, context, run):
    holder, neighbour = run("/dev/card0"), run("/dev/card1")
    offer(cloud, FILES[1])
    told = wait_for(lambda: reason(holder))
    assert told == (
        "It has lost devices: device /dev/card0 (card) is gone from the host, or not selected by its [devices] "
        "device_spec any more. Tell the operator, or delete it and create it anew."
    )
    assert (db.get(holder.uuid)["status"], reason(neighbour)) == ("Running", None)
    assert found(cloud, context) == [(holder.uuid, "device-lost", "device")]
    offer(cloud, *FILES)
    wait_for(lambda: reason(holder) is None)
    assert found(cloud, context) == []


def test_a_reboot_fails_without_a_device(cloud, context, run):
    holder = run("/dev/card0")
    offer(cloud, FILES[1])
    cloud.accept_reboot(holder)
    cloud.compute_api.reboot(context, holder)
    assert "device /dev/card0 (card) is gone" in cloud.settled(holder).status_reason
    assert claimed(holder) == ["/dev/card0"]
    assert cloud.settled(holder).status == "Running"


def test_a_container_is_not_made_without_its_device(cloud, context, run):
    lost = run("/dev/card7")
    assert (lost.status, lost.cpuset) == ("Error", None)
    assert "device /dev/card7" in lost.status_reason
    assert lost.uuid not in cloud.drivers["one"].runtime.objects
    assert lost.uuid not in cloud.agents["one"].tracker.usage.owners


def test_a_start_fails_without_a_device(cloud, context, run):
    container = run("/dev/card0")
    cloud.compute_api.stop(context, container)
    wait_for(lambda: cloud.settled(container).status == "Stopped")
    offer(cloud, FILES[1])
    cloud.compute_api.start(context, container)
    wait_for(lambda: cloud.settled(container).status == "Error")
    assert "device /dev/card0 (card) is gone" in reason(container)
    assert claimed(container) == ["/dev/card0"]


@pytest.mark.parametrize(("access", "detail"), [
    ({"configured": {"/dev/card1"}}, "the runtime is configured for devices /dev/card1, its claim needs /dev/card0"),
    ({"configured": {}}, "the runtime is configured for devices none, its claim needs /dev/card0"),
    ({"missing": ("/dev/card0",)}, "its file system lacks /dev/card0, or has another device there"),
    ({"denied": ("/dev/card0",)}, "its control group refuses /dev/card0"),
    ({"allowed": ("c 10:183 rwm",)}, "its control group gives it devices that it does not hold: c 10:183 rwm"),
])
def test_drift_of_devices(cloud, context, run, access, detail):
    container, neighbour = run("/dev/card0"), run("/dev/card1")
    wanted = frozenset({"/dev/card0"})
    seen = replace(DeviceAccess(wanted, wanted), **access)
    cloud.drivers["one"].kernel.devices[container.uuid] = replace(seen, configured=frozenset(seen.configured))
    answer = cloud.compute_api.audit(context, "one", repair=True)
    (finding,) = answer["findings"]
    assert (finding["container"], finding["code"], finding["layer"]) == (container.uuid, "drifted", "device")
    assert (finding["detail"], finding["repaired"]) == (detail, False)
    assert answer["containers"] == {"ok": 1, "drifted": 1}
    assert at_runtime(cloud, neighbour) == ["/dev/card1"]


def test_a_lost_claim_is_recovered_with_its_devices(cloud, context, run):
    container = run("/dev/card0")
    cloud.stop_agent("one")
    db.update(container.uuid, {"cpuset": None})
    tracker = cloud.start_agent("one").tracker
    assert [each.address for each in tracker.usage.claim(container.uuid).devices] == ["/dev/card0"]
    cloud.compute_api.audit(context, "one", repair=True)
    assert claimed(container) == ["/dev/card0"]


def test_held_device_stays_offered_at_a_restart(cloud, context, run, caplog):
    """A stopped container's card is back in the host, which may give it a route before the agent starts again."""
    container = run("/dev/card0")
    cloud.stop_agent("one")
    used = tuple(replace(device, in_use="its interface eno1 has the default route") for device in FILES)
    cloud.machines["one"] = replace(machine(), devices=used)
    with caplog.at_level(logging.WARNING):
        agent = cloud.start_agent("one")
    assert [device.address for device in agent.tracker.topology.devices] == ["/dev/card0"]
    assert [line for line in caplog.messages if "is not offered" in line and "/dev/card0" in line] == []
    assert cloud.settled(container).status == "Running"


@pytest.mark.parametrize("fields", [DEDICATED, {"cpu": 1.0, "memory": 64}], ids=["dedicated", "shared"])
def test_a_device_of_a_lost_row_is_offered_to_nobody(cloud, context, run, fields, caplog):
    """The container runs on without a row. It has its device, whatever the database says."""
    lost = run("/dev/card0", **fields)
    cloud.agents["one"]._compare()
    wait_for(lambda: not cloud.agents["one"].queue.busy())
    cloud.stop_agent("one")
    with session.writer() as connection:
        connection.execute(models.containers.delete().where(models.containers.c.uuid == lost.uuid))
    with caplog.at_level(logging.WARNING):
        agent = cloud.start_agent("one")
    assert [device.address for device in agent.tracker.topology.devices] == ["/dev/card1"]
    assert [line for line in caplog.messages if "/dev/card0 is not offered" in line and "recover" in line]
    assert [each["reason"] for each in agent.recover(context, dry_run=False)] == [None]
    assert [device.address for device in agent.tracker.topology.devices] == ["/dev/card0", "/dev/card1"]
    assert [each.address for each in agent.tracker.usage.claim(lost.uuid).devices] == ["/dev/card0"]


def test_a_lost_row_whose_device_another_has_is_refused(cloud, context, run):
    """The record is from a backup of the host's files, and the device was given again meanwhile."""
    lost = run("/dev/card0")
    agent = cloud.agents["one"]
    agent._compare()
    wait_for(lambda: not agent.queue.busy())
    with session.writer() as connection:
        connection.execute(models.containers.delete().where(models.containers.c.uuid == lost.uuid))
    agent.tracker.release(lost.uuid)
    run("/dev/card0", cpu=1.0, memory=64)
    for dry_run in (True, False):
        ((_, reason),) = [(each["uuid"], each["reason"]) for each in agent.recover(context, dry_run=dry_run)]
        assert "its devices /dev/card0 belong to other containers by now" in reason


def test_a_device_held_twice_is_told_at_start(cloud, context, run, caplog):
    one, two = run("/dev/card0"), run("/dev/card1")
    cloud.stop_agent("one")
    record = db.get(two.uuid)["cpuset"]
    db.update(two.uuid, {"cpuset": {**record, "devices": db.get(one.uuid)["cpuset"]["devices"]}})
    with caplog.at_level(logging.ERROR):
        cloud.start_agent("one")
    (line,) = [each.getMessage() for each in caplog.records if "/dev/card0" in each.getMessage()]
    words = "Device /dev/card0 is for 1 container and 2 hold it: "
    assert line.startswith(words)
    assert {one.uuid, two.uuid} == set(line.removeprefix(words)[:74].split(", "))


GPU = Device("0000:81:00.0", "10de", "2330", "030200", driver="nvidia", nodes=("/dev/nvidia0",))
PARTS = tuple(
    replace(
        GPU, address=f"{GPU.address}/gi{number}/ci0", type=DeviceType.PART, physical=GPU.address, profile="3g.40gb",
        nodes=("/dev/nvidia0", f"/dev/nvidia-caps/nvidia-cap{number}"), resource_class="CUSTOM_MIG_3G_40GB",
    )
    for number in (1, 2)
)  # fmt: skip


def test_gpu_is_divided_and_put_together_while_containers_run(database, context):
    """A part that is gone stays with its holder, the GPU with it, and a part made anew with its address is not new."""
    with Cloud({"one": replace(machine(), devices=(GPU, *PARTS))}, compute__audit_interval=0,
               devices__device_spec=['{"vendor_id": "10de"}', '{"part": "*"}']) as cloud:  # fmt: skip

        def create(address):
            container = new_container(context, **{**DEDICATED, "cpu": 1.0})
            tracker = cloud.agents["one"].tracker
            answer = plan(tracker.topology, tracker.usage, placement_request(container))
            limits = {"cpuset": replace(answer, devices=(GivenDevice("gpu", address),)).to_dict()}
            cloud.compute_api.create(context, "one", container, limits=limits, alternates=[], tried={})
            return cloud.settled(container)

        def free():
            tracker = cloud.agents["one"].tracker
            return [each.address for each in tracker.usage.free_devices(tracker.topology)]

        holder = create(PARTS[0].address)
        assert (db.get(holder.uuid)["status"], free()) == ("Running", [PARTS[1].address])
        assert db.get(create(GPU.address).uuid)["status"] == "Error"
        offer(cloud, GPU)
        told = wait_for(lambda: reason(holder))
        assert told.startswith("It has lost devices: device 0000:81:00.0/gi1/ci0 (gpu) is gone from the host")
        assert (free(), found(cloud, context)) == ([], [(holder.uuid, "device-lost", "device")])
        offer(cloud, GPU, *PARTS)
        wait_for(lambda: reason(holder) is None)
        assert free() == [PARTS[1].address]
        neighbour = create(PARTS[1].address)
        assert at_runtime(cloud, neighbour) == [PARTS[1].address]
        assert free() == []


def test_linked_devices_stay_with_their_container(database, context):
    """Four cards are two linked pairs. A new size and a rebuild keep a pair, although the link is gone by then."""
    cards = [replace(FILES[0], address=path, nodes=(path,)) for path in (f"/dev/card{number}" for number in range(4))]
    pairs = [replace(card, links=(other.address,)) for card, other in zip(cards[:2], cards[2:], strict=True)]
    wanted = DeviceRequest("card", 2, (DeviceMatch(resource_class="CUSTOM_CARD"),))
    placement = {"devices": [wanted.to_dict()], "device_same": "link"}
    host = replace(machine(), devices=(*pairs, *cards[2:]))
    with Cloud({"one": host}, compute__audit_interval=0, devices__device_spec=[SPEC]) as cloud:
        containers = [cloud.run(context, **DEDICATED, placement=placement) for _ in range(3)]
        assert [each.status for each in containers] == ["Running", "Running", "Error"]
        assert claimed(containers[1]) == ["/dev/card1", "/dev/card3"]
        assert "0 of 4 devices card are free" in containers[2].status_reason
        container = containers[0]
        offer(cloud, *cards)
        cloud.compute_api.update(context, container, cpu=1.0, memory=256)
        db.update(container.uuid, {"status": "Rebuilding"})
        cloud.compute_api.rebuild(context, container)
        assert cloud.settled(container).status == "Running"
        assert at_runtime(cloud, container) == claimed(container) == ["/dev/card0", "/dev/card2"]
        assert found(cloud, context) == []
