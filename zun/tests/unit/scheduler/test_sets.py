# SPDX-License-Identifier: Apache-2.0
"""Places of the members of sets, against a search over all ways to place them."""

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.common.groups import Group
from zun.common.sets import SetRules
from zun.scheduler import filters, weighers
from zun.scheduler.columns import Columns
from zun.scheduler.host_state import Aggregate
from zun.scheduler.sets import NOBODY, Present, place
from zun.tests.functional.cloud import machine
from zun.tests.unit.common.proof import proof
from zun.tests.unit.scheduler.hosts import ALL_FILTERS, configuration, full, spec
from zun.topology import CpuSet, PlacementRequest, Plan
from zun.topology.together import cells_used

FILTERS = filters.load(ALL_FILTERS, configuration(service_down_time=10**9))
SPREADING = weighers.load(["FreeCPUWeigher", "FreeRAMWeigher"], configuration())


def racked(hostname, rack, *requests, cells=2, cores=4, **fields):
    aggregates = () if rack is None else (Aggregate(f"of-{rack}", rack, {"rack": rack}),)
    return full(hostname, *requests, topology=machine(cells, cores), aggregates=aggregates, **fields)


def members(count=16, **given):
    return SetRules.of(count, given)


def placed(hosts, rules, *, cpus=2, wanted=None, present=NOBODY, **fields):
    member = spec(cpus, 64, "dedicated", **fields)
    return place(hosts, member, rules, wanted or rules.count, FILTERS, SPREADING, present)


def by_host(choices):
    return dict(Counter(choice.hostname for choice in choices))


FOUR = [racked(f"h{number}", f"r{number // 2}") for number in range(4)]
"""Four hosts in two racks; each has room for four members of two CPUs, two on each cell."""


@pytest.mark.parametrize(("rules", "expected"), [
    pytest.param(members(3), {"h0": 3}, id="the-best-host-is-filled-first"),
    pytest.param(members(6), {"h0": 4, "h1": 2}, id="then-the-next"),
    pytest.param(members(17), {"h0": 4, "h1": 4, "h2": 4, "h3": 4}, id="as-many-as-fit"),
    pytest.param(members(4, spread="host"), {"h0": 1, "h1": 1, "h2": 1, "h3": 1}, id="spread-host"),
    pytest.param(members(5, spread="host"), {"h0": 1, "h1": 1, "h2": 1, "h3": 1}, id="spread-host-too-many"),
    pytest.param(members(6, spread="cell"), {"h0": 2, "h1": 2, "h2": 2}, id="spread-cell"),
    pytest.param(members(3, spread="rack"), {"h0": 1, "h2": 1}, id="spread-rack"),
    pytest.param(members(3, max_per_host=2), {"h0": 2, "h1": 1}, id="max-per-host"),
    pytest.param(members(8, pack="rack"), {"h0": 4, "h1": 4}, id="pack-rack"),
    pytest.param(members(2, pack="rack", spread="host"), {"h0": 1, "h1": 1}, id="pack-rack-spread-host"),
    pytest.param(members(3, pack="rack", max_per_host=1), {"h0": 1, "h1": 1}, id="pack-rack-too-many"),
    pytest.param(members(5, pack="host"), {"h0": 4}, id="pack-host-too-many"),
    pytest.param(members(2, pack="host", spread="cell"), {"h0": 2}, id="pack-host-spread-cell"),
    pytest.param(members(2, pack="nvlink"), {}, id="no-host-has-the-property"),
])
def test_places_by_rule(rules, expected):
    assert by_host(placed(FOUR, rules)) == expected


def test_pack_takes_the_domain_with_room_for_all():
    hosts = [racked("h0", "r0"), racked("h1", "r1"), racked("h2", "r1")]
    assert by_host(placed(hosts, members(8, pack="rack"))) == {"h1": 4, "h2": 4}


@pytest.mark.parametrize(("rules", "rows"), [
    pytest.param(members(3, pack="host"), {0, 1}, id="host-and-one-behind"),
    pytest.param(members(3, pack="rack"), {0, 1, 2, 3}, id="rack-of-all-its-hosts"),
    pytest.param(members(5, pack="host"), {0, 1, 2, 3}, id="no-host-has-room"),
])
def test_a_host_with_room_for_the_set_ends_the_search(rules, rows):
    looked = set()

    class Watched(Columns):
        def __getitem__(self, row):
            looked.add(row)
            return super().__getitem__(row)

    placed(Watched(FOUR), rules)
    assert looked == rows


def test_host_without_the_property_gets_no_member():
    hosts = [racked("h0", None), racked("h1", "r1")]
    assert by_host(placed(hosts, members(2, spread="rack"))) == {"h1": 1}


