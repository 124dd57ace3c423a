# SPDX-License-Identifier: Apache-2.0
"""A host of which other services have something answers as if containers had it."""

import random

import pytest

from zun.tests.unit.topology.build import cell, demanding, flat_host, host, smt_host, used
from zun.tests.unit.topology.hosts import random_request, random_topology, random_usage
from zun.topology import CellShare, CpuSet, NUMACell, PlacementRequest, Plan, Refusal, Usage, plan
from zun.topology.foreign import Foreign, ForeignShare

FLAT = flat_host([4, 4])
OVERCOMMITTED = FLAT.configured(cpu_allocation_ratio=2.0, ram_allocation_ratio=2.0)
PAGED = host(cell(0, "0 1", 1000, pages={2048: 100}))


def beside(topology, cell_id=0, withheld="", **amounts):
    return topology.shared_with(Foreign(beside={cell_id: ForeignShare(**amounts)}, withheld=CpuSet(withheld)))


def shared(cpus, memory=0):
    return PlacementRequest(cpus, memory, cpu_policy="shared")


@pytest.mark.parametrize(
    ("topology", "request_", "most"),
    [
        pytest.param(beside(FLAT, withheld="2-3", cpus=2), PlacementRequest(1, 0), 6, id="cpus"),
        pytest.param(beside(FLAT, shared=3), shared(1), 5, id="shared-cpus"),
        pytest.param(beside(OVERCOMMITTED, shared=3), shared(1), 13, id="shared-cpus-overcommitted"),
        pytest.param(beside(FLAT, shared=3), PlacementRequest(1, 0), 5, id="shared-cpus-keep-the-pool"),
        pytest.param(beside(OVERCOMMITTED, shared=3), PlacementRequest(1, 0), 6, id="keep-less-overcommitted"),
        pytest.param(beside(FLAT, memory_mib=600), PlacementRequest(1, 500), 2, id="memory"),
        pytest.param(beside(PAGED, pages={2048: 60}), PlacementRequest(1, 42, page_size=2048), 1, id="pages"),
        pytest.param(beside(PAGED, pages={2048: 200}), PlacementRequest(1, 2, page_size=2048), 0, id="all-pages-twice"),
        pytest.param(beside(FLAT, cell_id=7, memory_mib=900), PlacementRequest(1, 1000), 2, id="cell-that-is-gone"),
    ],
)
def test_less_may_be_promised(topology, request_, most):
    usage, count = Usage(), 0
    while isinstance(answer := plan(topology, usage, request_), Plan):
        assert usage.fits(topology, answer) is None
        usage, count = usage.with_claim(f"c{count}", answer), count + 1
    assert count == most


def test_an_amount_of_a_cell_is_not_of_another():
    answer = plan(beside(FLAT, memory_mib=600), Usage(), PlacementRequest(1, 500))
    assert set(answer.cells) == {1}


def test_nothing_foreign_is_the_same_host():
    assert FLAT.shared_with(Foreign()) is FLAT
    assert "foreign" not in FLAT.to_dict()


@pytest.mark.parametrize("seed", range(40))
def test_shared_demand_counts_like_a_container(seed):
    """A host on which others have shared CPUs and pages plans as one whose containers have them."""
    rng = random.Random(seed)
    working: list[NUMACell] = []
    while not working:
        topology = random_topology(rng)
        usage = random_usage(rng, topology)
        working = [each for each in topology.cells if usage.shared_pool(topology, [each.id])]
    one = rng.choice(working)
    pages = {size: count // 2 for size, count in one.pages.items() if count > 1}
    request = random_request(rng)
    shares = {one.id: CellShare(one.cpus, 0, shared=2.0, pages=pages)}
    claimed = plan(topology, usage.with_claim("other", Plan(shares, "shared")), request)
    foreign = Foreign(here={one.id: ForeignShare(shared=2, pages=pages)})
    answer = plan(topology.shared_with(foreign), usage, request)
    assert isinstance(answer, Refusal) == isinstance(claimed, Refusal)
    if isinstance(answer, Plan):
        assert answer == claimed


def test_words_name_every_amount():
    foreign = Foreign({0: ForeignShare(1, 2, 3, {2048: 4})}, {1: ForeignShare(1)}, CpuSet("0-1"), 5, 6)
    assert str(foreign) == "2 CPUs, 2 shared CPUs, 3 MiB of memory, 4 pages of 2048 KiB, 11 GiB of disk"
    assert str(Foreign()) == "nothing"


def test_shared_containers_keep_what_others_need():
    topology = beside(smt_host(1, 2), shared=1)
    assert isinstance(plan(topology, Usage({"s": demanding({0: 2.0})}), PlacementRequest(2, 0)), Refusal)
    assert isinstance(plan(topology, used(topology, "0"), PlacementRequest(2, 0)), Plan)
