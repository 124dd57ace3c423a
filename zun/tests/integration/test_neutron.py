# SPDX-License-Identifier: Apache-2.0
"""Containers of the real Docker on networks of a real Neutron, whose Open vSwitch agent wires them on this machine."""

import contextlib
import os
import pathlib
import platform
import shlex
import subprocess
import threading
import uuid

import docker
import pytest
from keystoneauth1 import adapter as ks_adapter
from keystoneauth1 import session as ksa_session

from zun.neutron.client import NeutronClient
from zun.tests.fixtures import wait_for
from zun.tests.integration.container.daemon import IMAGE
from zun.tests.integration.container.own_daemon import OwnDaemon, need_own_daemon
from zun.tests.integration.programs import Client, Program, TokenApi, free_port

pytestmark = pytest.mark.docker

SERVE = ["sh", "-c", "ip -o addr show eth0 > /tmp/index.html; exec httpd -f -p 80 -h /tmp"]


class Site:
    """An all-in-one of its own, and Neutron with the rights of its administrator, of a member and of a stranger."""

    def __init__(self, neutron_url, ovsdb, keystone, docker_url, folder):
        self.url, self.keystone, self.docker_url, self.folder = neutron_url, keystone, docker_url, folder
        self._ovsdb = ovsdb
        self.engine = docker.APIClient(docker_url, version="auto")
        self.suffix, self.port = uuid.uuid4().hex[:6], free_port()
        self.host = f"test-{self.suffix}"
        self.plugin = f"zun-{self.suffix}"
        made = keystone.user("neutron", "service", "service")
        keystone.admin.roles.grant(keystone.roles["admin"], user=made, project=keystone.projects["service"])
        self.admin, self.member, self.stranger = (
            self._client(keystone.auth(*who))
            for who in (("neutron", "service"), ("member", "demo"), ("stranger", "other"))
        )
        self.project = keystone.projects["demo"].id
        self.program = None

    def _client(self, auth):
        session = ksa_session.Session(auth)
        return NeutronClient(ks_adapter.Adapter(session, service_type="network", endpoint_override=self.url))

    def settings(self, **changed):
        who = {name: value for name, value in self.keystone.settings().items() if name not in ("token_cache_time",)}
        login = {**who, "username": self.keystone.named("neutron"), "password": self.keystone.named("neutron")}
        del login["www_authenticate_uri"], login["interface"]
        usual = {
            "DEFAULT": {"state_path": self.folder / "state", "host": self.host},
            "api": {"port": self.port, "auth_strategy": "keystone", "access_log": False},
            "keystone_authtoken": self.keystone.settings() | {"token_cache_time": "300"},
            "docker": {"api_url": self.docker_url},
            "compute": {"reserved_host_memory_mb": 128},
            "capsule": {"sandbox_image": IMAGE, "sandbox_command": "sleep,1000000"},
            "network": {"driver": "neutron"},
            "neutron": {
                **login,
                "endpoint_override": self.url,
                "agent_host": platform.node(),
                "ovsdb_connection": self._ovsdb,
                "active_timeout": 20,
                "plugin_socket": f"/run/docker/plugins/{self.plugin}.sock",
            },
        }
        return {name: {**usual.get(name, {}), **changed.get(name, {})} for name in {**usual, **changed}}

    def start(self, **changed):
        self.program = Program(self.folder, "allinone", "allinone", (), self.settings(**changed))
        self.program.start()
        api = f"http://127.0.0.1:{self.port}/v1"
        self.api = TokenApi(api, self.keystone.token("member"))
        self.others = TokenApi(api, self.keystone.token("stranger"))
        self.root = TokenApi(api, self.keystone.token("admin"))

    def network(self, client=None, cidr="10.7.0.0/24", **fields):
        """A new network with a subnet; gives its id."""
        client = client or self.member
        made = client._one("networks", "network", "POST", {"network": {"name": "net", **fields}})
        for each in [cidr] if isinstance(cidr, str) else cidr:
            subnet = {"network_id": made["id"], "cidr": each, "ip_version": 6 if ":" in each else 4}
            if "." in each:
                subnet["dns_nameservers"] = ["10.7.0.53"]
            client._one("subnets", "subnet", "POST", {"subnet": subnet})
        return made["id"]

    def group(self, name, *rules):
        made = self.member._one("security-groups", "security_group", "POST", {"security_group": {"name": name}})
        for rule in rules:
            given = {"security_group_id": made["id"], "direction": "ingress", **rule}
            self.member._one("security-group-rules", "security_group_rule", "POST", {"security_group_rule": given})
        return made["id"]

    def run(self, api=None, **fields):
        api = api or self.api
        shown = api.settled(api.run(**fields))
        assert shown["status"] == "Running", shown["status_reason"]
        return shown

    def running(self, container):
        """Wait until the API shows that the container runs."""
        wait_for(lambda: self.api.get(f"/containers/{container['uuid']}")["status"] == "Running", 60)

    def inside(self, container, *command):
        reply = self.api.request(
            "POST", f"/containers/{container['uuid']}/execute", params={"command": shlex.join(command)}
        )
        assert reply.status_code == 200, reply.text
        return reply.json()["output"]

    def change(self, container, action, api=None, status=202, **query):
        version = {"OpenStack-API-Version": "container 1.14"}  # the last with the calls on security groups
        path = f"/containers/{container['uuid']}/{action}"
        reply = (api or self.api).request("POST", path, params=query, headers=version)
        assert reply.status_code == status, reply.text
        return reply

    def reaches(self, container, address, port=80):
        # "nc -w" limits the connecting only: a connection that is cut while it is open would hang.
        ask = f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | timeout 3 nc -w 2 {address} {port}"
        return "inet" in self.inside(container, "sh", "-c", ask)

    def ports(self, **query):
        return {each["id"]: each for each in self.admin.ports(project_id=self.project, **query)}

    def left(self):
        """What is on this machine of this site: its Docker networks and its interfaces."""
        networks = [each["Name"] for each in self.engine.networks(filters={"label": f"zun.host={self.host}"})]
        return networks, [each.name for each in (self.folder / "state" / "neutron").glob("*.json")]

    def delete(self, *containers):
        for each in containers:
            reply = self.api.request("DELETE", f"/containers/{each['uuid']}?stop=true")
            assert reply.status_code == 204, reply.text
        for each in containers:
            wait_for(lambda uuid=each["uuid"]: self.api.request("GET", f"/containers/{uuid}").status_code == 404, 60)

    def clear(self):
        """Delete all capsules and containers; start the program for it if a test killed it."""
        if self.program.process is None:
            self.program.start()
        for each in self.api.get("/capsules")["capsules"]:
            self.api.request("DELETE", f"/capsules/{each['uuid']}")
        wait_for(lambda: not self.api.get("/capsules")["capsules"], 60)
        self.delete(*self.api.get("/containers")["containers"])

    def clean(self):
        if self.program is not None:
            self.clear()
            self.program.stop()
            print(self.program.log.read_text()[-9000:])
        for each in self.engine.containers(all=True, filters={"label": f"zun.host={self.host}"}):
            self.engine.remove_container(each["Id"], force=True)
        for each in self.engine.networks(filters={"label": f"zun.host={self.host}"}):
            self.engine.remove_network(each["Id"])
        self.engine.close()


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


