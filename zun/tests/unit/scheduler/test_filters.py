# SPDX-License-Identifier: Apache-2.0
import datetime
import importlib.metadata
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.common import exceptions
from zun.common.groups import Group
from zun.scheduler import filters
from zun.scheduler.columns import Columns
from zun.scheduler.filters.aggregate_extra_specs import matches
from zun.scheduler.filters.compute import ComputeFilter
from zun.scheduler.host_state import Aggregate
from zun.scheduler.select import informed
from zun.scheduler.weighers.stranded import StrandedWeigher
from zun.tests.functional.cloud import machine
from zun.tests.unit.common.proof import proof
from zun.tests.unit.scheduler.hosts import (
    ALL_FILTERS,
    NIC,
    NOW,
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
from zun.topology import CellShare, CpuSet, HostTopology, PlacementRequest, Plan, Refusal, Usage, plan
from zun.topology.device_request import GivenDevice
from zun.topology.devices import DeviceType


def load(name):
    (found,) = filters.load([name], configuration())
    return found


def shared(cpus, memory=0):
    return PlacementRequest(cpus, memory, cpu_policy="shared")


@pytest.mark.parametrize(
    ("tried", "refused"),
    [({}, False), ({"h2": "full"}, False), ({"h1": "The host refused the claim: full"}, True), ({"h1": ""}, True)],
)
def test_retry_filter(tried, refused):
    reason = load("RetryFilter").reject(host(), spec(tried=tried))
    assert (reason is not None) is refused
    assert not refused or ("refused the claim before" in reason and "h1" not in reason)


@pytest.mark.parametrize(
    ("service", "reason"),
    [
        pytest.param(UP, None, id="up"),
        pytest.param(None, "its compute service has never reported", id="no-service"),
        pytest.param(
            {**UP, "disabled": True, "disabled_reason": "rack move"}, "its compute service is disabled", id="disabled"
        ),
        pytest.param({**UP, "forced_down": True}, "its compute service is forced down", id="forced-down"),
        pytest.param({**UP, "last_seen_up": NOW - datetime.timedelta(seconds=30)}, None, id="seen-lately"),
        pytest.param(
            {**UP, "last_seen_up": NOW - datetime.timedelta(seconds=31)},
            "its compute service has not reported for 30 s",
            id="not-seen",
        ),
        pytest.param({**UP, "last_seen_up": NOW + datetime.timedelta(seconds=30)}, None, id="a-clock-a-little-ahead"),
        pytest.param(
            {**UP, "last_seen_up": NOW + datetime.timedelta(seconds=300)},
            "its compute service reported 300 s from now: its clock differs from the scheduler's",
            id="a-clock-far-ahead",
        ),
    ],
)
def test_compute_filter(service, reason):
    found = ComputeFilter(configuration(service_down_time=30), now=lambda: NOW)
    assert found.reject(host(service=service), spec()) == reason


@pytest.mark.parametrize(
    ("fields", "wanted", "reason"),
    [
        ({}, {}, None),
        ({}, {"availability_zone": "nova"}, None),
        ({}, {"availability_zone": "gpu"}, "it is in zone nova, not gpu"),
        ({"availability_zone": None}, {"availability_zone": "gpu"}, "it is in zone None, not gpu"),
        ({"availability_zone": None}, {}, None),
        ({}, {"requested_host": "h1"}, None),
        ({}, {"requested_host": "h2"}, "another host was asked for"),
        ({}, {"requested_host": "h1", "availability_zone": "gpu"}, "it is in zone nova, not gpu"),
    ],
)
def test_availability_zone_filter(fields, wanted, reason):
    assert load("AvailabilityZoneFilter").reject(host(**fields), spec(**wanted)) == reason


@pytest.mark.parametrize(
    ("runtimes", "wanted", "reason"),
    [
        (("runc",), None, None),
        ((), None, None),
        (("runc", "kata"), "kata", None),
        (("runc", "crun"), "kata", "it has no runtime kata"),
    ],
)
def test_runtime_filter(runtimes, wanted, reason):
    assert load("RuntimeFilter").reject(host(runtimes=runtimes), spec(runtime=wanted)) == reason


@pytest.mark.parametrize(
    ("labels", "wanted", "reason"),
    [
        ({}, {}, None),
        ({"disk": "ssd", "rack": "r1"}, {"disk": "ssd"}, None),
        ({"disk": "ssd", "rack": "r1"}, {"disk": "ssd", "rack": "r2"}, "its label rack is not 'r2'"),
        ({}, {"disk": "ssd"}, "its label disk is not 'ssd'"),
        ({"disk": "SSD"}, {"disk": "ssd"}, "its label disk is not 'ssd'"),
    ],
)
def test_label_filter(labels, wanted, reason):
    assert load("LabelFilter").reject(host(labels=labels), spec(labels=wanted)) == reason


@pytest.mark.parametrize(
    ("fields", "wanted", "left"),
    [
        ({"disk_used": 90}, 10, None),
        ({"disk_used": 90}, 11, 10),
        ({"disk_used": 100, "disk_allocation_ratio": 1.5}, 50, None),
        ({"disk_used": 100, "disk_allocation_ratio": 1.5}, 51, 50),
        ({"disk_total": 0}, 0, None),
    ],
)
def test_disk_filter(fields, wanted, left):
    told = None if left is None else f"it has {left} GiB of disk left of the {wanted} that are wanted"
    assert load("DiskFilter").reject(host(**fields), spec(disk=wanted)) == told


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (5, None),
        (6, "disk pool ceph has 5 GiB of disk left of the 6 that are wanted"),
        (0, None),
    ],
)
def test_disk_filter_asks_the_pool_of_the_host(wanted, reason):
    """The host's own disk does not count, nor does its ratio; the disk of the other host of the pool does."""
    pool = (Aggregate("p", "ceph", {"disk_pool_gb": "20"}),)
    mine = host("h1", disk_total=0, disk_used=7, disk_allocation_ratio=9.0, aggregates=pool)
    table = Columns([mine, host("h2", disk_used=8, aggregates=pool), host("h3", disk_used=50)])
    asked = informed(spec(disk=wanted), table)
    disk = load("DiskFilter")
    assert disk.reject(mine, asked) == reason
    assert disk.admit(table, asked).tolist() == [reason is None, reason is None, True]
    assert (disk.found(mine, asked), disk.found(host(), asked)) == ({"disk_pool": "ceph"}, {})


