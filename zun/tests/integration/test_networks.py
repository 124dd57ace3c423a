# SPDX-License-Identifier: Apache-2.0
"""Networks of real containers, through the real API, the stock client and Docker."""

import json
import shlex
import urllib.request
import uuid

import docker
import pytest

from zun.tests.fixtures import wait_for
from zun.tests.integration.programs import Api, Client

pytestmark = pytest.mark.docker

SERVE = ["sh", "-c", "echo hello > /tmp/index.html; exec httpd -f -p 80 -h /tmp"]
NEWEST = {"OpenStack-API-Version": "container 1.42"}


@pytest.fixture
def cloud(on_docker, engine):
    """An all-in-one and what it leaves behind."""
    service = on_docker(
        network={"subnet_pool": "10.219.0.0/16", "default_network_pool": "10.220.0.0/16"},
        capsule={"sandbox_image": "zun-demo", "sandbox_command": "sleep,1000000"},
        compute={"sync_container_state_interval": 5},  # the end waits for a sweep of default networks
    )
    service.start()
    made = Cloud(service.url, engine, service.host)
    yield made
    for project in made.projects:
        Api(made.url, project).delete_all()
    wait_for(lambda: made.bridges() == set(), 60)
    assert service.stop() == 0


class Cloud:
    def __init__(self, url, engine, name):
        self.url, self.engine, self.name = url, engine, name
        self.projects = {"admin"}
        self.openstack = Client(url)

    def api(self, project="admin"):
        self.projects.add(project)
        return Api(self.url, project)

    def network(self, name, project="admin", **fields):
        """A new network of the project; gives what the API shows of it."""
        body = {"name": name, "project_id": project, **fields}
        reply = self.api().request("POST", "/networks", json=body, headers=NEWEST)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def run(self, project="admin", **fields):
        shown = self.api(project).settled(self.api(project).run(**fields))
        assert shown["status"] == "Running", shown["status_reason"]
        return shown["uuid"]

    def inside(self, container, *command):
        """Exit code and output of a command in the container."""
        reply = self.api().request(
            "POST", f"/containers/{container}/execute", params={"command": shlex.join(command)}
        )
        assert reply.status_code == 200, reply.text
        return reply.json()["exit_code"], reply.json()["output"]

    def reaches(self, container, address):
        """Whether the container gets the page of the server there."""
        ask = f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 2 {address} 80"
        return "hello" in self.inside(container, "sh", "-c", ask)[1]

    def addresses(self, container):
        shown = self.api().settled(container)["addresses"]
        return {network: [each["addr"] for each in items] for network, items in shown.items()}

    def bridges(self):
        """The networks that this host's Docker has."""
        found = self.engine.networks(filters={"label": f"zun.host={self.name}"})
        return {each["Labels"].get("zun.network", "default") for each in found}

    def act(self, container, action, status):
        reply = self.api().request("POST", f"/containers/{container}/{action}")
        assert reply.status_code == 202, reply.text
        wait_for(lambda: self.api().settled(container)["status"] == status, 60)


