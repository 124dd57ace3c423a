# SPDX-License-Identifier: Apache-2.0
"""Devices as part of the one decision: policies, exclusion, the choice among equals."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import pytest

from zun.tests.unit.topology.build import cell, host
from zun.tests.unit.topology.hosts import device_case, proof_size
from zun.topology import (
    CellShare,
    ClaimConflict,
    CpuSet,
    Dimension,
    HostTopology,
    PlacementRequest,
    Plan,
    Refusal,
    Usage,
    plan,
)
from zun.topology.device_request import DeviceMatch, DeviceRequest, GivenDevice
from zun.topology.devices import Device, DeviceType
from zun.topology.host_topology import view_of
from zun.topology.search.devices import DeviceSearch

SIDES = (cell(0, "0 1 2 3"), cell(1, "4 5 6 7"), cell(2, "8 9 10 11"))
ANY = (DeviceMatch(),)


def gpu(address: str, node: int | None = None, **fields) -> Device:
    return Device(f"0000:{address}:00.0", vendor_id="10de", cell=node, **fields)


def vfio(address: str, group: int, **fields) -> Device:
    return gpu(address, 0, iommu_group=group, **{"driver": "vfio-pci", **fields})


def machine(*devices: Device, **fields) -> HostTopology:
    """Cells 0 and 1 on the first socket, cell 2 on the second."""
    return host(*SIDES, devices=devices, sockets=(CpuSet("0-7"), CpuSet("8-11")), **fields)


def asking(
    count: int = 1, policy: str = "preferred", cpus: int = 4, device: Device | None = None, **fields
) -> PlacementRequest:
    """A request for devices of any kind, or of the kind of ``device`` only."""
    matches = ANY if device is None else (DeviceMatch(type=device.type),)
    return PlacementRequest(cpus, 10, devices=(DeviceRequest("gpu", count, matches, numa_policy=policy),), **fields)


def given(answer: Plan | Refusal) -> list[str]:
    assert isinstance(answer, Plan), answer
    return [device.address.split(":")[1] for device in answer.devices]


LOCAL, NEAR, FAR, UNKNOWN = gpu("0a", 0), gpu("0b", 1), gpu("0c", 2), gpu("0d", None)
# Cell 0 only has free CPUs, so a device is local, of the same socket, of another socket, or of an unknown cell.
FULL = Usage().with_claim("others", Plan({side.id: CellShare(side.cpus) for side in SIDES[1:]}))


@pytest.mark.parametrize("policy", ["required", "socket", "preferred", "none"])
@pytest.mark.parametrize(("there", "count", "allowed"), [
    pytest.param((LOCAL,), 1, {"required", "socket", "preferred", "none"}, id="local"),
    pytest.param((NEAR,), 1, {"socket", "preferred", "none"}, id="other-cell-of-the-socket"),
    pytest.param((FAR,), 1, {"preferred", "none"}, id="other-socket"),
    pytest.param((UNKNOWN,), 1, {"preferred", "none"}, id="unknown-cell"),
    pytest.param((), 1, set(), id="no-device"),
    pytest.param((LOCAL, NEAR), 2, {"socket", "preferred", "none"}, id="one-local-one-of-the-socket"),
    pytest.param((LOCAL, FAR), 2, {"preferred", "none"}, id="one-local-one-remote"),
    pytest.param((LOCAL, UNKNOWN), 2, {"preferred", "none"}, id="one-local-one-unknown"),
    pytest.param((LOCAL,), 2, set(), id="too-few"),
])
def test_policy_and_locality(there, count, allowed, policy):
    answer = plan(machine(*there), FULL, asking(count, policy))
    if policy not in allowed:
        assert isinstance(answer, Refusal) and answer.code == "devices"
        return
    assert given(answer) == [device.address.split(":")[1] for device in there]
    assert set(answer.cells) == {0}


def bare(far: int, **fields) -> HostTopology:
    """A host whose node 2 has neither CPUs nor memory. It is 15 away from cell 0, ``far`` from cell 1."""
    rows = ({0: 10, 1: 21, 2: 15}, {0: 21, 1: 10, 2: far}, {0: 15, 1: far, 2: 10})
    cpus = ("0 1 2 3", "4 5 6 7", "")
    cells = (cell(c, cpus[c], 1000 if cpus[c] else 0, distances=rows[c]) for c in range(3))
    return host(*cells, **{"devices": (gpu("0a", 2),), **fields})


@pytest.mark.parametrize("sockets", [(), (CpuSet("0-3"), CpuSet("4-7"))], ids=["no-sockets", "sockets"])
@pytest.mark.parametrize("kind", [
    pytest.param({"cpu_policy": "dedicated"}, id="dedicated"),
    pytest.param({"cpu_policy": "shared"}, id="shared"),
    pytest.param({"cpu_policy": "mixed", "dedicated_cpus": 1}, id="mixed"),
])
@pytest.mark.parametrize(("policy", "far", "full", "expected"), [
    pytest.param("required", 28, "", 0, id="required"),
    pytest.param("socket", 28, "", 0, id="socket"),
    pytest.param("preferred", 28, "", 0, id="preferred"),
    pytest.param("required", 28, "0-3", None, id="required-and-the-nearest-is-full"),
    pytest.param("socket", 28, "0-3", None, id="socket-and-the-nearest-is-full"),
    pytest.param("preferred", 28, "0-3", 1, id="preferred-and-the-nearest-is-full"),
    pytest.param("required", 15, "0-3", 1, id="required-and-both-are-near"),
    pytest.param("socket", 15, "0-3", 1, id="socket-and-both-are-near"),
])
def test_a_device_of_a_node_without_cpus(policy, far, full, expected, kind, sockets):
    topology = bare(far, sockets=sockets)
    usage = Usage().with_claim("others", Plan({0: CellShare(CpuSet(full))}))
    answer = plan(topology, usage, asking(1, policy, 2, **kind))
    if expected is None:
        assert answer.code == "devices"
        assert answer.message.endswith("gpu: free are 1 on node 2, nearest to cell 0")
        return
    assert given(answer) == ["0a"]
    assert set(answer.cells) == {expected}


def test_initiators_tell_where_a_device_is():
    topology = bare(28)
    node = replace(topology.cells[2], initiators=CpuSet((1,)))
    answer = plan(replace(topology, cells=(*topology.cells[:2], node)), Usage(), asking(1, "required", 2))
    assert set(answer.cells) == {1}


@pytest.mark.parametrize(("far", "fits"), [(28, True), (15, False)], ids=["one-cell-is-nearest", "two-are"])
def test_groups_share_the_nearest_cell(far, fits):
    """A device of node 2 and one of cell 0."""
    topology = bare(far, devices=(gpu("0a", 2), Device("0000:0b:00.0", vendor_id="8086", cell=0)))
    asked = tuple(DeviceRequest(vendor, 1, (DeviceMatch(vendor_id=vendor),)) for vendor in ("10de", "8086"))
    answer = plan(topology, Usage(), PlacementRequest(2, 10, devices=asked, device_same="cell"))
    assert isinstance(answer, Plan) == fits


@pytest.mark.parametrize(("policy", "there", "cells"), [
    pytest.param("preferred", (FAR,), {2}, id="container-follows-its-device"),
    pytest.param("required", (NEAR,), {1}, id="required-moves-the-container"),
    pytest.param("socket", (FAR,), {2}, id="socket-moves-the-container"),
    pytest.param("socket", (NEAR,), {1}, id="socket-and-as-near-as-possible"),
    pytest.param("none", (FAR,), {0}, id="none-leaves-the-container-alone"),
    pytest.param("preferred", (UNKNOWN,), {0}, id="unknown-leaves-the-container-alone"),
    pytest.param("preferred", (UNKNOWN, FAR), {2}, id="known-before-unknown"),
    pytest.param("preferred", (LOCAL, NEAR, FAR), {0}, id="lowest-cell-of-equals"),
])
def test_devices_choose_the_cells(policy, there, cells):
    answer = plan(machine(*there), Usage(), asking(1, policy))
    assert isinstance(answer, Plan)
    assert set(answer.cells) == cells


@pytest.mark.parametrize(("policy", "there", "code"), [
    # Nova, [pci] alias numa_policy, a guest with a topology of one cell.
    pytest.param("required", (LOCAL,), None, id="required-local"),
    pytest.param("required", (NEAR,), "devices", id="required-remote"),
    pytest.param("required", (UNKNOWN,), "devices", id="required-unknown"),
    pytest.param("socket", (LOCAL,), None, id="socket-local"),
    pytest.param("socket", (NEAR,), None, id="socket-remote-cell-of-the-socket"),
    pytest.param("socket", (FAR,), "devices", id="socket-remote-socket"),
    pytest.param("socket", (UNKNOWN,), "devices", id="socket-unknown"),
    pytest.param("preferred", (LOCAL,), None, id="preferred-local"),
    pytest.param("preferred", (FAR,), None, id="preferred-remote"),
    pytest.param("preferred", (UNKNOWN,), None, id="preferred-unknown"),
    pytest.param("preferred", (UNKNOWN, LOCAL), None, id="legacy-takes-the-local-one-first"),
])
def test_pci_affinity_as_in_nova(policy, there, code):
    answer = plan(machine(*there), FULL, asking(1, policy))
    assert getattr(answer, "code", None) == code
    if code is None:
        assert given(answer) == [LOCAL.address.split(":")[1] if LOCAL in there else there[0].address.split(":")[1]]


def test_three_cells_of_which_nova_refuses():
    """Free CPUs [6, 2, 1] and parts [1, 5] with a device on cell 1: five CPUs on cell 0, one on cell 1."""
    there = host(cell(0, "0 1 2 3 4 5"), cell(1, "6 7"), cell(2, "8"), devices=(NEAR,))
    request = asking(1, "required", cpus=6, numa_cpus=(1, 5))
    answer = plan(there, Usage(), request)
    assert isinstance(answer, Plan)
    assert {node: len(share.cpus) for node, share in answer.cells.items()} == {0: 5, 1: 1}


def test_without_known_sockets_a_cell_is_a_socket():
    there = host(*SIDES, devices=(NEAR,))
    assert isinstance(plan(there, FULL, asking(1, "socket")), Refusal)


@pytest.mark.parametrize(("there", "held", "expected"), [
    pytest.param((gpu("01", 0), gpu("02", 0)), (), ["01"], id="lowest-address"),
    pytest.param((gpu("01", 0), gpu("02", 0)), ("01",), ["02"], id="not-the-held-one"),
    pytest.param((gpu("01", 0, traits=("FAST",)), gpu("02", 0)), (), ["02"], id="fewer-traits-first"),
    pytest.param((gpu("01", 0, type=DeviceType.PF), gpu("02", 0)), (), ["02"], id="physical-function-last"),
    pytest.param(
        (gpu("01", 0, path=("p", "a", "b", "c")), gpu("02", 0, path=("p", "d", "e", "f")),
         gpu("03", 0, path=("p", "d", "e", "g"))),
        ("03",), ["02"], id="switch-in-use-first",
    ),
    pytest.param(
        (gpu("01", 0, type=DeviceType.PF), gpu("02", 0, physical="0000:01:00.0"), gpu("03", 0)), ("01",), ["03"],
        id="held-physical-function-rules-out-its-virtual",
    ),
    pytest.param(
        (gpu("01", 0, type=DeviceType.PF), gpu("02", 0, physical="0000:01:00.0"), gpu("03", 1)), ("02",), ["03"],
        id="held-virtual-function-rules-out-the-physical",
    ),
    pytest.param(
        (gpu("01", 0, iommu_group=7), gpu("02", 0, iommu_group=7, driver="nvidia"), gpu("03", 1)), ("01",), ["02"],
        id="kernel-drivers-share-an-iommu-group",
    ),
    pytest.param(
        (vfio("01", 7), vfio("02", 7), vfio("03", 8)), ("01",), ["03"], id="vfio-occupies-its-iommu-group"
    ),
    pytest.param(
        (vfio("01", 7, driver="nvgrace-gpu-vfio-pci"), gpu("02", 0, iommu_group=7), gpu("03", 1)), ("01",), ["03"],
        id="vfio-rules-out-kernel-drivers-in-its-group",
    ),
    pytest.param(
        (gpu("01", 0, iommu_group=7, driver="mlx5_core"), vfio("02", 7), vfio("03", 8)), ("01",), ["03"],
        id="kernel-driver-rules-out-vfio-in-its-group",
    ),
    pytest.param(
        (vfio("01", 7, driver="other", nodes=("/dev/vfio/7",)), vfio("02", 7), vfio("03", 8)), ("01",), ["03"],
        id="files-tell-a-vfio-driver-of-another-name",
    ),
    pytest.param((gpu("01", 0), gpu("02", 1)), ("99",), ["01"], id="held-device-that-vanished"),
])
def test_which_device_is_given(there, held, expected):
    claim = Plan({}, devices=tuple(GivenDevice("gpu", f"0000:{each}:00.0") for each in held))
    assert given(plan(machine(*there), Usage().with_claim("other", claim), asking())) == expected


PF = gpu("01", 0, type=DeviceType.PF)
VFS = tuple(gpu(each, 0, type=DeviceType.VF, physical=PF.address) for each in ("02", "03"))
WHOLE = gpu("01", 0)
PARTS = tuple(gpu(each, 0, type=DeviceType.PART, physical=WHOLE.address) for each in ("02", "03"))
TWO = tuple(vfio(each, 7) for each in ("04", "05"))
OTHER = vfio("06", 8)


@pytest.mark.parametrize(("before", "holds", "now", "free"), [
    pytest.param((PF,), "01", (PF, *VFS), [], id="virtual-functions-appear"),
    pytest.param((PF,), "01", VFS, [], id="physical-function-gone-and-virtual-ones-appear"),
    pytest.param((PF, *VFS), "02", (PF,), [], id="held-virtual-function-vanishes"),
    pytest.param((PF, *VFS), "02", (PF, VFS[1]), ["03"], id="virtual-neighbour-of-a-vanished-one-is-free"),
    pytest.param((PF, *VFS), "01", VFS, [], id="held-physical-function-is-not-offered-any-more"),
    pytest.param((WHOLE,), "01", (WHOLE, *PARTS), [], id="gpu-is-divided"),
    pytest.param((WHOLE, *PARTS), "01", PARTS, [], id="held-gpu-is-not-offered-any-more"),
    pytest.param((WHOLE, *PARTS), "02", (WHOLE,), [], id="held-part-vanishes"),
    pytest.param((WHOLE, *PARTS), "02", (WHOLE, *PARTS), ["03"], id="part-made-again-stays-with-its-holder"),
    pytest.param((WHOLE, *PARTS[:1]), "02", (WHOLE, PARTS[1]), ["03"], id="new-parts-beside-a-vanished-one"),
    pytest.param(TWO, "04", (TWO[1], OTHER), ["06"], id="held-device-of-a-group-vanishes"),
    pytest.param(TWO[:1], "04", (*TWO, OTHER), ["06"], id="group-gets-a-device"),
    pytest.param(TWO[:1], "04", (TWO[1], OTHER), ["06"], id="group-has-another-device"),
    pytest.param(
        TWO, "04", (replace(TWO[0], iommu_group=8), TWO[1], OTHER), ["05"], id="groups-have-other-numbers-now"
    ),
])
def test_held_device_while_the_inventory_changes(before, holds, now, free):
    (device,) = [each for each in before if each.address == f"0000:{holds}:00.0"]
    claim = plan(machine(*before), Usage(), asking(device=device))
    assert given(claim) == [holds]
    usage = Usage().with_claim("other", Plan.from_dict(claim.to_dict()))
    there = machine(*now)
    assert [each.address.split(":")[1] for each in usage.free_devices(there)] == free
    for each in now:
        proposed = Plan({}, devices=(GivenDevice("gpu", each.address),))
        assert (usage.fits(there, proposed) is None) == (each.address.split(":")[1] in free)
    asked = asking(device=next((each for each in now if each.address.split(":")[1] in free), None))
    answer = plan(there, usage, asked)
    assert given(answer) == free[:1] if free else isinstance(answer, Refusal)
    assert usage.totals != Usage().with_claim("other", Plan({}, devices=(GivenDevice("gpu", "?"),))).totals


def whole_and_parts(*held: str) -> tuple[HostTopology, Usage]:
    """A GPU with two parts, all of one class, and the devices that others hold, by their numbers."""
    topology = machine(*(replace(each, resource_class="CUSTOM_GPU") for each in (WHOLE, *PARTS)))
    claim = Plan({}, devices=tuple(GivenDevice.of("x", topology.devices[int(number) - 1]) for number in held))
    return topology, Usage().with_claim("other", claim)


@pytest.mark.parametrize(("held", "count", "expected"), [
    ((), 1, ["02"]),
    ((), 2, ["02", "03"]),
    (("2",), 1, ["03"]),
    (
        (), 3, "the free devices cannot serve all requests at once, for 3 in all, and some cannot be in one container: "
        "gpu: free are 3 on cell 0",
    ),
    (
        ("2",), 2, "1 of 3 devices gpu are free: 2 are wanted; device 0000:01:00.0 is given in parts, and 0000:02:00.0 "
        "is held",
    ),
    (
        ("1",), 1, "0 of 3 devices gpu are free: 1 are wanted; device 0000:02:00.0 is a part of 0000:01:00.0, which is "
        "held; so are 1 more",
    ),
])
def test_whole_and_parts_are_never_given_together(held, count, expected):
    topology, usage = whole_and_parts(*held)
    request = DeviceRequest("gpu", count, (DeviceMatch(resource_class="CUSTOM_GPU"),))
    answer = plan(topology, usage, PlacementRequest(4, 10, devices=(request,)))
    assert (answer.message if isinstance(expected, str) else given(answer)) == expected


@pytest.mark.parametrize(("held", "asked", "problem"), [
    ("1", "2", "device 0000:02:00.0 is a part of 0000:01:00.0, which is held"),
    ("2", "1", "device 0000:01:00.0 is given in parts, and 0000:02:00.0 is held"),
    ("2", "2", "device 0000:02:00.0 is taken"),
    ("2", "3", None),
])
def test_plan_for_whole_or_part_while_the_other_is_held(held, asked, problem):
    topology, usage = whole_and_parts(held)
    refusal = usage.fits(topology, Plan({}, devices=(GivenDevice.of("x", topology.devices[int(asked) - 1]),)))
    assert (refusal and refusal.message) == problem


def test_one_container_may_have_a_whole_group():
    assert given(plan(machine(*TWO, OTHER), Usage(), asking(2))) == ["04", "05"]


@pytest.mark.parametrize(("there", "expected"), [
    pytest.param((gpu("01", 0, iommu_group=7), vfio("02", 7), gpu("03", 1)), ["01", "03"], id="a-farther-one-instead"),
    pytest.param((vfio("01", 7), gpu("02", 1, iommu_group=7), vfio("03", 8)), ["01", "03"], id="another-group"),
    pytest.param((vfio("01", 7), gpu("02", 0, iommu_group=7), gpu("03", 0, iommu_group=7)), ["02", "03"], id="natives"),
    pytest.param((gpu("01", 0, iommu_group=7), vfio("02", 7), vfio("03", 7)), ["02", "03"], id="vfio-alone"),
    pytest.param(
        (gpu("01", 0, iommu_group=7, nodes=("/dev/vfio/7",)), gpu("02", 0, iommu_group=7)), [], id="told-by-its-file"
    ),
    pytest.param((gpu("01", 0, iommu_group=7), vfio("02", 7)), [], id="no-others"),
])
def test_kernel_s_and_vfio_devices_of_a_group_are_apart(there, expected):
    """A program cannot open its device of VFIO while the kernel drives another one of the group."""
    answer = plan(machine(*there), Usage(), asking(2))
    if expected:
        assert given(answer) == expected
    else:
        assert isinstance(answer, Refusal)
        assert "some cannot be in one container" in answer.message
    both = Plan({}, devices=tuple(GivenDevice("gpu", each.address) for each in there[:2]))
    assert getattr(Usage().fits(machine(*there), both), "code", None) == "devices-taken"


@pytest.mark.parametrize("policy", ["required", "socket", "preferred", "none"])
@pytest.mark.parametrize("kind", [DeviceType.PCI, DeviceType.PF, DeviceType.VF])
@pytest.mark.parametrize(("node", "allowed"), [
    pytest.param(0, {"required", "socket", "preferred", "none"}, id="local"),
    pytest.param(1, {"socket", "preferred", "none"}, id="same-socket"),
    pytest.param(2, {"preferred", "none"}, id="other-socket"),
    pytest.param(None, {"preferred", "none"}, id="unknown"),
])
def test_kind_of_device_and_policy(node, allowed, kind, policy):
    """Nova's table: an alias of each ``device_type``, each policy, each place of the device."""
    others = [gpu(f"1{number}", 0, type=each) for number, each in enumerate(DeviceType) if each != kind]
    wanted = DeviceRequest("gpu", 1, (DeviceMatch(type=kind),), numa_policy=policy)
    answer = plan(machine(gpu("01", node, type=kind), *others), FULL, PlacementRequest(4, 10, devices=(wanted,)))
    assert (given(answer) if policy in allowed else getattr(answer, "code", None)) == (
        ["01"] if policy in allowed else "devices"
    )


