# SPDX-License-Identifier: Apache-2.0
"""PCI devices as kernels describe them, one oddity each."""

from dataclasses import replace

import pytest

from zun.tests.machines.kernel import hwloc_set
from zun.tests.unit.topology.machines import EXPANDERS, PLAIN, build, changed
from zun.topology import HostTopology, PlacementRequest, Plan, Refusal, Usage, discover, plan
from zun.topology.device_request import DeviceMatch, DeviceRequest
from zun.topology.devices import Device, DeviceType

ADDRESS = "0000:81:00.0"
SWITCHED = ("pci0000:80", "0000:80:01.0", "0000:82:00.0", "0000:83:04.0")


@pytest.fixture
def found(tmp_path):
    """Return the devices, and the notes, of a machine with the one device that the test describes."""

    def discovered(address=ADDRESS, machine=PLAIN, **facts) -> HostTopology:
        return discover(build(tmp_path, {**machine, "devices": {address: facts}}), process_limits=False)

    return discovered


def test_a_plain_device(found):
    topology = found(
        path=("pci0000:80", "0000:80:01.0"),
        files={"numa_node": "1\n", "net/ens1/address": "02:00:00:00:00:01\n"},
        links={"driver": "../../../bus/pci/drivers/ixgbe", "iommu_group": "../../../kernel/iommu_groups/27"},
    )
    assert topology.notes == ()
    assert topology.devices == (
        Device(
            ADDRESS, "8086", "10ed", "020000", cell=1, path=("pci0000:80", "0000:80:01.0"), iommu_group=27,
            driver="ixgbe", interfaces=("ens1",),
        ),
    )


@pytest.mark.parametrize(("files", "cell"), [
    pytest.param({"numa_node": "1\n"}, 1, id="the-kernel-tells"),
    pytest.param({"numa_node": "0\n\0"}, 0, id="behind-it-a-nul-byte"),
    pytest.param({"numa_node": "-1\n"}, None, id="unknown"),
    pytest.param({"numa_node": "-1\n", "local_cpulist": "0-7\n"}, None, id="all-cpus-prove-nothing"),
    pytest.param({"local_cpulist": "2-3,6-7\n"}, 1, id="no-node-but-the-cpus-of-one-cell"),
    pytest.param({"local_cpus": "000000cc\n"}, 1, id="the-same-as-a-bitmap"),
    pytest.param({"local_cpulist": "1-2\n"}, None, id="cpus-of-two-cells"),
    pytest.param({"local_cpulist": "64-70\n"}, None, id="cpus-of-no-cell"),
    pytest.param({}, None, id="no-file"),
])
def test_cell(found, files, cell):
    topology = found(files=files)
    assert [device.cell for device in topology.devices] == [cell]
    assert topology.notes == ()


@pytest.mark.parametrize(("files", "note"), [
    ({"numa_node": "7\n"}, "/sys/bus/pci/devices/0000:81:00.0/numa_node is 7, which is no cell of this host"),
    ({"numa_node": "one\n"}, "/sys/bus/pci/devices/0000:81:00.0/numa_node is not understood: 'one'"),
])
def test_a_node_that_is_none_leaves_a_note(found, files, note):
    topology = found(files=files)
    assert topology.devices[0].cell is None
    assert any(each.startswith(note) for each in topology.notes)


@pytest.mark.parametrize(("files", "cell"), [
    ({"local_cpulist": "0-7\n"}, 3),
    ({"numa_node": "-1\n"}, 3),
    ({}, 3),
    ({"numa_node": "3\n"}, 3),
    ({"numa_node": "0\n"}, 3),
])
def test_devices_of_a_host_with_one_cell_are_on_it(found, files, cell):
    machine = changed(nodes={3: {"cpus": "0-7"}})
    assert found(machine=machine, files=files).devices[0].cell == cell


FAR = {
    0: {"cpus": "0-1,4-5", "distance": "10 21 17 28"},
    1: {"cpus": "2-3,6-7", "distance": "21 10 17 14"},
    2: {"cpus": "", "distance": "17 17 10 28"},
    3: {"cpus": "", "distance": "28 14 28 10"},
}
"""Two cells with CPUs and two without, of which 2 is as far from both and 3 is nearer to cell 1."""