DEDICATED_SET = machine().configured(dedicated_set=CpuSet("0-4"))
SHARED_SET = machine().configured(shared_set=CpuSet("0-2"))
RESERVED = machine().configured(reserved_cpus=CpuSet("0,4"))
TWICE = machine().configured(cpu_allocation_ratio=2.0)
WITHHOLDS = Plan({0: CellShare(cpus=CpuSet("0-1"), withheld=CpuSet("2"))})
# Four CPUs a cell; those of the second are isolated by the kernel.
ISOLATED = replace(machine(), isolated=CpuSet("4-7"))
THREE_ISOLATED = PlacementRequest(3, 64, isolation="isolated")


def isolated(cpus, memory=64, **placement):
    return spec(cpus, memory, placement={"isolation": "isolated", **placement})


@pytest.mark.parametrize(
    ("state", "wanted", "left"),
    [
        pytest.param(host(), spec(8), None, id="all-of-an-empty-host"),
        pytest.param(host(), spec(9), 8, id="more-than-there-are"),
        pytest.param(full("h1", PlacementRequest(3, 0)), spec(6), 5, id="what-others-hold-is-gone"),
        pytest.param(full("h1", WITHHOLDS), spec(6), 5, id="what-others-keep-idle-is-gone"),
        pytest.param(full("h1", shared(8)), spec(8), None, id="shared-containers-hold-no-cpu"),
        pytest.param(host(topology=DEDICATED_SET), spec(6), 5, id="dedicated-set"),
        pytest.param(host(topology=SHARED_SET), spec(6), 5, id="shared-set"),
        pytest.param(host(topology=RESERVED), spec(7), 6, id="reserved"),
        pytest.param(host(), spec(8, policy="shared"), None, id="shared-without-overcommit"),
        pytest.param(host(), spec(8.5, policy="shared"), 8, id="shared-beyond-it"),
        pytest.param(host(topology=TWICE), spec(16, policy="shared"), None, id="shared-twice-over"),
        pytest.param(
            full("h1", shared(1.5), shared(4), topology=TWICE),
            spec(11, policy="shared"),
            10.5,
            id="shared-beside-shared",
        ),
        pytest.param(
            full("h1", PlacementRequest(4, 0), PlacementRequest(2, 0), topology=TWICE),
            spec(4.5, policy="shared"),
            4,
            id="the-pool-is-what-nobody-holds",
        ),
        pytest.param(host(topology=SHARED_SET), spec(3, policy="shared"), None, id="shared-on-its-set"),
        pytest.param(host(topology=ISOLATED), isolated(4), None, id="all-that-are-isolated"),
        pytest.param(host(topology=ISOLATED), isolated(5), 4, id="isolated-and-no-others"),
        pytest.param(host(topology=ISOLATED), spec(5), 4, id="isolated-for-nobody-else"),
        pytest.param(
            full("h1", THREE_ISOLATED, topology=ISOLATED), isolated(2), 1, id="isolated-that-others-hold-are-gone"
        ),
        pytest.param(full("h1", THREE_ISOLATED, topology=ISOLATED), spec(4), None, id="isolated-are-counted-apart"),
        pytest.param(host(), isolated(1), 0, id="none-is-isolated"),
    ],
)
def test_cpu_filter(state, wanted, left):
    found = load("CPUFilter")
    told = f"it has {left} CPUs left of the {wanted.placement.cpus:g} that are wanted"
    assert found.reject(state, wanted) == (None if left is None else told)
    assert found.admit(Columns([state]), wanted).tolist() == [left is None]


HALF_AGAIN = machine().configured(reserved_memory_mib=192, ram_allocation_ratio=1.5)
SHARES = full("h1", shared(1, 12000), topology=HALF_AGAIN)


