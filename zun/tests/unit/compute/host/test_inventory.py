# SPDX-License-Identifier: Apache-2.0
import math
from dataclasses import replace

import pytest

from zun.common import exceptions
from zun.compute.host.inventory import inventory
from zun.container.fake import DEFAULT_FACTS
from zun.tests.functional.cloud import machine
from zun.tests.unit.scheduler.hosts import configuration
from zun.topology import CpuSet
from zun.topology.devices import Device, DeviceType

MACHINE = replace(machine(), offline=CpuSet("8-9"))
FACTS = replace(DEFAULT_FACTS, labels={"disk": "hdd", "os": "linux"}, runtimes=["crun", "runc"])


def found(**options):
    settings = {"reserved_host_memory_mb": 0, **options}
    return inventory(configuration(**{f"compute__{name}": value for name, value in settings.items()}), MACHINE, FACTS)


def test_without_settings_the_machine_is_as_it_was_discovered():
    assert found(cpu_allocation_ratio=1.0).topology == MACHINE


def test_the_operator_s_settings_are_part_of_the_topology():
    topology = found(
        cpu_dedicated_set="2-7,^5",
        cpu_shared_set="0-1",
        reserved_host_cpus="7",
        reserved_host_memory_mb=1000,
        cpu_allocation_ratio=4.0,
        ram_allocation_ratio=1.5,
    ).topology
    assert topology == MACHINE.configured(
        reserved_cpus=CpuSet("7"),
        dedicated_set=CpuSet("2-4,6-7"),
        shared_set=CpuSet("0-1"),
        reserved_memory_mib={0: 500, 1: 500},
        cpu_allocation_ratio=4.0,
        ram_allocation_ratio=1.5,
    )
    assert (topology.dedicated_cpus, topology.pool_cpus) == (CpuSet("2-4,6"), CpuSet("0-1"))


def test_columns_are_what_machine_runtime_and_operator_say():
    labels = {"disk": "ssd", "rack": "r1"}
    told = found(labels=labels, availability_zone="z1", disk_allocation_ratio=2.0, enable_cpu_pinning=False)
    assert told.columns == {
        "cpus": 8,
        "mem_total": 8192,
        "disk_total": 100,
        "disk_quota_supported": False,
        "disk_allocation_ratio": 2.0,
        "enable_cpu_pinning": False,
        "availability_zone": "z1",
        "labels": {"disk": "ssd", "os": "linux", "rack": "r1"},
        "runtimes": ["crun", "runc"],
        "architecture": "x86_64",
        "os_type": "linux",
        "os": "In-memory",
        "kernel_version": "6.1.0",
        "traits": ["HW_CPU_X86_AVX", "HW_CPU_X86_AVX2", "HW_CPU_X86_SSE2"],
    }
    assert FACTS.labels == {"disk": "hdd", "os": "linux"}


def test_reserved_huge_pages_are_in_no_inventory():
    told = found(reserved_huge_pages=["node:0,size:2MB,count:3"]).topology
    assert told.notes == ("[compute] reserved_huge_pages keeps 3 pages of 2048 KiB of memory node 0, which has 0",)


@pytest.mark.parametrize(
    ("options", "facts", "neutron", "names"),
    [
        pytest.param({}, {}, False, set(), id="nothing-special"),
        pytest.param({"cinder__enabled": True}, {}, False, {"CUSTOM_ZUN_CINDER"}, id="cinder"),
        pytest.param({}, {}, True, {"CUSTOM_ZUN_NEUTRON"}, id="neutron"),
        pytest.param({}, {"runs_healthchecks": False}, False, {"CUSTOM_ZUN_NO_HEALTHCHECKS"}, id="no-health-checks"),
    ],
)
def test_traits_of_what_the_host_can_use(options, facts, neutron, names):
    told = inventory(configuration(**options), machine(), replace(DEFAULT_FACTS, **facts), neutron=neutron)
    assert {each for each in told.columns["traits"] if each.startswith("CUSTOM_")} == names


