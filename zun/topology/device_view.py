# SPDX-License-Identifier: Apache-2.0
"""The devices of a host prepared once for many decisions: which device rules out which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from zun.topology.cells import NUMACell, homes
from zun.topology.cpuset import CpuSet
from zun.topology.device_request import DeviceRequest, GivenDevice, HeldDevice
from zun.topology.devices import Device, DeviceType

Rivals = tuple[Sequence[int], Sequence[int]]
"""Two sides, by positions of devices, of which a container has one at most."""


@dataclass(frozen=True, slots=True, eq=False)
class DeviceView:
    """The devices that a host offers to containers."""

    devices: tuple[Device, ...]
    """In order of their addresses."""
    by_address: Mapping[str, Device]
    virtual: Mapping[str, tuple[str, ...]]
    """The virtual functions of each physical one, and the parts of each GPU, by addresses. The host need not offer the
    whole."""
    groups: Mapping[int, tuple[Device, ...]]
    """The devices of each IOMMU group."""
    homes: Mapping[int, tuple[int, ...]]
    """The cells with CPUs where the devices of a node are, by node id: the node itself, or if it has no CPUs, the cells
    nearest to it."""
    linked: Mapping[str, frozenset[str]]
    """By address, the other devices that a GPU link joins directly to a device, without devices that have no link. It
    is enough that one of the two devices names the link, and only devices that the host offers count."""
    sockets: Mapping[int, frozenset[int]]
    """The sockets of a node's homes, by node id. If the machine does not tell its sockets, each cell with CPUs is a
    socket of its own."""

    def taken(self, held: Iterable[HeldDevice]) -> dict[str, str]:
        """Return the addresses that no other container can have, each with the held device that rules it out.

        ``held`` has one entry for each claim of a device. A held device rules out itself, but a shared one only if as
        many claims hold it as may share it, or if a claim is from a time when the device was not shared. A physical
        function rules out its virtual functions and the other way round, and so do a GPU and its parts. A device that
        occupies its IOMMU group rules out the other devices there, and any other device there rules out those that
        would occupy the group. If the host no longer offers a held device, the claim tells what the device is a part
        of, and the group that it occupied.
        """
        taken: dict[str, str] = {}
        held = tuple(held)
        holders = Counter([claimed.address for claimed in held])
        for claimed in held:
            device = self.by_address.get(claimed.address, claimed)
            if claimed.shared == 1 or holders[claimed.address] >= device.shared:
                taken[claimed.address] = claimed.address
            beside = [*self.virtual.get(claimed.address, ())]
            if device.physical is not None:
                beside.append(device.physical)
            beside += self._beside(device)
            for address in beside:
                taken.setdefault(address, claimed.address)
        return taken

    def _beside(self, device: Device | HeldDevice) -> Iterator[str]:
        """Yield the addresses in the IOMMU group of a held device that it rules out, itself among them."""
        for other in self.groups.get(-1 if device.iommu_group is None else device.iommu_group, ()):
            if device.whole_group is not None or other.whole_group is not None:
                yield other.address

    def why_taken(self, address: str, holder: str) -> str:
        """Return why nobody else can have a device of the host while ``holder`` is held; see ``taken``."""
        device, other = self.by_address[address], self.by_address.get(holder)
        if holder == address:
            return f"device {address} is taken"
        if device.physical == holder:
            return f"device {address} is a part of {holder}, which is held"
        if other is not None and other.physical == address:
            parts = "parts" if other.type is DeviceType.PART else "virtual functions"
            return f"device {address} is given in {parts}, and {holder} is held"
        return f"device {address} cannot be shared with {holder}, which is held"

    def can_link(self, device: Device) -> bool:
        """Return whether a GPU link can join the device to another one.

        A file has none, nor has a PCI device whose class is neither display controller (``03``) nor processing
        accelerator (``12``): a network card or a disk. What a CDI name describes is not known, so it can have links.
        """
        if device.address in self.linked:
            return True
        return device.type != DeviceType.PATH and device.class_id[:2] in ("", "03", "12")

    def described(self, given: GivenDevice) -> GivenDevice:
        """Return ``given`` with what the host tells of the device now, or unchanged if the host does not offer it."""
        device = self.by_address.get(given.address)
        return given if device is None else GivenDevice.of(given.name, device)


def build_device_view(
    offered: Iterable[Device], cells: Sequence[NUMACell], sockets: Sequence[CpuSet]
) -> DeviceView:
    """Return a new view of the ``offered`` devices. ``HostTopology`` keeps its view: use ``device_view``."""
    devices = tuple(sorted(offered, key=lambda device: device.address))
    virtual: dict[str, tuple[str, ...]] = {}
    groups: dict[int, tuple[Device, ...]] = {}
    for device in devices:
        if device.physical is not None:
            virtual[device.physical] = (*virtual.get(device.physical, ()), device.address)
        if device.iommu_group is not None:
            groups[device.iommu_group] = (*groups.get(device.iommu_group, ()), device)
    working = [cell for cell in cells if cell.cpus]
    places = {cell.id: homes(cell, working) for cell in cells}
    return DeviceView(
        devices=devices,
        by_address={device.address: device for device in devices},
        virtual=virtual,
        groups=groups,
        homes=places,
        linked=_linked(devices),
        sockets=_sockets(cells, sockets, places),
    )


def _linked(devices: Iterable[Device]) -> dict[str, frozenset[str]]:
    """Return the linked devices of each device that has a link, by addresses, the same from both ends."""
    offered = {device.address for device in devices}
    ends = [(device.address, other) for device in devices for other in device.links if other != device.address]
    found: dict[str, set[str]] = {}
    for one, other in (*ends, *((other, one) for one, other in ends)):
        if one in offered and other in offered:
            found.setdefault(one, set()).add(other)
    return {address: frozenset(others) for address, others in found.items()}


def _sockets(
    cells: Sequence[NUMACell], sockets: Sequence[CpuSet], places: Mapping[int, tuple[int, ...]]
) -> dict[int, frozenset[int]]:
    """Return the sockets of each node. A cell on no known socket gets a negative number, which no other cell has."""
    own = {}
    for cell in cells:
        numbers = [number for number, socket in enumerate(sockets) if socket & cell.cpus]
        own[cell.id] = numbers or [-1 - cell.id]
    return {node: frozenset([number for home in found for number in own[home]]) for node, found in places.items()}


def rivals(devices: Iterable[Device]) -> list[Rivals]:
    """Return every two sides of which a container has one at most, by positions in ``devices``.

    These are a physical function and its virtual ones, a GPU and its parts, and in one IOMMU group the devices of VFIO
    drivers and those of the kernel's own drivers: a program cannot open a device while the kernel drives another one of
    the group.
    """
    owners: dict[str, int] = {}
    virtual: dict[str, list[int]] = {}
    groups: dict[int, tuple[list[int], list[int]]] = {}
    for position, device in enumerate(devices):
        owners[device.address] = position
        if device.physical is not None:
            virtual.setdefault(device.physical, []).append(position)
        if device.iommu_group is not None:
            sides = groups.setdefault(device.iommu_group, ([], []))
            sides[device.whole_group is None].append(position)
    functions: list[Rivals] = [((owners[owner],), found) for owner, found in virtual.items() if owner in owners]
    return [*functions, *[both for both in groups.values() if all(both)]]


@lru_cache(maxsize=1024)
def serving(view: DeviceView, request: DeviceRequest) -> tuple[Device, ...]:
    """Return the devices of a host that serve ``request``, whoever holds them."""
    return tuple([device for device in view.devices if request.admits(device)])