def test_a_container_never_gets_both_kinds_of_function():
    card = (gpu("01", 0, type=DeviceType.PF), gpu("02", 0, physical="0000:01:00.0"))
    answer = plan(machine(*card, gpu("03", 0, physical="0000:01:00.0")), Usage(), asking(2))
    assert given(answer) == ["02", "03"]
    assert isinstance(plan(machine(*card), Usage(), asking(2)), Refusal)


def test_requests_that_compete_for_devices():
    """The first request could have any device, but leaves the only one that serves the second."""
    fast = gpu("01", 0, traits=("FAST",))
    any_, quick = DeviceRequest("any", 1, ANY), DeviceRequest("quick", 1, ANY, traits=("FAST",))
    answer = plan(machine(fast, gpu("02", 1)), Usage(), PlacementRequest(1, 1, devices=(any_, quick)))
    assert isinstance(answer, Plan)
    assert [(each.name, each.address) for each in answer.devices] == [("any", "0000:02:00.0"), ("quick", fast.address)]


def test_every_cell_of_the_devices_gives_a_cpu():
    """Over any cells: two cells are needed for the devices alone, so both give CPUs."""
    request = asking(2, "required", numa_affinity="none")
    answer = plan(machine(LOCAL, FAR), Usage(), request)
    assert isinstance(answer, Plan)
    assert {node: len(share.cpus) for node, share in answer.cells.items()} == {0: 3, 2: 1}