@pytest.mark.parametrize(
    ("state", "wanted", "left"),
    [
        pytest.param(host(), spec(memory=8192), None, id="all-of-an-empty-host"),
        pytest.param(host(), spec(memory=8193), 8192, id="more-than-there-is"),
        pytest.param(
            full("h1", PlacementRequest(1, 3000), shared(1, 1000)),
            spec(memory=4193),
            4192,
            id="what-others-hold-is-gone",
        ),
        pytest.param(
            host(topology=HALF_AGAIN),
            spec(memory=8001),
            8000,
            id="dedicated-memory-is-promised-once-and-the-reserve-never",
        ),
        pytest.param(host(topology=HALF_AGAIN), spec(memory=12000, policy="shared"), None, id="overcommit"),
        pytest.param(host(topology=HALF_AGAIN), spec(memory=12001, policy="shared"), 12000, id="beyond-overcommit"),
        pytest.param(SHARES, spec(memory=1), 0, id="never-less-than-nothing"),
    ],
)
def test_ram_filter(state, wanted, left):
    told = f"it has {left} MiB left of the {wanted.placement.memory_mib} that are wanted"
    assert load("RamFilter").reject(state, wanted) == (None if left is None else told)


@pytest.mark.parametrize("page_size", ["large", "any", 2048, 1048576])
def test_ram_filter_leaves_huge_pages_to_the_plan(page_size):
    assert load("RamFilter").reject(host(), spec(memory=99999, placement={"page_size": page_size})) is None


@pytest.mark.parametrize(
    ("fields", "policy", "reason"),
    [
        ({}, "dedicated", None),
        ({"enable_cpu_pinning": False}, "shared", None),
        (
            {"enable_cpu_pinning": False},
            "dedicated",
            "it takes no dedicated containers ([compute] enable_cpu_pinning)",
        ),
    ],
)
def test_cpuset_filter(fields, policy, reason):
    assert load("CpuSetFilter").reject(host(**fields), spec(policy=policy)) == reason


def test_cpuset_filter_writes_the_plan_one_record_a_cell():
    state = full("h1", PlacementRequest(1, 100), generation=7)
    limits = load("CpuSetFilter").limits(state, spec(4, 512, placement={"numa_nodes": 2}))

    def record(node, cpus, pinned):
        share = {"node": node, "cpuset_cpu": cpus, "cpuset_cpu_pinned": pinned, "cpuset_mem": 256}
        return {**share, "withheld": "", "pages": {}, "shared": 0.0}

    cells = [record(0, "1-2", "0"), record(1, "4-5", "")]
    assert limits == {"cpuset": {"cpu_policy": "dedicated", "generation": 7, "cells": cells}}


def test_cpuset_filter_refuses_what_does_not_fit_exactly():
    answer = load("CpuSetFilter").limits(host(), spec(5))
    assert isinstance(answer, Refusal)
    assert answer.message == "no cell has 5 CPUs free: best is cell 0 with 4"


@proof(150)
@given(
    state=used_hosts(),
    wanted=placements(),
    grade=st.sampled_from(("thread", "thread", "core", "l3", "node", "isolated")),
    apart=st.sampled_from((CpuSet(), CpuSet("0"), CpuSet("0-3"))),
)
def test_cheap_filters_pass_every_host_that_the_plan_grants(state, wanted, grade, apart):
    state = replace(state, topology=replace(state.topology, isolated=apart & state.topology.cpus))
    wanted = replace(wanted, isolation=grade) if wanted.dedicated else wanted
    answer = plan(state.topology, state.usage, wanted)
    asked = replace(spec(), placement=wanted)
    reasons = [load_once(name).reject(state, asked) for name in ("RamFilter", "CPUFilter", "CpuSetFilter")]
    if isinstance(answer, Plan):
        assert reasons == [None, None, None]
    limits = load_once("CpuSetFilter").limits(state, asked)
    assert limits == answer if isinstance(answer, Refusal) else limits["cpuset"]["generation"] == state.generation


@proof(150)
@given(
    state=used_hosts(),
    members=st.lists(placements(), min_size=2, max_size=3),
    same=st.sampled_from(("none", "none", "cell", "l3")),
    grade=st.sampled_from(("thread", "thread", "core", "isolated")),
    apart=st.sampled_from((CpuSet(), CpuSet("0"), CpuSet("0-3"))),
)
def test_cheap_filters_pass_every_host_that_grants_all_members(state, members, same, grade, apart):
    state = replace(state, topology=replace(state.topology, isolated=apart & state.topology.cpus))
    first = replace(members[0], isolation=grade) if members[0].dedicated else members[0]
    try:
        wanted = PlacementRequest.of_members([first, *members[1:]], same)
    except ValueError:  # what no host can satisfy
        return
    asked, answer = replace(spec(), placement=wanted), plan(state.topology, state.usage, wanted)
    filters = [load_once(name) for name in ("RamFilter", "CPUFilter", "CpuSetFilter", "PciPassthroughFilter")]
    reasons = [each.reject(state, asked) for each in filters]
    assert [bool(each.admit(Columns([state]), asked)[0]) for each in filters] == [why is None for why in reasons]
    if isinstance(answer, Plan):
        assert reasons == [None] * 4
        assert state.usage.fits(state.topology, answer) is None
    weight = StrandedWeigher(configuration()).weigh_all(Columns([state]), asked)
    assert 0 <= weight[0] <= 1


