# SPDX-License-Identifier: Apache-2.0
"""Decisions of the network driver for Docker."""

import pathlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from zun.common import exceptions
from zun.common.subnets import Pool
from zun.container.docker.client import Engine, Settings
from zun.network import bridges
from zun.network.default_networks import routed
from zun.network.docker import DockerNetworks, bridge_name
from zun.tests.unit.container.daemon import Daemon, serving

POOL = Pool("10.240.0.0/16", 24, "default_network")


def network(driver: str | None, *blocks: str, **fields: Any) -> dict[str, Any]:
    return {"IPAM": {"Driver": driver, "Config": [{"Subnet": each} for each in blocks]}, **fields}


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        pytest.param(network("default", "10.240.0.0/24", "fd00::/64"), {"10.240.0.0/24", "fd00::/64"}, id="bridge"),
        pytest.param(network(None, "10.240.0.0/24"), {"10.240.0.0/24"}, id="no-driver"),
        pytest.param(network("theirs", "10.240.0.0/16"), {"10.240.0.0/16"}, id="driver-of-somebody"),
        pytest.param(network("null", "0.0.0.0/0"), set(), id="null"),
        pytest.param(network("Null", "10.240.0.0/16"), set(), id="null-in-capitals"),
        pytest.param(network("default", "0.0.0.0/0", "::/0"), set(), id="everything"),
        pytest.param(network("default", "10.240.0.0/16", ConfigOnly=True), set(), id="template"),
        pytest.param(network("default", "10.240.0.7/24"), {"10.240.0.0/24"}, id="host-bits"),
        pytest.param(network("theirs", "", "no subnet", "10.240.1.0/24"), {"10.240.1.0/24"}, id="other-text"),
        pytest.param({"IPAM": None}, set(), id="no-ipam"),
        pytest.param({"IPAM": {"Driver": "default", "Config": None}}, set(), id="no-config"),
        pytest.param({"IPAM": {"Driver": "default", "Config": [{}, None, {"Subnet": None}]}}, set(), id="no-subnet"),
        pytest.param({}, set(), id="nothing"),
    ],
)
def test_subnets_that_docker_gives_addresses_of(described: dict[str, Any], expected: set[str]) -> None:
    assert routed(described) == expected


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([network("null", "0.0.0.0/0"), network("default", "10.0.0.0/8", ConfigOnly=True)], "10.240.0.0/24"),
        ([network("default", "10.240.0.9/24"), network("default", "10.240.1.0/25")], "10.240.2.0/24"),
    ],
)
def test_default_network_beside_other_networks(
    tmp_path: pathlib.Path, others: list[dict[str, Any]], expected: str
) -> None:
    with serving(tmp_path / "docker.sock") as daemon:
        networks = DockerNetworks(Engine(Settings(daemon.url)), POOL)
        name = networks._default_name("demo")
        daemon.answers = {f"/networks/{name}": (404, {"message": "not found"}), "/networks": (200, others)}
        networks.default("demo")
        assert [each["Subnet"] for each in daemon.bodies[-1]["IPAM"]["Config"]] == [expected]


GONE = (404, {"message": "not found"})
SAME_BRIDGE = "cannot create network 1f (zun-1): conflicts with network 2e (zun-1): networks have same bridge name"
#: Texts of Docker 20.10 and 28, and of Podman 4 and 5, for a network that another process is making.
REFUSALS = {
    "bridge": (403, SAME_BRIDGE),
    "name": (409, "network with name zun-default-1 already exists"),
    "podman-name": (500, "network name zun-default-1 already used: network already exists"),
    "podman-bridge": (500, "bridge name zun-1 already in use"),
    "subnet": (403, "Pool overlaps with other one on this address space"),
    "new-subnet": (400, "invalid pool request: Pool overlaps with other one on this address space"),
    "podman-subnet": (500, "subnet 10.240.0.0/24 is already used on the host or by another config"),
}
PORT: Any = SimpleNamespace(
    network_uuid="n", network_name="net", project_id="demo", subnets=[{"cidr": "10.7.0.0/24", "gateway": "10.7.0.1"}]
)