def test_the_stock_client_from_create_to_delete(cloud):
    first, second = cloud.network("backend"), cloud.network("frontend", subnets=[{"cidr": "10.219.200.0/28"}])
    cloud.openstack(
        "appcontainer", "run", "--name", "web", "--memory", "64",
        "--net", "network=backend,v4-fixed-ip=10.219.0.77", "zun-demo", "sleep", "1000",
    )  # fmt: skip
    shown = cloud.api().settled("web")
    assert shown["status"] == "Running", shown["status_reason"]
    container = shown["uuid"]
    assert cloud.addresses(container) == {first["uuid"]: ["10.219.0.77"]}
    assert "inet 10.219.0.77/24" in cloud.inside(container, "ip", "-4", "addr")[1]
    said = cloud.openstack(
        "appcontainer", "run", "--memory", "64", "--net", "network=backend,v4-fixed-ip=10.219.0.77", "zun-demo",
        fails=True,
    )  # fmt: skip
    assert "10.219.0.77" in said and "belongs to another container" in said

    # On a container that runs.
    cloud.openstack("appcontainer", "network", "attach", "web", "--network", "frontend", "--fixed-ip", "10.219.200.9")
    wait_for(lambda: len(cloud.addresses(container)) == 2, 60)
    assert "inet 10.219.200.9/28" in cloud.inside(container, "ip", "-4", "addr")[1]
    cloud.openstack("appcontainer", "network", "detach", "web", "--network", "backend")
    wait_for(lambda: cloud.addresses(container) == {second["uuid"]: ["10.219.200.9"]}, 60)
    said = cloud.inside(container, "ip", "-4", "addr")[1]
    assert "10.219.200.9/28" in said and "10.219.0.77" not in said
    wait_for(lambda: cloud.bridges() == {second["uuid"]}, 60)

    # The first network was the one it was created with: a start must not bring it back.
    cloud.act(container, "reboot?timeout=0", "Running")
    said = cloud.inside(container, "ip", "-4", "addr")[1]
    assert "10.219.200.9/28" in said and "10.219.0." not in said

    assert cloud.api().request("DELETE", "/networks/frontend", headers=NEWEST).status_code == 409
    cloud.openstack("appcontainer", "delete", "--stop", "web")
    wait_for(lambda: cloud.bridges() == set(), 60)
    for network in (first, second):
        assert cloud.api().request("DELETE", f"/networks/{network['uuid']}", headers=NEWEST).status_code == 204


def test_projects_are_apart(cloud):
    demo, other = cloud.network("net", "demo"), cloud.network("net", "other")
    server = cloud.run("demo", command=SERVE)
    neighbour, stranger = cloud.run("demo"), cloud.run("other")
    (address,) = cloud.addresses(server)[demo["uuid"]]
    assert cloud.addresses(stranger).keys() == {other["uuid"]}
    wait_for(lambda: cloud.reaches(neighbour, address), 60)
    assert not cloud.reaches(stranger, address)
    # Both hosts of the two bridges are this machine; that is no way around.
    gateway = other["subnets"][0]["gateway"]
    assert not cloud.reaches(stranger, gateway)


def test_without_a_network_and_with_a_published_port(cloud, engine):
    container = cloud.run(command=SERVE, exposed_ports={"80": {}})
    shown = cloud.api().request("GET", f"/containers/{container}", headers=NEWEST).json()
    where = shown["published_ports"]["80/tcp"]
    assert shown["ports"] == [80] and where["host_ip"] == "127.0.0.1"

    def read():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{where['host_port']}/", timeout=5) as answer:
                return answer.read()
        except OSError:
            return None

    assert wait_for(read, 60) == b"hello\n"
    # Docker chose the address: it is told as long as the container has it.
    (endpoint,) = engine.inspect_container(f"zun-{container}")["NetworkSettings"]["Networks"].values()
    real = endpoint["IPAddress"]
    # A bridge that Docker has not removed yet may still have the pool's first subnet.
    assert real.startswith("10.220.") and cloud.addresses(container) == {"default": [real]}
    assert cloud.api().settled(container)["hostname"] == cloud.inside(container, "hostname")[1].strip()
    cloud.act(container, "stop?timeout=0", "Stopped")
    assert cloud.addresses(container) == {}
    cloud.act(container, "start", "Running")
    assert wait_for(read, 60) == b"hello\n", "at the same port"
    network = cloud.network("late")
    reply = cloud.api().request("POST", f"/containers/{container}/network_attach?network=late")
    assert (reply.status_code, reply.text) == (200, "null")
    wait_for(lambda: cloud.addresses(container).keys() == {"default", network["uuid"]}, 60)
    listed = cloud.api().get(f"/containers/{container}/network_list")["networks"]
    assert {each["net_id"] for each in listed} == {"default", network["uuid"]}


def test_default_networks_of_projects_are_apart(cloud, engine):
    server, stranger = cloud.run("demo", name="web", command=SERVE), cloud.run("other")
    neighbour = cloud.run("demo")
    (address,) = cloud.addresses(server)["default"]
    wait_for(lambda: cloud.reaches(neighbour, "web"), 60)
    assert cloud.reaches(neighbour, address)
    assert not cloud.reaches(stranger, address) and not cloud.reaches(stranger, "web")
    # As an operator's 'docker network prune' between a stop and a start.
    cloud.act(server, "stop?timeout=0", "Stopped")
    cloud.act(neighbour, "stop?timeout=0", "Stopped")
    for each in engine.networks(filters={"label": [f"zun.host={cloud.name}", "zun.project=demo"]}):
        engine.remove_network(each["Id"])
    for each in (server, neighbour):
        cloud.act(each, "start", "Running")
    wait_for(lambda: cloud.reaches(neighbour, "web"), 60)


