# SPDX-License-Identifier: Apache-2.0
"""Compute hosts and their maps, for administrators."""

from dataclasses import replace

import pytest

from zun.db import compute_nodes
from zun.objects.placement import cpuset_record
from zun.tests.functional.api.conftest import inventory
from zun.topology import CpuSet, HostTopology, NUMACell, PlacementRequest, Plan, Usage, plan
from zun.topology.device_request import GivenDevice
from zun.topology.devices import Device
from zun.topology.foreign import Foreign, ForeignShare

EMPTY = {
    "hostname": "host-1",
    "mem_total": 3072,
    "mem_used": 0,
    "cpus": 8,
    "cpu_used": 0.0,
    "disk_total": 100,
    "disk_used": 0,
    "disk_quota_supported": False,
    "total_containers": 0,
    "architecture": "x86_64",
    "os_type": "linux",
    "os": "Debian",
    "kernel_version": "6.1",
    "labels": {"rack": "3"},
    "runtimes": ["runc"],
    "enable_cpu_pinning": True,
}


def shown(uuid, **changes):
    links = [
        {"href": f"http://zun.example:9517/v1/hosts/{uuid}", "rel": "self"},
        {"href": f"http://zun.example:9517/hosts/{uuid}", "rel": "bookmark"},
    ]
    return {**EMPTY, "uuid": uuid, "links": links, **changes}


@pytest.fixture
def topology(host_row):
    return HostTopology.from_dict(compute_nodes.find("host-1")["topology"])


@pytest.fixture
def holding(placed, topology):
    """Makes containers that hold what the allocator gives them on host-1."""
    usage = Usage()

    def make(name, **wanted):
        nonlocal usage
        request = PlacementRequest(**wanted)
        found = plan(topology, usage, request)
        assert isinstance(found, Plan), found
        usage = usage.with_claim(name, found)
        return placed(
            name=name,
            cpu=float(request.cpus),
            cpu_policy=request.cpu_policy,
            memory=request.memory_mib,
            disk=5,
            cpuset=cpuset_record(found),
        )

    return make


@pytest.mark.parametrize("ident", ["host-1", "uuid", "host-1.json", "host-1/"])
def test_show(admin_api, host_row, ident):
    path = ident.replace("uuid", host_row)
    assert admin_api.get(f"/v1/hosts/{path}").json == shown(host_row)


def test_a_host_name_may_have_dots(admin_api, database):
    compute_nodes.put("host-1.rack.example", inventory())
    assert admin_api.get("/v1/hosts/host-1.rack.example").json["hostname"] == "host-1.rack.example"
    assert admin_api.at("1.41").get("/v1/hosts/host-1.rack.example/topology").status == 200


def test_usage_is_what_containers_hold(admin_api, host_row, holding, placed):
    holding("one", cpus=2, memory_mib=256)
    holding("two", cpus=0.5, memory_mib=128, cpu_policy="shared")
    placed(memory=4096)  # it holds nothing
    expected = shown(host_row, mem_used=384, cpu_used=2.5, disk_used=10, total_containers=2)
    assert admin_api.get("/v1/hosts/host-1").json == expected
    assert admin_api.get("/v1/hosts/").json == {"hosts": [expected], "next": None}


TOLD = {
    "name": "Docker", "version": "28.5.2", "api_version": "1.51", "runtime": "runc 1.3.6", "cgroup_version": 2,
    "live_restore": True, "away": None,
    "store": {"engine_id": "49", "folder": "/var/lib/docker", "inode": 2, "driver": "overlay2", "images": "Docker"},
}  # fmt: skip
SHOWN = {
    "name": "Docker", "version": "28.5.2", "api_version": "1.51", "runtime": "runc 1.3.6", "cgroup_version": 2,
    "live_restore": True, "folder": "/var/lib/docker", "storage_driver": "overlay2", "image_store": "Docker",
    "away": None,
}  # fmt: skip


