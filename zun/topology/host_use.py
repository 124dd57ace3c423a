# SPDX-License-Identifier: Apache-2.0
"""Find the devices that the host itself uses: the card of its own network, and disks with its own data.

Sources: proc(5) (``/proc/net/route``, ``/proc/self/mountinfo``, ``/proc/swaps``), the kernel's
Documentation/networking/proc_net_route.rst and bonding.rst (``master``), and Documentation/ABI/testing/sysfs-block
(``holders``). A file system that is not in these, as a pool of ZFS, is not found.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from zun.topology.devices import Device, DeviceType
from zun.topology.files import Tree, unescaped
from zun.topology.pci_files import interface_folders, reached_disks

_PCI = "sys/bus/pci/devices"
_DISKS = "sys/class/block"
_BTRFS = "sys/fs/btrfs"
_REJECTED = 0x0200  # RTF_REJECT of linux/route.h: an address that the kernel answers with an error


def marked(tree: Tree, devices: Iterable[Device]) -> tuple[Device, ...]:
    """Return the devices, each with the reason why the host uses it in ``in_use``, if the host does."""
    devices, routed, disks = tuple(devices), _routed(tree), _disks(tree)
    reasons = {device.address: next(_reasons(tree, device, routed, disks), None) for device in devices}
    # A virtual function loses its network with its physical function.
    for device in devices:
        if device.physical is not None and reasons[device.address] and reasons.get(device.physical, "") is None:
            reasons[device.physical] = f"its virtual function {device.address} is in use: {reasons[device.address]}"
    return tuple(
        device if (reason := reasons[device.address]) is None else replace(device, in_use=reason)
        for device in devices
    )


def remembered(
    devices: Iterable[Device], before: Mapping[str, str], held: Collection[str]
) -> tuple[tuple[Device, ...], dict[str, str]]:
    """Return the devices with the uses of ``before``, by address, and the uses to remember now.

    A card whose link is down loses its routes, and must not be given to a container meanwhile. Devices that containers
    hold (``held``) are not remembered, because the use that shows may be the container's.
    """
    devices = tuple(devices)
    now = {device.address: device.in_use for device in devices if device.in_use and device.address not in held}
    uses = {**before, **now}
    return tuple(replace(device, in_use=uses.get(device.address, device.in_use)) for device in devices), uses


def _reasons(
    tree: Tree, device: Device, routed: Mapping[str, str], disks: Mapping[str, str]
) -> Iterator[str]:
    nodes = list(device.nodes)
    if device.type not in (DeviceType.PATH, DeviceType.CDI):
        nodes += reached_disks(tree, f"{_PCI}/{device.address}")  # the controller's own file formats them
        for folder in interface_folders(tree, f"{_PCI}/{device.address}"):
            name = folder.rpartition("/")[2]
            if name in routed:
                yield f"its interface {name} has {routed[name]}"
            elif master := _master(tree, folder):
                yield f"its interface {name} belongs to {master}"
    for node in nodes:
        disk = node.removeprefix("/dev/")
        for name in (disk, *_partitions(tree, disk)):
            if name in disks:
                yield f"/dev/{name} is {disks[name]}"
            elif holders := tree.names(f"{_DISKS}/{_entry(name)}/holders"):
                yield f"/dev/{name} is a part of {', '.join(holders)}"


def _master(tree: Tree, folder: str) -> str | None:
    """Return what an interface belongs to: a bridge, a bond or a switch, or an interface on top, as a VLAN."""
    if link := tree.link(f"{folder}/master"):
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


def _disks(tree: Tree) -> dict[str, str]:
    """Return the disks and partitions that the host has mounted or swaps to, by their names under /dev."""
    numbers: dict[str, str] = {}
    found: dict[str, str] = {}
    for line in (tree.text("proc/self/mountinfo") or "").splitlines():
        words = line.split()
        if len(words) > 6 and "-" in words[6:]:
            at = f"mounted at {unescaped(words[4])}"
            numbers.setdefault(words[2], at)
            source = words[words.index("-", 6) + 2 : words.index("-", 6) + 3]
            if source and source[0].startswith("/dev/"):
                found.setdefault(unescaped(source[0]).removeprefix("/dev/"), at)
    for line in (tree.text("proc/swaps") or "").splitlines()[1:]:
        if line.startswith("/dev/"):
            found.setdefault(unescaped(line.split()[0]).removeprefix("/dev/"), "swap space of the host")
    for place in tree.names(_BTRFS):  # there while it is mounted; the list of mounts names one disk of several
        for entry in tree.names(f"{_BTRFS}/{place}/devices"):
            found.setdefault(entry.replace("!", "/"), "a part of a mounted btrfs")
    for entry in tree.names(_DISKS):
        if mounted := numbers.get(tree.text(f"{_DISKS}/{entry}/dev") or ""):
            found.setdefault(entry.replace("!", "/"), mounted)
    return found


def _partitions(tree: Tree, disk: str) -> Iterator[str]:
    folder = f"{_DISKS}/{_entry(disk)}"
    for name in tree.names(folder):
        if tree.text(f"{folder}/{name}/partition") is not None:
            yield name.replace("!", "/")


def _entry(name: str) -> str:
    """Return the name of a disk in /sys: ``cciss!c0d0`` for ``cciss/c0d0``."""
    return name.replace("/", "!")
