# SPDX-License-Identifier: Apache-2.0
"""Containers of the real Docker on networks of a real Neutron, whose Open vSwitch agent wires them on this machine."""

import contextlib
import functools
import os
import platform
import socket
import subprocess

import pytest

from zun.network.wiring import host_end
from zun.neutron.ports import GROUP_DESCRIPTION
from zun.tests.fixtures import wait_for
from zun.tests.integration.container.daemon import IMAGE
from zun.tests.integration.neutron_site import SERVE, Site
from zun.tests.integration.programs import Client

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def started(neutron_url, neutron_ovsdb, keystone, docker_url, tmp_path_factory):
    made = Site(neutron_url, neutron_ovsdb, keystone, docker_url, tmp_path_factory.mktemp("neutron"))
    keystone.publish(made.url, "network")  # for the stock client
    try:
        made.start()
        yield made
    finally:
        made.clean()
        keystone.retract("network")  # other tests are of a cloud without Neutron


@pytest.fixture
def site(started):
    """The site, empty again after each test: what a failed test leaves must not fail the next ones."""
    yield started
    started.clear()


def received(wire):
    """What a socket that does not block has received."""
    with contextlib.suppress(BlockingIOError):
        while True:
            yield wire.recv(2048)


def test_two_containers_exchange_tcp(site):
    """And a security group lets in or not: the default one only its own members.

    Routes of the subnet are set, and its name server is asked, for which the other container stands.
    """
    route = {"destination": "10.99.0.0/16", "nexthop": "10.7.1.254"}
    network = site.network(cidr=["10.7.1.0/24", "fd00:71::/64"], routes=[route], dns="10.7.1.77", mtu=1400)
    rule = {"protocol": "tcp", "port_range_min": 80, "port_range_max": 80}
    open_group = site.group("web", rule, {**rule, "ethertype": "IPv6"})
    nets = [{"network": network}]
    server = site.run(nets=nets, command=SERVE, hostname="webhost", security_groups=["web"])
    chosen = {"v4-fixed-ip": "10.7.1.77", "v6-fixed-ip": "fd00:71::77"}
    client = site.run(nets=[{"network": network, **chosen}], security_groups=[open_group])
    assert {each["addr"] for each in client["addresses"][network]} == {"10.7.1.77", "fd00:71::77"}
    assert "fd00:71::77/64" in site.inside(client, "ip", "addr", "show", "eth0")
    (items,) = server["addresses"].values()
    assert list(server["addresses"]) == [network] and server["security_groups"] == [open_group]
    assert {each["version"] for each in items} == {4, 6}
    port = site.ports(device_id=server["uuid"])[items[0]["port"]]
    assert port["project_id"] == site.project and port["status"] == "ACTIVE"
    assert (port["device_owner"], port["binding:host_id"]) == ("compute:zun", platform.node())
    told = {(each["ip_address"], each["subnet_id"]) for each in port["fixed_ips"]}
    assert {(each["addr"], each["subnet_id"]) for each in items} == told
    assert {each["preserve_on_delete"] for each in items} == {False}
    v4 = next(each["addr"] for each in items if each["version"] == 4)
    v6 = next(each["addr"] for each in items if each["version"] == 6)
    assert site.reaches(client, v4)
    assert site.reaches(client, v6)
    seen = site.inside(server, "cat", "/tmp/index.html", "/etc/hosts", "/proc/sys/kernel/hostname")
    assert v4 in seen and v6 in seen and "webhost" in seen  # from its first process on
    assert "mtu 1400" in site.inside(server, "ip", "link", "show", "eth0")
    routes = site.inside(server, "ip", "route")
    assert "default via 10.7.1.1" in routes and "10.99.0.0/16 via 10.7.1.254" in routes
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003)) as wire:  # all protocols
        wire.bind((host_end(port["id"]), 0))
        wire.setblocking(False)
        site.inside(server, "sh", "-c", "timeout 3 nslookup asked.example; true")
        assert any(b"\x05asked\x07example" in frame and b"\x0a\x07\x01\x4d" in frame for frame in received(wire))
    site.change(server, "remove_security_group", name="web")
    wait_for(lambda: not site.reaches(client, v4), 60)
    site.change(server, "add_security_group", name="web")
    wait_for(lambda: site.reaches(client, v4), 60)
    stock = Client(None, site.keystone.environment("member"))
    listed = {each["ID"]: each["Status"] for each in stock.json("port", "list", "--network", network)}
    assert listed == dict.fromkeys(site.ports(network_id=network), "ACTIVE") and len(listed) == 2
    assert network in [each["ID"] for each in stock.json("network", "list")]
    site.delete(server, client)
    wait_for(lambda: not site.ports(network_id=network) and site.left() == ([], []), 60)


