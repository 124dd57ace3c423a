# SPDX-License-Identifier: Apache-2.0
"""The network driver on a real daemon: what only that can show."""

import socket
import uuid
from dataclasses import replace

import pytest

from zun.common import exceptions
from zun.container.docker.client import Engine, Settings
from zun.network.docker import DockerNetworks
from zun.tests.integration.network_samples import Container, Port

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
    second = replace(first, network_uuid=str(uuid.uuid4()), ipv4="10.218.2.9", subnets=(
        {"uuid": "t", "cidr": "10.218.2.0/24", "gateway": "10.218.2.1"},
    ))  # fmt: skip
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
