# SPDX-License-Identifier: Apache-2.0
"""Errors name a thing by the name that the user gave, with its uuid."""

import pytest

from zun.common.subnets import Pool
from zun.db import network_ports, networks, registries

POOL = Pool("10.224.0.0/12", 24)


@pytest.fixture
def wired():
    row = {"name": "wired", "project_id": "demo", "user_id": None, "shared": False}
    return networks.insert(row, (), POOL)["uuid"]


@pytest.mark.parametrize(
    ("method", "path", "version", "said"),
    [
        pytest.param("GET", "attach", "1.40", "Container web ({web}) was created without", id="not-interactive"),
        pytest.param("POST", "rename?name=web", "1.13", "Container web ({web}) has this name already", id="same-name"),
        pytest.param("POST", "start", "1.40", "Cannot start container web ({web}) in Running state", id="wrong-state"),
        pytest.param("POST", "add_security_group?name=x", "1.14", "have no security groups", id="security-group"),
        pytest.param(
            "POST",
            "network_attach?network=wired",
            "1.40",
            "Container web ({web}) is in network wired ({wired}) already",
            id="attached-already",
        ),
        pytest.param(
            "POST",
            "network_detach?network=other",
            "1.40",
            "Container web ({web}) is not in network other (",
            id="not-attached",
        ),
    ],
)
def test_a_container_has_its_name(api, placed, host_up, wired, method, path, version, said):
    web = placed(name="web").uuid
    networks.insert({"name": "other", "project_id": "demo", "user_id": None, "shared": False}, (), POOL)
    network_ports.attach(web, {"network": wired})
    reply = api.at(version).send(method, f"/v1/containers/web/{path}")
    assert said.format(web=web, wired=wired) in reply.error["detail"]


def test_a_container_that_was_never_placed_has_its_name(api, placed):
    web = placed("Error", name="web", host=None).uuid
    assert f"Container web ({web}) is on no host" in api.post("/v1/containers/web/start").error["detail"]


def test_a_status_that_forbids_a_security_group_is_told_in_words(api, placed):
    placed("Error", name="web")
    told = api.at("1.14").post("/v1/containers/web/add_security_group?name=x").error["detail"]
    assert told.startswith("Cannot add a security group to container web (")


def test_what_is_in_use_has_its_name(api, admin_api, placed, wired):
    registry = registries.insert({"project_id": "demo", "user_id": None, "domain": "d", "name": "hub"})["uuid"]
    web = placed(name="web", registry_id=registry).uuid
    told = api.delete("/v1/registries/hub").error["detail"]
    assert told == f"Registry hub ({registry}) is used by container web ({web}). Delete the container first."
    network_ports.attach(web, {"network": wired})
    assert admin_api.delete(f"/v1/networks/{wired}").error["detail"].startswith(f"Network wired ({wired}) has 1 ")


def test_a_network_twice_has_its_name(api, wired):
    body = {"image": "demo", "nets": [{"network": "wired"}, {"network": wired}]}
    told = api.post("/v1/containers", body).error["detail"]
    assert told.startswith(f"nets: network wired ({wired}) is named more than once")
