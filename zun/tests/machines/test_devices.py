# SPDX-License-Identifier: Apache-2.0
"""PCI devices of the layout 4pci: found where QEMU put them, given to containers near them, and given back.

Bus 20 (node 1): an NVMe card 21:00.0 with the virtual functions 21:00.1 and .2. Bus 40 (node 2): a switch, behind it
the NVMe disk 43:00.0 and the teaching device 44:00.0. Bus 60 (node 3): the network card 61:00.0, the NVMe disk 62:00.0,
the teaching device 63:00.0 and, if QEMU has it, the network card 64:00.0 with the virtual functions 64:10.0 and .2. Bus
80 (node 4, without CPUs): the NVMe disk 81:00.0. Bus c0 (node 2), if QEMU has it: the CXL memory c1:00.0. Each disk
begins with its name in tools/numavm.sh.
"""

import os
import pathlib

import pytest

from zun.tests.fixtures import wait_for
from zun.tests.machines import kernel
from zun.tests.machines.cards import (
    CXL,
    EDU,
    FAR,
    FAR_DISK,
    IGB,
    IGB_VF1,
    IGB_VF2,
    NEWER,
    NIC,
    NODES,
    PF,
    SWITCH,
    SWITCHED_DISK,
    SWITCHED_EDU,
    VF1,
    VF2,
    WORDS,
    clock_of,
    disk_of,
    files_of,
    group_of,
    interface_of,
)
from zun.tests.machines.containers import PATIENCE, Containers, SlowApi
from zun.topology.device_files import discover_files
from zun.topology.devices import DeviceType

VERSION = {"OpenStack-API-Version": "container 1.45"}
needs_igb = pytest.mark.skipif(IGB not in NEWER, reason="this QEMU has no igb; QEMU 8.0 and later have")
needs_cxl = pytest.mark.skipif(CXL not in NEWER, reason="this QEMU has no memory of CXL; QEMU 8.1 and later have")
EDU_IDENTITY = 0x010000ED
"""First register of the teaching device (QEMU, docs/specs/edu.rst)."""


@pytest.fixture
def near(allinone, api, engine):
    """Containers, asked for by the microversion that knows devices."""
    return Near(SlowApi(allinone.api.url, version=VERSION), engine)


class Near(Containers):
    def with_device(self, *names, cpu=1, policy="required", **fields):
        """A dedicated container with one device of each name, which the audit finds in order."""
        devices = [{"alias": name} for name in names]
        placed = self.dedicated(cpu, memory=64, devices=devices, device_numa_policy=policy, **fields)
        assert self.findings(placed.uuid) == []
        return placed

    def given(self, uuid):
        """The addresses of its devices."""
        entries = self.api.get(f"/containers/{uuid}")["devices"]
        return [device["address"] for entry in entries for device in entry["given"]]

    def findings(self, uuid):
        answer = self.api.request("POST", f"/hosts/{self.topology()['host']}/audit", json={})
        assert answer.status_code == 200, answer.text
        return [each for each in answer.json()["findings"] if each["container"] == uuid]

    def configured(self, uuid):
        """The files that Docker gives to it."""
        devices = self._engine.inspect_container(f"zun-{uuid}")["HostConfig"]["Devices"] or ()
        return sorted(each["PathOnHost"] for each in devices)

    def inside(self, uuid, *words):
        """Run ``words`` in it as a command; return the exit code and what it printed."""
        made = self._engine.exec_create(f"zun-{uuid}", list(words))
        said = self._engine.exec_start(made["Id"]).decode(errors="replace").strip()
        return self._engine.exec_inspect(made["Id"])["ExitCode"], said

    def first_word(self, uuid, path):
        return self.inside(uuid, "head", "-n", "1", path)


def test_devices_are_where_hwloc_sees_them(machine, record_property):
    seen = kernel.lstopo()
    found = {device.address: device for device in machine.devices}
    assert set(found) <= set(seen)
    for address, device in found.items():
        node = None if device.cell == FAR else device.cell  # hwloc places devices by CPUs
        assert (node, device.path[1:]) == (seen[address].node, seen[address].bridges), address
    assert {address: found[address].cell for address in NODES} == dict(NODES)
    assert {address for address, device in found.items() if device.cell is not None} == set(NODES)
    record_property("cell by device", {address[5:]: device.cell for address, device in found.items()})


