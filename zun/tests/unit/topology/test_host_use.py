# SPDX-License-Identifier: Apache-2.0
"""Devices that the host itself uses, in made trees."""

from dataclasses import replace

import pytest

from zun.compute.host.machine import discovered
from zun.tests.unit.topology.machines import build, changed
from zun.topology import discover
from zun.topology.devices import Device, DeviceType
from zun.topology.files import Tree
from zun.topology.host_use import marked, remembered

CARD, SECOND, DISK = "0000:19:00.0", "0000:19:00.1", "0000:82:00.0"
ROUTES = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
DEFAULT = "eno1\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
STORAGE = "eno1\t0000A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n"
NOTHING, LOCAL, GLOBAL = "0" * 32, "fe80" + "0" * 28, "2001" + "0" * 28


UDEV = {"run/udev/data/b259:1": "S:disk/by-id/x\nE:ID_FS_LABEL=tank\nE:ID_FS_TYPE=zfs_member\n"}
MEDIATED = "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"


def route6(destination, prefix, interface, flags="00000003"):
    return f"{destination} {prefix} {NOTHING} 00 {NOTHING} 00000400 00000001 00000000 {flags} {interface}\n"


def mount(source, number="0:40", at="/srv"):
    return f"40 1 {number} / {at} rw,relatime shared:1 - ext4 {source} rw\n"


@pytest.fixture
def uses(tmp_path):
    """Return the reason by address of a machine with two interfaces and an NVMe disk with two partitions."""

    def found(files=(), links=(), cards=()):
        machine = changed(
            devices={
                CARD: {"files": {"net/eno1/address": "", **dict(cards)}, "links": dict(links)},
                SECOND: {"files": {"virtio1/net/eno2/address": ""}},
                DISK: {"files": {"class": "0x010802\n", "nvme/nvme0/dev": "", "nvme/nvme0/nvme0n1/dev": "259:0\n"}},
            },
            files={
                **{f"sys/class/block/nvme0n1/nvme0n1p{n}/partition": f"{n}\n" for n in (1, 2)},
                **{f"sys/class/block/nvme0n1p{n}/dev": f"259:{n}\n" for n in (1, 2)},
                "sys/class/block/nvme0n1/dev": "259:0\n",
                **dict(files),
            },
        )
        topology = discover(build(tmp_path, machine), process_limits=False)
        return {device.address: device.in_use for device in topology.devices if device.in_use is not None}

    return found


@pytest.mark.parametrize(("files", "reason"), [
    pytest.param({"proc/net/route": ROUTES + DEFAULT}, "its interface eno1 has the default route", id="default-route"),
    pytest.param(
        {"proc/net/route": ROUTES + STORAGE + DEFAULT}, "its interface eno1 has the default route", id="several-routes"
    ),
    pytest.param({"proc/net/route": ROUTES + STORAGE}, "its interface eno1 has a route of the host", id="one-route"),
    pytest.param(
        {"proc/net/ipv6_route": route6(NOTHING, "00", "eno1")}, "its interface eno1 has the default route", id="ipv6"
    ),
    pytest.param(
        {"proc/net/ipv6_route": route6(GLOBAL, "40", "eno1")}, "its interface eno1 has a route of the host",
        id="ipv6-route",
    ),
    pytest.param({"proc/net/ipv6_route": route6(LOCAL, "40", "eno1")}, None, id="address-of-the-link"),
    pytest.param({"proc/net/ipv6_route": route6(NOTHING, "00", "eno1", "00200200")}, None, id="rejected-route"),
    pytest.param({"proc/net/route": ROUTES + DEFAULT.replace("eno1", "eth7")}, None, id="another-interface"),
    pytest.param({"proc/net/route": "nonsense\nmore\n"}, None, id="nonsense"),
])
def test_card_with_a_route_of_the_host(uses, files, reason):
    assert uses(files) == ({} if reason is None else {CARD: reason})


def test_card_in_a_bond(uses):
    links = {"net/eno1/master": "../../../../virtual/net/bond0"}
    assert uses(links=links) == {CARD: "its interface eno1 belongs to bond0"}


