# SPDX-License-Identifier: Apache-2.0
"""Containers with ports of a real Neutron, while Docker, the agent and the host stop, die and start.

A module of its own: two services with one Neutron and one host would take each other's ports.
"""

import contextlib
import pathlib
import subprocess
import threading
import uuid

import docker
import pytest

from zun.tests.fixtures import wait_for
from zun.tests.integration.container.own_daemon import OwnDaemon, need_own_daemon
from zun.tests.integration.neutron_site import SERVE, Site

pytestmark = [pytest.mark.docker, pytest.mark.slow]


@pytest.fixture(scope="module")
def own_host(neutron_url, neutron_ovsdb, keystone, docker_url, tmp_path_factory):
    """A site with a Docker daemon that a test may end; ``docker_url`` says whether tests with Docker are wanted."""
    need_own_daemon()
    folder, bridge = tmp_path_factory.mktemp("own"), f"zunt{uuid.uuid4().hex[:6]}"
    subprocess.run(["ip", "link", "add", bridge, "type", "bridge"], check=True)
    daemon = OwnDaemon(folder, bridge=bridge)
    try:
        daemon.start()
        made = Site(neutron_url, neutron_ovsdb, keystone, daemon.url, tmp_path_factory.mktemp("restarts"))
        made.daemon = daemon
        try:
            made.start()
            yield made
        finally:
            made.clean()
    finally:
        daemon.clean()
        subprocess.run(["ip", "link", "del", bridge], check=True)


def stopped(site):
    site.daemon.stop()
    site.daemon.start()


def killed(site):
    site.daemon.kill()
    site.daemon.start()


def power_lost(site):
    """The agent and the daemon, with all containers. Open vSwitch keeps its database, as on a host."""
    site.program.kill()
    site.daemon.lose_power()
    (pathlib.Path("/run/docker/plugins") / f"{site.plugin}.sock").unlink()


def docker_first(site):
    power_lost(site)
    site.daemon.start()
    site.program.start()


def agent_first(site):
    power_lost(site)
    starts = threading.Thread(target=site.program.start)
    starts.start()
    site.daemon.start()
    starts.join()


def on_host(site, ovsdb):
    """What containers have on this machine: interfaces, ports of the switch, and numbers of what is named by chance."""
    ask = ["ovs-vsctl", f"--db={ovsdb}", "list-ports"]
    bridge = subprocess.check_output([*ask[:-1], "list-br"], text=True).split()[0]
    ports = subprocess.check_output([*ask, bridge], text=True).split()
    networks, files = site.left()
    members = 0
    for each in networks:
        with contextlib.suppress(docker.errors.NotFound):  # its last container left a moment ago
            members += len(site.engine.inspect_network(each)["Containers"])
    interfaces = sorted(each.name for each in pathlib.Path("/sys/class/net").iterdir())
    return interfaces, sorted(ports), len(site.daemon.namespaces()), networks, members, len(files)


def ports_of(site):
    kept = ("mac_address", "fixed_ips", "status", "device_id", "binding:host_id", "security_groups")
    found = site.ports(device_owner="compute:zun")
    return {uuid: [each[name] for name in kept] for uuid, each in found.items()}


def is_back(site, capsule):
    """Whether the capsule and its member run, with the capsule's address."""
    shown = site.api.get(f"/capsules/{capsule['uuid']}")
    with contextlib.suppress(docker.errors.APIError):  # the member does not run yet
        seen = site.interface_of(shown["containers"][0]["uuid"])
        return shown["status"] == "Running" and next(iter(shown["addresses"].values()))[0]["addr"] in seen


@pytest.fixture(scope="module")
def living(own_host, neutron_ovsdb):
    """A server with a restart policy, a client without one, and a capsule. Nothing of them is left at the end."""
    site = own_host
    empty = on_host(site, neutron_ovsdb)
    network = site.network(cidr="10.7.10.0/24")
    group = site.group("web", {"protocol": "tcp", "port_range_min": 80, "port_range_max": 80})
    common = {"nets": [{"network": network}], "security_groups": [group]}
    look, serve = SERVE[2].split(";")
    trap = "trap exit TERM"  # the first process ends at once
    command = ["sh", "-c", f"{trap}; {look}; httpd -p 81 -h /tmp; {serve.replace('exec ', '')} & wait"]
    server = site.run(**common, command=command, restart_policy={"Name": "always"})
    sleep = ["sh", "-c", f"{trap}; sleep 1000000 & wait"]
    client = site.run(**common, command=sleep)
    box = {"image": "zun-demo", "command": sleep, "resources": {"requests": {"cpu": 0.1, "memory": 64}}}
    template = {"kind": "capsule", "metadata": {"name": "pod"}, "spec": {"containers": [box]}}
    capsule = site.api.request("POST", "/capsules", json={"template": template}).json()
    wait_for(lambda: is_back(site, capsule), 120)
    yield server, client, capsule
    site.clear()
    wait_for(lambda: on_host(site, neutron_ovsdb) == empty and not ports_of(site), 60)


@pytest.mark.parametrize("event", [stopped, killed, docker_first, agent_first])
def test_restarts_of_docker_and_the_host(own_host, living, neutron_ovsdb, event):
    """The same ports are plugged again: by Docker for a container with a restart policy, for others at their start."""
    site, (server, client, capsule) = own_host, living
    ((item,),) = server["addresses"].values()
    assert site.reaches(client, item["addr"]) and not site.reaches(client, item["addr"], 81)
    ports, there = ports_of(site), on_host(site, neutron_ovsdb)
    assert {each[2] for each in ports.values()} == {"ACTIVE"} and len(ports) == 3
    started = site.engine.inspect_container(f"zun-{server['uuid']}")["State"]["StartedAt"]
    event(site)
    wait_for(lambda: site.api.get(f"/containers/{client['uuid']}")["status"] == "Stopped", 60)
    wait_for(lambda: site.engine.inspect_container(f"zun-{server['uuid']}")["State"]["StartedAt"] != started, 60)
    site.running(server)
    assert site.api.request("POST", f"/containers/{client['uuid']}/start").status_code == 202
    site.running(client)
    wait_for(lambda: site.reaches(client, item["addr"]), 60)
    assert not site.reaches(client, item["addr"], 81)
    assert item["addr"] in site.inside(server, "cat", "/tmp/index.html")  # seen by its first process
    wait_for(lambda: is_back(site, capsule), 60)
    wait_for(lambda: ports_of(site) == ports, 60)
    wait_for(lambda: on_host(site, neutron_ovsdb) == there, 60)
