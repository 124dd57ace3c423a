# SPDX-License-Identifier: Apache-2.0
"""Read the topology of a Linux machine from /sys and /proc: the only I/O of this package.

Sources of the rules: the kernel's Documentation/admin-guide/cputopology.rst, Documentation/ABI/stable/
sysfs-devices-node and sysfs-devices-system-cpu, cpuset(7), and recordings of real machines. On some machine
every file is missing, ends in NUL bytes or contradicts another one. Discovery then says so in
``HostTopology.notes`` and goes on with what is known; it does not fail because of what it reads.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from zun.topology.cells import NUMACell
from zun.topology.cpuset import MAX_ID, NO_CPUS, CpuSet, union
from zun.topology.files import SPACE, Tree, number_in
from zun.topology.host_topology import HostTopology
from zun.topology.host_use import marked
from zun.topology.mounts import Mounted, mounts_in, mounts_in_table
from zun.topology.pci import discover_devices
from zun.topology.pci_files import memory_nodes
from zun.topology.resctrl_files import cache_control

_CPU = "sys/devices/system/cpu"
_NODE = "sys/devices/system/node"
_ALL = CpuSet.from_mask((1 << (MAX_ID + 1)) - 1)
PARTITION = "zunpart_"
"""Prefix of the names of the control groups (version 2, at the top) that are cpuset partitions of containers."""


def discover(root: str | os.PathLike[str] = "/", process_limits: bool = True) -> HostTopology:
    """Return the topology of the machine whose /sys and /proc are under ``root``, with its PCI devices.

    A node that is the memory of a device is no cell: a container gets such memory with the device only.

    With ``process_limits``, only the CPUs and memory nodes that the cgroup of this process allows are counted (without
    cgroup files, those that its /proc/self/status allows). Cells outside the limits stay in the list, without CPUs or
    memory. A CPU affinity set with ``taskset`` is no such limit, because it does not bind the containers.
    """
    tree = Tree(Path(root))
    online, offline = _online(tree)
    nodes = _nodes(tree, online)
    of_devices = CpuSet(node for node in memory_nodes(tree).values() if not nodes.get(node))
    cores = _groups(tree, online, "core", _thread_siblings)
    sockets = _groups(tree, online, "socket", _package)
    caches = _groups(tree, online, "L3 cache", _l3)
    distances = {node: _distances(tree, node, list(nodes)) for node in nodes}
    if any(distances.values()) and not all(distances.values()):
        silent = CpuSet(node for node, row in distances.items() if not row)
        tree.note(f"nothing is known of the distances from nodes {silent}: the kernel's defaults are used")
    partitions = _partitions(tree) if process_limits else NO_CPUS
    limits = _process_limits(tree, online | offline, partitions) if process_limits else _Limits(_ALL, _ALL)
    usable = online & limits.cpus
    cut = union(cpus for cpus in nodes.values() if not cpus <= usable)
    everything = [
        NUMACell(
            id=node,
            cpus=cpus & usable,
            siblings=tuple(core & cpus for core in cores),
            l3=tuple(caches),
            memory_mib=_memory_mib(tree, node, len(nodes)) if node in limits.mems else 0,
            distances=distances[node],
            pages=_pages(tree, node, len(nodes)) if node in limits.mems else {},
            initiators=_initiators(tree, node),
        )
        for node, cpus in nodes.items()
    ]
    cells = [_without(node, of_devices) for node in everything if node.id not in of_devices]
    devices = marked(tree, discover_devices(tree, everything, nodes))
    return HostTopology(
        cells=tuple(cells),
        sockets=tuple(socket & usable for socket in sockets if socket & usable),
        offline=offline,
        isolated=_isolated(tree, online | offline) & usable - partitions,
        exposed=union(core & usable for core in cores if not any(core <= cell.cpus for cell in cells)),
        exposed_l3=union(cache & usable for cache in caches if not any(cache <= cell.cpus for cell in cells))
        # CPUs without an L3 share one with all such CPUs of their node.
        | (cut & usable - union(caches)),
        exposed_nodes=cut & usable,
        page_kib=_page_kib(tree.root),
        devices=devices,
        cache_control=cache_control(tree),
        notes=tuple(tree.notes),
    )


# CPUs


def _online(tree: Tree) -> tuple[CpuSet, CpuSet]:
    """Return the CPUs that are online and the CPUs that are present but offline."""
    folders = CpuSet(tree.ids(_CPU, "cpu"))
    online = tree.cpu_list(f"{_CPU}/online")
    if not online:
        online = _switched_on(tree, folders) or CpuSet(_processors(tree))
        if not online:
            tree.note(f"no online CPU is named in /{_CPU} or /proc/cpuinfo")
        elif not folders:
            tree.note(f"/{_CPU} names no CPU: those of /proc/cpuinfo are used, each as a core of its own")
    present = tree.cpu_list(f"{_CPU}/present") or folders
    if folders and not online <= folders:
        tree.note(f"online CPUs {online - folders} have no folder in /{_CPU}")
    return online, present - online


def _switched_on(tree: Tree, folders: CpuSet) -> CpuSet:
    """By each CPU's own switch, which a CPU that cannot be switched off does not have."""
    return CpuSet(cpu for cpu in folders if tree.number(f"{_CPU}/cpu{cpu}/online") != 0)


