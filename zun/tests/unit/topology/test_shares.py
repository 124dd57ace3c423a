# SPDX-License-Identifier: Apache-2.0
"""Devices that several containers share: who gets a share, who is refused, and what the operator's changes do."""

import pickle
from dataclasses import replace

import pytest

from zun.compute.container.resize_rules import resized
from zun.tests.unit.topology.build import cell, host
from zun.topology import HostTopology, PlacementRequest, Plan, Refusal, Usage, plan
from zun.topology.device_request import DeviceMatch, DeviceRequest, GivenDevice
from zun.topology.devices import Device, DeviceType
from zun.topology.usage import ClaimConflict

CELLS = (cell(0, "0 1 2 3"), cell(1, "4 5 6 7"))
GPU = Device("0000:0a:00.0", vendor_id="10de", cell=0, driver="nvidia", resource_class="CUSTOM_SLICE", shared=3)
SECOND = replace(GPU, address="0000:0b:00.0")
WHOLE = replace(GPU, shared=1, resource_class=None)
PF, VF = replace(GPU, type=DeviceType.PF), replace(WHOLE, address="0000:0a:00.1", physical=GPU.address)


def machine(*devices: Device) -> HostTopology:
    return host(*CELLS, devices=devices)


def asking(count: int = 1, **conditions) -> PlacementRequest:
    """A request for devices with a share left, or for devices of other ``conditions``."""
    match = DeviceMatch(**(conditions or {"resource_class": "CUSTOM_SLICE"}))
    return PlacementRequest(0.1, 1, "shared", devices=(DeviceRequest("gpu", count, (match,)),))


def held(device: Device, count: int, **fields) -> Usage:
    """``count`` containers that hold the device."""
    claim = Plan({}, devices=(replace(GivenDevice.of("gpu", device), **fields),))
    usage = Usage()
    for number in range(count):
        usage = usage.with_claim(f"c{number}", Plan.from_dict(claim.to_dict()))
    return usage


def given(answer: Plan | Refusal) -> list[str] | str:
    return answer.message if isinstance(answer, Refusal) else [each.address for each in answer.devices]


@pytest.mark.parametrize(("there", "usage", "asked", "expected"), [
    pytest.param((GPU,), held(GPU, 2), asking(), [GPU.address], id="the-last-share"),
    pytest.param((GPU,), held(GPU, 3), asking(), "0 of 1 devices gpu are free: 1 are wanted", id="all-shares-held"),
    pytest.param(
        (GPU,), held(GPU, 0), asking(2),
        "1 of 1 devices gpu are free: 2 are wanted, each another device, because a container has one share of a device "
        "at most", id="two-shares-of-one-device",
    ),
    pytest.param((GPU, SECOND), held(GPU, 2), asking(2), [GPU.address, SECOND.address], id="two-devices"),
    pytest.param((GPU, SECOND), held(GPU, 1), asking(), [SECOND.address], id="fewer-holders-come-first"),
    pytest.param(
        (GPU,), held(GPU, 0), asking(vendor_id="10de"),
        "0 of 0 devices gpu are free: 1 are wanted. The 1 shared ones are for requests that name the resource class "
        "CUSTOM_SLICE", id="never-by-accident",
    ),
    pytest.param((GPU, replace(WHOLE, address="w")), held(GPU, 0), asking(vendor_id="10de"), ["w"], id="whole-one"),
    pytest.param((PF, VF), held(PF, 1), asking(), [PF.address], id="a-share-beside-a-share-of-a-card-with-functions"),
    pytest.param(
        (PF, VF), held(PF, 1), asking(type=DeviceType.PCI), "0 of 1 devices gpu are free: 1 are wanted",
        id="no-function-of-a-card-with-a-share-held",
    ),
    pytest.param(
        (PF, VF), held(VF, 1), asking(), "0 of 1 devices gpu are free: 1 are wanted",
        id="no-share-of-a-card-with-a-function-held",
    ),
    pytest.param(
        (replace(PF, address="p2"), PF, VF), held(PF, 1), asking(), [PF.address], id="a-card-in-use-before-another",
    ),
    pytest.param(
        (replace(GPU, iommu_group=7), replace(WHOLE, address="v", driver="vfio-pci", iommu_group=7)), held(GPU, 1),
        asking(vendor_id="10de"),
        "0 of 1 devices gpu are free: 1 are wanted", id="no-vfio-device-beside-a-share-in-its-group",
    ),
])
def test_who_gets_a_share(there, usage, asked, expected):
    found = given(plan(machine(*there), usage, asked))
    assert found == expected or (isinstance(found, str) and found.startswith(f"{expected};"))


