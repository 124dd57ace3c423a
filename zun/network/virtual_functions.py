# SPDX-License-Identifier: Apache-2.0
"""Give the interface of an SR-IOV virtual function to a container as the interface of its port.

The card is the switch: address and VLAN of a virtual function are set at its physical function, where the container
cannot change them. Docker moves the interface into the container and back. If a network namespace ends otherwise, the
kernel moves the interface to the host under the name that it had in the container, or as ``dev7`` if that name is taken
(dev_change_net_namespace). So an interface is always found by its PCI address, in /sys.

Source of the files: the kernel's Documentation/ABI/testing/sysfs-bus-pci and Documentation/PCI/pci-iov-howto.rst.
"""

import contextlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from zun.common import commands, exceptions
from zun.neutron.ports import Wiring
from zun.topology.files import Tree
from zun.topology.pci_files import interfaces, uplink

_DEVICES = "sys/bus/pci/devices"
_NO_ADDRESS = "00:00:00:00:00:00"


class VirtualFunctions:
    """The virtual functions of the machine whose files are below ``root``."""

    def __init__(self, root: Path = Path("/"), run: Callable[[Sequence[str]], None] = commands.run) -> None:
        self._tree = Tree(root)
        self._run = run

    def start(self) -> None:
        return

    def vendor_info(self, slot: str) -> str:
        """Return vendor and product of the device at a PCI address, as ``8086:10ed``. Raises PortUnusable."""
        found = [self._tree.text(f"{_DEVICES}/{slot}/{name}") for name in ("vendor", "device")]
        if None in found:
            raise exceptions.PortUnusable(reason=f"Virtual function {slot} is gone from the container's host.")
        return ":".join(str(each).removeprefix("0x").lower() for each in found)

    def plug(self, wiring: Wiring) -> str:
        """Set the function up for the port, and return the present name of its interface."""
        name, (card, number) = self._interface(wiring), self._card(wiring)
        self._do(wiring, "ip", "link", "set", "dev", name, "down")
        self._do(wiring, "ip", "link", "set", "dev", card, "vf", number, "mac", wiring.mac, "vlan", str(wiring.vlan))
        self._do(wiring, "ip", "link", "set", "dev", name, "address", wiring.mac, "mtu", str(wiring.mtu))
        return name

    def unplug(self, wiring: Wiring) -> None:
        """Take address and VLAN from the function. A function that is gone is no error."""
        with contextlib.suppress(exceptions.PortUnusable):
            card, number = self._card(wiring)
            self._do(wiring, "ip", "link", "set", "dev", card, "vf", number, "mac", _NO_ADDRESS, "vlan", "0")

    def _interface(self, wiring: Wiring) -> str:
        names = interfaces(self._tree, f"{_DEVICES}/{wiring.slot}")
        if not names:  # /sys shows the interfaces of the namespace that reads
            raise exceptions.PortUnusable(
                reason=f"Virtual function {wiring.slot} of port {wiring.port} has no interface on the container's "
                "host: it has no network driver, or its interface is in another network namespace. See "
                f"/sys/bus/pci/devices/{wiring.slot}/driver and 'ip netns' there."
            )
        return names[0]

    def _card(self, wiring: Wiring) -> tuple[str, str]:
        """Return the interface of the physical function, and the number that the virtual function has there."""
        physical = f"{_DEVICES}/{(self._tree.link(f'{_DEVICES}/{wiring.slot}/physfn') or '/').rpartition('/')[2]}"
        numbers = [
            match[1]
            for name in self._tree.names(physical)
            if (match := re.fullmatch(r"virtfn(\d+)", name))
            and (self._tree.link(f"{physical}/{name}") or "").rpartition("/")[2] == wiring.slot
        ]
        card = uplink(self._tree, physical)
        if not numbers or card is None:
            raise exceptions.PortUnusable(
                reason=f"The physical function of {wiring.slot}, which port {wiring.port} uses, has no interface on "
                "the container's host, so address and VLAN of the port cannot be set."
            )
        return card, numbers[0]

    def _do(self, wiring: Wiring, *command: str) -> None:
        try:
            self._run(command)
        except commands.FAILURES as exc:
            raise exceptions.PortUnusable(
                reason=f"Could not set up virtual function {wiring.slot} for port {wiring.port}: "
                f"{commands.failure(command, exc)}."
            ) from exc
