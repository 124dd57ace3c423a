# SPDX-License-Identifier: Apache-2.0
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.common import exceptions
from zun.common.groups import Group
from zun.scheduler import weighers
from zun.scheduler.weighers import HostWeigher, Weighted
from zun.scheduler.weighers.failure import FailureWeigher
from zun.tests.functional.cloud import machine
from zun.tests.unit.common.proof import proof
from zun.tests.unit.scheduler.hosts import configuration, full, host, ranked, spec
from zun.topology import CellShare, CpuSet, PlacementRequest, Plan


@dataclass(frozen=True)
class Told(HostWeigher):
    """Weighs each host as it is told to."""

    weights: dict = field(default_factory=dict)

    def weigh(self, host, spec):
        return self.weights[host.hostname]


def by(multiplier, **weights):
    return Weighted(Told(weights), multiplier)


def names(hosts, *weighted):
    return "".join(each.hostname for each in ranked(hosts, spec(), weighted))


class Counted(Told):
    """A weigher that returns whole numbers, as an operator's may."""

    def weigh_all(self, table, spec):
        return np.array([self.weights[host.hostname] for host in table])


@pytest.mark.parametrize("multiplier", [1.0, -2.5])
def test_whole_numbers_and_truths_are_weights_as_any(multiplier):
    hosts = named("abcd")
    for weights in ({"a": 1, "b": 4, "c": 2, "d": 4}, {"a": False, "b": True, "c": False, "d": True}):
        counted = Weighted(Counted(weights), multiplier)
        assert names(hosts, counted) == names(hosts, by(multiplier, **weights))


def named(names):
    return [host(name) for name in names]


@pytest.mark.parametrize(
    ("weighted", "expected"),
    [
        pytest.param([], "abcd", id="without-weighers-by-name"),
        pytest.param([by(1.0, a=1, b=4, c=2, d=3)], "bdca", id="highest-first"),
        pytest.param([by(-1.0, a=1, b=4, c=2, d=3)], "acdb", id="a-negative-multiplier-turns-it-round"),
        pytest.param([by(0.0, a=1, b=4, c=2, d=3)], "abcd", id="no-multiplier-no-word"),
        pytest.param([by(5.0, a=7, b=7, c=7, d=7)], "abcd", id="equal-weights-by-name"),
        pytest.param([by(1.0, a=0, b=9, c=9, d=0)], "bcad", id="equal-sums-by-name"),
        pytest.param(
            [by(1.0, a=0, b=1, c=0, d=0), by(1.0, a=0, b=0, c=1000, d=500)],
            "bcda",
            id="scales-do-not-matter",
        ),
        pytest.param(
            [by(1.0, a=0, b=1, c=0, d=0), by(2.0, a=0, b=0, c=1000, d=600)],
            "cdba",
            id="multipliers-do",
        ),
        pytest.param([by(1.0, a=-5, b=-1, c=-9, d=-7)], "badc", id="negative-weights"),
    ],
)
def test_hosts_are_ordered_by_the_sum_of_their_scaled_weights(weighted, expected):
    assert names(named("dbca"), *weighted) == expected


@proof(60)
@given(
    weights=st.dictionaries(st.sampled_from("abcdef"), st.integers(-100, 100), min_size=1),
    factor=st.integers(1, 1000),
    shift=st.integers(-1000, 1000),
)
def test_units_make_no_difference(weights, factor, shift):
    hosts = named(weights)
    other = {name: weight * factor + shift for name, weight in weights.items()}
    assert names(hosts, by(1.0, **weights)) == names(hosts[::-1], by(1.0, **other))


def test_no_hosts_have_an_order():
    assert ranked([], spec(), weighers.load(["FreeCPUWeigher=1.0"], configuration())) == []


@pytest.mark.parametrize(
    ("name", "state", "expected"),
    [
        pytest.param("FreeCPUWeigher", host(), 8.0, id="cpus-of-an-empty-host"),
        pytest.param("FreeCPUWeigher", full("h1", PlacementRequest(3, 0)), 5.0, id="cpus-held"),
        pytest.param(
            "FreeCPUWeigher",
            full("h1", Plan({0: CellShare(cpus=CpuSet("0"), withheld=CpuSet("1"))})),
            6.0,
            id="cpus-kept-idle",
        ),
        pytest.param("FreeCPUWeigher", full("h1", PlacementRequest(6, 0, "shared")), 8.0, id="cpus-shared"),
        pytest.param(
            "FreeCPUWeigher", host(topology=machine().configured(reserved_cpus=CpuSet("0-1"))), 6.0, id="cpus-reserved"
        ),
        pytest.param("FreeRAMWeigher", host(), 8192.0, id="memory-of-an-empty-host"),
        pytest.param(
            "FreeRAMWeigher",
            full("h1", PlacementRequest(1, 100), PlacementRequest(1, 92, "shared")),
            8000.0,
            id="memory-held-by-anybody",
        ),
    ],
)
def test_what_the_weighers_measure(name, state, expected):
    (weighted,) = weighers.load([name], configuration())
    assert weighted.weigher.weigh(state, spec()) == expected


