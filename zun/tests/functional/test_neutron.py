# SPDX-License-Identifier: Apache-2.0
"""Containers and a Neutron that fails at each step, behind real HTTP."""

import dataclasses
import datetime
import itertools
import threading
import time

import pytest
import sqlalchemy as sa
from prometheus_client import REGISTRY

from zun.common import exceptions
from zun.common.context import admin_context
from zun.common.departures import uuid_of_left
from zun.container.driver.lifecycle import Plug
from zun.db import container_actions, containers, models, network_ports, services, session
from zun.network.plugin import WIRING, Wires
from zun.neutron.ports import Wiring
from zun.objects import Container
from zun.tests.fixtures import wait_for
from zun.tests.functional import actions
from zun.tests.functional.api.samples import TEMPLATE
from zun.tests.functional.cloud import Cloud, machine
from zun.tests.functional.neutron import Driver, Switch, api, client, conf, create, neutron, swept, users_port, wires
from zun.topology.devices import Device, DeviceType

__all__ = ["api", "client", "conf", "neutron", "wires"]

CONTEXT = admin_context()
HTML = "<html><body>Bad gateway</body></html>"
OVER = {"NeutronError": {"type": "OverQuota", "message": "Quota exceeded for resources: ['port'].", "detail": ""}}
TAKEN = {"NeutronError": {"type": "IpAddressAlreadyAllocated", "message": "Address is taken.", "detail": ""}}
FAILURES = {
    "slow": ("slow", 503),
    "unauthorized": (401, 503),
    "forbidden": (403, 403),
    "not-found": (404, 404),
    "over-quota": ((409, OVER), 403),
    "conflict": ((409, TAKEN), 409),
    "too-large": (413, 503),
    "broken": (500, 503),
    "proxy": ((502, HTML), 503),
    "another-service": ((200, HTML), 503),
    "another-json": ((200, "[]"), 503),
}
ON_HOSTS = sorted(FAILURES.keys() - {"over-quota", "proxy", "another-json"})
STEPS = [
    ("GET", "networks/"),
    ("GET", "ports/"),
    ("POST", "security-groups"),
    ("POST", "security-group-rules"),
    ("POST", "ports"),
    ("PUT", "ports/"),
    ("GET", "subnets"),
]


@pytest.mark.parametrize("step", STEPS, ids=" ".join)
@pytest.mark.parametrize("failure", FAILURES)
def test_create_when_neutron_fails(api, neutron, client, wires, step, failure):
    """The caller is told why. Neither a port nor a group nor a row is left, and the user's own port is free."""
    mine = users_port(neutron, neutron.network("demo", "10.8.0.0/24"))
    neutron.failures[step], status = FAILURES[failure]
    nets = [{"network": neutron.network("demo")}, {"port": mine}]
    reply = create(api, nets=nets, exposed_ports={"80": {}})
    assert reply.status == status, reply.error
    assert "Neutron" in reply.error["detail"] or status == 404
    assert containers.unplaced() == []
    neutron.failures.clear()
    late = failure == "slow" and step[0] != "GET"  # Neutron may do it after we gave up, as in real life
    if late:
        swept(Driver(client, wires), neutron)
    assert neutron.groups == {}
    assert {uuid: each["device_id"] for uuid, each in neutron.ports.items()} == {mine: ""}


def test_create_when_neutron_is_down(api, neutron):
    neutron.stop()
    reply = create(api)
    assert reply.status == 503 and "Neutron does not answer" in reply.error["detail"]


def test_create_makes_ports_and_delete_takes_them(api, neutron):
    network, other = neutron.network("demo"), neutron.network("demo", "10.8.0.0/24")
    mine = neutron._perform("POST", "ports", "", {"port": {"network_id": other, "project_id": "demo"}}, {})[1]["port"]
    reply = create(api, nets=[{"network": network, "v4-fixed-ip": "10.7.0.77"}, {"port": mine["id"]}])
    assert reply.status == 202
    uuid = reply.json["uuid"]
    made, kept = (each for each in network_ports.of_container(uuid))
    assert (made["fixed_ips"][0]["ip_address"], made["preserve"], kept["preserve"]) == ("10.7.0.77", False, True)
    port = neutron.ports[made["uuid"]]
    assert (port["device_id"], port["device_owner"], port["project_id"]) == (uuid, "compute:zun", "demo")
    assert neutron.ports[mine["id"]]["device_id"] == uuid
    containers.end_unplaced(uuid, "no host has room")
    assert api.delete(f"/v1/containers/{uuid}").status == 204
    assert list(neutron.ports) == [mine["id"]] and neutron.ports[mine["id"]]["device_id"] == ""


def test_networks_are_made_at_neutron(api):
    root = dataclasses.replace(api.at("1.42"), roles="admin")
    reply = root.post("/v1/networks", {"name": "mine", "neutron_net_id": None})
    assert reply.status == 409 and "openstack network create" in reply.error["detail"]
    assert root.get("/v1/networks").json["networks"] == []


def test_exposed_ports_make_a_group(api, neutron):
    """It lets in what is exposed, and goes with the container's last port."""
    neutron.network("demo")
    reply = create(api, exposed_ports={"80": {}, "53/udp": {}, "38412/sctp": {}})
    assert reply.status == 202
    uuid = reply.json["uuid"]
    (group,), (port,) = neutron.groups.values(), neutron.ports.values()
    assert group["name"] == port["name"] == f"zun-{uuid}" and port["security_groups"] == [group["id"]]
    assert reply.json["security_groups"] == [group["id"]]
    opened = [(rule["ethertype"], rule["protocol"], rule["port_range_min"]) for rule in neutron.rules.values()]
    exposed = [("sctp", 38412), ("tcp", 80), ("udp", 53)]
    assert sorted(opened) == [(family, *port) for family in ("IPv4", "IPv6") for port in exposed]
    containers.end_unplaced(uuid, "no host has room")
    assert api.delete(f"/v1/containers/{uuid}").status == 204
    assert neutron.ports == neutron.groups == neutron.rules == {}


@pytest.mark.parametrize("step", [("POST", "security-groups"), ("POST", "security-group-rules"), ("POST", "ports")])
def test_a_group_that_cannot_be_made(api, neutron, step):
    neutron.network("demo")
    neutron.failures[step] = (409, OVER)
    assert create(api, exposed_ports={"80": {}}).status == 403
    assert neutron.ports == neutron.groups == {} and containers.unplaced() == []


