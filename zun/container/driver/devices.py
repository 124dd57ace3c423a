# SPDX-License-Identifier: Apache-2.0
"""The devices of one container."""

from dataclasses import dataclass

from zun.topology.device_request import GivenDevice
from zun.topology.devices import Device


@dataclass(frozen=True, slots=True)
class ContainerDevices:
    """The devices of one container: those that its claim gives to it, and all that its host offers to anybody."""

    given: tuple[GivenDevice, ...] = ()
    offered: tuple[Device, ...] = ()

    @property
    def lost(self) -> str | None:
        """Return in words which given devices the host does not offer any more, or None if it offers all."""
        here = {device.address for device in self.offered}
        gone = [f"{each.address} ({each.name})" for each in self.given if each.address not in here]
        if not gone:
            return None
        what = f"device {gone[0]} is" if len(gone) == 1 else f"devices {', '.join(gone)} are"
        return f"{what} gone from the host, or not selected by its [devices] device_spec any more"


NO_DEVICES = ContainerDevices()
