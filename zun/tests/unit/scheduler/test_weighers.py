# SPDX-License-Identifier: Apache-2.0
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.scheduler import weighers
from zun.scheduler.weighers import HostWeigher, Weighted
from zun.tests.functional.cloud import machine
from zun.tests.unit.common.proof import proof
from zun.tests.unit.scheduler.hosts import configuration, full, host, spec
from zun.topology import CellShare, CpuSet, PlacementRequest, Plan


@dataclass(frozen=True)
class Told(HostWeigher):
    """Weighs each host as it is told to."""

    weights: dict = field(default_factory=dict)

    def weigh(self, host, spec):
        return self.weights[host.hostname]


def by(multiplier, **weights):
    return Weighted(Told(weights), multiplier)


def ranked(hosts, *weighted):
    return "".join(each.hostname for each in weighers.order(hosts, spec(), weighted))


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
    assert ranked(named("dbca"), *weighted) == expected


@proof(60)
@given(
    weights=st.dictionaries(st.sampled_from("abcdef"), st.integers(-100, 100), min_size=1),
    factor=st.integers(1, 1000),
    shift=st.integers(-1000, 1000),
)
def test_units_make_no_difference(weights, factor, shift):
    hosts = named(weights)
    other = {name: weight * factor + shift for name, weight in weights.items()}
    assert ranked(hosts, by(1.0, **weights)) == ranked(hosts[::-1], by(1.0, **other))


def test_no_hosts_have_an_order():
    assert weighers.order([], spec(), weighers.load(["FreeCPUWeigher=1.0"])) == []


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
    (weighted,) = weighers.load([name])
    assert weighted.weigher.weigh(state, spec()) == expected


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
    found = weighers.load(settings)
    assert [(type(each.weigher).__name__, each.multiplier) for each in found] == expected


def test_the_default_weighers_are_there():
    found = weighers.load(configuration().scheduler.weighers)
    assert [type(each.weigher).__name__ for each in found] == ["StrandedWeigher", "FreeCPUWeigher", "FreeRAMWeigher"]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (["FreeCPUWeigher=high"], "[scheduler] weighers: 'FreeCPUWeigher=high' is not NAME=MULTIPLIER"),
        (["FreeCPUWeigher=1=2"], "[scheduler] weighers: 'FreeCPUWeigher=1=2' is not NAME=MULTIPLIER"),
        (["FreeDiskWeigher"], "no such scheduler weigher: FreeDiskWeigher; see [scheduler] weighers"),
        (["FreeCPUWeigher", "B=2", "A"], "no such scheduler weigher: A, B; see [scheduler] weighers"),
    ],
)
def test_a_setting_that_cannot_be_is_named_with_its_option(settings, text):
    with pytest.raises(RuntimeError) as caught:
        weighers.load(settings)
    assert str(caught.value) == text
