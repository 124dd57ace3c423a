# SPDX-License-Identifier: Apache-2.0
"""The network driver on a real daemon: what only that can show."""

import socket
import uuid
from dataclasses import replace

import docker
import pytest

from zun.common import exceptions
from zun.container.docker import DockerDriver
from zun.container.docker.client import Engine, Settings
from zun.network.docker import DockerNetworks
from zun.tests.fixtures import wait_for
from zun.tests.integration.container.own_daemon import own_daemon
from zun.tests.integration.network_samples import Container, Port
from zun.tests.unit.container.samples import Sample

__all__ = ["own_daemon"]

pytestmark = pytest.mark.docker


@pytest.fixture
def driver(docker_url, engine):
    """Makes drivers of agents; what they made is removed."""
    name, made = f"test-{uuid.uuid4().hex[:8]}", []

    def make(agent="one"):
        made.append(DockerNetworks(Engine(Settings(docker_url, f"{name}-{agent}"))))
        return made[-1]

    yield make
    for each in made:
        for network in each.present():
            each.remove(network)


@pytest.fixture
def container(engine):
    """A container that runs in no network that anybody chose."""
    made = Container(str(uuid.uuid4()))
    name = f"zun-{made.uuid}"
    engine.create_container("zun-demo", ["sleep", "1000"], name=name)
    engine.start(name)
    yield made
    engine.remove_container(name, force=True)


def endpoints(engine, container):
    found = engine.inspect_container(f"zun-{container.uuid}")["NetworkSettings"]["Networks"]
    return {name: endpoint["IPAddress"] for name, endpoint in found.items() if name != "bridge"}


def test_plugged_as_the_ports_say(driver, engine, container):
    networks, first = driver(), Port()
    second = second_of(first)
    plug = networks.prepare(first)
    assert (plug.network, plug.ipv4, networks.prepare(first)) == (f"zun-{first.network_uuid}", first.ipv4, plug)
    networks.prepare(second)
    assert networks.present() == {first.network_uuid, second.network_uuid}
    in_first, in_second = ({f"zun-{each.network_uuid}": each.ipv4} for each in (first, second))
    for ports, expected in (
        ([first, second], in_first | in_second),
        ([first, second], in_first | in_second),
        ([second], in_second),
        ([replace(second, ipv4="10.218.2.10")], {f"zun-{second.network_uuid}": "10.218.2.10"}),
        ([], {}),
        ([first], in_first),
    ):
        networks.plug(container, ports)
        assert endpoints(engine, container) == expected
    with pytest.raises(exceptions.Conflict, match=first.network_uuid):
        networks.remove(first.network_uuid)
    networks.plug(container, [])
    for _ in range(2):
        networks.remove(first.network_uuid)
    assert networks.present() == {second.network_uuid}
    # Docker's own network, where it was from the beginning, is not ours to take.
    assert "bridge" in engine.inspect_container(f"zun-{container.uuid}")["NetworkSettings"]["Networks"]


def test_a_container_that_is_not_there(driver):
    with pytest.raises(exceptions.ContainerVanished):
        driver().plug(Container(str(uuid.uuid4())), [])


SECOND = ({"uuid": "t", "cidr": "10.218.2.0/24", "gateway": "10.218.2.1"},)


def second_of(first, **fields):
    return replace(first, network_uuid=str(uuid.uuid4()), ipv4="10.218.2.9", subnets=SECOND, **fields)


def inside(engine, container):
    """The container's IPv4 addresses as its kernel has them, without loopback."""
    command = engine.exec_create(f"zun-{container.uuid}", ["ip", "-4", "-o", "addr"])["Id"]
    words = engine.exec_start(command).decode().split()
    return {word.partition("/")[0] for word in words if "/" in word and word.startswith("10.218.")}


@pytest.fixture
def created(docker_url, engine):
    """Makes containers as the product does, on a plug; gives their driver and them."""
    made = []

    def make(url=docker_url, **fields):
        driver = DockerDriver(Settings(url, f"test-{uuid.uuid4().hex[:8]}"))
        made.append((driver, Sample(**fields)))
        return made[-1]

    yield make
    for driver, container in made:
        driver.delete(container, force=True)


def test_start_after_leaving_its_first_network(driver, engine, created):
    networks, first = driver(), Port()
    second = second_of(first)
    runtime, container = created()
    networks.prepare(second)
    runtime.create(container, cpuset_cpus="", cpuset_mems="", plug=networks.prepare(first))
    networks.plug(container, [first, second])
    runtime.start(container)
    assert inside(engine, container) == {first.ipv4, second.ipv4}
    networks.plug(container, [second])
    runtime.stop(container, 0)
    networks.remove(first.network_uuid)
    runtime.start(container)
    assert inside(engine, container) == {second.ipv4}
    networks.prepare(first)
    networks.plug(container, [second, first])
    runtime.reboot(container, 0)
    assert inside(engine, container) == {first.ipv4, second.ipv4}


def test_half_made_object_is_connected_when_adopted(driver, engine, created):
    networks, port = driver(), Port()
    runtime, container = created()
    runtime.create(container, cpuset_cpus="", cpuset_mems="", plug=networks.default("demo"))
    engine.disconnect_container_from_network(f"zun-{container.uuid}", "bridge")
    engine.connect_container_to_network(f"zun-{container.uuid}", "none")  # killed before it was connected
    for _ in range(2):
        runtime.create(container, cpuset_cpus="", cpuset_mems="", plug=networks.prepare(port))
    runtime.start(container)
    assert inside(engine, container) == {port.ipv4}