def weight(name, state, wanted):
    (weighted,) = weighers.load([name], configuration())
    return weighted.weigher.weigh(state, wanted)


def test_free_disk_is_what_may_be_promised():
    state = host(disk_total=100, disk_allocation_ratio=1.5, disk_used=30)
    assert weight("FreeDiskWeigher", state, spec()) == 120.0


@pytest.mark.parametrize(
    ("policy", "affinity", "anti_affinity"),
    [
        ("soft-affinity", 2.0, 0.0),
        ("soft-anti-affinity", 0.0, -2.0),
        ("affinity", 0.0, 0.0),
        ("anti-affinity", 0.0, 0.0),
        (None, 0.0, 0.0),
    ],
)
def test_soft_policies_of_a_group(policy, affinity, anti_affinity):
    wanted = spec(group=Group("g", policy) if policy else None)
    state = host(groups={"g": 2, "other": 5})
    assert weight("SoftAffinityWeigher", state, wanted) == affinity
    assert weight("SoftAntiAffinityWeigher", state, wanted) == anti_affinity


def test_an_image_is_where_a_container_was_made_from_it():
    state = host(images={"nginx": 3})
    assert [weight("ImageLocalityWeigher", state, spec(image=name)) for name in ("nginx", "busybox", None)] == [1, 0, 0]


@pytest.mark.parametrize(
    ("ages", "expected"),
    [((), 0.0), ((0,), -1.0), ((50,), -0.5), ((100,), 0.0), ((99999,), 0.0), ((0, 25, 75, 200), -2.0)],
)
def test_failures_count_less_and_less(ages, expected):
    weigher = FailureWeigher(configuration(scheduler__failure_window=100), now=lambda: 1000.0)
    assert weigher.weigh(host(failures=tuple(1000.0 - age for age in ages)), spec()) == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param([], [], id="none"),
        pytest.param(["FreeCPUWeigher=2.5"], [("FreeCPUWeigher", 2.5)], id="a-multiplier"),
        pytest.param(["FreeCPUWeigher"], [("FreeCPUWeigher", 1.0)], id="no-multiplier"),
        pytest.param(["FreeCPUWeigher="], [("FreeCPUWeigher", 1.0)], id="an-empty-multiplier"),
        pytest.param([" FreeRAMWeigher = -1 "], [("FreeRAMWeigher", -1.0)], id="blanks"),
        pytest.param(
            ["FreeRAMWeigher=0", "FreeCPUWeigher=1e1"],
            [("FreeRAMWeigher", 0.0), ("FreeCPUWeigher", 10.0)],
            id="in-their-order",
        ),
    ],
)
def test_weighers_come_with_their_multipliers(settings, expected):
    found = weighers.load(settings, configuration())
    assert [(type(each.weigher).__name__, each.multiplier) for each in found] == expected


def test_the_default_weighers_are_there():
    found = weighers.load(configuration().scheduler.weighers, configuration())
    assert [type(each.weigher).__name__ for each in found] == [
        "FreeCPUWeigher",
        "FreeRAMWeigher",
        "SoftAffinityWeigher",
        "SoftAntiAffinityWeigher",
        "DeviceWeigher",
        "FailureWeigher",
    ]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (["FreeCPUWeigher=high"], "[scheduler] weighers: 'FreeCPUWeigher=high' is not NAME=MULTIPLIER"),
        (["FreeCPUWeigher=1=2"], "[scheduler] weighers: 'FreeCPUWeigher=1=2' is not NAME=MULTIPLIER"),
        (["FreeCPUWeigher=nan"], "[scheduler] weighers: 'FreeCPUWeigher=nan' is not NAME=MULTIPLIER"),
        (["FreeCPUWeigher=-inf"], "[scheduler] weighers: 'FreeCPUWeigher=-inf' is not NAME=MULTIPLIER"),
        (["ColourWeigher"], "no such scheduler weigher: ColourWeigher; see [scheduler] weighers"),
        (["FreeCPUWeigher", "B=2", "A"], "no such scheduler weigher: A, B; see [scheduler] weighers"),
    ],
)
def test_a_setting_that_cannot_be_is_named_with_its_option(settings, text):
    with pytest.raises(exceptions.Misconfigured) as caught:
        weighers.load(settings, configuration())
    assert str(caught.value) == text
