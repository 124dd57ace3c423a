# SPDX-License-Identifier: Apache-2.0
"""The devices that one container asks for, and the devices that a plan gives to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Self

from zun.topology.devices import Device, DeviceType
from zun.topology.ranges import CELL, GROUP, NAME, PATH, SHARES


class DevicePolicy(StrEnum):
    """The cells whose devices a container may get (Nova's ``numa_policy``)."""

    NONE = "none"
    """The devices of any cell. The distance to the container's CPUs does not count."""
    PREFERRED = "preferred"
    """The devices of any cell, the nearest first."""
    REQUIRED = "required"
    """The devices of the cells that the container runs on. A device of an unknown cell is none of them."""
    SOCKET = "socket"
    """The devices of the sockets that the container runs on. A device of an unknown cell is none of them."""


class DeviceSame(StrEnum):
    """The part of a host that all devices of one group share. A group has one device of each request.

    With ``LINK``, one group has all devices of the container that GPU links can join (``DeviceView.can_link``).
    """

    NONE = "none"
    LINK = "link"
    """A GPU link (NVLink, xGMI) between each two of them."""
    SWITCH = "switch"
    """The PCIe switch."""
    CELL = "cell"
    HOST = "host"


@dataclass(frozen=True, slots=True)
class DeviceMatch:
    """Conditions on a device. A condition that is None, or has no names, holds for every device.

    A part of a GPU has the vendor and the product of its GPU. So a match without ``type`` and ``resource_class`` admits
    no part: somebody who asks for a GPU gets a whole one.
    """

    vendor_id: str | None = None
    product_id: str | None = None
    resource_class: str | None = None
    type: DeviceType | None = None
    traits: tuple[str, ...] = ()
    physical_network: str | None = None

    def admits(self, device: Device) -> bool:
        """Return whether the device meets every condition.

        A device that containers share is for requests that name its resource class: nobody gets a share by accident.
        """
        by_accident = device.type is DeviceType.PART and self.type is None and self.resource_class is None
        return (
            not by_accident
            and (device.shared == 1 or self.resource_class is not None)
            and self.vendor_id in (None, device.vendor_id)
            and self.product_id in (None, device.product_id)
            and self.resource_class in (None, device.resource_class)
            and self.type in (None, device.type)
            and self.physical_network in (None, device.physical_network)
            and set(self.traits) <= set(device.traits)
        )


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """Some devices of one kind.

    ``name`` is the alias or the resource class that the user gave. A device serves if it meets one of ``matches`` and
    has all ``traits``.
    """

    name: str
    count: int
    matches: tuple[DeviceMatch, ...]
    traits: tuple[str, ...] = ()
    numa_policy: str = DevicePolicy.PREFERRED

    def admits(self, device: Device) -> bool:
        """Return whether the device serves."""
        return set(self.traits) <= set(device.traits) and any(match.admits(device) for match in self.matches)

    def to_dict(self) -> dict[str, Any]:
        """Return the request as JSON-able values; ``from_dict`` returns an equal value."""
        matches = [{**asdict(match), "traits": list(match.traits)} for match in self.matches]
        return {**asdict(self), "matches": matches, "traits": list(self.traits), "numa_policy": str(self.numa_policy)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Return the request of a record that ``to_dict`` made."""
        matches = tuple(
            DeviceMatch(
                vendor_id=each["vendor_id"],
                product_id=each["product_id"],
                resource_class=each["resource_class"],
                type=None if each["type"] is None else DeviceType(each["type"]),
                traits=tuple(each["traits"]),
                physical_network=each.get("physical_network"),  # earlier releases wrote none
            )
            for each in record["matches"]
        )
        return cls(
            name=record["name"],
            count=record["count"],
            matches=matches,
            traits=tuple(record["traits"]),
            numa_policy=record["numa_policy"],
        )


_OF_PORT = "port:"  # no alias and no resource class has a colon


def function_for(port: str, physical_network: str, numa_policy: str) -> DeviceRequest:
    """Return the request of the virtual function for a port (uuid) of Neutron in this physical network."""
    match = DeviceMatch(type=DeviceType.VF, physical_network=physical_network)
    return DeviceRequest(f"{_OF_PORT}{port}", 1, (match,), numa_policy=numa_policy)


def port_of(name: str) -> str | None:
    """Return the port (uuid) of the request of this name, or None if the request is for no port."""
    return name.removeprefix(_OF_PORT) if name.startswith(_OF_PORT) else None


class HeldDevice(NamedTuple):
    """What a claim knows of one device, also after the device has left the inventory."""

    address: str
    physical: str | None = None
    iommu_group: int | None = None
    """The IOMMU group that the device occupied when it was given; None if it left the group to others."""
    shared: int = 1
    """Number of containers that could have the device at once when it was given. 1: the container has it alone."""

    @property
    def whole_group(self) -> int | None:
        """Return the IOMMU group, as of a ``Device``."""
        return self.iommu_group


@dataclass(frozen=True, slots=True)
class GivenDevice:
    """One device of a plan."""

    name: str
    """The alias or the resource class of the request that the device serves."""
    address: str
    """The device's ``address`` in the inventory of the host."""
    cell: int | None = None
    """The device's cell; None if unknown."""
    counted_as: str | None = field(default=None, compare=False)
    """The device's resource class at Placement. None in a claim of an earlier release."""
    physical: str | None = field(default=None, compare=False)
    """Address of the device that this one is a part of, as of a ``Device``."""
    iommu_group: int | None = field(default=None, compare=False)
    """The IOMMU group, if the device occupies it as a whole."""
    memory_node: int | None = None
    """The memory node that is the device's own memory; None if it has none."""
    shared: int = 1
    """Number of containers that may have the device at the same time. 1: the container has it alone."""

    @classmethod
    def of(cls, name: str, device: Device) -> Self:
        """Return ``device`` as it is given to the request ``name``."""
        return cls(
            name=name,
            address=device.address,
            cell=device.cell,
            counted_as=device.counted_as,
            physical=device.physical,
            iommu_group=device.whole_group,
            memory_node=device.memory_node,
            shared=device.shared,
        )

    @property
    def held(self) -> HeldDevice:
        """What other containers must know of the device while this claim is held."""
        return HeldDevice(self.address, self.physical, self.iommu_group, self.shared)

    def to_dict(self) -> dict[str, Any]:
        """Return the device as JSON-able values. The last four fields are left out if they say nothing."""
        bonds = {"physical": self.physical, "iommu_group": self.iommu_group, "memory_node": self.memory_node}
        bonds["shared"] = self.shared if self.shared > 1 else None
        known = {"name": self.name, "address": self.address, "cell": self.cell, "counted_as": self.counted_as}
        return {**known, **{name: value for name, value in bonds.items() if value is not None}}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Return the device of a record; members of later releases are ignored.

        Raise one of ``ranges.MALFORMED`` for a record that ``to_dict`` did not make.
        """
        return cls(**{name: read(record[name]) for name, read in _READERS.items() if name in record})


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "name": PATH,
    "address": PATH,
    "cell": CELL.or_none,
    "counted_as": NAME.or_none,
    "physical": PATH.or_none,
    "iommu_group": GROUP.or_none,
    "memory_node": CELL.or_none,
    "shared": SHARES,
}
"""Field of a GivenDevice -> what reads its value in a record."""