@pytest.mark.parametrize(
    ("threads", "flags", "configured", "names"),
    [
        (1, (), (), []),
        (1, ("avx2", "tsc"), (), ["HW_CPU_X86_AVX2"]),
        (2, (), (), ["HW_CPU_HYPERTHREADING"]),
        (1, ("avx2",), ("STORAGE_DISK_SSD", "CUSTOM_RACK_7", "HW_CPU_X86_AVX2"),
         ["CUSTOM_RACK_7", "HW_CPU_X86_AVX2", "STORAGE_DISK_SSD"]),
    ],
)  # fmt: skip
def test_traits_are_those_of_the_cpus_and_the_operator_s(threads, flags, configured, names):
    facts = replace(FACTS, cpu_flags=frozenset(flags))
    told = inventory(configuration(compute__traits=list(configured)), machine(threads=threads), facts)
    assert told.columns["traits"] == names


def test_a_host_of_no_zone_is_in_the_default_one():
    assert found().columns["availability_zone"] == "nova"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        pytest.param(
            {"cpu_dedicated_set": "2-x"}, "[compute] cpu_dedicated_set = 2-x: cannot read '2-x'", id="not-a-list"
        ),
        pytest.param(
            {"reserved_huge_pages": ["node:0,size:1GB"]},
            "[compute] reserved_huge_pages = 'node:0,size:1GB' must have the members node, size and count",
            id="not-all-members",
        ),
        pytest.param({"cpu_shared_set": "5-2"}, "[compute] cpu_shared_set = 5-2: the range '5-2'", id="backwards"),
        pytest.param(
            {"reserved_host_cpus": "0-99999999"}, "[compute] reserved_host_cpus = 0-99999999: CPU id", id="a-slip"
        ),
        pytest.param(
            {"cpu_shared_set": "1,^1"},
            "[compute] cpu_shared_set must name at least one CPU that it does not exclude",
            id="excludes-all-it-includes",
        ),
        pytest.param(
            {"cpu_dedicated_set": "2-5", "cpu_shared_set": "0-3"},
            "CPUs 2-3 are in both cpu_dedicated_set and cpu_shared_set; leave them in one",
            id="in-both-sets",
        ),
        pytest.param(
            {"traits": ["CUSTOM_A", "HW_AVX2"]}, "[compute] traits: HW_AVX2 is not a trait of os-traits", id="no-trait"
        ),
        *(
            pytest.param({name: math.nan}, f"[compute] {name} must be a number, got nan")
            for name in ("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio")
        ),
    ],
)
def test_a_setting_that_cannot_be_is_named_with_its_option(options, text):
    with pytest.raises(exceptions.Misconfigured) as caught:
        found(**options)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    ("option", "text"), [("cpu_dedicated_set", "8-9"), ("cpu_shared_set", "8"), ("reserved_host_cpus", "64")]
)
def test_a_set_of_cpus_that_are_not_there_leaves_a_note(option, text):
    """CPUs go offline, and the service has to start without them."""
    topology = found(**{option: text}).topology
    assert topology.notes == (f"[compute] {option} = {text}: none of these CPUs is online here (0-7 are)",)
    assert topology.dedicated_cpus == CpuSet("" if option == "cpu_dedicated_set" else "0-7")
    assert topology.pool_cpus == CpuSet("" if option == "cpu_shared_set" else "0-7")


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_set_is_none(text):
    topology = found(cpu_dedicated_set=text, cpu_shared_set=text, reserved_host_cpus=text).topology
    assert (topology.dedicated_set, topology.shared_set, topology.reserved) == (None, None, CpuSet(""))


def test_cpus_that_are_offline_now_may_be_in_a_set():
    assert found(cpu_dedicated_set="4-9").topology.dedicated_cpus == CpuSet("4-7")


@pytest.mark.parametrize(("found_by_runtime", "offered"), [
    pytest.param(None, ["/dev/hwrng", "v.com/c=0", "v.com/c=1"], id="the-runtime-does-not-tell"),
    pytest.param({"v.com/c=1", "v.com/c=2"}, ["/dev/hwrng", "v.com/c=1"], id="one-is-refused"),
    pytest.param(set(), ["/dev/hwrng"], id="no-file-is-read"),
])  # fmt: skip
def test_a_cdi_device_that_the_runtime_lacks(found_by_runtime, offered):
    rng = Device("/dev/hwrng", type=DeviceType.PATH, nodes=("/dev/hwrng",))
    cards = [Device(f"v.com/c={each}", type=DeviceType.CDI, nodes=("/dev/card",) * (1 - each)) for each in (0, 1)]
    specs = ['{"cdi": "*/c=*", "resource_class": "CUSTOM_C"}', '{"path": "/dev/*", "resource_class": "CUSTOM_X"}']
    names = None if found_by_runtime is None else frozenset(found_by_runtime)
    machine_with = replace(MACHINE, devices=(rng, *cards))
    facts = replace(FACTS, cdi_names=names)
    topology = inventory(configuration(devices__device_spec=specs), machine_with, facts).topology
    assert [device.address for device in topology.devices] == offered
    notes = [note for note in topology.notes if "Docker's own CDI has not found it" in note]
    assert len(notes) == 3 - len(offered)