def _processors(tree: Tree) -> list[int]:
    lines = (tree.text("proc/cpuinfo") or "").splitlines()
    matches = (re.fullmatch(r"processor\s*:\s*(\d{1,6})", line.strip(SPACE)) for line in lines)
    return [int(match[1]) for match in matches if match]


def _isolated(tree: Tree, present: CpuSet) -> CpuSet:
    """Return the CPUs that the kernel does not balance: by its own file, or before Linux 4.2 by its command line."""
    listed = tree.cpu_list(f"{_CPU}/isolated")
    if listed is not None:
        return listed
    found = NO_CPUS
    # What follows "--" is for init.
    for word in takewhile(lambda word: word != "--", (tree.text("proc/cmdline") or "").split()):
        name, _, value = word.partition("=")
        if name == "isolcpus":
            try:
                found = _isolcpus(value.strip('"'), max(present, default=0))
            except ValueError:
                tree.note(f"/proc/cmdline: {word[:40]!r} is not understood")
    return found


def _isolcpus(value: str, last: int) -> CpuSet:
    """A list behind flags (kernel-parameters.rst), of which ``domain``, the default, takes CPUs out of balancing."""
    parts = value.split(",")
    flags = [*takewhile(lambda part: part in ("nohz", "domain", "managed_irq"), parts)]
    if flags and "domain" not in flags:
        return NO_CPUS
    text = ",".join(parts[len(flags):])
    return CpuSet(re.sub(r"\bN\b", str(last), re.sub(r"\ball\b", "0-N", text)))


def _groups(
    tree: Tree, online: CpuSet, kind: str, members: Callable[[Tree, int], Iterable[CpuSet]]
) -> list[CpuSet]:
    """Return disjoint groups of online CPUs, by what each CPU says of its own; those that say nothing are in none.

    ``members`` gives the contents of each file about a CPU; the first file that names the CPU itself is used. Groups
    that overlap by what different CPUs say count as one, so that nobody takes a part for the whole.
    """
    groups: set[CpuSet] = set()
    covered = NO_CPUS
    for cpu in online:
        for group in members(tree, cpu):
            if cpu in group:
                break
            tree.note(f"CPU {cpu} is not among its own {kind}'s CPUs {group}: they are not used")
        else:
            continue
        group &= online
        if group in groups:
            continue
        if group & covered:
            tree.note(f"the {kind} of CPU {cpu}, {group}, overlaps with others: they count as one")
            overlapping = {other for other in groups if other & group}
            groups -= overlapping
            group = union((group, *overlapping))
        groups.add(group)
        covered |= group
    return sorted(groups, key=tuple)


