# SPDX-License-Identifier: Apache-2.0
"""Read the PCI devices of a Linux machine from /sys: what each one is, and where.

Sources of the rules: the kernel's Documentation/ABI/testing/sysfs-bus-pci, Documentation/PCI/sysfs-pci.rst and
Documentation/PCI/pci-iov-howto.rst, and recordings of real machines. A file that is missing or cannot be understood
leaves its fact unknown; a device without a readable vendor, product and class is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from zun.topology import kfd
from zun.topology.cells import NUMACell, homes, only_cell
from zun.topology.cpuset import NO_CPUS, CpuSet
from zun.topology.devices import Device, DeviceType
from zun.topology.files import Tree
from zun.topology.gpu_parts import parts
from zun.topology.pci_files import ADDRESS, device_files, interfaces, memory_nodes

_DEVICES = "sys/bus/pci/devices"
_BRIDGE = "06"  # class of everything that only joins buses


def discover_devices(tree: Tree, cells: Sequence[NUMACell], nodes: Mapping[int, CpuSet]) -> tuple[Device, ...]:
    """Return the PCI devices of the machine in order of their addresses, without bridges. The parts follow their GPU.

    ``cells`` are all nodes of the machine, those too that are the memory of a device. ``nodes`` has the online CPUs of
    each node, whether this process may use them or not.
    """
    # A node with CPUs is ordinary memory, whatever the driver tells: containers get it by its cell.
    own = {address: node for address, node in memory_nodes(tree).items() if not nodes.get(node)}
    places = _Places(cells, nodes, frozenset(own.values()))
    gpus = tuple(kfd.read_gpus(tree))
    found = (_device(tree, name, places, own, gpus) for name in tree.names(_DEVICES) if ADDRESS.fullmatch(name))
    devices = sorted((each for each in found if each is not None), key=_by_address)
    names = {each.address: each.interfaces for each in devices}
    links = kfd.links(tree, gpus)
    complete = (
        replace(
            each,
            physical_interfaces=names.get(each.physical, ()) if each.physical is not None else (),
            links=tuple(sorted(links.get(each.address, frozenset()) & names.keys())),
        )
        for each in devices
    )
    return tuple(each for device in complete for each in (device, *parts(tree, device, gpus)))


def _by_address(device: Device) -> tuple[int, ...]:
    return tuple(int(part, 16) for part in re.split("[:.]", device.address))


def _device(
    tree: Tree, address: str, places: _Places, own_memory: Mapping[str, int], gpus: Sequence[kfd.KfdGpu]
) -> Device | None:
    folder = f"{_DEVICES}/{address}"
    vendor = tree.parsed(f"{folder}/vendor", _four_digits)
    product = tree.parsed(f"{folder}/device", _four_digits)
    class_id = tree.parsed(f"{folder}/class", _six_digits)
    if vendor is None or product is None or class_id is None or class_id.startswith(_BRIDGE):
        return None
    physical = _last(tree.link(f"{folder}/physfn"))
    virtual = physical is not None and ADDRESS.fullmatch(physical) is not None
    group = _last(tree.link(f"{folder}/iommu_group"))
    driver = _last(tree.link(f"{folder}/driver"))
    mode = kfd.partition_mode(tree, address) if driver == "amdgpu" else None
    if mode is not None and len(kfd.partitions(gpus, address)) < 2:
        tree.note(
            f"GPU {address} is left out: it is in partitions ({mode}), and /sys/class/kfd does not tell their files. "
            "Use a kernel with KFD (CONFIG_HSA_AMD), or make the GPU one piece (SPX)"
        )
        return None
    iommu_group = int(group) if group and re.fullmatch(r"\d{1,9}", group) else None
    can_have_virtual = (tree.number(f"{folder}/sriov_totalvfs") or 0) > 0
    return Device(
        address=address,
        vendor_id=vendor,
        product_id=product,
        class_id=class_id,
        cell=_cell(tree, folder, places),
        path=_path(tree.link(folder)),
        type=DeviceType.VF if virtual else DeviceType.PF if can_have_virtual else DeviceType.PCI,
        physical=physical if virtual else None,
        iommu_group=iommu_group,
        driver=driver,
        nodes=device_files(tree, folder, address, driver, iommu_group, gpus),
        interfaces=interfaces(tree, folder),
        memory_node=own_memory.get(address),
    )


def _four_digits(text: str) -> str:
    return _hexadecimal(text, 4)


def _six_digits(text: str) -> str:
    return _hexadecimal(text, 6)


def _hexadecimal(text: str, digits: int) -> str:
    """Return the digits of a number such as ``0x10de``. Raise ValueError for other text."""
    if not re.fullmatch(rf"0x[0-9a-fA-F]{{{digits}}}", text):
        raise ValueError(text)
    return text[2:].lower()


def _last(link: str | None) -> str | None:
    return None if link is None else link.rstrip("/").rpartition("/")[2]


def _path(link: str | None) -> tuple[str, ...]:
    """Return the root bus and the bridges above a device, from the link to its folder.

    Example: ``../../../devices/pci0000:80/0000:80:01.0/0000:81:00.0`` is ``("pci0000:80", "0000:80:01.0")``.
    """
    parts = (link or "").rstrip("/").split("/")[:-1]
    roots = [place for place, part in enumerate(parts) if re.fullmatch(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}", part)]
    return tuple(parts[roots[-1]:]) if roots else ()


class _Places(NamedTuple):
    """The nodes of the machine where devices can be."""

    nodes: Sequence[NUMACell]
    cpus: Mapping[int, CpuSet]
    """The online CPUs of each node, without the limits of this process."""
    of_devices: frozenset[int]
    """Ids of the nodes that are the memory of a device, so that they are no cells."""


def _cell(tree: Tree, folder: str, places: _Places) -> int | None:
    """Return the cell of a device, or None if the machine does not tell.

    The first of these wins: ``numa_node`` if it names a cell with CPUs; the only cell with all local CPUs;
    ``numa_node`` if it names a cell without CPUs; the only cell that has CPUs; and, if ``numa_node`` names the memory
    of a device, the cell nearest to this memory.
    """
    told = tree.parsed(f"{folder}/numa_node", int)
    node = None if told is None or told < 0 else told
    if node is not None and places.cpus.get(node):
        return node
    if (local := _local_cell(tree, folder, places.cpus)) is not None:
        return local
    cells = [cell for cell in places.nodes if cell.id not in places.of_devices]
    if any(cell.id == node for cell in cells):
        return node
    if (only := only_cell(cells)) is not None:
        return only
    memory = next((each for each in places.nodes if each.id == node), None)
    near = () if memory is None else homes(memory, [cell for cell in cells if cell.cpus])
    if len(near) == 1:
        return near[0]
    if node is not None:
        tree.note(f"/{folder}/numa_node is {node}, which is no cell of this host: the cell counts as unknown")
    return None


def _local_cell(tree: Tree, folder: str, cpus: Mapping[int, CpuSet]) -> int | None:
    """Return the node with all CPUs that the kernel lists as local, or None if they are of several nodes, or all.

    For a device without a node the kernel lists all CPUs, so a list of all CPUs proves nothing.
    """
    local = next(tree.cpu_sets(folder, "local_cpulist", "local_cpus"), NO_CPUS)
    touched = [node for node, own in cpus.items() if own & local]
    return touched[0] if len(touched) == 1 and any(own and not own & local for own in cpus.values()) else None
