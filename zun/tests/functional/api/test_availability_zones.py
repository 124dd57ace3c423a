# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.db import aggregates, compute_nodes, services
from zun.tests.functional.api.conftest import inventory


@pytest.fixture
def zones(database):
    """Five services in three zones, one of them in none of its own."""
    for number, zone in enumerate(["south", "nova", "north", "south"]):
        services.heartbeat(f"host-{number}", "zun-compute", zone)
    services.heartbeat("host-9", "zun-compute", "nova")
    services.update("host-9", "zun-compute", {"availability_zone": None})


def found(reply):
    assert reply.status == 200, reply.json
    return [zone["availability_zone"] for zone in reply.json["availability_zones"]]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["north", "nova", "south"]),
        ("?sort_dir=desc", ["south", "nova", "north"]),
        ("?limit=2", ["north", "nova"]),
        ("?limit=3", ["north", "nova", "south"]),
        ("?marker=north", ["nova", "south"]),
        ("?marker=nobody", ["north", "nova", "south"]),
        ("?marker=nova&sort_dir=desc", ["north"]),
        ("?limit=1&marker=north", ["nova"]),
    ],
)
def test_the_list(api, zones, query, expected):
    assert found(api.get(f"/v1/availability_zones{query}")) == expected


def test_next(api, zones):
    path, pages = "/v1/availability_zones?limit=1", []
    while path:
        reply = api.get(path)
        pages.append(found(reply))
        following = reply.json["next"]
        path = following and following.removeprefix("http://zun.example:9517")
    assert pages == [["north"], ["nova"], ["south"], []]


def test_no_services(api):
    assert api.get("/v1/availability_zones/").json == {"availability_zones": [], "next": None}


@pytest.mark.parametrize(
    ("query", "slug"),
    [("limit=0", "invalid-value"), ("sort_dir=up", "invalid-value"), ("sort_key=host", "invalid-parameter-value")],
)
def test_bad_queries(api, zones, query, slug):
    assert api.get(f"/v1/availability_zones?{query}").refusal == (400, slug)


def test_zones_of_aggregates(api, zones):
    """A host that an aggregate puts in a zone is in its own no more; a zone is listed before its first host comes."""
    compute_nodes.put("host-2", inventory())
    aggregates.insert("arctic", {"availability_zone": "arctic"})
    aggregates.insert("fast", {"disk": "ssd"})
    assert found(api.get("/v1/availability_zones")) == ["arctic", "north", "nova", "south"]
    aggregates.add_host("fast", "host-2")
    assert found(api.get("/v1/availability_zones")) == ["arctic", "north", "nova", "south"]
    aggregates.add_host("arctic", "host-2")
    assert found(api.get("/v1/availability_zones?limit=2")) == ["arctic", "nova"]
    assert found(api.get("/v1/availability_zones?marker=nova")) == ["south"]
