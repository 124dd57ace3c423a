# SPDX-License-Identifier: Apache-2.0
"""The addresses that containers reach: other projects, their host, link-local ones, the world. Asked of the kernel."""

import os
import shutil
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from ipaddress import ip_address, ip_network

import pytest

from zun.common import exceptions
from zun.common.subnets import Pool
from zun.container.docker.client import Engine, Settings
from zun.network.docker import DockerNetworks
from zun.network.firewall import Firewall
from zun.tests.fixtures import wait_for
from zun.tests.integration.network_samples import Container, Port

pytestmark = [
    pytest.mark.docker,
    pytest.mark.alone,  # removes rules of the firewall that other agents need
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("iptables", path="/usr/sbin:/sbin:/usr/bin") is None,
        reason="firewall rules need root and iptables",
    ),
]

POOL = Pool("10.217.0.0/24", 26, "default_network")
LINK_LOCAL = ip_network("169.254.0.0/16")
FIREWALL = Firewall((LINK_LOCAL, ip_network("fe80::/10")))
ON_HOST, METADATA, WORLD = "169.254.77.1", "169.254.88.1", "198.51.100.1"
SERVE = "echo hello > /tmp/index.html; exec httpd -f -p 80 -h /tmp"
LISTEN = """
import socket
with socket.create_server(("", 80), family=socket.AF_INET6, dualstack_ipv6=True) as server:
    print("ready", flush=True)
    while True:
        with server.accept()[0] as connection:
            connection.sendall(b"hello")
"""


def command(*arguments):
    return subprocess.run(arguments, check=True, capture_output=True, text=True).stdout