def _thread_siblings(tree: Tree, cpu: int) -> Iterator[CpuSet]:
    folder = f"{_CPU}/cpu{cpu}/topology"
    return tree.cpu_sets(folder, "core_cpus_list", "thread_siblings_list", "core_cpus", "thread_siblings")


def _package(tree: Tree, cpu: int) -> Iterator[CpuSet]:
    folder = f"{_CPU}/cpu{cpu}/topology"
    return tree.cpu_sets(folder, "package_cpus_list", "core_siblings_list", "package_cpus", "core_siblings")


def _l3(tree: Tree, cpu: int) -> Iterable[CpuSet]:
    folder = f"{_CPU}/cpu{cpu}/cache"
    for index in tree.ids(folder, "index"):
        if tree.number(f"{folder}/index{index}/level") == 3:
            return tree.cpu_sets(f"{folder}/index{index}", "shared_cpu_list", "shared_cpu_map")
    return ()


# Nodes


def _nodes(tree: Tree, online: CpuSet) -> dict[int, CpuSet]:
    """Return online CPUs by node id, rising; a machine without nodes is one node 0 with everything."""
    ids, unused = tree.ids(_NODE, "node"), {}
    listed = tree.cpu_list(f"{_NODE}/online")
    if listed and not listed.isdisjoint(CpuSet(ids)):
        dropped = CpuSet(ids) - listed
        if dropped:
            tree.note(f"nodes {dropped} have folders in /{_NODE} but are not online: they are left out")
        unused = {node: _node_cpus(tree, node) for node in dropped}
        ids = [node for node in ids if node in listed]
    if not ids:
        ids = sorted({node for cpu in online for node in _own_nodes(tree, cpu)})
        if ids:
            tree.note(f"/{_NODE} has no folder of a node: links of the CPUs name nodes {CpuSet(ids)}, which are used")
        elif listed and len(listed) > 1:
            tree.note(f"/{_NODE} has no folder of nodes {listed}, which are online: all CPUs count as node 0")
    if not ids:
        return {0: online} if online else {}
    nodes: dict[int, CpuSet] = {}
    left = online
    for node in ids:
        named = _node_cpus(tree, node)
        taken = (named & online) - left
        if taken:
            tree.note(f"CPUs {taken} are named by node {node} and by an earlier one, which keeps them")
        nodes[node] = named & left
        left -= named
    if left:
        _place(tree, left, nodes, unused, only=len(nodes) == 1 and len(listed or ids) == 1)
    return nodes


def _node_cpus(tree: Tree, node: int) -> CpuSet:
    folder = f"{_NODE}/node{node}"
    return next(tree.cpu_sets(folder, "cpulist", "cpumap"), None) or CpuSet(tree.ids(folder, "cpu"))


def _own_nodes(tree: Tree, cpu: int) -> list[int]:
    """Return the nodes that the CPU's own folder links to, rising; usually one."""
    return tree.ids(f"{_CPU}/cpu{cpu}", "node")


def _place(
    tree: Tree, homeless: CpuSet, nodes: dict[int, CpuSet], unused: dict[int, CpuSet], only: bool
) -> None:
    """Put CPUs that no node names where their own folder says, or on the ``only`` node there is.

    A CPU of another node, by its own folder or by that of an ``unused`` node, is left out: on the ``only`` node it
    would be far from the memory that it gets.
    """
    elsewhere: defaultdict[int, list[int]] = defaultdict(list)
    for cpu in homeless:
        named = _own_nodes(tree, cpu) or [node for node, cpus in unused.items() if cpu in cpus]
        home = [node for node in named if node in nodes]
        if only and not named:
            home = list(nodes)
        if home:
            nodes[home[0]] |= CpuSet((cpu,))
        elif named:
            elsewhere[named[0]].append(cpu)
        else:
            tree.note(f"no node names CPU {cpu}: it is left out")
    for node, cpus in elsewhere.items():
        tree.note(f"CPUs {CpuSet(cpus)} are on node {node}, which is not used: they are left out")


