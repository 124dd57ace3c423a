# SPDX-License-Identifier: Apache-2.0
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from zun.container.cdi import CdiDevice, CdiDevices, CdiMount, DeviceNode, Edits
from zun.container.docker.device_host import Rule
from zun.container.docker.devices import (
    DeviceFacts,
    Passthrough,
    configured_parts,
    moved_cards,
    passthrough,
    told,
    told_in,
)
from zun.container.driver.devices import ContainerDevices
from zun.container.driver.lifecycle import RuntimeMount
from zun.tests.unit.topology.machines import PLAIN, build
from zun.topology import PlacementRequest, Plan, Usage, device_spec, discover, plan
from zun.topology.device_request import DeviceMatch, DeviceRequest, GivenDevice
from zun.topology.devices import Device, DeviceType

GPU = Device("0000:81:00.0", "10de", "20b0", "030200", driver="nvidia", nodes=("/dev/dri/card0", "/dev/nvidia0"))
GPU_2 = replace(GPU, address="0000:c1:00.0", nodes=("/dev/nvidia1",))
AMD = Device("0000:41:00.0", "1002", "740f", "038000", driver="amdgpu", nodes=("/dev/dri/renderD128",))
CAPS = ("/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13")
MIG = replace(
    GPU, address="0000:81:00.0/gi1/ci0", type=DeviceType.PART, physical=GPU.address, nodes=("/dev/nvidia0", *CAPS),
    uuid="MIG-cc",
)  # fmt: skip
NAMELESS = replace(MIG, address="0000:81:00.0/gi2/ci0", uuid=None)
XCP = replace(
    AMD, address="0000:41:00.0/xcp1", type=DeviceType.PART, physical=AMD.address, nodes=("/dev/dri/renderD129",)
)
DISK = Device("0000:82:00.0", "144d", "a80a", "010802", driver="nvme", nodes=("/dev/nvme0", "/dev/nvme0n1"))
BOUND = replace(DISK, address="0000:83:00.0", driver="vfio-pci", iommu_group=7, nodes=("/dev/vfio/7",))
UNBOUND = replace(DISK, address="0000:84:00.0", driver=None, nodes=())
VF = Device("0000:05:10.0", "8086", "10ed", "020000", type=DeviceType.VF, driver="ixgbevf", interfaces=("ens1v0",))
NOTHING = replace(VF, driver="igb_uio", interfaces=())
RDMA = replace(VF, address="0000:06:00.1", driver="mlx5_core", nodes=("/dev/infiniband/uverbs0",))
RNG = Device("/dev/hwrng", type=DeviceType.PATH, nodes=("/dev/hwrng",))
LINK = Device("/dev/disk/by-id/blue", type=DeviceType.PATH, nodes=("/dev/nvme9n1",))
CARD, CARD_1, HOOKED = (Device(f"vendor.com/card={each}", type=DeviceType.CDI) for each in (0, 1, "hooked"))
ALL = (GPU, GPU_2, AMD, MIG, NAMELESS, XCP, DISK, BOUND, UNBOUND, VF, RDMA, RNG, LINK, CARD, CARD_1, HOOKED)

UUIDS = {GPU.address: "GPU-aa", GPU_2.address: "GPU-bb"}
COMMON = Edits(environment={"LIBRARY": "/opt"}, mounts=(CdiMount("/opt", "/opt", ("ro", "bind")),), gids=(44,))
CDI = CdiDevices({
    CARD.address: CdiDevice(CARD.address, "a", Edits((DeviceNode("/dev/card", "/dev/card0", "rw"),)), COMMON),
    CARD_1.address: CdiDevice(CARD_1.address, "a", Edits((DeviceNode("/dev/card1", "/dev/card1"),)), COMMON),
    HOOKED.address: CdiDevice(HOOKED.address, "b", Edits(others=("hook createContainer (/bin/hook)",))),
})
NVIDIA = DeviceFacts(runtimes={"runc", "nvidia"}, default_runtime="runc", gpus=UUIDS)


