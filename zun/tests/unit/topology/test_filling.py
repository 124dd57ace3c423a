# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.tests.unit.common.proof import proof
from zun.tests.unit.topology.build import cell, demanding, flat_host, holding, host, smt_host, used
from zun.tests.unit.topology.hosts import random_case
from zun.topology import PlacementRequest, Plan, Refusal, Usage, plan
from zun.topology.filling import fill, holdings

SMT = smt_host(2, 4)


def counted(topology, usage, request, most):
    """Return the number of requests that fit, at most ``most``, and the refusal of the next."""
    found = list(itertools.islice(fill(topology, usage, request), most))
    refusal = found.pop() if isinstance(found[-1], Refusal) else None
    return len(found), refusal


@pytest.mark.parametrize(("topology", "usage", "request_", "count", "code"), [
    pytest.param(SMT, Usage(), PlacementRequest(3, 10), 4, "cpus", id="two-a-cell-and-two-threads-left-on-each"),
    pytest.param(SMT, Usage(), PlacementRequest(1, 300), 6, "memory", id="memory"),
    pytest.param(SMT, Usage(), PlacementRequest(3, 10, numa_nodes=2), 4, "cpus", id="over-two-cells"),
    pytest.param(SMT, Usage(), PlacementRequest(3, 10, numa_affinity="none"), 5, "cpus", id="anywhere"),
    pytest.param(SMT, Usage(), PlacementRequest(3, 10, thread_policy="isolate"), 2, "cpus", id="isolate"),
    pytest.param(SMT, used(SMT, "0,8"), PlacementRequest(2, 10, thread_policy="require"), 6, "cpus", id="require"),
    pytest.param(SMT, Usage(), PlacementRequest(1.5, 10, cpu_policy="shared"), 10, "shared-pool", id="shared"),
    pytest.param(flat_host([1]), Usage(), PlacementRequest(2, 10), 0, "cpus", id="none"),
    pytest.param(
        host(cell(0, "0 1 2", pages={2048: 5})), Usage(), PlacementRequest(1, 4, page_size=2048), 2, "pages", id="pages"
    ),
])
def test_how_many_fit_and_what_is_used_up_then(topology, usage, request_, count, code):
    found, refusal = counted(topology, usage, request_, 1000)
    assert (found, str(refusal.code)) == (count, code)


def test_counting_ends_where_it_is_told_to():
    nothing = PlacementRequest(0, 0, cpu_policy="shared")
    assert counted(SMT, Usage(), nothing, 50) == (50, None)


@proof(300)
@given(rng=st.randoms(use_true_random=False))
def test_each_place_is_the_one_a_create_would_get_then(rng):
    """The steps are those of claiming one after the other, and no claim of before is touched."""
    topology, usage, request = random_case(rng)
    before = dict(usage)
    for number, item in enumerate(fill(topology, usage, request)):
        answer = plan(topology, usage, request)
        if isinstance(item, Refusal):
            assert answer == item
            break
        assert usage.fits(topology, answer) is None
        usage = usage.with_claim(f"mine-{number}", answer)
        assert holdings(usage) == holdings(item)
        assert before.items() <= dict(item).items()
        if number == 30:
            break


def test_the_names_of_those_who_are_there_do_not_matter():
    taken = Usage().with_claim("one-more-0", holding("0", SMT)).with_claim("one-more-2", holding("1", SMT))
    assert counted(SMT, taken, PlacementRequest(1, 1), 100)[0] == 14


def test_equal_holdings_are_equal_by_what_is_held():
    mine, yours = Plan(holding("0", SMT).cells, generation=3), Plan(holding("0", SMT).cells, generation=9)
    assert holdings(Usage({"a": mine, "b": demanding({0: 1})})) == holdings(Usage({"x": demanding({0: 1}), "y": yours}))
    assert holdings(Usage({"a": mine})) != holdings(Usage({"a": holding("1", SMT)}))
    assert holdings(Usage({"a": mine})) != holdings(Usage({"a": mine, "b": demanding({0: 1})}))
    assert holdings(Usage({"a": demanding({0: 1})})) != holdings(Usage({"a": demanding({0: 1.5})}))
    kept = Usage({"a": holding("0", SMT, withheld="1")})
    assert holdings(kept) != holdings(Usage({"a": mine}))


def test_hosts_of_the_same_holdings_take_the_same():
    rng = random.Random(7)
    for _ in range(50):
        topology, usage, request = random_case(rng)
        renamed = Usage({f"other-{owner}": held for owner, held in reversed(list(usage))})
        assert holdings(renamed) == holdings(usage)
        assert counted(topology, renamed, request, 9) == counted(topology, usage, request, 9)
