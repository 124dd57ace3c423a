# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.scheduler import weighers
from zun.scheduler.weighers.stranded import StrandedWeigher
from zun.tests.functional.cloud import machine
from zun.tests.unit.common.proof import proof
from zun.tests.unit.scheduler.hosts import configuration, full, host, spec, used_hosts
from zun.topology import PlacementRequest, Plan, Usage, plan

ONE, THREE, FOUR = (PlacementRequest(cpus, 64) for cpus in (1, 3, 4))


def first(hosts, wanted):
    return weighers.order(hosts, wanted, weighers.load(configuration().scheduler.weighers))[0].hostname


@pytest.mark.parametrize(
    ("hosts", "wanted", "expected"),
    [
        pytest.param([host("a"), full("b", FOUR, ONE)], spec(1), "b", id="a-broken-cell-before-an-empty-host"),
        pytest.param([full("a", FOUR, ONE), full("b", FOUR, THREE)], spec(1), "b", id="the-tighter-of-two"),
        pytest.param([full("a", ONE), full("b", THREE, THREE)], spec(4), "a", id="where-it-fits-at-all"),
        pytest.param(
            [full("a", FOUR, PlacementRequest(1, 4000)), full("b", FOUR, ONE)],
            spec(1, 64),
            "a",
            id="cpus-whose-memory-is-gone",
        ),
        pytest.param([host("a"), full("b", FOUR, THREE)], spec(1.0, policy="shared"), "a", id="shared-ones-spread"),
    ],
)
def test_the_default_weighers_keep_big_holes(hosts, wanted, expected):
    assert first(hosts, wanted) == expected


def test_shared_containers_weigh_nothing():
    assert StrandedWeigher().weigh_all([host("a"), full("b", THREE)], spec(1.0, policy="shared")) == [0.0, 0.0]


def test_a_host_without_room_comes_after_all_others():
    lost = StrandedWeigher().weigh_all([full("a", THREE, THREE), host("b"), full("c", ONE)], spec(2))
    assert lost[0] < min(lost[1:])


def test_alone_as_among_one():
    state = full("a", THREE)
    assert StrandedWeigher().weigh(state, spec(1)) == StrandedWeigher().weigh_all([state], spec(1))[0]


@proof(100)
@given(states=st.lists(used_hosts(plain=True), min_size=1, max_size=4), cpus=st.integers(1, 4), data=st.data())
def test_what_is_remembered_of_the_hosts_changes_no_weight(states, cpus, data):
    """A weigher that saw every change gives what a new one gives."""
    old = StrandedWeigher()
    hosts = [replace(state, hostname=f"h{number}") for number, state in enumerate(states)]
    old.weigh_all(hosts, spec(cpus, 1))
    changed = data.draw(st.integers(0, len(hosts) - 1))
    answer = plan(hosts[changed].topology, hosts[changed].usage, PlacementRequest(1, 1))
    usage = hosts[changed].usage.with_claim("new", answer) if isinstance(answer, Plan) else hosts[changed].usage
    hosts[changed] = replace(hosts[changed], usage=usage.without("c0"))
    assert old.weigh_all(hosts, spec(cpus, 1)) == StrandedWeigher().weigh_all(hosts, spec(cpus, 1))


def test_a_changed_machine_is_noticed():
    old, unused = StrandedWeigher(), Usage()
    old.weigh_all([host("a", machine(cores=1), usage=unused)], spec(2))
    both = [host("a", usage=unused), host("b")]
    assert old.weigh_all(both, spec(2)) == StrandedWeigher().weigh_all(both, spec(2))