@pytest.mark.parametrize(("told", "expected"), [
    pytest.param(TOLD, SHOWN, id="usable"),
    pytest.param({**TOLD, "away": "it does not answer"}, {**SHOWN, "away": "it does not answer"}, id="away"),
    pytest.param(None, None, id="agent-of-an-earlier-release"),
    pytest.param({"store": 5}, None, id="written-by-hand"),
])  # fmt: skip
def test_host_shows_its_engine(admin_api, host_row, told, expected):
    compute_nodes.put("host-1", {"engine": told})
    assert admin_api.at("1.47").get("/v1/hosts/host-1").json["engine"] == expected
    assert admin_api.at("1.47").get("/v1/hosts").json["hosts"][0]["engine"] == expected
    assert "engine" not in admin_api.at("1.46").get("/v1/hosts/host-1").json


def test_host_shows_its_place_and_free_amounts(admin_api, host_row, holding):
    compute_nodes.put("host-1", {"traits": ["HW_CPU_X86_AVX2"], "availability_zone": "east"})
    compute_nodes.add_traits("host-1", ["CUSTOM_RACK_3"])
    for name, zone in (("ssd", None), ("west", "west")):
        body = {"name": name, **({"availability_zone": zone} if zone else {})}
        assert admin_api.at("1.42").post("/v1/aggregates", body).status == 201
        assert admin_api.at("1.42").post(f"/v1/aggregates/{name}/add_host", {"host": "host-1"}).status == 200
    amounts = {"cells": 2, "cores": 3, "cpus": 7, "memory_mib": 2928, "devices": {}}
    expected = {"availability_zone": "west", "aggregates": ["ssd", "west"],
                "traits": ["CUSTOM_RACK_3", "HW_CPU_X86_AVX2"], "total": amounts, "free": amounts}  # fmt: skip

    def told():
        one = admin_api.at("1.48").get("/v1/hosts/host-1").json
        assert admin_api.at("1.48").get("/v1/hosts").json["hosts"] == [one]
        return {name: one[name] for name in expected}

    assert told() == expected
    holding("one", cpus=1, memory_mib=256)
    assert told() == expected, "the amounts are read again although the generation is the same"
    compute_nodes.put("host-1", {"labels": {"rack": "4"}})  # the agent raises the generation with each claim
    assert told() == {**expected, "free": {**amounts, "cells": 1, "cpus": 6, "memory_mib": 2672}}
    assert not expected.keys() & admin_api.at("1.47").get("/v1/hosts/host-1").json.keys()


def test_amounts_of_an_unreadable_host_are_null(admin_api, host_row):
    compute_nodes.put("host-1", {"topology": {"cells": 5}})
    shown = admin_api.at("1.48").get("/v1/hosts").json["hosts"][0]
    assert (shown["total"], shown["free"]) == (None, None)


def test_cpus_in_use_are_written_exactly(admin_api, host_row, holding):
    for number in range(3):
        holding(f"part-{number}", cpus=0.2, memory_mib=1, cpu_policy="shared")
    assert b'"cpu_used":0.6,' in admin_api.get("/v1/hosts/host-1").body.replace(b": ", b":")
    assert b'"in_use":0.6}' in admin_api.get("/v1/quotas/demo?usages=1").body.replace(b": ", b":")


@pytest.mark.parametrize(
    "path", ["/v1/hosts/nobody", "/v1/hosts/nobody/topology", "/v1/hosts/0e4e9f1c-0000-0000-0000-000000000000"]
)
def test_hosts_that_are_none(admin_api, host_row, path):
    assert admin_api.at("1.41").get(path).refusal == (404, "compute-node-not-found")


def test_pages(admin_api, database):
    for name, cpus in (("b", 8), ("a", 16), ("c", 4)):
        compute_nodes.put(name, inventory(cpus=cpus))

    def walk(path):
        pages = []
        while path:
            reply = admin_api.get(path).json
            pages.append([host["hostname"] for host in reply["hosts"]])
            path = reply["next"] and reply["next"].removeprefix("http://zun.example:9517")
        return pages

    assert walk("/v1/hosts") == [["a", "b", "c"]]
    assert walk("/v1/hosts?limit=2") == [["a", "b"], ["c"]]
    assert walk("/v1/hosts?limit=2&sort_key=cpus&sort_dir=desc") == [["a", "b"], ["c"]]
    assert admin_api.get("/v1/hosts?sort_key=colour").refusal == (400, "invalid-parameter-value")
    assert admin_api.get("/v1/hosts?limit=0").refusal == (400, "invalid-value")
    assert admin_api.get("/v1/hosts?marker=nobody").refusal == (404, "compute-node-not-found")


