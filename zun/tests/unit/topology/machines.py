# SPDX-License-Identifier: Apache-2.0
"""Machines in a few lines, and the /sys and /proc they would have.

A description is a mapping:

``nodes``     node id -> {"cpus": list text, "kib": MemTotal, "distance": row, "pages": {KiB: count},
              "initiators": [node ids]}. None: the kernel has no NUMA directory.
``cores``     the CPUs of each core, as list texts; default one core per CPU.
``packages``, ``l3``   the same for sockets and L3 caches.
``online``, ``offline`` list texts; CPUs that are offline stay in their node's list, as on real kernels.
``isolated``  list text.   ``kib``   MemTotal of /proc/meminfo.   ``pages``   huge pages of the whole machine.
``lists``     False: only bitmaps, as on kernels before 2.6.25.   ``nul``   True: files end in NUL bytes.
``switches``  True: no cpu/online file, only each CPU's own switch.
``devices``   address -> facts of a PCI device: "path" (root bus and bridges above), "files" (name -> text) and
              "links" (name -> target); vendor, device and class have defaults.
``files``     path -> text, written last, over whatever is there; None removes the file.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zun.topology import CpuSet

Description = Mapping[str, Any]

CPU, NODE, PCI = "sys/devices/system/cpu", "sys/devices/system/node", "sys/bus/pci/devices"


def build(root: Path, machine: Description) -> Path:
    """Write the tree of ``machine`` under ``root`` and return ``root``."""
    files: dict[str, str] = {}
    _describe_cpus(files, machine)
    _describe_nodes(files, machine)
    if "kib" in machine:
        files["proc/meminfo"] = f"MemTotal:     {machine['kib']} kB\nMemFree:     17 kB\n"
    for size, count in machine.get("pages", {}).items():
        files[f"sys/kernel/mm/hugepages/hugepages-{size}kB/nr_hugepages"] = f"{count}\n"
    for path, text in files.items():
        if machine.get("nul"):
            text = text.rstrip("\n") + "\n\0"
        _write(root / path, text)
    for address, facts in machine.get("devices", {}).items():
        _write_device(root, address, facts)
    for path, text in machine.get("files", {}).items():
        if text is None:
            shutil.rmtree(root / path) if (root / path).is_dir() else (root / path).unlink()
        else:
            _write(root / path, text)
    return root


def _write(path: Path, text: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)


def _write_device(root: Path, address: str, facts: Mapping[str, Any]) -> None:
    """Write a device's folder below its bridges, and the link to this folder."""
    place = "/".join(("devices", *facts.get("path", ("pci0000:00",)), address))
    named = {"vendor": "0x8086\n", "device": "0x10ed\n", "class": "0x020000\n", **facts.get("files", {})}
    for name, text in named.items():
        if text is not None:
            _write(root / "sys" / place / name, text)
    for name, target in facts.get("links", {}).items():
        (root / "sys" / place).mkdir(parents=True, exist_ok=True)
        (root / "sys" / place / name).symlink_to(target)
    (root / PCI).mkdir(parents=True, exist_ok=True)
    (root / PCI / address).symlink_to(f"../../../{place}")


def bitmap(cpus: CpuSet, words: int = 2) -> str:
    digits = f"{cpus.mask:0{8 * words}x}"
    return ",".join(digits[place : place + 8] for place in range(0, len(digits), 8)) + "\n"


def _set_files(files: dict[str, str], machine: Description, path: str, list_name: str, map_name: str, cpus: CpuSet):
    if machine.get("lists", True):
        files[f"{path}/{list_name}"] = f"{cpus}\n"
    files[f"{path}/{map_name}"] = bitmap(cpus)


