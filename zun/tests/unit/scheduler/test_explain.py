# SPDX-License-Identifier: Apache-2.0
"""The record of a request that no host can hold: codes, amounts, and changes that the filters must grant."""

import json
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from zun.api.schemas.numa import FIELDS as API_FIELDS
from zun.api.schemas.numa import MIXED_FIELDS
from zun.common.groups import Group
from zun.objects.placement import ASKED_AS
from zun.scheduler import explain, filters, weighers
from zun.scheduler.explain import (
    CODES,
    EXPLAINED_HOSTS,
    MAX_BYTES,
    NEAREST_MISS_HOSTS,
    HostCode,
    refused_claims,
)
from zun.scheduler.host_state import Aggregate
from zun.scheduler.select import NoValidHost, select
from zun.tests.functional.cloud import machine
from zun.tests.unit.common.proof import proof
from zun.tests.unit.scheduler.hosts import (
    ALL_FILTERS,
    UP,
    configuration,
    device,
    full,
    host,
    placements,
    spec,
    used_hosts,
    wanting,
)
from zun.topology import HostTopology, PlacementRequest, RefusalCode
from zun.topology.device_request import DevicePolicy, DeviceSame

FILTERS = filters.load(ALL_FILTERS, configuration(service_down_time=10**9))
WEIGHERS = weighers.load(["FreeCPUWeigher", "FreeRAMWeigher"], configuration())
CLOSED_LIST = {*map(str, HostCode), *map(str, RefusalCode)}


def selected(hosts, wanted):
    return select(hosts, wanted, FILTERS, WEIGHERS, 1)


def record(hosts, wanted):
    answer = selected(hosts, wanted)
    assert isinstance(answer, NoValidHost)
    return answer.explanation.record


def dedicated(cpus, memory=64):
    return PlacementRequest(cpus, memory)


DOWN = {**UP, "forced_down": True}
RESERVED = (Aggregate("u1", "theirs", {"filter_project_id": "other"}),)


@pytest.mark.parametrize(
    ("state", "wanted", "code"),
    [
        pytest.param(host(), spec(1, tried={"h1": "full"}), "refused-before", id="refused"),
        pytest.param(host(service=DOWN), spec(1), "service", id="down"),
        pytest.param(host(), spec(1, availability_zone="gpu"), "zone", id="zone"),
        pytest.param(host(), spec(1, requested_host="h2"), "zone", id="another-host"),
        pytest.param(host(), spec(1, runtime="kata"), "runtime", id="runtime"),
        pytest.param(host(), spec(1, labels={"disk": "ssd"}), "label", id="label"),
        pytest.param(host(aggregates=RESERVED), spec(1, project_id="demo"), "reserved", id="reserved"),
        pytest.param(host(), spec(1, extra_specs={"ssd": "true"}), "aggregate", id="aggregate"),
        pytest.param(
            host(architecture="x86_64"), spec(1, image_properties={"architecture": "arm64"}), "image", id="image"
        ),
        pytest.param(host(), spec(1, required_traits=frozenset({"A"})), "trait", id="trait"),
        pytest.param(host(), spec(1, member_of=(frozenset({"u1"}),)), "trait", id="member-of"),
        pytest.param(host(), spec(1, same_host=frozenset({"c0"})), "neighbour", id="same-host"),
        pytest.param(full("h1", dedicated(1)), spec(1, different_host=frozenset({"c0"})), "neighbour", id="other-host"),
        pytest.param(host(groups={"g1": 1}), spec(1, group=Group("g1", "anti-affinity")), "group", id="group"),
        pytest.param(host(enable_cpu_pinning=False), spec(1), "no-pinning", id="pinning"),
        pytest.param(host(), spec(1, disk=101), "disk", id="disk"),
        pytest.param(host(), spec(1, 99_999), "memory", id="memory-in-total"),
        pytest.param(host(), spec(1, 5000), "memory", id="memory-of-a-node"),
        pytest.param(host(), spec(99), "cpus", id="cpus-in-total"),
        pytest.param(host(), spec(5), "cpus", id="cpus-of-a-node"),
        pytest.param(host(), spec(2, placement={"thread_policy": "require"}), "no-smt", id="threads"),
        pytest.param(host(), spec(2, placement={"page_size": 2048}), "page-size", id="pages"),
        pytest.param(host(), spec(99.0, policy="shared"), "shared-pool", id="shared"),
        pytest.param(
            full("h1", dedicated(2), dedicated(4)), spec(5, disk=101), "cpus", id="the-nodes-come-before-the-disk"
        ),
        pytest.param(
            full("h1", *[dedicated(1)] * 8, enable_cpu_pinning=False), spec(1), "cpus", id="full-by-the-first-filter"
        ),
        pytest.param(host(enable_cpu_pinning=False), spec(5), "no-pinning", id="pinning-comes-before-the-nodes"),
    ],
)
def test_a_host_has_one_code_for_the_condition_that_binds(state, wanted, code):
    found = record([state], wanted)
    assert [each["code"] for each in found["details"]] == [code]
    assert found["codes"] == {code: 1}
    assert code in CLOSED_LIST


