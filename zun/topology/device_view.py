# SPDX-License-Identifier: Apache-2.0
"""The devices of a host prepared once for many decisions: which device rules out which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from zun.topology.device_request import DeviceRequest
from zun.topology.devices import Device

if TYPE_CHECKING:
    from zun.topology.cells import HostTopology


@dataclass(frozen=True, slots=True, eq=False)
class DeviceView:
    """The devices that a host offers to containers."""

    devices: tuple[Device, ...]
    """In order of their addresses."""
    by_address: Mapping[str, Device]
    clashes: Mapping[str, frozenset[str]]
    """By the address of a held device, the addresses that no other container can have.

    A physical function rules out its virtual functions and the other way round. A device rules out the other devices
    of its IOMMU group.
    """
    sockets: Mapping[int, frozenset[int]]
    """The sockets of a cell, by cell id. If the machine does not tell its sockets, each cell is a socket of its own."""

    def taken(self, held: Iterable[str]) -> set[str]:
        """Return the addresses in ``held`` and all that they rule out."""
        taken = set(held)
        for address in tuple(taken):
            taken |= self.clashes.get(address, frozenset())
        return taken


def build_device_view(topology: HostTopology) -> DeviceView:
    """Return a new view of the devices of ``topology``. ``HostTopology`` keeps its view: use ``device_view``."""
    devices = tuple(sorted(topology.devices, key=lambda device: device.address))
    clashes: dict[str, set[str]] = {}
    groups: dict[int, set[str]] = {}
    for device in devices:
        if device.physical is not None:
            clashes.setdefault(device.physical, set()).add(device.address)
            clashes.setdefault(device.address, set()).add(device.physical)
        if device.iommu_group is not None:
            groups.setdefault(device.iommu_group, set()).add(device.address)
    for group in groups.values():
        for address in group if len(group) > 1 else ():
            clashes.setdefault(address, set()).update(group - {address})
    return DeviceView(
        devices=devices,
        by_address={device.address: device for device in devices},
        clashes={address: frozenset(others) for address, others in clashes.items()},
        sockets=_sockets(topology),
    )


def _sockets(topology: HostTopology) -> dict[int, frozenset[int]]:
    """Return the sockets of each cell. A cell on no known socket gets a negative number, which no other cell has."""
    found = {}
    for cell in topology.cells:
        numbers = [number for number, socket in enumerate(topology.sockets) if socket & cell.cpus]
        found[cell.id] = frozenset(numbers or [-1 - cell.id])
    return found


@lru_cache(maxsize=1024)
def serving(view: DeviceView, request: DeviceRequest) -> tuple[Device, ...]:
    """Return the devices of a host that serve ``request``, whoever holds them."""
    return tuple([device for device in view.devices if request.admits(device)])