def _describe_cpus(files: dict[str, str], machine: Description) -> None:
    online, offline = CpuSet(machine["online"]), CpuSet(machine.get("offline", ""))
    if machine.get("switches"):
        for cpu in (online | offline) - CpuSet("0"):
            files[f"{CPU}/cpu{cpu}/online"] = "0\n" if cpu in offline else "1\n"
    else:
        files[f"{CPU}/online"] = f"{online}\n"
        files[f"{CPU}/offline"] = f"{offline}\n"
        files[f"{CPU}/present"] = f"{online | offline}\n"
    if "isolated" in machine:
        files[f"{CPU}/isolated"] = f"{machine['isolated']}\n"
    for cpu in online:
        folder = f"{CPU}/cpu{cpu}"
        files[f"{folder}/topology/core_id"] = "0\n"
        core = _with(cpu, machine.get("cores", ()), online)
        _set_files(files, machine, f"{folder}/topology", "thread_siblings_list", "thread_siblings", core)
        package = _with(cpu, machine.get("packages", (str(online),)), online)
        _set_files(files, machine, f"{folder}/topology", "core_siblings_list", "core_siblings", package)
        files[f"{folder}/cache/index0/level"] = "1\n"
        _set_files(files, machine, f"{folder}/cache/index0", "shared_cpu_list", "shared_cpu_map", core)
        if any(cpu in CpuSet(cache) for cache in machine.get("l3", ())):
            files[f"{folder}/cache/index3/level"] = "3\n"
            cache = _with(cpu, machine["l3"], online)
            _set_files(files, machine, f"{folder}/cache/index3", "shared_cpu_list", "shared_cpu_map", cache)
    for cpu in offline:
        files.setdefault(f"{CPU}/cpu{cpu}/online", "0\n")


def _with(cpu: int, groups, online: CpuSet) -> CpuSet:
    return next((CpuSet(group) & online for group in groups if cpu in CpuSet(group)), CpuSet((cpu,)))


def _describe_nodes(files: dict[str, str], machine: Description) -> None:
    nodes = machine.get("nodes")
    if nodes is None:
        return
    files[f"{NODE}/online"] = f"{CpuSet(nodes)}\n"
    files[f"{NODE}/possible"] = f"{CpuSet(range(max(nodes) + 1))}\n"
    for node, facts in nodes.items():
        folder = f"{NODE}/node{node}"
        _set_files(files, machine, folder, "cpulist", "cpumap", CpuSet(facts.get("cpus", "")))
        files[f"{folder}/meminfo"] = (
            f"Node {node} MemTotal:       {facts.get('kib', 1048576)} kB\nNode {node} MemFree:        1 kB\n"
        )
        if "distance" in facts:
            files[f"{folder}/distance"] = f"{facts['distance']}\n"
        for size, count in facts.get("pages", {}).items():
            files[f"{folder}/hugepages/hugepages-{size}kB/nr_hugepages"] = f"{count}\n"
            files[f"{folder}/hugepages/hugepages-{size}kB/free_hugepages"] = "0\n"
        for other in facts.get("initiators", ()):
            files[f"{folder}/access1/initiators/node{other}/of"] = "firmware\n"


PLAIN: Description = {
    "online": "0-7",
    "cores": ["0,4", "1,5", "2,6", "3,7"],
    "packages": ["0-1,4-5", "2-3,6-7"],
    "l3": ["0-1,4-5", "2-3,6-7"],
    "nodes": {
        0: {"cpus": "0-1,4-5", "kib": 4194304, "distance": "10 21", "pages": {2048: 512, 1048576: 0}},
        1: {"cpus": "2-3,6-7", "kib": 4194303, "distance": "21 10", "pages": {2048: 0, 1048576: 1}},
    },
}
"""Two sockets, two threads a core, huge pages of two sizes: the machine the others differ from."""


def changed(**differences: Any) -> Description:
    return {**PLAIN, **differences}


def _recorded(path: str, identity: str, node: int, group: int, driver: str | None = None, **more: Any) -> Description:
    """Return a device with what the kernel tells. ``identity`` is vendor, device and class."""
    vendor, product, class_id = identity.split()
    files = {"vendor": f"0x{vendor}\n", "device": f"0x{product}\n", "class": f"0x{class_id}\n"}
    cpus = f"{4 * node}-{4 * node + 3}" if node >= 0 else "0-15"
    links = {"iommu_group": f"../../../kernel/iommu_groups/{group}"}
    if driver is not None:
        links["driver"] = f"../../../bus/pci/drivers/{driver}"
    return {
        "path": tuple(path.split("/")),
        "files": {**files, "numa_node": f"{node}\n", "local_cpulist": f"{cpus}\n", **more.get("files", {})},
        "links": {**links, **more.get("links", {})},
    }