def test_every_filter_of_ours_has_a_code():
    class Own(filters.HostFilter):
        def reject(self, state, wanted):
            return "it is a Monday"

    mine = select([host()], spec(1), [Own(configuration())], WEIGHERS, 1)
    assert mine.explanation.record["details"] == [
        {"host": "h1", "filter": "Own", "code": "other", "reason": "it is a Monday"}
    ]
    assert set(CODES) >= set(ALL_FILTERS)


def test_the_whole_record():
    hosts = [
        full("a", dedicated(1), dedicated(1, 4000), disk_used=90),
        host("b", runtimes=()),
        host("c", machine(cells=1, cores=2), disk_total=1),
    ]
    wanted = spec(6, disk=5, runtime="runc")
    assert record(hosts, wanted) == {
        "reason": "No valid host was found. Of 3 hosts, CpuSetFilter rejected 1, RuntimeFilter rejected 1, CPUFilter "
        "rejected 1. Nearest miss: no cell has 6 CPUs free: best is cell 1 with 4. A request for 4 CPUs and 64 MiB "
        "would fit now.",
        "wanted": {
            "cpu": 6, "memory": 64, "cpu_policy": "dedicated", "cpu_thread_policy": "prefer", "numa_nodes": 1,
            "numa_affinity": "require", "numa_cpus": None, "numa_mem": None, "numa_mempolicy": "strict",
            "mem_page_size": None, "cpu_isolation": "thread", "disk": 5, "availability_zone": None, "runtime": "runc",
        },
        "hosts": 3,
        "filters": {"RuntimeFilter": 1, "CPUFilter": 1, "CpuSetFilter": 1},
        "codes": {"cpus": 2, "runtime": 1},
        "changes": [
            {"dimension": "cpus", "change": {"cpu": 4}},
            {"dimension": "affinity", "change": {"numa_affinity": "prefer"}},
        ],
        "details": [
            {
                "host": "a", "filter": "CpuSetFilter", "code": "cpus",
                "reason": "no cell has 6 CPUs free: best is cell 1 with 4",
                "wanted": [{"cpus": 6, "memory_mib": 64, "page_kib": None}],
                "free": [
                    {"node": 0, "cpus": 2, "whole_cores": 2, "shared": 2.0, "memory_mib": 32, "pages": {}},
                    {"node": 1, "cpus": 4, "whole_cores": 4, "shared": 4.0, "memory_mib": 4096, "pages": {}},
                ],
                "disk_free": 10.0,
                "changes": [
                    {"dimension": "cpus", "change": {"cpu": 4}},
                    {"dimension": "affinity", "change": {"numa_affinity": "prefer"}},
                ],
            },
            {
                "host": "c", "filter": "CPUFilter", "code": "cpus",
                "reason": "no cell has 6 CPUs free: best is cell 0 with 2",
                "wanted": [{"cpus": 6, "memory_mib": 64, "page_kib": None}],
                "free": [{"node": 0, "cpus": 2, "whole_cores": 2, "shared": 2.0, "memory_mib": 4096, "pages": {}}],
                "disk_free": 1.0,
                "changes": [],  # two CPUs would fit, but the disk would not
            },
            {
                "host": "b", "filter": "RuntimeFilter", "code": "runtime",
                "reason": "it has no runtime runc", "found": {"runtimes": []},
            },
        ],
        "details_left_out": 0,
    }


