# SPDX-License-Identifier: Apache-2.0
import subprocess

import pytest

from zun.common import exceptions
from zun.network.virtual_functions import VirtualFunctions
from zun.neutron.ports import Wiring

CARD, FIRST, SECOND = "0000:81:00.0", "0000:81:10.0", "0000:81:10.2"
SET = ("ip", "link", "set", "dev")


def wiring(slot=SECOND, **fields):
    usual = {"port": "p-1", "container": "c", "network": "n", "mac": "fa:16:3e:00:00:07", "mtu": 9000}
    return Wiring(**{**usual, "binding": "hw_veb", "slot": slot, "vlan": 101, **fields})


@pytest.fixture
def root(tmp_path):
    """The files of a machine whose card has two virtual functions."""
    devices = tmp_path / "sys/bus/pci/devices"
    for address, interface in ((CARD, "ens1"), (FIRST, "ens1v0"), (SECOND, "ens1v1")):
        (devices / address / "net" / interface).mkdir(parents=True)
        (devices / address / "vendor").write_text("0x8086\n")
        (devices / address / "device").write_text("0x10ED\n")
    for number, address in enumerate((FIRST, SECOND)):
        (devices / address / "physfn").symlink_to(f"../{CARD}")
        (devices / CARD / f"virtfn{number}").symlink_to(f"../{address}")
    return tmp_path


@pytest.fixture
def commands():
    return []


@pytest.fixture
def functions(root, commands):
    return VirtualFunctions(root, commands.append)


def test_address_and_vlan_are_set_at_the_card(functions, commands):
    """The container cannot change what its card enforces."""
    assert functions.plug(wiring()) == "ens1v1"
    assert commands == [
        (*SET, "ens1v1", "down"),
        (*SET, "ens1", "vf", "1", "mac", "fa:16:3e:00:00:07", "vlan", "101"),
        (*SET, "ens1v1", "address", "fa:16:3e:00:00:07", "mtu", "9000"),
    ]


def test_uplink_among_its_representors_is_the_card(functions, commands, root):
    """A card in switchdev mode has a representor of each virtual function beside the uplink."""
    net = root / "sys/bus/pci/devices" / CARD / "net"
    for name, port in (("ens1", "p0"), ("a0", "pf0vf0"), ("a1", "c1pf0vf1"), ("a2", "pf0sf8")):
        (net / name).mkdir(exist_ok=True)
        (net / name / "phys_port_name").write_text(f"{port}\n")
    functions.plug(wiring())
    assert commands[1][:6] == (*SET, "ens1", "vf")


@pytest.mark.parametrize("port", ["p0", "p0s1", ""])
def test_uplink_beside_the_interface_of_a_subfunction(functions, commands, root, port):
    card = root / "sys/bus/pci/devices" / CARD
    (card / "mlx5_core.sf.4/net/a0").mkdir(parents=True)
    if port:
        (card / "net/ens1/phys_port_name").write_text(f"{port}\n")
    functions.plug(wiring())
    assert commands[1][:6] == (*SET, "ens1", "vf")


def test_uplink_has_a_port_name(functions, commands, root):
    net = root / "sys/bus/pci/devices" / CARD / "net"
    (net / "a0").mkdir()
    (net / "ens1/phys_port_name").write_text("p0\n")
    functions.plug(wiring())
    assert commands[1][:6] == (*SET, "ens1", "vf")


def test_interface_of_a_virtual_function_of_virtio(functions, commands, root):
    devices = root / "sys/bus/pci/devices" / SECOND
    (devices / "virtio7").mkdir()
    (devices / "net").rename(devices / "virtio7/net")
    assert functions.plug(wiring()) == "ens1v1"


def test_an_interface_that_came_back_renamed(functions, commands, root):
    """The kernel gives it back by its name in the container, or by a new one."""
    net = root / "sys/bus/pci/devices" / SECOND / "net"
    (net / "ens1v1").rename(net / "dev7")
    assert functions.plug(wiring()) == "dev7"
    assert commands[0] == (*SET, "dev7", "down")


def test_unplug_takes_address_and_vlan(functions, commands):
    functions.unplug(wiring())
    assert commands == [(*SET, "ens1", "vf", "1", "mac", "00:00:00:00:00:00", "vlan", "0")]
    functions.unplug(wiring("0000:99:00.1"))  # a function that is gone
    assert len(commands) == 1


@pytest.mark.parametrize(
    ("address", "why"),
    [(SECOND, "has no interface on the container's host"), (CARD, "address and VLAN of the port cannot be set")],
)
def test_a_missing_interface_is_told(functions, commands, root, address, why):
    (interface,) = (root / "sys/bus/pci/devices" / address / "net").iterdir()
    interface.rmdir()
    with pytest.raises(exceptions.PortUnusable, match=why):
        functions.plug(wiring())
    assert commands == []


@pytest.mark.parametrize(
    "failure",
    [OSError("no ip"), subprocess.CalledProcessError(2, "ip", stderr="RTNETLINK answers: Operation not supported\n")],
)
def test_a_failed_command_is_told(root, failure):
    def fail(command):
        raise failure

    told = "no ip" if isinstance(failure, OSError) else "not supported"
    with pytest.raises(exceptions.PortUnusable, match=rf"'ip link set dev ens1v1 down' failed: .*{told}"):
        VirtualFunctions(root, fail).plug(wiring())


def test_vendor_info(functions):
    assert functions.vendor_info(SECOND) == "8086:10ed"
    with pytest.raises(exceptions.PortUnusable, match="is gone"):
        functions.vendor_info("0000:99:00.1")
