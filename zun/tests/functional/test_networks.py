# SPDX-License-Identifier: Apache-2.0
"""Networks in a whole cloud: what hosts make of the ports of their containers."""

import functools

import pytest
import sqlalchemy as sa

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.db import container_actions as db_actions
from zun.db import containers as db_containers
from zun.db import network_ports, networks, session
from zun.tests.fixtures import wait_for
from zun.tests.functional.cloud import Cloud, machine
from zun.tests.functional.networks import network


@pytest.fixture
def host(cloud):
    return cloud.networks["one"]


def run(cloud, context, *nets, **fields):
    return cloud.run(context, nets=nets, **fields)


def addresses(container):
    row = db_containers.get(container.uuid)["addresses"]
    return {net: [each["addr"] for each in items] for net, items in (row or {}).items()}


def attach(cloud, context, container, net):
    db_actions.start(container.uuid, "network_attach", request_id=context.request_id, user_id="a", project_id="demo")
    port = network_ports.attach(container.uuid, {"network": net})["uuid"]
    cloud.compute_api.network_attach(context, container, port)
    return port


def detach(cloud, context, container, port):
    db_actions.start(container.uuid, "network_detach", request_id=context.request_id, user_id="a", project_id="demo")
    assert network_ports.set_leaving(port, True)
    cloud.compute_api.network_detach(context, container, port)


def finished(container, action):
    """The last action of this name, once it is over: its message and its steps."""

    def look():
        for row in db_actions.of_container(container.uuid):
            if row["action"] == action and row["finish_time"]:
                _, steps = db_actions.find(container.uuid, row["request_id"])
                return row["message"], [(each["event"], each["result"]) for each in steps]
        return None

    return wait_for(look)


def test_a_container_in_two_networks(cloud, context, host):
    one, two = network("one"), network("two", {"cidr": "10.9.0.0/24", "gateway": "10.9.0.1"})
    container = run(cloud, context, one, two, hostname=None)
    assert container.status == "Running", container.status_reason
    assert cloud.drivers["one"].runtime.objects[container.uuid].plug.network == one
    assert host.plugged[container.uuid] == {one: ("10.224.0.2", None), two: ("10.9.0.2", None)}
    assert addresses(container) == {one: ["10.224.0.2"], two: ["10.9.0.2"]}
    subnet = networks.find_for("demo", one)["subnets"][0]["uuid"]
    (port, _) = network_ports.of_container(container.uuid)
    assert container.addresses[one] == [
        {
            "addr": "10.224.0.2",
            "version": 4,
            "port": port["uuid"],
            "subnet_id": subnet,
            "preserve_on_delete": False,
        }
    ]
    assert container.hostname == container.container_id[:12]


def test_a_network_is_on_a_host_while_a_container_of_it_is(cloud, context, host):
    shared, own = network("shared"), network("own")
    first, second = run(cloud, context, shared, own), run(cloud, context, shared)
    assert host.present() == {shared, own}
    for container, left in ((first, {shared}), (second, set())):
        cloud.compute_api.delete(context, container, force=True)
        cloud.gone(container)
        wait_for(lambda left=left: host.present() == left)
    networks.destroy(shared)
    networks.destroy(own)


def test_a_container_of_no_network_learns_its_name(cloud, context, host):
    created = run(cloud, context, request={"run": False})
    assert (created.status, created.hostname, created.addresses) == ("Created", created.container_id[:12], {})
    assert host.present() == set()


@pytest.mark.parametrize("operation", ["prepare", "plug"])
def test_a_network_that_cannot_be_here(cloud, context, host, operation):
    net = network()
    host.failures[operation] = exceptions.Conflict("another network has its addresses")
    container = run(cloud, context, net)
    assert (container.status, container.host, container.addresses) == ("Error", None, None)
    assert "another network has its addresses" in container.status_reason
    assert cloud.drivers["one"].runtime.objects == {}
    # Its address stays its own until it is deleted: somebody may have chosen it.
    assert [port["ipv4"] for port in network_ports.of_container(container.uuid)] == ["10.224.0.2"]
    assert run(cloud, context, net).status == "Running"


