# SPDX-License-Identifier: Apache-2.0
"""The arrays say of every host what the host itself says, whatever was put and removed before."""

import datetime
import importlib.metadata
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oslo_utils import timeutils

from zun.common.groups import Group
from zun.scheduler import filters, weighers
from zun.scheduler.columns import Columns
from zun.scheduler.filters.compute import ComputeFilter
from zun.scheduler.host_state import Aggregate
from zun.scheduler.request_spec import RequestSpec
from zun.scheduler.select import NoValidHost, informed, select
from zun.scheduler.weighers.stranded import StrandedWeigher
from zun.tests.unit.common.proof import proof
from zun.tests.unit.scheduler.hosts import ALL_FILTERS, UP, configuration, host, placements, spec, used_hosts
from zun.topology import CpuSet

CONF = configuration()
FILTERS = filters.load(sorted(importlib.metadata.entry_points(group=filters.NAMESPACE).names), CONF)
WEIGHERS = weighers.load(sorted(importlib.metadata.entry_points(group=weighers.NAMESPACE).names), CONF)
CLOCK = 5000.0
for _each in WEIGHERS:
    if hasattr(_each.weigher, "_now"):
        _each.weigher._now = lambda: CLOCK

NAMES = ("a", "b", "c", "d", "e", "f")
METADATA = {
    "ssd": ("true", "false", "7"),
    "filter_project_id": ("demo", "other, third", ""),
    "filter_project_id-2": ("demo",),
    "cpu_allocation_ratio": ("1.5", "0.5", "-1", "many"),
    "ram_allocation_ratio": ("1.0", "2.5", "0"),
}
POOLS = {"u1": "150", "u2": "90"}  # an aggregate has one size, whichever host lists it


@st.composite
def aggregates_of_a_host(draw):
    found = []
    for uuid in draw(st.lists(st.sampled_from(("u1", "u2")), max_size=2)):
        known = {key: st.sampled_from(values) for key, values in METADATA.items()}
        metadata = draw(st.fixed_dictionaries({}, optional={**known, "disk_pool_gb": st.just(POOLS[uuid])}))
        found.append(Aggregate(uuid, "some", metadata))
    return tuple(found)


AGGREGATES = aggregates_of_a_host()


TRAITS = tuple(map(frozenset, ("A", "B", "C", "AB", "AC", "ABC")))
MEMBERS = (frozenset({"u1"}), frozenset({"u2", "u3"}))
NONE = frozenset()


@st.composite
def services(draw):
    if draw(st.integers(0, 5)) == 0:
        return None
    seen = timeutils.utcnow() - datetime.timedelta(seconds=draw(st.sampled_from((0, 0, 0, 10**6))))
    return {
        **UP,
        "last_seen_up": draw(st.sampled_from((seen, seen, None))),
        "updated_at": draw(st.sampled_from((seen, None))),
        "created_at": seen,
        "disabled": draw(st.sampled_from((False, False, True))),
        "forced_down": draw(st.sampled_from((False, False, True))),
    }


@st.composite
def states(draw, hostname):
    used = draw(used_hosts(hostname))
    isolated = draw(st.sampled_from((CpuSet(), CpuSet(), CpuSet("0"), CpuSet("0-1"))))
    return replace(
        used,
        topology=replace(used.topology, isolated=isolated & used.topology.cpus),
        disk_used=draw(st.integers(0, 100)),
        disk_allocation_ratio=draw(st.sampled_from((1.0, 1.5))),
        enable_cpu_pinning=draw(st.sampled_from((True, True, False))),
        availability_zone=draw(st.sampled_from(("nova", "gpu", None))),
        labels=draw(st.dictionaries(st.sampled_from(("disk", "rack")), st.sampled_from(("ssd", "r1")))),
        runtimes=draw(st.sampled_from(((), ("runc",), ("kata", "runc")))),
        traits=draw(st.sampled_from((NONE, *TRAITS))),
        service=draw(services()),
        architecture=draw(st.sampled_from((None, "x86_64", "aarch64"))),
        os_type=draw(st.sampled_from((None, "linux"))),
        aggregates=draw(AGGREGATES),
        groups=draw(st.dictionaries(st.sampled_from(("g1", "g2")), st.integers(1, 3))),
        images=draw(st.dictionaries(st.sampled_from(("nginx", "busybox")), st.integers(1, 2))),
        failures=tuple(CLOCK - age for age in draw(st.lists(st.sampled_from((0, 10, 599, 9999)), max_size=2))),
    )


@st.composite
def tables(draw):
    """A table after some hosts came, changed and went, the hosts it has now, and a request that it saw meanwhile."""
    table, now, wanted = Columns(), {}, draw(specs())
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=10)):
        if name in now and draw(st.integers(0, 3)) == 0:
            table.remove(name)
            del now[name]
        else:
            changed = {each: draw(states(each)) for each in {name, *draw(st.lists(st.sampled_from(NAMES), max_size=2))}}
            table.put_all(changed.values())
            now |= changed
        if draw(st.booleans()):  # what is remembered of earlier hosts must not outlive them
            asked = informed(wanted, table)
            for each in FILTERS:
                each.admit(table, asked)
            for each in WEIGHERS:
                each.weigher.weigh_all(table, asked)
    return table, [now[name] for name in sorted(now)], wanted