def test_a_port_survives_a_failed_create(api, neutron):
    network = neutron.network("demo")
    mine = neutron._perform("POST", "ports", "", {"port": {"network_id": network, "project_id": "demo"}}, {})[1]["port"]
    neutron.failures["POST", "ports"] = (409, OVER)
    other = neutron.network("demo", "10.8.0.0/24")
    assert create(api, nets=[{"port": mine["id"]}, {"network": other}]).status == 403
    assert {name: each["device_id"] for name, each in neutron.ports.items()} == {mine["id"]: ""}


@pytest.mark.parametrize(
    ("networks", "chosen"),
    [
        pytest.param([("other", {"shared": True}), ("demo", {}), ("demo", {})], 1, id="oldest-own"),
        pytest.param([("other", {}), ("other", {"shared": True})], 1, id="shared-if-none-is-own"),
        pytest.param([("demo", {"router:external": True}), ("demo", {})], 1, id="no-external"),
        pytest.param([("other", {})], None, id="none"),
    ],
)
def test_the_default_network(api, neutron, networks, chosen):
    made = [neutron.network(project, **fields) for project, fields in networks]
    reply = create(api)
    if chosen is None:
        assert reply.status == 409
    else:
        (port,) = network_ports.of_container(reply.json["uuid"])
        assert port["network_uuid"] == made[chosen]


@pytest.mark.parametrize("field", ["network", "port"])
def test_what_belongs_to_another_project(api, neutron, field):
    network = neutron.network("other")
    port = neutron._perform("POST", "ports", "", {"port": {"network_id": network, "project_id": "other"}}, {})[1]
    reply = create(api, nets=[{field: {"network": network, "port": port["port"]["id"]}[field]}])
    assert reply.status == 404 and len(neutron.ports) == 1


# Changes of containers that a host has.


def group_of(neutron, name, project="demo"):
    body = {"security_group": {"name": name, "project_id": project}}
    return neutron._perform("POST", "security-groups", "", body, {})[1]["security_group"]["id"]


def with_ports(api, neutron, count=1):
    """A running container with ports in ``count`` networks."""
    nets = [{"network": neutron.network("demo", f"10.{number + 7}.0.0/24")} for number in range(count)]
    uuid = create(api, nets=nets).json["uuid"]
    containers.update(uuid, {"status": "Running", "host": "host-1"})
    return uuid


def change(api, uuid, action, name):
    return api.at("1.14").post(f"/v1/containers/{uuid}/{action}_security_group?name={name}")


def groups_of(neutron, uuid):
    """The groups of a container's row and of its ports."""
    ports = [each["security_groups"] for each in neutron.ports.values() if each["device_id"] == uuid]
    return [containers.get(uuid)["security_groups"], *ports]


def test_groups_of_a_container_change(api, neutron):
    """On all of its ports, by name or id. A group that is given otherwise to a port stays there."""
    web, other = group_of(neutron, "web"), group_of(neutron, "other")
    uuid = with_ports(api, neutron, 2)
    port = list(neutron.ports.values())[1]
    port["security_groups"] = ["theirs"]
    assert change(api, uuid, "add", "web").status == 202
    assert change(api, uuid, "add", other).status == 202
    assert groups_of(neutron, uuid) == [[web, other], [web, other], ["theirs", web, other]]
    assert "already" in change(api, uuid, "add", web).error["detail"]
    assert change(api, uuid, "remove", web).status == 202
    assert groups_of(neutron, uuid) == [[other], [other], ["theirs", other]]
    assert "does not have" in change(api, uuid, "remove", "web").error["detail"]


@pytest.mark.parametrize("action", ["add", "remove"])
@pytest.mark.parametrize("moment", ["GET", "PUT"])
def test_parallel_changes_of_groups_are_both_kept(api, neutron, action, moment):
    """The second change happens as a whole between the first one's reading of the port and its writing."""
    web, other = group_of(neutron, "web"), group_of(neutron, "other")
    uuid = with_ports(api, neutron)
    if action == "remove":
        assert [change(api, uuid, "add", name).status for name in ("web", "other")] == [202, 202]
    found, seen = neutron.found, []

    def answer(method, path, query, body):
        reply = found(method, path, query, body)
        if method == moment and path.startswith("ports/") and not seen:
            seen.append(path)
            assert change(api, uuid, action, "other").status == 202
        return reply

    neutron.found = answer
    assert change(api, uuid, action, "web").status == 202
    row, port = groups_of(neutron, uuid)
    assert sorted(row) == sorted(port) == (sorted([web, other]) if action == "add" else [])


def test_a_port_that_changes_all_the_time(api, neutron):
    group_of(neutron, "web")
    uuid = with_ports(api, neutron)
    neutron.failures["PUT", "ports/"] = (412, {"NeutronError": {"type": "RevisionNumberConstraintFailed"}})
    assert change(api, uuid, "add", "web").status == 409
    assert neutron.asked.count(("PUT", f"ports/{next(iter(neutron.ports))}")) == 5
    assert groups_of(neutron, uuid) == [None, []]


@pytest.mark.parametrize("gone", [("GET", "ports/"), ("PUT", "ports/")], ids=" ".join)
def test_groups_change_without_a_port(api, neutron, gone):
    """Somebody deleted one at Neutron. The other one and the row change."""
    web, uuid = group_of(neutron, "web"), with_ports(api, neutron, 2)
    first, second = (port["uuid"] for port in network_ports.of_container(uuid))
    neutron.failures[gone[0], f"ports/{first}"] = (404, {"NeutronError": {"type": "PortNotFound", "message": "gone"}})
    assert change(api, uuid, "add", "web").status == 202
    assert containers.get(uuid)["security_groups"] == [web] == neutron.ports[second]["security_groups"]


@pytest.mark.parametrize("step", [("GET", "security-groups"), ("GET", "ports/"), ("PUT", "ports/")], ids=" ".join)
@pytest.mark.parametrize("failure", FAILURES)
def test_a_change_of_groups_when_neutron_fails(api, neutron, step, failure):
    """The row does not say what Neutron refused. A repetition works."""
    web, uuid = group_of(neutron, "web"), with_ports(api, neutron)
    neutron.failures[step], status = FAILURES[failure]
    if failure == "not-found" and step[1] == "ports/":
        status = 202  # the port is gone
    reply = change(api, uuid, "add", "web")
    assert reply.status == status, reply.error
    assert status == 202 or containers.get(uuid)["security_groups"] is None
    wait_for(lambda: not neutron.under_way)
    neutron.failures.clear()
    if status != 202:
        assert change(api, uuid, "add", "web").status == 202
        assert groups_of(neutron, uuid) == [[web], [web]]