def test_exposed_ports_let_everybody_in(site):
    """And nothing else, by a group that goes with the container."""
    nets = [{"network": site.network(cidr="10.7.9.0/24")}]
    server = site.run(nets=nets, command=SERVE, exposed_ports={"80": {}})
    client = site.run(nets=nets)
    ((items,),) = (server["addresses"].values(),)
    assert site.reaches(client, items[0]["addr"])
    (group,) = server["security_groups"]
    (made,) = site.member.security_groups(id=group)
    described = site.admin.security_groups(description=GROUP_DESCRIPTION, fields=["id"])  # as the sweep asks
    assert {"id": group} in described
    opened = [(rule["direction"], rule["port_range_min"]) for rule in made["security_group_rules"] if rule["protocol"]]
    assert opened == [("ingress", 80), ("ingress", 80)]
    site.delete(server, client)
    wait_for(lambda: site.left() == ([], []), 60)
    wait_for(lambda: not site.member.security_groups(id=group), 60)


def test_a_port_of_the_user_is_kept(site):
    """Its address is the container's; another container cannot have it; a detach leaves it to its user."""
    network, second = site.network(cidr="10.7.2.0/24"), site.network(cidr="10.7.3.0/24")
    port = site.member.create_port(network_id=network, name="mine", fixed_ips=[{"ip_address": "10.7.2.77"}])
    container = site.run(nets=[{"port": "mine"}, {"network": second, "v4-fixed-ip": "10.7.3.9"}])
    addresses = {name: [each["addr"] for each in items] for name, items in container["addresses"].items()}
    assert addresses == {network: ["10.7.2.77"], second: ["10.7.3.9"]}
    assert [each["preserve_on_delete"] for each in container["addresses"][network]] == [True]
    assert "default via 10.7.2.1" in site.inside(container, "ip", "route")
    assert site.api.refusal(nets=[{"port": port["id"]}])[0] == 400
    assert site.api.refusal(nets=[{"network": second, "v4-fixed-ip": "10.7.3.9"}])[0] == 409
    reply = site.api.request("POST", f"/containers/{container['uuid']}/network_detach", params={"port": port["id"]})
    assert reply.status_code == 202, reply.text
    wait_for(lambda: set(site.api.settled(container["uuid"])["addresses"]) == {second}, 60)
    wait_for(lambda: not site.ports(name="mine")[port["id"]]["device_id"], 60)
    assert "default via 10.7.3.1" in site.inside(container, "ip", "route")
    reply = site.api.request("POST", f"/containers/{container['uuid']}/network_attach", params={"port": port["id"]})
    assert reply.status_code == 200, reply.text
    wait_for(lambda: set(site.api.settled(container["uuid"])["addresses"]) == {network, second}, 60)
    assert "10.7.2.77" in site.inside(container, "ip", "addr")
    assert "default via 10.7.3.1" in site.inside(container, "ip", "route")
    site.delete(container)
    wait_for(lambda: site.ports()[port["id"]]["device_id"] == "", 60)
    wait_for(lambda: site.ports()[port["id"]]["binding:vif_type"] == "unbound", 60)
    wait_for(lambda: site.ports(network_id=second) == {} and site.left() == ([], []), 60)


def test_what_neutron_does_not_allow(site):
    """Neutron itself decides with the caller's token. Nothing is left of a refused request."""
    theirs = site.network(site.stranger, cidr="10.7.4.0/24")
    mine = site.network(cidr="10.7.4.0/24")  # the same block as theirs
    their_port = site.stranger.create_port(network_id=theirs)["id"]
    before = site.ports()
    assert site.api.refusal(nets=[{"network": theirs}])[0] == 404
    assert site.api.refusal(nets=[{"port": their_port}])[0] == 404
    assert site.api.refusal(nets=[{"network": "no-such"}])[0] == 404
    assert site.api.refusal(nets=[{"network": mine, "v4-fixed-ip": "10.9.9.9"}])[0] == 400
    assert site.api.refusal(nets=[{"network": mine}], security_groups=["no-such"])[0] == 400
    assert site.api.refusal(nets=[{"network": mine}, {"network": mine}])[0] == 400
    quota = {"quota": {"port": len(before) + 1}}
    site.admin._send("PUT", f"quotas/{site.project}", quota)
    try:
        status, detail = site.api.refusal(nets=[{"network": mine}, {"network": site.network(cidr="10.7.5.0/24")}])
        assert status == 403 and "quota" in detail.lower()
    finally:
        site.admin._send("DELETE", f"quotas/{site.project}")
    assert site.ports() == before


