# SPDX-License-Identifier: Apache-2.0
"""Find the devices that the host itself uses: the card of its own network, and disks with its own data.

Sources: proc(5) (``/proc/net/route``, ``/proc/1/mountinfo``, ``/proc/swaps``), the kernel's
Documentation/networking/proc_net_route.rst and bonding.rst (``master``), Documentation/ABI/testing/sysfs-block
(``holders``), Documentation/PCI/sysfs-pci.rst (``enable``) and Documentation/driver-api/vfio-mediated-device.rst; for
pools of ZFS what udev knows of the disk (udev(7), ``/run/udev/data``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from zun.topology.devices import Device, DeviceType
from zun.topology.files import Tree
from zun.topology.mounts import Mounted, mounts_in, mounts_in_table, unescaped
from zun.topology.pci_files import files_below, interface_folders, reached_disks

_PCI = "sys/bus/pci/devices"
_DISKS = "sys/class/block"
_BTRFS = "sys/fs/btrfs"
_ZFS = "proc/spl/kstat/zfs"
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_BONDS = _FUNCTION, _NEIGHBOUR, _WHOLE = "its virtual function", "a device of its IOMMU group,", "its GPU"
_STORAGE = "01"  # class of PCI
_REJECTED = 0x0200  # RTF_REJECT of linux/route.h: an address that the kernel answers with an error


def marked(tree: Tree, devices: Iterable[Device]) -> tuple[Device, ...]:
    """Return the devices, each with its first disk in ``disk``, and in ``in_use`` why the host uses it, if it does."""
    devices, routed, disks = tuple(devices), _routed(tree), _disks(tree)
    if _is_apart(tree) and any(device.class_id.startswith(_STORAGE) for device in devices):
        tree.note(
            "the mounts of the host are not seen, because zun-compute runs in a pid namespace of its own: a disk that "
            "only the host has mounted counts as free. Start the container of zun-compute with --pid host"
        )
    found = ((device.address, next(_reasons(tree, device, routed, disks), None)) for device in devices)
    reasons = _with_bonds(devices, {address: reason for address, reason in found if reason is not None})
    entries = frozenset(tree.names(_DISKS))
    return tuple(replace(each, in_use=reasons.get(each.address), disk=_first_disk(each, entries)) for each in devices)


def _with_bonds(devices: Iterable[Device], reasons: Mapping[str, str]) -> dict[str, str]:
    """Return the reasons by address, with those of devices whose use would end that of another device.

    A virtual function loses its network with its physical function. An IOMMU group has one user outside the kernel. A
    part of a GPU is used with the GPU.
    """
    groups: dict[int | None, list[str]] = {}
    for device in devices:
        groups.setdefault(device.whole_group, []).append(device.address)
    found: dict[str, str] = {}
    for device in devices:
        if (reason := reasons.get(device.address)) is not None:
            if device.physical is not None:
                found.setdefault(device.physical, f"{_FUNCTION} {device.address} is in use: {reason}")
            for other in () if device.whole_group is None else groups[device.whole_group]:
                found.setdefault(other, f"{_NEIGHBOUR} {device.address}, is in use: {reason}")
        whole = reasons.get(device.physical or "") if device.type is DeviceType.PART else None
        if whole is not None:
            found.setdefault(device.address, f"{_WHOLE} {device.physical} is in use: {whole}")
    return {**found, **reasons}


def _first_disk(device: Device, entries: Collection[str]) -> str | None:
    """Return the first file of the device that is a disk or a partition. ``entries`` are their names in /sys."""
    return next((node for node in device.nodes if _entry(node.removeprefix("/dev/")) in entries), None)


def remembered(
    devices: Iterable[Device], before: Mapping[str, str], held: Collection[str]
) -> tuple[tuple[Device, ...], dict[str, str]]:
    """Return the devices with the uses of ``before``, by address, and the uses to remember now.

    A card whose link is down loses its routes, and must not be given to a container meanwhile. Devices that containers
    hold (``held``) are not remembered, because the use that shows may be the container's.
    """
    devices = tuple(devices)
    now = {each.address: each.in_use for each in devices if each.in_use and not each.in_use.startswith(_BONDS)}
    uses = {**before, **_with_bonds(devices, {address: now[address] for address in now.keys() - held})}
    return tuple(
        replace(each, in_use=uses.get(each.address, now.get(each.address))) for each in devices
    ), uses


def _reasons(
    tree: Tree, device: Device, routed: Mapping[str, str], disks: _Disks
) -> Iterator[str]:
    nodes = list(device.nodes)
    if device.type not in (DeviceType.PATH, DeviceType.CDI):
        # A driver of VFIO enables its device while a program has the device open.
        if device.whole_group is not None and tree.number(f"{_PCI}/{device.address}/enable"):
            yield "a program outside the kernel, as a virtual machine, has it open"
        for name in tree.names(f"{_PCI}/{device.address}"):
            if _UUID.fullmatch(name):
                yield f"its mediated device {name} is for a virtual machine"
        nodes += reached_disks(tree, f"{_PCI}/{device.address}")  # the controller's own file formats them
        for folder in interface_folders(tree, f"{_PCI}/{device.address}"):
            name = folder.rpartition("/")[2]
            if name in routed:
                yield f"its interface {name} has {routed[name]}"
            elif master := _master(tree, folder):
                yield f"its interface {name} belongs to {master}"
    below = files_below(tree, f"{_PCI}/{device.address}") if nodes else {}
    for node in nodes:
        disk = node.removeprefix("/dev/")
        for name, folder in _parts(tree, disk, below):
            if reason := _use(tree, name, folder, disks):
                yield f"/dev/{name} is {reason}"


def _use(tree: Tree, name: str, folder: str, disks: _Disks) -> str | None:
    """Return the use of a disk or partition, in words."""
    known = disks.names.get(name) or disks.numbers.get(tree.text(f"{folder}/dev") or "")
    if known is None and (holders := tree.names(f"{folder}/holders")):
        return f"a part of {', '.join(holders)}"
    return known


def _master(tree: Tree, folder: str) -> str | None:
    """Return what an interface belongs to: a bridge, a bond or a switch, or an interface on top, as a VLAN."""
    if link := tree.link(f"{folder}/master") or tree.link(f"{folder}/brport/bridge"):
        return link.rpartition("/")[2]
    return next((name.removeprefix("upper_") for name in tree.names(folder) if name.startswith("upper_")), None)


def _routed(tree: Tree) -> dict[str, str]:
    """Return the interfaces with a route of the host, each with words for it. Addresses of a link alone do not count.
    """
    found: dict[str, str] = {}
    for line in (tree.text("proc/net/route") or "").splitlines()[1:]:
        words = line.split()
        if len(words) >= 8:
            whole = words[1].strip("0") == "" and words[7].strip("0") == ""
            _note(found, words[0], whole, "a route of the host")
    for line in (tree.text("proc/net/ipv6_route") or "").splitlines():
        words = line.split()
        if len(words) == 10 and re.fullmatch("[0-9a-f]{8}", words[8]) and not int(words[8], 16) & _REJECTED:
            whole = words[0].strip("0") == "" and words[1] == "00"
            if not words[0].startswith(("fe8", "fe9", "fea", "feb", "ff")):
                _note(found, words[9], whole, "a route of the host")
    return found


def _note(found: dict[str, str], name: str, whole: bool, words: str) -> None:
    if whole:
        found[name] = "the default route"
    else:
        found.setdefault(name, words)


def _is_apart(tree: Tree) -> bool:
    """Return whether the reader runs in a pid namespace of its own. In the host's, process 2 is a thread of the kernel.
    """
    return tree.text("proc/1/comm") is not None and tree.text("proc/2/comm") != "kthreadd"


def _mounts(tree: Tree) -> Iterator[Mounted]:
    """Yield each mount of the host's first process and of this one.

    A container of zun-compute has mounts of its own. Without the right to read those of process 1, this one runs on the
    host itself, as a user who is not root.
    """
    for process in ("1", "self"):
        yield from mounts_in(Tree(tree.root).text(f"proc/{process}/mountinfo") or "")
    yield from mounts_in_table(tree.text("proc/mounts") or "")  # the only list of some recordings


def _pool(tree: Tree, entry: str) -> str | None:
    """Return the imported pool of ZFS that a disk or partition belongs to, as udev has read it; None without one."""
    told = tree.text(f"run/udev/data/b{tree.text(f'{_DISKS}/{entry}/dev')}") or ""
    known = dict(re.findall(r"^E:(ID_FS_TYPE|ID_FS_LABEL)=(.+)$", told, re.MULTILINE))
    name = known.get("ID_FS_LABEL", "")
    is_pool = known.get("ID_FS_TYPE") == "zfs_member" and re.fullmatch(r"[A-Za-z][\w.: -]*", name)
    return name if is_pool and tree.names(f"{_ZFS}/{name}") else None


class _Disks(NamedTuple):
    """What the host does with its disks and partitions: words by their names under /dev, and by their numbers."""

    names: Mapping[str, str]
    numbers: Mapping[str, str]


def _disks(tree: Tree) -> _Disks:
    numbers: dict[str, str] = {}
    found: dict[str, str] = {}
    for mount in _mounts(tree):
        if mount.device:
            numbers.setdefault(mount.device, f"mounted at {mount.place}")
        if mount.source.startswith("/dev/"):
            found.setdefault(mount.source.removeprefix("/dev/"), f"mounted at {mount.place}")
    for line in (tree.text("proc/swaps") or "").splitlines()[1:]:
        if line.startswith("/dev/"):
            found.setdefault(unescaped(line.split()[0]).removeprefix("/dev/"), "swap space of the host")
    for place in tree.names(_BTRFS):  # there while it is mounted; the list of mounts names one disk of several
        for entry in tree.names(f"{_BTRFS}/{place}/devices"):
            found.setdefault(entry.replace("!", "/"), "a part of a mounted btrfs")
    if tree.names(_ZFS):
        for entry in tree.names(_DISKS):
            if (pool := _pool(tree, entry)) is not None:
                found.setdefault(entry.replace("!", "/"), f"a part of the ZFS pool {pool}")
    return _Disks(found, numbers)


def _parts(tree: Tree, disk: str, below: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the disk and its partitions by their names under /dev, each with a folder in /sys, of which it has several.

    A recording may have one of the folders alone. ``below`` has the folders of a PCI device that stand for files.
    """
    entry = _entry(disk)
    for folder in (f"{_DISKS}/{entry}", f"sys/block/{entry}", *([below[entry]] if entry in below else ())):
        yield disk, folder
        for name in tree.names(folder):
            if tree.text(f"{folder}/{name}/partition") is not None:
                yield name.replace("!", "/"), f"{folder}/{name}"
                yield name.replace("!", "/"), f"{_DISKS}/{name}"


def _entry(name: str) -> str:
    """Return the name of a disk in /sys: ``cciss!c0d0`` for ``cciss/c0d0``."""
    return name.replace("/", "!")