@pytest.mark.parametrize("failure", FAILURES)
def test_group_names_when_neutron_fails(api, neutron, failure):
    neutron.network("demo")
    group_of(neutron, "web")
    neutron.failures["GET", "security-groups"], status = FAILURES[failure]
    reply = create(api, security_groups=["web"])
    assert reply.status == status, reply.error
    assert containers.unplaced() == [] and neutron.ports == {}


JOINS = [("GET", "networks/"), ("POST", "ports"), ("GET", "subnets")]


@pytest.mark.parametrize("step", JOINS, ids=" ".join)
@pytest.mark.parametrize("failure", FAILURES)
def test_an_attach_when_neutron_fails(api, neutron, client, wires, step, failure):
    """Neither a port nor a row of one is left."""
    uuid = with_ports(api, neutron)
    (first,), second = neutron.ports, neutron.network("demo", "10.8.0.0/24")
    neutron.failures[step], status = FAILURES[failure]
    reply = api.post(f"/v1/containers/{uuid}/network_attach?network={second}")
    assert reply.status == status, reply.error
    assert [each["uuid"] for each in network_ports.of_container(uuid)] == [first]
    wait_for(lambda: not neutron.under_way)
    neutron.failures.clear()
    if failure == "slow":  # Neutron makes the port when nobody waits any more
        swept(Driver(client, wires), neutron)
    assert list(neutron.ports) == [first]


@pytest.mark.parametrize("failure", FAILURES)
def test_a_detach_when_neutron_fails(api, neutron, failure):
    """Neutron is asked only for the name of a network where the container is not."""
    uuid = with_ports(api, neutron)
    (port,) = network_ports.of_container(uuid)
    path = f"/v1/containers/{uuid}/network_detach?"
    neutron.failures["GET", "networks"], status = FAILURES[failure]
    assert api.post(f"{path}network=elsewhere").status == status
    assert not network_ports.of_container(uuid)[0]["leaving"]
    for answer in ("GET", "PUT", "DELETE"):
        neutron.failures[answer, ""] = FAILURES[failure][0]
    assert api.post(f"{path}network={port['network_uuid']}").status == 202
    assert network_ports.of_container(uuid)[0]["leaving"]


@pytest.fixture
def cloud(database, client, wires, neutron):
    made = Cloud({})
    made.networks["host-1"] = Driver(client, wires)
    made.machines["host-1"] = machine()
    made.start_agent("host-1")
    yield made
    made.stop()


@pytest.fixture
def hosts(cloud, client, neutron, tmp_path, monkeypatch):
    """A second host beside that of ``cloud``, which a container may move to."""
    wires = Wires(tmp_path / "wires-2", {"ovs": Switch()}, client, 0.2)
    wires.start()
    neutron.agents.add("host-2")
    cloud.networks["host-2"], cloud.machines["host-2"] = Driver(client, wires, "host-2"), machine()
    cloud.start_agent("host-2")
    return {name: cloud.networks[name]._engine for name in ("host-1", "host-2")}


@pytest.mark.parametrize("fails", [False, True])
def test_a_port_moves_to_another_host_and_comes_back(cloud, hosts, api, neutron, fails):
    """Its addresses stay. It is bound to the host where the container is, wherever that could not run."""
    services.update("host-2", "zun-compute", {"disabled": True})
    uuid = create(api, nets=[{"network": neutron.network("demo")}]).json["uuid"]
    containers.update(uuid, {"request": {**containers.get(uuid)["request"], "run": True}})
    cloud.scheduler_api.create(CONTEXT, Container.get_by_uuid(CONTEXT, uuid))
    before = wait_for(lambda: (row := containers.get(uuid))["status"] == "Running" and row)
    (port,) = neutron.ports.values()
    assert (before["host"], port["binding:host_id"]) == ("host-1", "host-1")
    services.update("host-2", "zun-compute", {"disabled": False})
    cloud.scheduler.table.catch_up()
    if fails:
        cloud.drivers["host-2"].fail("start", exceptions.DockerError(error="no"))
    container = Container.get_by_uuid(CONTEXT, uuid)
    cloud.compute_api.want(CONTEXT, container, "leave", discard_layer=True, run=True, host="host-2")
    left = wait_for(lambda: containers.of_uuids([uuid_of_left(uuid, "host-1")]))
    wait_for(lambda: not containers.of_uuids([uuid_of_left(uuid, "host-1")]), 30)
    now = wait_for(lambda: (row := containers.get(uuid))["status"] == "Running" and not row["task_state"] and row)
    host = "host-1" if fails else "host-2"
    (port,) = neutron.ports.values()
    assert left and (now["host"], port["binding:host_id"]) == (host, host)
    assert now["addresses"] == before["addresses"]
    cloud.compute_api.delete(CONTEXT, Container.get_by_uuid(CONTEXT, uuid), force=True)
    wait_for(lambda: not neutron.ports)


def accepted(api, neutron):
    """A container that the API accepted and no scheduler has seen."""
    uuid = create(api, nets=[{"network": neutron.network("demo")}]).json["uuid"]
    return Container.get_by_uuid(CONTEXT, uuid)


def run(cloud, container):
    cloud.scheduler_api.create(CONTEXT, container)
    wait_for(lambda: containers.get(container.uuid)["status"] in ("Created", "Error"), 30)
    return containers.get(container.uuid)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param("/v1/containers", {"image": "demo"}, id="container"),
        pytest.param("/capsules/", {"template": TEMPLATE}, id="capsule"),
    ],
)
def test_requests_ask_for_a_host_with_neutron(api, neutron, path, body):
    neutron.network("demo")
    reply = api.post(path, body)
    assert reply.status == 202, reply.json
    stored = Container.get_by_uuid(CONTEXT, reply.json["uuid"])
    assert stored.request["hints"] == {"image:trait:CUSTOM_ZUN_NEUTRON": "required"}