@pytest.mark.parametrize(("files", "cell", "homes"), [
    pytest.param({"numa_node": "3\n"}, 3, (1,), id="a-node-without-cpus"),
    pytest.param({"numa_node": "2\n"}, 2, (0, 1), id="a-node-between-two-cells"),
    pytest.param({"numa_node": "2\n", "local_cpulist": "\n"}, 2, (0, 1), id="an-empty-list"),
    pytest.param({"numa_node": "2\n", "local_cpulist": "2-3,6-7\n"}, 1, (1,), id="the-list-is-nearer-than-the-node"),
    pytest.param({"numa_node": "2\n", "local_cpulist": "2\n"}, 1, (1,), id="a-part-of-a-cell"),
    pytest.param({"numa_node": "2\n", "local_cpulist": "1-2\n"}, 2, (0, 1), id="a-list-over-two-cells"),
    pytest.param({"numa_node": "2\n", "local_cpulist": "0-7\n"}, 2, (0, 1), id="a-list-of-all-cpus"),
    pytest.param({"numa_node": "0\n", "local_cpulist": "2-3,6-7\n"}, 0, (0,), id="a-cell-with-cpus-wins"),
    pytest.param({"numa_node": "7\n", "local_cpulist": "2-3,6-7\n"}, 1, (1,), id="a-node-that-is-offline"),
])
def test_nearest_cell_by_the_list_of_local_cpus(found, files, cell, homes):
    topology = found(machine=changed(nodes=FAR), files=files)
    assert (topology.devices[0].cell, topology.device_view.homes[cell], topology.notes) == (cell, homes, ())


@pytest.mark.parametrize(("initiators", "homes"), [
    pytest.param({}, (0, 1), id="no-hmat"),
    pytest.param({"access1": (1,)}, (1,), id="nearest-cpus"),
    pytest.param({"access0": (0,)}, (0,), id="nearest-initiators"),
    pytest.param({"access0": (3,), "access1": (1,)}, (1,), id="cpus-before-other-initiators"),
    pytest.param({"access0": (3,)}, (0, 1), id="an-initiator-without-cpus"),
    pytest.param({"access1": (0, 1)}, (0, 1), id="both-reach-it-alike"),
    pytest.param({"access1": (9,)}, (0, 1), id="a-node-that-is-none"),
])
def test_nearest_cells_by_hmat(found, initiators, homes):
    """The firmware's initiators win over its distances, which are often alike for such nodes."""
    node = "sys/devices/system/node/node2"
    told = {f"{node}/{access}/initiators/node{other}/of": "" for access, ids in initiators.items() for other in ids}
    told |= {f"{node}/{access}/initiators/read_latency": "350\n" for access in initiators}
    topology = found(machine=changed(nodes=FAR, files=told), files={"numa_node": "2\n"})
    assert (topology.devices[0].cell, topology.device_view.homes[2], topology.notes) == (2, homes, ())


@pytest.mark.parametrize("files", [{"numa_node": "-1\n", "local_cpulist": "0-7\n"}, {"numa_node": "5\n"}, {}])
def test_device_is_on_the_only_cell_with_cpus(found, files):
    """A machine with one socket and memory of CXL."""
    machine = changed(nodes={0: {"cpus": "0-7"}, 4: {"cpus": ""}})
    topology = found(machine=machine, files=files)
    assert (topology.devices[0].cell, topology.notes) == (0, ())


def test_list_of_the_whole_machine_proves_nothing_within_limits(tmp_path):
    """The process may use the CPUs of cells 0 and 2 only; CPUs of cells 0 and 1 are local to the device."""
    nodes = {node: {"cpus": f"{2 * node}-{2 * node + 1}"} for node in range(3)}
    device = {"files": {"numa_node": "-1\n", "local_cpulist": "0-3\n"}}
    limits = {"proc/self/status": "Cpus_allowed_list:\t0-1,4-5\nMems_allowed_list:\t0,2\n"}
    machine = {"online": "0-5", "nodes": nodes, "devices": {ADDRESS: device}, "files": limits}
    topology = discover(build(tmp_path, machine))
    assert [str(cell.cpus) for cell in topology.cells] == ["0-1", "", "4-5"]
    assert topology.devices[0].cell is None


@pytest.mark.parametrize("files", [
    pytest.param({"vendor": None}, id="no-vendor"),
    pytest.param({"device": "0x10e\n"}, id="a-short-number"),
    pytest.param({"class": "Ethernet\n"}, id="a-class-in-words"),
    pytest.param({"class": "0x060400\n"}, id="a-bridge"),
])
def test_not_a_device(found, files):
    assert found(files=files).devices == ()


