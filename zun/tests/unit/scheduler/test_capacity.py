# SPDX-License-Identifier: Apache-2.0
"""The number of places is that of creates that succeed, whatever the hosts and the request are."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.common.groups import Group
from zun.scheduler import filters, weighers
from zun.scheduler.capacity import HostCapacity, capacity
from zun.scheduler.dry_run import dry_run
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
    holding,
    host,
    placements,
    spec,
    used_hosts,
    wanting,
    without_cpus,
)
from zun.topology import CpuSet, HostTopology, NUMACell, PlacementRequest, Plan, Refusal, RefusalCode
from zun.topology.filling import fill

FILTERS = filters.load(ALL_FILTERS, configuration(service_down_time=10**9))
WEIGHERS = weighers.load(["FreeCPUWeigher", "FreeRAMWeigher"], configuration())
DOWN = {**UP, "forced_down": True}
POOL = (Aggregate("u", "ceph", {"disk_pool_gb": "24"}),)


def counted(hosts, wanted, limit=1000, **kwargs):
    return capacity(hosts, wanted, FILTERS, limit=limit, **kwargs)


def created(hosts, wanted, most):
    """Do what creates do, one after the other, until one is refused: how many there were, and on which hosts."""
    states = {each.hostname: each for each in hosts}
    on = dict.fromkeys(states, 0)
    for number in range(most):
        answer = select(list(states.values()), wanted, FILTERS, WEIGHERS, 1)
        if isinstance(answer, NoValidHost):
            return number, on
        name = answer[0].hostname
        plan = Plan.from_dict(answer[0].limits["cpuset"])
        states[name] = replace(
            states[name],
            usage=states[name].usage.with_claim(f"mine-{number}", plan),
            disk_used=states[name].disk_used + wanted.disk,
        )
        on[name] += 1
    return most, on


@pytest.mark.parametrize(("pairs", "count", "places"), [
    pytest.param([], 2, 0, id="no-links"),
    pytest.param([(0, 1), (1, 2), (2, 3)], 2, 2, id="chain"),
    pytest.param([(1, 2), (1, 3), (2, 3), (0, 1)], 3, 1, id="island-of-three"),
    pytest.param([(1, 2), (1, 3), (2, 3), (0, 1)], 4, 0, id="no-four-all-to-all"),
])
def test_linked_devices_are_counted(pairs, count, places):
    """Four GPUs of one cell, as many containers as creates that succeed."""
    devices = [device(f"8{n}:00.0", links=tuple(f"0000:8{b}:00.0" for a, b in pairs if a == n)) for n in range(4)]
    there = host(topology=replace(machine(), devices=tuple(devices)))
    wanted = spec(1, placement={"devices": (wanting(count=count),), "device_same": "link"})
    answer = counted([there], wanted)
    assert (answer.complete, answer.hosts[0].count, answer.hosts[0].code) == (True, places, RefusalCode.DEVICES)
    assert created([there], wanted, 9)[0] == places


@proof(120)
@given(
    hosts=st.lists(used_hosts(), min_size=1, max_size=4),
    wanted=placements(),
    disk=st.sampled_from((0, 0, 1, 7)),
    free=st.lists(st.sampled_from((0, 3, 20, 100)), min_size=4, max_size=4),
    twins=st.booleans(),
    pooled=st.lists(st.booleans(), min_size=4, max_size=4),
)
def test_the_number_is_that_of_the_creates_that_succeed(hosts, wanted, disk, free, twins, pooled):
    pools = [(Aggregate("u", "pool", {"disk_pool_gb": "29"}),) if each else () for each in pooled]
    hosts = [replace(each, disk_total=free[n], aggregates=pools[n]) for n, each in enumerate(hosts)]
    hosts = hosts * 2 if twins else hosts
    hosts = [replace(each, hostname=f"h{n}") for n, each in enumerate(hosts)]
    asked = replace(spec(disk=disk), placement=wanted)
    most = 60
    found = counted(hosts, asked, limit=most)
    total, on = created(hosts, asked, most)
    assert found.total == total
    assert found.complete is (total < most)
    if found.complete:
        if not (disk and any(pooled)):  # creates divide a pool among its hosts in another order
            assert {each.hostname: each.count for each in found.hosts} == on
        assert all(each.code and each.reason for each in found.hosts)


@pytest.mark.parametrize("cpus", [1, 2, 4])
def test_last_cpu_of_shared_container_counts_as_no_capacity(cpus):
    """The shared container lost the CPUs of its own cell."""
    usage = holding(machine(), PlacementRequest(1, 64, cpu_policy="shared"))
    lost = host("lost", without_cpus(machine(), 0), usage=usage)
    wanted = spec(cpus)
    found = counted([lost, host("other")], wanted)
    assert {each.hostname: each.count for each in found.hosts} == {"lost": 3 // cpus, "other": 8 // cpus}
    assert found.hosts[0].code == "shared-floor"
    assert created([lost, host("other")], wanted, 60)[0] == found.total


@pytest.mark.parametrize(
    ("hosts", "wanted", "expected"),
    [
        pytest.param([], spec(1), [], id="no-host"),
        pytest.param(
            [host("a"), full("b", PlacementRequest(3, 64)), host("c", service=DOWN)],
            spec(2),
            [("a", 4, "cpus"), ("b", 2, "cpus"), ("c", 0, "service")],
            id="two-cells-each",
        ),
        pytest.param([host("a", disk_used=95)], spec(1, disk=2), [("a", 2, "disk")], id="disk"),
        pytest.param([host("a", disk_total=0)], spec(1, disk=2), [("a", 0, "disk")], id="no-disk"),
        pytest.param(
            [host("a", aggregates=POOL), host("b", disk_used=3, aggregates=POOL), host("c", disk_used=96)],
            spec(1, disk=2),
            [("a", 8, "cpus"), ("b", 2, "disk"), ("c", 2, "disk")],
            id="disk-pool-of-two-hosts",
        ),
        pytest.param([host("a")], spec(1, 1500), [("a", 4, "memory")], id="memory"),
        pytest.param([host("a")], spec(0.5, policy="shared"), [("a", 16, "shared-pool")], id="shared"),
        pytest.param([host("a", enable_cpu_pinning=False)], spec(1), [("a", 0, "no-pinning")], id="no-pinning"),
    ],
)
def test_by_host(hosts, wanted, expected):
    answer = counted(hosts, wanted)
    assert [(each.hostname, each.count, each.code) for each in answer.hosts] == expected
    assert answer.complete and answer.total == sum(count for _, count, _ in expected)
    assert answer.to_dict()["total"] == answer.total


def test_counting_stops_at_the_limit_and_says_so():
    hosts = [host("a"), host("b"), host("c")]
    answer = counted(hosts, spec(1), limit=11)
    assert (answer.total, answer.complete) == (11, False)
    assert answer.hosts == (
        HostCapacity("a", 8, "cpus", "no cell has 1 CPU free: best is cell 0 with 0"),
        HostCapacity("b", 3),
    )
    nothing = spec(0, 0, policy="shared")
    assert (counted(hosts, nothing, limit=50).total, counted(hosts, nothing, limit=50).complete) == (50, False)


def test_counting_stops_when_time_is_up():
    answers = iter([False, *[False] * 8, False, True, True, True])
    answer = counted([host("a"), host("b"), host("c")], spec(1), expired=lambda: next(answers))
    assert not answer.complete and 8 <= answer.total < 24


def test_hosts_that_are_alike_are_planned_once(monkeypatch):
    asked = []

    def counting(topology, usage, request):
        asked.append(topology)
        return fill(topology, usage, request)

    monkeypatch.setattr("zun.scheduler.capacity.fill", counting)
    hosts = [host(f"h{number}", disk_total=number) for number in range(1, 9)]
    answer = counted(hosts, spec(1, disk=1))
    assert [each.count for each in answer.hosts] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert len(asked) == 1
    other = full("other", PlacementRequest(1, 64))
    assert counted([*hosts, other], spec(1)).total == 8 * 8 + 7
    assert len(asked) == 3


def test_a_filter_that_refuses_after_an_exact_look_counts():
    class OneOfEach(filters.HostFilter):
        def limits(self, state, wanted):
            return Refusal(RefusalCode.CPUS, "one is enough") if len(state.usage) else {}

    mine = [*FILTERS, OneOfEach(configuration())]
    answer = capacity([host("a"), host("b")], spec(1), mine, limit=99)
    assert [(each.count, each.code, each.reason) for each in answer.hosts] == [(1, "other", "one is enough")] * 2


def test_a_large_cloud_of_equal_hosts_is_quick():
    """A thousand hosts of 64 CPUs cost one host's plans and a few looks of the filters each."""
    cores = tuple(CpuSet((n, n + 64)) for n in range(64))
    cell = NUMACell(0, CpuSet("0-127"), cores, (CpuSet("0-127"),), 1_000_000)
    hosts = [host(f"h{number}", HostTopology((cell,))) for number in range(1000)]
    answer = counted(hosts, spec(2), limit=10**6)
    assert (answer.total, answer.complete) == (64_000, True)