def test_who_may_not_see_hosts_is_not_told_which_there_are(api, host_row):
    assert api.get("/v1/hosts/nobody").refusal == api.get("/v1/hosts/host-1").refusal == (403, "policy-not-authorized")


AVX = "HW_CPU_X86_AVX"


def test_traits_of_a_host_are_found_or_added(admin_api, database):
    uuid = compute_nodes.put("host-1", inventory(traits=[AVX]))["uuid"]
    admins = admin_api.at("1.44")
    told = {"host": "host-1", "uuid": uuid, "traits": [AVX], "added": []}
    assert admins.get(f"/v1/hosts/{uuid}/traits").json == told
    ssd = "STORAGE_DISK_SSD"
    for names, added in (([ssd, "CUSTOM_A", ssd], ["CUSTOM_A", ssd]), ([AVX, "CUSTOM_B"], ["CUSTOM_B"]), ([], [])):
        expected = told | {"traits": sorted([AVX, *added]), "added": added}
        assert admins.put("/v1/hosts/host-1/traits", {"traits": names}).json == expected
        assert admins.get("/v1/hosts/host-1/traits").json == expected


def test_a_host_of_an_older_agent_has_no_traits(admin_api, host_row):
    assert admin_api.at("1.44").get("/v1/hosts/host-1/traits").json["traits"] == []


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "'traits' is a required property"),
        ({"traits": None}, "traits"),
        ({"traits": ["custom"]}, "traits.0: 'custom' is not the name of a trait"),
        ({"traits": ["CUSTOM_A", "HW_AVX"]}, "traits: HW_AVX is not a trait of os-traits"),
        ({"traits": [f"CUSTOM_{number:0250}"[:255] for number in range(300)]}, "traits: it has"),
    ],
)
def test_traits_that_are_none_are_refused(admin_api, host_row, body, text):
    reply = admin_api.at("1.44").put("/v1/hosts/host-1/traits", body)
    assert reply.refusal == (400, "schema-validation-error") and text in reply.error["detail"]


def test_traits_of_hosts_exist_from_1_44(admin_api, host_row):
    assert admin_api.at("1.43").get("/v1/hosts/host-1/traits").refusal == (406, "")
    assert admin_api.at("1.44").get("/v1/hosts/nobody/traits").refusal == (404, "compute-node-not-found")
    assert admin_api.at("1.44").put("/v1/hosts/nobody/traits", {"traits": []}).refusal[0] == 404


def test_map_of_an_idle_host(admin_api, host_row):
    assert admin_api.at("1.41").get(f"/v1/hosts/{host_row}/topology").json == {
        "host": "host-1",
        "uuid": host_row,
        "generation": 7,
        "cells": [
            {
                "id": 0,
                "cpus": "0-3",
                "cores": ["0-1", "2-3"],
                "l3": ["0-3"],
                "memory_mib": 2048,
                "memory_used_mib": 0,
                "memory_reserved_mib": 128,
                "pages": {"2048": 8},
                "distances": {"0": 10, "1": 20},
            },
            {
                "id": 1,
                "cpus": "4-7",
                "cores": ["4-5", "6-7"],
                "l3": ["4-7"],
                "memory_mib": 1024,
                "memory_used_mib": 0,
                "memory_reserved_mib": 0,
                "pages": {},
                "distances": {"0": 20, "1": 10},
            },
        ],
        "offline": "8",
        "reserved": "0",
        "isolated": "",
        "shared": "1-7",
        "claims": [],
    }


