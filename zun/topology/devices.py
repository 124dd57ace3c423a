# SPDX-License-Identifier: Apache-2.0
"""A device of a host, as discovery finds it and as the operator offers it to containers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self

from zun.topology.ranges import CELL, GROUP, NAME, NAMES, PATH, SHARES

_LISTS = ("path", "nodes", "interfaces", "physical_interfaces", "links", "traits")
"""Fields of a Device that are lists in its record."""


def is_vfio_driver(name: str | None) -> bool:
    """Return whether a driver's name is ``vfio-pci`` or that of a variant, as ``mlx5_vfio_pci``.

    A driver of another name is told by the files of its devices: ``/dev/vfio/12``.
    """
    return name is not None and re.search("vfio[-_]pci$", name) is not None


def _paths(values: object) -> tuple[str, ...]:
    return tuple(map(PATH, NAMES(values)))


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "address": PATH,
    "vendor_id": NAME,
    "product_id": NAME,
    "class_id": NAME,
    "cell": CELL.or_none,
    "physical": PATH.or_none,
    "iommu_group": GROUP.or_none,
    "driver": NAME.or_none,
    "memory_node": CELL.or_none,
    "in_use": PATH.or_none,
    "profile": NAME.or_none,
    "uuid": NAME.or_none,
    "disk": PATH.or_none,
    "physical_network": NAME.or_none,
    "trusted": bool,
    "shared": SHARES,
    "resource_class": NAME.or_none,
    "type": lambda value: DeviceType(value),
    **dict.fromkeys(_LISTS, _paths),
}
"""Field of a Device -> what reads its value in a record."""


class DeviceType(StrEnum):
    """Kind of a device. The first three are functions of a PCI card, in Nova's words."""

    PCI = "type-PCI"
    """A device without virtual functions."""
    PF = "type-PF"
    """A physical function, which can have virtual ones."""
    VF = "type-VF"
    """A virtual function."""
    PART = "part"
    """A part of a GPU: a MIG instance or a compute partition."""
    PATH = "path"
    """A file under ``/dev``, or a link there to such a file."""
    CDI = "cdi"
    """A device that a file of the Container Device Interface describes."""


@dataclass(frozen=True, slots=True)
class Device:
    """One device. Numbers of PCI are in the kernel's hexadecimal form: vendor ``10de``, class ``030200``.

    A device that is not a PCI device has empty ``vendor_id``, ``product_id`` and ``class_id``.
    """

    address: str
    """The device's name on its host, unlike every other.

    Of a PCI device domain, bus, slot and function in lower case, as ``0000:81:00.0``; a domain can have up to eight
    digits. Of a part of a GPU the GPU's address with the number of the part, as ``0000:81:00.0/gi1/ci0`` or
    ``0000:81:00.0/xcp3``. Else the file, as ``/dev/hwrng``, or the CDI name, as ``vendor.com/class=name``.
    """
    vendor_id: str = ""
    product_id: str = ""
    class_id: str = ""
    cell: int | None = None
    """Id of the cell that the device is attached to; None if the machine does not tell."""
    path: tuple[str, ...] = ()
    """Root bus and bridges above the device, the root first: ``("pci0000:80", "0000:80:01.0")``. Empty if unknown."""
    type: DeviceType = DeviceType.PCI
    physical: str | None = None
    """Address of the device that this one is a part of: the physical function of a virtual one, the GPU of a part.

    The whole and its parts exclude each other. No part of a device has parts.
    """
    iommu_group: int | None = None
    driver: str | None = None
    nodes: tuple[str, ...] = ()
    """Files that give access to the device, as ``/dev/dri/renderD128``. Of a link under ``/dev``, its target."""
    interfaces: tuple[str, ...] = ()
    """Names of its network interfaces on the host."""
    physical_interfaces: tuple[str, ...] = ()
    """Names of the network interfaces of the physical function on the host, if this is a virtual one."""
    memory_node: int | None = None
    """The memory node that is the device's own memory, as of some GPUs. No cell of the host has this id."""
    links: tuple[str, ...] = ()
    """Addresses of the devices on the host that a GPU link (NVLink, xGMI) joins directly to this one, sorted.

    Some machines tell a link at one of its two ends only: ``DeviceView.linked`` has both.
    """
    in_use: str | None = None
    """Why the host itself uses the device, in words: ``its interface eno1 has the default route``."""
    profile: str | None = None
    """The size of a part of a GPU, as ``1g.10gb`` or ``cpx_nps4``; None if unknown."""
    uuid: str | None = None
    """The UUID of a MIG instance, as ``MIG-...``; None if unknown."""
    disk: str | None = None
    """A file of the device that is a disk, as ``/dev/nvme0n1``."""
    physical_network: str | None = None
    """This and the following fields are tags that the operator's ``device_spec`` gives to the device."""
    trusted: bool = False
    shared: int = 1
    """Number of containers that may have the device at the same time. 1: a container has it alone."""
    resource_class: str | None = None
    traits: tuple[str, ...] = ()

    @property
    def root(self) -> str | None:
        """Return the root bus, as ``pci0000:80``; None if unknown."""
        return self.path[0] if self.path else None

    @property
    def switch(self) -> str | None:
        """Return the address of the upstream port of the topmost PCIe switch, or None if there is no switch above.

        A switch shows as two bridges: its upstream port, and one downstream port for each device. So a device behind
        a switch has at least three bridges above, with the root port. Switches form a tree: two devices share a switch
        only if they share the topmost one, also where a card has a switch of its own.
        """
        return self.path[2] if len(self.path) >= 4 else None

    @property
    def whole_group(self) -> int | None:
        """Return the IOMMU group that the device occupies as a whole, or None if it leaves the group to others.

        The kernel gives a group to one program outside the kernel (Documentation/driver-api/vfio.rst). A device whose
        driver works in the kernel knows nothing of the others in its group.
        """
        return self.iommu_group if self.for_one_program else None

    @property
    def for_one_program(self) -> bool:
        """Return whether the kernel gives the device to one program outside the kernel at a time (VFIO)."""
        files = [node for node in self.nodes if node.startswith("/dev/vfio/") and node != "/dev/vfio/vfio"]
        return is_vfio_driver(self.driver) or bool(files)

    @property
    def kind(self) -> tuple[object, ...]:
        """Return what a request can tell devices apart by, but for the cell."""
        own = self.vendor_id, self.product_id, self.type, self.physical_network, self.resource_class, self.traits
        return (*own, self.shared > 1)

    @property
    def counted_as(self) -> str:
        """Return the resource class of the device at Placement: the operator's, or one of its kind.

        Examples: ``CUSTOM_PCI_10DE_2684``, Nova's name for a PCI device; ``CUSTOM_DEVICE_DEV_HWRNG``.
        """
        if self.resource_class is not None:
            return self.resource_class
        if self.vendor_id:
            return f"CUSTOM_PCI_{self.vendor_id}_{self.product_id}".upper()
        return f"CUSTOM_DEVICE_{re.sub('[^A-Z0-9]+', '_', self.address.upper()).strip('_')}"[:255]

    def to_dict(self) -> dict[str, Any]:
        """Return the device as JSON-able values; ``from_dict`` returns an equal value."""
        return {**asdict(self), **{name: list(getattr(self, name)) for name in _LISTS}}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Return the device of a record that ``to_dict`` made; members of later releases are ignored.

        Raise one of ``ranges.MALFORMED`` for a record that ``to_dict`` did not make.
        """
        return cls(**{name: read(record[name]) for name, read in _READERS.items() if name in record})
