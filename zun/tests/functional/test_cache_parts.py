# SPDX-License-Identifier: Apache-2.0
"""Parts of L3 caches and memory bandwidth, from the request to the claim, on hosts whose kernels divide them."""

from dataclasses import replace

import pytest

from zun.tests.fixtures import wait_for
from zun.tests.functional.cloud import Cloud, machine
from zun.tests.functional.over_api import OPTIONS, PAIR, administrator_of, created
from zun.topology import CpuSet
from zun.topology.cache_control import CacheControl

CACHES = CacheControl((CpuSet("0-3"), CpuSet("4-7")), 9, 1536, 2, 80, 10, 4)


@pytest.fixture
def cloud(database):
    hosts = {"one": replace(machine(), cache_control=CACHES), "plain": machine()}
    with Cloud(hosts, **OPTIONS) as cloud:
        yield cloud


@pytest.fixture
def api(cloud):
    return administrator_of(cloud)


def left(api):
    caches = api.get("/v1/hosts/one/topology").json["caches"]
    assert all((each["ways"], each["way_kib"], each["bandwidth"]) == (9, 1536, 80) for each in caches)
    return [(each["cpus"], each["ways_left"], each["bandwidth_left"]) for each in caches]


def test_part_is_claimed_of_each_cache_and_comes_back(api):
    assert left(api) == [("0-3", 9, 80), ("4-7", 9, 80)] and api.get("/v1/hosts/plain/topology").json["caches"] == []
    first = created(api, cache_ways=5, memory_bandwidth=25)
    assert (first["host"], first["cache_ways"], first["cache_mib"], first["memory_bandwidth"]) == ("one", 5, None, 25)
    assert CpuSet(first["cpuset_cpus"]) <= CpuSet("0-3") and left(api) == [("0-3", 4, 50), ("4-7", 9, 80)]
    second = created(api, cache_mib=7)  # 5 ways: not beside the first, though it has two free CPUs
    assert CpuSet(second["cpuset_cpus"]) <= CpuSet("4-7") and left(api) == [("0-3", 4, 50), ("4-7", 4, 80)]
    both = created(api, numa_nodes=2, cache_ways=1)  # the processor gives no less than two
    assert both["status"] == "Running" and left(api) == [("0-3", 2, 50), ("4-7", 2, 80)]
    for each in (first, second, both):
        assert api.delete(f"/v1/containers/{each['uuid']}?force=true").status == 204
    wait_for(lambda: left(api) == [("0-3", 9, 80), ("4-7", 9, 80)])


def test_refusal_names_the_part_that_would_fit(api):
    created(api, cache_ways=5)
    created(api, cache_ways=6)
    refused = created(api, cache_ways=5)
    assert refused["status"] == "Error"
    assert "A request for 2 CPUs and 64 MiB with 4 ways of each L3 cache would fit now." in refused["status_reason"]
    found = api.get(f"/v1/containers/{refused['uuid']}/explain").json
    assert found["codes"] == {"cache": 2}
    assert {"dimension": "cache", "change": {"cache_ways": 4}} in found["changes"]
    reasons = {each["host"]: each["reason"] for each in found["details"]}
    assert "no L3 with the CPUs and memory has 5 ways left: most is left of that of CPUs 0-3, 4 ways" in reasons["one"]
    assert "gives no parts of its L3 caches" in reasons["plain"]


def test_capacity_counts_parts_and_the_containers_that_the_processor_can_tell_apart(api):
    def fits(**fields):
        body = {name: value for name, value in PAIR.items() if name != "image"}
        return api.post("/v1/placement/capacity", {**body, **fields}).json["total"]

    assert (fits(), fits(cpu=1), fits(cache_ways=5), fits(cpu=1, cache_ways=2)) == (8, 16, 2, 4)
    assert (fits(memory_bandwidth=40), fits(memory_bandwidth=41), fits(cache_ways=10)) == (4, 2, 0)


def test_resized_container_has_its_part_of_the_cache_of_its_new_cpus(api):
    container = created(api, cache_ways=3)
    changed = api.send("PATCH", f"/v1/containers/{container['uuid']}", {"cpu": 4})
    assert changed.status == 200 and left(api) == [("0-3", 6, 80), ("4-7", 9, 80)]
    changed = api.send("PATCH", f"/v1/containers/{container['uuid']}", {"cpu_policy": "shared"})
    assert changed.status == 200, changed.body
    assert left(api) == [("0-3", 9, 80), ("4-7", 9, 80)]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"cache_ways": 1, "cache_mib": 1}, "cache_mib"),
        ({"cpu_policy": "shared", "cache_ways": 1}, "cache_ways"),
        ({"memory_bandwidth": 101}, "memory_bandwidth"),
        ({"cache_ways": 0}, "cache_ways"),
        ({"cache_mib": "some"}, "cache_mib"),
    ],
)
def test_wrong_part_is_a_400_that_names_the_field(api, fields, named):
    reply = api.post("/v1/containers", {**PAIR, **fields})
    assert reply.status == 400 and named in reply.error["detail"]


def test_parts_are_unknown_below_1_51(api):
    assert api.at("1.50").post("/v1/containers", {**PAIR, "cache_ways": 1}).status == 400
    assert "caches" not in api.at("1.50").get("/v1/hosts/one/topology").json