def test_a_missing_link_is_told_to_the_user():
    gpus = (device("81:00.0", links=("0000:82:00.0",)), device("82:00.0"), device("83:00.0"))
    wanted = spec(placement={"devices": (wanting(count=3),), "device_same": "link"})
    told = record([host(topology=replace(machine(), devices=gpus))], wanted)
    assert told["reason"].endswith(
        "Nearest miss: GPU links (NVLink or xGMI, which device_same link wants) join at most 2 of the free devices all "
        "to all, and 3 are wanted: gpu: free are 3 on cell 0. A request for 2 CPUs and 64 MiB with 3 of devices gpu "
        "without links between them would fit now."
    )
    changes = {each["dimension"]: each["change"] for each in told["changes"]}
    assert changes["device-same"] == {"device_same": "host"}
    assert [each["count"] for each in changes["devices"]["devices"]] == [2]


def test_every_wish_is_told_under_its_name_in_the_api():
    """A field of the allocator that has no name here would be left out of what was wanted and of changes."""
    mixed = PlacementRequest(2, 1, cpu_policy="mixed", dedicated_cpus=1, memory_bandwidth=10)
    told = {*mixed.to_dict(), *replace(mixed, cache_ways=1).to_dict(), *replace(mixed, cache_mib=1).to_dict()}
    assert set(ASKED_AS) == told
    of_caches = {"cache_ways", "cache_mib", "memory_bandwidth"}
    assert {*ASKED_AS.values()} - {"cpu", "memory", "cpu_policy"} == {*API_FIELDS, *MIXED_FIELDS, *of_caches}


NAMES = {
    "cpu": "cpus",
    "memory": "memory_mib",
    "cpu_thread_policy": "thread_policy",
    "numa_mempolicy": "mempolicy",
    "mem_page_size": "page_size",
}


def changed(wanted, change):
    """The request with a stated change made, as its user would make it."""
    fields = {NAMES.get(name, name): value for name, value in change["change"].items()}
    disk = fields.pop("disk", wanted.disk)
    if "devices" in fields:
        asked = {each.name: each for each in wanted.placement.devices}
        fields["devices"] = tuple(
            replace(
                asked[each["name"]],
                count=each["count"],
                traits=tuple(each["traits"]),
                numa_policy=DevicePolicy(each["numa_policy"]),
            )
            for each in fields["devices"]
        )
    if "device_same" in fields:
        fields["device_same"] = DeviceSame(fields["device_same"])
    return replace(wanted, disk=disk, placement=replace(wanted.placement, **fields))


@proof(150)
@given(
    hosts=st.lists(used_hosts(), min_size=1, max_size=3),
    wanted=placements(),
    disk=st.sampled_from((0, 0, 10, 101)),
    free=st.lists(st.sampled_from((0, 5, 100)), min_size=3, max_size=3),
)
def test_stated_changes_are_granted_and_smaller_ones_refused(hosts, wanted, disk, free):
    hosts = [replace(each, hostname=f"h{n}", disk_total=free[n]) for n, each in enumerate(hosts)]
    asked = replace(spec(disk=disk), placement=wanted)
    answer = selected(hosts, asked)
    assume(isinstance(answer, NoValidHost))
    found = answer.explanation.record
    assert json.loads(json.dumps(found)) == found
    by_name = {each.hostname: each for each in hosts}
    assert sorted(each["host"] for each in found["details"]) == sorted(by_name)
    assert sum(found["codes"].values()) == len(hosts) and set(found["codes"]) <= CLOSED_LIST
    for report in found["details"]:
        for change in report.get("changes", ()):
            assert isinstance(selected([by_name[report["host"]]], changed(asked, change)), list), change
    for change in found["changes"]:
        assert isinstance(selected(hosts, changed(asked, change)), list), change
        for larger in nearer(asked, change["change"]):
            assert isinstance(selected(hosts, larger), NoValidHost), (change, larger)
    stated = {change["dimension"] for change in found["changes"]}
    if wanted.numa_cpus is None and "cpus" not in stated and wanted.cpus > max(1, wanted.numa_nodes):
        least = replace(wanted, cpus=max(1, wanted.numa_nodes))
        assert isinstance(selected(hosts, replace(asked, placement=least)), NoValidHost)