def test_a_link_without_its_folder(tmp_path):
    root = build(tmp_path, PLAIN)
    folder = root / "sys/bus/pci/devices"
    folder.mkdir(parents=True)
    (folder / ADDRESS).symlink_to("../../../devices/pci0000:80/0000:81:00.0")
    (folder / "not-an-address").mkdir()
    assert discover(root, process_limits=False).devices == ()


@pytest.mark.parametrize(("address", "path", "root", "switch"), [
    (ADDRESS, ("pci0000:80",), "pci0000:80", None),
    (ADDRESS, ("pci0000:80", "0000:80:01.0"), "pci0000:80", None),
    (ADDRESS, SWITCHED, "pci0000:80", "0000:82:00.0"),
    (ADDRESS, (*SWITCHED, "0000:84:00.0", "0000:85:00.0"), "pci0000:80", "0000:82:00.0"),
    ("10000:00:04.0", ("pci10000:00",), "pci10000:00", None),
])
def test_path(found, address, path, root, switch):
    [device] = found(address, path=path).devices
    assert (device.address, device.path, device.root, device.switch) == (address, path, root, switch)


@pytest.mark.parametrize(("files", "links", "kind", "physical"), [
    ({}, {}, DeviceType.PCI, None),
    ({"sriov_totalvfs": "8\n", "sriov_numvfs": "0\n"}, {}, DeviceType.PF, None),
    ({"sriov_totalvfs": "0\n"}, {}, DeviceType.PCI, None),
    ({}, {"physfn": "../0000:81:00.1"}, DeviceType.VF, "0000:81:00.1"),
    ({}, {"physfn": "../nonsense"}, DeviceType.PCI, None),
])
def test_functions(found, files, links, kind, physical):
    [device] = found(files=files, links=links).devices
    assert (device.type, device.physical) == (kind, physical)


