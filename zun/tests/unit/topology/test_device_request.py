# SPDX-License-Identifier: Apache-2.0
import json
from dataclasses import fields, replace

import pytest

from zun.topology.device_request import (
    DeviceMatch,
    DevicePolicy,
    DeviceRequest,
    GivenDevice,
    function_for,
    port_of,
)
from zun.topology.devices import Device, DeviceType
from zun.topology.placement import CellShare, Plan
from zun.topology.request import PlacementRequest

GPU = Device("0000:81:00.0", "10de", "20b0", "030200", cell=1, resource_class="CUSTOM_GPU", traits=("A", "B"))


@pytest.mark.parametrize(
    ("match", "admitted"),
    [
        (DeviceMatch(), True),
        (DeviceMatch(vendor_id="10de", product_id="20b0"), True),
        (DeviceMatch(vendor_id="8086"), False),
        (DeviceMatch(product_id="20b1"), False),
        (DeviceMatch(resource_class="CUSTOM_GPU"), True),
        (DeviceMatch(resource_class="CUSTOM_NIC"), False),
        (DeviceMatch(type=DeviceType.PCI), True),
        (DeviceMatch(type=DeviceType.VF), False),
        (DeviceMatch(traits=("A",)), True),
        (DeviceMatch(traits=("A", "C")), False),
        (DeviceMatch(physical_network="physnet1"), False),
    ],
)
def test_admits(match, admitted):
    assert match.admits(GPU) is admitted


@pytest.mark.parametrize(("match", "admitted"), [
    (DeviceMatch(), False),
    (DeviceMatch(vendor_id="10de", product_id="20b0"), False),
    (DeviceMatch(vendor_id="10de", type=DeviceType.PART), True),
    (DeviceMatch(resource_class="CUSTOM_GPU"), True),
    (DeviceMatch(resource_class="CUSTOM_MIG"), False),
    (DeviceMatch(type=DeviceType.PCI), False),
])
def test_part_of_a_gpu_is_for_those_who_ask_for_parts(match, admitted):
    assert match.admits(replace(GPU, type=DeviceType.PART)) is admitted
    assert not DeviceMatch(type=DeviceType.PART).admits(GPU)


@pytest.mark.parametrize(
    ("match", "admitted"),
    [
        pytest.param(DeviceMatch(), False, id="any-device"),
        pytest.param(DeviceMatch(vendor_id="10de", product_id="20b0"), False, id="vendor-and-product"),
        pytest.param(DeviceMatch(type=DeviceType.PCI), False, id="type"),
        pytest.param(DeviceMatch(traits=("A",)), False, id="trait"),
        pytest.param(DeviceMatch(resource_class="CUSTOM_GPU"), True, id="class"),
        pytest.param(DeviceMatch(vendor_id="10de", resource_class="CUSTOM_GPU"), True, id="class-and-vendor"),
        pytest.param(DeviceMatch(resource_class="CUSTOM_OTHER"), False, id="another-class"),
    ],
)
def test_a_share_is_for_requests_that_name_its_class(match, admitted):
    assert match.admits(replace(GPU, shared=4)) is admitted


@pytest.mark.parametrize(
    ("traits", "matches", "admitted"),
    [
        ((), (DeviceMatch(vendor_id="8086"), DeviceMatch(vendor_id="10de")), True),
        (("B",), (DeviceMatch(),), True),
        (("C",), (DeviceMatch(),), False),
        ((), (), False),
    ],
)
def test_request_admits(traits, matches, admitted):
    assert DeviceRequest("gpu", 1, matches, traits).admits(GPU) is admitted


def test_records():
    match = DeviceMatch("10de", "20b0", "CUSTOM_GPU", DeviceType.PF, ("A",), "physnet1")
    request = DeviceRequest("gpu", 2, (match, DeviceMatch()), ("B",), DevicePolicy.REQUIRED)
    assert DeviceRequest.from_dict(json.loads(json.dumps(request.to_dict()))) == request

    whole = PlacementRequest(2, 100, devices=(request,), device_same="switch").to_dict()
    assert whole["devices"] == [request.to_dict()] and whole["device_same"] == "switch"
    assert "devices" not in PlacementRequest(2, 100).to_dict()

    plan = Plan({0: CellShare(memory_mib=1)}, devices=(GivenDevice("gpu", "0000:81:00.0", 1),))
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))).devices == plan.devices
    assert "devices" not in Plan({}).to_dict()


def test_same_is_checked():
    with pytest.raises(ValueError, match="device_same must be one of none, link, switch, cell, host, not 'bus'"):
        PlacementRequest(2, 100, device_same="bus")


def test_the_function_of_a_port():
    """A virtual function in the port's physical network. The record of an earlier release names no network."""
    request = function_for("p-1", "physnet1", DevicePolicy.REQUIRED)
    function = Device("0000:81:00.2", "8086", "10ed", "020000", type=DeviceType.VF, physical_network="physnet1")
    assert request.admits(function) and request.numa_policy == DevicePolicy.REQUIRED
    assert not request.admits(replace(function, physical_network="physnet2"))
    assert not request.admits(replace(function, type=DeviceType.PF))
    assert (port_of(request.name), port_of("gpu")) == ("p-1", None)
    record = request.to_dict()
    del record["matches"][0]["physical_network"]
    assert DeviceRequest.from_dict(record).matches == (DeviceMatch(type=DeviceType.VF),)


FULL = {"cell": 1, "path": ["p"], "type": "type-VF", "iommu_group": 1, "memory_node": 8, "trusted": True, "shared": 2}
LISTS = {"nodes", "interfaces", "physical_interfaces", "links", "traits"}


@pytest.mark.parametrize("made", [Device, GivenDevice], ids=lambda made: made.__name__)
def test_a_record_keeps_every_field(made):
    """A new field needs a reader, or it would be lost on its way."""
    names = [each.name for each in fields(made)]
    record = {name: FULL.get(name, ["x"] if name in LISTS else "x") for name in names}
    assert {name: made.from_dict(record).to_dict()[name] for name in names} == record