def devices(*given: Device, name: str = "x", offered: tuple[Device, ...] = ALL) -> ContainerDevices:
    return ContainerDevices(tuple(GivenDevice(name, each.address) for each in given), offered)


def mounting(mount: CdiMount) -> DeviceFacts:
    return DeviceFacts(cdi=CdiDevices({CARD.address: CdiDevice(CARD.address, "a", Edits(mounts=(mount,)))}))


def node(path: str) -> DeviceNode:
    return DeviceNode(path, path)


@pytest.mark.parametrize(("device", "shared", "nodes"), [
    pytest.param(DISK, [], ["/dev/nvme0", "/dev/nvme0n1"], id="disk"),
    pytest.param(GPU, ["/dev/nvidiactl"], ["/dev/dri/card0", "/dev/nvidia0", "/dev/nvidiactl"], id="nvidia"),
    pytest.param(AMD, ["/dev/kfd", "/dev/nvidiactl"], ["/dev/dri/renderD128", "/dev/kfd"], id="amd"),
    pytest.param(
        NAMELESS, ["/dev/nvidiactl", "/dev/nvidia-uvm"],
        ["/dev/nvidia0", *CAPS, "/dev/nvidiactl", "/dev/nvidia-uvm"], id="mig-instance",
    ),
    pytest.param(XCP, ["/dev/kfd"], ["/dev/dri/renderD129", "/dev/kfd"], id="partition"),
    pytest.param(BOUND, ["/dev/vfio/vfio"], ["/dev/vfio/7", "/dev/vfio/vfio"], id="vfio"),
    pytest.param(RDMA, ["/dev/infiniband/rdma_cm"], ["/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm"], id="rdma"),
    pytest.param(VF, [], [], id="network"),
    pytest.param(RNG, [], ["/dev/hwrng"], id="file"),
    pytest.param(LINK, [], ["/dev/disk/by-id/blue"], id="a-link-keeps-its-name"),
])
def test_files(device: Device, shared: list[str], nodes: list[str]) -> None:
    answer = passthrough(devices(device), DeviceFacts(shared_files=shared))
    assert isinstance(answer, Passthrough)
    assert answer.nodes == tuple(map(node, nodes))
    assert answer.locks_memory == (device in (BOUND, RDMA))
    assert answer.environment == {"ZUN_DEVICES": f"x={device.address}"}
    assert moved_cards(devices(device)) == ((device.address,) if device.vendor_id else ())


def test_card_whose_interface_is_in_its_container_can_be_given():
    """The audit asks again while the container runs: /sys of the host does not show the interface then."""
    moved = replace(VF, interfaces=())
    answer = passthrough(devices(moved, offered=(moved,)), DeviceFacts(network_cards={moved.address}))
    assert isinstance(answer, Passthrough)


def test_shared_files_come_once() -> None:
    answer = passthrough(devices(GPU, GPU_2), DeviceFacts(shared_files=["/dev/nvidiactl"]))
    assert isinstance(answer, Passthrough)
    assert answer.nodes == tuple(map(node, ["/dev/dri/card0", "/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia1"]))


def test_gpus_by_runtime() -> None:
    answer = passthrough(devices(GPU, GPU_2, name="gpu"), NVIDIA)
    assert answer == Passthrough(
        runtime="nvidia",
        gpus=("GPU-aa", "GPU-bb"),
        environment={"ZUN_DEVICES": "gpu=0000:81:00.0,0000:c1:00.0", "NVIDIA_VISIBLE_DEVICES": "GPU-aa,GPU-bb"},
    )


def test_mig_instances_come_by_their_uuids() -> None:
    environment = {"ZUN_DEVICES": "x=0000:81:00.0/gi1/ci0,0000:c1:00.0", "NVIDIA_VISIBLE_DEVICES": "MIG-cc,GPU-bb"}
    answer = passthrough(devices(MIG, GPU_2), NVIDIA)
    assert answer == Passthrough(runtime="nvidia", gpus=("MIG-cc", "GPU-bb"), environment=environment)
    plain = passthrough(devices(MIG), DeviceFacts())
    assert isinstance(plain, Passthrough)
    assert plain.environment["NVIDIA_VISIBLE_DEVICES"] == "MIG-cc"


