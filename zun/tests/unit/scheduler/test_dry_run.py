# SPDX-License-Identifier: Apache-2.0
"""Where the containers of a host would go, against placements that are made one after the other."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.common.groups import Group
from zun.scheduler import filters, weighers
from zun.scheduler.dry_run import places
from zun.scheduler.host_state import Aggregate
from zun.scheduler.request_spec import RequestSpec
from zun.scheduler.select import NoValidHost, select
from zun.tests.functional.cloud import machine
from zun.tests.unit.common.proof import proof
from zun.tests.unit.scheduler.hosts import ALL_FILTERS, UP, configuration, full, host, placements, spec, used_hosts
from zun.topology import PlacementRequest, Plan

FILTERS = filters.load(ALL_FILTERS, configuration(service_down_time=10**9))
WEIGHERS = weighers.load(["FreeCPUWeigher", "FreeRAMWeigher"], configuration())
APART = Group("g", "anti-affinity", 1)
TOGETHER = Group("g", "affinity")


def leaver(uuid, cpus=2, memory=64, policy="dedicated", **fields):
    return replace(spec(cpus, memory, policy, **fields), uuid=uuid)


def planned(hosts, specs, leaving="old"):
    return places(hosts, leaving, specs, FILTERS, WEIGHERS)


def where(hosts, specs, leaving="old"):
    """The hosts by uuid, in the order of the placements. Each is None if no host can hold the container."""
    return [(uuid, each["host"]) for uuid, each in planned(hosts, specs, leaving).to_dict().items()]


def small(hostname, *requests, **fields):
    """One cell of four CPUs."""
    return full(hostname, *requests, topology=machine(cells=1, cores=4), **fields)


EIGHT = machine(cells=1, cores=8)


@pytest.mark.parametrize(
    ("hosts", "specs", "expected"),
    [
        pytest.param([], [], [], id="nobody-leaves"),
        pytest.param([], [leaver("a")], [("a", None)], id="no-host"),
        pytest.param([host("old", EIGHT)], [leaver("a")], [("a", None)], id="no-other-host"),
        pytest.param([host("old", EIGHT), small("one")], [leaver("a")], [("a", "one")], id="a-worse-host-is-taken"),
        pytest.param(
            [small("one"), small("two")],
            [leaver("a", 1), leaver("b", 3), leaver("c", 4)],
            [("c", "one"), ("b", "two"), ("a", "two")],
            id="most-cpus-first",
        ),
        pytest.param(
            [small("one")],
            [leaver("a", 2, 64), leaver("b", 2, 128), leaver("c", 2, 32)],
            [("b", "one"), ("a", "one"), ("c", None)],
            id="most-memory-of-equal-cpus",
        ),
        pytest.param(
            [small("one")],
            [leaver("c"), leaver("b"), leaver("a")],
            [("a", "one"), ("b", "one"), ("c", None)],
            id="equals-by-uuid",
        ),
        pytest.param(
            [small("one")],
            [leaver("a", 3), leaver("b", 4, 8000), leaver("c", 1)],
            [("b", None), ("a", "one"), ("c", "one")],
            id="refused-ones-keep-nobody-back",
        ),
        pytest.param(
            [small("one")],
            [leaver("a", 8.0, 64, "shared"), leaver("b", 1)],
            [("b", "one"), ("a", None)],
            id="shared-ones-come-last",
        ),
        pytest.param(
            [small("one"), small("two", PlacementRequest(1, 64)), small("old", groups={"g": 1})],
            [leaver("a", group=APART), leaver("b", group=APART), leaver("c", group=APART)],
            [("a", "one"), ("b", "two"), ("c", None)],
            id="anti-affinity",
        ),
        pytest.param(
            [host("one", EIGHT), small("two"), small("old", groups={"g": 3})],
            [leaver("a", 3, group=TOGETHER), leaver("b", 3, group=TOGETHER), leaver("c", 3, group=TOGETHER)],
            [("a", "one"), ("b", "one"), ("c", None)],
            id="affinity-follows-the-first",
        ),
        pytest.param(
            [host("one", EIGHT), small("two")],
            [leaver("a", 2), leaver("b", 1, different_host=frozenset({"a"}))],
            [("a", "one"), ("b", "two")],
            id="different-host",
        ),
        pytest.param(
            [host("one", EIGHT), small("two")],
            [leaver("a", 2), leaver("b", 1, same_host=frozenset({"a"}))],
            [("a", "one"), ("b", "one")],
            id="same-host",
        ),
        pytest.param(
            [small("one"), small("old")], [leaver("a", requested_host="old")], [("a", None)], id="bound-to-its-host"
        ),
        pytest.param(
            [small("one"), small("two", service={**UP, "disabled": True})],
            [leaver("a", 3), leaver("b", 3)],
            [("a", "one"), ("b", None)],
            id="disabled-hosts-get-nothing",
        ),
    ],
)
def test_where_the_containers_of_a_host_would_go(hosts, specs, expected):
    assert where(hosts, specs) == expected


def test_a_refusal_tells_why_and_no_other_host_is_asked():
    found = planned([small("one"), host("old", EIGHT)], [leaver("a", 6)])
    assert [each.hostname for each in found.answers["a"].rejections] == ["one"]
    told = found.to_dict()["a"]
    assert told["host"] is None and "No valid host was found" in told["reason"]


def test_a_disk_pool_is_shared_by_those_that_leave():
    pool = (Aggregate("u", "ceph", {"disk_pool_gb": "24"}),)
    hosts = [small(name, aggregates=pool) for name in ("one", "two")]
    specs = [leaver(uuid, disk=10) for uuid in "abc"]
    assert where(hosts, specs) == [("a", "one"), ("b", "two"), ("c", None)]


def test_a_stale_claim_elsewhere_counts_and_conflicts_with_nothing():
    """The container ``c0`` has a claim on host one, according to a message that came late."""
    hosts = [small("one", PlacementRequest(2, 64)), small("old")]
    assert where(hosts, [leaver("c0", 2), leaver("c1", 2)]) == [("c0", "one"), ("c1", None)]


@proof(100)
@given(
    hosts=st.lists(used_hosts(), min_size=1, max_size=4),
    wanted=st.lists(placements(), max_size=8),
    disk=st.lists(st.sampled_from((0, 0, 1, 7)), min_size=8, max_size=8),
    groups=st.lists(st.sampled_from((None, None, APART, TOGETHER)), min_size=8, max_size=8),
    leaving=st.sampled_from(("h0", "h1", "gone")),
)
def test_a_plan_is_what_placements_one_after_the_other_do(hosts, wanted, disk, groups, leaving):
    hosts = [replace(each, hostname=f"h{n}", disk_total=10) for n, each in enumerate(hosts)]
    specs = {f"m{n}": RequestSpec(f"m{n}", each, disk=disk[n], group=groups[n]) for n, each in enumerate(wanted)}
    found = planned(hosts, specs.values(), leaving)
    assert found.answers.keys() == specs.keys()
    json.dumps(found.to_dict())
    states = {each.hostname: each for each in hosts if each.hostname != leaving}
    sizes = []
    for uuid, answer in found.answers.items():
        request = specs[uuid].placement
        sizes.append((request.own_cpus, request.memory_mib))
        expected = select(list(states.values()), specs[uuid], FILTERS, WEIGHERS, 1)
        if isinstance(answer, NoValidHost):
            assert isinstance(expected, NoValidHost)
            continue
        assert [answer] == expected
        there = states[answer.hostname]  # raises KeyError for the host that is left
        claim = Plan.from_dict(answer.limits["cpuset"])
        assert there.usage.fits(there.topology, claim) is None
        there.usage.with_claim(uuid, claim)  # raises ClaimConflict if anything is held twice
        states[answer.hostname] = there.taken(uuid, answer.held(specs[uuid]))
    assert sizes == sorted(sizes, reverse=True)