def test_map_of_a_busy_host(admin_api, topology, holding):
    alone = holding("alone", cpus=1, memory_mib=256, thread_policy="isolate")
    wide = holding("wide", cpus=2, memory_mib=300, numa_nodes=2)
    guest = holding("guest", cpus=0.5, memory_mib=64, cpu_policy="shared")
    map_ = admin_api.at("1.41").get("/v1/hosts/host-1/topology").json
    claims = {claim["name"]: claim for claim in map_["claims"]}
    assert [claim["container"] for claim in map_["claims"]] == [alone.uuid, wide.uuid, guest.uuid]
    assert [claims[name]["cpu_policy"] for name in ("alone", "wide", "guest")] == ["dedicated", "dedicated", "shared"]
    assert claims["wide"]["memory_mib"] == {"0": 150, "1": 150}
    assert claims["wide"]["cpuset_mems"] == "0-1"
    assert claims["alone"]["withheld"] != ""
    own = set()
    for name in ("alone", "wide"):
        own |= {*cpus(claims[name]["cpuset_cpus"]), *cpus(claims[name]["withheld"])}
    assert cpus(map_["shared"]) == set(range(1, 8)) - own
    used = [0, 0]
    for claim in map_["claims"]:
        for cell, mib in claim["memory_mib"].items():
            used[int(cell)] += mib
    assert [cell["memory_used_mib"] for cell in map_["cells"]] == used
    assert sum(used) == 256 + 300 + 64


@pytest.mark.parametrize(
    ("policy", "there_is", "pool"), [("shared", "64", "1-7"), ("dedicated", "64", ""), ("shared", "4-5", "4-5")]
)
def test_map_shows_shared_cpus_when_no_pool_cpu_is_online(
    admin_api, topology, holding, policy, there_is, pool
):
    """If no pool CPU is online, shared containers run on the CPUs that nobody holds."""
    held = holding("guest", cpus=3, memory_mib=64, cpu_policy=policy, numa_affinity="none")
    lost = topology.configured(reserved_cpus=topology.reserved, shared_set=CpuSet(there_is))
    compute_nodes.put("host-1", {"topology": lost.to_dict()})
    map_ = admin_api.at("1.41").get("/v1/hosts/host-1/topology").json
    assert (map_["shared"], map_["claims"][0]["container"]) == (pool, held.uuid)


def cpus(text):
    found = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def test_a_map_shows_what_must_not_be(admin_api, placed, topology):
    """Two rows hold the same CPU: whoever looks for the reason gets a map, not an error."""
    found = plan(topology, Usage(), PlacementRequest(cpus=1, memory_mib=64))
    for name in ("one", "two"):
        placed(name=name, cpu_policy="dedicated", cpuset=cpuset_record(found))
    claims = admin_api.at("1.41").get("/v1/hosts/host-1/topology").json["claims"]
    assert [claim["cpuset_cpus"] for claim in claims] == [str(found.cpus)] * 2


def test_a_map_shows_other_services_from_1_44_on(admin_api, topology):
    foreign = Foreign({0: ForeignShare(1, memory_mib=64)}, {0: ForeignShare(shared=2, pages={2048: 1})}, CpuSet("1"), 5)
    compute_nodes.put("host-1", {"topology": topology.shared_with(foreign).to_dict()})
    before = admin_api.at("1.43").get("/v1/hosts/host-1/topology").json
    shown = admin_api.at("1.44").get("/v1/hosts/host-1/topology").json
    assert (shown["reserved"], shown["cells"][0]["memory_reserved_mib"]) == ("0-1", 192)
    of_cells = {"cpus": 1, "withheld": "1", "shared": 2, "memory_mib": 64, "pages": {"2048": 1}, "disk_gib": 0}
    of_disk = {"cpus": 0, "withheld": "", "shared": 0, "memory_mib": 0, "pages": {}, "disk_gib": 5}
    assert shown["foreign"] == [{"cell": 0, **of_cells}, {"cell": None, **of_disk}]
    assert shown == before | {"foreign": shown["foreign"], "devices": []}


