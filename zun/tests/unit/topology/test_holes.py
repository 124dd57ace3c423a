# SPDX-License-Identifier: Apache-2.0
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.tests.functional.cloud import machine
from zun.tests.unit.common.proof import proof
from zun.tests.unit.scheduler.hosts import holding, used_hosts
from zun.topology import CellShare, CpuSet, HostTopology, NUMACell, PlacementRequest, Plan, Usage, plan
from zun.topology.holes import USUAL_SHAPES, Demand, Hole, Shape, Usual, cost, holes, shapes, stranded, usual

FOUR = PlacementRequest(4, 1024)


def wanting(*worths, several=0.0):
    """A demand in which memory is worth nothing to speak of."""
    return Demand(tuple(Usual(*each) for each in worths), 1e9, several)


@pytest.mark.parametrize(
    ("topology", "held", "expected"),
    [
        pytest.param(machine(), [], [(4, 4096), (4, 4096)], id="empty"),
        pytest.param(machine(), [PlacementRequest(3, 96)], [(1, 4000), (4, 4096)], id="a-dedicated-container"),
        pytest.param(
            machine(),
            [Plan({0: CellShare(cpus=CpuSet("0"), withheld=CpuSet("1"))})],
            [(2, 4096), (4, 4096)],
            id="a-withheld-sibling",
        ),
        pytest.param(
            machine().configured(cpu_allocation_ratio=1.0),
            [PlacementRequest(2.5, 96, cpu_policy="shared")],
            [(1, 4000), (4, 4096)],
            id="the-floor-of-a-shared-container",
        ),
        pytest.param(
            machine().configured(reserved_cpus=CpuSet("0"), reserved_memory_mib={0: 100}),
            [],
            [(3, 3996), (4, 4096)],
            id="the-operator-keeps-some",
        ),
        pytest.param(
            HostTopology((NUMACell(0, CpuSet("0-1"), memory_mib=10), NUMACell(7, memory_mib=5))),
            [],
            [(2, 15)],
            id="a-node-of-memory-only",
        ),
        pytest.param(
            machine(memory_mib=50).configured(ram_allocation_ratio=2.0),
            [PlacementRequest(1, 80, cpu_policy="shared"), PlacementRequest(1, 80, cpu_policy="shared")],
            [(3, 0), (3, 0)],
            id="memory-promised-twice",
        ),
    ],
)
def test_holes(topology, held, expected):
    assert holes(topology, holding(topology, *held)) == tuple(Hole(*each) for each in expected)


@proof(150)
@given(host=used_hosts(), cpus=st.integers(1, 6), mib=st.integers(0, 40))
def test_a_request_for_one_cell_fits_exactly_when_it_fits_a_hole(host, cpus, mib):
    fits = isinstance(plan(host.topology, host.usage, PlacementRequest(cpus, mib)), Plan)
    assert fits == any(Hole(cpus, mib).fits(hole) for hole in holes(host.topology, host.usage))


def test_shapes_are_counted_by_cell_and_shared_containers_have_none():
    topology = machine(memory_mib=65536)
    usage = holding(
        topology,
        PlacementRequest(1, 8),
        PlacementRequest(1, 8),
        PlacementRequest(2, 32, numa_nodes=2),
        PlacementRequest(1, 8, cpu_policy="shared"),
        Plan({1: CellShare(cpus=CpuSet("7"), memory_mib=4, pages={2048: 2})}),
    )
    assert shapes(usage) == {Shape(1, 8): 2, Shape(1, 16, True): 2, Shape(1, 0): 1}


def test_what_is_usual():
    """Of 1 CPU (9 times) and 4 CPUs (4 times and now): worth by number and root of the size, as much as all use."""
    demand = usual(Counter({Shape(1, 0): 9, Shape(4, 0, True): 4}), PlacementRequest(4, 0), 1.0)
    assert [(each.cpus, each.memory_mib) for each in demand.shapes] == [(4, 0), (1, 0)]
    assert [each.worth for each in demand.shapes] == pytest.approx([10 * 29 / 19 / 14, 9 * 29 / 19 / 14])
    assert demand.several == pytest.approx(16 / 29)


def test_only_the_commonest_shapes_count_and_the_request_is_one():
    held = Counter({Shape(1, mib): 1 + mib for mib in range(100)})
    demand = usual(held, PlacementRequest(2, 7), 1e9)
    assert [each.memory_mib for each in demand.shapes] == list(range(99, 99 - USUAL_SHAPES, -1))
    assert usual(Counter(), PlacementRequest(2, 7), 8.0).shapes[0][:2] == (2, 7)
    assert usual(Counter(), PlacementRequest(2, 64, page_size="large"), 8.0).shapes[0][:2] == (2, 0)