def test_devices_are_what_lspci_says(machine):
    seen = kernel.lspci()
    found = {device.address: device for device in machine.devices}
    assert set(found) <= set(seen)
    for address, device in found.items():
        told = seen[address]
        assert f"[{device.class_id[:4]}]" in told["Class"]
        assert f"[{device.vendor_id}]" in told["Vendor"] and f"[{device.product_id}]" in told["Device"]
        assert (device.driver, str(device.iommu_group)) == (told.get("Driver"), told.get("IOMMUGroup", "None"))
        assert device.cell == (int(told["NUMANode"]) if "NUMANode" in told else None)


def test_what_the_host_uses_is_said(machine):
    used = {each.address: each.in_use for each in machine.devices if each.vendor_id and each.in_use}
    by_words = {words: address for address, words in used.items()}
    assert set(by_words) == {"its interface eth0 has the default route", "/dev/vda is mounted at /"}
    folder = pathlib.Path("/sys/class/net/eth0/device").resolve()
    assert by_words["its interface eth0 has the default route"] == folder.parent.name
    folder = pathlib.Path("/sys/block/vda/device").resolve()
    assert by_words["/dev/vda is mounted at /"] == folder.parent.name


def test_node_without_cpus_is_where_hmat_says(machine, record_property):
    """The table of distances says node 2, HMAT node 3. The kernel and hwloc believe HMAT."""
    cell = machine.cell(FAR)
    (near,) = kernel.initiators(FAR)
    assert near == 3 and min((2, 3), key=lambda node: cell.distances[node]) == 2
    homes = [each.id for each in machine.cells if set(each.cpus) == kernel.hwloc_homes()[FAR]]
    assert (not cell.cpus, list(machine.device_view.homes[FAR]), homes) == (True, [near], [near])
    blocks = kernel.lsmem_mib()
    assert blocks[FAR] == 512 and blocks[FAR] - 16 <= cell.memory_mib <= blocks[FAR]
    record_property("memory of node 4, nearest", f"{cell.memory_mib} MiB, node {near}")


def test_functions_switches_and_files(machine, record_property):
    found = {device.address: device for device in machine.devices}
    cards = {PF: [VF1, VF2], **({IGB: [IGB_VF1, IGB_VF2]} if IGB in NEWER else {})}
    virtual = {DeviceType.PF: [*cards], DeviceType.VF: [each for functions in cards.values() for each in functions]}
    for kind, addresses in virtual.items():
        assert [each.address for each in machine.devices if each.type is kind] == addresses
    for card, functions in cards.items():
        assert [found[each].physical for each in functions] == [card, card]
    assert {each.address for each in machine.devices if each.switch} == {SWITCHED_DISK, SWITCHED_EDU}
    assert found[SWITCHED_DISK].switch == found[SWITCHED_EDU].switch == SWITCH
    for address in WORDS:
        assert list(found[address].nodes) == files_of(address)
    assert found[PF].nodes == (f"/dev/{kernel.nvme_controller(PF)}",)  # all three reach its disk
    assert any(note.startswith("/dev/nvme") and "belongs to none of them" in note for note in machine.notes)
    groups = {address: group_of(address) for address in NODES}
    assert {address: str(found[address].iommu_group) for address in NODES} == groups
    assert found[SWITCHED_EDU].nodes == (f"/dev/vfio/{groups[SWITCHED_EDU]}",)
    assert (found[NIC].interfaces, found[NIC].nodes, found[EDU].nodes) == (("eth1",), (clock_of(NIC),), ())
    if IGB in NEWER:
        seen = {each: tuple(os.listdir(f"/sys/bus/pci/devices/{each}/net")) for each in (IGB, IGB_VF1, IGB_VF2)}
        assert {each: found[each].interfaces for each in seen} == seen and set(map(len, seen.values())) == {1}
        assert [found[each].nodes for each in seen] == [(clock_of(IGB),), (), ()]
    record_property("files", {address[5:]: " ".join(found[address].nodes) for address in NODES})
    record_property("IOMMU groups", {address[5:]: group for address, group in groups.items()})


def test_a_file_has_the_cell_of_its_device(machine):
    found = {device.address: device.cell for device in discover_files("/", machine.devices)}
    assert {address: {found[file] for file in files_of(address)} for address in WORDS} == {
        address: {NODES[address]} for address in WORDS
    }