def test_attach_and_detach(cloud, context, host):
    one, two = network("one"), network("two")
    container = run(cloud, context, one)
    port = attach(cloud, context, container, two)
    assert finished(container, "network_attach") == (None, [("compute__do_network_attach", "Success")])
    assert addresses(container) == {one: ["10.224.0.2"], two: ["10.224.1.2"]}
    assert host.plugged[container.uuid].keys() == {one, two}
    again = RequestContext(user_id="alice", project_id="demo", roles=["member"])
    detach(cloud, again, container, port)
    assert finished(container, "network_detach") == (None, [("compute__do_network_detach", "Success")])
    assert addresses(container) == {one: ["10.224.0.2"]} and host.plugged[container.uuid].keys() == {one}
    assert [each["network_uuid"] for each in network_ports.of_container(container.uuid)] == [one]
    assert host.present() == {one}
    assert db_containers.get(container.uuid)["task_state"] is None


@pytest.mark.parametrize("operation", ["prepare", "plug"])
def test_an_attachment_that_fails_leaves_nothing(cloud, context, host, operation):
    container, net = run(cloud, context), network()
    host.failures[operation] = exceptions.DockerError(error="no")
    attach(cloud, context, container, net)
    message, steps = finished(container, "network_attach")
    assert (message, steps) == ("Error", [("compute__do_network_attach", "Error")])
    wait_for(lambda: not network_ports.of_container(container.uuid))
    wait_for(lambda: host.present() == set())
    row = db_containers.get(container.uuid)
    assert (row["status"], row["addresses"] or {}) == ("Running", {})


def test_a_detachment_that_fails_changes_nothing(cloud, context, host):
    net = network()
    container = run(cloud, context, net)
    (port,) = network_ports.of_container(container.uuid)
    host.failures["plug"] = exceptions.DockerError(error="no")
    detach(cloud, context, container, port["uuid"])
    assert finished(container, "network_detach")[0] == "Error"
    wait_for(lambda: db_containers.get(container.uuid)["task_state"] is None)
    assert [each["leaving"] for each in network_ports.of_container(container.uuid)] == [False]
    assert addresses(container) == {net: ["10.224.0.2"]} and host.plugged[container.uuid].keys() == {net}


def test_a_host_that_comes_back_does_what_it_missed(cloud, context, host):
    """Messages of the time when it was down are lost; what was accepted is in the database."""
    one, two = network("one"), network("two")
    container = run(cloud, context, one)
    (port,) = network_ports.of_container(container.uuid)
    cloud.stop_agent("one")
    network_ports.set_leaving(port["uuid"], True)
    network_ports.attach(container.uuid, {"network": two})
    host.bridges.add("left-behind")
    cloud.start_agent("one")
    wait_for(lambda: addresses(container) == {two: ["10.224.1.2"]})
    wait_for(lambda: host.present() == {two})
    assert host.plugged[container.uuid] == {two: ("10.224.1.2", None)}


@pytest.mark.parametrize("task_state", ["network_attaching", "network_detaching"])
def test_a_host_that_was_killed_at_it_finishes_it(cloud, context, host, task_state):
    net = network()
    container = run(cloud, context)
    cloud.stop_agent("one")
    network_ports.attach(container.uuid, {"network": net})
    db_containers.update(container.uuid, {"task_state": task_state})
    cloud.start_agent("one")
    wait_for(lambda: db_containers.get(container.uuid)["task_state"] is None)
    assert addresses(container) == {net: ["10.224.0.2"]} and host.plugged[container.uuid].keys() == {net}