NODES = "sys/class/kfd/kfd/topology/nodes"
TREE = {
    "devices": {
        "0000:81:00.0": {
            "files": {"vendor": "0x10de\n", "class": "0x030200\n"}, "links": {"driver": "../drivers/nvidia"},
        },
        "0000:0c:00.0": {
            "files": {"vendor": "0x1002\n", "class": "0x120000\n", "drm/renderD128/dev": "226:128\n",
                      "current_compute_partition": "DPX\n", "current_memory_partition": "NPS1\n"},
            "links": {"driver": "../drivers/amdgpu"},
        },
    },
    "files": {
        "proc/driver/nvidia/gpus/0000:81:00.0/information": "GPU UUID: GPU-aa\nDevice Minor: 0\n",
        "proc/driver/nvidia/capabilities/gpu0/mig/gi7/access": "DeviceFileMinor: 66\n",
        "proc/driver/nvidia/capabilities/gpu0/mig/gi7/ci0/access": "DeviceFileMinor: 67\n",
        f"{NODES}/1/properties": "location_id 3072\ndrm_render_minor 128\n",
        f"{NODES}/2/properties": f"location_id {1 << 28 | 3072}\ndrm_render_minor 129\n",
    },
}  # fmt: skip


@pytest.mark.parametrize(("name", "count", "files"), [
    ("CUSTOM_MIG", 1, ["/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap66", "/dev/nvidia-caps/nvidia-cap67",
                       "/dev/nvidiactl", "/dev/nvidia-uvm"]),
    ("CUSTOM_XCP_DPX_NPS1", 1, ["/dev/dri/renderD128", "/dev/kfd"]),
    ("CUSTOM_XCP_DPX_NPS1", 2, ["/dev/dri/renderD128", "/dev/kfd", "/dev/dri/renderD129"]),
])  # fmt: skip
def test_files_of_parts_reach_the_container(tmp_path: Path, name: str, count: int, files: list[str]) -> None:
    """From the machine's files to the request to Docker, through the operator's lines and the plan."""
    found = discover(build(tmp_path, {**PLAIN, **TREE}), process_limits=False)
    lines = ('{"part": "*"}', '{"vendor_id": "*", "resource_class": "CUSTOM_WHOLE"}')
    topology = replace(found, devices=device_spec.given(found.devices, map(device_spec.parse, lines)))
    request = DeviceRequest("part", count, (DeviceMatch(resource_class=name),))
    answer = plan(topology, Usage(), PlacementRequest(1, 0, devices=(request,)))
    assert isinstance(answer, Plan), answer
    shared = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/kfd")
    given = passthrough(ContainerDevices(answer.devices, topology.devices), DeviceFacts(shared_files=shared))
    assert isinstance(given, Passthrough)
    body: dict[str, Any] = {"HostConfig": {}}
    given.apply(body)
    assert body["HostConfig"]["Devices"] == [
        {"PathOnHost": file, "PathInContainer": file, "CgroupPermissions": "rwm"} for file in files
    ]


@pytest.mark.parametrize(("offered", "runtime", "default", "value"), [
    pytest.param((GPU,), "nvidia", "runc", "void", id="its-own-runtime"),
    pytest.param((GPU,), None, "nvidia", "void", id="the-default-runtime"),
    pytest.param((GPU,), None, "runc", None, id="another-runtime"),
    pytest.param((MIG,), None, "nvidia", "void", id="parts-of-gpus"),
    pytest.param((RNG,), None, "nvidia", None, id="gpus-are-not-given-by-claims"),
    pytest.param((replace(CARD, address="nvidia.com/gpu=0"),), None, "nvidia", "void", id="gpus-by-cdi"),
])
def test_no_gpu_without_a_claim(
    offered: tuple[Device, ...], runtime: str | None, default: str, value: str | None
) -> None:
    answer = passthrough(devices(offered=offered), replace(NVIDIA, default_runtime=default), runtime)
    assert answer == Passthrough(environment={} if value is None else {"NVIDIA_VISIBLE_DEVICES": value})