@pytest.mark.parametrize(("rules", "present", "expected"), [
    pytest.param(members(4, spread="host"), {"h0": 1}, {"h1": 1, "h2": 1, "h3": 1}, id="host"),
    pytest.param(members(4, spread="rack"), {"h0": 1}, {"h2": 1}, id="rack"),
    pytest.param(members(4, max_per_host=2), {"h0": 1}, {"h0": 1, "h1": 2}, id="max-per-host"),
    pytest.param(members(4, pack="rack"), {"h3": 1}, {"h2": 3}, id="pack-where-the-others-are"),
])
def test_members_that_have_a_place_count(rules, present, expected):
    assert by_host(placed(FOUR, rules, wanted=3, present=Present(present, {}))) == expected


def test_cells_of_present_members_stay_closed():
    found = placed(FOUR[:1], members(4, spread="cell"), wanted=3, present=Present({"h0": 1}, {"h0": CpuSet("1")}))
    assert [str(cells_used(Plan.from_dict(each.limits["cpuset"]))) for each in found] == ["0"]
    assert found[0].limits["exact"] is True


def test_group_with_affinity_packs_on_one_host():
    assert by_host(placed(FOUR, members(6), group=Group("g", "affinity"))) == {"h0": 4}


def test_group_with_anti_affinity_counts_members_of_the_set():
    found = placed(FOUR, members(9), group=Group("g", "anti-affinity", 2))
    assert by_host(found) == {"h0": 2, "h1": 2, "h2": 2, "h3": 2}


def test_disk_pool_limits_all_hosts_together():
    pool = Aggregate("pool", "pool", {"disk_pool_gb": "10"})
    hosts = [full(name, topology=machine(), aggregates=(pool,)) for name in ("h0", "h1")]
    assert len(placed(hosts, members(8), disk=3)) == 3


def brute_force(hosts, rules, cpus):
    """The most members that fit, by trying every number on every host and counting CPUs of cells."""
    def most_on(host):
        cells = [len(cell.cpus) - len(host.usage.held_cpus & cell.cpus) for cell in host.topology.cells]
        return sum(min(1, free // cpus) if rules.spread == "cell" else free // cpus for free in cells)

    racks = {host.hostname: host.aggregates[0].metadata["rack"] if host.aggregates else None for host in hosts}
    names = {"host": {host.hostname: host.hostname for host in hosts}, "rack": racks}
    best = 0
    for counts in itertools.product(*(range(min(most_on(host), rules.count) + 1) for host in hosts)):
        if sum(counts) > rules.count or max(counts, default=0) > (rules.max_per_host or rules.count):
            continue
        used = {host.hostname: count for host, count in zip(hosts, counts, strict=True) if count}
        if rules.spread in names:
            domains = Counter()
            for name, count in used.items():
                domains[names[rules.spread][name]] += count
            if None in domains or max(domains.values(), default=0) > 1:
                continue
        if rules.pack in names:
            domains = {names[rules.pack][name] for name in used}
            if None in domains or len(domains) > 1:
                continue
        best = max(best, sum(counts))
    return best


RULES = st.builds(
    lambda count, **given: (count, {name: value for name, value in given.items() if value is not None}),
    count=st.integers(1, 9),
    spread=st.sampled_from([None, "host", "cell", "rack"]),
    pack=st.sampled_from([None, "host", "rack"]),
    max_per_host=st.sampled_from([None, 1, 2, 3]),
)


@proof(150)
@given(
    given_=RULES,
    sizes=st.lists(
        st.tuples(st.integers(1, 2), st.integers(1, 4), st.sampled_from(["r0", "r1", None]), st.integers(0, 2)),
        min_size=1,
        max_size=4,
    ),
    cpus=st.integers(1, 3),
)
def test_as_many_are_placed_as_a_search_over_all_ways_finds(given_, sizes, cpus):
    count, given_rules = given_
    try:
        rules = SetRules.of(count, {**given_rules, "min_count": 1})
    except ValueError:
        return
    hosts = [
        racked(f"h{number}", rack, *([PlacementRequest(1, 64)] * min(held, cells * cores)), cells=cells, cores=cores)
        for number, (cells, cores, rack, held) in enumerate(sizes)
    ]
    found = placed(hosts, rules, cpus=cpus)
    assert len(found) == brute_force(hosts, rules, cpus)
    table = Columns(hosts)
    for number, choice in enumerate(found):  # each fits beside those before it
        host = table.find(choice.hostname)
        assert host.usage.fits(host.topology, Plan.from_dict(choice.limits["cpuset"])) is None
        table.put(host.taken(f"member {number}", choice.held(spec(cpus, 64, "dedicated"))))


@pytest.mark.parametrize(("given_", "message"), [
    pytest.param({"min_count": 5}, "set.min_count is 5", id="more-than-count"),
    pytest.param({"pack": "cell"}, "set.pack cannot be cell", id="pack-cell"),
    pytest.param({"pack": "rack", "spread": "rack"}, "set.spread and set.pack are both rack", id="both"),
    pytest.param({"pack": "host", "spread": "rack"}, "set.spread is rack and set.pack is host", id="one-host"),
    pytest.param({"pack": "host", "max_per_host": 2}, "set.max_per_host is 2 and set.pack is host", id="too-few"),
])
def test_rules_that_contradict_each_other_are_refused(given_, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        SetRules.of(4, given_)