def test_a_start_brings_back_what_somebody_removed(cloud, context, host):
    net = network()
    container = run(cloud, context, net)
    cloud.compute_api.stop(context, container, timeout=0)
    wait_for(lambda: db_containers.get(container.uuid)["status"] == "Stopped")
    for begin in (cloud.compute_api.start, cloud.compute_api.reboot):
        host.bridges.clear()
        if begin == cloud.compute_api.reboot:
            cloud.accept_reboot(container)
        begin(context, container)
        wait_for(lambda: host.present() == {net})
        wait_for(functools.partial(settled, container, "Running"))
    assert addresses(container) == {net: ["10.224.0.2"]}


def test_without_a_network_on_the_default_one(cloud, context, host):
    assert host.isolated
    container, named = run(cloud, context, name="web"), run(cloud, context, network())
    plug = cloud.drivers["one"].runtime.objects[container.uuid].plug
    assert (plug.network, plug.by_name) == ("default-demo", True)
    assert cloud.drivers["one"].runtime.objects[named.uuid].plug.by_name is False
    assert host.defaults() == {"demo"}


def test_default_network_goes_with_its_last_container(cloud, context, host):
    one, two = run(cloud, context), run(cloud, context)
    cloud.compute_api.delete(context, one, force=True)
    cloud.gone(one)
    cloud.agents["one"]._networks.sweep(context)
    assert host.defaults() == {"demo"}
    cloud.compute_api.delete(context, two, force=True)
    cloud.gone(two)
    host.failures["remove_default"] = exceptions.Conflict("has active endpoints")
    cloud.agents["one"]._networks.sweep(context)
    assert host.defaults() == {"demo"}
    cloud.compared("one", lambda: host.defaults() == set())


def test_no_default_network_left_is_an_error_with_reason(cloud, context, host):
    host.failures["default"] = exceptions.Conflict("Every subnet is in use")
    container = run(cloud, context)
    assert (container.status, container.status_reason) == ("Error", "Every subnet is in use")


def test_start_without_its_default_network_says_why(cloud, context, host):
    container = run(cloud, context, request={"run": False})
    host.failures["rejoin"] = exceptions.DockerError("no bridge")
    cloud.compute_api.start(context, container)
    wait_for(lambda: settled(container, "Error"))
    assert "no bridge" in db_containers.get(container.uuid)["status_reason"]


def test_docker0_makes_no_default_network(cloud, context, host):
    host.own_default = False
    container = run(cloud, context)
    assert cloud.drivers["one"].runtime.objects[container.uuid].plug is None and host.defaults() == set()


def test_missing_firewall_is_told_once(cloud, context, host, caplog):
    networks = cloud.agents["one"]._networks
    for reason in ("no iptables", "no iptables", None, "no iptables"):
        if reason:
            host.failures["isolate"] = exceptions.Unavailable(reason)
        networks.isolate()
    assert [each.message for each in caplog.records].count("no iptables") == 2


@pytest.mark.parametrize(("ran", "status"), [(True, "Running"), (False, "Created")])
def test_a_reboot_without_its_network_is_over_and_says_why(cloud, context, host, ran, status):
    container = run(cloud, context, network(), request={"run": ran})
    host.failures["prepare"] = exceptions.DockerError("no bridge")
    cloud.accept_reboot(container)
    cloud.compute_api.reboot(context, container)
    wait_for(lambda: settled(container, status))
    assert "no bridge" in db_containers.get(container.uuid)["status_reason"]


def settled(container, status):
    row = db_containers.get(container.uuid)
    return row["status"] == status and row["task_state"] is None


def test_a_rebuilt_container_keeps_its_addresses_and_ports(cloud, context, host):
    net = network()
    container = run(cloud, context, net, exposed_ports={"80/tcp": {}})
    before = db_containers.get(container.uuid)
    db_containers.update(container.uuid, {"status": "Rebuilding"})
    cloud.compute_api.rebuild(context, container)
    after = wait_for(lambda: settled(container, "Running") and db_containers.get(container.uuid))
    assert after["container_id"] != before["container_id"]
    for name in ("addresses", "exposed_ports", "hostname"):
        assert after[name] == before[name], name


