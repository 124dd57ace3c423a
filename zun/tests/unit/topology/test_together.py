# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.tests.unit.common.proof import proof
from zun.tests.unit.topology.build import cell, flat_host, host, smt_host, used
from zun.tests.unit.topology.hosts import random_case
from zun.topology import CpuSet, PlacementRequest, Refusal, Usage, plan
from zun.topology.together import MOST_STEPS, _Search, at_most, cells_used, together


@functools.cache
def counted_in_amounts(cells, parts, apart=False):
    """Count the containers that fit by amounts alone: each takes ``parts`` of different ``cells`` of (CPUs, MiB)."""
    best = 0
    for chosen in itertools.permutations(range(len(cells)), len(parts)):
        left = list(cells)
        for place, (cpus, mib) in zip(chosen, parts, strict=True):
            left[place] = (left[place][0] - cpus, left[place][1] - mib)
        if min(map(min, left)) >= 0:
            after = tuple((0, 0) if apart and place in chosen else each for place, each in enumerate(left))
            best = max(best, 1 + counted_in_amounts(after, parts, apart))
    return best


THREE = host(cell(0, "0", 1000), cell(1, "1", 1000), cell(2, "2 3", 1000))


def test_small_and_large_cell_serve_more_than_both_small_ones():
    assert len(together(THREE, Usage(), PlacementRequest(2, 10, numa_nodes=2), 9)) == 2


@pytest.mark.parametrize(("topology", "request_", "most", "count"), [
    pytest.param(flat_host([4, 4]), PlacementRequest(2, 10), 9, 4, id="all-that-fit"),
    pytest.param(flat_host([4, 4]), PlacementRequest(2, 10), 3, 3, id="no-more-than-asked-for"),
    pytest.param(flat_host([4, 4]), PlacementRequest(5, 10), 9, 0, id="none"),
    pytest.param(smt_host(2, 4), PlacementRequest(1, 10, thread_policy="isolate"), 99, 8, id="cores"),
    pytest.param(flat_host([4, 4]), PlacementRequest(1.5, 10, cpu_policy="shared"), 99, 5, id="shared"),
    pytest.param(flat_host([4, 4]), PlacementRequest(3, 10, numa_affinity="none"), 99, 2, id="any-cells"),
])
def test_number_of_plans(topology, request_, most, count):
    assert len(together(topology, Usage(), request_, most)) == count


def test_apart_uses_each_cell_once_and_none_of_the_closed():
    topology = flat_host([4, 4, 4])
    plans = together(topology, Usage(), PlacementRequest(1, 10), 9, apart=CpuSet("1"))
    assert [str(cells_used(each)) for each in plans] == ["0", "2"]


@pytest.mark.parametrize("parts", [
    pytest.param((1,) * 8, id="equal"),
    pytest.param((1, 1, 1, 1, 2, 2, 3, 3), id="two-of-each"),
    pytest.param((1, 2, 3, 4, 5, 6, 7, 8), id="all-different"),
])
def test_search_on_many_cells_looks_at_few_ways(parts):
    """A host of sixteen cells has 500 million orders of eight of them."""
    topology = flat_host([2, 3, 4, 5, 6, 7, 8, 9] * 2)
    request = PlacementRequest(sum(parts), 8, numa_cpus=parts)
    search = _Search(topology, request, 9, apart=False)
    assert len(search._ways) == len(set(search._ways)) <= MOST_STEPS
    assert search.best(Usage(), CpuSet("")) != []


@st.composite
def small_hosts(draw):
    sizes = draw(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5)), min_size=1, max_size=4))
    number = itertools.count()
    cells = [
        cell(index, " ".join(str(next(number)) for _ in range(cpus)), 10 * mib)
        for index, (cpus, mib) in enumerate(sizes)
    ]
    return host(*cells), [(cpus, 10 * mib) for cpus, mib in sizes]


@proof(400)
@given(
    machine=small_hosts(),
    parts=st.lists(st.tuples(st.integers(1, 2), st.integers(0, 2)), min_size=1, max_size=3),
    apart=st.booleans(),
)
def test_number_is_that_of_a_search_over_all_amounts(machine, parts, apart):
    topology, cells = machine
    cpus, mib = [each for each, _ in parts], [10 * each for _, each in parts]
    request = PlacementRequest(sum(cpus), sum(mib), numa_cpus=tuple(cpus), numa_mem=tuple(mib))
    wanted = counted_in_amounts(tuple(cells), tuple(zip(cpus, mib, strict=True)), apart)
    found = together(topology, Usage(), request, 50, apart=CpuSet("") if apart else None)
    assert len(found) == wanted <= at_most(topology, Usage(), request, CpuSet("") if apart else None)


@proof(200)
@given(rng=st.randoms(use_true_random=False), apart=st.booleans())
def test_plans_fit_beside_each_other_and_beside_the_claims(rng, apart):
    topology, usage, request = random_case(rng)
    plans = together(topology, usage, request, 6, apart=CpuSet("") if apart else None)
    for number, each in enumerate(plans):
        assert usage.fits(topology, each) is None
        usage = usage.with_claim(f"one of many {number}", each)
    used = [node for each in plans for node in cells_used(each)]
    assert not apart or len(used) == len(set(used))
    if len(plans) < 6 and not apart:
        assert isinstance(plan(topology, usage, request), Refusal)


def test_beside_claims():
    topology = flat_host([4, 4])
    assert len(together(topology, used(topology, "0-2"), PlacementRequest(2, 10), 9)) == 2