def test_the_group_goes_with_its_container(cloud, api, neutron):
    """A group that Neutron did not delete at once goes with the sweep."""
    neutron.network("demo")
    made = [create(api, exposed_ports={"80": {}}).json["uuid"] for _ in range(2)]
    for container in Container.list_by_uuids(CONTEXT, made):
        row = run(cloud, container)
        assert row["status"] == "Created" and "host_port" not in row["exposed_ports"]["80/tcp"]
    first, second = Container.list_by_uuids(CONTEXT, made)
    cloud.compute_api.delete(CONTEXT, first, force=True)
    wait_for(lambda: len(neutron.groups) == 1, 30)
    neutron.failures["DELETE", "ports"] = 500
    cloud.compute_api.delete(CONTEXT, second, force=True)
    wait_for(lambda: containers.of_uuids(made) == [], 30)
    assert len(neutron.ports) == len(neutron.groups) == 1
    neutron.failures.clear()
    cloud.networks["host-1"].sweep(network_ports.known)
    assert neutron.ports == neutron.groups == {}


def test_a_container_is_asked_for_its_group_once(cloud, api, neutron):
    """However many ports it had."""
    nets = [{"network": neutron.network("demo", f"10.{number}.0.0/24")} for number in (7, 8, 9)]
    container = Container.get_by_uuid(CONTEXT, create(api, nets=nets, exposed_ports={"80": {}}).json["uuid"])
    assert run(cloud, container)["status"] == "Created" and len(neutron.ports) == 3
    neutron.asked.clear()
    cloud.compute_api.delete(CONTEXT, Container.get_by_uuid(CONTEXT, container.uuid), force=True)
    wait_for(lambda: neutron.groups == {}, 30)
    methods = [method for method, path in neutron.asked if path.startswith("security-groups")]
    assert neutron.ports == {} and methods == ["GET", "DELETE"]


AGENT_STEPS = [("PUT", "ports/"), ("GET", "networks/"), ("GET", "subnets")]


def test_a_port_is_bound_and_given_back(cloud, api, neutron):
    container, bound = accepted(api, neutron), ports("bind", "done")
    row = run(cloud, container)
    assert ports("bind", "done") > bound
    assert row["status"] == "Created", row["status_reason"]
    (port,) = neutron.ports.values()
    assert (port["binding:host_id"], port["binding:vif_type"]) == ("host-1", "ovs")
    assert [each["port"] for items in row["addresses"].values() for each in items] == [port["id"]]
    cloud.compute_api.delete(CONTEXT, Container.get_by_uuid(CONTEXT, container.uuid), force=True)
    wait_for(lambda: neutron.ports == {}, 30)


def test_ports_are_free_when_the_container_is_gone(cloud, api, neutron):
    """Their user may delete the networks, the port and the groups next."""
    network, other = neutron.network("demo"), neutron.network("demo", "10.8.0.0/24")
    mine = neutron._perform("POST", "ports", "", {"port": {"network_id": other, "project_id": "demo"}}, {})[1]["port"]
    nets = [{"network": network}, {"port": mine["id"]}]
    uuid = create(api, nets=nets, exposed_ports={"80": {}}).json["uuid"]
    assert run(cloud, Container.get_by_uuid(CONTEXT, uuid))["status"] == "Created"
    found, seen = neutron.found, []

    def answer(method, path, query, body):
        if method in ("DELETE", "PUT"):
            seen.append((method, path.partition("/")[0], len(containers.of_uuids([uuid]))))
        return found(method, path, query, body)

    neutron.found = answer
    cloud.compute_api.delete(CONTEXT, Container.get_by_uuid(CONTEXT, uuid), force=True)
    wait_for(lambda: containers.of_uuids([uuid]) == [], 30)
    assert sorted(seen) == [("DELETE", "ports", 1), ("DELETE", "security-groups", 1), ("PUT", "ports", 1)]
    assert list(neutron.ports) == [mine["id"]] and neutron.ports[mine["id"]]["device_id"] == ""


def test_a_port_given_to_another_container_stays_with_it(client, wires, neutron):
    """A deletion that was interrupted gives the port back again, when its user may have used the port already."""
    body = {"network_id": neutron.network("demo"), "name": "mine", "device_id": "second"}
    port = neutron._perform("POST", "ports", "", {"port": body}, {})[1]["port"]
    members = {"uuid": port["id"], "container_uuid": "first", "preserve": True}
    Driver(client, wires).release(type("View", (), members))
    assert neutron.ports[port["id"]]["device_id"] == "second"
    Driver(client, wires).release(type("View", (), members | {"container_uuid": "second"}))
    assert neutron.ports[port["id"]]["device_id"] == ""


@pytest.mark.parametrize("failure", ON_HOSTS)
@pytest.mark.parametrize("step", AGENT_STEPS, ids=" ".join)
def test_a_bind_that_fails_ends_in_error(cloud, api, neutron, step, failure):
    """The reason is told, nothing is held, and the deletion takes the port."""
    container = accepted(api, neutron)
    neutron.failures[step] = FAILURES[failure][0]
    row = run(cloud, container)
    assert (row["status"], row["cpuset"]) == ("Error", None) and row["status_reason"]
    del neutron.failures[step]
    assert api.delete(f"/v1/containers/{container.uuid}").status == 204
    for left in Container.list_by_uuids(CONTEXT, [container.uuid]):  # on its host: a message that goes nowhere here
        cloud.compute_api.delete(CONTEXT, left, force=True)
    wait_for(lambda: neutron.ports == {}, 30)


def test_a_failed_binding_is_told(client, wires, neutron, api):
    (port,) = network_ports.of_container(accepted(api, neutron).uuid)
    members = {"uuid": port["uuid"], "network_uuid": port["network_uuid"], "preserve": False, "slot": None}
    view = type("View", (), members)
    with pytest.raises(exceptions.PortUnusable, match=r"host 'elsewhere'.*agent_host"):
        Driver(client, wires, "elsewhere").prepare(view)
    neutron.agents.add("elsewhere")  # its agent is back: the driver binds anew
    plug = Driver(client, wires, "elsewhere").prepare(view)
    assert isinstance(plug, Plug) and plug.dns == ("10.7.0.53",)
    wiring = Wiring.from_json(plug.options[WIRING])
    assert (wiring.port, wiring.mtu, wiring.gateways) == (port["uuid"], 1450, ("10.7.0.1",))