_loaded = {}


def load_once(name):
    if name not in _loaded:
        _loaded[name] = load(name)
    return _loaded[name]


@pytest.mark.parametrize(
    ("rooms", "wanted"), [((0.1, 0.7, 0.2), 1.0), ((0.3, 0.3, 0.3), 0.9), ((0.8, 0.1, 0.1), 1.0)]
)
def test_cpu_filter_counts_demand_exactly(rooms, wanted):
    """Tenths are no binary fractions: added up as floats they come to a little less than they are."""
    topology = machine(cells=3, cores=1)
    taken = [
        Plan({cell: CellShare(cpus=CpuSet([cell]), shared=round(1 - room, 6))}, "shared")
        for cell, room in enumerate(rooms)
    ]
    state = full("h1", *taken, topology=topology)
    asked = spec(wanted, 0, policy="shared")
    assert isinstance(plan(topology, state.usage, asked.placement), Plan)
    assert load("CPUFilter").reject(state, asked) is None


@pytest.mark.parametrize(("memory", "ratio", "promised"), [(100, 1.15, 115), (100, 1.1, 110), (4096, 1.5, 6144)])
def test_ram_filter_counts_overcommitted_memory_exactly(memory, ratio, promised):
    state = host(topology=machine(cells=1, memory_mib=memory).configured(ram_allocation_ratio=ratio))
    fits, beyond = (spec(1, amount, policy="shared") for amount in (promised, promised + 1))
    assert isinstance(plan(state.topology, state.usage, fits.placement), Plan)
    assert load("RamFilter").reject(state, fits) is None
    assert load("RamFilter").reject(state, beyond) is not None


def in_aggregates(*metadata, **fields):
    """A host in one aggregate for each of ``metadata``."""
    made = tuple(Aggregate(f"u{number}", f"name{number}", each) for number, each in enumerate(metadata))
    return host(aggregates=made, **fields)


@pytest.mark.parametrize(
    ("metadata", "ratio", "fits"),
    [
        pytest.param([], None, 32, id="the-host-s-own"),
        pytest.param([{"cpu_allocation_ratio": "2.5"}], "5/2", 20, id="an-aggregate-lowers-it"),
        pytest.param([{"cpu_allocation_ratio": "9"}], "9", 72, id="an-aggregate-raises-it"),
        pytest.param([{"cpu_allocation_ratio": "3"}, {"cpu_allocation_ratio": "1.5"}], "3/2", 12, id="the-lowest"),
        pytest.param([{"cpu_allocation_ratio": "much"}, {"cpu_allocation_ratio": "0"}], None, 32, id="no-number"),
        pytest.param([{"ram_allocation_ratio": "1"}], None, 32, id="of-something-else"),
    ],
)
def test_an_aggregate_s_ratio_of_cpus(metadata, ratio, fits):
    state = in_aggregates(*metadata, topology=machine().configured(cpu_allocation_ratio=4.0))
    found = load("CPUFilter")
    assert found.reject(state, spec(fits, policy="shared")) is None
    assert found.reject(state, spec(fits + 0.5, policy="shared")) is not None
    assert found.limits(state, spec(1, policy="shared")) == ({"cpu_allocation_ratio": ratio} if ratio else {})
    assert found.limits(state, spec(1)) == {}


@pytest.mark.parametrize(
    ("metadata", "ratio", "limit"),
    [
        ([], None, 16384),
        ([{"ram_allocation_ratio": "1.5"}], "3/2", 12288),
        ([{"ram_allocation_ratio": "3"}], "3", 24576),
    ],
)
def test_an_aggregate_s_ratio_of_memory(metadata, ratio, limit):
    state = in_aggregates(*metadata, topology=machine().configured(ram_allocation_ratio=2.0))
    found = load("RamFilter")
    assert found.reject(state, spec(1, limit, policy="shared")) is None
    assert found.reject(state, spec(1, limit + 1, policy="shared")) is not None
    assert found.limits(state, spec(1, policy="shared")) == ({"ram_allocation_ratio": ratio} if ratio else {})
    assert found.limits(state, spec(1)) == {}


SCOPE = "aggregate_instance_extra_specs:"


