# SPDX-License-Identifier: Apache-2.0
"""Where the interfaces of a network card are: on the host, in the container, or in a network of somebody else."""

import pytest

from zun.common import exceptions
from zun.container.docker.network_cards import is_network_card, lacks_card, movable

CARD, PID = "0000:05:10.0", 77
DEVICES = "sys/bus/pci/devices"
DEV = "Inter-|   Receive   |  Transmit\n face |bytes    packets|bytes    packets\n"


@pytest.fixture
def root(tmp_path):
    """A host with a card, and a container of its own network. The interface of the card is in neither."""
    (tmp_path / DEVICES / CARD / "virtio3/net").mkdir(parents=True)
    inside(tmp_path)
    return tmp_path


def inside(root, *names, mounted_for=None):
    """Let the container have these interfaces; its /sys is that of a network with ``mounted_for``."""
    process = root / f"proc/{PID}"
    (process / "net").mkdir(parents=True, exist_ok=True)
    (process / "net/dev").write_text(DEV + "".join(f"{name:>6}: 1 2 3 4\n" for name in ("lo", *names)))
    for name in ("lo", *(names if mounted_for is None else mounted_for)):
        (process / "root/sys/class/net" / name).mkdir(parents=True, exist_ok=True)
        if name.startswith("eth"):
            (process / "root" / DEVICES / CARD / "virtio3/net" / name).mkdir(parents=True)


def test_card_of_a_foreign_network_is_refused(root):
    assert is_network_card(root, CARD)
    assert lacks_card(root, CARD, PID)
    for pid in (PID, 0):
        with pytest.raises(exceptions.DeviceUnusable, match=f"device {CARD}: its network interface is in another"):
            movable(root, CARD, pid, 0)


def test_card_of_the_host_is_movable(root):
    (root / DEVICES / CARD / "virtio3/net/eth1").mkdir()
    assert movable(root, CARD, PID, 0) == ("eth1",)


def test_card_of_the_container_stays(root):
    inside(root, "eth1")
    (root / f"proc/{PID}/root/sys/class/net/bonding_masters").touch()
    assert not lacks_card(root, CARD, PID)
    assert movable(root, CARD, PID, 0) == ()


def test_card_that_comes_back_is_waited_for(root):
    """The container that had the card has ended: the kernel gives the interface back a moment later."""
    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 3:
            (root / DEVICES / CARD / "virtio3/net/eth1").mkdir()

    assert movable(root, CARD, PID, 60, pause) == ("eth1",)
    assert len(pauses) == 3


@pytest.mark.parametrize("change", [
    pytest.param(lambda root: inside(root, "wan0", mounted_for=()), id="its-sys-shows-another-network"),
    pytest.param(lambda root: (root / f"proc/{PID}/net/dev").unlink(), id="it-has-ended"),
])
def test_network_that_cannot_be_told_is_not_refused(root, change):
    change(root)
    assert not lacks_card(root, CARD, PID)
    assert movable(root, CARD, PID, 0) == ()