@pytest.mark.parametrize("failure", ON_HOSTS)
@pytest.mark.parametrize(
    "step",
    [("DELETE", "ports/"), ("GET", "ports/"), ("PUT", "ports/"), ("GET", "security-groups"),
     ("DELETE", "security-groups/")],
    ids=" ".join,
)  # fmt: skip
def test_a_deletion_while_neutron_fails(cloud, api, neutron, step, failure):
    """The container goes. The sweep gives back its ports and group, and leaves the user's port to its user."""
    nets = [{"network": neutron.network("demo")}, {"port": users_port(neutron, neutron.network("demo", "10.8.0.0/24"))}]
    container = Container.get_by_uuid(CONTEXT, create(api, nets=nets, exposed_ports={"80": {}}).json["uuid"])
    assert run(cloud, container)["status"] == "Created"
    neutron.failures[step] = FAILURES[failure][0]
    cloud.compute_api.delete(CONTEXT, Container.get_by_uuid(CONTEXT, container.uuid), force=True)
    wait_for(lambda: containers.of_uuids([container.uuid]) == [] and not cloud.agents["host-1"].queue.busy(), 30)
    neutron.failures.clear()
    swept(cloud.networks["host-1"], neutron)
    assert [(each["name"], each["device_id"]) for each in neutron.ports.values()] == [("mine", "")]
    assert neutron.groups == {}


def test_the_sweep_spares_what_is_used_or_new(cloud, api, neutron, client, wires):
    row = run(cloud, accepted(api, neutron))
    now = datetime.datetime.now(datetime.UTC)
    network = next(iter(neutron.records["networks"]))

    def port(age, **fields):
        then = (now - datetime.timedelta(minutes=age)).strftime("%Y-%m-%dT%H:%M:%SZ")
        owner = {"device_owner": "compute:zun", "device_id": "gone", "updated_at": then}
        body = {"network_id": network, "project_id": "demo", **owner, **fields}
        return neutron._perform("POST", "ports", "", {"port": body}, {})[1]["port"]["id"]

    new, theirs = port(1, name="zun-gone"), port(1, **{"binding:host_id": "host-2"})
    port(90, name="zun-gone")
    users = port(90, name="mine")
    used = {each["uuid"] for each in network_ports.of_container(row["uuid"])}
    cloud.networks["host-1"].sweep(network_ports.known)
    assert set(neutron.ports) == {new, theirs, users, *used}
    assert neutron.ports[users]["device_id"] == ""


def test_the_sweep_spares_containers_without_rows(cloud, api, neutron):
    """The database is lost while they run, and 'zun-db-manage recover' needs their ports at Neutron."""
    agent, driver = cloud.agents["host-1"], cloud.drivers["host-1"]
    row = run(cloud, accepted(api, neutron))
    agent._compare()
    wait_for(lambda: not agent.queue.busy())
    with session.writer() as connection:
        for table in reversed(models.metadata.sorted_tables):
            connection.execute(table.delete())
    before = set(neutron.ports)
    agent._networks.sweep(CONTEXT, agent.parts.recovery.ports_without_row(CONTEXT))
    assert before and set(neutron.ports) == before
    assert [each["device_id"] for each in neutron.ports.values()] == [row["uuid"]] * len(before)
    driver.runtime.remove(driver.runtime.objects[row["uuid"]])
    agent._networks.sweep(CONTEXT, agent.parts.recovery.ports_without_row(CONTEXT))
    assert neutron.ports == {}


def test_a_group_of_the_same_name_stays(cloud, api, neutron):
    """Users may call a group of theirs like the one of a container."""
    neutron.network("demo")
    row = run(cloud, Container.get_by_uuid(CONTEXT, create(api, exposed_ports={"80": {}}).json["uuid"]))
    container = Container.get_by_uuid(CONTEXT, row["uuid"])
    name, ours = f"zun-{container.uuid}", set(neutron.groups)
    body = {"security_group": {"name": name, "description": "web", "project_id": "demo"}}
    theirs = neutron._perform("POST", "security-groups", "", body, {})[1]["security_group"]["id"]
    cloud.compute_api.delete(CONTEXT, container, force=True)
    wait_for(lambda: containers.of_uuids([container.uuid]) == [], 30)
    assert len(ours) == 1 and set(neutron.groups) == {theirs}


@pytest.mark.parametrize("failure", ["conflict", "broken"])
@pytest.mark.parametrize(
    ("step", "with_ports"),
    [pytest.param("ports", True, id="ports"), pytest.param("security-groups", True, id="groups-of-ports"),
     pytest.param("security-groups", False, id="groups")],
)  # fmt: skip
def test_the_sweep_passes_what_it_cannot_delete(cloud, api, neutron, caplog, step, with_ports, failure):
    """For example a port that its user made the parent of a trunk. What cannot be deleted is one line of the log."""
    for _ in range(3):
        neutron.network("demo")
        containers.destroy_unplaced(create(api, exposed_ports={"80": {}}).json["uuid"])
    if not with_ports:
        neutron.ports.clear()
    stuck = list(neutron.records[step])[1]
    neutron.failures["DELETE", f"{step}/{stuck}"] = FAILURES[failure][0]
    for each in (*neutron.ports.values(), *neutron.groups.values()):
        each["updated_at"] = "2026-01-01T00:00:00Z"
    caplog.clear()
    wait_for(lambda: not cloud.agents["host-1"].queue.busy())  # its own sweep would come between
    cloud.networks["host-1"]._looked_for_groups = time.monotonic() if with_ports else None
    cloud.agents["host-1"]._networks.sweep(CONTEXT)
    wait_for(lambda: not neutron.under_way)
    assert set(neutron.records[step]) <= {stuck}
    told = [each.message for each in caplog.records if "stays for now" in each.message and stuck in each.message]
    assert told or (step, failure) == ("security-groups", "conflict")  # its user gave the group to other ports


def test_groups_are_swept_when_ports_are_not(cloud, api, neutron):
    neutron.network("demo")
    containers.destroy_unplaced(create(api, exposed_ports={"80": {}}).json["uuid"])
    neutron.ports.clear()
    neutron.failures["GET", "ports"] = 500
    for each in neutron.groups.values():
        each["updated_at"] = "2026-01-01T00:00:00Z"
    wait_for(lambda: not cloud.agents["host-1"].queue.busy())  # its own sweep would look for the groups meanwhile
    cloud.networks["host-1"]._looked_for_groups = None
    cloud.agents["host-1"]._networks.sweep(CONTEXT)
    assert neutron.groups == {}


def test_the_sweep_passes_an_interface_that_stays(wires, neutron, client):
    made = [wiring(neutron, client) for _ in range(3)]
    for number, wired in enumerate(made):
        created(wires, wired, f"e{number}")
        wires.answer("NetworkDriver.Join", {"EndpointID": f"e{number}"})
    stuck, unplug = made[1].port, switch(wires).unplug

    def fails(wired):
        if wired.port == stuck:
            raise exceptions.PortUnusable(reason="Could not unplug port")
        unplug(wired)

    switch(wires).unplug = fails
    wires.sweep(lambda ports: [])
    assert list(switch(wires).plugged) == [stuck] and [each.stem for each in wires._folder.iterdir()] == ["e1"]