@pytest.mark.parametrize(
    ("metadata", "extra_specs", "passes"),
    [
        pytest.param([], {}, True, id="nothing-asked"),
        pytest.param([], {SCOPE + "ssd": "true"}, False, id="in-no-aggregate"),
        pytest.param([{"ssd": "true"}], {SCOPE + "ssd": "true"}, True, id="scoped"),
        pytest.param([{"ssd": "true"}], {"ssd": "true"}, True, id="without-scope"),
        pytest.param([{"ssd": "false"}], {"ssd": "true"}, False, id="another-value"),
        pytest.param([{"hdd": "true"}], {SCOPE + "ssd": "true"}, False, id="another-key"),
        pytest.param([{"ssd": "false"}], {"hw:ssd": "true"}, True, id="another-scope-is-for-somebody-else"),
        pytest.param([{"a:b": "1"}], {SCOPE + "a:b": "1"}, True, id="only-the-first-colon-ends-the-scope"),
        pytest.param([{"ssd": "no"}, {"ssd": "true"}], {SCOPE + "ssd": "true"}, True, id="one-of-several-values"),
        pytest.param([{"ssd": "true"}], {"ssd": "true", SCOPE + "net": "10"}, False, id="every-key"),
        pytest.param([{"ssd": "true"}, {"net": "10"}], {"ssd": "true", SCOPE + "net": "10"}, True, id="from-anywhere"),
        pytest.param([{"disk": "ssd, nvme"}], {"disk": "nvme"}, True, id="one-of-values-with-commas-between"),
        pytest.param([{"disk": "ssd,nvme"}], {"disk": "ssd,nvme"}, False, id="no-value-has-a-comma"),
        pytest.param([{"gpus": "1,8"}], {"gpus": ">= 4"}, True, id="one-of-numbers"),
    ],
)
def test_aggregate_extra_specs_filter(metadata, extra_specs, passes):
    reason = load("AggregateExtraSpecsFilter").reject(in_aggregates(*metadata), spec(extra_specs=extra_specs))
    assert (reason is None) is passes


@pytest.mark.parametrize(
    ("name", "state", "wanted", "secret", "found"),
    [
        (
            "AggregateExtraSpecsFilter",
            in_aggregates({"disk": "secret, old", "other": "x"}),
            {"extra_specs": {"disk": "ssd", SCOPE + "net": "10", "hw:a": "b"}},
            "secret",
            {"aggregates": {"disk": ["old", "secret"], "net": []}},
        ),
        (
            "LabelFilter",
            host(labels={"rack": "secret", "other": "x"}),
            {"labels": {"rack": "r1", "disk": "ssd"}},
            "secret",
            {"labels": {"rack": "secret", "disk": None}},
        ),
        ("RuntimeFilter", host(runtimes=("secret",)), {"runtime": "kata"}, "secret", {"runtimes": ["secret"]}),
        ("RetryFilter", host(), {"tried": {"h1": "h1 is on fire"}}, "fire", {"answer": "h1 is on fire"}),
        (
            "IsolationFilter",
            in_aggregates({"filter_project_id": "secret"}),
            {"project_id": "demo"},
            "secret",
            {"projects": ["secret"]},
        ),
        (
            "ImagePropertiesFilter",
            host(architecture="x86_64", runtimes=("runc",)),
            {"image_properties": {"architecture": "arm64", "runtime": "kata"}},
            "x86_64",
            {"architecture": "x86_64", "runtime": ["runc"]},
        ),
        (
            "ComputeFilter",
            host(service={**UP, "disabled": True, "disabled_reason": "secret"}),
            {},
            "secret",
            {"disabled_reason": "secret"},
        ),
        (
            "ComputeFilter",
            host(service={**UP, "forced_down": True}),
            {},
            NOW.isoformat(),
            {"last_seen_up": NOW.isoformat()},
        ),
        ("ComputeFilter", host(service=None), {}, "None", {}),
    ],
)
def test_what_a_host_has_instead_is_told_apart_from_the_reason(name, state, wanted, secret, found):
    """The reason is for users, the other for those who may see hosts."""
    asked = load(name)
    reason = asked.reject(state, spec(**wanted))
    assert reason is not None and secret not in reason
    assert asked.found(state, spec(**wanted)) == found


@pytest.mark.parametrize(
    ("value", "wanted", "expected"),
    [
        ("1", "1", True),
        ("1", "1.0", False),
        ("", "", True),
        ("a b", "a b", True),
        ("10", "= 9", True),
        ("9", "= 9", True),
        ("8", "= 9", False),
        ("9.0", "== 9", True),
        ("10", "== 9", False),
        ("10", "!= 9", True),
        ("9", "!= 9.0", False),
        ("9", ">= 9", True),
        ("10", ">= 9", True),
        ("8", ">= 9", False),
        ("10", "<= 9", False),
        ("9", "<= 9", True),
        ("many", ">= 9", False),
        ("10", ">= many", False),
        ("10", ">=", False),
        ("10", ">=9", False),
        ("abc", "s== abc", True),
        ("abc", "s== ab", False),
        ("abc", "s!= abd", True),
        ("abc", "s!= abc", False),
        ("10", "s< 9", True),
        ("9", "s< 9", False),
        ("9", "s<= 9", True),
        ("9", "s<= 10", False),
        ("9", "s> 10", True),
        ("9", "s> 9", False),
        ("9", "s>= 9", True),
        ("10", "s>= 9", False),
        ("12311321", "<in> 11", True),
        ("12310321", "<in> 11", False),
        ("abc", "<in>", False),
        ("aes mmx aux", "<all-in> aes mmx", True),
        ("aes mmx aux", "<all-in> aes txt", False),
        ("aes", "<all-in>", False),
        ("12", "<or> 11 <or> 12", True),
        ("13", "<or> 11 <or> 12", False),
        ("11", "<or> 11", True),
        ("12", "<or> 11 <or> 12 <or>", True),
        ("> 4", "> 4", True),  # there is no such operator: the same text
        ("5", "> 4", False),
    ],
)
def test_operators_of_extra_specs(value, wanted, expected):
    assert matches(value, wanted) is expected