def nearer(asked, change):
    """Requests that give up less than ``change`` does."""
    wanted = asked.placement
    if set(change) == {"cpu"}:
        step = 1 if wanted.dedicated else 1e-6
        yield replace(asked, placement=replace(wanted, cpus=change["cpu"] + step))
    if set(change) == {"memory"}:
        yield replace(asked, placement=replace(wanted, memory_mib=change["memory"] + 1))
    if set(change) == {"disk"}:
        yield replace(asked, disk=change["disk"] + 1)
    if set(change) == {"numa_nodes"} and change["numa_nodes"] > wanted.numa_nodes:
        for nodes in range(wanted.numa_nodes + 1, change["numa_nodes"]):
            yield replace(asked, placement=replace(wanted, numa_nodes=nodes))


def test_the_record_of_a_large_cloud_stays_small():
    wide = HostTopology(machine(cells=80, cores=2).cells)
    hosts = [host(f"h{number:03}" + "x" * 200, wide, runtimes=()) for number in range(100)]
    hosts += [host(f"w{number:03}", wide) for number in range(30)]
    found = record(hosts, spec(3, runtime="runc", placement={"numa_cpus": [3]}))
    assert len(json.dumps(found)) <= MAX_BYTES
    assert 0 < len(found["details"]) < EXPLAINED_HOSTS
    assert len(found["details"]) + found["details_left_out"] == 130
    assert found["codes"] == {"runtime": 100, "cpus": 30}


def with_pages(pages):
    return HostTopology(tuple(replace(cell, pages=pages) for cell in machine(memory_mib=100).cells))


@pytest.mark.parametrize(
    ("hosts", "wanted", "expected"),
    [
        pytest.param(
            [full("a", dedicated(1)), full("b", *[dedicated(2)] * 3), full("c", dedicated(3), dedicated(2))],
            spec(5),
            {"dimension": "cpus", "change": {"cpu": 4}},
            id="most-cpus",
        ),
        pytest.param(
            [full("a", dedicated(1, 4000)), host("b"), full("c", dedicated(1, 3000))],
            spec(1, 4200),
            {"dimension": "memory", "change": {"memory": 4096}},
            id="most-memory",
        ),
        pytest.param(
            [host("a", disk_total=3), host("b", disk_total=7), host("c", disk_total=5)],
            spec(1, disk=9),
            {"dimension": "disk", "change": {"disk": 7}},
            id="most-disk",
        ),
        pytest.param(
            [host("a", machine(cells=4, cores=2)), host("b", machine(cells=2, cores=4))],
            spec(8),
            {"dimension": "nodes", "change": {"numa_nodes": 2}},
            id="fewest-more-nodes",
        ),
        pytest.param(
            [host("a", with_pages({64: 400})), host("b", with_pages({2048: 8, 64: 40}))],
            spec(1, 10, placement={"page_size": 1048576}),
            {"dimension": "pages", "change": {"mem_page_size": 2048}},
            id="largest-pages",
        ),
    ],
)
def test_the_smallest_change_of_all_hosts_is_told(hosts, wanted, expected):
    for order in (hosts, hosts[::-1]):
        named = [replace(each, hostname=f"h{number}") for number, each in enumerate(order)]
        assert expected in record(named, wanted)["changes"]


@pytest.mark.parametrize(("used", "changes"), [(97, {"disk": 3}), (100, {"disk": 0}), (105, None)])
def test_there_is_never_less_than_no_disk(used, changes):
    """More may be used than there is, after the operator lowered the ratio."""
    found = record([host(disk_used=used)], spec(1, disk=9))["changes"]
    assert found == ([] if changes is None else [{"dimension": "disk", "change": changes}])


@pytest.mark.parametrize(
    ("others", "told"),
    [
        ([], "a host has the CPUs and the memory, but disk pool ceph has 3 GiB of disk left of the 9 that are wanted."),
        ([host("h9", disk_used=99)], "a host has the CPUs and the memory, but not the disk."),
    ],
    ids=["pool-alone", "pool-and-own-disk"],
)
def test_short_disk_pool_is_named(others, told):
    pool = (Aggregate("p", "ceph", {"disk_pool_gb": "20"}),)
    found = record([host("h1", disk_used=7, aggregates=pool), host("h2", disk_used=10, aggregates=pool), *others],
                   spec(1, disk=9))  # fmt: skip
    assert found["reason"].endswith(f"Nearest miss: {told}")
    assert found["changes"] == [{"dimension": "disk", "change": {"disk": 3}}]
    assert (found["details"][0]["disk_free"], found["details"][0]["found"]) == (3, {"disk_pool": "ceph"})


