# SPDX-License-Identifier: Apache-2.0
"""Find the interfaces of network cards, on the host or in containers, and move them into containers.

Source: network_namespaces(7). If a namespace ends, the kernel moves the interfaces of cards back to the host, some time
after the last process has ended.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

from zun.common import commands, exceptions
from zun.topology.files import Tree
from zun.topology.pci_files import has_interfaces, interfaces

#: Seconds within which the kernel moves interfaces back to the host after a container has ended.
PATIENCE = 10.0
_PAUSE = 0.1
_PCI = "sys/bus/pci/devices"


def is_network_card(root: Path, address: str) -> bool:
    """Return whether the PCI device has network interfaces, in whatever network they are now."""
    return has_interfaces(Tree(root), f"{_PCI}/{address}")


def movable(
    root: Path, address: str, pid: int, patience: float, pause: Callable[[float], None] = time.sleep
) -> tuple[str, ...]:
    """Return the interfaces of a card on the host, or none if the network of process ``pid`` has them already.

    ``pid`` is 0 for a container without a process. Wait up to ``patience`` seconds for interfaces that are in neither
    place. DeviceUnusable if they do not come: the container would have the card without its interfaces.
    """
    until = time.monotonic() + patience
    while not (found := interfaces(Tree(root), f"{_PCI}/{address}")) and lacks_card(root, address, pid):
        if time.monotonic() >= until:
            raise exceptions.DeviceUnusable(
                reason=f"device {address}: its network interface is in another network namespace, neither on the host "
                "nor in the container. Look for it with 'ip netns' and 'lsns --type net' on the host, and move it back"
            )
        pause(_PAUSE)
    return found


def lacks_card(root: Path, address: str, pid: int) -> bool:
    """Return whether the network of process ``pid`` has no interface of the card, as far as can be told.

    A folder /sys shows the interfaces of the network that it was mounted for, mostly that of the container. If the /sys
    of the process shows another network, nothing can be told.
    """
    if not pid:
        return True
    tree = Tree(root / "proc" / str(pid) / "root")
    shown = {*tree.names("sys/class/net")} - {"bonding_masters"}  # a file of the bonding driver
    lines = (Tree(root).text(f"proc/{pid}/net/dev") or "").splitlines()[2:]
    there = {line.partition(":")[0].strip() for line in lines}
    return bool(there) and shown == there and not interfaces(tree, f"{_PCI}/{address}")


def same_network(root: Path, pid: int) -> bool:
    """Return whether process ``pid`` is in the host's network, or has ended."""
    return _namespace(root, str(pid)) in ("", _namespace(root, "self"))


def move_interface(name: str, pid: int) -> None:
    """Move an interface of the host into the network of process ``pid`` and set it up.

    DeviceUnusable if this fails: the container may have another interface of this name.
    """
    inside = ("nsenter", f"--net=/proc/{pid}/ns/net")
    for command in (
        ("ip", "link", "set", "dev", name, "netns", str(pid)),
        (*inside, "ip", "link", "set", "dev", name, "up"),
    ):
        try:
            commands.run(command)
        except commands.FAILURES as exc:
            raise exceptions.DeviceUnusable(reason=commands.failure(command, exc)) from exc


def _namespace(root: Path, process: str) -> str:
    try:
        return os.readlink(root / "proc" / process / "ns/net")
    except OSError:  # it has ended
        return ""