@pytest.mark.parametrize(
    ("metadata", "project", "passes"),
    [
        ([], "demo", True),
        ([{"ssd": "true"}], "demo", True),
        ([{"filter_project_id": "demo"}], "demo", True),
        ([{"filter_project_id": "other"}], "demo", False),
        ([{"filter_project_id": "other"}], None, False),
        ([{"filter_project_id": "other, demo"}], "demo", True),
        ([{"filter_project_id": "demonstration"}], "demo", False),
        ([{"filter_project_id": "other", "filter_project_id-2": "demo"}], "demo", True),
        ([{"filter_project_id": "other"}, {"filter_project_id": "demo"}], "demo", True),
        ([{"filter_project_id": ""}], "demo", True),
    ],
)
def test_isolation_filter(metadata, project, passes):
    reason = load("IsolationFilter").reject(in_aggregates(*metadata), spec(project_id=project))
    assert reason == (None if passes else "it is reserved to other projects")


@pytest.mark.parametrize(
    ("fields", "properties", "reason"),
    [
        ({}, {}, None),
        ({}, {"architecture": "arm64", "os_type": "windows"}, None),
        ({"architecture": "x86_64"}, {"architecture": "amd64"}, None),
        ({"architecture": "x86_64"}, {"architecture": "X86_64"}, None),
        ({"architecture": "x86_64"}, {"architecture": "arm64"}, "the image is for arm64, which it is not"),
        ({"architecture": "riscv64"}, {"architecture": "riscv64"}, None),
        ({"os_type": "linux"}, {"os_type": "Linux"}, None),
        ({"os_type": "linux"}, {"os_type": "windows"}, "the image is for windows, which it does not run"),
        ({"runtimes": ("runc", "kata")}, {"runtime": "kata"}, None),
        ({}, {"runtime": "kata"}, "it has no runtime kata, which the image needs"),
        ({}, {"colour": "blue"}, None),
    ],
)
def test_image_properties_filter(fields, properties, reason):
    assert load("ImagePropertiesFilter").reject(host(**fields), spec(image_properties=properties)) == reason


@pytest.mark.parametrize(
    ("wanted", "same", "different"),
    [((), True, True), (("c0",), True, False), (("x",), False, True), (("x", "c1"), True, False)],
)
def test_same_and_different_host_filters(wanted, same, different):
    state = full("h1", PlacementRequest(1, 0), shared(1))
    uuids = frozenset(wanted)
    assert (load("SameHostFilter").reject(state, spec(same_host=uuids)) is None) is same
    assert (load("DifferentHostFilter").reject(state, spec(different_host=uuids)) is None) is different


@pytest.mark.parametrize(
    ("policy", "here", "elsewhere", "most", "affinity", "anti_affinity"),
    [
        ("affinity", 0, 0, 1, True, True),
        ("affinity", 2, 0, 1, True, True),
        ("affinity", 0, 1, 1, False, True),
        ("affinity", 1, 1, 1, False, True),
        ("anti-affinity", 0, 5, 1, True, True),
        ("anti-affinity", 1, 0, 1, True, False),
        ("anti-affinity", 1, 0, 2, True, True),
        ("anti-affinity", 2, 0, 2, True, False),
        ("soft-affinity", 0, 1, 1, True, True),
        ("soft-anti-affinity", 1, 0, 1, True, True),
    ],
)
def test_group_filters(policy, here, elsewhere, most, affinity, anti_affinity):
    members = {name: count for name, count in (("h1", here), ("h2", elsewhere)) if count}
    asked = spec(group=Group("g", policy, most, members=members))
    state = host(groups={"g": here} if here else {})
    assert (load("GroupAffinityFilter").reject(state, asked) is None) is affinity
    assert (load("GroupAntiAffinityFilter").reject(state, asked) is None) is anti_affinity
    for name in ("GroupAffinityFilter", "GroupAntiAffinityFilter"):
        assert load(name).reject(state, spec()) is None


def names(text):
    return frozenset(text.split())


SOUTH, EAST = Aggregate("u1", "south"), Aggregate("u2", "east")