@pytest.mark.parametrize(
    ("hole", "expected"),
    [
        pytest.param(Hole(8, 0), 10.0, id="breaks-the-last-place-for-eight"),
        pytest.param(Hole(7, 0), 0.0, id="takes-what-serves-nobody"),
        pytest.param(Hole(16, 0), 10.0, id="leaves-one-place-of-two"),
        pytest.param(Hole(15, 0), 0.0, id="leaves-the-only-place"),
    ],
)
def test_the_cost_is_what_no_longer_fits(hole, expected):
    part, demand = Hole(1, 0), wanting((8, 0, 10.0))
    assert cost(hole, part, demand) == pytest.approx(expected, abs=1)
    assert cost(hole, part, demand) > expected, "of equal losses the fuller cell has the smaller one"


def test_memory_counts_like_cpus():
    demand = wanting((4, 4096, 1.0))
    assert cost(Hole(8, 4096), Hole(1, 0), demand) < cost(Hole(8, 4096), Hole(0, 1), demand)


@pytest.mark.parametrize(
    ("free", "request_", "expected"),
    [
        pytest.param([(3, 4096), (3, 4096)], FOUR, False, id="in-pieces"),
        pytest.param([(3, 4096), (4, 1024)], FOUR, True, id="exactly"),
        pytest.param([(4, 1023), (3, 4096)], FOUR, False, id="cpus-and-memory-apart"),
        pytest.param([(3, 4096), (3, 4096)], replace(FOUR, numa_affinity="prefer"), True, id="in-pieces-if-need-be"),
        pytest.param([(2, 4096), (1, 4096)], replace(FOUR, numa_affinity="prefer"), False, id="too-few-in-all"),
        pytest.param([(2, 4096), (2, 512)], replace(FOUR, numa_nodes=2), True, id="two-parts"),
        pytest.param([(4, 4096), (1, 512)], replace(FOUR, numa_nodes=2), False, id="two-parts-on-one-cell"),
    ],
)
def test_no_loss_without_room(free, request_, expected):
    free = [Hole(*each) for each in free]
    found = stranded(machine(), free, request_, usual(Counter(), request_, 1024.0))
    assert (found is not None) == expected


def loss(topology, free, request):
    return stranded(topology, [Hole(*each) for each in free], request, wanting((4, 0, 1.0), several=0.5))


def test_a_host_with_fewer_large_holes_is_broken_last():
    one = PlacementRequest(1, 0)
    assert loss(machine(), [(1, 9), (4, 9)], one) < loss(machine(), [(2, 9), (4, 9)], one)
    assert loss(machine(), [(3, 9), (4, 9)], one) < loss(machine(), [(4, 9), (3, 0)], PlacementRequest(1, 1))


def test_near_cells_go_before_far_ones():
    cells = [
        NUMACell(
            id=cell,
            cpus=CpuSet(range(4 * cell, 4 * cell + 4)),
            memory_mib=9,
            distances={other: 10 if other == cell else 12 if other // 2 == cell // 2 else 32 for other in range(4)},
        )
        for cell in range(4)
    ]
    topology, pair = HostTopology(tuple(cells)), PlacementRequest(4, 0, numa_nodes=2)
    near = loss(topology, [(2, 9), (2, 9), (0, 9), (0, 9)], pair)
    far = loss(topology, [(2, 9), (0, 9), (2, 9), (0, 9)], pair)
    assert far - near == pytest.approx(2 * (32 - 12))
    spread = replace(pair, numa_nodes=1, numa_affinity="prefer")
    assert loss(topology, [(4, 9), (0, 9), (0, 9), (0, 9)], spread) < loss(topology, [(2, 9), (2, 9), (0, 9)], spread)


@proof(100)
@given(host=used_hosts(), cpus=st.integers(1, 4), nodes=st.sampled_from((1, 2)), mib=st.integers(0, 20))
def test_a_host_that_can_hold_a_request_is_never_said_to_lack_room(host, cpus, nodes, mib):
    for affinity in ("require", "prefer", "none"):
        request = PlacementRequest(max(cpus, nodes), mib, numa_nodes=nodes, numa_affinity=affinity)
        if isinstance(plan(host.topology, host.usage, request), Plan):
            free = holes(host.topology, host.usage)
            assert stranded(host.topology, free, request, usual(shapes(host.usage), request, 8.0)) is not None


def test_an_empty_usage_has_no_shapes():
    assert shapes(Usage()) == Counter()