OWNERS = st.frozensets(st.sampled_from(("c0", "c1", "c2", "nobody")), max_size=2)
SPECS = {
    "aggregate_instance_extra_specs:ssd": ("true", ">= 5", "<or> true <or> 7", "s!= true"),
    "ssd": ("true", "<in> al"),
    "scope:ssd": ("nothing",),
}


@st.composite
def specs(draw):
    policies = ("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")
    placement = draw(placements())
    if placement.dedicated:
        placement = replace(placement, isolation=draw(st.sampled_from(("thread", "core", "node", "isolated"))))
    group = st.builds(Group, st.sampled_from(("g1", "g2", "g3")), st.sampled_from(policies), st.integers(1, 3))
    return RequestSpec(
        "some-uuid",
        placement,
        disk=draw(st.sampled_from((0, 0, 10, 60))),
        availability_zone=draw(st.sampled_from((None, None, "nova", "unknown"))),
        runtime=draw(st.sampled_from((None, None, "runc", "kata"))),
        labels=draw(st.dictionaries(st.sampled_from(("disk", "rack")), st.sampled_from(("ssd", "r1")), max_size=1)),
        requested_host=draw(st.sampled_from((None, None, None, "b", "z"))),
        tried=dict.fromkeys(draw(st.lists(st.sampled_from(NAMES), max_size=2)), "full"),
        project_id=draw(st.sampled_from(("demo", "other", None))),
        image=draw(st.sampled_from((None, "nginx", "busybox"))),
        group=draw(st.one_of(st.none(), group)),
        same_host=draw(OWNERS),
        different_host=draw(OWNERS),
        extra_specs=draw(
            st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in SPECS.items()})
        ),
        image_properties=draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "architecture": st.sampled_from(("amd64", "arm64")),
                    "os_type": st.sampled_from(("Linux", "windows")),
                    "runtime": st.just("kata"),
                },
            )
        ),
        required_traits=draw(st.sampled_from((NONE, NONE, *TRAITS))),
        forbidden_traits=draw(st.sampled_from((NONE, NONE, *TRAITS))),
        any_traits=draw(st.sampled_from(((), (), TRAITS[:1], TRAITS[2:4]))),
        member_of=draw(st.sampled_from(((), (), MEMBERS[:1], MEMBERS[1:], MEMBERS))),
    )


def test_all_filters_and_weighers_are_held_to_it():
    assert {type(each).__name__ for each in FILTERS} == set(ALL_FILTERS)
    assert all(type(each).admit is not filters.HostFilter.admit for each in FILTERS)


@proof(120)
@given(made=tables())
def test_fast_form_of_filters_and_weighers_matches_definition(made):
    table, hosts, wanted = made
    wanted = informed(wanted, table)
    assert list(table) == hosts
    for each in FILTERS:
        expected = [each.reject(state, wanted) is None for state in hosts]
        assert each.admit(table, wanted).tolist() == expected, type(each).__name__
    for each in WEIGHERS:
        expected = weights(each.weigher, hosts, wanted)
        assert each.weigher.weigh_all(table, wanted).tolist() == expected, type(each.weigher).__name__


def weights(weigher, hosts, wanted):
    """The weights by the definition.

    StrandedWeigher weighs a host beside all others, and is compared with an oracle in its own tests. A fresh table has
    nothing of earlier hosts.
    """
    if isinstance(weigher, StrandedWeigher):
        return weigher.weigh_all(Columns(hosts), wanted).tolist()
    return [weigher.weigh(state, wanted) for state in hosts]


def by_definition(hosts, wanted, count):
    """The choice as the definitions alone make it: reject every host, weigh the rest, plan the best."""
    fit = [state for state in hosts if all(each.reject(state, wanted) is None for each in FILTERS)]
    totals = dict.fromkeys((state.hostname for state in fit), 0.0)
    for weighted in WEIGHERS:
        every = zip(hosts, weights(weighted.weigher, hosts, wanted), strict=True)
        found = {state.hostname: weight for state, weight in every if state in fit}
        low, high = min(found.values(), default=0), max(found.values(), default=0)
        for name, weight in found.items():
            if high > low:
                totals[name] += (weight - low) * weighted.multiplier / (high - low)
    ranked = sorted(fit, key=lambda state: (-totals[state.hostname], state.hostname))
    exact = next(f for f in FILTERS if type(f).__name__ == "CpuSetFilter")
    able = [state.hostname for state in ranked if isinstance(exact.limits(state, wanted), dict)]
    return able[:count]