@pytest.mark.parametrize(
    ("traits", "aggregates", "wanted", "reason"),
    [
        ("", (), {}, None),
        ("A B", (SOUTH,), {}, None),
        ("A B", (), {"required_traits": names("A")}, None),
        ("A B", (), {"required_traits": names("A B")}, None),
        ("A", (), {"required_traits": names("C A B")}, "it lacks B, C"),
        ("", (), {"required_traits": names("A")}, "it lacks A"),
        ("A", (), {"forbidden_traits": names("B")}, None),
        ("A B C", (), {"forbidden_traits": names("B A")}, "it has A, B, which is forbidden"),
        ("A", (), {"any_traits": (names("B A"),)}, None),
        ("A", (), {"any_traits": (names("A"), names("C B"))}, "it has none of B, C"),
        ("A", (SOUTH,), {"member_of": (names("u1 u2"),)}, None),
        ("A", (SOUTH, EAST), {"member_of": (names("u1"), names("u2"))}, None),
        ("A", (SOUTH,), {"member_of": (names("u1"), names("u2 u3"))}, "it is in no aggregate of u2, u3"),
        ("A", (), {"member_of": (names("u1"),)}, "it is in no aggregate of u1"),
        (
            "A",
            (),
            {"required_traits": names("B"), "member_of": (names("u1"),)},
            "it lacks B; it is in no aggregate of u1",
        ),
    ],
)
def test_traits_filter(traits, aggregates, wanted, reason):
    state, asked = host(traits=names(traits), aggregates=aggregates), spec(**wanted)
    assert load("TraitsFilter").reject(state, asked) == reason
    assert load("TraitsFilter").admit(Columns([state]), asked).tolist() == [reason is None]


def test_who_asks_for_no_traits_does_not_pay_for_them():
    table = Columns([host()])
    assert load("TraitsFilter").admit(table, spec()) is table.everything


def test_found_traits_and_aggregates_are_only_those_asked_for():
    state = host(traits=names("A B C"), aggregates=(SOUTH,))
    found = load("TraitsFilter").found
    assert found(state, spec(any_traits=(names("A D"),), forbidden_traits=names("B"))) == {"traits": ["A", "B"]}
    assert found(state, spec(member_of=(names("u2"),))) == {"aggregates": ["south"]}


def offering(*devices, held=()):
    claims = {each.address: Plan({}, devices=(GivenDevice("some", each.address),)) for each in held}
    return host(topology=replace(machine(), devices=devices), usage=Usage(claims))


NEAR, FAR, UNKNOWN = device("81:00.0"), device("82:00.0", 1), device("83:00.0", None)
PF = device("05:00.0", type=DeviceType.PF, vendor_id="8086", iommu_group=7)
VF = device("05:00.1", type=DeviceType.VF, vendor_id="8086", physical=PF.address, resource_class="CUSTOM_NIC")


@pytest.mark.parametrize(
    ("state", "devices", "reason"),
    [
        pytest.param(offering(), (), None, id="no-request"),
        pytest.param(offering(), (wanting(),), "no device for gpu is free", id="no-device"),
        pytest.param(offering(NEAR, FAR), (wanting("gpu", 2),), None, id="enough"),
        pytest.param(offering(NEAR, FAR, held=[FAR]), (wanting("gpu", 2),), "fewer than 2 devices for gpu", id="held"),
        pytest.param(offering(NEAR, VF), (wanting("gpu", 2),), "fewer than 2 devices for gpu", id="another-vendor"),
        pytest.param(
            offering(PF, VF, held=[PF]), (wanting("nic", 1, NIC),), "no device for nic is free", id="held-function"
        ),
        pytest.param(offering(NEAR, VF), (wanting(), wanting("nic", 1, NIC)), None, id="two-kinds"),
        pytest.param(
            offering(NEAR), (wanting(), wanting("card")), "fewer than 2 devices for gpu and card", id="one-for-two"
        ),
        pytest.param(offering(UNKNOWN), (wanting(numa_policy="preferred"),), None, id="unknown-cell-will-do"),
        pytest.param(
            offering(UNKNOWN), (wanting(numa_policy="required"),), "no device for gpu is free", id="unknown-cell"
        ),
        pytest.param(offering(NEAR), (wanting(traits=("A",)),), "no device for gpu is free", id="trait"),
    ],
)
def test_pci_passthrough_filter(state, devices, reason):
    told = load("PciPassthroughFilter").reject(state, spec(placement={"devices": devices}))
    assert told is None if reason is None else told.startswith(reason)


def test_found_devices_are_counted_by_request():
    state = offering(NEAR, FAR, VF, held=[FAR])
    wanted = spec(placement={"devices": (wanting(), wanting("nic", 1, NIC), wanting("x", 1, numa_policy="none"))})
    found = load("PciPassthroughFilter").found
    assert (found(state, wanted), found(state, spec())) == ({"free_devices": {"gpu": 1, "nic": 1, "x": 1}}, {})


def test_requests_without_devices_count_none():
    table = Columns([offering(NEAR)])
    assert load("PciPassthroughFilter").admit(table, spec()) is table.everything
    assert "free_devices" not in vars(table[0])