def test_card_in_a_bridge(uses):
    links = {"net/eno1/brport/bridge": "../../../../../virtual/net/br-lan"}
    found = uses(cards={"net/eno1/brport/port_no": "0x1\n"}, links=links)
    assert found == {CARD: "its interface eno1 belongs to br-lan"}


@pytest.mark.parametrize(("files", "inside", "reason"), [
    pytest.param({"proc/mounts": "/dev/nvme0n1p1 / ext4 rw 0 0\n"}, {}, "mounted at /", id="list-of-mounts"),
    pytest.param({"sys/block/nvme0n1/nvme0n1p1/partition": "1\n", "sys/block/nvme0n1/nvme0n1p1/holders/md0/x": ""}, {},
                 "a part of md0", id="block"),
    pytest.param({}, {"holders/dm-0/x": ""}, "a part of dm-0", id="folder-of-the-device"),
    pytest.param({"proc/1/mountinfo": mount("/dev/root", "259:1", "/")}, {}, "mounted at /", id="number-there"),
])
def test_disk_of_a_recording_without_class_block(tmp_path, files, inside, reason):
    disk = "nvme/nvme0/nvme0n1"
    part = {"dev": "259:1\n", "partition": "1\n", **inside}
    facts = {"class": "0x010802\n", f"{disk}/dev": "259:0\n"}
    facts |= {f"{disk}/nvme0n1p1/{name}": text for name, text in part.items()}
    machine = changed(devices={DISK: {"files": facts}}, files=files)
    (found,) = discover(build(tmp_path, machine), process_limits=False).devices
    assert found.in_use == f"/dev/nvme0n1p1 is {reason}"


def test_card_below_a_vlan(uses):
    assert uses(cards={"net/eno1/upper_eno1.7/x": ""}) == {CARD: "its interface eno1 belongs to eno1.7"}


@pytest.mark.parametrize(("nodes", "disk"), [
    pytest.param(("/dev/dri/card0", "/dev/kvm"), None, id="no-disk"),
    pytest.param(("/dev/nvme0", "/dev/nvme0n1"), "/dev/nvme0n1", id="disk-of-a-controller"),
    pytest.param(("/dev/cciss/c0d0",), "/dev/cciss/c0d0", id="name-with-a-slash"),
])
def test_files_that_are_disks(tmp_path, nodes, disk):
    for entry in ("nvme0n1", "cciss!c0d0"):
        (tmp_path / "sys/class/block" / entry).mkdir(parents=True)
    device = Device(nodes[0], type=DeviceType.PATH, nodes=nodes)
    assert marked(Tree(tmp_path), [device]) == (replace(device, disk=disk),)


@pytest.mark.parametrize(("files", "reason"), [
    pytest.param(
        {"proc/self/mountinfo": mount("/dev/root", "259:1", "/")}, "/dev/nvme0n1p1 is mounted at /", id="by-number"
    ),
    pytest.param(
        {"proc/self/mountinfo": mount("/dev/nvme0n1", "0:44", "/a\\040b")}, "/dev/nvme0n1 is mounted at /a b",
        id="by-name",
    ),
    pytest.param(
        {"proc/swaps": "Filename Type Size Used Priority\n/dev/nvme0n1p2 partition 1 0 -2\n"},
        "/dev/nvme0n1p2 is swap space of the host", id="swap",
    ),
    pytest.param(
        {"sys/class/block/nvme0n1p2/holders/dm-0/x": ""}, "/dev/nvme0n1p2 is a part of dm-0", id="logical-volume"
    ),
    pytest.param({"sys/class/block/nvme0n1/holders/md127/x": ""}, "/dev/nvme0n1 is a part of md127", id="raid"),
    pytest.param(
        {"sys/fs/btrfs/e1f2/devices/nvme0n1p1/x": "", "sys/fs/btrfs/e1f2/devices/sda/x": "",
         "proc/self/mountinfo": mount("/dev/sda", "0:44", "/data").replace("ext4", "btrfs")},
        "/dev/nvme0n1p1 is a part of a mounted btrfs", id="second-disk-of-a-btrfs",
    ),
    pytest.param(
        {"proc/self/mountinfo": mount("/dev/sda1", "8:1", "/"), "proc/1/mountinfo": mount("/dev/root", "259:2")},
        "/dev/nvme0n1p2 is mounted at /srv", id="mount-that-a-container-of-the-agent-does-not-see",
    ),
    pytest.param(
        {"proc/spl/kstat/zfs/tank/state": "", **UDEV}, "/dev/nvme0n1p1 is a part of the ZFS pool tank", id="zfs"
    ),
    pytest.param({"proc/spl/kstat/zfs/other/state": "", **UDEV}, None, id="pool-of-zfs-that-is-not-imported"),
    pytest.param({"proc/self/mountinfo": mount("/dev/sda1", "8:1", "/")}, None, id="another-disk"),
    pytest.param({"proc/self/mountinfo": "nonsense\n1 2 3\n"}, None, id="nonsense"),
])
def test_disk_with_data_of_the_host(uses, files, reason):
    assert uses(files) == ({} if reason is None else {DISK: reason})


