# SPDX-License-Identifier: Apache-2.0
"""The machine as zun sees it, against what numactl, lscpu and sysfs say."""

import pathlib
import platform

from zun.container.docker.kernel import locate
from zun.tests.machines import kernel
from zun.topology import CpuSet


def test_the_machine_is_what_the_system_says(machine, record_property):
    nodes = kernel.numactl_hardware()
    assert [cell.id for cell in machine.cells] == sorted(nodes)
    for cell in machine.cells:
        seen = nodes[cell.id]
        assert (cell.cpus, cell.memory_mib, dict(cell.distances)) == (seen.cpus, seen.size, seen.distances)
        record_property(f"node {cell.id}", f"CPUs {cell.cpus}, {cell.memory_mib} MiB, distances {seen.distances}")
    cores = {core for cell in machine.cells for core in cell.siblings}
    assert cores == kernel.lscpu("CORE")
    record_property("cores", " ".join(str(core) for core in sorted(cores, key=tuple)))
    assert set(machine.sockets) == kernel.lscpu("SOCKET")
    record_property("sockets", " ".join(str(socket) for socket in machine.sockets))
    assert machine.cpus == CpuSet(pathlib.Path("/sys/devices/system/cpu/online").read_text().strip())
    notes = [note for note in machine.notes if not note.startswith("/dev/nvme")]  # test_devices.py looks at these
    assert (str(machine.offline), str(machine.isolated), notes) == ("", "", [])


def test_the_caches_are_what_sysfs_says(machine, record_property):
    found = {
        CpuSet((path.parent / "shared_cpu_list").read_text().strip())
        for path in pathlib.Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cache/index*/level")
        if path.read_text().strip() == "3"
    }
    expected = {group & cell.cpus for group in found for cell in machine.cells if group & cell.cpus}
    assert {group for cell in machine.cells for group in cell.l3} == expected
    record_property("L3 caches", " ".join(str(group) for group in sorted(found, key=tuple)) or "none")


def test_the_api_shows_this_machine(containers, machine, allinone, record_property):
    shown = containers.topology()
    assert [cell["id"] for cell in shown["cells"]] == [cell.id for cell in machine.cells]
    for cell, seen in zip(machine.cells, shown["cells"], strict=True):
        assert (seen["cpus"], seen["memory_mib"]) == (str(cell.cpus), cell.memory_mib)
        assert seen["cores"] == [str(core) for core in cell.siblings]
        assert seen["distances"] == {str(node): distance for node, distance in cell.distances.items()}
    assert (shown["shared"], shown["claims"]) == (str(machine.cpus), [])
    record_property("all-in-one ready after", f"{allinone.start_seconds:.1f} s")


def test_control_groups_are_version_2(engine, record_property):
    """The other tests go through the part of ``kernel_view`` for this version; nothing else could be read."""
    assert pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists()
    groups, mounts = (pathlib.Path("/proc/self", name).read_text() for name in ("cgroup", "mountinfo"))
    mount, _ = locate("cpuset", groups, mounts)
    assert (mount.unified, str(mount.mountpoint)) == (True, "/sys/fs/cgroup")
    info = engine.info()
    assert info["CgroupVersion"] == "2"
    record_property("kernel", platform.release())
    record_property("Docker", f"{info['ServerVersion']}, cgroup driver {info['CgroupDriver']}")
    record_property("cgroup version", info["CgroupVersion"])
