# SPDX-License-Identifier: Apache-2.0
"""A container of the real Docker on a port of a virtual function, for which an end of a veth pair stands in.

The card is files in a folder, and settings of the card are noted instead of made: virtual interfaces have no card.
"""

import os
import pathlib
import uuid

import pytest
from keystoneauth1 import adapter as ks_adapter
from keystoneauth1 import noauth
from keystoneauth1 import session as ksa_session

from zun.common.commands import run
from zun.network.plugin import WIRING, Server, Wires
from zun.network.virtual_functions import VirtualFunctions
from zun.neutron.client import NeutronClient
from zun.neutron.ports import Wiring
from zun.tests.fixtures import wait_for
from zun.tests.functional.neutron import FakeNeutron
from zun.tests.integration.container.daemon import IMAGE

pytestmark = pytest.mark.docker

CARD, FUNCTION, MAC = "0000:81:00.0", "0000:81:10.0", "fa:16:3e:00:0a:07"
HOST, CONTAINER = "198.18.78.1", "198.18.78.9"


@pytest.fixture
def suffix():
    return uuid.uuid4().hex[:6]


@pytest.fixture
def interface(suffix):
    """The stand-in. The other end, on the host, is what the card leads to."""
    name, other = f"vf{suffix}", f"wire{suffix}"
    run(["ip", "link", "add", name, "type", "veth", "peer", "name", other])
    run(["ip", "address", "add", f"{HOST}/24", "dev", other])
    run(["ip", "link", "set", "dev", other, "up"])
    yield name
    run(["ip", "link", "del", "dev", other])


@pytest.fixture
def neutron():
    made = FakeNeutron()
    made.agents = {"host-1"}
    yield made
    made.stop()


@pytest.fixture
def wiring(neutron):
    network = neutron.network("demo", "198.18.78.0/24", mtu=1400)
    body = {
        "network_id": network,
        "device_id": str(uuid.uuid4()),
        "mac_address": MAC,
        "fixed_ips": [{"ip_address": CONTAINER}],
        "binding:host_id": "host-1",
        "binding:vnic_type": "direct",
        "binding:profile": {"pci_slot": FUNCTION},
    }
    port = neutron._perform("POST", "ports", "", {"port": body}, {})[1]["port"]
    subnets = [each for each in neutron.records["subnets"].values() if each["network_id"] == network]
    return Wiring.of(port, neutron.records["networks"][network], subnets, primary=True)


@pytest.fixture
def card(tmp_path, interface):
    """The files of the card, and the settings that it was given."""
    devices = tmp_path / "sys/bus/pci/devices"
    for address, name in ((CARD, "ens1"), (FUNCTION, interface)):
        (devices / address / "net" / name).mkdir(parents=True)
    (devices / FUNCTION / "physfn").symlink_to(f"../{CARD}")
    (devices / CARD / "virtfn0").symlink_to(f"../{FUNCTION}")
    return []


@pytest.fixture
def network(docker_url, engine, tmp_path, neutron, card, suffix):
    """A network of Docker whose driver is ours."""

    def perform(command):
        card.append(command[-4:]) if "vf" in command else run(command)

    client = NeutronClient(ks_adapter.Adapter(ksa_session.Session(noauth.NoAuth()), endpoint_override=neutron.url))
    wires = Wires(tmp_path / "wires", {"hw_veb": VirtualFunctions(tmp_path, perform)}, client, 10)
    wires.start()
    name = f"zun-vf-{suffix}"
    server = Server(pathlib.Path(f"/run/docker/plugins/{name}.sock"), wires)
    server.start()
    engine.create_network(name, driver=name, ipam={"Driver": "null"})
    yield name
    engine.remove_network(name)
    server.stop()


@pytest.fixture
def container(engine, network, wiring):
    endpoint = engine.create_endpoint_config(driver_opt={WIRING: wiring.to_json()})
    made = engine.create_container(
        IMAGE,
        ["sh", "-c", "ip -o addr show eth0 > /tmp/first; exec sleep 1000000"],
        networking_config=engine.create_networking_config({network: endpoint}),
        host_config=engine.create_host_config(network_mode=network, restart_policy={"Name": "always"}),
    )["Id"]
    yield made
    engine.remove_container(made, force=True)


def inside(engine, container, *command):
    made = engine.exec_create(container, list(command))
    return engine.exec_start(made["Id"]).decode()


def test_the_life_of_a_function(engine, container, interface, card):
    """The first process has the interface, also after a restart by Docker; the host has it back after the stop."""
    on_host = pathlib.Path("/sys/class/net") / interface
    engine.start(container)
    assert not on_host.exists()
    shown = inside(engine, container, "ip", "link", "show", "eth0")
    assert MAC in shown and "mtu 1400" in shown
    assert CONTAINER in inside(engine, container, "cat", "/tmp/first")
    assert "1 packets received" in inside(engine, container, "ping", "-c", "1", "-w", "9", HOST)
    assert "default via 198.18.78.1 dev eth0" in inside(engine, container, "ip", "route")
    assert card == [("mac", MAC, "vlan", "101")]
    inside(engine, container, "rm", "/tmp/first")
    before = engine.inspect_container(container)["State"]["Pid"]
    os.kill(before, 9)
    wait_for(lambda: engine.inspect_container(container)["State"]["Pid"] not in (0, before), 60)
    wait_for(lambda: CONTAINER in inside(engine, container, "cat", "/tmp/first"), 60)
    assert not on_host.exists()
    engine.stop(container, timeout=0)
    assert on_host.exists()
    assert card[-1] == ("mac", "00:00:00:00:00:00", "vlan", "0")
