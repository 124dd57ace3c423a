# SPDX-License-Identifier: Apache-2.0
"""The devices of the layout 4pci of tools/numavm.sh, as the script puts them, and their files, as the kernel tells."""

import os
import pathlib

from zun.tests.machines import kernel

PF, VF1, VF2 = "0000:21:00.0", "0000:21:00.1", "0000:21:00.2"
SWITCH, SWITCHED_DISK, SWITCHED_EDU = "0000:41:00.0", "0000:43:00.0", "0000:44:00.0"
NIC, DISK, EDU = "0000:61:00.0", "0000:62:00.0", "0000:63:00.0"
IGB, IGB_VF1, IGB_VF2 = "0000:64:00.0", "0000:64:10.0", "0000:64:10.2"
FAR_DISK, FAR, CXL = "0000:81:00.0", 4, "0000:c1:00.0"
#: The devices of newer QEMUs.
NEWER = {each: node for each, node in {IGB: 3, IGB_VF1: 3, IGB_VF2: 3, CXL: 2}.items()
         if pathlib.Path("/sys/bus/pci/devices", each).exists()}  # fmt: skip
NODES = {PF: 1, VF1: 1, VF2: 1, SWITCHED_DISK: 2, SWITCHED_EDU: 2, NIC: 3, DISK: 3, EDU: 3, FAR_DISK: FAR, **NEWER}
WORDS = {VF1: "card2", VF2: "card3", SWITCHED_DISK: "disk2", DISK: "disk3", FAR_DISK: "disk4"}


def disk_of(address: str) -> str:
    """The disk that only this NVMe device has, found by what is on the disk."""
    disks = map(str, pathlib.Path("/dev").glob("nvme*n?"))
    (disk,) = (path for path in disks if kernel.first_word(path) == WORDS[address])
    return disk


def files_of(address: str) -> list[str]:
    disk = disk_of(address)
    return sorted((disk, disk.replace("nvme", "ng"), f"/dev/{kernel.nvme_controller(address)}"))


def clock_of(card: str) -> str:
    """The file of a network card's clock."""
    (clock,) = pathlib.Path(f"/sys/bus/pci/devices/{card}/ptp").iterdir()
    return f"/dev/{clock.name}"


def group_of(address: str) -> str:
    return pathlib.Path(f"/sys/bus/pci/devices/{address}/iommu_group").readlink().name


def interface_of(address: str) -> str:
    (name,) = os.listdir(f"/sys/bus/pci/devices/{address}/net")
    return name