@pytest.mark.parametrize(("before", "count", "now", "left"), [
    pytest.param(GPU, 2, GPU, 1, id="unchanged"),
    pytest.param(GPU, 3, replace(GPU, shared=5), 2, id="more"),
    pytest.param(GPU, 3, replace(GPU, shared=2), 0, id="fewer-than-hold-it"),
    pytest.param(GPU, 1, replace(GPU, shared=2), 1, id="fewer-with-room"),
    pytest.param(GPU, 2, replace(WHOLE, resource_class="CUSTOM_SLICE"), 0, id="not-shared-any-more"),
    pytest.param(WHOLE, 1, GPU, 0, id="shared-while-a-container-has-it-alone"),
])
def test_the_operator_changes_the_number_of_shares(before, count, now, left):
    """Containers keep what they hold, and one that has a device alone keeps it alone."""
    usage, there = held(before, count), machine(now)
    for number in range(left):
        answer = plan(there, usage, asking())
        assert given(answer) == [now.address]
        assert usage.fits(there, answer) is None
        usage = usage.with_claim(f"new{number}", answer)
        assert answer.devices[0].shared == now.shared
    assert isinstance(plan(there, usage, asking()), Refusal)
    assert usage.free_devices(there) == ()
    assert usage.holders(now.address) == count + left
    for number in range(count):  # each may be taken back as it was, as after a resize
        owner = f"c{number}"
        assert usage.without(owner).with_claim(owner, usage.claim(owner)) == usage
    assert usage.without("c0").holders(now.address) == count + left - 1


@pytest.mark.parametrize(("first", "second", "conflict"), [(3, 3, False), (1, 3, True), (3, 1, True), (1, 1, True)])
def test_a_claim_beside_another_needs_two_shares(first, second, conflict):
    usage = held(GPU, 1, shared=first)
    claim = Plan({}, devices=(GivenDevice("gpu", GPU.address, 0, shared=second),))
    if not conflict:
        both = usage.with_claim("b", claim)
        assert pickle.loads(pickle.dumps(both)) == both
        assert (both.holders(GPU.address), both.totals == usage.totals) == (2, False)
        return
    with pytest.raises(ClaimConflict, match=f"device {GPU.address} is held by c0"):
        usage.with_claim("b", claim)


def test_as_many_claims_as_shares():
    usage = held(GPU, 3)
    with pytest.raises(ClaimConflict):
        usage.with_claim("d", Plan({}, devices=(GivenDevice.of("gpu", GPU),)))


@pytest.mark.parametrize(("now", "words"), [
    pytest.param(GPU, f"device {GPU.address} is shared, and the plan is from before", id="shared-now"),
    pytest.param(replace(GPU, shared=1), None, id="as-before"),
])
def test_a_plan_for_a_whole_device_is_no_share(now, words):
    """A scheduler that has not heard of the change proposes the device to somebody who wants all of it."""
    proposed = Plan({}, devices=(GivenDevice("gpu", GPU.address, 0),))
    assert getattr(Usage().fits(machine(now), proposed), "message", None) == words
    if words is not None:
        share = Plan({}, devices=(GivenDevice.of("gpu", GPU),))
        refusal = Usage().fits(machine(WHOLE), share)
        assert refusal is not None and refusal.message.startswith(f"device {GPU.address} is not shared any more")
        refusal = held(GPU, 3).fits(machine(GPU), share)
        assert refusal is not None and refusal.message == f"device {GPU.address} is taken: 3 containers hold it"


@pytest.mark.parametrize("policy", ["shared", "dedicated"])
@pytest.mark.parametrize("now", [GPU, replace(GPU, shared=2), WHOLE, None])
def test_a_new_size_keeps_the_share(now, policy):
    """Also while others have all shares, or more than there are now, or the host does not offer the device any more."""
    there = machine(*[now] if now else [])
    request = replace(asking(), cpus=1, cpu_policy=policy)
    old = plan(machine(GPU), Usage(), request)
    assert isinstance(old, Plan)
    answer = resized(there, held(GPU, 2), old, replace(request, cpus=2))
    assert given(answer) == [GPU.address]


def test_shares_left():
    assert [held(GPU, count).shares_left(GPU) for count in range(3)] == [3, 2, 1]
    assert Usage().shares_left(WHOLE) == 1