def test_variables_of_the_engine_s_cdi() -> None:
    """The engine sets them for the first process only: a command that is run later has those of the container."""
    facts = DeviceFacts(engine_cdi=True, cdi=CdiDevices({
        name: CdiDevice(name, "a", Edits((node("/dev/a"),), {"OWN": "1"}, others=("intelRdt",)), COMMON)
        for name in (CARD.address, CARD_1.address)
    }))  # fmt: skip
    answer = passthrough(devices(CARD, HOOKED), facts)
    assert answer == Passthrough(
        cdi=(CARD.address, HOOKED.address),
        environment={"LIBRARY": "/opt", "OWN": "1", "ZUN_DEVICES": "x=vendor.com/card=0,vendor.com/card=hooked"},
    )
    assert isinstance(answer, Passthrough)
    assert answer.environment["LIBRARY"] == "/opt"
    body: dict[str, Any] = {"HostConfig": {}, "Env": ["OWN=user", "OTHER=user"]}
    answer.apply(body)
    assert body["Env"][:3] == ["OTHER=user", "LIBRARY=/opt", "OWN=1"]


def test_cdi_of_the_engine() -> None:
    answer = passthrough(devices(CARD, HOOKED), DeviceFacts(engine_cdi=True))
    assert answer == Passthrough(
        cdi=(CARD.address, HOOKED.address), environment={"ZUN_DEVICES": "x=vendor.com/card=0,vendor.com/card=hooked"}
    )


def test_cdi_edits() -> None:
    answer = passthrough(devices(CARD, CARD_1), DeviceFacts(cdi=CDI))
    assert answer == Passthrough(
        nodes=(DeviceNode("/dev/card", "/dev/card0", "rw"), node("/dev/card1")),
        environment={"LIBRARY": "/opt", "ZUN_DEVICES": "x=vendor.com/card=0,vendor.com/card=1"},
        mounts=(RuntimeMount("bind", "/opt", "/opt", read_only=True),),
        gids=(44,),
    )


@pytest.mark.parametrize(("given", "facts", "runtime", "problem"), [
    pytest.param(
        devices(HOOKED), DeviceFacts(cdi=CDI), None,
        r"vendor.com/card=hooked needs hook createContainer \(/bin/hook\), which only Docker's own CDI", id="hook",
    ),
    pytest.param(devices(CARD), DeviceFacts(), None, "described by no file in /etc/cdi", id="no-file"),
    pytest.param(devices(UNBOUND), DeviceFacts(), None, "bind the device to a driver", id="no-driver"),
    pytest.param(
        devices(NOTHING, offered=(NOTHING,)), DeviceFacts(), None,
        "its driver igb_uio gives no file under /dev and no network interface", id="network-card-without-an-interface",
    ),
    pytest.param(
        devices(RNG, offered=()), DeviceFacts(), None, r"device /dev/hwrng \(x\) is gone from the host", id="gone"
    ),
    pytest.param(
        devices(GPU), replace(NVIDIA, gpus={}), None, "the UUID of GPU 0000:81:00.0 is not in", id="no-uuid"
    ),
    pytest.param(
        devices(NAMELESS), NVIDIA, None,
        "the UUID of MIG instance 0000:81:00.0/gi2/ci0 is unknown.*install nvidia-ml-py", id="part-without-uuid",
    ),
    pytest.param(devices(GPU), NVIDIA, "kata", "needs the runtime nvidia, and the container asks for kata", id="kata"),
    pytest.param(
        devices(CARD),
        mounting(CdiMount("/a", "/a", ("noexec",))),
        None, "mounts /a with option noexec", id="mount-option",
    ),
    pytest.param(
        devices(CARD),
        mounting(CdiMount("/a", "/a", (), "tmpfs")),
        None, "mounts /a with type tmpfs", id="mount-type",
    ),
])
def test_refused(given: ContainerDevices, facts: DeviceFacts, runtime: str | None, problem: str) -> None:
    answer = passthrough(given, facts, runtime)
    assert isinstance(answer, str)
    assert re.search(problem, answer)