GPU, NIC, THIRD = (
    DeviceRequest(name, 1, (DeviceMatch(vendor),)) for name, vendor in (("gpu", "10de"), ("nic", "15b3"), ("x", "8086"))
)


def behind(switch: str) -> dict[str, tuple[str, ...]]:
    return {"path": ("pci0000:80", "0000:80:01.0", f"0000:8{switch}:00.0", f"0000:8{switch}:01.0")}


def nic(address: str, node: int | None = None, **fields) -> Device:
    return replace(gpu(address, node, **fields), vendor_id="15b3")


@pytest.mark.parametrize(("same", "there", "counts", "expected"), [
    pytest.param("none", (gpu("01", 0), nic("02", 0), nic("03", 0, **behind("1"))), (1, 1), ["01", "02"], id="none"),
    pytest.param(
        "switch", (gpu("01", 0, **behind("1")), nic("02", 0), nic("03", 0, **behind("1"))), (1, 1), ["01", "03"],
        id="unknown-switch-does-not-serve",
    ),
    pytest.param("switch", (gpu("01", 0), nic("02", 0)), (1, 1), None, id="two-unknown-switches-differ"),
    pytest.param("cell", (gpu("01", 0), nic("02", 1), nic("03", 0)), (1, 1), ["01", "03"], id="cell"),
    pytest.param("cell", (gpu("01"), nic("02")), (1, 1), None, id="two-unknown-cells-differ"),
    pytest.param(
        "cell", (gpu("01", 0), gpu("02", 1), nic("03", 1), nic("04", 1)), (1, 2), ["02", "03", "04"],
        id="request-with-fewer-is-in-the-first-group",
    ),
    pytest.param("cell", (gpu("01", 0), gpu("02", 1), nic("03", 1), nic("04", 1)), (2, 2), None, id="two-groups"),
    pytest.param(
        "cell", (gpu("01", 0), gpu("02"), nic("03", 0)), (2, 1), ["01", "02", "03"], id="group-of-one-is-anywhere"
    ),
    pytest.param("host", (gpu("01", 0), nic("02", 1)), (1, 1), ["01", "02"], id="host-adds-nothing"),
])
def test_groups_share_a_place(same, there, counts, expected):
    requests = tuple(replace(each, count=count) for each, count in zip((GPU, NIC), counts, strict=True))
    answer = plan(machine(*there), Usage(), PlacementRequest(1, 1, devices=requests, device_same=same))
    if expected is None:
        assert isinstance(answer, Refusal) and answer.code == "devices"
    else:
        assert given(answer) == expected


