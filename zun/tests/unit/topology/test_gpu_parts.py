# SPDX-License-Identifier: Apache-2.0
"""Parts of GPUs in made trees of both vendors: what they are, and what each container gets."""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest

from zun.tests.unit.topology.build import cell, host
from zun.tests.unit.topology.hosts import proof_size
from zun.tests.unit.topology.machines import build, changed
from zun.topology import HostTopology, PlacementRequest, Plan, Usage, discover, plan
from zun.topology.device_request import DeviceMatch, DeviceRequest
from zun.topology.devices import Device, DeviceType
from zun.topology.files import Tree
from zun.topology.gpu_parts import part_class, parts

H100, OTHER, MI300 = "0000:81:00.0", "0000:c1:00.0", "0000:0c:00.0"
CAPABILITIES = "proc/driver/nvidia/capabilities"
NODES = "sys/class/kfd/kfd/topology/nodes"


def access(minor: int) -> str:
    return f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n"


def mig(gpu: int, instances: Mapping[int, tuple[int, Mapping[int, int]]]) -> dict[str, str]:
    """Return the files of a GPU's MIG instances: GPU instance -> its minor, and the minor of each compute instance."""
    top = f"{CAPABILITIES}/gpu{gpu}/mig"
    return {
        **{f"{top}/gi{gi}/access": access(minor) for gi, (minor, _) in instances.items()},
        **{f"{top}/gi{gi}/ci{ci}/access": access(own) for gi, (_, cis) in instances.items() for ci, own in cis.items()},
    }


def kfd(*gpus: tuple[int, int]) -> dict[str, str]:
    """Return KFD's nodes of GPUs, each with its place and its minor number, behind the node of the CPUs."""
    told = ("cpu_cores_count 8\nlocation_id 0\ndrm_render_minor 0\n",
            *(f"simd_count 152\ndomain 0\nlocation_id {place}\ndrm_render_minor {minor}\n" for place, minor in gpus))
    return {f"{NODES}/{number}/properties": text for number, text in enumerate(told)}


NVIDIA = {
    "path": ("pci0000:80", "0000:80:01.0"),
    "files": {"vendor": "0x10de\n", "device": "0x2330\n", "class": "0x030200\n", "numa_node": "1\n"},
    "links": {"driver": "../drivers/nvidia"},
}
AMD = {
    "files": {"vendor": "0x1002\n", "device": "0x74a1\n", "class": "0x120000\n", "numa_node": "1\n",
              "drm/card1/dev": "226:1\n", "drm/renderD128/dev": "226:128\n"},
    "links": {"driver": "../drivers/amdgpu"},
}  # fmt: skip
MIG = {
    f"proc/driver/nvidia/gpus/{H100}/information": "Model: NVIDIA H100\nGPU UUID: GPU-aa\nDevice Minor: \t 3\n",
    f"proc/driver/nvidia/gpus/{OTHER}/information": "Model: NVIDIA H100\nGPU UUID: GPU-bb\nDevice Minor: 1\n",
    f"{CAPABILITIES}/mig/config": access(1),
    f"{CAPABILITIES}/mig/monitor": access(2),
    **mig(3, {1: (12, {0: 13}), 5: (48, {0: 49, 1: 50}), 9: (84, {})}),
    **mig(1, {2: (165, {0: 166})}),
}


def partitioned(mode: str | None, memory: str | None = "NPS1") -> dict[str, object]:
    told = {"current_compute_partition": mode, "current_memory_partition": memory}
    files = {**AMD["files"], **{name: f"{text}\n" for name, text in told.items() if text is not None}}
    return {**AMD, "files": files}


@pytest.fixture
def found(tmp_path):
    def discovered(devices, files) -> HostTopology:
        return discover(build(tmp_path, {**changed(files=files), "devices": devices}), process_limits=False)

    return discovered