@proof(60)
@given(made=tables(), count=st.integers(1, 4))
def test_the_choice_is_the_one_that_the_definitions_make(made, count):
    table, hosts, wanted = made
    wanted = informed(replace(wanted, same_host=frozenset(), requested_host=None, labels={}), table)
    answer = select(table, wanted, FILTERS, WEIGHERS, count)
    chosen = [] if isinstance(answer, NoValidHost) else [choice.hostname for choice in answer]
    assert chosen == by_definition(hosts, wanted, count)
    if isinstance(answer, NoValidHost):
        assert [each.hostname for each in answer.rejections] == [state.hostname for state in hosts]
    again = select(hosts, wanted, FILTERS, WEIGHERS, count)
    assert again == answer


def test_rows_are_in_the_order_of_the_names():
    table = Columns([host("c"), host("a")])
    for name in ("b", "z", "0"):
        table.put(host(name, disk_used=1))
    table.remove("z"), table.remove("not there")
    assert [state.hostname for state in table] == ["0", "a", "b", "c"]
    assert table.free_disk.tolist() == [99.0, 100.0, 99.0, 100.0]
    assert table.row("b") == 2 and table.row("z") is None
    assert table.find("c") is table[3] and table.find("z") is None


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"availability_zone": "z9"}, {"availability_zone": "z9"}),
        ({"labels": {"disk": "ssd"}}, {"labels": {"disk": "ssd"}}),
        ({"runtimes": ("kata",)}, {"runtime": "kata"}),
        ({"runtimes": ("kata",)}, {"image_properties": {"runtime": "kata"}}),
        ({"architecture": "aarch64"}, {"image_properties": {"architecture": "arm64"}}),
        ({"os_type": "windows"}, {"image_properties": {"os_type": "windows"}}),
        ({"aggregates": (Aggregate("u", "n", {"ssd": "1"}),)}, {"extra_specs": {"ssd": "1"}}),
        ({"aggregates": (Aggregate("u", "n"),)}, {"project_id": "demo"}),
        ({"aggregates": (Aggregate("v", "n"),)}, {"member_of": (frozenset({"v"}),)}),
        ({"traits": frozenset({"AVX"})}, {"required_traits": frozenset({"AVX"})}),
    ],
)
def test_what_is_remembered_of_a_host_ends_when_it_changes(changes, wanted):
    before = host(
        architecture="x86_64", os_type="linux", aggregates=(Aggregate("u", "n", {"filter_project_id": "other"}),)
    )
    table, asked = Columns([before]), spec(**wanted)
    verdicts = [each.admit(table, asked)[0] for each in FILTERS]
    assert not all(verdicts)
    table.put(replace(before, **{"aggregates": (), **changes}, service={**UP, "last_seen_up": timeutils.utcnow()}))
    assert all(each.admit(table, asked)[0] for each in FILTERS)


def test_hosts_put_together_find_their_rows():
    table = Columns([host("c", disk_used=3), host("a", disk_used=1), host("f", disk_used=6)])
    table.put_all(host(name, disk_used=ord(name) - ord("`")) for name in "gdcb")
    assert [state.hostname for state in table] == list("abcdfg")
    assert table.free_disk.tolist() == [99.0, 98.0, 97.0, 96.0, 94.0, 93.0]


def test_a_table_grows():
    table = Columns()
    for number in range(100):
        table.put(host(f"h{number:03}", disk_used=number))
    assert len(table) == 100
    assert np.array_equal(table.free_disk, 100.0 - np.arange(100))


@pytest.mark.parametrize("array", ["everything", "nothing"])
def test_what_is_shared_cannot_be_written_to(array):
    with pytest.raises(ValueError, match="read-only"):
        getattr(Columns([host()]), array)[0] = 0


def test_only_changed_hosts_are_measured_again():
    taken = []

    def measure(state):
        taken.append(state.hostname)
        return float(state.disk_used)

    table = Columns([host("a"), host("b", disk_used=3)])
    assert table.measured("disk", measure).tolist() == [0.0, 3.0]
    table.put(host("a", disk_used=7))
    assert table.measured("disk", measure).tolist() == [7.0, 3.0]
    assert taken == ["a", "b", "a"]
    table.remove("a")
    assert table.measured("disk", measure).tolist() == [3.0]


def test_who_is_up_is_remembered_no_longer_than_it_is_true():
    clock = [UP["last_seen_up"]]
    each = ComputeFilter(configuration(service_down_time=30), now=lambda: clock[0])
    ages = (0, 10, 25, 40, -20, -50, None)  # the last of them: a clock that is ahead, and one that never reported
    services = [age is not None and {**UP, "last_seen_up": clock[0] - datetime.timedelta(seconds=age)} for age in ages]
    table = Columns([host(f"h{number}", service=service or None) for number, service in enumerate(services)])
    for second in (0, 1, 4, 5, 6, 19, 20, 21, 30, 31, 49, 51, 79, 80, 81, 200, 25, 3, 0):
        clock[0] = UP["last_seen_up"] + datetime.timedelta(seconds=second)
        up = [each.reject(state, spec()) is None for state in table]
        assert each.admit(table, spec()).tolist() == up, second
    clock[0] = UP["last_seen_up"]
    table.put(replace(table[0], service={**UP, "disabled": True}))
    assert not each.admit(table, spec())[0]
