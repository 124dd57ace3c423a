# SPDX-License-Identifier: Apache-2.0
"""Claims of devices on one host: who gets a device, who is refused, and what the next agent knows of it.

``ZUN_DEVICE_CLAIMS`` is the number of containers that live in the last test.
"""

import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import UUID

import pytest

from zun.common import exceptions
from zun.compute.compute_node_tracker import ComputeNodeTracker
from zun.container.driver import ContainerDevices
from zun.container.fake import InMemoryDriver
from zun.objects import Container
from zun.objects.placement import cpuset_record, held_plan, placement_request
from zun.tests.fixtures import new_container
from zun.tests.functional.cloud import machine
from zun.tests.unit.compute.agent import COLUMNS, Agent
from zun.tests.unit.container.samples import Sample
from zun.topology import CellShare, CpuSet, Plan, plan
from zun.topology.device_request import GivenDevice
from zun.topology.devices import Device, DeviceType

FILES = tuple(Device(f"/dev/card{each}", type=DeviceType.PATH, nodes=(f"/dev/card{each}",)) for each in range(6))
HOST = replace(machine(cells=2, cores=16), devices=FILES)
LIVES = int(os.environ.get("ZUN_DEVICE_CLAIMS", "500"))


@pytest.fixture
def agent(context, database):
    return Agent(context, HOST)


def proposed(tracker, container, *devices):
    """Limits as a scheduler sends them: CPUs that are free, and these devices, free or not."""
    answer = plan(tracker.topology, tracker.usage, placement_request(container))
    given = tuple(GivenDevice("card", each) for each in devices)
    return {"cpuset": replace(answer, devices=given).to_dict()}


def shared(*devices):
    """A plan that takes no CPU of its own."""
    share = CellShare(CpuSet("0-15"), 16, shared=0.1)
    return Plan({0: share}, "shared", devices=tuple(GivenDevice("card", each) for each in devices))


def held(tracker):
    return sorted(each.address for _, claim in tracker.usage for each in claim.devices)


@pytest.mark.parametrize("address", ["/dev/card0", "/dev/gone"])
def test_a_device_of_another_or_none_is_not_claimed(agent, address):
    agent.claim({"cpuset": shared("/dev/card0").to_dict()})
    with pytest.raises(exceptions.ClaimRefused, match=address):
        agent.claim({"cpuset": shared(address).to_dict()})
    assert held(agent.tracker) == ["/dev/card0"]


def test_a_device_is_free_after_the_release(agent):
    container, _ = agent.claim({"cpuset": shared("/dev/card0").to_dict()})
    agent.tracker.release(container.uuid)
    _, claimed = agent.claim({"cpuset": shared("/dev/card0").to_dict()})
    assert [each.address for each in claimed.devices] == ["/dev/card0"]


def test_the_next_agent_knows_the_devices_of_the_rows(agent):
    container, claimed = agent.claim({"cpuset": shared("/dev/card0", "/dev/card3").to_dict()})
    tracker = ComputeNodeTracker("h1")
    tracker.update_inventory(agent.context, replace(HOST, devices=FILES[1:]), COLUMNS)
    tracker.rebuild([container])
    assert held_plan(container).devices == claimed.devices
    assert held(tracker) == ["/dev/card0", "/dev/card3"], "one that is gone stays with its container"


def test_a_claim_remembers_the_card_of_its_function(agent):
    """The agent adds it, whoever proposed the plan, and knows it after the card has lost the function."""
    card, function = Device("0000:01:00.0", type=DeviceType.PF), Device("0000:01:00.1", physical="0000:01:00.0")
    agent.tracker.update_inventory(agent.context, replace(HOST, devices=(card, function)), COLUMNS)
    container, claimed = agent.claim({"cpuset": shared(function.address).to_dict()})
    assert [each.physical for each in claimed.devices] == [card.address]
    tracker = ComputeNodeTracker("h1")
    tracker.update_inventory(agent.context, replace(HOST, devices=(card,)), COLUMNS)
    tracker.rebuild([container])
    assert tracker.usage.free_devices(tracker.topology) == ()


SLICE = Device("0000:81:00.0", "10de", "20b0", resource_class="CUSTOM_SLICE", shared=4, nodes=("/dev/nvidia0",))


def slicing(agent, device=SLICE):
    agent.tracker.update_inventory(agent.context, replace(HOST, devices=(device,)), COLUMNS)
    given = (GivenDevice.of("slice", device),)
    return {"cpuset": replace(shared(), devices=given).to_dict()}