def test_a_capsule_has_one_address(site):
    network = site.network(cidr="10.7.6.0/24")
    box = {"image": "zun-demo", "command": ["sleep", "1000000"], "resources": {"requests": {"cpu": 0.1, "memory": 64}}}
    oldest = site.admin.networks(project_id=site.project)
    template = {"kind": "capsule", "metadata": {"name": "pod"}, "spec": {"containers": [box, box]}}
    reply = site.api.request("POST", "/capsules", json={"template": template})
    assert reply.status_code == 202, reply.text
    path = f"/capsules/{reply.json()['uuid']}"
    wait_for(lambda: site.api.get(path)["status"] in ("Running", "Error"), 120)
    shown = site.api.get(path)
    assert shown["status"] == "Running", shown
    ((where, items),) = shown["addresses"].items()
    assert where == min(oldest, key=lambda each: each["created_at"])["id"] != network
    assert items[0]["addr"] in site.interface_of(shown["containers"][0]["uuid"])
    assert site.api.request("DELETE", path).status_code == 204
    wait_for(lambda: not site.ports(device_id=shown["uuid"]) and site.left() == ([], []), 60)


def test_restarts_by_docker_and_a_killed_agent(site):
    """Docker wires a container again whenever it starts the container, and waits for an agent that is away."""
    network = site.network(cidr="10.7.8.0/24")
    nets = [{"network": network}]
    loop = ["sh", "-c", "ip -o addr show eth0 > /tmp/seen || echo none > /tmp/seen; exec sleep 1000000"]
    container = site.run(nets=nets, command=loop, restart_policy={"Name": "always"})
    name = f"zun-{container['uuid']}"
    (address,) = (each["addr"] for each in container["addresses"][network])
    before = site.engine.inspect_container(name)["State"]["Pid"]
    os.kill(before, 9)
    wait_for(lambda: site.engine.inspect_container(name)["State"]["Pid"] not in (0, before), 60)
    site.running(container)
    wait_for(lambda: address in site.inside(container, "cat", "/tmp/seen"), 60)
    port = next(iter(site.ports(device_id=container["uuid"])))
    wait_for(lambda: site.ports()[port]["status"] == "ACTIVE", 60)
    site.program.kill()
    assert site.engine.inspect_container(name)["State"]["Running"]
    site.program.start()
    site.running(container)
    assert address in site.inside(container, "ip", "addr")
    orphan = site.admin.create_port(
        network_id=network, project_id=site.project, name="zun-gone", device_id="gone", device_owner="compute:zun",
        **{"binding:host_id": platform.node()},
    )["id"]  # fmt: skip
    wait_for(lambda: orphan not in site.ports(), 180)
    site.delete(container)
    wait_for(lambda: site.ports(network_id=network) == {} and site.left() == ([], []), 60)


@pytest.mark.slow
def test_the_stock_client(site, public_network):
    """A security group, a floating IP, a second network; what Neutron has can be deleted when the container is gone."""
    site.keystone.publish(f"http://127.0.0.1:{site.port}/v1")
    stock, name = Client(None, site.keystone.environment("member")), f"smoke-{site.suffix}"
    network, second = site.network(cidr="10.7.30.0/24"), site.network(cidr="10.7.31.0/24")
    gateway = {"name": name, "external_gateway_info": {"network_id": public_network}}
    router = site.member._one("routers", "router", "POST", {"router": gateway})["id"]
    interface = {"subnet_id": site.member.subnets(network)[0]["id"]}
    site.member._send("PUT", f"routers/{router}/add_router_interface", interface)
    group = site.group(name, {"protocol": "icmp"})
    stock("appcontainer", "run", "--name", name, "--net", f"network={network}", "--wait", IMAGE, "sleep", "999")
    address = stock.json("floating", "ip", "create", "public")["floating_ip_address"]
    stock("appcontainer", "add", "floating", "ip", name, address)
    stock("appcontainer", "add", "security", "group", name, name)
    answers = functools.partial(subprocess.run, ["busybox", "ping", "-c", "1", "-W", "1", address], capture_output=True)
    wait_for(lambda: answers().returncode == 0, 120)
    stock("appcontainer", "remove", "security", "group", name, name)
    wait_for(lambda: answers().returncode != 0, 60)
    stock("appcontainer", "network", "attach", "--network", second, name)
    wait_for(lambda: set(site.api.settled(name)["addresses"]) == {network, second}, 60)
    listed = stock.json("appcontainer", "network", "list", name)
    assert {each["net_id"] for each in listed} == {network, second}
    stock("appcontainer", "network", "detach", "--network", second, name)
    wait_for(lambda: set(site.api.settled(name)["addresses"]) == {network}, 60)
    stock("appcontainer", "remove", "floating", "ip", address)
    stock("appcontainer", "delete", "--stop", "--wait", name)
    site.member.delete_security_group(group)
    site.member._send("PUT", f"routers/{router}/remove_router_interface", interface)
    for path in (f"routers/{router}", f"networks/{network}"):
        site.member._send("DELETE", path)