@contextmanager
def listener(*prefix):
    """Inside, something says hello at port 80 of all addresses."""
    with subprocess.Popen([*prefix, "python3", "-c", LISTEN], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        try:
            yield
        finally:
            process.kill()


@pytest.fixture(scope="module")
def world():
    """Another machine beyond the host, with an address of the world and one of a metadata service."""
    name = f"zt{uuid.uuid4().hex[:8]}"
    command("ip", "netns", "add", name)
    try:
        command("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        command("ip", "addr", "add", "198.51.100.254/24", "dev", name)
        command("ip", "link", "set", name, "up")
        command("ip", "route", "add", f"{METADATA}/32", "dev", name)
        command("ip", "addr", "add", f"{ON_HOST}/32", "dev", "lo")
        for each in ("addr add 198.51.100.1/24 dev eth0", f"addr add {METADATA}/32 dev lo", "link set eth0 up"):
            command("ip", "-n", name, *each.split())
        command("ip", "-n", name, "route", "add", "default", "via", "198.51.100.254")
        with listener("ip", "netns", "exec", name), listener():
            yield name
    finally:
        subprocess.run(["ip", "addr", "del", f"{ON_HOST}/32", "dev", "lo"], check=False)
        subprocess.run(["ip", "link", "del", name], check=False)
        command("ip", "netns", "del", name)


class Site:
    """One host's networks, with containers that a test makes."""

    def __init__(self, url, engine):
        self.url, self.engine, self.label = url, engine, f"test-{uuid.uuid4().hex[:8]}"
        self.networks = self.driver()
        self.made = []

    def driver(self, pool=POOL, firewall=FIREWALL):
        return DockerNetworks(Engine(Settings(self.url, self.label)), pool, firewall)

    def run(self, network, name, **host):
        made = Container(str(uuid.uuid4()))
        config = self.engine.create_networking_config({network: self.engine.create_endpoint_config(aliases=[name])})
        self.made.append(f"zun-{made.uuid}")
        self.engine.create_container(
            "zun-demo", ["sh", "-c", SERVE], name=self.made[-1], networking_config=config,
            host_config=self.engine.create_host_config(network_mode=network, **host), ports=[80],
        )  # fmt: skip
        self.engine.start(self.made[-1])
        return made

    def endpoint(self, container):
        (found,) = self.engine.inspect_container(f"zun-{container.uuid}")["NetworkSettings"]["Networks"].values()
        return found

    def inside(self, container, text):
        made = self.engine.exec_create(f"zun-{container.uuid}", ["sh", "-c", text])["Id"]
        self.engine.exec_start(made)
        return self.engine.exec_inspect(made)["ExitCode"] == 0

    def reaches(self, container, address):
        """Whether something says hello at port 80 of the address."""
        return self.inside(
            container, f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | timeout 4 nc -w 2 {address} 80 | grep -q hello"
        )

    def pings(self, container, address):
        return self.inside(container, f"ping -c 1 -W 2 {address}")

    def clean(self):
        for each in self.made:
            self.engine.remove_container(each, force=True)
        for each in self.networks.present():
            self.networks.remove(each)
        for each in self.networks.defaults():
            self.networks.remove_default(each)


@pytest.fixture
def site(docker_url, engine):
    made = Site(docker_url, engine)
    yield made
    made.clean()


def test_container_reaches_project_and_world_only(site, world):
    site.networks.isolate()
    mine = site.networks.default("demo")
    assert site.networks.default("demo") == mine, "found again"
    one, two = site.run(mine.network, "web"), site.run(mine.network, "client")
    stranger = site.run(site.networks.default("other").network, "web")
    user_made = Port()
    third = site.run(site.networks.prepare(user_made).network, "web")
    for container in (two, third):
        gateway = site.endpoint(container)["Gateway"]
        others = {one, stranger, third} - {container} - ({one} if container is two else set())
        strange = [site.endpoint(each)["IPAddress"] for each in others]
        for address in (gateway, ON_HOST, METADATA, "198.51.100.254", *strange):
            assert not site.reaches(container, address), address
        assert not site.pings(container, gateway)
        assert site.reaches(container, WORLD)
    wait_for(lambda: site.reaches(two, site.endpoint(one)["IPAddress"]), 60)
    assert site.reaches(two, "web"), "by the name of the other container"
    for server in (stranger, third):  # what nobody else reached does answer
        wait_for(lambda server=server: site.reaches(server, "127.0.0.1"), 60)


def test_published_port_is_for_the_world_alone(site, world):
    site.networks.isolate()
    where = ("198.51.100.254", 8080)
    server = site.run(site.networks.default("demo").network, "web", port_bindings={80: where})
    stranger = site.run(site.networks.default("other").network, "web")
    wait_for(lambda: site.reaches(server, "127.0.0.1"), 60)
    ask = f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | timeout 4 nc -w 2 {where[0]} {where[1]} | grep -q hello"
    assert not site.inside(stranger, ask), "not by way of the host"
    answer = command("ip", "netns", "exec", world, "curl", "-sm", "10", f"http://{where[0]}:{where[1]}/")
    assert answer == "hello\n"


def test_ipv6_host_is_out_of_reach_and_neighbours_are_not(site, world):
    site.networks.isolate()
    subnets = (
        {"uuid": "s", "cidr": "10.218.1.0/24", "gateway": "10.218.1.1"},
        {"uuid": "t", "cidr": "fd00:218::/64", "gateway": "fd00:218::1"},
    )
    network = site.networks.prepare(Port(ipv6="fd00:218::9", subnets=subnets)).network
    server, client = site.run(network, "web"), site.run(network, "client")
    wait_for(lambda: site.reaches(client, site.endpoint(server)["GlobalIPv6Address"]), 60)
    assert not site.reaches(client, "fd00:218::1")
    assert not site.pings(client, "fd00:218::1")
    command("ip6tables", "-t", "mangle", "-F", "ZUN-INPUT")
    assert site.reaches(client, "fd00:218::1"), "the rules alone made the difference"


def test_agent_without_the_capability_says_what_does_not_hold(site):
    program = (
        "from zun.common import exceptions; from zun.network.firewall import Firewall\n"
        "try: Firewall().apply([])\n"
        "except exceptions.Unavailable as exc: print(exc)"
    )
    said = command("setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin", sys.executable, "-c", program)
    assert "reach the services of this host" in said and "CAP_NET_ADMIN" in said and "ermission" in said


def test_without_rules_host_and_metadata_are_reached(site, world):
    """The address plan of these tests proves something: the firewall alone makes the difference."""
    subprocess.run(["iptables", "-t", "mangle", "-F", "ZUN-INPUT"], check=False)
    subprocess.run(["iptables", "-t", "mangle", "-F", "ZUN-FORWARD"], check=False)
    container = site.run(site.networks.default("demo").network, "web")
    for address in (site.endpoint(container)["Gateway"], ON_HOST, METADATA, WORLD):
        assert site.reaches(container, address), address


def test_rules_are_applied_again_without_doubles(site, world):
    site.networks.isolate()
    once = command("iptables-save", "-t", "mangle")
    assert "-i zun-+ -j DROP" in once
    command("iptables", "-t", "mangle", "-F")
    site.networks.isolate()
    site.networks.isolate()
    rules = [line for line in command("iptables-save", "-t", "mangle").splitlines() if line.startswith("-A")]
    assert sorted(rules) == sorted(line for line in once.splitlines() if line.startswith("-A"))


def test_name_server_on_the_host_is_asked_at_port_53(site, world):
    site.driver(firewall=Firewall((LINK_LOCAL,), (ip_address(METADATA), ip_address(ON_HOST)))).isolate()
    container = site.run(site.networks.default("demo").network, "web")
    for address in (METADATA, ON_HOST):
        assert not site.reaches(container, address)
        # Nobody listens there: the answer is a refusal at once, and not silence until the time is over.
        assert site.inside(container, f"nc -w 5 {address} 53 < /dev/null 2>&1 | grep -q refused"), address
    site.networks.isolate()


def test_bridge_of_an_earlier_release_is_held(site, world, engine):
    name = f"zun-{uuid.uuid4()}"
    labels = {"zun.host": site.label, "zun.network": name.removeprefix("zun-")}
    engine.create_network(name, labels=labels)
    container = site.run(name, "web")
    gateway = site.endpoint(container)["Gateway"]
    assert site.reaches(container, gateway)
    site.networks.isolate()
    assert not site.reaches(container, gateway)
    assert site.reaches(container, WORLD)


def test_default_network_lives_as_its_project_needs(site, engine):
    plug = site.networks.default("demo")
    (shown,) = engine.networks(names=[plug.network])
    assert shown["Labels"]["zun.project"] == "demo"
    assert shown["IPAM"]["Config"] == [{"Subnet": "10.217.0.0/26", "Gateway": "10.217.0.1"}]
    container = site.run(plug.network, "web")
    again = site.driver()
    assert (again.default("demo"), again.defaults()) == (plug, {"demo"}), "after a restart of the agent"
    with pytest.raises(exceptions.Conflict, match="demo"):
        again.remove_default("demo")
    engine.stop(f"zun-{container.uuid}", 0)
    for _ in range(2):
        again.remove_default("demo")
    assert again.defaults() == set()
    # As 'docker network prune' does while its containers are stopped.
    for _ in range(2):
        again.rejoin(container, "demo")
    engine.start(f"zun-{container.uuid}")
    assert site.endpoint(container)["IPAddress"].startswith("10.217.0.")
    wait_for(lambda: site.reaches(container, "web"), 60)  # still known by its name


def test_exhausted_pool_names_the_option(site):
    driver = site.driver(Pool("10.217.0.0/25", 26, "default_network"))
    assert {driver.default(each).network for each in ("a", "b", "a")} == {driver.default(each).network for each in "ab"}
    with pytest.raises(exceptions.Conflict, match=r"10\.217\.0\.0/25.*default_network_pool"):
        driver.default("c")


def test_projects_at_once_get_subnets_of_their_own(site, engine):
    projects = [f"p{number}" for number in range(6)]
    drivers = [site.driver(Pool("10.217.0.0/24", 28, "default_network")) for _ in range(2)]
    with ThreadPoolExecutor(12) as threads:
        plugs = list(threads.map(lambda number: drivers[number % 2].default(projects[number // 2]), range(12)))
    assert len(set(plugs)) == 6
    networks = engine.networks(filters={"label": f"zun.host={site.label}"})
    found = [each["IPAM"]["Config"][0]["Subnet"] for each in networks]
    assert len(found) == len(set(found)) == 6


def test_docker0_is_a_choice(site):
    assert site.driver(pool=None).default("demo") is None