@pytest.mark.parametrize("same", ["switch", "cell"])
@pytest.mark.parametrize("counts", [(2, 2), (3, 1), (1, 1, 1), (2, 1, 1)])
def test_quick_groups_equal_matchings(counts, same):
    """More devices than brute force can try: ranking and remembered places choose what matchings choose."""
    for seed in range(proof_size(40)):
        rng = random.Random(seed)
        distances = [[10 if a == b else 10 + rng.randrange(1, 4) for b in range(6)] for a in range(6)]
        cells = [cell(c, f"{2 * c} {2 * c + 1}", distances=dict(enumerate(distances[c]))) for c in range(6)]
        devices = tuple(
            Device(
                f"0000:{number:02x}:00.0", vendor_id=rng.choice(("10de", "15b3", "8086")[: len(counts)]),
                cell=rng.randrange(6), traits=tuple(rng.sample(("FAST", "LARGE"), rng.randrange(3))),
                path=("p", "q", rng.choice("abcde"), str(number)),
            )
            for number in range(24)
        )
        there = host(*cells, devices=devices)
        wanted = [replace(each, count=n) for each, n in zip((GPU, NIC, THIRD), counts, strict=False)]
        quick, slow = (
            DeviceSearch(there.device_view, view_of(there), frozenset(), wanted, same) for _ in range(2)
        )
        assert quick.apart
        slow.apart, slow._quick, slow._deciding = False, None, -1
        for mask in (*(1 << c for c in range(6)), 0b101, 0b11010, 0b111111):
            assert quick.cost(mask) == slow.cost(mask), seed
            if quick.cost(mask) is not None:
                assert quick.given(mask) == slow.given(mask), seed