def test_only_the_nearest_hosts_are_described():
    hosts = [full(f"h{number:02}", *[dedicated(1)] * 8) for number in range(EXPLAINED_HOSTS + 5)]
    found = record([*hosts, host("z")], spec(5))
    assert found["details"][0]["host"] == "z"
    assert (len(found["details"]), found["details_left_out"]) == (EXPLAINED_HOSTS, 6)


def test_costly_hosts_end_the_asking_for_changes(monkeypatch):
    """The reasons stay; only the first host is asked for a smaller request and for changes."""
    monkeypatch.setattr(explain, "MOST_STEPS", 0)
    answer = selected([host("a"), host("b"), host("c")], spec(6))
    found = answer.explanation
    assert [each["code"] for each in found.record["details"]] == ["cpus"] * 3
    assert [bool(each["changes"]) for each in found.record["details"]] == [True, False, False]
    assert "would fit now" in found.message


def test_hosts_past_the_nearest_misses_report_the_plan_code():
    """Enough CPUs in all, but not on one cell: no filter but the exact plan can tell."""
    scattered = [full(f"h{number:02}", *[dedicated(3)] * 2) for number in range(NEAREST_MISS_HOSTS + 7)]
    found = record([*scattered, host("z", enable_cpu_pinning=False)], spec(2))
    assert found["codes"] == {"cpus": NEAREST_MISS_HOSTS + 7, "no-pinning": 1}


def test_what_is_told_is_of_the_moment_of_the_refusal():
    """The hosts may be a view of what changes; the explanation is worked out later."""
    hosts = [host("a")]
    answer = selected(hosts, spec(6))
    hosts[0] = full("a", *[dedicated(1)] * 8)
    assert answer.explanation.record["details"][0]["changes"][0] == {"dimension": "cpus", "change": {"cpu": 4}}


def test_missing_traits_are_named_with_the_number_of_hosts():
    own = [(), ("A",), ("A",), ("A", "B", "C")]
    hosts = [host(f"h{number}", traits=frozenset(each)) for number, each in enumerate(own)]
    wanted = spec(1, required_traits=frozenset({"A", "B"}), forbidden_traits=frozenset({"C"}))
    told = record(hosts, wanted)
    assert told["reason"] == (
        "No valid host was found. Of 4 hosts, TraitsFilter rejected 4. "
        "Traits: 2 hosts: it lacks B. 1 host: it lacks A, B. 1 host: it has C, which is forbidden."
    )
    assert (told["wanted"]["required_traits"], told["wanted"]["forbidden_traits"]) == (["A", "B"], ["C"])
    assert "any_traits" not in told["wanted"]
    full_one = full("h9", *[dedicated(1)] * 8, traits=frozenset({"A", "B"}))
    reason = record([hosts[0], full_one], wanted)["reason"]
    assert "Traits: 1 host: it lacks A, B. Nearest miss: no cell has 1 CPU" in reason


def test_of_a_shared_container_amounts_only_may_be_changed():
    """The API takes no other placement field for it."""
    found = record([host()], spec(1, 9000, policy="shared"))
    assert found["changes"] == [{"dimension": "memory", "change": {"memory": 8192}}]
    assert set(found["wanted"]) == {"cpu", "memory", "cpu_policy", "disk", "availability_zone", "runtime"}


def test_claims_that_were_refused():
    tried = {f"h{number}": "no cell has 2 CPUs free" for number in range(3)}
    why = refused_claims(spec(2), tried, "3 hosts refused")
    assert why.message == why.record["reason"] == "3 hosts refused"
    assert why.record["codes"] == {"refused-before": 3}
    assert [each["host"] for each in why.record["details"]] == ["h0", "h1", "h2"]
    assert {each["code"] for each in why.record["details"]} == {"refused-before"}