def test_a_device_is_offered_once_with_a_note():
    disk = Device("0000:81:00.0", class_id="010802", nodes=("/dev/nvme0n1",))
    files = [Device(each, type=DeviceType.PATH, nodes=(each,)) for each in ("/dev/nvme0n1", "/dev/hwrng")]
    specs = ['{"class": "01"}', '{"path": "/dev/*", "resource_class": "CUSTOM_X"}']
    machine_with = replace(MACHINE, devices=(disk, *files))
    topology = inventory(configuration(devices__device_spec=specs), machine_with, FACTS).topology
    assert topology.devices == (disk, replace(files[1], resource_class="CUSTOM_X"))
    assert topology.notes[-1].startswith("device /dev/nvme0n1 is not offered: device 0000:81:00.0, which is,")


@pytest.mark.parametrize(("specs", "offered", "notes"), [
    pytest.param(['{"part": "1g.*"}'], [1], 1, id="a-profile"),
    pytest.param(['{"part": "*"}'], [1, 2], 1, id="every-part"),
    pytest.param(['{"vendor_id": "10de"}'], [0], 0, id="whole-gpus"),
])  # fmt: skip
def test_parts_of_unknown_profile_leave_a_note(specs, offered, notes):
    gpu = Device("0000:81:00.0", "10de", "2330", "030200")
    part = replace(gpu, type=DeviceType.PART, physical=gpu.address)
    parts = (replace(part, address=f"{gpu.address}/gi{n}/ci0", profile=each) for n, each in ((1, "1g.10gb"), (2, None)))
    devices = (gpu, *parts)
    conf = configuration(devices__device_spec=specs)
    topology = inventory(conf, replace(MACHINE, devices=devices), FACTS).topology
    assert topology.devices == tuple(devices[number] for number in offered)
    found = [note for note in topology.notes if "install nvidia-ml-py" in note]
    assert len(found) == notes
    assert all(note.startswith("the profile of 0000:81:00.0/gi2/ci0 is unknown") for note in found)


def test_note_on_a_name_that_is_not_utf_8_can_be_written():
    machine = replace(MACHINE, notes=("/etc/cdi/a\udcff.json is left out",))
    assert inventory(configuration(), machine, FACTS).topology.notes == ("/etc/cdi/a?.json is left out",)


def test_shares_are_offered_and_what_cannot_be_shared_is_told():
    gpu, disk = Device("0000:81:00.0", "10de", "20b0", "030200"), Device("0000:82:00.0", "10de", "0a54", "010802")
    specs = ['{"vendor_id": "10de", "shared": 2, "resource_class": "CUSTOM_SLICE"}']
    machine_with = replace(MACHINE, devices=(gpu, disk))
    topology = inventory(configuration(devices__device_spec=specs), machine_with, FACTS).topology
    assert topology.devices == (replace(gpu, shared=2, resource_class="CUSTOM_SLICE"),)
    assert topology.notes[-1].startswith("device 0000:82:00.0 is not offered: containers cannot share it")
    specs.append('{"class": "03", "resource_class": "slice"}')
    with pytest.raises(exceptions.Misconfigured, match="resource_class CUSTOM_SLICE is for shared devices"):
        inventory(configuration(devices__device_spec=specs), machine_with, FACTS)


def test_a_spec_that_selects_no_device_leaves_a_note():
    card = Device("0000:81:00.0", "10de", "20b0", "030200")
    specs = ['[{"vendor_id": "10de"}, {"address": "0000:82:00.0"}]', '{"class": "03"}', '{"devname": "ens1"}']
    topology = inventory(configuration(devices__device_spec=specs), replace(MACHINE, devices=(card,)), FACTS).topology
    assert topology.devices == (card,)
    assert [note for note in topology.notes if "device_spec" in note] == [
        "[devices] device_spec: object 2 selects no device of this host (address 0000:82:00.0)",
        "[devices] device_spec: object 4 selects no device of this host (devname ens1)",
    ]
