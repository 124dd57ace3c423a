# SPDX-License-Identifier: Apache-2.0
"""Readers of the kernel's files and of the system's programs. Of zun they use only ``CpuSet``.

Everything here may raise FileNotFoundError or ProcessLookupError for a process that ends meanwhile.
"""

import mmap
import os
import pathlib
import re
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field

from zun.topology import CpuSet

CGROUPS = pathlib.Path("/sys/fs/cgroup")
PAGE_KIB = 4


def program(*words: str) -> str:
    """Run ``words`` and return the output."""
    return subprocess.run(words, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout


@dataclass(slots=True)
class Node:
    """A memory node as ``numactl`` prints it; ``size`` in MiB."""

    cpus: CpuSet = field(default_factory=CpuSet)
    size: int = 0
    distances: dict[int, int] = field(default_factory=dict)


def numactl_hardware() -> dict[int, Node]:
    """The nodes by id, from ``numactl --hardware``."""
    nodes: dict[int, Node] = {}
    columns: list[int] = []
    for line in program("numactl", "--hardware").splitlines():
        if found := re.fullmatch(r"node (\d+) cpus:(.*)", line):
            nodes.setdefault(int(found[1]), Node()).cpus = CpuSet(int(word) for word in found[2].split())
        elif found := re.fullmatch(r"node (\d+) size: (\d+) MB", line):
            nodes.setdefault(int(found[1]), Node()).size = int(found[2])
        elif found := re.fullmatch(r"node +((?:\d+ *)+)", line):
            columns = [int(word) for word in found[1].split()]
        elif found := re.fullmatch(r" *(\d+): +((?:\d+ *)+)", line):
            row = [int(word) for word in found[2].split()]
            nodes[int(found[1])].distances = dict(zip(columns, row, strict=True))
    return nodes


def lscpu(column: str) -> set[CpuSet]:
    """The CPUs grouped by what ``lscpu`` says in ``column`` (CORE, SOCKET, NODE)."""
    groups: dict[str, set[int]] = {}
    for line in program("lscpu", f"--parse=CPU,{column}").splitlines():
        if not line.startswith("#"):
            cpu, group = line.split(",")
            groups.setdefault(group, set()).add(int(cpu))
    return {CpuSet(cpus) for cpus in groups.values()}


def status(pid: int | str) -> dict[str, str]:
    """The fields of /proc/PID/status; ``pid`` may be ``PID/task/TID``."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def allowed(pid: int | str) -> tuple[CpuSet, CpuSet]:
    """CPUs and memory nodes that the kernel allows a process or thread."""
    found = status(pid)
    return CpuSet(found["Cpus_allowed_list"]), CpuSet(found["Mems_allowed_list"])


def threads(pid: int) -> list[str]:
    return [f"{pid}/task/{each.name}" for each in pathlib.Path(f"/proc/{pid}/task").iterdir()]


def group_of(pid: int) -> pathlib.Path:
    """The folder of a process's group in the unified hierarchy (cgroup version 2), or in the cpuset's of version 1."""
    lines = pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    if (CGROUPS / "cgroup.controllers").exists():
        (line,) = (each for each in lines if each.startswith("0::"))
        return CGROUPS / line.removeprefix("0::").strip("/")
    (path,) = (each.split(":", 2)[2] for each in lines if "cpuset" in each.split(":")[1].split(","))
    return CGROUPS / "cpuset" / path.strip("/")


def effective(group: pathlib.Path) -> tuple[CpuSet, CpuSet]:
    """CPUs and memory nodes of a group, as the kernel arrived at them."""
    unified = (group / "cpuset.cpus.effective").exists()
    names = ("cpus.effective", "mems.effective") if unified else ("effective_cpus", "effective_mems")
    cpus, mems = ((group / f"cpuset.{name}").read_text().strip() for name in names)
    return CpuSet(cpus), CpuSet(mems)


def members(group: pathlib.Path) -> list[int]:
    return [int(pid) for pid in (group / "cgroup.procs").read_text().split()]


def pressure(group: pathlib.Path, kind: str) -> float:
    """Return the seconds in which some process of a group waited for ``kind``: cpu, memory or io."""
    (some,) = re.findall(r"^some .*total=(\d+)$", (group / f"{kind}.pressure").read_text(), re.MULTILINE)
    return int(some) / 1e6


def anonymous_mib(pid: int) -> dict[int, float]:
    """Memory node -> MiB of the process's anonymous pages there, from /proc/PID/numa_maps.

    Pages of files are left out: the page cache is shared by all who read the file, and lies where its first reader was.
    """
    found: dict[int, int] = {}
    for line in pathlib.Path(f"/proc/{pid}/numa_maps").read_text().splitlines():
        words = line.split()
        if any(word.startswith("file=") for word in words):
            continue
        unit = next((int(word.partition("=")[2]) for word in words if word.startswith("kernelpagesize_kB=")), PAGE_KIB)
        for word in words:
            if place := re.fullmatch(r"N(\d+)=(\d+)", word):
                found[int(place[1])] = found.get(int(place[1]), 0) + int(place[2]) * unit
    return {node: kib / 1024 for node, kib in sorted(found.items())}


def file_mib(path: pathlib.Path) -> dict[int, float]:
    """Memory node -> MiB of a file's pages in memory there. The file must have no holes: these would get pages.

    This process maps the file and touches its pages, and reads its own numa_maps. The pages stay where they are.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as area:
        for place in range(0, len(area), PAGE_KIB << 10):
            area[place]
        lines = pathlib.Path("/proc/self/numa_maps").read_text().splitlines()
    (line,) = (each for each in lines if f"file={path}" in each.split())
    return {int(node): int(pages) * PAGE_KIB / 1024 for node, pages in re.findall(r" N(\d+)=(\d+)", line)}


def free_huge_pages(size: int = 2048) -> dict[int, int]:
    """Node -> free huge pages of a size in KiB, by sysfs."""
    files = pathlib.Path("/sys/devices/system/node").glob(f"node*/hugepages/hugepages-{size}kB/free_hugepages")
    return {int(file.parts[-4][4:]): int(file.read_text()) for file in files}


@dataclass(frozen=True, slots=True)
class PciPlace:
    """Where hwloc sees a PCI device: its memory node, None for no certain one, and the bridges above it."""

    node: int | None
    bridges: tuple[str, ...]


def hwloc_set(text: str) -> frozenset[int]:
    """The numbers of a set as hwloc prints it: words of 32 bits, the highest first, and an empty word for zero.

    ``0x00000001,0x0`` and ``0x00000001,,0x0`` are 32 and 64. A set without an end (``0xf...f``) is of no machine.
    """
    words = [int(word, 16) if word else 0 for word in text.split(",")]
    mask = sum(word << 32 * place for place, word in enumerate(reversed(words)))
    return frozenset(number for number in range(mask.bit_length()) if mask >> number & 1)


def lstopo() -> dict[str, PciPlace]:
    """The PCI devices by address, from the XML of hwloc's ``lstopo``."""
    found: dict[str, PciPlace] = {}
    working = {node for node, facts in numactl_hardware().items() if facts.cpus}  # others lie beside one with CPUs

    def walk(part: ET.Element, nodes: frozenset[int], bridges: tuple[str, ...]) -> None:
        if "nodeset" in part.attrib:
            nodes = hwloc_set(part.attrib["nodeset"]) & working
        address = part.attrib.get("pci_busid")
        if part.attrib.get("type") == "Bridge" and address is not None:
            bridges = (*bridges, address)
        elif part.attrib.get("type") == "PCIDev":
            assert address is not None
            found[address] = PciPlace(min(nodes) if len(nodes) == 1 else None, bridges)
        for child in part.iterfind("object"):
            walk(child, nodes, bridges)

    walk(ET.fromstring(program("lstopo-no-graphics", "--whole-io", "--of", "xml")), frozenset(), ())
    return found


def hwloc_homes() -> dict[int, frozenset[int]]:
    """Memory node -> the CPUs that hwloc puts nearest to it. It believes HMAT, too."""
    parts = ET.fromstring(program("lstopo-no-graphics", "--of", "xml")).iter("object")
    nodes = (part.attrib for part in parts if part.attrib.get("type") == "NUMANode")
    return {int(each["os_index"]): hwloc_set(each["cpuset"]) for each in nodes}


def lspci() -> dict[str, dict[str, str]]:
    """The PCI devices by address, as ``lspci`` shows them: Class, NUMANode, IOMMUGroup and others."""
    records = (
        dict(re.findall(r"^(\w+):\t(.*)$", text, re.MULTILINE))
        for text in program("lspci", "-Dvmmnnk").split("\n\n")
    )
    return {each["Slot"]: each for each in records if "Slot" in each}


def initiators(node: int) -> set[int]:
    """The nodes whose CPUs reach a memory node best, as the kernel read HMAT."""
    folder = pathlib.Path(f"/sys/devices/system/node/node{node}/access1/initiators")
    return {int(each.name.removeprefix("node")) for each in folder.glob("node*")}


def lsmem_mib() -> dict[int, int]:
    """Memory node -> MiB of memory online, as ``lsmem`` counts its blocks."""
    found: dict[int, int] = {}
    words = ("--bytes", "--noheadings", "--all", "--summary=never", "--output", "SIZE,STATE,NODE")
    for line in program("lsmem", *words).splitlines():
        size, state, node = line.split()
        if state == "online":
            found[int(node)] = found.get(int(node), 0) + (int(size) >> 20)
    return found


def nvme_controller(address: str) -> str:
    """The NVMe controller of a PCI device, as ``nvme0``: each controller tells its address."""
    files = pathlib.Path("/sys/class/nvme").glob("*/address")
    (name,) = (file.parent.name for file in files if file.read_text().strip() == address)
    return name


def first_word(disk: str) -> str:
    """The word that a disk begins with; the layout 4pci gives each disk one."""
    return pathlib.Path(disk).read_bytes()[:64].partition(b"\n")[0].decode()


def make_node(path: pathlib.Path, like: str) -> None:
    """Make at ``path`` a file of the device of ``like``, which everybody may use as far as file modes go."""
    facts = os.stat(like)
    os.mknod(path, (facts.st_mode & ~0o777) | 0o666, facts.st_rdev)
    path.chmod(0o666)