def _memory_mib(tree: Tree, node: int, nodes: int) -> int:
    paths = [f"{_NODE}/node{node}/meminfo"]
    if nodes == 1:
        paths.append("proc/meminfo")
    for path in paths:
        match = re.search(r"MemTotal:\s*(\d{1,18})\s*kB", tree.text(path) or "")
        if match:
            return int(match[1]) // 1024
    tree.note(f"/{path} does not tell the memory of node {node}: it counts as none")
    return 0


def _pages(tree: Tree, node: int, nodes: int) -> dict[int, int]:
    """Return the number of huge pages of a node by size in KiB, including sizes without pages."""
    folder = f"{_NODE}/node{node}/hugepages"
    if nodes == 1 and not tree.names(folder):
        folder = "sys/kernel/mm/hugepages"
    pages = {}
    for name in tree.names(folder):
        match = re.fullmatch(r"hugepages-([1-9]\d{0,12})kB", name)
        if match:
            pages[int(match[1])] = tree.number(f"{folder}/{name}/nr_hugepages") or 0
    return dict(sorted(pages.items()))


def _distances(tree: Tree, node: int, nodes: list[int]) -> dict[int, int]:
    """Return the distances of a node by node id. Rows have no labels: they belong to the online nodes, rising."""
    path = f"{_NODE}/node{node}/distance"
    row = tree.parsed(path, lambda text: [number_in(word) for word in text.split()])
    if not row or len(nodes) == 1:
        return {}
    labels = _row_labels(tree, node, len(row), nodes)
    if labels is None:
        tree.note(f"/{path} has {len(row)} distances for {len(nodes)} nodes: they are not used")
        return {}
    if any(distance == 0 for distance in row):
        tree.note(f"/{path} has a distance of 0: the row is not used")
        return {}
    distances = dict(zip(labels, row, strict=True))
    if distances[node] > min(row):
        tree.note(f"/{path} has another node nearer than node {node} itself: the row is not used")
        return {}
    return {other: distance for other, distance in distances.items() if other in nodes}


def _row_labels(tree: Tree, node: int, length: int, nodes: list[int]) -> list[int] | None:
    """Node ids of the row of ``node``: the nodes themselves, else whichever list with it is as long as the row."""
    if length == len(nodes):
        return nodes
    for name in ("online", "possible", "has_memory"):
        listed = tree.cpu_list(f"{_NODE}/{name}")
        if listed is not None and node in listed and len(listed) == length:
            return list(listed)
    return [*nodes, *range(MAX_ID + 1, MAX_ID + 1 + length - len(nodes))] if length > len(nodes) else None


def _without(cell: NUMACell, nodes: CpuSet) -> NUMACell:
    """Return ``cell`` on a host without ``nodes``."""
    distances = {node: distance for node, distance in cell.distances.items() if node not in nodes}
    return replace(cell, distances=distances, initiators=cell.initiators - nodes)


def _initiators(tree: Tree, node: int) -> CpuSet:
    """Return the nodes whose CPUs reach this memory best, if the firmware tells (HMAT)."""
    for access in ("access1", "access0"):
        if found := tree.ids(f"{_NODE}/node{node}/{access}/initiators", "node"):
            return CpuSet(found)
    return NO_CPUS


def _page_kib(root: Path) -> int:
    """Return the ordinary page size of this machine in KiB. A recorded machine has 4, since recordings do not tell."""
    if root.resolve() != Path("/"):
        return 4
    return os.sysconf("SC_PAGE_SIZE") // 1024


# Limits of this process


Names = Callable[[str], tuple[str, ...]]


class _Limits(NamedTuple):
    cpus: CpuSet
    mems: CpuSet


def _process_limits(tree: Tree, present: CpuSet, partitions: CpuSet) -> _Limits:
    cpus = mems = None
    for folder, name in _cpuset_folders(tree):
        cpus = cpus or _first(tree, folder, name("cpus"))
        mems = mems or _first(tree, folder, name("mems"))
        if cpus and mems:
            break
    if not cpus and not mems:
        cpus, mems = _status_limits(tree, present)
    return _Limits(cpus | partitions if cpus else _ALL, mems or _ALL)