def test_a_map_shows_the_offered_devices_from_1_44_on(admin_api, topology):
    gpu = Device(
        "0000:81:00.0", "10de", "20b0", "030200", cell=1,
        path=("pci0000:80", "0000:80:01.0", "0000:82:00.0", "0000:83:04.0"), nodes=("/dev/nvidia0",),
    )  # fmt: skip
    compute_nodes.put("host-1", {"topology": replace(topology, devices=(gpu,)).to_dict()})
    assert "devices" not in admin_api.at("1.43").get("/v1/hosts/host-1/topology").json
    [shown] = admin_api.at("1.44").get("/v1/hosts/host-1/topology").json["devices"]
    assert (shown["address"], shown["cell"], shown["switch"]) == ("0000:81:00.0", 1, "0000:82:00.0")
    assert (shown["type"], shown["nodes"], shown["trusted"]) == ("type-PCI", ["/dev/nvidia0"], False)


def test_a_map_shows_sockets_and_what_claims_hold_from_1_48(admin_api, topology, placed):
    sockets = (CpuSet("0-3"), CpuSet("4-7"))
    machine = replace(topology, sockets=sockets, devices=(Device("0000:81:00.0", cell=0),))
    compute_nodes.put("host-1", {"topology": machine.to_dict()})
    found = plan(machine, Usage(), PlacementRequest(cpus=2, memory_mib=8, page_size=2048))
    held = replace(found, devices=(GivenDevice("gpu", "0000:81:00.0", 0),))
    placed(name="one", cpu_policy="dedicated", cpuset=cpuset_record(held))
    before = admin_api.at("1.47").get("/v1/hosts/host-1/topology").json
    shown = admin_api.at("1.48").get("/v1/hosts/host-1/topology").json
    [claim] = shown["claims"]
    assert (claim["pages"], claim["devices"]) == ({"0": {"2048": 4}}, ["0000:81:00.0"])
    assert shown["sockets"] == ["0-3", "4-7"]
    assert "sockets" not in before and not {"pages", "devices"} & before["claims"][0].keys()


def test_a_map_shows_links_of_devices_from_1_47_on(admin_api, topology):
    """From both ends, although the machine told one, and without devices that the host does not offer."""
    gpus = (Device("0000:81:00.0", links=("0000:82:00.0", "0000:83:00.0")), Device("0000:82:00.0"))
    compute_nodes.put("host-1", {"topology": replace(topology, devices=gpus).to_dict()})
    before = admin_api.at("1.46").get("/v1/hosts/host-1/topology").json["devices"]
    shown = admin_api.at("1.47").get("/v1/hosts/host-1/topology").json["devices"]
    assert [each.pop("links") for each in shown] == [["0000:82:00.0"], ["0000:81:00.0"]]
    new = {"nearest_cells": [], "memory_node": None, "shared": 1, "holders": 0}
    assert shown == [each | new for each in before]


def test_a_map_counts_the_holders_of_a_device(admin_api, placed, topology):
    """Also if more hold it than may, because the operator has lowered the number since."""
    gpu = Device("0000:81:00.0", cell=1, resource_class="CUSTOM_SLICE", shared=3)
    for name in ("one", "two", "three"):
        claim = Plan({}, devices=(GivenDevice.of("slice", gpu),))
        placed(name=name, cpu_policy="shared", cpuset=cpuset_record(claim))
    for shared in (3, 2):
        there = replace(topology, devices=(replace(gpu, shared=shared), Device("0000:82:00.0")))
        compute_nodes.put("host-1", {"topology": there.to_dict()})
        shown = admin_api.at("1.47").get("/v1/hosts/host-1/topology").json["devices"]
        assert [(each["shared"], each["holders"]) for each in shown] == [(shared, 3), (1, 0)]


@pytest.mark.parametrize(("place", "nearest"), [(None, []), (1, [1]), (2, [0, 1]), (9, [])])
def test_a_map_shows_the_nearest_cells_of_a_device(admin_api, topology, place, nearest):
    """A device on a node without CPUs has the cells around this node as its nearest ones."""
    there = replace(topology, cells=(*topology.cells, NUMACell(2)), devices=(Device("a", cell=place, memory_node=7),))
    compute_nodes.put("host-1", {"topology": there.to_dict()})
    [shown] = admin_api.at("1.47").get("/v1/hosts/host-1/topology").json["devices"]
    assert (shown["cell"], shown["nearest_cells"], shown["memory_node"]) == (place, nearest, 7)