def test_two_containers_exchange_tcp(site):
    """And a security group lets in or not: the default one only its own members."""
    network = site.network(cidr=["10.7.1.0/24", "fd00:71::/64"], mtu=1400)
    rule = {"protocol": "tcp", "port_range_min": 80, "port_range_max": 80}
    open_group = site.group("web", rule, {**rule, "ethertype": "IPv6"})
    nets = [{"network": network}]
    server = site.run(nets=nets, command=SERVE, hostname="webhost", security_groups=["web"])
    client = site.run(nets=nets, security_groups=[open_group])
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
    assert "default via 10.7.1.1" in site.inside(server, "ip", "route")
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
    reply = site.api.request("POST", f"/containers/{container['uuid']}/network_attach", params={"port": port["id"]})
    assert reply.status_code == 200, reply.text
    wait_for(lambda: set(site.api.settled(container["uuid"])["addresses"]) == {network, second}, 60)
    assert "10.7.2.77" in site.inside(container, "ip", "addr")
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
    member = site.engine.containers(filters={"label": f"zun.uuid={shown['containers'][0]['uuid']}"})[0]["Id"]
    made = site.engine.exec_create(member, ["ip", "-o", "addr", "show", "eth0"])
    assert items[0]["addr"] in site.engine.exec_start(made["Id"]).decode()
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


def ports_of(site, network):
    kept = ("mac_address", "fixed_ips", "status", "device_id", "binding:host_id", "security_groups")
    return {uuid: [each[name] for name in kept] for uuid, each in site.ports(network_id=network).items()}


@pytest.fixture(scope="module")
def pair(own_host, neutron_ovsdb):
    """A server with a restart policy, a client without one, and their network. Nothing of them is left at the end."""
    site = own_host
    empty = on_host(site, neutron_ovsdb)
    network = site.network(cidr="10.7.10.0/24")
    group = site.group("web", {"protocol": "tcp", "port_range_min": 80, "port_range_max": 80})
    common = {"nets": [{"network": network}], "security_groups": [group]}
    look, serve = SERVE[2].split(";")
    trap = "trap exit TERM"  # the first process ends at once
    command = ["sh", "-c", f"{trap}; {look}; httpd -p 81 -h /tmp; {serve.replace('exec ', '')} & wait"]
    server = site.run(**common, command=command, restart_policy={"Name": "always"})
    client = site.run(**common, command=["sh", "-c", f"{trap}; sleep 1000000 & wait"])
    yield server, client, network
    site.delete(server, client)
    wait_for(lambda: on_host(site, neutron_ovsdb) == empty and not site.ports(network_id=network), 60)


@pytest.mark.slow
@pytest.mark.parametrize("event", [stopped, killed, docker_first, agent_first])
def test_restarts_of_docker_and_the_host(own_host, pair, neutron_ovsdb, event):
    """The same ports are plugged again: by Docker for a container with a restart policy, for others at their start."""
    site, (server, client, network) = own_host, pair
    ((item,),) = server["addresses"].values()
    assert site.reaches(client, item["addr"]) and not site.reaches(client, item["addr"], 81)
    ports, there = ports_of(site, network), on_host(site, neutron_ovsdb)
    assert {each[2] for each in ports.values()} == {"ACTIVE"} and len(ports) == 2
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
    wait_for(lambda: ports_of(site, network) == ports, 60)
    assert on_host(site, neutron_ovsdb) == there