def searches(sames: Sequence[str]) -> Iterator[tuple[int, DeviceSearch, DeviceSearch]]:
    """Yield seeds with two searches for the devices of the same random request."""
    for seed in range(proof_size(300)):
        topology, usage, request = device_case(random.Random(seed), sames=sames)
        if any(each.count for each in request.devices):
            arguments = topology.device_view, view_of(topology), usage.held_devices, request.devices
            yield seed, *[DeviceSearch(*arguments, request.device_same) for _ in range(2)]


@pytest.mark.parametrize("sames", [("none",), ("link",), ("switch", "cell")])
def test_costs_are_remembered_by_what_decides_them(sames):
    for seed, search, slow in searches(sames):
        slow._quick, slow._deciding = None, -1
        masks = range(1, 1 << len(search.view.cells))
        assert [search.cost(mask) for mask in masks] == [slow.cost(mask) for mask in masks], seed


@pytest.mark.parametrize("sames", [("none",), ("link",), ("switch", "cell")])
def test_cells_with_devices_have_the_supplies(sames):
    ruled_out = 0
    for seed, search, _ in searches(sames):
        cells = search.view.cells
        _, supplies = search.useful(cells)
        for mask in range(1, 1 << len(cells)):
            lacking = any(
                sum(amount for p, amount in enumerate(supply.amounts) if mask >> p & 1) < supply.wanted
                for supply in supplies
            )
            ruled_out += lacking
            assert not lacking or search.cost(mask) is None, seed
    assert ruled_out