@pytest.mark.parametrize(("files", "links", "nodes"), [
    pytest.param(
        {"drm/card0/dev": "226:0\n", "drm/renderD128/dev": "226:128\n", "drm/card0-DP-1/status": ""}, {},
        ("/dev/dri/card0", "/dev/dri/renderD128"), id="graphics",
    ),
    pytest.param(
        {"infiniband_verbs/uverbs0/dev": "231:192\n", "infiniband_mad/umad0/dev": "231:0\n", "infiniband/mlx5_0/x": ""},
        {}, ("/dev/infiniband/umad0", "/dev/infiniband/uverbs0"), id="rdma",
    ),
    pytest.param(
        {"nvme/nvme0/dev": "241:0\n", "nvme/nvme0/nvme0n1/dev": "259:0\n", "nvme/nvme0/hwmon1/dev": "1:1\n"}, {},
        ("/dev/nvme0", "/dev/nvme0n1"), id="nvme",
    ),
    pytest.param(
        {}, {"driver": "../drivers/vfio-pci", "iommu_group": "../iommu_groups/9"}, ("/dev/vfio/9",), id="vfio"
    ),
    pytest.param({}, {"driver": "../drivers/vfio-pci"}, (), id="vfio-without-a-group"),
    pytest.param(
        {"vfio-dev/vfio0/dev": "242:0\n", "vfio-dev/vfio0/uevent": "DEVNAME=vfio/devices/vfio0\n"},
        {"driver": "../drivers/nvgrace-gpu-vfio-pci", "iommu_group": "../iommu_groups/5"}, ("/dev/vfio/5",),
        id="vfio-variant",
    ),
    pytest.param(
        {}, {"driver": "../drivers/mlx5_vfio_pci", "iommu_group": "../iommu_groups/5"}, ("/dev/vfio/5",),
        id="vfio-variant-before-linux-6.1",
    ),
    pytest.param(
        {"vfio-dev/vfio3/x": ""}, {"driver": "../drivers/a-later-one", "iommu_group": "../iommu_groups/5"},
        ("/dev/vfio/5",), id="vfio-of-another-name",
    ),
    pytest.param(
        {}, {"driver": "../drivers/nvidia", "iommu_group": "../iommu_groups/5"}, (), id="group-of-a-kernel-driver"
    ),
    pytest.param(
        {"accel/accel0/dev": "261:0\n", "accel/accel0/uevent": "MAJOR=261\nMINOR=0\nDEVNAME=accel/accel0\n",
         "accel/accel_controlD0/dev": "260:0\n", "accel/accel_controlD0/uevent": "DEVNAME=accel/accel_controlD0\n"},
        {"driver": "../drivers/habanalabs"}, ("/dev/accel/accel0", "/dev/accel/accel_controlD0"), id="accelerator",
    ),
    pytest.param({"accel/accel1/dev": "261:1\n"}, {}, ("/dev/accel/accel1",), id="accelerator-without-uevent"),
    pytest.param({"uio/uio0/dev": "240:0\n"}, {"driver": "../drivers/igb_uio"}, ("/dev/uio0",), id="uio"),
    pytest.param({"block/cciss!c0d0/dev": "104:0\n"}, {}, ("/dev/cciss/c0d0",), id="slash-in-a-name"),
    pytest.param(
        {"virtio2/block/vdb/dev": "254:16\n", "virtio2/block/vdb/vdb1/dev": "254:17\n",
         "virtio2/block/vdb/vdb1/partition": "1\n", "virtio2/virtio-ports/vport2p1/dev": "243:1\n"},
        {}, ("/dev/vdb", "/dev/vport2p1"), id="virtio-one-folder-lower",
    ),
    pytest.param(
        {"dsa0/wq0.0/dev": "236:0\n", "dsa0/wq0.0/uevent": "DEVNAME=dsa/wq0.0\n"}, {}, ("/dev/dsa/wq0.0",),
        id="work-queue",
    ),
    pytest.param(
        {"sound/card1/controlC1/dev": "116:8\n", "sound/card1/controlC1/uevent": "DEVNAME=snd/controlC1\n"}, {},
        ("/dev/snd/controlC1",), id="sound",
    ),
    pytest.param({"ptp/ptp0/dev": "249:0\n", "net/ens1/address": ""}, {}, ("/dev/ptp0",), id="clock-of-a-card"),
    pytest.param({"drm/card0/dev": "1:1\n", "drm/card0/uevent": "DEVNAME=../sda\n"}, {}, ("/dev/dri/card0",),
                 id="name-outside-dev"),
    pytest.param(
        {"i2c-3/i2c-dev/i2c-3/dev": "89:3\n", "usb1/1-1/dev": "189:1\n", "rtc/rtc0/dev": "254:0\n",
         "watchdog/watchdog0/dev": "250:0\n", "ata1/host0/target0:0:0/0:0:0:0/bsg/0:0:0:0/dev": "251:0\n",
         "ata1/host0/target0:0:0/0:0:0:0/scsi_generic/sg0/dev": "21:0\n",
         "ata1/host0/target0:0:0/0:0:0:0/block/sda/dev": "8:0\n", "0000:82:00.0/nvme/nvme7/dev": "1:1\n",
         "pci10000:00/10000:00:01.0/nvme/nvme8/dev": "1:1\n", "mtd/mtd0/dev": "90:0\n"},
        {}, ("/dev/sda",), id="never-given",
    ),
])
def test_nodes(found, files, links, nodes):
    assert found(files=files, links=links).devices[0].nodes == nodes


@pytest.mark.parametrize(("controllers", "nodes", "notes"), [
    pytest.param(
        {"nvme0": ["nvme0c0n2"]}, ("/dev/nvme0", "/dev/nvme0n2"), (), id="a-disk-of-its-own"
    ),
    pytest.param(
        {"nvme0": ["nvme0c0n2"], "nvme1": ["nvme0c1n22"]}, ("/dev/nvme0", "/dev/nvme0n2"), (), id="another-has-another"
    ),
    pytest.param(
        {"nvme0": ["nvme0c0n2"], "nvme1": ["nvme0c1n2"]}, ("/dev/nvme0",),
        ("/dev/nvme0n2 is reached by nvme0, nvme1: it belongs to none of them",), id="both-reach-one-disk",
    ),
])
def test_disks_of_an_nvme_card_with_several_controllers(found, controllers, nodes, notes):
    card = "sys/class/nvme-subsystem/nvme-subsys0"
    told = {f"{card}/{name}/{path}/size": "" for name, paths in controllers.items() for path in paths}
    told |= {f"{card}/nvme0n{number}/dev": "259:1\n" for number in (2, 22)}
    own = {"nvme/nvme0/dev": "241:0\n", "nvme/nvme0/nvme0c0n2/size": ""}
    topology = found(machine=changed(files={**told, f"{card}/nqn": "card\n"}), files=own)
    assert (topology.devices[0].nodes, topology.notes) == (nodes, notes)


