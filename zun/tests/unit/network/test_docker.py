# SPDX-License-Identifier: Apache-2.0
"""Decisions of the network driver for Docker."""

import pathlib
from typing import Any

import pytest

from zun.common.subnets import Pool
from zun.container.docker.client import Engine, Settings
from zun.network.default_networks import routed
from zun.network.docker import DockerNetworks
from zun.tests.unit.container.daemon import serving

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