def test_mig_instances_are_parts_of_their_gpu(found):
    """A GPU instance without a compute instance is none, and the capabilities of the machine are no part."""
    topology = found({H100: NVIDIA, OTHER: NVIDIA}, MIG)
    whole = Device(
        H100, "10de", "2330", "030200", cell=1, path=("pci0000:80", "0000:80:01.0"), driver="nvidia",
        nodes=("/dev/nvidia3",),
    )  # fmt: skip
    part = replace(whole, type=DeviceType.PART, physical=H100, resource_class="CUSTOM_MIG")
    caps = "/dev/nvidia-caps/nvidia-cap"
    assert [device for device in topology.devices if H100 in (device.address, device.physical)] == [
        whole,
        replace(part, address=f"{H100}/gi1/ci0", nodes=("/dev/nvidia3", f"{caps}12", f"{caps}13")),
        replace(part, address=f"{H100}/gi5/ci0", nodes=("/dev/nvidia3", f"{caps}48", f"{caps}49")),
        replace(part, address=f"{H100}/gi5/ci1", nodes=("/dev/nvidia3", f"{caps}48", f"{caps}50")),
    ]
    assert topology.devices[-1].nodes == ("/dev/nvidia1", f"{caps}165", f"{caps}166")
    assert topology.notes == ()


def test_whole_gpu_has_the_files_of_its_mig_instances(found):
    files = {**MIG, **{f"dev/nvidia-caps/nvidia-cap{minor}": "" for minor in (1, 2, 12, 13, 48, 165)}}
    caps = "/dev/nvidia-caps/nvidia-cap"
    assert found({H100: NVIDIA}, files).devices[0].nodes == (f"{caps}12", f"{caps}13", f"{caps}48", "/dev/nvidia3")


@pytest.mark.parametrize("files", [
    pytest.param({}, id="no-driver"),
    pytest.param({**MIG, f"proc/driver/nvidia/gpus/{H100}/information": "Model: NVIDIA H100\n"}, id="no-minor"),
    pytest.param({**MIG, **{f"{CAPABILITIES}/gpu3/mig/gi{gi}/access": "?" for gi in (1, 5)}}, id="not-understood"),
])
def test_no_mig_instance_without_its_files(found, files):
    assert [device.type for device in found({H100: NVIDIA}, files).devices] == [DeviceType.PCI]


@pytest.mark.parametrize(("mode", "memory", "profile", "name"), [
    ("DPX", "NPS1", "dpx_nps1", "CUSTOM_XCP_DPX_NPS1"),
    ("CPX", "NPS4", "cpx_nps4", "CUSTOM_XCP_CPX_NPS4"),
    ("TPX", "UNKNOWN", "tpx", "CUSTOM_XCP_TPX"),
    (None, None, None, "CUSTOM_XCP"),
])
def test_partitions_are_parts_of_their_gpu(found, mode, memory, profile, name):
    place = 0xC00
    topology = found({MI300: partitioned(mode, memory)}, kfd((1 << 28 | place, 129), (place, 128), (0xD00, 140)))
    whole = Device(
        MI300, "1002", "74a1", "120000", cell=1, path=("pci0000:00",), driver="amdgpu",
        nodes=("/dev/dri/card1", "/dev/dri/renderD128", "/dev/dri/renderD129"),
    )  # fmt: skip
    part = replace(whole, type=DeviceType.PART, physical=MI300, profile=profile, resource_class=name)
    assert topology.devices == (
        replace(whole, path=topology.devices[0].path),
        *(replace(part, address=f"{MI300}/xcp{number}", nodes=(f"/dev/dri/renderD{128 + number}",),
                  path=topology.devices[0].path) for number in (0, 1)),
    )  # fmt: skip
    assert topology.notes == ()


@pytest.mark.parametrize(("mode", "gpus"), [
    pytest.param("SPX", ((0xC00, 128),), id="one-piece"),
    pytest.param(None, ((0xC00, 128),), id="a-gpu-that-cannot-be-divided"),
    pytest.param("SPX", (), id="one-piece-without-kfd"),
    pytest.param("UNKNOWN", (), id="unknown-mode"),
])
def test_gpu_in_one_piece_has_no_parts(found, mode, gpus):
    topology = found({MI300: partitioned(mode)}, kfd(*gpus))
    assert [(device.address, device.nodes[-1]) for device in topology.devices] == [(MI300, "/dev/dri/renderD128")]
    assert topology.notes == ()


