# SPDX-License-Identifier: Apache-2.0
"""Containers on two hosts in one network of a real Neutron.

Both hosts are on this machine. Each has bridges of Open vSwitch, an agent of Neutron and a service of its own, and the
second one a Docker daemon, too. The physical network that leads from one host to the other is a pair of patch ports.
"""

import contextlib
import os
import subprocess
import uuid

import pytest

from zun.tests.fixtures import wait_for
from zun.tests.integration.container.own_daemon import OwnDaemon, need_own_daemon
from zun.tests.integration.neutron_site import SERVE, Site
from zun.tests.integration.nginx import process
from zun.tests.integration.programs import free_port

pytestmark = [pytest.mark.docker, pytest.mark.slow]

PHYSICAL = f"between-{uuid.uuid4().hex[:5]}"  # a flat network takes it for ever


class Switch:
    """The Open vSwitch of this machine, and agents of Neutron for bridges of their own in it."""

    def __init__(self, ovsdb, neutron, folder):
        self._command = ["ovs-vsctl", f"--db={ovsdb}", "--timeout=20"]
        self._neutron, self._folder = neutron, folder

    def change(self, *commands):
        subprocess.run([*self._command, *" -- ".join(commands).split()], check=True)

    @contextlib.contextmanager
    def host(self, name):
        """A host with its agent: the bridge ``NAME`` for containers, and ``NAME-p`` to the physical network."""
        outer, config = f"{name}-p", self._folder / f"{name}.conf"
        config.write_text(
            f"[DEFAULT]\nhost = {name}\n[ovs]\nintegration_bridge = {name}\n"
            f"bridge_mappings = {PHYSICAL}:{outer}\nof_listen_port = {free_port()}\n"
        )
        for each in (name, outer):
            self.change(f"add-br {each}", f"set bridge {each} datapath_type=netdev")
        programs, common = os.environ["ZUN_TEST_NEUTRON_BIN"], os.environ["ZUN_TEST_NEUTRON_CONF"]
        folder = os.path.dirname(common)
        path = os.pathsep.join([f"{folder}/bin", programs, os.environ["PATH"], "/usr/sbin"])
        words = (f"{programs}/neutron-openvswitch-agent", "--config-file", common, "--config-file", config)
        log = self._folder / f"{name}.log"
        try:
            with process(log, *words, PATH=path, OVS_RUNDIR=folder) as agent:
                wait_for(lambda: agent.poll() is not None or self._is_alive(name), 60)
                assert agent.poll() is None, log.read_text()[-3000:]
                yield name
                agent.kill()  # after SIGTERM it waits for minutes
        finally:
            self.change(f"del-br {outer}", f"del-br {name}")
            for each in self._agents(name):
                self._neutron._send("DELETE", f"agents/{each['id']}")

    def _agents(self, name):
        return self._neutron._list("agents", {"host": name})

    def _is_alive(self, name):
        return any(each["alive"] for each in self._agents(name))


@pytest.fixture(scope="module")
def hosts(neutron_ovsdb, neutron_admin, tmp_path_factory):
    """The names of two hosts with a link between them."""
    switch, suffix = Switch(neutron_ovsdb, neutron_admin, tmp_path_factory.mktemp("agents")), uuid.uuid4().hex[:5]
    with switch.host(f"zu{suffix}1") as one, switch.host(f"zu{suffix}2") as two:
        for here, there in ((one, two), (two, one)):
            patch = f"type=patch options:peer=link-{there}"
            switch.change(f"add-port {here}-p link-{here}", f"set interface link-{here} {patch}")
        yield one, two


@pytest.fixture(scope="module")
def sites(neutron_url, neutron_ovsdb, keystone, docker_url, hosts, tmp_path_factory):
    """A service on each host."""
    need_own_daemon()
    bridge = f"zunt{uuid.uuid4().hex[:6]}"
    subprocess.run(["ip", "link", "add", bridge, "type", "bridge"], check=True)
    daemon = OwnDaemon(tmp_path_factory.mktemp("own"), bridge=bridge)
    made = []
    try:
        daemon.start()
        for url, host in zip((docker_url, daemon.url), hosts, strict=True):
            site = Site(neutron_url, neutron_ovsdb, keystone, url, tmp_path_factory.mktemp("site"))
            made.append(site)
            site.start(neutron={"agent_host": host})
        yield made
    finally:
        for site in made:
            site.clean()
        daemon.clean()
        subprocess.run(["ip", "link", "del", bridge], check=True)


def test_containers_on_two_hosts_exchange_tcp(hosts, sites):
    """And a security group of the one host lets in the container of the other, or not."""
    here, there = sites
    flat = {"provider:network_type": "flat", "provider:physical_network": PHYSICAL}
    wanted = {"name": "net", "project_id": here.project, **flat}
    network = here.admin._one("networks", "network", "POST", {"network": wanted})["id"]
    subnet = {"network_id": network, "cidr": "10.7.77.0/24", "ip_version": 4}
    here.member._one("subnets", "subnet", "POST", {"subnet": subnet})
    group = here.group("web", {"protocol": "tcp", "port_range_min": 80, "port_range_max": 80})
    nets = [{"network": network}]
    server = here.run(nets=nets, command=SERVE, security_groups=[group])
    client = there.run(nets=nets)
    ((item,),) = server["addresses"].values()
    where = {each["device_id"]: each["binding:host_id"] for each in here.ports(network_id=network).values()}
    assert where == dict(zip((server["uuid"], client["uuid"]), hosts, strict=True))
    wait_for(lambda: there.reaches(client, item["addr"]), 60)
    here.change(server, "remove_security_group", name="web")
    wait_for(lambda: not there.reaches(client, item["addr"]), 60)
    here.change(server, "add_security_group", name="web")
    wait_for(lambda: there.reaches(client, item["addr"]), 60)
