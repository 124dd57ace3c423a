# SPDX-License-Identifier: Apache-2.0
import shutil

import pytest

from zun.tests.unit.compute.quiet.kernels import write
from zun.tests.unit.compute.quiet.resctrls import TOP, Kernel, caches
from zun.topology import CpuSet, HostTopology, discover
from zun.topology.cache_control import NO_CACHE_CONTROL, CacheControl
from zun.topology.files import Tree
from zun.topology.resctrl_files import cache_control, divided_caches, schemata_in

XEON = CacheControl(
    caches=(CpuSet("0-3"), CpuSet("4-7")), ways=17, way_kib=1024, least_ways=2, bandwidth=80, bandwidth_step=10,
    groups=3,
)  # fmt: skip


def found(root):
    """Return what containers may have, and the notes."""
    tree = Tree(root)
    return cache_control(tree), tree.notes


def test_machine_with_ways_and_bandwidth(tmp_path):
    caches(tmp_path)
    Kernel.mounted(tmp_path)
    assert found(tmp_path) == (XEON, [])


@pytest.mark.parametrize(
    ("mounted", "ways", "low"),
    [
        pytest.param({"shareable": 0xC0000}, 17, False, id="devices-write-into-two-high-ways"),
        pytest.param({"shareable": 0xF8000}, 15, False, id="devices-write-into-five-high-ways"),
        pytest.param({"shareable": 0x3}, 17, True, id="devices-write-into-two-low-ways"),
        pytest.param({"shareable": 0xF0}, 12, True, id="devices-write-into-the-low-middle"),
        pytest.param({"shareable": 0}, 17, False, id="devices-write-anywhere"),
        pytest.param({"shareable": 0, "least": 4}, 16, False, id="the-least-mask-has-four-ways"),
        pytest.param({"shareable": 0, "ways": 11, "least": 1}, 9, False, id="eleven-ways"),
        pytest.param({"shareable": 0, "ways": 16, "least": 1}, 14, False, id="sixteen-ways"),
    ],
)
def test_ways_that_stay_for_everybody_else(tmp_path, mounted, ways, low):
    caches(tmp_path)
    Kernel.mounted(tmp_path, **mounted)
    assert found(tmp_path)[0].ways == ways
    assert divided_caches(Tree(tmp_path)).kept_low is low


def test_all_ways_shared_with_devices_leave_bandwidth_alone(tmp_path):
    caches(tmp_path)
    Kernel.mounted(tmp_path, shareable=0xFFFFF)
    control, _ = found(tmp_path)
    assert (control.ways, control.bandwidth) == (0, 80)


@pytest.mark.parametrize(
    ("least", "step", "bandwidth", "multiple"),
    [(10, 10, 80, 10), (5, 5, 80, 5), (30, 10, 70, 30), (1, 8, 80, 8), (25, 10, 70, 30)],
)
def test_percentages_are_multiples_of_the_step(tmp_path, least, step, bandwidth, multiple):
    caches(tmp_path)
    Kernel.mounted(tmp_path, step=step)
    write(tmp_path, f"{TOP}/info/MB/min_bandwidth", str(least))
    control, _ = found(tmp_path)
    assert (control.bandwidth, control.bandwidth_step) == (bandwidth, multiple)


@pytest.mark.parametrize(("value", "noted"), [("2048", True), ("4294967295", True), (None, False)])
def test_bandwidth_without_percentages_is_not_limited(tmp_path, value, noted):
    """AMD counts eighths of a GB/s, a mount with mba_MBps counts MB/s."""
    caches(tmp_path)
    Kernel.mounted(tmp_path, bandwidth=value)
    control, notes = found(tmp_path)
    assert (control.ways, control.bandwidth) == (17, 0)
    assert notes == ([f"memory bandwidth is not limited: /{TOP}/schemata has no percentages, but MB values up to "
                      f"{value}"] if noted else [])  # fmt: skip


def test_resource_with_the_fewest_groups_decides(tmp_path):
    caches(tmp_path)
    Kernel.mounted(tmp_path, closids=16)
    write(tmp_path, f"{TOP}/info/MB/num_closids", "8")
    assert found(tmp_path)[0].groups == 7


def test_smallest_of_several_sizes_of_l3_counts(tmp_path):
    caches(tmp_path)
    Kernel.mounted(tmp_path)
    for cpu in range(4, 8):
        write(tmp_path, f"sys/devices/system/cpu/cpu{cpu}/cache/index3/size", "10240K")
    assert found(tmp_path)[0].way_kib == 512


def test_groups_of_other_programs_are_named(tmp_path):
    caches(tmp_path)
    kernel = Kernel.mounted(tmp_path)
    kernel.make(f"{TOP}/zun-6a0c")
    assert found(tmp_path) == (XEON, [])
    kernel.make(f"{TOP}/pqos")
    assert found(tmp_path) == (
        NO_CACHE_CONTROL, ["the L3 caches are not divided: /sys/fs/resctrl has control groups of other programs: pqos"]
    )  # fmt: skip


def test_mount_with_cdp_is_noted(tmp_path):
    caches(tmp_path)
    Kernel.mounted(tmp_path)
    for name in ("L3CODE", "L3DATA"):
        shutil.copytree(tmp_path / TOP / "info/L3", tmp_path / TOP / "info" / name)
    shutil.rmtree(tmp_path / TOP / "info/L3")
    assert found(tmp_path) == (
        NO_CACHE_CONTROL,
        ["the L3 caches are not divided: /sys/fs/resctrl is mounted with the option cdp. Mount it without the option"],
    )


@pytest.mark.parametrize(("flags", "noted"), [("fpu cat_l3 mba", True), ("fpu cdp_l3", False)])
def test_unmounted_resctrl_is_noted_where_it_would_help(tmp_path, flags, noted):
    caches(tmp_path)
    write(tmp_path, "proc/cpuinfo", f"processor\t: 0\nflags\t\t: {flags}")
    assert found(tmp_path) == (NO_CACHE_CONTROL, [])  # this kernel has no resctrl
    (tmp_path / TOP).mkdir(parents=True)
    assert found(tmp_path) == (
        NO_CACHE_CONTROL, ["the L3 caches are not divided: to give containers parts of them, mount -t resctrl resctrl "
                           "/sys/fs/resctrl"] if noted else [])  # fmt: skip


def test_machine_that_only_counts_gives_no_parts(tmp_path):
    caches(tmp_path)
    write(tmp_path, f"{TOP}/info/L3_MON/num_rmids", "64")
    assert found(tmp_path) == (NO_CACHE_CONTROL, [])


def test_discovery_finds_the_caches_whatever_limits_this_process(tmp_path):
    caches(tmp_path)
    Kernel.mounted(tmp_path)
    write(tmp_path, "proc/self/status", "Cpus_allowed_list:\t0-1\nMems_allowed_list:\t0")
    topology = discover(tmp_path)
    assert topology.cache_control == discover(tmp_path, process_limits=False).cache_control == XEON
    assert HostTopology.from_dict(topology.to_dict()).cache_control == XEON


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("    L3:0=fffff;1=3\n    MB:0= 100;1=  10", {"L3": {0: 0xFFFFF, 1: 3}, "MB": {0: 100, 1: 10}}),
        ("L2:0=ff\nSMBA:0=2048", {}),
    ],
)
def test_schemata(text, values):
    assert schemata_in(text) == values


@pytest.mark.parametrize("text", ["L3:0=xyz", "L3:", "MB:0", "MB:0=-1", "L3:a=f"])
def test_schemata_that_are_not_understood(text):
    with pytest.raises(ValueError):
        schemata_in(text)
