# SPDX-License-Identifier: Apache-2.0
"""Read the device files of a Linux machine, those under /dev and the links there to such files.

The kernel tells by a device's number where in /sys the device is (Documentation/admin-guide/sysfs-rules.rst), for
example ``/sys/dev/block/259:0 -> ../../devices/pci0000:80/0000:80:01.0/0000:81:00.0/nvme/nvme0/nvme0n1``.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from zun.topology.devices import Device, DeviceType
from zun.topology.ranges import is_storable

#: Names under /dev that are no devices of the machine.
_OTHERS = ("pts", "shm", "mqueue", "hugepages", "fd", "stdin", "stdout", "stderr")


def discover_files(root: str | os.PathLike[str], pci: Iterable[Device]) -> tuple[Device, ...]:
    """Return a device for each file of a device, and for each link to one, in order of their paths.

    ``pci`` are the PCI devices of the same machine: a file of a device below one of them has its cell.
    """
    cells: dict[str, int | None] = {}
    for device in pci:
        disks = (node.removeprefix("/dev/") for node in device.nodes if node.startswith(("/dev/nvme", "/dev/ng")))
        cells |= dict.fromkeys((device.address, *disks), device.cell)
    found = (_device(Path(root), path, cells) for path in _paths(Path(root)))
    return tuple(sorted((device for device in found if device is not None), key=lambda device: device.address))


def _paths(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root / "dev"):
        if folder == str(root / "dev"):
            folders[:] = [name for name in folders if name not in _OTHERS]
            files = [name for name in files if name not in _OTHERS]
        yield from (Path(folder, name) for name in files)


def _device(root: Path, path: Path, cells: Mapping[str, int | None]) -> Device | None:
    try:
        real = path.resolve(strict=True)
        facts = real.stat()
    except (OSError, RuntimeError):  # it has gone since, or its links go round in a circle
        return None
    if not (stat.S_ISCHR(facts.st_mode) or stat.S_ISBLK(facts.st_mode)) or not is_storable(f"{path}{real}"):
        return None
    top = (root / "dev").resolve()
    if not real.is_relative_to(top):
        return None
    kind = "block" if stat.S_ISBLK(facts.st_mode) else "char"
    number = f"{os.major(facts.st_rdev)}:{os.minor(facts.st_rdev)}"
    return Device(
        address=f"/{path.relative_to(root)}",
        type=DeviceType.PATH,
        cell=_cell(root / "sys/dev" / kind / number, cells),
        nodes=(f"/dev/{real.relative_to(top)}",),
    )


def _cell(link: Path, cells: Mapping[str, int | None]) -> int | None:
    """Return the cell of the nearest PCI device above the device that ``link`` leads to; None without one.

    The disk of an NVMe card with several controllers is below none of them:
    ``../../devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1``. Its own name tells the cell.
    """
    try:
        steps = os.readlink(link).split("/")
    except OSError:
        return None
    return next((cells[step] for step in reversed(steps) if step in cells), None)