def test_each_container_has_its_own_function(near, allinone, nodes_of, record_property):
    """Two containers with a virtual function each; a third is refused, and still after the agent was killed.

    One reads its own disk and may not open the other's. The function that is given back goes to the next who asks.
    """
    placed = [near.with_device("vf") for _ in range(2)]
    given = [near.given(each.uuid) for each in placed]
    assert given == [[VF1], [VF2]]
    for each, address in zip(placed, (VF1, VF2), strict=True):
        assert (list(each.mems), set(nodes_of(each.cpus))) == ([NODES[address]], {NODES[address]})
        assert near.configured(each.uuid) == files_of(address)
        assert near.first_word(each.uuid, disk_of(address)) == (0, WORDS[address])
        assert f"ZUN_DEVICES=vf={address}" in near.inside(each.uuid, "env")[1]
        record_property(f"{address}: CPUs, node, files", f"{each.cpus}, {each.mems}, {' '.join(files_of(address))}")
    top = pathlib.Path(f"/proc/{placed[0].pid}/root")
    kernel.make_node(top / "own", disk_of(VF1))
    kernel.make_node(top / "other", disk_of(VF2))
    assert near.first_word(placed[0].uuid, "/own") == (0, WORDS[VF1])
    code, said = near.first_word(placed[0].uuid, "/other")
    assert code != 0 and "Operation not permitted" in said
    record_property("the other's disk, its file made in the container", said)
    allinone.kill()
    seconds = allinone.start()
    assert [near.given(each.uuid) for each in placed] == given
    reason = near.refusal(1, memory=64, devices=[{"alias": "vf"}])
    assert "0 of 2 devices vf are free" in reason
    assert [near.look(each.uuid) for each in placed] == placed
    assert [near.findings(each.uuid) for each in placed] == [[], []]
    near.delete(placed[0].uuid)
    assert near.given(near.with_device("vf").uuid) == [VF1]
    record_property("ready again after kill -9", f"{seconds:.1f} s")
    record_property("reason of a third", reason)


def test_card_and_functions_exclude_each_other(near, record_property):
    virtual = near.with_device("vf")
    reason = near.refusal(1, memory=64, devices=[{"alias": "pf"}])
    assert "0 of 1 devices pf are free" in reason
    near.delete(virtual.uuid)
    whole = near.with_device("pf")
    assert near.given(whole.uuid) == [PF]
    assert "0 of 2 devices vf are free" in near.refusal(1, memory=64, devices=[{"alias": "vf"}])
    record_property("reason", reason)


def test_required_refuses_when_the_cell_is_full(near, machine, nodes_of, record_property):
    """With node 1 full its free function goes to nobody who must be near, and to one who would like to be."""
    filling = near.with_device("vf", cpu=len(machine.cell(1).cpus))
    assert set(nodes_of(filling.cpus)) == {1}
    reason = near.refusal(1, memory=64, devices=[{"alias": "vf"}], device_numa_policy="required")
    beside = near.with_device("vf", policy="preferred")
    assert set(nodes_of(beside.cpus)) == {0}  # as near as can be
    record_property("reason", reason)


_READ_REGISTER = """
import fcntl, os, struct, sys
group_file, address = sys.argv[1:]
SET_IOMMU, GROUP_SET_CONTAINER, GROUP_GET_DEVICE = 0x3B66, 0x3B68, 0x3B6A
container, group = os.open("/dev/vfio/vfio", os.O_RDWR), os.open(group_file, os.O_RDWR)
fcntl.ioctl(group, GROUP_SET_CONTAINER, struct.pack("i", container))
fcntl.ioctl(container, SET_IOMMU, 1)
device = fcntl.ioctl(group, GROUP_GET_DEVICE, bytearray(address.encode() + b"\\0"))
config = 7 << 40  # the offset of a device's own configuration space; region 0 is at 0
os.pwrite(device, struct.pack("<H", 2), config + 4)  # answer to reads of its memory
print(hex(struct.unpack("<I", os.pread(device, 4, 0))[0]))
"""


def test_disk_and_device_behind_one_switch(near, nodes_of, record_property):
    """The container's own program drives one of them through the IOMMU (VFIO): it reads a register."""
    placed = near.with_device("disk", "edu-vfio", device_same="switch")
    assert near.given(placed.uuid) == [SWITCHED_DISK, SWITCHED_EDU]
    assert set(nodes_of(placed.cpus)) == {2}
    vfio = f"/dev/vfio/{group_of(SWITCHED_EDU)}"
    assert near.configured(placed.uuid) == sorted([*files_of(SWITCHED_DISK), vfio, "/dev/vfio/vfio"])
    assert near.first_word(placed.uuid, disk_of(SWITCHED_DISK)) == (0, WORDS[SWITCHED_DISK])
    code, said = near.inside(placed.uuid, "python3", "-c", _READ_REGISTER, vfio, SWITCHED_EDU)
    assert (code, said) == (0, hex(EDU_IDENTITY))
    record_property("files; register 0", f"{' '.join(near.configured(placed.uuid))}; {said}")


