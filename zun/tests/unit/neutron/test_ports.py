# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.neutron.ports import UNBOUND, Wiring, misbound, physical_network, unbound, with_function

FUNCTION = {"pci_vendor_info": "8086:10ed", "pci_slot": "0000:81:10.2", "physical_network": "physnet1"}
DIRECT = {
    "id": "p-1",
    "device_id": "c",
    "network_id": "n",
    "mac_address": "fa:16:3e:00:00:07",
    "fixed_ips": [{"subnet_id": "s", "ip_address": "10.7.0.5"}],
    "binding:host_id": "host-1",
    "binding:vnic_type": "direct",
    "binding:vif_type": "hw_veb",
    "binding:vif_details": {"vlan": "101", "port_filter": False},
    "binding:profile": {**FUNCTION, "trusted": "true"},
}
SUBNET = {"id": "s", "cidr": "10.7.0.0/24", "ip_version": 4, "gateway_ip": "10.7.0.1"}


@pytest.mark.parametrize(
    ("network", "name"),
    [
        ({"provider:physical_network": "physnet1", "provider:segmentation_id": 101}, "physnet1"),
        ({"provider:physical_network": None}, None),
        ({}, None),
        ({"segments": [{"provider:physical_network": None}, {"provider:physical_network": "physnet2"}]}, "physnet2"),
    ],
)
def test_physical_network(network, name):
    assert physical_network(network) == name


def test_a_profile_keeps_what_its_user_wrote():
    """With a function and without."""
    port = {"binding:profile": {"trusted": "true"}}
    bound = {**port, "binding:profile": with_function(port, *FUNCTION.values())}
    assert bound["binding:profile"] == {**FUNCTION, "trusted": "true"}
    assert unbound(bound) == {**UNBOUND, "binding:profile": {"trusted": "true"}}
    assert unbound(port) == unbound({}) == UNBOUND


def test_the_wiring_of_a_function():
    wiring = Wiring.of(DIRECT, {"mtu": 9000}, [SUBNET], primary=True)
    assert (wiring.binding, wiring.slot, wiring.vlan, wiring.mtu) == ("hw_veb", "0000:81:10.2", 101, 9000)
    assert Wiring.from_json(wiring.to_json()) == wiring


@pytest.mark.parametrize(
    ("drivers", "isolated"),
    [
        ({"bound_drivers": {"0": "openvswitch"}}, True),
        ({"bound_drivers": {"0": "a-switch", "1": "openvswitch"}}, True),
        ({"bound_drivers": {"0": "ovn"}}, False),  # its agent knows no VLAN for dropped packets
        ({}, False),
    ],
)
def test_which_ports_are_isolated_until_they_are_filtered(drivers, isolated):
    port = {**DIRECT, "binding:vif_type": "ovs", "binding:vif_details": drivers}
    assert Wiring.of(port, {}, [SUBNET], primary=True).isolated is isolated


@pytest.mark.parametrize(
    ("kind", "binding", "usable"),
    [
        ("direct", "hw_veb", True),
        ("direct", "ovs", False),  # a port of a switch in hardware
        ("normal", "ovs", True),
        ("normal", "hw_veb", False),
        ("normal", "vhostuser", False),
        ("macvtap", "hw_veb", False),
    ],
)
def test_usable_bindings(kind, binding, usable):
    reason = misbound({**DIRECT, "binding:vnic_type": kind, "binding:vif_type": binding}, "host-1")
    assert (reason is None) is usable
    assert usable or f"of the kind '{binding}'" in reason