def test_disk_of_a_card_brings_its_file_for_commands(found):
    card = "sys/class/nvme-subsystem/nvme-subsys0"
    told = {f"{card}/{name}/dev": "259:1\n" for name in ("nvme0n2", "ng0n2", "nvme0n3", "ng0n3")}
    machine = changed(files={**told, f"{card}/nvme0/nvme0c0n2/size": ""})
    own = {"nvme/nvme0/dev": "241:0\n", "nvme/nvme0/nvme0c0n2/size": ""}
    assert found(machine=machine, files=own).devices[0].nodes == ("/dev/ng0n2", "/dev/nvme0", "/dev/nvme0n2")


def test_vfio_without_an_iommu_has_a_file_of_its_own(found):
    machine = changed(files={"sys/kernel/iommu_groups/0/name": "vfio-noiommu\n"})
    links = {"driver": "../drivers/vfio-pci", "iommu_group": "../../../kernel/iommu_groups/0"}
    assert found(machine=machine, links=links).devices[0].nodes == ("/dev/vfio/noiommu-0",)


def test_class_by_the_link_of_a_device(found):
    files = {"card0-DP-1/drm_dp_aux0/dev": "238:0\n"}
    links = {"card0-DP-1/drm_dp_aux0/subsystem": "../../../../../../class/drm_dp_aux_dev"}
    assert found(files=files, links=links).devices[0].nodes == ()


def kfd(*places: tuple[int, int, int]) -> dict[str, str]:
    """Return nodes of KFD: domain, place and minor number of each. The first node of a machine is the CPUs."""
    folder = "sys/class/kfd/kfd/topology/nodes"
    told = (f"cpu_cores_count 0\ndomain {domain}\nlocation_id {place}\ndrm_render_minor {minor}\n"
            for domain, place, minor in ((0, 0, 0), *places))  # fmt: skip
    return {f"{folder}/{number}/properties": text for number, text in enumerate(told)}


@pytest.mark.parametrize(("address", "nodes"), [
    ("0000:0c:00.0", ("/dev/dri/card1", "/dev/dri/renderD128", "/dev/dri/renderD129", "/dev/dri/renderD130")),
    ("0000:0c:00.1", ("/dev/dri/card1", "/dev/dri/renderD128", "/dev/dri/renderD131")),
    ("0001:0c:00.0", ("/dev/dri/card1", "/dev/dri/renderD128", "/dev/dri/renderD132")),
])
def test_gpu_in_partitions_has_the_files_of_all(found, address, nodes):
    parts = kfd((0, 0xC00, 128), (0, 1 << 28 | 0xC00, 129), (0, 2 << 28 | 0xC00, 130), (0, 0xC01, 131), (1, 0xC00, 132))
    files = {"drm/card1/dev": "226:1\n", "drm/renderD128/dev": "226:128\n"}
    topology = found(address, changed(files=parts), files=files, links={"driver": "../drivers/amdgpu"})
    assert topology.devices[0].nodes == nodes


@pytest.mark.parametrize(("files", "names"), [
    pytest.param({"net/ens1/address": ""}, ("ens1",), id="network-card"),
    pytest.param({"virtio3/net/eth1/address": ""}, ("eth1",), id="virtio"),
    pytest.param(
        {"net/pf0/phys_port_name": "p0\n", "net/eth0/phys_port_name": "pf0vf0\n",
         "net/eth1/phys_port_name": "c1pf0sf3\n", "net/eth2/phys_port_name": "pf0\n", "net/eth3/address": ""},
        ("eth3", "pf0"), id="representors",
    ),
    pytest.param(
        {"net/a0/phys_port_name": "p0pf0vf1\n", "net/a1/phys_port_name": "pf0hpf\n", "net/z0/phys_port_name": "p0s1\n"},
        ("z0",), id="representors-of-other-drivers",
    ),
    pytest.param({"0000:82:00.0/net/ens2/address": ""}, (), id="of-another-device"),
])
def test_interfaces(found, files, names):
    assert found(files=files).devices[0].interfaces == names