def test_body() -> None:
    given = Passthrough(
        nodes=(DeviceNode("/dev/card", "/dev/card0", "rw"),),
        cdi=("vendor.com/card=0",),
        environment={"ZUN_DEVICES": "card=vendor.com/card=0", "LIBRARY": "/opt"},
        gids=(44,),
        runtime="nvidia",
        locks_memory=True,
        gpus=("GPU-aa",),
    )
    body: dict[str, Any] = {"Env": ["A=b", "LIBRARY=/home", "ZUN_DEVICES=all"], "HostConfig": {"Runtime": "runc"}}
    body["HostConfig"]["Ulimits"] = [{"Name": name, "Soft": 1, "Hard": 1} for name in ("nofile", "memlock")]
    given.apply(body)
    assert body == {
        "Env": ["A=b", "ZUN_DEVICES=card=vendor.com/card=0", "LIBRARY=/opt"],
        "HostConfig": {
            "Devices": [{"PathOnHost": "/dev/card0", "PathInContainer": "/dev/card", "CgroupPermissions": "rw"}],
            "DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["vendor.com/card=0"]}],
            "GroupAdd": ["44"],
            "Runtime": "nvidia",
            "Ulimits": [{"Name": "nofile", "Soft": 1, "Hard": 1}, {"Name": "memlock", "Soft": -1, "Hard": -1}],
        },
    }


@pytest.mark.parametrize(("before", "after"), [
    ({}, {}),
    ({"Env": ["A=b"]}, {"Env": ["A=b"]}),
    ({"Env": ["ZUN_DEVICES"]}, {"Env": ["ZUN_DEVICES"]}),
])
def test_no_devices_change_no_body(before: dict[str, Any], after: dict[str, Any]) -> None:
    body = {**before, "HostConfig": {}}
    Passthrough().apply(body)
    assert body == {**after, "HostConfig": {}}


def test_what_docker_was_asked_for_is_read_back() -> None:
    given = Passthrough(
        nodes=(DeviceNode("/dev/card", "/dev/card0"),), cdi=("vendor.com/card=0",), gpus=("GPU-aa", "GPU-bb"),
        runtime="nvidia", environment={"NVIDIA_VISIBLE_DEVICES": "GPU-aa,GPU-bb"},
    )
    body: dict[str, Any] = {"HostConfig": {}}
    given.apply(body)
    inspected = {"HostConfig": body["HostConfig"], "Config": {"Env": body["Env"]}}
    assert configured_parts(inspected) == given.parts == {"/dev/card0", "vendor.com/card=0", "GPU-aa", "GPU-bb"}
    assert configured_parts({"HostConfig": {"Devices": None}, "Config": {}}) == frozenset()


def test_variable_round_trip() -> None:
    given = ContainerDevices((
        GivenDevice("gpu", GPU.address), GivenDevice("card", CARD.address), GivenDevice("gpu", GPU_2.address),
    ))
    text = told(given)
    assert text == "gpu=0000:81:00.0,0000:c1:00.0 card=vendor.com/card=0"
    assert told_in(["A=b", f"ZUN_DEVICES={text}"]) == (
        GivenDevice("gpu", GPU.address), GivenDevice("gpu", GPU_2.address), GivenDevice("card", CARD.address),
    )
    assert told_in(None) == told_in(["A=b"]) == ()


@pytest.mark.parametrize(("line", "kind", "number", "access", "admitted"), [
    ("a *:* rwm", "b", (7, 0), "rwm", True),
    ("c 10:183 rwm", "c", (10, 183), "rw", True),
    ("c 10:183 r", "c", (10, 183), "rw", False),
    ("c 10:* rwm", "c", (10, 229), "rwm", True),
    ("c 10:183 rwm", "c", (10, 229), "r", False),
    ("b 10:183 rwm", "c", (10, 183), "r", False),
])
def test_rules_of_a_device_group(line: str, kind: str, number: tuple[int, int], access: str, admitted: bool) -> None:
    rule = Rule.parse(line)
    assert str(rule) == line
    assert rule.admits(kind, *number, access) == admitted