def test_as_many_claims_at_once_as_shares(agent):
    """Threads start together; each claims what a scheduler proposed when all shares were free."""
    limits, count = slicing(agent), SLICE.shared + 3
    containers = [new_container(agent.context) for _ in range(count)]
    together = threading.Barrier(count)

    def claimed(container):
        together.wait()
        try:
            return agent.tracker.container_claim(container, limits).plan
        except exceptions.ClaimRefused as refused:
            return str(refused)

    with ThreadPoolExecutor(count) as pool:
        answers = [*pool.map(claimed, containers)]
    plans = [each for each in answers if isinstance(each, Plan)]
    assert [[given.address for given in each.devices] for each in plans] == [[SLICE.address]] * SLICE.shared
    refused = [each for each in answers if not isinstance(each, Plan)]
    assert all(f"device {SLICE.address} is taken: 4 containers hold it" in each for each in refused), refused
    assert agent.tracker.usage.holders(SLICE.address) == SLICE.shared
    agent.tracker.release(next(each.uuid for each, plan in zip(containers, answers, strict=True) if plan in plans))
    agent.claim(limits)


def test_the_next_agent_counts_the_shares_of_the_rows(agent, caplog):
    """Nothing is said of as many holders as shares. Of more, because the operator gave fewer, all holders are named."""
    limits = slicing(agent)
    rows = [agent.claim(limits)[0] for _ in range(4)]
    tracker = ComputeNodeTracker("h1")
    tracker.update_inventory(agent.context, replace(HOST, devices=(SLICE,)), COLUMNS)
    tracker.rebuild(rows)
    assert (tracker.usage.holders(SLICE.address), caplog.messages) == (4, [])
    with pytest.raises(exceptions.ClaimRefused):
        tracker.container_claim(new_container(agent.context), limits)
    tracker.update_inventory(agent.context, replace(HOST, devices=(replace(SLICE, shared=2),)), COLUMNS)
    assert tracker.usage.crowded(tracker.topology) == {SLICE.address: 2}
    tracker.rebuild(rows)
    (message,) = caplog.messages
    assert message.startswith(f"Device {SLICE.address} is for 2 containers and 4 hold it: ")
    assert all(each.uuid in message for each in rows)
    for each in rows[:2]:
        tracker.release(each.uuid)
        with pytest.raises(exceptions.ClaimRefused):
            tracker.container_claim(new_container(agent.context), limits)
    tracker.release(rows[2].uuid)
    assert tracker.container_claim(new_container(agent.context), limits).plan.devices[0].shared == 2


def test_no_device_is_given_twice_in_many_lives(agent):
    """Creates, deletes and kills of the agent. Only what rows say outlives the agent; the runtime goes on."""
    drawn, driver, tracker = random.Random(7), InMemoryDriver(), agent.tracker
    rows: dict[str, Container] = {}
    given = kills = 0
    for number in range(LIVES):
        policy, there = drawn.choice(["shared", "dedicated"]), Sample(uuid=str(UUID(int=number, version=4)))
        container = Container(
            agent.context, uuid=there.uuid, cpu=1.0, memory=8, disk=0, cpu_policy=policy, placement=None,
            capsule_uuid=None, volume_disk=0, cpuset=None,
        )  # fmt: skip
        wanted = [each.address for each in drawn.sample(FILES, drawn.choice([0, 1, 1, 2]))]
        try:
            claim = tracker.container_claim(container, proposed(tracker, container, *wanted))
        except exceptions.ClaimRefused:
            pass
        else:
            if drawn.random() < 0.9:  # else the agent is killed before it commits
                container.cpuset = cpuset_record(claim.plan)
                rows[container.uuid] = container
                driver.create(
                    there, cpuset_cpus=str(claim.plan.cpus), cpuset_mems=str(claim.plan.mems),
                    devices=ContainerDevices(claim.plan.devices, FILES),
                )
                given += bool(claim.plan.devices)
        if rows and (drawn.random() < 0.5 or len(rows) > 10):
            gone = drawn.choice(sorted(rows))
            del rows[gone]
            driver.delete(Sample(uuid=gone), force=True)
            tracker.release(gone)
        if drawn.random() < 0.05:
            kills += 1
            tracker = ComputeNodeTracker("h1")
            tracker.update_inventory(agent.context, HOST, COLUMNS)
            tracker.rebuild(list(rows.values()))
        for addresses in (
            held(tracker),
            [each.address for row in rows.values() for each in held_plan(row).devices],
            [each.address for found in driver.runtime.objects.values() for each in found.devices],
        ):
            assert len(set(addresses)) == len(addresses), f"after {number} lives"
    assert given > LIVES // 10 and kills > LIVES // 50
    print(f"{LIVES} lives, {given} containers with devices, {kills} kills of the agent")