def test_card_without_port_names_leaves_no_note(found):
    """The kernel refuses to read the file of most cards; a folder in its place cannot be read either."""
    topology = found(files={"net/ens1/phys_port_name/x": ""})
    assert (topology.devices[0].interfaces, topology.notes) == (("ens1",), ())


def test_interface_whose_name_is_not_utf_8_is_left_out(found):
    """The kernel takes any bytes for the name of an interface; databases and messages do not."""
    topology = found(files={"net/ens\udcff/address": "", "net/ens2/address": ""})
    assert topology.devices[0].interfaces == ("ens2",)
    (note,) = topology.notes
    assert note.endswith("net has the name 'ens\\udcff', which is not UTF-8: it is left out")


GPUS = ("0009:01:00.0", "0019:01:00.0")


@pytest.fixture
def superchips(tmp_path):
    """Return a machine of two CPUs with a GPU each, whose memory is a node of the kernel, and a node of CXL memory."""
    nodes = {
        0: {"cpus": "0-3", "kib": 8 << 20, "distance": "10 40 80 120 20"},
        1: {"cpus": "4-7", "kib": 8 << 20, "distance": "40 10 120 80 20"},
        2: {"cpus": "", "kib": 4 << 20, "distance": "80 120 10 200 90"},
        10: {"cpus": "", "kib": 4 << 20, "distance": "120 80 200 10 90"},
        11: {"cpus": "", "kib": 1 << 20, "distance": "20 20 90 90 10"},
    }
    folder = "proc/driver/nvidia/gpus"
    told = {f"{folder}/{address}/numa_status": f"Node: {node}\nStatus: online\n"
            for address, node in zip(GPUS, (2, 10), strict=True)}  # fmt: skip
    gpu = {"vendor": "0x10de\n", "class": "0x030200\n"}
    devices = {address: {"files": {**gpu, "numa_node": f"{cell}\n"}} for cell, address in enumerate(GPUS)}
    return tmp_path, {"online": "0-7", "nodes": nodes, "devices": devices, "files": told}


def test_memory_of_a_gpu_is_no_memory_of_the_host(superchips):
    topology = discover(build(*superchips), process_limits=False)
    assert [cell.id for cell in topology.cells] == [0, 1, 11]
    assert topology.memory_mib == 17 * 1024
    assert [dict(cell.distances) for cell in topology.cells] == [
        {0: 10, 1: 40, 11: 20}, {0: 40, 1: 10, 11: 20}, {0: 20, 1: 20, 11: 10},
    ]  # fmt: skip
    assert {device.address: device.memory_node for device in topology.devices} == dict(zip(GPUS, (2, 10), strict=True))
    too_much = PlacementRequest(2, 17 * 1024 + 1, numa_affinity="none", mempolicy="preferred")
    for request in (too_much, replace(too_much, cpu_policy="shared")):
        assert isinstance(plan(topology, Usage(), request), Refusal)


@pytest.mark.parametrize("policy", ["dedicated", "shared"])
@pytest.mark.parametrize(("count", "mems"), [(0, "0"), (1, "0,2"), (2, "0,2,10")])
def test_holder_of_a_gpu_may_use_its_memory(superchips, policy, count, mems):
    topology = discover(build(*superchips), process_limits=False)
    gpus = DeviceRequest("gpu", count, (DeviceMatch(vendor_id="10de"),))
    answer = plan(topology, Usage(), PlacementRequest(1, 100, policy, devices=(gpus,) if count else ()))
    assert (str(answer.mems), list(answer.cells)) == (mems, [0])
    assert Plan.from_dict(answer.to_dict()) == answer
    assert str(Plan.from_dict(answer.to_dict()).mems) == mems


@pytest.mark.parametrize(("initiators", "distances", "cells"), [
    pytest.param((), {}, [0, 1], id="by-distance"),
    pytest.param((1,), {}, [1, 1], id="by-hmat"),
    pytest.param((), {2: "80 80 10 200 90"}, [None, 1], id="as-far-from-two-cells"),
])
def test_gpu_on_the_node_of_its_memory_is_on_the_nearest_cell(superchips, initiators, distances, cells):
    root, machine = superchips
    nodes = {number: {**facts, "distance": distances.get(number, facts["distance"])} for number, facts in
             machine["nodes"].items()}  # fmt: skip
    if distances:
        nodes[1]["distance"] = "40 10 80 80 20"
    nodes[2]["initiators"] = initiators
    devices = {address: {"files": {**facts["files"], "numa_node": f"{node}\n"}}
               for (address, facts), node in zip(machine["devices"].items(), (2, 10), strict=True)}  # fmt: skip
    topology = discover(build(root, {**machine, "nodes": nodes, "devices": devices}), process_limits=False)
    assert [device.cell for device in topology.devices] == cells
    assert [device.memory_node for device in topology.devices] == [2, 10]
    assert len(topology.notes) == cells.count(None)


