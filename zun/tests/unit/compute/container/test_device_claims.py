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
from zun.compute.container.claims import Claim, Resources, Wanted
from zun.compute.host.compute_node_tracker import ComputeNodeTracker
from zun.container.driver.devices import ContainerDevices
from zun.container.fake import InMemoryDriver
from zun.objects import Container
from zun.objects.placement import cpuset_record, held_plan, placement_request
from zun.tests.fixtures import new_container
from zun.tests.functional.cloud import machine
from zun.tests.unit.compute.agent import COLUMNS, Agent
from zun.tests.unit.container.samples import Sample
from zun.tests.unit.topology.hosts import device_case, proof_size
from zun.topology import CellShare, CpuSet, PlacementRequest, Plan, Usage, plan
from zun.topology.device_request import DeviceMatch, DeviceRequest, GivenDevice
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


# The host changes after the scheduler's last view of it


GPUS = tuple(
    Device(
        f"0000:0{number}:00.0", vendor_id="10de", class_id="030200", cell=0, traits=("FAST",),
        path=("pci0000:80", "0000:80:01.0", f"0000:8{switch}:00.0", f"0000:8{switch}:01.0"),
        links=tuple(f"0000:0{each}:00.0" for each in (1, 2, 3, 4) if each != number),
    )
    for number, switch in ((1, 1), (2, 1), (3, 2), (4, 2))
)  # fmt: skip
"""GPUs 1 to 4, all linked. The first two are behind one switch, the others behind another."""


def asking(same="none", policy="preferred"):
    requests = [
        DeviceRequest(name, 1, (DeviceMatch(vendor_id="10de", traits=("FAST",)),), numa_policy=policy)
        for name in ("one", "two")
    ]
    return PlacementRequest(1, 16, devices=tuple(requests), device_same=same)


def changed(*numbers, **fields):
    """The GPUs, of which these have other fields."""
    return tuple(replace(each, **fields) if number in numbers else each for number, each in enumerate(GPUS, 1))


UNLINKED = (*changed(1, 2, links=())[:2], *(replace(each, links=()) for each in GPUS[2:]))
NO_LINK_OF_1 = tuple(replace(each, links=tuple(e for e in each.links if e[6] != "1")) for each in changed(1, links=()))


@pytest.mark.parametrize(("same", "policy", "now", "expected"), [
    pytest.param("link", "preferred", GPUS, "12", id="unchanged"),
    pytest.param("link", "preferred", NO_LINK_OF_1, "23", id="a-link-is-lost"),
    pytest.param("link", "preferred", UNLINKED, None, id="all-links-are-lost"),
    pytest.param("none", "preferred", UNLINKED, "12", id="links-were-not-asked-for"),
    pytest.param("switch", "preferred", changed(2, path=GPUS[2].path), "23", id="behind-another-switch"),
    pytest.param("switch", "preferred", changed(1, 3, path=()), None, id="the-switches-are-unknown"),
    pytest.param("cell", "preferred", changed(2, cell=1), "13", id="on-another-cell"),
    pytest.param("none", "required", changed(1, 2, cell=1), "34", id="not-on-the-cells-of-the-container"),
    pytest.param("none", "preferred", changed(1, traits=()), "23", id="a-trait-is-lost"),
    pytest.param("none", "preferred", changed(1, 2, 3, vendor_id="15b3"), None, id="another-card-at-the-address"),
])  # fmt: skip
def test_devices_of_an_old_plan_must_still_serve(same, policy, now, expected):
    """A scheduler with an old view, or one of two, proposes the devices 1 and 2, which are free."""
    host, request = machine(cells=2, cores=16), asking(same, policy)
    proposal = plan(replace(host, devices=GPUS), Usage(), request)
    assert [each.address[6] for each in proposal.devices] == ["1", "2"]
    resources = Resources("h1", replace(host, devices=now), Usage(), 7, None, 0, True)
    assert resources.usage.fits(resources.topology, proposal) is None
    try:
        settled = Claim(resources, Wanted("me", request, 0), {"cpuset": proposal.to_dict()}, print).plan
    except exceptions.ClaimRefused:
        settled = None
    assert (None if settled is None else "".join(each.address[6] for each in settled.devices)) == expected


@pytest.mark.parametrize("sames", [("none",), ("link",), ("switch", "cell")])
def test_a_plan_of_today_is_claimed_as_it_is(sames):
    planned = 0
    for seed in range(proof_size(150)):
        topology, usage, request = device_case(random.Random(seed), sames=sames)
        proposal = plan(topology, usage, request)
        if isinstance(proposal, Plan):
            planned += 1
            host = Resources("h1", topology, usage, 7, None, 0, True)
            settled = Claim(host, Wanted("me", request, 0), {"cpuset": proposal.to_dict()}, print).plan
            assert settled == replace(proposal, generation=7), seed
    assert planned