def test_capsule_is_on_the_default_network(cloud, engine):
    member = {"image": "zun-demo", "command": ["sleep", "1000"]}
    template = {"kind": "capsule", "metadata": {"name": "pod"}, "spec": {"containers": [member]}}
    reply = cloud.api("demo").request("POST", "/capsules/", json={"template": template})
    assert reply.status_code == 202, reply.text
    uuid = reply.json()["uuid"]
    shown = wait_for(lambda: next(iter(cloud.api("demo").get(f"/capsules/{uuid}")["addresses"]), None), 60)
    assert shown == "default"
    assert cloud.api("demo").request("DELETE", f"/capsules/{uuid}").status_code == 204


def test_container_leaves_its_last_network_and_rejoins(cloud, engine):
    network = cloud.network("only")
    container = cloud.run()
    assert cloud.addresses(container) == {network["uuid"]: ["10.219.0.2"]}
    reply = cloud.api().request("POST", f"/containers/{container}/network_detach?network=only")
    assert reply.status_code == 202
    wait_for(lambda: cloud.addresses(container) == {} and cloud.bridges() == set(), 60)
    cloud.act(container, "reboot?timeout=0", "Running")
    assert "eth0" not in cloud.inside(container, "ip", "addr")[1]
    reply = cloud.api().request("POST", f"/containers/{container}/network_attach?network=only&fixed_ip=10.219.0.9")
    assert reply.status_code == 200, reply.text
    wait_for(lambda: cloud.addresses(container) == {network["uuid"]: ["10.219.0.9"]}, 60)
    assert "inet 10.219.0.9/24" in cloud.inside(container, "ip", "-4", "addr")[1]
    # What an operator's 'docker network prune' does to the networks of stopped containers.
    cloud.act(container, "stop?timeout=0", "Stopped")
    engine.remove_network(f"zun-{network['uuid']}")
    cloud.act(container, "start", "Running")
    assert "inet 10.219.0.9/24" in cloud.inside(container, "ip", "-4", "addr")[1]


def test_two_subnets(cloud):
    cloud.network("dual", subnets=[{"cidr": "10.219.9.0/24"}, {"cidr": "fd00:219::/64"}])
    server = cloud.run(command=SERVE, nets=[{"network": "dual", "v6-fixed-ip": "fd00:219::99"}])
    said = cloud.inside(server, "ip", "addr")[1]
    assert "inet6 fd00:219::99/64" in said and "inet 10.219.9.2/24" in said
    shown = cloud.api().settled(server)["addresses"]
    assert [(each["addr"], each["version"]) for (items) in shown.values() for each in items] == [
        ("10.219.9.2", 4),
        ("fd00:219::99", 6),
    ]
    client = cloud.run(nets=[{"network": "dual"}])
    wait_for(lambda: cloud.reaches(client, "fd00:219::99"), 60)
    printed = cloud.openstack("appcontainer", "show", server, "-f", "json")
    assert json.loads(printed)["networks"] in shown


def test_a_subnet_that_this_host_has_already(cloud, engine):
    name = f"test-{uuid.uuid4().hex[:8]}"
    pool = docker.types.IPAMConfig(pool_configs=[docker.types.IPAMPool(subnet="10.219.7.0/24")])
    engine.create_network(name, ipam=pool)
    try:
        cloud.network("taken", subnets=[{"cidr": "10.219.7.0/25"}])
        shown = cloud.api().settled(cloud.api().run(nets=[{"network": "taken"}]))
        assert (shown["status"], shown["addresses"]) == ("Error", {})
        assert "10.219.7.0/25" in shown["status_reason"] and "another subnet" in shown["status_reason"]
    finally:
        engine.remove_network(name)