@pytest.mark.parametrize("status", [
    pytest.param("Node: 2\nStatus: offline\n", id="offline"),
    pytest.param("Node: -1\nStatus: disabled\n", id="disabled"),
    pytest.param("Node: 1\nStatus: online\n", id="a-node-with-cpus"),
    pytest.param("Node: 7\nStatus: online\n", id="no-node"),
    pytest.param("", id="nothing"),
])
def test_node_that_is_no_memory_of_a_gpu_stays(superchips, status):
    root, machine = superchips
    files = dict.fromkeys(machine["files"], status)
    topology = discover(build(root, {**machine, "files": files}), process_limits=False)
    assert [cell.id for cell in topology.cells] == [0, 1, 2, 10, 11]
    assert [device.memory_node for device in topology.devices] == [None, None]


def test_nvidia_tells_its_node_in_proc(found):
    told = {f"proc/driver/nvidia/gpus/{ADDRESS}/information": "Model: \t H200\nDevice Minor: \t 3\n"}
    assert found(machine=changed(files=told)).devices[0].nodes == ("/dev/nvidia3",)


def test_a_recorded_machine_with_expander_buses(tmp_path):
    topology = discover(build(tmp_path, EXPANDERS), process_limits=False)
    assert {device.address: (device.cell, device.iommu_group, *device.nodes) for device in topology.devices} == {
        "0000:00:01.0": (None, 1),
        "0000:21:00.0": (1, 23, "/dev/nvme2"),
        "0000:21:00.1": (1, 24, "/dev/nvme2n2", "/dev/nvme3"),
        "0000:21:00.2": (1, 25, "/dev/nvme2n3", "/dev/nvme4"),
        "0000:43:00.0": (2, 20, "/dev/nvme1", "/dev/nvme1n1"),
        "0000:44:00.0": (2, 21, "/dev/vfio/21"),
        "0000:61:00.0": (3, 15),
        "0000:62:00.0": (3, 16, "/dev/nvme0", "/dev/nvme0n1"),
        "0000:63:00.0": (3, 17),
    }
    types = {device.address: device.type for device in topology.devices if device.type is not DeviceType.PCI}
    assert types == {
        "0000:21:00.0": DeviceType.PF, "0000:21:00.1": DeviceType.VF, "0000:21:00.2": DeviceType.VF,
    }  # fmt: skip
    assert {device.address: device.switch for device in topology.devices if device.switch} == {
        "0000:43:00.0": "0000:41:00.0", "0000:44:00.0": "0000:41:00.0",
    }  # fmt: skip
    assert topology.notes == ("/dev/nvme2n1 is reached by nvme2, nvme3, nvme4: it belongs to none of them",)


def test_order_is_that_of_the_addresses(tmp_path):
    addresses = ["0000:0a:00.0", "0000:02:00.1", "10000:00:01.0", "0000:02:00.0"]
    root = build(tmp_path, {**PLAIN, "devices": {address: {} for address in addresses}})
    found = [device.address for device in discover(root, process_limits=False).devices]
    assert found == ["0000:02:00.0", "0000:02:00.1", "0000:0a:00.0", "10000:00:01.0"]


def test_a_record_gives_the_same_device(found):
    topology = found(path=SWITCHED, files={"sriov_totalvfs": "4\n", "net/a/b": ""})
    assert HostTopology.from_dict(topology.to_dict()) == topology
    later = {**topology.devices[0].to_dict(), "of_a_later_release": 1}
    assert Device.from_dict(later) == topology.devices[0]


@pytest.mark.parametrize(("text", "numbers"), [
    ("0x00000001", {0}),
    ("0x00000001,0x0", {32}),
    ("0x00000001,,0x3", {0, 1, 64}),
    ("0x1,,", {64}),
    ("0x0", set()),
])
def test_sets_of_hwloc(text, numbers):
    """The witness of the tests on machines counts nodes above 31 as hwloc does."""
    assert hwloc_set(text) == numbers