def test_ports_are_published(cloud, context, host):
    ports = {"80/tcp": {}, "53/udp": {}}
    containers = [run(cloud, context, exposed_ports=ports) for _ in range(3)]
    published = [where for each in containers for where in each.exposed_ports.values()]
    assert {where["host_ip"] for where in published} == {"127.0.0.1"}
    numbers = [where["host_port"] for where in published]
    assert len(set(numbers)) == 6 and all(30000 <= number <= 32767 for number in numbers)


def test_ports_of_the_host_that_something_uses_are_left_alone(database, context):
    with Cloud({"one": machine(cells=1)}, compute__audit_interval=0, network__published_ports="30000-30002") as cloud:
        cloud.networks["one"].busy = {30001}
        first, second, third = (run(cloud, context, exposed_ports={"80/tcp": {}}) for _ in range(3))
        assert {each.exposed_ports["80/tcp"]["host_port"] for each in (first, second)} == {30000, 30002}
        assert third.status == "Error" and "published_ports" in third.status_reason
        cloud.compute_api.delete(context, first, force=True)
        cloud.gone(first)
        assert run(cloud, context, exposed_ports={"80/tcp": {}}).exposed_ports == first.exposed_ports


def test_two_hosts_make_the_same_network_when_they_need_it(database, context):
    with Cloud({"one": machine(cells=1), "two": machine(cells=1)}, compute__audit_interval=0) as cloud:
        net = network()
        here, there = (run(cloud, context, net, request={"run": True, "host": host}) for host in ("one", "two"))
        assert (here.host, there.host) == ("one", "two")
        assert (addresses(here), addresses(there)) == ({net: ["10.224.0.2"]}, {net: ["10.224.0.3"]})
        assert cloud.networks["one"].present() == cloud.networks["two"].present() == {net}
        cloud.compute_api.delete(context, here, force=True)
        cloud.gone(here)
        wait_for(lambda: cloud.networks["one"].present() == set())
        assert cloud.networks["two"].present() == {net}


def by_hand(table, column, value, uuid):
    with session.writer() as connection:
        change = sa.text(f"UPDATE {table} SET {column} = :value WHERE uuid = :uuid")
        connection.execute(change, {"value": value, "uuid": uuid})


@pytest.mark.parametrize("where", ["5", "null", "[]", '{"host_port": [30000]}'])
def test_ports_that_somebody_wrote_by_hand_are_nobody_s(cloud, context, where):
    damaged = run(cloud, context, exposed_ports={"80/tcp": {}})
    by_hand("containers", "exposed_ports", f'{{"80/tcp": {where}}}', damaged.uuid)
    other = run(cloud, context, exposed_ports={"80/tcp": {}})
    assert other.status == "Running" and other.exposed_ports["80/tcp"]["host_port"]


@pytest.mark.parametrize("subnets", ["5", "[5]", "[{}]", '[{"cidr": "x"}]'])
def test_malformed_subnets_block_no_new_network_or_comparison(
    cloud, context, caplog, subnets
):
    damaged, whole = network("damaged"), network("whole")
    bad, good = run(cloud, context, damaged), run(cloud, context, whole)
    by_hand("networks", "subnets", subnets, damaged)
    if subnets != "5":
        assert network("another") and f"networks.subnets of {damaged} in the database cannot be read" in caplog.text
    right = db_containers.get(good.uuid)["addresses"]
    db_containers.update(good.uuid, {"addresses": {}})
    cloud.agents["one"]._compare()
    wait_for(lambda: db_containers.get(good.uuid)["addresses"] == right)
    if subnets != "5":
        assert f"{bad.uuid} is not compared with its networks: networks.subnets of {damaged} in the" in caplog.text