@pytest.fixture
def moving(cloud, api, neutron):
    """A container that joins and leaves networks, which its host has settled when a call returns."""

    class Moving:
        def __init__(self):
            self.first = neutron.network("demo")
            self.uuid = create(api, nets=[{"network": self.first}]).json["uuid"]
            assert run(cloud, self.container)["status"] == "Created"
            self.docker = cloud.networks["host-1"]._engine
            self._numbers = itertools.count()

        @property
        def container(self):
            return Container.get_by_uuid(CONTEXT, self.uuid)

        @property
        def gateways(self):
            return self.docker.gateways(f"zun-{self.uuid}")

        def attach(self, network, meanwhile=lambda: None):
            assert api.post(f"/v1/containers/{self.uuid}/network_attach?network={network}").status == 200
            meanwhile()
            port = next(each["uuid"] for each in network_ports.of_container(self.uuid)
                        if each["network_uuid"] == network)  # fmt: skip
            return self.settle("attach", port)

        def detach(self, network):
            assert api.post(f"/v1/containers/{self.uuid}/network_detach?network={network}").status == 202
            port = next(each["uuid"] for each in network_ports.of_container(self.uuid)
                        if each["network_uuid"] == network)  # fmt: skip
            return self.settle("detach", port)

        def settle(self, action, port):
            context = actions.asked(f"network_{action}", self.container, next(self._numbers))
            getattr(cloud.agents["host-1"].parts.attachments, action)(context, self.container, port=port)
            _, (told,) = container_actions.find(self.uuid, context.request_id)
            return told["result"]

    return Moving()


def test_the_default_route_follows_the_first_network(moving, neutron):
    """A container that leaves its first network and joins it again has the route of the network where it stayed."""
    second = neutron.network("demo", "10.8.0.0/24")
    moving.attach(second)
    assert moving.gateways == ["10.7.0.1"]
    assert moving.detach(moving.first) == "Success"
    assert moving.gateways == ["10.8.0.1"]
    moving.attach(moving.first)
    assert moving.gateways == ["10.8.0.1"]
    assert moving.docker.connected == [f"zun-{each}" for each in (moving.first, second, second, moving.first)]


def test_a_network_without_a_gateway_is_left_alone(moving, neutron):
    """Also if another subnet of the network, where the port has no address, has a gateway."""
    second = neutron.network("demo", "10.8.0.0/24")
    for each in list(neutron.records["subnets"].values()):
        if each["network_id"] == second:
            each["gateway_ip"] = None
    neutron.subnet(second, "fd00::/64", "fd00::1")
    moving.attach(second)
    moving.detach(moving.first)
    moving.attach(moving.first)
    assert moving.docker.connected == [f"zun-{each}" for each in (moving.first, second, moving.first)]
    assert moving.gateways == []


@pytest.mark.parametrize("step", AGENT_STEPS, ids=" ".join)
def test_a_detach_that_fails_changes_nothing(moving, neutron, step):
    """The other network needs a new endpoint with the default route, for which Neutron is asked."""
    second = neutron.network("demo", "10.8.0.0/24")
    moving.attach(second)
    neutron.failures[step] = 500
    assert moving.detach(moving.first) == "Error"
    assert moving.gateways == ["10.7.0.1"] and len(moving.docker.connected) == 2
    assert [each["leaving"] for each in network_ports.of_container(moving.uuid)] == [False, False]
    neutron.failures.clear()
    assert moving.detach(moving.first) == "Success" and moving.gateways == ["10.8.0.1"]


@pytest.mark.parametrize("failure", ON_HOSTS)
@pytest.mark.parametrize("step", AGENT_STEPS, ids=" ".join)
def test_an_attach_that_fails_on_the_host(moving, cloud, neutron, step, failure):
    """The container is as before, and the new port is gone."""
    answer, (first,) = FAILURES[failure][0], neutron.ports
    second = neutron.network("demo", "10.8.0.0/24")
    assert moving.attach(second, lambda: neutron.failures.update({step: answer})) == "Error"
    assert [each["uuid"] for each in network_ports.of_container(moving.uuid)] == [first]
    assert moving.gateways == ["10.7.0.1"] and len(moving.docker.connected) == 1
    neutron.failures.clear()
    swept(cloud.networks["host-1"], neutron)
    assert list(neutron.ports) == [first] and moving.attach(second) == "Success"


@pytest.mark.parametrize("failure", sorted({*ON_HOSTS} - {"not-found"}))
@pytest.mark.parametrize(("step", "whose"), [("DELETE", "ours"), ("GET", "theirs"), ("PUT", "theirs")])
def test_a_detach_while_neutron_fails(moving, cloud, api, neutron, step, whose, failure):
    """The container leaves the network. The port is given back later, and a port of the user stays with the user."""
    second, (first,) = neutron.network("demo", "10.8.0.0/24"), neutron.ports
    if whose == "theirs":
        mine = users_port(neutron, second)
        assert api.post(f"/v1/containers/{moving.uuid}/network_attach?port={mine}").status == 200
        assert moving.settle("attach", mine) == "Success"
    else:
        moving.attach(second)
    neutron.failures[step, "ports/"] = FAILURES[failure][0]
    assert moving.detach(second) == "Success" and moving.gateways == ["10.7.0.1"]
    assert [each["uuid"] for each in network_ports.of_container(moving.uuid)] == [first]
    wait_for(lambda: not neutron.under_way)
    neutron.failures.clear()
    swept(cloud.networks["host-1"], neutron)
    left = {uuid: each["device_id"] for uuid, each in neutron.ports.items()}
    assert left == {first: moving.uuid} | ({mine: ""} if whose == "theirs" else {})


ENDPOINT = "e" * 64


def switch(wires):
    return wires._switches["ovs"]


def wiring(neutron, client):
    network = neutron.network("demo")
    body = {"network_id": network, "device_id": "c", "binding:host_id": "host-1"}
    port = neutron._perform("POST", "ports", "", {"port": body}, {})[1]["port"]
    return Wiring.of(port, client.network(network), client.subnets(network), primary=True)


def created(wires, wired, endpoint=ENDPOINT):
    return wires.answer("NetworkDriver.CreateEndpoint", {"EndpointID": endpoint, "Options": {WIRING: wired.to_json()}})