@pytest.mark.parametrize(
    ("state", "wanted", "reason"),
    [
        pytest.param(full("h1", PlacementRequest(2, 0)), spec(4), None, id="another-cell-has-them"),
        pytest.param(
            full("h1", *[PlacementRequest(1, 0)] * 5),
            spec(4),
            "no cell has 4 CPUs free: best is cell 1 with 3",
            id="too-few-cpus-on-every-cell",
        ),
        pytest.param(host(), spec(1, 4097), "no cell has 4097 MiB free: best is 4096", id="too-little-memory"),
        pytest.param(
            host(),
            spec(6, placement={"numa_nodes": 3}),
            "fewer than 3 cells have 2 CPUs free",
            id="too-few-cells",
        ),
        pytest.param(
            full("h1", PlacementRequest(3, 0)),
            spec(4, placement={"numa_nodes": 2}),
            "fewer than 2 cells have 2 CPUs free",
            id="one-cell-too-few",
        ),
        pytest.param(
            full("h1", PlacementRequest(3, 0)),
            spec(5, placement={"numa_cpus": (1, 4)}),
            None,
            id="each-part-somewhere",
        ),
        pytest.param(host(), spec(6, placement={"numa_affinity": "prefer"}), None, id="any-split-will-do"),
        pytest.param(
            host(topology=replace(machine(), isolated=CpuSet("0-7"))), isolated(4), None, id="isolated-are-not-counted"
        ),
        pytest.param(host(), spec(1, 5000, placement={"mempolicy": "preferred"}), None, id="memory-from-elsewhere"),
        pytest.param(
            full("h1", shared(1.5), topology=machine(cells=1)),
            spec(3, 0),
            "no cell has 3 CPUs free: best is cell 0 with 2",
            id="what-shared-containers-need",
        ),
    ],
)
def test_cpuset_filter_looks_at_single_cells(state, wanted, reason):
    assert load("CpuSetFilter").reject(state, wanted) == reason


# load


def test_filters_come_in_the_order_of_their_names():
    names = ["CPUFilter", "RetryFilter", "CpuSetFilter"]
    assert [type(each).__name__ for each in filters.load(names, configuration())] == names
    assert [type(each).__name__ for each in filters.load(ALL_FILTERS, configuration())] == list(ALL_FILTERS)


def test_default_filters_are_complete_and_end_with_exact_one():
    registered = importlib.metadata.entry_points(group=filters.NAMESPACE).names
    assert sorted(ALL_FILTERS) == sorted(registered)
    assert ALL_FILTERS[-1] == "CpuSetFilter"


def test_filters_that_measure_what_is_left():
    loaded = filters.load(ALL_FILTERS, configuration())
    measuring = {type(each).__name__ for each in loaded if each.measures_capacity}
    assert measuring == {"RamFilter", "CPUFilter", "DiskFilter", "PciPassthroughFilter", "CpuSetFilter"}


@pytest.mark.parametrize(
    ("names", "told"),
    [(["NoFilter"], "NoFilter"), (["CPUFilter", "B", "A"], "A, B"), (["cpufilter"], "cpufilter"), ([""], "")],
)
def test_an_unknown_filter_is_named_with_its_option(names, told):
    with pytest.raises(exceptions.Misconfigured) as caught:
        filters.load(names, configuration())
    assert str(caught.value) == f"no such scheduler filter: {told}; see [scheduler] enabled_filters"


def test_a_filter_whose_option_is_wrong_is_told_with_the_reason(tmp_path):
    """stevedore by itself leaves out what cannot be made, as if there were no such filter."""
    conf, file = configuration(), tmp_path / "zun.conf"
    file.write_text("[DEFAULT]\nservice_down_time = soon\n")
    conf([], project="zun-test", default_config_files=[str(file)], default_config_dirs=[])
    with pytest.raises(exceptions.Misconfigured) as caught:
        filters.load(["RetryFilter", "ComputeFilter"], conf)
    said = str(caught.value)
    assert said.startswith("scheduler filter ComputeFilter cannot be loaded: ") and "'soon'" in said
    assert said.endswith("; see [scheduler] enabled_filters")


def test_a_filter_of_an_operator_s_own_needs_to_define_nothing():
    own = filters.HostFilter(configuration())
    assert (own.reject(host(), spec()), own.limits(host(), spec()), own.measures_capacity) == (None, {}, False)


@given(st.sampled_from(ALL_FILTERS))
@proof(20)
def test_filters_change_nothing_they_are_given(name):
    state, asked = full("h1", PlacementRequest(2, 64)), spec(8, tried={"h1": "full"}, labels={"a": "b"})
    before = (repr(state), repr(asked))
    load_once(name).reject(state, asked)
    load_once(name).limits(state, asked)
    assert (repr(state), repr(asked)) == before


def test_an_empty_machine_has_no_room():
    empty = host(topology=HostTopology())
    assert load("CPUFilter").reject(empty, spec(1)) == "it has 0 CPUs left of the 1 that are wanted"
    assert load("RamFilter").reject(empty, spec(memory=1)) == "it has 0 MiB left of the 1 that are wanted"
    assert isinstance(load("CpuSetFilter").limits(empty, spec(1)), Refusal)