_CARD, _BRIDGE = "1b36 0010 010802", "1b36 000c 060400"
_SWITCHED = "pci0000:40/0000:40:00.0/0000:41:00.0"
_DISK_CARD = "sys/class/nvme-subsystem/nvme-subsys2"
EXPANDERS: Description = {
    "online": "0-15",
    "nodes": {node: {"cpus": f"{4 * node}-{4 * node + 3}"} for node in range(4)},
    "devices": {
        "0000:00:01.0": _recorded("pci0000:00", "1af4 1000 020000", -1, 1, "virtio-pci"),
        "0000:00:08.0": _recorded("pci0000:00", "1b36 000b 060000", -1, 8),
        "0000:20:00.0": _recorded("pci0000:20", _BRIDGE, 1, 22, "pcieport"),
        "0000:21:00.0": _recorded(
            "pci0000:20/0000:20:00.0", _CARD, 1, 23, "nvme",
            files={"sriov_totalvfs": "2\n", "nvme/nvme2/dev": "245:2\n", "nvme/nvme2/nvme2c2n1/size": "16384\n"},
            links={"virtfn0": "../0000:21:00.1", "virtfn1": "../0000:21:00.2"},
        ),
        **{
            f"0000:21:00.{number}": _recorded(
                "pci0000:20/0000:20:00.0", _CARD, 1, 23 + number, "nvme",
                files={
                    f"nvme/nvme{number + 2}/{name}": text
                    for name, text in (
                        ("dev", f"245:{number + 2}\n"),
                        (f"nvme2c{number + 2}n1/size", "16384\n"),
                        (f"nvme2c{number + 2}n{number + 1}/size", "16384\n"),
                    )
                },
                links={"physfn": "../0000:21:00.0"},
            )
            for number in (1, 2)
        },
        "0000:41:00.0": _recorded("pci0000:40/0000:40:00.0", "104c 8232 060400", 2, 19, "pcieport"),
        "0000:43:00.0": _recorded(
            f"{_SWITCHED}/0000:42:00.0", _CARD, 2, 20, "nvme",
            files={"nvme/nvme1/dev": "245:1\n", "nvme/nvme1/nvme1n1/dev": "259:0\n"},
        ),
        "0000:44:00.0": _recorded(f"{_SWITCHED}/0000:42:01.0", "1234 11e8 00ff00", 2, 21, "vfio-pci"),
        "0000:61:00.0": _recorded(
            "pci0000:60/0000:60:00.0", "8086 10d3 020000", 3, 15, "e1000e", files={"net/eth1/operstate": "down\n"}
        ),
        "0000:62:00.0": _recorded(
            "pci0000:60/0000:60:01.0", _CARD, 3, 16, "nvme",
            files={"nvme/nvme0/dev": "245:0\n", "nvme/nvme0/nvme0n1/dev": "259:3\n"},
        ),
        "0000:63:00.0": _recorded("pci0000:60/0000:60:02.0", "1234 11e8 00ff00", 3, 17),
    },
    "files": {
        **{f"{_DISK_CARD}/nvme2n{number}/dev": f"259:{number}\n" for number in (1, 2, 3)},
        **{f"{_DISK_CARD}/nvme{name}/nvme2c{name}n1/size": "16384\n" for name in (2, 3, 4)},
        **{f"{_DISK_CARD}/nvme{name}/nvme2c{name}n{name - 1}/size": "16384\n" for name in (3, 4)},
    },
}  # fmt: skip
"""Recorded in the layout 4pci of tools/numavm.sh (Linux 6.1): devices behind expander buses of three nodes, an NVMe
card with two virtual functions, and a switch. Most of the devices without a node are left out."""