def test_controllers_of_a_shared_mounted_disk(tmp_path):
    """The file of a controller takes commands for its disks, also for one that belongs to none of two controllers."""
    card = "sys/class/nvme-subsystem/nvme-subsys0"
    controllers = {DISK: ("nvme0", "nvme0c0n1"), SECOND: ("nvme1", "nvme0c1n1")}
    machine = changed(
        devices={
            address: {"files": {"class": "0x010802\n", f"nvme/{name}/dev": "", f"nvme/{name}/{path}/x": ""}}
            for address, (name, path) in controllers.items()
        },
        files={
            **{f"{card}/{name}/{path}/x": "" for name, path in controllers.values()},
            f"{card}/nvme0n1/dev": "259:0\n", "sys/class/block/nvme0n1/dev": "259:0\n",
            "proc/self/mountinfo": mount("/dev/nvme0n1", "259:0", "/"),
        },
    )  # fmt: skip
    found = discover(build(tmp_path, machine), process_limits=False).devices
    assert {device.address: device.in_use for device in found} == dict.fromkeys(
        controllers, "/dev/nvme0n1 is mounted at /"
    )


@pytest.mark.parametrize(("files", "used"), [
    pytest.param(
        {"proc/net/route": ROUTES + DEFAULT},
        {SECOND: "its interface eno1 has the default route",
         CARD: f"its virtual function {SECOND} is in use: its interface eno1 has the default route"},
        id="virtual",
    ),
    pytest.param(
        {"proc/net/route": ROUTES + DEFAULT.replace("eno1", "pf")}, {CARD: "its interface pf has the default route"},
        id="physical",
    ),
    pytest.param({}, {}, id="none"),
])
def test_card_whose_virtual_function_is_used(tmp_path, files, used):
    machine = changed(
        devices={
            CARD: {"files": {"sriov_totalvfs": "4\n", "net/pf/address": ""}},
            SECOND: {"files": {"net/eno1/address": ""}, "links": {"physfn": f"../{CARD}"}},
        },
        files=files,
    )
    found = discover(build(tmp_path, machine), process_limits=False).devices
    assert {device.address: device.in_use for device in found if device.in_use} == used


OPEN = "a program outside the kernel, as a virtual machine, has it open"
FUNCTION, NEIGHBOUR = "its virtual function", "a device of its IOMMU group,"


def used_by_machines(tmp_path, **opened):
    """A physical function, a virtual one for VFIO, and another device of its IOMMU group, with these counts of users.
    """
    links = {"driver": "../drivers/vfio-pci", "iommu_group": "../../kernel/iommu_groups/7"}
    machine = changed(
        devices={
            CARD: {"files": {"sriov_totalvfs": "4\n", "enable": "1\n", f"{MEDIATED[:-1]}/x": ""}},
            SECOND: {"files": {"enable": opened["second"]}, "links": {**links, "physfn": f"../{CARD}"}},
            DISK: {"files": {"enable": opened["disk"]}, "links": links},
        },
    )
    return discover(build(tmp_path, machine), process_limits=False).devices