def test_docker_wires_a_container(wires, neutron, client):
    wired = wiring(neutron, client)
    interface = created(wires, wired)["Interface"]
    assert interface == {"Address": "10.7.0.5/24", "AddressIPv6": "", "MacAddress": wired.mac}
    plugged = ports("plug", "done")
    joined = wires.answer("NetworkDriver.Join", {"EndpointID": ENDPOINT})
    assert ports("plug", "done") == plugged + 1
    assert joined["InterfaceName"]["SrcName"] == f"zun{wired.port[:11]}" and joined["Gateway"] == "10.7.0.1"
    assert switch(wires).plugged == {wired.port: wired}
    wires.sweep(lambda ports: ports)
    assert switch(wires).plugged == {wired.port: wired}
    wires.answer("NetworkDriver.DeleteEndpoint", {"EndpointID": ENDPOINT})
    wires.answer("NetworkDriver.DeleteEndpoint", {"EndpointID": ENDPOINT})
    assert switch(wires).plugged == {}


def test_docker_was_killed(wires, neutron, client):
    """Nobody deleted the container's endpoint: the next one takes its place, and the late deletion does nothing."""
    wired, later = wiring(neutron, client), "f" * 64
    created(wires, wired)
    wires.answer("NetworkDriver.Join", {"EndpointID": ENDPOINT})
    created(wires, wired, later)
    wires.answer("NetworkDriver.Join", {"EndpointID": later})
    assert switch(wires).calls == ["plug", "unplug", "plug"]
    wires.answer("NetworkDriver.DeleteEndpoint", {"EndpointID": ENDPOINT})
    assert list(switch(wires).plugged) == [wired.port]
    assert [each.stem for each in wires._folder.iterdir()] == [later]


def ports(step, outcome):
    return REGISTRY.get_sample_value("zun_compute_port_seconds_count", {"step": step, "outcome": outcome}) or 0


def test_a_port_that_never_is_active(wires, neutron, client):
    failed = ports("plug", "failed")
    wired = wiring(neutron, client)
    neutron.ports[wired.port]["status"] = "DOWN"
    created(wires, wired)
    with pytest.raises(exceptions.PortUnusable, match=r"did not become ACTIVE within 0\.2 s"):
        wires.answer("NetworkDriver.Join", {"EndpointID": ENDPOINT})
    assert switch(wires).plugged == {}
    assert ports("plug", "failed") == failed + 1


@pytest.mark.parametrize("failure", FAILURES)
def test_a_start_when_neutron_fails(wires, neutron, client, failure):
    """Without a usable answer the container starts. After a refusal it does not, and its interface is gone."""
    wired = wiring(neutron, client)
    created(wires, wired)
    answer, status = FAILURES[failure]
    neutron.failures["GET", "ports/"] = answer
    if status == 503:
        assert wires.answer("NetworkDriver.Join", {"EndpointID": ENDPOINT})["Gateway"] == "10.7.0.1"
    else:
        with pytest.raises(exceptions.ZunError):
            wires.answer("NetworkDriver.Join", {"EndpointID": ENDPOINT})
    assert list(switch(wires).plugged) == ([wired.port] if status == 503 else [])


def test_a_restart_needs_no_neutron(wires, neutron, client):
    wired = wiring(neutron, client)
    created(wires, wired)
    neutron.stop()
    assert wires.answer("NetworkDriver.Join", {"EndpointID": ENDPOINT})["Gateway"] == "10.7.0.1"


def test_the_sweep_removes_interfaces_of_a_killed_run(wires, neutron, client):
    wired = wiring(neutron, client)
    created(wires, wired)
    wires.answer("NetworkDriver.Join", {"EndpointID": ENDPOINT})
    after = Wires(wires._folder, wires._switches, client, 0.2)
    after.sweep(lambda ports: [])
    assert switch(wires).plugged == {} and list(wires._folder.iterdir()) == []


@pytest.mark.parametrize("text", ["", "{}", "[]", "7", '{"port": 7}', '{"routes": [1]}'])
def test_a_wiring_that_is_none(wires, text):
    with pytest.raises(ValueError, match="not the wiring of a port"):
        wires.answer("NetworkDriver.CreateEndpoint", {"EndpointID": ENDPOINT, "Options": {WIRING: text}})


# Ports of virtual functions (SR-IOV).

CARD, FUNCTIONS = "0000:81:00.0", ("0000:81:10.0", "0000:81:10.2")
SPEC = '{"vendor_id": "8086", "product_id": "10ed", "physical_network": "physnet1"}'


@pytest.fixture
def sriov(database, client, wires, neutron, tmp_path):
    """A host whose second cell has a card with two virtual functions."""
    for address in FUNCTIONS:
        folder = tmp_path / "sys/bus/pci/devices" / address
        folder.mkdir(parents=True)
        (folder / "vendor").write_text("0x8086\n")
        (folder / "device").write_text("0x10ed\n")
    made = Cloud({}, devices__device_spec=[SPEC])
    made.networks["host-1"] = Driver(client, wires, root=tmp_path)
    found = [Device(address, "8086", "10ed", "020000", cell=1, type=DeviceType.VF, physical=CARD, driver="ixgbevf")
             for address in FUNCTIONS]  # fmt: skip
    made.machines["host-1"] = dataclasses.replace(machine(), devices=tuple(found))
    made.start_agent("host-1")
    yield made
    made.stop()


def direct_port(neutron, **fields):
    """A port of the user for a virtual function."""
    network = neutron.network("demo", **{"provider:physical_network": "physnet1"})
    body = {"network_id": network, "project_id": "demo", "binding:vnic_type": "direct", **fields}
    return neutron._perform("POST", "ports", "", {"port": body}, {})[1]["port"]["id"]


def with_direct_port(cloud, api, neutron, **fields):
    """A container that has its port and its function."""
    port = direct_port(neutron, **fields)
    reply = create(api, nets=[{"port": port}], cpu_policy="dedicated", cpu=2, memory=512)
    assert reply.status == 202, reply.error
    row = run(cloud, Container.get_by_uuid(CONTEXT, reply.json["uuid"]))
    return port, row