def test_a_device_without_a_driver_is_refused(near, record_property):
    reason = near.refusal(1, memory=64, devices=[{"alias": "edu"}])
    assert f"device {EDU}: without a driver it has no file under /dev" in reason
    record_property("reason", reason)


def test_a_card_moves_into_the_container_and_back(near, nodes_of, record_property):
    here = pathlib.Path("/sys/class/net/eth1")
    mac = (here / "address").read_text().strip()
    placed = near.with_device("nic")
    assert set(nodes_of(placed.cpus)) == {3}
    wait_for(lambda: not here.exists(), PATIENCE)
    assert near.inside(placed.uuid, "cat", "/sys/class/net/eth1/address") == (0, mac)
    assert near.findings(placed.uuid) == []
    near.delete(placed.uuid)
    wait_for(here.exists, PATIENCE)
    assert (here / "address").read_text().strip() == mac
    record_property("interface; its address", f"eth1; {mac}")


def test_disk_of_a_node_without_cpus(near, nodes_of, record_property):
    placed = near.with_device("far")
    assert near.given(placed.uuid) == [FAR_DISK]
    assert set(nodes_of(placed.cpus)) == kernel.initiators(FAR)
    assert near.configured(placed.uuid) == files_of(FAR_DISK)
    assert near.first_word(placed.uuid, disk_of(FAR_DISK)) == (0, WORDS[FAR_DISK])
    record_property("CPUs; memory nodes", f"{placed.cpus}; {placed.mems}")


@needs_igb
def test_functions_of_a_network_card(near, nodes_of, record_property):
    """Each container has the interface of one function. Card and functions exclude each other.

    The next container has the interface although the kernel takes it back from the one before only after its end.
    """
    names = {address: interface_of(address) for address in (IGB, IGB_VF1, IGB_VF2)}
    files = {address: pathlib.Path(f"/sys/class/net/{name}/address") for address, name in names.items()}
    macs = {address: file.read_text().strip() for address, file in files.items()}
    placed = [near.with_device("igb-vf") for _ in range(2)]
    assert [near.given(each.uuid) for each in placed] == [[IGB_VF1], [IGB_VF2]]
    for each, address in zip(placed, (IGB_VF1, IGB_VF2), strict=True):
        assert set(nodes_of(each.cpus)) == {3}
        assert near.configured(each.uuid) == []
        assert near.inside(each.uuid, "cat", f"/sys/class/net/{names[address]}/address") == (0, macs[address])
        assert not pathlib.Path("/sys/class/net", names[address]).exists()
    assert "0 of 1 devices igb are free" in near.refusal(1, memory=64, devices=[{"alias": "igb"}])
    for address in (IGB_VF1, IGB_VF2):
        near.delete(placed.pop(0).uuid)
        placed.append(near.with_device("igb-vf"))
        assert near.given(placed[-1].uuid) == [address]
        assert near.inside(placed[-1].uuid, "cat", f"/sys/class/net/{names[address]}/address") == (0, macs[address])
    for each in placed:
        near.delete(each.uuid)
    whole = near.with_device("igb")
    assert near.inside(whole.uuid, "cat", f"/sys/class/net/{names[IGB]}/address") == (0, macs[IGB])
    assert near.configured(whole.uuid) == [clock_of(IGB)]
    assert "0 of 2 devices igb-vf are free" in near.refusal(1, memory=64, devices=[{"alias": "igb-vf"}])
    record_property("interfaces", names)


@needs_cxl
def test_memory_of_cxl_is_no_device_for_containers(near, machine, record_property):
    """Its file manages what the host itself uses, so the container that asks for it is refused."""
    (device,) = (each for each in machine.devices if each.address == CXL)
    assert (device.driver, device.nodes, device.class_id) == ("cxl_pci", (), "050210")
    assert list(pathlib.Path("/dev/cxl").glob("mem*"))
    reason = near.refusal(1, memory=64, devices=[{"alias": "cxl"}])
    assert f"device {CXL}: its driver cxl_pci gives no file under /dev" in reason
    record_property("reason", reason)