def default(networks: DockerNetworks) -> str:
    networks.default("demo")
    return networks._default_name("demo")


def of_the_api(networks: DockerNetworks) -> str:
    networks.ensure(PORT)
    return bridge_name("n")


def empty(networks: DockerNetworks) -> str:
    networks._create_empty("zun-old")
    return "zun-old"


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridges, "LOOK_AGAIN_SECONDS", (0.0, 0.0, 0.0))


@pytest.fixture
def daemon(tmp_path: pathlib.Path) -> Iterator[Daemon]:
    with serving(tmp_path / "docker.sock") as made:
        yield made


@pytest.mark.usefixtures("no_pause")
@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("make", [default, of_the_api, empty])
def test_a_network_that_another_process_makes_is_used(
    daemon: Daemon, make: Callable[[DockerNetworks], str], refusal: str
) -> None:
    """Docker refuses the network, does not list it at the first look, and lists it later."""
    status, text = REFUSALS[refusal]
    networks = DockerNetworks(Engine(Settings(daemon.url)), POOL)
    refused = (status, {"message": text})
    daemon.answers = {"/networks/create": [refused, refused]}
    for name in (networks._default_name("demo"), bridge_name("n"), "zun-old"):
        daemon.answers[f"/networks/{name}"] = [GONE, GONE]
    name = make(networks)
    assert networks._is_here(name)
    assert daemon.bodies == []


@pytest.mark.usefixtures("no_pause")
@pytest.mark.parametrize("make", [default, of_the_api, empty])
def test_a_network_is_made_if_the_other_process_fails(daemon: Daemon, make: Callable[[DockerNetworks], str]) -> None:
    networks = DockerNetworks(Engine(Settings(daemon.url)), POOL)
    daemon.answers = {"/networks/create": [(403, {"message": SAME_BRIDGE})]}
    for name in (networks._default_name("demo"), bridge_name("n"), "zun-old"):
        daemon.answers[f"/networks/{name}"] = GONE
    assert [make(networks)] == [each["Name"] for each in daemon.bodies]


@pytest.mark.usefixtures("no_pause")
@pytest.mark.parametrize("make", [default, of_the_api])
def test_a_bridge_of_a_strange_network_is_a_conflict(daemon: Daemon, make: Callable[[DockerNetworks], str]) -> None:
    networks = DockerNetworks(Engine(Settings(daemon.url)), POOL)
    daemon.answers = {"/networks/create": (403, {"message": SAME_BRIDGE})}
    for name in (networks._default_name("demo"), bridge_name("n")):
        daemon.answers[f"/networks/{name}"] = GONE
    with pytest.raises(exceptions.Conflict, match=r"same bridge name.*bridge zun-[0-9a-f]{11} belongs.*network ls"):
        make(networks)
    assert daemon.asked.count("/v1.43/networks/create") == 4


@pytest.mark.usefixtures("no_pause")
def test_last_subnet_of_the_pool_is_being_taken(daemon: Daemon) -> None:
    """Another process makes the same network with the only free subnet, and Docker does not list this network yet."""
    networks = DockerNetworks(Engine(Settings(daemon.url)), Pool("10.240.0.0/24", 24, "default_network"))
    daemon.answers = {
        "/networks/create": [(403, {"message": REFUSALS["subnet"][1]})],
        f"/networks/{networks._default_name('demo')}": [GONE] * 5,
    }
    networks.default("demo")
    assert daemon.bodies == []


@pytest.mark.usefixtures("no_pause")
def test_other_failures_of_docker_are_told_at_once(daemon: Daemon) -> None:
    networks = DockerNetworks(Engine(Settings(daemon.url)), POOL)
    name = networks._default_name("demo")
    daemon.answers = {"/networks/create": (500, {"message": "no iptables"}), f"/networks/{name}": GONE}
    with pytest.raises(exceptions.DockerError, match="no iptables"):
        networks.default("demo")
    assert daemon.asked.count("/v1.43/networks/create") == 1