# dry run


def rehearsed(hosts, wanted, count=1, choices=3):
    return dry_run(hosts, wanted, FILTERS, WEIGHERS, count=count, choices=choices)


def test_a_dry_run_is_what_select_answers():
    hosts = [host("a"), full("b", PlacementRequest(3, 64))]
    answer = rehearsed(hosts, spec(2))
    assert answer.placed == (tuple(select(hosts, spec(2), FILTERS, WEIGHERS, 3)),)
    assert answer.refusal is None
    (placed,) = answer.to_dict()["placed"]
    assert (placed["host"], placed["alternates"]) == ("a", ["b"])
    assert Plan.from_dict(placed["cpuset"]).cpus == CpuSet("0-1")


def test_several_stand_beside_each_other():
    answer = rehearsed([host("a"), host("b")], spec(4), count=5)
    best = [choices[0] for choices in answer.placed]
    taken_by = [(choice.hostname, str(Plan.from_dict(choice.limits["cpuset"]).cpus)) for choice in best]
    assert sorted(taken_by) == [("a", "0-3"), ("a", "4-7"), ("b", "0-3"), ("b", "4-7")]
    assert answer.refusal.explanation.record["codes"] == {"cpus": 2}
    assert answer.to_dict()["refusal"]["reason"].startswith("No valid host was found. Of 2 hosts")