def _partitions(tree: Tree) -> CpuSet:
    """Return the CPUs of the containers that have partitions: the kernel takes them from every other group."""
    tops = {mount.place.strip("/") for mount in _mounts(tree) if mount.kind == "cgroup2"}
    slices = (f"{top}/{name}" for top in sorted(tops) for name in tree.names(top) if name.startswith(PARTITION))
    return union(found for each in slices if (found := tree.cpu_list(f"{each}/cpuset.cpus.effective")))


def _first(tree: Tree, folder: str, names: Iterable[str]) -> CpuSet | None:
    return next((found for name in names if (found := tree.cpu_list(f"{folder}/{name}"))), None)


def _cpuset_folders(tree: Tree) -> list[tuple[str, Names]]:
    """Folders that may hold this process's cpuset, best first: its own group, then the groups above it.

    A group above counts where its own has no files: in version 2 the controller need not be switched on for
    a leaf, and inside a cgroup namespace the path of version 1 is that of the host.
    """
    found: list[tuple[str, Names]] = []
    paths = _cgroup_paths(tree)
    for mount in _mounts(tree):
        names: Names
        if mount.kind == "cgroup2":
            names, path = _unified_names, paths.get("", "/")
        elif mount.kind == "cpuset" or (mount.kind == "cgroup" and "cpuset" in mount.options):
            names, path = _cpuset_names, paths.get("cpuset", "/")
        else:
            continue
        parts, root = _parts(path), _parts(mount.root)
        if parts[: len(root)] == root:  # else the path is of another cgroup namespace
            parts = parts[len(root) :]
        folders = ("/".join([mount.place.strip("/"), *parts[:depth]]) for depth in range(len(parts), -1, -1))
        above: list[tuple[str, Names]] = [(folder, names) for folder in folders]
        # A machine with both versions keeps its cpusets where they are mounted by name, in version 1.
        found = above + found if names is _cpuset_names else found + above
    return found


def _mounts(tree: Tree) -> Iterator[Mounted]:
    """Yield the mounts of this process, from mountinfo, else from mounts, which has no roots."""
    text = tree.text("proc/self/mountinfo")
    return mounts_in_table(tree.text("proc/mounts") or "") if text is None else mounts_in(text)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".", "..")]


def _unified_names(what: str) -> tuple[str, ...]:
    return (f"cpuset.{what}.effective", f"cpuset.{what}")


def _cpuset_names(what: str) -> tuple[str, ...]:
    return (f"cpuset.effective_{what}", f"cpuset.{what}", f"effective_{what}", what)


def _cgroup_paths(tree: Tree) -> dict[str, str]:
    """Path of this process's group: under ``cpuset`` in version 1, under the empty name in version 2."""
    paths = {}
    for line in (tree.text("proc/self/cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "cpuset" in controllers.split(","):
            paths["cpuset"] = path
        elif number == "0" and not controllers:
            paths[""] = path
    own = tree.text("proc/self/cpuset")
    if own:
        paths.setdefault("cpuset", own)
        paths.setdefault("", own)
    return paths


def _status_limits(tree: Tree, present: CpuSet) -> tuple[CpuSet | None, CpuSet | None]:
    text = tree.text("proc/self/status") or ""
    found: list[CpuSet | None] = []
    for name in ("Cpus", "Mems"):
        match = re.search(rf"^{name}_allowed_list:[ \t]*(\S+)", text, re.MULTILINE)
        try:
            found.append(CpuSet(match[1]) if match else None)
        except ValueError:
            tree.note(f"/proc/self/status: {name}_allowed_list is not understood")
            found.append(None)
    if found[0]:
        # Without a cpuset, the kernel keeps every process off isolated CPUs by affinity, not by a limit.
        found[0] |= _isolated(tree, present)
    return found[0], found[1]
