# SPDX-License-Identifier: Apache-2.0
"""Interfaces of ports on the Open vSwitch of the tests, without Docker and Neutron."""

import json
import pathlib
import socket
import subprocess
import sys
import uuid
from dataclasses import replace

import pytest

from zun.common.commands import run
from zun.network.wiring import OpenVSwitch, container_end, host_end
from zun.neutron.ports import Wiring
from zun.tests.fixtures import wait_for

INTERFACES = pathlib.Path("/sys/class/net")


@pytest.fixture
def switch(neutron_ovsdb):
    made = OpenVSwitch(neutron_ovsdb)
    made.start()
    return made


def vsctl(ovsdb, *words):
    command = ["ovs-vsctl", f"--db={ovsdb}", "--timeout=20", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(params=[True, False], ids=["hybrid", "plain"])
def wiring(neutron_ovsdb, switch, request):
    """The wiring of a port, which iptables filters if it is hybrid, on the bridge of Neutron's agent."""
    bridge = vsctl(neutron_ovsdb, "list-br").split()[0]
    made = Wiring(
        port=str(uuid.uuid4()), container=str(uuid.uuid4()), network=str(uuid.uuid4()), mac="fa:16:3e:00:00:21",
        mtu=1400, bridge=bridge, hybrid=request.param, datapath="netdev",
    )  # fmt: skip
    yield made
    switch.unplug(made)


@pytest.fixture
def namespace():
    name = f"zun-{uuid.uuid4().hex[:6]}"
    run(["ip", "netns", "add", name])
    yield name
    run(["ip", "netns", "del", name])


@pytest.fixture
def address():
    """An IPv4 address of this host, on an interface that has nothing to do with the switch."""
    name = f"zt{uuid.uuid4().hex[:6]}"
    run(["ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}p"])
    run(["ip", "address", "add", "198.18.79.1/24", "dev", name])
    run(["ip", "link", "set", "dev", name, "up"])
    yield "198.18.79.1"
    run(["ip", "link", "del", "dev", name])


def test_a_container_does_not_reach_its_host(switch, wiring, namespace, address):
    """A switch in user space leaves the packets of its interfaces to the host, too.

    The host answers neither at a link-local address nor, with ARP, for an address that a network has as well. A program
    with raw sockets may write any packet; a neighbour by hand stands for this program.
    """
    end = switch.plug(wiring)
    run(["ip", "link", "set", "dev", end, "netns", namespace])
    inside = ["ip", "netns", "exec", namespace]
    run([*inside, "ip", "address", "add", "198.18.79.9/24", "dev", end])
    run([*inside, "ip", "link", "set", "dev", end, "up"])
    tentative = [*inside, "ip", "-6", "-o", "address", "show", "dev", end, "scope", "link", "-tentative"]
    wait_for(lambda: "fe80::" in subprocess.run(tentative, check=True, capture_output=True, text=True).stdout, 20)
    hosts = [host_end(wiring.port), f"qbr{wiring.port[:11]}"] if wiring.hybrid else [host_end(wiring.port)]
    for name in hosts:
        digits = (INTERFACES / name / "address").read_text().strip().split(":")
        lower = f"{int(digits[0], 16) ^ 2:02x}{digits[1]}:{digits[2]}ff:fe{digits[3]}:{digits[4]}{digits[5]}"
        asked = [*inside, "ping", "-c", "3", "-i", "0.5", "-W", "1", f"fe80::{lower}%{end}"]
        assert "3 packets transmitted, 0 received" in subprocess.run(asked, capture_output=True, text=True).stdout
    subprocess.run([*inside, "ping", "-c", "2", "-W", "1", address], capture_output=True)
    known = subprocess.run([*inside, "ip", "neighbour", "show", "to", address], capture_output=True, text=True).stdout
    assert "lladdr" not in known
    mac = (INTERFACES / hosts[0] / "address").read_text().strip()
    run([*inside, "ip", "neighbour", "replace", address, "lladdr", mac, "dev", end])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind((address, 0))
        listener.settimeout(1)
        here, port = listener.getsockname()
        send = f"import socket; socket.socket(2, 2).sendto(b'x', ('{here}', {port}))"
        run([*inside, sys.executable, "-c", send])
        with pytest.raises(TimeoutError):
            listener.recv(1)


@pytest.mark.parametrize("wiring", [True], indirect=True, ids=["hybrid"])
def test_a_hybrid_plug(neutron_ovsdb, switch, wiring):
    """The container's end leads to a Linux bridge of the port, and the bridge to the switch."""
    short = wiring.port[:11]
    for _ in range(2):  # as after a restart that left the interfaces
        assert switch.plug(wiring) == container_end(wiring.port)
        members = {each.name for each in (INTERFACES / f"qbr{short}/brif").iterdir()}
        assert members == {host_end(wiring.port), f"qvb{short}"}
        assert f"qvo{short}" in vsctl(neutron_ovsdb, "list-ports", wiring.bridge).split()
    words = ("--format=json", "--columns=external_ids", "list", "Interface", f"qvo{short}")
    ids = json.loads(vsctl(neutron_ovsdb, *words))
    told = dict(ids["data"][0][0][1])
    assert (told["iface-id"], told["attached-mac"]) == (wiring.port, wiring.mac)
    mtu = {name: (INTERFACES / name / "mtu").read_text().strip() for name in (host_end(wiring.port), f"qvo{short}")}
    assert set(mtu.values()) == {"1400"}
    switch.unplug(wiring)
    assert [each.name for each in INTERFACES.iterdir() if short in each.name] == []
    assert f"qvo{short}" not in vsctl(neutron_ovsdb, "list-ports", wiring.bridge).split()


@pytest.fixture
def own_bridge(neutron_ovsdb):
    """A bridge that no agent of Neutron looks after."""
    name = f"zv{uuid.uuid4().hex[:6]}"
    vsctl(neutron_ovsdb, "add-br", name, "--", "set", "bridge", name, "datapath_type=netdev")
    yield name
    vsctl(neutron_ovsdb, "del-br", name)


@pytest.mark.parametrize(("isolated", "tag"), [(True, "4095"), (False, "[]")])
def test_nobody_reaches_a_port_before_the_agent_filters_it(neutron_ovsdb, switch, own_bridge, wiring, isolated, tag):
    mine = replace(wiring, bridge=own_bridge, isolated=isolated)
    switch.plug(mine)
    name = f"qvo{mine.port[:11]}" if mine.hybrid else host_end(mine.port)
    try:
        assert vsctl(neutron_ovsdb, "get", "port", name, "tag").strip() == tag
    finally:
        switch.unplug(mine)