def test_disk_is_taken_as_well():
    answer = rehearsed([host("a", disk_total=5)], spec(1, disk=2), count=3)
    assert len(answer.placed) == 2
    assert answer.refusal.explanation.record["codes"] == {"disk": 1}


def test_the_hosts_are_not_changed():
    state = host("a")
    answer = rehearsed([state], spec(2, disk=3, image="nginx", group=Group("g1", "affinity")), count=2)
    assert len(answer.placed) == 2
    assert len(state.usage) == 0 and state.disk_used == 0
    assert (state.groups, state.images) == ({}, {})


@pytest.mark.parametrize(
    ("policy", "hosts", "on", "codes"),
    [
        pytest.param("affinity", {"a": {}, "b": {}}, ["a"] * 4, {"cpus": 1, "group": 1}, id="together-from-the-first"),
        pytest.param("affinity", {"a": {}, "b": {"g1": 1}}, ["b"] * 4, {"group": 1, "cpus": 1}, id="with-the-others"),
        pytest.param("anti-affinity", {"a": {}, "b": {}}, ["a", "b"] * 2, {"group": 2}, id="apart"),
        pytest.param("anti-affinity", {"a": {"g1": 1}, "b": {"g1": 2}}, ["a"], {"group": 2}, id="apart-from-others"),
        pytest.param("soft-affinity", {"a": {}, "b": {}}, ["a", "b"] * 4, {"cpus": 2}, id="whatever-there-is"),
    ],
)
def test_group_rule_applies_among_rehearsed_containers(policy, hosts, on, codes):
    states = [host(name, groups=groups) for name, groups in hosts.items()]
    wanted = spec(2, group=Group("g1", policy, max_per_host=2))
    answer = rehearsed(states, wanted, count=20)
    assert [choices[0].hostname for choices in answer.placed] == on
    assert answer.refusal.explanation.record["codes"] == codes
    found = capacity(states, wanted, FILTERS, WEIGHERS, limit=20)
    assert {each.hostname: each.count for each in found.hosts} == {name: on.count(name) for name in hosts}
    assert {each.code for each in found.hosts} == set(codes) and found.complete