def test_device_that_a_virtual_machine_has_open(tmp_path):
    found = used_by_machines(tmp_path, second="1\n", disk="0\n")
    reasons = {device.address: device.in_use for device in found if device.in_use}
    assert reasons == {
        SECOND: OPEN,
        CARD: f"{FUNCTION} {SECOND} is in use: {OPEN}",
        DISK: f"{NEIGHBOUR} {SECOND}, is in use: {OPEN}",
    }
    assert remembered(found, {}, ()) == (found, reasons)
    # A container that holds the device has it open: the device's neighbours are ruled out by the claim.
    devices, uses = remembered(found, {}, {SECOND})
    assert {device.address: device.in_use for device in devices if device.in_use} == {SECOND: OPEN}
    assert uses == {}


def test_device_that_nobody_has_open_is_free(tmp_path):
    assert not any(device.in_use for device in used_by_machines(tmp_path, second="0\n", disk="x\n"))


def test_gpu_with_a_mediated_device(uses):
    assert uses(cards={f"{MEDIATED}/mdev_type/x": ""}) == {
        CARD: f"its mediated device {MEDIATED} is for a virtual machine"
    }


def test_part_of_a_gpu_that_a_virtual_machine_uses(tmp_path):
    """Of a GPU with a mediated device, nobody knows which of its instances are the virtual machine's."""
    mig = "proc/driver/nvidia/capabilities/gpu0/mig/gi1"
    files = {
        f"proc/driver/nvidia/gpus/{CARD}/information": "Device Minor: 0\n",
        f"{mig}/access": "DeviceFileMinor: 12\n", f"{mig}/ci0/access": "DeviceFileMinor: 13\n",
    }
    gpu = {"class": "0x030200\n", "vendor": "0x10de\n", f"{MEDIATED}/mdev_type/x": ""}
    machine = changed(devices={CARD: {"files": gpu, "links": {"driver": "../drivers/nvidia"}}}, files=files)
    whole = f"its mediated device {MEDIATED} is for a virtual machine"
    found = discover(build(tmp_path, machine), process_limits=False).devices
    assert {device.address: device.in_use for device in found} == {
        CARD: whole, f"{CARD}/gi1/ci0": f"its GPU {CARD} is in use: {whole}"
    }


@pytest.mark.parametrize(("processes", "seen"), [
    pytest.param({"1": "systemd\n", "2": "kthreadd\n"}, True, id="of-the-host"),
    pytest.param({"1": "dumb-init\n", "2": "sh\n"}, False, id="of-a-container"),
    pytest.param({"1": "dumb-init\n"}, False, id="of-a-container-with-one-process"),
    pytest.param({}, True, id="unknown"),
])
def test_note_on_mounts_of_the_host_that_are_not_seen(tmp_path, processes, seen):
    files = {f"proc/{number}/comm": name for number, name in processes.items()}
    machine = changed(devices={DISK: {"files": {"class": "0x010802\n"}}}, files=files)
    notes = discover(build(tmp_path, machine), process_limits=False).notes
    assert any("the mounts of the host are not seen" in note for note in notes) == (not seen)


def test_card_whose_link_is_down_stays_in_use():
    card, disk = Device(CARD), Device(DISK)
    route = "its interface eno1 has the default route"
    devices, uses = remembered((replace(card, in_use=route), disk), {}, ())
    assert (devices[0].in_use, uses) == (route, {CARD: route})
    devices, uses = remembered((card, replace(disk, in_use="mounted")), uses, {DISK})
    assert [device.in_use for device in devices] == [route, "mounted"]
    devices, uses = remembered((card, disk), uses, ())  # the container that had mounted the disk is gone
    assert ([device.in_use for device in devices], uses) == ([route, None], {CARD: route})


def test_file_of_a_mounted_disk_of_this_machine():
    """This machine has its root somewhere; a file system without a disk, as overlay, names none."""
    devices = {device.address: device.in_use for device in discovered().devices}
    with open("/proc/mounts") as mounts:
        mounted = {line.split()[0] for line in mounts if line.startswith("/dev/")}
    for path in mounted & devices.keys():
        assert devices[path] is not None
    assert devices["/dev/null"] is None