def asked(request: PlacementRequest) -> tuple[object, ...]:
    return *((each.count, each.numa_policy) for each in request.devices), request.device_same


@pytest.mark.parametrize(("there", "request_", "words", "changes"), [
    pytest.param(
        (LOCAL,), asking(2), "1 of 1 devices gpu are free: 2 are wanted",
        {"devices": ((1, "preferred"), "none")}, id="too-few",
    ),
    pytest.param((), asking(1), "0 of 0 devices gpu are free: 1 are wanted", {"devices": ("none",)}, id="none"),
    pytest.param(
        (NEAR, UNKNOWN), asking(1, "required"),
        "policy required rules out free devices for every place of the container: "
        "gpu: 2 free, 1 on cell 1, 1 on no known cell",
        {"device-policy": ((1, "socket"), "none"), "devices": ("none",)}, id="policy",
    ),
    pytest.param(
        (FAR,), asking(1, "required"),
        "policy required rules out free devices for every place of the container: gpu: free are 1 on cell 2",
        {"device-policy": ((1, "preferred"), "none"), "devices": ("none",)}, id="policy-two-steps",
    ),
    pytest.param(
        (LOCAL, nic("11", 0, **behind("1"))), PlacementRequest(4, 10, devices=(GPU, NIC), device_same="switch"),
        "the free devices do not share a switch as device_same wants, where CPUs and memory are free: "
        "gpu: free are 1 on cell 0; nic: free are 1 on cell 0",
        {"device-same": ((1, "preferred"), (1, "preferred"), "cell"), "devices": ((1, "preferred"), "switch")},
        id="same",
    ),
    pytest.param(
        (LOCAL, FAR), PlacementRequest(4, 10, devices=(replace(GPU, count=2), replace(GPU, name="other"))),
        "the free devices cannot serve all requests at once, for 3 in all: "
        "gpu: 2 free, 1 on cell 0, 1 on cell 2; other: 2 free, 1 on cell 0, 1 on cell 2",
        {"devices": ((2, "preferred"), "none")}, id="requests-for-the-same-devices",
    ),
])
def test_refusal_of_devices(there, request_, words, changes):
    refusal = plan(machine(*there), FULL, request_)
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.message) == ("devices", words)
    found = {str(each.dimension): asked(each.request) for each in refusal.changes}
    assert {name: each for name, each in found.items() if name.startswith("device")} == changes
    assert refusal.nearest is not None and asked(refusal.nearest) in changes.values()