def of_earlier_release(engine, container, network):
    """Create the object as releases did that named the first network in the object's NetworkMode."""
    engine.create_container(
        "zun-demo", ["sleep", "1000"], name=f"zun-{container.uuid}", labels={"zun.uuid": container.uuid},
        host_config=engine.create_host_config(network_mode=network),
    )  # fmt: skip


def test_object_of_an_earlier_release_leaves_its_network(driver, engine, request):
    networks, first, container = driver(), Port(), Container(str(uuid.uuid4()))
    name, second = f"zun-{container.uuid}", second_of(first)
    request.addfinalizer(lambda: engine.remove_container(name, force=True))
    networks.prepare(second)
    of_earlier_release(engine, container, networks.prepare(first).network)
    for ports in ([first, second], [second]):
        networks.plug(container, ports)
    for _ in range(2):
        networks.remove(first.network_uuid)
    engine.start(name)
    assert inside(engine, container) == {second.ipv4}
    networks.prepare(Port())  # its subnet is free for others
    engine.stop(name, 0)
    engine.remove_network(f"zun-{first.network_uuid}")  # as 'docker network prune'
    assert first.network_uuid in networks.present()
    networks.rejoin(container, "demo")
    engine.start(name)
    assert inside(engine, container) == {second.ipv4}


def test_object_of_an_earlier_release_returns_to_its_network(driver, engine):
    networks, first, container = driver(), Port(), Container(str(uuid.uuid4()))
    name = f"zun-{container.uuid}"
    of_earlier_release(engine, container, networks.prepare(first).network)
    try:
        networks.plug(container, [])
        networks.remove(first.network_uuid)
        engine.start(name)
        assert inside(engine, container) == set()
        networks.ensure(first)
        networks.plug(container, [first])
        engine.restart(name, 0)
        assert inside(engine, container) == {first.ipv4}
    finally:
        engine.remove_container(name, force=True)
    networks.remove(first.network_uuid)
    assert networks.present() == set()


def test_all_networks_are_back_after_a_restart_of_the_daemon(own_daemon, created):
    networks, first = DockerNetworks(Engine(Settings(own_daemon.url, "host"))), Port()
    second = second_of(first)
    runtime, container = created(own_daemon.url, restart_policy={"Name": "always"})
    networks.prepare(second)
    plug = replace(networks.prepare(first), by_name=True)
    runtime.create(container, cpuset_cpus="", cpuset_mems="", plug=plug)
    networks.plug(container, [first, second])
    runtime.start(container)
    own_daemon.stop()
    own_daemon.start()
    with docker.APIClient(own_daemon.url, version="auto") as client:
        wait_for(lambda: client.inspect_container(f"zun-{container.uuid}")["State"]["Running"], 60)
        assert inside(client, container) == {first.ipv4, second.ipv4}
        endpoints = client.inspect_container(f"zun-{container.uuid}")["NetworkSettings"]["Networks"]
        assert "sample" in endpoints[plug.network]["Aliases"]


def test_two_agents_on_one_daemon(driver, engine, container):
    one, two, port = driver("one"), driver("two"), Port()
    one.prepare(port)
    two.prepare(port)
    two.plug(container, [port])
    assert endpoints(engine, container) == {f"zun-{port.network_uuid}": port.ipv4}
    assert (one.present(), two.present()) == ({port.network_uuid}, set())
    two.plug(container, [])


def test_a_subnet_that_docker_uses_for_something_else(driver):
    networks, port = driver(), Port()
    networks.prepare(port)
    with pytest.raises(exceptions.Conflict, match=r"10\.218\.1\.0/24.*another subnet"):
        networks.prepare(Port())


def test_port_of_sctp_is_tried_as_sctp(driver):
    """Many kernels load the module at the first socket; this test knows the right answer of those without it, too."""
    try:
        taken = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_SCTP)
    except OSError:
        with pytest.raises(exceptions.Conflict, match=r"has no SCTP.*modprobe sctp"):
            driver().is_free("127.0.0.1", 38412, "sctp")
        return
    with taken:
        taken.bind(("127.0.0.1", 0))
        number = taken.getsockname()[1]
        assert not driver().is_free("127.0.0.1", number, "sctp")
    assert driver().is_free("127.0.0.1", number, "sctp")


@pytest.mark.parametrize(("kind", "protocol"), [(socket.SOCK_STREAM, "tcp"), (socket.SOCK_DGRAM, "udp")])
def test_ports_that_are_free(driver, kind, protocol):
    networks = driver()
    with socket.socket(socket.AF_INET, kind) as taken:
        taken.bind(("127.0.0.1", 0))
        if protocol == "tcp":
            taken.listen()
        number = taken.getsockname()[1]
        assert not networks.is_free("127.0.0.1", number, protocol)
    assert networks.is_free("127.0.0.1", number, protocol)
    assert not networks.is_free("203.0.113.9", number, protocol), "an address that this host has not"


@pytest.mark.parametrize("labels", [{}, {"zun.host": "another"}, {"zun.empty": "true"}], ids=["none", "host", "empty"])
def test_a_network_that_somebody_else_made_stays(driver, engine, labels):
    networks, port = driver(), Port()
    name = f"zun-{port.network_uuid}"
    made = engine.create_network(name, labels=labels)["Id"]
    try:
        networks.remove(port.network_uuid)
        networks.ensure(port)
        assert engine.inspect_network(name)["Id"] == made
    finally:
        engine.remove_network(made)
    networks.ensure(port)
    networks.remove(port.network_uuid)
    assert not engine.networks([name])
