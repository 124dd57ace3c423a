# SPDX-License-Identifier: Apache-2.0
"""Read what gives access to a PCI device: its files under /dev, and its network interfaces.

The kernel tells both below the device's folder in /sys, whatever the driver: a folder with a file ``dev`` stands for a
file, and the entries of a folder ``net`` are interfaces.

Sources: the kernel's Documentation/admin-guide/sysfs-rules.rst (``dev``, ``uevent``), Documentation/driver-api/vfio.rst
and drivers/vfio/Kconfig (VFIO_NOIOMMU), Documentation/networking/representors.rst and switchdev.rst (port names).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from zun.topology.devices import is_vfio_driver
from zun.topology.files import Tree
from zun.topology.gpu_parts import mig_files, nvidia_minor
from zun.topology.kfd import KfdGpu

ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_OTHER_DEVICE = re.compile(rf"{ADDRESS.pattern}|pci[0-9a-f]{{4,8}}:[0-9a-f]{{2}}")
_BUS = re.compile(r"usb\d+")

NEVER_GIVEN: Mapping[str, str] = {
    "vfio-dev": "the file of the IOMMU group gives the same device, and the kernel lets one of the two be open",
    "partition": "the file of the whole disk gives it, and partitions come and go with what the disk holds",
    "bsg": "takes raw commands for the controller; the file of the disk gives the disk",
    "scsi_generic": "takes raw commands for the controller; the file of the disk gives the disk",
    "i2c-dev": "reaches every chip on the board's bus, the one with the firmware settings too",
    "i2c": "reaches every chip on the board's bus, the one with the firmware settings too",
    "gpio": "switches lines of the board",
    "mtd": "rewrites the card's firmware",
    "mei": "updates the card's firmware",
    "fwctl": "changes the card's firmware",
    "cxl": "manages memory that the host itself uses",
    "hwmon": "sets the fans of the card",
    "drm_dp_aux_dev": "controls the monitor at the card",
    "cec": "controls the monitor at the card",
    "graphics": "is the console of the host",
    "watchdog": "resets the host",
    "rtc": "sets the clock of the host",
    "ipmi": "switches the host off",
}
"""Class of a device in /sys -> why its file is not given to a container with the PCI device above it."""

_FOLDERS = {"drm": "dri", "infiniband_verbs": "infiniband", "infiniband_mad": "infiniband", "accel": "accel"}
"""Class -> folder under /dev, for a recording without ``uevent``."""
_FOLDERS_WITH_OWN_RULE = ("net", "power", "msi_irqs")


def device_files(
    tree: Tree,
    folder: str,
    address: str,
    driver: str | None,
    iommu_group: int | None,
    gpus: Iterable[KfdGpu],
) -> tuple[str, ...]:
    """Return the files under /dev that give access to the PCI device, sorted: ``/dev/nvme0``, ``/dev/nvme0n1``.

    ``folder`` is the device's folder in /sys, ``address`` its PCI address. ``gpus`` are those of the machine.
    """
    found = {*_kernel_files(tree, folder), *_nvme_disks(tree, folder), *_files_of_parts(tree, address, driver, gpus)}
    if iommu_group is not None and _is_for_vfio(tree, folder, driver):
        unprotected = tree.text(f"sys/kernel/iommu_groups/{iommu_group}/name") == "vfio-noiommu"
        found.add(f"/dev/vfio/{'noiommu-' if unprotected else ''}{iommu_group}")
    if (minor := nvidia_minor(tree, address)) is not None:
        found.add(f"/dev/nvidia{minor}")
    return tuple(sorted(found))


def has_interfaces(tree: Tree, folder: str) -> bool:
    """Return whether the device has network interfaces, also if all of them are in other network namespaces.

    /sys shows the interfaces of the reader's namespace only, but the folder ``net`` of the device stays.
    """
    return any(True for _ in _net_folders(tree, folder))


def interfaces(tree: Tree, folder: str) -> tuple[str, ...]:
    """Return the network interfaces of the device in this network namespace, sorted, without representors.

    A representor stands for a function on the switch of the card. Its ``phys_port_name`` is ``pf0vf1`` or ``c1pf0sf3``,
    of sfc ``p0pf0vf1``, and of the host's own function ``pf0`` or ``pf0hpf``. The uplink has ``p0``, of a split port
    ``p0s1``. A card in legacy mode has no such names.
    """
    return tuple(sorted(place.rpartition("/")[2] for place in interface_folders(tree, folder)))


def interface_folders(tree: Tree, folder: str) -> Iterator[str]:
    """Yield the folder of each of ``interfaces``."""
    for net in _net_folders(tree, folder):
        for name in tree.names(net):
            if not _is_representor(tree, f"{net}/{name}"):
                yield f"{net}/{name}"


def uplink(tree: Tree, folder: str) -> str | None:
    """Return the interface of a physical function that commands about its virtual functions name, or None without one.

    The interface with a port name of its own is best, then the interface nearest to the device: a subfunction has an
    interface one folder lower, ``mlx5_core.sf.4/net/enp8s0f0s88``.
    """
    places = interface_folders(tree, folder)
    ranked = sorted((_port(tree, place) is None, place.count("/"), place.rpartition("/")[2]) for place in places)
    return ranked[0][2] if ranked else None


def _is_representor(tree: Tree, folder: str) -> bool:
    port = _port(tree, folder)
    return port is not None and re.match(r"(c\d+)?(p\d+)?pf\d", port) is not None


def _port(tree: Tree, folder: str) -> str | None:
    # Without a note: most cards answer "operation not supported".
    return Tree(tree.root).text(f"{folder}/phys_port_name") or None


def _net_folders(tree: Tree, folder: str) -> Iterator[str]:
    return (place for place in _below(tree, folder) if place.rpartition("/")[2] == "net")


def _below(tree: Tree, folder: str) -> Iterator[str]:
    """Yield the folders below a device, without those of other PCI devices and of what is plugged into a USB port."""
    for name in tree.folders(folder):
        if not _OTHER_DEVICE.fullmatch(name) and not _BUS.fullmatch(name):
            place = f"{folder}/{name}"
            yield place
            if name not in _FOLDERS_WITH_OWN_RULE:
                yield from _below(tree, place)


def files_below(tree: Tree, folder: str) -> dict[str, str]:
    """Return the folders below a device that stand for files, by their names: ``nvme0n1p1``."""
    places = (place for place in _below(tree, folder) if tree.text(f"{place}/dev") is not None)
    return {place.rpartition("/")[2]: place for place in places}


def _kernel_files(tree: Tree, folder: str) -> Iterator[str]:
    for place in _below(tree, folder):
        if tree.text(f"{place}/dev") is not None and not NEVER_GIVEN.keys() & set(_kinds(tree, folder, place)):
            yield f"/dev/{_file(tree, place)}"


def _kinds(tree: Tree, folder: str, place: str) -> Iterable[str]:
    """Yield what tells the class of a file: its class, the folders above as ``i2c-3`` and ``i2c``, ``partition``."""
    for name in place.removeprefix(f"{folder}/").split("/"):
        yield from (name, re.sub(r"-?\d+$", "", name))
    yield (tree.link(f"{place}/subsystem") or "").rpartition("/")[2]
    if tree.text(f"{place}/partition") is not None:
        yield "partition"


def _file(tree: Tree, place: str) -> str:
    """Return the name under /dev of the file that a folder with ``dev`` stands for, as ``dri/renderD128``.

    Member DEVNAME of ``uevent`` tells the name. In the name of the folder an exclamation mark stands for a slash.
    """
    told = re.search(r"^DEVNAME=(\S+)$", tree.text(f"{place}/uevent") or "", re.MULTILINE)
    if told and ".." not in told[1].split("/"):
        return told[1].removeprefix("/dev/").lstrip("/")
    above, _, name = place.rpartition("/")
    prefix = _FOLDERS.get(above.rpartition("/")[2])
    return f"{prefix}/{name}" if prefix else name.replace("!", "/")


def _nvme_disks(tree: Tree, folder: str) -> Iterator[str]:
    """Yield the disks (namespaces) of an NVMe card with several controllers that this controller alone reaches.

    The kernel shows such a disk ``nvme0n1`` at the card (nvme-subsystem), and at each controller that reaches the disk
    a path ``nvme0c1n1``, which has no file under /dev. A disk that several controllers reach belongs to none of them.
    A disk also has a file for NVMe commands, ``ng0n1``.
    """
    for number, disk in _nvme_paths(tree, folder):
        card = f"sys/class/nvme-subsystem/nvme-subsys{number}"
        path = re.compile(rf"nvme{number}c\d+n{disk.rpartition('n')[2]}")
        others = [each for each in tree.names(card) if any(map(path.fullmatch, tree.names(f"{card}/{each}")))]
        if len(others) > 1:
            tree.note(f"/dev/{disk} is reached by {', '.join(others)}: it belongs to none of them")
        else:
            names = (disk, disk.replace("nvme", "ng"))
            yield from (f"/dev/{name}" for name in names if tree.text(f"{card}/{name}/dev") is not None)


def reached_disks(tree: Tree, folder: str) -> Iterator[str]:
    """Yield the files of the disks that an NVMe controller reaches together with others: ``/dev/nvme0n1``."""
    return (f"/dev/{disk}" for _, disk in _nvme_paths(tree, folder))


def _nvme_paths(tree: Tree, folder: str) -> Iterator[tuple[str, str]]:
    """Yield the number of the card and the name of the disk of each path ``nvme0c1n1`` of an NVMe controller."""
    for name in (name for entry in tree.names(f"{folder}/nvme") for name in tree.names(f"{folder}/nvme/{entry}")):
        if match := re.fullmatch(r"nvme(\d+)c\d+n(\d+)", name):
            yield match[1], f"nvme{match[1]}n{match[2]}"


def _is_for_vfio(tree: Tree, folder: str, driver: str | None) -> bool:
    """Return whether the driver gives the device to a program outside the kernel by VFIO.

    Each device of such a driver has a folder ``vfio-dev`` since Linux 6.1. Before, the name of the driver tells.
    """
    return is_vfio_driver(driver) or bool(tree.names(f"{folder}/vfio-dev"))


def _files_of_parts(tree: Tree, address: str, driver: str | None, gpus: Iterable[KfdGpu]) -> Iterator[str]:
    """Yield the files of all parts of a GPU: who has the whole GPU has its parts.

    Files of MIG instances are missing until a tool of the driver makes them. The GPU does not need missing ones.
    """
    if driver == "amdgpu":  # each partition is a device of the platform for itself
        minors = {gpu.render_minor for gpu in gpus if gpu.address == address}
        yield from (f"/dev/dri/renderD{minor}" for minor in minors - {0})
    for files in mig_files(tree, address).values():
        yield from (file for file in files if file.rpartition("/")[2] in tree.names("dev/nvidia-caps"))


def memory_nodes(tree: Tree) -> dict[str, int]:
    """Return by PCI address the memory node that is a GPU's own memory, of the GPUs that have one.

    NVIDIA's driver tells the node in ``numa_status``, with the lines ``Node: 1`` and ``Status: online``.
    """
    top, found = "proc/driver/nvidia/gpus", {}
    for address in tree.names(top):
        told = tree.text(f"{top}/{address}/numa_status") or ""
        node = re.search(r"^Node:\s*(\d{1,6})\s*$", told, re.MULTILINE)
        online = re.search(r"^Status:\s*online\s*$", told, re.MULTILINE)
        if node is not None and online and tree.names(f"sys/devices/system/node/node{int(node[1])}"):
            found[address.lower()] = int(node[1])
    return found