def test_cpus_come_first_in_a_refusal():
    refusal = plan(machine(LOCAL), FULL, asking(2, cpus=5))
    assert isinstance(refusal, Refusal) and refusal.code == "cpus"


def test_stated_changes_of_devices_are_smallest():
    """Over random refusals: the changed request fits, and no request for more devices or fewer steps does."""
    seen: Counter[str] = Counter()
    order = ["required", "socket", "preferred", "none"]
    for seed in range(proof_size(200)):
        topology, usage, request = device_case(random.Random(seed), sames=("none", "link", "switch", "cell"))
        refusal = plan(topology, usage, request)
        if not isinstance(refusal, Refusal) or refusal.code != "devices":
            continue
        stated = {change.dimension: change.request for change in refusal.changes}
        assert all(isinstance(plan(topology, usage, each), Plan) for each in stated.values()), seed
        assert "devices" in stated, seed
        total = sum(each.count for each in stated[Dimension.DEVICES].devices)
        for counts in product(*[range(each.count + 1) for each in request.devices]):
            if sum(counts) > total:
                fewer = zip(request.devices, counts, strict=True)
                other = replace(request, devices=tuple(replace(each, count=count) for each, count in fewer))
                assert isinstance(plan(topology, usage, other), Refusal), seed
        steps = [order.index(each.numa_policy) for each in request.devices]
        weaker = stated.get(Dimension.DEVICE_POLICY)
        most = 99 if weaker is None else sum(order.index(each.numa_policy) for each in weaker.devices)
        for levels in product(*[range(step, 4) for step in steps]):
            if sum(levels) < most:
                policies = zip(request.devices, levels, strict=True)
                other = replace(
                    request, devices=tuple(replace(each, numa_policy=order[level]) for each, level in policies)
                )
                assert isinstance(plan(topology, usage, other), Refusal), seed
        seen.update(map(str, stated))
    assert proof_size(200) < 200 or seen.keys() >= {"devices", "device-policy", "device-same"}, seen


