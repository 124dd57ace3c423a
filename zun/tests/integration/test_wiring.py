# SPDX-License-Identifier: Apache-2.0
"""Interfaces of ports on the Open vSwitch of the tests, without Docker and Neutron."""

import json
import pathlib
import subprocess
import uuid

import pytest

from zun.network.wiring import OpenVSwitch, container_end, host_end
from zun.neutron.ports import Wiring

INTERFACES = pathlib.Path("/sys/class/net")


@pytest.fixture
def switch(neutron_ovsdb):
    made = OpenVSwitch(neutron_ovsdb)
    made.start()
    return made


def vsctl(ovsdb, *words):
    command = ["ovs-vsctl", f"--db={ovsdb}", "--timeout=20", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def wiring(neutron_ovsdb, switch):
    """The wiring of a port that iptables filters, on the bridge of Neutron's agent."""
    bridge = vsctl(neutron_ovsdb, "list-br").split()[0]
    made = Wiring(
        port=str(uuid.uuid4()), container=str(uuid.uuid4()), network=str(uuid.uuid4()), mac="fa:16:3e:00:00:21",
        mtu=1400, bridge=bridge, hybrid=True, datapath="netdev",
    )  # fmt: skip
    yield made
    switch.unplug(made)


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