def test_a_direct_port_gets_a_near_function(sriov, api, neutron):
    """Chosen by the plan, told to Neutron, and given back with the port as it was."""
    port, row = with_direct_port(sriov, api, neutron, **{"binding:profile": {"trusted": "true"}})
    assert row["status"] == "Created", row["status_reason"]
    (given,) = row["cpuset"]["devices"]
    assert (given["name"], given["address"], given["cell"]) == (f"port:{port}", FUNCTIONS[0], 1)
    assert row["cpuset"]["cpuset_mems"] == "1"
    bound = neutron.ports[port]
    assert (bound["binding:host_id"], bound["binding:vif_type"]) == ("host-1", "hw_veb")
    assert bound["binding:profile"] == {
        "trusted": "true",
        "pci_vendor_info": "8086:10ed",
        "pci_slot": FUNCTIONS[0],
        "physical_network": "physnet1",
    }
    sriov.compute_api.delete(CONTEXT, Container.get_by_uuid(CONTEXT, row["uuid"]), force=True)
    wait_for(lambda: sriov.agents["host-1"].tracker.usage.owners == (), 30)
    assert not neutron.ports[port]["device_id"]
    assert neutron.ports[port]["binding:profile"] == {"trusted": "true"}


def test_functions_run_out(sriov, api, neutron):
    made = [with_direct_port(sriov, api, neutron) for _ in range(3)]
    assert [row["status"] for _, row in made] == ["Created", "Created", "Error"]
    assert {row["cpuset"]["devices"][0]["address"] for _, row in made[:2]} == {*FUNCTIONS}
    port, row = made[2]
    assert f"port:{port}" in row["status_reason"]


def test_a_detach_gives_the_function_back(sriov, api, neutron):
    port, row = with_direct_port(sriov, api, neutron)
    uuid = row["uuid"]
    network_ports.set_leaving(port, True)
    sriov.compute_api.network_detach(CONTEXT, Container.get_by_uuid(CONTEXT, uuid), port=port)
    wait_for(lambda: not neutron.ports[port]["device_id"], 30)
    wait_for(lambda: not containers.get(uuid)["cpuset"].get("devices"), 30)
    assert containers.get(uuid)["placement"]["devices"] == []
    assert sriov.agents["host-1"].tracker.usage.claim(uuid).devices == ()
    _, other = with_direct_port(sriov, api, neutron)
    _, another = with_direct_port(sriov, api, neutron)
    assert (other["status"], another["status"]) == ("Created", "Created")


def test_a_detach_lists_its_ports_once(sriov, api, neutron, database):
    port, row = with_direct_port(sriov, api, neutron)
    network_ports.set_leaving(port, True)
    container, listed, here = Container.get_by_uuid(CONTEXT, row["uuid"]), [], threading.get_ident()

    def note(connection, cursor, statement, *rest):
        if threading.get_ident() == here and "WHERE network_ports.container_uuid = ?" in statement:
            listed.append(statement)

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        sriov.agents["host-1"].parts.attachments.detach(CONTEXT, container, port=port)
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)
    assert not containers.get(row["uuid"])["cpuset"].get("devices")
    assert len(listed) == 1, listed


def test_a_function_with_files_cannot_be_detached(sriov, api, neutron):
    """Docker cannot take /dev/infiniband/uverbs0 from the container, so nobody else may have the function."""
    found = sriov.machines["host-1"]
    devices = tuple(dataclasses.replace(each, nodes=("/dev/infiniband/uverbs0",)) for each in found.devices)
    sriov.machines["host-1"] = dataclasses.replace(found, devices=devices)
    agent = sriov.agents["host-1"]
    agent._update_inventory()
    port, row = with_direct_port(sriov, api, neutron)
    network_ports.set_leaving(port, True)
    container = Container.get_by_uuid(CONTEXT, row["uuid"])
    context = actions.asked("network_detach", container)
    agent.parts.attachments.detach(context, container, port=port)
    (kept,) = network_ports.of_container(row["uuid"])
    assert not kept["leaving"] and neutron.ports[port]["device_id"] == row["uuid"]
    assert containers.get(row["uuid"])["cpuset"]["devices"] == row["cpuset"]["devices"]
    _, (told,) = container_actions.find(row["uuid"], context.request_id)
    assert told["result"] == "Error" and "/dev/infiniband/uverbs0" in told["traceback"]


def test_a_function_of_an_interrupted_detach(sriov, api, neutron):
    """The port is gone and the claim has its function still: the next comparison gives it back."""
    port, row = with_direct_port(sriov, api, neutron)
    network_ports.destroy(port)
    container = Container.get_by_uuid(CONTEXT, row["uuid"])
    container.addresses = {}
    container.save()
    agent = sriov.agents["host-1"]
    assert agent._networks.unsettled(CONTEXT, [Container.get_by_uuid(CONTEXT, row["uuid"])]) == {row["uuid"]}
    agent.parts.attachments.settle(CONTEXT, container)
    assert agent._networks.unsettled(CONTEXT, [Container.get_by_uuid(CONTEXT, row["uuid"])]) == set()
    assert "devices" not in containers.get(row["uuid"])["cpuset"] and not agent.tracker.usage.held_devices


@pytest.mark.parametrize(
    ("fields", "physical", "why"),
    [
        ({}, None, "has no physical network"),
        ({"binding:vnic_type": "macvtap"}, "physnet1", "of the kind 'macvtap'"),
    ],
)
def test_a_port_that_cannot_be_served(api, neutron, fields, physical, why):
    port = direct_port(neutron, **fields)
    neutron.records["networks"][neutron.ports[port]["network_id"]]["provider:physical_network"] = physical
    reply = create(api, nets=[{"port": port}])
    assert reply.status == 400 and why in reply.error["detail"]
    assert neutron.ports[port]["device_id"] == "" and containers.unplaced() == []


def test_the_policy_of_a_port_counts(api, neutron):
    """A container's policy counts for a port without one."""
    strict, loose = direct_port(neutron, numa_affinity_policy="required"), direct_port(neutron)
    reply = create(api, nets=[{"port": strict}, {"port": loose}])
    placed = containers.get(reply.json["uuid"])["placement"]["devices"]
    assert [(each["name"], each["numa_policy"]) for each in placed] == [
        (f"port:{strict}", "required"),
        (f"port:{loose}", "preferred"),
    ]


def test_a_running_container_gets_no_function(sriov, api, neutron):
    neutron.network("demo")
    uuid = create(api).json["uuid"]
    run(sriov, Container.get_by_uuid(CONTEXT, uuid))
    port = direct_port(neutron)
    reply = api.post(f"/v1/containers/{uuid}/network_attach?port={port}")
    assert reply.status == 400 and "when it is created" in reply.error["detail"]
    assert neutron.ports[port]["device_id"] == ""