@pytest.mark.parametrize(("devices", "code"), [
    ((LOCAL,), None),
    ((), "devices-gone"),
    ((replace(LOCAL, iommu_group=1), replace(NEAR, iommu_group=1)), None),
    ((replace(LOCAL, iommu_group=1), replace(NEAR, iommu_group=1, driver="vfio-pci")), "devices-taken"),
    ((LOCAL, replace(NEAR, physical=LOCAL.address)), "devices-taken"),
])
def test_a_plan_fits_as_long_as_its_devices_are_free(devices, code):
    planned = plan(machine(LOCAL), Usage(), asking())
    other = Usage().with_claim("other", Plan({}, devices=(GivenDevice("gpu", NEAR.address),)))
    assert isinstance(planned, Plan)
    assert getattr(other.fits(machine(*devices), planned), "code", None) == code


def test_a_device_is_held_until_every_claim_on_it_is_gone():
    one, two = (Plan({}, devices=(GivenDevice("gpu", LOCAL.address),)) for _ in range(2))
    usage = Usage().with_claim("a", one)
    with pytest.raises(ClaimConflict) as conflict:
        usage.with_claim("b", two)
    assert (conflict.value.owner, conflict.value.devices) == ("a", {LOCAL.address})
    assert usage.device_owner(LOCAL.address) == "a"
    assert usage.device_owner(NEAR.address) is None
    assert usage.free_devices(machine(LOCAL, NEAR)) == (NEAR,)
    both = Usage({"a": one, "b": two}, overlapping=True)
    assert both.without("a").device_owner(LOCAL.address) == "b"
    assert pickle.loads(pickle.dumps(both)) == both
    assert usage.without("a").totals == Usage().totals != usage.totals