@pytest.mark.parametrize("gpus", [(), ((0xC00, 128),)], ids=["no-kfd", "kfd-tells-one"])
def test_gpu_in_partitions_without_kfd_is_left_out(found, gpus):
    topology = found({MI300: partitioned("CPX")}, kfd(*gpus))
    assert topology.devices == ()
    assert topology.notes == (
        f"GPU {MI300} is left out: it is in partitions (cpx_nps1), and /sys/class/kfd does not tell their files. Use a "
        "kernel with KFD (CONFIG_HSA_AMD), or make the GPU one piece (SPX)",
    )


def test_earlier_kernels_number_partitions_by_functions(found):
    """A function that the machine has is a device of its own."""
    gpus = kfd((0xC00, 128), (0xC01, 129), (0xC02, 130))
    topology = found({MI300: partitioned("CPX"), "0000:0c:00.2": AMD}, gpus)
    assert {device.address: device.nodes for device in topology.devices if device.type is DeviceType.PART} == {
        f"{MI300}/xcp0": ("/dev/dri/renderD128",),
        f"{MI300}/xcp1": ("/dev/dri/renderD129",),
    }


def test_memory_of_a_gpu_is_memory_of_its_parts(tmp_path):
    root = build(tmp_path, changed(files=MIG))
    gpu = Device(H100, "10de", cell=1, memory_node=8, links=(OTHER,), interfaces=("ib0",))
    found = [(each.cell, each.memory_node, each.links, each.interfaces) for each in parts(Tree(root), gpu, ())]
    assert found == [(1, 8, (), ())] * 3


def test_virtual_function_has_no_parts(tmp_path):
    root = build(tmp_path, changed(files=MIG))
    assert [*parts(Tree(root), Device(H100, "10de", type=DeviceType.VF, physical="0000:81:00.7"), ())] == []


@pytest.mark.parametrize(("profile", "name"), [
    ("1g.10gb", "CUSTOM_MIG_1G_10GB"),
    ("1g.10gb+me", "CUSTOM_MIG_1G_10GB_ME"),
    ("1g.24gb-me", "CUSTOM_MIG_1G_24GB_NO_ME"),
    ("1g.24gb+me.all", "CUSTOM_MIG_1G_24GB_ME_ALL"),
    ("1c.2g.20gb", "CUSTOM_MIG_1C_2G_20GB"),
    (None, "CUSTOM_MIG"),
])
def test_class_of_a_profile(profile, name):
    assert part_class("MIG", profile) == name


@pytest.mark.parametrize("seed", range(proof_size(12)))
def test_whole_and_parts_are_never_held_together(seed):
    """Containers come and go while GPUs are divided, put together and left out by the operator's lines."""
    rng = random.Random(seed)
    gpus = [Device(f"0000:{bus}:00.0", "10de", cell=0, resource_class="CUSTOM_ANY") for bus in ("01", "02", "03")]
    every = [
        replace(gpu, address=f"{gpu.address}/gi{number}/ci0", type=DeviceType.PART, physical=gpu.address)
        for gpu in gpus for number in (1, 2, 3)
    ]  # fmt: skip
    machine, usage, given = host(cell(0, "0 1 2 3 4 5 6 7")), Usage(), Counter()
    matches = [DeviceMatch(resource_class="CUSTOM_ANY"), DeviceMatch(type=DeviceType.PART), DeviceMatch("10de")]
    for step in range(60):
        machine = replace(machine, devices=tuple(each for each in (*gpus, *every) if rng.random() < 0.8))
        if rng.random() < 0.4 and usage.owners:
            usage = usage.without(rng.choice(usage.owners))
        request = DeviceRequest("gpu", rng.choice((1, 1, 2)), (rng.choice(matches),))
        answer = plan(machine, usage, PlacementRequest(0.1, 0, cpu_policy="shared", devices=(request,)))
        if isinstance(answer, Plan):
            usage = usage.with_claim(f"c{step}", Plan.from_dict(answer.to_dict()))
            given.update("/" in each.address for each in answer.devices)
        held = [each for _, claim in usage for each in claim.devices]
        addresses = [each.address for each in held]
        assert len({*addresses}) == len(addresses)
        assert not {each.physical for each in held} & {*addresses}
        assert not {each.address for each in usage.free_devices(machine)} & {*addresses}
    assert given[True]
